/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma_event.c - turns events of connections (nic_cm.h) into events that librdmacm reads. Runs in the engine's callback,
 * with the engine's lock held. A request creates a new id, which the program gets with the event. Owns nothing.
 *
 * As with the kernel, the new id reports no events until the program has accepted it (its uid is 0 until then). If the
 * connection fails before that, the program's accept fails.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cma.h"

/* ---- parameters -------------------------------------------------------------------------------------- */

static void data_take(uint8_t *to, uint8_t *len, const uint8_t *from, uint32_t n)
{
	if (!from)
		return;
	if (n > UINT8_MAX)
		n = UINT8_MAX;
	memcpy(to, from, n);
	*len = (uint8_t)n;
}

static void conn_data(struct cma_event *e, const struct nic_cm_event *event, uint32_t skip)
{
	struct rdma_ucm_conn_param *p = &e->resp.param.conn;

	data_take(p->private_data, &p->private_data_len, event->private_data ? event->private_data + skip : NULL,
		  event->private_len - skip);
}

static void ud_data(struct cma_event *e, const struct nic_cm_event *event, uint32_t skip)
{
	struct rdma_ucm_ud_param *p = &e->resp.param.ud;

	data_take(p->private_data, &p->private_data_len, event->private_data ? event->private_data + skip : NULL,
		  event->private_len - skip);
}

static void req_param(struct cma_event *e, const struct nic_cm_req_event *req)
{
	struct rdma_ucm_conn_param *p = &e->resp.param.conn;

	p->responder_resources = req->responder_resources;
	p->initiator_depth = req->initiator_depth;
	p->flow_control = req->flow_control;
	p->retry_count = req->retry_count;
	p->rnr_retry_count = req->rnr_retry_count;
	p->srq = req->srq;
	p->qp_num = req->remote_qpn;
	e->resp.ece.vendor_id = req->ece.vendor_id;
	e->resp.ece.attr_mod = req->ece.options;
}

static void rep_param(struct cma_event *e, const struct nic_cm_rep_event *rep)
{
	struct rdma_ucm_conn_param *p = &e->resp.param.conn;

	p->responder_resources = rep->responder_resources;
	p->initiator_depth = rep->initiator_depth;
	p->flow_control = rep->flow_control;
	p->rnr_retry_count = rep->rnr_retry_count;
	p->srq = rep->srq;
	p->qp_num = rep->remote_qpn;
	e->resp.ece.vendor_id = rep->ece.vendor_id;
	e->resp.ece.attr_mod = rep->ece.options;
}

static void rep_conn(struct cma_conn *c, const struct nic_cm_rep_event *rep)
{
	c->answered = true;
	c->remote_qpn = rep->remote_qpn;
	c->sq_psn = rep->starting_psn;
	c->responder_resources = rep->responder_resources;
	c->initiator_depth = rep->initiator_depth;
	c->rnr_retry_count = rep->rnr_retry_count;
	c->ack_timeout = rep->ack_timeout;
}

static void sidr_param(struct cma_event *e, struct cma_id *id, const struct nic_cm_sidr_rep_event *rep)
{
	struct rdma_ucm_ud_param *p = &e->resp.param.ud;

	if (rep->status != NIC_CM_SIDR_OK) {
		e->resp.event = UCMA_UNREACHABLE;
		e->resp.status = rep->status;
		return;
	}
	id->qkey = rep->qkey;
	p->qp_num = rep->qpn;
	p->qkey = rep->qkey;
	cma_ah_attr(id, &id->dst.gid, &p->ah_attr);
	e->resp.event = UCMA_ESTABLISHED;
	e->resp.ece.vendor_id = rep->ece.vendor_id;
	e->resp.ece.attr_mod = rep->ece.options;
}

/* ---- requests ---------------------------------------------------------------------------------------- */

static bool type_fits(const struct cma_id *listener, const struct nic_cm_event *event)
{
	if (event->type == NIC_CM_EVENT_SIDR_REQ)
		return cma_is_ud(listener);
	switch (event->req.transport) {
	case NIC_CM_RC:
		return listener->qp_type == UCMA_QPT_RC;
	case NIC_CM_UC:
		return listener->qp_type == UCMA_QPT_UC;
	case NIC_CM_XRC:
		return listener->qp_type == UCMA_QPT_XRC_RECV;
	}
	return false;
}

/** A listener takes requests of its own address family. An IPv6 listener without RDMA_OPTION_ID_AFONLY also takes IPv4
 * requests. */
static bool family_fits(const struct cma_id *listener, int family)
{
	return listener->src.family == family || (listener->src.family == AF_INET6 && !listener->one_family);
}

static void request_conn(struct cma_id *id, const struct nic_cm_req_event *req)
{
	id->conn = (struct cma_conn){.answered = true,
				     .rq_psn = cma_psn_random(),
				     .remote_qpn = req->remote_qpn,
				     .sq_psn = req->starting_psn,
				     .responder_resources = req->responder_resources,
				     .initiator_depth = req->initiator_depth,
				     .retry_count = req->retry_count,
				     .rnr_retry_count = req->rnr_retry_count,
				     .ack_timeout = req->ack_timeout,
				     .mtu = (uint8_t)req->mtu};
	id->path = (struct cma_path){.known = true,
				     .mtu = (uint8_t)req->mtu,
				     .packet_life = req->packet_life,
				     .traffic_class = req->traffic_class,
				     .hop_limit = req->hop_limit,
				     .sl = req->sl,
				     .flow_label = req->flow_label};
	id->src.gid = req->local_gid;
	id->dst.gid = req->remote_gid;
}

static void request_sidr(struct cma_id *id, const struct nic_cm_event *event, uint8_t mtu)
{
	id->path = (struct cma_path){.known = true,
				     .mtu = mtu,
				     .packet_life = CMA_PACKET_LIFE,
				     .traffic_class = event->route->traffic_class,
				     .hop_limit = CMA_HOP_LIMIT,
				     .flow_label = event->route->flow_label};
	id->src.gid = event->route->own;
	id->dst.gid = event->route->peer;
}

/** Fill in the new id of a request. cma_lock is still held, so no other thread can find the id yet. */
static void request_begin(struct cma_id *id, struct cma_device *device, const struct nic_cm_event *event)
{
	id->device = device;
	id->cm = event->id;
	id->state = CMA_CONNECT;
	nic_cm_id_set_user(event->id, id);
	if (event->type == NIC_CM_EVENT_REQ)
		request_conn(id, &event->req);
	else
		request_sidr(id, event, cma_device_mtu(device));
}

/** Create the id of a request, if the listener's backlog has room. cma_lock held. @return NULL: no room, no memory, or
 * the listener's file is closed */
static struct cma_id *request_id(struct cma_id *listener)
{
	struct cma_id *id;

	if (!listener->backlog)
		return NULL;
	id = cma_id_new(listener->file, listener->space, listener->qp_type);
	if (!id)
		return NULL;
	id->refs++; /* held by the event */
	listener->backlog--;
	return id;
}

static void request_event(struct cma_event *e, const struct nic_cm_event *event)
{
	e->resp.event = UCMA_CONNECT_REQUEST;
	if (event->type == NIC_CM_EVENT_REQ) {
		req_param(e, &event->req);
		conn_data(e, event, CMA_HEADER_LEN);
	} else {
		ud_data(e, event, CMA_HEADER_LEN);
	}
}

static bool request_queue(struct cma_device *device, struct cma_id *listener, const struct nic_cm_event *event,
			  const struct cma_addr *remote, const struct cma_addr *local)
{
	struct cma_event *e = calloc(1, sizeof(*e));

	if (!e)
		return false;
	request_event(e, event);
	pthread_mutex_lock(&cma_lock);
	e->id = listener;
	e->request = request_id(listener);
	if (e->request) {
		e->request->src = *local;
		e->request->src.port = listener->src.port;
		e->request->dst = *remote;
		request_begin(e->request, device, event);
		e->resp.uid = listener->uid;
		e->resp.id = e->request->number;
		cma_event_queue(e);
		e = NULL;
	}
	pthread_mutex_unlock(&cma_lock);
	free(e);
	return !e;
}

static void on_request(struct cma_device *device, const struct nic_cm_event *event)
{
	const struct nic_cm_reject no_service = {.reason = NIC_CM_REJ_INVALID_SERVICE_ID};
	struct cma_id *listener = nic_cm_id_user(event->listener);
	struct cma_addr remote, local;
	bool whole = event->private_data && cma_header_read(event->private_data, event->private_len, &remote, &local);

	if (whole && !family_fits(listener, remote.family) && event->type == NIC_CM_EVENT_REQ)
		nic_cm_reject(event->id, &no_service);
	else if (whole && family_fits(listener, remote.family) && type_fits(listener, event) &&
		 request_queue(device, listener, event, &remote, &local))
		return;
	nic_cm_id_destroy(event->id); /* rejects the request, unless it was rejected above */
}

/* ---- everything else --------------------------------------------------------------------------------- */

/** The librdmacm event that the program gets for each event of a connection. UINT32_MAX: none, or see on_request(). */
static const struct {
	uint32_t type;
	int status;
	bool ends; /* the event ends the connection */
} seen[NIC_CM_EVENTS] = {
	[NIC_CM_EVENT_REQ] = {UINT32_MAX},
	[NIC_CM_EVENT_REP] = {UCMA_CONNECT_RESPONSE},
	[NIC_CM_EVENT_RTU] = {UCMA_ESTABLISHED},
	[NIC_CM_EVENT_USER_ESTABLISHED] = {UCMA_ESTABLISHED},
	[NIC_CM_EVENT_REJ] = {UCMA_REJECTED},
	[NIC_CM_EVENT_MRA] = {UINT32_MAX},
	[NIC_CM_EVENT_REQ_ERROR] = {UCMA_UNREACHABLE, -ETIMEDOUT},
	[NIC_CM_EVENT_REP_ERROR] = {UCMA_UNREACHABLE, -ETIMEDOUT},
	[NIC_CM_EVENT_DREQ] = {UCMA_DISCONNECTED, 0, true},
	[NIC_CM_EVENT_DREP] = {UCMA_DISCONNECTED, 0, true},
	[NIC_CM_EVENT_DREQ_ERROR] = {UCMA_DISCONNECTED, -ETIMEDOUT, true},
	[NIC_CM_EVENT_TIMEWAIT_EXIT] = {UCMA_TIMEWAIT_EXIT},
	[NIC_CM_EVENT_SIDR_REQ] = {UINT32_MAX},
	[NIC_CM_EVENT_SIDR_REP] = {UCMA_ESTABLISHED},
	[NIC_CM_EVENT_SIDR_REQ_ERROR] = {UCMA_UNREACHABLE, -ETIMEDOUT},
};

static void param_fill(struct cma_event *e, struct cma_id *id, const struct nic_cm_event *event)
{
	switch (event->type) {
	case NIC_CM_EVENT_REP:
		rep_param(e, &event->rep);
		conn_data(e, event, 0);
		break;
	case NIC_CM_EVENT_REJ:
		e->resp.status = event->rej.reason;
		conn_data(e, event, 0);
		break;
	case NIC_CM_EVENT_SIDR_REP:
		sidr_param(e, id, &event->sidr_rep);
		ud_data(e, event, 0);
		break;
	default:
		break;
	}
}

static void event_pass(struct cma_id *id, const struct nic_cm_event *event)
{
	struct cma_event *e;

	pthread_mutex_lock(&cma_lock);
	if (id->uid) {
		e = cma_id_event(id);
		e->id = id;
		e->resp.uid = id->uid;
		e->resp.id = id->number;
		e->resp.event = seen[event->type].type;
		e->resp.status = (uint32_t)seen[event->type].status;
		param_fill(e, id, event);
		cma_event_queue(e);
	}
	pthread_mutex_unlock(&cma_lock);
}

void cma_event_from_cm(void *ctx, const struct nic_cm_event *event)
{
	struct cma_id *id;

	if (event->type == NIC_CM_EVENT_REQ || event->type == NIC_CM_EVENT_SIDR_REQ) {
		on_request(ctx, event);
		return;
	}
	id = nic_cm_id_user(event->id);
	if (!id || seen[event->type].type == UINT32_MAX)
		return;
	if (id->state != (event->type == NIC_CM_EVENT_TIMEWAIT_EXIT ? CMA_DISCONNECT : CMA_CONNECT))
		return;
	if (event->type == NIC_CM_EVENT_REP)
		rep_conn(&id->conn, &event->rep);
	if (seen[event->type].ends)
		id->state = CMA_DISCONNECT;
	event_pass(id, event);
}
