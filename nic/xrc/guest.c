/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * guest.c - the borrower of an XRC target: executes the packets that the target's owner lends, on a target QP of its
 * own with the target's QPN; see share.h. No packet from the network or a link reaches this guest, and nothing of it
 * leaves by a path. Its saved results stay from one LEND to the next.
 */
#include "share.h"

#include "opcode.h"
#include "path.h"
#include "psn.h"
#include "qp_create.h"
#include "qp_state.h"
#include "resp.h"
#include "resp_tx.h"
#include "source.h"

/* ---- life ----------------------------------------------------------------------------------------------- */

static struct xrc_lent *guest_find(struct xrc_share *share, uint32_t qpn, const struct nic_rdm_peer *owner)
{
	struct nic_qp *qp = table_find(&share->nic->qps, qpn);
	struct xrc_lent *lent = qp ? qp->lent : NULL;

	return lent && lent->is_guest && lent->owner == owner ? lent : NULL;
}

/* The receive WQE of a message in progress is flushed. */
static void guest_end_qp(struct xrc_share *share, struct xrc_lent *lent)
{
	qp_enter_error(lent->qp);
	nic_qp_destroy(lent->qp);
	list_remove(&lent->guest);
	share->n_guests--;
}

static void guest_destroy(struct xrc_share *share, struct xrc_lent *lent)
{
	guest_end_qp(share, lent);
	free(lent);
}

/* A guest that was destroyed before its owner sent END. @return NULL: there was none */
static struct xrc_lent *late_find(struct xrc_share *share, uint32_t qpn, const struct nic_rdm_peer *owner)
{
	for (struct list *n = share->late.next; n != &share->late; n = n->next) {
		struct xrc_lent *lent = list_entry(n, struct xrc_lent, guest);

		if (lent->last.head.qpn == qpn && lent->owner == owner)
			return lent;
	}
	return NULL;
}

static void late_forget(struct xrc_lent *lent)
{
	list_remove(&lent->guest);
	free(lent);
}

void guests_forget(struct xrc_share *share)
{
	while (!list_empty(&share->late))
		free(list_entry(list_pop(&share->late), struct xrc_lent, guest));
}

void guests_prune(struct xrc_share *share)
{
	for (struct list *n = share->guests.next, *next; n != &share->guests; n = next) {
		struct xrc_lent *lent = list_entry(n, struct xrc_lent, guest);
		struct nic_rdm_addr addr = nic_rdm_peer_address(lent->owner);

		next = n->next;
		if (!share->init.shares(share->init.ctx, lent->qp->xrcd, &addr))
			guest_destroy(share, lent);
	}
	for (struct list *n = share->late.next, *next; n != &share->late; n = next) {
		struct xrc_lent *lent = list_entry(n, struct xrc_lent, guest);
		struct nic_rdm_addr addr = nic_rdm_peer_address(lent->owner);

		next = n->next;
		if (!xrc_is_member(share, &addr))
			late_forget(lent);
	}
}

unsigned guests_count(const struct xrc_share *share, const struct nic_xrcd *xrcd)
{
	unsigned n = 0;

	for (const struct list *at = share->guests.next; at != &share->guests; at = at->next)
		n += list_entry(at, struct xrc_lent, guest)->qp->xrcd == xrcd;
	return n;
}

void guests_leave(struct xrc_share *share, const struct nic_xrcd *xrcd)
{
	for (struct list *n = share->guests.next, *next; n != &share->guests; n = next) {
		struct xrc_lent *lent = list_entry(n, struct xrc_lent, guest);

		next = n->next;
		if (xrcd && lent->qp->xrcd != xrcd)
			continue;
		guest_end_qp(share, lent);
		list_append(&share->late, &lent->guest);
	}
}

static void raised(struct nic *nic, struct event_source *src, enum nic_event_type type)
{
	list_entry(src, struct nic_qp, events)->lent->raised |= 1ull << type;
}

/* Move a new guest to RTS, with the attributes of the target. */
static int connect(struct nic_qp *qp, const struct nic_qp_attr *target)
{
	struct nic_qp_attr attr = *target;
	int err;

	attr.qp_state = NIC_QPS_INIT;
	attr.port_num = 1;
	attr.pkey_index = 0;
	err = nic_qp_modify(qp, &attr, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_ACCESS_FLAGS);
	if (err)
		return err;
	attr.qp_state = NIC_QPS_RTR;
	err = nic_qp_modify(qp, &attr,
			    NIC_QP_STATE | NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN |
				    NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER);
	if (err)
		return err;
	attr.qp_state = NIC_QPS_RTS;
	return nic_qp_modify(qp, &attr, NIC_QP_STATE | NIC_QP_TIMEOUT | NIC_QP_SQ_PSN);
}

/* Guests may take half of the QPs: the program needs the others. @return NULL: no memory, or too many guests */
static struct xrc_lent *guest_create(struct xrc_share *share, struct nic_rdm_peer *owner, struct nic_xrcd *xrcd,
				     const struct xrc_lend *lend)
{
	struct nic_qp_init init = {.type = NIC_QPT_XRC_TGT, .xrcd = xrcd};
	struct xrc_lent *lent = calloc(1, sizeof(*lent));
	struct nic_qp *qp = table_find(&share->nic->qps, lend->head.qpn);

	if (!lent)
		return NULL;
	if (qp && qp->lent && qp->lent->is_guest)
		guest_destroy(share, qp->lent); /* of a NIC that had these QPNs before */
	if (share->n_guests >= share->nic->cfg.limits.max_qp / 2 ||
	    qp_create_at(share->nic, &init, lend->head.qpn, &qp)) {
		free(lent);
		return NULL;
	}
	qp->events.silent = true;
	source_close(qp);
	if (connect(qp, &lend->attr)) {
		nic_qp_destroy(qp);
		free(lent);
		return NULL;
	}
	path_park(qp, &share->parked);
	qp->events.listener = raised;
	qp->lent = lent;
	lent->qp = qp;
	lent->is_guest = true;
	lent->owner = owner;
	lent->attr = lend->attr;
	lent->incarnation = lend->head.incarnation;
	lent->last.head.qpn = lend->head.qpn;
	list_append(&share->guests, &lent->guest);
	share->n_guests++;
	xrc_watch(share);
	return lent;
}

static bool fits(const struct xrc_lent *lent, const struct xrc_lend *lend, const struct nic_xrcd *xrcd)
{
	const struct nic_qp_attr *now = &lend->attr, *was = &lent->attr;

	return lent->incarnation == lend->head.incarnation && lent->qp->xrcd == xrcd &&
	       lent->qp->state == NIC_QPS_RTS && now->max_dest_rd_atomic == was->max_dest_rd_atomic &&
	       now->path_mtu == was->path_mtu && now->dest_qp_num == was->dest_qp_num;
}

/** The guest for this LEND, made anew if there is none, or one of an earlier connection. @return NULL: no memory. */
static struct xrc_lent *guest_get(struct xrc_share *share, struct nic_rdm_peer *owner, struct nic_xrcd *xrcd,
				  const struct xrc_lend *lend)
{
	const uint32_t may_change = NIC_QP_ACCESS_FLAGS | NIC_QP_MIN_RNR_TIMER;
	struct xrc_lent *lent = guest_find(share, lend->head.qpn, owner);

	if (lent && !fits(lent, lend, xrcd)) {
		guest_destroy(share, lent);
		lent = NULL;
	}
	if (!lent)
		return guest_create(share, owner, xrcd, lend);
	if (lend->attr.qp_access_flags != lent->attr.qp_access_flags ||
	    lend->attr.min_rnr_timer != lent->attr.min_rnr_timer) {
		if (nic_qp_modify(lent->qp, &lend->attr, may_change))
			return NULL;
		lent->attr = lend->attr;
	}
	return lent;
}

/* ---- executing ------------------------------------------------------------------------------------------ */

static struct xrc_msg *answer_new(enum xrc_kind kind, const struct xrc_head *of, size_t len)
{
	struct xrc_msg *msg = xrc_msg_new(kind, of->qpn, len);
	struct xrc_head *head;

	if (!msg)
		return NULL;
	head = (struct xrc_head *)(void *)msg->bytes;
	head->incarnation = of->incarnation;
	head->lease = of->lease;
	return msg;
}

static void refuse(struct xrc_share *share, struct nic_rdm_peer *owner, const struct xrc_head *head,
		   enum xrc_verdict verdict)
{
	struct xrc_msg *msg = answer_new(XRC_RETURN, head, sizeof(struct xrc_return));
	struct xrc_return *ret;

	if (!msg)
		return; /* the owner will ask again */
	ret = (struct xrc_return *)(void *)msg->bytes;
	ret->head.copy = head->copy;
	ret->verdict = verdict;
	xrc_post(share, owner, msg);
}

/** The domain that a LEND names. For an owner with a guest here, that was checked before. */
static struct nic_xrcd *domain_of(struct xrc_share *share, const struct xrc_lent *lent, struct nic_rdm_peer *peer,
				  const struct xrc_lend *lend)
{
	if (lent && lent->incarnation == lend->head.incarnation &&
	    !memcmp(&lent->qp->xrcd->name, &lend->domain, sizeof(lend->domain)))
		return lent->qp->xrcd;
	return xrc_domain(share, &lend->domain, peer);
}

/* Send the next response to the owner. @return false: not now. */
static bool respond(struct xrc_share *share, struct xrc_lent *lent)
{
	struct xrc_head head = {.qpn = lent->qp->qpn, .incarnation = lent->incarnation, .lease = lent->lease};
	struct xrc_msg *msg = answer_new(XRC_RESPONSE, &head, XRC_MSG_MAX);
	struct nic_tx_frame frame = {.no_icrc = true, .bare = true};
	struct nic *nic = share->nic;
	uint64_t packets, bytes;

	if (!msg)
		return false;
	frame.data = msg->bytes + sizeof(struct xrc_response);
	packets = nic->counters[NIC_CNT_tx_packets];
	bytes = nic->counters[NIC_CNT_tx_bytes];
	if (!resp_tx_resources(lent->qp, &frame)) { /* there is none; the READ's memory may have gone */
		free(msg);
		return true;
	}
	nic->counters[NIC_CNT_tx_packets] = packets; /* the owner's NIC counts the packet when it sends it */
	nic->counters[NIC_CNT_tx_bytes] = bytes;
	msg->len = (uint32_t)sizeof(struct xrc_response) + frame.len;
	lent->credits--;
	xrc_post(share, lent->owner, msg);
	return true;
}

/* Send the RETURN of the latest lease. */
static void give_back(struct xrc_share *share, struct xrc_lent *lent)
{
	struct xrc_msg *msg = xrc_msg_new(XRC_RETURN, lent->qp->qpn, sizeof(lent->last));

	if (!msg)
		return; /* the owner will ask again */
	memcpy(msg->bytes, &lent->last, sizeof(lent->last));
	xrc_post(share, lent->owner, msg);
}

/* Send the responses that are due, and after them the RETURN. What there is no memory for is sent when the owner asks
 * again. */
static void guest_step(struct xrc_share *share, struct xrc_lent *lent)
{
	struct xrc_return *last = &lent->last;

	while (lent->has_state && lent->qp->resp.res_todo && lent->credits)
		if (!respond(share, lent))
			return;
	if (!lent->has_state || lent->qp->resp.res_todo)
		return;
	*last = (struct xrc_return){
		.head = {.version = XRC_VERSION,
			 .kind = XRC_RETURN,
			 .qpn = lent->qp->qpn,
			 .incarnation = lent->incarnation,
			 .lease = lent->lease},
		.verdict = XRC_DONE,
	};
	resp_state_save(lent->qp, &last->state);
	resp_outcome_take(lent->qp, &last->outcome);
	last->outcome.events = lent->raised;
	lent->has_state = false;
	give_back(share, lent);
}

/** Whether the state fits the receive that the guest has in use: a SEND in progress is one that this guest has begun,
 *  and has as much of it. */
static bool continues(const struct nic_qp *qp, const struct resp_state *state)
{
	const struct opcode *open = state->open == RESP_NOT_OPEN ? NULL : op_get(state->open);
	const struct responder *resp = &qp->resp;

	if (!open || open->kind != OP_SEND)
		return !resp->have_wqe;
	return resp->have_wqe && state->srqn == resp->srqn && state->received == resp->received;
}

/** Whether the guest has had this lease, or a later one. */
static bool had_lease(const struct xrc_lent *lent, const struct xrc_head *head)
{
	bool any = lent->has_state || lent->last.head.kind == XRC_RETURN;

	return any && lent->incarnation == head->incarnation && head->lease <= lent->lease;
}

/** Whether a guest that is gone has had this lease, or a later one. */
static bool was_executed(struct xrc_share *share, const struct nic_rdm_peer *owner, const struct xrc_head *head)
{
	struct xrc_lent *late = late_find(share, head->qpn, owner);

	if (!late)
		return false;
	if (late->incarnation == head->incarnation && head->lease <= late->lease)
		return true;
	late_forget(late);
	return false;
}

void guest_lend(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len)
{
	const struct xrc_lend *lend = bytes;
	struct xrc_lent *lent = guest_find(share, lend->head.qpn, peer);
	struct nic_xrcd *xrcd;
	struct packet p;
	bool is_new;

	if (lent && had_lease(lent, &lend->head)) {
		if (lend->head.lease != lent->lease) /* the answer has come */
			COUNT(share->nic, xrc_stale);
		else if (lent->has_state)
			guest_step(share, lent);
		else
			give_back(share, lent);
		return;
	}
	xrcd = domain_of(share, lent, peer, lend);
	if (!xrcd || !xrc_packet_read((const uint8_t *)bytes + sizeof(*lend), len - (uint32_t)sizeof(*lend), &p) ||
	    op_is_response(p.op)) {
		refuse(share, peer, &lend->head, XRC_REFUSED);
		return;
	}
	if (!lent && (was_executed(share, peer, &lend->head) || !xrc_owns(share, xrcd, peer, lend->head.qpn))) {
		refuse(share, peer, &lend->head, XRC_REFUSED);
		return;
	}
	lent = xrc_unsent(peer) < XRC_BUSY ? guest_get(share, peer, xrcd, lend) : NULL;
	if (!lent) {
		refuse(share, peer, &lend->head, XRC_NO_MEMORY);
		return;
	}
	is_new = p.psn == lend->state.epsn;
	if (is_new && (!continues(lent->qp, &lend->state) || !resp_state_load(lent->qp, &lend->state))) {
		refuse(share, peer, &lend->head, XRC_REFUSED);
		return;
	}
	lent->lease = lend->head.lease;
	lent->has_state = true;
	lent->credits = XRC_CREDITS;
	lent->raised = 0;
	if (is_new || psn_diff(p.psn, lent->qp->resp.epsn) < 0)
		resp_rx(lent->qp, &p);
	else /* a duplicate of a request that this guest has not executed */
		COUNT(share->nic, duplicate_dropped);
	guest_step(share, lent);
}

void guest_credit(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len)
{
	const struct xrc_credit *credit = bytes;
	struct xrc_lent *lent = guest_find(share, credit->head.qpn, peer);
	uint32_t most;

	if (!lent || lent->incarnation != credit->head.incarnation || lent->lease != credit->head.lease) {
		COUNT(share->nic, xrc_stale);
		return;
	}
	most = XRC_CREDITS - lent->credits; /* less than the responses sent, if some were sent again */
	lent->credits += credit->responses < most ? credit->responses : most;
	guest_step(share, lent);
}

void guest_failed(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes)
{
	const struct xrc_response *response = bytes;
	struct xrc_lent *lent = guest_find(share, response->head.qpn, peer);

	if (lent && lent->has_state && lent->incarnation == response->head.incarnation &&
	    lent->lease == response->head.lease && lent->credits < XRC_CREDITS)
		lent->credits++; /* the peer will ask for it again */
}

void guest_end(struct xrc_share *share, struct nic_rdm_peer *peer, const void *bytes, uint32_t len)
{
	const struct xrc_end *end = bytes;
	struct xrc_lent *lent = guest_find(share, end->head.qpn, peer);
	struct xrc_lent *late = late_find(share, end->head.qpn, peer);

	if (lent && lent->incarnation == end->head.incarnation)
		guest_destroy(share, lent);
	else if (late && late->incarnation == end->head.incarnation)
		late_forget(late);
	else
		COUNT(share->nic, xrc_stale);
}
