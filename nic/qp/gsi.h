/* SPDX-License-Identifier: BSD-3-Clause */
/* gsi.h - queue pair 1 as the instance sees it (gsi.c); for others see nic_gsi.h. Private to nic/. */
#ifndef NIC_GSI_H
#define NIC_GSI_H

struct nic;

/** Destroy queue pair 1, if it exists: the NIC is being destroyed. */
void gsi_close(struct nic *nic);

#endif
