/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_unexpected.h - memory of unexpected messages. Private to nic/. */
#ifndef NIC_RDM_UNEXPECTED_H
#define NIC_RDM_UNEXPECTED_H

#include "rdm.h"

void rdm_unexpected_init(struct nic_rdm_rq *rq);
void rdm_unexpected_fini(struct nic_rdm_rq *rq);
/** The endpoint's own pool, for operands of its own OPERATEs. */
void rdm_asked_init(struct nic_rdm *ep);
void rdm_asked_fini(struct nic_rdm *ep);
/** Make sure that rdm_unexpected_get finds memory. `needed`: may exceed max_unexpected, for what does not wait for a
 *  receive. @return false: it would not. */
bool rdm_unexpected_room(struct nic_rdm *ep, const struct rdm_header *h, bool needed);
/** Hold an arriving message (`peer` NULL: unknown sender); the caller enters it in a tag unit. Requires
 *  rdm_unexpected_room. */
struct rdm_unexpected *rdm_unexpected_get(struct nic_rdm *ep, struct nic_rdm_peer *peer, const struct rdm_header *h);
/** Free an unexpected message, which must be in no tag unit any more. */
void rdm_unexpected_free(struct rdm_unexpected *unexpected);

#endif
