/* SPDX-License-Identifier: BSD-3-Clause */
/* route.c - which of the NICs that share an XRC domain executes a packet of a target; see share.h. */
#include "share.h"

#include "opcode.h"
#include "psn.h"

bool route_find(const struct nic_qp *qp, uint32_t srqn, struct nic_rdm_peer **peer)
{
	struct xrc_share *share = qp->nic->xrc_share;
	struct nic_rdm_addr addr;
	bool found = xrc_find(share, qp->xrcd, srqn, &addr) && nic_rdm_peer_may_be(share->rdm, &addr);

	*peer = found ? nic_rdm_peer_get(share->rdm, &addr) : NULL;
	return found;
}

/* As route_find(), but the NIC that was found last is believed to be there still. */
static bool peer_of(const struct nic_qp *qp, uint32_t srqn, struct nic_rdm_peer **peer)
{
	struct xrc_lent *lent = qp->lent;
	bool found;

	if (lent && lent->known && lent->known_srqn == srqn) {
		*peer = lent->known;
		return true;
	}
	found = route_find(qp, srqn, peer);
	if (lent) {
		lent->known_srqn = srqn;
		lent->known = *peer;
	}
	return found;
}

/* If another SRQ is named in the middle of a message, the NIC of the message's first SRQ has the receive, and refuses
 * that. */
uint32_t route_srqn(const struct nic_qp *qp, const struct packet *p)
{
	return p->psn == qp->resp.epsn && qp->resp.open ? qp->resp.srqn : p->xrc_srqn;
}

bool route_is_foreign(const struct nic_qp *qp, const struct packet *p, struct nic_rdm_peer **peer)
{
	int32_t ahead = psn_diff(p->psn, qp->resp.epsn);
	uint32_t srqn = route_srqn(qp, p);

	if (ahead > 0 || xrc_srq(qp->xrcd, srqn))
		return false;
	if (ahead < 0 && (p->op->kind == OP_SEND || p->op->kind == OP_WRITE))
		return false; /* a duplicate: an ACK is the answer */
	return peer_of(qp, srqn, peer);
}
