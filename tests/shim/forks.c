/* SPDX-License-Identifier: BSD-3-Clause */
/* forks.c - forked children that make objects on the contexts that they inherited. */
#include "rig.h"

#include <dirent.h>
#include <fcntl.h>
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

	alarm(60);
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

/* In a forked child, ask an inherited context for events: those of the child's objects come. */
static int hear_event(void *parents)
{
	struct ibv_context *ctx = ((struct rig *)parents)->end[0].ctx;
	struct rig_end end = {.ctx = ctx, .pd = ibv_alloc_pd(ctx), .cq = ibv_create_cq(ctx, 4, NULL, NULL, 0)};
	struct ibv_qp_init_attr init = rig_qp_init(&end, IBV_QPT_RC);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_async_event event;
	struct ibv_qp *qp;

	alarm(60);
	init.srq = ibv_create_srq(end.pd, &(struct ibv_srq_init_attr){.attr = {.max_wr = 4, .max_sge = 1}});
	qp = ibv_create_qp(end.pd, &init);
	if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0)
		return 1;
	attr.qp_state = IBV_QPS_ERR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE) || ibv_get_async_event(ctx, &event) ||
	    event.event_type != IBV_EVENT_QP_LAST_WQE_REACHED || event.element.qp != qp)
		return 2;
	ibv_ack_async_event(&event);
	return ibv_destroy_qp(qp);
}

static void fork__the_child_makes_each_kind_of_object(void **state)
{
	assert_int_equal(rig_in_child(make_each, *state), 0);
	assert_int_equal(rig_in_child(hear_event, *state), 0);
}

/* A grandchild: neither the context that the parent has opened in its child nor its objects are its own. */
static int use_inherited_twice(void *parents)
{
	return !ibv_alloc_pd(((struct rig *)parents)->end[0].ctx) || rig_in_child(use_inherited, parents);
}

static void fork__the_childs_child_makes_objects_too(void **state)
{
	assert_int_equal(rig_in_child(use_inherited_twice, *state), 0);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(fork__MR_02_the_child_makes_objects_on_inherited_contexts),
		T(fork__the_child_makes_each_kind_of_object),
		T(fork__the_childs_child_makes_objects_too),
	};

	return cmocka_run_group_tests_name("shim_forks", tests, NULL, NULL);
}
