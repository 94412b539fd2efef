/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_rx.h - delivering messages to receives. Private to nic/. */
#ifndef NIC_RDM_RX_H
#define NIC_RDM_RX_H

#include "rdm.h"

/** The receiver's completion for a message. */
struct nic_rdm_done rdm_describe(struct nic_rdm_peer *peer, const struct rdm_header *h);
/** An unexpected message, already out of the tag unit, gets its receive, or is dropped without one. */
void rdm_unexpected_match(struct rdm_unexpected *unexpected, struct rdm_recv *recv);
void rdm_unexpected_discard(struct rdm_unexpected *unexpected);
/** Copy bytes to the memory that iov lists, from `offset` on. @return false: some of it is not mapped. */
bool rdm_scatter(struct nic *nic, const struct nic_iov *iov, uint32_t n, uint64_t offset, const void *src,
		 uint64_t len);
/** The connection is lost: end the message being received, drop unreceived offers and operations of the peer, owe it
 *  nothing. */
void rdm_arrivals_lost(struct nic_rdm_peer *peer);

/** Parse the header in the first packet of a message. @return false: malformed. */
bool rdm_header_of(const struct packet *p, struct rdm_header *h, uint32_t *prefix);
/** Deliver or hold a complete message; `peer` is NULL for a datagram from an unknown sender. @return false: no receive
 *  for it, and no memory to hold it. */
bool rdm_deliver_whole(struct nic_rdm *ep, struct nic_rdm_peer *peer, const struct rdm_header *h, const uint8_t *data);
/** See struct qp_owner. */
bool rdm_takes(const struct nic_qp *qp, const struct packet *p);
/** See struct qp_owner. */
enum error_id rdm_arrive(struct nic_qp *qp, const struct packet *p);
/** See struct qp_owner. */
uint8_t *rdm_foresee(const struct nic_qp *qp, const struct packet *p, struct nic_foresight *f);

#endif
