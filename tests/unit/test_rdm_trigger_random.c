/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rdm_trigger_random.c - deferred work: requests of reliable-datagram endpoints, started by counters. Each node
 * has several counters: it queues and cancels work, and increments the counters. Completions increment counters, too,
 * and so start more requests. The network loses,
 * duplicates and swaps packets, queues are full at times, and nodes stop. The seed determines everything and is
 * printed on failure; RDM_SEED runs one seed. A model knows which work each change of a counter makes due, and in which
 * order. Checked: no work starts too early, twice, during other work, or out of order; no due work is left if there is
 * room; each request completes once and is counted where it should be; its data, written when it starts, arrives at its
 * destination and was not there before.
 */
#include "rdm_rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SECOND	  1000000000ull
#define NODES	  4u
#define CNTRS	  3u
#define JOBS	  36u /* jobs of a node */
#define LONGS	  2u  /* the first jobs are long messages, which the receiver reads */
#define WORDS	  4u  /* words that operations add to */
#define SERIES	  2000u
#define BLANK	  0xee
#define UNREADY	  0x55 /* contents of the buffers of jobs not yet started */
/* The arena: words, data for READs, buffers, buffers of long messages, areas for WRITEs of other nodes. */
#define READ_AT	  256u
#define BUFFER_AT 4096u
#define BUFFER	  2048u
#define LONG_AT	  (BUFFER_AT + JOBS * BUFFER)
#define LONG	  12288u
#define TARGET_AT (LONG_AT + LONGS * LONG)
#define TARGET	  1024u
_Static_assert(TARGET_AT + NODES * JOBS * TARGET <= RDM_ARENA && BUFFER_AT - READ_AT >= BUFFER, "the arena has room");

enum what { COUNT, SEND, RECV, WRITE, READ, ADD, FETCH, WHATS };

/** The states of a job. IDLE: not queued yet. */
enum state { IDLE, WAITS, REACHED, UNDER_WAY, OVER };

struct job {
	struct nic_trig_work work;
	unsigned node, index, to; /* to: the other node, target or source */
	enum what what;
	enum state state;
	bool refused, good;
	unsigned cntr;
	uint64_t threshold, order; /* order: the order of queueing; later, of reaching the threshold */
	unsigned counts_in, word;
	uint64_t value; /* for COUNT: the value to add */
	uint32_t at, len, flags;
};

static struct {
	struct rdm_rig *rig;
	unsigned nodes, gone; /* gone: the node that has stopped; NODES: none */
	struct job job[NODES][JOBS];
	struct nic_trig_cntr cntr[NODES][CNTRS];
	uint64_t part[NODES][CNTRS][2];
	uint64_t order;
	bool firing;
	uint32_t sends, receives;	 /* limits of outstanding requests; 0: none */
	uint32_t out[NODES][2];		 /* outstanding requests and receives */
	uint64_t fetched[NODES][WORDS];	 /* values returned by FETCH, one bit each */
	uint64_t refused, failed, quick; /* sums over all runs */
} t;

static uint32_t pick(uint32_t below)
{
	return rdm_random(t.rig, below);
}

static struct rdm_node *node(unsigned i)
{
	return &t.rig->node[i];
}

/* ---- the model ------------------------------------------------------------------------------------------------ */

/** @return the next job in order among the node's jobs in `state` that wait for this counter. */
static struct job *first(unsigned n, unsigned cntr, enum state state)
{
	struct job *best = NULL;

	for (struct job *j = t.job[n]; j < t.job[n] + JOBS; j++) {
		if (j->state != state || j->cntr != cntr)
			continue;
		if (!best || (state == WAITS && j->threshold != best->threshold ? j->threshold < best->threshold
										: j->order < best->order))
			best = j;
	}
	return best;
}

static void reach(unsigned n, unsigned cntr)
{
	for (struct job *j;
	     (j = first(n, cntr, WAITS)) != NULL && j->threshold <= t.part[n][cntr][0] + t.part[n][cntr][1];) {
		j->state = REACHED;
		j->order = t.order++;
		j->refused = false;
	}
}

static void change(unsigned n, unsigned cntr, bool failed, uint64_t value)
{
	t.part[n][cntr][failed] += value;
	nic_trig_add(node(n)->nic, &t.cntr[n][cntr], failed, value);
	reach(n, cntr);
	assert_int_equal(nic_trig_part(&t.cntr[n][cntr], failed), t.part[n][cntr][failed]);
}

static void check_none_left(unsigned n)
{
	for (unsigned c = 0; c < CNTRS; c++) {
		const struct job *j = first(n, c, REACHED);

		assert_true(!j || j->refused);
	}
}

/* ---- requests ------------------------------------------------------------------------------------------------- */

static uint32_t seed_of(const struct job *j)
{
	return j->node * JOBS + j->index;
}

/** @return the tag of a message: its two jobs have the same index. */
static uint64_t tag_of(const struct job *j)
{
	return 100 + j->index;
}

static uint32_t target_of(const struct job *j)
{
	return TARGET_AT + seed_of(j) * TARGET;
}

static bool holds_only(const uint8_t *mem, uint32_t len, uint8_t byte)
{
	for (uint32_t i = 0; i < len; i++)
		if (mem[i] != byte)
			return false;
	return true;
}

static int post_rma(struct job *j)
{
	struct rdm_node *n = node(j->node), *to = node(j->to);
	const struct nic_iov iov = {n->arena + j->at, j->len};
	const struct nic_rdm_remote remote = {(uintptr_t)to->arena + (j->what == READ ? READ_AT : target_of(j)), j->len,
					      to->nic ? nic_mr_rkey(to->mr) : 0};
	const struct nic_rdm_rma r = {.context = j,
				      .flags = j->flags,
				      .read = j->what == READ,
				      .iov = &iov,
				      .n_iov = 1,
				      .remote = &remote,
				      .n_remote = 1};

	if (j->what == WRITE) /* the target was not written too early */
		assert_true(holds_only(to->arena + target_of(j), TARGET, BLANK));
	return nic_rdm_rma(rdm_peer(n, to), &r);
}

static int post_add(struct job *j)
{
	struct rdm_node *n = node(j->node), *to = node(j->to);
	const uint64_t one = 1;
	const struct nic_iov iov = {n->arena + j->at, sizeof(one)}, result = {n->arena + j->at + 8, sizeof(one)};
	const struct nic_rdm_remote remote = {(uintptr_t)to->arena + 8 * j->word, sizeof(one),
					      to->nic ? nic_mr_rkey(to->mr) : 0};
	const struct nic_rdm_atomic r = {.context = j,
					 .flags = j->flags,
					 .op = NIC_ELEM_SUM,
					 .datatype = NIC_DT_UINT64,
					 .operand = &iov,
					 .n_operand = 1,
					 .result = &result,
					 .n_result = j->what == FETCH,
					 .remote = &remote,
					 .n_remote = 1};

	memcpy(n->arena + j->at, &one, sizeof(one));
	return nic_rdm_atomic(rdm_peer(n, to), &r);
}

static int post(struct job *j)
{
	struct rdm_node *n = node(j->node);

	switch (j->what) {
	case COUNT:
		j->state = OVER;
		change(j->node, j->counts_in, pick(4) == 0, j->value);
		return 0;
	case SEND:
		return rdm_send(n, node(j->to), (uintptr_t)j, NIC_RDM_TAGGED | j->flags, tag_of(j), j->at, j->len);
	case RECV:
		return rdm_recv(n, pick(2) ? node(j->to) : NULL, (uintptr_t)j, NIC_RDM_TAGGED, tag_of(j), 0, j->at,
				j->len);
	case WRITE:
	case READ:
		return post_rma(j);
	default:
		return post_add(j);
	}
}

static bool is_full(const struct job *j)
{
	uint32_t room = j->what == RECV ? t.receives : t.sends;

	return room && t.out[j->node][j->what == RECV] >= room;
}

static int fire(struct nic_trig_work *work)
{
	struct job *j = (struct job *)work;
	int rc;

	assert_false(t.firing);
	assert_int_equal(j->state, REACHED);
	assert_ptr_equal(first(j->node, j->cntr, REACHED), j);
	if (j->what == SEND || j->what == WRITE)
		rdm_fill(node(j->node), j->at, j->len, seed_of(j));
	t.firing = true;
	j->state = UNDER_WAY;
	t.out[j->node][j->what == RECV] += j->what != COUNT;
	rc = post(j);
	t.firing = false;
	if (rc == 0)
		return 0;
	assert_int_equal(rc, -EAGAIN);
	t.out[j->node][j->what == RECV]--;
	assert_true(is_full(j));
	memset(node(j->node)->arena + j->at, UNREADY, j->len);
	j->state = REACHED;
	j->refused = true;
	t.refused++;
	return rc;
}

/* ---- what is done --------------------------------------------------------------------------------------------- */

static void check_done(const struct job *j, const struct nic_rdm_done *d)
{
	static const enum nic_rdm_kind kinds[WHATS] = {
		[SEND] = NIC_RDM_SEND, [RECV] = NIC_RDM_RECV,  [WRITE] = NIC_RDM_WRITE,
		[READ] = NIC_RDM_READ, [ADD] = NIC_RDM_ATOMIC, [FETCH] = NIC_RDM_FETCH};
	const struct rdm_node *n = node(j->node), *to = node(j->to);
	uint64_t found;

	assert_int_equal(d->kind, kinds[j->what]);
	if (d->status != NIC_RDM_OK) {
		assert_int_not_equal(t.gone, NODES);
		assert_int_equal(j->to, t.gone);
		return;
	}
	if (j->what == RECV) {
		assert_int_equal(d->tag, tag_of(j));
		assert_int_equal(d->len, j->len);
		assert_true(rdm_holds(n, j->at, j->len, j->to * JOBS + j->index));
	} else if (j->what == WRITE && to->nic) {
		assert_true(rdm_holds(to, target_of(j), j->len, seed_of(j)));
		assert_true(holds_only(to->arena + target_of(j) + j->len, TARGET - j->len, BLANK));
	} else if (j->what == READ) {
		assert_memory_equal(n->arena + j->at, to->arena + READ_AT, j->len);
	} else if (j->what == FETCH) {
		memcpy(&found, n->arena + j->at + 8, sizeof(found));
		assert_in_range(found, 0, 63);
		assert_int_equal(t.fetched[j->to][j->word] >> found & 1, 0);
		t.fetched[j->to][j->word] |= 1ull << found;
	}
}

static void told(struct rdm_node *n, const struct nic_rdm_done *d)
{
	struct job *j = d->context;

	assert_ptr_equal(node(j->node), n);
	assert_int_equal(j->state, UNDER_WAY);
	check_done(j, d);
	j->state = OVER;
	j->good = d->status == NIC_RDM_OK;
	t.failed += !j->good;
	t.out[j->node][j->what == RECV]--;
	change(j->node, j->counts_in, !j->good, 1);
}

/* ---- a run ---------------------------------------------------------------------------------------------------- */

static void make_job(struct job *j, enum what what, unsigned to)
{
	static const uint32_t lengths[] = {0, 1, 64, 256, 257, 992, 1000, BUFFER / 2};

	*j = (struct job){.work.fire = fire,
			  .node = (unsigned)((j - t.job[0]) / JOBS),
			  .index = (unsigned)((j - t.job[0]) % JOBS),
			  .what = what,
			  .to = to,
			  .counts_in = pick(CNTRS),
			  .word = pick(WORDS),
			  .value = pick(4)};
	j->at = j->index < LONGS ? LONG_AT + j->index * LONG : BUFFER_AT + j->index * BUFFER;
	j->len = j->index < LONGS ? LONG : lengths[j->index % 8]; /* the same at both ends of a message */
	if (what == WRITE || what == READ)
		j->len = pick(TARGET + 1);
	else if (what == ADD || what == FETCH)
		j->len = 16;
	if (what == SEND && pick(3) == 0)
		j->flags = NIC_RDM_DELIVERY;
	else if (what != RECV && !t.receives && pick(4) == 0) /* a fence could wait for receives that find no room */
		j->flags = NIC_RDM_FENCE;
	memset(node(j->node)->arena + j->at, UNREADY, j->len);
}

static void make_jobs(void)
{
	for (unsigned i = 0; i < JOBS; i++) {
		unsigned from = pick(t.nodes), to = (from + 1 + pick(t.nodes - 1)) % t.nodes;

		for (unsigned n = 0; n < t.nodes; n++)
			if (n == from)
				make_job(&t.job[n][i], SEND, to);
			else if (n == to)
				make_job(&t.job[n][i], RECV, from);
			else
				make_job(&t.job[n][i], COUNT, n);
		for (unsigned n = 0; n < t.nodes; n++) /* at most half of the jobs are messages */
			if (i >= LONGS && (i % 2 || t.job[n][i].what == COUNT))
				make_job(&t.job[n][i], (enum what[]){COUNT, WRITE, READ, ADD, FETCH}[pick(5)],
					 pick(t.nodes));
	}
}

static void queue(struct job *j)
{
	uint64_t sum;

	/* A receive must not wait behind a request that can itself wait for another node's receive. */
	j->cntr = j->what == RECV ? CNTRS - 1 : pick(j->what == COUNT ? CNTRS : CNTRS - 1);
	sum = t.part[j->node][j->cntr][0] + t.part[j->node][j->cntr][1];
	j->threshold = sum + pick(10) - (sum > 4 ? pick(4) : 0);
	j->order = t.order++;
	j->state = WAITS;
	assert_int_equal(nic_trig_queue(node(j->node)->nic, &t.cntr[j->node][j->cntr], j->threshold, &j->work), 0);
	reach(j->node, j->cntr);
}

/** Cancel a job. Messages are not canceled, because the other end would wait for ever. */
static void cancel(struct job *j)
{
	if (j->state == IDLE || j->what == SEND || j->what == RECV)
		return;
	assert_int_equal(nic_trig_cancel(&j->work), j->state == WAITS || j->state == REACHED);
	if (j->state == UNDER_WAY)
		return;
	j->state = OVER;
	nic_trig_retry(node(j->node)->nic); /* other work may have waited for this job */
}

static void step(void)
{
	unsigned n = pick(t.nodes), what = pick(16);
	struct job *j = &t.job[n][pick(JOBS)];

	if (n == t.gone)
		return;
	if (what < 11 && j->state == IDLE)
		queue(j);
	else if (what < 15)
		change(n, pick(CNTRS), pick(4) == 0, pick(5));
	else
		cancel(j);
	nic_trig_run(node(n)->nic);
	check_none_left(n);
	if (pick(4) == 0)
		rdm_run(t.rig, 1 + pick(pick(8) ? 50000 : 20000000));
}

static void close_counters(unsigned n)
{
	for (unsigned c = 0; c < CNTRS; c++)
		nic_trig_cntr_fini(&t.cntr[n][c]);
}

/** A node stops; its jobs are abandoned. */
static void leave(unsigned n)
{
	for (struct job *j = t.job[n]; j < t.job[n] + JOBS; j++) {
		nic_trig_cancel(&j->work);
		j->state = OVER;
	}
	close_counters(n);
	rdm_node_stop(node(n));
	t.gone = n;
}

/** Cancel receives of messages from the stopped node. */
static void cancel_receives(void)
{
	for (unsigned n = 0; n < t.nodes; n++)
		for (struct job *j = t.job[n]; j < t.job[n] + JOBS && n != t.gone; j++)
			if (j->what == RECV && j->to == t.gone && j->state == UNDER_WAY)
				nic_rdm_cancel(node(n)->ep, j);
}

static bool all_over(void)
{
	bool over = true;

	for (unsigned n = 0; n < t.nodes; n++)
		for (unsigned i = 0; i < JOBS; i++)
			over &= t.job[n][i].state == OVER;
	return over;
}

static void finish(void)
{
	t.rig->lose = t.rig->twice = t.rig->swap = 0;
	for (unsigned n = 0; n < t.nodes; n++) {
		for (unsigned i = 0; i < JOBS && n != t.gone; i++)
			if (t.job[n][i].state == IDLE)
				queue(&t.job[n][i]);
		for (unsigned c = 0; c < CNTRS && n != t.gone; c++)
			change(n, c, false, 100);
		if (n != t.gone)
			nic_trig_run(node(n)->nic);
	}
	for (unsigned i = 0; i < 400 && !all_over(); i++) {
		rdm_run(t.rig, SECOND / 10);
		if (i % 20 == 19)
			cancel_receives();
	}
	assert_true(all_over());
	rdm_run(t.rig, SECOND);
	for (unsigned n = 0; n < t.nodes; n++)
		if (n != t.gone)
			assert_int_equal(t.out[n][0] + t.out[n][1], 0);
}

/** Check that each operand was added exactly once. Not checked if a node has stopped. */
static void check_words(void)
{
	for (unsigned to = 0; to < t.nodes; to++)
		for (unsigned w = 0; w < WORDS && t.gone == NODES; w++) {
			uint64_t sum, expected = 0;

			for (struct job *j = t.job[0]; j < t.job[0] + t.nodes * JOBS; j++)
				expected +=
					j->good && (j->what == ADD || j->what == FETCH) && j->to == to && j->word == w;
			memcpy(&sum, node(to)->arena + 8 * w, sizeof(sum));
			assert_int_equal(sum, expected);
		}
}

static void open_nodes(uint64_t seed)
{
	t.rig = rdm_rig_create(t.nodes, seed);
	t.sends = seed % 3 == 0 ? 1 + pick(4) : 0;
	t.receives = seed % 3 == 1 ? 1 + pick(3) : 0;
	t.rig->init.max_tx = t.sends;
	t.rig->init.max_rx = t.receives;
	t.rig->quick = seed % 2 ? 1000 : 0; /* fetches take the fast path unless triggers start them */
	for (unsigned n = 0; n < t.nodes; n++) {
		struct rdm_node *at = node(n);

		if (t.sends || t.receives || t.rig->quick) {
			rdm_node_stop(at);
			rdm_node_start(at);
		}
		at->told = told;
		rdm_fill(at, READ_AT, BUFFER, n);
		memset(at->arena + TARGET_AT, BLANK, RDM_ARENA - TARGET_AT);
		for (unsigned c = 0; c < CNTRS; c++)
			nic_trig_cntr_init(&t.cntr[n][c]);
	}
}

static void run(uint64_t seed)
{
	uint64_t refused = t.refused, failed = t.failed, quick = t.quick;
	unsigned steps;

	memset(&t, 0, sizeof(t));
	t.refused = refused;
	t.failed = failed;
	t.quick = quick;
	t.nodes = 2 + (unsigned)(seed % 3);
	t.gone = NODES;
	open_nodes(seed);
	make_jobs();
	t.rig->lose = seed % 4 ? pick(101) : 0;
	t.rig->twice = pick(101);
	t.rig->swap = pick(101);
	steps = 40 + pick(160);
	for (unsigned leaves = seed % 5 ? UINT32_MAX : pick(steps); steps--;) {
		step();
		if (steps == leaves)
			leave(pick(t.nodes));
	}
	finish();
	check_words();
	for (unsigned n = 0; n < t.nodes; n++)
		if (n != t.gone)
			close_counters(n);
	t.quick += t.rig->sent_quick;
	rdm_rig_destroy(t.rig);
}

static uint64_t seed_now;

static int teardown(void **state)
{
	(void)state;
	if (seed_now) /* the seed of the failed run */
		fprintf(stderr, "RDM_SEED=%llu\n", (unsigned long long)seed_now);
	seed_now = 0;
	return 0;
}

static void rdm_trigger__matches_a_model_on_a_lossy_network(void **state)
{
	const char *one = getenv("RDM_SEED"), *many = getenv("RDM_SEEDS");
	uint64_t from = one ? strtoull(one, NULL, 0) : 1;
	uint64_t to = one ? from : many ? strtoull(many, NULL, 0) : SERIES;

	(void)state;
	for (seed_now = from; seed_now <= to; seed_now++)
		run(seed_now);
	seed_now = 0;
	if (!one) { /* rare events have occurred */
		assert_true(t.refused > 0);
		assert_true(t.failed > 0);
		assert_true(t.quick > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(rdm_trigger__matches_a_model_on_a_lossy_network, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
