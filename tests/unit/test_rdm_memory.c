/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rdm_memory.c - reliable-datagram endpoints when memory allocations fail: the error names this host, never the
 * peer; it is returned at once if the request can still be refused; and nothing waits for ever.
 */
#include "rdm_rig.h"

#include "rdm_conn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ull

static bool out_of_memory;
static size_t most; /* while out_of_memory, larger allocations fail */

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__real_realloc(void *at, size_t size);
void *__wrap_realloc(void *at, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	return out_of_memory && n * size > most ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *at, size_t size)
{
	return out_of_memory && size > most ? NULL : __real_realloc(at, size);
}

static int setup(void **state)
{
	*state = rdm_rig_create(2, 7);
	out_of_memory = false;
	most = 0;
	return 0;
}

static int teardown(void **state)
{
	out_of_memory = false;
	rdm_rig_destroy(*state);
	return 0;
}

/** The first request to a peer fails if there is no memory for a queue pair; it succeeds when there is memory again. */
static void rdm__without_memory_for_a_queue_pair_a_request_is_refused(void **state)
{
	struct rdm_rig *rig = *state;
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	assert_int_equal(rdm_recv(b, NULL, 1, 0, 0, 0, 0, 64), 0);
	assert_non_null(rdm_peer(a, b));
	out_of_memory = true;
	assert_int_equal(rdm_send(a, b, 2, 0, 0, 0, 64), -ENOMEM);
	rdm_expect_nothing(a);
	out_of_memory = false;
	assert_int_equal(rdm_send(a, b, 3, 0, 0, 0, 64), 0);
	assert_true(rdm_run(rig, 20 * SECOND));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 3);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1);
}

/** The peer has memory for the queue pair, but not for the responder resources of READs: the request fails as
 * unreachable. */
static void rdm__a_peer_without_memory_to_connect_is_unreachable(void **state)
{
	struct rdm_rig *rig = *state;
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	assert_int_equal(rdm_recv(b, NULL, 1, 0, 0, 0, 0, 64), 0);
	assert_int_equal(rdm_send(a, b, 2, 0, 0, 0, 64), 0);
	out_of_memory = true;
	rdm_run(rig, 20 * SECOND);
	out_of_memory = false;
	/* b could not answer, so to a it is unreachable. */
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_UNREACHABLE, 2);
	assert_int_equal(rdm_send(a, b, 3, 0, 0, 0, 64), 0);
	assert_true(rdm_run(rig, 20 * SECOND));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 3);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1);
}

/** Packet hook: from the moment at which node 1 is connected, there is no memory. */
static bool memory_ends_with_the_answer(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	(void)ip, (void)len;
	out_of_memory |= from == 1 && rdm_peer(&rig->node[1], &rig->node[0])->state == RDM_UP;
	return false;
}

/** The caller runs out of memory when the peer answers: its request fails with NO_MEMORY instead of UNREACHABLE. */
static void rdm__a_caller_without_memory_to_connect_fails_with_no_memory(void **state)
{
	struct rdm_rig *rig = *state;
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	assert_int_equal(rdm_recv(b, NULL, 1, 0, 0, 0, 0, 64), 0);
	assert_int_equal(rdm_send(a, b, 2, 0, 0, 0, 64), 0);
	rig->cut = memory_ends_with_the_answer;
	rdm_run(rig, 20 * SECOND);
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_NO_MEMORY, 2);
	assert_int_equal(nic_counters(a->nic)[NIC_CNT_rdm_unreachable], 0);
	rig->cut = NULL;
	out_of_memory = false;
	assert_int_equal(rdm_send(a, b, 3, 0, 0, 0, 64), 0);
	assert_true(rdm_run(rig, 20 * SECOND));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 3);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1);
}

/** A request to the endpoint itself is refused if there is no memory to connect to itself. */
static void rdm__a_request_to_itself_without_memory_to_connect_is_refused(void **state)
{
	struct rdm_rig *rig = *state;
	struct rdm_node *a = &rig->node[0];
	struct nic_rdm_peer *self = rdm_peer(a, a);

	assert_int_equal(rdm_recv(a, NULL, 1, 0, 0, 0, 0, 64), 0);
	assert_int_equal(rdm_admit(self), 0);
	out_of_memory = true;
	most = 15 * sizeof(struct rdm_op); /* too little for a block of ops */
	assert_int_equal(rdm_send(a, a, 2, 0, 0, 0, 64), -ENOMEM);
	most = 0;
	out_of_memory = false;
	assert_int_equal(rdm_send(a, a, 3, 0, 0, 0, 64), 0);
	assert_true(rdm_run(rig, 20 * SECOND));
	rdm_expect_among(a, NIC_RDM_SEND, 3);
	rdm_expect_among(a, NIC_RDM_RECV, 1);
}

/** A request that waits when its connection fails is sent over the next connection. If there is no memory for the
 * connection, the endpoint tries again for a while. */
static void requests_that_wait(struct rdm_rig *rig, bool comes_back)
{
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	struct nic_rdm_peer *peer = rdm_peer(a, b);

	assert_int_equal(rdm_recv(b, NULL, 1, 0, 0, 0, 0, 64), 0);
	assert_int_equal(rdm_send(a, b, 2, 0, 0, 0, 64), 0);
	assert_true(rdm_run(rig, SECOND / 2));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 2);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1);
	/* A fenced request waits for an earlier one, which never reaches the peer. */
	rig->cut = rdm_cut_all;
	assert_int_equal(rdm_send(a, b, 3, 0, 0, 0, 64), 0);
	assert_int_equal(rdm_send(a, b, 4, NIC_RDM_FENCE, 0, 0, 64), 0);
	rdm_disconnect(peer, NIC_RDM_PEER_LOST);
	rig->cut = NULL;
	out_of_memory = true;
	rdm_wake(peer);
	rdm_run(rig, SECOND / 2);
	out_of_memory = !comes_back;
	assert_int_equal(rdm_recv(b, NULL, 5, 0, 0, 0, 0, 64), 0);
	rdm_run(rig, 20 * SECOND);
	out_of_memory = false;
	for (unsigned i = 0; i < a->n_done; i++)
		if ((uintptr_t)a->done[i].context == 4)
			assert_int_equal(a->done[i].status, comes_back ? NIC_RDM_OK : NIC_RDM_NO_MEMORY);
	assert_int_equal(a->n_done, 3);
	assert_true(nic_counters(a->nic)[NIC_CNT_rdm_no_memory] > 0);
	assert_int_equal(nic_counters(a->nic)[NIC_CNT_rdm_unreachable], 0);
}

static void rdm__waiting_requests_are_sent_once_memory_is_available_again(void **state)
{
	requests_that_wait(*state, true);
}

static void rdm__waiting_requests_fail_when_memory_stays_exhausted(void **state)
{
	requests_that_wait(*state, false);
}

/** A long message needs a memory region of its own: without memory for it, the request fails with NO_MEMORY. */
static void rdm__a_long_message_fails_without_memory_for_its_region(void **state)
{
	struct rdm_rig *rig = *state;
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	assert_int_equal(rdm_recv(b, NULL, 1, 0, 0, 0, 0, 64), 0);
	assert_int_equal(rdm_send(a, b, 2, 0, 0, 0, 64), 0);
	assert_true(rdm_run(rig, 20 * SECOND));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 2);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1);
	out_of_memory = true;
	assert_int_equal(rdm_send(a, b, 3, 0, 0, 0, 100000), 0);
	rdm_run(rig, SECOND / 10);
	out_of_memory = false;
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_NO_MEMORY, 3);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(rdm__without_memory_for_a_queue_pair_a_request_is_refused),
		TEST(rdm__a_peer_without_memory_to_connect_is_unreachable),
		TEST(rdm__a_caller_without_memory_to_connect_fails_with_no_memory),
		TEST(rdm__a_request_to_itself_without_memory_to_connect_is_refused),
		TEST(rdm__waiting_requests_are_sent_once_memory_is_available_again),
		TEST(rdm__waiting_requests_fail_when_memory_stays_exhausted),
		TEST(rdm__a_long_message_fails_without_memory_for_its_region),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
