/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recv.c - receive WRs. Message k of a connected QP consumes receive k of its peer, so a receive is sized to fit its
 * message if that message is already posted. Otherwise the message is later sized to fit the receive (work.c).
 */
#include "sim.h"

#include <errno.h>
#include <stdlib.h>

#define RECV_ID	   0x4e00000000000000ull
/* Limit on the receive bytes outstanding for each QP, so that one QP does not use up all memory. */
#define RECV_BYTES 24576

static struct rwr *rwr_new(struct sim *sim)
{
	struct rwr *r = sim_alloc(sim, sizeof(*r));

	if (sim->rwr_count == sim->rwr_room) {
		sim->rwr_room = sim->rwr_room == 0 ? 1024 : sim->rwr_room * 2;
		sim->rwrs = realloc(sim->rwrs, sim->rwr_room * sizeof(struct rwr *));
		if (sim->rwrs == NULL)
			abort();
	}
	r->id = sim->rwr_count;
	sim->rwrs[sim->rwr_count++] = r;
	return r;
}

struct rwr *recv_of(struct sim *sim, const struct nic_wc *wc)
{
	uint64_t id = wc->wr_id ^ RECV_ID;

	return id < sim->rwr_count ? sim->rwrs[id] : NULL;
}

void recv_release(struct rwr *r)
{
	for (unsigned i = 0; i < r->segs; i++)
		slot_free(&r->seg[i]);
}

static bool rwr_fill(struct node *node, struct rwr *r, uint32_t cap, struct rng *rng)
{
	uint32_t left = cap;
	unsigned want = 1 + (unsigned)rng_below(rng, rng_chance(rng, 300) ? SIM_SEGS : 1);
	/* SRQ receives never use memory that may be deregistered: an SRQ outlives its QPs, and a bad receive would
	 * break whichever QP uses it. Nor do receives for the ends of rendezvous, which are told apart by their data.
	 */
	bool may_end = r->srq == NULL && r->qp->tags == TAGS_NONE;
	bool frail = may_end && node->sim->opts.dereg && rng_chance(rng, 100);

	r->cap = cap;
	if (cap == 0 && rng_chance(rng, 500))
		want = 0;
	for (unsigned i = 0; i < want; i++) {
		uint32_t len = i + 1 == want ? left : (uint32_t)rng_below(rng, left + 1);
		struct bank *bank = &node->bank[frail ? BANK_LOCAL_FRAIL : BANK_LOCAL];

		if (!bank_alloc(bank, len, rng, &r->seg[i])) {
			recv_release(r);
			return false;
		}
		r->segs = i + 1;
		slot_grant(&r->seg[i]);
		left -= len;
	}
	return true;
}

/** Decide at random whether a receive gets wrong local keys; if so, record what must follow: the receive fails, and its
 * message gets REM_OP_ERR. @return whether it gets them. */
static bool plant_bad_key(struct qp *qp, struct rwr *r)
{
	if (qp == NULL || qp->type != NIC_QPT_RC || qp->tags != TAGS_NONE || r->cap == 0 ||
	    !rng_chance(&qp->recv_rng, qp->sim->opts.errors / 2))
		return false;
	r->must = r->may = BIT(NIC_WC_LOC_PROT_ERR);
	qp->err_expected = qp->peer->err_expected = qp->trouble = true;
	qp->peer->may_all |= BIT(NIC_WC_REM_OP_ERR);
	return true;
}

static int rwr_post(struct node *node, struct qp *qp, struct rwr *r)
{
	struct nic_sge sge[SIM_SEGS];
	struct nic_recv_wr wr = {.wr_id = RECV_ID | r->id, .sg_list = sge, .num_sge = r->segs};
	bool bad = plant_bad_key(qp, r);
	int rc;

	for (unsigned i = 0; i < r->segs; i++)
		sge[i] = (struct nic_sge){slot_iova(&r->seg[i]), r->seg[i].len,
					  bank_lkey(r->seg[i].bank) ^ (bad ? 0x5500u : 0)};
	rc = qp != NULL ? nic_post_recv(qp->qp, &wr) : nic_post_srq_recv(r->srq->srq, &wr);
	sim_log(node->sim, "    post recv %u of node %u, %u bytes -> %d", r->id, node->index, r->cap, rc);
	node_kick(node);
	return rc;
}

/** @return the length of the next receive of a QP. */
static uint32_t choose_cap(struct qp *qp)
{
	struct sim *sim = qp->sim;
	uint32_t max = sim->opts.max_len, seen = 0;
	struct qp *peer = qp->peer;

	if (qp->type == NIC_QPT_UD)
		return 40 + (sim_mtu(sim) < max ? sim_mtu(sim) : max) - (rng_chance(&qp->recv_rng, 100) ? 7 : 0);
	if (qp->tags == TAGS_SENDER) /* it receives the ends of rendezvous */
		return NIC_TM_HEADERS + (uint32_t)rng_below(&qp->recv_rng, 64);
	if (qp->type == NIC_QPT_UC)
		return max < 2048 ? max : 2048;
	if (peer->messages > qp->rposted) {
		for (uint32_t i = 0; i < peer->posted; i++) {
			struct wr *wr = peer->sq[i];

			if (!wr->message || seen++ != qp->rposted)
				continue;
			if (wr->opcode == NIC_WR_RDMA_WRITE_WITH_IMM)
				return (uint32_t)rng_below(&qp->recv_rng, 2) * 16;
			return wr->len + (rng_chance(&qp->recv_rng, 500) ? (uint32_t)rng_below(&qp->recv_rng, 100) : 0);
		}
	}
	return (uint32_t)rng_below(&qp->recv_rng, (max < 1024 ? max : 1024) + 1);
}

static uint32_t bytes_posted(const struct qp *qp)
{
	uint32_t sum = 0;

	for (uint32_t i = qp->rdone; i < qp->rposted; i++)
		sum += qp->rq[i]->cap;
	return sum;
}

static bool recv_post_one(struct qp *qp)
{
	uint32_t queued = qp->rposted - qp->rdone;
	struct rwr *r;
	int rc;

	if (queued >= qp->sim->opts.rq_depth || (queued > 0 && bytes_posted(qp) > RECV_BYTES))
		return false;
	r = rwr_new(qp->sim);
	r->qp = qp;
	if (!rwr_fill(qp->node, r, choose_cap(qp), &qp->recv_rng)) {
		recv_kick(qp, 20000);
		return false;
	}
	rc = rwr_post(qp->node, qp, r);
	if (rc != 0) {
		sim_fail(qp->sim, "api", "nic_post_recv on QP %06x returned %d with %u of %u queued", qp->qpn, rc,
			 queued, qp->sim->opts.rq_depth);
		return false;
	}
	if (qp->rposted == qp->rq_room) {
		qp->rq_room = qp->rq_room == 0 ? 256 : qp->rq_room * 2;
		qp->rq = realloc(qp->rq, qp->rq_room * sizeof(struct rwr *));
		if (qp->rq == NULL)
			abort();
	}
	qp->rq[qp->rposted++] = r;
	enable_later(qp, 1);
	return true;
}

static void recv_event(struct sim *sim, void *arg)
{
	struct qp *qp = arg;
	unsigned n;

	if (node_is_stopped(qp->node, recv_event, qp))
		return;
	n = 1 + (unsigned)rng_below(&qp->recv_rng, 8);
	qp->recv_scheduled = false;
	if (qp->life != QP_UP)
		return;
	while (n-- > 0 && !sim->failed && recv_post_one(qp))
		;
	if (n == UINT32_MAX) /* there may be room for more */
		recv_kick(qp, rng_below(&qp->recv_rng, 500));
}

/** Schedule the posting of receives. With the rnr option they are posted late. */
void recv_kick(struct qp *qp, uint64_t delay_ns)
{
	struct sim *sim = qp->sim;

	if (qp->srq != NULL || qp->recv_scheduled || qp->type == NIC_QPT_XRC_INI)
		return;
	qp->recv_scheduled = true;
	if (sim->opts.rnr && rng_chance(&qp->recv_rng, 300))
		delay_ns += rng_below(&qp->recv_rng, 200000);
	sched_at(sim, sim->now_ns + delay_ns, recv_event, qp);
}

static void srq_event(struct sim *sim, void *arg)
{
	struct srq *srq = arg;
	unsigned n;

	if (node_is_stopped(srq->node, srq_event, srq))
		return;
	n = 1 + (unsigned)rng_below(&srq->rng, srq->depth);
	srq->scheduled = false;
	while (n-- > 0 && (srq->posted < srq->depth || srq->lossy) && !sim->failed) {
		struct rwr *r = rwr_new(sim);
		int rc;

		r->srq = srq;
		if (!rwr_fill(srq->node, r, srq->cap, &srq->rng)) {
			srq_kick(srq, sim_pause(sim, 20000));
			return;
		}
		rc = rwr_post(srq->node, NULL, r);
		if (rc == -ENOMEM && srq->lossy) { /* full */
			recv_release(r);
			srq->posted = srq->depth;
			return;
		}
		if (rc != 0)
			sim_fail(sim, "api", "nic_post_srq_recv returned %d with %u of %u queued", rc, srq->posted,
				 srq->depth);
		srq->posted++;
	}
	if (srq->posted < srq->depth)
		srq_kick(srq, rng_below(&srq->rng, 500));
}

void srq_kick(struct srq *srq, uint64_t delay_ns)
{
	struct sim *sim = srq->node->sim;

	if (srq->scheduled)
		return;
	srq->scheduled = true;
	if (sim->opts.rnr && rng_chance(&srq->rng, 300))
		delay_ns += rng_below(&srq->rng, 200000);
	sched_at(sim, sim->now_ns + delay_ns, srq_event, srq);
}

void recv_start(struct sim *sim)
{
	for (unsigned i = 0; i < sim->qps; i++)
		recv_kick(&sim->qp[i], 0);
}
