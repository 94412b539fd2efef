/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * work.h - requests that wait for a counter: triggered operations (trigger.c) and deferred work (deferred.c). Private to
 * verbs_shim/libfabric.
 *
 * A request is copied, with its vectors, when it is made, and looked at as if it were posted, so that the call tells what is wrong
 * with it. The NIC's trigger unit starts it, in a copy of the program's flags, as the program would have: with the engine's lock
 * held, amid nothing else. A triggered operation is then like any other. Deferred work is known until it is done, because that is told
 * to a counter of its own.
 *
 * Whether work has been started or was canceled is decided under the engine's lock: there is nothing between the two.
 */
#ifndef UFI_WORK_H
#define UFI_WORK_H

#include "provider.h"

/** Change a counter. */
struct ufi_counting {
	struct ufi_cntr *cntr;
	uint64_t value;
	bool add; /* or set */
};

struct ufi_work {
	struct nic_trig_work trig;
	struct list node;      /* of core->works, or core->triggered */
	struct ufi_core *core; /* NULL: it changes a counter */
	struct ufi_domain *domain;
	struct ufi_cntr *trigger;      /* NULL: it has been started */
	struct ufi_cntr *completion;   /* NULL: none */
	struct fi_deferred_work *user; /* NULL: a triggered operation */
	uint32_t slot;		       /* where the domain has it, by `user` */
	bool repeats;		       /* it is done more than once: the last time says so */
	enum nic_rdm_kind kind;
	uint64_t flags;
	void *context; /* these two: of the request */
	/** To the NIC, or let it be looked at. */
	int (*post)(struct ufi_work *work, const struct ufi_way *way);
	union {
		struct ufi_send send;
		struct ufi_recv recv;
		struct ufi_rma rma;
		struct ufi_atomic atomic;
		struct ufi_counting counting;
	};
	uint64_t vectors[]; /* that these name */
};

/** Copies of requests that were checked. @return NULL: no memory. */
struct ufi_work *ufi_work_send(struct ufi_core *core, const struct ufi_send *s);
struct ufi_work *ufi_work_recv(struct ufi_core *core, const struct ufi_recv *r);
struct ufi_work *ufi_work_rma(struct ufi_core *core, const struct ufi_rma *r);
/** Its vectors are not longer than NIC_RDM_IOV_MAX. */
struct ufi_work *ufi_work_atomic(struct ufi_core *core, const struct ufi_atomic *a);
struct ufi_work *ufi_work_count(struct ufi_domain *domain, const struct ufi_counting *c);

/** Whether an atomic operation's vectors may be copied. */
bool ufi_work_atomic_fits(const struct ufi_atomic *a);

/** A counter of this domain, as programs name it. @return 0, -FI_EINVAL, -FI_EDOMAIN. */
int ufi_work_cntr(const struct ufi_domain *domain, struct fid_cntr *fid, struct ufi_cntr **cntr);

/**
 * Have it wait, or start it if the counter is there already. The work is the callee's, whatever it returns.
 * @param user, completion NULL for a triggered operation.
 * @return 0, or what is wrong with the request.
 */
int ufi_work_queue(struct ufi_work *work, struct ufi_cntr *trigger, uint64_t threshold, struct fi_deferred_work *user,
		   struct ufi_cntr *completion);

/** fi_control's commands (deferred.c). */
int ufi_deferred_queue(struct ufi_domain *domain, struct fi_deferred_work *user);
/** @return 0: it will not be started, -FI_ENOENT: it has been, or was never queued. */
int ufi_work_cancel(struct ufi_domain *domain, struct fi_deferred_work *user);
/** All that is deferred, or waits for this counter. */
int ufi_work_flush(struct ufi_domain *domain, const struct ufi_cntr *cntr);
/** The domain closes. */
void ufi_works_fini(struct ufi_domain *domain);

/* These, engine lock held. */

/** What a request was deferred by. NULL: it was not. */
static inline struct ufi_work *ufi_work_of(uint64_t cookie)
{
	return (struct ufi_work *)(uintptr_t)(cookie & ~(uint64_t)UFI_COOKIE_COMPLETE);
}
/** It is done, for the last time if it is no receive for many messages. */
void ufi_work_done(struct ufi_work *work, const struct nic_rdm_done *done);
/** The same, where no endpoint is there to be told of it. */
void ufi_work_untold(struct ufi_work *work, const struct nic_rdm_done *done);
/** fi_cancel: the oldest triggered operation with this context ends, and that is told. @return false: none waits. */
bool ufi_work_cancel_triggered(struct ufi_core *core, const void *context);
/** The endpoint closes: nothing of it starts any more; nothing is under way any more. */
void ufi_work_stop(struct ufi_core *core);
void ufi_work_drop(struct ufi_core *core);

#endif
