/* SPDX-License-Identifier: BSD-3-Clause */
/* source.h - the link or port by which packets of a QP must come. Private to nic/. */
#ifndef NIC_SOURCE_H
#define NIC_SOURCE_H

#include "nic_observe.h"
#include "packet.h"
#include "qp.h"

/** The QP has been connected: determine the link by which the peer's packets must come. */
void source_set(struct nic_qp *qp);
/** The QP is not connected: accept packets by the port. */
void source_reset(struct nic_qp *qp);
/** Accept no packets for the QP, however they come. */
void source_close(struct nic_qp *qp);
bool source_is_closed(const struct nic_qp *qp);
/** A packet came by a way that the QP does not accept: if the way is the peer's new link, accept it from now on. */
void source_look(struct nic_qp *qp, const struct packet *p);
/** Check that a packet for a connected QP came by the right link. @return the reason to refuse it, or NIC_CNT_COUNT. */
static inline enum nic_counter source_refusal(const struct nic_qp *qp, const struct packet *p)
{
	if (__builtin_expect(p->peer != qp->takes, 0))
		return p->peer ? NIC_CNT_rx_bad_source : NIC_CNT_rx_beside_link;
	if (!p->peer && qp->peer_is_local && p->udp_sport != NIC_UDP_PORT)
		return NIC_CNT_rx_local_sport;
	return NIC_CNT_COUNT;
}
/** As source_refusal(), for a datagram, which may come by any link or by the port. */
enum nic_counter source_datagram_refusal(const struct nic *nic, const struct packet *p);

#endif
