/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resp_atomic.c - the part of the responder specific to atomics, standard (IBTA 9.4.5) and extended (extended.md).
 */
#include "extended.h"
#include "mem.h"
#include "opcode.h"
#include "packet.h"
#include "qp.h"
#include "qp_packet.h"
#include "resp_atomic.h"

uint32_t resp_atomic_size(const struct packet *p)
{
	return op_is_masked(p->op) ? 1u << p->log_size : 8;
}

static void operation(const struct packet *p, struct nic_atomic *a)
{
	if (op_is_masked(p->op)) {
		extended_get(p, a);
		return;
	}
	a->op = p->op->kind == OP_CMP_SWAP ? NIC_ATOMIC_CAS : NIC_ATOMIC_FAA;
	a->size = 8;
	a->compare[0] = p->compare;
	a->swap_add[0] = p->swap_add;
}

bool resp_atomic_execute(struct nic_qp *qp, const struct packet *p, uint8_t *app, struct resp_resource *r)
{
	struct nic_atomic a;

	operation(p, &a);
	return mem_atomic(qp->nic, &a, app, r->orig);
}

void resp_atomic_open(const struct nic_qp *qp, const struct resp_resource *r, struct packet *p,
		      struct nic_tx_frame *frame)
{
	uint8_t wire[NIC_ATOMIC_SIZE_MAX], *payload;

	if (r->size == 8) {
		p->op = op_find(qp_service(qp), OP_ATOMIC_ACK, OP_ONLY, OP_PLAIN);
		p->orig = r->orig[0];
		qp_open(p, frame, 0);
		return;
	}
	p->op = op_find(OP_EXT, OP_EXT_ATOMIC_ACK, OP_ONLY, OP_PLAIN);
	extended_put_words(wire, r->orig, r->size);
	payload = qp_open(p, frame, r->size);
	packet_copy(p, payload, wire, r->size);
}
