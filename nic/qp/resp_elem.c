/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resp_elem.c - the part of the responder specific to element operations (elem.md).
 *
 * An operation without a result is handled like a WRITE: it is acknowledged, and a duplicate is acknowledged again. An
 * operation that fetches takes a responder resource as an atomic does; its response is saved in wire format. A run is
 * first split into its requests. Each request is handled as if it had its own packet, up to the first request that
 * fails.
 */
#include "elem.h"
#include "mem.h"
#include "opcode.h"
#include "packet.h"
#include "psn.h"
#include "qp.h"
#include "qp_packet.h"
#include "resp_elem.h"
#include "wire.h"

static enum nic_elem_form form_of(const struct packet *p)
{
	if (p->op->kind == OP_ELEMENTS)
		return NIC_ELEM_BASE;
	return elem_compares(p->element.op) ? NIC_ELEM_COMPARE : NIC_ELEM_FETCH;
}

uint32_t resp_elements_size(const struct packet *p)
{
	return p->element.count * elem_size(elem_type_of_wire(p->element.datatype));
}

bool resp_elements_fit(const struct nic_qp *qp, const struct packet *p)
{
	uint32_t datatype = elem_type_of_wire(p->element.datatype), count = p->element.count;
	uint32_t most = qp->pmtu;

	if (p->op->kind == OP_FETCH_ELEMENTS && qp->sq.max_fetch < most)
		most = qp->sq.max_fetch;
	if (!nic_elem_valid(p->element.op, datatype, form_of(p)) || p->element.flags || !count ||
	    count > most / elem_size(datatype))
		return false;
	return p->payload_len == elem_vectors(p->element.op) * count * elem_size(datatype);
}

bool resp_elements_run(const struct nic_qp *qp, const struct packet *p)
{
	uint32_t datatype = elem_type_of_wire(p->element.datatype), count = p->element.count, entry;

	if (p->op->kind != OP_ELEMENTS || p->element.flags != ELEMENT_RUN ||
	    !nic_elem_valid(p->element.op, datatype, NIC_ELEM_BASE))
		return false;
	entry = ELEMENT_ADDR_LEN + elem_size(datatype);
	return count && count <= qp->pmtu / entry && p->payload_len == count * entry;
}

void resp_elements_member(const struct packet *run, uint32_t i, struct packet *one)
{
	uint32_t size = elem_size(elem_type_of_wire(run->element.datatype));
	const uint8_t *entry = run->payload + (size_t)i * (ELEMENT_ADDR_LEN + size);

	*one = *run;
	one->psn = psn_add(run->psn, i);
	one->ackreq = run->ackreq && i + 1 == run->element.count;
	one->va = wire_get64(entry);
	one->element.flags = 0;
	one->element.count = 1;
	one->payload = entry + ELEMENT_ADDR_LEN;
	one->payload_len = size;
}

bool resp_elements_room(struct nic_qp *qp)
{
	if (!qp->resp.saved && qp->sq.max_fetch)
		qp->resp.saved = calloc(qp->resp.res_size, qp->sq.max_fetch);
	return qp->resp.saved || !qp->sq.max_fetch;
}

bool resp_elements_execute(struct nic_qp *qp, const struct packet *p, uint8_t *app, const struct resp_resource *r)
{
	uint8_t *operands = qp->nic->scratch;
	uint32_t count = p->element.count, datatype = elem_type_of_wire(p->element.datatype);
	const struct nic_elements e = {
		.op = p->element.op,
		.datatype = (uint8_t)datatype,
		.count = count,
		.operand = operands,
		.compare = form_of(p) == NIC_ELEM_COMPARE ? operands + resp_elements_size(p) : NULL,
		.result = r ? resp_elements_saved(qp, r) : NULL,
	};

	elem_from_wire(datatype, operands, p->payload, elem_vectors(e.op) * count);
	if (!mem_elements(qp->nic, &e, app))
		return false;
	if (r)
		elem_to_wire(datatype, e.result, e.result, count);
	return true;
}

void resp_elements_open(struct nic_qp *qp, const struct resp_resource *r, struct packet *p, struct nic_tx_frame *frame)
{
	uint8_t *payload;

	p->op = op_find(OP_EXT, OP_ELEMENTS_ACK, OP_ONLY, OP_PLAIN);
	payload = qp_open(p, frame, r->size);
	packet_copy(p, payload, resp_elements_saved(qp, r), r->size);
}
