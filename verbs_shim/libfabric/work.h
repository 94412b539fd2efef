/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * work.h - requests that wait for a counter: triggered operations (trigger.c) and deferred work (deferred.c). Private
 * to verbs_shim/libfabric.
 *
 * A request is copied with its vectors and validated as if it were posted, so that the call reports its errors. The
 * NIC's trigger unit later starts the copy, with the engine's lock held and outside of any other call into the NIC.
 * From then on a triggered operation is an ordinary request. Deferred work is tracked until it completes, because its
 * completion is reported to a counter of its own.
 *
 * Whether work has been started or canceled is decided under the engine's lock: no state lies between the two.
 */
#ifndef UFI_WORK_H
#define UFI_WORK_H

#include "provider.h"
#include "requests.h"

/** Change a counter. */
struct ufi_counting {
	struct ufi_cntr *cntr;
	uint64_t value;
	bool add; /* add; else set */
};

struct ufi_work {
	struct nic_trig_work trig;
	struct list node;      /* in core->works or core->triggered */
	struct ufi_core *core; /* NULL: it changes a counter instead of posting */
	struct ufi_domain *domain;
	struct ufi_cntr *trigger;      /* NULL: started */
	struct ufi_cntr *completion;   /* NULL: none */
	struct fi_deferred_work *user; /* NULL: a triggered operation */
	uint32_t slot;		       /* index in the domain's slots, stored in `user` */
	bool repeats;		       /* completes several times; the last completion is marked (NIC_RDM_MULTI) */
	enum nic_rdm_kind kind;
	uint64_t flags;
	void *context; /* flags and context are the request's */
	/** Post to the NIC, or validate only (way->check). */
	int (*post)(struct ufi_work *work, const struct ufi_way *way);
	union {
		struct ufi_send send;
		struct ufi_recv recv;
		struct ufi_rma rma;
		struct ufi_atomic atomic;
		struct ufi_counting counting;
	};
	uint64_t vectors[]; /* the request's vectors */
};

/** Copy a checked request. @return NULL: no memory. */
struct ufi_work *ufi_work_send(struct ufi_core *core, const struct ufi_send *s);
struct ufi_work *ufi_work_recv(struct ufi_core *core, const struct ufi_recv *r);
struct ufi_work *ufi_work_rma(struct ufi_core *core, const struct ufi_rma *r);
/** Requires ufi_work_atomic_fits(). */
struct ufi_work *ufi_work_atomic(struct ufi_core *core, const struct ufi_atomic *a);
struct ufi_work *ufi_work_count(struct ufi_domain *domain, const struct ufi_counting *c);

/** Whether an atomic operation's vectors are within the limits and can be copied. */
bool ufi_work_atomic_fits(const struct ufi_atomic *a);

/** The counter of a fid, which must belong to this domain. @return 0, -FI_EINVAL, -FI_EDOMAIN. */
int ufi_work_cntr(const struct ufi_domain *domain, struct fid_cntr *fid, struct ufi_cntr **cntr);

/**
 * Queue the work, or start it if the counter has reached the threshold. Takes ownership of the work, even on failure.
 * @param user, completion NULL for a triggered operation.
 * @return 0, or the request's error.
 */
int ufi_work_queue(struct ufi_work *work, struct ufi_cntr *trigger, uint64_t threshold, struct fi_deferred_work *user,
		   struct ufi_cntr *completion);

/** fi_control's commands (deferred.c). */
int ufi_deferred_queue(struct ufi_domain *domain, struct fi_deferred_work *user);
/** @return 0: it will not start, -FI_ENOENT: already started, or never queued. */
int ufi_work_cancel(struct ufi_domain *domain, struct fi_deferred_work *user);
/** Cancel all deferred work that has not started, or that which waits for this counter. */
int ufi_work_flush(struct ufi_domain *domain, const struct ufi_cntr *cntr);
/** The domain closes. */
void ufi_works_fini(struct ufi_domain *domain);

/* These, engine lock held. */

/** The deferred work behind a request; NULL: none. */
static inline struct ufi_work *ufi_work_of(uint64_t cookie)
{
	return (struct ufi_work *)(uintptr_t)(cookie & ~(uint64_t)UFI_COOKIE_COMPLETE);
}
/** A completion of the work: frees it, unless more completions follow (multi-receive). */
void ufi_work_done(struct ufi_work *work, const struct nic_rdm_done *done);
/** As ufi_work_done(), but no endpoint reports the completion: also counts it. */
void ufi_work_untold(struct ufi_work *work, const struct nic_rdm_done *done);
/** fi_cancel: cancel the oldest triggered operation with this context, and report it. @return false: none waits. */
bool ufi_work_cancel_triggered(struct ufi_core *core, const void *context);
/** The endpoint closes. ufi_work_stop: cancel its waiting work; ufi_work_drop: free its deferred work, none of
 *  which is in flight any more. */
void ufi_work_stop(struct ufi_core *core);
void ufi_work_drop(struct ufi_core *core);

#endif
