/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_event.c - events for the owner. A state transition usually ends with an event. If the id has no owner, cm_settle
 * is called instead of the owner's callback, so that the transitions need not distinguish ids with and without an
 * owner.
 */
#include "cm.h"

/** Whether an event must not be delivered, because the owner has already got REP_ERROR, or has rejected the connection
 * after its REP. */
static bool hushed(const struct nic_cm_id *id, enum nic_cm_event_type type)
{
	return id->quiet && type != NIC_CM_EVENT_TIMEWAIT_EXIT && type != NIC_CM_EVENT_REP_ERROR;
}

void cm_settle(struct nic_cm_id *id)
{
	struct nic_cm *cm = id->cm;

	if (id->state != NIC_CM_IDLE && id->state != NIC_CM_TIMEWAIT && id->state != NIC_CM_DREQ_SENT)
		return;
	if (!cm_timer_runs(id)) {
		cm_id_free(id);
		return;
	}
	list_remove(&id->leftover);
	if (id->state != NIC_CM_IDLE) {
		list_append(&cm->leaving, &id->leftover);
		return;
	}
	list_append(&cm->lingering, &id->leftover);
	id->lingers = true;
	if (++cm->n_lingering > CM_LINGER_MAX)
		cm_lingering_free(cm);
}

static void deliver(struct nic_cm_id *id, struct nic_cm_event *event)
{
	if (id->orphan) {
		cm_settle(id);
		return;
	}
	if (hushed(id, event->type))
		return;
	event->id = id;
	id->cm->config.event(id->cm->config.ctx, event);
}

void cm_event(struct nic_cm_id *id, enum nic_cm_event_type type)
{
	struct nic_cm_event event = {.type = type};

	deliver(id, &event);
}

void cm_event_mad(struct nic_cm_id *id, struct nic_cm_event *event, const struct cm_rx *rx)
{
	event->private_data = rx->mad->data;
	event->private_len = rx->mad->data_len;
	deliver(id, event);
}

uint32_t cm_private_used(const void *data, uint32_t len)
{
	const uint8_t *bytes = data;

	while (len && !bytes[len - 1])
		len--;
	return len;
}
