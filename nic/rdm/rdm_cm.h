/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_cm.h - connection management of endpoints with one peer. Private to nic/. */
#ifndef NIC_RDM_CM_H
#define NIC_RDM_CM_H

#include "rdm.h"

/** A WHO has arrived in answer to this endpoint's ASK: repeat the ASK with the challenge. */
void rdm_cm_who(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c);
/** Whether the endpoint has one peer at most: it is an FI_EP_MSG endpoint or a listener. */
static inline bool rdm_has_one_peer(const struct nic_rdm *ep)
{
	return ep->cfg.cm != NULL;
}
void rdm_cm_rx(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c, const uint8_t *data);
/** Whether the endpoint admits the caller's HELLO. */
bool rdm_cm_expects(const struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c);
/** rdm_cm_up: the peer is now connected. rdm_cm_down: the connection has ended, or could not be made. */
void rdm_cm_up(struct nic_rdm_peer *peer);
void rdm_cm_down(struct nic_rdm_peer *peer, uint32_t status);
/** Repeat the ASK, give up, or end the connection after a BYE; `late_ns` as for rdm_calls_due. @return when to call
 * this again. */
uint64_t rdm_cm_due(struct nic_rdm *ep, uint64_t now_ns, uint64_t late_ns);
void rdm_cm_fini(struct nic_rdm *ep);

#endif
