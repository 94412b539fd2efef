/* SPDX-License-Identifier: BSD-3-Clause */
/* real.h - the real library, and the table of trampolines that symbols.py generates. */
#ifndef SHIM_REAL_H
#define SHIM_REAL_H

#include <stdbool.h>

struct verbs_ex_private;

/** The target of a trampoline. If the real library lacks this function, calls set errno to ENOSYS. They return NULL if
 * `fails_null` is set, otherwise ENOSYS. */
struct shim_tramp {
	const char *name, *version;
	bool fails_null;
};

extern const struct shim_tramp shim_tramps[];
extern void *shim_tramp_slots[];
extern bool shim_data_verbs_allow_disassociate_destroy;

/** The real library's handle, if the process has loaded that library; else NULL. */
void *shim_real_loaded(void);
/** The real library's handle, opened on first use; NULL if none is found. */
void *shim_real_open(void);
/** Set while a thread calls a function of the real library that looks for a device in ibv_get_device_list, and then
 *  behind its struct ibv_device: the list has real devices only. */
extern _Thread_local bool shim_real_devices_only;

/** The `priv` of our contexts, which only the real libibverbs reads. A program may call a function that only the real
 * library has on one of our objects: the function then calls an operation in this structure, and all of them fail with
 * EOPNOTSUPP. All contexts share it. @return NULL: the real library is not in the process. (unknown.c) */
struct verbs_ex_private *shim_unknown_private(void);

#endif
