/* SPDX-License-Identifier: BSD-3-Clause */
/* say.h - sentences for the user of a program that fails, and does not say enough itself. */
#ifndef SHIM_SAY_H
#define SHIM_SAY_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>

#include "filesize.h"

/** Write a sentence to stderr, unless *said is set already; leave errno as it is. No lock may be held. */
static inline void shim_say_once(atomic_bool *said, const char *sentence)
{
	int err = errno;

	if (!atomic_exchange(said, true) && filesize_allows_stderr())
		fprintf(stderr, "uroce: %s\n", sentence);
	errno = err;
}

#endif
