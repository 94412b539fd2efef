/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rdm_patience.c - how long reliable-datagram endpoints wait for peers that do not answer. They keep waiting for
 * peers that answer, or whose answers they could not have received.
 */
#include "rdm_rig.h"

#define SECOND 1000000000ull
#define LEN    4096u

/** Connect a and b by one message. */
static void meet(struct rdm_rig *rig, struct rdm_node *a, struct rdm_node *b)
{
	assert_int_equal(rdm_recv(b, a, 901, 0, 0, 0, 0, 8), 0);
	assert_int_equal(rdm_send(a, b, 900, 0, 0, 0, 8), 0);
	assert_true(rdm_run(rig, 20 * SECOND));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 900);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 901);
}

/** An endpoint waits for a silent peer as long as its peer_ns says, and a little longer; then the request fails. */
static void rdm__a_request_to_a_silent_peer_fails_after_peer_ns(void **state)
{
	static const struct {
		uint64_t asked, least;
	} waits[] = {{0, 6 * SECOND}, {1, SECOND / 10}, {2 * SECOND, 2 * SECOND}, {60 * SECOND, 60 * SECOND}};

	(void)state;
	for (unsigned i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		struct rdm_rig *rig = rdm_rig_create(2, 41);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

		for (unsigned n = 0; n < 2; n++) {
			rdm_node_stop(&rig->node[n]);
			rig->init.peer_ns = waits[i].asked;
			rdm_node_start(&rig->node[n]);
		}
		meet(rig, a, b);
		rdm_node_stop(b);
		assert_int_equal(rdm_send(a, b, 1, NIC_RDM_INJECT, 0, 0, 8), 0);
		rdm_run(rig, waits[i].least);
		rdm_expect_nothing(a);
		rdm_run(rig, SECOND / 3); /* the ACK timer that is running expires within this time */
		rdm_expect(a, NIC_RDM_SEND, NIC_WC_RETRY_EXC_ERR, 1);
		rdm_rig_destroy(rig);
	}
}

static unsigned requests, answered;

/** Packet hook: only every third request of a arrives, so two tries time out for each that is answered. */
static bool lose_two_of_three(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	(void)rig;
	if (rdm_call_of(ip, len) != NO_CALL)
		return false;
	answered += from != 0;
	return from == 0 && requests++ % 3 != 2;
}

/** A peer that answers with RNR NAKs is alive: the endpoint keeps waiting, although packets are lost. */
static void rdm__a_peer_that_sends_rnr_naks_is_not_given_up(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 42);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	unsigned sent = 0, told;

	(void)state;
	rdm_node_stop(b);
	rig->init.max_unexpected = 65536;
	rdm_node_start(b);
	meet(rig, a, b);
	for (told = 0; told == 0; sent++) { /* until b has no room */
		assert_int_equal(rdm_send(a, b, sent, 0, 0, 0, LEN), 0);
		rdm_run(rig, SECOND / 100);
		told = a->n_done == a->n_seen + sent;
	}
	a->n_seen = a->n_done;
	requests = answered = 0;
	rig->cut = lose_two_of_three;
	rdm_run(rig, 60 * SECOND);
	assert_true(answered > 100);
	rdm_expect_nothing(a);
	rig->cut = NULL;
	for (unsigned i = 0; i < sent; i++)
		assert_int_equal(rdm_recv(b, a, i, 0, 0, 0, LEN, LEN), 0);
	assert_true(rdm_run(rig, 20 * SECOND));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, sent - 1);
	for (unsigned i = 0; i < sent; i++)
		rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, i);
	rdm_rig_destroy(rig);
}

/** A host was stopped for longer than its connect timeout. That time does not count, because the host could
 * neither call nor listen: it continues to call and connects. */
static void rdm__a_host_stopped_beyond_its_connect_timeout_still_connects(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 43);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	rig->cut = rdm_cut_all;
	assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, 8), 0);
	rdm_run(rig, rig->init.connect_ns / 2);
	rdm_expect_nothing(a);
	rig->now += 10 * rig->init.connect_ns;
	rig->cut = NULL;
	assert_int_equal(rdm_recv(b, a, 2, 0, 0, 0, 0, 8), 0);
	assert_true(rdm_run(rig, 20 * SECOND));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 2);
	rdm_rig_destroy(rig);
}

/** A host that was stopped and still gets no answer gives up when the rest of its connect timeout has passed. */
static void rdm__a_stopped_host_gives_up_after_the_rest_of_its_timeout(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 44);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	rig->cut = rdm_cut_all;
	assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, 8), 0);
	rdm_run(rig, rig->init.connect_ns / 2);
	rig->now += 10 * rig->init.connect_ns;
	rdm_run(rig, rig->init.connect_ns / 8); /* the stop has counted as only a quarter of a second */
	rdm_expect_nothing(a);
	rdm_run(rig, rig->init.connect_ns / 2);
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_UNREACHABLE, 1);
	rdm_rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdm__a_request_to_a_silent_peer_fails_after_peer_ns),
		cmocka_unit_test(rdm__a_peer_that_sends_rnr_naks_is_not_given_up),
		cmocka_unit_test(rdm__a_host_stopped_beyond_its_connect_timeout_still_connects),
		cmocka_unit_test(rdm__a_stopped_host_gives_up_after_the_rest_of_its_timeout),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
