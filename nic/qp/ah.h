/* SPDX-License-Identifier: BSD-3-Clause */
/* ah.h - address vectors. Private to nic/. */
#ifndef NIC_AH_H
#define NIC_AH_H

#include <stdbool.h>

struct nic;
struct nic_av;

/** Whether the source GID index names an entry of the GID table that is set, the destination GID is not zero, and both
 * GIDs are of one family (IPv4 or IPv6). */
bool av_legal(const struct nic *nic, const struct nic_av *av);

#endif
