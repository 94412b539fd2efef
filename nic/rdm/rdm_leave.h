/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_leave.h - ending connections. Private to nic/. */
#ifndef NIC_RDM_LEAVE_H
#define NIC_RDM_LEAVE_H

#include "rdm.h"

/** Send BYE, which ends the connection. If BYE is lost, the peer notices when the ACK timer of its next request
 *  expires. */
void rdm_say_bye(const struct nic_rdm_peer *peer);
/** Whether a BYE refers to the current connection. */
bool rdm_is_bye_of(const struct nic_rdm_peer *peer, const struct rdm_call *c);
/** A BYE has arrived at an endpoint with many peers. */
void rdm_bye_rx(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c);
/** The peer has sent BYE: end the connection if it is idle. @return when to call this again. */
uint64_t rdm_left_due(struct nic_rdm_peer *peer, uint64_t now_ns);

#endif
