/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_rq.h - posted receives. Private to nic/. */
#ifndef NIC_RDM_RQ_H
#define NIC_RDM_RQ_H

#include "rdm.h"

/** Create or destroy a queue; nic_rdm_rq_create makes it a shared one. @return as nic_rdm_rq_create. */
int rdm_rq_open(struct nic *nic, const struct nic_rdm_rq_init *init, struct nic_rdm_rq **out);
void rdm_rq_close(struct nic_rdm_rq *rq);
struct tag_unit *rdm_unit(struct nic_rdm_rq *rq, bool tagged);
/** Assign a message of this length to the receive. @return the message's offset in the buffer; *room: how many bytes
 *  of the message fit. */
uint64_t rdm_recv_claim(struct nic_rdm_rq *rq, struct rdm_recv *recv, uint64_t length, uint64_t *room);
/** A message in the receive has ended: report it to the endpoint's owner, or to the queue's owner if `ep` is NULL,
 *  and free the receive if this was its last message. */
void rdm_recv_done(struct nic_rdm_rq *rq, struct nic_rdm *ep, struct rdm_recv *recv, struct nic_rdm_done *done);
/** The endpoint is being destroyed: remove its messages from a shared receive queue. */
void rdm_rq_leave(struct nic_rdm *ep);

#endif
