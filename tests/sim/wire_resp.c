/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire_resp.c - oracles over response packets.
 *
 * Oracles: uc_silent (UC-02), ack_before_delivery (only PSNs that have arrived are acknowledged), ack_order (the PSNs
 * that ACKs acknowledge never decrease: AK-03), one_nak_per_gap (RP-01), nak_needless, msn (AK-04), response
 * (only to requests that arrived, and of the matching kind), response_order (first responses are sent in PSN order, and
 * no ACK overtakes a READ or atomic), ackreq_answered (AK-01, at the end).
 */
#include "sim.h"

/** @return the delay that an RNR NAK code requests, in ns (IBTA table of RNR timer values). */
static uint64_t rnr_delay_ns(unsigned code)
{
	static const uint32_t unit_10us[32] = {65536, 1,    2,	  3,	4,    6,     8,	    12,	   16,	  24,	32,
					       48,    64,   96,	  128,	192,  256,   384,   512,   768,	  1024, 1536,
					       2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

	return unit_10us[code & 31] * 10000ull;
}

/** @return how many request messages end at or before running number `to`. */
static uint32_t messages_until(struct wire *w, uint64_t to)
{
	while (w->counted < to) {
		const struct wr *wr = w->psn[w->counted].wr;

		w->messages += w->counted == wr->first + wr->psns - 1;
		w->counted++;
	}
	return w->messages;
}

static void ack_sent(struct qp *qp, const struct decoded *d, uint64_t n)
{
	struct sim *sim = qp->sim;
	struct wire *w = &qp->wire;
	unsigned class = d->syndrome >> 5;
	uint64_t until = class == 0 ? n + 1 : n;
	uint32_t least;

	if (until > w->prefix) {
		sim_fail(sim, "ack_before_delivery",
			 "QP %06x: PSN %u acknowledged (syndrome %02x), and it has not arrived", qp->qpn, d->psn,
			 d->syndrome);
		return;
	}
	if (until < w->ack_out)
		sim_fail(sim, "ack_order",
			 "QP %06x: response PSN %u (syndrome %02x) takes back an earlier acknowledgement", qp->qpn,
			 d->psn, d->syndrome);
	w->ack_out = until;
	w->rnr_naks_sent += class == 1;
	if (d->syndrome == 0x60) {
		if (w->nak_open && w->nak == n)
			sim_fail(sim, "one_nak_per_gap", "QP %06x: second sequence NAK for PSN %u", qp->qpn, d->psn);
		if (sim->clean && w->rnr_naks_sent == 0 && !qp->err_expected && !qp->peer->err_expected)
			sim_fail(sim, "nak_needless", "QP %06x: sequence NAK for PSN %u, and nothing was lost", qp->qpn,
				 d->psn);
		w->nak = n;
		w->nak_open = true;
	}
	for (; w->ack_scan < until; w->ack_scan++)
		if (wr_is_read_atomic(w->psn[w->ack_scan].wr) && (w->psn[w->ack_scan].flags & PSN_REPLIED) == 0) {
			sim_fail(sim, "response_order",
				 "QP %06x: PSN %u acknowledged before the READ or atomic at PSN number %llu", qp->qpn,
				 d->psn, (unsigned long long)w->ack_scan);
			return;
		}
	least = messages_until(w, until);
	/* The MSN may exceed `least`, by at most the number of PSNs that have arrived: the responder may have executed
	 * more than it has acknowledged, and a READ that is requested in parts counts once for each part. */
	if (((d->msn - least) & 0xffffff) > w->prefix)
		sim_fail(sim, "msn", "QP %06x: response PSN %u has MSN %u, at least %u messages are complete", qp->qpn,
			 d->psn, d->msn, least);
}

/** The responder sends a response to the requester `qp`. */
void wire_response_sent(struct qp *qp, const struct decoded *d)
{
	struct sim *sim = qp->sim;
	struct wire *w = &qp->wire;
	uint64_t n = wire_number(qp, d->psn);

	if (!qp_is_reliable(qp)) {
		sim_fail(sim, "uc_silent", "QP %06x is sent a response", qp->qpn);
		return;
	}
	if (d->ackreq || d->se)
		sim_fail(sim, "response", "response PSN %u with AckReq or SE set", d->psn);
	if (d->op == DOP_ACK) {
		ack_sent(qp, d, n);
		if ((d->syndrome < 0x20 ? n + 1 : n) > w->answered || d->syndrome >= 0x20)
			w->answered = n + 1;
		return;
	}
	if (n >= w->prefix) {
		sim_fail(sim, "response", "QP %06x: response PSN %u to a request that has not arrived", qp->qpn,
			 d->psn);
		return;
	}
	const struct wr *wr = w->psn[n].wr;
	bool extended = wr_is_masked_atomic(wr) && wr->len != 8;
	unsigned want = wr->opcode == NIC_WR_RDMA_READ	      ? d->op
			: wr_is_placing(wr)		      ? DOP_READ_ONLY
			: wr->opcode == NIC_WR_FETCH_ELEMENTS ? DOP_ELEMENTS_ACK
			: extended			      ? DOP_EXT_ATOMIC_ACK
							      : DOP_ATOMIC_ACK;

	if (!wr_is_read_atomic(wr) || d->op != want ||
	    (wr->opcode == NIC_WR_RDMA_READ && (d->op < DOP_READ_FIRST || d->op > DOP_READ_ONLY)))
		sim_fail(sim, "response", "QP %06x: %s for PSN %u, which is another operation", qp->qpn,
			 decode_name(d->opcode), d->psn);
	if (wr_is_placing(wr) && d->payload_len > 0)
		sim_fail(sim, "response", "QP %06x: %u bytes answer a FLUSH or an ATOMIC WRITE", qp->qpn,
			 d->payload_len);
	if ((w->psn[n].flags & PSN_REPLIED) == 0 && n < w->replied)
		sim_fail(sim, "response_order", "QP %06x: first response for PSN %u after one for a later PSN", qp->qpn,
			 d->psn);
	w->psn[n].flags |= PSN_REPLIED;
	if (n + 1 > w->replied)
		w->replied = n + 1;
	if (n + 1 > w->answered)
		w->answered = n + 1;
}

/** The requester `qp` was handed a response. */
void wire_response_received(struct qp *qp, const struct decoded *d)
{
	struct wire *w = &qp->wire;
	uint64_t n = wire_number(qp, d->psn), until = n + 1;

	if (n >= w->sent)
		return;
	if (d->op != DOP_ACK)
		w->psn[n].flags |= PSN_ANSWERED;
	else if (d->syndrome >= 0x20)
		until = n;
	if (d->op == DOP_ACK && d->syndrome >> 5 == 1) {
		w->rnr_naks++;
		/* Convert the delay to simulated time: the requester measures it with its own clock. */
		w->rnr_until_ns = qp->sim->now_ns + rnr_delay_ns(d->syndrome) * 1000 / qp->node->clock.rate;
	}
	if (until > w->acked)
		w->acked = until;
}

/** The network has long been idle: every AckReq that arrived must have been answered. */
void wire_end(struct qp *qp)
{
	struct wire *w = &qp->wire;

	if (qp_is_reliable(qp) && qp->life == QP_UP && !qp->err_expected && !qp->peer->err_expected &&
	    w->ackreq_in > w->answered)
		sim_fail(qp->sim, "ackreq_answered", "QP %06x: PSN number %llu asked for an ACK and got none", qp->qpn,
			 (unsigned long long)w->ackreq_in - 1);
}
