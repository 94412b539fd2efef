/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.c - the instructions that touch application memory: copies and atomics, run under nic_config.guard so that
 * memory which the application has unmapped gives an error and not a crash.
 */
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
	enum atomic_op op;
	uint64_t *target;
	uint64_t compare, swap_add, orig;
};

DMA static void atomic_run(void *arg)
{
	struct atomic_job *job = arg;

	if (job->op == ATOMIC_FAA) {
		job->orig = __atomic_fetch_add(job->target, job->swap_add, __ATOMIC_SEQ_CST);
		return;
	}
	/* On failure `orig` receives the value found; on success it is the value compared. */
	job->orig = job->compare;
	__atomic_compare_exchange_n(job->target, &job->orig, job->swap_add, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
}

bool mem_atomic(struct nic *nic, enum atomic_op op, uint8_t *app, uint64_t compare, uint64_t swap_add, uint64_t *orig)
{
	struct atomic_job job = {.op = op, .target = (uint64_t *)(void *)app, .compare = compare, .swap_add = swap_add};

	if (!guarded(nic, atomic_run, &job))
		return false;
	*orig = job.orig;
	return true;
}
