/* SPDX-License-Identifier: BSD-3-Clause */
/* event.h - pending events of objects. Private to nic/. */
#ifndef NIC_EVENT_H
#define NIC_EVENT_H

#include <stdbool.h>
#include <stdint.h>

#include "list.h"
#include "nic_event.h"

struct nic;

/** Pending events of an object; embedded in CQ, QP, SRQ and the instance (port). */
struct event_source {
	struct list node; /* on nic.events while bits != 0 */
	uint64_t bits;	  /* 1 << enum nic_event_type */
	void *user;
	bool silent; /* the object belongs to the NIC itself, so its events are not reported */
	/** NULL, or told of each event as it is raised, even if it is pending already or not reported. */
	void (*listener)(struct nic *nic, struct event_source *src, enum nic_event_type type);
};

void event_source_init(struct event_source *src, void *user);
/** Queue an event of src; does nothing if that event is queued already. */
void event_raise(struct nic *nic, struct event_source *src, enum nic_event_type type);
/** Drop the queued events of src, whose object is being destroyed. */
void event_source_fini(struct event_source *src);

#endif
