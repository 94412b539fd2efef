/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_xrc_share_memory.c - NICs that share an XRC domain, without memory now and then: requests fail, if they do, as
 * if the other NIC were gone, nothing is lost for ever, and with memory everything works again. The linker replaces
 * calloc, malloc and realloc.
 */
#include "share_rig.h"

#include <stdlib.h>

#include "share.h"

#define WORD	32768u
#define BUFFER	65536u
#define LONGEST 4096u
#define SERIES	200u

static uint32_t one_of; /* how seldom allocations fail; 0: never */
static size_t none_of;	/* allocations of this size fail; 0: none */
static unsigned none;	/* how many of them */
static uint64_t failures, number;

void *__real_calloc(size_t n, size_t size);
void *__real_malloc(size_t size);
void *__real_realloc(void *p, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *p, size_t size);

static bool fails(void)
{
	bool yes;

	if (!one_of)
		return false;
	number = number * 6364136223846793005u + 1442695040888963407u;
	yes = (number >> 33) % one_of == 0;
	failures += yes;
	return yes;
}

void *__wrap_calloc(size_t n, size_t size)
{
	if (none_of && n * size == none_of) {
		none++;
		return NULL;
	}
	return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_malloc(size_t size)
{
	return fails() ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *p, size_t size)
{
	return fails() ? NULL : __real_realloc(p, size);
}

static void post_many(struct share_rig *rig)
{
	static const enum nic_wr_opcode opcodes[] = {NIC_WR_SEND, NIC_WR_RDMA_READ, NIC_WR_RDMA_WRITE,
						     NIC_WR_ATOMIC_FETCH_AND_ADD};

	for (unsigned k = 0; k < SHARE_WRS; k++) {
		enum nic_wr_opcode opcode = opcodes[share_random(rig, 4)];

		share_post(rig, share_random(rig, 4) ? G : O, opcode, 0,
			   opcode == NIC_WR_ATOMIC_FETCH_AND_ADD ? 8 : share_random(rig, LONGEST), WORD);
	}
}

/** Requests and a call, of which some may fail. */
static void try_many(struct share_rig *rig)
{
	struct nic_xrc_call call = {.verb = NIC_XRC_QUERY, .qpn = rig->target};

	for (unsigned n = O; n <= G; n++)
		for (unsigned k = 0; k < 2; k++)
			share_recv(&rig->node[n], k, BUFFER, LONGEST);
	post_many(rig);
	one_of = 10 + share_random(rig, 200);
	nic_xrc_call(rig->node[G].xrcd, &call);
	assert_true(share_await(rig, rig->node[I].cq, SHARE_WRS, 120 * SHARE_SECOND));
	if (!call.done)
		nic_xrc_forget(&call);
	one_of = 0;
	share_run(rig, 20 * SHARE_SECOND);
}

static void check_works(struct share_rig *rig)
{
	struct nic_wc wc;

	share_connect(rig, share_random(rig, 1 << 24), 1);
	share_run(rig, SHARE_SECOND);
	while (nic_cq_poll(rig->node[I].cq, 1, &wc) == 1)
		;
	for (unsigned n = O; n <= G; n++) {
		struct share_node *to = &rig->node[n];
		unsigned arrived = 0;

		while (nic_cq_poll(to->cq, 1, &wc) == 1)
			;
		share_fill(rig->node[I].arena, 3000, n);
		share_recv(to, 9, BUFFER, LONGEST);
		share_post(rig, n, NIC_WR_SEND, 0, 3000, 0);
		share_expect(&rig->node[I], NIC_WC_SUCCESS);
		for (; nic_cq_poll(to->cq, 1, &wc) == 1; arrived += wc.status == NIC_WC_SUCCESS)
			assert_true(wc.status == NIC_WC_SUCCESS || wc.status == NIC_WC_WR_FLUSH_ERR);
		assert_int_equal(arrived, 1);
		assert_true(share_holds(to->arena + BUFFER, 3000, n));
	}
}

static void xrc_share__without_memory_requests_fail_and_nothing_else(void **state)
{
	(void)state;
	failures = 0;
	for (unsigned seed = 0; seed < SERIES; seed++) {
		struct share_rig *rig = share_create(seed, seed & 1);

		rig->attr.rnr_retry = 3;
		share_connect(rig, 3, 4);
		number = seed;
		for (unsigned round = 0; round < 3; round++) {
			try_many(rig);
			check_works(rig);
		}
		share_destroy(rig);
	}
	assert_true(failures > SERIES);
}

/** For a refusal there is no memory: the owner asks again. The peer sends its request once only. */
static void xrc_share__a_refusal_without_memory_follows(void **state)
{
	struct share_rig *rig = share_create(1, false);

	(void)state;
	rig->attr.timeout = 0;
	share_recv(&rig->node[G], 2, BUFFER, LONGEST);
	share_post(rig, G, NIC_WR_SEND, 0, 100, 0); /* the NICs connect */
	share_expect(&rig->node[I], NIC_WC_SUCCESS);
	share_connect(rig, 3, 4);
	rig->node[O].banned = true;
	none = 0;
	none_of = sizeof(struct xrc_msg) + sizeof(struct xrc_return);
	share_recv(&rig->node[G], 1, BUFFER, LONGEST);
	share_post(rig, G, NIC_WR_SEND, 0, 100, 0);
	share_run(rig, SHARE_SECOND);
	assert_int_equal(nic_cq_count(rig->node[I].cq), 0);
	none_of = 0;
	assert_int_equal(none, 1);
	share_run(rig, 10 * SHARE_SECOND);
	share_expect(&rig->node[I], NIC_WC_REM_INV_REQ_ERR);
	share_destroy(rig);
}

/** For the first message to a NIC there is no memory: the peer sends its request again. */
static void xrc_share__a_link_without_memory_follows(void **state)
{
	struct share_rig *rig = share_create(1, false);

	(void)state;
	none = 0;
	none_of = sizeof(struct xrc_link);
	share_recv(&rig->node[G], 1, BUFFER, LONGEST);
	share_post(rig, G, NIC_WR_SEND, 0, 100, 0);
	share_run(rig, SHARE_SECOND / 1000);
	none_of = 0;
	assert_true(none > 0);
	share_expect(&rig->node[I], NIC_WC_SUCCESS);
	share_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(xrc_share__without_memory_requests_fail_and_nothing_else),
		cmocka_unit_test(xrc_share__a_refusal_without_memory_follows),
		cmocka_unit_test(xrc_share__a_link_without_memory_follows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
