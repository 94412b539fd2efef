/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_qp.h - the RC queue pairs of endpoints. Private to nic/. */
#ifndef NIC_RDM_QP_H
#define NIC_RDM_QP_H

#include "rdm.h"

/** Address vector from the endpoint's address to `addr`. @return false: the endpoint's GID is no longer in the GID
 *  table. */
bool rdm_av_to(const struct nic_rdm *ep, const struct nic_rdm_addr *addr, struct nic_av *av);
/** Create the peer's QP. @return false: no memory. */
bool rdm_qp_make(struct nic_rdm_peer *peer);
/** Connect this side's QP to QP `qpn` of the peer. @return 0 or a negative errno. */
int rdm_qp_connect(struct nic_rdm_peer *peer, uint32_t qpn, uint32_t psn, enum nic_mtu mtu);
/** Take the peer's QP out of use: complete the requests in its send queue with an error. The QP first sends its
 *  remaining answers to the peer, which would otherwise count executed requests as lost, and is then destroyed. */
void rdm_qp_drop(struct nic_rdm_peer *peer);
/** Destroy the dropped QPs that have sent their last answers. `all`: destroy all dropped QPs. */
void rdm_linger_end(struct nic_rdm *ep, bool all);

#endif
