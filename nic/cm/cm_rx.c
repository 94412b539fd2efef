/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_rx.c - received MADs: finds the id that a MAD is for, checks that the sender is the id's peer, and calls the
 * handler of the id's state. The ids in a MAD are not trusted: a sender that is not the peer changes nothing.
 */
#include "cm.h"

#include <errno.h>

typedef void handler(struct nic_cm_id *id, const struct cm_rx *rx);

/*
 * The handler of each message in each state (state tables in IBTA 12.9.7). A message without a handler is counted and
 * dropped. REQ, SIDR_REQ, LAP and APR are not in the table: see nic_cm_rx. A *_dup handler is for a message that the
 * peer has sent again, perhaps because our answer was lost, or that comes too late.
 */
static handler *const handlers[NIC_CM_STATES][CM_APR - CM_REQ + 1] = {
#define ON(attr) [CM_##attr - CM_REQ]
	[NIC_CM_IDLE] = {ON(REP) = cm_rep_dup, ON(RTU) = cm_rtu_dup, ON(REJ) = cm_rej_dup, ON(DREQ) = cm_dreq_late,
			 ON(DREP) = cm_drep_dup, ON(SIDR_REP) = cm_sidr_rep_dup},
	[NIC_CM_REQ_SENT] = {ON(REP) = cm_rep_rx, ON(REJ) = cm_rej_rx, ON(MRA) = cm_mra_rx},
	[NIC_CM_MRA_REQ_RCVD] = {ON(REP) = cm_rep_rx, ON(REJ) = cm_rej_rx, ON(MRA) = cm_mra_dup},
	[NIC_CM_REP_RCVD] = {ON(REP) = cm_rep_dup, ON(REJ) = cm_rej_rx},
	[NIC_CM_MRA_REP_SENT] = {ON(REP) = cm_rep_dup, ON(REJ) = cm_rej_rx},
	[NIC_CM_REQ_RCVD] = {ON(REJ) = cm_rej_rx},
	[NIC_CM_MRA_REQ_SENT] = {ON(REJ) = cm_rej_rx},
	[NIC_CM_REP_SENT] = {ON(RTU) = cm_rtu_rx, ON(REJ) = cm_rej_rx, ON(MRA) = cm_mra_rx, ON(DREQ) = cm_dreq_rx},
	[NIC_CM_MRA_REP_RCVD] = {ON(RTU) = cm_rtu_rx, ON(REJ) = cm_rej_rx, ON(MRA) = cm_mra_dup, ON(DREQ) = cm_dreq_rx},
	[NIC_CM_ESTABLISHED] = {ON(REP) = cm_rep_dup, ON(RTU) = cm_rtu_dup, ON(REJ) = cm_rej_rx, ON(DREQ) = cm_dreq_rx},
	[NIC_CM_DREQ_SENT] = {ON(REP) = cm_rep_dup, ON(RTU) = cm_rtu_dup, ON(REJ) = cm_rej_rx,
			      ON(DREQ) = cm_dreq_crossed, ON(DREP) = cm_drep_rx},
	[NIC_CM_DREQ_RCVD] = {ON(REP) = cm_rep_dup, ON(RTU) = cm_rtu_dup, ON(REJ) = cm_rej_dup, ON(DREQ) = cm_dreq_dup},
	[NIC_CM_TIMEWAIT] = {ON(REP) = cm_rep_dup, ON(RTU) = cm_rtu_dup, ON(REJ) = cm_rej_dup, ON(DREQ) = cm_dreq_late,
			     ON(DREP) = cm_drep_dup},
	[NIC_CM_SIDR_REQ_SENT] = {ON(SIDR_REP) = cm_sidr_rep_rx},
#undef ON
};

static void count(struct nic_cm *cm, enum cm_attr attr)
{
	static const enum nic_cm_counter of[] = {
		[CM_REQ - CM_ATTR_FIRST] = NIC_CM_COUNT_rx_req,
		[CM_MRA - CM_ATTR_FIRST] = NIC_CM_COUNT_rx_mra,
		[CM_REJ - CM_ATTR_FIRST] = NIC_CM_COUNT_rx_rej,
		[CM_REP - CM_ATTR_FIRST] = NIC_CM_COUNT_rx_rep,
		[CM_RTU - CM_ATTR_FIRST] = NIC_CM_COUNT_rx_rtu,
		[CM_DREQ - CM_ATTR_FIRST] = NIC_CM_COUNT_rx_dreq,
		[CM_DREP - CM_ATTR_FIRST] = NIC_CM_COUNT_rx_drep,
		[CM_SIDR_REQ - CM_ATTR_FIRST] = NIC_CM_COUNT_rx_sidr_req,
		[CM_SIDR_REP - CM_ATTR_FIRST] = NIC_CM_COUNT_rx_sidr_rep,
		[CM_LAP - CM_ATTR_FIRST] = NIC_CM_COUNT_rx_lap,
		[CM_APR - CM_ATTR_FIRST] = NIC_CM_COUNT_rx_apr,
	};

	cm->counts[of[attr - CM_ATTR_FIRST]]++;
}

/** Count a message to an id that does not exist here. Answer a REP, RTU or DREQ, so that its sender does not wait for
 *  us (12.9.8.3). */
static void unknown(const struct cm_rx *rx)
{
	switch (rx->mad->attr) {
	case CM_REP:
		CM_COUNT(rx->cm, rx_unknown_id);
		cm_answer_rej(rx, CM_ANSWERS_REP, NIC_CM_REJ_INVALID_COMM_ID);
		break;
	case CM_RTU:
		CM_COUNT(rx->cm, rx_unknown_id);
		cm_answer_rej(rx, CM_ANSWERS_OTHER, NIC_CM_REJ_INVALID_COMM_ID);
		break;
	case CM_DREQ:
		CM_COUNT(rx->cm, rx_dup_dreq);
		cm_answer_drep(rx);
		break;
	case CM_DREP:
		CM_COUNT(rx->cm, rx_dup_drep);
		break;
	case CM_REJ:
		CM_COUNT(rx->cm, rx_dup_rej);
		break;
	case CM_SIDR_REP:
		CM_COUNT(rx->cm, rx_dup_sidr_rep);
		break;
	default:
		CM_COUNT(rx->cm, rx_unknown_id);
	}
}

/** Whether the sender's communication id, if it has one, is the connection's remote id. Before a REP has arrived, the
 *  remote id is unknown and every id matches. */
static bool names(const struct nic_cm_id *id, const struct cm_mad *mad)
{
	if (id->sidr || id->state == NIC_CM_REQ_SENT || id->state == NIC_CM_MRA_REQ_RCVD)
		return true;
	if (!id->passive && id->remote_id == 0) /* the connection ended before a REP arrived */
		return true;
	return id->remote_id == mad->local_id;
}

/** Find the id that a message is for, or NULL. Set *bad if the id exists, but the MAD did not come from its peer. */
static struct nic_cm_id *find(const struct cm_rx *rx, bool *bad)
{
	const struct cm_mad *mad = rx->mad;
	bool sidr = mad->attr == CM_SIDR_REP;
	struct nic_cm_id *id;

	*bad = false;
	/* A peer that gives up its REQ may not know our id: it learns the id from our REP or MRA. Find the
	 * connection by the peer's id instead. */
	if (mad->attr == CM_REJ && !mad->remote_id) {
		id = cm_by_peer(rx->cm, &rx->route->peer, mad->local_id, false);
		return id && id->passive && id->state != NIC_CM_ESTABLISHED ? id : NULL;
	}
	id = cm_by_local(rx->cm, sidr ? mad->sidr_rep.request_id : mad->remote_id);
	if (!id || id->sidr != sidr)
		return NULL;
	*bad = !cm_same_gid(&id->route.peer, &rx->route->peer);
	return names(id, mad) ? id : NULL;
}

static void answer_lap(const struct cm_rx *rx)
{
	struct cm_mad apr = cm_mad_answer(rx, CM_APR);

	apr.apr.status = CM_APR_UNSUPPORTED;
	cm_answer(rx, &apr);
}

static void to_id(const struct cm_rx *rx)
{
	bool bad;
	struct nic_cm_id *id = find(rx, &bad);
	handler *handle;

	if (bad) {
		CM_COUNT(rx->cm, rx_bad_peer);
		return;
	}
	if (!id) {
		unknown(rx);
		return;
	}
	handle = handlers[id->state][rx->mad->attr - CM_REQ];
	if (handle)
		handle(id, rx);
	else
		CM_COUNT(rx->cm, rx_bad_state);
}

void nic_cm_rx(struct nic_cm *cm, const struct nic_cm_route *route, const void *mad, size_t len)
{
	struct cm_mad parsed;
	struct cm_rx rx = {cm, route, &parsed};
	enum cm_verdict verdict = cm_mad_parse(mad, len, &parsed);

	if (verdict != CM_MAD_OK) {
		cm->counts[NIC_CM_COUNT_rx_too_short + verdict -
			   CM_MAD_TOO_SHORT]++; /* these counters are in the order of cm_verdict.def */
		return;
	}
	count(cm, parsed.attr);
	switch (parsed.attr) {
	case CM_REQ:
		cm_req_rx(&rx);
		break;
	case CM_SIDR_REQ:
		cm_sidr_req_rx(&rx);
		break;
	case CM_LAP:
		answer_lap(&rx);
		break;
	case CM_APR:
		break;
	default:
		to_id(&rx);
	}
}

int nic_cm_peek(const void *mad, size_t len, struct nic_cm_peek *out)
{
	struct cm_mad parsed;

	*out = (struct nic_cm_peek){0};
	if (cm_mad_parse(mad, len, &parsed) != CM_MAD_OK)
		return -EBADMSG;
	out->sidr = parsed.attr == CM_SIDR_REQ || parsed.attr == CM_SIDR_REP;
	out->rej = parsed.attr == CM_REJ;
	out->request = parsed.attr == CM_REQ || parsed.attr == CM_SIDR_REQ;
	if (out->request)
		out->service_id = out->sidr ? parsed.sidr_req.service_id : parsed.req.service_id;
	else
		out->local_id = out->sidr ? parsed.sidr_rep.request_id : parsed.remote_id;
	return 0;
}
