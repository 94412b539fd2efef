/* SPDX-License-Identifier: BSD-3-Clause */
/* devices.h - reading the device configuration (pmd-internal; see docs/configuration.md). */
#ifndef PMD_DEVICES_H
#define PMD_DEVICES_H

#include "address.h"
#include "engine.h"

/**
 * Parse `spec`, the value of UROCE_DEVICES; NULL or blank: the default devices.
 * @param err receives an error message if the value is wrong.
 * @return number of devices, at most `max`, or a negative errno.
 */
int pmd_devices_parse(const char *spec, struct pmd_device *devices, unsigned max, char *err, size_t err_len);

/** Fill in the name of the interface that has the device's address (for an ethdev: that its iface= argument names), the
 *  interface's MAC and MTU if they are known, and the node GUID. */
void pmd_device_fill_netdev(struct pmd_device *device);

#endif
