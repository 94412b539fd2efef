/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_active.c - the active side of a connection: sends the REQ, receives the REP, sends the RTU (IBTA 12.9.7.1). This
 * file also handles MRA, for both sides.
 */
#include "cm.h"

#include <errno.h>

/* ---- REQ ------------------------------------------------------------------------------------------------------- */

static bool connect_ok(const struct nic_cm_connect *c)
{
	return c->qpn <= 0xffffff && c->starting_psn <= 0xffffff && c->transport <= NIC_CM_XRC &&
	       c->mtu >= NIC_MTU_256 && c->mtu <= NIC_MTU_4096 && c->retry_count <= 7 && c->rnr_retry_count <= 7 &&
	       c->packet_life <= 31 && c->sl <= 15 && c->rate <= 63 && c->route.flow_label <= 0xfffff &&
	       c->ece.vendor_id <= 0xffffff && c->remote_cm_response_timeout <= 31 &&
	       c->local_cm_response_timeout <= 31 && c->max_cm_retries <= 15 && c->private_len <= NIC_CM_REQ_PRIVATE &&
	       (c->private_data || !c->private_len);
}

static struct cm_path path_of(const struct nic_cm_id *id, const struct nic_cm_connect *c)
{
	return (struct cm_path){
		.local_gid = c->route.own,
		.remote_gid = c->route.peer,
		.flow_label = c->route.flow_label,
		.local_lid = 0xffff,
		.remote_lid = 0xffff,
		.rate = c->rate,
		.traffic_class = c->route.traffic_class,
		.hop_limit = c->route.hop_limit,
		.sl = c->sl,
		.ack_timeout = id->ack_timeout,
	};
}

static struct cm_req req_of(const struct nic_cm_id *id, const struct nic_cm_connect *c)
{
	bool xrc = c->transport == NIC_CM_XRC;

	return (struct cm_req){
		.service_id = c->service_id,
		.ca_guid = id->cm->config.ca_guid,
		.vendor_id = c->ece.vendor_id,
		.qkey = c->qkey,
		.qpn = c->qpn,
		.starting_psn = c->starting_psn,
		.pkey = c->pkey ? c->pkey : 0xffff,
		.responder_resources = c->responder_resources,
		.initiator_depth = c->initiator_depth,
		.remote_cm_response_timeout = c->remote_cm_response_timeout,
		.local_cm_response_timeout = c->local_cm_response_timeout,
		.transport = xrc			 ? CM_EXTENDED
			     : c->transport == NIC_CM_UC ? CM_UC
							 : CM_RC,
		.extended_transport = xrc ? CM_EXTENDED_XRC : 0,
		.flow_control = c->flow_control != 0,
		.retry_count = c->retry_count,
		.rnr_retry_count = c->rnr_retry_count,
		.mtu = (uint8_t)c->mtu,
		.max_cm_retries = c->max_cm_retries,
		.srq = c->srq != 0,
		.primary = path_of(id, c),
	};
}

int nic_cm_connect(struct nic_cm *cm, const struct nic_cm_connect *c, struct nic_cm_id **out)
{
	struct nic_cm_id *id;
	struct cm_mad mad;
	int rc;

	if (!connect_ok(c))
		return -EINVAL;
	rc = cm_id_new(cm, CM_CONNECTION, &id);
	if (rc)
		return rc;
	id->user = c->user;
	id->service_id = c->service_id;
	id->route = c->route;
	id->local_qpn = c->qpn;
	id->xrc = c->transport == NIC_CM_XRC;
	id->responder_resources = c->responder_resources;
	id->initiator_depth = c->initiator_depth;
	id->packet_life = c->packet_life;
	id->ack_timeout = nic_cm_ack_timeout(c->packet_life, cm->config.ack_delay);
	id->response_timeout = c->remote_cm_response_timeout;
	id->patience = c->local_cm_response_timeout;
	id->max_retries = c->max_cm_retries;
	id->wait_ns = cm_wait_ns(id);
	id->tid = (uint64_t)cm->config.random(cm->config.ctx) << 32 | id->local_id;
	id->private_sent = cm_private_used(c->private_data, c->private_len);
	cm_id_set(id, NIC_CM_REQ_SENT);
	mad = cm_mad_of(id, CM_REQ);
	mad.attr_mod = c->ece.options;
	mad.req = req_of(id, c);
	cm_mad_data(&mad, c->private_data, c->private_len);
	*out = id;
	cm_send_timed(id, &mad);
	return 0;
}

void cm_req_failed(struct nic_cm_id *id)
{
	/* The peer may still be about to answer: tell it by a REJ that this side no longer waits (12.9.8.1). Linux
	 * finds its end of the connection by our GUID in the REJ. */
	struct nic_cm_reject reject = {.reason = NIC_CM_REJ_TIMEOUT};
	uint8_t guid[8];

	for (unsigned i = 0; i < sizeof(guid); i++)
		guid[i] = (uint8_t)(id->cm->config.ca_guid >> (56 - 8 * i));
	reject.info = guid;
	reject.info_len = sizeof(guid);
	cm_id_set(id, NIC_CM_IDLE);
	cm_rej_send(id, CM_ANSWERS_OTHER, &reject);
	cm_event(id, NIC_CM_EVENT_REQ_ERROR);
}

/* ---- REP ------------------------------------------------------------------------------------------------------- */

/** Whether the peer's id or QP in a REP already belongs to another connection here. The peer must have lost that
 *  connection (12.9.8.3.1): end it, and reject the REP. */
static bool rep_stale(struct nic_cm_id *id, const struct cm_rx *rx, uint32_t qpn)
{
	struct nic_cm_id *old = cm_stale_find(rx, qpn);
	struct nic_cm_reject reject = {.reason = NIC_CM_REJ_STALE};

	if (!old)
		return false;
	cm_stale(old);
	cm_timer_stop(id);
	id->remote_id = rx->mad->local_id;
	cm_id_set(id, NIC_CM_IDLE);
	cm_rej_send(id, CM_ANSWERS_REP, &reject);
	cm_event(id, NIC_CM_EVENT_REQ_ERROR);
	return true;
}

static void rep_known(struct nic_cm_id *id, const struct cm_mad *mad, uint32_t qpn)
{
	id->remote_id = mad->local_id;
	id->remote_qpn = qpn;
	id->responder_resources = cm_at_most(id->responder_resources, mad->rep.initiator_depth);
	id->initiator_depth = cm_at_most(id->initiator_depth, mad->rep.responder_resources);
	id->ack_timeout = nic_cm_ack_timeout(id->packet_life, mad->rep.target_ack_delay);
	id->private_rcvd = cm_private_used(mad->data, mad->data_len);
	id->saved_attr = 0;
	cm_timer_stop(id);
	cm_peer_known(id);
	cm_qpn_known(id);
	cm_id_set(id, NIC_CM_REP_RCVD);
}

void cm_rep_rx(struct nic_cm_id *id, const struct cm_rx *rx)
{
	const struct cm_rep *rep = &rx->mad->rep;
	uint32_t qpn = id->xrc ? rep->local_eecn : rep->qpn; /* for XRC, the REP has the target QP in local_eecn */
	struct nic_cm_event event = {.type = NIC_CM_EVENT_REP};

	if (!rx->mad->local_id) {
		CM_COUNT(rx->cm, rx_no_id);
		return;
	}
	if (rep_stale(id, rx, qpn))
		return;
	rep_known(id, rx->mad, qpn);
	event.rep = (struct nic_cm_rep_event){
		.remote_ca_guid = rep->ca_guid,
		.remote_qpn = qpn,
		.remote_qkey = rep->qkey,
		.starting_psn = rep->starting_psn,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.target_ack_delay = rep->target_ack_delay,
		.ack_timeout = id->ack_timeout,
		.failover = rep->failover_accepted,
		.flow_control = rep->flow_control,
		.rnr_retry_count = rep->rnr_retry_count,
		.srq = rep->srq,
		.ece = {rep->vendor_id, rx->mad->attr_mod},
	};
	cm_event_mad(id, &event, rx);
}

void cm_rep_dup(struct nic_cm_id *id, const struct cm_rx *rx)
{
	CM_COUNT(rx->cm, rx_dup_rep);
	if (!id->remote_id) { /* this side gave up before a REP told it the peer's id, so its REJ could not name
			       * that id: send a REJ that does */
		cm_answer_rej(rx, CM_ANSWERS_REP, NIC_CM_REJ_INVALID_COMM_ID);
		return;
	}
	if (id->saved_attr == CM_RTU)
		CM_COUNT(rx->cm, tx_retry_rtu);
	if (id->saved_attr == CM_RTU || id->saved_attr == CM_MRA || id->saved_attr == CM_REJ)
		cm_send_saved(id);
}

/* ---- RTU ------------------------------------------------------------------------------------------------------- */

int nic_cm_establish(struct nic_cm_id *id, const void *private_data, uint32_t private_len)
{
	struct cm_mad mad = cm_mad_of(id, CM_RTU);

	if (id->state != NIC_CM_REP_RCVD && id->state != NIC_CM_MRA_REP_SENT)
		return -EINVAL;
	if (!cm_mad_data(&mad, private_data, private_len))
		return -EINVAL;
	cm_id_set(id, NIC_CM_ESTABLISHED);
	cm_send_save(id, &mad);
	return 0;
}

/* ---- MRA, of either side (12.6.6) ------------------------------------------------------------------------------- */

int nic_cm_mra(struct nic_cm_id *id, uint8_t service_timeout, const void *private_data, uint32_t private_len)
{
	bool req = id->state == NIC_CM_REQ_RCVD;
	struct cm_mad mad = cm_mad_of(id, CM_MRA);

	if ((!req && id->state != NIC_CM_REP_RCVD) || service_timeout > 31)
		return -EINVAL;
	if (!cm_mad_data(&mad, private_data, private_len))
		return -EINVAL;
	mad.mra = (struct cm_mra){req ? CM_ANSWERS_REQ : CM_ANSWERS_REP, service_timeout};
	cm_id_set(id, req ? NIC_CM_MRA_REQ_SENT : NIC_CM_MRA_REP_SENT);
	cm_send_save(id, &mad);
	return 0;
}

/** Wait for the peer's answer for as long as the peer's MRA asks. Only the first MRA of each try has this effect:
 *  otherwise a peer that keeps sending MRAs could keep the connection from ever timing out.
 *  @return false: the MRA is not for the MAD that this side has sent */
static bool wait_longer(struct nic_cm_id *id, const struct cm_rx *rx)
{
	const struct cm_mra *mra = &rx->mad->mra;

	if (mra->answered != (id->passive ? CM_ANSWERS_REP : CM_ANSWERS_REQ)) {
		CM_COUNT(rx->cm, rx_bad_state);
		return false;
	}
	if (id->tries == id->mra_tries)
		return true;
	id->mra_tries = id->tries;
	cm_timer_start(id, nic_timeout_ns(cm_at_most(mra->service_timeout, CM_TIME_MAX)) +
				   2 * nic_timeout_ns(cm_at_most(id->packet_life, CM_TIME_MAX)));
	return true;
}

void cm_mra_rx(struct nic_cm_id *id, const struct cm_rx *rx)
{
	struct nic_cm_event event = {.type = NIC_CM_EVENT_MRA, .service_timeout = rx->mad->mra.service_timeout};

	if (!wait_longer(id, rx))
		return;
	cm_id_set(id, id->passive ? NIC_CM_MRA_REP_RCVD : NIC_CM_MRA_REQ_RCVD);
	cm_event_mad(id, &event, rx);
}

void cm_mra_dup(struct nic_cm_id *id, const struct cm_rx *rx)
{
	CM_COUNT(rx->cm, rx_dup_mra);
	wait_longer(id, rx);
}
