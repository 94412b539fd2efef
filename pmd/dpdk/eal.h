/* SPDX-License-Identifier: BSD-3-Clause */
/* eal.h - starting DPDK inside an ordinary process (pmd-internal). */
#ifndef PMD_EAL_H
#define PMD_EAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

/* Heap of the EAL: packet pools and rings of PMD_DEVICES_MAX ports. Pages are taken only when touched, but the EAL's
 * table of them, which is filled at once, takes 72 bytes for each of 4 KiB. */
#define PMD_HEAP_MIB "208"

/**
 * Start DPDK's environment layer. Thread-safe. The caller's CPU affinity, signal mask, environment and syslog settings stay as
 * they are. What it needs is looked at first: as long as that is missing nothing has been touched, and the next call tries
 * again. DPDK itself starts once a process: when it has failed, each later call fails with the same error.
 * @param err receives one sentence when it fails, which says so in that case.
 * @return 0 or a negative errno.
 */
int pmd_eal_start(char *err, size_t err_len);

/** The limit of open files as it was before the EAL raised the soft one to the hard one, which it does when it starts.
 *  @return 0 or a negative errno. */
int pmd_eal_files_limit(struct rlimit *out);

/** Leave rte_eal_init from inside, on the thread that runs it: pmd_eal_start fails and says this text. */
void pmd_eal_panic(const char *text) __attribute__((noreturn));

/** Whether the calling thread is inside rte_eal_init; steers the diversions of eal_host.c. */
extern _Thread_local bool pmd_eal_starting;

/** Move a descriptor out of the way of programs that close or count low ones; then it is close-on-exec. @return the new
 *  one, or the old one, unchanged, where the limits leave no room. */
int pmd_fd_high(int fd);

#endif
