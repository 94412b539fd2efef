/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_exit.c - what an engine does when its process exits (pmd/engine/engine.c). A program of its own: the exit
 * handler is registered with the first engine of a process, and forked children inherit it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "ends.h"

enum { ALL_SENT, WAITS_STILL, NOTHING_WAITED };

static struct pmd_device device[2];
static struct end end;

/** An exit handler of the program. It ends the process, so that the code tells what the handler has seen. */
static void end_process(void)
{
	_exit(nic_tx_pending(end.nic) ? WAITS_STILL : ALL_SENT);
}

/** A program whose exit handler would free the memory that it sends from. It exits before its request has left. */
static void run_program(void)
{
	struct end peer;

	if (atexit(end_process) != 0)
		_exit(NOTHING_WAITED);
	end_open_inline(&end, &device[0]);
	end_open_inline(&peer, &device[1]);
	end_connect(&end, &peer);
	end_connect(&peer, &end);
	pmd_lock(end.engine);
	end_post_sends(&end, end.qp, 1, 8); /* without a doorbell */
	if (!nic_tx_pending(end.nic))
		_exit(NOTHING_WAITED);
	pmd_unlock(end.engine);
	exit(NOTHING_WAITED);
}

/** What waits to be sent is sent before the exit handlers run that the program registered before it opened a device. */
static void exit__requests_leave_before_the_handlers_of_the_program_run(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	pid = fork();
	if (pid == 0)
		run_program();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), ALL_SENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exit__requests_leave_before_the_handlers_of_the_program_run),
	};

	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
