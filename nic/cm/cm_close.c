/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_close.c - refusing and ending connections: REJ, DREQ and DREP, time-wait, and ids that their owner destroys (IBTA
 * 12.6.7, 12.6.10, 12.6.11, 12.9.6).
 *
 * A REJ has no answer, so no timer retransmits it. If the peer may consider the connection established, a DREQ follows
 * the REJ. The DREQ is retransmitted until it is answered or no tries are left, so that the peer learns of the end.
 */
#include "cm.h"

#include <errno.h>

/* ---- Time-wait, and lingering ---------------------------------------------------------------------------------- */

void cm_timewait_enter(struct nic_cm_id *id)
{
	id->saved_attr = 0;
	cm_timer_start(id, nic_timeout_ns(cm_at_most(id->ack_timeout, CM_TIME_MAX)));
	cm_id_set(id, NIC_CM_TIMEWAIT);
}

void cm_timewait_over(struct nic_cm_id *id)
{
	cm_id_set(id, NIC_CM_IDLE);
	cm_hash_remove(&id->cm->peer, &id->by_peer);
	cm_event(id, NIC_CM_EVENT_TIMEWAIT_EXIT);
}

void cm_linger(struct nic_cm_id *id)
{
	uint64_t wait_ns = nic_timeout_ns(cm_at_most(id->patience, CM_TIME_MAX)) +
			   2 * nic_timeout_ns(cm_at_most(id->packet_life, CM_TIME_MAX));

	/* Linger until the peer has given up: a peer that gets none of our answers sends its request once and
	 * retransmits it max_retries times. */
	cm_timer_start(id, (id->max_retries + 1u) * wait_ns);
	cm_id_set(id, NIC_CM_IDLE);
}

void cm_linger_over(struct nic_cm_id *id)
{
	id->saved_attr = 0;
	cm_hash_remove(&id->cm->peer, &id->by_peer);
	if (id->orphan)
		cm_settle(id);
}

/* ---- REJ ------------------------------------------------------------------------------------------------------- */

void cm_rej_send(struct nic_cm_id *id, enum cm_answered answered, const struct nic_cm_reject *reject)
{
	struct cm_mad mad = cm_mad_of(id, CM_REJ);

	mad.rej = (struct cm_rej){.reason = reject->reason, .answered = (uint8_t)answered};
	mad.info = reject->info;
	mad.info_len = (uint8_t)reject->info_len;
	cm_mad_data(&mad, reject->private_data, reject->private_len);
	cm_send_save(id, &mad);
}

void cm_rep_abort(struct nic_cm_id *id, const struct nic_cm_reject *reject)
{
	cm_rej_send(id, CM_ANSWERS_OTHER, reject);
	id->quiet = true;
	id->abort_reason = reject->reason;
	cm_dreq_send(id, NULL, 0);
}

int nic_cm_reject(struct nic_cm_id *id, const struct nic_cm_reject *r)
{
	if (r->info_len > NIC_CM_INFO_LEN || (r->info_len && !r->info) || r->private_len > NIC_CM_REJ_PRIVATE ||
	    (r->private_len && !r->private_data))
		return -EINVAL;
	switch (id->state) {
	case NIC_CM_REQ_SENT:
	case NIC_CM_MRA_REQ_RCVD:
		cm_timer_stop(id);
		cm_id_set(id, NIC_CM_IDLE);
		cm_rej_send(id, CM_ANSWERS_OTHER, r);
		return 0;
	case NIC_CM_REQ_RCVD:
	case NIC_CM_MRA_REQ_SENT:
		cm_answered(id);
		cm_linger(id);
		cm_rej_send(id, CM_ANSWERS_REQ, r);
		return 0;
	case NIC_CM_REP_RCVD:
	case NIC_CM_MRA_REP_SENT:
		cm_timewait_enter(id);
		cm_rej_send(id, CM_ANSWERS_REP, r);
		return 0;
	case NIC_CM_REP_SENT:
	case NIC_CM_MRA_REP_RCVD:
		cm_rep_abort(id, r);
		return 0;
	default:
		return -EINVAL;
	}
}

void cm_rej_rx(struct nic_cm_id *id, const struct cm_rx *rx)
{
	const struct cm_mad *mad = rx->mad;
	struct nic_cm_event event = {.type = NIC_CM_EVENT_REJ};

	event.rej = (struct nic_cm_rej_event){mad->rej.reason, mad->rej.answered, mad->info_len, mad->info};
	cm_timer_stop(id);
	id->saved_attr = 0;
	if ((id->state == NIC_CM_REQ_SENT || id->state == NIC_CM_MRA_REQ_RCVD) && mad->rej.reason != NIC_CM_REJ_STALE)
		cm_id_set(id, NIC_CM_IDLE);
	else if (id->state == NIC_CM_REQ_RCVD || id->state == NIC_CM_MRA_REQ_SENT)
		cm_linger(id); /* a REQ that the peer sent before the REJ may arrive after the REJ */
	else /* also if a REJ "stale" answers our REQ: the peer still uses our QP in an older connection
	      * (12.9.8.3.1) */
		cm_timewait_enter(id);
	cm_event_mad(id, &event, rx);
}

void cm_rej_dup(struct nic_cm_id *id, const struct cm_rx *rx)
{
	(void)id;
	CM_COUNT(rx->cm, rx_dup_rej);
}

/* ---- DREQ and DREP --------------------------------------------------------------------------------------------- */

void cm_dreq_send(struct nic_cm_id *id, const void *private_data, uint32_t private_len)
{
	struct cm_mad mad;

	id->close_tid = (uint64_t)id->cm->config.random(id->cm->config.ctx) << 32 | id->local_id;
	cm_id_set(id, NIC_CM_DREQ_SENT);
	mad = cm_mad_of(id, CM_DREQ);
	mad.tid = id->close_tid;
	mad.dreq.remote_qpn = id->remote_qpn;
	cm_mad_data(&mad, private_data, private_len);
	cm_send_timed(id, &mad);
}

void cm_drep_send(struct nic_cm_id *id, const void *private_data, uint32_t private_len)
{
	struct cm_mad mad = cm_mad_of(id, CM_DREP);

	mad.tid = id->close_tid;
	cm_mad_data(&mad, private_data, private_len);
	cm_send_save(id, &mad);
}

int nic_cm_disconnect(struct nic_cm_id *id, const void *private_data, uint32_t private_len)
{
	if (private_len > NIC_CM_DREQ_PRIVATE || (private_len && !private_data))
		return -EINVAL;
	switch (id->state) {
	case NIC_CM_ESTABLISHED:
		cm_dreq_send(id, private_data, private_len);
		return 0;
	case NIC_CM_DREQ_RCVD:
		cm_timewait_enter(id);
		cm_drep_send(id, private_data, private_len);
		return 0;
	default:
		return -EINVAL;
	}
}

/** Whether a DREQ names this side's QP; a DREQ that names another QP does not come from the peer (12.6.10.3). */
static bool right_qpn(const struct nic_cm_id *id, const struct cm_rx *rx)
{
	if (rx->mad->dreq.remote_qpn == id->local_qpn)
		return true;
	CM_COUNT(rx->cm, rx_bad_qpn);
	return false;
}

void cm_dreq_rx(struct nic_cm_id *id, const struct cm_rx *rx)
{
	struct nic_cm_event event = {.type = NIC_CM_EVENT_DREQ};

	if (!right_qpn(id, rx))
		return;
	cm_timer_stop(id);
	id->saved_attr = 0;
	id->close_tid = rx->mad->tid;
	cm_id_set(id, NIC_CM_DREQ_RCVD);
	cm_event_mad(id, &event, rx);
}

/** Both sides have sent a DREQ at the same time: each side answers with a DREP, and treats the peer's DREQ as
 *  the answer to its own DREQ. */
void cm_dreq_crossed(struct nic_cm_id *id, const struct cm_rx *rx)
{
	struct nic_cm_event event = {.type = NIC_CM_EVENT_DREQ};

	if (!right_qpn(id, rx))
		return;
	id->close_tid = rx->mad->tid;
	cm_timewait_enter(id);
	cm_drep_send(id, NULL, 0);
	cm_event_mad(id, &event, rx);
}

void cm_dreq_dup(struct nic_cm_id *id, const struct cm_rx *rx)
{
	(void)id;
	CM_COUNT(rx->cm, rx_dup_dreq);
}

/** Answer a DREQ that arrives after the connection's end: our DREP was lost, or the peer did not know of the end. */
void cm_dreq_late(struct nic_cm_id *id, const struct cm_rx *rx)
{
	if (!right_qpn(id, rx))
		return;
	CM_COUNT(rx->cm, rx_dup_dreq);
	if (id->saved_attr == CM_DREP)
		cm_send_saved(id);
	else
		cm_answer_drep(rx);
}

void cm_drep_rx(struct nic_cm_id *id, const struct cm_rx *rx)
{
	struct nic_cm_event event = {.type = NIC_CM_EVENT_DREP};

	cm_timewait_enter(id);
	cm_event_mad(id, &event, rx);
}

void cm_drep_dup(struct nic_cm_id *id, const struct cm_rx *rx)
{
	(void)id;
	CM_COUNT(rx->cm, rx_dup_drep);
}

void cm_dreq_failed(struct nic_cm_id *id)
{
	cm_timewait_enter(id);
	cm_event(id, NIC_CM_EVENT_DREQ_ERROR);
}

/* ---- The owner destroys an id ----------------------------------------------------------------------------------- */

static void refuse(struct nic_cm_id *id, uint16_t reason)
{
	struct nic_cm_reject reject = {.reason = reason};

	nic_cm_reject(id, &reject);
}

void nic_cm_id_destroy(struct nic_cm_id *id)
{
	struct nic_cm_sidr_reply refusal = {.status = NIC_CM_SIDR_REJECT};

	id->orphan = true;
	id->user = NULL;
	cm_answered(id);
	switch (id->state) {
	case NIC_CM_LISTEN:
		cm_unlisten(id);
		cm_id_set(id, NIC_CM_IDLE);
		break;
	case NIC_CM_REQ_SENT:
	case NIC_CM_MRA_REQ_RCVD:
		cm_timer_stop(id);
		cm_req_failed(id); /* calls cm_settle */
		return;
	case NIC_CM_REQ_RCVD:
	case NIC_CM_MRA_REQ_SENT:
	case NIC_CM_REP_RCVD:
	case NIC_CM_MRA_REP_SENT:
	case NIC_CM_REP_SENT:
	case NIC_CM_MRA_REP_RCVD:
		refuse(id, NIC_CM_REJ_CONSUMER);
		break;
	case NIC_CM_ESTABLISHED:
	case NIC_CM_DREQ_RCVD:
		nic_cm_disconnect(id, NULL, 0);
		break;
	case NIC_CM_SIDR_REQ_SENT:
		cm_timer_stop(id);
		cm_id_set(id, NIC_CM_IDLE);
		break;
	case NIC_CM_SIDR_REQ_RCVD:
		nic_cm_sidr_reply(id, &refusal);
		break;
	default: /* IDLE, DREQ_SENT, TIMEWAIT: timers and retransmissions continue */
		break;
	}
	cm_settle(id);
}
