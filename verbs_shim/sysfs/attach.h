/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach.h - interface between the sysfs hooks and the engines. If hooks and engines are in different libraries, the
 * engines' library finds the hooks' functions by name. A process that reads a counter in the sysfs tree gets the value
 * of its own engine.
 */
#ifndef SYSFS_ATTACH_H
#define SYSFS_ATTACH_H

#include "engine.h"

/** The current state of an open device. */
struct sysfs_live {
	unsigned state, phys_state; /* as in struct ibv_port_attr */
	struct nic_gid gids[NIC_GID_TABLE_LEN];
	uint64_t nic[NIC_CNT_COUNT];
	struct pmd_port_stats port;
};

struct uroce_sysfs_source {
	size_t size; /* sizeof(struct sysfs_live), which must be the same in both libraries */
	/** Get the description and current state of the device of this name. @return false: the device is not open
	 * in this process. */
	bool (*read)(const char *name, struct pmd_device *device, struct sysfs_live *live);
};

/** Set the source of live values; `source` must stay valid. If source->size is not this library's
 * sizeof(struct sysfs_live), the source is ignored, and the tree shows idle devices. */
void uroce_sysfs_attach(const struct uroce_sysfs_source *source);
/** Call with +1: from then on, this thread bypasses the hooks and sees the kernel's files. Call with -1 to end this. */
void uroce_sysfs_bypass(int change);

#endif
