/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_passive.c - the passive side of a connection: receives the REQ, sends the REP, receives the RTU (IBTA
 * 12.9.7.2), and finds stale connections (12.9.8.3.1). A REQ is checked before any memory is allocated for it.
 */
#include "cm.h"

#include <errno.h>

/* ---- REQ ------------------------------------------------------------------------------------------------------- */

/** A duplicate REQ: its answer may have been lost, so send the answer again. */
static void again(struct nic_cm_id *id, const struct cm_rx *rx)
{
	CM_COUNT(id->cm, rx_dup_req);
	if (id->abort_reason)
		cm_answer_rej(rx, CM_ANSWERS_REQ, id->abort_reason);
	else if (id->saved_attr == CM_MRA || id->saved_attr == CM_REP || id->saved_attr == CM_REJ)
		cm_send_saved(id);
}

void cm_stale(struct nic_cm_id *old)
{
	CM_COUNT(old->cm, stale);
	if (old->state == NIC_CM_ESTABLISHED)
		cm_dreq_send(old, NULL, 0);
}

struct nic_cm_id *cm_stale_find(const struct cm_rx *rx, uint32_t qpn)
{
	struct nic_cm_id *id = cm_by_peer(rx->cm, &rx->route->peer, rx->mad->local_id, false);

	if (id && (id->state == NIC_CM_IDLE || id->state == NIC_CM_TIMEWAIT)) {
		/* The connection `id` has ended, and the peer reuses its communication ID for a new one. */
		cm_hash_remove(&rx->cm->peer, &id->by_peer);
		id = NULL;
	}
	if (!id && qpn)
		id = cm_by_qpn(rx->cm, &rx->route->peer, qpn);
	return id;
}

/** @return 0, or the reason for which this REQ is refused */
static uint16_t wrong(const struct cm_rx *rx)
{
	const struct cm_req *req = &rx->mad->req;

	if (req->transport == CM_RD || (req->transport == CM_EXTENDED && req->extended_transport != CM_EXTENDED_XRC))
		return NIC_CM_REJ_INVALID_TRANSPORT;
	if (req->mtu < NIC_MTU_256 || req->mtu > NIC_MTU_4096)
		return NIC_CM_REJ_INVALID_MTU;
	/* The connection will use the addresses in the REQ, so they must be the addresses of the packet that carried
	 * the REQ. */
	if (!cm_same_gid(&req->primary.local_gid, &rx->route->peer) ||
	    !cm_same_gid(&req->primary.remote_gid, &rx->route->own))
		return NIC_CM_REJ_INVALID_GID;
	return 0;
}

static void req_known(struct nic_cm_id *id, const struct cm_mad *mad)
{
	const struct cm_req *req = &mad->req;

	id->remote_id = mad->local_id;
	id->remote_qpn = req->qpn;
	id->tid = mad->tid;
	id->xrc = req->transport == CM_EXTENDED;
	id->alternate = !gid_is_zero(&req->alternate.local_gid);
	id->responder_resources = req->initiator_depth;
	id->initiator_depth = req->responder_resources;
	id->ack_timeout = req->primary.ack_timeout;
	id->packet_life = req->primary.ack_timeout ? req->primary.ack_timeout - 1 : 0;
	id->response_timeout = cm_at_most(req->local_cm_response_timeout, CM_TIME_MAX);
	id->patience = req->remote_cm_response_timeout;
	id->max_retries = req->max_cm_retries;
	id->wait_ns = cm_wait_ns(id);
	id->private_rcvd = cm_private_used(mad->data, mad->data_len);
	cm_peer_known(id);
	cm_qpn_known(id);
}

static struct nic_cm_req_event event_of(const struct nic_cm_id *id, const struct cm_mad *mad)
{
	const struct cm_req *req = &mad->req;

	return (struct nic_cm_req_event){
		.service_id = req->service_id,
		.remote_ca_guid = req->ca_guid,
		.local_gid = req->primary.remote_gid,
		.remote_gid = req->primary.local_gid,
		.remote_qpn = req->qpn,
		.remote_qkey = req->qkey,
		.starting_psn = req->starting_psn,
		.flow_label = req->primary.flow_label,
		.pkey = req->pkey,
		.transport = id->xrc		       ? NIC_CM_XRC
			     : req->transport == CM_UC ? NIC_CM_UC
						       : NIC_CM_RC,
		.mtu = (enum nic_mtu)req->mtu,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.local_cm_response_timeout = req->remote_cm_response_timeout,
		.remote_cm_response_timeout = req->local_cm_response_timeout,
		.max_cm_retries = req->max_cm_retries,
		.flow_control = req->flow_control,
		.retry_count = req->retry_count,
		.rnr_retry_count = req->rnr_retry_count,
		.srq = req->srq,
		.ack_timeout = id->ack_timeout,
		.packet_life = id->packet_life,
		.traffic_class = req->primary.traffic_class,
		.hop_limit = req->primary.hop_limit,
		.sl = req->primary.sl,
		.rate = req->primary.rate,
		.alternate = id->alternate,
		.ece = {req->vendor_id, mad->attr_mod},
	};
}

static void req_new(const struct cm_rx *rx)
{
	uint16_t reason;
	struct nic_cm_id *id = cm_pending_new(rx, rx->mad->req.service_id, CM_CONNECTION, &reason);
	struct nic_cm_event event = {.type = NIC_CM_EVENT_REQ, .route = rx->route};

	if (!id) {
		cm_answer_rej(rx, CM_ANSWERS_REQ, reason);
		return;
	}
	req_known(id, rx->mad);
	cm_id_set(id, NIC_CM_REQ_RCVD);
	event.listener = id->listener;
	event.req = event_of(id, rx->mad);
	cm_event_mad(id, &event, rx);
}

void cm_req_rx(const struct cm_rx *rx)
{
	struct nic_cm_id *id;
	uint16_t reason;

	if (!rx->mad->local_id) {
		CM_COUNT(rx->cm, rx_no_id);
		return;
	}
	id = cm_by_peer(rx->cm, &rx->route->peer, rx->mad->local_id, false);
	if (id && id->passive && id->tid == rx->mad->tid) {
		again(id, rx);
		return;
	}
	reason = wrong(rx); /* before cm_stale(): a REQ that cannot be accepted must not end a connection */
	if (reason) {
		cm_answer_rej(rx, CM_ANSWERS_REQ, reason);
		return;
	}
	id = cm_stale_find(rx, rx->mad->req.qpn);
	if (!id) {
		req_new(rx);
		return;
	}
	cm_answer_rej(rx, CM_ANSWERS_REQ, NIC_CM_REJ_STALE);
	cm_stale(id);
}

/* ---- REP ------------------------------------------------------------------------------------------------------- */

static bool accept_ok(const struct nic_cm_accept *a)
{
	return a->qpn <= 0xffffff && a->starting_psn <= 0xffffff && a->target_ack_delay <= 31 && a->failover <= 2 &&
	       a->rnr_retry_count <= 7 && a->ece.vendor_id <= 0xffffff && a->private_len <= NIC_CM_REP_PRIVATE &&
	       (a->private_data || !a->private_len);
}

int nic_cm_accept(struct nic_cm_id *id, const struct nic_cm_accept *a)
{
	struct cm_mad mad;

	if ((id->state != NIC_CM_REQ_RCVD && id->state != NIC_CM_MRA_REQ_SENT) || !accept_ok(a))
		return -EINVAL;
	cm_answered(id);
	id->local_qpn = a->qpn;
	/* The values in the REQ are upper limits (12.7.29, 12.7.30). */
	id->responder_resources = cm_at_most(a->responder_resources, id->responder_resources);
	id->initiator_depth = cm_at_most(a->initiator_depth, id->initiator_depth);
	id->private_sent = cm_private_used(a->private_data, a->private_len);
	cm_id_set(id, NIC_CM_REP_SENT);
	mad = cm_mad_of(id, CM_REP);
	mad.attr_mod = a->ece.options;
	mad.rep = (struct cm_rep){
		.ca_guid = id->cm->config.ca_guid,
		.vendor_id = a->ece.vendor_id,
		.qkey = a->qkey,
		.qpn = id->xrc ? 0 : a->qpn,
		.local_eecn = id->xrc ? a->qpn : 0,
		.starting_psn = a->starting_psn,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.target_ack_delay = a->target_ack_delay,
		.failover_accepted = !id->alternate ? 0
				     : a->failover  ? a->failover
						    : 1,
		.flow_control = a->flow_control != 0,
		.rnr_retry_count = a->rnr_retry_count,
		.srq = a->srq != 0,
	};
	cm_mad_data(&mad, a->private_data, a->private_len);
	cm_send_timed(id, &mad);
	return 0;
}

void cm_rep_failed(struct nic_cm_id *id)
{
	struct nic_cm_reject reject = {.reason = NIC_CM_REJ_TIMEOUT};

	cm_rep_abort(id, &reject);
	cm_event(id, NIC_CM_EVENT_REP_ERROR);
}

/* ---- RTU ------------------------------------------------------------------------------------------------------- */

static void established(struct nic_cm_id *id)
{
	cm_timer_stop(id);
	id->saved_attr = 0;
	cm_id_set(id, NIC_CM_ESTABLISHED);
}

void cm_rtu_rx(struct nic_cm_id *id, const struct cm_rx *rx)
{
	struct nic_cm_event event = {.type = NIC_CM_EVENT_RTU};

	established(id);
	cm_event_mad(id, &event, rx);
}

void cm_rtu_dup(struct nic_cm_id *id, const struct cm_rx *rx)
{
	CM_COUNT(rx->cm, rx_dup_rtu);
	if (id->abort_reason) /* this side sent a REJ after its REP; the REJ may have been lost: send another */
		cm_answer_rej(rx, CM_ANSWERS_OTHER, id->abort_reason);
}

int nic_cm_notify(struct nic_cm_id *id)
{
	if (id->state == NIC_CM_ESTABLISHED)
		return -EISCONN;
	if (id->state != NIC_CM_REP_SENT && id->state != NIC_CM_MRA_REP_RCVD)
		return -EINVAL;
	established(id);
	cm_event(id, NIC_CM_EVENT_USER_ESTABLISHED);
	return 0;
}
