/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_links_turns.c - pmd/link/links*.c: the order in which links are served, and packets left in rings by dead
 * producers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "devices.h"
#include "engine_priv.h"
#include "fake_peer.h"
#include "links_priv.h"
#include "qp.h"
#include "services.h"

static struct pmd_device device[2];

/** Links with packets to send take turns, whatever their numbers; what is left of the budget goes to the busy link. */
static void links__a_busy_link_does_not_starve_others(void **state)
{
	struct fake_consumer f[2];
	struct nic_qp *qp[2];
	struct end a;

	(void)state;
	end_open_inline(&a, &device[0]);
	for (unsigned i = 0; i < 2; i++) {
		fake_listen(&f[i], &device[0], FAKE_FUNCTION + i);
		qp[i] = fake_qp(&a, NIC_QPT_UC, a.scq, &a.gid, (FAKE_FUNCTION + i) << 16 | 7, 0);
		fake_take(&f[i]);
	}
	assert_true(nic_qp_path(qp[0]) && nic_qp_path(qp[1]) && nic_qp_path(qp[0]) != nic_qp_path(qp[1]));
	pmd_lock(a.engine);
	for (unsigned busy = 0; busy < 2; busy++) {
		end_post_sends(&a, qp[busy], 300, 0);
		end_post_sends(&a, qp[!busy], 1, 0);
		for (unsigned i = 0; i < 2; i++) /* 32 frames are one link's turn */
			assert_int_equal(pmd_links_tx(a.engine->host.links, 32, pmd_now_ns()), 32);
		assert_int_equal(qp[!busy]->sq.next, qp[!busy]->sq.head);
		assert_int_equal(pmd_links_tx(a.engine->host.links, 100, pmd_now_ns()), 100);
		assert_true(pmd_links_tx(a.engine->host.links, 300, pmd_now_ns()) > 0);
		assert_int_equal(qp[busy]->sq.next, qp[busy]->sq.head);
	}
	pmd_unlock(a.engine);
	for (unsigned i = 0; i < 2; i++) {
		end_destroy_qp(&a, qp[i]);
		fake_close(&f[i]);
	}
	end_close(&a);
}

/** Two of 16 producers always have packets: both are served equally often. */
static void links__producers_are_served_alike(void **state)
{
	static struct fake_producer p[16];
	uint64_t served[2];
	struct end a;

	(void)state;
	end_open_inline(&a, &device[0]);
	for (unsigned i = 0; i < 16; i++) {
		fake_hand_over(&p[i], &a);
		while (a.engine->host.links->n_in == i)
			fake_upkeep(&a);
	}
	pmd_lock(a.engine);
	for (unsigned i = 0; i < 64; i++) {
		fake_put(&p[3], 100);
		fake_put(&p[4], 100);
		assert_int_equal(pmd_links_rx(a.engine->host.links, 1, pmd_now_ns()), 32);
	}
	for (unsigned i = 0; i < 2; i++)
		served[i] = a.engine->host.links->in[3 + i]->ring.head;
	pmd_unlock(a.engine);
	assert_int_equal(served[0], served[1]);
	for (unsigned i = 0; i < 16; i++)
		fake_gone(&p[i]);
	end_close(&a);
}

/** Poll once for one completion, unless the CQ already has one. Lock held. @return whether a completion was taken. */
static bool poll_once(struct end *e, struct nic_cq *cq)
{
	struct nic_wc wc;

	return nic_cq_poll(cq, 1, &wc) == 1 || (pmd_progress(e->engine, 1) && nic_cq_poll(cq, 1, &wc) == 1);
}

/** Wait for the next completion of `e` while `other` makes progress as well. */
static void end_wait_beside(struct end *e, struct nic_cq *cq, struct end *other)
{
	struct nic_wc wc;

	while (end_poll(e, cq, &wc) == 0) {
		pmd_try_progress(e->engine);
		pmd_try_progress(other->engine);
	}
}

/** A poll for one completion ends when it has found one. But if the peer sent a response right after its ACK, the same
 * poll also receives the response. */
static void links__one_poll_receives_an_ack_and_the_response_after_it(void **state)
{
	struct end a, b;
	struct nic_wc wc;

	(void)state;
	end_open_inline(&a, &device[0]);
	end_open_inline(&b, &device[1]);
	end_connect(&a, &b);
	end_connect(&b, &a);
	for (unsigned i = 0; i < 2; i++) {
		end_recv(&a);
		end_recv(&b);
	}
	for (unsigned i = 0; i < 2; i++) {
		end_send(&a, NIC_WR_SEND, 8, NULL);
		end_wait_beside(&b, b.rcq, &a); /* the first message makes the link */
		end_send(&b, NIC_WR_SEND, 8, NULL);
		pmd_lock(a.engine);
		while (!poll_once(&a, a.scq))
			;
		assert_int_equal(nic_cq_poll(a.rcq, 1, &wc), 1);
		pmd_unlock(a.engine);
		end_wait_beside(&b, b.scq, &a);
	}
	/* Two messages that arrive together take two polls. */
	end_recv(&a);
	end_recv(&a);
	pmd_lock(b.engine);
	end_post_sends(&b, b.qp, 2, 8);
	pmd_doorbell(b.engine);
	pmd_unlock(b.engine);
	pmd_lock(a.engine);
	assert_true(poll_once(&a, a.rcq));
	assert_int_equal(nic_cq_poll(a.rcq, 1, &wc), 0);
	assert_true(poll_once(&a, a.rcq));
	pmd_unlock(a.engine);
	end_close(&b);
	end_close(&a);
}

/** Packets left in the ring by a dead producer are received, even if the poller has all the completions that it polls
 * for. */
static void links__packets_of_a_dead_producer_are_received(void **state)
{
	struct fake_producer p;
	struct end a;

	(void)state;
	end_open_inline(&a, &device[0]);
	fake_hand_over(&p, &a);
	while (a.engine->host.links->n_in == 0)
		fake_upkeep(&a);
	assert_int_equal(fake_put(&p, 100), 100);
	fake_gone(&p);
	pmd_lock(a.engine);
	a.engine->host.rx_until = 0;
	while (a.engine->host.links->n_in > 0)
		pmd_engine_upkeep(a.engine);
	assert_int_equal(a.engine->host.rx_until, 0);
	assert_int_equal(a.engine->host.port->stats.link_rx_packets, 100);
	pmd_unlock(a.engine);
	end_close(&a);
}

/** Packets of a producer that died before its link was accepted are received, although the acceptance cannot be
 * delivered. */
static void links__packets_of_a_producer_dead_before_acceptance_are_received(void **state)
{
	struct fake_producer p;
	struct end a;

	(void)state;
	end_open_inline(&a, &device[0]);
	fake_hand_over(&p, &a);
	assert_int_equal(fake_put(&p, 100), 100);
	fake_gone(&p);
	while (a.engine->host.port->stats.link_rx_packets + a.engine->host.port->stats.link_refused == 0 ||
	       a.engine->host.links->n_in > 0)
		fake_upkeep(&a);
	assert_int_equal(a.engine->host.port->stats.link_rx_packets, 100);
	assert_int_equal(a.engine->host.port->stats.link_refused, 0);
	end_close(&a);
}

/** When a service ends, its existing link is drained and ends, and a link that arrives too late is refused. */
static void links__a_link_to_a_service_is_drained_and_ends_with_the_service(void **state)
{
	struct fake_producer p[2];
	uint16_t port = 1000;
	struct end a;

	(void)state;
	end_open_inline(&a, &device[0]);
	assert_int_equal(pmd_service_open(a.engine, &port), 0);
	fake_hand_over_for(&p[0], &a, port);
	while (a.engine->host.links->n_in == 0)
		fake_upkeep(&a);
	assert_int_equal(fake_put(&p[0], 100), 100);
	fake_hand_over_for(&p[1], &a, port);
	pmd_service_close(a.engine, port);
	pmd_lock(a.engine);
	assert_int_equal(a.engine->host.links->n_in, 0);
	assert_int_equal(a.engine->host.port->stats.link_rx_packets, 100);
	pmd_unlock(a.engine);
	while (a.engine->host.port->stats.link_refused == 0)
		fake_upkeep(&a);
	assert_int_equal(a.engine->host.links->n_in, 0);
	fake_gone(&p[0]);
	fake_gone(&p[1]);
	end_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links__a_busy_link_does_not_starve_others),
		cmocka_unit_test(links__producers_are_served_alike),
		cmocka_unit_test(links__one_poll_receives_an_ack_and_the_response_after_it),
		cmocka_unit_test(links__packets_of_a_dead_producer_are_received),
		cmocka_unit_test(links__packets_of_a_producer_dead_before_acceptance_are_received),
		cmocka_unit_test(links__a_link_to_a_service_is_drained_and_ends_with_the_service),
	};

	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
