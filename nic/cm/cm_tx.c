/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_tx.c - sends MADs. A MAD of an id goes out on the id's route. An answer that is not saved in an id goes to the
 * sender of the MAD that it answers. */
#include "cm.h"

#define SENT(name) NIC_CM_COUNT_tx_##name

/** The counter for the first transmission of a message. */
static enum nic_cm_counter counter_of(enum cm_attr attr)
{
	static const enum nic_cm_counter of[] = {
		[CM_REQ - CM_ATTR_FIRST] = SENT(req),		[CM_MRA - CM_ATTR_FIRST] = SENT(mra),
		[CM_REJ - CM_ATTR_FIRST] = SENT(rej),		[CM_REP - CM_ATTR_FIRST] = SENT(rep),
		[CM_RTU - CM_ATTR_FIRST] = SENT(rtu),		[CM_DREQ - CM_ATTR_FIRST] = SENT(dreq),
		[CM_DREP - CM_ATTR_FIRST] = SENT(drep),		[CM_SIDR_REQ - CM_ATTR_FIRST] = SENT(sidr_req),
		[CM_SIDR_REP - CM_ATTR_FIRST] = SENT(sidr_rep), [CM_LAP - CM_ATTR_FIRST] = NIC_CM_COUNTERS,
		[CM_APR - CM_ATTR_FIRST] = SENT(apr),
	};

	return of[attr - CM_ATTR_FIRST];
}

struct cm_mad cm_mad_of(const struct nic_cm_id *id, enum cm_attr attr)
{
	return (struct cm_mad){
		.attr = attr,
		.tid = id->tid,
		.local_id = id->sidr ? 0 : id->local_id,
		.remote_id = id->sidr ? 0 : id->remote_id,
	};
}

bool cm_mad_data(struct cm_mad *mad, const void *data, uint32_t len)
{
	if (len > cm_mad_room(mad->attr) || (len && !data))
		return false;
	mad->data = data;
	mad->data_len = (uint8_t)len;
	return true;
}

static void transmit(struct nic_cm *cm, const struct nic_cm_route *route, const uint8_t *bytes)
{
	cm->config.send(cm->config.ctx, route, bytes);
}

void cm_send_save(struct nic_cm_id *id, const struct cm_mad *mad)
{
	cm_mad_build(mad, id->saved);
	id->saved_attr = mad->attr;
	id->cm->counts[counter_of(mad->attr)]++;
	transmit(id->cm, &id->route, id->saved);
}

void cm_send_timed(struct nic_cm_id *id, const struct cm_mad *mad)
{
	id->tries = id->max_retries;
	id->mra_tries = CM_NO_MRA;
	cm_timer_start(id, id->wait_ns);
	cm_send_save(id, mad);
}

void cm_send_saved(struct nic_cm_id *id)
{
	transmit(id->cm, &id->route, id->saved);
}

struct cm_mad cm_mad_answer(const struct cm_rx *rx, enum cm_attr attr)
{
	return (struct cm_mad){
		.attr = attr, .tid = rx->mad->tid, .local_id = rx->mad->remote_id, .remote_id = rx->mad->local_id};
}

void cm_answer(const struct cm_rx *rx, const struct cm_mad *mad)
{
	uint8_t bytes[CM_MAD_LEN];

	cm_mad_build(mad, bytes);
	rx->cm->counts[counter_of(mad->attr)]++;
	transmit(rx->cm, rx->route, bytes);
}

void cm_answer_rej(const struct cm_rx *rx, enum cm_answered answered, uint16_t reason)
{
	struct cm_mad rej = cm_mad_answer(rx, CM_REJ);

	rej.rej = (struct cm_rej){.reason = reason, .answered = (uint8_t)answered};
	cm_answer(rx, &rej);
}

void cm_answer_drep(const struct cm_rx *rx)
{
	struct cm_mad drep = cm_mad_answer(rx, CM_DREP);

	cm_answer(rx, &drep);
}
