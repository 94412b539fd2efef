/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_leave.h - ending connections. Private to nic/. */
#ifndef NIC_RDM_LEAVE_H
#define NIC_RDM_LEAVE_H

#include "rdm.h"

/** Send BYE: the connection is over. If BYE is lost, the ACK timer of the peer's next request finds out. */
void rdm_say_bye(const struct nic_rdm_peer *peer);
/** Whether the BYE is about the current connection. */
bool rdm_is_bye_of(const struct nic_rdm_peer *peer, const struct rdm_call *c);
/** BYE to an endpoint with many peers. */
void rdm_bye_rx(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c);
/** The peer has said BYE: end the connection if it is idle. @return when to come back. */
uint64_t rdm_left_due(struct nic_rdm_peer *peer, uint64_t now_ns);

#endif
