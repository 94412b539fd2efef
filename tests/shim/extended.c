/* SPDX-License-Identifier: BSD-3-Clause */
/* extended.c - the extended interfaces: posting with ibv_wr_*, and polling with ibv_start_poll. */
#include "rig.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

static struct ibv_qp_ex *ex_qp(struct rig_end *end, uint64_t ops, uint32_t max_send_sge)
{
	struct ibv_qp_init_attr plain = rig_qp_init(end, IBV_QPT_RC);
	struct ibv_qp_init_attr_ex init = {.pd = end->pd,
					   .send_ops_flags = ops,
					   .comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS};

	plain.cap.max_send_sge = max_send_sge;
	memcpy(&init, &plain, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	end->qp = ibv_create_qp_ex(end->ctx, &init);
	return end->qp ? ibv_qp_to_qp_ex(end->qp) : NULL;
}

static void wr__batch_is_posted_whole_or_not_at_all(void **state)
{
	struct rig *rig = *state;
	uint64_t ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_SEND_WITH_IMM;
	struct ibv_qp_ex *ex;
	uint8_t text[32] = "inline data is copied at once";
	struct ibv_wc wc;

	assert_null(ex_qp(&rig->end[1], IBV_QP_EX_WITH_TSO, 4));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_non_null(ex_qp(&rig->end[1], ops, 4));
	ex = ex_qp(&rig->end[0], ops, 4);
	assert_non_null(ex);
	rig_connect_qps(rig, rig->end[0].qp, rig->end[1].qp);
	rig_post_recv(&rig->end[1], 77, 512, 64);

	ibv_wr_start(ex); /* abort: the request must not be posted */
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, rig->end[1].mr->rkey, (uintptr_t)rig->end[1].buf);
	ibv_wr_set_sge(ex, rig->end[0].mr->lkey, (uintptr_t)rig->end[0].buf, 64);
	ibv_wr_abort(ex);

	for (int i = 0; i < 2; i++) {
		ibv_wr_start(ex); /* more requests than the queue has room for: none is posted */
		for (int n = 0; n < 17; n++) {
			ibv_wr_rdma_write(ex, rig->end[1].mr->rkey, (uintptr_t)rig->end[1].buf);
			ibv_wr_set_sge(ex, rig->end[0].mr->lkey, (uintptr_t)rig->end[0].buf, 64);
		}
		assert_int_equal(ibv_wr_complete(ex), ENOMEM);
	}

	ibv_wr_start(ex); /* the NIC refuses the second request because of its flags */
	ibv_wr_rdma_write(ex, rig->end[1].mr->rkey, (uintptr_t)rig->end[1].buf);
	ibv_wr_set_sge(ex, rig->end[0].mr->lkey, (uintptr_t)rig->end[0].buf, 64);
	ex->wr_flags = 1u << 30;
	ibv_wr_rdma_write(ex, rig->end[1].mr->rkey, (uintptr_t)rig->end[1].buf);
	ibv_wr_set_sge(ex, rig->end[0].mr->lkey, (uintptr_t)rig->end[0].buf, 64);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	ex->wr_flags = IBV_SEND_SIGNALED;

	ibv_wr_start(ex); /* the second request has too much inline data: the first is not posted either */
	ibv_wr_rdma_write(ex, rig->end[1].mr->rkey, (uintptr_t)rig->end[1].buf);
	ibv_wr_set_sge(ex, rig->end[0].mr->lkey, (uintptr_t)rig->end[0].buf, 64);
	ibv_wr_rdma_write(ex, rig->end[1].mr->rkey, (uintptr_t)rig->end[1].buf);
	ibv_wr_set_inline_data(ex, rig->end[0].buf, 10000);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);

	memset(rig->end[0].buf, 0x42, 64);
	ibv_wr_start(ex);
	ex->wr_id = 2;
	ibv_wr_rdma_write(ex, rig->end[1].mr->rkey, (uintptr_t)rig->end[1].buf);
	ibv_wr_set_inline_data(ex, text, sizeof(text));
	memset(text, 0, sizeof(text));
	ex->wr_id = 3;
	ibv_wr_send_imm(ex, 0x99);
	ibv_wr_set_sge(ex, rig->end[0].mr->lkey, (uintptr_t)rig->end[0].buf, 64);
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).wr_id, 2);
	assert_int_equal(rig_wait(rig->end[0].cq).wr_id, 3);
	wc = rig_wait(rig->end[1].cq);
	assert_int_equal(wc.wr_id, 77);
	assert_int_equal(wc.imm_data, 0x99);
	assert_string_equal((char *)rig->end[1].buf, "inline data is copied at once");
	assert_memory_equal(rig->end[1].buf + 512, rig->end[0].buf, 64);
}

static void wr__inline_data_needs_no_sges(void **state)
{
	struct rig *rig = *state;
	uint8_t text[] = "short";
	struct ibv_qp_ex *ex = ex_qp(&rig->end[0], IBV_QP_EX_WITH_RDMA_WRITE, 0);

	assert_non_null(ex);
	assert_non_null(ex_qp(&rig->end[1], IBV_QP_EX_WITH_RDMA_WRITE, 0));
	rig_connect_qps(rig, rig->end[0].qp, rig->end[1].qp);
	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(ex, rig->end[1].mr->rkey, (uintptr_t)rig->end[1].buf);
	ibv_wr_set_inline_data(ex, text, sizeof(text));
	assert_int_equal(ibv_wr_complete(ex), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	assert_string_equal((char *)rig->end[1].buf, "short");
}

static void wr__window_of_another_context_is_refused(void **state)
{
	struct rig *rig = *state;
	struct rig_end *other = &rig->end[1];
	struct ibv_mw *mw = ibv_alloc_mw(other->pd, IBV_MW_TYPE_2);
	struct ibv_mw_bind_info info = {other->mr, (uintptr_t)other->buf, 64, IBV_ACCESS_REMOTE_WRITE};
	struct ibv_qp_ex *ex = ex_qp(&rig->end[0], IBV_QP_EX_WITH_BIND_MW, 4);

	assert_non_null(ex_qp(other, IBV_QP_EX_WITH_BIND_MW, 4));
	rig_connect_qps(rig, rig->end[0].qp, other->qp);
	ibv_wr_start(ex);
	ibv_wr_bind_mw(ex, mw, ibv_inc_rkey(mw->rkey), &info);
	assert_int_equal(ibv_wr_complete(ex), EINVAL);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void cq_ex__reads_the_current_entry(void **state)
{
	struct rig *rig = *state;
	struct ibv_cq_init_attr_ex attr = {.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq *plain = rig->end[1].cq;
	struct ibv_cq_ex *cq = ibv_create_cq_ex(rig->end[1].ctx, &attr);
	struct ibv_poll_cq_attr poll_attr = {0};
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 24);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_SEND_WITH_IMM,
				 .imm_data = 11,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	rig->end[1].cq = ibv_cq_ex_to_cq(cq);
	rig_connect(rig, IBV_QPT_RC);
	rig_post_recv(&rig->end[1], 21, 0, 64);
	rig_post_recv(&rig->end[1], 22, 64, 64);
	assert_int_equal(ibv_start_poll(cq, &poll_attr), ENOENT);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
		assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	}
	assert_int_equal(ibv_start_poll(cq, &poll_attr), 0);
	assert_int_equal(cq->wr_id, 21);
	assert_int_equal(cq->status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_wc_read_opcode(cq), IBV_WC_RECV);
	assert_int_equal(ibv_wc_read_byte_len(cq), 24);
	assert_int_equal(ibv_wc_read_imm_data(cq), 11);
	assert_int_equal(ibv_wc_read_qp_num(cq), rig->end[1].qp->qp_num);
	assert_int_equal(ibv_wc_read_wc_flags(cq), IBV_WC_WITH_IMM);
	assert_int_equal(ibv_next_poll(cq), 0);
	assert_int_equal(cq->wr_id, 22);
	assert_int_equal(ibv_next_poll(cq), ENOENT);
	ibv_end_poll(cq);
	rig_disconnect(rig);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	rig->end[1].cq = plain;
}

static uint64_t raw_clock(struct ibv_context *ctx)
{
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};

	assert_int_equal(ibv_query_rt_values_ex(ctx, &values), 0);
	return (uint64_t)values.raw_clock.tv_sec * 1000000000 + (uint64_t)values.raw_clock.tv_nsec;
}

static uint64_t wall_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

#define SLACK_NS 1000000u /* the NIC's clock is read once a pass, and two clocks are compared */

static void cq_ex__timestamps_tell_when_entries_were_added(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *ctx = rig->end[0].ctx;
	struct ibv_cq_init_attr_ex attr = {.cqe = 8,
					   .wc_flags = IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |
						       IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK};
	struct ibv_cq *plain = rig->end[0].cq;
	struct ibv_cq_ex *cq = ibv_create_cq_ex(ctx, &attr);
	struct ibv_poll_cq_attr poll_attr = {0};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
	uint64_t raw[4], wall[4], last = 0;
	struct ibv_device_attr_ex device;

	assert_int_equal(ibv_query_device_ex(ctx, NULL, &device), 0);
	assert_int_equal(device.hca_core_clock, 1000000); /* kHz */
	assert_non_null(cq);
	rig->end[0].cq = ibv_cq_ex_to_cq(cq);
	rig_connect(rig, IBV_QPT_RC);
	for (unsigned i = 0; i < 4; i++) {
		raw[i] = raw_clock(ctx);
		wall[i] = wall_ns();
		wr.wr_id = i;
		assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	}
	assert_int_equal(ibv_resize_cq(ibv_cq_ex_to_cq(cq), 32), 0);
	for (unsigned i = 0; i < 4; i++) {
		while (ibv_start_poll(cq, &poll_attr) == ENOENT)
			usleep(1000);
		assert_int_equal(cq->wr_id, i);
		assert_true(ibv_wc_read_completion_ts(cq) >= last);
		last = ibv_wc_read_completion_ts(cq);
		assert_true(last <= raw_clock(ctx));
		assert_true(last + SLACK_NS >= raw[i]);
		assert_true(ibv_wc_read_completion_wallclock_ns(cq) + SLACK_NS >= wall[i]);
		assert_true(ibv_wc_read_completion_wallclock_ns(cq) <= wall_ns() + SLACK_NS);
		ibv_end_poll(cq);
	}
	rig_disconnect(rig);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(cq)), 0);
	rig->end[0].cq = plain;
}

struct second {
	struct ibv_cq_ex *cq;
	atomic_bool inside;
	uint64_t wr_id;
};

static void *poll_second(void *arg)
{
	struct ibv_poll_cq_attr attr = {0};
	struct second *s = arg;

	while (ibv_start_poll(s->cq, &attr) == ENOENT)
		usleep(1000);
	s->inside = true;
	s->wr_id = s->cq->wr_id;
	ibv_end_poll(s->cq);
	return NULL;
}

static void cq_ex__CQ_06_start_poll_excludes_other_threads(void **state)
{
	struct rig *rig = *state;
	struct ibv_cq_init_attr_ex attr = {.cqe = 8, .wc_flags = IBV_WC_STANDARD_FLAGS};
	struct ibv_cq *plain = rig->end[0].cq;
	struct second second = {.cq = ibv_create_cq_ex(rig->end[0].ctx, &attr)};
	struct ibv_poll_cq_attr poll_attr = {.comp_mask = 1};
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
	pthread_t thread;

	rig->end[0].cq = ibv_cq_ex_to_cq(second.cq);
	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(ibv_start_poll(second.cq, &poll_attr), EINVAL);
	poll_attr.comp_mask = 0;
	assert_int_equal(ibv_start_poll(second.cq, &poll_attr), ENOENT); /* neither failed call leaves the CQ locked */
	for (wr.wr_id = 1; wr.wr_id <= 2; wr.wr_id++)
		assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	while (ibv_start_poll(second.cq, &poll_attr) == ENOENT)
		usleep(1000);
	pthread_create(&thread, NULL, poll_second, &second);
	usleep(100000);
	assert_false(second.inside);
	assert_int_equal(second.cq->wr_id, 1);
	while (ibv_next_poll(second.cq) == ENOENT)
		usleep(1000);
	assert_int_equal(second.cq->wr_id, 2);
	assert_int_equal(ibv_next_poll(second.cq), ENOENT); /* ENOENT does not end the polling */
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	usleep(100000);
	assert_false(second.inside);
	ibv_end_poll(second.cq);
	pthread_join(thread, NULL);
	assert_int_equal(second.wr_id, 3);
	rig_disconnect(rig);
	assert_int_equal(ibv_destroy_cq(ibv_cq_ex_to_cq(second.cq)), 0);
	rig->end[0].cq = plain;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		T(wr__batch_is_posted_whole_or_not_at_all),	   T(wr__inline_data_needs_no_sges),
		T(wr__window_of_another_context_is_refused),	   T(cq_ex__reads_the_current_entry),
		T(cq_ex__CQ_06_start_poll_excludes_other_threads), T(cq_ex__timestamps_tell_when_entries_were_added),
	};

	return cmocka_run_group_tests_name("shim_extended", tests, NULL, NULL);
}
