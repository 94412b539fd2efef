/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * phase.c - one transfer of the data verifier: prepare both ends, post everything, complete everything, check.
 *
 * Between the barriers an end does nothing to serve the other end's requests: one-sided operations must make progress
 * without the target's help.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include "verify.h"

const char *op_name(enum op op)
{
	static const char *const name[OP_COUNT] = {"send", "send_imm", "send_inv", "write",	 "write_imm",
						   "read", "cas",      "faa",	   "faa_shared", "errors"};
	return name[op];
}

const char *service_name(enum service svc)
{
	static const char *const name[SVC_COUNT] = {"rc", "uc", "ud"};
	return name[svc];
}

size_t phase_stride(const struct phase *ph)
{
	return (15 + GRH_LEN + ph->size + 31 + 8 * MAX_SGES + 63) & ~(size_t)63;
}

static void responder_prepare(struct end *end, const struct phase *ph, size_t used, bool responder)
{
	struct area *target = &end->area[AREA_TARGET];
	ptrdiff_t to_shadow = target->shadow - target->mem;
	unsigned dir = !end->self;
	uint64_t a, b, after, value;

	for (unsigned i = AREA_SINK; i <= AREA_TARGET; i++)
		area_reset(&end->area[i], used, data_key(ph, KIND_FILL, end->self, i, 0));
	for (unsigned qp = 0; qp < end->links; qp++) {
		for (unsigned m = 0; m < ph->msgs; m++) {
			uint8_t *slot = msg_slot(ph, target, qp, m);

			if (ph->op == OP_READ)
				data_fill(slot + msg_offset(ph, dir, qp, m), ph->size,
					  data_key(ph, KIND_DATA, dir, qp, m));
			if (op_is_atomic(ph->op)) {
				value = msg_atomic(ph, dir, qp, 0, &a, &b, &after);
				memcpy(slot, &value, 8);
			}
			memcpy(slot + to_shadow, slot, ph->stride);
		}
	}
	for (unsigned s = 0; responder && op_takes_recv(ph->op) && s < end->links * ph->msgs; s++) {
		struct ibv_sge sge[MAX_SGES];
		struct ibv_recv_wr wr = {.wr_id = 0x4ecf0000u | s, .sg_list = sge}, *bad;
		int rc;

		wr.num_sge = msg_recv_sges(end, ph, s, sge);
		if (ph->svc == SVC_RC && end->srq)
			rc = ibv_post_srq_recv(end->srq, &wr, &bad);
		else
			rc = ibv_post_recv(end->link[s / ph->msgs].qp, &wr, &bad);
		if (rc)
			die("post receive %u: %s", s, strerror(rc));
	}
}

/** SEND with invalidate needs a key to invalidate: bind a type 2 window for each message to the message's slot. */
static void windows_bind(struct end *end, const struct phase *ph, struct ibv_mw **mw, uint32_t *rkeys)
{
	struct area *target = &end->area[AREA_TARGET];
	uint64_t deadline = now_ms() + ph->plan->stall_ms;

	for (unsigned i = 0; i < end->links * ph->msgs; i++) {
		struct ibv_send_wr wr = {.wr_id = i, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;
		struct ibv_wc wc = {0};

		mw[i] = ibv_alloc_mw(end->pd, IBV_MW_TYPE_2);
		if (!mw[i])
			die("ibv_alloc_mw: %s", strerror(errno));
		rkeys[i] = ibv_inc_rkey(mw[i]->rkey);
		wr.bind_mw.mw = mw[i];
		wr.bind_mw.rkey = rkeys[i];
		wr.bind_mw.bind_info =
			(struct ibv_mw_bind_info){.mr = target->mr,
						  .addr = (uintptr_t)target->mem + (size_t)i * ph->stride,
						  .length = ph->stride,
						  .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
		if (ibv_post_send(end->link[i / ph->msgs].qp, &wr, &bad))
			die("post BIND_MW: %s", strerror(errno));
		while (!ibv_poll_cq(end->send_cq, 1, &wc))
			if (now_ms() > deadline)
				die("BIND_MW never completed");
		if (wc.status || wc.opcode != IBV_WC_BIND_MW || wc.wr_id != i)
			die("BIND_MW: %s, opcode %d", ibv_wc_status_str(wc.status), wc.opcode);
	}
}

static void wr_fill(struct end *end, const struct phase *ph, unsigned qp, unsigned msg, struct ibv_send_wr *wr)
{
	static const enum ibv_wr_opcode opcode[OP_COUNT] = {[OP_SEND] = IBV_WR_SEND,
							    [OP_SEND_IMM] = IBV_WR_SEND_WITH_IMM,
							    [OP_SEND_INV] = IBV_WR_SEND_WITH_INV,
							    [OP_WRITE] = IBV_WR_RDMA_WRITE,
							    [OP_WRITE_IMM] = IBV_WR_RDMA_WRITE_WITH_IMM,
							    [OP_READ] = IBV_WR_RDMA_READ,
							    [OP_CAS] = IBV_WR_ATOMIC_CMP_AND_SWP,
							    [OP_FAA] = IBV_WR_ATOMIC_FETCH_AND_ADD,
							    [OP_FAA_SHARED] = IBV_WR_ATOMIC_FETCH_AND_ADD};
	uint64_t slot = op_is_atomic(ph->op) ? (ph->op == OP_FAA_SHARED ? 0 : (uint64_t)qp * ph->msgs)
					     : (uint64_t)qp * ph->msgs + msg;
	uint64_t remote = end->remote.target_addr + slot * ph->stride + msg_offset(ph, end->self, qp, msg), after;

	wr->wr_id = (uint64_t)(0x5e000000u | qp) << 16 | msg;
	wr->opcode = opcode[ph->op];
	wr->send_flags = msg_is_signaled(ph, end->self, qp, msg) ? IBV_SEND_SIGNALED : 0;
	if (ph->plan->events && msg + 1 == ph->msgs && op_takes_recv(ph->op))
		wr->send_flags |= IBV_SEND_SOLICITED;
	if (ph->inline_data)
		wr->send_flags |= IBV_SEND_INLINE;
	if (ph->op == OP_SEND_IMM || ph->op == OP_WRITE_IMM)
		wr->imm_data = htonl((uint32_t)data_u64(data_key(ph, KIND_IMM, end->self, qp, msg)));
	if (ph->svc == SVC_UD) {
		wr->wr.ud.ah = end->link[qp].ah;
		wr->wr.ud.remote_qpn = end->remote.link[qp].qpn;
		wr->wr.ud.remote_qkey = UD_QKEY;
	} else if (op_is_atomic(ph->op)) {
		wr->wr.atomic.remote_addr = remote;
		wr->wr.atomic.rkey = end->remote.target_rkey;
		msg_atomic(ph, end->self, qp, msg, &wr->wr.atomic.compare_add, &wr->wr.atomic.swap, &after);
	} else {
		wr->wr.rdma.remote_addr = remote;
		wr->wr.rdma.rkey = end->remote.target_rkey;
	}
}

/** Post all messages of a QP as one chain of work requests. */
static void requests_post(struct end *end, const struct phase *ph, unsigned qp, const uint32_t *mw_rkeys)
{
	static struct ibv_send_wr wr[2 * MAX_MSGS];
	static struct ibv_sge sge[MAX_MSGS][MAX_SGES];
	struct area *tx = &end->area[AREA_TX];
	struct ibv_send_wr *bad = NULL;
	unsigned n = 0;
	int rc;

	memset(wr, 0, sizeof(wr));
	for (unsigned m = 0; m < ph->msgs; m++) {
		uint8_t *from = msg_slot(ph, tx, qp, m) + msg_offset(ph, end->self, qp, m);
		int count;

		if (ph->op == OP_READ || op_is_atomic(ph->op)) {
			count = msg_result_sges(end, ph, qp, m, sge[m]);
		} else {
			/* The shadow of the send area serves as a scratch buffer: the data is made there, and copied
			 * to the memory that the SGEs describe. */
			uint8_t *data = tx->shadow;

			data_fill(data, ph->size, data_key(ph, KIND_DATA, end->self, qp, m));
			count = sge_layout(sge[m], ph->sges, from, ph->size, tx->mr->lkey,
					   data_key(ph, KIND_TX_SGE, end->self, qp, m));
			sge_scatter(sge[m], count, 0, 0, data, ph->size);
		}
		wr[n].sg_list = sge[m];
		wr[n].num_sge = count;
		wr_fill(end, ph, qp, m, &wr[n]);
		if (ph->op == OP_SEND_INV) { /* first a WRITE through the window, then the SEND that invalidates it */
			wr[n + 1] = wr[n];
			wr[n].opcode = IBV_WR_RDMA_WRITE;
			wr[n].send_flags &= IBV_SEND_INLINE;
			wr[n].wr.rdma.rkey = mw_rkeys[qp * ph->msgs + m];
			wr[n].next = &wr[n + 1];
			n++;
			wr[n].invalidate_rkey = mw_rkeys[qp * ph->msgs + m];
		}
		wr[n].next = m + 1 < ph->msgs ? &wr[n + 1] : NULL;
		n++;
	}
	rc = ibv_post_send(end->link[qp].qp, wr, &bad);
	if (rc)
		die("%s %s QP %u: post failed at entry %ld: %s", service_name(ph->svc), op_name(ph->op), qp,
		    (long)(bad - wr), strerror(rc));
	/* Inline data was copied when the request was posted: changing the buffer now must not affect it. */
	if (ph->inline_data)
		memset(msg_slot(ph, tx, qp, 0), 0xee, (size_t)ph->msgs * ph->stride);
}

static int completions_take(struct end *end, const struct phase *ph, struct progress *pr, const uint32_t *mw_rkeys)
{
	struct ibv_wc wc[8];
	int total = 0, n;

	n = ibv_poll_cq(end->send_cq, 8, wc);
	if (n < 0)
		die("ibv_poll_cq on the send CQ: %d", n);
	for (int i = 0; i < n; i++)
		check_send_wc(end, ph, pr, &wc[i]);
	total = n;
	n = ibv_poll_cq(end->recv_cq, 8, wc);
	if (n < 0)
		die("ibv_poll_cq on the receive CQ: %d", n);
	for (int i = 0; i < n; i++)
		check_recv_wc(end, ph, pr, &wc[i], mw_rkeys);
	return total + n;
}

/** Sleep on the completion channel. @return whether an event arrived in time. */
static bool event_wait(struct end *end, int timeout_ms)
{
	struct pollfd fd = {.fd = end->channel->fd, .events = POLLIN};
	struct ibv_cq *cq = NULL;
	void *context = NULL;

	if (poll(&fd, 1, timeout_ms) <= 0)
		return false;
	if (ibv_get_cq_event(end->channel, &cq, &context))
		die("ibv_get_cq_event: %s", strerror(errno));
	if ((cq != end->send_cq && cq != end->recv_cq) || context != cq->cq_context)
		die("an event of a CQ that is not ours");
	ibv_ack_cq_events(cq, 1);
	return true;
}

static int completions_drive(struct end *end, const struct phase *ph, struct progress *pr, const uint32_t *mw_rkeys)
{
	uint64_t last = now_ms();
	bool armed = false, timed_out = false, unannounced = false;
	int n;

	while (pr->send_left || pr->recv_left) {
		n = completions_take(end, ph, pr, mw_rkeys);
		if (n) {
			unannounced |= timed_out;
			last = now_ms();
			armed = false;
			continue;
		}
		if (end->channel && !armed) {
			if (ibv_req_notify_cq(end->send_cq, 0) ||
			    ibv_req_notify_cq(end->recv_cq, op_takes_recv(ph->op)))
				die("ibv_req_notify_cq failed");
			armed = true;
			continue;
		}
		if (end->channel && !timed_out) {
			if (event_wait(end, ph->plan->stall_ms))
				armed = false;
			else
				timed_out = true;
			continue;
		}
		if (timed_out || now_ms() - last > ph->plan->stall_ms) {
			if (ph->svc != SVC_RC && !pr->send_left)
				return PHASE_LOST;
			die("%s %s size %u: %u requests and %u receives did not complete within %u ms",
			    service_name(ph->svc), op_name(ph->op), ph->size, pr->send_left, pr->recv_left,
			    ph->plan->stall_ms);
		}
	}
	/* The last message of each QP is solicited; those before it may well be without an event. */
	if (unannounced && ph->svc == SVC_RC)
		die("%s: completions were in the CQ, but no event came", op_name(ph->op));
	return PHASE_OK;
}

int phase_run(struct end *end, struct phase *ph)
{
	static uint32_t mine[MAX_QPS * MAX_MSGS], theirs[MAX_QPS * MAX_MSGS];
	static struct ibv_mw *mw[MAX_QPS * MAX_MSGS];
	size_t used = (size_t)end->links * ph->msgs * ph->stride;
	bool requester = ph->plan->dirs & 1u << end->self, responder = ph->plan->dirs & 1u << !end->self;
	struct progress pr = {0};
	int status;

	area_reset(&end->area[AREA_RESULT], used, data_key(ph, KIND_FILL, end->self, AREA_RESULT, 0));
	responder_prepare(end, ph, used, responder);
	if (ph->op == OP_SEND_INV) {
		windows_bind(end, ph, mw, mine);
		oob_swap(end->oob, mine, theirs, sizeof(mine));
	}
	for (unsigned qp = 0; requester && qp < end->links; qp++)
		for (unsigned m = 0; m < ph->msgs; m++)
			pr.send_left += msg_is_signaled(ph, end->self, qp, m);
	if (responder && op_takes_recv(ph->op))
		pr.recv_left = end->links * ph->msgs;
	oob_agree(end->oob, 0);
	for (unsigned qp = 0; requester && qp < end->links; qp++)
		requests_post(end, ph, qp, theirs);
	status = oob_agree(end->oob, completions_drive(end, ph, &pr, mine));
	if (status == PHASE_OK)
		status = check_memory(end, ph, &pr, requester, responder);
	for (unsigned i = 0; ph->op == OP_SEND_INV && i < end->links * ph->msgs; i++)
		if (ibv_dealloc_mw(mw[i]))
			die("ibv_dealloc_mw: %s", strerror(errno));
	return oob_agree(end->oob, status);
}
