/* SPDX-License-Identifier: BSD-3-Clause */
/* ah.h - address vectors. Private to nic/. */
#ifndef NIC_AH_H
#define NIC_AH_H

#include <stdbool.h>
#include <string.h>

#include "nic_types.h"

struct nic_av;

static inline bool gid_is_v4(const struct nic_gid *gid)
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return !memcmp(gid->raw, prefix, sizeof(prefix));
}

/** Whether the source GID is set, the destination is one, and both are of the same family. */
bool av_legal(const struct nic *nic, const struct nic_av *av);

#endif
