/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failing.h - the n-th call of a kind fails, once or from there on, of those that uroce's libraries or its daemon make in one process.
 *
 * libfailing.so, preloaded, does that. A process arms it for itself or, where it is started and not forked, is armed by
 * UROCE_TEST_FAIL=KIND:N:once or KIND:N:on, and tells what it has counted through the file that UROCE_TEST_FAIL_FILE names.
 */
#ifndef FAILING_H
#define FAILING_H

#include <stdint.h>

enum failing_kind {
#define FAILING(name, error) FAILING_##name,
#include "kinds.def"
#undef FAILING
	FAILING_KINDS
};

/** Shared by a process and those that it forks. */
struct failing {
	int32_t pid;   /* of the process that it is armed for; 0: none */
	int32_t kind;  /* enum failing_kind */
	int64_t n;     /* the first call that fails, counted from 1 */
	int32_t on;    /* and all later ones */
	int32_t next;  /* one more than the kind of the call that failed after failing_next */
	int64_t calls; /* of the kind, so far */
	/* What libraries of uroce have and have not given back, of the process that it is watched for. */
	int32_t watched;
	int32_t unused_too;
	int64_t blocks, mappings;
};

/** @return NULL for no kind. */
struct failing *failing_get(void);
typedef struct failing *(*failing_get_fn)(void);
/** The next call of any kind that this thread makes fails. */
void failing_next(void);

#endif
