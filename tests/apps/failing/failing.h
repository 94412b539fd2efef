/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failing.h - makes the n-th call of a kind fail, or all calls of the kind from the n-th on, among the calls that
 * uroce's libraries or its daemon make in one process.
 *
 * libfailing.so does that when preloaded. A forked process arms the failure for itself. A process started by exec is
 * armed by UROCE_TEST_FAIL=KIND:N:once or KIND:N:on, and reports its counts in the file named by UROCE_TEST_FAIL_FILE.
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

/** Shared by a process and its forked children. */
struct failing {
	int32_t pid;   /* the process in which calls fail; 0: none */
	int32_t kind;  /* enum failing_kind */
	int64_t n;     /* the first call that fails, counted from 1 */
	int32_t on;    /* all later calls of the kind fail as well */
	int32_t next;  /* 1 + kind of the call that failed because of failing_next; 0: none */
	int64_t calls; /* calls of the kind so far */
	/* Resources that uroce's libraries hold in the watched process. */
	int32_t watched;
	int32_t unused_too;
	int64_t blocks, mappings;
};

/** @return settings and counts of this process, shared with its forked children. */
struct failing *failing_get(void);
typedef struct failing *(*failing_get_fn)(void);
/** Make the next call by this thread fail, whatever its kind. */
void failing_next(void);

#endif
