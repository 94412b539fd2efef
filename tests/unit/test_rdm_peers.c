/* SPDX-License-Identifier: BSD-3-Clause */
/* test_rdm_peers.c - an endpoint with thousands of peers: all can reach it, and each costs little memory and time. */
#include "rdm_rig.h"

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define SECOND	       1000000000u
#define PEERS	       4096u
#define PEER_BYTES     4096u
#define ENDPOINT_BYTES (512u << 10)

#ifndef __has_feature
#define __has_feature(x) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || __has_feature(address_sanitizer) ||               \
	__has_feature(thread_sanitizer)
#define SANITIZED true /* mallinfo2() does not see the sanitizers' heaps */
#else
#define SANITIZED false
#endif

static size_t heap_bytes(void)
{
	struct mallinfo2 m = mallinfo2();

	return m.uordblks + m.hblkhd;
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * SECOND + (uint64_t)t.tv_nsec;
}

static void answered(void *ctx, const struct nic_rdm_done *done)
{
	assert_int_equal(done->status, NIC_RDM_OK);
	++*(unsigned *)ctx;
}

/** Thousands of endpoints, one after the other: each sends a message, is answered, and disappears without a BYE. */
static void rdm__4096_peers_take_little_memory_each(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 1);
	struct rdm_node *hub = &rig->node[0], *n = &rig->node[1];
	unsigned dones = 0;
	struct nic_rdm_init init = {.pd = n->pd, .addr = n->addr, .done = answered, .ctx = &dones};
	const struct nic_iov iov = {n->arena, 8};
	const struct nic_rdm_send s = {.iov = &iov, .n_iov = 1};
	const struct nic_rdm_recv r = {.iov = &iov, .n_iov = 1};
	size_t before = heap_bytes(), bytes;
	uint64_t spent_ns = 0, packets = rig->sent, begin_ns;

	(void)state;
	for (unsigned i = 0; i < PEERS; i++) {
		const struct nic_rdm_addr addr = {.gid = n->gid, .port = (uint16_t)(1000 + i)};
		struct nic_rdm *ep;

		init.addr.port = addr.port;
		assert_int_equal(nic_rdm_create(n->nic, &init, &ep), 0);
		begin_ns = now_ns();
		assert_int_equal(nic_rdm_send(nic_rdm_peer_get(ep, &hub->addr), &s), 0);
		assert_int_equal(nic_rdm_recv(ep, &r), 0);
		assert_int_equal(rdm_recv(hub, NULL, 1, 0, 0, 0, 0, 8), 0);
		assert_int_equal(nic_rdm_send(nic_rdm_peer_get(hub->ep, &addr), &s), 0);
		assert_true(rdm_run(rig, SECOND));
		spent_ns += now_ns() - begin_ns;
		assert_int_equal(dones, 2 * (i + 1));
		rdm_expect(hub, NIC_RDM_SEND, NIC_RDM_OK, 0);
		rdm_expect(hub, NIC_RDM_RECV, NIC_RDM_OK, 1);
		hub->n_done = hub->n_seen = 0;
		nic_rdm_destroy(ep);
	}
	bytes = (heap_bytes() - before) / PEERS;
	printf("to connect with a peer and to talk takes %.0f us of both sides, and %.1f packets\n",
	       (double)spent_ns / PEERS / 1e3, (double)(rig->sent - packets) / PEERS);
	if (!SANITIZED) {
		printf("a peer costs %zu bytes\n", bytes);
		assert_in_range(bytes, 1, PEER_BYTES);
	}
	rdm_rig_destroy(rig);
}

/** An idle endpoint takes little memory, although it may have many requests outstanding and owe many answers. */
static void rdm__an_idle_endpoint_takes_little_memory(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 2);
	struct rdm_node *n = &rig->node[0];
	unsigned dones = 0;
	struct nic_rdm_init init = {.pd = n->pd, .addr = n->addr, .done = answered, .ctx = &dones};
	size_t before = heap_bytes(), bytes;
	struct nic_rdm *ep;

	(void)state;
	init.addr.port = 1000;
	assert_int_equal(nic_rdm_create(n->nic, &init, &ep), 0);
	bytes = heap_bytes() - before;
	if (!SANITIZED) {
		printf("an endpoint costs %zu bytes\n", bytes);
		assert_in_range(bytes, 1, ENDPOINT_BYTES);
	}
	nic_rdm_destroy(ep);
	rdm_rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdm__an_idle_endpoint_takes_little_memory),
		cmocka_unit_test(rdm__4096_peers_take_little_memory_each),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
