/* SPDX-License-Identifier: BSD-3-Clause */
/* answers.c - what verbs answer in conditions where providers of adapters agree: docs/answers.md, one test a row. */
#include "rig.h"
#include <dlfcn.h>

#define FLUSH_GLOBAL	  (1 << 8) /* IBV_ACCESS_FLUSH_GLOBAL and FLUSH_PERSISTENT, which old verbs.h do not have */
#define FLUSH_PERSISTENT  (1 << 9)
#define UNPROTECTED_ALLOC (1u << 2) /* IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC */

/** Let `call`, which reads a handle, find another value there. Afterwards the handle is as before. */
#define WITH_OTHER_HANDLE(at, call)                                                                                    \
	do {                                                                                                           \
		(at)->handle ^= 0x5a5a5a5a;                                                                            \
		errno = 0;                                                                                             \
		call;                                                                                                  \
		(at)->handle ^= 0x5a5a5a5a;                                                                            \
	} while (0)
#define REFUSED(at, call)                                                                                              \
	do {                                                                                                           \
		WITH_OTHER_HANDLE(at, assert_int_equal(call, ENOENT));                                                 \
		assert_int_equal(errno, ENOENT);                                                                       \
	} while (0)
#define NOT_MADE(at, call)                                                                                             \
	do {                                                                                                           \
		WITH_OTHER_HANDLE(at, assert_null(call));                                                              \
		assert_int_equal(errno, ENOENT);                                                                       \
	} while (0)

static void handle__of_a_pd_that_was_overwritten(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_parent_domain_init_attr parent = {.pd = end->pd};
	struct ibv_qp_init_attr qp = rig_qp_init(end, IBV_QPT_RC);
	struct ibv_ah_attr ah = {.is_global = 1, .port_num = 1, .grh = {.dgid = end->gid, .hop_limit = 64}};
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(end->ctx, &attr);
	struct ibv_pd *pd = ibv_alloc_pd(end->ctx);

	NOT_MADE(end->pd, ibv_reg_mr(end->pd, end->buf, 64, 0));
	NOT_MADE(end->pd, ibv_reg_dm_mr(end->pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED));
	NOT_MADE(end->pd, ibv_alloc_mw(end->pd, IBV_MW_TYPE_1));
	NOT_MADE(end->pd, ibv_create_srq(end->pd, &srq));
	NOT_MADE(end->pd, ibv_create_qp(end->pd, &qp));
	NOT_MADE(end->pd, ibv_create_ah(end->pd, &ah));
	NOT_MADE(end->pd, ibv_alloc_parent_domain(end->ctx, &parent));
	WITH_OTHER_HANDLE(pd, assert_int_equal(ibv_rereg_mr(end->mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0),
					       IBV_REREG_MR_ERR_CMD));
	assert_int_equal(errno, ENOENT);
	REFUSED(pd, ibv_dealloc_pd(pd));
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void handle__of_a_parent_domain_that_was_overwritten(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_parent_domain_init_attr attr = {.pd = end->pd};
	struct ibv_pd *parent = ibv_alloc_parent_domain(end->ctx, &attr);

	NOT_MADE(parent, ibv_reg_mr(parent, end->buf, 64, 0));
	REFUSED(parent, ibv_dealloc_pd(parent));
	assert_int_equal(ibv_dealloc_pd(parent), 0);
}

static void handle__of_memory_that_was_overwritten(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_mr *mr = ibv_reg_mr(end->pd, end->buf, 64, RIG_ACCESS);
	struct ibv_mw *mw = ibv_alloc_mw(end->pd, IBV_MW_TYPE_2);
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(end->ctx, &attr);

	WITH_OTHER_HANDLE(mr, assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
					       IBV_REREG_MR_ERR_CMD));
	assert_int_equal(errno, ENOENT);
	REFUSED(mr, ibv_dereg_mr(mr));
	REFUSED(mw, ibv_dealloc_mw(mw));
	NOT_MADE(dm, ibv_reg_dm_mr(end->pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED));
	REFUSED(dm, ibv_free_dm(dm));
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void handle__of_a_queue_that_was_overwritten(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(end->pd, &init);
	struct ibv_cq *cq = ibv_create_cq(end->ctx, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr qp = rig_qp_init(end, IBV_QPT_RC);
	struct ibv_srq_attr attr = {.srq_limit = 1};

	qp.recv_cq = cq;
	NOT_MADE(cq, ibv_create_qp(end->pd, &qp));
	qp.srq = srq;
	NOT_MADE(srq, ibv_create_qp(end->pd, &qp));
	REFUSED(cq, ibv_resize_cq(cq, 8));
	REFUSED(cq, ibv_destroy_cq(cq));
	REFUSED(srq, ibv_modify_srq(srq, &attr, IBV_SRQ_LIMIT));
	REFUSED(srq, ibv_query_srq(srq, &attr));
	REFUSED(srq, ibv_destroy_srq(srq));
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void handle__of_a_qp_that_was_overwritten(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp;

	rig_connect(rig, IBV_QPT_UD);
	qp = rig->end[0].qp;
	REFUSED(qp, ibv_modify_qp(qp, &attr, IBV_QP_STATE));
	REFUSED(qp, ibv_query_qp(qp, &attr, IBV_QP_STATE, &init));
	REFUSED(qp, ibv_attach_mcast(qp, &rig->end[0].gid, 0));
	REFUSED(qp, ibv_detach_mcast(qp, &rig->end[0].gid, 0));
	REFUSED(qp, ibv_destroy_qp(qp));
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
}

static void handle__of_an_address_that_was_overwritten(void **state)
{
	struct ibv_ah *ah = rig_ah(*state);

	REFUSED(ah, ibv_destroy_ah(ah));
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

static enum ibv_wc_status write_bytes(struct rig *rig, uint32_t length, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, length);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {addr, rkey}},
			   *bad;

	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	return rig_wait(rig->end[0].cq).status;
}

static void mr__of_no_bytes(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_mr *mr = ibv_reg_mr(to->pd, to->buf, 0, RIG_ACCESS), *none = ibv_reg_mr(to->pd, NULL, 0, 0), *of_dm;
	struct ibv_dm *dm = ibv_alloc_dm(to->ctx, &attr);

	assert_non_null(mr);
	assert_non_null(none);
	of_dm = ibv_reg_dm_mr(to->pd, dm, 64, 0, RIG_ACCESS | IBV_ACCESS_ZERO_BASED);
	assert_non_null(of_dm);
	assert_int_equal(mr->length, 0);
	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(write_bytes(rig, 1, (uintptr_t)to->buf, mr->rkey), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(of_dm), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_int_equal(ibv_dereg_mr(none), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static int rereg_error(struct ibv_mr *mr, int flags, void *addr, size_t length, int access)
{
	int answer;

	errno = 0;
	answer = ibv_rereg_mr(mr, flags, NULL, addr, length, access);
	assert_int_equal(errno, EINVAL);
	return answer;
}

static void mr__rereg_tells_bad_input_from_a_refusal(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];

	assert_int_equal(rereg_error(end->mr, 1 << 20, NULL, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(rereg_error(end->mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, 64, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(rereg_error(end->mr, IBV_REREG_MR_CHANGE_TRANSLATION, end->buf, 0, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(rereg_error(end->mr, IBV_REREG_MR_CHANGE_PD, NULL, 0, IBV_ACCESS_LOCAL_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	/* REMOTE_WRITE without LOCAL_WRITE */
	assert_int_equal(rereg_error(end->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, 0, IBV_ACCESS_REMOTE_WRITE),
			 IBV_REREG_MR_ERR_CMD);
}

static void dm__is_copied_in_words(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(end->ctx, &attr);
	uint32_t words[4] = {1, 2, 3, 4}, seen[4] = {0};

	assert_int_equal(ibv_memcpy_to_dm(dm, 8, words, sizeof(words)), 0);
	assert_int_equal(ibv_memcpy_to_dm(dm, 9, words, sizeof(words)), EINVAL);
	assert_int_equal(ibv_memcpy_to_dm(dm, 8, words, 15), EINVAL);
	assert_int_equal(ibv_memcpy_from_dm(seen, dm, 10, 4), EINVAL);
	assert_int_equal(ibv_memcpy_from_dm(seen, dm, 8, 6), EINVAL);
	assert_int_equal(ibv_memcpy_from_dm(seen, dm, 62, 6), EFAULT);
	assert_int_equal(seen[0], 0);
	assert_int_equal(ibv_memcpy_from_dm(seen, dm, 8, sizeof(seen)), 0);
	assert_memory_equal(seen, words, sizeof(words));
	assert_int_equal(ibv_free_dm(dm), 0);
}

static void qp__query_leaves_the_state_that_was_not_asked_for(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_qp *qp;

	rig_connect(rig, IBV_QPT_RC);
	qp = rig->end[0].qp;
	qp->state = IBV_QPS_UNKNOWN;
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_CAP, &init), 0);
	assert_int_equal(qp->state, IBV_QPS_UNKNOWN);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(qp->state, IBV_QPS_RTS);
}

static void qp__has_rights_to_flush(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_qp_init_attr init = rig_qp_init(end, IBV_QPT_RC);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = IBV_ACCESS_REMOTE_READ | FLUSH_GLOBAL | FLUSH_PERSISTENT};
	struct ibv_qp *qp = ibv_create_qp(end->pd, &init);

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
			 0);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_ACCESS_FLAGS, &init), 0);
	assert_int_equal(attr.qp_access_flags, IBV_ACCESS_REMOTE_READ | FLUSH_GLOBAL | FLUSH_PERSISTENT);
	assert_int_equal(ibv_destroy_qp(qp), 0);
}

static void parent_domain__hints_are_accepted(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_parent_domain_init_attr attr = {.pd = end->pd, .comp_mask = UNPROTECTED_ALLOC};
	struct ibv_pd *pd = ibv_alloc_parent_domain(end->ctx, &attr);

	assert_non_null(pd);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	attr.comp_mask = UNPROTECTED_ALLOC << 1;
	assert_null(ibv_alloc_parent_domain(end->ctx, &attr));
	assert_int_equal(errno, EINVAL);
}

/* Functions that the installed verbs.h may not declare. */
static void comp_cntr__is_not_supported(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *ctx = rig->end[0].ctx;
	int (*caps)(struct ibv_context *, void *, size_t), (*attach)(struct ibv_qp *, void *, void *);
	void *(*create)(struct ibv_context *, void *);
	uint64_t attr[4] = {0};

	*(void **)&caps = dlsym(RTLD_DEFAULT, "_ibv_query_comp_cntr_caps");
	*(void **)&create = dlsym(RTLD_DEFAULT, "ibv_create_comp_cntr");
	*(void **)&attach = dlsym(RTLD_DEFAULT, "ibv_qp_attach_comp_cntr");
	assert_int_equal(caps(ctx, attr, sizeof(attr)), EOPNOTSUPP);
	errno = 0;
	assert_null(create(ctx, attr));
	assert_int_equal(errno, EOPNOTSUPP);
	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(attach(rig->end[0].qp, NULL, attr), EOPNOTSUPP);
}

static void buf__has_no_dma_buf(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	void *(*alloc)(struct ibv_pd *, size_t, void **);
	void (*release)(void *);
	int (*export_fd)(void *);
	void *buf;

	*(void **)&alloc = dlsym(RTLD_DEFAULT, "ibv_alloc_buf");
	*(void **)&release = dlsym(RTLD_DEFAULT, "ibv_free_buf");
	*(void **)&export_fd = dlsym(RTLD_DEFAULT, "ibv_export_buf_dmabuf_fd");
	assert_non_null(alloc(end->pd, 4096, &buf));
	assert_int_equal(export_fd(buf), -1);
	assert_int_equal(errno, ENODATA);
	release(buf);
}

/* The remote memory is read as it was before the WRITE that follows, without a fence. */
static void qp__a_read_is_executed_in_its_turn(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];

	rig_connect(rig, IBV_QPT_RC);
	for (unsigned i = 0; i < 1000; i++) {
		struct ibv_sge read = rig_sge(from, 0, 4096), write = rig_sge(from, 8192, 4096);
		struct ibv_send_wr second = {.wr_id = 2,
					     .sg_list = &write,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_WRITE,
					     .send_flags = IBV_SEND_SIGNALED,
					     .wr.rdma = {(uintptr_t)to->buf, to->mr->rkey}},
				   first = {.next = &second,
					    .sg_list = &read,
					    .num_sge = 1,
					    .opcode = IBV_WR_RDMA_READ,
					    .wr.rdma = second.wr.rdma},
				   *bad;

		memset(from->buf + 8192, (int)(i + 1), 4096);
		memset(to->buf, (int)i, 4096);
		assert_int_equal(ibv_post_send(from->qp, &first, &bad), 0);
		assert_int_equal(rig_wait(from->cq).status, IBV_WC_SUCCESS);
		for (unsigned k = 0; k < 4096; k += 1024)
			assert_int_equal(from->buf[k], (uint8_t)i);
		assert_int_equal(to->buf[0], (uint8_t)(i + 1));
	}
}

static void qp__bad_key_of_a_write_with_immediate_fails_its_receive(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct ibv_sge sge = rig_sge(from, 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)to->buf, to->mr->rkey ^ 0x5500}},
			   *bad;
	struct ibv_wc wc;

	rig_connect(rig, IBV_QPT_RC);
	rig_post_recv(to, 7, 0, 64);
	assert_int_equal(ibv_post_send(from->qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(from->cq).status, IBV_WC_REM_ACCESS_ERR);
	wc = rig_wait(to->cq);
	assert_int_equal(wc.wr_id, 7);
	assert_int_equal(wc.status, IBV_WC_LOC_ACCESS_ERR);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(handle__of_a_pd_that_was_overwritten),
		TEST(handle__of_a_parent_domain_that_was_overwritten),
		TEST(handle__of_memory_that_was_overwritten),
		TEST(handle__of_a_queue_that_was_overwritten),
		TEST(handle__of_a_qp_that_was_overwritten),
		TEST(handle__of_an_address_that_was_overwritten),
		TEST(mr__of_no_bytes),
		TEST(mr__rereg_tells_bad_input_from_a_refusal),
		TEST(dm__is_copied_in_words),
		TEST(qp__query_leaves_the_state_that_was_not_asked_for),
		TEST(qp__has_rights_to_flush),
		TEST(qp__a_read_is_executed_in_its_turn),
		TEST(qp__bad_key_of_a_write_with_immediate_fails_its_receive),
		TEST(parent_domain__hints_are_accepted),
		TEST(comp_cntr__is_not_supported),
		TEST(buf__has_no_dma_buf),
	};

	return cmocka_run_group_tests_name("shim_answers", tests, NULL, NULL);
}
