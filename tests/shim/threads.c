/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.c - programs that cancel threads, and programs that fork. */
#include "rig.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
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

/* Make a call on a thread whose cancellation is pending. The thread must end after the call, not within the call,
 * where it would hold locks. */
static void while_cancelled(void (*call)(void *), void *arg)
{
	struct cancelled c = {call, arg, false};
	pthread_t thread;

	assert_int_equal(pthread_create(&thread, NULL, cancelled_main, &c), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	if (!c.done) { /* the other tests, and the teardown, would wait for the lock forever */
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

static void list_devices(void *unused)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	assert_non_null(list);
	ibv_free_device_list(list);
}

/* No call is a cancellation point while it holds a lock. The engines have no threads here, so each event is raised
 * by the call that finds the completion, and each post rings the doorbell. */
static void cancel__no_call_ends_with_a_lock_held(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[1];
	struct ibv_comp_channel *ch = ibv_create_comp_channel(end->ctx);
	struct ibv_cq *plain = end->cq, *cq = ibv_create_cq(end->ctx, 8, NULL, ch, 0);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;

	while_cancelled(list_devices, NULL);
	end->cq = cq;
	rig_connect(rig, IBV_QPT_RC);
	rig_post_recv(end, 0, 0, 64);
	while_cancelled(arm, cq); /* rings the doorbell */
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	while_cancelled(poll_one, cq); /* finds the message and raises the event */
	rig_disconnect(rig);
	while_cancelled(destroy_cq, cq); /* drops the unread event */
	while_cancelled(destroy_channel, ch);
	end->cq = plain;
}

/* Destroying a CQ waits until its events that were read are acknowledged: a thread that is cancelled during this wait
 * leaves no lock taken. */
static void cancel__waiting_for_acknowledgements_keeps_no_lock(void **state)
{
	static struct ibv_cq *cq; /* never freed, because the cancelled thread could not free it */
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[1];
	struct ibv_comp_channel *ch = ibv_create_comp_channel(end->ctx);
	struct cancelled c = {destroy_cq, NULL, false};
	struct ibv_cq *plain = end->cq, *of_event;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND}, *bad;
	void *cq_context;
	pthread_t thread;

	c.arg = end->cq = cq = ibv_create_cq(end->ctx, 8, NULL, ch, 0);
	rig_connect(rig, IBV_QPT_RC);
	rig_post_recv(end, 0, 0, 64);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(ibv_get_cq_event(ch, &of_event, &cq_context), 0);
	rig_disconnect(rig);
	end->cq = plain;
	assert_int_equal(pthread_create(&thread, NULL, cancelled_main, &c), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_false(c.done);
	assert_int_equal(pthread_mutex_trylock(&cq->mutex), 0);
	pthread_mutex_unlock(&cq->mutex);
	ibv_ack_cq_events(cq, 1);
}

/* ---- fork -------------------------------------------------------------------------------------------- */

/* Open the parent's devices again, and send data from one to the other. The parent's contexts are closed meanwhile:
 * that must not end what was opened here. */
static int use_anew(void *parents)
{
	struct rig *inherited = parents;
	void *rig = NULL;

	if (rig_setup_again(&rig) || ibv_close_device(inherited->end[0].ctx))
		return 1;
	rig_connect(rig, IBV_QPT_RC);
	rig_send_checked(rig, 'c');
	return ibv_close_device(inherited->end[1].ctx) || rig_teardown(&rig);
}

static void fork__the_child_opens_the_devices_anew(void **state)
{
	struct rig *rig = *state;

	rig_connect(rig, IBV_QPT_RC);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(rig_in_child(use_anew, rig), 0);
	rig_send_checked(rig, 'p'); /* the parent's connection lives */
}

struct two_contexts {
	struct ibv_context *closed, *sought;
};

/* In a forked child, close a context without objects, which frees the context, and reuse its memory. Then look for
 * another context: ibv_import_device must not take the reused memory for a context. */
static int close_one_seek_other(void *arg)
{
	const struct two_contexts *c = arg;

	if (ibv_close_device(c->closed))
		return 1;
	for (size_t size = 256; size < 8192; size += 16)
		memset(malloc(size), 0x41, size);
	return !ibv_import_device(c->sought->cmd_fd) && errno == EOPNOTSUPP ? 0 : 2;
}

static void fork__child_import_ignores_a_closed_context(void **state)
{
	struct rig *rig = *state;
	struct two_contexts c = {ibv_open_device(rig->end[0].ctx->device), rig->end[0].ctx};
	assert_non_null(c.closed);
	assert_int_equal(rig_in_child(close_one_seek_other, &c), 0);
	assert_int_equal(ibv_close_device(c.closed), 0);
}

/* Set to end the parent's busy threads, which take locks again and again while another thread forks. */
static atomic_bool busy_end;

static void *busy_asking(void *device)
{
	while (!atomic_load(&busy_end))
		ibv_get_device_guid(device);
	return NULL;
}

/* A thread that looks for a cmd_fd, which is nobody's, in all devices and their contexts, and so takes their locks. */
static void *busy_importing(void *fd)
{
	while (!atomic_load(&busy_end))
		if (ibv_import_device(*(int *)fd))
			return fd;
	return NULL;
}

/* A thread whose registrations all fail in the check that the memory is accessible: the address is NULL. */
static void *busy_registering(void *pd)
{
	while (!atomic_load(&busy_end))
		if (ibv_reg_mr(pd, NULL, 64, 0))
			return pd;
	return NULL;
}

static int close_one_register_other(void *arg)
{
	struct rig *rig = arg;

	alarm(20);
	return ibv_close_device(rig->end[0].ctx) || ibv_reg_mr(rig->end[1].pd, rig->end[1].buf, 64, 0);
}

static void fork__child_finds_no_lock_taken(void **state)
{
	struct rig *rig = *state;
	int status = 0, fd = memfd_create("uroce-cmd", MFD_CLOEXEC);
	pthread_t thread[2];
	void *ret;

	atomic_store(&busy_end, false);
	assert_int_equal(pthread_create(&thread[0], NULL, busy_importing, &fd), 0);
	assert_int_equal(pthread_create(&thread[1], NULL, busy_registering, rig->end[0].pd), 0);
	for (int i = 0; i < 50 && !status; i++)
		status = rig_in_child(close_one_register_other, rig);
	atomic_store(&busy_end, true);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(thread[i], &ret), 0);
		assert_null(ret);
	}
	close(fd);
	assert_int_equal(status, 0);
}

static int open_and_close(void *unused)
{
	struct ibv_device **list;
	struct ibv_context *ctx;

	alarm(20);
	list = ibv_get_device_list(NULL);
	ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	return !ctx || ibv_close_device(ctx);
}

static void fork__child_opens_a_device_not_opened_by_the_parent(void **state)
{
	struct ibv_device **list;
	pthread_t thread;
	int status = 0;

	rig_devices();
	list = ibv_get_device_list(NULL);
	assert_non_null(list);
	atomic_store(&busy_end, false);
	assert_int_equal(pthread_create(&thread, NULL, busy_asking, list[0]), 0);
	for (int i = 0; i < 20 && !status; i++)
		status = rig_in_child(open_and_close, NULL);
	atomic_store(&busy_end, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	ibv_free_device_list(list);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		cmocka_unit_test_setup_teardown(cancel__no_call_ends_with_a_lock_held, rig_setup_inline, rig_teardown),
		T(cancel__waiting_for_acknowledgements_keeps_no_lock),
		T(fork__the_child_opens_the_devices_anew),
		T(fork__child_import_ignores_a_closed_context),
		T(fork__child_finds_no_lock_taken),
		cmocka_unit_test(fork__child_opens_a_device_not_opened_by_the_parent),
	};

	return cmocka_run_group_tests_name("shim_threads", tests, NULL, NULL);
}
