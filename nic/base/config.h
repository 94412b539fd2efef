/* SPDX-License-Identifier: BSD-3-Clause */
/* config.h - the defaults of nic_config, and its check. Private to nic/. */
#ifndef NIC_CONFIG_H
#define NIC_CONFIG_H

#include <stdbool.h>

struct nic_config;

/** Fill in defaults. @return false: a value is out of range. */
bool nic_config_complete(struct nic_config *c);

#endif
