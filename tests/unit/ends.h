/* SPDX-License-Identifier: BSD-3-Clause */
/* ends.h - devices with one RC QP each, for tests of the engine. Failures are assertions of cmocka. */
#ifndef TEST_ENDS_H
#define TEST_ENDS_H

#include "engine.h"

#define BUF 65536

/** A device with one QP, which can be connected to the QP of another end. */
struct end {
	struct pmd_engine *engine;
	struct nic *nic;
	struct nic_gid gid;
	struct nic_pd *pd;
	struct nic_mr *mr;
	struct nic_cq *scq, *rcq;
	struct nic_qp *qp;
	uint8_t *buf;
	uint32_t psn;
	int event_fd;
	bool event; /* atomic: a completion event has arrived; the waiter clears it */
};

/** Fill in n devices, on loopback addresses that only this process uses: processes that open the same device would
 *  share it. From now on, a failed test ends the program. `more`: UROCE_DEVICES entries to append, or NULL. @return the
 * number of devices */
int ends_devices(struct pmd_device *devices, unsigned n, const char *more);

void end_open(struct end *e, const struct pmd_device *device);
/** As end_open(), with UROCE_PROGRESS=inline: the engine works only while the test polls. */
void end_open_inline(struct end *e, const struct pmd_device *device);
void end_connect(struct end *e, const struct end *peer);
void end_close(struct end *e);

/** Open both ends and connect them. */
void ends_open(struct end *a, const struct pmd_device *da, struct end *b, const struct pmd_device *db);

/** Post a request and ring the doorbell. `target`: end addressed by an RDMA operation, else NULL. */
void end_send(struct end *e, uint32_t opcode, uint32_t len, const struct end *target);
/** As end_send(); the caller holds the lock. */
void end_post(struct end *e, uint32_t opcode, uint32_t len, const struct end *target);
/** Post n SENDs of `len` bytes to a QP of the end. The caller holds the lock; no doorbell. */
void end_post_sends(struct end *e, struct nic_qp *qp, unsigned n, uint32_t len);
void end_destroy_qp(struct end *e, struct nic_qp *qp);
/** Post a receive into the upper half of the buffer. */
void end_recv(struct end *e);
int end_poll(struct end *e, struct nic_cq *cq, struct nic_wc *wc);
/** Wait for the next completion, by polling or (`sleep`) by sleeping until the engine's thread signals it. */
struct nic_wc end_wait(struct end *e, struct nic_cq *cq, bool sleep);

#endif
