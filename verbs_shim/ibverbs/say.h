/* SPDX-License-Identifier: BSD-3-Clause */
/* say.h - explanations on stderr, for when a program fails and its own message does not tell the user why. */
#ifndef SHIM_SAY_H
#define SHIM_SAY_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "filesize.h"

/** Set *said, and if it was not set before, write a sentence to stderr. Preserves errno. No lock may be held. */
static inline void shim_say_once(atomic_bool *said, const char *sentence)
{
	int err = errno;

	if (!atomic_exchange(said, true) && filesize_allows_stderr())
		fprintf(stderr, "uroce: %s\n", sentence);
	errno = err;
}

#endif
