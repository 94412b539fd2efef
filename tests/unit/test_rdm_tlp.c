/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rdm_tlp.c - reliable-datagram endpoints retransmit a late packet before the ACK timer expires (tail loss probe).
 * A packet takes one microsecond on the network here.
 */
#include "rdm_rig.h"

#include <string.h>

#define MS     1000000ull
#define SECOND (1000 * MS)
#define LEN    64u
#define LEARNS 40u /* messages from which an endpoint learns how long answers take */
#define ACK    (67 * MS)

static unsigned cuts; /* the number of packets of node 0 to lose from now on */

static bool cut(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	(void)rig;
	(void)ip;
	(void)len;
	if (from != 0 || cuts == 0)
		return false;
	cuts--;
	return true;
}

/** Create two endpoints that have exchanged enough messages to know the round-trip time. */
static struct rdm_rig *talking(uint64_t peer_ns)
{
	struct rdm_rig *rig = rdm_rig_create(2, 3);

	rig->cut = cut;
	cuts = 0;
	for (unsigned i = 0; i < 2; i++) {
		rdm_node_stop(&rig->node[i]);
		rig->init.peer_ns = peer_ns;
		rdm_node_start(&rig->node[i]);
	}
	for (unsigned i = 0; i < LEARNS; i++) {
		assert_int_equal(rdm_recv(&rig->node[1], NULL, i, 0, 0, 0, 0, LEN), 0);
		assert_int_equal(rdm_send(&rig->node[0], &rig->node[1], i, 0, 0, 0, LEN), 0);
		assert_true(rdm_run(rig, SECOND));
		rdm_expect(&rig->node[1], NIC_RDM_RECV, NIC_RDM_OK, i);
		rdm_expect(&rig->node[0], NIC_RDM_SEND, NIC_RDM_OK, i);
	}
	return rig;
}

static uint64_t counted(struct rdm_node *n, unsigned counter)
{
	return nic_counters(n->nic)[counter];
}

static void rdm_tlp__a_single_lost_message_is_soon_retransmitted(void **state)
{
	struct rdm_rig *rig = talking(0);

	(void)state;
	assert_int_equal(counted(&rig->node[0], NIC_CNT_retransmitted), 0);
	assert_int_equal(rdm_recv(&rig->node[1], NULL, 1, 0, 0, 0, 0, LEN), 0);
	cuts = 1;
	assert_int_equal(rdm_send(&rig->node[0], &rig->node[1], 2, 0, 0, 0, LEN), 0);
	rdm_run(rig, 2 * MS);
	rdm_expect(&rig->node[1], NIC_RDM_RECV, NIC_RDM_OK, 1);
	rdm_expect(&rig->node[0], NIC_RDM_SEND, NIC_RDM_OK, 2);
	assert_int_equal(counted(&rig->node[0], NIC_CNT_tail_loss_probes), 1);
	assert_int_equal(counted(&rig->node[0], NIC_CNT_retransmitted), 1);
	/* Lost twice: the second probe is sent after twice the time. */
	assert_int_equal(rdm_recv(&rig->node[1], NULL, 3, 0, 0, 0, 0, LEN), 0);
	cuts = 2;
	assert_int_equal(rdm_send(&rig->node[0], &rig->node[1], 4, 0, 0, 0, LEN), 0);
	rdm_run(rig, 5 * MS);
	rdm_expect(&rig->node[1], NIC_RDM_RECV, NIC_RDM_OK, 3);
	assert_int_equal(counted(&rig->node[0], NIC_CNT_local_ack_timeout_err), 0);
	rdm_rig_destroy(rig);
}

/* A silent peer gets a few probes, each after twice the time of the one before, and none after the ACK timer has
 * expired. */
static void rdm_tlp__a_silent_peer_gets_few_probes(void **state)
{
	struct rdm_rig *rig = talking(2 * SECOND);
	struct rdm_node *a = &rig->node[0];
	uint64_t probes;

	(void)state;
	cuts = UINT32_MAX;
	assert_int_equal(rdm_send(a, &rig->node[1], 1, 0, 0, 0, LEN), 0);
	rdm_run(rig, ACK);
	probes = counted(a, NIC_CNT_tail_loss_probes);
	assert_in_range(probes, 2, 8);
	assert_int_equal(counted(a, NIC_CNT_local_ack_timeout_err), 0);
	rdm_run(rig, 2 * SECOND - ACK);
	rdm_expect_nothing(a);
	assert_int_equal(counted(a, NIC_CNT_tail_loss_probes), probes);
	assert_true(counted(a, NIC_CNT_local_ack_timeout_err) > 1);
	rdm_run(rig, SECOND / 3);
	rdm_expect(a, NIC_RDM_SEND, NIC_WC_RETRY_EXC_ERR, 1);
	rdm_rig_destroy(rig);
}

static uint64_t slow_ns; /* extra time that packets of node 1 take */

static bool slowly(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	(void)ip;
	(void)len;
	if (from == 1)
		rig->now += slow_ns;
	return false;
}

/* The peer's answers get slower, so the time until a probe grows. The test delays answers by moving the clock ahead.
 * Then it loses a packet to check whether the time until a probe has grown. */
static void rdm_tlp__a_slow_peer_gets_more_time(void **state)
{
	struct rdm_rig *rig = talking(0);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	rig->cut = slowly;
	slow_ns = 10 * MS;
	for (unsigned i = 0; i < 4 * LEARNS; i++) {
		assert_int_equal(rdm_recv(b, NULL, i, 0, 0, 0, 0, LEN), 0);
		assert_int_equal(rdm_send(a, b, i, 0, 0, 0, LEN), 0);
		assert_true(rdm_run(rig, SECOND));
		rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, i);
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, i);
	}
	rig->cut = cut;
	cuts = 1;
	assert_int_equal(rdm_recv(b, NULL, 1, 0, 0, 0, 0, LEN), 0);
	assert_int_equal(rdm_send(a, b, 2, 0, 0, 0, LEN), 0);
	rdm_run(rig, 9 * MS);
	rdm_expect_nothing(b);
	rdm_run(rig, ACK / 2);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 1);
	rdm_rig_destroy(rig);
}

/* Many requests are unanswered, but most of them may have arrived: no probe is sent, and they wait for the ACK
 * timer. */
static void rdm_tlp__many_outstanding_requests_are_not_probed(void **state)
{
	enum { MANY = 32 };
	struct rdm_rig *rig = talking(0);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(rdm_recv(b, NULL, i, 0, 0, 0, 0, LEN), 0);
		assert_int_equal(rdm_send(a, b, i, 0, 0, 0, LEN), 0);
	}
	cuts = MANY;
	rdm_run(rig, ACK - MS);
	assert_int_equal(counted(a, NIC_CNT_tail_loss_probes), 0);
	rdm_expect_nothing(b);
	rdm_run(rig, 3 * MS);
	for (unsigned i = 0; i < MANY; i++)
		rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, i);
	rdm_rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdm_tlp__a_single_lost_message_is_soon_retransmitted),
		cmocka_unit_test(rdm_tlp__a_silent_peer_gets_few_probes),
		cmocka_unit_test(rdm_tlp__a_slow_peer_gets_more_time),
		cmocka_unit_test(rdm_tlp__many_outstanding_requests_are_not_probed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
