/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_qp.c - the RC queue pairs of reliable datagram endpoints: one for each peer that is connected or being
 * connected ("the peer's QP"). */
#include "rdm_qp.h"

#include "qp_owner.h"
#include "qp_state.h"
#include "rdm_stranger.h"
#include "resp_tx.h"

#define READS	  8 /* READs and fetching operations outstanding per QP */
#define RNR_TIMER 4 /* IBTA timer code for 40 us. Short, because an RNR wait delays everything that the peer sends */

static const uint32_t rights = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC;

bool rdm_av_to(const struct nic_rdm *ep, const struct nic_rdm_addr *addr, struct nic_av *av)
{
	*av = (struct nic_av){.dgid = addr->gid};
	for (uint8_t i = 0; i < NIC_GID_TABLE_LEN; i++) {
		av->sgid_index = i;
		if (memcmp(&ep->nic->gids[i], &ep->cfg.addr.gid, sizeof(addr->gid)) == 0)
			return true;
	}
	return false; /* the address is no longer in the GID table */
}

bool rdm_qp_make(struct nic_rdm_peer *peer)
{
	struct nic_rdm *ep = peer->ep;
	struct nic_qp_init init = {
		.type = NIC_QPT_RC,
		.pd = ep->cfg.pd,
		.send_cq = ep->cq,
		.recv_cq = ep->cq,
		.cap = {.max_send_wr = RDM_SQ_FIRST, .max_send_sge = RDM_SGES, .max_inline_data = RDM_INLINE},
		.max_fetch = NIC_PAYLOAD_MAX};

	if (nic_qp_create(ep->nic, &init, &peer->qp) != 0)
		return false;
	peer->qp->owner = &rdm_owner;
	peer->qp->send_flags |= NIC_SEND_UNAWAITED | NIC_SEND_OFFERS;
	peer->qp->rdm_peer = peer;
	peer->qp->events.silent = true;
	peer->attempt = rdm_attempt(ep, &peer->addr);
	peer->psn = nic_psn_random(ep->nic);
	return true;
}

int rdm_qp_connect(struct nic_rdm_peer *peer, uint32_t qpn, uint32_t psn, enum nic_mtu mtu)
{
	const struct nic_rdm *ep = peer->ep;
	enum nic_mtu own = nic_active_mtu(ep->nic);
	struct nic_qp_attr a = {.qp_state = NIC_QPS_INIT,
				.port_num = 1,
				.qp_access_flags = rights,
				.path_mtu = mtu < own ? mtu : own,
				.dest_qp_num = qpn,
				.rq_psn = psn,
				.sq_psn = peer->psn,
				.max_rd_atomic = READS,
				.max_dest_rd_atomic = READS,
				.min_rnr_timer = RNR_TIMER,
				.timeout = ep->cfg.timeout,
				.retry_cnt = ep->cfg.retry_cnt,
				.rnr_retry = 7};

	int err;

	if (!rdm_av_to(ep, &peer->addr, &a.av))
		return -EADDRNOTAVAIL;
	err = nic_qp_modify(peer->qp, &a, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_ACCESS_FLAGS);
	if (err)
		return err;
	a.qp_state = NIC_QPS_RTR;
	err = nic_qp_modify(peer->qp, &a,
			    NIC_QP_STATE | NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN |
				    NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER);
	if (err)
		return err;
	a.qp_state = NIC_QPS_RTS;
	return nic_qp_modify(peer->qp, &a,
			     NIC_QP_STATE | NIC_QP_SQ_PSN | NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY |
				     NIC_QP_MAX_QP_RD_ATOMIC);
}

void rdm_linger_end(struct nic_rdm *ep, bool all)
{
	for (struct list *n = ep->lingering.next, *next; n != &ep->lingering; n = next) {
		struct nic_qp *qp = list_entry(n, struct nic_qp, lingering);

		next = n->next;
		if (!all && resp_pending(qp))
			continue;
		list_remove(n);
		qp->refers = false; /* do not revoke references: the peer may still fetch the payload of the last
				     * answers */
		nic_qp_destroy(qp);
	}
}

void rdm_qp_drop(struct nic_rdm_peer *peer)
{
	struct nic_qp *qp = peer->qp;

	peer->qp = NULL;
	if (!qp)
		return;
	resp_say_last(qp);
	qp_enter_error(qp);
	qp->rdm_peer = NULL;
	list_append(&peer->ep->lingering, &qp->lingering);
	rdm_linger_end(peer->ep, false);
}
