/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * req.c - the requester: turns send WQEs into request packets, in order, within the window; goes back on loss
 * (IBTA 9.7.2, 9.7.5, 9.7.6, 10.8.3). Also sends for UC; UD is in ud.c.
 *
 * Invariants. req.psn is the PSN of packet number req.packet of WQE sq.next. The requester always goes back to
 * comp.una, which lies in WQE sq.tail: every READ and atomic before it has been answered, so rd_out restarts at 0.
 * Local operations run once, when the requester first reaches them; their `started` flag keeps a retry from repeating
 * them.
 */
#include "calc.h"
#include "comp.h"
#include "cross.h"
#include "elem.h"
#include "extended.h"
#include "mem.h"
#include "mtu.h"
#include "mw.h"
#include "opcode.h"
#include "packet.h"
#include "psn.h"
#include "qp.h"
#include "qp_packet.h"
#include "refer.h"
#include "req.h"
#include "req_early.h"
#include "req_run.h"
#include "req_taken.h"
#include "timer.h"
#include "ud.h"
#include "wr.h"

#define ASK_EVERY   64 /* AckReq at least once in so many request packets (RQ-07) */
#define CWND_MIN    4  /* packets */
/* Most doublings of the ACK timer: 12.7.34 allows up to four times its value. */
#define BACKOFF_MAX 2

/* IBTA 9.7.5.2.8: RNR NAK timer codes, in units of 10 us. Code 0 is the longest. */
static const uint32_t rnr_10us[32] = {65536, 1,	   2,	 3,    4,    6,	    8,	   12,	  16,	 24,   32,
				      48,    64,   96,	 128,  192,  256,   384,   512,	  768,	 1024, 1536,
				      2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};

void req_reset(struct nic_qp *qp)
{
	qp->req = (struct requester){
		.psn = qp->attr.sq_psn,
		.sent_psn = qp->attr.sq_psn,
		.cwnd = UINT32_MAX,
		.ack_deadline = TIME_NEVER,
		.rnr_until = TIME_NEVER,
		.retries = qp->attr.retry_cnt,
		.rnr_retries = qp->attr.rnr_retry,
	};
}

/* ---- window ------------------------------------------------------------------------------------------ */

/* Most payload bytes in flight; 0: no limit. */
static uint32_t inflight_max(const struct nic_qp *qp)
{
	return qp->nic->paths[qp->path].flags & NIC_PATH_LOSSLESS ? 0 : qp->nic->cfg.max_inflight;
}

/* Most PSNs outstanding when nothing has been lost lately. */
static uint32_t window_max(const struct nic_qp *qp)
{
	const struct nic_config *cfg = &qp->nic->cfg;
	uint32_t inflight = inflight_max(qp) ? inflight_max(qp) >> pmtu_shift(qp->pmtu) : UINT32_MAX;

	if (inflight < CWND_MIN)
		inflight = CWND_MIN;
	return inflight < cfg->psn_window ? inflight : cfg->psn_window;
}

static uint32_t window(const struct nic_qp *qp)
{
	uint32_t max = window_max(qp);

	return qp->req.cwnd < max ? qp->req.cwnd : max;
}

static uint32_t read_piece(const struct nic_qp *qp)
{
	uint32_t max = window_max(qp);

	return inflight_max(qp) && max > 1 ? max / 2 : max;
}

/* PSNs that may be sent now. */
static uint32_t window_room(const struct nic_qp *qp)
{
	uint32_t out = (qp->req.psn - qp->comp.una) & PSN_MASK;

	return out < window(qp) ? window(qp) - out : 0;
}

/* The window limits packets: requests that ride in another's packet count only against cfg.psn_window. */
static bool window_open(const struct nic_qp *qp, uint32_t psns, uint32_t packets)
{
	uint32_t out = (qp->req.psn - qp->comp.una) & PSN_MASK;

	if (out == 0 || out + psns <= window(qp))
		return true;
	return qp->peer_joins && out + psns <= qp->nic->cfg.psn_window &&
	       out - req_run_riders(qp) + packets <= window(qp);
}

/* Widen by 1 + cwnd / 8 after a window's worth of progress. */
static void window_widen(struct nic_qp *qp, uint32_t packets)
{
	struct requester *req = &qp->req;

	if (req->cwnd == UINT32_MAX)
		return;
	req->cwnd_acked += packets;
	if (req->cwnd_acked < req->cwnd)
		return;
	req->cwnd_acked = 0;
	req->cwnd += 1 + req->cwnd / 8;
	if (req->cwnd >= window_max(qp))
		req->cwnd = UINT32_MAX;
}

static void window_narrow(struct nic_qp *qp)
{
	if (!inflight_max(qp))
		return;
	qp->req.cwnd = window(qp) / 2;
	if (qp->req.cwnd < CWND_MIN)
		qp->req.cwnd = CWND_MIN;
	qp->req.cwnd_acked = 0;
}

/* ---- timers and retries ------------------------------------------------------------------------------ */

static void ack_timer_start(struct nic_qp *qp)
{
	struct requester *req = &qp->req;

	if (qp->type != NIC_QPT_RC || !qp->attr.timeout || req->sent_psn == qp->comp.una ||
	    req->rnr_until != TIME_NEVER)
		req->ack_deadline = TIME_NEVER;
	else
		req->ack_deadline = qp->nic->now + (4096ull << qp->attr.timeout << req->expired);
	req->taken = REQ_TAKEN_UNKNOWN;
	req_early_start(qp);
	qp_timer(qp);
}

uint8_t req_retries(uint8_t timeout, uint64_t ns)
{
	uint64_t tr = 4096ull << timeout, spent = tr;
	uint8_t n = 0;

	/* n retries take n + 1 expiries of the timer. */
	do {
		n++;
		spent += tr << (n < BACKOFF_MAX ? n : BACKOFF_MAX);
	} while (spent < ns && n < UINT8_MAX);
	return n;
}

/* Set the send position to comp.una. */
static void reposition(struct nic_qp *qp)
{
	struct requester *req = &qp->req;
	const struct swqe *w = sq_at(qp, qp->sq.tail);

	qp->sq.next = qp->sq.tail;
	req->psn = qp->comp.una;
	req->packet = qp->sq.tail != qp->sq.head && w->started && w->packets ? (req->psn - w->psn) & PSN_MASK : 0;
	req->rd_out = 0;
	req->unasked = 0;
	req->failed = ERR_none;
	qp_ready(qp);
}

void req_progress(struct nic_qp *qp, uint32_t packets)
{
	struct requester *req = &qp->req;

	req->retries = qp->attr.retry_cnt;
	req->rnr_retries = qp->attr.rnr_retry;
	req->retrying = req->forgiven = false;
	req->referred = req->referred && psn_diff(qp->comp.una, req->referred_end) < 0;
	req->expired = 0;
	req_early_progress(qp);
	window_widen(qp, packets);
	if (psn_diff(qp->comp.una, req->psn) > 0)
		reposition(qp); /* a late answer overtook the retry */
	ack_timer_start(qp);
	if (qp->sq.next != qp->sq.head)
		qp_ready(qp);
}

/* A reference that could not be fetched is no loss on the path: resending it, with its payload, costs no retry. But
 * only once until there is progress, whatever the peer says. */
static bool forgive(struct nic_qp *qp)
{
	bool first = !qp->req.forgiven;

	qp->req.forgiven = true;
	return first;
}

static void go_back(struct nic_qp *qp)
{
	reposition(qp);
	ack_timer_start(qp); /* restarts with the first retransmitted packet, if one is ever sent */
}

void req_unread(struct nic_qp *qp)
{
	if (!forgive(qp)) {
		req_go_back(qp, ERR_sequence);
		return;
	}
	trace_add(qp->nic, qp->qpn, NIC_TR_retry, qp->comp.una, qp->req.retries);
	qp->req.retrying = true;
	/* Packets sent after it may have to be sent again, too, at no cost in retries. */
	qp->req.referred = true;
	qp->req.referred_end = qp->req.sent_psn;
	go_back(qp);
}

void req_go_back(struct nic_qp *qp, enum error_id exhausted)
{
	struct requester *req = &qp->req;

	if (exhausted == ERR_sequence && req->referred && !req->forgiven) {
		req_unread(qp);
		return;
	}
	trace_add(qp->nic, qp->qpn, NIC_TR_retry, qp->comp.una, req->retries);
	if (!req->retries) {
		comp_finish(qp, exhausted);
		return;
	}
	req->retries--;
	/* A second NAK for the same loss must not restart the retry; a NAK after a timeout is new information. */
	req->retrying = exhausted == ERR_sequence;
	window_narrow(qp);
	go_back(qp);
}

void req_path_gone(struct nic_qp *qp)
{
	bool sends = qp->state == NIC_QPS_RTS || qp->state == NIC_QPS_SQD;

	if (qp->type != NIC_QPT_RC || !sends || qp->req.psn == qp->comp.una)
		return;
	trace_add(qp->nic, qp->qpn, NIC_TR_retry, qp->comp.una, qp->req.retries);
	reposition(qp);
	qp->req.expired = 0;
	qp->req.early = (struct requester_early){0}; /* measured on the old path */
	qp->req.retrying = false;
	req_attributes_changed(qp); /* full retry budget and ACK timer */
	if (inflight_max(qp)) {	    /* the peer may be gone for good: start as after losses */
		qp->req.cwnd = CWND_MIN;
		qp->req.cwnd_acked = 0;
	}
}

void req_rnr(struct nic_qp *qp, uint8_t timer_code)
{
	struct requester *req = &qp->req;
	uint64_t wait_ns = rnr_10us[timer_code & 31] * 10000ull;

	if (!req->rnr_retries) {
		comp_finish(qp, ERR_rnr);
		return;
	}
	if (qp->attr.rnr_retry != 7)
		req->rnr_retries--;
	reposition(qp);
	req->retrying = false; /* the retry has arrived */
	if (qp->owner) {       /* an RNR NAK is not silence: refill the retry budget */
		req->retries = qp->attr.retry_cnt;
		req->expired = 0;
		req->early.again = 0;
		req->early.timing = false; /* the peer's time to make room is no RTT sample */
	}
	req->rnr_until = qp->nic->now + wait_ns;
	req->ack_deadline = TIME_NEVER;
	trace_add(qp->nic, qp->qpn, NIC_TR_rnr_wait, qp->comp.una, (uint32_t)(wait_ns / 1000));
	qp_timer(qp);
}

/** The answer is late, but the ACK timer has not run out. */
static void late(struct nic_qp *qp)
{
	if (req_early_again(qp)) {
		COUNT(qp->nic, early_retries);
		trace_add(qp->nic, qp->qpn, NIC_TR_retry, qp->comp.una, qp->req.retries);
		reposition(qp);
	}
	qp_timer(qp);
}

/* Let the ACK timer run for another `ns`, without retransmission. */
static void ack_timer_extend(struct nic_qp *qp, uint64_t ns)
{
	qp->req.ack_deadline = qp->nic->now + ns;
	qp_timer(qp);
}

static void expire(struct nic_qp *qp)
{
	struct requester *req = &qp->req;
	uint64_t look_ns = req_taken_look(qp);

	if (look_ns && !qp->owner) {
		COUNT(qp->nic, ack_timer_waits);
		ack_timer_extend(qp, look_ns);
		return;
	}
	COUNT(qp->nic, local_ack_timeout_err);
	qp->counters.timeouts++;
	trace_add(qp->nic, qp->qpn, NIC_TR_timeout, qp->comp.una, req->retries);
	if (req->expired < BACKOFF_MAX)
		req->expired++;
	req->early.again = REQ_EARLY_OVER;
	if (look_ns && req->retries) { /* spend an endpoint's retry, but a second copy would not arrive sooner */
		req->retries--;
		ack_timer_extend(qp, 4096ull << qp->attr.timeout << req->expired);
	} else {
		req_go_back(qp, ERR_timeout);
	}
}

void req_timeout(struct nic_qp *qp, uint64_t now)
{
	struct requester *req = &qp->req;

	if (req->rnr_until <= now) {
		req->rnr_until = TIME_NEVER;
		qp_timer(qp);
		qp_ready(qp);
	}
	if (req->ack_deadline <= now) {
		expire(qp);
	} else if (req->ack_deadline != TIME_NEVER && req->early.at <= now) {
		late(qp);
	}
}

void req_attributes_changed(struct nic_qp *qp)
{
	qp->req.retries = qp->attr.retry_cnt;
	qp->req.rnr_retries = qp->attr.rnr_retry;
	ack_timer_start(qp);
}

void req_rd_done(struct nic_qp *qp)
{
	if (qp->req.rd_out)
		qp->req.rd_out--;
	if (qp->sq.next != qp->sq.head)
		qp_ready(qp);
}

void req_settle(struct nic_qp *qp)
{
	struct requester *req = &qp->req;

	if (req->failed != ERR_none && qp->sq.next == qp->sq.tail) {
		comp_finish(qp, req->failed);
		return;
	}
	if (qp->state == NIC_QPS_SQD && !req->drained && (int32_t)(qp->sq.tail - req->sqd_stop) >= 0) {
		req->drained = true;
		if (qp->attr.en_sqd_async_notify)
			event_raise(qp->nic, &qp->events, NIC_EVENT_SQ_DRAINED);
	}
}

/* ---- sending ----------------------------------------------------------------------------------------- */

bool req_pending(const struct nic_qp *qp)
{
	return qp->sq.next != qp->sq.head && (qp->state == NIC_QPS_RTS || qp->state == NIC_QPS_SQD) &&
	       qp->req.rnr_until == TIME_NEVER && qp->req.failed == ERR_none;
}

/* Fail WQE sq.next once all WQEs before it are complete. Always returns false. */
bool req_fail(struct nic_qp *qp, enum error_id error)
{
	qp->req.failed = error;
	req_settle(qp);
	return false;
}

static void next_wqe(struct nic_qp *qp)
{
	qp->sq.next++;
	qp->req.packet = 0;
}

/* The application may have destroyed the window or the region since it posted the bind. */
static bool bind_objects_exist(const struct nic *nic, const struct swqe *w)
{
	return table_find(&nic->mkeys, w->mw_key >> 8) == &w->bind.mw->mkey &&
	       (!w->bind.mr || table_find(&nic->mkeys, w->mr_key >> 8) == &w->bind.mr->mkey);
}

/*
 * Run a local operation. Invalidation waits for all earlier WQEs (10.6.5.1); other operations run when reached,
 * a fenced one after READs and atomics.
 * @return false if the queue has to wait or the operation failed.
 */
static bool run_local(struct nic_qp *qp, struct swqe *w)
{
	if (!w->started) {
		if (w->opcode == NIC_WR_LOCAL_INV) {
			if (qp->sq.next != qp->sq.tail)
				return false;
			if (!mw_invalidate_check(qp, w->ex))
				return req_fail(qp, ERR_invalidate_local);
			mw_invalidate(qp->nic, w->ex);
		} else {
			if ((w->flags & NIC_SEND_FENCE) && qp->req.rd_out)
				return false;
			if (w->opcode == NIC_WR_BIND_MW) {
				if (!bind_objects_exist(qp->nic, w) || !mw_bind_check(qp, &w->bind))
					return req_fail(qp, ERR_bind);
				mw_bind(qp, &w->bind);
			} else if (wr_is_cross(w->opcode) && !cross_run(qp, w)) {
				return false;
			}
		}
		w->started = true;
		w->packets = 0;
		w->psn = qp->req.psn;
	}
	next_wqe(qp);
	comp_finish_local(qp);
	return true;
}

static bool asks_response(const struct swqe *w)
{
	return w->opcode == NIC_WR_RDMA_READ || wr_is_atomic(w->opcode);
}

/* Whether the WQE's next packet may go now: fence, READ and atomic limit, window. */
static bool may_send(struct nic_qp *qp, struct swqe *w, uint32_t psns, uint32_t packets)
{
	struct requester *req = &qp->req;

	if (qp->type != NIC_QPT_RC)
		return true;
	if (!w->started && (w->flags & NIC_SEND_FENCE) && req->rd_out)
		return false;
	if (asks_response(w) && req->rd_out >= qp->attr.max_rd_atomic)
		return false;
	return window_open(qp, psns, packets);
}

static enum op_kind kind_of(const struct swqe *w)
{
	switch (w->opcode) {
	case NIC_WR_RDMA_WRITE:
	case NIC_WR_RDMA_WRITE_WITH_IMM:
		return OP_WRITE;
	case NIC_WR_RDMA_READ:
		return OP_READ_REQ;
	case NIC_WR_ATOMIC_CMP_AND_SWP:
		return OP_CMP_SWAP;
	case NIC_WR_ATOMIC_FETCH_AND_ADD:
		return OP_FETCH_ADD;
	case NIC_WR_MASKED_CMP_AND_SWP:
		return OP_MASKED_CMP_SWAP;
	case NIC_WR_MASKED_FETCH_AND_ADD:
		return OP_MASKED_FETCH_ADD;
	case NIC_WR_ELEMENTS:
		return OP_ELEMENTS;
	case NIC_WR_FETCH_ELEMENTS:
		return OP_FETCH_ELEMENTS;
	default:
		return OP_SEND;
	}
}

static enum op_extra extra_of(const struct swqe *w)
{
	if (w->opcode == NIC_WR_SEND_WITH_IMM || w->opcode == NIC_WR_RDMA_WRITE_WITH_IMM)
		return OP_IMM;
	return w->opcode == NIC_WR_SEND_WITH_INV ? OP_INV : OP_PLAIN;
}

/* Position of one packet that stands for `psns` packets of the message, from number `packet` on. */
static enum op_pos pos_of(uint32_t packet, uint32_t psns, uint32_t packets)
{
	if (psns == packets)
		return OP_ONLY;
	if (packet == 0)
		return OP_FIRST;
	return packet + psns == packets ? OP_LAST : OP_MIDDLE;
}

/* Headers of a SEND or WRITE packet that stands for `psns` packets, from number req.packet on. */
static void build_data(const struct nic_qp *qp, const struct swqe *w, struct packet *p, uint32_t psns)
{
	enum op_pos pos = pos_of(qp->req.packet, psns, w->packets);
	bool ends = pos & (OP_LAST | OP_ONLY);

	p->op = op_find(qp->type == NIC_QPT_RC ? OP_RC : OP_UC, kind_of(w), pos, ends ? extra_of(w) : OP_PLAIN);
	p->va = w->remote_addr;
	p->rkey = w->rkey;
	p->dma_len = w->length;
	p->imm = p->inv_rkey = w->ex;
	p->se = ends && (w->flags & NIC_SEND_SOLICITED) && !(p->op->kind == OP_WRITE && p->op->extra != OP_IMM);
}

enum error_id req_gathered(enum mem_verdict v)
{
	if (v == MEM_OK)
		return ERR_none;
	return v == MEM_FAULT ? ERR_gather_fault : ERR_gather_key;
}

/* Open the packet of an element request and put its operands and compare values in place. */
static enum error_id put_elements(const struct nic_qp *qp, const struct swqe *w, struct packet *p,
				  struct nic_tx_frame *frame)
{
	uint8_t *payload = qp_open(p, frame, w->element.data_len);
	const struct nic_sge *data = w->sge + w->num_sge;
	uint8_t *elements = qp->nic->scratch;
	enum error_id error;

	if (w->flags & NIC_SEND_INLINE) {
		packet_copy(p, payload, data, w->element.data_len);
		return ERR_none;
	}
	error = req_gathered(
		mem_gather(qp->nic, qp->pd, data, w->element.num_data, 0, elements, w->element.data_len, NULL));
	if (error != ERR_none)
		return error;
	elem_to_wire(w->element.datatype, elements, elements, elem_vectors(w->element.op) * w->element.count);
	packet_copy(p, payload, elements, w->element.data_len);
	return ERR_none;
}

/* Gather the operands of a calculation and put its result in place. */
static enum error_id put_calc(const struct nic_qp *qp, const struct swqe *w, struct packet *p, uint8_t *payload)
{
	uint8_t *operands = qp->nic->scratch, result[CALC_SIZE];
	uint32_t len = w->calc.data_len;
	enum error_id error = req_gathered(mem_gather(qp->nic, qp->pd, w->sge, w->num_sge, 0, operands, len, NULL));

	if (error != ERR_none)
		return error;
	calc_reduce(w->calc.op, w->calc.type, operands, len / CALC_SIZE, result);
	packet_copy(p, payload, result, CALC_SIZE);
	return ERR_none;
}

/* Open the packet and put its payload in place. */
static enum error_id put_payload(struct nic_qp *qp, const struct swqe *w, struct packet *p, uint32_t psns,
				 struct nic_tx_frame *frame)
{
	uint64_t offset = (uint64_t)qp->req.packet * qp->pmtu;
	uint32_t len = !p->op->payload ? 0 : op_ends(p->op) ? w->length - (uint32_t)offset : psns * qp->pmtu;
	uint8_t *payload;

	if (w->flags & NIC_SEND_OFFERS)
		refer_offer(qp, w, p, frame);
	if (op_is_elements(p->op))
		return put_elements(qp, w, p, frame);
	if (op_is_masked(p->op))
		len = extended_operands_len(p->op, w->length);
	if (len && psns > 1)
		return req_gathered(refer_request(qp, w, offset, len, p, frame));
	payload = qp_open(p, frame, len);
	if (!len)
		return ERR_none;
	if (op_is_masked(p->op)) {
		packet_copy(p, payload, sq_operands(qp, w), len);
		return ERR_none;
	}
	if (w->flags & (NIC_SEND_INLINE | NIC_SEND_CALC)) {
		if (w->flags & NIC_SEND_CALC)
			return put_calc(qp, w, p, payload);
		packet_copy(p, payload, (const uint8_t *)w->sge + offset, len);
		return ERR_none;
	}
	return req_gathered(mem_gather(qp->nic, qp->pd, w->sge, w->num_sge, offset, payload, len, packet_icrc(p)));
}

/* Headers of an atomic, or of a READ request for the packets from req.packet to the end of its piece. */
static void build_request(struct nic_qp *qp, struct swqe *w, struct packet *p, uint32_t psns)
{
	uint64_t offset = (uint64_t)qp->req.packet * qp->pmtu;
	uint64_t left = w->length - offset, piece = (uint64_t)psns * qp->pmtu;

	p->op = op_find(wr_is_masked(w->opcode) ? OP_EXT : OP_RC, kind_of(w), OP_ONLY, OP_PLAIN);
	p->rkey = w->rkey;
	p->log_size = (uint8_t)__builtin_ctz(w->length | 1u << 31);
	if (w->opcode == NIC_WR_RDMA_READ) {
		p->va = w->remote_addr + offset;
		p->dma_len = (uint32_t)(left < piece ? left : piece);
	} else {
		p->va = w->remote_addr;
		p->swap_add = w->swap_add;
		p->compare = w->opcode == NIC_WR_ATOMIC_CMP_AND_SWP ? w->compare : 0;
	}
}

static void build_elements(const struct swqe *w, struct packet *p)
{
	p->op = op_find(OP_EXT, kind_of(w), OP_ONLY, OP_PLAIN);
	p->va = w->remote_addr;
	p->rkey = w->rkey;
	p->element.op = w->element.op;
	p->element.datatype = (uint8_t)elem_wire_of_type(w->element.datatype);
	p->element.flags = 0;
	p->element.count = w->element.count;
}

/* PSNs that the WQE's next packet takes: 1, those of its referenced payload (as far as the window allows), or those of
 * the rest of a READ's piece. */
static uint32_t psns_of_next(const struct nic_qp *qp, const struct swqe *w, const struct nic_tx_frame *frame)
{
	uint32_t piece, packets, room;

	if (w->opcode != NIC_WR_RDMA_READ) {
		if (asks_response(w) || wr_is_elements(w->opcode))
			return 1;
		packets = refer_request_psns(qp, w, frame);
		room = window_room(qp);
		return packets < room ? packets : room ? room : 1;
	}
	packets = w->started ? w->packets : packets_of(w->length, qp->pmtu);
	piece = w->started ? w->piece : read_piece(qp);
	piece -= qp->req.packet % piece;
	return piece < packets - qp->req.packet ? piece : packets - qp->req.packet;
}

/*
 * Set AckReq on the last packet of a message, and at intervals in a long one (RQ-07). On a lossless path the peer is of
 * our kind and acknowledges eventually even if not asked: there the last packet asks only if its completion is awaited.
 */
bool req_asks_ack(struct nic_qp *qp, const struct swqe *w, bool ends, uint32_t psns)
{
	bool awaited = w->flags & NIC_SEND_SIGNALED && !(w->flags & NIC_SEND_UNAWAITED);
	bool waits = awaited || !(qp->nic->paths[qp->path].flags & NIC_PATH_LOSSLESS);

	if (!ends || !waits) {
		uint32_t quarter = window(qp) / 4;

		qp->req.unasked += psns;
		if (qp->req.unasked < (quarter < ASK_EVERY ? quarter : ASK_EVERY))
			return false;
	}
	qp->req.unasked = 0;
	return true;
}

void req_sent(struct nic_qp *qp, const struct swqe *w, uint32_t psns, uint32_t ends)
{
	struct requester *req = &qp->req;
	bool oldest = req->psn == qp->comp.una && !req_early_is_again(qp);

	if (psn_diff(req->psn, req->sent_psn) < 0) {
		COUNT(qp->nic, retransmitted);
		qp->counters.retransmits++;
	}
	req->psn = psn_add(req->psn, psns);
	req->packet += psns;
	if (psn_diff(req->psn, req->sent_psn) > 0) {
		req->sent_psn = req->psn;
		req_early_sent(qp);
	}
	if (asks_response(w))
		req->rd_out++;
	if (ends) {
		qp->sq.next += ends;
		req->packet = 0;
		if (qp->type == NIC_QPT_UC) { /* no ACKs: complete on sending */
			qp->comp.una = req->psn;
			comp_finish(qp, ERR_none);
			comp_finish_local(qp);
		}
	}
	if (qp->type == NIC_QPT_RC && (oldest || req->ack_deadline == TIME_NEVER))
		ack_timer_start(qp);
}

/** Fast path: a single-packet RC WQE with inline payload, for a carrier that takes bare packets without ICRC. Most WQEs
 * whose latency matters are such. */
static inline bool is_small(const struct nic_qp *qp, const struct swqe *w, const struct nic_tx_frame *frame)
{
	const uint32_t flags = NIC_SEND_INLINE | NIC_SEND_FENCE | NIC_SEND_OFFERS;

	return frame->bare && frame->no_icrc && (w->flags & flags) == NIC_SEND_INLINE &&
	       (w->opcode == NIC_WR_SEND || w->opcode == NIC_WR_RDMA_WRITE) && qp->type == NIC_QPT_RC &&
	       w->length <= qp->pmtu;
}

/* As send_one(), for a WQE that is_small(). */
static bool send_small(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	struct packet p;

	if (!window_open(qp, 1, 1))
		return false;
	w->rides = false;
	if (!w->started) {
		w->started = true;
		w->psn = qp->req.psn;
		w->packets = 1;
	}
	packet_init(&p);
	p.bare = p.no_icrc = true;
	p.summed = p.v4 = false;
	p.dest_qpn = qp->attr.dest_qp_num;
	p.psn = qp->req.psn;
	build_data(qp, w, &p, 1);
	p.ackreq = req_asks_ack(qp, w, true, 1);
	p.payload = (const uint8_t *)w->sge;
	p.payload_len = w->length;
	p.pad = (uint8_t)(-w->length & 3);
	qp_emit(qp, &p, frame);
	req_sent(qp, w, 1, 1);
	return true;
}

static bool send_one(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	struct requester *req = &qp->req;
	uint32_t run = req_run(qp), psns = run > 1 ? run : psns_of_next(qp, w, frame);
	struct packet p;
	enum error_id error;

	if (asks_response(w) && !qp->attr.max_rd_atomic)
		return req_fail(qp, ERR_no_rd_atomic);
	if (!run || !may_send(qp, w, psns, run > 1 ? 1 : psns))
		return false;
	if (run > 1)
		return req_run_send(qp, run, frame);
	w->rides = false;
	if (!w->started) {
		w->started = true;
		w->psn = req->psn;
		if (w->opcode == NIC_WR_RDMA_READ)
			w->piece = read_piece(qp);
		w->packets = wr_is_atomic(w->opcode) || wr_is_elements(w->opcode) ? 1 : packets_of(w->length, qp->pmtu);
	}
	qp_address(qp, &p);
	p.psn = req->psn;
	if (wr_is_elements(w->opcode))
		build_elements(w, &p);
	else if (asks_response(w))
		build_request(qp, w, &p, psns);
	else
		build_data(qp, w, &p, psns);
	p.ackreq = qp->type == NIC_QPT_RC && req_asks_ack(qp, w, op_ends(p.op), psns);
	error = put_payload(qp, w, &p, psns, frame);
	if (error != ERR_none)
		return req_fail(qp, error);
	qp_emit(qp, &p, frame);
	req_sent(qp, w, psns, req->packet + psns == w->packets);
	return true;
}

/* Whether SQD, or a managed queue's enabled count, holds WQE sq.next back. */
static bool at_bound(const struct nic_qp *qp)
{
	return (qp->state == NIC_QPS_SQD && (int32_t)(qp->sq.next - qp->req.sqd_stop) >= 0) ||
	       (qp->cross.managed && (int32_t)(qp->sq.next - qp->cross.enabled) >= 0);
}

/* Stop where the path changes: on a UD QP the WQE after a skipped or local one may leave by another path. */
bool req_tx(struct nic_qp *qp, struct nic_tx_frame *frame)
{
	uint32_t path = qp_path(qp);

	while (req_pending(qp) && qp_path(qp) == path) {
		struct swqe *w = sq_at(qp, qp->sq.next);

		if (qp->bounded && at_bound(qp))
			return false;
		if (qp->type == NIC_QPT_UD && ud_skip(qp))
			continue;
		if (is_small(qp, w, frame))
			return send_small(qp, w, frame);
		if (!wr_is_local(w->opcode))
			return qp->type == NIC_QPT_UD ? ud_tx(qp, frame) : send_one(qp, w, frame);
		if (!run_local(qp, w))
			return false;
	}
	return false;
}
