/* SPDX-License-Identifier: BSD-3-Clause */
/* real.h - between real.c and the table that symbols.py makes. */
#ifndef SHIM_REAL_H
#define SHIM_REAL_H

#include <stdbool.h>

/** What a trampoline jumps to, and what its callers get when there is no real library: NULL, or ENOSYS. */
struct shim_tramp {
	const char *name, *version;
	bool fails_null;
};

extern const struct shim_tramp shim_tramps[];
extern void *shim_tramp_slots[];
extern bool shim_data_verbs_allow_disassociate_destroy;

/** The real library's handle, opened on first use; NULL when there is none. */
void *shim_real_open(void);

#endif
