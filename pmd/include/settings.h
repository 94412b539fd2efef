/* SPDX-License-Identifier: BSD-3-Clause */
/* settings.h - settings that are on or off; and settings that were mistyped: told, because nothing else would say why
 * they have no effect. */
#ifndef PMD_SETTINGS_H
#define PMD_SETTINGS_H

#include <stdbool.h>

/** Read a setting that is on or off. @param value the variable's, as getenv() returns it. @param by_default the result
 * if the variable is unset or empty. @return false: it is neither on nor off. */
bool pmd_setting_switch(const char *value, bool by_default, bool *out);

/** Once a process: name on stderr the variables of the environment that look like settings and are none. */
void pmd_settings_tell(void);

/** @return the setting that "UROCE_X" or "UROCE_X=value" was probably meant to be, without its prefix; NULL: it is one,
 * or looks like none. */
const char *pmd_setting_meant(const char *variable);

#endif
