/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trigger.c - triggered operations (fi_trigger(3)): requests with FI_TRIGGER, whose context names the counter and
 * threshold that start them. Once started, they are ordinary requests.
 *
 * FI_INJECT is refused: the application could reuse the buffer when the call returns, but the request would read the
 * buffer later, when it starts. Inject calls cannot be triggered, because they have no context that could name a
 * counter.
 */
#include "work.h"

/** Get the counter and threshold that a request waits for. @return 0, or a negative fi_errno. */
static int condition(const struct ufi_core *core, uint64_t flags, const void *context, struct ufi_cntr **cntr,
		     uint64_t *threshold)
{
	const struct fi_triggered_context *trigger = context; /* fi_triggered_context2 has the same first members */

	if (!(core->caps & FI_TRIGGER))
		return -FI_EOPNOTSUPP;
	if (flags & FI_INJECT)
		return -FI_ENOSYS;
	if (flags & FI_PEEK)
		return -FI_ENOSYS;
	if (!trigger)
		return -FI_EINVAL;
	if (trigger->event_type != FI_TRIGGER_THRESHOLD)
		return trigger->event_type == FI_TRIGGER_XPU ? -FI_ENOSYS : -FI_EINVAL;
	*threshold = trigger->trigger.threshold.threshold;
	return ufi_work_cntr(core->domain, trigger->trigger.threshold.cntr, cntr);
}

/** Queue `work`, the copy of a request. @param work NULL: there was no memory for the copy. */
static ssize_t wait_for(struct ufi_work *work, struct ufi_cntr *cntr, uint64_t threshold)
{
	return work ? ufi_work_queue(work, cntr, threshold, NULL, NULL) : -FI_ENOMEM;
}

ssize_t ufi_trigger_send(struct ufi_core *core, const struct ufi_send *s)
{
	struct ufi_send later = *s;
	struct ufi_cntr *cntr;
	uint64_t threshold;
	int rc = condition(core, s->flags, s->context, &cntr, &threshold);

	later.flags &= ~FI_TRIGGER;
	if (!rc)
		rc = ufi_send_check(core, core->caps, &later);
	return rc ? rc : wait_for(ufi_work_send(core, &later), cntr, threshold);
}

ssize_t ufi_trigger_recv(struct ufi_core *core, const struct ufi_recv *r)
{
	struct ufi_recv later = *r;
	struct ufi_cntr *cntr;
	uint64_t threshold;
	int rc = condition(core, r->flags, r->context, &cntr, &threshold);

	later.flags &= ~FI_TRIGGER;
	if (!rc)
		rc = ufi_recv_check(core, core->caps, &later);
	return rc ? rc : wait_for(ufi_work_recv(core, &later), cntr, threshold);
}

ssize_t ufi_trigger_rma(struct ufi_core *core, const struct ufi_rma *r)
{
	struct ufi_rma later = *r;
	struct ufi_cntr *cntr;
	uint64_t threshold;
	int rc = condition(core, r->flags, r->context, &cntr, &threshold);

	later.flags &= ~FI_TRIGGER;
	if (!rc)
		rc = ufi_rma_check(core, &later);
	return rc ? rc : wait_for(ufi_work_rma(core, &later), cntr, threshold);
}

ssize_t ufi_trigger_atomic(struct ufi_core *core, const struct ufi_atomic *a)
{
	struct ufi_atomic later = *a;
	struct ufi_cntr *cntr;
	uint64_t threshold;
	int rc = condition(core, a->flags, a->context, &cntr, &threshold);

	later.flags &= ~FI_TRIGGER;
	if (!rc)
		rc = ufi_atomic_check(core, &later);
	if (!rc && !ufi_work_atomic_fits(&later))
		rc = -FI_EINVAL;
	return rc ? rc : wait_for(ufi_work_atomic(core, &later), cntr, threshold);
}
