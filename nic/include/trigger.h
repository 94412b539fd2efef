/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trigger.h - the trigger unit: counters, and work that waits for one of them to reach a threshold. The third public
 * header of the NIC; the calling rules of nic.h apply.
 *
 * A counter has two parts, successes and failures. Work waits for their sum, so that it starts however the operations
 * ended. When a counter changes, all work whose threshold it then reaches becomes ready, whatever the counter does
 * afterwards: by threshold, and in queueing order where thresholds are equal. The NIC starts it at the end of the
 * call that changed the counter: work that changes counters starts more work, without recursion, and a chain needs no
 * application to run.
 *
 * Work that finds no room is retried when something has completed. Other work of the same counter stays behind it.
 *
 * Owners embed these structs in their own memory. The unit does not know what work does.
 */
#ifndef NIC_TRIGGER_H
#define NIC_TRIGGER_H

#include "list.h"
#include "nic.h"

struct nic_trig_work {
	/**
	 * Start the work. Called by the NIC once, from outside all other processing: unlike other callbacks this one
	 * may make requests. Unless it returns -EAGAIN, the work is its owner's again and may be freed within the
	 * call.
	 * @return 0: started, or failed and reported. -EAGAIN: no room now; the NIC calls again.
	 */
	int (*fire)(struct nic_trig_work *work);
	/* Private to the unit: */
	struct nic_trig_cntr *cntr; /* NULL: not waiting */
	struct list node;	    /* on cntr->ready */
	uint32_t at;		    /* in cntr->heap */
};

/** Waiting work with its sort key. */
struct nic_trig_entry {
	uint64_t threshold, order;
	struct nic_trig_work *work;
};

/** Changed only by the calls below. Without the lock that guards the NIC, read the parts with nic_trig_part. */
struct nic_trig_cntr {
	uint64_t part[2]; /* successes, failures */
	/* Private to the unit: */
	struct nic_trig_entry *heap; /* binary heap, lowest threshold first */
	uint32_t n, room;
	uint64_t order;	   /* of the next work queued */
	struct list ready; /* work to be started, in this order */
	struct list node;  /* on the NIC's list of counters with ready work, or of those waiting for room */
};

void nic_trig_cntr_init(struct nic_trig_cntr *c);
/** Work must no longer wait for it. */
void nic_trig_cntr_fini(struct nic_trig_cntr *c);

static inline uint64_t nic_trig_part(const struct nic_trig_cntr *c, bool failed)
{
	return __atomic_load_n(&c->part[failed], __ATOMIC_ACQUIRE);
}

/** Change a part. Also allowed in any callback of the NIC: ready work is then started at the end of the NIC's call. */
void nic_trig_add(struct nic *nic, struct nic_trig_cntr *c, bool failed, uint64_t n);
void nic_trig_set(struct nic *nic, struct nic_trig_cntr *c, bool failed, uint64_t value);

/** Make work wait for a counter, which may already have reached the threshold. @return 0, -ENOMEM. */
int nic_trig_queue(struct nic *nic, struct nic_trig_cntr *c, uint64_t threshold, struct nic_trig_work *work);
/** Reserve room for n works to wait for a counter: up to n, nic_trig_queue cannot fail. @return 0, -ENOMEM. */
int nic_trig_reserve(struct nic_trig_cntr *c, uint32_t n);
/** @return true: it was waiting and no longer is; false: it has been started. There is no third case. */
bool nic_trig_cancel(struct nic_trig_work *work);

/** Start ready work. Call after nic_trig_add, nic_trig_set or nic_trig_queue outside of callbacks. */
void nic_trig_run(struct nic *nic);
/** Room may have appeared without the NIC knowing: the next nic_trig_run retries. */
void nic_trig_retry(struct nic *nic);

#endif
