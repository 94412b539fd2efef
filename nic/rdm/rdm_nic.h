/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_nic.h - functions of reliable datagram endpoints that the NIC calls, besides those in struct qp_owner. */
#ifndef NIC_RDM_NIC_H
#define NIC_RDM_NIC_H

#include "qp.h"

struct packet;

/** A packet has arrived for a QP that does not exist: if it is an ASK to the GID of an endpoint, answer with REFUSE. */
void rdm_nobody(struct nic *nic, const struct packet *p);
/** Act on completions of endpoints' queue pairs; called as nic->settle_owners. @return whether there was anything to
 *  do. */
bool rdm_settle(struct nic *nic);
/** Handle the timers of all endpoints, and set nic->rdm_deadline anew. Called when nic->rdm_deadline has passed. */
void rdm_timeout(struct nic *nic);
void rdm_destroy_all(struct nic *nic);

#endif
