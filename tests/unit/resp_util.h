/* SPDX-License-Identifier: BSD-3-Clause */
/* resp_util.h - one-line requests from the peer, for tests of the responder. */
#ifndef UNIT_RESP_UTIL_H
#define UNIT_RESP_UTIL_H

#include "rig.h"

#define E RIG_RQ_PSN /* initial ePSN of the responder */

/** A READ request for arena[offset..offset + len). */
static inline void rx_read(struct rig *rig, uint32_t psn, uint32_t offset, uint32_t len)
{
	struct packet p = rig_peer_packet(rig, READ_REQ, psn);

	p.va = rig_va(rig, offset);
	p.dma_len = len;
	assert_true(rig_rx(rig, &p));
}

/** CMP_SWAP or FETCH_ADD on arena[offset..offset + 8). */
static inline void rx_atomic(struct rig *rig, unsigned op, uint32_t psn, uint32_t offset, uint64_t swap_add,
			     uint64_t compare)
{
	struct packet p = rig_peer_packet(rig, op, psn);

	p.va = rig_va(rig, offset);
	p.swap_add = swap_add;
	p.compare = compare;
	assert_true(rig_rx(rig, &p));
}

/** Receive the first packet (WRITE_FIRST, WRITE_ONLY...) of a WRITE of `total` bytes to arena[offset..]; the packet
 *  has `len` bytes of them. */
static inline void rx_write(struct rig *rig, unsigned op, uint32_t psn, uint32_t offset, uint32_t len, uint32_t total)
{
	struct packet p = rig_peer_data(rig, op, psn, 0, len);

	p.va = rig_va(rig, offset);
	p.dma_len = total;
	assert_true(rig_rx(rig, &p));
}

/** The next packet must be a READ response with the current contents of arena[offset..offset + len). */
static inline void expect_read_data(struct rig *rig, unsigned op, uint32_t psn, uint32_t offset, uint32_t len)
{
	struct packet p = rig_expect_tx(rig, op, psn);

	assert_int_equal(p.payload_len, len);
	assert_memory_equal(p.payload, rig->arena + offset, len);
}

static inline uint64_t arena_u64(const struct rig *rig, uint32_t offset)
{
	uint64_t v;

	memcpy(&v, rig->arena + offset, 8);
	return v;
}

static inline void arena_set_u64(struct rig *rig, uint32_t offset, uint64_t v)
{
	memcpy(rig->arena + offset, &v, 8);
}

/** Assert that the QP has failed: a NAK for this PSN, state ERR, no answer to further requests. */
static inline void expect_fatal(struct rig *rig, uint32_t psn, unsigned syndrome)
{
	struct packet p = rig_peer_data(rig, SEND_ONLY, psn, 0, 8);

	assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
	rig_expect_ack(rig, psn, syndrome);
	rig_rx(rig, &p);
	rig_expect_silence(rig);
}

#endif
