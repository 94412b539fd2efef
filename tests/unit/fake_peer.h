/* SPDX-License-Identifier: BSD-3-Clause */
/* fake_peer.h - functions that are no engines and do with links what they like. Failures are assertions of cmocka. */
#ifndef TEST_FAKE_PEER_H
#define TEST_FAKE_PEER_H

#include "ends.h"
#include "ring.h"

#define FAKE_FUNCTION 200 /* of the device; a daemon hands out low numbers first */
#define FAKE_QPN      (FAKE_FUNCTION << 16 | 7)

/** Somebody to whom an engine sends. */
struct fake_consumer {
	int listen_fd, fd; /* fd: of the link taken last */
	struct ring_consumer ring;
	struct proto_link said; /* with that link */
};

/** Listen as function `function` of the device. */
void fake_listen(struct fake_consumer *f, const struct pmd_device *device, unsigned function);
/** Take the next link that is handed over; without an answer. */
void fake_take(struct fake_consumer *f);
/** Answer it. `bell`: -1: none. */
void fake_answer(const struct fake_consumer *f, int bell);
/** Whether the producer knocks, in time. */
bool fake_is_knocked(const struct fake_consumer *f);
/** End the link. */
void fake_end(struct fake_consumer *f);
void fake_close(struct fake_consumer *f);

/** Somebody from whom an engine receives. */
struct fake_producer {
	int fd;
	int name_fd; /* listens under the name of FAKE_FUNCTION; < 0: somebody else in this process does */
	struct ring_producer ring;
};

/** Make a ring, and connect to the engine; nothing is handed over. @return the ring's memfd. */
int fake_connect(struct fake_producer *f, const struct end *e);
/** Hand a ring to the engine, which need not look yet. */
void fake_hand_over(struct fake_producer *f, const struct end *e);
/** The same, for a service of it. */
void fake_hand_over_for(struct fake_producer *f, const struct end *e, uint16_t service);
/** So many packets that are no packets (rx_not_roce), as far as there is room. @return how many. */
unsigned fake_put(struct fake_producer *f, unsigned n);
/** Ring the engine's bell, if it says that it sleeps. */
void fake_ring(struct fake_producer *f, const struct end *e);
void fake_gone(struct fake_producer *f);

/** A QP of the end that may send to `qpn` at `gid`. `timeout`: of RC, as in ibv_qp_attr. */
struct nic_qp *fake_qp(struct end *e, enum nic_qp_type type, struct nic_cq *cq, const struct nic_gid *gid, uint32_t qpn,
		       uint8_t timeout);
/** The link to FAKE_FUNCTION of the end's own device: made, if it can be. @return its path, 0: none. */
uint32_t fake_route(struct end *e);
/** The engine sees to its connections now. */
void fake_look_after(struct end *e);
/** Whether it is readable in time; tests wait long, and assert only that it comes at all. */
bool fake_readable(int fd);

#endif
