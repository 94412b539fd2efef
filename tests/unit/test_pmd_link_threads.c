/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_link_threads.c - links between two engines. A thread of the test drives each engine, in addition to the
 * engine's own thread. Checks contents and order. Under ThreadSanitizer, it also checks that accesses to rings,
 * doorbells and the state of progress do not race (see one_mapping.c).
 */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "ends.h"
#include "engine_priv.h"

#define ROUNDS	  200
#define VISITS	  8
#define WRITE_MAX 24000u /* WRITEs go to the lower half of the peer's buffer, receives to the upper half */

static struct pmd_device device[3];

/** How a thread waits for completions. */
enum how {
	POLL,
	SLEEP, /* sleep on the event; the engine's thread moves the packets */
	WAIT,  /* sleep in pmd_wait(), where this thread moves the packets */
};

/** One of the two sides of a ping-pong. */
struct side {
	struct end end;
	const struct end *peer;
	bool serves; /* sends first */
	enum how how;
	unsigned rounds; /* atomic: rounds done */
	unsigned bad;	 /* errors; read when the thread has ended */
};

static uint8_t byte_of(unsigned round, uint32_t at)
{
	return (uint8_t)(round * 29 + at * 3 + (at >> 8));
}

static uint32_t length_of(unsigned round)
{
	return 1 + round * 7919 % WRITE_MAX;
}

static struct nic_wc side_wait(struct side *s, struct nic_cq *cq)
{
	struct end *e = &s->end;
	struct nic_wc wc;
	uint64_t count;

	if (s->how != WAIT)
		return end_wait(e, cq, s->how == SLEEP);
	while (end_poll(e, cq, &wc) == 0) {
		pmd_lock(e->engine);
		nic_cq_arm(cq, false);
		pmd_expect_sleep(e->engine);
		pmd_unlock(e->engine);
		if (end_poll(e, cq, &wc) > 0)
			break;
		s->bad += pmd_wait(e->engine, e->event_fd, &e->event) != 0;
		pmd_lock(e->engine);
		__atomic_store_n(&e->event, false, __ATOMIC_RELAXED);
		s->bad += read(e->event_fd, &count, sizeof(count)) != sizeof(count);
		pmd_unlock(e->engine);
	}
	return wc;
}

/** WRITE the data, then SEND a message that announces it. */
static void side_send(struct side *s, unsigned round)
{
	uint32_t len = length_of(round);

	for (uint32_t at = 0; at < len; at++)
		s->end.buf[at] = byte_of(round, at);
	end_send(&s->end, NIC_WR_RDMA_WRITE, len, s->peer);
	s->bad += side_wait(s, s->end.scq).status != NIC_WC_SUCCESS;
	end_send(&s->end, NIC_WR_SEND, len, NULL);
	s->bad += side_wait(s, s->end.scq).status != NIC_WC_SUCCESS;
}

static void side_receive(struct side *s, unsigned round)
{
	struct nic_wc wc = side_wait(s, s->end.rcq);
	uint32_t len = length_of(round);

	s->bad += wc.status != NIC_WC_SUCCESS || wc.byte_len != len;
	for (uint32_t at = 0; at < len; at++)
		s->bad += s->end.buf[at] != byte_of(round, at) || s->end.buf[BUF / 2 + at] != byte_of(round, at);
	end_recv(&s->end);
}

static void *side_run(void *arg)
{
	struct side *s = arg;

	for (unsigned round = 0; round < ROUNDS && s->bad == 0; round++) {
		if (s->serves)
			side_send(s, round);
		side_receive(s, round);
		if (!s->serves)
			side_send(s, round);
		__atomic_store_n(&s->rounds, round + 1, __ATOMIC_RELAXED);
	}
	return NULL;
}

static void sides_open(struct side *a, struct side *b, const char *progress, enum how a_how, enum how b_how)
{
	setenv("UROCE_PROGRESS", progress, 1);
	ends_open(&a->end, &device[0], &b->end, &device[1]);
	unsetenv("UROCE_PROGRESS");
	a->peer = &b->end;
	b->peer = &a->end;
	a->serves = true;
	a->how = a_how;
	b->how = b_how;
	end_recv(&a->end);
	end_recv(&b->end);
}

static void sides_close(struct side *a, struct side *b)
{
	assert_int_equal(a->bad, 0);
	assert_int_equal(b->bad, 0);
	assert_int_equal(a->rounds, ROUNDS);
	assert_int_equal(b->rounds, ROUNDS);
	pmd_lock(a->end.engine);
	assert_true(nic_qp_path(a->end.qp) != 0);
	assert_int_equal(a->end.engine->host.port->stats.link_broken, 0);
	assert_true(a->end.engine->host.port->stats.link_rx_packets > ROUNDS);
	pmd_unlock(a->end.engine);
	end_close(&a->end);
	end_close(&b->end);
}

static void play(const char *progress, enum how a_how, enum how b_how)
{
	struct side a = {0}, b = {0};
	pthread_t thread[2];

	sides_open(&a, &b, progress, a_how, b_how);
	assert_int_equal(pthread_create(&thread[0], NULL, side_run, &a), 0);
	assert_int_equal(pthread_create(&thread[1], NULL, side_run, &b), 0);
	pthread_join(thread[0], NULL);
	pthread_join(thread[1], NULL);
	sides_close(&a, &b);
}

static void link_threads__both_poll(void **state)
{
	(void)state;
	play("auto", POLL, POLL);
}

static void link_threads__both_sleep(void **state)
{
	(void)state;
	play("auto", SLEEP, SLEEP);
}

static void link_threads__one_sleeps(void **state)
{
	(void)state;
	play("auto", POLL, SLEEP);
}

static void link_threads__both_wait(void **state)
{
	(void)state;
	play("auto", WAIT, WAIT);
}

static void link_threads__one_waits(void **state)
{
	(void)state;
	play("inline", POLL, WAIT);
}

static void link_threads__only_threads_serve(void **state)
{
	(void)state;
	play("thread", SLEEP, SLEEP);
}

static void link_threads__no_threads(void **state)
{
	(void)state;
	play("inline", POLL, POLL);
}

static void *visit(void *arg)
{
	const struct side *host = arg;

	for (unsigned i = 0; i < VISITS; i++) {
		struct end visitor;

		end_open(&visitor, &device[2]);
		end_connect(&visitor, &host->end); /* makes the link that the message uses */
		end_send(&visitor, NIC_WR_SEND, 100, NULL);
		end_close(&visitor);
	}
	return NULL;
}

/** While two sides play ping-pong, a third end connects, sends a message and closes again and again. */
static void link_threads__a_third_end_opening_and_closing_does_not_disturb(void **state)
{
	struct side a = {0}, b = {0};
	pthread_t thread[3];

	(void)state;
	sides_open(&a, &b, "auto", POLL, WAIT);
	assert_int_equal(pthread_create(&thread[0], NULL, side_run, &a), 0);
	assert_int_equal(pthread_create(&thread[1], NULL, side_run, &b), 0);
	assert_int_equal(pthread_create(&thread[2], NULL, visit, &a), 0);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	sides_close(&a, &b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(link_threads__both_poll),
		cmocka_unit_test(link_threads__both_sleep),
		cmocka_unit_test(link_threads__one_sleeps),
		cmocka_unit_test(link_threads__both_wait),
		cmocka_unit_test(link_threads__one_waits),
		cmocka_unit_test(link_threads__only_threads_serve),
		cmocka_unit_test(link_threads__no_threads),
		cmocka_unit_test(link_threads__a_third_end_opening_and_closing_does_not_disturb),
	};

	if (ends_devices(device, 3, NULL) != 3)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
