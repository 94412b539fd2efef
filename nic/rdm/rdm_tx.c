/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_tx.c - posts an endpoint's requests: each becomes one or more work requests of its peer's queue pair, in the
 * order of the requests. A request stays on the peer's queue while the queue pair has no room for it or is not
 * connected.
 */
#include "post.h"
#include "qp_create.h"
#include "rdm.h"
#include "rdm_conn.h"
#include "rdm_datagram.h"
#include "rdm_done.h"
#include "rdm_ops.h"
#include "rdm_tagged.h"
#include "rdm_tx.h"

#include "elem.h"
#include "wire.h"

/* Longest READ or WRITE that is posted at a time; the longest RC message is 2 GiB. */
#define PIECE (1u << 30)

/* ---- segments ------------------------------------------------------------------------------------------------ */

/** Move the cursor from the end of a segment to the next segment that is not empty. */
static void skip_empty(const struct nic_iov *iov, uint32_t n, struct rdm_cursor *at)
{
	while (at->segment < n && at->offset == iov[at->segment].len)
		*at = (struct rdm_cursor){.segment = at->segment + 1};
}

/** Describe up to `len` bytes from the cursor on as SGEs, and advance the cursor. @return number of SGEs. */
static uint32_t cut(const struct nic_rdm *ep, const struct nic_iov *iov, uint32_t n, struct rdm_cursor *at,
		    uint64_t len, struct nic_sge *sge)
{
	uint32_t used = 0;

	for (skip_empty(iov, n, at); len > 0 && at->segment < n; skip_empty(iov, n, at)) {
		uint64_t left = iov[at->segment].len - at->offset, part = left < len ? left : len;

		sge[used++] = (struct nic_sge){(uintptr_t)iov[at->segment].base + at->offset, (uint32_t)part,
					       nic_mr_lkey(ep->all)};
		at->offset += part;
		len -= part;
	}
	return used;
}

/** Number of bytes from the cursor to the end of its segment, after skipping empty segments; 0 at the end of the
 *  list. */
static uint64_t left_here(const struct nic_iov *iov, uint32_t n, struct rdm_cursor *at)
{
	skip_empty(iov, n, at);
	return at->segment < n ? iov[at->segment].len - at->offset : 0;
}

/* ---- posting ------------------------------------------------------------------------------------------------- */

static uint32_t send_flags(const struct rdm_op *op, bool reads)
{
	uint32_t flags = NIC_SEND_SIGNALED;

	if (op->flags & NIC_RDM_UNAWAITED || (rdm_is_answer(op->work) && op->work != RDM_W_GET))
		flags |= NIC_SEND_UNAWAITED;
	/* The peer can execute a WRITE before it has answered a READ that was posted earlier. To keep the order, fence
	 * requests that follow READs. */
	if (op->peer->reads_out && !reads && !rdm_is_answer(op->work))
		flags |= NIC_SEND_FENCE;
	return flags;
}

int rdm_post(struct rdm_op *op, struct nic_send_wr *wr, bool data)
{
	struct nic_qp *qp = op->peer->qp;
	int err;

	wr->wr_id = (uintptr_t)op | (data ? 0 : RDM_TRAILER);
	wr->flags |= send_flags(op, wr->opcode == NIC_WR_RDMA_READ);
	err = nic_post_send(qp, wr);
	if (err == -ENOMEM && qp->sq.capacity < RDM_SQ_MOST && qp_sq_grow(qp, 2 * qp->sq.capacity) == 0)
		err = nic_post_send(qp, wr);
	if (err)
		return err;
	op->begun = true;
	op->out++;
	op->data_out += data;
	op->peer->reads_out += op->kind == NIC_RDM_READ;
	return 0;
}

static uint8_t flags_of(const struct rdm_op *op)
{
	return (uint8_t)((op->flags & NIC_RDM_TAGGED ? RDM_IS_TAGGED : 0) |
			 (op->flags & NIC_RDM_DATA ? RDM_HAS_DATA : 0) |
			 (op->flags & NIC_RDM_DELIVERY || op->work == RDM_W_OFFER ? RDM_WANTS_FIN : 0));
}

/** Post a message that consists of a header only. `flags`: additional enum nic_send_flags. */
static int post_header(struct rdm_op *op, const struct rdm_header *h, bool data, uint32_t flags)
{
	struct nic_sge sge = {(uintptr_t)op->header, rdm_header_put(h, op->header), 0};
	struct nic_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = NIC_WR_SEND, .flags = NIC_SEND_INLINE | flags};

	return rdm_post(op, &wr, data);
}

/** Copy a short message into the send queue. @return as post_next; -EFAULT: its buffer cannot be read. */
static int post_small(struct rdm_op *op)
{
	struct nic_qp *qp = op->peer->qp;
	uint8_t *place = qp_small_place(qp), *at;

	if (!place && qp->sq.capacity < RDM_SQ_MOST && qp_sq_grow(qp, 2 * qp->sq.capacity) == 0)
		place = qp_small_place(qp);
	if (!place)
		return -ENOMEM;
	at = place + rdm_eager_put(place, flags_of(op), rdm_op_id(op), op->length, op->tag, op->data);
	for (uint32_t i = 0; i < op->n_iov; at += op->iov[i++].len)
		if (op->flags & NIC_RDM_INJECT)
			memcpy(at, op->iov[i].base, op->iov[i].len);
		else if (!mem_read(qp->nic, at, op->iov[i].base, op->iov[i].len, NULL))
			return -EFAULT;
	qp_post_small(qp, (uintptr_t)op, send_flags(op, false), (uint32_t)(at - place));
	op->begun = true;
	op->out++;
	op->data_out++;
	return 0;
}

static int post_eager(struct rdm_op *op)
{
	const struct rdm_header h = {.kind = RDM_EAGER,
				     .flags = flags_of(op),
				     .id = rdm_op_id(op),
				     .length = op->length,
				     .tag = op->tag,
				     .data = op->data};
	struct rdm_cursor at = {0};
	struct nic_sge sge[RDM_SGES];
	struct nic_send_wr wr = {.sg_list = sge, .opcode = NIC_WR_SEND};

	sge[0] =
		(struct nic_sge){(uintptr_t)op->header, rdm_header_put(&h, op->header), nic_mr_lkey(op->peer->ep->all)};
	wr.num_sge = 1 + cut(op->peer->ep, op->iov, op->n_iov, &at, op->length, sge + 1);
	return rdm_post(op, &wr, true);
}

static int post_message(struct rdm_op *op)
{
	/* Copy a short message into the send queue. If the message's buffer cannot be read, call post_eager, which
	 * makes the message fail like any other message. */
	if (op->length <= NIC_RDM_INJECT_MAX) {
		int err = post_small(op);

		if (err != -EFAULT)
			return err;
	}
	return post_eager(op);
}

static int post_offer(struct rdm_op *op)
{
	struct rdm_header h = {.kind = RDM_OFFER,
			       .flags = flags_of(op),
			       .id = rdm_op_id(op),
			       .length = op->length,
			       .tag = op->tag,
			       .data = op->data};

	for (uint32_t i = 0; i < op->n_iov; i++) {
		struct nic_rdm_remote *s = &h.segment[h.n_segments];

		if (!op->mr[i] &&
		    nic_mr_reg(op->peer->ep->cfg.pd, op->iov[i].base, op->iov[i].len, (uintptr_t)op->iov[i].base,
			       NIC_ACCESS_REMOTE_READ | NIC_ACCESS_ON_DEMAND, &op->mr[i]) != 0)
			return -ENOBUFS;
		op->mr[i]->own = true;
		*s = (struct nic_rdm_remote){(uintptr_t)op->iov[i].base, op->iov[i].len, nic_mr_rkey(op->mr[i])};
		h.n_segments++;
	}
	return post_header(op, &h, true, NIC_SEND_OFFERS);
}

/* Only an OFFER of one segment refers to its data: with more segments the packet would exceed NIC_REFERRING_MAX. */
_Static_assert(40 + 8 + BTH_LEN + RDM_HEADER_LEN + RDM_SEGMENT_LEN + ICRC_LEN <= NIC_REFERRING_MAX,
	       "an OFFER of a piece fits");

bool rdm_offered(const struct swqe *w, struct nic_piece *piece)
{
	const struct rdm_op *op = rdm_op_of(w->wr_id);

	if (op->n_iov != 1 || !op->mr[0] || op->length > NIC_REFERENCE_MAX)
		return false;
	*piece = (struct nic_piece){(uintptr_t)op->iov[0].base, (uint32_t)op->length, nic_mr_rkey(op->mr[0])};
	return true;
}

static void remote_advance(struct rdm_op *op, uint64_t len)
{
	op->at_remote.offset += len;
	if (op->at_remote.offset == op->remote[op->at_remote.segment].len)
		op->at_remote = (struct rdm_cursor){.segment = op->at_remote.segment + 1};
}

/** Post a READ or WRITE for the next remote segment, or for the next PIECE bytes of it. The segments of a GET have
 *  already been shortened to the local buffer. */
static int post_rma(struct rdm_op *op)
{
	const struct nic_rdm_remote *r = &op->remote[op->at_remote.segment];
	uint64_t left = r->len - op->at_remote.offset, len = left < PIECE ? left : PIECE;
	bool reads = op->kind != NIC_RDM_WRITE;
	struct rdm_cursor at = op->at_iov;
	struct nic_sge sge[RDM_SGES];
	struct nic_send_wr wr = {.sg_list = sge, .opcode = reads ? NIC_WR_RDMA_READ : NIC_WR_RDMA_WRITE};
	int err;

	wr.rdma.remote_addr = r->addr + op->at_remote.offset;
	wr.rdma.rkey = r->rkey;
	wr.num_sge = cut(op->peer->ep, op->iov, op->n_iov, &at, len, sge);
	if (op->flags & NIC_RDM_INJECT)
		wr.flags = NIC_SEND_INLINE;
	err = rdm_post(op, &wr, true);
	if (err)
		return err;
	op->at_iov = at;
	remote_advance(op, len);
	return 0;
}

/** Length of the next request in bytes: as many whole elements as are contiguous in each vector and in the target,
 *  and fit in a packet. */
static uint64_t atomic_piece(struct rdm_op *op)
{
	const struct nic_rdm_remote *r = &op->remote[op->at_remote.segment];
	uint32_t size = elem_size(op->atomic.datatype), vectors = elem_vectors(op->atomic.op);
	uint64_t len = r->len - op->at_remote.offset, packet = op->peer->qp->pmtu / (vectors > 1 ? vectors : 1);
	uint64_t part;

	len = len < packet ? len : packet;
	if (op->n_iov) {
		part = left_here(op->iov, op->n_iov, &op->at_iov);
		len = len < part ? len : part;
	}
	if (op->atomic.n_compare) {
		part = left_here(op->compare, op->atomic.n_compare, &op->atomic.at_compare);
		len = len < part ? len : part;
	}
	if (op->atomic.n_result) {
		part = left_here(op->result, op->atomic.n_result, &op->atomic.at_result);
		len = len < part ? len : part;
	}
	return len & ~(uint64_t)(size - 1); /* sizes are powers of two */
}

static int post_atomic(struct rdm_op *op)
{
	const struct nic_rdm *ep = op->peer->ep;
	const struct nic_rdm_remote *r = &op->remote[op->at_remote.segment];
	uint64_t len = atomic_piece(op);
	struct rdm_cursor at = op->at_iov, at_compare = op->atomic.at_compare, at_result = op->atomic.at_result;
	struct nic_sge data[2], result;
	struct nic_send_wr wr = {.sg_list = &result,
				 .opcode = op->kind == NIC_RDM_FETCH ? NIC_WR_FETCH_ELEMENTS : NIC_WR_ELEMENTS,
				 .elements = {.data = data, .op = op->atomic.op, .datatype = op->atomic.datatype}};
	int err;

	wr.elements.remote_addr = r->addr + op->at_remote.offset;
	wr.elements.rkey = r->rkey;
	wr.elements.count = (uint32_t)len >> __builtin_ctz(elem_size(op->atomic.datatype));
	wr.elements.num_data = cut(ep, op->iov, op->n_iov, &at, len, data);
	wr.elements.num_data +=
		cut(ep, op->compare, op->atomic.n_compare, &at_compare, len, data + wr.elements.num_data);
	wr.num_sge = cut(ep, op->result, op->atomic.n_result, &at_result, len, &result);
	if (op->flags & NIC_RDM_INJECT && op->kind != NIC_RDM_FETCH) /* a FETCH's sg_list takes the results */
		wr.flags = NIC_SEND_INLINE;
	err = rdm_post(op, &wr, true);
	if (err)
		return err;
	op->at_iov = at;
	op->atomic.at_compare = at_compare;
	op->atomic.at_result = at_result;
	remote_advance(op, len);
	return 0;
}

static int post_written(struct rdm_op *op)
{
	const struct rdm_header h = {
		.kind = RDM_WRITTEN, .flags = RDM_HAS_DATA, .id = op->id, .length = op->length, .data = op->data};

	return post_header(op, &h, false, 0);
}

static int post_fin(struct rdm_op *op)
{
	const struct rdm_header h = {.kind = RDM_FIN, .id = op->id, .data = op->data};

	if (op->taken)
		return -EALREADY;
	op->taken = true; /* the FIN counts as posted; undone below if posting fails */
	if (post_header(op, &h, false, 0) == 0)
		return 0;
	op->taken = false;
	return -ENOMEM;
}

/** Post the op's next work request. @return 0, -EALREADY: nothing left to post, another negative errno. */
static int post_next(struct rdm_op *op)
{
	bool segments = op->at_remote.segment < op->n_remote;

	switch ((enum rdm_work)op->work) {
	case RDM_W_SEND:
		return op->begun ? -EALREADY : post_message(op);
	case RDM_W_OFFER:
		return op->begun ? -EALREADY : post_offer(op);
	case RDM_W_ATOMIC:
		return segments ? post_atomic(op) : -EALREADY;
	case RDM_W_RMA:
		if (segments)
			return post_rma(op);
		if (!(op->flags & NIC_RDM_DATA) || op->kind != NIC_RDM_WRITE || op->out > op->data_out)
			return -EALREADY;
		return post_written(op);
	case RDM_W_GET:
		return segments ? post_rma(op) : -EALREADY;
	case RDM_W_FIN:
		return post_fin(op);
	case RDM_W_DATAGRAM:
		return op->begun ? -EALREADY : rdm_datagram_post(op);
	case RDM_W_OPERATE:
		return op->begun ? -EALREADY : rdm_operate_post(op);
	case RDM_W_RESULT:
		return op->begun ? -EALREADY : rdm_result_post(op);
	}
	return -EALREADY;
}

/**
 * The next op to post. A request with FENCE waits until all earlier requests have ended, and later requests wait for
 * it. Answers do not wait, because the peer may need them before it can complete our requests. After either side has
 * sent BYE, requests that have not begun are not posted on this connection any more.
 */
static struct rdm_op *next_op(const struct nic_rdm_peer *peer)
{
	bool fence = false, over = peer->left || peer->ep->going;

	for (struct list *n = peer->queue.next; n != &peer->queue; n = n->next) {
		struct rdm_op *op = list_entry(n, struct rdm_op, node);

		fence = fence || (op->flags & NIC_RDM_FENCE && !op->begun && peer->posted);
		if (rdm_is_answer(op->work) || (!fence && (op->begun || !over)))
			return op;
	}
	return NULL;
}

void rdm_pump(struct nic_rdm_peer *peer)
{
	struct rdm_op *op;

	while (!peer->failed && (op = next_op(peer)) != NULL) { /* a QP in the error state would flush each request as
								 * soon as it is posted */
		int err;

		if (peer->state != RDM_UP && op->work != RDM_W_DATAGRAM) {
			rdm_connect(peer);
			return;
		}
		do {
			err = post_next(op);
		} while (err == 0);
		if (err == -ENOMEM)
			return; /* completions will make room; rdm_pump is then called again */
		if (err != -EALREADY && !op->status)
			op->status = err == -ENOBUFS ? NIC_RDM_NO_MEMORY : NIC_WC_GENERAL_ERR;
		op->all_posted = true;
		op->counted = !rdm_is_answer(op->work);
		peer->posted += op->counted;
		list_remove(&op->node);
		if (!op->out && list_empty(&op->due))
			list_append(&peer->ep->due, &op->due);
		if (!op->out)
			rdm_note(peer->ep);
	}
}

void rdm_submit(struct rdm_op *op)
{
	list_append(&op->peer->queue, &op->node);
	rdm_pump(op->peer);
}
