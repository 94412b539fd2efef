/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_rendezvous.c - receives long messages: it READs a message from the sender's memory, or fetches it by reference,
 * into the receive's buffer. Then it sends FIN, which allows the sender to complete its request and reuse its buffer.
 */
#include "rdm.h"
#include "rdm_ops.h"
#include "rdm_rendezvous.h"
#include "rdm_tx.h"

#include "refer.h"

/** List the segments of the receive's buffer that cover `len` bytes from offset `base`. @return number of segments. */
static uint32_t window(const struct rdm_recv *recv, uint64_t base, uint64_t len, struct nic_iov *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < recv->n_iov && len > 0; i++) {
		uint64_t skip = base < recv->iov[i].len ? base : recv->iov[i].len, left = recv->iov[i].len - skip;
		uint64_t part = left < len ? left : len;

		base -= skip;
		if (part == 0)
			continue;
		out[n++] = (struct nic_iov){(uint8_t *)recv->iov[i].base + skip, part};
		len -= part;
	}
	return n;
}

bool rdm_rendezvous_fetch(const struct nic_rdm_peer *peer, const struct rdm_arrival *a,
			  const struct nic_reference *offer)
{
	const struct nic_rdm *ep = peer->ep;
	struct nic_iov iov[NIC_RDM_IOV_MAX];
	struct nic_sge sge[NIC_RDM_IOV_MAX];
	struct nic_reference part;
	uint32_t n;

	if (!offer || offer->len != a->header.length)
		return false;
	part = *offer;
	part.len = (uint32_t)a->room;
	n = window(a->recv, a->base, a->room, iov);
	for (uint32_t i = 0; i < n; i++)
		sge[i] = (struct nic_sge){(uintptr_t)iov[i].base, (uint32_t)iov[i].len, nic_mr_lkey(ep->all)};
	return refer_scatter(ep->nic, ep->cfg.pd, sge, n, 0, &part) == MEM_OK;
}

void rdm_rendezvous_get(struct nic_rdm_peer *peer, const struct rdm_header *h, struct rdm_recv *recv, uint64_t base,
			uint64_t room)
{
	uint64_t len = h->length < room ? h->length : room, left = len;
	struct rdm_op *op = rdm_op_get(peer, RDM_W_GET);

	op->id = h->id;
	op->recv = recv;
	op->kind = NIC_RDM_RECV;
	op->n_iov = window(recv, base, len, op->iov);
	for (uint32_t i = 0; i < h->n_segments && left > 0; i++) {
		struct nic_rdm_remote *r = &op->remote[op->n_remote];

		*r = h->segment[i];
		r->len = r->len < left ? r->len : left;
		left -= r->len;
		op->n_remote += r->len > 0;
	}
	op->done = (struct nic_rdm_done){.kind = NIC_RDM_RECV,
					 .status = len < h->length ? NIC_RDM_TRUNCATED : NIC_RDM_OK,
					 .peer = peer,
					 .buf = rdm_recv_at(recv, base),
					 .len = len,
					 .overflow = h->length - len,
					 .tag = h->tag,
					 .data = h->data,
					 .flags = (h->flags & RDM_IS_TAGGED ? NIC_RDM_TAGGED : 0) |
						  (h->flags & RDM_HAS_DATA ? NIC_RDM_DATA : 0)};
	rdm_submit(op);
}

void rdm_rendezvous_fin(struct nic_rdm_peer *peer, uint32_t id)
{
	struct rdm_op *op = rdm_op_get(peer, RDM_W_FIN);

	op->id = id;
	rdm_submit(op);
}
