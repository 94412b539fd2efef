/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cq_ex.c - extended completion queues: ibv_start_poll, ibv_next_poll, ibv_wc_read_*. A completion is taken from the
 * NIC only when it becomes the current one, never in advance. When a QP is destroyed, all its completions except the
 * current one are therefore still in the NIC's queue, and can be removed there.
 *
 * From a successful ibv_start_poll to ibv_end_poll the current completion belongs to the calling thread, which holds
 * poll_lock (unless the CQ is single-threaded) while the application reads it; other pollers wait. poll_lock is taken
 * before the engine lock.
 */
#include <endian.h>
#include <time.h>

#include "child.h"
#include "cq.h"

#define NS_PER_S 1000000000ull

static struct shim_cq *cq_of(struct ibv_cq_ex *cq)
{
	return container_of(cq, struct shim_cq, ex);
}

/* Take the next completion. @return 0; ENOENT: CQ is empty; EIO: the CQ has overflowed, or its context
 * is closed or was inherited by a forked child. */
static int take(struct ibv_cq_ex *ex)
{
	struct shim_cq *cq = cq_of(ex);
	int got = shim_take_cq(&cq->ibv, 1, (struct ibv_wc *)&cq->wc, cq->keeps_notes ? &cq->note : NULL);

	if (got < 0)
		return -got;
	if (!got)
		return ENOENT;
	ex->wr_id = cq->wc.wr_id;
	ex->status = (enum ibv_wc_status)cq->wc.status;
	return 0;
}

static void poll_unlock(struct shim_cq *cq)
{
	if (!cq->single)
		pthread_mutex_unlock(&cq->poll_lock);
}

static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr)
{
	struct shim_cq *cq = cq_of(ex);
	int err;

	if (attr && attr->comp_mask)
		return EINVAL;
	if (!shim_alive(shim_ctx(ex->context)))
		return EIO; /* in a forked child the thread that holds poll_lock may not exist */
	if (!cq->single)
		pthread_mutex_lock(&cq->poll_lock);
	err = take(ex);
	if (err)
		poll_unlock(cq);
	return err;
}

static void end_poll(struct ibv_cq_ex *ex)
{
	poll_unlock(cq_of(ex));
}

static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex)
{
	return (enum ibv_wc_opcode)cq_of(ex)->wc.opcode;
}

static uint32_t read_vendor_err(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.vendor_err;
}

static uint32_t read_byte_len(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.byte_len;
}

static __be32 read_imm_data(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.ex;
}

static uint32_t read_qp_num(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.qp_num;
}

static uint32_t read_src_qp(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.src_qp;
}

static unsigned int read_wc_flags(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.wc_flags;
}

static uint32_t read_slid(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.slid;
}

static uint8_t read_sl(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.sl;
}

static uint8_t read_dlid_path_bits(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->wc.dlid_path_bits;
}

/* The unit of raw timestamps is the nanosecond (hca_core_clock), and ibv_query_rt_values_ex reads the same clock. */
static uint64_t read_completion_ts(struct ibv_cq_ex *ex)
{
	return cq_of(ex)->note.at_ns;
}

/* Nanoseconds since 1970: the wall clock's present time less the completion's age. A step of the wall clock since the
 * completion therefore does not distort the result. */
static uint64_t read_completion_wallclock_ns(struct ibv_cq_ex *ex)
{
	struct timespec wall;
	uint64_t now = pmd_clock_steady_ns();

	clock_gettime(CLOCK_REALTIME, &wall);
	return (uint64_t)wall.tv_sec * NS_PER_S + (uint64_t)wall.tv_nsec - (now - cq_of(ex)->note.at_ns);
}

static void read_tm_info(struct ibv_cq_ex *ex, struct ibv_wc_tm_info *info)
{
	info->tag = cq_of(ex)->note.tag;
	info->priv = be32toh(cq_of(ex)->note.app_ctx);
}

static bool keep_notes(struct shim_cq *cq)
{
	struct shim_context *ctx = shim_ctx(cq->ibv.context);

	if (!shim_enter(ctx))
		return false;
	cq->keeps_notes = !nic_cq_keep_notes(cq->nic);
	shim_leave(ctx);
	return cq->keeps_notes;
}

/* Completions have no VLAN and no flow tag: asking for these in wc_flags fails with EOPNOTSUPP. */
struct ibv_cq_ex *shim_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr)
{
	const uint32_t known = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
	const uint64_t noted = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK |
			       IBV_WC_EX_WITH_TM_INFO;
	uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	struct shim_cq *cq;

	if (attr->comp_mask & ~known || attr->wc_flags & ~(uint64_t)(IBV_WC_STANDARD_FLAGS | noted) ||
	    flags & ~(uint32_t)(IBV_CREATE_CQ_ATTR_SINGLE_THREADED | IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))
		return shim_fail(EOPNOTSUPP);
	context = shim_context_here(context);
	cq = shim_cq_create(shim_ctx(context), attr->cqe, attr->cq_context, attr->channel, attr->comp_vector);
	if (!cq)
		return NULL;
	cq->single = flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	if (flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN && shim_cq_ignore_overrun(&cq->ibv, true) != 0) {
		ibv_destroy_cq(&cq->ibv);
		return shim_fail(EIO);
	}
	if (attr->wc_flags & noted && !keep_notes(cq)) {
		ibv_destroy_cq(&cq->ibv);
		return shim_fail(ENOMEM);
	}
	cq->ex.start_poll = start_poll;
	cq->ex.next_poll = take;
	cq->ex.end_poll = end_poll;
	cq->ex.read_opcode = read_opcode;
	cq->ex.read_vendor_err = read_vendor_err;
	cq->ex.read_byte_len = read_byte_len;
	cq->ex.read_imm_data = read_imm_data;
	cq->ex.read_qp_num = read_qp_num;
	cq->ex.read_src_qp = read_src_qp;
	cq->ex.read_wc_flags = read_wc_flags;
	cq->ex.read_slid = read_slid;
	cq->ex.read_sl = read_sl;
	cq->ex.read_dlid_path_bits = read_dlid_path_bits;
	cq->ex.read_completion_ts = read_completion_ts;
	cq->ex.read_completion_wallclock_ns = read_completion_wallclock_ns;
	cq->ex.read_tm_info = read_tm_info;
	return &cq->ex;
}
