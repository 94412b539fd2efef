/* SPDX-License-Identifier: BSD-3-Clause */
/* ends.h - devices with one RC QP each, for tests of the engine. Failures are assertions of cmocka. */
#ifndef TEST_ENDS_H
#define TEST_ENDS_H

#include "engine.h"

#define BUF 65536

/** A device with one QP, connected to another's. */
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
	bool event; /* atomic: a completion event has come; whoever waits for one takes it back */
};

/** Devices on loopback addresses that are this process's alone: a device is shared by whoever opens it. `more`: entries of
 *  UROCE_DEVICES to follow, or NULL. @return how many there are. */
int ends_devices(struct pmd_device *devices, unsigned n, const char *more);

void end_open(struct end *e, const struct pmd_device *device);
/** The engine works only while the test polls: UROCE_PROGRESS=inline. */
void end_open_inline(struct end *e, const struct pmd_device *device);
void end_connect(struct end *e, const struct end *peer);
void end_close(struct end *e);

/** Both, connected. */
void ends_open(struct end *a, const struct pmd_device *da, struct end *b, const struct pmd_device *db);

/** Post and ring the doorbell. `target`: of an RDMA operation, else NULL. */
void end_send(struct end *e, uint32_t opcode, uint32_t len, const struct end *target);
/** The same, with the lock held. */
void end_post(struct end *e, uint32_t opcode, uint32_t len, const struct end *target);
/** n SENDs of `len` bytes by a QP of the end. Lock held; no doorbell. */
void end_post_sends(struct end *e, struct nic_qp *qp, unsigned n, uint32_t len);
void end_destroy_qp(struct end *e, struct nic_qp *qp);
/** A receive into the upper half of the buffer. */
void end_recv(struct end *e);
int end_poll(struct end *e, struct nic_cq *cq, struct nic_wc *wc);
/** The next completion: by polling, or asleep until the engine's thread brings it. */
struct nic_wc end_wait(struct end *e, struct nic_cq *cq, bool sleep);

#endif
