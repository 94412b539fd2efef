/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * work.c - the workload: a random mix of send WRs on every QP, posted in bursts while the run has operations left.
 * Everything an oracle needs to know about a WR is in struct wr before it is posted.
 */
#include "../atomic_model.h"
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define SEND_ID 0x5e00000000000000ull
#define TICK_NS 100000 /* maximum delay of the CQE that a WAIT waits for */

struct wr *wr_new(struct qp *qp, uint32_t opcode)
{
	struct sim *sim = qp->sim;
	struct wr *wr = sim_alloc(sim, sizeof(*wr));

	if (sim->wr_count == sim->wr_room) {
		sim->wr_room = sim->wr_room == 0 ? 1024 : sim->wr_room * 2;
		sim->wrs = realloc(sim->wrs, sim->wr_room * sizeof(struct wr *));
		if (sim->wrs == NULL)
			abort();
	}
	wr->id = sim->wr_count;
	sim->wrs[sim->wr_count++] = wr;
	wr->qp = qp;
	wr->opcode = opcode;
	wr->uid = rng_mix(++sim->uid);
	wr->chain_to = UINT32_MAX;
	wr->remote = qp->peer == NULL ? NULL : qp->peer->node;
	wr->ex = (uint32_t)rng_u64(&qp->rng);
	if (qp->type == NIC_QPT_XRC_INI) {
		wr->xrc = (unsigned)rng_below(&qp->rng, SIM_XRC_SRQS);
		wr->srqn = nic_srq_num(wr->remote->xrc[wr->xrc].srq);
	}
	wr->message = opcode == NIC_WR_SEND || opcode == NIC_WR_SEND_WITH_IMM || opcode == NIC_WR_SEND_WITH_INV ||
		      opcode == NIC_WR_RDMA_WRITE_WITH_IMM;
	return wr;
}

void wr_release(struct wr *wr)
{
	for (unsigned i = 0; i < wr->segs; i++)
		slot_free(&wr->seg[i]);
	wr->segs = 0;
}

/** Allocate the local segments of a WR. `fill`: store its payload in them; otherwise the NIC may write a result to
 * them. */
bool wr_gather(struct wr *wr, uint32_t len, bool fill)
{
	struct qp *qp = wr->qp;
	uint32_t left = len, at = 0;
	unsigned want = rng_chance(&qp->rng, 300) ? 1 + (unsigned)rng_below(&qp->rng, SIM_SEGS) : 1;
	bool frail = qp->sim->opts.dereg && rng_chance(&qp->rng, 200);
	struct bank *bank = &qp->node->bank[frail ? BANK_LOCAL_FRAIL : BANK_LOCAL];

	if (len == 0 && rng_chance(&qp->rng, 500))
		want = 0;
	for (unsigned i = 0; i < want; i++) {
		uint32_t piece = i + 1 == want ? left : (uint32_t)rng_below(&qp->rng, left + 1);

		if (!bank_alloc(bank, piece, &qp->rng, &wr->seg[i])) {
			wr_release(wr);
			return false;
		}
		wr->segs = i + 1;
		if (fill)
			slot_fill(&wr->seg[i], wr->uid, at);
		else
			slot_grant(&wr->seg[i]);
		at += piece;
		left -= piece;
	}
	wr->len = len;
	if (fill && wr->message)
		tags_stamp(wr);
	return true;
}

/** @return a random length: often small, often close to a multiple of the packet size, sometimes long. */
uint32_t work_length(struct qp *qp)
{
	uint32_t mtu = sim_mtu(qp->sim), max = qp->sim->opts.max_len, len;

	switch (rng_below(&qp->rng, 6)) {
	case 0:
		len = 0;
		break;
	case 1:
		len = (uint32_t)rng_range(&qp->rng, 1, 64);
		break;
	case 2:
		len = mtu * (uint32_t)rng_range(&qp->rng, 1, 4) + (uint32_t)rng_below(&qp->rng, 3) - 1;
		break;
	case 3:
		len = (uint32_t)rng_below(&qp->rng, max + 1);
		break;
	default:
		len = (uint32_t)rng_below(&qp->rng, 1024);
	}
	return len < max ? len : max;
}

static uint32_t psns_of(const struct wr *wr)
{
	uint32_t mtu = sim_mtu(wr->qp->sim);

	if (wr->opcode == NIC_WR_LOCAL_INV || wr->opcode == NIC_WR_BIND_MW || wr->opcode == NIC_WR_NOP)
		return 0;
	return wr->len <= mtu ? 1 : (wr->len + mtu - 1) / mtu;
}

static void choose_flags(struct wr *wr)
{
	struct qp *qp = wr->qp;
	struct sim *sim = qp->sim;
	uint32_t queued = qp->posted - qp->done;
	/* The WR that takes the queue's last free entry is signaled, and so is a WR after 20 unsignaled ones.
	 * Otherwise the queue could never be emptied. */
	bool quiet_ok = queued + 1 < sim->opts.sq_depth && qp->unsignaled_run < 20;

	wr->signaled = !quiet_ok || !rng_chance(&qp->rng, sim->opts.unsignaled);
	if (wr->signaled)
		wr->flags |= NIC_SEND_SIGNALED;
	wr->signaled |= sim->opts.sig_all;
	if (qp_is_reliable(qp) && rng_chance(&qp->rng, sim->opts.fence))
		wr->flags |= NIC_SEND_FENCE;
	wr->solicited = wr->message && rng_chance(&qp->rng, 300);
	if (wr->solicited)
		wr->flags |= NIC_SEND_SOLICITED;
}

static void fill_elements(const struct wr *wr, struct nic_send_wr *out, struct nic_sge *data)
{
	*data = (struct nic_sge){(uintptr_t)wr->elem.data, wr_elements_data(wr), 0xdeadbeef};
	out->flags |= NIC_SEND_INLINE;
	out->elements.remote_addr = wr->remote_addr;
	out->elements.rkey = wr->rkey;
	out->elements.data = data;
	out->elements.num_data = data->length > 0;
	out->elements.op = wr->elem.op;
	out->elements.datatype = wr->elem.datatype;
	out->elements.count = wr->elem.count;
}

static void fill_request(const struct wr *wr, struct nic_send_wr *out, struct nic_sge *sge, struct nic_sge *data)
{
	bool bad_key = (wr->must & BIT(NIC_WC_LOC_PROT_ERR)) != 0;

	*out = (struct nic_send_wr){.wr_id = SEND_ID | wr->id,
				    .sg_list = sge,
				    .num_sge = wr->segs,
				    .opcode = wr->opcode,
				    .flags = wr->flags,
				    .ex = wr->ex,
				    .srqn = wr->srqn};
	for (unsigned i = 0; i < wr->segs; i++) {
		sge[i] = (struct nic_sge){slot_iova(&wr->seg[i]), wr->seg[i].len, bank_lkey(wr->seg[i].bank)};
		if ((wr->flags & NIC_SEND_INLINE) != 0)
			sge[i] = (struct nic_sge){(uintptr_t)slot_mem(&wr->seg[i]), wr->seg[i].len, 0xdeadbeef};
		else if (bad_key)
			sge[i].lkey ^= 0x5500;
	}
	if (wr->waits) {
		out->opcode = NIC_WR_CQE_WAIT;
		out->wait.cq = wr->qp->node->ticks;
		out->wait.count = 1;
		out->wait.last = true;
	} else if (wr->opcode == NIC_WR_NOP) {
		/* A NOP has no operands and, even on UD, no address handle: the NIC must ignore these bytes. */
		memset(&out->rdma, 0x5a, sizeof(out->rdma));
	} else if (wr->opcode == NIC_WR_ATOMIC_CMP_AND_SWP || wr->opcode == NIC_WR_ATOMIC_FETCH_AND_ADD) {
		out->atomic.remote_addr = wr->remote_addr;
		out->atomic.compare_add = wr->compare_add;
		out->atomic.swap = wr->swap;
		out->atomic.rkey = wr->rkey;
	} else if (wr_is_masked_atomic(wr)) {
		out->masked.remote_addr = wr->remote_addr;
		out->masked.operation = &wr->masked;
		out->masked.rkey = wr->rkey;
	} else if (wr_is_elements(wr)) {
		fill_elements(wr, out, data);
	} else if (wr->opcode == NIC_WR_FLUSH) {
		out->flush.remote_addr = wr->remote_addr;
		out->flush.rkey = wr->rkey;
		out->flush.length = wr->flush.len;
		out->flush.type = wr->flush.type;
		out->flush.level = wr->flush.level;
	} else if (wr->qp->type == NIC_QPT_UD) {
		out->ud.ah = wr->ah;
		out->ud.remote_qpn = wr->ud_to->qpn;
		out->ud.remote_qkey = wr->undeliverable ? 0x7777777 : wr->ud_to->qkey;
	} else if (wr->opcode == NIC_WR_BIND_MW) {
		out->bind = (struct nic_bind){.mw = wr->window->mw,
					      .mr = wr->window->target->slot.bank->mr,
					      .addr = slot_iova(&wr->window->target->slot),
					      .len = wr->window->target->slot.len,
					      .access = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ,
					      .rkey = wr->rkey};
	} else {
		out->rdma.remote_addr = wr->remote_addr;
		out->rdma.rkey = wr->rkey;
	}
}

static void queue_wr(struct wr *wr)
{
	struct qp *qp = wr->qp;

	if (qp->posted == qp->sq_room) {
		qp->sq_room = qp->sq_room == 0 ? 256 : qp->sq_room * 2;
		qp->sq = realloc(qp->sq, qp->sq_room * sizeof(struct wr *));
		if (qp->sq == NULL)
			abort();
	}
	wr->index = qp->posted;
	qp->sq[qp->posted++] = wr;
	qp->messages += wr->message;
	qp->unsignaled_run = wr->signaled ? 0 : qp->unsignaled_run + 1;
	wr->psns = psns_of(wr);
	if (qp->type != NIC_QPT_UD)
		wire_post(wr);
	if (wr->must != 0 || wr->may != 0) {
		qp->err_expected = true;
		qp->peer->err_expected = true;
		qp->peer->trouble |= (wr->must & ~BIT(NIC_WC_LOC_PROT_ERR)) != 0;
	}
}

/** Post the WR. @return false: the NIC refused it, which violates an oracle. */
bool wr_post(struct wr *wr)
{
	struct qp *qp = wr->qp;
	struct sim *sim = qp->sim;
	struct nic_sge sge[SIM_SEGS], data;
	struct nic_send_wr request;
	int rc;

	choose_flags(wr);
	if (wr->must == 0 && wr->len > 0 && wr->len <= qp->cap.max_inline_data &&
	    (wr->opcode <= NIC_WR_SEND_WITH_IMM || wr->opcode == NIC_WR_ATOMIC_WRITE) && rng_chance(&qp->rng, 500))
		wr->flags |= NIC_SEND_INLINE;
	wr->posted_ns = sim->now_ns;
	queue_wr(wr);
	fill_request(wr, &request, sge, &data);
	rc = nic_post_send(qp->qp, &request);
	sim_log(sim, "    post QP %06x WR %u opcode %u len %u flags %x -> %d", qp->qpn, wr->id, wr->opcode, wr->len,
		wr->flags, rc);
	if (rc != 0) {
		sim_fail(sim, "api", "nic_post_send(QP %06x, opcode %u, %u bytes) returned %d with %u of %u queued",
			 qp->qpn, wr->opcode, wr->len, rc, qp->posted - qp->done - 1, sim->opts.sq_depth);
		return false;
	}
	if ((wr->flags & NIC_SEND_INLINE) != 0)
		wr_release(wr); /* inline data were copied: the buffer is reusable (RQ-13) */
	memset(sge, 0x5a, sizeof(sge));
	node_kick(qp->node);
	enable_later(qp, 0);
	return true;
}

/* ---- what to post ------------------------------------------------------------------------------------ */

/** @return `len`, limited to the capacity of the receive that the message will consume. */
static uint32_t fit(struct qp *qp, uint32_t len)
{
	struct qp *peer = qp->peer;
	uint32_t max = len;

	if (qp->type == NIC_QPT_UC)
		max = 2048;
	else if (peer->srq != NULL)
		max = peer->srq->cap;
	else if (qp->messages < peer->rposted)
		max = peer->rq[qp->messages]->cap;
	return len < max ? len : max;
}

static bool post_send(struct qp *qp, uint32_t opcode)
{
	struct wr *wr = wr_new(qp, opcode);
	uint32_t len = fit(qp, work_length(qp));

	return wr_gather(wr, len, true) && wrong_plant(wr) && wr_post(wr);
}

/** Choose the range of a WRITE: a new range, the one written last, or a window. */
static struct target *choose_target(struct qp *qp, uint32_t len, struct window **window)
{
	bool frail = qp->sim->opts.dereg && rng_chance(&qp->rng, 300);
	struct target *t = qp->targets;

	*window = window_usable(qp);
	if (*window != NULL && (*window)->target->writes < SIM_CHAIN && rng_chance(&qp->rng, 500))
		return (*window)->target;
	*window = NULL;
	if (t != NULL && t->window == NULL && !t->retired && !t->failed && !slot_gone(&t->slot)) {
		if (t->writes < SIM_CHAIN && t->writes > 0 && rng_chance(&qp->rng, 400))
			return t;
		t->retired = true; /* freed when its last WR completes */
	}
	return target_new(qp, &qp->peer->node->bank[frail ? BANK_TARGET_FRAIL : BANK_TARGET], len);
}

/** A WR that writes to its target was posted. */
static void written(struct wr *wr)
{
	struct target *t = wr->target;
	struct qp *qp = wr->qp;

	/* A fenced WRITE waits for the READs before it, so these READs do not see its data (10.8.3.3). */
	for (uint32_t i = qp->done; (wr->flags & NIC_SEND_FENCE) != 0 && i < wr->index; i++)
		if (qp->sq[i]->target == t && qp->sq[i]->chain_to == UINT32_MAX)
			qp->sq[i]->chain_to = t->writes;
	wr->chain_from = t->writes;
	t->uid[t->writes++] = wr->uid;
	t->refs++;
}

bool wr_write(struct wr *wr, struct target *t)
{
	if (!wr_gather(wr, t->slot.len, true))
		return false;
	wr->target = t;
	wr->remote_addr = slot_iova(&t->slot);
	wr->rkey = t->rkey;
	if (!wrong_plant(wr))
		return false;
	if (wr_post(wr))
		written(wr);
	return !wr->qp->sim->failed;
}

static bool post_write(struct qp *qp, uint32_t opcode)
{
	struct wr *wr = wr_new(qp, opcode);
	struct window *window;
	struct target *t;

	if ((qp->peer->access & NIC_ACCESS_REMOTE_WRITE) == 0)
		return true;
	/* No ACK tells when a UC WRITE has arrived: free the retired ranges when no packet is in flight. */
	if (qp->type == NIC_QPT_UC && qp->posted == qp->done && qp->peer->in_flight == 0)
		target_release_all(qp, true);
	t = choose_target(qp, work_length(qp), &window);
	return t != NULL && wr_write(wr, t);
}

static bool post_read(struct qp *qp)
{
	struct wr *wr = wr_new(qp, NIC_WR_RDMA_READ);
	struct window *w = window_usable(qp);
	struct target *t = w != NULL && rng_chance(&qp->rng, 500) ? w->target : qp->targets;
	struct bank *stat = &qp->peer->node->bank[BANK_STATIC];
	uint32_t len = work_length(qp);

	if ((qp->peer->access & NIC_ACCESS_REMOTE_READ) == 0)
		return true;
	if (t != NULL && t->writes > 0 && !t->retired && !t->failed && !slot_gone(&t->slot) &&
	    (t->window == NULL || (w != NULL && t == w->target)) && rng_chance(&qp->rng, 700)) {
		if (!wr_gather(wr, t->slot.len, false))
			return false;
		wr->target = t;
		wr->chain_from = t->writes - 1;
		wr->remote_addr = slot_iova(&t->slot);
		wr->rkey = t->rkey;
		t->refs++;
	} else {
		if (len > stat->size)
			len = stat->size;
		if (!wr_gather(wr, len, false))
			return false;
		wr->static_off = rng_below(&qp->rng, stat->size - len + 1);
		wr->remote_addr = stat->iova + wr->static_off;
		wr->rkey = bank_rkey(stat);
	}
	return wrong_plant(wr) && wr_post(wr);
}

/** @return a random mask: all bits, about three quarters or half of them, only bit 63, or none. */
static uint64_t some_bits(struct rng *rng)
{
	switch (rng_below(rng, 4)) {
	case 0:
		return UINT64_MAX;
	case 1:
		return rng_u64(rng) | rng_u64(rng);
	case 2:
		return rng_below(rng, 2) ? 0 : 1ull << 63;
	default:
		return rng_u64(rng);
	}
}

/** Operands unique enough for a change to identify its operation: at least 16 random bits in each word. */
static void choose_masked(struct wr *wr, struct rng *rng)
{
	struct nic_atomic *a = &wr->masked;
	uint64_t half = a->size == 4 ? UINT32_MAX : UINT64_MAX;

	for (unsigned i = 0; i * 8 < a->size; i++) {
		a->swap_add[i] = rng_u64(rng) & half;
		a->boundary[i] = some_bits(rng) & half;
		a->swap_mask[i] = (rng_u64(rng) | 0x00ff00ff00ff00ff) & half;
		a->compare_mask[i] = some_bits(rng) & half;
		a->compare[i] = rng_u64(rng) & half;
	}
	if (rng_chance(rng, 700)) /* compare with the current value: the operation mostly succeeds */
		model_to_words(a->compare, wr->remote->bank[BANK_CELLS].mem + wr->cell * 8 + wr->cell_byte, a->size);
}

static bool post_masked(struct qp *qp, uint32_t opcode)
{
	struct wr *wr = wr_new(qp, opcode);
	struct node *remote = qp->peer->node;
	struct bank *cells = &remote->bank[BANK_CELLS];
	uint32_t size = 4u << rng_below(&qp->rng, 4), step = size < 8 ? 1 : size / 8;

	if ((qp->peer->access & NIC_ACCESS_REMOTE_ATOMIC) == 0)
		return true;
	if (!wr_gather(wr, size, false))
		return false;
	wr->masked.op = opcode == NIC_WR_MASKED_CMP_AND_SWP ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA;
	wr->masked.size = size;
	wr->cell = step * (unsigned)rng_below(&qp->rng, (rng_chance(&qp->rng, 500) ? 4 : SIM_CELLS) / step);
	wr->cell_byte = size == 4 ? 4 * (unsigned)rng_below(&qp->rng, 2) : 0;
	wr->remote_addr = cells->iova + wr->cell * 8 + wr->cell_byte;
	wr->rkey = bank_rkey(cells);
	choose_masked(wr, &qp->rng);
	return wrong_plant(wr) && wr_post(wr);
}

/** Choose operands so that a change of memory identifies its operation; an operation without a result always changes
 * memory. */
static void choose_elements(struct wr *wr, struct rng *rng)
{
	static const uint8_t base[] = {NIC_ELEM_SUM, NIC_ELEM_DIFF, NIC_ELEM_BXOR, NIC_ELEM_ATOMIC_WRITE};
	static const uint8_t fetch[] = {NIC_ELEM_SUM,	NIC_ELEM_DIFF,	   NIC_ELEM_BXOR,  NIC_ELEM_ATOMIC_WRITE,
					NIC_ELEM_CSWAP, NIC_ELEM_CSWAP_NE, NIC_ELEM_MSWAP, NIC_ELEM_ATOMIC_READ};
	static const struct {
		uint8_t datatype, size;
	} of[] = {{NIC_DT_UINT32, 4}, {NIC_DT_INT16, 2},	 {NIC_DT_UINT64, 8},
		  {NIC_DT_DOUBLE, 8}, {NIC_DT_FLOAT_COMPLEX, 8}, {NIC_DT_INT128, 16}};
	bool answers = wr->opcode == NIC_WR_FETCH_ELEMENTS;
	unsigned which;

	wr->elem.op = answers ? fetch[rng_below(rng, sizeof(fetch))] : base[rng_below(rng, sizeof(base))];
	do
		which = (unsigned)rng_below(rng, 6);
	while (of[which].size > wr->len);
	wr->elem.datatype = of[which].datatype;
	wr->elem.size = of[which].size;
	wr->elem.count = wr->len / wr->elem.size;
	if ((wr->elem.datatype == NIC_DT_DOUBLE || wr->elem.datatype == NIC_DT_FLOAT_COMPLEX) &&
	    wr->elem.op != NIC_ELEM_ATOMIC_READ)
		wr->elem.op = NIC_ELEM_ATOMIC_WRITE; /* no floating-point arithmetic: it is tested elsewhere */
	for (unsigned i = 0; i < sizeof(wr->elem.data); i += 8) {
		uint64_t word = rng_u64(rng) | 1;

		memcpy(wr->elem.data + i, &word, 8);
	}
	if (rng_chance(rng, 700)) /* compare with the current value: the operation mostly succeeds */
		memcpy(wr->elem.data + wr->len, wr->remote->bank[BANK_CELLS].mem + wr->cell * 8 + wr->cell_byte,
		       wr->len);
}

static bool post_elements(struct qp *qp)
{
	struct node *remote = qp->peer->node;
	struct bank *cells = &remote->bank[BANK_CELLS];
	uint32_t len = 4u << rng_below(&qp->rng, 4), step = len < 8 ? 1 : len / 8;
	struct wr *wr;

	if ((qp->peer->access & NIC_ACCESS_REMOTE_ATOMIC) == 0 || qp->cap.max_inline_data < 2 * len)
		return true;
	wr = wr_new(qp, rng_chance(&qp->rng, 500) ? NIC_WR_ELEMENTS : NIC_WR_FETCH_ELEMENTS);
	if (wr->opcode == NIC_WR_FETCH_ELEMENTS && !wr_gather(wr, len, false))
		return false;
	wr->len = len;
	wr->cell = step * (unsigned)rng_below(&qp->rng, (rng_chance(&qp->rng, 500) ? 4 : SIM_CELLS) / step);
	wr->cell_byte = len == 4 ? 4 * (unsigned)rng_below(&qp->rng, 2) : 0;
	wr->remote_addr = cells->iova + wr->cell * 8 + wr->cell_byte;
	wr->rkey = bank_rkey(cells);
	choose_elements(wr, &qp->rng);
	return wrong_plant(wr) && wr_post(wr);
}

static bool post_atomic(struct qp *qp, uint32_t opcode)
{
	if (qp->type == NIC_QPT_RC && qp->sim->opts.elements > 0 && rng_chance(&qp->rng, qp->sim->opts.elements))
		return post_elements(qp);
	if (qp->type == NIC_QPT_RC && qp->sim->opts.masked > 0 && rng_chance(&qp->rng, qp->sim->opts.masked))
		return post_masked(qp, opcode == NIC_WR_ATOMIC_CMP_AND_SWP ? NIC_WR_MASKED_CMP_AND_SWP
									   : NIC_WR_MASKED_FETCH_AND_ADD);

	struct wr *wr = wr_new(qp, opcode);
	struct node *remote = qp->peer->node;
	struct bank *cells = &remote->bank[BANK_CELLS];

	if ((qp->peer->access & NIC_ACCESS_REMOTE_ATOMIC) == 0)
		return true;
	if (!wr_gather(wr, 8, false))
		return false;
	wr->cell = (unsigned)rng_below(&qp->rng, rng_chance(&qp->rng, 500) ? 2 : SIM_CELLS);
	wr->remote_addr = cells->iova + wr->cell * 8;
	wr->rkey = bank_rkey(cells);
	/* Values are unique, and so a change of a cell identifies its operation (atomics.c). */
	if (opcode == NIC_WR_ATOMIC_FETCH_AND_ADD) {
		wr->compare_add = rng_chance(&qp->rng, 50) ? 0 : wr->uid;
	} else {
		wr->compare_add = rng_chance(&qp->rng, 700) ? atomics_value(remote, wr->cell) : wr->uid ^ 1;
		wr->swap = wr->uid;
	}
	return wrong_plant(wr) && wr_post(wr);
}

static bool allowed(const struct qp *qp, uint32_t opcode)
{
	if ((qp->sim->opts.mask_ops >> opcode & 1) != 0)
		return false;
	if (qp->tags == TAGS_SENDER && (opcode == NIC_WR_SEND_WITH_IMM || opcode == NIC_WR_RDMA_WRITE_WITH_IMM))
		return false;
	return qp_is_reliable(qp) || opcode <= NIC_WR_SEND_WITH_IMM;
}

/** Post a NOP or a WAIT; the oracles treat both alike. For each WAIT, one CQE is added to the awaited CQ after a random
 *  delay; this CQE may complete another WAIT instead. */
static bool post_nothing(struct qp *qp)
{
	struct wr *wr = wr_new(qp, NIC_WR_NOP);

	wr->waits = qp->sim->opts.waits > 0 && rng_chance(&qp->rng, qp->sim->opts.waits);
	if (wr->waits)
		sched_at(qp->sim, qp->sim->now_ns + 1 + rng_below(&qp->rng, TICK_NS), node_tick, qp->node);
	return wr_post(wr);
}

/** Post one WR of some kind. @return false if there is no memory for it now. */
static bool post_one(struct qp *qp)
{
	static const uint8_t mix[] = {NIC_WR_SEND,
				      NIC_WR_SEND,
				      NIC_WR_SEND,
				      NIC_WR_SEND_WITH_IMM,
				      NIC_WR_RDMA_WRITE,
				      NIC_WR_RDMA_WRITE,
				      NIC_WR_RDMA_WRITE,
				      NIC_WR_RDMA_WRITE_WITH_IMM,
				      NIC_WR_RDMA_READ,
				      NIC_WR_RDMA_READ,
				      NIC_WR_RDMA_READ,
				      NIC_WR_ATOMIC_CMP_AND_SWP,
				      NIC_WR_ATOMIC_CMP_AND_SWP,
				      NIC_WR_ATOMIC_FETCH_AND_ADD,
				      NIC_WR_ATOMIC_FETCH_AND_ADD};
	uint32_t opcode = mix[rng_below(&qp->rng, sizeof(mix))];

	if (qp->sim->opts.nops > 0 && rng_chance(&qp->rng, qp->sim->opts.nops))
		return post_nothing(qp);
	if (qp->type == NIC_QPT_UD)
		return datagram_post(qp);
	if (window_owner(qp) && rng_chance(&qp->rng, 100))
		return window_work(qp);
	if (!allowed(qp, opcode))
		return true;
	if (opcode <= NIC_WR_RDMA_WRITE_WITH_IMM && qp_is_reliable(qp) && qp->sim->opts.places > 0 &&
	    rng_chance(&qp->rng, qp->sim->opts.places))
		return place_post(qp);
	switch (opcode) {
	case NIC_WR_SEND:
	case NIC_WR_SEND_WITH_IMM:
		return post_send(qp, opcode);
	case NIC_WR_RDMA_READ:
		return post_read(qp);
	case NIC_WR_RDMA_WRITE:
	case NIC_WR_RDMA_WRITE_WITH_IMM:
		return post_write(qp, opcode);
	default:
		return post_atomic(qp, opcode);
	}
}

static void work_event(struct sim *sim, void *arg)
{
	struct qp *qp = arg;
	unsigned n;
	bool fed = true;

	if (node_is_stopped(qp->node, work_event, qp))
		return;
	n = 1 + (unsigned)rng_below(&qp->rng, 4);
	qp->work_scheduled = false;
	if (sim->ending || qp->life == QP_DEAD || qp->emptied || (qp->life == QP_BROKEN && !rng_chance(&qp->rng, 200)))
		return;
	while (n-- > 0 && fed && !sim->failed && qp->posted - qp->done < sim->opts.sq_depth && sim->ops_left > 0) {
		sim->ops_left--;
		fed = post_one(qp);
	}
	if (sim->failed)
		return;
	if (sim->ops_left == 0)
		control_begin_end(sim);
	else if (!fed)
		work_kick(qp, sim_pause(sim, 20000));
	else if (qp->posted - qp->done < sim->opts.sq_depth)
		work_kick(qp, rng_below(&qp->rng, rng_chance(&qp->rng, 50) ? 50000 : 3000));
}

static bool posts(const struct qp *qp)
{
	return qp->type != NIC_QPT_XRC_TGT && qp->tags != TAGS_RECEIVER;
}

bool work_triggered(struct qp *qp)
{
	struct sim *sim = qp->sim;

	/* Leave the last operation to work_event, which posts it and then starts the end of the run. */
	if (sim->ending || !posts(qp) || qp->life != QP_UP || qp->emptied || sim->ops_left <= 1)
		return true;
	if (qp->posted - qp->done >= sim->opts.sq_depth)
		return false;
	sim->ops_left--;
	post_one(qp);
	return true;
}

void work_kick(struct qp *qp, uint64_t delay_ns)
{
	if (qp->work_scheduled || qp->sim->ending || !posts(qp))
		return;
	qp->work_scheduled = true;
	sched_at(qp->sim, qp->sim->now_ns + delay_ns, work_event, qp);
}

/** After the last operation, post a signaled WR if the last WRs are unsignaled, so that their completion becomes
 * visible. */
void work_close(struct qp *qp)
{
	uint32_t opcode = NIC_WR_RDMA_WRITE;
	struct wr *wr;

	if (qp->life != QP_UP || qp->posted == qp->done || qp->sq[qp->posted - 1]->signaled)
		return;
	qp->unsignaled_run = 1000;
	if (qp->type == NIC_QPT_UD) {
		for (unsigned i = 0; !datagram_post(qp) && !qp->sim->failed; i++)
			if (i == 1000)
				sim_fail(qp->sim, "api", "no memory for the last WR of QP %06x", qp->qpn);
		return;
	}
	if (qp->type == NIC_QPT_UC)
		opcode = NIC_WR_SEND;
	else if ((qp->peer->access & NIC_ACCESS_REMOTE_WRITE) == 0)
		opcode = NIC_WR_RDMA_READ;
	wr = wr_new(qp, opcode);
	wr->remote_addr = 4096;
	while (!wr_gather(wr, 0, true)) /* repeat until wr_gather picks a registered bank */
		;
	wr_post(wr);
}
