/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.c - the instructions that touch application memory: copies and atomics, run under nic_config.guard so that
 * memory which the application has unmapped gives an error and not a crash.
 */
#include "atomic.h"
#include "dma.h"
#include "icrc.h"
#include "mem.h"

struct copy_job {
	uint8_t *dst;
	const uint8_t *src;
	size_t len;
	uint32_t *icrc;
};

static void copy_run(void *arg)
{
	const struct copy_job *job = arg;

	dma_copy(job->dst, job->src, job->len);
}

static void sum_run(void *arg)
{
	const struct copy_job *job = arg;

	*job->icrc = icrc_copy(*job->icrc, job->dst, job->src, job->len);
}

static bool guarded(struct nic *nic, void (*fn)(void *), void *arg)
{
	if (!nic->cfg.guard) {
		fn(arg);
		return true;
	}
	if (nic->cfg.guard(nic->cfg.ctx, fn, arg))
		return true;
	COUNT(nic, app_memory_fault);
	return false;
}

bool mem_read(struct nic *nic, void *dst, const uint8_t *app, size_t len, uint32_t *icrc)
{
	return guarded(nic, icrc ? sum_run : copy_run, &(struct copy_job){dst, app, len, icrc});
}

bool mem_write(struct nic *nic, uint8_t *app, const void *src, size_t len)
{
	return guarded(nic, copy_run, &(struct copy_job){app, src, len, NULL});
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

/** Wait for an operation of another NIC: it is a matter of nanoseconds, unless its thread has lost the CPU. */
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
