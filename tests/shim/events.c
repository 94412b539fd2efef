/* SPDX-License-Identifier: BSD-3-Clause */
/* events.c - programs that sleep until completions arrive, in all ways that verbs offer, on one or two CQs. */
#include "rig.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <unistd.h>

#define LONG_MS 20000

/** A completion channel at end 1 of the rig, with CQs that each serve their own QP. */
struct watched {
	struct rig *rig;
	struct ibv_comp_channel *channel;
	unsigned n;
	struct ibv_cq *cq[2];
	struct ibv_qp *qp[2][2]; /* indexed by CQ, then by side of the rig */
};

static void watched_make(struct watched *w, struct rig *rig, unsigned n)
{
	struct rig_end *end = &rig->end[1];

	*w = (struct watched){.rig = rig, .channel = ibv_create_comp_channel(end->ctx), .n = n};
	assert_non_null(w->channel);
	for (unsigned i = 0; i < n; i++) {
		struct ibv_qp_init_attr init = rig_qp_init(&rig->end[0], IBV_QPT_RC);

		w->cq[i] = ibv_create_cq(end->ctx, 64, NULL, w->channel, 0);
		assert_non_null(w->cq[i]);
		w->qp[i][0] = ibv_create_qp(rig->end[0].pd, &init);
		init = rig_qp_init(end, IBV_QPT_RC);
		init.send_cq = init.recv_cq = w->cq[i];
		w->qp[i][1] = ibv_create_qp(end->pd, &init);
		rig_connect_qps(rig, w->qp[i][0], w->qp[i][1]);
		assert_int_equal(ibv_req_notify_cq(w->cq[i], 0), 0);
	}
}

static void watched_free(struct watched *w)
{
	for (unsigned i = 0; i < w->n; i++) {
		assert_int_equal(ibv_destroy_qp(w->qp[i][0]), 0);
		assert_int_equal(ibv_destroy_qp(w->qp[i][1]), 0);
		assert_int_equal(ibv_destroy_cq(w->cq[i]), 0);
	}
	assert_int_equal(ibv_destroy_comp_channel(w->channel), 0);
}

/** Send a message that completes in CQ number `i` at end 1. The sender polls until the message is acknowledged. */
static void watched_send(struct watched *w, unsigned i)
{
	struct ibv_sge sge = rig_sge(&w->rig->end[1], 0, 64);
	struct ibv_recv_wr rwr = {.sg_list = &sge, .num_sge = 1}, *rbad;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

	assert_int_equal(ibv_post_recv(w->qp[i][1], &rwr, &rbad), 0);
	assert_int_equal(ibv_post_send(w->qp[i][0], &wr, &bad), 0);
	assert_int_equal(rig_wait(w->rig->end[0].cq).status, IBV_WC_SUCCESS);
}

/** Wait for an event, then rearm its CQ and poll the CQ's completions. */
static void watched_take(struct watched *w)
{
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;

	assert_int_equal(ibv_get_cq_event(w->channel, &cq, &context), 0);
	ibv_ack_cq_events(cq, 1);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	while (ibv_poll_cq(cq, 1, &wc) > 0)
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
}

static bool readable(int fd, int ms)
{
	struct pollfd p = {fd, POLLIN, 0};

	return poll(&p, 1, ms) == 1;
}

/* ---- one thread -------------------------------------------------------------------------------------- */

/* A non-blocking channel in an epoll set, level-triggered, as in servers with an event loop: each message makes the
 * channel readable, and the channel is no longer readable when all events are read. */
static void events__an_event_loop_sees_all_of_them(void **state)
{
	struct epoll_event event = {.events = EPOLLIN};
	int set = epoll_create1(0);
	struct watched w;
	struct ibv_cq *cq;
	void *context;

	watched_make(&w, *state, 2);
	assert_int_equal(fcntl(w.channel->fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(epoll_ctl(set, EPOLL_CTL_ADD, w.channel->fd, &event), 0);
	for (unsigned i = 0; i < 200; i++) {
		watched_send(&w, 0);
		if (i % 2)
			watched_send(&w, 1);
		for (unsigned n = 0; n <= i % 2; n++) {
			assert_int_equal(epoll_wait(set, &event, 1, LONG_MS), 1);
			watched_take(&w);
		}
		assert_int_equal(epoll_wait(set, &event, 1, 0), 0);
		assert_int_equal(ibv_get_cq_event(w.channel, &cq, &context), -1);
		assert_int_equal(errno, EAGAIN);
	}
	close(set);
	watched_free(&w);
}

/* ---- a blocked thread, and another ---- */

static void *take_one(void *w)
{
	watched_take(w);
	return NULL;
}

static void blocks(pthread_t *thread, void *(*call)(void *), struct watched *w)
{
	assert_int_equal(pthread_create(thread, NULL, call, w), 0);
	usleep(20000); /* by now the thread most likely sleeps; the test also passes if it does not */
}

/* A channel becomes non-blocking after a thread has slept on it: ibv_get_cq_event then fails with EAGAIN at once.
 * The channel can be made blocking again. */
static void events__a_used_channel_can_be_made_non_blocking(void **state)
{
	struct watched w;
	struct ibv_cq *cq;
	pthread_t thread;
	void *context;

	watched_make(&w, *state, 1);
	for (unsigned i = 0; i < 20; i++) {
		blocks(&thread, take_one, &w);
		watched_send(&w, 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_int_equal(fcntl(w.channel->fd, F_SETFL, O_NONBLOCK), 0);
		assert_int_equal(ibv_get_cq_event(w.channel, &cq, &context), -1);
		assert_int_equal(errno, EAGAIN);
		watched_send(&w, 0);
		assert_true(readable(w.channel->fd, LONG_MS));
		watched_take(&w);
		assert_int_equal(fcntl(w.channel->fd, F_SETFL, 0), 0);
	}
	watched_free(&w);
}

/* One thread waits in ibv_get_cq_event and two events are raised: the thread takes one event, and the other event
 * keeps the channel readable for a thread that polls. */
static void events__a_second_event_keeps_the_channel_readable(void **state)
{
	struct watched w;
	pthread_t thread;

	watched_make(&w, *state, 2);
	for (unsigned i = 0; i < 20; i++) {
		blocks(&thread, take_one, &w);
		watched_send(&w, 0);
		watched_send(&w, 1);
		assert_true(readable(w.channel->fd, LONG_MS));
		assert_int_equal(pthread_join(thread, NULL), 0);
		assert_true(readable(w.channel->fd, LONG_MS));
		watched_take(&w);
		assert_false(readable(w.channel->fd, 0));
	}
	watched_free(&w);
}

static void events__two_threads_wait_on_one_channel(void **state)
{
	struct watched w;
	pthread_t thread[2];

	watched_make(&w, *state, 2);
	for (unsigned i = 0; i < 20; i++) {
		for (unsigned t = 0; t < 2; t++)
			blocks(&thread[t], take_one, &w);
		watched_send(&w, i % 2);
		watched_send(&w, !(i % 2));
		for (unsigned t = 0; t < 2; t++)
			assert_int_equal(pthread_join(thread[t], NULL), 0);
		assert_false(readable(w.channel->fd, 0));
	}
	watched_free(&w);
}

/* A thread is cancelled while it waits for an event: the next event is seen by a thread that polls the channel, or
 * wakes another waiting thread. */
static void events__a_thread_cancelled_while_waiting_takes_no_event(void **state)
{
	struct watched w;
	pthread_t thread[2];
	void *ret;

	watched_make(&w, *state, 1);
	for (unsigned i = 0; i < 20; i++) {
		for (unsigned t = 0; t <= i % 2; t++)
			blocks(&thread[t], take_one, &w);
		pthread_cancel(thread[0]);
		assert_int_equal(pthread_join(thread[0], &ret), 0);
		assert_ptr_equal(ret, PTHREAD_CANCELED);
		watched_send(&w, 0);
		if (i % 2) {
			assert_int_equal(pthread_join(thread[1], NULL), 0);
		} else {
			assert_true(readable(w.channel->fd, LONG_MS));
			watched_take(&w);
		}
		assert_false(readable(w.channel->fd, 0));
	}
	watched_free(&w);
}

/* A polling thread raises an event and wakes a waiting thread, which is cancelled at that moment: either the
 * thread takes the event, or the event stays readable. */
static void events__cancelling_a_thread_being_woken_loses_no_event(void **state)
{
	struct rig *rig = *state;
	struct ibv_wc wc;
	struct watched w;
	pthread_t thread;
	void *ret;

	watched_make(&w, rig, 1);
	for (unsigned i = 0; i < 300; i++) {
		struct ibv_sge sge = rig_sge(&rig->end[1], 0, 64);
		struct ibv_recv_wr rwr = {.sg_list = &sge, .num_sge = 1}, *rbad;
		struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;

		assert_int_equal(pthread_create(&thread, NULL, take_one, &w), 0);
		usleep(200);
		assert_int_equal(ibv_post_recv(w.qp[0][1], &rwr, &rbad), 0);
		assert_int_equal(ibv_post_send(w.qp[0][0], &wr, &bad), 0);
		for (unsigned k = 0; k < 1 + i % 4; k++)
			assert_int_equal(ibv_poll_cq(rig->end[1].cq, 1, &wc), 0);
		pthread_cancel(thread);
		assert_int_equal(pthread_join(thread, &ret), 0);
		if (ret == PTHREAD_CANCELED) {
			assert_true(readable(w.channel->fd, LONG_MS));
			watched_take(&w);
		}
		assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	}
	watched_free(&w);
}

/* A CQ with an unread event is destroyed: the event vanishes. A thread that then waits on the channel gets the event
 * of another CQ. */
static void events__destroying_a_cq_drops_its_unread_events(void **state)
{
	struct rig *rig = *state;
	struct watched w;
	pthread_t thread;

	for (unsigned i = 0; i < 10; i++) {
		watched_make(&w, rig, 2);
		watched_send(&w, 0);
		assert_true(readable(w.channel->fd, LONG_MS));
		for (unsigned end = 0; end < 2; end++)
			assert_int_equal(ibv_destroy_qp(w.qp[0][end]), 0);
		assert_int_equal(ibv_destroy_cq(w.cq[0]), 0);
		assert_false(readable(w.channel->fd, 0));
		w.cq[0] = w.cq[1];
		for (unsigned end = 0; end < 2; end++)
			w.qp[0][end] = w.qp[1][end];
		w.n = 1;
		blocks(&thread, take_one, &w);
		watched_send(&w, 0);
		assert_int_equal(pthread_join(thread, NULL), 0);
		watched_free(&w);
	}
}

/* ---- many messages ---- */

#define ROUNDS 3000

static atomic_uint taken;

static void *take_many(void *arg)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		watched_take(arg);
		atomic_fetch_add(&taken, 1);
	}
	return NULL;
}

/* In 3000 messages, with or without a pause between them, each message raises one event, and the other thread takes
 * every event, even one that arrives just when this thread is going to sleep. */
static void events__none_is_lost_in_a_long_exchange(void **state)
{
	struct watched w;
	pthread_t thread;

	watched_make(&w, *state, 1);
	atomic_store(&taken, 0);
	assert_int_equal(pthread_create(&thread, NULL, take_many, &w), 0);
	for (unsigned i = 0; i < ROUNDS; i++) {
		watched_send(&w, 0);
		for (unsigned ms = 0; ms < LONG_MS && atomic_load(&taken) == i; ms++)
			for (unsigned k = 0; k < 1000 && atomic_load(&taken) == i; k++)
				usleep(1);
		assert_int_equal(atomic_load(&taken), i + 1);
		if (i % 64 == 0)
			usleep(i);
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	watched_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		T(events__an_event_loop_sees_all_of_them),
		T(events__a_used_channel_can_be_made_non_blocking),
		T(events__a_second_event_keeps_the_channel_readable),
		T(events__two_threads_wait_on_one_channel),
		T(events__a_thread_cancelled_while_waiting_takes_no_event),
		T(events__cancelling_a_thread_being_woken_loses_no_event),
		T(events__destroying_a_cq_drops_its_unread_events),
		T(events__none_is_lost_in_a_long_exchange),
	};

	return cmocka_run_group_tests_name("shim_events", tests, NULL, NULL);
}
