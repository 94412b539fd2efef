/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exp_requests.c - experimental verbs: ordinary requests (all but atomics and cross-channel), their completions, and
 * the provider functions that post and poll.
 */
#include "exp_rig.h"

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
	struct ibv_exp_send_wr write = exp_ordinary(IBV_EXP_WR_RDMA_WRITE, &sge[0], rig, 256), *bad;
	struct ibv_exp_send_wr imm = exp_ordinary(IBV_EXP_WR_RDMA_WRITE_WITH_IMM, &sge[1], rig, 512);
	struct ibv_exp_send_wr send = exp_ordinary(IBV_EXP_WR_SEND_WITH_IMM, &sge[2], rig, 0);
	struct ibv_exp_send_wr faa = exp_ordinary(IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, &sge[3], rig, 0);
	struct ibv_exp_send_wr nop = exp_ordinary(IBV_EXP_WR_NOP, NULL, rig, 0);
	struct ibv_exp_send_wr read = exp_ordinary(IBV_EXP_WR_RDMA_READ, &sge[4], rig, 768);
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
	struct ibv_exp_send_wr bind = exp_ordinary(IBV_EXP_WR_BIND_MW, NULL, rig, 0), *bad;
	struct ibv_exp_send_wr write = exp_ordinary(IBV_EXP_WR_RDMA_WRITE, &sge, rig, 256);
	struct ibv_exp_send_wr send = exp_ordinary(IBV_EXP_WR_SEND_WITH_INV, &sge, rig, 0);
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
	struct ibv_exp_send_wr send = exp_ordinary(IBV_EXP_WR_SEND, &sge, rig, 0),
			       nop = exp_ordinary(IBV_EXP_WR_NOP, NULL, rig, 0);
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
	struct ibv_exp_send_wr bind = exp_ordinary(IBV_EXP_WR_BIND_MW, NULL, rig, 0), inv = bind;
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
		wr = exp_ordinary((enum ibv_exp_wr_opcode)opcodes[i], &sge, rig, 0);
		exp_refused(rig->end[0].qp, &wr);
	}
	wr = exp_ordinary(IBV_EXP_WR_RDMA_WRITE, &sge, rig, 0);
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
	struct ibv_exp_send_wr nop = exp_ordinary(IBV_EXP_WR_NOP, NULL, rig, 0), *bad;
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
	struct ibv_exp_send_wr nop = exp_ordinary(IBV_EXP_WR_NOP, NULL, rig, 0), *bad;
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

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		T(post__ordinary_requests),
		T(post__send_that_invalidates),
		T(post__datagrams),
		T(post__binds_and_invalidates_windows),
		T(post__unsupported_opcodes_and_flags_are_refused),
		T(poll__accepts_longer_and_shorter_wc_structures),
		T(post__provider_functions_post_and_poll),
	};

	return cmocka_run_group_tests_name("shim_exp_requests", tests, NULL, NULL);
}
