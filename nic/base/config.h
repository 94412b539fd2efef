/* SPDX-License-Identifier: BSD-3-Clause */
/* config.h - fills in the defaults of a nic_config, and checks it. Private to nic/. */
#ifndef NIC_CONFIG_H
#define NIC_CONFIG_H

#include <stdbool.h>

struct nic_config;

/** Fill in the defaults of members that are 0. @return false: a value is invalid, or c->random is NULL. */
bool nic_config_complete(struct nic_config *c);

#endif
