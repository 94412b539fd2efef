/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_sidr.c - service ID resolution: finds the QPN and Q_Key of a datagram service (IBTA 12.11). A request is
 * retransmitted until it is answered or no tries are left. An answer is kept for some time, and sent again whenever the
 * peer retransmits its request.
 */
#include "cm.h"

#include <errno.h>

/** How long a peer is assumed to wait for an answer, as an exponent (4.3 s): a SIDR_REQ has no timeout fields, and
 *  Linux uses this value in its REQs. */
#define PATIENCE 20

/* ---- Asking ---------------------------------------------------------------------------------------------------- */

int nic_cm_sidr_request(struct nic_cm *cm, const struct nic_cm_sidr *s, struct nic_cm_id **out)
{
	struct nic_cm_id *id;
	struct cm_mad mad;
	int rc;

	if (s->private_len > NIC_CM_SIDR_REQ_PRIVATE || (s->private_len && !s->private_data) || s->max_cm_retries > 15)
		return -EINVAL;
	rc = cm_id_new(cm, CM_SIDR, &id);
	if (rc)
		return rc;
	id->user = s->user;
	id->service_id = s->service_id;
	id->route = s->route;
	id->wait_ns = s->timeout_ns;
	id->max_retries = s->max_cm_retries;
	id->tid = (uint64_t)cm->config.random(cm->config.ctx) << 32 | id->local_id;
	id->private_sent = cm_private_used(s->private_data, s->private_len);
	cm_id_set(id, NIC_CM_SIDR_REQ_SENT);
	mad = cm_mad_of(id, CM_SIDR_REQ);
	mad.sidr_req = (struct cm_sidr_req){
		.request_id = id->local_id, .pkey = s->pkey ? s->pkey : 0xffff, .service_id = s->service_id};
	cm_mad_data(&mad, s->private_data, s->private_len);
	*out = id;
	cm_send_timed(id, &mad);
	return 0;
}

void cm_sidr_rep_rx(struct nic_cm_id *id, const struct cm_rx *rx)
{
	const struct cm_sidr_rep *rep = &rx->mad->sidr_rep;
	struct nic_cm_event event = {.type = NIC_CM_EVENT_SIDR_REP};

	event.sidr_rep = (struct nic_cm_sidr_rep_event){
		.service_id = rep->service_id,
		.qpn = rep->qpn,
		.qkey = rep->qkey,
		.status = rep->status,
		.info_len = rx->mad->info_len,
		.info = rx->mad->info,
		.ece = {rep->vendor_id, rx->mad->attr_mod},
	};
	id->private_rcvd = cm_private_used(rx->mad->data, rx->mad->data_len);
	id->saved_attr = 0;
	cm_timer_stop(id);
	cm_id_set(id, NIC_CM_IDLE);
	cm_event_mad(id, &event, rx);
}

void cm_sidr_rep_dup(struct nic_cm_id *id, const struct cm_rx *rx)
{
	(void)id;
	CM_COUNT(rx->cm, rx_dup_sidr_rep);
}

void cm_sidr_failed(struct nic_cm_id *id)
{
	id->saved_attr = 0;
	cm_id_set(id, NIC_CM_IDLE);
	cm_event(id, NIC_CM_EVENT_SIDR_REQ_ERROR);
}

/* ---- Answering ------------------------------------------------------------------------------------------------- */

static void answer_refusal(const struct cm_rx *rx, uint16_t reason)
{
	struct cm_mad rep = {.attr = CM_SIDR_REP, .tid = rx->mad->tid};
	bool none = reason == NIC_CM_REJ_INVALID_SERVICE_ID;

	rep.sidr_rep.request_id = rx->mad->sidr_req.request_id;
	rep.sidr_rep.service_id = rx->mad->sidr_req.service_id;
	rep.sidr_rep.status = none ? CM_SIDR_UNSUPPORTED : CM_SIDR_REJECT;
	cm_answer(rx, &rep);
}

/** Whether a SIDR_REQ is a duplicate. If it has been answered, the answer may have been lost and is sent again. */
static bool again(const struct cm_rx *rx)
{
	struct nic_cm_id *id = cm_by_peer(rx->cm, &rx->route->peer, rx->mad->sidr_req.request_id, true);

	if (!id)
		return false;
	if (id->tid != rx->mad->tid) { /* a new exchange: the peer uses its request id again */
		cm_hash_remove(&rx->cm->peer, &id->by_peer);
		return false;
	}
	CM_COUNT(rx->cm, rx_dup_sidr_req);
	if (id->saved_attr == CM_SIDR_REP)
		cm_send_saved(id);
	return true;
}

void cm_sidr_req_rx(const struct cm_rx *rx)
{
	const struct cm_sidr_req *req = &rx->mad->sidr_req;
	struct nic_cm_event event = {.type = NIC_CM_EVENT_SIDR_REQ, .route = rx->route};
	struct nic_cm_id *id;
	uint16_t reason;

	if (again(rx))
		return;
	id = cm_pending_new(rx, req->service_id, CM_SIDR, &reason);
	if (!id) {
		answer_refusal(rx, reason);
		return;
	}
	id->remote_id = req->request_id;
	id->tid = rx->mad->tid;
	id->patience = PATIENCE;
	id->max_retries = 1;
	id->private_rcvd = cm_private_used(rx->mad->data, rx->mad->data_len);
	cm_peer_known(id);
	cm_id_set(id, NIC_CM_SIDR_REQ_RCVD);
	event.listener = id->listener;
	event.sidr_req = (struct nic_cm_sidr_req_event){req->service_id, req->pkey};
	cm_event_mad(id, &event, rx);
}

int nic_cm_sidr_reply(struct nic_cm_id *id, const struct nic_cm_sidr_reply *r)
{
	struct cm_mad mad = cm_mad_of(id, CM_SIDR_REP);

	if (id->state != NIC_CM_SIDR_REQ_RCVD || r->qpn > 0xffffff || r->ece.vendor_id > 0xffffff ||
	    r->info_len > NIC_CM_INFO_LEN || (r->info_len && !r->info) ||
	    !cm_mad_data(&mad, r->private_data, r->private_len))
		return -EINVAL;
	mad.attr_mod = r->ece.options;
	mad.info = r->info;
	mad.info_len = (uint8_t)r->info_len;
	mad.sidr_rep = (struct cm_sidr_rep){
		.request_id = id->remote_id,
		.status = r->status,
		.vendor_id = r->ece.vendor_id,
		.qpn = r->qpn,
		.qkey = r->qkey,
		.service_id = id->service_id,
	};
	id->private_sent = cm_private_used(r->private_data, r->private_len);
	cm_answered(id);
	cm_linger(id);
	cm_send_save(id, &mad);
	return 0;
}
