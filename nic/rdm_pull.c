/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_pull.c - what an endpoint does for a peer's messages: it reads the long ones from where they are, into the receive they are
 * for, and tells the sender when he has his buffer back.
 */
#include "rdm.h"

/** The parts of the receive's segments from `base` on, up to `len` bytes. */
static void window(const struct rdm_recv *recv, uint64_t base, uint64_t len, struct rdm_op *op)
{
	for (uint32_t i = 0; i < recv->n_iov && len > 0; i++) {
		uint64_t skip = base < recv->iov[i].len ? base : recv->iov[i].len, left = recv->iov[i].len - skip;
		uint64_t part = left < len ? left : len;

		base -= skip;
		if (part == 0)
			continue;
		op->iov[op->n_iov++] = (struct nic_iov){(uint8_t *)recv->iov[i].base + skip, part};
		len -= part;
	}
}

void rdm_pull(struct nic_rdm_peer *peer, const struct rdm_header *h, struct rdm_recv *recv, uint64_t base,
	      uint64_t room)
{
	uint64_t len = h->length < room ? h->length : room, left = len;
	struct rdm_op *op = rdm_op_get(peer, RDM_W_PULL);

	op->id = h->id;
	op->recv = recv;
	op->kind = NIC_RDM_RECV;
	window(recv, base, len, op);
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

void rdm_say_taken(struct nic_rdm_peer *peer, uint32_t id)
{
	struct rdm_op *op = rdm_op_get(peer, RDM_W_TAKEN);

	op->id = id;
	rdm_submit(op);
}
