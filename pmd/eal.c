/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eal.c - DPDK's environment abstraction layer (EAL) started lazily inside a process that knows nothing of it.
 *
 * The EAL is written for programs that own the machine: it pins its caller, sleeps 100 ms to calibrate a clock, makes
 * a folder, opens syslog. Here it is a hidden static copy that may touch none of that:
 *   - it starts in a helper thread with all signals blocked, so that the caller's affinity and mask stay and threads
 *     that the EAL leaves behind (its interrupt thread) take no signals of the application;
 *   - calls that reach outside are diverted by the linker (--wrap, see meson.build) to the functions in
 *     eal_host.c, most of which act only in the helper thread while it starts the EAL;
 *   - its heap is private memory: after a fork parent and child have one each, and a child of a process that has closed
 *     its devices may open some.
 *
 * Owns: the process-wide EAL state. Never calls rte_eal_cleanup: it would leave the interrupt thread running over
 * freed memory, and a library may not know that it is the last user. What remains costs nothing.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>

#include "clock.h"
#include "eal.h"

static struct {
	pthread_mutex_t lock;
	bool started;
	int result;
	char err[256];
	struct rlimit files; /* before */
	bool files_known;
} eal = {.lock = PTHREAD_MUTEX_INITIALIZER};

_Thread_local bool pmd_eal_starting;

/** "0@(0-3,8)": one EAL thread, free on all CPUs that the process may use. */
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

/** The first line of DPDK's own complaint, if it made one. */
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
	pmd_eal_starting = true;
	rc = rte_eal_init((int)(sizeof(argv) / sizeof(argv[0])) - 1, argv);
	pmd_eal_starting = false;
	eal.result = rc < 0 ? (rte_errno > 0 ? -rte_errno : -EIO) : 0;
	rte_openlog_stream(stderr);
	if (stream)
		fclose(stream);
	if (rc < 0) {
		char why[160];

		eal_complaint(log ? log : "", why, sizeof(why));
		snprintf(eal.err, sizeof(eal.err),
			 "DPDK does not start in this process (%s); check that /sys is mounted and memory is left",
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

int pmd_eal_start(char *err, size_t err_len)
{
	sigset_t all, old;
	pthread_t thread;
	int rc;

	pthread_mutex_lock(&eal.lock);
	/* Without it DPDK prints its usage on stdout before it fails. Once it runs it does not miss it. */
	if (!eal.started && access("/sys/devices/system/cpu", F_OK) != 0) {
		pthread_mutex_unlock(&eal.lock);
		snprintf(err, err_len, "DPDK needs /sys, which is not mounted here; run: mount -t sysfs sysfs /sys");
		return -ENOENT;
	}
	if (!eal.started) {
		eal.files_known = getrlimit(RLIMIT_NOFILE, &eal.files) == 0;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &old);
		rc = pthread_create(&thread, NULL, eal_thread, NULL);
		pthread_sigmask(SIG_SETMASK, &old, NULL);
		if (rc != 0) { /* the EAL has not been touched: the next call may have more luck */
			pthread_mutex_unlock(&eal.lock);
			snprintf(err, err_len, "no thread for starting DPDK: %s; raise the process limits",
				 strerror(rc));
			return -rc;
		}
		pthread_join(thread, NULL);
		eal.started = true;
		if (eal.result == 0)
			pmd_clock_start();
	}
	rc = eal.result;
	if (rc != 0)
		snprintf(err, err_len, "%s", eal.err);
	pthread_mutex_unlock(&eal.lock);
	return rc;
}
