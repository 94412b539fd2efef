/* SPDX-License-Identifier: BSD-3-Clause */
/* gsi.h - how the instance destroys queue pair 1; nic_gsi.h has the other functions of gsi.c. Private to nic/. */
#ifndef NIC_GSI_H
#define NIC_GSI_H

struct nic;

/** Destroy queue pair 1, if it exists: the NIC is being destroyed. */
void gsi_close(struct nic *nic);

#endif
