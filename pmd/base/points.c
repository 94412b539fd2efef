/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * points.c - kills or stops the process at a test point (points.def), or makes the next C library call fail there. Only
 * in test builds; see points.h.
 *
 * Owns: the armed test point, read from the environment before main() runs.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "points.h"

static const char *const names[] = {
#define PMD_POINT_IS(name, when, sentence) #name,
#include "points.def"
#undef PMD_POINT_IS
};

static struct {
	int point;  /* -1: no point is armed */
	int signal; /* signal to send; 0: make the next C library call fail */
	void (*fail)(void);
	long left; /* times the point must be passed until it triggers */
} armed = {.point = -1};

static bool action_parse(const char *what)
{
	if (strcmp(what, "kill") == 0 || strcmp(what, "stop") == 0) {
		armed.signal = what[0] == 'k' ? SIGKILL : SIGSTOP;
		return true;
	}
	armed.fail = (void (*)(void))dlsym(RTLD_DEFAULT, "failing_next");
	return strcmp(what, "fail") == 0;
}

void pmd_point_arm(const char *value)
{
	char name[64], what[8];

	if (!value || !value[0])
		return;
	if (sscanf(value, "%63[^:]:%ld:%7s", name, &armed.left, what) == 3 && armed.left > 0 && action_parse(what)) {
		for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++)
			if (strcmp(name, names[i]) == 0)
				armed.point = (int)i;
	}
	if (armed.point < 0) {
		fprintf(stderr,
			"UROCE_TEST_POINT is '%s'; use NAME:COUNT:kill, NAME:COUNT:stop, or NAME:COUNT:fail with "
			"libfailing.so preloaded; names as in points.def\n",
			value);
		exit(1);
	}
}

static void __attribute__((constructor)) points_arm(void)
{
	pmd_point_arm(getenv("UROCE_TEST_POINT"));
}

void pmd_point_pass(enum pmd_point point)
{
	if ((int)point != armed.point || __atomic_fetch_sub(&armed.left, 1, __ATOMIC_RELAXED) != 1)
		return;
	if (!armed.signal && armed.fail) /* `fail` is NULL in a daemon, which is started without LD_PRELOAD */
		armed.fail();
	else if (armed.signal) /* sent to this thread, which must stop at this point */
		syscall(SYS_tgkill, getpid(), syscall(SYS_gettid), armed.signal);
}
