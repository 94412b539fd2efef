/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * work.h - requests that wait for a counter: triggered operations (trigger.c) and deferred work (deferred.c). Private
 * to verbs_shim/libfabric.
 *
 * The call that queues a request checks it as if it were posted, so the call can return errors. It also copies the
 * request with its vectors. The NIC's trigger unit later starts the copy, with the engine's lock held, when the NIC is
 * processing nothing else. From then on a triggered operation is an ordinary request. Deferred work is tracked until it
 * completes, because its completion can be reported to a counter that the application has named for this work.
 *
 * Work is started or canceled under the engine's lock, so it is always clear which of the two has happened.
 */
#ifndef UFI_WORK_H
#define UFI_WORK_H

#include "provider.h"
#include "requests.h"

/** A change of a counter's value. */
struct ufi_counting {
	struct ufi_cntr *cntr;
	uint64_t value;
	bool add; /* true: add; false: set */
};

struct ufi_work {
	struct nic_trig_work trig;
	struct list node;      /* links the work into core->works or core->triggered */
	struct ufi_core *core; /* NULL: the work changes a counter, and posts no request */
	struct ufi_domain *domain;
	struct ufi_cntr *trigger;      /* counter that the work waits for; NULL: it has started */
	struct ufi_cntr *completion;   /* NULL: no counter */
	struct fi_deferred_work *user; /* NULL: a triggered operation */
	uint32_t slot;		       /* index of the work's slot in the domain; `user` stores this index too */
	bool repeats;		       /* completes several times; the last completion has the flag NIC_RDM_MULTI */
	enum nic_rdm_kind kind;
	uint64_t flags;
	void *context; /* flags and context of the request */
	/** Post the request to the NIC, or with way->check only check it. */
	int (*post)(struct ufi_work *work, const struct ufi_way *way);
	union {
		struct ufi_send send;
		struct ufi_recv recv;
		struct ufi_rma rma;
		struct ufi_atomic atomic;
		struct ufi_counting counting;
	};
	uint64_t vectors[]; /* copies of the request's vectors */
};

/** Copy a checked request. @return NULL: no memory. */
struct ufi_work *ufi_work_send(struct ufi_core *core, const struct ufi_send *s);
struct ufi_work *ufi_work_recv(struct ufi_core *core, const struct ufi_recv *r);
struct ufi_work *ufi_work_rma(struct ufi_core *core, const struct ufi_rma *r);
/** To be called only if ufi_work_atomic_fits(). */
struct ufi_work *ufi_work_atomic(struct ufi_core *core, const struct ufi_atomic *a);
struct ufi_work *ufi_work_count(struct ufi_domain *domain, const struct ufi_counting *c);

/** Whether the vectors of an atomic operation can be copied: they exist and are within the limits. */
bool ufi_work_atomic_fits(const struct ufi_atomic *a);

/** Find the counter of a fid, which must belong to this domain. @return 0, -FI_EINVAL, -FI_EDOMAIN. */
int ufi_work_cntr(const struct ufi_domain *domain, struct fid_cntr *fid, struct ufi_cntr **cntr);

/**
 * Queue the work, or start it if the counter has already reached the threshold. Takes ownership of the work, even on
 * failure.
 * @param user, completion NULL for a triggered operation.
 * @return 0; the error that posting the request would return; -FI_ENOMEM; -FI_EIO.
 */
int ufi_work_queue(struct ufi_work *work, struct ufi_cntr *trigger, uint64_t threshold, struct fi_deferred_work *user,
		   struct ufi_cntr *completion);

/** Queue deferred work: fi_control's FI_QUEUE_WORK (deferred.c). */
int ufi_deferred_queue(struct ufi_domain *domain, struct fi_deferred_work *user);
/** Cancel deferred work. @return 0: it will not start; -FI_ENOENT: it has already started, or was never queued. */
int ufi_work_cancel(struct ufi_domain *domain, struct fi_deferred_work *user);
/** Cancel deferred work that has not started: all, or if `cntr` is not NULL, the work that waits for this counter. */
int ufi_work_flush(struct ufi_domain *domain, const struct ufi_cntr *cntr);
/** Free the slots of a domain that closes. */
void ufi_works_fini(struct ufi_domain *domain);

/* The functions from here on are called with the engine lock held. */

/** The deferred work that a request with this cookie belongs to; NULL: none. */
static inline struct ufi_work *ufi_work_of(uint64_t cookie)
{
	return (struct ufi_work *)(uintptr_t)(cookie & ~(uint64_t)UFI_COOKIE_COMPLETE);
}
/** Called at a completion of the work: frees the work, unless more completions follow (multi-receive). */
void ufi_work_done(struct ufi_work *work, const struct nic_rdm_done *done);
/** Called instead of ufi_tell() if there is no endpoint to report the completion: counts the completion in the work's
 * completion counter, then does the same as ufi_work_done(). */
void ufi_work_untold(struct ufi_work *work, const struct nic_rdm_done *done);
/** For fi_cancel: cancel the oldest waiting triggered operation with this context, and report it. @return false: no
 * such operation waits. */
bool ufi_work_cancel_triggered(struct ufi_core *core, const void *context);
/** Called when an endpoint closes. ufi_work_stop cancels the work that still waits. ufi_work_drop is called when no
 * request of the endpoint is in flight any more, and frees the deferred work that has started. */
void ufi_work_stop(struct ufi_core *core);
void ufi_work_drop(struct ufi_core *core);

#endif
