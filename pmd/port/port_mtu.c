/* SPDX-License-Identifier: BSD-3-Clause */
/* port_mtu.c - which IB MTU a device's port carries. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "key.h"
#include "port.h"

int pmd_device_mtu(const struct pmd_device *device, const char *override, enum nic_mtu *mtu, char *err, size_t err_len)
{
	uint32_t carried = device->netdev_mtu ? device->netdev_mtu : 1500;
	uint32_t overhead = PMD_OVERHEAD_V6 + (pmd_key_is_set() ? PMD_OVERHEAD_KEY : 0);

	if (override && override[0]) {
		for (unsigned m = NIC_MTU_256; m <= NIC_MTU_4096; m++) {
			char text[8];

			snprintf(text, sizeof(text), "%u", 128u << m);
			if (strcmp(override, text) == 0) {
				*mtu = (enum nic_mtu)m;
				return 0;
			}
		}
		snprintf(err, err_len, "UROCE_MTU is '%.32s'; use 256, 512, 1024, 2048 or 4096", override);
		return -EINVAL;
	}
	*mtu = NIC_MTU_256;
	for (unsigned m = NIC_MTU_256; m <= NIC_MTU_4096; m++)
		if (carried >= (128u << m) + overhead)
			*mtu = (enum nic_mtu)m;
	return 0;
}

uint32_t pmd_device_mtu_need(const struct pmd_device *device, enum nic_mtu mtu)
{
	return (128u << mtu) + (pmd_gid_is_v4(&device->gid) ? PMD_OVERHEAD_V4 : PMD_OVERHEAD_V6) +
	       (pmd_key_is_set() ? PMD_OVERHEAD_KEY : 0);
}

int pmd_device_mtu_fits(const struct pmd_device *device, enum nic_mtu mtu, char *err, size_t err_len)
{
	uint32_t need = pmd_device_mtu_need(device, mtu);

	if (device->netdev_mtu == 0 || device->netdev_mtu >= need)
		return 0;
	snprintf(err, err_len, "an IB MTU of %u needs an MTU of %u on %s, which has %u; raise it or lower UROCE_MTU",
		 128u << mtu, need, device->netdev[0] ? device->netdev : device->port, device->netdev_mtu);
	return -EMSGSIZE;
}
