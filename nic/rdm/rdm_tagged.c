/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_tagged.c - operations on elements whose target is a posted tagged receive (FI_TAGGED of fi_atomic(3)). An
 * operation is sent as a message with that tag, and is matched to a receive like any message. It is executed in the
 * receive's buffer, and completes the receive. Details are in rdm.md. Operands, compare values and results are sent in
 * network byte order, as in packets.
 */
#include "elem.h"
#include "rdm.h"
#include "rdm_done.h"
#include "rdm_unexpected.h"
#include "rdm_ops.h"
#include "rdm_rq.h"
#include "rdm_rx.h"
#include "rdm_tagged.h"
#include "rdm_tx.h"

/* The segment of an OPERATE: addr is the offset in the receive's buffer, len is the number of bytes to operate on,
 * and rkey encodes the operation. */
#define OP_OF(key)	 ((key) >> 24)
#define DATATYPE_OF(key) ((key) >> 16 & 0xff)
#define FETCHES		 1u

/* ---- requester ----------------------------------------------------------------------------------------------- */

static uint8_t *gather(uint8_t *to, const struct nic_iov *iov, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (iov[i].len)
			memcpy(to, iov[i].base, iov[i].len);
		to += iov[i].len;
	}
	return to;
}

/* Header used to allocate memory for this endpoint's own operands. OPERATEs of peers have a segment. This header has
 * none, and therefore gets memory from the pool ep->asked. */
static const struct rdm_header any_length = {.kind = RDM_OPERATE, .length = NIC_RDM_EAGER_MAX};

bool rdm_operate_prepare(struct rdm_op *op)
{
	uint32_t elements = (uint32_t)(op->length / elem_size(op->atomic.datatype));
	uint8_t *end;

	if (!rdm_unexpected_room(op->peer->ep, &any_length, true))
		return false;
	op->unexpected = rdm_unexpected_get(op->peer->ep, op->peer, &any_length);
	end = gather(op->unexpected->data, op->iov, op->n_iov);
	end = gather(end, op->compare, op->atomic.n_compare);
	op->data_len = (uint32_t)(end - op->unexpected->data);
	elem_to_wire(op->atomic.datatype, op->unexpected->data, op->unexpected->data,
		     elem_vectors(op->atomic.op) * elements);
	return true;
}

/** Post a header, and the body in op->unexpected, as one message. */
static int post_body(struct rdm_op *op, const struct rdm_header *h)
{
	uint32_t lkey = nic_mr_lkey(op->peer->ep->all);
	const struct nic_sge sge[2] = {{(uintptr_t)op->header, rdm_header_put(h, op->header), lkey},
				       {(uintptr_t)op->unexpected->data, op->data_len, lkey}};
	struct nic_send_wr wr = {.sg_list = sge, .num_sge = op->data_len ? 2 : 1, .opcode = NIC_WR_SEND};

	return rdm_post(op, &wr, true);
}

int rdm_operate_post(struct rdm_op *op)
{
	struct rdm_header h = {.kind = RDM_OPERATE,
			       .flags = RDM_IS_TAGGED | RDM_WANTS_FIN,
			       .n_segments = 1,
			       .id = rdm_op_id(op),
			       .length = op->data_len,
			       .tag = op->tag};

	h.segment[0].addr = op->remote[0].addr;
	h.segment[0].len = op->length;
	h.segment[0].rkey = (uint32_t)op->atomic.op << 24 | elem_wire_of_type(op->atomic.datatype) << 16 |
			    (op->kind == NIC_RDM_FETCH ? FETCHES : 0);
	return post_body(op, &h);
}

/** Find the op that a RESULT answers. @return NULL: none. */
static struct rdm_op *asked_by(struct nic_rdm_peer *peer, const struct rdm_header *h)
{
	struct rdm_op *op = rdm_op_named(peer, h->id);

	return op && op->work == RDM_W_OPERATE && op->unexpected && !op->taken ? op : NULL;
}

void rdm_result_add(struct nic_rdm_peer *peer, const struct rdm_header *h, uint64_t at, const uint8_t *data,
		    uint64_t len)
{
	struct rdm_op *op = asked_by(peer, h);

	if (op) /* results overwrite the operands, which the peer has received */
		memcpy(op->unexpected->data + at, data, len);
}

void rdm_result(struct nic_rdm_peer *peer, const struct rdm_header *h)
{
	struct rdm_op *op = asked_by(peer, h);
	uint64_t expected;
	uint8_t *results;

	if (!op) {
		COUNT(peer->ep->nic, rdm_stray_answers);
		return;
	}
	results = op->unexpected->data;
	expected = op->kind == NIC_RDM_FETCH && h->data == NIC_WC_SUCCESS ? op->length : 0;
	if (h->length != expected)
		op->status = NIC_WC_BAD_RESP_ERR;
	else if (h->data != NIC_WC_SUCCESS)
		op->status = h->data <= NIC_WC_GENERAL_ERR ? (uint32_t)h->data : NIC_WC_REM_OP_ERR;
	if (h->length == expected && expected > 0) {
		elem_from_wire(op->atomic.datatype, results, results,
			       (uint32_t)(expected / elem_size(op->atomic.datatype)));
		if (!rdm_scatter(peer->ep->nic, op->result, op->atomic.n_result, 0, results, expected))
			op->status = NIC_WC_LOC_PROT_ERR;
	}
	rdm_op_answered(op);
}

/* ---- responder ----------------------------------------------------------------------------------------------- */

static enum nic_elem_form form_of(uint32_t key)
{
	return !(key & FETCHES) ? NIC_ELEM_BASE : elem_compares(OP_OF(key)) ? NIC_ELEM_COMPARE : NIC_ELEM_FETCH;
}

bool rdm_operate_makes_sense(const struct rdm_header *h)
{
	uint32_t key = h->segment[0].rkey, datatype = elem_type_of_wire(DATATYPE_OF(key));
	uint64_t len = h->segment[0].len;

	return h->flags == (RDM_IS_TAGGED | RDM_WANTS_FIN) && !(key & 0xfffe) &&
	       nic_elem_valid(OP_OF(key), datatype, form_of(key)) && len > 0 && len <= NIC_PAYLOAD_MAX &&
	       len % elem_size(datatype) == 0 && h->length == len * elem_vectors(OP_OF(key));
}

/** Address of `len` bytes at an offset in the receive's buffer. @return NULL: the bytes are not within one segment,
 *  or are beyond the end. */
static uint8_t *range_in(const struct rdm_recv *recv, uint64_t offset, uint64_t len)
{
	for (uint32_t i = 0; i < recv->n_iov; i++) {
		uint64_t room = recv->iov[i].len;

		if (offset < room)
			return len <= room - offset ? (uint8_t *)recv->iov[i].base + offset : NULL;
		offset -= room;
	}
	return NULL;
}

/** Execute the operation; results overwrite the operands in `data`. @return enum nic_wc_status. */
static uint32_t execute(struct nic *nic, const struct rdm_header *h, uint8_t *data, uint8_t *target)
{
	uint32_t key = h->segment[0].rkey, datatype = elem_type_of_wire(DATATYPE_OF(key));
	uint32_t count = (uint32_t)(h->segment[0].len / elem_size(datatype));
	const struct nic_elements e = {.op = (uint8_t)OP_OF(key),
				       .datatype = (uint8_t)datatype,
				       .count = count,
				       .operand = data,
				       .compare = elem_compares(OP_OF(key)) ? data + h->segment[0].len : NULL,
				       .result = key & FETCHES ? nic->scratch : NULL};

	if (!target || (uintptr_t)target % nic_elem_align(datatype))
		return NIC_WC_REM_ACCESS_ERR;
	elem_from_wire(datatype, data, data, elem_vectors(e.op) * count);
	if (!mem_elements(nic, &e, target))
		return NIC_WC_REM_OP_ERR;
	if (e.result)
		elem_to_wire(datatype, data, nic->scratch, count);
	return NIC_WC_SUCCESS;
}

/** Submit a RESULT, which takes ownership of `unexpected`. */
static void answer(struct rdm_unexpected *unexpected, uint32_t status)
{
	struct rdm_op *op = rdm_op_get(unexpected->peer, RDM_W_RESULT);
	bool fetches = unexpected->header.segment[0].rkey & FETCHES;

	op->id = unexpected->header.id;
	op->unexpected = unexpected;
	op->data = status;
	op->data_len = fetches && status == NIC_WC_SUCCESS ? (uint32_t)unexpected->header.segment[0].len : 0;
	rdm_submit(op);
}

int rdm_result_post(struct rdm_op *op)
{
	const struct rdm_header h = {.kind = RDM_RESULT, .id = op->id, .length = op->data_len, .data = op->data};

	return post_body(op, &h);
}

/** Complete the receive that was the target of the operation. */
static void tell(struct nic_rdm *ep, struct nic_rdm_peer *peer, const struct rdm_header *h, struct rdm_recv *recv,
		 uint32_t status, uint8_t *target)
{
	struct nic_rdm_done done = {.kind = NIC_RDM_RECV,
				    .flags = NIC_RDM_TAGGED | NIC_RDM_OPERATED,
				    .status = status,
				    .peer = peer,
				    .buf = target,
				    .len = status == NIC_RDM_OK ? h->segment[0].len : 0,
				    .tag = h->tag};

	rdm_recv_done(ep->rq, ep, recv, &done);
}

void rdm_operate(struct rdm_unexpected *unexpected)
{
	const struct rdm_header h = unexpected->header;
	struct nic_rdm_peer *peer = unexpected->peer;
	struct rdm_recv *recv = unexpected->recv;
	uint8_t *target = range_in(recv, h.segment[0].addr, h.segment[0].len);
	uint32_t status = execute(peer->ep->nic, &h, unexpected->data, target);

	answer(unexpected, status);
	tell(peer->ep, peer, &h, recv, status == NIC_WC_SUCCESS ? NIC_RDM_OK : NIC_RDM_REFUSED, target);
}

void rdm_operate_lost(struct rdm_unexpected *unexpected)
{
	tell(unexpected->ep, unexpected->peer, &unexpected->header, unexpected->recv, NIC_RDM_PEER_LOST, NULL);
}

void rdm_operate_discard(struct rdm_unexpected *unexpected)
{
	answer(unexpected, NIC_WC_REM_OP_ERR);
}
