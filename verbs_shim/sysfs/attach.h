/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attach.h - between the library that has the sysfs hooks and the one that has the engines, which may be two: then the
 * latter finds the former's function by name. Counters in the tree are those of the processes that read them.
 */
#ifndef SYSFS_ATTACH_H
#define SYSFS_ATTACH_H

#include "engine.h"

/** What changes while a device is open. */
struct sysfs_live {
	unsigned state, phys_state; /* as in struct ibv_port_attr */
	struct nic_gid gids[NIC_GID_TABLE_LEN];
	uint64_t nic[NIC_CNT_COUNT];
	struct pmd_port_stats port;
};

struct uroce_sysfs_source {
	size_t size; /* of struct sysfs_live: both libraries must mean the same */
	/** Fill in what a device of this name is, and how it is now. @return false: it is not open in this process. */
	bool (*read)(const char *name, struct pmd_device *device, struct sysfs_live *live);
};

/** Who answers from now on; `source` stays. A wrong size is ignored: then the tree shows devices at rest. */
void uroce_sysfs_attach(const struct uroce_sysfs_source *source);
/** +1: this thread sees what the kernel shows, until -1. */
void uroce_sysfs_bypass(int change);

#endif
