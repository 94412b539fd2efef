/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exp_objects.c - experimental verbs: queries, objects, memory, missing features, and devices of other drivers.
 */
#include "exp_rig.h"

#define ALL_FIELDS ((uint32_t)(IBV_EXP_DEVICE_ATTR_RESERVED - 1))

/* ---- queries -------------------------------------------------------------------------------------------------- */

static void device__query_returns_the_requested_fields(void **state)
{
	const uint64_t extended = IBV_EXP_DEVICE_EXT_ATOMICS | IBV_EXP_DEVICE_EXT_MASKED_ATOMICS | IBV_EXP_DEVICE_NOP |
				  IBV_EXP_DEVICE_CROSS_CHANNEL | IBV_EXP_DEVICE_ODP;
	const uint64_t absent = IBV_EXP_DEVICE_DC_TRANSPORT | IBV_EXP_DEVICE_UMR | IBV_EXP_DEVICE_MR_ALLOCATE |
				IBV_EXP_DEVICE_SHARED_MR;
	struct rig *rig = *state;
	struct ibv_exp_device_attr attr;
	struct ibv_device_attr plain;

	memset(&attr, 0x5a, sizeof(attr));
	attr.comp_mask = ALL_FIELDS;
	attr.comp_mask_2 = IBV_EXP_DEVICE_ATTR_RESERVED_2 - 1;
	assert_int_equal(ibv_exp_query_device(rig->end[0].ctx, &attr), 0);
	assert_int_equal(ibv_query_device(rig->end[0].ctx, &plain), 0);
	assert_memory_equal(&attr, &plain, offsetof(struct ibv_device_attr, max_qp_wr));
	assert_int_equal(attr.max_srq_sge, plain.max_srq_sge);
	assert_int_equal(attr.max_qp_init_rd_atom, plain.max_qp_init_rd_atom);
	assert_int_equal(attr.phys_port_cnt, 1);
	assert_int_equal(attr.exp_device_cap_flags & extended, extended);
	assert_int_equal(attr.exp_device_cap_flags & absent, 0);
	assert_true(attr.exp_device_cap_flags & IBV_EXP_DEVICE_MW_TYPE_2B);
	assert_true(attr.max_dm_size > 0);
	assert_int_equal(attr.odp_caps.general_odp_caps, IBV_EXP_ODP_SUPPORT | IBV_EXP_ODP_SUPPORT_IMPLICIT);
	assert_int_equal(attr.max_dct, 0);
	assert_true(attr.comp_mask & IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS);
	assert_true(attr.comp_mask & IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE);
	assert_int_equal(attr.comp_mask & (IBV_EXP_DEVICE_ATTR_PACKET_PACING_CAPS | IBV_EXP_DEVICE_ATTR_TSO_CAPS |
					   IBV_EXP_DEVICE_ATTR_TM_CAPS | IBV_EXP_DEVICE_ATTR_WITH_TIMESTAMP_MASK),
			 0);
	assert_int_equal(attr.comp_mask_2, IBV_EXP_DEVICE_ATTR_PCI_ATOMIC_CAPS);
	attr.comp_mask = IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS;
	assert_int_equal(ibv_exp_query_device(rig->end[0].ctx, &attr), 0);
	assert_int_equal(attr.comp_mask, IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS);
	attr.comp_mask = ALL_FIELDS;
	attr.comp_mask_2 = IBV_EXP_DEVICE_ATTR_RESERVED_2;
	assert_int_equal(ibv_exp_query_device(rig->end[0].ctx, &attr), EINVAL);
}

static void port__and_gids(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *ctx = rig->end[0].ctx;
	struct ibv_exp_port_attr port = {.comp_mask = 0};
	struct ibv_exp_gid_attr gid = {.comp_mask = IBV_EXP_QUERY_GID_ATTR_TYPE | IBV_EXP_QUERY_GID_ATTR_GID};

	assert_int_equal(ibv_exp_query_port(ctx, 1, &port), 0);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	memset(&port, 0, sizeof(port));
	port.comp_mask = IBV_EXP_QUERY_PORT_ATTR_MASK1;
	port.mask1 = IBV_EXP_QUERY_PORT_STATE | IBV_EXP_QUERY_PORT_LINK_LAYER;
	assert_int_equal(ibv_exp_query_port(ctx, 1, &port), 0);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(port.mask1, IBV_EXP_QUERY_PORT_STATE | IBV_EXP_QUERY_PORT_LINK_LAYER);
	assert_int_equal(ibv_exp_query_port(ctx, 2, &port), -EINVAL);
	port.mask1 = 1u << 20;
	assert_int_equal(ibv_exp_query_port(ctx, 1, &port), -EINVAL);
	port.comp_mask = 2;
	assert_int_equal(ibv_exp_query_port(ctx, 1, &port), -EINVAL);

	assert_int_equal(ibv_exp_query_gid_attr(ctx, 1, 0, &gid), 0);
	assert_int_equal(gid.type, IBV_EXP_ROCE_V2_GID_TYPE);
	assert_memory_equal(&gid.gid, &rig->end[0].gid, sizeof(gid.gid));
	assert_int_equal(ibv_exp_query_gid_attr(ctx, 1, 10000, &gid), EINVAL);
	assert_int_equal(ibv_exp_query_gid_attr(ctx, 1, UINT32_MAX, &gid), EINVAL);
	assert_int_equal(ibv_exp_query_gid_attr(ctx, 0, 0, &gid), EINVAL);
	gid.comp_mask = IBV_EXP_QUERY_GID_ATTR_RESERVED;
	assert_int_equal(ibv_exp_query_gid_attr(ctx, 1, 0, &gid), EINVAL);
}

static void env__setenv_changes_the_process_environment(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(ibv_exp_setenv(rig->end[0].ctx, "UROCE_TEST_VARIABLE", "x", 1), 0);
	assert_string_equal(getenv("UROCE_TEST_VARIABLE"), "x");
	assert_int_equal(ibv_exp_setenv(rig->end[0].ctx, "UROCE_TEST_VARIABLE", "y", 0), 0);
	assert_string_equal(getenv("UROCE_TEST_VARIABLE"), "x");
}

/* ---- objects -------------------------------------------------------------------------------------------------- */

static void qp__unsupported_create_attributes_are_refused(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];
	struct ibv_qp_init_attr plain = rig_qp_init(end, IBV_QPT_RC);
	const struct ibv_exp_qp_init_attr good = {
		.send_cq = plain.send_cq,
		.recv_cq = plain.recv_cq,
		.cap = plain.cap,
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_RESERVED - 1 - IBV_EXP_QP_INIT_ATTR_XRCD,
		.pd = end->pd,
		.max_inl_recv = 64,
		.max_atomic_arg = 8,
	};
	static const uint32_t refused[] = {IBV_EXP_QP_INIT_ATTR_XRCD, IBV_EXP_QP_INIT_ATTR_RX_HASH,
					   IBV_EXP_QP_INIT_ATTR_PEER_DIRECT, IBV_EXP_QP_INIT_ATTR_MAX_TSO_HEADER,
					   IBV_EXP_QP_INIT_ATTR_ASSOCIATED_QPN};
	struct ibv_exp_qp_init_attr attr = good;
	struct ibv_qp *qp = ibv_exp_create_qp(end->ctx, &attr);

	assert_non_null(qp);
	assert_int_equal(attr.max_inl_recv, 0);
	assert_true(attr.cap.max_send_wr >= 16);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	for (unsigned i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) {
		attr = good;
		attr.comp_mask |= refused[i];
		assert_null(ibv_exp_create_qp(end->ctx, &attr));
		assert_int_equal(errno, EOPNOTSUPP);
	}
	attr = good;
	attr.exp_create_flags = IBV_EXP_QP_CREATE_UMR;
	assert_null(ibv_exp_create_qp(end->ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
	attr = good;
	attr.max_atomic_arg = 33;
	assert_null(ibv_exp_create_qp(end->ctx, &attr));
	assert_int_equal(errno, EINVAL);
	attr = good;
	attr.comp_mask = IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG; /* without a PD */
	assert_null(ibv_exp_create_qp(end->ctx, &attr));
	assert_int_equal(errno, EINVAL);
	attr = good;
	attr.comp_mask |= IBV_EXP_QP_INIT_ATTR_RESERVED1;
	assert_null(ibv_exp_create_qp(end->ctx, &attr));
	assert_int_equal(errno, EINVAL);
	attr = good;
	attr.pd = rig->end[1].pd; /* PD of another device */
	assert_null(ibv_exp_create_qp(end->ctx, &attr));
	assert_int_equal(errno, EINVAL);
	attr = good;
	attr.qp_type = IBV_EXP_QPT_DC_INI;
	assert_null(ibv_exp_create_qp(end->ctx, &attr));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void qp__modified_as_by_the_plain_call(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp *qp = exp_qp(rig, 0, IBV_QPT_RC, 8, 0);
	struct ibv_exp_qp_attr attr = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC};
	const uint64_t mask = IBV_EXP_QP_STATE | IBV_EXP_QP_PKEY_INDEX | IBV_EXP_QP_PORT | IBV_EXP_QP_ACCESS_FLAGS;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr plain;

	assert_int_equal(ibv_exp_modify_qp(qp, &attr, mask | IBV_EXP_QP_DC_KEY), EOPNOTSUPP);
	assert_int_equal(ibv_exp_modify_qp(qp, &attr, mask & ~(uint64_t)IBV_EXP_QP_PORT), EINVAL);
	attr.comp_mask = IBV_EXP_QP_ATTR_RESERVED;
	assert_int_equal(ibv_exp_modify_qp(qp, &attr, mask), EINVAL);
	attr.comp_mask = 0;
	assert_int_equal(ibv_exp_modify_qp(qp, &attr, mask), 0);
	assert_int_equal(ibv_query_qp(qp, &plain, IBV_QP_STATE, &init), 0);
	assert_int_equal(plain.qp_state, IBV_QPS_INIT);
	assert_int_equal(plain.qp_access_flags, IBV_ACCESS_REMOTE_ATOMIC);
}

static void cq__create_and_modify_cq_and_create_srq(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *ctx = rig->end[0].ctx;
	struct ibv_exp_cq_init_attr attr = {.comp_mask = 0};
	struct ibv_exp_cq_attr change = {.comp_mask = IBV_EXP_CQ_ATTR_MODERATION};
	struct ibv_exp_create_srq_attr srq_attr = {.base = {.attr = {.max_wr = 4, .max_sge = 1}}, .pd = rig->end[0].pd};
	struct ibv_srq *srq = ibv_exp_create_srq(ctx, &srq_attr);
	struct ibv_cq *cq = ibv_exp_create_cq(ctx, 8, NULL, NULL, 0, &attr);

	assert_non_null(cq);
	assert_true(cq->cqe >= 8);
	change.moderation.cq_count = 1;
	assert_int_equal(ibv_exp_modify_cq(cq, &change, IBV_EXP_CQ_MODERATION), 0);
	change.moderation.cq_count = 8;
	change.moderation.cq_period = 100;
	assert_int_equal(ibv_exp_modify_cq(cq, &change, IBV_EXP_CQ_MODERATION), 0);
	cq->handle ^= 1u << 31;
	assert_int_equal(ibv_exp_modify_cq(cq, &change, IBV_EXP_CQ_MODERATION), ENOENT);
	cq->handle ^= 1u << 31;
	change.cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN << 1;
	assert_int_equal(ibv_exp_modify_cq(cq, &change, IBV_EXP_CQ_CAP_FLAGS), EINVAL);
	assert_int_equal(ibv_exp_modify_cq(cq, &change, 4), EINVAL);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	attr.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS;
	attr.flags = IBV_EXP_CQ_TIMESTAMP;
	assert_null(ibv_exp_create_cq(ctx, 8, NULL, NULL, 0, &attr));
	assert_int_equal(errno, EOPNOTSUPP);

	assert_non_null(srq);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	srq_attr.srq_type = IBV_EXP_SRQT_TAG_MATCHING;
	assert_null(ibv_exp_create_srq(ctx, &srq_attr));
	assert_int_equal(errno, EOPNOTSUPP);
	srq_attr.srq_type = IBV_EXP_SRQT_BASIC;
	srq_attr.pd = NULL;
	assert_null(ibv_exp_create_srq(ctx, &srq_attr));
	assert_int_equal(errno, EINVAL);
}

/* ---- memory --------------------------------------------------------------------------------------------------- */

static void mr__unsupported_access_flags_are_refused(void **state)
{
	struct rig *rig = *state;
	struct ibv_exp_reg_mr_in in = {
		.pd = rig->end[0].pd, .addr = rig->end[0].buf, .length = 64, .exp_access = IBV_EXP_ACCESS_LOCAL_WRITE};
	struct ibv_mr *mr = ibv_exp_reg_mr(&in);

	assert_non_null(mr);
	assert_ptr_equal(mr->addr, rig->end[0].buf);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	in.exp_access |= IBV_EXP_ACCESS_RELAXED;
	mr = ibv_exp_reg_mr(&in);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	in.exp_access |= IBV_EXP_ACCESS_ALLOCATE_MR;
	assert_null(ibv_exp_reg_mr(&in));
	assert_int_equal(errno, EOPNOTSUPP);
	in.exp_access = IBV_EXP_ACCESS_ON_DEMAND;
	mr = ibv_exp_reg_mr(&in);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	in.exp_access = IBV_EXP_ACCESS_REMOTE_WRITE; /* invalid without local write */
	assert_null(ibv_exp_reg_mr(&in));
	assert_int_equal(errno, EINVAL);
	in.comp_mask = IBV_EXP_REG_MR_RESERVED;
	assert_null(ibv_exp_reg_mr(&in));
	assert_int_equal(errno, EINVAL);
	in.comp_mask = IBV_EXP_REG_MR_DM; /* but in.dm is NULL */
	assert_null(ibv_exp_reg_mr(&in));
	assert_int_equal(errno, EINVAL);
}

static void dm__peers_access_it_by_rkey(void **state)
{
	struct rig *rig = *state;
	struct rig_end *owner = &rig->end[1];
	struct ibv_exp_alloc_dm_attr attr = {.length = 4096};
	struct ibv_exp_dm *dm = ibv_exp_alloc_dm(owner->ctx, &attr);
	struct ibv_exp_reg_mr_in in = {
		.pd = owner->pd, .length = 4096, .exp_access = RIG_ACCESS, .comp_mask = IBV_EXP_REG_MR_DM, .dm = dm};
	struct ibv_mr *mr = ibv_exp_reg_mr(&in);
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8);
	struct ibv_exp_send_wr wr = exp_masked(rig, IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD, 3, &sge, 0);
	uint64_t value = 40, seen = 1;
	struct ibv_exp_memcpy_dm_attr copy = {
		.memcpy_dir = IBV_EXP_DM_CPY_TO_DEVICE, .host_addr = &value, .dm_offset = 64, .length = 8};

	assert_non_null(dm);
	assert_non_null(mr);
	exp_connect(rig, 8, 0);
	assert_int_equal(ibv_exp_memcpy_dm(dm, &copy), 0);
	wr.ext_op.masked_atomics.remote_addr = 64;
	wr.ext_op.masked_atomics.rkey = mr->rkey;
	wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add.add_val = 2;
	assert_int_equal(exp_run(rig, &wr).status, IBV_WC_SUCCESS);
	copy = (struct ibv_exp_memcpy_dm_attr){
		.memcpy_dir = IBV_EXP_DM_CPY_TO_HOST, .host_addr = &seen, .dm_offset = 64, .length = 8};
	assert_int_equal(ibv_exp_memcpy_dm(dm, &copy), 0);
	assert_int_equal(seen, 42);
	copy.dm_offset = 4090;
	assert_int_equal(ibv_exp_memcpy_dm(dm, &copy), EFAULT);
	copy.dm_offset = UINT64_MAX;
	assert_int_equal(ibv_exp_memcpy_dm(dm, &copy), EFAULT);
	copy.memcpy_dir = (enum ibv_exp_dm_memcpy_dir)2;
	assert_int_equal(ibv_exp_memcpy_dm(dm, &copy), EINVAL);
	assert_int_equal(ibv_exp_free_dm(dm), EBUSY);
	dm->handle ^= 1;
	assert_int_equal(ibv_exp_free_dm(dm), ENOENT);
	dm->handle ^= 1;
	wr.ext_op.masked_atomics.remote_addr = 4096;
	assert_int_equal(exp_run(rig, &wr).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	in.addr = (void *)8;
	assert_null(ibv_exp_reg_mr(&in)); /* beyond the end of the device memory */
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_exp_free_dm(dm), 0);
}

/** A device is closed while a region is registered on its device memory: the region is removed, and the device
 * memory can still be freed. */
static void dm__outlives_its_device(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *ctx = ibv_open_device(rig->end[0].ctx->device);
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	struct ibv_dm *dm = ibv_alloc_dm(ctx, &attr);
	static struct ibv_mr *volatile mr; /* keeps leak checkers quiet */

	assert_non_null(dm);
	mr = ibv_reg_dm_mr(pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED);
	assert_non_null(mr);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	assert_int_equal(ibv_close_device(ctx), 0);
	assert_null(ibv_alloc_dm(ctx, &attr));
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void dm__allocations_are_limited_to_max_dm_size(void **state)
{
	struct rig *rig = *state;
	struct ibv_exp_device_attr device = {.comp_mask = IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE};
	struct ibv_exp_alloc_dm_attr attr = {.length = 0};
	struct ibv_exp_dm *dm;

	assert_int_equal(ibv_exp_query_device(rig->end[0].ctx, &device), 0);
	assert_null(ibv_exp_alloc_dm(rig->end[0].ctx, &attr));
	assert_int_equal(errno, EINVAL);
	attr.length = SIZE_MAX;
	assert_null(ibv_exp_alloc_dm(rig->end[0].ctx, &attr));
	assert_int_equal(errno, ENOMEM);
	for (unsigned i = 0; i < 2; i++) {
		attr.length = device.max_dm_size;
		dm = ibv_exp_alloc_dm(rig->end[0].ctx, &attr);
		assert_non_null(dm);
		attr.length = 1;
		assert_null(ibv_exp_alloc_dm(rig->end[0].ctx, &attr));
		assert_int_equal(errno, ENOMEM);
		assert_int_equal(ibv_exp_free_dm(dm), 0);
	}
}

/** Device memory through the interface that rdma-core later adopted from the experimental verbs. */
static void dm__the_rdma_core_verbs_work_as_well(void **state)
{
	struct rig *rig = *state;
	struct rig_end *owner = &rig->end[1];
	struct ibv_alloc_dm_attr attr = {.length = 256, .log_align_req = 6};
	struct ibv_dm *dm = ibv_alloc_dm(owner->ctx, &attr);
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 16);
	struct ibv_exp_send_wr wr = exp_ordinary(IBV_EXP_WR_RDMA_WRITE, &sge, rig, 0);
	uint8_t seen[16];
	struct ibv_mr *mr;

	assert_non_null(dm);
	assert_null(ibv_reg_dm_mr(owner->pd, dm, 0, 256, RIG_ACCESS)); /* refused: the flag ZERO_BASED is missing */
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_dm_mr(owner->pd, dm, 128, 129, RIG_ACCESS | IBV_ACCESS_ZERO_BASED));
	assert_null(ibv_reg_dm_mr(rig->end[0].pd, dm, 0, 1, RIG_ACCESS | IBV_ACCESS_ZERO_BASED));
	mr = ibv_reg_dm_mr(owner->pd, dm, 128, 128, RIG_ACCESS | IBV_ACCESS_ZERO_BASED);
	assert_non_null(mr);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, owner->buf, 64, 0),
			 IBV_REREG_MR_ERR_CMD);
	exp_connect(rig, 0, 0);
	memset(rig->end[0].buf, 0x33, 16);
	wr.wr.rdma.remote_addr = 8;
	wr.wr.rdma.rkey = mr->rkey;
	assert_int_equal(exp_run(rig, &wr).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_memcpy_from_dm(seen, dm, 128 + 8, 16), 0);
	assert_memory_equal(seen, rig->end[0].buf, 16);
	assert_int_equal(ibv_memcpy_to_dm(dm, 250, seen, 16), EFAULT);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
	attr.log_align_req = 30;
	assert_null(ibv_alloc_dm(owner->ctx, &attr));
	assert_int_equal(errno, EINVAL);
}

/* ---- missing features, and devices of other drivers ---- */

static void absent__missing_features_fail_as_unsupported(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *ctx = rig->end[0].ctx;
	struct ibv_exp_dct_init_attr dct = {.pd = rig->end[0].pd};
	struct ibv_exp_res_domain_init_attr domain = {.comp_mask = 0};
	struct ibv_exp_query_intf_params intf = {.intf = IBV_EXP_INTF_QP_BURST};
	enum ibv_exp_query_intf_status status = IBV_EXP_INTF_STAT_OK;

	errno = 0;
	assert_null(ibv_exp_create_dct(ctx, &dct));
	assert_int_equal(errno, ENOSYS);
	assert_null(ibv_exp_create_res_domain(ctx, &domain));
	assert_null(ibv_exp_query_intf(ctx, &intf, &status));
	assert_int_equal(status, IBV_EXP_INTF_STAT_INTF_NOT_SUPPORTED);
	assert_null(ibv_exp_create_flow(NULL, NULL));
	assert_int_equal(ibv_exp_destroy_flow(NULL), -ENOSYS);
	assert_int_equal(ibv_exp_query_values(ctx, 0, NULL), -ENOSYS);
}

static int foreign_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr)
{
	return EPERM;
}

static void foreign__devices_of_other_drivers_fail_with_enosys(void **state)
{
	struct verbs_context vctx = {.context = {.ops = {.post_send = foreign_post_send}}};
	struct ibv_context *ctx = &vctx.context;
	struct ibv_exp_device_attr device = {.comp_mask = 0};
	struct ibv_exp_gid_attr gid = {.comp_mask = 0};
	struct ibv_exp_qp_init_attr init = {.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG};
	struct ibv_exp_qp_attr qp_attr = {.qp_state = IBV_QPS_INIT};
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_NOP}, *bad;
	struct ibv_exp_cq_init_attr cq_init = {.comp_mask = 0};
	struct ibv_exp_cq_attr cq_attr = {.comp_mask = 0};
	struct ibv_exp_create_srq_attr srq = {.comp_mask = 0};
	struct ibv_exp_alloc_dm_attr dm_attr = {.length = 1};
	struct ibv_exp_memcpy_dm_attr copy = {.length = 1};
	struct ibv_pd pd = {.context = ctx};
	struct ibv_qp qp = {.context = ctx};
	struct ibv_cq cq = {.context = ctx};
	struct ibv_mw mw = {.context = ctx};
	struct ibv_exp_dm dm = {.context = ctx};
	struct ibv_exp_reg_mr_in in = {.pd = &pd};
	struct ibv_exp_mw_bind bind = {.mw = &mw};
	struct ibv_exp_wc wc;

	assert_int_equal(ibv_exp_query_device(ctx, &device), ENOSYS);
	assert_int_equal(ibv_exp_query_gid_attr(ctx, 1, 0, &gid), ENOSYS);
	errno = 0;
	assert_null(ibv_exp_create_qp(ctx, &init));
	assert_int_equal(errno, ENOSYS);
	assert_int_equal(ibv_exp_modify_qp(&qp, &qp_attr, IBV_EXP_QP_STATE), ENOSYS);
	assert_int_equal(ibv_exp_post_send(&qp, &wr, &bad), -ENOSYS);
	assert_null(ibv_exp_create_cq(ctx, 1, NULL, NULL, 0, &cq_init));
	assert_int_equal(ibv_exp_modify_cq(&cq, &cq_attr, 0), ENOSYS);
	assert_int_equal(ibv_exp_poll_cq(&cq, 1, &wc, sizeof(wc)), -ENOSYS);
	assert_null(ibv_exp_create_srq(ctx, &srq));
	errno = 0;
	assert_null(ibv_exp_reg_mr(&in));
	assert_int_equal(errno, ENOSYS);
	assert_int_equal(ibv_exp_bind_mw(&bind), ENOSYS);
	errno = 0;
	assert_null(ibv_exp_alloc_dm(ctx, &dm_attr));
	assert_int_equal(errno, ENOSYS);
	assert_int_equal(ibv_exp_free_dm(&dm), ENOSYS);
	assert_int_equal(ibv_exp_memcpy_dm(&dm, &copy), ENOSYS);
	assert_int_equal(ibv_exp_setenv(ctx, "UROCE_TEST_FOREIGN", "1", 1), 0);
	errno = 0;
	assert_null(ibv_exp_get_provider_func(ctx, IBV_EXP_POST_SEND_FUNC));
	assert_int_equal(errno, ENOSYS);
	assert_ptr_equal(ibv_exp_get_provider_func(ctx, IBV_POST_SEND_FUNC), foreign_post_send);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		T(device__query_returns_the_requested_fields),
		T(port__and_gids),
		T(env__setenv_changes_the_process_environment),
		T(qp__unsupported_create_attributes_are_refused),
		T(qp__modified_as_by_the_plain_call),
		T(cq__create_and_modify_cq_and_create_srq),
		T(mr__unsupported_access_flags_are_refused),
		T(dm__peers_access_it_by_rkey),
		T(dm__outlives_its_device),
		T(dm__allocations_are_limited_to_max_dm_size),
		T(dm__the_rdma_core_verbs_work_as_well),
		T(absent__missing_features_fail_as_unsupported),
		cmocka_unit_test(foreign__devices_of_other_drivers_fail_with_enosys),
	};

	return cmocka_run_group_tests_name("shim_exp_objects", tests, NULL, NULL);
}
