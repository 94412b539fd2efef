/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_rx.h - delivering messages to receives. Private to nic/. */
#ifndef NIC_RDM_RX_H
#define NIC_RDM_RX_H

#include "rdm.h"

/** Prepare the receive completion for a message. */
struct nic_rdm_done rdm_describe(struct nic_rdm_peer *peer, const struct rdm_header *h);
/** Assign a receive to an unexpected message, or discard the message. The message must no longer be in the tag unit. */
void rdm_unexpected_match(struct rdm_unexpected *unexpected, struct rdm_recv *recv);
void rdm_unexpected_discard(struct rdm_unexpected *unexpected);
/** Copy bytes to the segments of iov, beginning at `offset` bytes into them. @return false: some of the memory cannot
 *  be written. */
bool rdm_scatter(struct nic *nic, const struct nic_iov *iov, uint32_t n, uint64_t offset, const void *src,
		 uint64_t len);
/** The connection is lost: end the message being received, drop OFFERs and OPERATEs of the peer that wait for a
 *  receive, and release the answers reserved for its messages that have not been delivered. */
void rdm_arrivals_lost(struct nic_rdm_peer *peer);

/** Parse the header in the first packet of a message; *prefix is its length with segments. @return false: malformed. */
bool rdm_header_of(const struct packet *p, struct rdm_header *h, uint32_t *prefix);
/** Deliver or hold a complete message; `peer` is NULL for a datagram from an unknown sender. @return false: no
 *  receive matches the message, and there is no memory to hold it. */
bool rdm_deliver_whole(struct nic_rdm *ep, struct nic_rdm_peer *peer, const struct rdm_header *h, const uint8_t *data);
/** See struct qp_owner. */
bool rdm_takes(const struct nic_qp *qp, const struct packet *p);
/** See struct qp_owner. */
enum error_id rdm_arrive(struct nic_qp *qp, const struct packet *p);
/** See struct qp_owner. */
uint8_t *rdm_foresee(const struct nic_qp *qp, const struct packet *p, struct nic_foresight *f);

#endif
