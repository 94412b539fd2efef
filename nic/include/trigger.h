/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trigger.h - the trigger unit: counters, and work that waits until a counter reaches a threshold. A public header
 * that nic.h does not include; the calling rules of nic.h apply.
 *
 * A counter has two parts, successes and failures. Work waits for the sum of both, so that it starts whether the
 * operations succeeded or failed. When a counter reaches the threshold of waiting work, that work becomes ready, and
 * stays ready whatever the counter does afterwards. Work that becomes ready at the same time starts in order of
 * threshold, and in queueing order if thresholds are equal. The NIC starts it at the end of the call that changed the
 * counter (after nic_trig_add, nic_trig_set or nic_trig_queue outside a callback: in nic_trig_run). Work can change
 * counters and so start more work: there is no recursion, and no application has to run for such a chain.
 *
 * If a queue has no room for the work, the NIC starts the work later: it retries after completions, and at intervals if
 * there are none. Until that work has started, the other ready work of the same counter waits.
 *
 * Owners embed struct nic_trig_work and struct nic_trig_cntr in their own memory. The trigger unit does not know what
 * the work does.
 */
#ifndef NIC_TRIGGER_H
#define NIC_TRIGGER_H

#include "list.h"
#include "nic.h"

struct nic_trig_work {
	/**
	 * Start the work. The NIC calls this when it is not processing anything else, so this callback may make
	 * requests, unlike other callbacks. Unless the callback returns -EAGAIN, the work belongs to its owner again,
	 * so the callback may free it.
	 * @return 0: the work was started, or it failed and the failure was reported. -EAGAIN: no room now; the NIC
	 * calls again later.
	 */
	int (*fire)(struct nic_trig_work *work);
	/* Private to the trigger unit: */
	struct nic_trig_cntr *cntr; /* the counter that the work waits for; NULL: none */
	struct list node;	    /* on cntr->ready */
	uint32_t at;		    /* index in cntr->heap */
};

/** Work that waits for a counter, with its sort key. */
struct nic_trig_entry {
	uint64_t threshold, order;
	struct nic_trig_work *work;
};

/** A counter. Only the functions below change it. Callers that do not hold the lock that guards the NIC read its
 *  parts with nic_trig_part. */
struct nic_trig_cntr {
	uint64_t part[2]; /* successes, failures */
	/* Private to the trigger unit: */
	struct nic_trig_entry *heap; /* lowest threshold first */
	uint32_t n, room;
	uint64_t order;	   /* sort key for the next work that is queued */
	struct list ready; /* work to start, first to last */
	struct list node;  /* on the NIC's list of counters with ready work, or of counters that wait for room */
};

void nic_trig_cntr_init(struct nic_trig_cntr *c);
/** Free a counter's memory. No work may be waiting for the counter. */
void nic_trig_cntr_fini(struct nic_trig_cntr *c);

static inline uint64_t nic_trig_part(const struct nic_trig_cntr *c, bool failed)
{
	return __atomic_load_n(&c->part[failed], __ATOMIC_ACQUIRE);
}

/** Change one part of a counter. Also allowed in any callback of the NIC: ready work then starts at the end of the
 *  call that ran the callback. */
void nic_trig_add(struct nic *nic, struct nic_trig_cntr *c, bool failed, uint64_t n);
void nic_trig_set(struct nic *nic, struct nic_trig_cntr *c, bool failed, uint64_t value);

/** Make work wait for a counter, which may already have reached the threshold. @return 0, -ENOMEM. */
int nic_trig_queue(struct nic *nic, struct nic_trig_cntr *c, uint64_t threshold, struct nic_trig_work *work);
/** Reserve room in a counter for n items of waiting work, including those that wait now: nic_trig_queue cannot fail up
 *  to that number. @return 0, -ENOMEM. */
int nic_trig_reserve(struct nic_trig_cntr *c, uint32_t n);
/** Cancel work that waits for a counter or is ready. @return true: the work will not start; false: there was nothing to
 *  cancel, because the work has already been started or was never queued. */
bool nic_trig_cancel(struct nic_trig_work *work);

/** Start ready work. Call this after nic_trig_add, nic_trig_set or nic_trig_queue, unless in a callback. */
void nic_trig_run(struct nic *nic);
/** Tell the NIC that room may have become free without its knowledge: the next nic_trig_run retries work that found
 *  no room. */
void nic_trig_retry(struct nic *nic);

#endif
