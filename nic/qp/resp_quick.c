/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resp_quick.c - executes and answers a fetch of one element while its packet is received: see quick.h.
 */
#include "aeth.h"
#include "mem.h"
#include "packet.h"
#include "psn.h"
#include "quick.h"
#include "resp.h"
#include "resp_check.h"
#include "resp_elem.h"
#include "resp_quick.h"

/** Whether the QP executes fetches of `size` bytes, and has memory to save their results. */
static inline bool fetches(const struct nic_qp *qp, uint32_t size)
{
	return qp->attr.qp_access_flags & NIC_ACCESS_REMOTE_ATOMIC && qp->attr.max_dest_rd_atomic &&
	       size <= qp->sq.max_fetch && qp->resp.saved;
}

/** Make all the checks of resp_check(). @param app out: the element in memory. @return its size; 0: not quick. */
static inline uint32_t check(const struct nic_qp *qp, const struct packet *p, uint8_t **app)
{
	uint32_t size;

	if (p->element.count != 1 || p->element.flags || qp->resp.open || !quick_is_free(qp))
		return 0;
	size = quick_size(p->element.op, p->element.datatype);
	if (!size || p->payload_len != elem_vectors(p->element.op) * size || !fetches(qp, size))
		return 0;
	if (mem_check_remote(qp->nic, qp->pd, qp->qpn, p->rkey, p->va, size, NIC_ACCESS_REMOTE_ATOMIC, app) != MEM_OK)
		return 0;
	return (uintptr_t)*app & (size - 1) ? 0 : size;
}

/** Execute the operation. @param old out: the original value, in network order. @return false: access to the memory
 * faulted. */
static inline bool execute(struct nic_qp *qp, const struct packet *p, uint32_t size, uint8_t *app, uint8_t *old)
{
	uint8_t operands[2 * QUICK_ELEMENT_MAX] __attribute__((aligned(QUICK_ELEMENT_MAX)));
	const struct nic_elements e = {
		.op = p->element.op,
		.datatype = p->element.datatype,
		.count = 1,
		.operand = operands,
		.compare = elem_compares(p->element.op) ? operands + size : NULL,
		.result = old,
	};

	elem_from_wire(e.datatype, operands, p->payload, elem_vectors(e.op));
	if (!mem_elements(qp->nic, &e, app))
		return false;
	elem_to_wire(e.datatype, old, old, 1);
	return true;
}

/** Send the response. */
static inline void answer(struct nic_qp *qp, uint8_t *room, const uint8_t *old, uint32_t size)
{
	const struct opcode *op = op_find(OP_EXT, OP_ELEMENTS_ACK, OP_ONLY, OP_PLAIN);
	uint8_t *at = quick_bth(qp, room, op, qp->resp.epsn, false);

	wire_put32(at, (uint32_t)AETH_ACK << 24 | qp->resp.msn);
	memcpy(at + AETH_LEN, old, QUICK_ELEMENT_MAX); /* quick_send() overwrites what is too much with the ICRC */
	quick_send(qp, room, op, qp->resp.epsn, size);
}

/** Keep the result, to answer duplicates of the request. */
static inline void keep(struct nic_qp *qp, const struct packet *p, const uint8_t *old, uint32_t size)
{
	struct responder *resp = &qp->resp;
	struct resp_resource *r = &resp->res[resp->res_head & (resp->res_size - 1)];

	*r = (struct resp_resource){
		.used = true,
		.atomic = true,
		.elements = true,
		.psn = p->psn,
		.packets = 1,
		.msn = resp->msn,
		.rkey = p->rkey,
		.va = p->va,
		.size = size,
	};
	memcpy(resp_elements_saved(qp, r), old, size);
	resp->res_head++;
}

unsigned resp_quick(struct nic_qp *qp, const struct packet *p)
{
	uint8_t old[QUICK_ELEMENT_MAX] __attribute__((aligned(QUICK_ELEMENT_MAX))) = {0};
	struct responder *resp = &qp->resp;
	uint8_t *app = NULL, *room;
	uint32_t size = check(qp, p, &app);

	if (!size)
		return CHECK_NOT_QUICK;
	room = quick_room(qp, NULL);
	if (!room)
		return CHECK_NOT_QUICK;
	COUNT(qp->nic, rx_atomic_requests);
	if (!execute(qp, p, size, app, old))
		return ERR_remote_fault;
	resp_served(qp, p); /* first: the peer must not learn of the access before the owner does */
	resp->msn = (resp->msn + 1) & PSN_MASK;
	answer(qp, room, old, size);
	keep(qp, p, old, size);
	resp->epsn = psn_add(resp->epsn, 1);
	resp->nak_sent = false;
	resp->unacked = 0; /* the response acknowledges all that came before it */
	return ERR_none;
}
