/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * datagram.c - UD: SENDs to any UD QP of any node, some with a wrong Q_Key. A datagram is identified by its sender,
 * length and contents, so it has at least 8 bytes of data.
 *
 * Oracles: ud_delivery (only datagrams that were sent, to the right QP, whole, with the right GRH area and byte count;
 * never one with a wrong Q_Key), ud_once (at most once unless the network duplicated it).
 */
#include "sim.h"

#include <string.h>

static struct qp *choose_destination(struct qp *qp)
{
	struct sim *sim = qp->sim;

	return &sim->qp[sim->qps - 1 - rng_below(&qp->rng, sim->opts.ud_qps)];
}

bool datagram_post(struct qp *qp)
{
	struct sim *sim = qp->sim;
	struct wr *wr = wr_new(qp, rng_chance(&qp->rng, 500) ? NIC_WR_SEND : NIC_WR_SEND_WITH_IMM);
	uint32_t mtu = sim_mtu(sim), len = 8 + work_length(qp);
	struct nic_av av = {.hop_limit = 3, .tclass = 0x20};
	int rc;

	wr->ud_to = choose_destination(qp);
	wr->remote = wr->ud_to->node;
	wr->undeliverable = rng_chance(&qp->rng, 50);
	av.dgid = wr->remote->gid;
	if (!wr_gather(wr, len < mtu ? len : mtu, true))
		return false;
	rc = nic_ah_create(qp->node->pd[0], &av, &wr->ah);
	if (rc != 0) {
		sim_fail(sim, "api", "nic_ah_create returned %d", rc);
		return false;
	}
	bool ok = wr_post(wr);
	nic_ah_destroy(wr->ah); /* the queued WR has its own copy of the address */
	wr->ah = NULL;
	return ok;
}

/** @return the WR that sent this datagram, even if the sender's QP has been reset since. */
static struct wr *find_sent(struct qp *qp, const struct nic_wc *wc, const uint8_t *data)
{
	struct sim *sim = qp->sim;
	uint32_t len = wc->byte_len - 40;

	for (uint32_t i = sim->wr_count; i-- > 0;) {
		struct wr *wr = sim->wrs[i];

		if (wr->ud_to == qp && wr->len == len && wr->qp->qpn == wc->src_qp &&
		    pattern_check(wr->uid, 0, data, len))
			return wr;
	}
	return NULL;
}

static const char *grh_fault(struct qp *qp, const struct wr *wr, const uint8_t *grh)
{
	const uint8_t *src = wr->qp->node->gid.raw, *dst = qp->node->gid.raw;
	uint32_t sum = 0;

	if (qp->sim->opts.ipv6)
		return grh[0] >> 4 == 6 && memcmp(grh + 8, src, 16) == 0 && memcmp(grh + 24, dst, 16) == 0 ? NULL
													   : "IPv6 GRH";
	if (grh[20] != 0x45 || memcmp(grh + 32, src + 12, 4) != 0 || memcmp(grh + 36, dst + 12, 4) != 0)
		return "IPv4 header in the GRH area";
	/* applications recognise the GRH area as IPv4 by this checksum */
	for (int i = 20; i < 40; i += 2)
		sum += (uint32_t)(grh[i] << 8 | grh[i + 1]);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff ? NULL : "IPv4 header checksum in the GRH area";
}

void datagram_deliver(struct qp *qp, struct rwr *r, const struct nic_wc *wc)
{
	static uint8_t data[8192];
	struct sim *sim = qp->sim;
	struct wr *wr;

	if (wc->byte_len < 48 || wc->byte_len > r->cap || (wc->wc_flags & NIC_WC_GRH) == 0) {
		sim_fail(sim, "ud_delivery", "QP %06x: %u bytes into a buffer of %u, flags %x", qp->qpn, wc->byte_len,
			 r->cap, wc->wc_flags);
		return;
	}
	if (!slots_collect(r->seg, r->segs, data, wc->byte_len))
		return;
	wr = find_sent(qp, wc, data + 40);
	if (wr == NULL) {
		sim_fail(sim, "ud_delivery", "QP %06x: a datagram of %u bytes from QP %06x that was never sent",
			 qp->qpn, wc->byte_len, wc->src_qp);
		return;
	}
	sim->stats.ud_delivered++;
	if (wr->undeliverable)
		sim_fail(sim, "ud_delivery", "QP %06x: a datagram with the wrong Q_Key was delivered", qp->qpn);
	if ((wr->opcode == NIC_WR_SEND_WITH_IMM) != ((wc->wc_flags & NIC_WC_WITH_IMM) != 0) ||
	    (wr->opcode == NIC_WR_SEND_WITH_IMM && wc->ex != wr->ex))
		sim_fail(sim, "ud_delivery", "QP %06x: immediate data", qp->qpn);
	if (++wr->deliveries > 1 && sim->opts.dup == 0)
		sim_fail(sim, "ud_once", "QP %06x: WR %u was delivered twice", qp->qpn, wr->id);
	const char *fault = sim->opts.udp_port && !sim->opts.ipv6 ? NULL : grh_fault(qp, wr, data);
	if (fault != NULL)
		sim_fail(sim, "ud_delivery", "QP %06x: wrong %s", qp->qpn, fault);
}
