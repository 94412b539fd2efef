/* SPDX-License-Identifier: BSD-3-Clause */
/* forks.c - forked children that make objects on the contexts that they inherited. */
#include "rig.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

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
	if (dir)
		closedir(dir);
	return n;
}

/* Make objects on the inherited contexts, send data from one to the other, and destroy the objects. */
static int use_inherited(void *parents)
{
	struct rig *inherited = parents, mine;
	int before = descriptors();

	for (int i = 0; i < 2; i++)
		if (!end_of_child(&inherited->end[i], &mine.end[i]))
			return 1 + i;
	rig_connect(&mine, IBV_QPT_RC);
	rig_send_checked(&mine, 'c');
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
	struct ibv_mr *mr;

	assert_int_equal(ibv_fork_init(), 0);
	rig_connect(rig, IBV_QPT_RC);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(rig_in_child(use_inherited, rig), 0);
	rig_send_checked(rig, 'p'); /* the parent's connection lives */
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

	struct ibv_qp_open_attr open_attr = {.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
							  IBV_QP_OPEN_ATTR_TYPE,
					     .qp_num = of_xrc->qp_num,
					     .xrcd = xrcd,
					     .qp_type = IBV_QPT_XRC_RECV};
	struct ibv_qp *opened = ibv_open_qp(ctx, &open_attr);

	if (!opened || ibv_destroy_qp(opened))
		return 3;
	return ibv_destroy_qp(qp) || ibv_destroy_qp(of_xrc) || ibv_destroy_srq(srq) || ibv_close_xrcd(xrcd) ||
	       ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) || ibv_destroy_comp_channel(channel) || ibv_dealloc_pd(domain) ||
	       ibv_dealloc_td(td) || ibv_dealloc_pd(pd) || ibv_close_device(ctx);
}

/* ---- asynchronous events ----------------------------------------------------------------------------- */

/* Objects of a context, one of which has an event. */
struct raised {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
};

static bool event_raise(struct raised *r)
{
	struct rig_end end = {.ctx = r->ctx};
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;

	r->pd = ibv_alloc_pd(r->ctx);
	r->cq = end.cq = ibv_create_cq(r->ctx, 4, NULL, NULL, 0);
	if (!r->pd || !r->cq)
		return false;
	init = rig_qp_init(&end, IBV_QPT_RC);
	init.srq = r->srq = ibv_create_srq(r->pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = 4, .max_sge = 1}});
	r->qp = r->srq ? ibv_create_qp(r->pd, &init) : NULL;
	if (!r->qp || ibv_modify_qp(r->qp, &attr, mask))
		return false;
	attr.qp_state = IBV_QPS_ERR;
	return !ibv_modify_qp(r->qp, &attr, IBV_QP_STATE);
}

/* Read the event, and destroy the objects. */
static bool event_comes(struct raised *r)
{
	struct ibv_async_event event;

	if (ibv_get_async_event(r->ctx, &event) || event.event_type != IBV_EVENT_QP_LAST_WQE_REACHED ||
	    event.element.qp != r->qp)
		return false;
	ibv_ack_async_event(&event);
	return !ibv_destroy_qp(r->qp) && !ibv_destroy_srq(r->srq) && !ibv_destroy_cq(r->cq) && !ibv_dealloc_pd(r->pd);
}

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

/* @return 0: an event comes on a context, and its descriptor says so */
static int hear_event(void *context)
{
	struct raised r = {.ctx = context};

	return !event_raise(&r) || !is_readable(r.ctx->async_fd) || !event_comes(&r) || is_readable(r.ctx->async_fd);
}

static int hear_event_in_child(void *context)
{
	return !ibv_alloc_pd(context) || rig_in_child(hear_event, context) != 0;
}

/* In a forked child, ask an inherited context for events: the parent's are not the child's, and fail at once, but those
 * of the child's objects come, also on the descriptor that the parent knows. */
static int hear_own_event(void *inherited)
{
	struct ibv_context *ctx = inherited;
	struct ibv_async_event event;
	struct ibv_pd *pd;

	if (!is_readable(ctx->async_fd) || ibv_get_async_event(ctx, &event) != -1 || errno != EIO)
		return 1;
	pd = ibv_alloc_pd(ctx);
	if (!pd || is_readable(ctx->async_fd) || ibv_get_async_event(ctx, &event) != -1 || errno != EAGAIN)
		return 2; /* the descriptor is still non-blocking */
	if (hear_event(ctx))
		return 3;
	return ibv_dealloc_pd(pd) || ibv_close_device(ctx);
}

static void fork__the_childs_events_come_on_the_descriptor_it_knows(void **state)
{
	struct raised r = {.ctx = ((struct rig *)*state)->end[0].ctx};

	assert_true(event_raise(&r));
	assert_int_equal(fcntl(r.ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(rig_in_child(hear_own_event, r.ctx), 0);
	assert_int_equal(rig_in_child(hear_event_in_child, r.ctx), 0);
	assert_true(is_readable(r.ctx->async_fd));
	assert_true(event_comes(&r)); /* the parent's event is not lost */
}

static void fork__the_child_makes_each_kind_of_object(void **state)
{
	assert_int_equal(rig_in_child(make_each, *state), 0);
}

/* ---- contexts ---------------------------------------------------------------------------------------- */

static int childs_fd;

static int use_inherited_and_close(void *parents)
{
	int err = use_inherited(parents);

	return err || fcntl(childs_fd, F_GETFD) != -1;
}

/* A grandchild: neither the context that the parent has opened in its child nor its objects are its own, and it closes
 * both with the one that it names. */
static int use_inherited_twice(void *parents)
{
	struct ibv_pd *pd = ibv_alloc_pd(((struct rig *)parents)->end[0].ctx);

	if (!pd)
		return 1;
	childs_fd = pd->context->async_fd;
	return rig_in_child(use_inherited_and_close, parents) != 0;
}

static void fork__the_childs_child_makes_objects_too(void **state)
{
	assert_int_equal(rig_in_child(use_inherited_twice, *state), 0);
}

/* Close the context that the child's objects have, and reuse its memory: the inherited context is then as before.
 * @param empty whether it has no object, so that its memory is freed */
static bool close_context_of_pd(struct ibv_context *inherited, bool empty)
{
	struct ibv_pd *pd = ibv_alloc_pd(inherited);
	struct ibv_context *own = pd ? pd->context : inherited;

	if (own == inherited || (empty && ibv_dealloc_pd(pd)) || ibv_close_device(own))
		return false;
	for (size_t n = 64; n < 2048; n += 4) {
		unsigned *reused = malloc(n * sizeof(*reused));

		for (size_t i = 0; i < n; i++)
			reused[i] = 1; /* as if it were closed, and opened in this process, after one fork */
	}
	pd = ibv_alloc_pd(inherited);
	return pd && !ibv_dealloc_pd(pd);
}

static int close_contexts_of_pds(void *inherited)
{
	if (!close_context_of_pd(inherited, false))
		return 1;
	return !close_context_of_pd(inherited, true) || ibv_close_device(inherited) ? 2 : 0;
}

static void fork__the_child_closes_the_context_of_its_objects(void **state)
{
	assert_int_equal(rig_in_child(close_contexts_of_pds, ((struct rig *)*state)->end[0].ctx), 0);
}

/* @return whether the file, the child's stderr, has one sentence of uroce's, and nothing else */
static bool said_once(FILE *file)
{
	char said[4096];
	size_t n;

	rewind(file);
	n = fread(said, 1, sizeof(said) - 1, file);
	said[n] = '\0';
	return !strncmp(said, "uroce: ", 7) && strchr(said, '\n') == said + n - 1;
}

/* In a forked child that cannot open the device, make objects on an inherited context. The user is told once why that
 * fails; the child can still open the device itself when the cause is gone. */
static int fail_to_open(void *parents)
{
	struct rig_end *end = parents;
	struct ibv_context *ctx = end->ctx, *own;
	struct ibv_gid_entry entry[4];
	FILE *file = tmpfile();

	if (!file || dup2(fileno(file), STDERR_FILENO) < 0)
		return 1;
	setenv("UROCE_PROGRESS", "wrong", 1);
	if (ibv_alloc_pd(ctx) || errno != EIO || ibv_alloc_pd(ctx) || errno != EIO ||
	    ibv_query_gid_table(ctx, entry, 4, 0) != 0 || ibv_alloc_td(ctx, &(struct ibv_td_init_attr){0}) ||
	    errno != EIO || ibv_alloc_parent_domain(ctx, &(struct ibv_parent_domain_init_attr){.pd = end->pd}) ||
	    errno != EIO)
		return 2;
	unsetenv("UROCE_PROGRESS");
	if (ibv_create_cq(ctx, 4, NULL, NULL, 0) || errno != EIO)
		return 3;
	if (!said_once(file))
		return 4;
	own = ibv_open_device(ctx->device);
	return !own || ibv_close_device(own) || ibv_close_device(ctx);
}

/* In a forked child that has no descriptors left: the user is told so once, and the device is opened as soon as there
 * are enough. */
static int fail_without_descriptors(void *inherited)
{
	struct ibv_context *ctx = inherited;
	struct ibv_pd *pd = NULL;
	struct rlimit limit, few;
	FILE *file = tmpfile();
	int failures = 0;

	if (!file || dup2(fileno(file), STDERR_FILENO) < 0 || getrlimit(RLIMIT_NOFILE, &limit))
		return 1;
	few = limit;
	for (few.rlim_cur = 3; !pd && few.rlim_cur < limit.rlim_cur; few.rlim_cur++) {
		if (setrlimit(RLIMIT_NOFILE, &few))
			return 2;
		pd = ibv_alloc_pd(ctx);
		failures += !pd && errno == EIO;
	}
	return !pd || failures < 5 || !said_once(file) ? 3 : ibv_dealloc_pd(pd);
}

static void fork__a_child_without_descriptors_tries_again(void **state)
{
	assert_int_equal(rig_in_child(fail_without_descriptors, ((struct rig *)*state)->end[0].ctx), 0);
}

static void fork__a_child_that_cannot_open_the_device_says_so_once(void **state)
{
	assert_int_equal(rig_in_child(fail_to_open, &((struct rig *)*state)->end[0]), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(fork__MR_02_the_child_makes_objects_on_inherited_contexts),
		T(fork__the_child_makes_each_kind_of_object),
		T(fork__the_childs_events_come_on_the_descriptor_it_knows),
		T(fork__the_childs_child_makes_objects_too),
		T(fork__the_child_closes_the_context_of_its_objects),
		T(fork__a_child_that_cannot_open_the_device_says_so_once),
		T(fork__a_child_without_descriptors_tries_again),
	};

	return cmocka_run_group_tests_name("shim_forks", tests, NULL, NULL);
}
