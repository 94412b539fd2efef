/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eal.c - DPDK's environment abstraction layer (EAL), started on first use inside a process that does not know about
 * DPDK.
 *
 * The EAL is written for programs that own the machine: it pins its caller to a CPU, sleeps 100 ms to calibrate a
 * clock, makes a folder, opens syslog. Here the EAL is a static copy that must not disturb the application:
 *   - it starts in a helper thread with all signals blocked: the caller's affinity and mask stay;
 *   - it leaves no thread and no descriptor behind, and where it would end the process, pmd_eal_start fails instead;
 *   - the linker diverts calls that reach outside (--wrap, see meson.build) to the functions in eal_host.c, most of
 *     which act only in the helper thread while it starts the EAL;
 *   - its heap is private memory: after a fork, parent and child have separate heaps, and the child can open devices.
 *
 * Owns: the process-wide EAL state. This file never calls rte_eal_cleanup, because the EAL could not start again
 * afterwards.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>

#include "clock.h"
#include "eal.h"

/* Address space that the EAL needs to start: the heap, the heap's page table, and some more. */
#define EAL_MAP_BYTES ((size_t)232 << 20)

static struct {
	pthread_mutex_t lock;
	bool started;
	int result;
	char err[256];
	struct rlimit files; /* the limit on open files before the EAL's start */
	bool files_known;
	jmp_buf way_out; /* where pmd_eal_panic jumps to */
	char panic[128];
} eal = {.lock = PTHREAD_MUTEX_INITIALIZER};

_Thread_local bool pmd_eal_starting;

/** Make the --lcores option, such as "0@(0-3,8-8)": one EAL thread, which may run on all CPUs that the process may
 *  use. */
static void eal_lcores(char *buf, size_t len)
{
	cpu_set_t set;
	size_t used;
	int cpu = 0;

	used = (size_t)snprintf(buf, len, "0@(");
	if (sched_getaffinity(0, sizeof(set), &set) != 0) {
		CPU_ZERO(&set);
		CPU_SET(0, &set);
	}
	while (cpu < CPU_SETSIZE && used + 16 < len) {
		int first = cpu;

		while (cpu < CPU_SETSIZE && CPU_ISSET(cpu, &set))
			cpu++;
		if (cpu > first)
			used += (size_t)snprintf(buf + used, len - used, "%s%d-%d", buf[used - 1] == '(' ? "" : ",",
						 first, cpu - 1);
		cpu++;
	}
	snprintf(buf + used, len - used, ")");
}

/** Extract the first line of DPDK's error log, if there is one. */
static void eal_complaint(const char *log, char *out, size_t len)
{
	const char *start = strstr(log, "EAL: ");
	size_t n;

	start = start ? start + 5 : log;
	n = strcspn(start, "\n");
	if (n == 0)
		snprintf(out, len, "no reason given");
	else
		snprintf(out, len, "%.*s", (int)(n < len ? n : len - 1), start);
}

/* Leaves rte_eal_init by longjmp. pthread_exit() would load a library, which fails when memory or descriptors run
 * short, and such a shortage is a usual reason for a panic. */
void pmd_eal_panic(const char *text)
{
	snprintf(eal.panic, sizeof(eal.panic), "%.*s", (int)strcspn(text, "\n"), text);
	longjmp(eal.way_out, 1);
}

/** Like rte_eal_init, but returns -1 if the EAL panics. */
static int eal_init(int argc, char **argv)
{
	int rc = -1;

	pmd_eal_starting = true;
	if (setjmp(eal.way_out) == 0)
		rc = rte_eal_init(argc, argv);
	pmd_eal_starting = false;
	return rc;
}

static void *eal_thread(void *arg)
{
	char lcores[512], *log = NULL;
	size_t log_len = 0;
	char *argv[] = {"uroce",	  "--no-huge", "--no-shconf", "--no-pci",
			"--no-telemetry", "-m",	       PMD_HEAP_MIB,  "--log-level=error",
			"--lcores",	  lcores,      NULL};
	FILE *stream = open_memstream(&log, &log_len);
	int rc;

	(void)arg;
	eal_lcores(lcores, sizeof(lcores));
	if (stream)
		rte_openlog_stream(stream);
	rte_errno = 0;
	rc = eal_init((int)(sizeof(argv) / sizeof(argv[0])) - 1, argv);
	eal.result = rc >= 0 ? 0 : rte_errno > 0 && !eal.panic[0] ? -rte_errno : -EIO;
	rte_openlog_stream(stderr);
	if (stream)
		fclose(stream);
	if (rc < 0) {
		char why[128];

		eal_complaint(eal.panic[0] ? eal.panic : log ? log : "", why, sizeof(why));
		snprintf(eal.err, sizeof(eal.err),
			 "DPDK does not start in this process (%s) and cannot try again; see that memory and "
			 "descriptors "
			 "are left, and restart the program",
			 why);
	}
	free(log);
	return NULL;
}

int pmd_eal_files_limit(struct rlimit *out)
{
	bool known;

	pthread_mutex_lock(&eal.lock);
	known = eal.files_known;
	*out = eal.files;
	pthread_mutex_unlock(&eal.lock);
	return known || getrlimit(RLIMIT_NOFILE, out) == 0 ? 0 : -errno;
}

/** Check what DPDK needs from its environment before DPDK starts. If something is missing, DPDK itself would print on
 *  stdout, or it would fail and could not be started again. */
static int eal_rehearse(char *err, size_t err_len)
{
	void *memory;
	int rc;

	if (access("/sys/devices/system/cpu", F_OK) != 0) {
		snprintf(err, err_len, "DPDK needs /sys, which is not mounted here; run: mount -t sysfs sysfs /sys");
		return -ENOENT;
	}
	memory = mmap(NULL, EAL_MAP_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED) {
		rc = -errno;
		snprintf(
			err, err_len,
			"DPDK needs %zu MiB of address space, of which it uses little: %s; raise the limit (ulimit -v)",
			EAL_MAP_BYTES >> 20, strerror(-rc));
		return rc;
	}
	munmap(memory, EAL_MAP_BYTES);
	return 0;
}

/** @return 0: DPDK's start has been tried, with result eal.result; or a negative errno: DPDK has not been called. */
static int eal_start_once(char *err, size_t err_len)
{
	sigset_t all, old;
	pthread_t thread;
	int rc = eal_rehearse(err, err_len);

	if (rc != 0)
		return rc;
	eal.files_known = getrlimit(RLIMIT_NOFILE, &eal.files) == 0;
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&thread, NULL, eal_thread, NULL);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (rc != 0) {
		snprintf(err, err_len, "no thread for starting DPDK: %s; raise the process limits", strerror(rc));
		return -rc;
	}
	pthread_join(thread, NULL);
	eal.started = true;
	if (eal.result == 0)
		pmd_clock_start();
	return 0;
}

int pmd_eal_start(char *err, size_t err_len)
{
	int rc = 0;

	pthread_mutex_lock(&eal.lock);
	if (!eal.started)
		rc = eal_start_once(err, err_len);
	if (eal.started) {
		rc = eal.result;
		if (rc != 0)
			snprintf(err, err_len, "%s", eal.err);
	}
	pthread_mutex_unlock(&eal.lock);
	return rc;
}
