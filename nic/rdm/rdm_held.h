/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_held.h - memory of unexpected messages. Private to nic/. */
#ifndef NIC_RDM_HELD_H
#define NIC_RDM_HELD_H

#include "rdm.h"

void rdm_held_init(struct nic_rdm_rq *rq);
void rdm_held_fini(struct nic_rdm_rq *rq);
/** The endpoint's own pool, for operands of its own OPERATEs. */
void rdm_asked_init(struct nic_rdm *ep);
void rdm_asked_fini(struct nic_rdm *ep);
/** Make sure that rdm_held_get finds memory. `needed`: may exceed max_unexpected, for what does not wait for a receive.
 *  @return false: it would not. */
bool rdm_held_room(struct nic_rdm *ep, const struct rdm_header *h, bool needed);
/** Hold an arriving message (`peer` NULL: unknown sender); the caller enters it in a tag unit. Requires
 *  rdm_held_room. */
struct rdm_held *rdm_held_get(struct nic_rdm *ep, struct nic_rdm_peer *peer, const struct rdm_header *h);
/** Free a held message, which must be in no tag unit any more. */
void rdm_held_free(struct rdm_held *held);

#endif
