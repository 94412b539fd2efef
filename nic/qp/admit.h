/* SPDX-License-Identifier: BSD-3-Clause */
/* admit.h - which packets reach a QP. Private to nic/. */
#ifndef NIC_ADMIT_H
#define NIC_ADMIT_H

#include "nic_observe.h"

struct nic;
struct nic_qp;
struct packet;

/** Run the checks of 9.6.1 in their order. @return the counter for the reason why this QP must not get the packet, or
 * NIC_CNT_COUNT if the QP may get it. */
enum nic_counter rx_refusal(const struct nic *nic, const struct nic_qp *qp, const struct packet *p);

#endif
