/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * source.c - determines the link by which a peer's packets must come, and refuses packets that come another way
 * (IBTA 9.6.1.5 checks addresses only).
 *
 * The addresses in a packet that comes by the port prove little on a host with several users: each user can send from a
 * socket bound to any address of the host, or set any of these addresses as the source (IP_PKTINFO). A link proves
 * more: the carrier knows which peer owns it. So a QP whose peer has a link to us accepts packets from that link only;
 * the peer, for its part, sends by its link only (nic_path_take). Until the peer has a link, and where there are no
 * links, packets that claim an address of this host must come from UDP port 4791, which the kernel grants only to the
 * device that owns the address.
 *
 * When a link appears, packets may still be on their way by the port. They are dropped, and RC retransmits its requests
 * in flight. This uses up no retry, since the loss is our doing.
 *
 * Owns: takes, peer_is_local and rx_at_port of the QPs.
 */
#include "packet.h"
#include "qp.h"
#include "req.h"
#include "source.h"

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

void source_close(struct nic_qp *qp)
{
	qp->takes = UINT32_MAX; /* the number of no link */
}

bool source_is_closed(const struct nic_qp *qp)
{
	return qp->takes == UINT32_MAX;
}

void source_set(struct nic_qp *qp)
{
	source_reset(qp);
	qp->peer_is_local = is_local(qp->nic, &qp->attr.av.dgid);
	qp->takes = source_of(qp, 0);
}

/* Move from the port to a link. If the peer has sent by the port, its responses may be among the packets that are now
 * dropped: retransmit. */
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

		/* Move only QPs whose peer has an address of this host: other peers should have no link. If one of
		 * those has a link after all, source_look() moves its QP when the first packet comes by the link. */
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
