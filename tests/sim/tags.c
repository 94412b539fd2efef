/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tags.c - SRQs that match tags: the application adds, deletes and counts; senders send eager messages, rendezvous
 * requests and messages without a tag. All completions of an SRQ, those of the operations included, are in one CQ in
 * the order in which the NIC acted, so a model that follows the CQ knows the list of buffers at each message.
 *
 * Oracles: tag_match (a message goes to the first listed buffer that its tag matches, and is unexpected only if there
 * is none), tag_data (whole, without its header; of a rendezvous, the sender's data), tag_once, tag_sync (SYNC_REQ
 * tells whether the counts of unexpected messages agree), tag_fin (each rendezvous ends once, at its sender, with the
 * header that began it), tag_order (matches of a connection come in the order of its messages).
 */
#include "sim.h"

#include <string.h>

#define TAGS	  6
#define OPS	  64
#define BUFFER_ID 0x7a00000000000000ull
#define OP_ID	  0x6f00000000000000ull
#define TMH_LEN	  16
#define BITS	  3 /* of a tag: few, so that messages and buffers meet */

/* LISTED: in the list. LATE: waits until the counts agree. MAYBE: one of the two. TAKEN: a message has matched. */
enum where { FREE, ADDING, LISTED, LATE, MAYBE, TAKEN };

struct buffer {
	enum where place;
	struct slot seg;
	uint64_t tag, mask, order;
	uint32_t handle;
	struct wr *wr;
};

struct op {
	struct nic_tag_op op;
	unsigned buffer;
	bool quiet; /* all messages had arrived, and all completions were polled, when the operation was executed */
};

struct tags {
	struct srq srq;
	struct buffer buffer[TAGS];
	struct op op[OPS]; /* by number, as long as their completions may come */
	uint32_t ops, ops_done;
	uint32_t unexpected;	 /* messages that completed as unexpected */
	uint32_t handled;	 /* as the NIC was last told */
	uint32_t messages, seen; /* messages received until now, and until the last operation */
	unsigned idle;
	uint64_t order;
	struct rng rng;
};

/* ---- messages -------------------------------------------------------------------------------------------- */

static uint32_t header_len(const struct wr *wr)
{
	if (wr->qp->tags != TAGS_SENDER || !wr->message || wr->len < TMH_LEN)
		return 0;
	return wr->tm.kind == MESSAGE_RENDEZVOUS ? NIC_TM_HEADERS : TMH_LEN;
}

static void put(uint8_t *to, uint64_t value, unsigned n)
{
	while (n-- > 0) {
		to[n] = (uint8_t)value;
		value >>= 8;
	}
}

/** The header of a message, struct ibv_tmh, and of a rendezvous request struct ibv_rvh after it. */
static void header(const struct wr *wr, uint8_t out[NIC_TM_HEADERS])
{
	const struct bank *bank = &wr->qp->node->bank[BANK_STATIC];

	memset(out, 0, NIC_TM_HEADERS);
	out[0] = (uint8_t)wr->tm.kind;
	put(out + 4, wr->id, 4);
	put(out + 8, wr->tm.tag, 8);
	put(out + 16, bank->iova + wr->tm.off, 8);
	put(out + 24, bank_rkey(bank), 4);
	put(out + 28, wr->tm.len, 4);
}

void tags_stamp(struct wr *wr)
{
	const struct bank *bank = &wr->qp->node->bank[BANK_STATIC];
	struct rng *rng = &wr->qp->rng;
	uint8_t bytes[NIC_TM_HEADERS];
	uint32_t at = 0;

	if (wr->qp->tags != TAGS_SENDER)
		return;
	wr->tm.tag = rng_below(rng, 1 << BITS);
	/* A rendezvous request is one packet, so that nothing comes between its match and its completion. */
	if (wr->len >= NIC_TM_HEADERS && wr->len <= sim_mtu(wr->qp->sim) && rng_chance(rng, 300))
		wr->tm.kind = MESSAGE_RENDEZVOUS;
	else if (wr->len >= TMH_LEN && rng_chance(rng, 800))
		wr->tm.kind = MESSAGE_EAGER;
	wr->tm.len = (uint32_t)rng_below(rng, wr->qp->peer->srq->cap + wr->qp->peer->srq->cap / 8 + 1);
	wr->tm.off = (uint32_t)rng_below(rng, bank->size - wr->tm.len);
	header(wr, bytes);
	for (unsigned s = 0; s < wr->segs; s++)
		for (uint32_t i = 0; i < wr->seg[s].len && at < header_len(wr); i++, at++)
			slot_put(&wr->seg[s], i, bytes[at]);
}

bool tags_payload_is(const struct wr *wr, uint32_t off, const uint8_t *data, uint32_t len)
{
	uint32_t end = header_len(wr), own = off >= end ? 0 : end - off < len ? end - off : len;
	uint8_t bytes[NIC_TM_HEADERS];

	if (own > 0) {
		header(wr, bytes);
		if (memcmp(bytes + off, data, own) != 0)
			return false;
	}
	return pattern_check(wr->uid, off + own, data + own, len - own);
}

/* ---- operations ------------------------------------------------------------------------------------------ */

static bool fits(const struct buffer *b, uint64_t tag)
{
	return ((b->tag ^ tag) & b->mask) == 0 && (b->tag & ~b->mask) == 0;
}

/** @return the first listed buffer that the tag matches; NULL: none. */
static struct buffer *first_match(struct tags *t, uint64_t tag)
{
	struct buffer *best = NULL;

	for (struct buffer *b = t->buffer; b < t->buffer + TAGS; b++)
		if (b->place == LISTED && fits(b, tag) && (best == NULL || b->order < best->order))
			best = b;
	return best;
}

static void move(struct tags *t, enum where from, enum where to)
{
	for (unsigned i = 0; i < TAGS; i++)
		if (t->buffer[i].place == from)
			t->buffer[i].place = to;
}

static void release(struct buffer *b)
{
	slot_free(&b->seg);
	b->place = FREE;
	b->wr = NULL;
}

/** @return whether all messages to the SRQ have arrived, and all its completions have been polled. */
static bool is_quiet(struct node *node)
{
	const struct tags *t = node->tags;

	for (unsigned i = 0; i < node->sim->qps; i++) {
		const struct qp *qp = &node->sim->qp[i];

		if (qp->srq == &t->srq && (qp->life != QP_UP || qp->peer->posted != qp->peer->done))
			return false;
	}
	return nic_cq_count(t->srq.cq->cq) == 0;
}

static bool prepare_add(struct node *node, struct op *o, struct nic_sge *sge)
{
	struct tags *t = node->tags;
	struct buffer *b = t->buffer;

	while (b < t->buffer + TAGS && b->place != FREE)
		b++;
	if (b == t->buffer + TAGS || !bank_alloc(&node->bank[BANK_LOCAL], t->srq.cap, &t->rng, &b->seg))
		return false;
	slot_grant(&b->seg);
	b->mask = rng_chance(&t->rng, 600) ? UINT64_MAX : rng_below(&t->rng, 1 << BITS);
	b->tag = rng_below(&t->rng, 1 << BITS) & (rng_chance(&t->rng, 950) ? b->mask : UINT64_MAX);
	b->place = ADDING;
	o->buffer = (unsigned)(b - t->buffer);
	*sge = (struct nic_sge){slot_iova(&b->seg), b->seg.len, bank_lkey(b->seg.bank)};
	o->op.opcode = NIC_TAG_ADD;
	o->op.recv_wr_id = BUFFER_ID | o->buffer;
	o->op.sg_list = sge;
	o->op.num_sge = 1;
	o->op.tag = b->tag;
	o->op.mask = b->mask;
	return true;
}

static bool prepare_delete(struct tags *t, struct op *o)
{
	o->buffer = (unsigned)rng_below(&t->rng, TAGS);
	o->op.opcode = NIC_TAG_DEL;
	o->op.handle = t->buffer[o->buffer].handle;
	return t->buffer[o->buffer].place != FREE && t->buffer[o->buffer].place != ADDING;
}

static void operate(struct node *node)
{
	struct tags *t = node->tags;
	struct op *o = &t->op[t->ops % OPS];
	uint64_t what = rng_below(&t->rng, 100);
	struct nic_sge sge;
	int rc;

	if (t->ops - t->ops_done >= OPS)
		return;
	*o = (struct op){.quiet = is_quiet(node)};
	if ((what < 75 && !prepare_add(node, o, &sge)) || (what >= 75 && what < 85 && !prepare_delete(t, o)))
		return;
	if (what >= 85)
		o->op.opcode = NIC_TAG_SYNC;
	o->op.wr_id = OP_ID | t->ops++;
	o->op.signaled = true;
	o->op.sync = what >= 85 || rng_chance(&t->rng, 700);
	o->op.handled = t->unexpected;
	rc = nic_tag_op(t->srq.srq, &o->op);
	if (rc != 0)
		sim_fail(node->sim, "api", "nic_tag_op(%u) returned %d", o->op.opcode, rc);
	if (o->op.opcode == NIC_TAG_ADD)
		t->buffer[o->buffer].handle = o->op.handle;
	node_kick(node);
}

static void tags_event(struct sim *sim, void *arg)
{
	struct node *node = arg;
	struct tags *t = node->tags;
	uint64_t pause;

	if (node_is_stopped(node, tags_event, node))
		return;
	operate(node);
	t->idle = t->seen != t->messages ? 0 : t->idle < 10 ? t->idle + 1 : 10;
	t->seen = t->messages;
	pause = (200 + rng_below(&t->rng, 5000)) << t->idle; /* the fewer messages, the fewer operations */
	sched_at(sim, sim->now_ns + sim_pause(sim, pause), tags_event, node);
}

struct srq *tags_srq(struct node *node, struct cq *cq)
{
	struct tags *t = node->tags;

	if (t != NULL)
		return &t->srq;
	t = node->tags = sim_alloc(node->sim, sizeof(*t));
	rng_init(&t->rng, node->sim->opts.seed, STREAM_PLACE, 100 + node->index);
	srq_begin(&t->srq, node, 3000 + node->index);
	t->srq.cq = cq;
	cq->one_by_one = true;
	if (nic_cq_keep_notes(cq->cq) != 0 ||
	    nic_srq_create_tm(node->pd[0], cq->cq, t->srq.depth, SIM_SEGS, TAGS, 0, &t->srq, &t->srq.srq) != 0)
		return NULL;
	sched_at(node->sim, 1000, tags_event, node);
	return &t->srq;
}

/* ---- oracles --------------------------------------------------------------------------------------------- */

/** The counts agree, or do not, after an operation. */
static void check_sync(struct node *node, const struct op *o, bool agree)
{
	struct tags *t = node->tags;
	bool known = t->unexpected == t->handled;

	if (agree ? !known : known && o->quiet)
		sim_fail(node->sim, "tag_sync", "node %u: %u unexpected messages, %u handled, and SYNC_REQ is %d",
			 node->index, t->unexpected, t->handled, !agree);
}

static void operated(struct node *node, const struct nic_wc *wc)
{
	struct tags *t = node->tags;
	const struct op *o = &t->op[t->ops_done % OPS];
	struct buffer *b = &t->buffer[o->buffer];
	bool agree = (wc->wc_flags & NIC_WC_TM_SYNC_REQ) == 0;

	if (wc->wr_id != o->op.wr_id || wc->opcode != NIC_WC_TM_ADD + o->op.opcode) {
		sim_fail(node->sim, "tag_order", "node %u: operation %llx completed out of order", node->index,
			 (unsigned long long)wc->wr_id);
		return;
	}
	t->ops_done++;
	if (o->op.sync)
		t->handled = o->op.handled;
	if (o->op.opcode == NIC_TAG_SYNC) {
		if (t->unexpected == t->handled)
			move(t, LATE, MAYBE); /* they are listed unless an unexpected message is arriving */
		return;
	}
	check_sync(node, o, agree);
	if (agree) {
		move(t, LATE, LISTED);
		move(t, MAYBE, LISTED);
	}
	if (o->op.opcode == NIC_TAG_ADD) {
		b->place = agree ? LISTED : LATE;
		b->order = t->order++;
		return;
	}
	if (b->handle != o->op.handle) /* the buffer was taken, and another is in its place */
		b = NULL;
	if ((wc->status == NIC_WC_SUCCESS) != (b != NULL && b->place != FREE && b->place != TAKEN))
		sim_fail(node->sim, "tag_once", "node %u: deleting buffer %u ended with status %u", node->index,
			 o->buffer, wc->status);
	else if (wc->status == NIC_WC_SUCCESS)
		release(b);
}

/** The buffer matched the next message of the connection. */
static void matched(struct qp *qp, struct buffer *b, const struct nic_cq_note *note)
{
	struct tags *t = qp->node->tags;
	struct wr *wr = deliver_next(qp, NULL);
	const struct buffer *due;
	uint8_t app_ctx[4];

	if (wr == NULL || wr->tm.kind == MESSAGE_NO_TAG || wr->len < TMH_LEN || b->place == FREE || b->place == TAKEN) {
		sim_fail(qp->sim, "tag_order", "QP %06x: a buffer matched, and no message was due", qp->qpn);
		return;
	}
	due = first_match(t, wr->tm.tag);
	put(app_ctx, wr->id, 4);
	if (!fits(b, wr->tm.tag) || (due != NULL && due->order < b->order) || b->place == LATE)
		sim_fail(qp->sim, "tag_match", "QP %06x: WR %u with tag %llu went to another buffer than the first",
			 qp->qpn, wr->id, (unsigned long long)wr->tm.tag);
	if (note->tag != wr->tm.tag || memcmp(&note->app_ctx, app_ctx, 4) != 0)
		sim_fail(qp->sim, "tag_match", "QP %06x: tag %llu is told for WR %u", qp->qpn,
			 (unsigned long long)note->tag, wr->id);
	wr->delivered = wr->tm.matched = true;
	b->place = TAKEN;
	b->wr = wr;
	t->messages++;
	qp->sim->stats.matches++;
}

static void check_data(struct qp *qp, const struct buffer *b, const struct nic_wc *wc)
{
	static uint8_t data[65536];
	struct wr *wr = b->wr;
	bool eager = wr->tm.kind == MESSAGE_EAGER;
	uint32_t len = eager ? wr->len - TMH_LEN : wr->tm.len;
	uint64_t uid = eager ? wr->uid : 0x57a71c0000000000ull + wr->qp->node->index;

	if (wc->byte_len != len || !slots_collect(&b->seg, 1, data, len) ||
	    !pattern_check(uid, eager ? TMH_LEN : wr->tm.off, data, len))
		sim_fail(qp->sim, "tag_data", "QP %06x: WR %u (kind %d): %u bytes, and not those that were sent",
			 qp->qpn, wr->id, wr->tm.kind, wc->byte_len);
	for (uint32_t i = len; i < b->seg.len; i++)
		if (slot_mem(&b->seg)[i] != SIM_FREE_BYTE)
			sim_fail(qp->sim, "tag_data", "QP %06x: bytes beyond the message of WR %u", qp->qpn, wr->id);
	if (!eager)
		qp->sim->stats.rendezvous++;
	else if (!deliver_arrived(qp, wr))
		sim_fail(qp->sim, "delivery_early", "QP %06x: WR %u is received, and not all of it has arrived",
			 qp->qpn, wr->id);
	wr->tm.read = true;
}

/** The buffer was too short for the data of a rendezvous: it holds the request's headers. */
static void check_incomplete(struct qp *qp, const struct buffer *b, const struct nic_wc *wc)
{
	const struct wr *wr = b->wr;
	uint8_t bytes[NIC_TM_HEADERS], got[NIC_TM_HEADERS];
	uint32_t len = b->seg.len < NIC_TM_HEADERS ? b->seg.len : NIC_TM_HEADERS;

	header(wr, bytes);
	if (wr->tm.kind != MESSAGE_RENDEZVOUS || wr->tm.len <= b->seg.len || wc->byte_len != len ||
	    !slots_collect(&b->seg, 1, got, len) || memcmp(got, bytes, len) != 0)
		sim_fail(qp->sim, "tag_data", "QP %06x: WR %u: wrong incomplete rendezvous", qp->qpn, wr->id);
}

/** A QP that fails completes the buffers that its messages have taken. */
static void failed(struct qp *qp, struct buffer *b, const struct nic_wc *wc)
{
	bool excused = qp->err_expected || qp->send_failed || nic_qp_state(qp->qp) == NIC_QPS_ERR;
	bool lost =
		wc->status == NIC_WC_RETRY_EXC_ERR && (!qp->sim->clean || !qp->sim->patient || qp->peer->err_expected ||
						       clock_excuses(qp) || nic_qp_state(qp->peer->qp) == NIC_QPS_ERR);

	if (b->place != TAKEN || (wc->status == NIC_WC_WR_FLUSH_ERR ? !excused : !lost))
		sim_fail(qp->sim, "tag_once", "QP %06x: a buffer completed with status %u", qp->qpn, wc->status);
	qp->recv_failed = true;
	qp->failed_srq = qp->srq;
	release(b);
	tags_broken(qp);
	qp_break(qp, "error on a tagged buffer");
}

static void received(struct node *node, struct cq *cq, const struct nic_wc *wc)
{
	struct qp *qp = node_qp(node, wc->qp_num);
	struct buffer *b = &node->tags->buffer[(wc->wr_id ^ BUFFER_ID) % TAGS];
	struct nic_cq_note note = nic_cq_polled_note(cq->cq);
	bool incomplete = wc->status == NIC_WC_TM_RNDV_INCOMPLETE;

	if (qp == NULL || qp->srq != &node->tags->srq) {
		sim_fail(node->sim, "receive", "node %u: a tagged buffer completed with QPN %06x", node->index,
			 wc->qp_num);
		return;
	}
	if (wc->status != NIC_WC_SUCCESS && !incomplete) {
		failed(qp, b, wc);
		return;
	}
	if ((wc->wc_flags & NIC_WC_TM_MATCH) != 0)
		matched(qp, b, &note);
	if (qp->sim->failed)
		return;
	if (b->place != TAKEN || b->wr->qp != qp->peer || wc->opcode != NIC_WC_TM_RECV) {
		sim_fail(qp->sim, "tag_once", "QP %06x: a buffer that no message has taken completed", qp->qpn);
		return;
	}
	if (incomplete)
		check_incomplete(qp, b, wc);
	else if ((wc->wc_flags & NIC_WC_TM_DATA_VALID) != 0)
		check_data(qp, b, wc);
	else
		return;
	release(b);
}

bool tags_complete(struct cq *cq, const struct nic_wc *wc)
{
	struct node *node = cq->node;

	if (node->tags == NULL || cq != node->tags->srq.cq)
		return false;
	if ((wc->wr_id ^ BUFFER_ID) < TAGS)
		received(node, cq, wc);
	else if ((wc->wr_id ^ OP_ID) < UINT32_MAX)
		operated(node, wc);
	else
		return false;
	return true;
}

void tags_untagged(struct qp *qp, struct wr *wr)
{
	struct tags *t = qp->node->tags;

	t->messages++;
	if (wr->tm.kind == MESSAGE_NO_TAG)
		return;
	t->unexpected++;
	if (first_match(t, wr->tm.tag) != NULL)
		sim_fail(qp->sim, "tag_match", "QP %06x: WR %u with tag %llu is unexpected, and a buffer waits for it",
			 qp->qpn, wr->id, (unsigned long long)wr->tm.tag);
}

void tags_broken(struct qp *qp)
{
	if (qp->tags == TAGS_RECEIVER)
		move(qp->node->tags, LATE, MAYBE); /* if it was an unexpected message, the counts may agree again */
}

/** @return whether the receiver has the data of the rendezvous, even if its completion waits to be polled. */
static bool has_data(const struct wr *wr)
{
	const struct tags *t = wr->qp->peer->node->tags;
	static uint8_t data[65536];

	for (const struct buffer *b = t->buffer; b < t->buffer + TAGS && !wr->tm.read; b++)
		if (b->place != FREE && slots_collect(&b->seg, 1, data, wr->tm.len) &&
		    pattern_check(0x57a71c0000000000ull + wr->qp->node->index, wr->tm.off, data, wr->tm.len))
			return true;
	return wr->tm.read;
}

void tags_fin(struct qp *qp, const struct rwr *r, const struct nic_wc *wc)
{
	uint8_t got[NIC_TM_HEADERS], bytes[NIC_TM_HEADERS];
	struct sim *sim = qp->sim;
	uint32_t id;
	struct wr *wr;

	if (wc->byte_len != NIC_TM_HEADERS || wc->opcode != NIC_WC_RECV ||
	    !slots_collect(r->seg, r->segs, got, sizeof(got))) {
		sim_fail(sim, "tag_fin", "QP %06x: %u bytes end a rendezvous", qp->qpn, wc->byte_len);
		return;
	}
	id = (uint32_t)got[4] << 24 | (uint32_t)got[5] << 16 | (uint32_t)got[6] << 8 | got[7];
	wr = id < sim->wr_count ? sim->wrs[id] : NULL;
	if (wr == NULL || wr->qp != qp || wr->index >= qp->posted || qp->sq[wr->index] != wr ||
	    wr->tm.kind != MESSAGE_RENDEZVOUS || wr->tm.finished) {
		sim_fail(sim, "tag_fin", "QP %06x: a rendezvous ends that was not begun, or ends twice", qp->qpn);
		return;
	}
	header(wr, bytes);
	bytes[0] = MESSAGE_FIN;
	if (memcmp(got, bytes, sizeof(got)) != 0)
		sim_fail(sim, "tag_fin", "QP %06x: WR %u: a rendezvous ends with another header", qp->qpn, wr->id);
	if (!has_data(wr))
		sim_fail(sim, "tag_fin", "QP %06x: WR %u: a rendezvous ends before its data is there", qp->qpn, wr->id);
	wr->tm.finished = true;
}

bool tags_waits(const struct qp *qp)
{
	for (uint32_t i = 0; qp->tags == TAGS_SENDER && i < qp->done; i++) {
		const struct wr *wr = qp->sq[i];
		bool fits = wr->tm.kind == MESSAGE_EAGER || wr->tm.len <= qp->peer->srq->cap;

		if (!wr->message || wr->status != NIC_WC_SUCCESS)
			continue;
		if (!wr->delivered || (wr->tm.matched && fits && !wr->tm.read) ||
		    (wr->tm.read && wr->tm.kind == MESSAGE_RENDEZVOUS && !wr->tm.finished))
			return true;
	}
	return false;
}

void tags_look(struct sim *sim)
{
	for (unsigned i = 0; i < sim->qps; i++) {
		struct qp *qp = &sim->qp[i];

		if (tags_waits(qp) && nic_qp_state(qp->peer->qp) == NIC_QPS_ERR &&
		    (!sim->clean || !sim->patient || clock_excuses(qp->peer)))
			qp_break(qp->peer, "a rendezvous failed");
	}
}
