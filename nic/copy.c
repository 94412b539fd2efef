/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy.c - the instructions that touch application memory: copies and atomics, run under nic_config.guard so that
 * memory which the application has unmapped gives an error and not a crash.
 */
#include "icrc.h"
#include "mem.h"

struct copy_job {
	uint8_t *dst;
	const uint8_t *src;
	size_t len;
	uint32_t *icrc;
};

/* Sixteen bytes at any address; the compiler turns copies of it into vector moves. */
typedef uint8_t vec __attribute__((vector_size(16), aligned(1), may_alias));

/*
 * glibc's memcpy takes `rep movsb` from 2 KiB up, several times slower than vector moves when the lines are dirty in
 * another core, as packets are.
 */
static void copy_run(void *arg)
{
	const struct copy_job *job = arg;
	uint8_t *dst = job->dst;
	const uint8_t *src = job->src;
	size_t len = job->len;

	for (; len >= 64; len -= 64, dst += 64, src += 64) {
		const vec *from = (const vec *)src;
		vec a = from[0], b = from[1], c = from[2], d = from[3], *to = (vec *)dst;

		to[0] = a;
		to[1] = b;
		to[2] = c;
		to[3] = d;
	}
	memcpy(dst, src, len);
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

static void atomic_run(void *arg)
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
