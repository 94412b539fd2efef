/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * options.h - parameters of one simulation run. The seed chooses every option; the command line may override any of
 * them by name (scripts/replay shrinks a failing run this way). One line of options.def per option.
 */
#ifndef SIM_OPTIONS_H
#define SIM_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

struct sim_opts {
	uint64_t seed;
#define SIM_OPTION(name, sentence) uint32_t name;
#include "options.def"
#undef SIM_OPTION
};

enum sim_option {
#define SIM_OPTION(name, sentence) SIM_OPT_##name,
#include "options.def"
#undef SIM_OPTION
	SIM_OPT_COUNT
};

/** Options that the command line fixes. */
struct sim_overrides {
	bool set[SIM_OPT_COUNT];
	uint32_t value[SIM_OPT_COUNT];
};

/** The options that a seed stands for, with overrides applied. */
void sim_opts_choose(struct sim_opts *opts, uint64_t seed, const struct sim_overrides *overrides);

/** Index of the option called `name` (dashes count as underscores); -1 if there is none. */
int sim_opts_find(const char *name);

/** One line per option with its meaning. */
void sim_opts_help(FILE *to);

/** "--name=value ..." for all options, on one line. */
void sim_opts_print(FILE *to, const struct sim_opts *opts);

#endif
