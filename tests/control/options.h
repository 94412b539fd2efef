/* SPDX-License-Identifier: BSD-3-Clause */
/* options.h - parameters of a control-plane run: the seed chooses their values, and the command line can override each
 * by name. */
#ifndef CONTROL_OPTIONS_H
#define CONTROL_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct ctl_opts {
	uint64_t seed;
#define CTL_OPTION(name, sentence) uint32_t name;
#include "options.def"
#undef CTL_OPTION
};

enum ctl_option {
#define CTL_OPTION(name, sentence) CTL_OPT_##name,
#include "options.def"
#undef CTL_OPTION
	CTL_OPT_COUNT
};

struct ctl_overrides {
	bool set[CTL_OPT_COUNT];
	uint32_t value[CTL_OPT_COUNT];
};

void ctl_opts_choose(struct ctl_opts *opts, uint64_t seed, const struct ctl_overrides *overrides);
/** @return index of the option, or -1 if the name is unknown. */
int ctl_opts_find(const char *name);
void ctl_opts_help(FILE *to);
void ctl_opts_print(FILE *to, const struct ctl_opts *opts);

#endif
