/* SPDX-License-Identifier: BSD-3-Clause */
/* admit.c - whether a packet may reach the QP that it names: the checks of IBTA 9.6.1 in their order. */
#include "admit.h"
#include "opcode.h"
#include "packet.h"
#include "qp.h"
#include "source.h"

static bool own_gid(const struct nic *nic, const struct nic_gid *gid)
{
	static const struct nic_gid none;

	if (!memcmp(gid, &none, sizeof(none)))
		return false; /* an empty GID table entry matches no address */
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (!memcmp(&nic->gids[i], gid, sizeof(*gid)))
			return true;
	return false;
}

static bool state_takes(const struct nic_qp *qp, const struct packet *p)
{
	if (op_is_response(p->op))
		return qp->state == NIC_QPS_RTS || qp->state == NIC_QPS_SQD;
	return qp->state == NIC_QPS_RTR || qp->state == NIC_QPS_RTS || qp->state == NIC_QPS_SQD ||
	       (qp->state == NIC_QPS_SQE && qp->type != NIC_QPT_RC);
}

static bool service_fits(const struct nic_qp *qp, const struct opcode *op)
{
	static const uint8_t service[] = {[NIC_QPT_RC] = OP_RC,
					  [NIC_QPT_UC] = OP_UC,
					  [NIC_QPT_UD] = OP_UD,
					  [NIC_QPT_XRC_INI] = OP_XRC,
					  [NIC_QPT_XRC_TGT] = OP_XRC};

	return op->service == service[qp->type] || (op->service == OP_EXT && qp->type == NIC_QPT_RC);
}

/* Whether the packet claims to come from the QP's peer; source.c checks that claim. */
static bool from_peer(const struct nic_qp *qp, const struct packet *p)
{
	if (p->bare)
		return p->src_qpn == qp->attr.dest_qp_num && p->addresses == qp->hears;
	return !memcmp(&p->sgid, &qp->attr.av.dgid, sizeof(p->sgid)) && !memcmp(&p->dgid, &qp->sgid, sizeof(p->dgid));
}

enum nic_counter rx_refusal(const struct nic *nic, const struct nic_qp *qp, const struct packet *p)
{
	if (!service_fits(qp, p->op))
		return NIC_CNT_rx_bad_service;
	if (!state_takes(qp, p))
		return NIC_CNT_rx_qp_state;
	if ((p->pkey & 0x7fff) != 0x7fff)
		return NIC_CNT_bad_pkey; /* our only P_Key is the default with full membership, 0xFFFF (10.9.1.2) */
	if (p->bare && qp->type == NIC_QPT_UD)
		return NIC_CNT_rx_bad_source; /* a datagram has to carry its addresses */
	/* Skip this check for multicast packets: mcast.c has already checked that the QP is attached to the group. */
	if (!own_gid(nic, p->bare ? &qp->sgid : &p->dgid) && p->dest_qpn != NIC_MCAST_QPN)
		return NIC_CNT_rx_bad_dgid;
	if (qp->type == NIC_QPT_UD)
		return source_datagram_refusal(nic, p);
	if (!from_peer(qp, p))
		return NIC_CNT_rx_bad_source;
	return source_refusal(qp, p);
}
