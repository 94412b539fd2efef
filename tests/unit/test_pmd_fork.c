/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_fork.c - the engine and fork(): parent and child both open devices afterwards. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "ends.h"
#include "engine_priv.h"
#include "sanitizer.h"

#define ROUNDS 10

static struct pmd_device device[2];

/** Wait until the other process has called this, too. @return 0, or 2 on error. */
static int meet(int turn_in, int turn_out)
{
	char byte = 'x';

	return write(turn_out, &byte, 1) != 1 || read(turn_in, &byte, 1) != 1 ? 2 : 0;
}

/** Open and close a device several times, and check that its packet buffers keep what was written to them. */
static int use_device(const struct pmd_device *d, int mark, int turn_in, int turn_out)
{
	struct pmd_engine *e;
	char err[256];
	int bad = 0;

	for (unsigned round = 0; round < ROUNDS; round++) {
		bad |= meet(turn_in, turn_out);
		if (pmd_open(d, NULL, NULL, &e, err, sizeof(err)) != 0) {
			fprintf(stderr, "open: %s\n", err);
			return 1;
		}
		pmd_lock(e);
		for (unsigned i = 0; i < PMD_TX_BURST; i++)
			memset(e->tx.slots[i].data, mark, NIC_FRAME_MAX);
		bad |= meet(turn_in, turn_out);
		for (unsigned i = 0; i < PMD_TX_BURST; i++)
			for (unsigned at = 0; at < NIC_FRAME_MAX; at++)
				bad |= e->tx.slots[i].data[at] != (uint8_t)mark ? 4 : 0;
		pmd_unlock(e);
		pmd_close(e);
	}
	return bad;
}

static void fork__parent_and_child_have_separate_heaps_after_close(void **state)
{
	int down[2], up[2], status;
	struct pmd_engine *e;
	char err[256];
	pid_t pid;

	(void)state;
	SKIP_THREADS_AFTER_FORK();
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &e, err, sizeof(err)), 0);
	pmd_close(e);
	assert_int_equal(pipe(down) | pipe(up), 0);
	pid = fork();
	if (pid == 0) {
		alarm(60);
		close(down[1]);
		close(up[0]);
		_exit(use_device(&device[1], 'C', down[0], up[1]));
	}
	close(down[0]);
	close(up[1]);
	assert_int_equal(use_device(&device[0], 'P', up[0], down[1]), 0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(down[1]);
	close(up[0]);
}

/** DPDK's memory is mapped private, so a forked child does not share it. */
static void fork__the_heap_is_private(void **state)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	struct pmd_engine *e;
	unsigned found = 0;
	char line[512], err[256];

	(void)state;
	assert_non_null(maps);
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &e, err, sizeof(err)), 0);
	while (fgets(line, sizeof(line), maps)) {
		unsigned long from, to, at = (uintptr_t)e->tx.slots[0].data;
		char rights[5] = "";

		if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || at < from || at >= to)
			continue;
		found++;
		assert_string_equal(rights, "rw-p");
	}
	assert_int_equal(found, 1);
	fclose(maps);
	pmd_close(e);
}

/** @return the exit code of a forked child that runs `fn`. */
static int in_child(int (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(60);
		_exit(fn());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int forks(void)
{
	return (int)pmd_forks();
}

static int forks_of_child(void)
{
	return in_child(forks);
}

static int forks_of_grandchild(void)
{
	return in_child(forks_of_child);
}

/** Forks count from the first one on that happens with an engine open, and all that follow in its child. */
static void fork__is_counted_from_an_open_engine_on(void **state)
{
	struct pmd_engine *e;
	char err[256];

	(void)state;
	SKIP_THREADS_AFTER_FORK();
	assert_int_equal(in_child(forks), 0);
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &e, err, sizeof(err)), 0);
	assert_int_equal(in_child(forks), 1);
	assert_int_equal(in_child(forks_of_child), 2);
	pmd_close(e);
	assert_int_equal(pmd_forks(), 0);
}

/** Without an engine, too, once the caller wants it. The last test: it cannot be undone. */
static void fork__is_counted_without_an_engine_if_wanted(void **state)
{
	(void)state;
	assert_int_equal(in_child(forks), 0);
	pmd_forks_count();
	assert_int_equal(in_child(forks), 1);
	assert_int_equal(in_child(forks_of_grandchild), 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fork__parent_and_child_have_separate_heaps_after_close),
		cmocka_unit_test(fork__the_heap_is_private),
		cmocka_unit_test(fork__is_counted_from_an_open_engine_on),
		cmocka_unit_test(fork__is_counted_without_an_engine_if_wanted),
	};

	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
