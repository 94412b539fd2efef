/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_late.c - pmd/engine/progress.c: a program that was off the CPU for longer than its timers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "ends.h"

#define BEFORE	7
#define STEPS	1000
#define LOOKS	25     /* steps; fewer than BEHIND_STEPS, after which timers run anyway */
#define AWAY_US 200000 /* about three times the ACK timeout that end_connect() sets */

static struct pmd_device device[2];

static void open_two(struct end *a, struct end *b, const char *ring)
{
	setenv("UROCE_RING", ring, 1);
	setenv("UROCE_PROGRESS", "inline", 1);
	ends_open(a, &device[0], b, &device[1]);
	unsetenv("UROCE_PROGRESS");
	unsetenv("UROCE_RING");
}

static uint64_t timeouts(const struct end *e)
{
	return nic_counters(e->nic)[NIC_CNT_local_ack_timeout_err];
}

/** Make both ends progress until e's only outstanding request has completed. */
static void await_done(struct end *e, struct end *peer)
{
	struct nic_wc wc;
	int got = 0;

	for (unsigned i = 0; i < STEPS * 100 && !got; i++) {
		pmd_try_progress(peer->engine);
		pmd_try_progress(e->engine);
		got = end_poll(e, e->scq, &wc);
	}
	assert_int_equal(got, 1);
	assert_int_equal(wc.status, NIC_WC_SUCCESS);
}

/** End a posts a request and then does not run; end b posts some WRITEs and answers the request. All packets of end b
 * are waiting when end a runs again. */
static void be_away(struct end *a, struct end *b)
{
	end_send(a, NIC_WR_RDMA_WRITE, 8, b);
	for (unsigned i = 0; i < BEFORE; i++)
		end_send(b, NIC_WR_RDMA_WRITE, 8, a);
	for (unsigned i = 0; i < STEPS; i++)
		pmd_try_progress(b->engine);
	usleep(AWAY_US);
}

/** A program was off the CPU. Before any of its timers may expire, it reads all packets that have arrived at its port:
 * the last packet is the ACK. */
static void late__an_ack_waiting_in_the_port_prevents_a_timeout(void **state)
{
	struct end a, b;

	(void)state;
	open_two(&a, &b, "off");
	be_away(&a, &b);
	await_done(&a, &b);
	assert_int_equal(timeouts(&a), 0);
	end_close(&b);
	end_close(&a);
}

/** A program that was off the CPU finds an ACK in a link although each of its polls stops at one completion: no timer
 * expires. */
static void late__an_ack_waiting_in_a_link_prevents_a_timeout(void **state)
{
	struct end a, b;
	struct nic_wc wc;
	uint64_t before;

	(void)state;
	open_two(&a, &b, "on");
	for (unsigned i = 0; i < 2000; i++) { /* until both links exist and are in use */
		end_send(&a, NIC_WR_RDMA_WRITE, 8, &b);
		await_done(&a, &b);
		end_send(&b, NIC_WR_RDMA_WRITE, 8, &a);
		await_done(&b, &a);
	}
	end_recv(&a);
	end_recv(&a);
	before = timeouts(&a);
	end_send(&a, NIC_WR_RDMA_WRITE, 8, &b);
	end_send(&b, NIC_WR_SEND, 8, NULL);
	end_send(&b, NIC_WR_SEND, 8, NULL);
	for (unsigned i = 0; i < STEPS; i++)
		pmd_try_progress(b.engine);
	usleep(AWAY_US);
	for (unsigned i = 0; i < BEFORE; i++) {
		pmd_lock(a.engine);
		pmd_progress(a.engine, 1);
		pmd_unlock(a.engine);
	}
	assert_int_equal(timeouts(&a), before);
	assert_int_equal(end_poll(&a, a.scq, &wc), 1);
	assert_int_equal(wc.status, NIC_WC_SUCCESS);
	end_close(&b);
	end_close(&a);
}

/** If a peer does not answer, the ACK timer expires. */
static void late__the_ack_timer_expires_for_a_silent_peer(void **state)
{
	struct end a, b;

	(void)state;
	open_two(&a, &b, "off");
	end_send(&a, NIC_WR_RDMA_WRITE, 8, &b);
	usleep(AWAY_US);
	for (unsigned i = 0; i < STEPS; i++)
		pmd_try_progress(a.engine);
	assert_true(timeouts(&a) > 0);
	await_done(&a, &b);
	end_close(&b);
	end_close(&a);
}

/** If a peer does not answer, the ACK timer expires although the program rarely makes progress and always finds packets
 * of other requests. */
static void late__the_ack_timer_expires_although_rare_polls_find_packets(void **state)
{
	struct end a, b;

	(void)state;
	open_two(&a, &b, "off");
	end_send(&a, NIC_WR_RDMA_WRITE, 8, &b);
	for (unsigned i = 0; i < LOOKS; i++) {
		end_send(&b, NIC_WR_RDMA_WRITE, 8, &a); /* end b makes no progress, so it sends no ACK */
		usleep(AWAY_US / LOOKS);
		pmd_try_progress(a.engine);
	}
	assert_true(timeouts(&a) > 0);
	end_close(&b);
	end_close(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(late__an_ack_waiting_in_the_port_prevents_a_timeout),
		cmocka_unit_test(late__an_ack_waiting_in_a_link_prevents_a_timeout),
		cmocka_unit_test(late__the_ack_timer_expires_for_a_silent_peer),
		cmocka_unit_test(late__the_ack_timer_expires_although_rare_polls_find_packets),
	};

	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
