/* SPDX-License-Identifier: BSD-3-Clause */
/* eal.h - starting DPDK inside an ordinary process (pmd-internal). */
#ifndef PMD_EAL_H
#define PMD_EAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

/* Heap of the EAL: packet pools and rings of PMD_DEVICES_MAX ports. Its pages are only taken when touched, but the
 * EAL's page table, which is filled at once, takes 72 bytes per 4 KiB. */
#define PMD_HEAP_MIB "208"

/**
 * Start DPDK's environment layer. Thread-safe. The caller's CPU affinity, signal mask, environment and syslog settings
 * stay as they are. Prerequisites are checked first: while one is missing nothing is touched, and the next call tries
 * again. DPDK itself starts only once per process: after it has failed, every later call fails with the same error.
 * @param err receives one sentence on failure; it tells if DPDK cannot be tried again.
 * @return 0 or a negative errno.
 */
int pmd_eal_start(char *err, size_t err_len);

/** The limit of open files as it was before the EAL's start, which raises the soft limit to the hard one. @return 0
 *  or a negative errno. */
int pmd_eal_files_limit(struct rlimit *out);

/** Leave rte_eal_init from inside, on the thread that runs it: pmd_eal_start fails and reports this text. */
void pmd_eal_panic(const char *text) __attribute__((noreturn));

/** Whether the calling thread is inside rte_eal_init; controls the wrappers in eal_host.c. */
extern _Thread_local bool pmd_eal_starting;

/** Move a descriptor out of the way of programs that close or count low ones; the new one is close-on-exec. @return
 *  the new one, or the old one, unchanged, if the limits leave no room. */
int pmd_fd_high(int fd);

#endif
