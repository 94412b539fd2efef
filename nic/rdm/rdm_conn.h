/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_conn.h - connecting peers, calls, keepalives. Private to nic/. */
#ifndef NIC_RDM_CONN_H
#define NIC_RDM_CONN_H

#include "rdm.h"

/** Allocate the peer's QP if a request to the peer would need a new connection. Call before accepting a request.
 *  @return 0, -ENOMEM. */
int rdm_admit(struct nic_rdm_peer *peer);
/** Connect to the peer, unless it is already connected or being connected. */
void rdm_connect(struct nic_rdm_peer *peer);
/** End the connection, or the attempt to connect. Requests that have begun fail with `status`. Requests that have not
 *  begun also fail if `status` is NIC_RDM_UNREACHABLE or NIC_RDM_NO_MEMORY, or if the endpoint is strict. */
void rdm_disconnect(struct nic_rdm_peer *peer, uint32_t status);
/** Free a peer that the application does not know, and that has sent calls only. */
void rdm_peer_forget(struct nic_rdm_peer *peer);
/** Answer a call with WHO: the caller must call again, with the challenge in the WHO. `peer`: NULL if unknown. */
void rdm_ask_who(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c,
		 const struct nic_rdm_peer *peer);
/** Answer an ASK with REFUSE: the port that the ASK was sent to has no listener. */
void rdm_refuse(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct rdm_call *c);
/** Repeat HELLOs, or give up. `late_ns`: time during which this process could not run; that time does not count against
 *  the peers' timeouts. @return when to call this again. */
uint64_t rdm_calls_due(struct nic_rdm *ep, uint64_t now_ns, uint64_t late_ns);
/** Begin to probe the peer regularly, because this endpoint waits for something that only the peer can do, or the peer
 *  has sent BYE. */
void rdm_keep_alive(struct nic_rdm_peer *peer);
/** Probe peers whose keepalive is due, and end idle connections to peers that have sent BYE. @return when to call this
 *  again. */
uint64_t rdm_keepalives_due(struct nic_rdm *ep, uint64_t now_ns);
/** Send a call, followed by `data` unless that is NULL. A call that cannot be posted counts as lost. */
void rdm_say(struct nic_rdm *ep, const struct nic_rdm_addr *to, struct rdm_call *c, const struct rdm_cm_data *data);
/** See struct qp_owner. */
void rdm_call_rx(struct nic_qp *qp, const struct packet *p);

#endif
