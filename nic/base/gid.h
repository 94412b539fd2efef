/* SPDX-License-Identifier: BSD-3-Clause */
/* gid.h - IPv4-mapped and zero GIDs. Private to nic/. */
#ifndef NIC_GID_H
#define NIC_GID_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "nic_types.h"

static const uint8_t gid_v4_prefix[12] = {[10] = 0xff, [11] = 0xff};

static inline void gid_from_v4(struct nic_gid *gid, const uint8_t *addr)
{
	memcpy(gid->raw, gid_v4_prefix, sizeof(gid_v4_prefix));
	memcpy(gid->raw + 12, addr, 4);
}

static inline bool gid_is_v4(const struct nic_gid *gid)
{
	return memcmp(gid->raw, gid_v4_prefix, sizeof(gid_v4_prefix)) == 0;
}

static inline bool gid_is_zero(const struct nic_gid *gid)
{
	static const struct nic_gid zero;

	return memcmp(gid, &zero, sizeof(zero)) == 0;
}

#endif
