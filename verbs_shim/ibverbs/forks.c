/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forks.c - registers the fork handlers of the verbs, of the engines and of the connection manager. The handlers hold
 * the locks during a fork, so that the locks are free in the child. They are registered when the library is loaded: if
 * they were registered later, another thread could fork during the registration, and its child could find a lock taken.
 * Owns nothing.
 */
#include "rdmacm/cma.h"
#include "shim.h"
#include "xrc.h"

/* Before a fork the C library calls the handlers in reverse order of their registration. Therefore the handlers of
 * inner locks, which are taken while outer ones are held, are registered first. */
static void __attribute__((constructor)) handlers_register(void)
{
	cma_fork_inner();
	shim_devices_fork_inner();
	pmd_fork_handlers();
	shim_devices_fork_outer();
	cma_fork_outer();
	shim_xrc_fork();
}
