/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_datagram.h - datagrams. Private to nic/. */
#ifndef NIC_RDM_DATAGRAM_H
#define NIC_RDM_DATAGRAM_H

#include "rdm.h"

/** Post a datagram. @return 0; -ENOMEM if the send queue is full (try again later); or another negative errno. */
int rdm_datagram_post(struct rdm_op *op);
void rdm_datagram_rx(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct packet *p);
/** Return the contact QP from SQE to RTS, after a datagram whose payload could not be read has put it into SQE. */
void rdm_datagram_recover(struct nic_rdm *ep);

#endif
