/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uplink_eal.c - starts DPDK's EAL in the daemon: the shared libraries, with all drivers that are installed.
 *
 * By default the EAL uses private memory, no hugepages, and scans no PCI devices unless the uplink is one, so that it
 * needs no preparation of the host. What a driver needs besides (hugepages, a file of its own, cores) is said in
 * UROCE_EAL, which replaces these options.
 *
 * Owns: the text of DPDK's log until the port is open; the stream stays, for ever.
 */
#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_log.h>

#include "uplink_priv.h"

#define ARGUMENTS 64
#define MEMORY	  "256" /* MiB; pages that are not used cost nothing */

static struct {
	FILE *log;
	char *text;
	size_t len;
} eal;

/** The EAL's --lcores for one thread on all CPUs that we may use: "0@(0,1,5)". */
static void lcores(char *out, size_t len)
{
	size_t used = (size_t)snprintf(out, len, "0@(");
	cpu_set_t set;

	CPU_ZERO(&set);
	if (sched_getaffinity(0, sizeof(set), &set) != 0)
		CPU_SET(0, &set);
	for (unsigned cpu = 0; cpu < CPU_SETSIZE && used + 8 < len; cpu++)
		if (CPU_ISSET(cpu, &set))
			used += (size_t)snprintf(out + used, len - used, "%s%u", out[used - 1] == '(' ? "" : ",", cpu);
	snprintf(out + used, len - used, ")");
}

static bool is_pci(const char *args)
{
	return isxdigit((unsigned char)args[0]) && strchr(args, ':');
}

int uplink_eal_start(const struct uplink_config *config, char *err, size_t err_len)
{
	char cpus[1024], *argv[ARGUMENTS], *given = strdup(config->eal ? config->eal : ""), *rest = given, *word;
	unsigned argc = 0;
	int rc = 0;

	eal.log = open_memstream(&eal.text, &eal.len);
	if (!given || !eal.log || rte_openlog_stream(eal.log) != 0) {
		snprintf(err, err_len, "out of memory");
		free(given);
		return -ENOMEM;
	}
	argv[argc++] = (char *)"uroced";
	argv[argc++] = (char *)"--no-telemetry";
	argv[argc++] = (char *)"--log-level=error";
	while (given && (word = strsep(&rest, " \t\n")) && argc < ARGUMENTS - 8)
		if (word[0])
			argv[argc++] = word;
	if (argc == 3) {
		lcores(cpus, sizeof(cpus));
		argv[argc++] = (char *)"--lcores";
		argv[argc++] = cpus;
		argv[argc++] = (char *)"--no-huge";
		argv[argc++] = (char *)"--no-shconf";
		argv[argc++] = (char *)"-m";
		argv[argc++] = (char *)MEMORY;
		if (!is_pci(config->args))
			argv[argc++] = (char *)"--no-pci";
	}
	argv[argc] = NULL;
	if (rte_eal_init((int)argc, argv) < 0) {
		char said[160];

		uplink_eal_complaint(said, sizeof(said));
		snprintf(err, err_len, "DPDK does not start%s%s%s%s", said[0] ? ": " : "", said,
			 config->eal ? "; UROCE_EAL is " : "", config->eal ? config->eal : "");
		rc = -EIO;
	}
	free(given);
	return rc;
}

/** The first line that is not empty: DPDK logs a cause before what follows from it. */
void uplink_eal_complaint(char *out, size_t len)
{
	const char *line;

	out[0] = '\0';
	if (!eal.log || fflush(eal.log) != 0 || !eal.text)
		return;
	line = eal.text + strspn(eal.text, "\n ");
	snprintf(out, len, "%.*s", (int)strcspn(line, "\n"), line);
}

static ssize_t to_syslog(void *ctx, const char *text, size_t len)
{
	(void)ctx;
	syslog(LOG_DAEMON | LOG_ERR, "%.*s", (int)len, text);
	return (ssize_t)len;
}

/* A stream of our own: DPDK's default goes to stderr instead in newer versions. */
void uplink_eal_quiet(void)
{
	FILE *log = fopencookie(NULL, "w", (cookie_io_functions_t){.write = to_syslog});

	rte_openlog_stream(log);
	rte_log_set_global_level(RTE_LOG_ERR);
	/* eal.log stays open: one of DPDK's threads may be writing to it. */
}
