/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * personality.c - how atomics appear to programs: the capabilities that a device reports, and the byte order of
 * results. The effect of the atomics is always the same (docs/atomics.md).
 */
#include <stdio.h>
#include <string.h>

#include "shim.h"

static const struct shim_personality personalities[] = {
	/* GLOB would be true as well, but programs look for HCA. */
	{"hca", IBV_ATOMIC_HCA, IBV_EXP_ATOMIC_HCA, 0, false},
	{"glob", IBV_ATOMIC_GLOB, IBV_EXP_ATOMIC_GLOB, 0, false},
	{"connectx4", IBV_ATOMIC_HCA, IBV_EXP_ATOMIC_HCA, 4 | 16 | 32, false},
	{"connectib", IBV_ATOMIC_NONE, IBV_EXP_ATOMIC_HCA_REPLY_BE, SHIM_ATOMIC_SIZES, true},
};

const struct shim_personality *shim_personality_find(char *err, size_t err_len)
{
	const char *value = getenv("UROCE_ATOMICS");

	if (!value || !value[0])
		return &personalities[0];
	for (unsigned i = 0; i < sizeof(personalities) / sizeof(personalities[0]); i++)
		if (strcmp(value, personalities[i].name) == 0)
			return &personalities[i];
	snprintf(err, err_len, "UROCE_ATOMICS is '%.32s'; use hca, glob, connectx4 or connectib", value);
	return NULL;
}
