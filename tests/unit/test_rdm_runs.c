/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rdm_runs.c - element operations of reliable-datagram endpoints that share a packet (a run): each completes,
 * counts and fails as if sent alone, even when packets are lost, duplicated or swapped. Only peers that accept runs get
 * them.
 */
#include "rdm_rig.h"

#include <string.h>

#define SECOND 1000000000ull
#define QUIET  (20 * SECOND)
#define SUMS   (RDM_ARENA / 2) /* offset of the sums in the target's arena */

static uint64_t counted(const struct rdm_node *n, enum nic_counter counter)
{
	return nic_counters(n->nic)[counter];
}

static uint64_t value(const struct rdm_node *n, uint32_t i)
{
	uint64_t v;

	memcpy(&v, n->arena + SUMS + (size_t)8 * i, 8);
	return v;
}

/** Add `add` to element i at `to`. Each operand has its own place in the arena, not reused until its
 * request completes. */
static int sum(struct rdm_node *from, struct rdm_node *to, uintptr_t context, uint32_t flags, uint64_t i, uint64_t add)
{
	uint8_t *at = from->arena + 8 * (context % 4096);
	const struct nic_iov operand = {at, 8};
	const struct nic_rdm_remote remote = {(uintptr_t)to->arena + SUMS + 8 * i, 8, nic_mr_rkey(to->mr)};
	const struct nic_rdm_atomic r = {.context = (void *)context,
					 .cookie = ~(uint64_t)context,
					 .flags = flags,
					 .op = NIC_ELEM_SUM,
					 .datatype = NIC_DT_UINT64,
					 .operand = &operand,
					 .n_operand = 1,
					 .remote = &remote,
					 .n_remote = 1};
	int err;

	memcpy(at, &add, 8);
	err = nic_rdm_atomic(rdm_peer(from, to), &r);
	if (flags & NIC_RDM_INJECT)
		memset(at, 0xee, 8);
	return err;
}

static void rdm_runs__each_operation_completes_as_if_sent_alone(void **state)
{
	static const uint32_t flags[] = {0, NIC_RDM_INJECT, NIC_RDM_UNAWAITED, NIC_RDM_DELIVERY};
	struct rdm_rig *rig = rdm_rig_create(2, 1);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	for (uint32_t i = 0; i < 100; i++)
		assert_int_equal(sum(a, b, i, flags[i % 4], i % 7, i), 0);
	assert_true(rdm_run(rig, QUIET));
	for (uint32_t i = 0; i < 100; i++) {
		struct nic_rdm_done d = rdm_expect(a, NIC_RDM_ATOMIC, NIC_RDM_OK, i);

		assert_int_equal(d.cookie, ~(uint64_t)i);
		assert_int_equal(d.len, 8);
		assert_int_equal(d.flags, flags[i % 4] & NIC_RDM_INJECT);
	}
	rdm_expect_nothing(a);
	for (uint32_t k = 0; k < 7; k++) {
		uint64_t all = 0;

		for (uint32_t i = k; i < 100; i += 7)
			all += i;
		assert_int_equal(value(b, k), all);
	}
	assert_int_equal(b->n_written, 100);
	assert_int_equal(counted(b, NIC_CNT_rx_atomic_requests), 100);
	assert_true(counted(a, NIC_CNT_requests_joined) >= 90);
	rdm_rig_destroy(rig);
}

/** Sums and products alternate: operations are executed in the order of posting: (((0 + 1) * 2 + 1) * 2 + ... */
static void rdm_runs__operations_execute_in_posting_order(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 2);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	uint64_t two = 2, expected = 0;

	assert_int_equal(sum(a, b, 0, 0, 0, 0), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_ATOMIC, NIC_RDM_OK, 0);
	for (uint32_t i = 1; i < 120; i++) {
		const struct nic_iov operand = {&two, 8};
		const struct nic_rdm_remote remote = {(uintptr_t)b->arena + SUMS, 8, nic_mr_rkey(b->mr)};
		const struct nic_rdm_atomic twice = {.context = (void *)(uintptr_t)i,
						     .op = NIC_ELEM_PROD,
						     .datatype = NIC_DT_UINT64,
						     .operand = &operand,
						     .n_operand = 1,
						     .remote = &remote,
						     .n_remote = 1};

		if (i % 6 == 5) {
			assert_int_equal(nic_rdm_atomic(rdm_peer(a, b), &twice), 0);
			expected *= 2;
		} else {
			assert_int_equal(sum(a, b, i, i % 11 ? 0 : NIC_RDM_FENCE, 0, i), 0);
			expected += i;
		}
	}
	assert_true(rdm_run(rig, QUIET));
	for (uint32_t i = 1; i < 120; i++)
		rdm_expect(a, NIC_RDM_ATOMIC, NIC_RDM_OK, i);
	assert_int_equal(value(b, 0), expected);
	assert_true(counted(a, NIC_CNT_requests_joined) > 20);
	rdm_rig_destroy(rig);
}

/** One operation of a run is refused: those before it are done, those after it are flushed, and later ones use a new
 * connection. */
static void rdm_runs__a_refused_operation_flushes_those_after_it(void **state)
{
	for (uint32_t bad = 0; bad < 20; bad += 3) {
		struct rdm_rig *rig = rdm_rig_create(2, 3);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

		for (uint32_t i = 0; i < 20; i++)
			assert_int_equal(sum(a, b, i, 0, i == bad ? RDM_ARENA : i, 1), 0);
		assert_true(rdm_run(rig, QUIET));
		for (uint32_t i = 0; i < 20; i++) {
			uint32_t status = i < bad    ? (uint32_t)NIC_RDM_OK
					  : i == bad ? (uint32_t)NIC_WC_REM_ACCESS_ERR
						     : (uint32_t)NIC_WC_WR_FLUSH_ERR;

			rdm_expect(a, NIC_RDM_ATOMIC, status, i);
			assert_int_equal(value(b, i), i < bad);
		}
		rdm_expect_nothing(a);
		assert_int_equal(b->n_written, bad);
		assert_int_equal(sum(a, b, 30, 0, 19, 5), 0);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(a, NIC_RDM_ATOMIC, NIC_RDM_OK, 30);
		assert_int_equal(value(b, 19), 5);
		rdm_rig_destroy(rig);
	}
}

/** Both sides add to each other's sums at the same time, on a bad network: each operation is executed once. */
static void rdm_runs__each_operation_executes_once_on_a_lossy_network(void **state)
{
	uint64_t joined = 0;

	for (uint64_t seed = 0; seed < 30; seed++) {
		struct rdm_rig *rig = rdm_rig_create(2, 100 + seed);
		uint64_t expected[2][5] = {{0}};
		uint32_t asked[2] = {0};

		rig->lose = 30 + (uint32_t)(seed % 3) * 40;
		rig->twice = 50;
		rig->swap = 50;
		for (uint32_t i = 0; i < 400; i++) {
			uint32_t side = rdm_random(rig, 2), k = rdm_random(rig, 5), add = rdm_random(rig, 1000);

			assert_int_equal(sum(&rig->node[side], &rig->node[!side], asked[side]++, 0, k, add), 0);
			expected[!side][k] += add;
			if (rdm_random(rig, 8) == 0)
				rdm_run(rig, rdm_random(rig, 20000));
		}
		assert_true(rdm_run(rig, 1000 * SECOND));
		for (uint32_t side = 0; side < 2; side++) {
			for (uint32_t i = 0; i < asked[side]; i++)
				rdm_expect(&rig->node[side], NIC_RDM_ATOMIC, NIC_RDM_OK, i);
			for (uint32_t k = 0; k < 5; k++)
				assert_int_equal(value(&rig->node[side], k), expected[side][k]);
			assert_int_equal(rig->node[side].n_written, asked[!side]);
			joined += counted(&rig->node[side], NIC_CNT_requests_joined);
		}
		rdm_rig_destroy(rig);
	}
	assert_true(joined > 2000);
}

/* ---- endpoints that end ----------------------------------------------------------------------------------------- */

static bool cut_answers(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	return from == 1;
}

/** No ACK arrives, so operations wait to be sent together as a run. When the endpoint is told not to delay them, they
 * are sent nevertheless. */
static void rdm_runs__waiting_operations_are_sent_when_delay_is_disabled(void **state)
{
	for (unsigned all = 0; all < 2; all++) {
		struct rdm_rig *rig = rdm_rig_create(2, 7);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

		assert_int_equal(sum(a, b, 0, 0, 0, 1), 0);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(a, NIC_RDM_ATOMIC, NIC_RDM_OK, 0);
		rig->cut = cut_answers;
		for (uint32_t i = 0; i < 10; i++) {
			assert_int_equal(sum(a, b, i, 0, 0, 1), 0);
			rdm_run(rig, 10000);
		}
		assert_true(value(b, 0) < 11);
		if (all)
			nic_rdm_no_delay_all(a->nic);
		else
			nic_rdm_no_delay(a->ep);
		assert_int_equal(sum(a, b, 10, 0, 0, 1), 0);
		rdm_run(rig, 20000);
		assert_int_equal(value(b, 0), 12);
		assert_int_equal(counted(b, NIC_CNT_duplicate_request), 0);
		rdm_rig_destroy(rig);
	}
}

/* ---- peers that accept runs ------------------------------------------------------------------------------------ */

#define TAKES (20 + 8 + 12 + 8 + 7) /* offset of rdm_call.takes in a packet; IP, UDP, BTH and DETH come first */

static struct rdm_rig *deaf;

/** Packet hook: clear the field of node 1's calls that says that node 1 accepts runs. The calls then look like those of
 * an implementation that does not know runs. */
static bool forget(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	uint8_t copy[NIC_FRAME_MAX];
	const struct nic_rx_frame frame = {.data = copy, .len = len, .flags = NIC_RX_NO_ICRC};

	if (from != 1 || rdm_call_of(ip, len) == NO_CALL)
		return false;
	memcpy(copy, ip, len);
	assert_int_equal(copy[TAKES], 1);
	copy[TAKES] = 0;
	copy[26] = copy[27] = 0; /* no UDP checksum */
	deaf = rig;
	nic_rx(rig->node[0].nic, &frame, rig->now);
	return true;
}

static void rdm_runs__are_not_sent_to_peers_without_support(void **state)
{
	for (unsigned first = 0; first < 2;
	     first++) { /* the node that calls: node 0 gets a WELCOME if it calls, else a HELLO */
		struct rdm_rig *rig = rdm_rig_create(2, 5);

		rig->cut = forget;
		deaf = NULL;
		for (unsigned turn = 0; turn < 2; turn++) {
			struct rdm_node *from = &rig->node[turn ^ first], *to = &rig->node[!(turn ^ first)];

			for (uint32_t i = 0; i < 40; i++)
				assert_int_equal(sum(from, to, i, 0, i, 1), 0);
			assert_true(rdm_run(rig, QUIET));
			for (uint32_t i = 0; i < 40; i++)
				rdm_expect(from, NIC_RDM_ATOMIC, NIC_RDM_OK, i);
		}
		assert_ptr_equal(deaf, rig);
		assert_int_equal(counted(&rig->node[0], NIC_CNT_requests_joined), 0);
		assert_true(counted(&rig->node[1], NIC_CNT_requests_joined) >= 30);
		rdm_rig_destroy(rig);
	}
}

static void rdm_runs__an_endpoint_sends_them_to_itself(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(1, 6);
	struct rdm_node *a = &rig->node[0];

	for (uint32_t i = 0; i < 40; i++)
		assert_int_equal(sum(a, a, i, 0, i % 3, 1), 0);
	assert_true(rdm_run(rig, QUIET));
	for (uint32_t i = 0; i < 40; i++)
		rdm_expect(a, NIC_RDM_ATOMIC, NIC_RDM_OK, i);
	assert_int_equal(value(a, 0) + value(a, 1) + value(a, 2), 40);
	assert_true(counted(a, NIC_CNT_requests_joined) >= 30);
	rdm_rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdm_runs__each_operation_completes_as_if_sent_alone),
		cmocka_unit_test(rdm_runs__operations_execute_in_posting_order),
		cmocka_unit_test(rdm_runs__a_refused_operation_flushes_those_after_it),
		cmocka_unit_test(rdm_runs__each_operation_executes_once_on_a_lossy_network),
		cmocka_unit_test(rdm_runs__waiting_operations_are_sent_when_delay_is_disabled),
		cmocka_unit_test(rdm_runs__are_not_sent_to_peers_without_support),
		cmocka_unit_test(rdm_runs__an_endpoint_sends_them_to_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
