/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tm_qp.c - what a QP on an SRQ that matches tags does with messages.
 *
 * A message begins with a struct ibv_tmh: an opcode, and a tag. If an eager message matches a tagged buffer, it goes to
 * that buffer without its header. A rendezvous request names the sender's memory. If it matches, the NIC reads that
 * memory into the tagged buffer and then sends FIN to the sender. For the READ and FIN the NIC uses the QP's send
 * queue, to which the application posts nothing. All other messages go to untagged buffers, with their headers.
 *
 * The match and the arrival of the data have separate completions, unless they happen at the same time. Matches
 * therefore complete in the order of the messages, however long the data takes.
 */
#include "tm_qp.h"

#include "cq.h"
#include "mem.h"
#include "packet.h"
#include "qp_recv.h"
#include "qp_state.h"
#include "tm.h"
#include "trig.h"
#include "wire.h"
#include "wr.h"

#define SEND_QUEUE 32u /* in WQEs. Each rendezvous takes two; rendezvous that find no room wait */

/* offsets in a message: struct ibv_tmh, then, in a rendezvous request, struct ibv_rvh */
#define TMH_APP_CTX 4
#define TMH_TAG	    8
#define TMH_LEN	    16
#define RVH_VA	    16
#define RVH_RKEY    24
#define RVH_LENGTH  28

enum tmh_opcode { TMH_NO_TAG, TMH_RENDEZVOUS, TMH_FIN, TMH_EAGER };

/* ---- completions ------------------------------------------------------------------------------------------------- */

/** Push a completion for a buffer. A completion that reports a match carries the tag and the context from the message's
 * header. The completion of an untagged buffer carries neither, because the buffer contains the header. */
static void complete(struct nic_qp *qp, struct nic_wc wc, bool solicited)
{
	const struct tm_message *m = &qp->resp.tm;

	wc.qp_num = qp->qpn;
	wc.src_qp = qp->attr.dest_qp_num;
	if (wc.wc_flags & NIC_WC_TM_MATCH)
		cq_push_tagged(qp->srq->cq, &wc, solicited, m->tag, m->app_ctx);
	else
		cq_push(qp->srq->cq, &wc, solicited);
}

/** Push the completion of a rendezvous that has ended with the status in `wc`. */
static void complete_rendezvous(const struct tm_entry *e, struct nic_wc wc)
{
	wc.wr_id = e->wr_id;
	wc.opcode = NIC_WC_TM_RECV;
	wc.wc_flags = wc.status == NIC_WC_SUCCESS ? NIC_WC_TM_DATA_VALID : 0;
	wc.qp_num = e->qp->qpn;
	wc.src_qp = e->qp->attr.dest_qp_num;
	cq_push(e->qp->srq->cq, &wc, false);
}

/* ---- rendezvous -------------------------------------------------------------------------------------------------- */

/** Reduce the entry's SGEs to the first `length` bytes. */
static void trim(struct tm_entry *e, uint32_t length)
{
	uint32_t n = 0;

	while (length) {
		if (e->sge[n].length > length)
			e->sge[n].length = length;
		length -= e->sge[n++].length;
	}
	e->num_sge = n;
}

static void post(struct nic_qp *qp, const struct nic_send_wr *wr)
{
	qp->posts = WR_TYPE(NIC_QPT_RC); /* in this call only, because the application must not post */
	nic_post_send(qp, wr);		 /* cannot fail: there is room, and the request is valid */
	qp->posts = 0;
}

/** READ the data, then send FIN with a fence, so that FIN waits for the data. */
static void read_data(struct tm_entry *e)
{
	struct nic_sge fin_sge = {.addr = (uintptr_t)e->header, .length = NIC_TM_HEADERS};
	struct nic_send_wr read = {.wr_id = (uintptr_t)e,
				   .opcode = NIC_WR_RDMA_READ,
				   .flags = NIC_SEND_SIGNALED,
				   .sg_list = e->sge,
				   .rdma.remote_addr = wire_get64(e->header + RVH_VA),
				   .rdma.rkey = wire_get32(e->header + RVH_RKEY)};
	struct nic_send_wr fin = {.wr_id = (uintptr_t)e->qp,
				  .opcode = NIC_WR_SEND,
				  .flags = NIC_SEND_SIGNALED | NIC_SEND_INLINE | NIC_SEND_FENCE,
				  .sg_list = &fin_sge,
				  .num_sge = 1};

	trim(e, wire_get32(e->header + RVH_LENGTH));
	read.num_sge = e->num_sge;
	e->header[0] = TMH_FIN;
	post(e->qp, &read);
	post(e->qp, &fin);
}

void tm_start(struct nic_qp *qp)
{
	struct list *waiting = &qp->srq->tm->waiting, *next;

	if (qp->state != NIC_QPS_RTS && qp->state != NIC_QPS_SQD)
		return;
	for (struct list *n = waiting->next; n != waiting; n = next) {
		struct tm_entry *e = list_entry(n, struct tm_entry, node);

		next = n->next;
		if (e->qp != qp)
			continue;
		if (qp->sq.head - qp->sq.tail + 2 > qp->sq.capacity)
			return;
		list_remove(&e->node);
		read_data(e);
	}
}

/** Handle the completion of a WQE of a rendezvous: either of the READ, whose wr_id is the buffer, or of the FIN after
 * the READ, whose wr_id is the QP. */
static void sent(struct nic_cq *cq, const struct nic_wc *wc, bool solicited)
{
	void *what = (void *)(uintptr_t)wc->wr_id;

	(void)cq, (void)solicited;
	if (wc->opcode == NIC_WC_RDMA_READ) {
		struct tm_entry *e = what;

		complete_rendezvous(e, *wc);
		tm_free_entry(e->qp->srq->tm, e);
	} else if (wc->status == NIC_WC_SUCCESS) {
		tm_start(what);
	}
}

/** Handle a rendezvous request that matches and has arrived completely. */
static void begin_rendezvous(struct nic_qp *qp, struct tm_entry *e, bool solicited)
{
	struct nic_tm *tm = qp->srq->tm;
	struct nic_wc wc = {.wr_id = e->wr_id, .opcode = NIC_WC_TM_RECV, .wc_flags = NIC_WC_TM_MATCH};

	if (wire_get32(e->header + RVH_LENGTH) <= e->length) {
		complete(qp, wc, solicited);
		list_append(&tm->waiting, &e->node);
		tm_start(qp);
		return;
	}
	/* The data does not fit: hand the headers to the application, which continues the rendezvous itself. */
	wc.status = NIC_WC_TM_RNDV_INCOMPLETE;
	wc.byte_len = e->length < NIC_TM_HEADERS ? (uint32_t)e->length : NIC_TM_HEADERS;
	if (mem_scatter(qp->nic, qp->srq->pd, e->sge, e->num_sge, 0, e->header, wc.byte_len) != MEM_OK)
		wc.status = NIC_WC_LOC_PROT_ERR;
	complete(qp, wc, solicited);
	tm_free_entry(tm, e);
}

/* ---- messages ---------------------------------------------------------------------------------------------------- */

/** The opcode in a message's header; TMH_NO_TAG if the message does not begin with a tagged message's header. */
static enum tmh_opcode opcode_of(const struct packet *p)
{
	if (p->payload_len >= TMH_LEN && p->payload[0] == TMH_EAGER)
		return TMH_EAGER;
	return p->payload_len >= NIC_TM_HEADERS && p->payload[0] == TMH_RENDEZVOUS ? TMH_RENDEZVOUS : TMH_NO_TAG;
}

static bool takes(const struct nic_qp *qp, const struct packet *p)
{
	if (!op_starts(p->op) || rq_peek(&qp->srq->rq))
		return true;
	return opcode_of(p) != TMH_NO_TAG && tm_would_match(qp->srq->tm, wire_get64(p->payload + TMH_TAG));
}

/** Use the tagged buffer for the message. */
static void use(struct nic_qp *qp, struct tm_entry *e, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	struct rwqe *w = resp->wqe;

	resp->have_wqe = true;
	w->wr_id = e->wr_id;
	w->length = e->length;
	w->num_sge = e->num_sge;
	memcpy(w->sge, e->sge, e->num_sge * sizeof(w->sge[0]));
	if (resp->tm.form == TM_EAGER) {
		tm_free_entry(qp->srq->tm, e);
		return;
	}
	memcpy(e->header, p->payload, NIC_TM_HEADERS);
	e->place = TM_TAKEN;
	e->qp = qp;
	resp->tm.entry = e;
}

/** Begin a message: take a tagged buffer that matches, or an untagged one. @return false: no buffer is left, because
 * the peer has changed the header in shared memory since takes() read it. */
static bool begin(struct nic_qp *qp, const struct packet *p)
{
	struct tm_message *m = &qp->resp.tm;
	struct nic_tm *tm = qp->srq->tm;
	enum tmh_opcode opcode = opcode_of(p);
	struct tm_entry *e = NULL;

	*m = (struct tm_message){.form = TM_UNTAGGED};
	qp->resp.received = 0;
	if (p->payload_len >= TMH_LEN) {
		m->tag = wire_get64(p->payload + TMH_TAG);
		memcpy(&m->app_ctx, p->payload + TMH_APP_CTX, sizeof(m->app_ctx));
	}
	if (opcode != TMH_NO_TAG) {
		e = tm_match(tm, m->tag);
		m->form = !e ? TM_UNEXPECTED : opcode == TMH_EAGER ? TM_EAGER : TM_RENDEZVOUS;
	}
	if (e) {
		use(qp, e, p);
		return true;
	}
	if (!qp_take_wqe(qp)) {
		m->form = TM_UNTAGGED; /* tm->unexpected does not count the message, so drop() must not subtract it */
		return false;
	}
	tm->unexpected += m->form == TM_UNEXPECTED;
	return true;
}

/** The last packet of the message has been executed. */
static void end(struct nic_qp *qp, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	struct nic_wc wc = {.wr_id = resp->wqe->wr_id,
			    .opcode = resp->tm.form == TM_UNTAGGED ? NIC_WC_TM_NO_TAG : NIC_WC_TM_RECV,
			    .byte_len = (uint32_t)resp->received};

	resp->have_wqe = false;
	if (resp->tm.form == TM_RENDEZVOUS) {
		begin_rendezvous(qp, resp->tm.entry, p->se);
		return;
	}
	if (resp->tm.form == TM_EAGER)
		wc.wc_flags = NIC_WC_TM_DATA_VALID | (op_starts(p->op) ? NIC_WC_TM_MATCH : 0);
	complete(qp, wc, p->se);
	resp->tm.form = TM_UNTAGGED; /* the message has ended, so drop() must not subtract it from tm->unexpected */
}

static enum error_id arrive(struct nic_qp *qp, const struct packet *p)
{
	struct responder *resp = &qp->resp;
	uint32_t skip = 0, len;

	if (op_starts(p->op)) {
		if (!begin(qp, p))
			return ERR_opcode_unsupported;
		skip = resp->tm.form == TM_EAGER ? TMH_LEN : 0;
		if (resp->tm.form == TM_EAGER && !op_ends(p->op))
			complete(qp,
				 (struct nic_wc){.wr_id = resp->wqe->wr_id,
						 .opcode = NIC_WC_TM_RECV,
						 .wc_flags = NIC_WC_TM_MATCH},
				 false);
	}
	len = p->payload_len - skip;
	/* Discard what follows the headers of a matched rendezvous request: it is meant for an application that
	 * receives the request unmatched. */
	if (resp->tm.form != TM_RENDEZVOUS) {
		if (resp->received + len > resp->wqe->length)
			return ERR_receive_length;
		if (mem_scatter(qp->nic, qp->srq->pd, resp->wqe->sge, resp->wqe->num_sge, resp->received,
				p->payload + skip, len) != MEM_OK)
			return ERR_receive_key;
	}
	resp->received += len;
	if (op_ends(p->op))
		end(qp, p);
	return ERR_none;
}

/* ---- the QP ------------------------------------------------------------------------------------------------------ */

/** End the QP's rendezvous. An unexpected message that has arrived only in part is no longer counted: the application
 * will not handle it. */
static void drop(struct nic_qp *qp, bool complete_them)
{
	struct nic_tm *tm = qp->srq->tm;

	if (qp->resp.tm.form == TM_UNEXPECTED) {
		qp->resp.tm.form = TM_UNTAGGED;
		tm->unexpected--;
		tm_list_late(tm);
	}
	for (uint32_t i = 0; i < tm->n; i++) {
		struct tm_entry *e = tm_entry(tm, i);

		if (e->place != TM_TAKEN || e->qp != qp)
			continue;
		if (complete_them && !list_empty(&e->node))
			complete_rendezvous(e,
					    (struct nic_wc){.status = NIC_WC_WR_FLUSH_ERR, .vendor_err = ERR_flushed});
		tm_free_entry(tm, e);
	}
}

/* qp_enter_error() has flushed the send queue and the receive in use. What remains are rendezvous without WQEs, and the
 * count of an unexpected message that has arrived only in part. */
static void failed(struct nic_qp *qp)
{
	drop(qp, true);
}

void tm_forget(struct nic_qp *qp)
{
	drop(qp, false);
}

void tm_narrow(struct nic_qp_init *init)
{
	const struct nic_limits *lim = &init->pd->nic->cfg.limits;

	init->srq->tm->sent->sink = sent;
	init->send_cq = init->srq->tm->sent;
	init->recv_cq = init->srq->cq;
	init->cap.max_send_wr = SEND_QUEUE;
	init->cap.max_send_sge = lim->max_sge;
	init->cap.max_inline_data = NIC_TM_HEADERS;
}

static void served(struct nic_qp *qp, uint32_t rkey, bool read, bool write)
{
	(void)qp, (void)rkey, (void)read, (void)write;
}

static bool is_told(const struct nic_qp *qp, uint32_t rkey)
{
	(void)qp, (void)rkey;
	return false;
}

static uint8_t *foresee(const struct nic_qp *qp, const struct packet *p, struct nic_foresight *f)
{
	(void)qp, (void)p, (void)f;
	return NULL;
}

const struct qp_owner tm_owner = {
	.takes = takes, .arrive = arrive, .served = served, .is_told = is_told, .foresee = foresee, .failed = failed};

int nic_tag_op(struct nic_srq *srq, struct nic_tag_op *op)
{
	int err = tm_op(srq, op);

	nic_settle_failed_cqs(srq->pd->nic);
	nic_settle_due(srq->pd->nic);
	return err;
}
