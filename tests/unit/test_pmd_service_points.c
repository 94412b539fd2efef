/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_service_points.c - a function dies or stops at each test point of starting and ending to serve a port. Other
 * functions are not disturbed, the port is either owned or free, and functions that continue get what they asked for.
 * kill_test.py and cm_points_test.py cover all other points.
 */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ends.h"
#include "nic_rdm.h"
#include "part.h"

#define PORT	  1000
#define PATIENT_S 20
#define PAUSE_US  2000

enum { VICTIM, OTHER, SENDER, PARTS };

static struct pmd_device device[2];
static struct part part[PARTS];

struct point {
	const char *name, *when;
};
static const struct point points[] = {
#define PMD_POINT_IS(name, when, sentence) {#name, #when},
#include "points.def"
#undef PMD_POINT_IS
};

static int64_t serve(unsigned i, uint16_t port)
{
	return part_do(&part[i], PART_SERVE, port, 0);
}

static void arrives(unsigned owner, uint16_t port)
{
	int64_t before = part_do(&part[owner], PART_NO_QP, 0, 0);

	for (unsigned tries = 0; part_do(&part[owner], PART_NO_QP, 0, 0) == before; tries++) {
		assert_true(tries < PATIENT_S * 1000000 / PAUSE_US);
		part_do(&part[SENDER], PART_SEND, 0, port);
		usleep(PAUSE_US);
	}
}

/** Have the victim die or stop at this point while it starts or ends to serve, and check that the others are not
 * disturbed. */
static void at_point(const struct point *p, bool dies)
{
	bool ends = strcmp(p->when, "UNSERVE") == 0, held = strcmp(p->name, "service_unnamed") != 0;
	char value[64];
	int status;

	snprintf(value, sizeof(value), "%s:1:%s", p->name, dies ? "kill" : "stop");
	for (unsigned i = 0; i < PARTS; i++) {
		setenv("UROCE_TEST_POINT", i == VICTIM ? value : "", 1);
		part_start(&part[i], device);
		assert_int_equal(part_do(&part[i], PART_OPEN, i == SENDER, i != SENDER), 0);
	}
	if (ends)
		assert_int_equal(serve(VICTIM, PORT), PORT);
	part_order(&part[VICTIM], ends ? PART_UNSERVE : PART_SERVE, PORT, 0);
	assert_int_equal(waitpid(part[VICTIM].pid, &status, WUNTRACED), part[VICTIM].pid);
	assert_true(dies ? WIFSIGNALED(status) : WIFSTOPPED(status));
	assert_int_equal(serve(OTHER, PORT + 1), PORT + 1);
	arrives(OTHER, PORT + 1);
	assert_int_equal(serve(OTHER, PORT), dies || !held ? PORT : -EADDRINUSE);
	if (dies) {
		arrives(OTHER, PORT);
		part_gone(&part[VICTIM]);
	} else {
		kill(part[VICTIM].pid, SIGCONT);
		assert_int_equal(part_answer(&part[VICTIM]), ends ? 0 : PORT);
		if (ends && held)
			assert_int_equal(serve(OTHER, PORT), PORT);
		arrives(ends ? OTHER : VICTIM, PORT);
		part_end(&part[VICTIM]);
	}
	part_end(&part[OTHER]);
	part_end(&part[SENDER]);
}

static void services__survive_a_function_killed_or_stopped_at_each_test_point(void **state)
{
	unsigned n = 0;

	(void)state;
	for (unsigned i = 0; i < sizeof(points) / sizeof(points[0]); i++) {
		if (strcmp(points[i].when, "SERVE") != 0 && strcmp(points[i].when, "UNSERVE") != 0)
			continue;
		n++;
		for (unsigned dies = 0; dies < 2; dies++) {
			device[0].gid.raw[15] = (uint8_t)(device[0].gid.raw[15] + 2);
			device[1].gid.raw[15] = (uint8_t)(device[1].gid.raw[15] + 2);
			at_point(&points[i], dies);
		}
	}
	assert_int_equal(n, 6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(services__survive_a_function_killed_or_stopped_at_each_test_point),
	};

	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
