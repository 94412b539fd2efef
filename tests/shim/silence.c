/* SPDX-License-Identifier: BSD-3-Clause */
/* silence.c - how long a request to a peer that never answers takes. */
#include "rig.h"
#include <time.h>

#define ACK_TIMEOUT 15 /* code of 134 ms */
#define RETRIES	    3
#define TIMEOUT_NS  (4096ull << ACK_TIMEOUT)

/** Connect end 0's QP to one that answers nothing, because it is in RESET. */
static void connect_to_silence(struct rig *rig)
{
	struct ibv_qp_init_attr init = rig_qp_init(&rig->end[0], IBV_QPT_RC);
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.max_dest_rd_atomic = 1,
		.max_rd_atomic = 1,
		.timeout = ACK_TIMEOUT,
		.retry_cnt = RETRIES,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = rig->end[1].gid, .hop_limit = 64}},
	};

	rig->end[0].qp = ibv_create_qp(rig->end[0].pd, &init);
	init = rig_qp_init(&rig->end[1], IBV_QPT_RC);
	rig->end[1].qp = ibv_create_qp(rig->end[1].pd, &init);
	a.dest_qp_num = rig->end[1].qp->qp_num;
	assert_int_equal(
		ibv_modify_qp(rig->end[0].qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
		0);
	a.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(rig->end[0].qp, &a,
				       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
					       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
			 0);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(rig->end[0].qp, &a,
				       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					       IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC),
			 0);
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/** How long a request to a silent peer takes. @param backoff the setting; NULL: not set. */
static uint64_t silence(const char *backoff)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct rig *rig;
	uint64_t start;

	setenv("UROCE_RING", "off", 1);
	if (backoff)
		setenv("UROCE_ACK_BACKOFF", backoff, 1);
	assert_int_equal(rig_setup((void **)&rig), 0);
	unsetenv("UROCE_ACK_BACKOFF");
	unsetenv("UROCE_RING");
	connect_to_silence(rig);
	start = now_ns();
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_RETRY_EXC_ERR);
	start = now_ns() - start;
	assert_int_equal(rig_teardown((void **)&rig), 0);
	return start;
}

/** A peer that never answers costs the timeout for each try, whether the setting is 1 or not made; with 4, it costs
 *  1 + 2 + 4 + 4 of them. A busy machine may take longer, so the time without backoff has to be shorter than that only
 *  once in several tries. */
static void silence__UROCE_ACK_BACKOFF_says_how_long_it_lasts(void **state)
{
	static const char *const without[] = {"1", NULL};
	const uint64_t with_backoff = 11 * TIMEOUT_NS;

	(void)state;
	assert_true(silence("4") >= with_backoff);
	for (unsigned k = 0; k < 2; k++) {
		uint64_t shortest = UINT64_MAX;

		for (unsigned i = 0; i < 6 && shortest >= with_backoff; i++) {
			uint64_t took = silence(without[k]);

			shortest = took < shortest ? took : shortest;
			assert_true(took >= (RETRIES + 1) * TIMEOUT_NS);
		}
		assert_true(shortest < with_backoff);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(silence__UROCE_ACK_BACKOFF_says_how_long_it_lasts),
	};

	return cmocka_run_group_tests_name("shim_silence", tests, NULL, NULL);
}
