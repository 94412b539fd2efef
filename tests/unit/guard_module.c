/* SPDX-License-Identifier: BSD-3-Clause */
/* guard_module.c - pmd/base/guard.c as a library that is loaded at run time (test_pmd_guard.c). */
#include "engine.h"
#include "guard.h"

__attribute__((visibility("default"))) void guard_module_install(void);
__attribute__((visibility("default"))) bool guard_module_run(void (*fn)(void *arg), void *arg);

void guard_module_install(void)
{
	pmd_guard_reinstall();
}

bool guard_module_run(void (*fn)(void *arg), void *arg)
{
	return pmd_guard_run(NULL, fn, arg);
}
