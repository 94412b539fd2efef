/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_mcast.h - multicast groups for UD QPs (IBTA 10.5, annex A17); see nic.h. A packet to a group has the group's
 * address and QPN NIC_MCAST_QPN. The NIC delivers such a packet to all UD QPs that are attached to the group. The
 * packet reaches the NIC only if the port has joined the group, which is up to the NIC's owner.
 */
#ifndef NIC_NIC_MCAST_H
#define NIC_NIC_MCAST_H

#include <stdbool.h>

#include "nic_types.h"

#define NIC_MCAST_QPN	     0xffffffu
#define NIC_MCAST_GROUPS_MAX 48 /* maximum number of groups to which QPs are attached */
#define NIC_MCAST_QPS_MAX    64 /* maximum number of QPs attached to one group */

/** Whether a GID is a multicast address: IPv6, or IPv4 mapped into ::ffff:224.0.0.0/100. */
static inline bool nic_gid_is_multicast(const struct nic_gid *gid)
{
	static const uint8_t v4[12] = {[10] = 0xff, [11] = 0xff};

	return gid->raw[0] == 0xff || (gid->raw[12] >> 4 == 0xe && __builtin_memcmp(gid->raw, v4, sizeof(v4)) == 0);
}

/** Attach a QP to a group; nothing happens if it is attached already. A QP that is attached cannot be destroyed.
 *  @return 0; -EINVAL: the QP is not a UD QP, or the GID is not a multicast address; -ENOMEM: too many groups or QPs,
 *  or no memory. */
int nic_mcast_attach(struct nic_qp *qp, const struct nic_gid *group);
/** Detach a QP. @return 0; -EINVAL: it is not attached. */
int nic_mcast_detach(struct nic_qp *qp, const struct nic_gid *group);
/** Whether any QP is attached to the group. */
bool nic_mcast_has(const struct nic *nic, const struct nic_gid *group);
/** Get a group that the QP is attached to. @return false: there is none. */
bool nic_mcast_any(const struct nic_qp *qp, struct nic_gid *group);

#endif
