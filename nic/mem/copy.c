/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.c - copies, atomics and operations on elements in application memory. They run under nic_config.guard, so that
 * memory which the application has unmapped gives an error instead of a crash.
 */
#include <fenv.h>

#include "atomic.h"
#include "dma.h"
#include "elem.h"
#include "icrc.h"
#include "mem.h"

void mem_deliver_run(void *arg)
{
	const struct copy_job *job = arg;

	dma_deliver(job->dst, job->src, job->len);
}

static void copy_run(void *arg)
{
	const struct copy_job *job = arg;

	dma_copy(job->dst, job->src, job->len);
	dma_fetched();
}

static void sum_run(void *arg)
{
	const struct copy_job *job = arg;

	*job->icrc = icrc_copy(*job->icrc, job->dst, job->src, job->len);
	dma_fetched();
}

static bool attempt(struct nic *nic, void (*fn)(void *), void *arg)
{
	if (nic->cfg.guard)
		return nic->cfg.guard(nic->cfg.ctx, fn, arg);
	fn(arg);
	return true;
}

static bool guarded(struct nic *nic, void (*fn)(void *), void *arg)
{
	if (attempt(nic, fn, arg))
		return true;
	COUNT(nic, app_memory_fault);
	return false;
}

bool mem_read(struct nic *nic, void *dst, const uint8_t *app, size_t len, uint32_t *icrc)
{
	return guarded(nic, icrc ? sum_run : copy_run, &(struct copy_job){dst, app, len, icrc});
}

bool mem_peek(struct nic *nic, void *dst, const uint8_t *app, size_t len)
{
	return attempt(nic, copy_run, &(struct copy_job){dst, app, len, NULL});
}

bool mem_write(struct nic *nic, uint8_t *app, const void *src, size_t len)
{
	struct copy_job job = {app, src, len, NULL};

	if (guarded(nic, mem_deliver_run, &job))
		return true;
	nic->faulted = job; /* for mem_write_pinned() */
	return false;
}

struct atomic_job {
	const struct nic_atomic *a;
	uint8_t *target;
	uint64_t *orig;
};

static void atomic_run(void *arg)
{
	const struct atomic_job *job = arg;

	atomic_execute(job->a, job->target, job->orig);
}

/** Take the lock of a target (atomic.h); wait while another NIC of the process holds it. That takes nanoseconds, unless
 * the other NIC's thread has lost its CPU. */
static void wait_for_lock(struct nic *nic, const void *app)
{
	for (unsigned n = 1; !atomic_try_lock(app); n++)
		if (n % 1024 == 0 && nic->cfg.pause)
			nic->cfg.pause(nic->cfg.ctx);
}

bool mem_atomic(struct nic *nic, const struct nic_atomic *a, uint8_t *app, uint64_t *orig)
{
	bool locks = a->size == NIC_ATOMIC_SIZE_MAX, done;

	if (locks)
		wait_for_lock(nic, app);
	done = guarded(nic, atomic_run, &(struct atomic_job){a, app, orig});
	if (locks)
		atomic_unlock(app);
	return done;
}

/* ---- elements ------------------------------------------------------------------------------------------------ */

struct elements_job {
	const struct nic_elements *e;
	uint8_t *target;
};

static void elements_run(void *arg)
{
	const struct elements_job *job = arg;

	elem_execute(job->e, job->target);
}

/** Execute the elements one by one, each under the lock. */
static bool elements_locked(struct nic *nic, const struct nic_elements *e, uint8_t *app)
{
	uint32_t size = nic_elem_size(e->datatype);
	struct nic_elements one = *e;
	bool done = true;

	one.count = 1;
	for (size_t i = 0; done && i < e->count; i++) {
		one.operand = e->operand ? (const uint8_t *)e->operand + i * size : NULL;
		one.compare = e->compare ? (const uint8_t *)e->compare + i * size : NULL;
		one.result = e->result ? (uint8_t *)e->result + i * size : NULL;
		wait_for_lock(nic, app + i * size);
		done = guarded(nic, elements_run, &(struct elements_job){&one, app + i * size});
		atomic_unlock(app + i * size);
	}
	return done;
}

static bool elements(struct nic *nic, const struct nic_elements *e, uint8_t *app)
{
	if (elem_needs_lock(e->datatype, app))
		return elements_locked(nic, e, app);
	return guarded(nic, elements_run, &(struct elements_job){e, app});
}

bool mem_elements(struct nic *nic, const struct nic_elements *e, uint8_t *app)
{
	fenv_t of_application;
	bool done;

	if (!elem_rounds(e->datatype))
		return elements(nic, e, app);
	/* Use the default floating-point settings: the thread may be the application's, with settings of its own. */
	fegetenv(&of_application);
	fesetenv(FE_DFL_ENV);
	done = elements(nic, e, app);
	fesetenv(&of_application);
	return done;
}
