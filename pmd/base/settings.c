/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * settings.c - reads settings that are on or off, and tells mistyped settings. A variable UROCE_X that is no setting,
 * but looks like one, is named once on stderr with what was probably meant. Other variables may begin so, too: they are
 * not ours to judge.
 *
 * State: which process has been told. uroce-run tells before the program starts, and leaves the names in UROCE_TOLD.
 */
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "filesize.h"
#include "settings.h"

#define PREFIX	"UROCE_"
#define LONGEST 32u /* longer than any setting's name */

static const char *const settings[] = {
#define PMD_SETTING(name) #name,
#include "settings.def"
#undef PMD_SETTING
};

bool pmd_setting_switch(const char *value, bool by_default, bool *out)
{
	*out = value && value[0] ? strcmp(value, "on") == 0 : by_default;
	return *out || !value || !value[0] || strcmp(value, "off") == 0;
}

static unsigned least(unsigned a, unsigned b)
{
	return a < b ? a : b;
}

/** How many letters are missing, added, wrong or exchanged with their neighbours. Both are shorter than LONGEST. */
static unsigned distance(const char *one, unsigned n, const char *other, unsigned m)
{
	unsigned row[LONGEST + 1][LONGEST + 1];

	for (unsigned i = 0; i <= n; i++) {
		for (unsigned j = 0; j <= m; j++) {
			if (i == 0 || j == 0) {
				row[i][j] = i + j;
				continue;
			}
			row[i][j] = least(least(row[i - 1][j], row[i][j - 1]) + 1,
					  row[i - 1][j - 1] + (one[i - 1] != other[j - 1]));
			if (i > 1 && j > 1 && one[i - 1] == other[j - 2] && one[i - 2] == other[j - 1])
				row[i][j] = least(row[i][j], row[i - 2][j - 2] + 1);
		}
	}
	return row[n][m];
}

const char *pmd_setting_meant(const char *variable)
{
	unsigned best = ~0u, n = 0;
	const char *meant = NULL, *name;

	if (strncmp(variable, PREFIX, strlen(PREFIX)) != 0)
		return NULL;
	name = variable + strlen(PREFIX);
	while (n < LONGEST && (isalnum((unsigned char)name[n]) || name[n] == '_'))
		n++;
	if (n == 0 || n == LONGEST || (name[n] != '\0' && name[n] != '='))
		return NULL;
	for (unsigned i = 0; i < sizeof(settings) / sizeof(settings[0]); i++) {
		unsigned far = distance(name, n, settings[i], (unsigned)strlen(settings[i]));

		if (far == 0)
			return NULL;
		if (far < best) {
			best = far;
			meant = settings[i];
		}
	}
	return best <= (n < 8 ? 1 : n / 4) ? meant : NULL;
}

/** Whether the name, of `n` characters, is among the words of a text. */
static bool is_among(const char *text, const char *name, size_t n)
{
	for (const char *at = text; at && (at = strstr(at, name)) != NULL; at += n)
		if ((at == text || at[-1] == ' ') && (at[n] == ' ' || at[n] == '\0'))
			return true;
	return false;
}

void pmd_settings_tell(void)
{
	static bool told;
	const char *before = getenv("UROCE_TOLD");

	if (__atomic_exchange_n(&told, true, __ATOMIC_RELAXED))
		return;
	for (char **variable = environ; variable && *variable; variable++) {
		const char *meant = pmd_setting_meant(*variable);
		char name[sizeof(PREFIX) + LONGEST];

		if (!meant || !filesize_allows_stderr())
			continue;
		snprintf(name, sizeof(name), "%.*s", (int)strcspn(*variable, "="), *variable);
		if (!before || !is_among(before, name, strlen(name)))
			fprintf(stderr, "uroce: %s is no setting; did you mean UROCE_%s?\n", name, meant);
	}
}
