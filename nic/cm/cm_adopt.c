/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_adopt.c - records of connections, in memory that outlives the process, and adoption: another instance ends the
 * connections of a process that no longer exists. A record is complete at any time, because
 * cm_record_write writes the values that a state needs before it writes the state.
 */
#include "cm.h"

/* ---- Writing records -------------------------------------------------------------------------------------------- */

void cm_record_take(struct nic_cm_id *id)
{
	if (id->cm->n_free_record)
		id->record = id->cm->free_record[--id->cm->n_free_record];
}

void cm_record_give(struct nic_cm_id *id)
{
	if (id->record)
		id->cm->free_record[id->cm->n_free_record++] = id->record;
	id->record = NULL;
}

static void state_store(struct nic_cm_record *r, enum nic_cm_state state)
{
	__atomic_store_n(&r->state, (uint32_t)state, __ATOMIC_RELEASE);
}

void cm_record_write(struct nic_cm_id *id)
{
	struct nic_cm_record *r = id->record;

	if (!r)
		return;
	if (id->state != NIC_CM_IDLE) {
		r->local_id = id->local_id;
		r->remote_id = id->remote_id;
		r->local_qpn = id->local_qpn;
		r->remote_qpn = id->remote_qpn;
		r->flow_label = id->route.flow_label;
		r->own = id->route.own;
		r->peer = id->route.peer;
		r->service_id = id->service_id;
		r->response_timeout = id->response_timeout;
		r->max_retries = id->max_retries;
		r->ack_timeout = id->ack_timeout;
		r->traffic_class = id->route.traffic_class;
		r->hop_limit = id->route.hop_limit;
		r->passive = id->passive;
	}
	state_store(r, id->state);
}

/* ---- Taking over ------------------------------------------------------------------------------------------------ */

/** Whether a record is valid, and its local id is in this instance's range and not in use. *r is a private copy, which
 *  no other process can change. */
static bool sane(const struct nic_cm *cm, const struct nic_cm_record *r)
{
	uint64_t range = (uint64_t)1 << cm->config.id_bits;

	if (r->state < NIC_CM_REQ_SENT || r->state > NIC_CM_TIMEWAIT)
		return false;
	if (!r->local_id || r->local_id < cm->config.id_base || r->local_id - cm->config.id_base >= range)
		return false;
	if (r->local_qpn > 0xffffff || r->remote_qpn > 0xffffff || r->response_timeout > 31 || r->max_retries > 15)
		return false;
	/* The peer's ID is unknown until a REP arrives. It stays unknown in TIMEWAIT if a REJ answered the REQ. */
	if (!r->remote_id && r->state != NIC_CM_REQ_SENT && r->state != NIC_CM_MRA_REQ_RCVD &&
	    r->state != NIC_CM_TIMEWAIT)
		return false;
	return !gid_is_zero(&r->own) && !gid_is_zero(&r->peer) && !cm_by_local(cm, r->local_id);
}

static void fill(struct nic_cm_id *id, const struct nic_cm_record *r)
{
	id->orphan = true;
	id->passive = r->passive != 0;
	id->remote_id = r->remote_id;
	id->local_qpn = r->local_qpn;
	id->remote_qpn = r->remote_qpn;
	id->route = (struct nic_cm_route){r->own, r->peer, r->flow_label & 0xfffff, r->traffic_class, r->hop_limit};
	id->service_id = r->service_id;
	id->response_timeout = cm_at_most(r->response_timeout, CM_TIME_MAX);
	id->patience = id->response_timeout;
	id->max_retries = r->max_retries;
	id->ack_timeout = cm_at_most(r->ack_timeout, 31);
	id->packet_life = id->ack_timeout ? id->ack_timeout - 1 : 0;
	id->wait_ns = cm_wait_ns(id);
	id->tid = (uint64_t)id->cm->config.random(id->cm->config.ctx) << 32 | id->local_id;
}

/** End a connection whose process no longer exists, in the way that its state requires. */
static void end(struct nic_cm_id *id, enum nic_cm_state state)
{
	struct nic_cm_reject reject = {.reason = NIC_CM_REJ_CONSUMER};

	CM_COUNT(id->cm, adopted);
	if (id->remote_id)
		cm_peer_known(id);
	switch (state) {
	case NIC_CM_REQ_SENT:
	case NIC_CM_MRA_REQ_RCVD:
		cm_req_failed(id); /* frees the id */
		return;
	case NIC_CM_REQ_RCVD:
	case NIC_CM_MRA_REQ_SENT:
		cm_linger(id);
		cm_rej_send(id, CM_ANSWERS_REQ, &reject);
		break;
	case NIC_CM_REP_RCVD:
	case NIC_CM_MRA_REP_SENT:
		cm_timewait_enter(id);
		cm_rej_send(id, CM_ANSWERS_REP, &reject);
		break;
	case NIC_CM_REP_SENT:
	case NIC_CM_MRA_REP_RCVD:
		cm_rep_abort(id, &reject);
		break;
	case NIC_CM_ESTABLISHED:
	case NIC_CM_DREQ_SENT:
		cm_dreq_send(id, NULL, 0);
		break;
	case NIC_CM_DREQ_RCVD:
		cm_timewait_enter(id);
		cm_drep_send(id, NULL, 0);
		break;
	default: /* TIMEWAIT */
		cm_timewait_enter(id);
	}
	cm_settle(id);
}

uint32_t nic_cm_adopt(struct nic_cm *cm, const struct nic_cm_record *records, uint32_t n)
{
	uint32_t adopted = 0;

	for (uint32_t i = 0; i < n; i++) {
		struct nic_cm_record r;
		struct nic_cm_id *id;

		memcpy(&r, &records[i], sizeof(r));
		if (r.state == NIC_CM_IDLE)
			continue;
		if (!sane(cm, &r)) {
			CM_COUNT(cm, adopt_bad);
			continue;
		}
		if (cm_id_new_as(cm, CM_CONNECTION, r.local_id, &id)) {
			CM_COUNT(cm, adopt_failed);
			continue;
		}
		fill(id, &r);
		end(id, (enum nic_cm_state)r.state);
		adopted++;
	}
	return adopted;
}
