/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_unexpected.h - memory of unexpected messages. Private to nic/. */
#ifndef NIC_RDM_UNEXPECTED_H
#define NIC_RDM_UNEXPECTED_H

#include "rdm.h"

void rdm_unexpected_init(struct nic_rdm_rq *rq);
void rdm_unexpected_fini(struct nic_rdm_rq *rq);
/** Create or free the endpoint's pool for operands of its own OPERATEs. */
void rdm_asked_init(struct nic_rdm *ep);
void rdm_asked_fini(struct nic_rdm *ep);
/** Make sure that rdm_unexpected_get finds memory. `needed`: max_unexpected may be exceeded, because the data does not
 *  wait for a receive to be posted. @return false: there is no memory. */
bool rdm_unexpected_room(struct nic_rdm *ep, const struct rdm_header *h, bool needed);
/** Allocate an object for an arriving message, or for operands of the endpoint's own OPERATE. rdm_unexpected_room must
 *  have returned true. @param peer the sender of the message (NULL: unknown), or the target of the OPERATE. */
struct rdm_unexpected *rdm_unexpected_get(struct nic_rdm *ep, struct nic_rdm_peer *peer, const struct rdm_header *h);
/** Free an unexpected message, which must no longer be in a tag unit. */
void rdm_unexpected_free(struct rdm_unexpected *unexpected);

#endif
