/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exp_atomics.c - extended atomics, posted by ibv_exp_post_send as programs for ConnectX do. Tests compare the results
 * with the bit-by-bit model, check everything that must be refused, and check the personalities (docs/atomics.md).
 */
#include "exp_rig.h"

#include "../atomic_model.h"

#define RESULT	64 /* offset of the result in the initiator's buffer */
#define MCS	IBV_EXP_WR_EXT_MASKED_ATOMIC_CMP_AND_SWP
#define MFA	IBV_EXP_WR_EXT_MASKED_ATOMIC_FETCH_AND_ADD
#define BE_FLAG IBV_EXP_QP_CREATE_ATOMIC_BE_REPLY

static const uint64_t before[4] = {0x0123456789abcdef, 0xffffffffffffffff, 0x7fffffffffffffff, 0x8000000000000001};

/** @return an offset in the target's buffer, aligned for all sizes. */
static size_t target_offset(const struct rig *rig)
{
	return 32 + (-(uintptr_t)rig->end[1].buf & 31);
}

static uint8_t *target_of(const struct rig *rig)
{
	return rig->end[1].buf + target_offset(rig);
}

/** An operation with nonzero operands in all words. An operand of 4 or 8 bytes uses the low bits of the first word. */
static struct nic_atomic operation(enum nic_atomic_op op, uint32_t size, bool matches)
{
	struct nic_atomic a = {.op = op, .size = size};

	for (unsigned i = 0; i < NIC_ATOMIC_WORDS; i++) {
		a.swap_add[i] = 0x1111222233334444 * (i + 1);
		a.compare_mask[i] = 0x00ff00ff00ff00ff;
		a.compare[i] = matches ? before[i] ^ 0xff00ff00ff00ff00 : ~before[i];
		a.swap_mask[i] = 0x0ffff0000ffff000;
		a.boundary[i] = 0x8000000080000000;
	}
	return a;
}

static void *operand(const uint64_t *words, uint32_t size)
{
	return size > 8 ? (void *)(uintptr_t)words : (void *)(uintptr_t)words[0];
}

static struct ibv_exp_send_wr request(struct rig *rig, const struct nic_atomic *a, struct ibv_sge *sge)
{
	uint32_t log_size = (uint32_t)__builtin_ctz(a->size);
	struct ibv_exp_send_wr wr =
		exp_masked(rig, a->op == NIC_ATOMIC_MCS ? MCS : MFA, log_size, sge, target_offset(rig));

	*sge = rig_sge(&rig->end[0], RESULT, a->size);
	if (a->op == NIC_ATOMIC_MCS) {
		struct ibv_exp_cmp_swap *op = &wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;

		op->swap_val = (uintptr_t)operand(a->swap_add, a->size);
		op->compare_val = (uintptr_t)operand(a->compare, a->size);
		op->swap_mask = (uintptr_t)operand(a->swap_mask, a->size);
		op->compare_mask = (uintptr_t)operand(a->compare_mask, a->size);
	} else {
		struct ibv_exp_fetch_add *op = &wr.ext_op.masked_atomics.wr_data.inline_data.op.fetch_add;

		op->add_val = (uintptr_t)operand(a->swap_add, a->size);
		op->field_boundary = (uintptr_t)operand(a->boundary, a->size);
	}
	return wr;
}

static void swap_bytes(uint8_t *bytes, uint32_t size)
{
	for (uint32_t i = 0; i < size / 2; i++) {
		uint8_t low = bytes[i];

		bytes[i] = bytes[size - 1 - i];
		bytes[size - 1 - i] = low;
	}
}

/** Check the result of an operation. For network byte order, reverse the bytes of each 8-byte word of the expected
 * result, or all bytes of a 4-byte result. */
static void expect_result(const uint8_t *result, uint32_t size, bool big_endian)
{
	uint8_t expected[32];

	memcpy(expected, before, sizeof(expected));
	for (uint32_t at = 0; big_endian && at < size; at += 8)
		swap_bytes(expected + at, size < 8 ? size : 8);
	assert_memory_equal(result, expected, size);
	for (uint32_t i = size; i < 32; i++)
		assert_int_equal(result[i], 0xa5);
}

/** Execute one operation of each kind and size, and compare the target and the result with what is expected. */
static void run_all(struct rig *rig, uint32_t be_sizes)
{
	uint8_t *target = target_of(rig), *result = rig->end[0].buf + RESULT;

	for (unsigned i = 0; i < 12; i++) {
		uint32_t size = 4u << i / 3;
		struct nic_atomic a = operation(i % 3 ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA, size, i % 3 == 1);
		struct ibv_sge sge;
		struct ibv_exp_send_wr wr = request(rig, &a, &sge);
		uint64_t expected[4];
		struct ibv_wc wc;

		memcpy(target, before, sizeof(before));
		memcpy(expected, before, sizeof(before));
		memset(result, 0xa5, 32);
		if (a.op == NIC_ATOMIC_MCS)
			model_swap(expected, &a);
		else
			model_add_words(expected, size, a.swap_add, a.boundary);
		wc = exp_run(rig, &wr);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, i % 3 ? IBV_EXP_WC_MASKED_COMP_SWAP : IBV_EXP_WC_MASKED_FETCH_ADD);
		assert_int_equal(wc.byte_len, size);
		assert_memory_equal(target, expected, sizeof(expected));
		assert_int_equal(memcmp(target, before, sizeof(before)) == 0, i % 3 == 2);
		expect_result(result, size, be_sizes & size);
	}
}

static void masked__all_sizes(void **state)
{
	exp_connect(*state, 32, 0);
	run_all(*state, 0);
}

static void masked__results_in_network_order(void **state)
{
	exp_connect(*state, 32, BE_FLAG);
	run_all(*state, 4 | 8 | 16 | 32);
}

/** A standard fetch-and-add on a QP with results in network byte order: the target's memory and the operand stay in
 * host byte order, only the result is swapped. */
static void standard__results_in_network_order(void **state)
{
	struct rig *rig = *state;
	struct ibv_sge sge = rig_sge(&rig->end[0], RESULT, 8);
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;
	uint64_t value;

	exp_connect(rig, 0, BE_FLAG);
	memcpy(target_of(rig), before, 8);
	wr.wr.atomic.remote_addr = (uintptr_t)target_of(rig);
	wr.wr.atomic.rkey = rig->end[1].mr->rkey;
	wr.wr.atomic.compare_add = 1;
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	memcpy(&value, target_of(rig), 8);
	assert_int_equal(value, before[0] + 1);
	memcpy(&value, rig->end[0].buf + RESULT, 8);
	assert_int_equal(value, __builtin_bswap64(before[0]));
}

/* ---- what is refused ------------------------------------------------------------------------------------------ */

static void masked__refused_when_posted(void **state)
{
	struct rig *rig = *state;
	struct nic_atomic a = operation(NIC_ATOMIC_MCS, 8, true), big = operation(NIC_ATOMIC_MCS, 16, true);
	static const uint32_t logs[] = {0, 1, 6, 31, 32, 35, 64, UINT32_MAX};
	struct ibv_sge sge[33];
	struct ibv_exp_send_wr wr;

	exp_connect(rig, 16, 0);
	for (unsigned i = 0; i < sizeof(logs) / sizeof(logs[0]); i++) {
		wr = request(rig, &a, sge);
		wr.ext_op.masked_atomics.log_arg_sz = logs[i];
		exp_refused(rig->end[0].qp, &wr);
	}
	wr = request(rig, &a, sge);
	wr.exp_send_flags &= ~(uint64_t)IBV_EXP_SEND_EXT_ATOMIC_INLINE;
	exp_refused(rig->end[0].qp, &wr);
	wr.exp_send_flags |= IBV_EXP_SEND_EXT_ATOMIC_INLINE | IBV_EXP_SEND_INLINE;
	exp_refused(rig->end[0].qp, &wr);
	big.size = 32; /* more than max_atomic_arg */
	wr = request(rig, &big, sge);
	exp_refused(rig->end[0].qp, &wr);
	rig_disconnect(rig);
	exp_connect(rig, 8, 0);
	big.size = 16; /* the QP allows only 8: refused, without use of the operands as addresses */
	wr = request(rig, &big, sge);
	memset(&wr.ext_op.masked_atomics.wr_data, 1, sizeof(wr.ext_op.masked_atomics.wr_data));
	exp_refused(rig->end[0].qp, &wr);
	rig_disconnect(rig);
	exp_connect(rig, 16, 0);
	for (unsigned i = 0; i < 4; i++) {
		uint64_t *operands;

		wr = request(rig, &big, sge);
		operands = (uint64_t *)&wr.ext_op.masked_atomics.wr_data.inline_data.op.cmp_swap;
		operands[i] = 0;
		exp_refused(rig->end[0].qp, &wr);
	}
	wr = request(rig, &a, sge);
	sge[0].length = 16; /* too long: the result has 8 bytes */
	exp_refused(rig->end[0].qp, &wr);
	wr = request(rig, &a, sge);
	wr.num_sge = 33;
	exp_refused(rig->end[0].qp, &wr);
	wr.num_sge = -1;
	exp_refused(rig->end[0].qp, &wr);
	wr = request(rig, &a, sge);
	assert_int_equal(exp_run(rig, &wr).status, IBV_WC_SUCCESS);
}

static void masked__refused_on_qps_without_extended_atomics(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_RC, IBV_QPT_RC};
	struct rig *rig = *state;

	for (unsigned i = 0; i < 4; i++) {
		struct nic_atomic a = operation(i & 1 ? NIC_ATOMIC_MFA : NIC_ATOMIC_MCS, 8, true);
		struct ibv_sge sge;
		struct ibv_exp_send_wr wr = request(rig, &a, &sge);

		if (i == 3) {
			rig_connect(rig, types[i]); /* a QP from ibv_create_qp, which allows no extended atomics */
		} else {
			exp_qp(rig, 0, types[i], i == 2 ? 0 : 32, 0);
			exp_qp(rig, 1, types[i], 32, 0);
			rig_connect_qps(rig, rig->end[0].qp, rig->end[1].qp);
		}
		exp_refused(rig->end[0].qp, &wr);
		rig_disconnect(rig);
	}
}

/** ibv_post_send refuses extended atomics even on a QP that allows them: struct ibv_send_wr has no fields for
 * the operands. */
static void masked__refused_by_ibv_post_send(void **state)
{
	struct rig *rig = *state;
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8);
	struct ibv_send_wr wr, *bad;

	exp_connect(rig, 32, 0);
	for (unsigned opcode = IBV_WR_TSO; opcode < 300; opcode++) {
		if (opcode == IBV_WR_ATOMIC_WRITE)
			continue;
		memset(&wr, 0xff, sizeof(wr));
		wr.next = NULL;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.opcode = opcode;
		assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), EINVAL);
	}
}

static void masked__refused_by_the_target(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *no_atomics =
		ibv_reg_mr(rig->end[1].pd, rig->end[1].buf, RIG_BUF, RIG_ACCESS & ~IBV_ACCESS_REMOTE_ATOMIC);

	assert_non_null(no_atomics);
	for (unsigned i = 0; i < 8; i++) {
		struct nic_atomic a = operation(i & 1 ? NIC_ATOMIC_MFA : NIC_ATOMIC_MCS, 16, true);
		struct ibv_sge sge;
		struct ibv_exp_send_wr wr;

		exp_connect(rig, 32, 0);
		memcpy(target_of(rig), before, sizeof(before));
		wr = request(rig, &a, &sge);
		switch (i / 2) {
		case 0:
			wr.ext_op.masked_atomics.remote_addr += 8;
			break;
		case 1:
			wr.ext_op.masked_atomics.rkey ^= 1;
			break;
		case 2:
			wr.ext_op.masked_atomics.rkey = no_atomics->rkey;
			break;
		default:
			wr.ext_op.masked_atomics.remote_addr += RIG_BUF;
		}
		assert_int_equal(exp_run(rig, &wr).status, i / 2 ? IBV_WC_REM_ACCESS_ERR : IBV_WC_REM_INV_REQ_ERR);
		assert_memory_equal(target_of(rig), before, sizeof(before));
		rig_disconnect(rig);
	}
	assert_int_equal(ibv_dereg_mr(no_atomics), 0);
}

/* ---- personalities -------------------------------------------------------------------------------------------- */

static int setup_as(const char *personality, void **state)
{
	int err;

	setenv("UROCE_ATOMICS", personality, 1);
	err = rig_setup(state);
	unsetenv("UROCE_ATOMICS");
	return err;
}

static int setup_glob(void **state)
{
	return setup_as("glob", state);
}

static int setup_connectx4(void **state)
{
	return setup_as("connectx4", state);
}

static int setup_connectib(void **state)
{
	return setup_as("connectib", state);
}

static struct ibv_exp_device_attr device(struct rig *rig)
{
	struct ibv_exp_device_attr attr = {.comp_mask = (uint32_t)(IBV_EXP_DEVICE_ATTR_RESERVED - 1)};

	attr.comp_mask_2 = IBV_EXP_DEVICE_ATTR_RESERVED_2 - 1;
	assert_int_equal(ibv_exp_query_device(rig->end[0].ctx, &attr), 0);
	return attr;
}

static enum ibv_atomic_cap plain_cap(struct rig *rig)
{
	struct ibv_device_attr attr;

	assert_int_equal(ibv_query_device(rig->end[0].ctx, &attr), 0);
	return attr.atomic_cap;
}

static void expect_caps(struct rig *rig, enum ibv_atomic_cap plain, enum ibv_exp_atomic_cap cap, uint64_t like_cap,
			uint64_t network)
{
	struct ibv_exp_device_attr attr = device(rig);

	assert_int_equal(plain_cap(rig), plain);
	assert_int_equal(attr.exp_atomic_cap, cap);
	assert_int_equal(attr.ext_atom.log_atomic_arg_sizes, like_cap);
	assert_int_equal(attr.ext_atom.log_max_atomic_inline, 5);
	assert_int_equal(attr.masked_atomic.masked_log_atomic_arg_sizes, 0x3c);
	assert_int_equal(attr.masked_atomic.masked_log_atomic_arg_sizes_network_endianness, network);
	assert_int_equal(attr.pci_atomic_caps.fetch_add, 7);
	assert_int_equal(attr.pci_atomic_caps.swap, 7);
	assert_int_equal(attr.pci_atomic_caps.compare_swap, 7);
}

static void personality__default(void **state)
{
	expect_caps(*state, IBV_ATOMIC_HCA, IBV_EXP_ATOMIC_HCA, 0x3c, 0);
}

static void personality__glob(void **state)
{
	expect_caps(*state, IBV_ATOMIC_GLOB, IBV_EXP_ATOMIC_GLOB, 0x3c, 0);
}

static void personality__connectx4(void **state)
{
	expect_caps(*state, IBV_ATOMIC_HCA, IBV_EXP_ATOMIC_HCA, 0x8, 0x34);
	exp_connect(*state, 32, 0);
	run_all(*state, 0x34);
}

static void personality__connectib(void **state)
{
	struct rig *rig = *state;
	struct nic_atomic a = operation(NIC_ATOMIC_MFA, 8, true);
	struct ibv_sge sge = rig_sge(&rig->end[0], RESULT, 8);
	struct ibv_exp_send_wr wr = request(rig, &a, &sge);
	struct ibv_send_wr plain = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD}, *bad;

	expect_caps(rig, IBV_ATOMIC_NONE, IBV_EXP_ATOMIC_HCA_REPLY_BE, 0x3c, 0x3c);
	exp_connect(rig, 32, 0);
	exp_refused(rig->end[0].qp, &wr);
	wr.exp_opcode = IBV_EXP_WR_ATOMIC_CMP_AND_SWP;
	exp_refused(rig->end[0].qp, &wr);
	assert_int_equal(ibv_post_send(rig->end[0].qp, &plain, &bad), EINVAL);
	assert_ptr_equal(bad, &plain);
	rig_disconnect(rig);
	exp_connect(rig, 32, BE_FLAG);
	run_all(rig, 0x3c);
}

/** The personality connectib allows atomics only on QPs that ask for results in network byte order. QPs for ibv_wr_*
 * calls cannot ask for that, so ibv_wr_atomic_* is refused. */
static void personality__connectib_refuses_ibv_wr_atomics(void **state)
{
	struct rig *rig = *state;

	for (unsigned cas = 0; cas < 2; cas++) {
		struct ibv_qp_init_attr plain = rig_qp_init(&rig->end[0], IBV_QPT_RC);
		struct ibv_qp_init_attr_ex init = {
			.send_cq = plain.send_cq,
			.recv_cq = plain.recv_cq,
			.cap = plain.cap,
			.qp_type = IBV_QPT_RC,
			.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
			.pd = rig->end[0].pd,
			.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP,
		};
		struct ibv_qp_ex *ex;

		rig->end[0].qp = ibv_create_qp_ex(rig->end[0].ctx, &init);
		assert_non_null(rig->end[0].qp);
		rig_connect_qps(rig, rig->end[0].qp, exp_qp(rig, 1, IBV_QPT_RC, 0, 0));
		ex = ibv_qp_to_qp_ex(rig->end[0].qp);
		ibv_wr_start(ex);
		if (cas)
			ibv_wr_atomic_cmp_swp(ex, rig->end[1].mr->rkey, (uintptr_t)rig->end[1].buf, 1, 2);
		else
			ibv_wr_atomic_fetch_add(ex, rig->end[1].mr->rkey, (uintptr_t)rig->end[1].buf, 1);
		ibv_wr_set_sge(ex, rig->end[0].mr->lkey, (uintptr_t)rig->end[0].buf, 8);
		assert_int_equal(ibv_wr_complete(ex), EINVAL);
		rig_disconnect(rig);
	}
}

static void personality__an_unknown_name_fails_to_open_the_device(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *ctx;

	setenv("UROCE_ATOMICS", "mellanox", 1);
	ctx = ibv_open_device(rig->end[0].ctx->device);
	unsetenv("UROCE_ATOMICS");
	assert_null(ctx);
	assert_int_equal(errno, EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name)		  cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
#define T_AS(name, setup) cmocka_unit_test_setup_teardown(name, setup, rig_teardown)
		T(masked__all_sizes),
		T(masked__results_in_network_order),
		T(standard__results_in_network_order),
		T(masked__refused_when_posted),
		T(masked__refused_on_qps_without_extended_atomics),
		T(masked__refused_by_ibv_post_send),
		T(masked__refused_by_the_target),
		T(personality__default),
		T_AS(personality__glob, setup_glob),
		T_AS(personality__connectx4, setup_connectx4),
		T_AS(personality__connectib, setup_connectib),
		T_AS(personality__connectib_refuses_ibv_wr_atomics, setup_connectib),
		T(personality__an_unknown_name_fails_to_open_the_device),
	};

	return cmocka_run_group_tests_name("shim_exp_atomics", tests, NULL, NULL);
}
