/* SPDX-License-Identifier: BSD-3-Clause */
/* admit.h - which packets reach a QP. Private to nic/. */
#ifndef NIC_ADMIT_H
#define NIC_ADMIT_H

#include "nic_observe.h"

struct nic;
struct nic_qp;
struct packet;

/** @return the counter of the reason why the packet may not reach this QP; NIC_CNT_COUNT: it may. Runs the checks
 * of 9.6.1 in their order. */
enum nic_counter rx_refusal(const struct nic *nic, const struct nic_qp *qp, const struct packet *p);

#endif
