/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trigger.h - the trigger unit: counters, and work that waits until one of them has reached a threshold. The third public header
 * of the NIC; what nic.h says of calls holds here.
 *
 * A counter has two parts, of what went well and of what failed. Work waits for their sum: who waits for something learns that it
 * is over, however it ended. Whenever a counter changes, all work whose threshold it has reached then is to be started, in the order
 * of thresholds, and of queueing where these are equal, whatever the counter does afterwards. The NIC starts it itself, at the
 * end of the call in which the counter has changed: work that changes counters starts more work, without recursion, and no
 * application has to run for a chain of it.
 *
 * What there is no room for now is tried again when something has completed. What waits for the same counter stays behind it.
 *
 * Counters and work are memory of their owners, who embed these structs. The unit knows nothing of what work does.
 */
#ifndef NIC_TRIGGER_H
#define NIC_TRIGGER_H

#include "list.h"
#include "nic.h"

struct nic_trig_work {
	/**
	 * Start it. Called once, by the NIC, when it is not amid anything else: unlike other callbacks this one may make requests. The
	 * work is the owner's again, who may free it.
	 * @return 0: it is on its way, or has failed and that has been told. -EAGAIN: there is no room now; the call comes again.
	 */
	int (*fire)(struct nic_trig_work *work);
	/* The unit's own: */
	struct nic_trig_cntr *cntr; /* NULL: it does not wait */
	struct list node;	    /* on cntr->ready */
	uint32_t at;		    /* in cntr->heap */
};

/** Work that waits, with what it is sorted by. */
struct nic_trig_entry {
	uint64_t threshold, order;
	struct nic_trig_work *work;
};

/** Changed by the calls below only. Who does not hold the lock that guards the NIC may look at both parts with nic_trig_part. */
struct nic_trig_cntr {
	uint64_t part[2]; /* what went well, what failed */
	/* The unit's own: */
	struct nic_trig_entry *heap; /* a binary one, the lowest threshold first */
	uint32_t n, room;
	uint64_t order;	   /* of the work that is queued next */
	struct list ready; /* work that is to be started, in this order */
	struct list node;  /* on the NIC's list of counters that have such, or of those that try again */
};

void nic_trig_cntr_init(struct nic_trig_cntr *c);
/** No work waits for it. */
void nic_trig_cntr_fini(struct nic_trig_cntr *c);

static inline uint64_t nic_trig_part(const struct nic_trig_cntr *c, bool failed)
{
	return __atomic_load_n(&c->part[failed], __ATOMIC_ACQUIRE);
}

/** Change a part. Called from any callback of the NIC, too: what is to be started is, later, at the end of that call. */
void nic_trig_add(struct nic *nic, struct nic_trig_cntr *c, bool failed, uint64_t n);
void nic_trig_set(struct nic *nic, struct nic_trig_cntr *c, bool failed, uint64_t value);

/** Have work wait for a counter, which may have reached the threshold already. @return 0, -ENOMEM. */
int nic_trig_queue(struct nic *nic, struct nic_trig_cntr *c, uint64_t threshold, struct nic_trig_work *work);
/** Make room for so much work to wait for a counter: to queue it does not fail then. @return 0, -ENOMEM. */
int nic_trig_reserve(struct nic_trig_cntr *c, uint32_t n);
/** @return true: it was waiting, and is not any more; false: it has been started. Nothing is between the two. */
bool nic_trig_cancel(struct nic_trig_work *work);

/** Start what is to be started, after calls of the three above outside of callbacks. */
void nic_trig_run(struct nic *nic);
/** There may be room, by something that the NIC does not know about. The next nic_trig_run tries. */
void nic_trig_retry(struct nic *nic);

#endif
