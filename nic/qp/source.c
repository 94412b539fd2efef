/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * source.c - by what way the packets of a peer come, and what is refused because it has come by another one (IBTA 9.6.1.5 knows
 * addresses only).
 *
 * The addresses in a packet that comes by the port prove little on a host of several users: each of them can send from a socket
 * bound to any address of the host, and claim any source address of it (IP_PKTINFO). A link proves more: the carrier knows whose
 * it is. So a QP whose peer has a link to us takes packets from that link only. The peer for its part sends by its link only
 * (nic_path_take). Until the peer has a link, and where there are none, packets said to come from an address of this host have
 * to come from UDP port 4791, where the kernel lets nobody in beside the device that owns the address.
 *
 * When a link comes, packets may still be on their way by the port. They are dropped, and RC sends what they were about again,
 * which is no retry: nobody has lost anything.
 *
 * Owns: takes, peer_is_local and rx_at_port of the QPs.
 */
#include "qp.h"

static bool is_connected(const struct nic_qp *qp)
{
	return qp->type != NIC_QPT_UD && (qp->state >= NIC_QPS_RTR && qp->state <= NIC_QPS_SQE);
}

static uint32_t source_of(const struct nic_qp *qp, uint32_t claimed)
{
	const struct nic_config *cfg = &qp->nic->cfg;

	return cfg->source ? cfg->source(cfg->ctx, &qp->attr.av.dgid, qp->attr.dest_qp_num, &qp->sgid, claimed) : 0;
}

static bool is_local(const struct nic *nic, const struct nic_gid *gid)
{
	return nic->cfg.is_local && nic->cfg.is_local(nic->cfg.ctx, gid);
}

void source_reset(struct nic_qp *qp)
{
	qp->takes = 0;
	qp->peer_is_local = false;
	qp->rx_at_port = qp->counters.rx_packets;
}

void source_set(struct nic_qp *qp)
{
	source_reset(qp);
	qp->peer_is_local = is_local(qp->nic, &qp->attr.av.dgid);
	qp->takes = source_of(qp, 0);
}

/* From the port to a link. If packets have come by the port, answers to what we have sent may be among those that now are lost. */
static void source_move(struct nic_qp *qp, uint32_t peer)
{
	bool heard = qp->counters.rx_packets != qp->rx_at_port;

	qp->takes = peer;
	if (heard)
		req_path_gone(qp);
}

void source_look(struct nic_qp *qp, const struct packet *p)
{
	if (p->peer != 0 && qp->takes == 0 && is_connected(qp) && source_of(qp, p->peer) == p->peer)
		source_move(qp, p->peer);
}

enum nic_counter source_datagram_refusal(const struct nic *nic, const struct packet *p)
{
	if (p->peer == 0 && p->udp_sport != NIC_UDP_PORT && is_local(nic, &p->sgid))
		return NIC_CNT_rx_local_sport;
	return NIC_CNT_COUNT;
}

void nic_peer_came(struct nic *nic, uint32_t peer, const struct nic_gid *own)
{
	for (uint32_t i = 0; nic->qps.slots && i <= nic->qps.mask; i++) {
		struct nic_qp *qp = nic->qps.slots[i].value;

		/* Of others there can be no link. Should that be wrong, the first packet by it tells. */
		if (qp && is_connected(qp) && qp->takes == 0 && qp->peer_is_local &&
		    memcmp(&qp->sgid, own, sizeof(*own)) == 0 && source_of(qp, 0) == peer)
			source_move(qp, peer);
	}
}

void nic_peer_gone(struct nic *nic, uint32_t peer, const struct nic_gid *own)
{
	for (uint32_t i = 0; nic->qps.slots && i <= nic->qps.mask; i++) {
		struct nic_qp *qp = nic->qps.slots[i].value;

		if (!qp || qp->takes != peer || memcmp(&qp->sgid, own, sizeof(*own)) != 0)
			continue;
		qp->takes = 0;
		qp->rx_at_port = qp->counters.rx_packets;
	}
}
