/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_rendezvous.h - READing long messages. Private to nic/. */
#ifndef NIC_RDM_RENDEZVOUS_H
#define NIC_RDM_RENDEZVOUS_H

#include "rdm.h"

/** Fetch an OFFER's data straight into its receive through `offer`, the reference in the packet. @return false: not
 *  possible, READ the data instead. */
bool rdm_rendezvous_fetch(const struct nic_rdm_peer *peer, const struct rdm_arrival *a,
			  const struct nic_reference *offer);
/** READ an OFFER's data into the receive, which has room for `room` bytes of the data. */
void rdm_rendezvous_get(struct nic_rdm_peer *peer, const struct rdm_header *h, struct rdm_recv *recv, uint64_t base,
			uint64_t room);
/** Send FIN, which tells the peer that its message has arrived in a receive, or was dropped. */
void rdm_rendezvous_fin(struct nic_rdm_peer *peer, uint32_t id);

#endif
