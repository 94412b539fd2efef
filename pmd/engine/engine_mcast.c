/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_mcast.c - multicast groups: the NIC knows which QPs are attached, and the port joins a group as long as any
 * is. Owns nothing.
 */
#include <errno.h>

#include "engine_priv.h"

bool pmd_mcast_supported(const struct pmd_engine *e)
{
	return e->host.port->ops->join;
}

int pmd_mcast_attach(struct pmd_engine *e, struct nic_qp *qp, const struct nic_gid *group)
{
	bool joined = nic_mcast_has(e->host.nic, group);
	int rc;

	if (!pmd_mcast_supported(e))
		return -EOPNOTSUPP;
	rc = nic_mcast_attach(qp, group);
	if (rc != 0 || joined)
		return rc;
	rc = e->host.port->ops->join(e->host.port, group);
	if (rc != 0)
		nic_mcast_detach(qp, group);
	return rc;
}

int pmd_mcast_detach(struct pmd_engine *e, struct nic_qp *qp, const struct nic_gid *group)
{
	int rc = nic_mcast_detach(qp, group);

	if (rc == 0 && !nic_mcast_has(e->host.nic, group))
		e->host.port->ops->leave(e->host.port, group);
	return rc;
}

void pmd_mcast_leave(struct pmd_engine *e, struct nic_qp *qp)
{
	struct nic_gid group;

	while (nic_mcast_any(qp, &group))
		pmd_mcast_detach(e, qp, &group);
}
