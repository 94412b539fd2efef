/* SPDX-License-Identifier: BSD-3-Clause */
/* ah.h - address vectors. Private to nic/. */
#ifndef NIC_AH_H
#define NIC_AH_H

#include <stdbool.h>

struct nic;
struct nic_av;

/** Whether the source GID is set, the destination is one, and both are of the same family. */
bool av_legal(const struct nic *nic, const struct nic_av *av);

#endif
