/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * req_tx.c - what the requester sends: turns send WQEs into request packets, in order, within the window (IBTA 9.7.2,
 * 10.8.3). There is one function per form of request (enum wr_form); req_tx() calls the function for the next WQE's
 * form. UC requests are sent here, too; UD is in ud.c. req.c keeps track of packets once they are sent.
 *
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
#include "req_run.h"
#include "req_tx.h"
#include "req_window.h"
#include "ud.h"
#include "wr.h"

_Static_assert(NIC_PAYLOAD_MAX < NIC_REFERENCE_MIN, "a request of one packet does not refer to its payload");

/** Result of an attempt to send the next packet of WQE sq.next. */
enum sending {
	HELD,	/* no packet: the WQE has to wait, or has failed */
	SENT,	/* a packet was built */
	PASSED, /* no packet, and the next WQE's turn has come */
};

/* ---- parts that the forms share ------------------------------------------------------------------------------ */

/** Whether the WQE must wait for a READ among the last `out` PSNs, because the responder might execute the WQE before
 * the READ. The responder reads memory only when it sends the responses, and executes further requests meanwhile.
 * IBTA 9.5 permits that, but adapters do not do it, and programs rely on the adapters' order. Where packets can be
 * lost, the wait would cost more than the rare case is worth. An endpoint's requests never wait here: an
 * endpoint keeps only the message orders that it offers to the application. */
static inline bool may_overtake(const struct nic_qp *qp, const struct swqe *w, uint32_t out)
{
	return ((qp->req.psn - qp->req.read_end) & PSN_MASK) < out && w->form != FORM_READ && !qp->owner &&
	       qp->nic->paths[qp->path].flags & NIC_PATH_LOSSLESS;
}

/** Whether fence, window and READs in flight allow sending the WQE's next packet now. The packet takes `psns` PSNs. */
static inline bool may_send(const struct nic_qp *qp, const struct swqe *w, uint32_t psns, uint32_t packets)
{
	const struct requester *req = &qp->req;
	uint32_t out = (req->psn - qp->comp.una) & PSN_MASK;

	if ((w->flags & NIC_SEND_FENCE) && !w->started && req->rd_out)
		return false;
	return out == 0 || (!may_overtake(qp, w, out) && req_window_admits(qp, out, psns, packets));
}

/** Whether one more READ or atomic may be in flight. If the QP allows none at all, the request fails. */
static bool may_ask(struct nic_qp *qp)
{
	if (!qp->attr.max_rd_atomic)
		return req_fail(qp, ERR_no_rd_atomic);
	return qp->req.rd_out < qp->attr.max_rd_atomic;
}

/** Begin the next packet of the WQE. `packets`: PSNs that the whole WQE takes. */
static inline void begin(struct nic_qp *qp, struct swqe *w, uint32_t packets, struct packet *p,
			 const struct nic_tx_frame *frame)
{
	w->started = true;
	w->coalesced = false;
	w->psn = (qp->req.psn - qp->req.packet) & PSN_MASK;
	w->packets = packets;
	qp_address(qp, p, frame);
	p->psn = qp->req.psn;
	p->xrc_srqn = w->srqn;
}

/** Set the fields that all packets of a SEND or WRITE have in common. */
static inline void build_data(const struct swqe *w, struct packet *p)
{
	p->va = w->remote_addr;
	p->rkey = w->rkey;
	p->dma_len = w->length;
	p->imm = p->inv_rkey = w->ex;
}

/** Begin a SEND or WRITE of one packet: everything except its payload. */
static inline void begin_only(struct nic_qp *qp, struct swqe *w, struct packet *p, const struct nic_tx_frame *frame)
{
	const struct wr_row *row = &wr_rows[w->opcode];

	begin(qp, w, 1, p, frame);
	p->op = op_find(qp_service(qp), row->kind, OP_ONLY, row->extra);
	build_data(w, p);
	p->se = (w->flags & NIC_SEND_SOLICITED) != 0;
	p->ackreq = req_asks_ack(qp, w, true, 1);
}

/** Begin a request of one packet other than SEND, WRITE or READ. The caller adds payload and remaining headers. */
static void begin_operation(struct nic_qp *qp, struct swqe *w, enum op_service service, struct packet *p,
			    const struct nic_tx_frame *frame)
{
	begin(qp, w, 1, p, frame);
	p->op = op_find(service, wr_rows[w->opcode].kind, OP_ONLY, OP_PLAIN);
	p->va = w->remote_addr;
	p->rkey = w->rkey;
	p->ackreq = req_asks_ack(qp, w, true, 1);
}

/** Finish a packet of a request that an ACK completes: emit the packet and account for it. */
static inline enum sending finish(struct nic_qp *qp, struct packet *p, struct nic_tx_frame *frame, uint32_t psns,
				  uint32_t ends)
{
	qp_emit(qp, p, frame);
	req_sent(qp, psns, ends);
	return SENT;
}

/** Like finish(), but for a READ or atomic, which is completed by a response instead of an ACK. */
static enum sending finish_asking(struct nic_qp *qp, struct packet *p, struct nic_tx_frame *frame, uint32_t psns,
				  uint32_t ends)
{
	qp->req.rd_out++;
	return finish(qp, p, frame, psns, ends);
}

/** The packet cannot be built: fail the WQE. */
static enum sending fail(struct nic_qp *qp, enum error_id error)
{
	req_fail(qp, error);
	return HELD;
}

enum error_id req_gathered(enum mem_verdict v)
{
	if (v == MEM_OK)
		return ERR_none;
	return v == MEM_FAULT ? ERR_gather_fault : ERR_gather_key;
}

/* ---- SENDs and WRITEs ---------------------------------------------------------------------------------------- */

static enum sending send_inline(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	struct packet p;

	if (!may_send(qp, w, 1, 1))
		return HELD;
	begin_only(qp, w, &p, frame);
	packet_copy(&p, qp_open(&p, frame, w->length), w->sge, w->length);
	return finish(qp, &p, frame, 1, 1);
}

static enum sending send_gathered(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	enum mem_verdict v;
	struct packet p;
	uint8_t *place;

	if (!may_send(qp, w, 1, 1))
		return HELD;
	begin_only(qp, w, &p, frame);
	place = qp_open(&p, frame, w->length);
	v = mem_gather(qp->nic, qp->pd, w->sge, w->num_sge, 0, place, w->length, packet_icrc(&p));
	return v == MEM_OK ? finish(qp, &p, frame, 1, 1) : fail(qp, req_gathered(v));
}

/** As send_inline(). The packet's payload offers a message; the packet may also carry a reference to that message's
 * memory. */
static enum sending send_offer(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	struct packet p;

	if (!may_send(qp, w, 1, 1))
		return HELD;
	begin_only(qp, w, &p, frame);
	refer_offer(qp, w, &p, frame);
	packet_copy(&p, qp_open(&p, frame, w->length), w->sge, w->length);
	return finish(qp, &p, frame, 1, 1);
}

/** Gather the operands of a calculation and send its result. */
static enum sending send_calculated(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	uint8_t *operands = qp->nic->scratch, result[CALC_SIZE];
	uint32_t len = w->calc.data_len;
	enum mem_verdict v;
	struct packet p;

	if (!may_send(qp, w, 1, 1))
		return HELD;
	begin_only(qp, w, &p, frame);
	v = mem_gather(qp->nic, qp->pd, w->sge, w->num_sge, 0, operands, len, NULL);
	if (v != MEM_OK)
		return fail(qp, req_gathered(v));
	calc_reduce(w->calc.op, w->calc.type, operands, len / CALC_SIZE, result);
	packet_copy(&p, qp_open(&p, frame, CALC_SIZE), result, CALC_SIZE);
	return finish(qp, &p, frame, 1, 1);
}

/** Position of one packet that stands for `psns` packets of the message, from number `packet` on. */
static enum op_pos pos_of(uint32_t packet, uint32_t psns, uint32_t packets)
{
	if (psns == packets)
		return OP_ONLY;
	if (packet == 0)
		return OP_FIRST;
	return packet + psns == packets ? OP_LAST : OP_MIDDLE;
}

/** Send the next packet of a message of several packets. It stands for `psns` packets, more than one if it refers to
 * its payload. */
static enum sending send_part(struct nic_qp *qp, struct swqe *w, uint32_t psns, struct nic_tx_frame *frame)
{
	const struct wr_row *row = &wr_rows[w->opcode];
	uint32_t packets = packets_of(w->length, qp->pmtu), packet = qp->req.packet;
	uint64_t offset = (uint64_t)packet * qp->pmtu;
	enum op_pos pos = pos_of(packet, psns, packets);
	bool ends = pos & (OP_LAST | OP_ONLY);
	uint32_t len = ends ? w->length - (uint32_t)offset : psns * qp->pmtu;
	enum mem_verdict v = MEM_OK;
	struct packet p;
	uint8_t *place;

	if (!may_send(qp, w, psns, psns))
		return HELD;
	begin(qp, w, packets, &p, frame);
	p.op = op_find(qp_service(qp), row->kind, pos, ends ? row->extra : OP_PLAIN);
	build_data(w, &p);
	p.se = ends && (w->flags & NIC_SEND_SOLICITED);
	p.ackreq = req_asks_ack(qp, w, ends, psns);
	if (psns > 1) {
		v = refer_request(qp, w, offset, len, &p, frame);
	} else {
		place = qp_open(&p, frame, len);
		if (w->flags & NIC_SEND_INLINE)
			packet_copy(&p, place, (const uint8_t *)w->sge + offset, len);
		else
			v = mem_gather(qp->nic, qp->pd, w->sge, w->num_sge, offset, place, len, packet_icrc(&p));
	}
	return v == MEM_OK ? finish(qp, &p, frame, psns, ends) : fail(qp, req_gathered(v));
}

static enum sending send_long(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	return send_part(qp, w, 1, frame);
}

static enum sending send_referred(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	uint32_t psns = refer_request_psns(qp, w, frame), room = req_window_room(qp);

	return send_part(qp, w, psns < room ? psns : room ? room : 1, frame);
}

/* ---- READs and operations ------------------------------------------------------------------------------------ */

/** Send the next request of a READ. A long READ is requested in pieces of swqe.piece response packets each. This
 *  request is for the rest of the piece that contains response packet number req.packet. */
static enum sending send_read(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	uint32_t packets = packets_of(w->length, qp->pmtu), packet = qp->req.packet;
	uint32_t piece = w->started ? w->piece : req_read_piece(qp), psns = piece - packet % piece;
	uint64_t offset = (uint64_t)packet * qp->pmtu, left = w->length - offset;
	struct packet p;

	if (psns > packets - packet)
		psns = packets - packet;
	if (!may_ask(qp) || !may_send(qp, w, psns, psns))
		return HELD;
	w->piece = piece;
	begin(qp, w, packets, &p, frame);
	p.op = op_find(qp_service(qp), OP_READ_REQ, OP_ONLY, OP_PLAIN);
	p.va = w->remote_addr + offset;
	p.rkey = w->rkey;
	p.dma_len = (uint32_t)(left < (uint64_t)psns * qp->pmtu ? left : (uint64_t)psns * qp->pmtu);
	p.ackreq = req_asks_ack(qp, w, true, psns);
	qp_open(&p, frame, 0);
	qp->req.read_end = psn_add(p.psn, psns);
	return finish_asking(qp, &p, frame, psns, packet + psns == packets);
}

static enum sending send_atomic(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	struct packet p;

	if (!may_ask(qp) || !may_send(qp, w, 1, 1))
		return HELD;
	begin_operation(qp, w, qp_service(qp), &p, frame);
	p.swap_add = w->swap_add;
	p.compare = w->compare;
	qp_open(&p, frame, 0);
	return finish_asking(qp, &p, frame, 1, 1);
}

static enum sending send_masked(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	struct packet p;
	uint32_t len;

	if (!may_ask(qp) || !may_send(qp, w, 1, 1))
		return HELD;
	begin_operation(qp, w, OP_EXT, &p, frame);
	p.log_size = (uint8_t)__builtin_ctz(w->length);
	len = extended_operands_len(p.op, w->length);
	packet_copy(&p, qp_open(&p, frame, len), sq_operands(qp, w), len);
	return finish_asking(qp, &p, frame, 1, 1);
}

static enum sending send_flush(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	struct packet p;

	if (!may_ask(qp) || !may_send(qp, w, 1, 1))
		return HELD;
	begin_operation(qp, w, qp_service(qp), &p, frame);
	p.feth = w->feth;
	p.dma_len = w->range;
	qp_open(&p, frame, 0);
	return finish_asking(qp, &p, frame, 1, 1);
}

static enum sending send_atomic_write(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	enum mem_verdict v = MEM_OK;
	struct packet p;
	uint8_t *place;

	if (!may_ask(qp) || !may_send(qp, w, 1, 1))
		return HELD;
	begin_operation(qp, w, qp_service(qp), &p, frame);
	p.dma_len = w->length;
	place = qp_open(&p, frame, w->length);
	if (w->flags & NIC_SEND_INLINE)
		packet_copy(&p, place, w->sge, w->length);
	else
		v = mem_gather(qp->nic, qp->pd, w->sge, w->num_sge, 0, place, w->length, packet_icrc(&p));
	return v == MEM_OK ? finish_asking(qp, &p, frame, 1, 1) : fail(qp, req_gathered(v));
}

/** Open the packet of an element request and put its operands and compare values in place. */
static enum error_id put_elements(struct nic_qp *qp, const struct swqe *w, struct packet *p, struct nic_tx_frame *frame)
{
	uint8_t *place = qp_open(p, frame, w->element.data_len), *elements = qp->nic->scratch;
	const struct nic_sge *data = w->sge + w->num_sge;
	enum mem_verdict v;

	if (w->flags & NIC_SEND_INLINE) {
		packet_copy(p, place, data, w->element.data_len);
		return ERR_none;
	}
	v = mem_gather(qp->nic, qp->pd, data, w->element.num_data, 0, elements, w->element.data_len, NULL);
	if (v != MEM_OK)
		return req_gathered(v);
	elem_to_wire(w->element.datatype, elements, elements, elem_vectors(w->element.op) * w->element.count);
	packet_copy(p, place, elements, w->element.data_len);
	return ERR_none;
}

/** Begin the packet of an element request, and put everything in place. */
static enum error_id build_elements(struct nic_qp *qp, struct swqe *w, struct packet *p, struct nic_tx_frame *frame)
{
	begin_operation(qp, w, OP_EXT, p, frame);
	p->element.op = w->element.op;
	p->element.datatype = (uint8_t)elem_wire_of_type(w->element.datatype);
	p->element.flags = 0;
	p->element.count = w->element.count;
	return put_elements(qp, w, p, frame);
}

static enum sending send_elements(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	enum error_id error;
	struct packet p;

	if (!may_send(qp, w, 1, 1))
		return HELD;
	error = build_elements(qp, w, &p, frame);
	return error == ERR_none ? finish(qp, &p, frame, 1, 1) : fail(qp, error);
}

static enum sending send_fetch(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	enum error_id error;
	struct packet p;

	if (!may_ask(qp) || !may_send(qp, w, 1, 1))
		return HELD;
	error = build_elements(qp, w, &p, frame);
	return error == ERR_none ? finish_asking(qp, &p, frame, 1, 1) : fail(qp, error);
}

/** Send a request on one element, in one packet with the following requests that can share the packet. */
static enum sending send_element(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	uint32_t run = req_run(qp);

	if (run == 1)
		return send_elements(qp, w, frame);
	return run && may_send(qp, w, run, 1) && req_run_send(qp, run, frame) ? SENT : HELD;
}

/* ---- local operations, and datagrams of UD QPs --------------------------------------------------------------- */

/* The application may have destroyed the window or the region since it posted the bind. */
static bool bind_objects_exist(const struct nic *nic, const struct swqe *w)
{
	return table_find(&nic->mkeys, w->mw_key >> 8) == &w->bind.mw->mkey &&
	       (!w->bind.mr || table_find(&nic->mkeys, w->mr_key >> 8) == &w->bind.mr->mkey);
}

/** Execute a local operation. @return false: the queue has to wait, or the operation failed. */
static bool execute_local(struct nic_qp *qp, struct swqe *w)
{
	if (w->opcode == NIC_WR_LOCAL_INV) {
		if (qp->sq.next != qp->sq.tail)
			return false;
		if (!mw_invalidate_check(qp, w->ex))
			return req_fail(qp, ERR_invalidate_local);
		mw_invalidate(qp->nic, w->ex);
		return true;
	}
	if ((w->flags & NIC_SEND_FENCE) && qp->req.rd_out)
		return false;
	if (w->opcode == NIC_WR_BIND_MW) {
		if (!bind_objects_exist(qp->nic, w) || !mw_bind_check(qp, &w->bind))
			return req_fail(qp, ERR_bind);
		mw_bind(qp, &w->bind);
		return true;
	}
	return w->opcode == NIC_WR_NOP || cross_run(qp, w);
}

/** Run a local operation. Invalidation waits until all earlier WQEs are complete (10.6.5.1). Other operations run when
 *  the requester reaches them; a fenced one waits until earlier READs and atomics have been answered. */
static enum sending run_local(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	if (!w->started) {
		if (!execute_local(qp, w))
			return HELD;
		w->started = true;
		w->packets = 0;
		w->psn = qp->req.psn;
	}
	qp->sq.next++;
	qp->req.packet = 0;
	comp_finish_local(qp);
	return PASSED;
}

static enum sending send_datagram(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame)
{
	if (ud_skip(qp))
		return PASSED;
	return ud_tx(qp, frame) ? SENT : HELD;
}

/* ---- the next WQE -------------------------------------------------------------------------------------------- */

static enum sending (*const send[FORMS])(struct nic_qp *qp, struct swqe *w, struct nic_tx_frame *frame) = {
	[FORM_LOCAL] = run_local,	 [FORM_DATAGRAM] = send_datagram,
	[FORM_INLINE] = send_inline,	 [FORM_GATHER] = send_gathered,
	[FORM_LONG] = send_long,	 [FORM_REFER] = send_referred,
	[FORM_OFFER] = send_offer,	 [FORM_CALC] = send_calculated,
	[FORM_ELEMENTS] = send_elements, [FORM_ELEMENT] = send_element,
	[FORM_READ] = send_read,	 [FORM_ATOMIC] = send_atomic,
	[FORM_MASKED] = send_masked,	 [FORM_FETCH] = send_fetch,
	[FORM_FLUSH] = send_flush,	 [FORM_ATOMIC_WRITE] = send_atomic_write,
};

/* Whether WQE sq.next may not start because of state SQD, or because it is not enabled in a managed queue. */
static bool at_bound(const struct nic_qp *qp)
{
	return (qp->state == NIC_QPS_SQD && (int32_t)(qp->sq.next - qp->req.sqd_stop) >= 0) ||
	       (qp->cross.managed && (int32_t)(qp->sq.next - qp->cross.enabled) >= 0);
}

bool req_tx(struct nic_qp *qp, uint32_t path, struct nic_tx_frame *frame)
{
	enum sending result;

	do {
		struct swqe *w = sq_at(qp, qp->sq.next);

		if (qp->held && at_bound(qp))
			return false;
		result = send[w->form](qp, w, frame);
	} while (result == PASSED && req_pending(qp) && qp_path(qp) == path);
	return result == SENT;
}
