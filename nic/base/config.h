/* SPDX-License-Identifier: BSD-3-Clause */
/* config.h - fills in the defaults of a nic_config, and checks it. Private to nic/. */
#ifndef NIC_CONFIG_H
#define NIC_CONFIG_H

#include <stdbool.h>

struct nic_config;

/** Replace zeroes in *c with the defaults. @return false: a value is out of range, or c->random is NULL. */
bool nic_config_complete(struct nic_config *c);

#endif
