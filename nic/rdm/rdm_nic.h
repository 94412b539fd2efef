/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_nic.h - what the instance calls of its endpoints, besides struct qp_owner. */
#ifndef NIC_RDM_NIC_H
#define NIC_RDM_NIC_H

#include "qp.h"

struct packet;

/** A packet to a QP that does not exist. */
void rdm_nobody(struct nic *nic, const struct packet *p);
/** Endpoints act on what has completed: nic->settle_owners. @return whether there was anything. */
bool rdm_settle(struct nic *nic);
/** nic->rdm_deadline has come. */
void rdm_timeout(struct nic *nic);
void rdm_destroy_all(struct nic *nic);

#endif
