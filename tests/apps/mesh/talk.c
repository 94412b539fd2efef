/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * talk.c - a connection of the mesh: its QP and its traffic.
 *
 * Both ends work in batches. A batch WRITEs a pattern into the peer's memory, adds one to the peer's counter, READs the
 * pattern back and SENDs the next messages. Afterwards the pattern read must equal the pattern written, the counter's
 * old value must be the batch's number, and the peer must receive the messages in order. Now and then a batch is larger
 * than a shared memory ring.
 *
 * A connection that ends is kept until every work request posted on it has completed, even if the peer is dead.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "mesh.h"

#define SENDS	   4 /* SENDs in a batch */
#define GAP_NS	   4000000u
#define HUSH_NS	   100000000u
#define SMALL	   16384u
#define LARGE_ODDS 24

#define WR_ID(t, recv) ((uint64_t)(t)->slot << 8 | (recv))
#define WR_SEND	       0xff

static void pattern(uint8_t *out, uint32_t len, uint64_t key)
{
	for (uint32_t i = 0; i < len; i += 8) {
		uint64_t word = (key + i) * 0x9e3779b97f4a7c15u;

		word ^= word >> 29;
		memcpy(out + i, &word, len - i < 8 ? len - i : 8);
	}
}

static uint64_t key_of(uint64_t incarnation, uint64_t call, uint64_t batch)
{
	return incarnation * 1000003u + call * 7919u + batch * 0x100000001b3u;
}

static void modify(struct talk *t, struct ibv_qp_attr *attr, int mask, const char *to)
{
	int rc = ibv_modify_qp(t->qp, attr, mask);

	if (rc != 0)
		die("QP to %s: %s", to, strerror(rc));
}

static void listen_again(struct talk *t, uint32_t i)
{
	struct ibv_sge sge = {(uintptr_t)t->part->heard[i], sizeof(t->part->heard[i]), t->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = WR_ID(t, i), .sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(t->qp, &wr, &bad) != 0)
		die("ibv_post_recv");
	t->recvs++;
}

/* ---- life --------------------------------------------------------------------------------------------------- */

struct talk *talk_new(struct mesh *c, uint32_t peer, uint64_t call)
{
	struct ibv_qp_init_attr init = {
		.send_cq = c->cq,
		.recv_cq = c->cq,
		.qp_type = IBV_QPT_RC,
		.cap = {.max_send_wr = SENDS, .max_recv_wr = RECVS, .max_send_sge = 1, .max_recv_sge = 1}};
	int access =
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = (unsigned)access};
	struct talk *t = calloc(1, sizeof(*t));

	while (t && t->slot < TALKS_MAX && c->talks[t->slot])
		t->slot++;
	if (!t || t->slot == TALKS_MAX)
		die("too many connections that do not end");
	t->part = mmap(NULL, sizeof(*t->part), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
		       0);
	if (t->part == MAP_FAILED)
		die("no memory: %s", strerror(errno));
	t->mr = ibv_reg_mr(c->pd, t->part, sizeof(*t->part), access);
	t->qp = ibv_create_qp(c->pd, &init);
	if (!t->mr || !t->qp)
		die("no MR or QP: %s", strerror(errno));
	t->peer = peer;
	t->call = call;
	t->psn = (uint32_t)dice(c, 1 << 24);
	modify(t, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, "INIT");
	for (uint32_t i = 0; i < RECVS; i++)
		listen_again(t, i);
	c->talks[t->slot] = t;
	if (t->slot >= c->highest)
		c->highest = t->slot + 1;
	c->current[peer] = t;
	board_add(&c->own->talks, 1);
	return t;
}

struct note talk_note(const struct mesh *c, const struct talk *t, enum note_type type)
{
	return (struct note){.type = type,
			     .from = c->index,
			     .incarnation = c->incarnation,
			     .call = t->call,
			     .addr = (uintptr_t)t->part,
			     .rkey = t->mr->rkey,
			     .qpn = t->qp->qp_num,
			     .psn = t->psn};
}

void talk_connect(struct mesh *c, struct talk *t, const struct note *theirs)
{
	struct board_peer *board = &c->own->peers[t->peer];
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = theirs->qpn,
		.rq_psn = theirs->psn,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = c->gid, .hop_limit = 64}}};

	modify(t, &attr,
	       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	       "RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = t->psn;
	attr.timeout = (c->steady >> c->index & c->steady >> t->peer & 1) ? c->timeout : c->frail;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 4;
	modify(t, &attr,
	       IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC,
	       "RTS");
	t->theirs = *theirs;
	t->peer_incarnation = theirs->incarnation;
	t->state = theirs->type == NOTE_ANSWER ? TALK_GOES : TALK_SILENT;
	board_set(&board->batches, 0);
	board_set(&board->received, 0);
	board_add(&board->connections, 1);
	board_set(&board->incarnation, t->peer_incarnation);
}

void talk_end(struct mesh *c, struct talk *t)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	if (t->state != TALK_ENDS) {
		t->state = TALK_ENDS;
		board_add(&c->own->ending, 1);
		board_set(&c->own->peers[t->peer].incarnation, 0);
		c->current[t->peer] = NULL;
	}
	if (t->sends == 0 && !t->failed) {
		modify(t, &attr, IBV_QP_STATE, "ERR");
		t->failed = true;
	}
}

void talk_destroy(struct mesh *c, struct talk *t)
{
	if (ibv_destroy_qp(t->qp) || ibv_dereg_mr(t->mr))
		die("the QP or MR of a connection is still in use");
	munmap(t->part, sizeof(*t->part));
	if (t->state == TALK_ENDS)
		board_add(&c->own->ending, -1ull);
	board_add(&c->own->talks, -1ull);
	c->talks[t->slot] = NULL;
	free(t);
}

/* ---- batches ------------------------------------------------------------------------------------------------ */

static void batch_start(struct mesh *c, struct talk *t)
{
	struct part *p = t->part;
	uint64_t key = key_of(c->incarnation, t->call, t->batch);
	uint32_t len = 1 + (uint32_t)dice(c, dice(c, LARGE_ODDS) ? SMALL : PART_BYTES),
		 said = (uint32_t)dice(c, SAID_BYTES + 1);
	uint64_t peer = t->theirs.addr;
	struct ibv_sge sge[SENDS] = {{(uintptr_t)p->source, len, t->mr->lkey},
				     {(uintptr_t)&p->fetched, 8, t->mr->lkey},
				     {(uintptr_t)p->back, len, t->mr->lkey},
				     {(uintptr_t)p->said, 16 + said, t->mr->lkey}};
	struct ibv_send_wr wr[SENDS] = {
		{.opcode = IBV_WR_RDMA_WRITE, .wr.rdma = {peer + offsetof(struct part, target), t->theirs.rkey}},
		{.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
		 .wr.atomic = {.remote_addr = peer + offsetof(struct part, counter),
			       .compare_add = 1,
			       .rkey = t->theirs.rkey}},
		{.opcode = IBV_WR_RDMA_READ, .wr.rdma = {peer + offsetof(struct part, target), t->theirs.rkey}},
		{.opcode = IBV_WR_SEND}};
	struct ibv_send_wr *bad;

	for (unsigned i = 0; i < SENDS; i++) {
		wr[i].wr_id = WR_ID(t, WR_SEND);
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
		wr[i].send_flags = IBV_SEND_SIGNALED;
		wr[i].next = i + 1 < SENDS ? &wr[i + 1] : NULL;
	}
	pattern(p->source, len, key);
	memcpy(p->said, &t->batch, 8);
	memcpy(p->said + 8, &c->incarnation, 8);
	pattern(p->said + 16, said, key);
	t->len = len;
	t->sends = SENDS;
	if (ibv_post_send(t->qp, wr, &bad) != 0)
		die("ibv_post_send");
}

static void batch_done(struct mesh *c, struct talk *t)
{
	struct part *p = t->part;

	if (memcmp(p->back, p->source, t->len) != 0)
		wrong(c, "data read back from member %u differs from what was written there (batch %llu)", t->peer,
		      (unsigned long long)t->batch);
	if (p->fetched != t->batch)
		wrong(c, "the counter at member %u was %llu, not %llu", t->peer, (unsigned long long)p->fetched,
		      (unsigned long long)t->batch);
	t->batch++;
	t->due_ns = now_ns() + dice(c, GAP_NS);
	board_add(&c->own->batches, 1);
	if (t->state != TALK_ENDS)
		board_add(&c->own->peers[t->peer].batches, 1);
}

static void message_come(struct mesh *c, struct talk *t, uint32_t i, uint32_t len)
{
	const uint8_t *heard = t->part->heard[i];
	uint8_t expected[16 + SAID_BYTES];

	memcpy(expected, &t->heard, 8);
	memcpy(expected + 8, &t->peer_incarnation, 8);
	if (len >= 16)
		pattern(expected + 16, len - 16, key_of(t->peer_incarnation, t->call, t->heard));
	/* Skip the check while peer_incarnation is not known: the peer may have answered an older call of ours, and
	 * still send to this QP. */
	if (t->peer_incarnation && (len < 16 || memcmp(heard, expected, len) != 0))
		wrong(c, "message %llu of member %u is not what it should be", (unsigned long long)t->heard, t->peer);
	t->heard++;
	if (t->state == TALK_ENDS)
		return;
	board_add(&c->own->peers[t->peer].received, 1);
	if (t->state == TALK_SILENT)
		t->state = TALK_GOES;
	listen_again(t, i);
}

void talk_complete(struct mesh *c, const struct ibv_wc *wc)
{
	struct talk *t = c->talks[wc->wr_id >> 8];
	uint32_t i = wc->wr_id & 0xff;

	if (i == WR_SEND)
		t->sends--;
	else
		t->recvs--;
	if (wc->status != IBV_WC_SUCCESS) {
		t->failed = true;
		if (wc->status == IBV_WC_RETRY_EXC_ERR)
			board_add(&c->own->retry_exc, 1);
		else if (wc->status == IBV_WC_WR_FLUSH_ERR)
			board_add(&c->own->flushed, 1);
		else
			board_add(&c->own->other, 1);
		talk_end(c, t);
	} else if (i != WR_SEND) {
		message_come(c, t, i, wc->byte_len);
	} else if (t->sends == 0) {
		batch_done(c, t);
	}
}

uint64_t talk_all(struct mesh *c, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	for (uint32_t i = 0; i < c->highest; i++) {
		struct talk *t = c->talks[i];

		if (!t)
			continue;
		if (t->state == TALK_ENDS) {
			talk_end(c, t);
			if (t->sends == 0 && t->recvs == 0)
				talk_destroy(c, t);
			continue;
		}
		if (t->state != TALK_GOES || t->sends > 0 || t->failed)
			continue;
		if (__atomic_load_n(&c->board->hush, __ATOMIC_RELAXED))
			next = now + HUSH_NS; /* time of the next look at board->hush */
		else if (now >= t->due_ns)
			batch_start(c, t);
		else if (t->due_ns < next)
			next = t->due_ns;
	}
	while (c->highest > 0 && !c->talks[c->highest - 1])
		c->highest--;
	return next;
}
