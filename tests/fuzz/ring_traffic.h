/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_traffic.h - queue pairs for fuzz_ring.c, and undisturbed messages between two functions. Each message must
 * arrive once, complete, in order and without retransmission, because links lose no packets.
 */
#ifndef FUZZ_RING_TRAFFIC_H
#define FUZZ_RING_TRAFFIC_H

#include "nic.h"

#define STREAM_SLOTS 8
#define STREAM_BYTES 1500

/** A sequence of messages from one QP to another. */
struct ring_stream {
	struct nic_qp *from, *to;
	struct nic_cq *send_cq, *recv_cq;
	struct nic_mr *out_mr, *in_mr;
	unsigned posted, completed, received;
	uint8_t out[STREAM_SLOTS][STREAM_BYTES], in[STREAM_SLOTS][STREAM_BYTES];
};

/** Modify a QP from RESET to RTS. @param timeout code of the ACK timer; 0: no retransmission. */
void ring_qp_connect(struct nic_qp *qp, enum nic_qp_type type, uint32_t dest_qpn, const struct nic_gid *dgid,
		     uint8_t gid_index, uint8_t timeout);

/** Start a stream between QPs of the caller. The caller owns the QPs and their completion queues; no other stream
 * may use these queues. */
void ring_stream_open(struct ring_stream *s, struct nic_pd *from_pd, struct nic_pd *to_pd);
/** Post one more message, unless too many are in flight. */
void ring_stream_post(struct ring_stream *s);
/** Poll the completion queues, and check the completions. */
void ring_stream_check(struct ring_stream *s);
bool ring_stream_is_done(const struct ring_stream *s);

#endif
