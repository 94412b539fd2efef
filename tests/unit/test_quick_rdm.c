/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_quick_rdm.c - the fast path for fetching one element (quick.h), between endpoints. Two pairs of endpoints get
 * the same requests; one pair is on a path that gives room. Their packets in each direction, completions, memory and
 * counters must be the same.
 */
#include "elements_util.h"
#include "quick_util.h"
#include "rdm_rig.h"
#include "wire.h"

#define SECOND	1000000000ull
#define LOG	600u
#define CELLS	1024u /* offset in the target's arena of what fetches operate on */
#define RESULTS 65536u

/** The packets of one direction: from the BTH on, without ICRC, and without addresses, which differ between rigs. */
struct log {
	unsigned n;
	uint32_t len[LOG];
	uint8_t data[LOG][64];
};

static struct log sent_by[2][2]; /* by rig and node */
static struct rdm_rig *rigs[2];	 /* with and without room */

static bool lose_read[2]; /* by rig: lose the next READ response */

static bool record(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	bool *lose = &lose_read[rig == rigs[1]], lost = *lose && ip[28] == READ_RESP_ONLY;
	struct log *log = &sent_by[rig == rigs[1]][from];
	uint8_t *to = log->data[log->n];

	if (rdm_call_of(ip, len) != NO_CALL)
		return false;
	len -= 28 + ICRC_LEN;
	assert_true(log->n < LOG);
	log->len[log->n++] = len;
	memset(to, 0, sizeof(log->data[0]));
	memcpy(to, ip + 28, len < sizeof(log->data[0]) ? len : sizeof(log->data[0]));
	if (to[0] == FETCH_ELEMENTS || to[0] == ELEMENTS || to[0] == READ_REQ)
		memset(to + BTH_LEN, 0, 8);
	if (to[0] == ELEMENTS) /* a run has more addresses */
		memset(to + BTH_LEN + ELEMENTETH_LEN, 0, sizeof(log->data[0]) - BTH_LEN - ELEMENTETH_LEN);
	*lose &= !lost;
	return lost;
}

static void expect_same_logs(void)
{
	for (unsigned from = 0; from < 2; from++) {
		const struct log *a = &sent_by[0][from], *b = &sent_by[1][from];

		assert_int_equal(a->n, b->n);
		assert_memory_equal(a->len, b->len, a->n * sizeof(a->len[0]));
		for (unsigned i = 0; i < a->n; i++)
			assert_memory_equal(a->data[i], b->data[i], sizeof(a->data[i]));
	}
}

static struct rdm_rig *endpoints(uint64_t seed, bool no_room)
{
	struct rdm_rig *rig = rdm_rig_create(2, seed);

	rig->quick = 1000;
	rig->no_room = no_room;
	rig->lossless = seed % 3 > 0; /* as links are */
	for (unsigned i = 0; i < 2; i++) {
		rdm_node_stop(&rig->node[i]);
		rdm_node_start(&rig->node[i]);
		rdm_fill(&rig->node[i], 0, RDM_ARENA, i);
	}
	rig->cut = record;
	return rig;
}

/** An operation on elements as random numbers choose it, mostly a fetch of one. */
static int random_request(struct rdm_rig *rig, uint64_t random, uint32_t id, bool without_result)
{
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	uint32_t op = pick(&random, NIC_ELEM_COUNT), type = pick(&random, NIC_DT_COUNT), count, len;
	enum nic_elem_form form = elem_compares(op) ? NIC_ELEM_COMPARE : NIC_ELEM_FETCH;
	struct nic_iov operand[2], compare[2], result[2];
	struct nic_rdm_remote remote[2];
	struct nic_rdm_atomic r = {.context = (void *)(uintptr_t)id,
				   .cookie = id * 3,
				   .op = (uint8_t)op,
				   .operand = operand,
				   .compare = compare,
				   .result = result,
				   .remote = remote,
				   .n_remote = 1};

	while (!nic_elem_valid(op, type, form) || (pick(&random, 2) && nic_elem_size(type) != 8))
		type = pick(&random, NIC_DT_COUNT);
	count = pick(&random, 6) ? 1 : pick(&random, 4);
	len = count * nic_elem_size(type);
	r.datatype = (uint8_t)type;
	r.n_result = !without_result;
	r.n_operand = elem_vectors(op) > 0 || pick(&random, 50) == 0;
	r.n_compare = elem_vectors(op) > 1 || pick(&random, 50) == 0;
	r.flags = pick(&random, 3) ? 0 : NIC_RDM_INJECT;
	r.flags |= pick(&random, 20) ? 0 : (uint32_t[]){NIC_RDM_FENCE, NIC_RDM_UNAWAITED, NIC_RDM_CHECK}[id % 3];
	operand[0] = (struct nic_iov){a->arena + 64 * pick(&random, 100), len};
	compare[0] = (struct nic_iov){a->arena + 64 * pick(&random, 100), len};
	result[0] = (struct nic_iov){a->arena + RESULTS + 128 * id, len};
	remote[0] = remote[1] =
		(struct nic_rdm_remote){(uintptr_t)b->arena + CELLS + 32 * pick(&random, 8), len, nic_mr_rkey(b->mr)};
	switch (pick(&random, 400)) {
	case 0:
		remote->len += 4;
		break;
	case 1:
		operand[0].len += 8;
		break;
	case 2:
		result[0].len -= result[0].len > 0;
		break;
	case 3: /* two segments */
		result[1] = (struct nic_iov){(uint8_t *)result[0].base + len, 0};
		r.n_result *= 2;
		break;
	case 4:
		r.datatype = NIC_DT_COUNT;
		break;
	case 5:
		r.op = NIC_ELEM_COUNT;
		break;
	case 6:
		r.n_remote = 2 * pick(&random, 2);
		break;
	default:
		break;
	}
	return nic_rdm_atomic(rdm_peer(a, b), &r);
}

static int random_read(struct rdm_rig *rig, uint64_t random, uint32_t id)
{
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	const struct nic_iov iov = {a->arena + RESULTS + 128 * id, 8 * pick(&random, 10)};
	const struct nic_rdm_remote remote = {(uintptr_t)b->arena + CELLS, iov.len, nic_mr_rkey(b->mr)};
	const struct nic_rdm_rma r = {.context = (void *)(uintptr_t)id,
				      .read = true,
				      .iov = &iov,
				      .n_iov = 1,
				      .remote = &remote,
				      .n_remote = 1};

	return nic_rdm_rma(rdm_peer(a, b), &r);
}

static void expect_same_completions(void)
{
	struct rdm_node *a = &rigs[0]->node[0], *b = &rigs[1]->node[0];

	assert_int_equal(a->n_done, b->n_done);
	for (; a->n_seen < a->n_done; a->n_seen++, b->n_seen++) {
		const struct nic_rdm_done *one = &a->done[a->n_seen], *other = &b->done[b->n_seen];

		assert_ptr_equal(one->context, other->context);
		assert_int_equal(one->cookie, other->cookie);
		assert_int_equal(one->status, other->status);
		assert_int_equal(one->kind, other->kind);
		assert_int_equal(one->flags, other->flags);
		assert_int_equal(one->len, other->len);
	}
}

static uint64_t sent_at_once;

static void run_endpoints(uint64_t seed)
{
	uint64_t random = seed;

	memset(sent_by, 0, sizeof(sent_by));
	lose_read[0] = lose_read[1] = false;
	for (unsigned i = 0; i < 2; i++)
		rigs[i] = endpoints(seed, i == 1);
	for (uint32_t id = 1; id <= 100; id++) {
		bool read = pick(&random, 10) == 0, acknowledged = !read && pick(&random, 10) == 0;
		int err[2];

		for (unsigned i = 0; acknowledged && i < 2; i++)
			rdm_run(rigs[i], SECOND); /* when ACKs go out is a matter of what else does */
		for (unsigned i = 0; i < 2; i++) {
			rigs[i]->node[0].unmapped = (random >> 20) % 60 == 0;
			err[i] = read ? random_read(rigs[i], random, id)
				      : random_request(rigs[i], random, id, acknowledged);
			rigs[i]->node[0].unmapped = false;
		}
		assert_int_equal(err[0], err[1]);
		if (read && pick(&random, 2)) { /* the next request is made while the READ is unanswered */
			for (unsigned i = 0; i < 2; i++) {
				lose_read[i] = true;
				rdm_run(rigs[i], 50000);
			}
			continue;
		}
		if (pick(&random, 200) == 0) { /* one side leaves */
			unsigned n = pick(&random, 2);

			for (unsigned i = 0; i < 2; i++) {
				rdm_run(rigs[i], SECOND);
				nic_rdm_leave(rigs[i]->node[n].ep);
				rdm_run(rigs[i], 50000);
			}
		}
		if (!acknowledged && pick(&random, 2))
			continue; /* the next request is made before this one is answered */
		for (unsigned i = 0; i < 2; i++)
			rdm_run(rigs[i], SECOND);
		expect_same_completions();
	}
	for (unsigned i = 0; i < 2; i++)
		rdm_run(rigs[i], SECOND);
	expect_same_completions();
	expect_same_logs();
	for (unsigned i = 0; i < 2; i++) {
		expect_same_counters(rigs[0]->node[i].nic, rigs[1]->node[i].nic);
		assert_memory_equal(rigs[0]->node[i].arena, rigs[1]->node[i].arena, RDM_ARENA);
		assert_int_equal(rigs[0]->node[i].n_read, rigs[1]->node[i].n_read);
		assert_int_equal(rigs[0]->node[i].n_written, rigs[1]->node[i].n_written);
	}
	sent_at_once += rigs[0]->sent_quick;
	assert_int_equal(rigs[1]->sent_quick, 0);
	rdm_rig_destroy(rigs[0]);
	rdm_rig_destroy(rigs[1]);
}

static void quick__requests_are_those_of_the_general_code(void **state)
{
	(void)state;
	for (seed_now = 1; seed_now <= 600; seed_now++)
		run_endpoints(seed_now);
	seed_now = 0;
	assert_true(sent_at_once > 1000);
}

/** The NIC may not have been told the time for long before a request is sent at once. */
static void quick__the_ack_timer_starts_when_the_request_is_sent(void **state)
{
	struct rdm_rig *rig = endpoints(1, false);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	const struct nic_iov operand = {a->arena, 8}, result = {a->arena + RESULTS, 8};
	const struct nic_rdm_remote remote = {(uintptr_t)b->arena + CELLS, 8, nic_mr_rkey(b->mr)};
	const struct nic_rdm_atomic r = {.op = NIC_ELEM_SUM,
					 .datatype = NIC_DT_UINT64,
					 .operand = &operand,
					 .n_operand = 1,
					 .result = &result,
					 .n_result = 1,
					 .remote = &remote,
					 .n_remote = 1};

	(void)state;
	rig->cut = NULL;
	assert_int_equal(nic_rdm_atomic(rdm_peer(a, b), &r), 0);
	rdm_run(rig, SECOND);
	assert_int_equal(rig->sent_quick, 0);
	rig->now += 10 * SECOND;
	assert_int_equal(nic_rdm_atomic(rdm_peer(a, b), &r), 0);
	assert_int_equal(rig->sent_quick, 1);
	assert_true(nic_next_deadline(a->nic) > rig->now);
	assert_true(nic_next_deadline(a->nic) < rig->now + SECOND);
	rdm_rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quick__the_ack_timer_starts_when_the_request_is_sent),
		cmocka_unit_test_teardown(quick__requests_are_those_of_the_general_code, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
