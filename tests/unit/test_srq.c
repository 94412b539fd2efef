/* SPDX-License-Identifier: BSD-3-Clause */
/* test_srq.c - shared receive queues (IBTA 10.2.9, 11.2.3; conformance points SR-01 to SR-03). */
#include "resp_util.h"

static struct rig *ready(uint32_t limit)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.srq = true});

	assert_int_equal(nic_srq_set_limit(rig->srq, limit), 0);
	return rig;
}

static bool limit_event(struct rig *rig)
{
	uint64_t events = rig_events(rig, RIG_USER_SRQ(rig));

	assert_true(events == 0 || events == 1ull << NIC_EVENT_SRQ_LIMIT);
	return events;
}

static uint32_t armed(struct rig *rig)
{
	uint32_t max_wr, max_sge, limit;

	nic_srq_query(rig->srq, &max_wr, &max_sge, &limit);
	return limit;
}

static void srq__SR_01_limit_event_once_and_then_disarmed(void **state)
{
	struct rig *rig = ready(3);
	uint32_t psn = E;

	for (uint64_t i = 0; i < 8; i++)
		rig_post_recv(rig, i, 0, 64);
	for (unsigned left = 7; left >= 3; left--) {
		rig_rx_data(rig, SEND_ONLY, psn++, 0, 8);
		assert_false(limit_event(rig));
		assert_int_equal(armed(rig), 3);
	}
	rig_rx_data(rig, SEND_ONLY, psn++, 0, 8); /* 2 WQEs are left, fewer than the limit */
	assert_true(limit_event(rig));
	assert_int_equal(armed(rig), 0);
	rig_rx_data(rig, SEND_ONLY, psn++, 0, 8);
	assert_false(limit_event(rig));
	for (uint64_t i = 0; i < 5; i++)
		rig_post_recv(rig, i, 0, 64);
	assert_int_equal(nic_srq_set_limit(rig->srq, 5), 0); /* armed again while 6 WQEs are queued */
	rig_rx_data(rig, SEND_ONLY, psn++, 0, 8);
	assert_false(limit_event(rig));
	rig_rx_data(rig, SEND_ONLY, psn++, 0, 8);
	assert_true(limit_event(rig));
	rig_destroy(rig);
}

static void srq__SR_01_wqes_serve_all_qps(void **state)
{
	struct rig *rig = ready(0);
	struct nic_qp *qps[3] = {rig->qp, rig_qp_create(rig), rig_qp_create(rig)};
	struct nic_wc wc;
	uint32_t seen = 0;

	for (unsigned i = 1; i < 3; i++) {
		rig->qp = qps[i];
		rig_to_rts(rig);
	}
	for (uint64_t i = 0; i < 12; i++)
		rig_post_recv(rig, i, 64 * (uint32_t)i, 64);
	for (uint32_t i = 0; i < 12; i++) {
		struct packet p = rig_peer_data(rig, SEND_ONLY, E + i / 3, 8 * i, 8);

		p.dest_qpn = nic_qp_num(qps[i % 3]);
		rig_rx(rig, &p);
		assert_true(rig_poll(rig->recv_cq, &wc));
		assert_int_equal(wc.status, NIC_WC_SUCCESS);
		assert_int_equal(wc.qp_num, p.dest_qpn);
		assert_true(wc.wr_id < 12 && !(seen >> wc.wr_id & 1)); /* each WQE is used once */
		seen |= 1u << wc.wr_id;
		rig_expect_data(rig, 64 * (uint32_t)wc.wr_id, 8 * i, 8);
	}
	rig_destroy(rig);
}

static void srq__SR_02_overflow_too_many_sges_and_limits(void **state)
{
	struct rig *rig = rig_create(&(struct rig_opts){.nic.limits = {.max_srq = 1, .max_srq_wr = 100, .max_sge = 8}});
	struct nic_sge sge[5] = {{0}};
	struct nic_recv_wr wr = {.sg_list = sge, .num_sge = 4};
	struct nic_srq *srq, *second;
	uint32_t max_wr, max_sge, limit;

	assert_int_equal(nic_srq_create(rig->pd, 0, 1, 0, NULL, &srq), -EINVAL);
	assert_int_equal(nic_srq_create(rig->pd, 101, 1, 0, NULL, &srq), -EINVAL);
	assert_int_equal(nic_srq_create(rig->pd, 10, 9, 0, NULL, &srq), -EINVAL);
	assert_int_equal(nic_srq_create(rig->pd, 10, 4, 11, NULL, &srq), -EINVAL);
	assert_int_equal(nic_srq_create(rig->pd, 10, 4, 2, NULL, &srq), 0);
	assert_int_equal(nic_srq_create(rig->pd, 10, 4, 2, NULL, &second), -ENOMEM);
	nic_srq_query(srq, &max_wr, &max_sge, &limit);
	assert_true(max_wr >= 10 && max_sge >= 4 && limit == 2);
	for (uint32_t i = 0; i < max_wr; i++)
		assert_int_equal(nic_post_srq_recv(srq, &wr), 0);
	assert_int_equal(nic_post_srq_recv(srq, &wr), -ENOMEM);
	wr.num_sge = max_sge + 1;
	assert_int_equal(nic_post_srq_recv(srq, &wr), -EINVAL);
	assert_int_equal(nic_srq_set_limit(srq, max_wr + 1), -EINVAL);
	assert_int_equal(nic_srq_resize(srq, max_wr - 1), -EINVAL); /* all WQEs are in use */
	assert_int_equal(nic_srq_resize(srq, 101), -EINVAL);
	assert_int_equal(nic_srq_destroy(srq), 0);
	rig_destroy(rig);
}

static void srq__SR_02_full_queue_loses_nothing(void **state)
{
	struct rig *rig = ready(0);
	struct nic_recv_wr extra = {.wr_id = 999};
	uint64_t next = 0, expect = 0;
	uint32_t psn = E;

	for (unsigned round = 0; round < 5; round++) {
		while (next - expect < 64)
			rig_post_recv(rig, next++, 0, 64);
		assert_int_equal(nic_post_srq_recv(rig->srq, &extra), -ENOMEM);
		for (unsigned i = 0; i < 40; i++) {
			rig_rx_data(rig, SEND_ONLY, psn++, 0, 8);
			rig_expect_wc(rig->recv_cq, expect++, NIC_WC_SUCCESS);
		}
		if (round == 2)
			assert_int_equal(nic_srq_resize(rig->srq, 64), 0); /* WQEs already queued stay, in order */
	}
	rig_destroy(rig);
}

static void srq__SR_02_busy_while_a_qp_uses_it_and_no_posts_to_the_qp(void **state)
{
	struct rig *rig = ready(0);
	struct nic_recv_wr wr = {.wr_id = 1};

	assert_int_equal(nic_srq_destroy(rig->srq), -EBUSY);
	assert_int_equal(nic_post_recv(rig->qp, &wr), -EINVAL);
	nic_qp_destroy(rig->qp);
	assert_int_equal(nic_srq_destroy(rig->srq), 0);
	rig_destroy(rig);
}

/* Changes that the application makes to its WR and SGEs after posting, even in the middle of the message, have no
 * effect. */
static void srq__SR_03_wqe_is_a_copy(void **state)
{
	struct rig *rig = ready(0);
	struct nic_sge sge[2] = {{rig_va(rig, 0), RIG_MTU, rig->lkey}, {rig_va(rig, 4096), 64, rig->lkey}};
	struct nic_recv_wr wr = {.wr_id = 1, .sg_list = sge, .num_sge = 2};

	assert_int_equal(nic_post_srq_recv(rig->srq, &wr), 0);
	wr.num_sge = 1;
	sge[0] = (struct nic_sge){.addr = 16, .length = UINT32_MAX, .lkey = 0};
	sge[1] = sge[0];
	rig_rx_data(rig, SEND_FIRST, E, 0, RIG_MTU);
	for (uint64_t i = 2; i < 66; i++) /* reuse the WQE's slot in the queue */
		rig_post_recv(rig, i, 8192, 64);
	rig_rx_data(rig, SEND_LAST, E + 1, RIG_MTU, 64);
	assert_int_equal(rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS).byte_len, RIG_MTU + 64);
	rig_expect_data(rig, 0, 0, RIG_MTU);
	rig_expect_data(rig, 4096, RIG_MTU, 64);
	rig_expect_untouched(rig, 8192, 64);
	rig_destroy(rig);
}

static void srq__SR_01_lkeys_of_the_srq_pd_are_accepted(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_recv_wr wr = {.wr_id = 1, .num_sge = 1};
	struct nic_sge sge = {.addr = rig_va(rig, 0), .length = 64};
	struct nic_pd *pd;
	struct nic_mr *mr;
	struct nic_wc wc;

	assert_int_equal(nic_pd_alloc(rig->nic, &pd), 0);
	assert_int_equal(nic_srq_create(pd, 8, 2, 0, NULL, &rig->srq), 0);
	assert_int_equal(nic_mr_reg(pd, rig->arena, 4096, (uintptr_t)rig->arena, NIC_ACCESS_LOCAL_WRITE, &mr), 0);
	rig->opts.srq = true;
	rig->qp = rig_qp_create(rig);
	rig->qpn = nic_qp_num(rig->qp);
	rig_to_rts(rig);
	sge.lkey = nic_mr_lkey(mr);
	wr.sg_list = &sge;
	assert_int_equal(nic_post_srq_recv(rig->srq, &wr), 0);
	rig_rx_data(rig, SEND_ONLY, RIG_RQ_PSN, 0, 8);
	assert_true(rig_poll(rig->recv_cq, &wc));
	assert_int_equal(wc.status, NIC_WC_SUCCESS);
	rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(srq__SR_01_limit_event_once_and_then_disarmed),
		cmocka_unit_test(srq__SR_01_wqes_serve_all_qps),
		cmocka_unit_test(srq__SR_02_overflow_too_many_sges_and_limits),
		cmocka_unit_test(srq__SR_02_full_queue_loses_nothing),
		cmocka_unit_test(srq__SR_02_busy_while_a_qp_uses_it_and_no_posts_to_the_qp),
		cmocka_unit_test(srq__SR_03_wqe_is_a_copy),
		cmocka_unit_test(srq__SR_01_lkeys_of_the_srq_pd_are_accepted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
