/* SPDX-License-Identifier: BSD-3-Clause */
/* traffic.c - posting, polling and events as programs see them, between two devices of this process. */
#include "rig.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

/* ---- posting ----------------------------------------------------------------------------------------- */

static void post__list_stops_at_the_bad_request(void **state)
{
	struct rig *rig = *state;
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 64);
	struct ibv_send_wr wr[3], *bad = NULL;

	rig_connect(rig, IBV_QPT_RC);
	for (int i = 0; i < 3; i++) {
		wr[i] = (struct ibv_send_wr){.wr_id = (uint64_t)i,
					     .next = i < 2 ? &wr[i + 1] : NULL,
					     .sg_list = &sge,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_WRITE,
					     .send_flags = IBV_SEND_SIGNALED};
		wr[i].wr.rdma.remote_addr = (uintptr_t)rig->end[1].buf;
		wr[i].wr.rdma.rkey = rig->end[1].mr->rkey;
	}
	memset(rig->end[0].buf, 0xa1, 64);
	wr[1].num_sge = 5; /* too many: the queue was created with four SGEs */
	assert_int_equal(ibv_post_send(rig->end[0].qp, wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);

	struct ibv_wc wc = rig_wait(rig->end[0].cq);

	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 0);
	assert_memory_equal(rig->end[1].buf, rig->end[0].buf, 64);
	wr[1].num_sge = -1;
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr[1], &bad), EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(ibv_poll_cq(rig->end[0].cq, 1, &wc), 0);
}

/** ibv_post_send refuses opcodes that only other structures can describe. */
static void post__unknown_opcodes_are_refused(void **state)
{
	struct rig *rig = *state;
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8);
	struct ibv_send_wr wr, *bad;

	rig_connect(rig, IBV_QPT_RC);
	for (unsigned opcode = IBV_WR_TSO; opcode < 300; opcode++) {
		if (opcode == IBV_WR_ATOMIC_WRITE)
			continue;
		memset(&wr, 0xff, sizeof(wr));
		wr.next = NULL;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.opcode = opcode;
		bad = NULL;
		assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), EINVAL);
		assert_ptr_equal(bad, &wr);
	}
}

static void post__full_queue_returns_enomem(void **state)
{
	struct rig *rig = *state;
	struct ibv_sge sge = rig_sge(&rig->end[1], 0, 64);
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;
	int n = 0, err;

	rig_connect(rig, IBV_QPT_RC);
	while (!(err = ibv_post_recv(rig->end[1].qp, &wr, &bad)))
		n++;
	assert_int_equal(err, ENOMEM);
	assert_int_equal(n, 16);
	assert_ptr_equal(bad, &wr);
}

static void post__atomics_and_reads_return_data(void **state)
{
	struct rig *rig = *state;
	uint64_t *remote = (uint64_t *)rig->end[1].buf, *local = (uint64_t *)rig->end[0].buf;
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	rig_connect(rig, IBV_QPT_RC);
	*remote = 40;
	wr.wr.atomic.remote_addr = (uintptr_t)remote;
	wr.wr.atomic.rkey = rig->end[1].mr->rkey;
	wr.wr.atomic.compare_add = 2;
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(*local, 40);
	assert_int_equal(*remote, 42);
	wr.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
	wr.wr.atomic.compare_add = 42;
	wr.wr.atomic.swap = 7;
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).opcode, IBV_WC_COMP_SWAP);
	assert_int_equal(*remote, 7);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.wr.rdma.remote_addr = (uintptr_t)remote;
	wr.wr.rdma.rkey = rig->end[1].mr->rkey;
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).opcode, IBV_WC_RDMA_READ);
	assert_int_equal(*local, 7);
}

/** End 0 sends a datagram to end 1, which answers to the address that the completion and the GRH area give.
 *  @param l3_type expected in the low bits of wc.sl: on RoCEv2 the header is IPv6 (1) or IPv4 (2) */
static void reply_to_a_datagram(struct rig *rig, int l3_type)
{
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 100), answer = rig_sge(&rig->end[1], 1040, 100);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = 0x01020304,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	struct ibv_grh *grh = (struct ibv_grh *)(rig->end[1].buf + 1000);
	struct ibv_ah_attr attr;
	struct ibv_ah *there;
	struct ibv_wc wc;

	rig_connect(rig, IBV_QPT_UD);
	rig_post_recv(&rig->end[1], 5, 1000, 140);
	rig_post_recv(&rig->end[0], 6, 1000, 140);
	memset(rig->end[0].buf, 0x77, 100);
	there = rig_ah(rig);
	wr.wr.ud.ah = there;
	wr.wr.ud.remote_qpn = rig->end[1].qp->qp_num;
	wr.wr.ud.remote_qkey = RIG_QKEY;
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	wc = rig_wait(rig->end[1].cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 140);
	assert_int_equal(wc.imm_data, 0x01020304);
	assert_int_equal(wc.src_qp, rig->end[0].qp->qp_num);
	assert_true(wc.wc_flags & IBV_WC_GRH);
	assert_int_equal(wc.sl & 3, l3_type);
	assert_memory_equal(rig->end[1].buf + 1040, rig->end[0].buf, 100);

	assert_int_equal(ibv_init_ah_from_wc(rig->end[1].ctx, 1, &wc, grh, &attr), 0);
	assert_memory_equal(attr.grh.dgid.raw, rig->end[0].gid.raw, 16);
	assert_int_equal(attr.grh.sgid_index, 0);
	wr.sg_list = &answer;
	wr.wr.ud.ah = ibv_create_ah_from_wc(rig->end[1].pd, &wc, grh, 1);
	assert_non_null(wr.wr.ud.ah);
	wr.wr.ud.remote_qpn = wc.src_qp;
	assert_int_equal(ibv_post_send(rig->end[1].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[1].cq).status, IBV_WC_SUCCESS);
	wc = rig_wait(rig->end[0].cq);
	assert_int_equal(wc.wr_id, 6);
	assert_int_equal(wc.src_qp, rig->end[1].qp->qp_num);
	assert_memory_equal(rig->end[0].buf + 1040, rig->end[0].buf, 100);
	assert_int_equal(ibv_destroy_ah(wr.wr.ud.ah), 0);
	assert_int_equal(ibv_destroy_ah(there), 0);
}

static void ud__UD_03_an_ipv4_reply_address_comes_from_the_completion(void **state)
{
	reply_to_a_datagram(*state, 2);
}

static void ud__UD_03_an_ipv6_reply_address_comes_from_the_completion(void **state)
{
	if (!*state)
		skip(); /* the host has no IPv6 */
	reply_to_a_datagram(*state, 1);
}

/* Attributes of ibv_reg_mr_ex in rdma-core 64, whose headers may not be installed. The test registers a part of a
 * buffer from ibv_alloc_buf, with addresses that start at an iova. */
struct mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask; /* bits: 1 iova, 2 addr, 32 buf */
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah, *buf;
};

static void mr__buffer_parts_use_their_iova_and_the_buffers_pd(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[1];
	void *(*alloc_buf)(struct ibv_pd *, size_t, void **) =
		(void *(*)(struct ibv_pd *, size_t, void **))dlsym(RTLD_DEFAULT, "ibv_alloc_buf");
	void (*free_buf)(void *) = (void (*)(void *))dlsym(RTLD_DEFAULT, "ibv_free_buf");
	struct ibv_mr *(*reg)(struct ibv_pd *, struct mr_init_attr *) =
		(struct ibv_mr * (*)(struct ibv_pd *, struct mr_init_attr *)) dlsym(RTLD_DEFAULT, "ibv_reg_mr_ex");
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 64);
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct mr_init_attr attr = {.length = 64, .access = RIG_ACCESS, .comp_mask = 35, .iova = 0x7000};
	struct ibv_pd *pd = ibv_alloc_pd(end->ctx);
	uint8_t *bytes = alloc_buf(end->pd, 256, &attr.buf);
	struct ibv_send_wr *bad;
	struct ibv_mr *mr;

	assert_non_null(bytes);
	attr.addr = bytes + 193;
	assert_null(reg(end->pd, &attr));
	attr.addr = bytes - 1;
	assert_null(reg(end->pd, &attr));
	attr.addr = bytes + 192;
	assert_null(reg(pd, &attr)); /* refused: the buffer was allocated for another PD */
	assert_int_equal(errno, EINVAL);
	mr = reg(end->pd, &attr);
	assert_non_null(mr);
	rig_connect(rig, IBV_QPT_RC);
	memset(rig->end[0].buf, 0x5d, 64);
	wr.wr.rdma.remote_addr = 0x7000;
	wr.wr.rdma.rkey = mr->rkey;
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(bytes + 192, rig->end[0].buf, 64);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	free_buf(attr.buf);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void mw__type_1_gets_a_new_key_with_each_bind(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr =
		ibv_reg_mr(rig->end[1].pd, rig->end[1].buf, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(rig->end[1].pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.wr_id = 9,
				   .send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {mr, (uintptr_t)rig->end[1].buf, 64, IBV_ACCESS_REMOTE_WRITE}};
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 64);
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	uint32_t rkey = mw->rkey;

	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(ibv_bind_mw(rig->end[1].qp, mw, &bind), 0);
	assert_int_equal(rig_wait(rig->end[1].cq).opcode, IBV_WC_BIND_MW);
	assert_int_not_equal(mw->rkey, rkey);
	wr.wr.rdma.remote_addr = (uintptr_t)rig->end[1].buf;
	wr.wr.rdma.rkey = mw->rkey;
	memset(rig->end[0].buf, 0x3c, 64);
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(rig->end[1].buf, rig->end[0].buf, 64);
	assert_int_equal(ibv_dereg_mr(mr), EBUSY);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void mw__type_1_survives_binds_that_fail(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[1];
	struct ibv_mr *mr = ibv_reg_mr(end->pd, end->buf, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(end->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {mr, (uintptr_t)end->buf, 4097, IBV_ACCESS_REMOTE_WRITE}};
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 64);
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(ibv_bind_mw(end->qp, mw, &bind), 0);
	assert_int_equal(rig_wait(end->cq).status, IBV_WC_MW_BIND_ERR);
	bind.bind_info.length = 64;
	assert_int_equal(ibv_bind_mw(end->qp, mw, &bind), 0);
	assert_int_equal(rig_wait(end->cq).status, IBV_WC_WR_FLUSH_ERR);
	rig_disconnect(rig);
	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(ibv_bind_mw(end->qp, mw, &bind), 0);
	assert_int_equal(rig_wait(end->cq).status, IBV_WC_SUCCESS);
	wr.wr.rdma.remote_addr = (uintptr_t)end->buf;
	wr.wr.rdma.rkey = mw->rkey;
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void mw__MW_01_type_1_binds_by_verb_only_and_type_2_by_work_request_only(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[1];
	struct ibv_mr *mr = ibv_reg_mr(end->pd, end->buf, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *one = ibv_alloc_mw(end->pd, IBV_MW_TYPE_1), *two = ibv_alloc_mw(end->pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
				   .bind_info = {mr, (uintptr_t)end->buf, 64, IBV_ACCESS_REMOTE_WRITE}};
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad = NULL;

	rig_connect(rig, IBV_QPT_RC);
	wr.bind_mw.bind_info = bind.bind_info;
	wr.bind_mw.mw = one;
	wr.bind_mw.rkey = ibv_inc_rkey(one->rkey);
	assert_int_equal(ibv_post_send(end->qp, &wr, &bad), EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(two->context->ops.bind_mw(end->qp, two, &bind),
			 EINVAL); /* ibv_bind_mw checks the type itself */
	assert_int_equal(ibv_bind_mw(end->qp, one, &bind), 0);
	assert_int_equal(rig_wait(end->cq).status, IBV_WC_SUCCESS);
	wr.bind_mw.mw = two;
	wr.bind_mw.rkey = ibv_inc_rkey(two->rkey);
	assert_int_equal(ibv_post_send(end->qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(end->cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_dealloc_mw(one), 0);
	assert_int_equal(ibv_dealloc_mw(two), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* Programs may bind a type 2 window with any key: the request gives the low byte, as with adapters. */
static void mw__MW_11_a_bind_takes_only_the_low_byte_of_the_key(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[1];
	struct ibv_mr *mr = ibv_reg_mr(end->pd, end->buf, 4096, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw *mw = ibv_alloc_mw(end->pd, IBV_MW_TYPE_2);
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 64);
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad = NULL;

	rig_connect(rig, IBV_QPT_RC);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){mr, (uintptr_t)end->buf, 64, IBV_ACCESS_REMOTE_WRITE};
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ~mw->rkey;
	assert_int_equal(ibv_post_send(end->qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(end->cq).status, IBV_WC_SUCCESS);
	wr = (struct ibv_send_wr){
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
	wr.wr.rdma.remote_addr = (uintptr_t)end->buf;
	wr.wr.rdma.rkey = mw->rkey ^ 0xff;
	memset(rig->end[0].buf, 0x33, 64);
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(end->buf, rig->end[0].buf, 64);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* A context is closed while another context keeps the NIC running: the objects that the program left are destroyed,
 * so a peer gets no response from the QP. */
static void context__closing_destroys_leftover_objects(void **state)
{
	struct rig *rig = *state;
	struct rig_end forgotten = {.ctx = ibv_open_device(rig->end[1].ctx->device), .buf = rig->end[1].buf};
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 64);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE}, *bad;
	struct ibv_qp_init_attr init = rig_qp_init(&rig->end[0], IBV_QPT_RC);
	static struct ibv_qp *qp; /* keeps leak checkers quiet */

	rig->end[0].qp = ibv_create_qp(rig->end[0].pd, &init);
	forgotten.pd = ibv_alloc_pd(forgotten.ctx);
	forgotten.cq = ibv_create_cq(forgotten.ctx, 8, NULL, NULL, 0);
	forgotten.mr = ibv_reg_mr(forgotten.pd, forgotten.buf, RIG_BUF, RIG_ACCESS);
	init = rig_qp_init(&forgotten, IBV_QPT_RC);
	qp = ibv_create_qp(forgotten.pd, &init);
	assert_non_null(qp);
	rig_connect_qps(rig, rig->end[0].qp, qp);
	wr.wr.rdma.remote_addr = (uintptr_t)forgotten.buf;
	wr.wr.rdma.rkey = forgotten.mr->rkey;
	wr.send_flags = IBV_SEND_SIGNALED;
	memset(rig->end[0].buf, 0x11, 64);
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_close_device(forgotten.ctx), 0);
	memset(rig->end[0].buf, 0x22, 64);
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(forgotten.buf[0], 0x11);
}

/* A device is closed right after a message was received, without destroying the QP: the message is still
 * acknowledged. The engines have no threads here, so only the closing can send the delayed ACK. */
static void context__closing_sends_the_delayed_ack(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_init_attr init = rig_qp_init(&rig->end[0], IBV_QPT_RC);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	static struct rig_end leaving; /* keeps leak checkers quiet */

	leaving.ctx = ibv_open_device(rig->end[1].ctx->device);
	leaving.buf = rig->end[1].buf;
	rig->end[0].qp = ibv_create_qp(rig->end[0].pd, &init);
	leaving.pd = ibv_alloc_pd(leaving.ctx);
	leaving.cq = ibv_create_cq(leaving.ctx, 8, NULL, NULL, 0);
	leaving.mr = ibv_reg_mr(leaving.pd, leaving.buf, RIG_BUF, RIG_ACCESS);
	init = rig_qp_init(&leaving, IBV_QPT_RC);
	leaving.qp = ibv_create_qp(leaving.pd, &init);
	rig_connect_qps(rig, rig->end[0].qp, leaving.qp);
	rig_post_recv(&leaving, 0, 0, 64);
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(leaving.cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_close_device(leaving.ctx), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
}

/* ---- events ------------------------------------------------------------------------------------------ */

static bool readable(int fd, int ms)
{
	struct pollfd p = {fd, POLLIN, 0};

	return poll(&p, 1, ms) == 1;
}

static void send_one(struct rig *rig)
{
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	rig_post_recv(&rig->end[1], 0, 0, 64);
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
}

static void *ack_later(void *cq)
{
	usleep(100000);
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void channel__CQ_04_one_event_per_arming_and_destroy_waits_for_acks(void **state)
{
	struct rig *rig = *state;
	struct ibv_comp_channel *ch = ibv_create_comp_channel(rig->end[1].ctx);
	struct ibv_cq *plain = rig->end[1].cq, *cq = ibv_create_cq(rig->end[1].ctx, 8, rig, ch, 0), *got;
	pthread_t thread;
	void *context;

	rig->end[1].cq = cq;
	rig_connect(rig, IBV_QPT_RC);
	send_one(rig);
	assert_false(readable(ch->fd, 50)); /* no event: the CQ is not armed */
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_true(readable(ch->fd, 5000)); /* completions that are already in the CQ raise an event at once */
	send_one(rig);
	send_one(rig);
	assert_int_equal(ibv_get_cq_event(ch, &got, &context), 0);
	assert_ptr_equal(got, cq);
	assert_ptr_equal(context, rig);
	assert_false(readable(ch->fd, 50)); /* no second event: the CQ was armed only once */

	fcntl(ch->fd, F_SETFL, O_NONBLOCK);
	assert_int_equal(ibv_get_cq_event(ch, &got, &context), -1);
	assert_int_equal(errno, EAGAIN);

	assert_int_equal(ibv_req_notify_cq(cq, 0), 0); /* this event stays unread, and vanishes with its CQ */
	send_one(rig);
	assert_true(readable(ch->fd, 5000));
	rig_disconnect(rig);
	pthread_create(&thread, NULL, ack_later, cq);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	pthread_join(thread, NULL);
	assert_false(readable(ch->fd, 0));
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
	rig->end[1].cq = plain;
}

static void channel__solicited_arming_ignores_ordinary_messages(void **state)
{
	struct rig *rig = *state;
	struct ibv_comp_channel *ch = ibv_create_comp_channel(rig->end[1].ctx);
	struct ibv_cq *plain = rig->end[1].cq, *cq = ibv_create_cq(rig->end[1].ctx, 8, NULL, ch, 0), *got;
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND,
				 .send_flags = IBV_SEND_SIGNALED | IBV_SEND_SOLICITED},
			   *bad;
	void *context;

	rig->end[1].cq = cq;
	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(ibv_req_notify_cq(cq, 1), 0);
	send_one(rig);
	assert_false(readable(ch->fd, 50));
	rig_post_recv(&rig->end[1], 0, 0, 64);
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(ibv_get_cq_event(ch, &got, &context), 0); /* blocks until the solicited message arrives */
	ibv_ack_cq_events(got, 1);
	rig_disconnect(rig);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
	rig->end[1].cq = plain;
}

static void async__srq_limit_is_reported_once_and_unread_events_vanish(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[1];
	struct ibv_srq_init_attr sinit = {.attr = {.max_wr = 8, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(end->pd, &sinit);
	struct ibv_srq_attr sattr = {.srq_limit = 2};
	struct ibv_qp_init_attr init = rig_qp_init(&rig->end[0], IBV_QPT_RC);
	struct ibv_sge sge = rig_sge(end, 0, 64);
	struct ibv_recv_wr rwr = {.sg_list = &sge, .num_sge = 1}, *rbad;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_async_event event;

	rig->end[0].qp = ibv_create_qp(rig->end[0].pd, &init);
	init = rig_qp_init(end, IBV_QPT_RC);
	init.srq = srq;
	end->qp = ibv_create_qp(end->pd, &init);
	rig_connect_qps(rig, rig->end[0].qp, end->qp);
	for (int round = 0; round < 2; round++) {
		assert_int_equal(ibv_post_srq_recv(srq, &rwr, &rbad), 0);
		assert_int_equal(ibv_post_srq_recv(srq, &rwr, &rbad), 0);
		assert_int_equal(ibv_modify_srq(srq, &sattr, IBV_SRQ_LIMIT), 0);
		for (int i = 0; i < 2; i++) {
			assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
			assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
			assert_int_equal(rig_wait(end->cq).status, IBV_WC_SUCCESS);
		}
		assert_true(readable(end->ctx->async_fd, 5000));
		if (round)
			break; /* leave the second event unread */
		assert_int_equal(ibv_get_async_event(end->ctx, &event), 0);
		assert_int_equal(event.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
		assert_ptr_equal(event.element.srq, srq);
		ibv_ack_async_event(&event);
		assert_false(readable(end->ctx->async_fd, 50));
	}
	rig_disconnect(rig);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_false(readable(end->ctx->async_fd, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		T(post__list_stops_at_the_bad_request),
		T(post__unknown_opcodes_are_refused),
		T(post__full_queue_returns_enomem),
		T(post__atomics_and_reads_return_data),
		T(ud__UD_03_an_ipv4_reply_address_comes_from_the_completion),
		cmocka_unit_test_setup_teardown(ud__UD_03_an_ipv6_reply_address_comes_from_the_completion,
						rig_setup_ipv6, rig_teardown),
		T(mr__buffer_parts_use_their_iova_and_the_buffers_pd),
		T(mw__type_1_gets_a_new_key_with_each_bind),
		T(mw__type_1_survives_binds_that_fail),
		T(mw__MW_01_type_1_binds_by_verb_only_and_type_2_by_work_request_only),
		T(mw__MW_11_a_bind_takes_only_the_low_byte_of_the_key),
		T(context__closing_destroys_leftover_objects),
		cmocka_unit_test_setup_teardown(context__closing_sends_the_delayed_ack, rig_setup_inline, rig_teardown),
		T(channel__CQ_04_one_event_per_arming_and_destroy_waits_for_acks),
		T(channel__solicited_arming_ignores_ordinary_messages),
		T(async__srq_limit_is_reported_once_and_unread_events_vanish),
	};

	return cmocka_run_group_tests_name("shim_traffic", tests, NULL, NULL);
}
