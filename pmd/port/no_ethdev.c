/* SPDX-License-Identifier: BSD-3-Clause */
/* no_ethdev.c - in a build without DPDK: refuses the ports that need it. */
#include <errno.h>
#include <stdio.h>

#include "port.h"

int pmd_port_ethdev_open(const struct pmd_device *device, enum nic_mtu mtu, struct pmd_pool *pool,
			 struct pmd_port **out, char *err, size_t err_len)
{
	(void)mtu;
	(void)pool;
	(void)out;
	snprintf(err, err_len, "'%s' needs DPDK, and this uroce was built without DPDK; build it with -Ddpdk=enabled",
		 device->port);
	return -ENOTSUP;
}
