/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * quick.h - a fast path for fetching one element, on paths that take packets at once (nic_config.tx_room). Private to
 * nic/.
 *
 * Most of the time that a fetch takes between two processes of a host goes to code that serves every kind of request:
 * it copies lists, checks, queues, takes turns, and builds packets of any form. If a request fetches one element of 4
 * or 8 bytes, req_quick.c writes its packet while the request is posted, and resp_quick.c executes the request and
 * writes the response while the packet is received.
 *
 * The fast path does what the general code would do, packet for packet and counter for counter, for a carrier that
 * asks nic_path_tx for one packet at a time; or it does nothing. It serves only the usual case: nothing else waits to
 * be sent on the path, the request is correct and in order, and the path has room. In all other cases it returns, and
 * the general code decides. Only the general code refuses, retransmits, and answers duplicates. test_quick.c compares
 * the two.
 */
#ifndef NIC_QUICK_H
#define NIC_QUICK_H

#include "elem.h"
#include "nic_frame.h"
#include "nic_path.h"
#include "opcode.h"
#include "qp.h"
#include "wire.h"

#define QUICK_ELEMENT_MAX 8u /* bytes */
_Static_assert(BTH_LEN + ELEMENTETH_LEN + 2 * QUICK_ELEMENT_MAX + ICRC_LEN <= NIC_ROOM_LEN, "a request fits");

/** Size of the datatype if the fast path can serve a fetch by this operation; otherwise 0. `datatype` may also be a
 * code from a packet: the two differ only for long double, which is never quick. */
static inline uint32_t quick_size(uint32_t op, uint32_t datatype)
{
	uint32_t size;

	if (!nic_elem_valid(op, datatype, elem_compares(op) ? NIC_ELEM_COMPARE : NIC_ELEM_FETCH))
		return 0;
	size = elem_size(datatype);
	return size == 4 || size == QUICK_ELEMENT_MAX ? size : 0;
}

/** Whether neither the QP nor another QP on its path has anything to send, except delayed ACKs. */
static inline bool quick_is_free(const struct nic_qp *qp)
{
	return list_empty(&qp->nic->paths[qp->path].ready) && qp->sq.next == qp->sq.head;
}

/** Get room for the QP's next packet. @param now_ns NULL, or out: the time. @return NULL: the packet has to wait for
 * nic_path_tx. */
static inline uint8_t *quick_room(const struct nic_qp *qp, uint64_t *now_ns)
{
	const struct nic *nic = qp->nic;

	if (!nic->cfg.tx_room || !(nic->paths[qp->path].flags & NIC_PATH_NO_ICRC))
		return NULL;
	return nic->cfg.tx_room(nic->cfg.ctx, qp->path, now_ns);
}

/** Write the BTH, as put_bth() in packet_build.c does. @return where the next header goes. */
static inline uint8_t *quick_bth(const struct nic_qp *qp, uint8_t *room, const struct opcode *op, uint32_t psn,
				 bool ackreq)
{
	wire_put32(room, (uint32_t)op->value << 24 | (uint32_t)BTH_FLAG_MIG << 16 | 0xffff);
	wire_put32(room + BTH_ECN, qp->attr.dest_qp_num);
	wire_put32(room + BTH_ACK, (uint32_t)ackreq << 31 | psn);
	return room + BTH_LEN;
}

/** Send the packet in the room, which is complete except for the ICRC, and count it as qp_emit() does. @param payload
 * length of its payload. */
static inline void quick_send(struct nic_qp *qp, uint8_t *room, const struct opcode *op, uint32_t psn, uint32_t payload)
{
	uint32_t end = op->hdr_len + payload;
	struct nic *nic = qp->nic;
	const struct nic_tx_frame frame = {
		.data = room,
		.len = end + ICRC_LEN,
		.no_icrc = true,
		.bare = true,
		.qpn = qp->qpn,
		.addresses = qp->says,
		.psns = 1,
	};

	wire_put32(room + end, 0); /* in place of the ICRC */
	nic->cfg.tx_now(nic->cfg.ctx, qp->path, &frame, nic->told_ns);
	COUNT(nic, tx_packets);
	COUNT_BY(nic, tx_bytes, payload);
	qp->counters.tx_packets++;
	qp->counters.tx_bytes += payload;
	trace_add(nic, qp->qpn, NIC_TR_tx, psn, op->value);
}

#endif
