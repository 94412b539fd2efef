/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forks.c - the fork handlers of the verbs and of their connection manager. They take locks before a fork, so that the
 * child finds them free. They are registered when the library is loaded: if another thread forked while they were being
 * registered, its child could find a lock taken. Owns nothing.
 */
#include "rdmacm/cma.h"
#include "shim.h"

/* Before a fork the C library calls the handlers in reverse order of their registration: locks that are taken while
 * others are held come first here. */
static void __attribute__((constructor)) handlers_register(void)
{
	cma_fork_inner();
	shim_devices_fork_inner();
	pmd_fork_handlers();
	shim_devices_fork_outer();
	cma_fork_outer();
}
