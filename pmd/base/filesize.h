/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * filesize.h - the limit on the size of files that a process writes (RLIMIT_FSIZE, ulimit -f), which holds for memfds and files
 * in /dev/shm as well.
 *
 * The kernel answers a write or a growing ftruncate beyond the limit with SIGXFSZ, which ends the program. So whatever writes a
 * file in a program's process asks here first, and does without the file if it must.
 */
#ifndef PMD_FILESIZE_H
#define PMD_FILESIZE_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILESIZE_SENTENCE_MAX 1024u

/** Whether a file may be as long as this, in bytes. */
static inline bool filesize_is_allowed(uint64_t bytes)
{
	struct rlimit limit;

	return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= bytes;
}

/** Whether a sentence may be written to stderr, which may be a file that is full by the limit. */
static inline bool filesize_allows_stderr(void)
{
	struct stat st;

	return fstat(STDERR_FILENO, &st) != 0 || !S_ISREG(st.st_mode) ||
	       filesize_is_allowed((uint64_t)st.st_size + FILESIZE_SENTENCE_MAX);
}

#endif
