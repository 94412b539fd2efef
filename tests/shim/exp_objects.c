/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exp_objects.c - experimental verbs other than atomics and cross-channel: queries, objects, ordinary requests and
 * completions, device memory, missing features, and devices of other drivers.
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

/* ---- ordinary requests ---------------------------------------------------------------------------------------- */

static struct ibv_exp_send_wr ordinary(enum ibv_exp_wr_opcode opcode, struct ibv_sge *sge, struct rig *rig, size_t at)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = opcode;
	wr.sg_list = sge;
	wr.num_sge = 1;
	wr.exp_opcode = opcode;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	wr.wr.rdma.remote_addr = (uintptr_t)rig->end[1].buf + at;
	wr.wr.rdma.rkey = rig->end[1].mr->rkey;
	return wr;
}

static struct ibv_exp_wc exp_wait(struct ibv_cq *cq)
{
	struct ibv_exp_wc wc[2];
	int n;

	memset(wc, 0x5a, sizeof(wc));
	while (!(n = ibv_exp_poll_cq(cq, 1, wc, sizeof(wc[0]))))
		;
	assert_int_equal(n, 1);
	assert_int_equal(((uint8_t *)&wc[1])[0], 0x5a);
	return wc[0];
}

#define IMAGE 4096 /* size of a buffer's expected final contents */

/** Write 16 consecutive values that begin with `first`. */
static void put(uint8_t *mem, uint8_t first)
{
	for (unsigned i = 0; i < 16; i++)
		mem[i] = (uint8_t)(first + i);
}

static void received(struct rig *rig, const struct ibv_exp_wc *want)
{
	struct ibv_exp_wc wc = exp_wait(rig->end[1].cq);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, want->wr_id);
	assert_int_equal(wc.exp_opcode, want->exp_opcode);
	assert_int_equal(wc.byte_len, want->byte_len);
	assert_int_equal(wc.imm_data, want->imm_data);
	assert_int_equal(wc.exp_wc_flags, want->exp_wc_flags);
}

/** Six requests of different kinds in one list: each moves its own bytes, no other byte changes, and each gives the
 * right completions. */
static void post__ordinary_requests(void **state)
{
	struct rig *rig = *state;
	uint8_t *own = rig->end[0].buf, *other = rig->end[1].buf, want[2][IMAGE] = {{0}};
	struct ibv_sge sge[] = {rig_sge(&rig->end[0], 0, 16), rig_sge(&rig->end[0], 16, 16),
				rig_sge(&rig->end[0], 32, 16), rig_sge(&rig->end[0], 128, 8),
				rig_sge(&rig->end[0], 192, 16)};
	struct ibv_exp_send_wr write = ordinary(IBV_EXP_WR_RDMA_WRITE, &sge[0], rig, 256), *bad;
	struct ibv_exp_send_wr imm = ordinary(IBV_EXP_WR_RDMA_WRITE_WITH_IMM, &sge[1], rig, 512);
	struct ibv_exp_send_wr send = ordinary(IBV_EXP_WR_SEND_WITH_IMM, &sge[2], rig, 0);
	struct ibv_exp_send_wr faa = ordinary(IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, &sge[3], rig, 0);
	struct ibv_exp_send_wr nop = ordinary(IBV_EXP_WR_NOP, NULL, rig, 0);
	struct ibv_exp_send_wr read = ordinary(IBV_EXP_WR_RDMA_READ, &sge[4], rig, 768);
	static const enum ibv_exp_wc_opcode opcodes[] = {IBV_EXP_WC_RDMA_WRITE, IBV_EXP_WC_RDMA_WRITE,
							 IBV_EXP_WC_SEND,	IBV_EXP_WC_FETCH_ADD,
							 IBV_EXP_WC_SEND,	IBV_EXP_WC_RDMA_READ};
	struct ibv_exp_wc wc;

	exp_connect(rig, 0, 0);
	rig_post_recv(&rig->end[1], 1, 2048, 16);
	rig_post_recv(&rig->end[1], 2, 1024, 16);
	memset(own, 0, IMAGE);
	memset(other, 0, IMAGE);
	for (unsigned i = 0; i < 3; i++)
		put(own + 16ul * i, (uint8_t)(0x10 + 0x20 * i));
	put(other + 768, 0x80);
	other[600] = 5;
	memcpy(want[0], own, IMAGE);
	memcpy(want[1], other, IMAGE);
	memcpy(want[1] + 256, own, 16);
	memcpy(want[1] + 512, own + 16, 16);
	memcpy(want[1] + 1024, own + 32, 16);
	want[1][600] = 8;
	want[0][128] = 5;
	memcpy(want[0] + 192, other + 768, 16);
	memset(want[0] + 32, 0x5a, 16);
	imm.ex.imm_data = 0x11223344;
	send.ex.imm_data = 0x55667788;
	send.exp_send_flags |= IBV_EXP_SEND_INLINE;
	sge[2].lkey = 0; /* ignored, because the data is inline */
	faa.wr.atomic.remote_addr = (uintptr_t)other + 600;
	faa.wr.atomic.compare_add = 3;
	faa.wr.atomic.rkey = rig->end[1].mr->rkey;
	nop.num_sge = 0;
	read.exp_send_flags |= IBV_EXP_SEND_FENCE;
	write.next = &imm;
	imm.next = &send;
	send.next = &faa;
	faa.next = &nop;
	nop.next = &read;
	assert_int_equal(ibv_exp_post_send(rig->end[0].qp, &write, &bad), 0);
	memset(own + 32, 0x5a, 16); /* inline data was copied, so the buffer can be reused */
	for (unsigned i = 0; i < 6; i++) {
		wc = exp_wait(rig->end[0].cq);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.exp_opcode, opcodes[i]);
		assert_int_equal(wc.qp_num, rig->end[0].qp->qp_num);
		assert_null(wc.qp);
	}
	received(rig, &(struct ibv_exp_wc){.wr_id = 1,
					   .exp_opcode = IBV_EXP_WC_RECV_RDMA_WITH_IMM,
					   .byte_len = 16,
					   .imm_data = 0x11223344,
					   .exp_wc_flags = IBV_EXP_WC_WITH_IMM});
	received(rig, &(struct ibv_exp_wc){.wr_id = 2,
					   .exp_opcode = IBV_EXP_WC_RECV,
					   .byte_len = 16,
					   .imm_data = 0x55667788,
					   .exp_wc_flags = IBV_EXP_WC_WITH_IMM});
	assert_memory_equal(own, want[0], IMAGE);
	assert_memory_equal(other, want[1], IMAGE);
}

static void post__send_that_invalidates(void **state)
{
	struct rig *rig = *state;
	struct rig_end *peer = &rig->end[1];
	struct ibv_mr *mr = ibv_reg_mr(peer->pd, peer->buf, RIG_BUF, RIG_ACCESS | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(peer->pd, IBV_MW_TYPE_2);
	const uint32_t rkey = ibv_inc_rkey(mw->rkey);
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 16);
	struct ibv_exp_send_wr bind = ordinary(IBV_EXP_WR_BIND_MW, NULL, rig, 0), *bad;
	struct ibv_exp_send_wr write = ordinary(IBV_EXP_WR_RDMA_WRITE, &sge, rig, 256);
	struct ibv_exp_send_wr send = ordinary(IBV_EXP_WR_SEND_WITH_INV, &sge, rig, 0);
	uint8_t want[IMAGE] = {0};

	exp_connect(rig, 0, 0);
	rig_post_recv(peer, 1, 1024, 64);
	memset(peer->buf, 0, IMAGE);
	bind.num_sge = 0;
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = rkey;
	bind.bind_mw.bind_info =
		(struct ibv_exp_mw_bind_info){mr, (uintptr_t)peer->buf + 256, 16, IBV_EXP_ACCESS_REMOTE_WRITE};
	assert_int_equal(ibv_exp_post_send(peer->qp, &bind, &bad), 0);
	assert_int_equal(exp_wait(peer->cq).status, IBV_WC_SUCCESS);
	write.wr.rdma.rkey = rkey;
	put(rig->end[0].buf, 0x10);
	assert_int_equal(exp_run(rig, &write).status, IBV_WC_SUCCESS);
	put(want + 256, 0x10);

	put(rig->end[0].buf, 0x30);
	put(want + 1024, 0x30);
	send.ex.invalidate_rkey = rkey;
	assert_int_equal(exp_run(rig, &send).status, IBV_WC_SUCCESS);
	received(rig, &(struct ibv_exp_wc){.wr_id = 1,
					   .exp_opcode = IBV_EXP_WC_RECV,
					   .byte_len = 16,
					   .imm_data = rkey,
					   .exp_wc_flags = IBV_EXP_WC_WITH_INV});
	put(rig->end[0].buf, 0x50);
	assert_int_equal(exp_run(rig, &write).status, IBV_WC_REM_ACCESS_ERR);
	assert_memory_equal(peer->buf, want, IMAGE);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void post__datagrams(void **state)
{
	struct rig *rig = *state;
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 16);
	struct ibv_exp_send_wr send = ordinary(IBV_EXP_WR_SEND, &sge, rig, 0),
			       nop = ordinary(IBV_EXP_WR_NOP, NULL, rig, 0);
	struct ibv_ah *ah = rig_ah(rig);
	uint8_t want[IMAGE] = {0};

	exp_qp(rig, 0, IBV_QPT_UD, 0, 0);
	exp_qp(rig, 1, IBV_QPT_UD, 0, 0);
	rig_connect_qps(rig, rig->end[0].qp, rig->end[1].qp);
	rig_post_recv(&rig->end[1], 1, 0, 256);
	memset(rig->end[1].buf, 0, IMAGE);
	put(rig->end[0].buf, 0x10);
	put(want + 40, 0x10);
	nop.num_sge = 0;
	nop.wr.ud.ah = (struct ibv_ah *)(uintptr_t)0x5a5a5a5a; /* ignored in a no-op */
	assert_int_equal(exp_run(rig, &nop).status, IBV_WC_SUCCESS);
	send.wr.ud.ah = NULL;
	exp_refused(rig->end[0].qp, &send);
	send.wr.ud.ah = ah;
	send.wr.ud.remote_qpn = rig->end[1].qp->qp_num;
	send.wr.ud.remote_qkey = RIG_QKEY;
	assert_int_equal(exp_run(rig, &send).status, IBV_WC_SUCCESS);
	received(rig, &(struct ibv_exp_wc){.wr_id = 1,
					   .exp_opcode = IBV_EXP_WC_RECV,
					   .byte_len = 40 + 16,
					   .exp_wc_flags = IBV_EXP_WC_GRH});
	assert_memory_equal(rig->end[1].buf + 40, want + 40, IMAGE - 40);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static void post__binds_and_invalidates_windows(void **state)
{
	struct rig *rig = *state;
	struct rig_end *own = &rig->end[0];
	struct ibv_mr *mr = ibv_reg_mr(own->pd, own->buf, RIG_BUF, RIG_ACCESS | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(own->pd, IBV_MW_TYPE_2), *type_1 = ibv_alloc_mw(own->pd, IBV_MW_TYPE_1);
	struct ibv_exp_send_wr bind = ordinary(IBV_EXP_WR_BIND_MW, NULL, rig, 0), inv = bind;
	struct ibv_exp_mw_bind old = {.wr_id = 9, .exp_send_flags = IBV_EXP_SEND_SIGNALED, .mw = type_1};
	struct ibv_wc wc;

	exp_connect(rig, 0, 0);
	bind.bind_mw.mw = mw;
	bind.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	bind.bind_mw.bind_info = (struct ibv_exp_mw_bind_info){mr, (uintptr_t)own->buf, 64, IBV_EXP_ACCESS_ON_DEMAND};
	exp_refused(own->qp, &bind);
	bind.bind_mw.bind_info.exp_mw_access_flags = IBV_EXP_ACCESS_REMOTE_READ;
	wc = exp_run(rig, &bind);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_BIND_MW);
	inv.exp_opcode = IBV_EXP_WR_LOCAL_INV;
	inv.ex.invalidate_rkey = bind.bind_mw.rkey;
	wc = exp_run(rig, &inv);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_LOCAL_INV);
	bind.bind_mw.mw = NULL;
	exp_refused(own->qp, &bind);
	bind.bind_mw.mw = type_1;
	exp_refused(own->qp, &bind);

	old.qp = own->qp;
	old.bind_info = (struct ibv_exp_mw_bind_info){mr, (uintptr_t)own->buf, 64, IBV_EXP_ACCESS_REMOTE_READ};
	assert_int_equal(ibv_exp_bind_mw(&old), 0);
	assert_int_equal(rig_wait(own->cq).wr_id, 9);
	old.mw = mw;
	assert_int_equal(ibv_exp_bind_mw(&old), EINVAL);
	assert_int_equal(ibv_dealloc_mw(type_1), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void post__unsupported_opcodes_and_flags_are_refused(void **state)
{
	static const int opcodes[] = {IBV_EXP_WR_TSO,
				      IBV_EXP_WR_SEND_ENABLE,
				      IBV_EXP_WR_RECV_ENABLE,
				      IBV_EXP_WR_CQE_WAIT,
				      IBV_EXP_WR_UMR_FILL,
				      IBV_EXP_WR_UMR_INVALIDATE,
				      10,
				      32,
				      0x62 + 32,
				      -1};
	struct rig *rig = *state;
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8);
	struct ibv_exp_send_wr wr;

	exp_connect(rig, 32, 0);
	for (unsigned i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		wr = ordinary((enum ibv_exp_wr_opcode)opcodes[i], &sge, rig, 0);
		exp_refused(rig->end[0].qp, &wr);
	}
	wr = ordinary(IBV_EXP_WR_RDMA_WRITE, &sge, rig, 0);
	wr.exp_send_flags |= IBV_EXP_SEND_WITH_CALC;
	exp_refused(rig->end[0].qp, &wr);
	wr.exp_send_flags = 1ull << 40;
	exp_refused(rig->end[0].qp, &wr);
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED | IBV_EXP_SEND_IP_CSUM;
	assert_int_equal(exp_run(rig, &wr).status, IBV_WC_SUCCESS);
}

/** ibv_exp_poll_cq accepts an array whose elements are larger than struct ibv_exp_wc, and one whose elements are so
 * short that they end before the timestamp. */
static void poll__accepts_longer_and_shorter_wc_structures(void **state)
{
	struct rig *rig = *state;
	struct ibv_exp_send_wr nop = ordinary(IBV_EXP_WR_NOP, NULL, rig, 0), *bad;
	uint8_t big[40][sizeof(struct ibv_exp_wc) + 8];
	struct ibv_exp_wc small;

	exp_connect(rig, 0, 0);
	nop.num_sge = 0;
	for (unsigned i = 0; i < 16; i++)
		assert_int_equal(ibv_exp_post_send(rig->end[0].qp, &nop, &bad), 0);
	memset(big, 0x5a, sizeof(big));
	assert_int_equal(ibv_exp_poll_cq(rig->end[0].cq, 15, (struct ibv_exp_wc *)big, sizeof(big[0])), 15);
	for (unsigned i = 0; i < 15; i++) {
		struct ibv_exp_wc wc;

		memcpy(&wc, big[i], sizeof(wc));
		assert_int_equal(wc.wr_id, IBV_EXP_WR_NOP);
		assert_int_equal(big[i][sizeof(wc)], 0);
	}
	assert_int_equal(big[15][0], 0x5a);
	memset(&small, 0x5a, sizeof(small));
	assert_int_equal(ibv_exp_poll_cq(rig->end[0].cq, 1, &small, offsetof(struct ibv_exp_wc, timestamp)), 1);
	assert_int_equal(small.wr_id, IBV_EXP_WR_NOP);
	assert_int_equal(small.timestamp, 0x5a5a5a5a5a5a5a5a);
	assert_int_equal(ibv_exp_poll_cq(rig->end[0].cq, 1, &small, 8), -EINVAL);
	assert_int_equal(ibv_exp_poll_cq(rig->end[0].cq, -1, &small, sizeof(small)), -EINVAL);
	assert_int_equal(ibv_exp_poll_cq(rig->end[0].cq, 1, &small, sizeof(small)), 0);
}

static void post__provider_functions_post_and_poll(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *ctx = rig->end[0].ctx;
	struct ibv_exp_send_wr nop = ordinary(IBV_EXP_WR_NOP, NULL, rig, 0), *bad;
	drv_exp_post_send_func post = (drv_exp_post_send_func)ibv_exp_get_provider_func(ctx, IBV_EXP_POST_SEND_FUNC);
	drv_exp_poll_cq_func poll = (drv_exp_poll_cq_func)ibv_exp_get_provider_func(ctx, IBV_EXP_POLL_CQ_FUNC);
	struct ibv_exp_wc wc;

	assert_non_null(post);
	assert_non_null(poll);
	assert_non_null(ibv_exp_get_provider_func(ctx, IBV_POST_SEND_FUNC));
	assert_non_null(ibv_exp_get_provider_func(ctx, IBV_POST_RECV_FUNC));
	assert_non_null(ibv_exp_get_provider_func(ctx, IBV_POLL_CQ_FUNC));
	exp_connect(rig, 0, 0);
	nop.num_sge = 0;
	assert_int_equal(post(rig->end[0].qp, &nop, &bad), 0);
	assert_int_equal(poll(rig->end[0].cq, 1, &wc, sizeof(wc)), 1);
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
	struct ibv_exp_send_wr wr = ordinary(IBV_EXP_WR_RDMA_WRITE, &sge, rig, 0);
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
		T(post__ordinary_requests),
		T(post__send_that_invalidates),
		T(post__datagrams),
		T(post__binds_and_invalidates_windows),
		T(post__unsupported_opcodes_and_flags_are_refused),
		T(poll__accepts_longer_and_shorter_wc_structures),
		T(post__provider_functions_post_and_poll),
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
