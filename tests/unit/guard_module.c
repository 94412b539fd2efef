/* SPDX-License-Identifier: BSD-3-Clause */
/* guard_module.c - pmd/guard.c as a library that is loaded at run time (test_pmd_guard.c). */
#include "engine.h"

__attribute__((visibility("default"))) void guard_module_install(void);

void guard_module_install(void)
{
	pmd_guard_reinstall();
}
