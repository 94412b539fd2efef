/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * filesize.h - the limit on the size of files that a process writes (RLIMIT_FSIZE, ulimit -f). It applies to memfds and
 * files in /dev/shm too.
 *
 * The kernel answers a write or a growing ftruncate beyond the limit with SIGXFSZ, which ends the program. So code that
 * writes a file in an application's process checks here first, and works without the file if the limit is too low.
 */
#ifndef PMD_FILESIZE_H
#define PMD_FILESIZE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILESIZE_SENTENCE_MAX 1024u

/** Whether this process may make a file `bytes` long. */
static inline bool filesize_is_allowed(uint64_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes;
}

/** Whether a message may be written to stderr: stderr can be a file that has reached the limit. */
static inline bool filesize_allows_stderr(void)
{
	struct stat st;

	return fstat(STDERR_FILENO, &st) != 0 || !S_ISREG(st.st_mode) ||
	       filesize_is_allowed((uint64_t)st.st_size + FILESIZE_SENTENCE_MAX);
}

#endif
