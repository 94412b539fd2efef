/* SPDX-License-Identifier: BSD-3-Clause */
/* settings.h - settings that are on or off; and settings that were mistyped: told, because nothing else would say why
 * they have no effect. */
#ifndef PMD_SETTINGS_H
#define PMD_SETTINGS_H

#include <stdbool.h>

/** Read a setting that is on or off. @param out its value; if it is not set: `unset`. @return false: it is neither on
 * nor off. */
bool pmd_setting_switch(const char *variable, bool unset, bool *out);

/** Once a process: name on stderr the variables of the environment that look like settings and are none. */
void pmd_settings_tell(void);

/** @return the setting that "UROCE_X" or "UROCE_X=value" was probably meant to be, without its prefix; NULL: it is one,
 * or looks like none. */
const char *pmd_setting_meant(const char *variable);

#endif
