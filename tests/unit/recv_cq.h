/* SPDX-License-Identifier: BSD-3-Clause */
/* recv_cq.h - receive completions, for tests of completion queues and their events. */
#ifndef UNIT_RECV_CQ_H
#define UNIT_RECV_CQ_H

#include "cq.h"
#include "resp_util.h"

static uint32_t psn; /* of the peer's next SEND */

/** A rig whose QP is ready to receive. */
static inline struct rig *ready(void)
{
	psn = E;
	return rig_ready(NULL);
}

/** Add a receive completion of a SEND, solicited or not. */
static inline void push(struct rig *rig, uint64_t wr_id, bool solicited)
{
	struct packet p = rig_peer_data(rig, SEND_ONLY, psn++, 0, 8);

	rig_post_recv(rig, wr_id, 0, 64);
	p.se = solicited;
	assert_true(rig_rx(rig, &p));
	rig_drain(rig);
}

/** @return whether a completion event has come since the last call; no other event may have come */
static inline bool notified(struct rig *rig)
{
	uint64_t events = rig_events(rig, RIG_USER_RECV_CQ(rig));

	assert_true(events == 0 || events == 1ull << NIC_EVENT_COMP);
	return events;
}

/** Take n entries from the CQ, which must have as many. */
static inline void take(struct rig *rig, int n)
{
	struct nic_wc wc[8];

	assert_int_equal(nic_cq_poll(rig->recv_cq, n, wc), n);
}

#endif
