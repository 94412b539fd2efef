/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wr_ex.c - the extended posting interface, ibv_wr_*. Between ibv_wr_start and ibv_wr_complete the requests are
 * collected in the QP's batch. Nothing reaches the NIC before ibv_wr_complete, so ibv_wr_abort just drops the batch. If
 * any request is invalid or the queue is full, no request is posted: ibv_wr_complete has the NIC check all requests
 * before it posts the first. The batch's buffers grow as needed and are reused.
 */
#include <string.h>

#include "shim.h"

struct shim_batch_wr {
	struct nic_send_wr wr; /* sg_list is set only by batch_request() */
	size_t data;	       /* offset in shim_batch.data of the SGEs or the inline bytes */
	uint32_t inline_len;
};

static struct shim_qp *qp_of(struct ibv_qp_ex *ex)
{
	return container_of(ex, struct shim_qp, ex);
}

/* ---- the batch --------------------------------------------------------------------------------------- */

static bool grow(void *buffer, size_t *room, size_t need, size_t unit)
{
	size_t want = *room ? *room : 16;
	void *bigger;

	if (need <= *room)
		return true;
	while (want < need)
		want *= 2;
	bigger = realloc(*(void **)buffer, want * unit);
	if (!bigger)
		return false;
	*(void **)buffer = bigger;
	*room = want;
	return true;
}

/* Add a request to the batch. @return NULL: the batch has failed. */
static struct nic_send_wr *batch_add(struct ibv_qp_ex *ex, enum nic_wr_opcode opcode)
{
	struct shim_batch *b = &qp_of(ex)->batch;

	if (!b->err && ex->wr_flags & NIC_SEND_CALC) /* our own flag, which applications must not set */
		b->err = EINVAL;
	if (!b->err && !grow(&b->wrs, &b->wrs_room, b->n + 1, sizeof(*b->wrs)))
		b->err = ENOMEM;
	if (b->err)
		return NULL;

	struct shim_batch_wr *w = &b->wrs[b->n++];

	memset(w, 0, sizeof(*w));
	w->wr.wr_id = ex->wr_id;
	w->wr.opcode = opcode;
	w->wr.flags = ex->wr_flags & ~(unsigned)IBV_SEND_IP_CSUM;
	return &w->wr;
}

/* Add an atomic to the batch. @return NULL: the batch has failed, or fails now because the QP has no atomics. */
static struct nic_send_wr *batch_add_atomic(struct ibv_qp_ex *ex, enum nic_wr_opcode opcode)
{
	struct shim_batch *b = &qp_of(ex)->batch;

	if (qp_of(ex)->no_atomics && !b->err)
		b->err = EINVAL;
	return batch_add(ex, opcode);
}

/* The last request of the batch, to which setters apply. @return NULL: the batch is empty, or has failed. */
static struct shim_batch_wr *batch_last(struct shim_batch *b)
{
	if (!b->err && !b->n)
		b->err = EINVAL;
	return b->err ? NULL : &b->wrs[b->n - 1];
}

/* Reserve `len` bytes of data for request w, aligned for SGEs. @return NULL: no memory. */
static uint8_t *batch_data(struct shim_batch *b, struct shim_batch_wr *w, size_t len)
{
	size_t at = (b->data_len + 15) & ~(size_t)15;

	if (!grow(&b->data, &b->data_room, at + len, 1)) {
		b->err = ENOMEM;
		return NULL;
	}
	w->data = at;
	b->data_len = at + len;
	return b->data + at;
}

static void wr_start(struct ibv_qp_ex *ex)
{
	struct shim_batch *b = &qp_of(ex)->batch;

	pthread_mutex_lock(&b->lock);
	b->n = 0;
	b->data_len = 0;
	b->err = 0;
}

static void wr_abort(struct ibv_qp_ex *ex)
{
	pthread_mutex_unlock(&qp_of(ex)->batch.lock);
}

/* Get request i, and set its SGE list. The list is set only now because the buffers move when they grow. With inline
 * data, the list is the one SGE *bytes, so the result is valid only while *bytes exists. */
static const struct nic_send_wr *batch_request(struct shim_batch *b, unsigned i, struct nic_sge *bytes)
{
	struct shim_batch_wr *w = &b->wrs[i];

	w->wr.sg_list = (const struct nic_sge *)(const void *)(b->data + w->data);
	if (w->wr.flags & NIC_SEND_INLINE && w->inline_len) {
		*bytes = (struct nic_sge){(uintptr_t)(b->data + w->data), w->inline_len, 0};
		w->wr.sg_list = bytes;
		w->wr.num_sge = 1;
	}
	return &w->wr;
}

/* Post the batch; on an error, post nothing. Engine lock held. @return 0, or an errno. */
static int batch_post(struct shim_qp *qp)
{
	struct shim_batch *b = &qp->batch;
	struct nic_sge bytes;
	int err = 0;

	for (unsigned i = 0; b->n > 1 && !err && i < b->n; i++)
		err = nic_post_send_check(qp->nic, batch_request(b, i, &bytes), i);
	for (unsigned i = 0; !err && i < b->n; i++)
		err = nic_post_send(qp->nic, batch_request(b, i, &bytes));
	return -err;
}

static int wr_complete(struct ibv_qp_ex *ex)
{
	struct shim_qp *qp = qp_of(ex);
	struct shim_context *ctx = shim_ctx(ex->qp_base.context);
	int err = qp->batch.err;

	if (!err && !shim_enter(ctx)) {
		err = EIO;
	} else if (!err) {
		err = batch_post(qp);
		pmd_doorbell(ctx->engine);
		shim_leave(ctx);
	}
	pthread_mutex_unlock(&qp->batch.lock);
	return err;
}

/* ---- operations -------------------------------------------------------------------------------------- */

static void add_rdma(struct ibv_qp_ex *ex, enum nic_wr_opcode opcode, uint32_t rkey, uint64_t addr, uint32_t extra)
{
	struct nic_send_wr *wr = batch_add(ex, opcode);

	if (!wr)
		return;
	wr->rdma.rkey = rkey;
	wr->rdma.remote_addr = addr;
	wr->ex = extra;
}

static void wr_rdma_read(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	add_rdma(ex, NIC_WR_RDMA_READ, rkey, addr, 0);
}

static void wr_rdma_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr)
{
	add_rdma(ex, NIC_WR_RDMA_WRITE, rkey, addr, 0);
}

static void wr_rdma_write_imm(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, __be32 imm)
{
	add_rdma(ex, NIC_WR_RDMA_WRITE_WITH_IMM, rkey, addr, imm);
}

static void wr_atomic_cmp_swp(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t compare, uint64_t swap)
{
	struct nic_send_wr *wr = batch_add_atomic(ex, NIC_WR_ATOMIC_CMP_AND_SWP);

	if (!wr)
		return;
	wr->atomic.rkey = rkey;
	wr->atomic.remote_addr = addr;
	wr->atomic.compare_add = compare;
	wr->atomic.swap = swap;
}

static void wr_atomic_fetch_add(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, uint64_t add)
{
	struct nic_send_wr *wr = batch_add_atomic(ex, NIC_WR_ATOMIC_FETCH_AND_ADD);

	if (!wr)
		return;
	wr->atomic.rkey = rkey;
	wr->atomic.remote_addr = addr;
	wr->atomic.compare_add = add;
}

static void wr_atomic_write(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, const void *data)
{
	struct shim_batch *b = &qp_of(ex)->batch;
	struct shim_batch_wr *w;
	uint8_t *copy;

	add_rdma(ex, NIC_WR_ATOMIC_WRITE, rkey, addr, 0);
	w = batch_last(b);
	copy = w ? batch_data(b, w, NIC_ATOMIC_WRITE_SIZE) : NULL;
	if (!copy)
		return;
	memcpy(copy, data, NIC_ATOMIC_WRITE_SIZE);
	w->inline_len = NIC_ATOMIC_WRITE_SIZE;
	w->wr.flags |= NIC_SEND_INLINE;
}

static void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level)
{
	struct nic_send_wr *wr = batch_add(ex, NIC_WR_FLUSH);

	if (!wr)
		return;
	wr->flush.rkey = rkey;
	wr->flush.remote_addr = addr;
	wr->flush.length = len > UINT32_MAX ? UINT32_MAX : (uint32_t)len; /* the NIC refuses lengths above its limit */
	wr->flush.type = type;
	wr->flush.level = level;
}

/* Set ibv_qp_ex.wr_atomic_write and wr_flush by their offsets: older versions of verbs.h end with wr_abort. */
static void set_newer(struct shim_qp *qp)
{
	size_t at = offsetof(struct shim_qp, ex) + offsetof(struct ibv_qp_ex, wr_abort) + sizeof(qp->ex.wr_abort);
	void (*write)(struct ibv_qp_ex *, uint32_t, uint64_t, const void *) = wr_atomic_write;
	void (*flush)(struct ibv_qp_ex *, uint32_t, uint64_t, size_t, uint8_t, uint8_t) = wr_flush;

	_Static_assert(offsetof(struct shim_qp, zero) >= offsetof(struct shim_qp, ex) + sizeof(struct ibv_qp_ex),
		       "room for the members of newer structures");
	memcpy((char *)qp + at, &write, sizeof(write));
	memcpy((char *)qp + at + sizeof(write), &flush, sizeof(flush));
}

static void add_simple(struct ibv_qp_ex *ex, enum nic_wr_opcode opcode, uint32_t extra)
{
	struct nic_send_wr *wr = batch_add(ex, opcode);

	if (wr)
		wr->ex = extra;
}

static void wr_send(struct ibv_qp_ex *ex)
{
	add_simple(ex, NIC_WR_SEND, 0);
}

static void wr_send_imm(struct ibv_qp_ex *ex, __be32 imm)
{
	add_simple(ex, NIC_WR_SEND_WITH_IMM, imm);
}

static void wr_send_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	add_simple(ex, NIC_WR_SEND_WITH_INV, rkey);
}

static void wr_local_inv(struct ibv_qp_ex *ex, uint32_t rkey)
{
	add_simple(ex, NIC_WR_LOCAL_INV, rkey);
}

static void wr_bind_mw(struct ibv_qp_ex *ex, struct ibv_mw *mw, uint32_t rkey, const struct ibv_mw_bind_info *info)
{
	struct nic_send_wr *wr = batch_add(ex, NIC_WR_BIND_MW);

	if (wr && (!mw || mw->context != ex->qp_base.context || mw->type != IBV_MW_TYPE_2 ||
		   !shim_bind_translate(&wr->bind, mw, rkey, info)))
		qp_of(ex)->batch.err = EINVAL;
}

/* ---- setters ----------------------------------------------------------------------------------------- */

static void wr_set_ud_addr(struct ibv_qp_ex *ex, struct ibv_ah *ah, uint32_t qpn, uint32_t qkey)
{
	struct shim_batch_wr *w = batch_last(&qp_of(ex)->batch);

	if (!w)
		return;
	w->wr.ud.ah = ah ? container_of(ah, struct shim_ah, ibv)->nic : NULL;
	w->wr.ud.remote_qpn = qpn;
	w->wr.ud.remote_qkey = qkey;
}

static void wr_set_xrc_srqn(struct ibv_qp_ex *ex, uint32_t srqn)
{
	struct shim_batch_wr *w = batch_last(&qp_of(ex)->batch);

	if (w)
		w->wr.srqn = srqn;
}

static void wr_set_sge_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_sge *list)
{
	struct shim_qp *qp = qp_of(ex);
	struct shim_batch_wr *w = batch_last(&qp->batch);
	uint8_t *data;

	if (!w)
		return;
	if (n > qp->cap.max_send_sge) {
		qp->batch.err = EINVAL;
		return;
	}
	data = batch_data(&qp->batch, w, n * sizeof(*list));
	if (!data)
		return;
	memcpy(data, list, n * sizeof(*list));
	w->wr.num_sge = (uint32_t)n;
}

static void wr_set_sge(struct ibv_qp_ex *ex, uint32_t lkey, uint64_t addr, uint32_t length)
{
	struct ibv_sge sge = {addr, length, lkey};

	wr_set_sge_list(ex, 1, &sge);
}

static void wr_set_inline_data_list(struct ibv_qp_ex *ex, size_t n, const struct ibv_data_buf *list)
{
	struct shim_qp *qp = qp_of(ex);
	struct shim_batch_wr *w = batch_last(&qp->batch);
	size_t len = 0;
	uint8_t *data;

	if (!w)
		return;
	for (size_t i = 0; i < n && len <= qp->cap.max_inline_data; i++)
		len = list[i].length > qp->cap.max_inline_data ? SIZE_MAX : len + list[i].length;
	if (len > qp->cap.max_inline_data) {
		qp->batch.err = EINVAL;
		return;
	}
	data = batch_data(&qp->batch, w, len);
	if (!data)
		return;
	for (size_t i = 0; i < n; data += list[i++].length)
		memcpy(data, list[i].addr, list[i].length);
	w->inline_len = (uint32_t)len;
	w->wr.flags |= NIC_SEND_INLINE;
}

static void wr_set_inline_data(struct ibv_qp_ex *ex, void *addr, size_t length)
{
	struct ibv_data_buf buf = {addr, length};

	wr_set_inline_data_list(ex, 1, &buf);
}

/* ---- set-up ------------------------------------------------------------------------------------------ */

/* IBV_QP_EX_WITH_FLUSH, IBV_QP_EX_WITH_ATOMIC_WRITE, in newer verbs.h */
#define WITH_FLUSH	  (1 << 11)
#define WITH_ATOMIC_WRITE (1 << 12)

#define OPS_UD (IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM)
#define OPS_UC                                                                                                         \
	(OPS_UD | IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_BIND_MW |            \
	 IBV_QP_EX_WITH_LOCAL_INV)
#define OPS_RC                                                                                                         \
	(OPS_UC | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | \
	 IBV_QP_EX_WITH_SEND_WITH_INV | WITH_ATOMIC_WRITE | WITH_FLUSH)

static uint64_t ops_of(enum ibv_qp_type type)
{
	switch (type) {
	case IBV_QPT_RC:
	case IBV_QPT_XRC_SEND:
		return OPS_RC;
	case IBV_QPT_UC:
		return OPS_UC;
	default:
		return OPS_UD;
	}
}

int shim_wr_ex_init(struct shim_qp *qp, uint64_t send_ops)
{
	uint64_t known = ops_of(qp->ibv.qp_type);
	struct ibv_qp_ex *ex = &qp->ex;

	if (send_ops & ~known)
		return EOPNOTSUPP;
	pthread_mutex_init(&qp->batch.lock, NULL);
	qp->extended = true;
	ex->wr_atomic_cmp_swp = wr_atomic_cmp_swp;
	ex->wr_atomic_fetch_add = wr_atomic_fetch_add;
	set_newer(qp);
	ex->wr_bind_mw = wr_bind_mw;
	ex->wr_local_inv = wr_local_inv;
	ex->wr_rdma_read = wr_rdma_read;
	ex->wr_rdma_write = wr_rdma_write;
	ex->wr_rdma_write_imm = wr_rdma_write_imm;
	ex->wr_send = wr_send;
	ex->wr_send_imm = wr_send_imm;
	ex->wr_send_inv = wr_send_inv;
	ex->wr_set_ud_addr = wr_set_ud_addr;
	ex->wr_set_xrc_srqn = wr_set_xrc_srqn;
	ex->wr_set_inline_data = wr_set_inline_data;
	ex->wr_set_inline_data_list = wr_set_inline_data_list;
	ex->wr_set_sge = wr_set_sge;
	ex->wr_set_sge_list = wr_set_sge_list;
	ex->wr_start = wr_start;
	ex->wr_complete = wr_complete;
	ex->wr_abort = wr_abort;
	return 0;
}

void shim_wr_ex_fini(struct shim_qp *qp)
{
	free(qp->batch.wrs);
	free(qp->batch.data);
	pthread_mutex_destroy(&qp->batch.lock);
}
