/* SPDX-License-Identifier: BSD-3-Clause */
/* fake_peer.h - functions without an engine, whose links the test drives by hand. Failures are assertions of cmocka. */
#ifndef TEST_FAKE_PEER_H
#define TEST_FAKE_PEER_H

#include "ends.h"
#include "ring.h"

#define FAKE_FUNCTION 200 /* number of the fake function; free, since the daemon assigns low numbers first */
#define FAKE_QPN      (FAKE_FUNCTION << 16 | 7)

/** Fake function that an engine sends to. */
struct fake_consumer {
	int listen_fd, fd; /* fd: the link accepted last */
	struct ring_consumer ring;
	struct proto_link said; /* announcement of the link accepted last */
};

/** Listen as function `function` of the device. */
void fake_listen(struct fake_consumer *f, const struct pmd_device *device, unsigned function);
/** Accept the next link handed over, without answering it. */
void fake_take(struct fake_consumer *f);
/** Answer the link accepted last. `bell`: fd to ring, -1: none. */
void fake_answer(const struct fake_consumer *f, int bell);
/** Wait, up to a long timeout, until the engine knocks (sends the message that wakes a consumer). @return whether it
 *  has */
bool fake_is_knocked(const struct fake_consumer *f);
/** End the link. */
void fake_end(struct fake_consumer *f);
void fake_close(struct fake_consumer *f);

/** Fake function that an engine receives from. */
struct fake_producer {
	int fd;
	int name_fd; /* listens under the name of FAKE_FUNCTION; < 0: another part of the test does */
	struct ring_producer ring;
};

/** Create a ring and connect to the engine, but do not hand over the ring. @return the ring's memfd */
int fake_connect(struct fake_producer *f, const struct end *e);
/** Hand a ring to the engine; does not wait until the engine accepts it. */
void fake_hand_over(struct fake_producer *f, const struct end *e);
/** As fake_hand_over(), for one of the engine's services. */
void fake_hand_over_for(struct fake_producer *f, const struct end *e, uint16_t service);
/** Put up to n junk packets (counted in rx_not_roce) into the ring, as far as they fit. @return how many */
unsigned fake_put(struct fake_producer *f, unsigned n);
/** Ring the engine's bell if the ring says that the engine sleeps. */
void fake_ring(struct fake_producer *f, const struct end *e);
void fake_gone(struct fake_producer *f);

/** A QP of the end, in RTS, connected (RC, UC) to `qpn` at `gid`. `timeout`: for RC, as in ibv_qp_attr. */
struct nic_qp *fake_qp(struct end *e, enum nic_qp_type type, struct nic_cq *cq, const struct nic_gid *gid, uint32_t qpn,
		       uint8_t timeout);
/** Look up the route to FAKE_FUNCTION on the end's own device; the look-up makes a link if possible. @return the
 *  link's path, 0: no link */
uint32_t fake_route(struct end *e);
/** Let the engine serve its connections now. */
void fake_upkeep(struct end *e);
/** Whether fd becomes readable within a long timeout; tests assert that it happens, not how fast. */
bool fake_readable(int fd);

#endif
