/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_datagram.c - datagram endpoints: a message is one UD packet from port to port, and is never sent again. If there
 * is neither a receive for it nor memory to hold it, it is dropped.
 */
#include "mtu.h"
#include "packet.h"
#include "rdm.h"
#include "rdm_conn.h"
#include "rdm_datagram.h"
#include "rdm_qp.h"
#include "rdm_rx.h"

uint32_t nic_rdm_datagram_max(const struct nic *nic)
{
	return mtu_bytes(nic->cfg.active_mtu) - RDM_HEADER_LEN;
}
_Static_assert(RDM_HEADER_LEN == NIC_RDM_UD_HEADER, "as the header file says");

int rdm_datagram_post(struct rdm_op *op)
{
	struct nic_rdm *ep = op->peer->ep;
	const struct rdm_header h = {.kind = RDM_EAGER,
				     .flags = op->flags & NIC_RDM_DATA ? RDM_HAS_DATA : 0,
				     .length = op->length,
				     .data = op->data};
	struct nic_ah ah = {.pd = ep->cfg.pd};
	struct nic_sge sge[RDM_SGES];
	struct nic_send_wr wr = {
		.wr_id = (uintptr_t)op, .sg_list = sge, .opcode = NIC_WR_SEND, .flags = NIC_SEND_SIGNALED};
	int err;

	if (!rdm_av_to(ep, &op->peer->addr, &ah.av))
		return -EADDRNOTAVAIL;
	sge[0] = (struct nic_sge){(uintptr_t)op->header, rdm_header_put(&h, op->header), nic_mr_lkey(ep->all)};
	wr.num_sge = 1;
	for (uint32_t i = 0; i < op->n_iov; i++)
		if (op->iov[i].len)
			sge[wr.num_sge++] = (struct nic_sge){(uintptr_t)op->iov[i].base, (uint32_t)op->iov[i].len,
							     nic_mr_lkey(ep->all)};
	if (op->flags & NIC_RDM_INJECT)
		wr.flags |= NIC_SEND_INLINE;
	wr.ud.ah = &ah;
	wr.ud.remote_qpn = NIC_SERVICE_QPN | op->peer->addr.port;
	wr.ud.remote_qkey = RDM_DATAGRAM_QKEY;
	err = nic_post_send(ep->contact, &wr);
	if (err)
		return err;
	op->begun = true;
	op->out++;
	op->data_out++;
	return 0;
}

void rdm_datagram_recover(struct nic_rdm *ep)
{
	const struct nic_qp_attr a = {.qp_state = NIC_QPS_RTS};

	if (nic_qp_state(ep->contact) == NIC_QPS_SQE)
		nic_qp_modify(ep->contact, &a, NIC_QP_STATE);
}

void rdm_datagram_rx(struct nic_rdm *ep, const struct nic_rdm_addr *from, const struct packet *p)
{
	struct nic_rdm_peer *peer = rdm_peer_find(ep, from);
	struct rdm_header h;
	uint32_t prefix;

	if (!rdm_header_of(p, &h, &prefix) || h.kind != RDM_EAGER || h.flags & ~(unsigned)RDM_HAS_DATA ||
	    h.length != p->payload_len - prefix) {
		COUNT(ep->nic, rdm_calls_ignored);
		return;
	}
	if (!rdm_deliver_whole(ep, peer, &h, p->payload + prefix))
		COUNT(ep->nic, rdm_datagram_no_recv);
}
