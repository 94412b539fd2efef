/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forks.c - registers all fork handlers of this library. They take locks before a fork, so that the child finds them
 * free. Owns nothing.
 */
#include "rdmacm/cma.h"
#include "shim.h"

/* Before a fork the C library calls the handlers in reverse order of their registration: locks that are taken while
 * others are held come first here. */
static void handlers_register(void)
{
	cma_fork_inner();
	shim_devices_fork_inner();
	pmd_fork_handlers();
	shim_devices_fork_outer();
	cma_fork_outer();
}

void shim_fork_handlers(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, handlers_register);
}
