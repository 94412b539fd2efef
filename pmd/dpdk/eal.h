/* SPDX-License-Identifier: BSD-3-Clause */
/* eal.h - starting DPDK inside an ordinary process (pmd-internal). */
#ifndef PMD_EAL_H
#define PMD_EAL_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/resource.h>

/* Size of the EAL's heap: packet pools and rings of PMD_DEVICES_MAX ports. A page of the heap takes memory only when it
 * is first used, but the EAL's page table is filled at once, with 72 bytes per 4 KiB of heap. */
#define PMD_HEAP_MIB "208"

/**
 * Start DPDK's environment layer. Thread-safe. The caller's CPU affinity, signal mask, environment and syslog settings
 * stay as they are. Prerequisites are checked first. If one is missing, DPDK is not called, and a later call tries
 * again. DPDK itself can be started only once per process: if DPDK fails, every later call fails with the same error.
 * @param err receives an error message, which says whether another call can succeed.
 * @return 0 or a negative errno.
 */
int pmd_eal_start(char *err, size_t err_len);

/** Get the limit on open files from before the EAL's start: the EAL raises the soft limit to the hard limit. @return 0
 *  or a negative errno. */
int pmd_eal_files_limit(struct rlimit *out);

/** Abort rte_eal_init; pmd_eal_start then fails with this text. Call this only inside rte_eal_init, on the thread that
 *  runs it. Does not return. */
void pmd_eal_panic(const char *text) __attribute__((noreturn));

/** Whether the calling thread is inside rte_eal_init. The wrappers in eal_host.c act differently there. */
extern _Thread_local bool pmd_eal_starting;

/** Move a descriptor to a high number, since some programs close low descriptors or expect certain numbers. The new
 *  descriptor is close-on-exec. @return the new descriptor; or fd, unchanged, if fd is negative or no high number
 *  is available. */
int pmd_fd_high(int fd);

#endif
