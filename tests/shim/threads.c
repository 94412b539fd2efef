/* SPDX-License-Identifier: BSD-3-Clause */
/* threads.c - programs that cancel threads, and programs that fork. */
#include "rig.h"

#include <dirent.h>
#include <fcntl.h>
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

#define SAID_MAX 256

/* Make a call in a forked child. @return the child's wait status; `said` is the text that the child wrote to stderr. */
static int in_child(int (*call)(void *arg), void *arg, char said[SAID_MAX])
{
	int status, out[2];
	ssize_t n;
	pid_t pid;

	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (!pid) {
		signal(SIGSEGV, SIG_DFL); /* cmocka's handler would run the next test in the child */
		dup2(out[1], STDERR_FILENO);
		_exit(call(arg));
	}
	close(out[1]);
	n = read(out[0], said, SAID_MAX - 1);
	said[n > 0 ? n : 0] = '\0';
	close(out[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void send_checked(struct rig *rig, int value)
{
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 4000);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	memset(rig->end[0].buf, value, 4000);
	rig_post_recv(&rig->end[1], 1, 0, 4000);
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(rig_wait(rig->end[1].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(rig->end[0].buf, rig->end[1].buf, 4000);
}

/* In a forked child, no call on an object of the parent's works. What the child makes does not mix with them either.
 * `mine`: objects of the child's. */
static bool objects_are_dead(const struct rig_end *end, const struct rig_end *mine)
{
	struct ibv_qp_init_attr init = {
		.send_cq = end->cq, .recv_cq = mine->cq, .cap = {1, 1, 1, 1, 0}, .qp_type = IBV_QPT_RC};
	struct ibv_wc wc;

	if (ibv_poll_cq(end->cq, 1, &wc) >= 0 || !ibv_dereg_mr(end->mr) || !ibv_req_notify_cq(end->cq, 0) ||
	    ibv_reg_mr(end->pd, end->buf, 64, 0) || errno != EIO || !ibv_dealloc_pd(end->pd))
		return false;
	if (ibv_create_qp(mine->pd, &init))
		return false;
	init.send_cq = mine->cq;
	return !ibv_create_qp(end->pd, &init);
}

/* Device memory of the child's own, which peers could access. */
static bool device_memory_works(struct ibv_context *ctx, struct ibv_pd *pd)
{
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(ctx, &attr);
	struct ibv_mr *mr = dm ? ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED | IBV_ACCESS_LOCAL_WRITE) : NULL;
	char in[8] = "answers", out[8] = "";

	return mr && !ibv_memcpy_to_dm(dm, 8, in, 8) && !ibv_memcpy_from_dm(out, dm, 8, 8) && !memcmp(in, out, 8) &&
	       !ibv_dereg_mr(mr) && !ibv_free_dm(dm);
}

/* In a forked child, make objects on an inherited context. */
static bool end_of_child(const struct rig_end *parents, struct rig_end *mine)
{
	struct ibv_device_attr attr;
	struct ibv_port_attr port;

	*mine = (struct rig_end){.ctx = parents->ctx, .buf = calloc(1, RIG_BUF)};
	if (ibv_query_device(mine->ctx, &attr) || attr.max_qp <= 0 || ibv_query_port(mine->ctx, 1, &port) ||
	    ibv_query_gid(mine->ctx, 1, 0, &mine->gid) || memcmp(&mine->gid, &parents->gid, sizeof(mine->gid)) != 0)
		return false;
	mine->pd = ibv_alloc_pd(mine->ctx);
	mine->cq = ibv_create_cq(mine->ctx, RIG_DEPTH, NULL, NULL, 0);
	mine->mr = mine->pd ? ibv_reg_mr(mine->pd, mine->buf, RIG_BUF, RIG_ACCESS) : NULL;
	return mine->cq && mine->mr && device_memory_works(mine->ctx, mine->pd) && objects_are_dead(parents, mine);
}

static int descriptors(void)
{
	DIR *dir = opendir("/proc/self/fd");
	int n = 0;

	while (dir && readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* Make objects on the inherited contexts, send data from one to the other, and destroy the objects. */
static int use_inherited(void *parents)
{
	struct rig *inherited = parents, mine;
	int before = descriptors();

	alarm(60);
	for (int i = 0; i < 2; i++)
		if (!end_of_child(&inherited->end[i], &mine.end[i]))
			return 1 + i;
	rig_connect(&mine, IBV_QPT_RC);
	send_checked(&mine, 'c');
	rig_disconnect(&mine);
	for (int i = 0; i < 2; i++)
		if (ibv_dereg_mr(mine.end[i].mr) || ibv_destroy_cq(mine.end[i].cq) || ibv_dealloc_pd(mine.end[i].pd) ||
		    ibv_close_device(mine.end[i].ctx))
			return 3 + i;
	/* No engine of the child's is left open. */
	return ibv_alloc_pd(mine.end[0].ctx) || descriptors() > before ? 5 : 0;
}

static void fork__MR_02_the_child_makes_objects_on_inherited_contexts(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];
	char said[SAID_MAX];
	struct ibv_mr *mr;

	assert_int_equal(ibv_fork_init(), 0);
	rig_connect(rig, IBV_QPT_RC);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(in_child(use_inherited, rig, said), 0);
	send_checked(rig, 'p'); /* the parent's connection lives */
	mr = ibv_reg_mr(end->pd, end->buf, 64, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* In a forked child, make on an inherited context objects of all other kinds that calls make on a context. */
static int make_each(void *parents)
{
	struct ibv_context *ctx = ((struct rig *)parents)->end[0].ctx;
	struct ibv_pd *pd = ibv_alloc_pd(ctx), *domain;
	struct ibv_td *td = ibv_alloc_td(ctx, &(struct ibv_td_init_attr){0});
	struct ibv_comp_channel *channel = ibv_create_comp_channel(ctx);
	struct ibv_cq_init_attr_ex cq_attr = {.cqe = 4, .channel = channel};
	struct ibv_cq_ex *cq = channel ? ibv_create_cq_ex(ctx, &cq_attr) : NULL;
	struct ibv_xrcd_init_attr xrcd_attr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1, .oflags = O_CREAT};
	struct ibv_xrcd *xrcd = ibv_open_xrcd(ctx, &xrcd_attr);

	if (!pd || !td || !cq || !xrcd)
		return 1;
	domain = ibv_alloc_parent_domain(ctx, &(struct ibv_parent_domain_init_attr){.pd = pd, .td = td});

	struct ibv_srq_init_attr_ex srq_attr = {.attr = {.max_wr = 4, .max_sge = 1},
						.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
							     IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ,
						.srq_type = IBV_SRQT_XRC,
						.pd = pd,
						.xrcd = xrcd,
						.cq = ibv_cq_ex_to_cq(cq)};
	struct ibv_qp_init_attr_ex target = {
		.qp_type = IBV_QPT_XRC_RECV, .comp_mask = IBV_QP_INIT_ATTR_XRCD, .xrcd = xrcd};
	struct ibv_qp_init_attr_ex qp_attr = {.send_cq = ibv_cq_ex_to_cq(cq),
					      .recv_cq = ibv_cq_ex_to_cq(cq),
					      .cap = {1, 1, 1, 1, 0},
					      .qp_type = IBV_QPT_RC,
					      .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					      .pd = domain};
	struct ibv_srq *srq = ibv_create_srq_ex(ctx, &srq_attr);
	struct ibv_qp *of_xrc = ibv_create_qp_ex(ctx, &target), *qp = domain ? ibv_create_qp_ex(ctx, &qp_attr) : NULL;

	if (!srq || !of_xrc || !qp)
		return 2;
	return ibv_destroy_qp(qp) || ibv_destroy_qp(of_xrc) || ibv_destroy_srq(srq) || ibv_close_xrcd(xrcd) ||
	       ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) || ibv_destroy_comp_channel(channel) || ibv_dealloc_pd(domain) ||
	       ibv_dealloc_td(td) || ibv_dealloc_pd(pd) || ibv_close_device(ctx);
}

static void fork__the_child_makes_each_kind_of_object(void **state)
{
	char said[SAID_MAX];

	assert_int_equal(in_child(make_each, *state, said), 0);
}

/* A grandchild: neither the context that the parent has opened in its child nor its objects are its own. */
static int use_inherited_twice(void *parents)
{
	char said[SAID_MAX];

	return !ibv_alloc_pd(((struct rig *)parents)->end[0].ctx) || in_child(use_inherited, parents, said);
}

static void fork__the_childs_child_makes_objects_too(void **state)
{
	char said[SAID_MAX];

	assert_int_equal(in_child(use_inherited_twice, *state, said), 0);
}

/* Open the parent's devices again, and send data from one to the other. The parent's contexts are closed meanwhile:
 * that must not end what was opened here. */
static int use_anew(void *parents)
{
	struct rig *inherited = parents;
	void *rig = NULL;

	alarm(60);
	if (rig_setup_again(&rig) || ibv_close_device(inherited->end[0].ctx))
		return 1;
	rig_connect(rig, IBV_QPT_RC);
	send_checked(rig, 'c');
	return ibv_close_device(inherited->end[1].ctx) || rig_teardown(&rig);
}

static void fork__the_child_opens_the_devices_anew(void **state)
{
	struct rig *rig = *state;
	char said[SAID_MAX];

	rig_connect(rig, IBV_QPT_RC);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(in_child(use_anew, rig, said), 0);
	send_checked(rig, 'p'); /* the parent's connection lives */
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
	char said[SAID_MAX];

	assert_non_null(c.closed);
	assert_int_equal(in_child(close_one_seek_other, &c, said), 0);
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
	char said[SAID_MAX];
	int status = 0, fd = memfd_create("uroce-cmd", MFD_CLOEXEC);
	pthread_t thread[2];
	void *ret;

	atomic_store(&busy_end, false);
	assert_int_equal(pthread_create(&thread[0], NULL, busy_importing, &fd), 0);
	assert_int_equal(pthread_create(&thread[1], NULL, busy_registering, rig->end[0].pd), 0);
	for (int i = 0; i < 50 && !status; i++)
		status = in_child(close_one_register_other, rig, said);
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
	char said[SAID_MAX];
	struct ibv_device **list;
	pthread_t thread;
	int status = 0;

	rig_devices();
	list = ibv_get_device_list(NULL);
	assert_non_null(list);
	atomic_store(&busy_end, false);
	assert_int_equal(pthread_create(&thread, NULL, busy_asking, list[0]), 0);
	for (int i = 0; i < 20 && !status; i++)
		status = in_child(open_and_close, NULL, said);
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
		T(fork__MR_02_the_child_makes_objects_on_inherited_contexts),
		T(fork__the_child_makes_each_kind_of_object),
		T(fork__the_childs_child_makes_objects_too),
		T(fork__the_child_opens_the_devices_anew),
		T(fork__child_import_ignores_a_closed_context),
		T(fork__child_finds_no_lock_taken),
		cmocka_unit_test(fork__child_opens_a_device_not_opened_by_the_parent),
	};

	return cmocka_run_group_tests_name("shim_threads", tests, NULL, NULL);
}
