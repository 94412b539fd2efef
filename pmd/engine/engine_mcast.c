/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_mcast.c - multicast groups: the NIC knows which QPs are attached, and the port is a member of a group as long
 * as any QP is attached to that group. Joining and leaving make system calls under the lock, so cancellation is
 * disabled around them. Owns nothing.
 */
#include <errno.h>
#include <pthread.h>

#include "engine_priv.h"

bool pmd_mcast_supported(const struct pmd_engine *e)
{
	return e->host.port->ops->join;
}

/** Have the port join a group. If that gives the port a new descriptor, wake the thread that sleeps on the old one. */
static int join(struct pmd_engine *e, const struct nic_gid *group)
{
	struct pmd_port *port = e->host.port;
	unsigned changes = port->wait_changes;
	int rc = port->ops->join(port, group);

	if (port->wait_changes != changes)
		pmd_engine_wake(e);
	return rc;
}

int pmd_mcast_attach(struct pmd_engine *e, struct nic_qp *qp, const struct nic_gid *group)
{
	bool joined = nic_mcast_has(e->host.nic, group);
	int cancel, rc;

	if (!pmd_mcast_supported(e))
		return -EOPNOTSUPP;
	rc = nic_mcast_attach(qp, group);
	if (rc != 0 || joined)
		return rc;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	rc = join(e, group);
	pthread_setcancelstate(cancel, NULL);
	if (rc != 0)
		nic_mcast_detach(qp, group);
	return rc;
}

int pmd_mcast_detach(struct pmd_engine *e, struct nic_qp *qp, const struct nic_gid *group)
{
	int rc = nic_mcast_detach(qp, group), cancel;

	if (rc != 0 || nic_mcast_has(e->host.nic, group))
		return rc;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	e->host.port->ops->leave(e->host.port, group);
	pthread_setcancelstate(cancel, NULL);
	return 0;
}

void pmd_mcast_leave(struct pmd_engine *e, struct nic_qp *qp)
{
	struct nic_gid group;

	while (nic_mcast_any(qp, &group))
		pmd_mcast_detach(e, qp, &group);
}
