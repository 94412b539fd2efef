/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.c - programs whose threads are cancelled, and programs that fork. */
#include "rig.h"

#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- cancellation ------------------------------------------------------------------------------------ */

struct cancelled {
	void (*call)(void *arg);
	void *arg;
	bool done;
};

static void *cancelled_main(void *arg)
{
	struct cancelled *c = arg;
	int unused;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &unused);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &unused);
	c->call(c->arg);
	c->done = true;
	return NULL;
}

/* Call on a thread that has been told to end: it must end later than in the call, where it would have locks. */
static void while_cancelled(void (*call)(void *), void *arg)
{
	struct cancelled c = {call, arg, false};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, cancelled_main, &c), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (!c.done) { /* the other tests, and the teardown, would wait for the lock */
		print_error("the thread ended inside the call\n");
		_exit(1);
	}
}

static void arm(void *cq)
{
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
}

static void poll_one(void *cq)
{
	assert_int_equal(rig_wait(cq).status, IBV_WC_SUCCESS);
}

static void destroy_cq(void *cq)
{
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void destroy_channel(void *channel)
{
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/* Without the engines' threads every event is raised by the call that finds it, and every doorbell rings. */
static void cancel__no_call_ends_with_a_lock_held(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[1];
	struct ibv_comp_channel *ch = ibv_create_comp_channel(end->ctx);
	struct ibv_cq *plain = end->cq, *cq = ibv_create_cq(end->ctx, 8, NULL, ch, 0);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;

	end->cq = cq;
	rig_connect(rig, IBV_QPT_RC);
	rig_post_recv(end, 0, 0, 64);
	while_cancelled(arm, cq); /* rings the doorbell */
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	while_cancelled(poll_one, cq); /* finds the message and raises the event */
	rig_disconnect(rig);
	while_cancelled(destroy_cq, cq); /* takes the unread event back */
	while_cancelled(destroy_channel, ch);
	end->cq = plain;
}

/* ---- fork -------------------------------------------------------------------------------------------- */

/* In the child every call returns; the parent's objects keep working. */
static void fork__child_calls_fail_cleanly(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];
	int status;
	pid_t pid;

	assert_int_equal(ibv_fork_init(), 0);
	pid = fork();
	if (!pid) {
		struct ibv_wc wc;
		int ok = ibv_poll_cq(end->cq, 1, &wc) < 0 && !ibv_alloc_pd(end->ctx) && ibv_dereg_mr(end->mr) &&
			 ibv_req_notify_cq(end->cq, 0) && !ibv_create_cq(end->ctx, 4, NULL, NULL, 0);

		_exit(ok ? 0 : 1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));

	struct ibv_mr *mr = ibv_reg_mr(end->pd, end->buf, 64, 0);

	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		cmocka_unit_test_setup_teardown(cancel__no_call_ends_with_a_lock_held, rig_setup_inline, rig_teardown),
		T(fork__child_calls_fail_cleanly),
	};

	return cmocka_run_group_tests_name("shim_threads", tests, NULL, NULL);
}
