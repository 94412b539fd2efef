/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_request.c - validates and copies requests of the application, and passes them to rdm_tx.c. */
#include "rdm.h"
#include "rdm_conn.h"
#include "rdm_ops.h"
#include "rdm_quick.h"
#include "rdm_tagged.h"
#include "rdm_tx.h"
#include "trig.h"

#include "elem.h"

/** Total length of the segments. @return more than NIC_RDM_MSG_MAX if any segment is longer than that; the sum
 *  cannot wrap. */
static uint64_t iov_bytes(const struct nic_iov *iov, uint32_t n)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n; i++)
		bytes += iov[i].len <= NIC_RDM_MSG_MAX ? iov[i].len : NIC_RDM_MSG_MAX + 1;
	return bytes;
}

static bool iov_legal(const struct nic_iov *iov, uint32_t n)
{
	return n <= NIC_RDM_IOV_MAX && (n == 0 || iov);
}

/** Copy a list of segments without empty ones. */
static void iov_copy(struct nic_iov *to, uint32_t *n_to, const struct nic_iov *from, uint32_t n)
{
	*n_to = 0;
	for (uint32_t i = 0; i < n; i++)
		if (from[i].len)
			to[(*n_to)++] = from[i];
}

/** Copy a list of segments, except empty ones; with NIC_RDM_INJECT also copy their data, to `room`. @return the end
 *  of that data, where more can be stored. */
static uint8_t *iov_take(const struct rdm_op *op, struct nic_iov *to, uint32_t *n_to, const struct nic_iov *from,
			 uint32_t n, uint8_t *room)
{
	uint8_t *begin = room;

	if (!(op->flags & NIC_RDM_INJECT)) {
		iov_copy(to, n_to, from, n);
		return room;
	}
	*n_to = 0;
	for (uint32_t i = 0; i < n; i++) {
		if (from[i].len == 0)
			continue;
		memcpy(room, from[i].base, from[i].len);
		room += from[i].len;
	}
	if (room > begin) {
		to[0] = (struct nic_iov){begin, (size_t)(room - begin)};
		*n_to = 1;
	}
	return room;
}

/** Error when no op is left: -EAGAIN if requests in flight will free some, else -ENOMEM. */
static int no_room(const struct nic_rdm *ep)
{
	return ep->tx_left == ep->cfg.max_tx ? -ENOMEM : -EAGAIN;
}

/** Get an op for a request of the application. @return 0, -EAGAIN, -ENOMEM. */
static int op_take(struct nic_rdm_peer *peer, enum rdm_work work, struct rdm_op **out)
{
	int err = rdm_admit(peer);

	if (err)
		return err;
	*out = rdm_op_get(peer, work);
	return *out ? 0 : no_room(peer->ep);
}

int nic_rdm_send(struct nic_rdm_peer *peer, const struct nic_rdm_send *r)
{
	enum rdm_work work;
	uint64_t length;
	struct rdm_op *op;
	int err;

	if (!iov_legal(r->iov, r->n_iov))
		return -EINVAL;
	length = iov_bytes(r->iov, r->n_iov);
	if (length > (r->flags & NIC_RDM_INJECT ? NIC_RDM_INJECT_MAX : NIC_RDM_MSG_MAX))
		return -EMSGSIZE;
	work = length > NIC_RDM_EAGER_MAX ? RDM_W_OFFER : RDM_W_SEND;
	if (peer->ep->cfg.datagrams) {
		if (r->flags & (NIC_RDM_TAGGED | NIC_RDM_DELIVERY))
			return -EOPNOTSUPP;
		if (length > nic_rdm_datagram_max(peer->ep->nic))
			return -EMSGSIZE;
		work = RDM_W_DATAGRAM;
	}
	if (r->flags & NIC_RDM_CHECK)
		return 0;
	err = op_take(peer, work, &op);
	if (err)
		return err;
	op->kind = NIC_RDM_SEND;
	op->context = r->context;
	op->cookie = r->cookie;
	op->flags = r->flags;
	op->length = length;
	op->tag = r->flags & NIC_RDM_TAGGED ? r->tag : 0;
	op->data = r->flags & NIC_RDM_DATA ? r->data : 0;
	iov_take(op, op->iov, &op->n_iov, r->iov, r->n_iov, op->bytes);
	rdm_submit(op);
	nic_settle_due(peer->ep->nic); /* the request may already have failed or completed */
	return 0;
}

static void remote_take(struct rdm_op *op, const struct nic_rdm_remote *remote, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		if (remote[i].len || n == 1)
			op->remote[op->n_remote++] = remote[i];
}

static uint64_t remote_bytes(const struct nic_rdm_remote *remote, uint32_t n)
{
	uint64_t bytes = 0;

	for (uint32_t i = 0; i < n; i++)
		bytes += remote[i].len <= NIC_RDM_MSG_MAX ? remote[i].len : NIC_RDM_MSG_MAX + 1;
	return bytes;
}

int nic_rdm_rma(struct nic_rdm_peer *peer, const struct nic_rdm_rma *r)
{
	uint64_t length;
	struct rdm_op *op;
	int err;

	if (peer->ep->cfg.datagrams)
		return -EOPNOTSUPP;
	if (!iov_legal(r->iov, r->n_iov) || r->n_remote < 1 || r->n_remote > NIC_RDM_REMOTE_MAX ||
	    (r->read && r->flags & (NIC_RDM_INJECT | NIC_RDM_DATA)))
		return -EINVAL;
	length = iov_bytes(r->iov, r->n_iov);
	if (length > (r->flags & NIC_RDM_INJECT ? NIC_RDM_INJECT_MAX : NIC_RDM_MSG_MAX))
		return -EMSGSIZE;
	if (remote_bytes(r->remote, r->n_remote) != length)
		return -EINVAL;
	if (r->flags & NIC_RDM_CHECK)
		return 0;
	err = op_take(peer, RDM_W_RMA, &op);
	if (err)
		return err;
	op->kind = r->read ? NIC_RDM_READ : NIC_RDM_WRITE;
	op->context = r->context;
	op->cookie = r->cookie;
	op->flags = r->flags;
	op->length = length;
	op->data = r->data;
	remote_take(op, r->remote, r->n_remote);
	iov_take(op, op->iov, &op->n_iov, r->iov, r->n_iov, op->bytes);
	rdm_submit(op);
	nic_settle_due(peer->ep->nic); /* the request may already have failed or completed */
	return 0;
}

uint32_t nic_rdm_atomic_max(uint32_t op, uint32_t datatype, enum nic_elem_form form)
{
	return nic_elem_valid(op, datatype, form) ? NIC_PAYLOAD_MAX >> __builtin_ctz(elem_size(datatype)) : 0;
}

/** Validate the request; *length: length of each vector in bytes. @return 0 or a negative errno. */
static int atomic_check(const struct nic_rdm_atomic *r, uint64_t *length)
{
	enum nic_elem_form form = !r->n_result		 ? NIC_ELEM_BASE
				  : elem_compares(r->op) ? NIC_ELEM_COMPARE
							 : NIC_ELEM_FETCH;
	uint32_t size;

	if (!nic_elem_valid(r->op, r->datatype, form))
		return -EOPNOTSUPP;
	size = elem_size(r->datatype);
	if (!iov_legal(r->operand, r->n_operand) || !iov_legal(r->compare, r->n_compare) ||
	    !iov_legal(r->result, r->n_result) || r->n_remote < 1 || r->n_remote > NIC_RDM_REMOTE_MAX)
		return -EINVAL;
	*length = remote_bytes(r->remote, r->n_remote);
	if (*length == 0 || *length > NIC_PAYLOAD_MAX || (r->flags & NIC_RDM_INJECT && *length > NIC_RDM_INJECT_MAX))
		return *length ? -EMSGSIZE : -EINVAL;
	if (r->flags & NIC_RDM_TAGGED && r->n_remote != 1)
		return -EINVAL;
	for (uint32_t i = 0; i < r->n_remote; i++)
		if (r->remote[i].len & (size - 1))
			return -EINVAL;
	return 0;
}

/** Whether the segments are `length` bytes long in total, and each consists of whole elements. */
static bool vector_fits(const struct nic_iov *iov, uint32_t n, uint64_t length, uint64_t size)
{
	for (uint32_t i = 0; i < n; i++)
		if (iov[i].len & (size - 1))
			return false;
	return iov_bytes(iov, n) == length;
}

int nic_rdm_atomic(struct nic_rdm_peer *peer, const struct nic_rdm_atomic *r)
{
	uint64_t length, size;
	struct rdm_op *op;
	uint8_t *room;
	int err;

	if (peer->ep->cfg.datagrams)
		return -EOPNOTSUPP;
	if (rdm_quick_fetch(peer, r))
		return 0;
	err = atomic_check(r, &length);
	if (err)
		return err;
	size = elem_size(r->datatype);
	if (!vector_fits(r->operand, r->n_operand, elem_vectors(r->op) > 0 ? length : 0, size) ||
	    !vector_fits(r->compare, r->n_compare, elem_vectors(r->op) > 1 ? length : 0, size) ||
	    (r->n_result && !vector_fits(r->result, r->n_result, length, size)))
		return -EINVAL;
	if (r->flags & NIC_RDM_CHECK)
		return 0;
	err = op_take(peer, r->flags & NIC_RDM_TAGGED ? RDM_W_OPERATE : RDM_W_ATOMIC, &op);
	if (err)
		return err;
	op->tag = r->tag;
	op->kind = r->n_result ? NIC_RDM_FETCH : NIC_RDM_ATOMIC;
	op->context = r->context;
	op->cookie = r->cookie;
	op->flags = r->flags;
	op->length = length;
	op->atomic.op = r->op;
	op->atomic.datatype = r->datatype;
	remote_take(op, r->remote, r->n_remote);
	room = iov_take(op, op->iov, &op->n_iov, r->operand, r->n_operand, op->bytes);
	iov_take(op, op->compare, &op->atomic.n_compare, r->compare, r->n_compare, room);
	iov_copy(op->result, &op->atomic.n_result, r->result, r->n_result);
	if (op->work == RDM_W_OPERATE && !rdm_operate_prepare(op)) {
		rdm_op_free(op);
		return peer->ep->rq->unexpected_bytes ? -EAGAIN : no_room(peer->ep);
	}
	rdm_submit(op);
	nic_settle_due(peer->ep->nic); /* the request may already have failed or completed */
	return 0;
}
