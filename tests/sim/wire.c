/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire.c - oracles over request packets. For each PSN of each connected QP (counted on beyond 24 bits), this file
 * records the WR that the PSN belongs to, what was first sent with the PSN, and whether that reached the other side.
 *
 * Oracles: psn_order (PSNs contiguous, in posted order: RQ-08), packet (opcode, headers, lengths and data are those of
 * the WR: RQ-01..RQ-06), resend_identical (RT-10), window, rd_atomic (RQ-10), fence (RQ-11), rnr_wait (RT-05),
 * reset_silent, drained (QS-08), resend_needless (without network faults and with a patient timer no packet is sent
 * twice), send_after_completion.
 */
#include "../atomic_model.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>

uint32_t sim_mtu(const struct sim *sim)
{
	return 128u << sim->opts.mtu;
}

/** @return the running number of a 24-bit PSN: of all numbers with this PSN, the nearest to the last number sent. */
uint64_t wire_number(const struct qp *qp, uint32_t psn)
{
	uint64_t sent = qp->wire.sent;

	return sent + (uint64_t)(int64_t)((int32_t)((psn - (uint32_t)(qp->sq_psn + sent)) << 8) / 256);
}

void wire_reset(struct qp *qp)
{
	struct psn *keep = qp->wire.psn;
	uint64_t room = qp->wire.room;

	qp->wire = (struct wire){.psn = keep, .room = room};
}

/** A WR was accepted: assign its PSNs. */
void wire_post(struct wr *wr)
{
	struct wire *w = &wr->qp->wire;

	wr->first = w->count;
	if (w->count + wr->psns > w->room) {
		w->room = (w->room + wr->psns) * 2;
		w->psn = realloc(w->psn, w->room * sizeof(*w->psn));
		if (w->psn == NULL)
			abort();
	}
	for (uint32_t i = 0; i < wr->psns; i++)
		w->psn[w->count++] = (struct psn){.wr = wr};
}

bool wr_is_masked_atomic(const struct wr *wr)
{
	return wr->opcode == NIC_WR_MASKED_CMP_AND_SWP || wr->opcode == NIC_WR_MASKED_FETCH_AND_ADD;
}

bool wr_is_elements(const struct wr *wr)
{
	return wr->opcode == NIC_WR_ELEMENTS || wr->opcode == NIC_WR_FETCH_ELEMENTS;
}

bool wr_is_read_atomic(const struct wr *wr)
{
	return wr->opcode == NIC_WR_RDMA_READ || wr->opcode == NIC_WR_ATOMIC_CMP_AND_SWP ||
	       wr->opcode == NIC_WR_ATOMIC_FETCH_AND_ADD || wr_is_masked_atomic(wr) ||
	       wr->opcode == NIC_WR_FETCH_ELEMENTS || wr_is_placing(wr);
}

/** FLUSH and ATOMIC WRITE: a READ response without data answers them. */
bool wr_is_placing(const struct wr *wr)
{
	return wr->opcode == NIC_WR_FLUSH || wr->opcode == NIC_WR_ATOMIC_WRITE;
}

bool wr_is_write(const struct wr *wr)
{
	return wr->opcode <= NIC_WR_RDMA_WRITE_WITH_IMM || wr->opcode == NIC_WR_ATOMIC_WRITE;
}

/** @return the opcode (low five bits) that packet k of a WR must have. */
static int expected_op(const struct wr *wr, uint64_t k)
{
	bool first = k == 0, last = k + 1 == wr->psns;
	int pos = first && last ? 3 : first ? 0 : last ? 2 : 1;
	static const int8_t send[4] = {DOP_SEND_FIRST, DOP_SEND_MIDDLE, DOP_SEND_LAST, DOP_SEND_ONLY},
			    imm[4] = {DOP_SEND_FIRST, DOP_SEND_MIDDLE, DOP_SEND_LAST_IMM, DOP_SEND_ONLY_IMM},
			    inv[4] = {DOP_SEND_FIRST, DOP_SEND_MIDDLE, DOP_SEND_LAST_INV, DOP_SEND_ONLY_INV},
			    write[4] = {DOP_WRITE_FIRST, DOP_WRITE_MIDDLE, DOP_WRITE_LAST, DOP_WRITE_ONLY},
			    wimm[4] = {DOP_WRITE_FIRST, DOP_WRITE_MIDDLE, DOP_WRITE_LAST_IMM, DOP_WRITE_ONLY_IMM};

	switch (wr->opcode) {
	case NIC_WR_SEND:
		return send[pos];
	case NIC_WR_SEND_WITH_IMM:
		return imm[pos];
	case NIC_WR_SEND_WITH_INV:
		return inv[pos];
	case NIC_WR_RDMA_WRITE:
		return write[pos];
	case NIC_WR_RDMA_WRITE_WITH_IMM:
		return wimm[pos];
	case NIC_WR_RDMA_READ:
		return DOP_READ_REQ;
	case NIC_WR_ATOMIC_CMP_AND_SWP:
		return DOP_CMP_SWAP;
	case NIC_WR_ATOMIC_FETCH_AND_ADD:
		return DOP_FETCH_ADD;
	case NIC_WR_MASKED_CMP_AND_SWP:
		return DOP_MASKED_CMP_SWAP;
	case NIC_WR_MASKED_FETCH_AND_ADD:
		return DOP_MASKED_FETCH_ADD;
	case NIC_WR_FLUSH:
		return DOP_FLUSH;
	case NIC_WR_ATOMIC_WRITE:
		return DOP_ATOMIC_WRITE;
	case NIC_WR_ELEMENTS:
		return DOP_ELEMENTS;
	case NIC_WR_FETCH_ELEMENTS:
		return DOP_FETCH_ELEMENTS;
	default:
		return -1;
	}
}

/** Operands as in nic/mem/extended.md: words of 4 or 8 bytes in network order, least significant word first. */
static bool operand_is(const uint8_t *wire, const uint64_t *words, uint32_t size)
{
	for (uint32_t i = 0; i < size; i++) {
		uint32_t piece = size == 4 ? 4 : 8, byte = piece - 1 - i % piece;

		if (wire[i] != (uint8_t)(words[i / piece] >> 8 * byte))
			return false;
	}
	return true;
}

/** Like packet_fault(), for masked atomics. */
static const char *masked_fault(const struct wr *wr, const struct decoded *d, const uint8_t *operands)
{
	const struct nic_atomic *a = &wr->masked;
	bool cas = a->op == NIC_ATOMIC_MCS;
	const uint64_t *words[] = {a->swap_add, cas ? a->compare : a->boundary, a->swap_mask, a->compare_mask};
	unsigned n = cas ? 4 : 2;

	if (d->va != wr->remote_addr || d->rkey != wr->rkey || 1u << d->log_size != a->size)
		return "ExtAtomicETH";
	if (d->payload_len != n * a->size)
		return "length of operands";
	for (unsigned i = 0; i < n; i++)
		if (!operand_is(operands + i * a->size, words[i], a->size))
			return "operands";
	return NULL;
}

/** @return the payload length of an element operation: its operands and compare values. */
uint32_t wr_elements_data(const struct wr *wr)
{
	bool compares = wr->elem.op >= NIC_ELEM_CSWAP && wr->elem.op <= NIC_ELEM_MSWAP;

	return wr->elem.op == NIC_ELEM_ATOMIC_READ ? 0 : compares ? 2 * wr->len : wr->len;
}

/** Like packet_fault(), for element operations. The complex datatype that the simulator uses has parts of four bytes.
 */
static const char *elements_fault(const struct wr *wr, const struct decoded *d, const uint8_t *wire)
{
	unsigned part = wr->elem.datatype == NIC_DT_FLOAT_COMPLEX ? 4 : wr->elem.size;

	if (d->va != wr->remote_addr || d->rkey != wr->rkey || d->element_op != wr->elem.op ||
	    d->element_type != wr->elem.datatype || d->element_flags != 0 || d->element_count != wr->elem.count)
		return "ElementETH";
	if (d->payload_len != wr_elements_data(wr))
		return "length of operands";
	for (unsigned i = 0; i < d->payload_len; i++)
		if (wire[i] != wr->elem.data[i / part * part + model_byte(part, part - 1 - i % part)])
			return "operands";
	return NULL;
}

/** Like packet_fault(), for a FLUSH. One of the whole region has no range (A19). */
static const char *flush_fault(const struct wr *wr, const struct decoded *d)
{
	bool range = wr->flush.level == NIC_FLUSH_RANGE;

	if (d->feth != (wr->flush.type | (uint32_t)wr->flush.level << 4))
		return "FETH";
	if (d->va != (range ? wr->remote_addr : 0) || d->dma_len != (range ? wr->flush.len : 0) || d->rkey != wr->rkey)
		return "RETH";
	return d->payload_len == 0 ? NULL : "payload in a FLUSH";
}

/** @return what is wrong with packet k of a WR; NULL: nothing. */
static const char *packet_fault(const struct wr *wr, uint64_t k, const struct decoded *d, const uint8_t *frame)
{
	uint32_t mtu = sim_mtu(wr->qp->sim), done = (uint32_t)k * mtu,
		 want = wr->len - done < mtu ? wr->len - done : mtu;
	bool last = k + 1 == wr->psns;

	if (d->op != expected_op(wr, k))
		return "opcode";
	if (!qp_is_reliable(wr->qp) && d->ackreq)
		return "AckReq on an unacknowledged service";
	if (d->se != (last && wr->solicited && wr->message))
		return "solicited event bit";
	if (d->has_srqn && d->srqn != wr->srqn)
		return "XRCETH";
	if (d->op == DOP_FLUSH)
		return flush_fault(wr, d);
	if (d->op == DOP_READ_REQ) {
		if (d->va != wr->remote_addr + done || d->rkey != wr->rkey)
			return "RETH address or key";
		if (d->dma_len > wr->len - done ||
		    (d->dma_len < wr->len - done && (d->dma_len == 0 || d->dma_len % mtu != 0)))
			return "RETH length";
		return d->payload_len == 0 ? NULL : "payload in a READ request";
	}
	if (d->has_ext)
		return masked_fault(wr, d, frame + d->payload);
	if (d->has_element)
		return elements_fault(wr, d, frame + d->payload);
	if (d->has_atomic) {
		bool cas = d->op == DOP_CMP_SWAP;

		if (d->va != wr->remote_addr || d->rkey != wr->rkey)
			return "AtomicETH address or key";
		return d->swap_add == (cas ? wr->swap : wr->compare_add) && (!cas || d->compare == wr->compare_add)
			       ? NULL
			       : "AtomicETH operands";
	}
	if (d->has_reth && (d->va != wr->remote_addr || d->rkey != wr->rkey || d->dma_len != wr->len))
		return "RETH";
	if ((d->has_imm && d->imm != wr->ex) || (d->has_ieth && d->ieth != wr->ex))
		return "immediate or R_Key";
	if (d->payload_len != want)
		return "payload length";
	/* Check the payload even if the WR's memory has been deregistered meanwhile. That memory was then overwritten,
	 * so a wrong payload shows that the NIC still reads it. */
	return tags_payload_is(wr, done, frame + d->payload, d->payload_len) ? NULL : "payload";
}

static uint64_t packet_hash(const struct decoded *d, const uint8_t *frame)
{
	uint64_t h = 0;
	uint32_t end = d->payload + ((d->payload_len + 3) & ~3u);

	for (uint32_t i = d->bth; i < end; i++) {
		uint8_t byte = frame[i];

		if (i == d->bth + 8)
			byte &= 0x7f; /* a retransmission may differ in AckReq */
		h = (h ^ byte) * 0x100000001b3ull;
	}
	return h | 1;
}

static uint32_t span_of(const struct wr *wr, const struct decoded *d)
{
	uint32_t mtu = sim_mtu(wr->qp->sim);

	if (d->op != DOP_READ_REQ || d->dma_len == 0)
		return 1;
	return (d->dma_len + mtu - 1) / mtu;
}

/** @return whether the last response of a READ or atomic was delivered. Responses that the NIC may have dropped count
 * as delivered, so only "no" is certain. */
static bool answered(const struct qp *qp, const struct wr *wr)
{
	return (qp->wire.psn[wr->first + wr->psns - 1].flags & PSN_ANSWERED) != 0;
}

static void check_first_sending(struct qp *qp, struct wr *wr, uint64_t n, const struct decoded *d)
{
	struct sim *sim = qp->sim;
	struct wire *w = &qp->wire;
	uint64_t window = sim->opts.psn_window == 0 ? 1 << 16 : sim->opts.psn_window, end = n + span_of(wr, d);
	unsigned outstanding = 0;

	enable_check(qp, 0, wr->index);
	if (n != w->sent)
		sim_fail(sim, "psn_order", "QP %06x: PSN %u sent for the first time, expected number %llu, got %llu",
			 qp->qpn, d->psn, (unsigned long long)w->sent, (unsigned long long)n);
	if (qp->drained)
		sim_fail(sim, "drained", "QP %06x: PSN %u sent for the first time after SQ_DRAINED", qp->qpn, d->psn);
	/* A READ longer than the window may be sent only when no other request is unacknowledged. */
	if (qp_is_reliable(qp) && end - w->acked > window && !(d->op == DOP_READ_REQ && w->acked == n))
		sim_fail(sim, "window", "QP %06x: %llu PSNs unacknowledged, window %llu", qp->qpn,
			 (unsigned long long)(end - w->acked), (unsigned long long)window);
	for (uint32_t i = qp->done; i < wr->index; i++)
		outstanding += wr_is_read_atomic(qp->sq[i]) && !answered(qp, qp->sq[i]);
	if (wr_is_read_atomic(wr) && n == wr->first && outstanding >= sim->opts.rd_atomic)
		sim_fail(sim, "rd_atomic", "QP %06x: %u READs and atomics outstanding before PSN %u", qp->qpn,
			 outstanding, d->psn);
	if ((wr->flags & NIC_SEND_FENCE) != 0 && n == wr->first && outstanding > 0)
		sim_fail(sim, "fence", "QP %06x: WR %u is fenced, yet sent with %u READs or atomics unanswered",
			 qp->qpn, wr->id, outstanding);
}

/** @return whether `qp` may be in ERR because its RNR retries are exhausted. Its application may not have noticed
 * yet. */
static bool may_be_gone(const struct qp *qp)
{
	return qp->err_expected || (qp->sim->opts.rnr_retry < 7 && qp->wire.rnr_naks > qp->sim->opts.rnr_retry);
}

static void check_resending(struct qp *qp, const struct wr *wr, uint64_t n, const struct decoded *d, uint64_t hash)
{
	struct sim *sim = qp->sim;
	struct psn *p = &qp->wire.psn[n];

	sim->stats.retransmits++;
	if (d->op != DOP_READ_REQ && p->hash != 0 && p->hash != hash)
		sim_fail(sim, "resend_identical", "QP %06x: PSN %u differs from its first transmission", qp->qpn,
			 d->psn);
	if (!qp_is_reliable(qp))
		sim_fail(sim, "psn_order", "QP %06x: PSN %u sent twice on an unreliable service", qp->qpn, d->psn);
	if (wr->done)
		sim_fail(sim, "send_after_completion", "QP %06x: PSN %u sent after WR %u completed", qp->qpn, d->psn,
			 wr->id);
	if (sim->clean && sim->patient && qp->wire.rnr_naks_sent == 0 && !qp->err_expected && !may_be_gone(qp->peer) &&
	    !clock_excuses(qp))
		sim_fail(sim, "resend_needless", "QP %06x: PSN %u sent again, and nothing was lost", qp->qpn, d->psn);
}

static void request_sent(struct qp *qp, const struct decoded *d, const uint8_t *frame)
{
	struct sim *sim = qp->sim;
	struct wire *w = &qp->wire;
	uint64_t n = wire_number(qp, d->psn), hash, end;
	const char *fault;

	if (n >= w->count) {
		sim_fail(sim, "psn_order", "QP %06x: PSN %u belongs to nothing that was posted", qp->qpn, d->psn);
		return;
	}
	struct wr *wr = w->psn[n].wr;
	fault = packet_fault(wr, n - wr->first, d, frame);
	if (fault != NULL) {
		sim_fail(sim, "packet", "QP %06x PSN %u (WR %u, opcode %u, %u bytes, packet %llu of %u): wrong %s",
			 qp->qpn, d->psn, wr->id, wr->opcode, wr->len, (unsigned long long)(n - wr->first), wr->psns,
			 fault);
		return;
	}
	if (sim->clean && sim->patient && sim->now_ns < w->rnr_until_ns && !clock_excuses(qp))
		sim_fail(sim, "rnr_wait", "QP %06x: PSN %u sent %llu ns too early", qp->qpn, d->psn,
			 (unsigned long long)(w->rnr_until_ns - sim->now_ns));
	hash = packet_hash(d, frame);
	if (n >= w->sent)
		check_first_sending(qp, wr, n, d);
	else
		check_resending(qp, wr, n, d, hash);
	w->psn[n].hash = hash;
	end = n + span_of(wr, d);
	for (uint64_t i = n; i < end && i < w->count; i++)
		w->psn[i].flags |= PSN_SENT;
	if (end > w->sent)
		w->sent = end;
}

static bool service_fits(const struct qp *to, uint8_t service)
{
	switch (to->type) {
	case NIC_QPT_RC:
		return service == 0 || service == 6;
	case NIC_QPT_UC:
		return service == 1;
	default:
		return service == 5;
	}
}

/** A NIC sends a frame to `to` (NULL if the destination QP is unknown). */
void wire_sent(struct node *from, const struct decoded *d, const uint8_t *frame, struct qp *to)
{
	struct sim *sim = from->sim;

	if (to == NULL) {
		sim_fail(sim, "packet", "node %u sent to QP %06x, which does not exist", from->index, d->qpn);
		return;
	}
	if (to->type == NIC_QPT_UD) {
		if (d->opcode != 0x64 && d->opcode != 0x65)
			sim_fail(sim, "packet", "opcode %02x sent to a UD QP", d->opcode);
		return;
	}
	if (to->peer->emptied)
		sim_fail(sim, "reset_silent", "QP %06x is in RESET and sent PSN %u", to->peer->qpn, d->psn);
	else if (to->peer->node != from || !service_fits(to, d->service))
		sim_fail(sim, "packet", "QP %06x is sent a packet of another service or from a stranger", to->qpn);
	else if (d->response && to->tags != TAGS_RECEIVER)
		wire_response_sent(to, d);
	else if (!d->response && to->peer->tags != TAGS_RECEIVER) /* those are requests of the NIC, for rendezvous */
		request_sent(to->peer, d, frame);
}

/** The NIC of `qp` was handed an intact packet. */
void wire_received(const struct decoded *d, struct qp *qp)
{
	uint64_t n, end;
	struct wire *w;

	if (qp->type == NIC_QPT_UD)
		return;
	if (d->response) {
		wire_response_received(qp, d);
		return;
	}
	w = &qp->peer->wire;
	n = wire_number(qp->peer, d->psn);
	if (n >= w->count)
		return;
	end = n + span_of(w->psn[n].wr, d);
	for (uint64_t i = n; i < end && i < w->count; i++)
		w->psn[i].flags |= PSN_DELIVERED;
	while (w->prefix < w->count && (w->psn[w->prefix].flags & PSN_DELIVERED) != 0)
		w->prefix++;
	if (w->nak_open && w->nak >= n && w->nak < end)
		w->nak_open = false;
	if (d->ackreq && end > w->ackreq_in)
		w->ackreq_in = end;
}
