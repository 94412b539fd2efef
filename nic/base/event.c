/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * event.c - asynchronous events (IBTA 11.6.3) and completion notifications, queued in the objects they concern.
 * The NIC's event list holds each event source at most once, and the source has one bit per pending event type. So
 * queueing an event allocates no memory, and destroying an object drops its events. Events of one source come out in
 * numerical order of their types.
 */
#include "core.h"
#include "event.h"

void event_source_init(struct event_source *src, void *user)
{
	list_init(&src->node);
	src->bits = 0;
	src->user = user;
	src->silent = false;
	src->listener = NULL;
}

void event_raise(struct nic *nic, struct event_source *src, enum nic_event_type type)
{
	if (src->listener)
		src->listener(nic, src, type);
	if (src->silent)
		return;
	if (!src->bits)
		list_append(&nic->events, &src->node);
	src->bits |= 1ull << type;
	if (type != NIC_EVENT_COMP)
		trace_add(nic, 0, NIC_TR_event, type, 0);
}

void event_source_fini(struct event_source *src)
{
	src->bits = 0;
	list_remove(&src->node);
}

bool nic_event_next(struct nic *nic, struct nic_event *event)
{
	if (list_empty(&nic->events))
		return false;

	struct event_source *src = list_entry(list_first(&nic->events), struct event_source, node);
	unsigned type = (unsigned)__builtin_ctzll(src->bits);

	src->bits &= src->bits - 1;
	if (!src->bits)
		list_remove(&src->node);
	event->type = (enum nic_event_type)type;
	event->user = src->user;
	return true;
}
