/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * attributes.c - attributes of objects, and what a device without the feature behind them answers (docs/answers.md):
 * path migration, rate limits, rights of QPs, relaxed ordering, raw packets and flow steering, sizes of CQs, clocks.
 */
#include "xrc_rig.h"

static struct ibv_qp *create(struct rig_end *end, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr init = rig_qp_init(end, type);

	return ibv_create_qp(end->pd, &init);
}

/** Change a new QP to INIT. */
static struct ibv_qp *in_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};

	assert_non_null(qp);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS),
			 0);
	return qp;
}

static enum ibv_wc_status write_bytes(struct rig *rig, uint64_t addr, uint32_t rkey)
{
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 64);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {addr, rkey}},
			   *bad;

	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	return rig_wait(rig->end[0].cq).status;
}

/* ---- path migration ------------------------------------------------------------------------------------------ */

/** The QP is in RTS. */
static void expect_migrated(struct ibv_qp *qp)
{
	static const enum ibv_mig_state others[] = {IBV_MIG_REARM, IBV_MIG_ARMED, (enum ibv_mig_state)77};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .path_mig_state = IBV_MIG_MIGRATED};
	struct ibv_qp_init_attr init;

	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_PATH_MIG_STATE), 0);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MIG_STATE), 0);
	for (unsigned i = 0; i < 3; i++) {
		attr.path_mig_state = others[i];
		assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_PATH_MIG_STATE), EINVAL);
	}
	memset(&attr, 0xff, sizeof(attr));
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_PATH_MIG_STATE | IBV_QP_ALT_PATH | IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.path_mig_state, IBV_MIG_MIGRATED);
	assert_int_equal(attr.alt_port_num, 0);
	assert_int_equal(attr.alt_ah_attr.is_global, 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	attr.alt_port_num = 1;
	attr.alt_ah_attr = attr.ah_attr;
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_ALT_PATH), EINVAL);
}

static void migration__there_is_one_path(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RC, IBV_QPT_UC};
	struct rig *rig = *state;
	struct xrc x;

	for (unsigned i = 0; i < 2; i++) {
		rig_connect(rig, types[i]);
		expect_migrated(rig->end[0].qp);
		assert_int_equal(write_bytes(rig, (uintptr_t)rig->end[1].buf, rig->end[1].mr->rkey), IBV_WC_SUCCESS);
		rig_disconnect(rig);
	}
	x = xrc_connect(rig, 0);
	expect_migrated(x.initiator);
	expect_migrated(x.target);
	xrc_close(&x);
}

/** A connected QP, and the attributes with which it becomes RTR and RTS. */
struct connected {
	struct ibv_qp *qp;
	int rtr, rts;
};

/* As in the kernel's table of transitions: from RTR on. */
static void expect_migration_after_rtr(struct rig *rig, const struct connected *c)
{
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | c->rtr,
		  rts = IBV_QP_STATE | IBV_QP_SQ_PSN | c->rts;
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.path_mig_state = IBV_MIG_MIGRATED,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = 17,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = rig->end[1].gid, .hop_limit = 64}}};

	assert_int_equal(ibv_modify_qp(c->qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MIG_STATE), EINVAL);
	attr.qp_state = IBV_QPS_RTR;
	assert_int_equal(ibv_modify_qp(c->qp, &attr, rtr | IBV_QP_PATH_MIG_STATE), EINVAL);
	assert_int_equal(ibv_modify_qp(c->qp, &attr, rtr), 0);
	attr.qp_state = IBV_QPS_RTS;
	attr.path_mig_state = IBV_MIG_ARMED;
	assert_int_equal(ibv_modify_qp(c->qp, &attr, rts | IBV_QP_PATH_MIG_STATE), EINVAL);
	attr.path_mig_state = IBV_MIG_MIGRATED;
	assert_int_equal(ibv_modify_qp(c->qp, &attr, rts | IBV_QP_PATH_MIG_STATE), 0);
	attr.qp_state = IBV_QPS_SQD;
	assert_int_equal(ibv_modify_qp(c->qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MIG_STATE), EINVAL);
	assert_int_equal(ibv_modify_qp(c->qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_modify_qp(c->qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MIG_STATE), 0);
	attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(ibv_modify_qp(c->qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MIG_STATE), 0);
	assert_int_equal(ibv_destroy_qp(c->qp), 0);
}

static void migration__its_state_is_set_from_rtr_on(void **state)
{
	const int responds = IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
		  requests = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];
	struct ibv_xrcd *xrcd = xrc_domain(end, -1, O_CREAT);
	const struct connected types[] = {{in_init(create(end, IBV_QPT_UC)), 0, 0},
					  {in_init(create(end, IBV_QPT_RC)), responds, requests},
					  {in_init(xrc_initiator(end, 0)), 0, requests},
					  {in_init(xrc_target(end, xrcd)), responds, IBV_QP_TIMEOUT}};
	struct ibv_qp_attr attr = {.path_mig_state = IBV_MIG_MIGRATED};

	for (unsigned i = 0; i < 4; i++)
		expect_migration_after_rtr(rig, &types[i]);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	rig_connect(rig, IBV_QPT_UD);
	assert_int_equal(ibv_modify_qp(end->qp, &attr, IBV_QP_PATH_MIG_STATE), EINVAL);
}

/* ---- rate limits ---------------------------------------------------------------------------------------------- */

static void rate_limit__is_not_supported(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_rate_limit_attr limit = {.rate_limit = 1000};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS, .rate_limit = 1000, .min_rnr_timer = 5};
	struct ibv_qp_init_attr init;
	struct ibv_qp *qp;

	rig_connect(rig, IBV_QPT_RC);
	qp = rig->end[0].qp;
	assert_int_equal(ibv_modify_qp_rate_limit(qp, &limit), EOPNOTSUPP);
	assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_MIN_RNR_TIMER | IBV_QP_RATE_LIMIT), EOPNOTSUPP);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE | IBV_QP_RATE_LIMIT, &init), EOPNOTSUPP);
	for (unsigned bit = 21; bit < 32; bit++) /* there are no other attributes beyond IBV_QP_DEST_QPN */
		assert_int_equal(ibv_modify_qp(qp, &attr, (int)(1u << bit)), EOPNOTSUPP);
	for (unsigned bit = 25; bit < 32; bit++)
		assert_int_equal(ibv_query_qp(qp, &attr, (int)(1u << bit), &init), EOPNOTSUPP);
	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_RATE_LIMIT - 1, &init), 0);
	assert_int_equal(attr.min_rnr_timer, 1);
	assert_int_equal(attr.rate_limit, 0);
}

/* ---- rights --------------------------------------------------------------------------------------------------- */

/** The rights that a QP can have, with FLUSH_GLOBAL and FLUSH_PERSISTENT, which old verbs.h do not have. */
#define QP_RIGHTS (RIG_ACCESS | IBV_ACCESS_MW_BIND | 1 << 8 | 1 << 9)

static void rights__that_mean_nothing_to_a_qp_are_ignored(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp *qp = in_init(create(&rig->end[0], IBV_QPT_RC));
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	for (unsigned bit = 0; bit < 32; bit++) {
		attr.qp_access_flags = 1u << bit | IBV_ACCESS_REMOTE_READ;
		assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
		assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_ACCESS_FLAGS, &init), 0);
		assert_int_equal(attr.qp_access_flags, (1u << bit & QP_RIGHTS) | IBV_ACCESS_REMOTE_READ);
	}
	assert_int_equal(ibv_destroy_qp(qp), 0);
	rig_connect(rig, IBV_QPT_RC);
	attr.qp_access_flags = UINT32_MAX;
	assert_int_equal(ibv_modify_qp(rig->end[1].qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(write_bytes(rig, (uintptr_t)rig->end[1].buf, rig->end[1].mr->rkey), IBV_WC_SUCCESS);
	attr.qp_access_flags = ~(unsigned)IBV_ACCESS_REMOTE_WRITE;
	assert_int_equal(ibv_modify_qp(rig->end[1].qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	assert_int_equal(write_bytes(rig, (uintptr_t)rig->end[1].buf, rig->end[1].mr->rkey), IBV_WC_REM_INV_REQ_ERR);
}

/* All rights of the optional range are hints, as IBV_ACCESS_RELAXED_ORDERING is. */
static void rights__relaxed_ordering_is_a_hint(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_alloc_dm_attr dm_attr = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(to->ctx, &dm_attr);
	struct ibv_mr *mr;

	rig_connect(rig, IBV_QPT_RC);
	for (unsigned hint = IBV_ACCESS_OPTIONAL_FIRST; hint & IBV_ACCESS_OPTIONAL_RANGE; hint <<= 1) {
		mr = ibv_reg_mr(to->pd, to->buf, 64, (int)(RIG_ACCESS | hint));
		assert_non_null(mr);
		memset(rig->end[0].buf, (int)(hint >> 20), 64);
		assert_int_equal(write_bytes(rig, (uintptr_t)to->buf, mr->rkey), IBV_WC_SUCCESS);
		assert_memory_equal(to->buf, rig->end[0].buf, 64);
		assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, (int)hint), 0);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		mr = ibv_reg_dm_mr(to->pd, dm, 0, 64, RIG_ACCESS | IBV_ACCESS_ZERO_BASED | hint);
		assert_non_null(mr);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		/* A hint does not replace the right that is missing here. */
		assert_null(ibv_reg_mr(to->pd, to->buf, 64, (int)(IBV_ACCESS_REMOTE_WRITE | hint)));
		assert_int_equal(errno, EINVAL);
	}
	mr = (ibv_reg_mr)(to->pd, to->buf, 64, IBV_ACCESS_RELAXED_ORDERING); /* not the macro, which calls another */
	assert_non_null(mr);
	assert_int_equal(write_bytes(rig, (uintptr_t)to->buf, mr->rkey), IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_free_dm(dm), 0);
}

/* ---- features of Ethernet adapters ------------------------------------------------------------------------------ */

static bool all_zero(const void *at, size_t length)
{
	const uint8_t *bytes = at;

	for (size_t i = 0; i < length; i++)
		if (bytes[i])
			return false;
	return true;
}

static void ethernet__no_feature_is_reported(void **state)
{
	struct ibv_context *ctx = ((struct rig *)*state)->end[0].ctx;
	const uint64_t absent = IBV_DEVICE_UD_IP_CSUM | IBV_DEVICE_RC_IP_CSUM | IBV_DEVICE_RAW_IP_CSUM |
				IBV_DEVICE_MANAGED_FLOW_STEERING | IBV_DEVICE_RAW_SCATTER_FCS |
				IBV_DEVICE_PCI_WRITE_END_PADDING;
	struct ibv_device_attr_ex attr;

	memset(&attr, 0xff, sizeof(attr));
	assert_int_equal(ibv_query_device_ex(ctx, NULL, &attr), 0);
#define ZERO(member) assert_true(all_zero(&attr.member, sizeof(attr.member)))
	ZERO(tso_caps);
	ZERO(rss_caps);
	ZERO(max_wq_type_rq);
	ZERO(packet_pacing_caps);
	ZERO(raw_packet_caps);
	ZERO(orig_attr.max_raw_ipv6_qp);
	ZERO(orig_attr.max_raw_ethy_qp);
#undef ZERO
	assert_true(!(attr.device_cap_flags_ex & absent));
	assert_true(!(attr.orig_attr.device_cap_flags & absent));
}

static void expect_no_qp(struct rig_end *end, enum ibv_qp_type type, uint32_t comp_mask, uint32_t create_flags)
{
	struct ibv_qp_init_attr plain = rig_qp_init(end, type);
	struct ibv_qp_init_attr_ex init = {
		.pd = end->pd, .comp_mask = IBV_QP_INIT_ATTR_PD | comp_mask, .create_flags = create_flags};

	memcpy(&init, &plain, offsetof(struct ibv_qp_init_attr_ex, comp_mask));
	errno = 0;
	assert_null(ibv_create_qp_ex(end->ctx, &init));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void ethernet__there_are_no_such_qps(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER, (enum ibv_qp_type)5};
	static const uint32_t masks[] = {IBV_QP_INIT_ATTR_MAX_TSO_HEADER, IBV_QP_INIT_ATTR_IND_TABLE,
					 IBV_QP_INIT_ATTR_RX_HASH, IBV_QP_INIT_ATTR_RX_HASH << 2};
	struct rig_end *end = &((struct rig *)*state)->end[0];

	for (unsigned i = 0; i < 3; i++) {
		struct ibv_qp_init_attr init = rig_qp_init(end, types[i]);

		errno = 0;
		assert_null(ibv_create_qp(end->pd, &init));
		assert_int_equal(errno, EOPNOTSUPP);
		expect_no_qp(end, types[i], 0, 0);
	}
	for (unsigned i = 0; i < 4; i++)
		expect_no_qp(end, IBV_QPT_UD, masks[i], 0);
	for (unsigned bit = 0; bit < 32; bit++)
		expect_no_qp(end, IBV_QPT_UD, IBV_QP_INIT_ATTR_CREATE_FLAGS, 1u << bit);
}

#define NOT_SUPPORTED(call)                                                                                            \
	do {                                                                                                           \
		errno = 0;                                                                                             \
		assert_null(call);                                                                                     \
		assert_int_equal(errno, EOPNOTSUPP);                                                                   \
	} while (0)

static void ethernet__objects_are_not_supported(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];
	struct ibv_wq_init_attr wq = {.wq_type = IBV_WQT_RQ, .max_wr = 1, .max_sge = 1, .pd = end->pd, .cq = end->cq};
	struct ibv_rwq_ind_table_init_attr table = {0};
	struct ibv_counters_init_attr counters = {0};
	struct ibv_flow_action_esp_attr esp = {0};
	static const enum ibv_flow_attr_type flows[] = {IBV_FLOW_ATTR_NORMAL, IBV_FLOW_ATTR_ALL_DEFAULT,
							IBV_FLOW_ATTR_MC_DEFAULT, IBV_FLOW_ATTR_SNIFFER};

	NOT_SUPPORTED(ibv_create_wq(end->ctx, &wq));
	NOT_SUPPORTED(ibv_create_rwq_ind_table(end->ctx, &table));
	NOT_SUPPORTED(ibv_create_counters(end->ctx, &counters));
	NOT_SUPPORTED(ibv_create_flow_action_esp(end->ctx, &esp));
	NOT_SUPPORTED(ibv_alloc_null_mr(end->pd));
	rig_connect(rig, IBV_QPT_UD);
	for (unsigned i = 0; i < 4; i++) {
		struct ibv_flow_attr flow = {.type = flows[i], .size = sizeof(flow), .port = 1};

		NOT_SUPPORTED(ibv_create_flow(end->qp, &flow));
	}
}

/* ---- CQs, clocks ---------------------------------------------------------------------------------------------- */

#define ENTRIES 10

static void cq__is_resized(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct ibv_cq *plain = to->cq, *cq = ibv_create_cq(to->ctx, 16, NULL, NULL, 0);
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_device_attr limits;
	int depth;

	assert_non_null(cq);
	assert_int_equal(ibv_query_device(to->ctx, &limits), 0);
	to->cq = cq;
	rig_connect(rig, IBV_QPT_RC);
	for (unsigned i = 0; i < ENTRIES; i++) { /* a receive has completed when its SEND does */
		rig_post_recv(to, i, 0, 64);
		assert_int_equal(ibv_post_send(from->qp, &wr, &bad), 0);
		assert_int_equal(rig_wait(from->cq).status, IBV_WC_SUCCESS);
	}
	assert_int_equal(ibv_resize_cq(cq, ENTRIES - 1), EINVAL);
	assert_int_equal(ibv_resize_cq(cq, 1000), 0);
	depth = cq->cqe;
	assert_true(depth >= 1000);
	assert_int_equal(ibv_resize_cq(cq, ENTRIES - 1), EINVAL);
	assert_int_equal(ibv_resize_cq(cq, 0), EINVAL);
	assert_int_equal(ibv_resize_cq(cq, -1), EINVAL);
	assert_int_equal(ibv_resize_cq(cq, limits.max_cqe + 1), EINVAL);
	assert_int_equal(cq->cqe, depth);
	assert_int_equal(rig_wait(cq).wr_id, 0);
	assert_int_equal(ibv_resize_cq(cq, ENTRIES), 0);
	assert_true(cq->cqe >= ENTRIES && cq->cqe < depth);
	for (unsigned i = 1; i < ENTRIES; i++)
		assert_int_equal(rig_wait(cq).wr_id, i);
	rig_disconnect(rig);
	to->cq = plain;
	assert_int_equal(ibv_destroy_cq(cq), 0);
}

static void rt_values__unknown_ones_are_refused(void **state)
{
	struct ibv_context *ctx = ((struct rig *)*state)->end[0].ctx;
	struct ibv_values_ex values = {.comp_mask = IBV_VALUES_MASK_RAW_CLOCK};
	struct timespec first;

	assert_int_equal(ibv_query_rt_values_ex(ctx, &values), 0);
	assert_int_equal(values.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	first = values.raw_clock;
	assert_int_equal(ibv_query_rt_values_ex(ctx, &values), 0);
	assert_int_equal(values.raw_clock.tv_sec, 0);
	assert_true(values.raw_clock.tv_nsec >= first.tv_nsec && first.tv_nsec > 0);
	first = values.raw_clock;
	values.comp_mask = 0;
	assert_int_equal(ibv_query_rt_values_ex(ctx, &values), 0);
	assert_int_equal(values.comp_mask, 0);
	for (unsigned bit = 1; bit < 32; bit++) {
		values.comp_mask = 1u << bit | IBV_VALUES_MASK_RAW_CLOCK;
		assert_int_equal(ibv_query_rt_values_ex(ctx, &values), EINVAL);
	}
	assert_memory_equal(&values.raw_clock, &first, sizeof(first)); /* neither call has written it */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(migration__there_is_one_path),
		TEST(migration__its_state_is_set_from_rtr_on),
		TEST(rate_limit__is_not_supported),
		TEST(rights__that_mean_nothing_to_a_qp_are_ignored),
		TEST(rights__relaxed_ordering_is_a_hint),
		TEST(ethernet__no_feature_is_reported),
		TEST(ethernet__there_are_no_such_qps),
		TEST(ethernet__objects_are_not_supported),
		TEST(cq__is_resized),
		TEST(rt_values__unknown_ones_are_refused),
	};

	return cmocka_run_group_tests_name("shim_attributes", tests, NULL, NULL);
}
