/* SPDX-License-Identifier: BSD-3-Clause */
/* cross_rig.h - fixture for tests of nic/qp/cross.c: a rig whose send queue can wait until a CQ has got n entries. */
#ifndef UNIT_CROSS_RIG_H
#define UNIT_CROSS_RIG_H

#include "rig.h"

/** A rig whose QP supports cross-channel requests, and a CQ that gets entries on demand (cross_tick). */
struct cross_rig {
	struct rig *rig;
	struct nic_qp *main; /* the rig's own QP */
	struct nic_cq *ticks;
	struct nic_qp *ticker; /* in ERR: each request posted to it completes at once, in `ticks` */
};

enum { MANAGED_SEND = 1, MANAGED_RECV = 2 };

/** Create the rig with an RC, UC or UD QP in RTS; cross_close destroys it all. */
void cross_open(struct cross_rig *b, enum nic_qp_type type);
void cross_close(struct cross_rig *b);
/** Create another QP, in RTS (`rts`) or RESET, with `cq` as send and receive CQ. */
struct nic_qp *cross_qp(struct cross_rig *b, struct nic_cq *cq, unsigned managed, bool rts);
/** Move `qp` to RTS, ERR or RESET. */
void cross_state(struct cross_rig *b, struct nic_qp *qp, enum nic_qp_state state);
/** Add n entries to b->ticks. */
void cross_tick(struct cross_rig *b, unsigned n);

struct nic_send_wr cross_wait_wr(uint64_t wr_id, struct nic_cq *cq, uint32_t count, bool last);
struct nic_send_wr cross_enable_wr(uint64_t wr_id, enum nic_wr_opcode opcode, struct nic_qp *qp, uint32_t count,
				   bool last);
void cross_post_sends(struct cross_rig *b, struct nic_qp *qp, unsigned n);
/** Fetch all packets the NIC has to send; all must be SENDs. @return the number of packets */
unsigned cross_sent(struct cross_rig *b);

/** Post to the rig's own QP. */
#define cross_post_wait(b, wr_id, count, last)                                                                         \
	do {                                                                                                           \
		struct nic_send_wr wr_ = cross_wait_wr(wr_id, (b)->ticks, count, last);                                \
		assert_int_equal(nic_post_send((b)->main, &wr_), 0);                                                   \
	} while (0)
#define cross_post_enable(b, wr_id, opcode, qp, count, last)                                                           \
	do {                                                                                                           \
		struct nic_send_wr wr_ = cross_enable_wr(wr_id, opcode, qp, count, last);                              \
		assert_int_equal(nic_post_send((b)->main, &wr_), 0);                                                   \
	} while (0)

#endif
