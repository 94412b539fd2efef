/* SPDX-License-Identifier: BSD-3-Clause */
/* ud.h - datagrams. Private to nic/. */
#ifndef NIC_UD_H
#define NIC_UD_H

#include <stdbool.h>

struct nic_qp;
struct nic_tx_frame;
struct packet;

void ud_rx(struct nic_qp *qp, const struct packet *p);
/** Complete WQE sq.next without sending it if it is too long for a datagram. @return whether it was too long. */
bool ud_skip(struct nic_qp *qp);
bool ud_tx(struct nic_qp *qp, struct nic_tx_frame *frame);

#endif
