/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_mem.c - protection domains and memory regions as objects: when each may be destroyed, re-registration, local
 * keys (IBTA 10.6, 11.2; conformance points MR-01, QS-16).
 */
#include "nic_rdm.h"
#include "resp_util.h"

#define WRITABLE (NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ)

/* Whether the peer can write 8 bytes with this R_Key. A refusal ends the QP, so each call creates a new one. */
static bool can_write(struct rig *rig, uint32_t rkey, uint64_t va)
{
	struct packet p;
	struct nic_qp *qp = rig->qp = rig_qp_create(rig);
	uint32_t syndrome;

	rig_to_rts(rig);
	p = rig_peer_data(rig, WRITE_ONLY, E, 0, 8);
	p.dest_qpn = nic_qp_num(qp);
	p.rkey = rkey;
	p.va = va;
	rig_rx(rig, &p);
	syndrome = rig_expect_tx(rig, ACK, E).syndrome;
	assert_true(syndrome == SYN_ACK || syndrome == SYN_ACCESS);
	nic_qp_destroy(qp);
	return syndrome == SYN_ACK;
}

static struct nic_mr *reg(struct rig *rig, uint32_t offset, uint32_t len, uint64_t iova, uint32_t access)
{
	struct nic_mr *mr;

	assert_int_equal(nic_mr_reg(rig->pd, rig->arena + offset, len, iova, access, &mr), 0);
	return mr;
}

static void mem__QS_16_pd_is_busy_while_something_belongs_to_it(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_pd *pd;
	struct nic_mr *mr;
	struct nic_mw *mw;
	struct nic_ah *ah;
	struct nic_srq *srq;
	struct nic_qp *qp;

	assert_int_equal(nic_pd_alloc(rig->nic, &pd), 0);
	assert_int_equal(nic_mr_reg(pd, rig->arena, 64, 0, 0, &mr), 0);
	assert_int_equal(nic_pd_free(pd), -EBUSY);
	assert_int_equal(nic_mr_dereg(mr), 0);
	assert_int_equal(nic_mw_alloc(pd, NIC_MW_TYPE_2, &mw), 0);
	assert_int_equal(nic_pd_free(pd), -EBUSY);
	assert_int_equal(nic_mw_dealloc(mw), 0);
	assert_int_equal(nic_ah_create(pd, &rig->attr.av, &ah), 0);
	assert_int_equal(nic_pd_free(pd), -EBUSY);
	assert_int_equal(nic_ah_destroy(ah), 0);
	assert_int_equal(nic_srq_create(pd, 4, 1, 0, NULL, &srq), 0);
	assert_int_equal(nic_pd_free(pd), -EBUSY);
	assert_int_equal(nic_srq_destroy(srq), 0);
	rig->pd = pd;
	qp = rig_qp_create(rig);
	assert_int_equal(nic_pd_free(pd), -EBUSY);
	assert_int_equal(nic_qp_destroy(qp), 0);
	assert_int_equal(nic_pd_free(pd), 0);
	rig_destroy(rig);
}

static void mem__QS_16_region_is_busy_while_a_window_is_bound_to_it(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr wr = {.opcode = NIC_WR_BIND_MW};
	struct nic_mr *mr = reg(rig, 0, 4096, rig_va(rig, 0), WRITABLE | NIC_ACCESS_MW_BIND);
	struct nic_mw *mw;

	assert_int_equal(nic_mw_alloc(rig->pd, NIC_MW_TYPE_1, &mw), 0);
	wr.bind = (struct nic_bind){.mw = mw, .mr = mr, .addr = rig_va(rig, 0), .len = 64};
	rig_post(rig, &wr);
	rig_drain(rig);
	rig_expect_wc(rig->send_cq, 0, NIC_WC_SUCCESS);
	assert_int_equal(nic_mr_dereg(mr), -EBUSY);
	assert_int_equal(nic_mr_rereg(mr, NIC_REREG_ACCESS, NULL, NULL, 0, 0, 0), -EBUSY);
	assert_true(can_write(rig, nic_mr_rkey(mr), rig_va(rig, 0))); /* the refused calls have changed nothing */
	assert_int_equal(nic_mw_dealloc(mw), 0);		      /* unbinds */
	assert_int_equal(nic_mr_dereg(mr), 0);
	rig_destroy(rig);
}

static void mem__MR_01_rereg_access_keeps_the_key(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_mr *mr = reg(rig, 0, 4096, 0x1000, WRITABLE);
	uint32_t rkey = nic_mr_rkey(mr);

	assert_true(can_write(rig, rkey, 0x1000));
	assert_int_equal(nic_mr_rereg(mr, NIC_REREG_ACCESS, NULL, NULL, 0, 0, NIC_ACCESS_REMOTE_READ), 0);
	assert_int_equal(nic_mr_rkey(mr), rkey);
	assert_false(can_write(rig, rkey, 0x1000));
	assert_int_equal(nic_mr_rereg(mr, NIC_REREG_ACCESS, NULL, NULL, 0, 0, WRITABLE), 0);
	assert_true(can_write(rig, rkey, 0x1000));
	rig_destroy(rig);
}

static void mem__MR_01_rereg_pd_moves_the_region(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_mr *mr = reg(rig, 0, 4096, 0x1000, WRITABLE);
	struct nic_pd *first = rig->pd, *other;

	assert_int_equal(nic_pd_alloc(rig->nic, &other), 0);
	assert_int_equal(nic_mr_rereg(mr, NIC_REREG_PD, other, NULL, 0, 0, 0), 0);
	assert_false(can_write(rig, nic_mr_rkey(mr), 0x1000));
	rig->pd = other;
	assert_true(can_write(rig, nic_mr_rkey(mr), 0x1000));
	rig->pd = first;
	assert_int_equal(nic_pd_free(other), -EBUSY);
	assert_int_equal(nic_mr_dereg(mr), 0);
	assert_int_equal(nic_pd_free(other), 0);
	rig_destroy(rig);
}

static void mem__MR_01_rereg_translation_ends_the_old_one(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_mr *mr = reg(rig, 0, 4096, 0x1000, WRITABLE);
	uint32_t old = nic_mr_rkey(mr);

	assert_int_equal(nic_mr_rereg(mr, NIC_REREG_TRANSLATION, NULL, rig->arena + 8192, 64, 0x9000, 0), 0);
	assert_int_not_equal(nic_mr_rkey(mr), old);
	assert_false(can_write(rig, old, 0x1000));
	assert_false(can_write(rig, old, 0x9000));
	assert_false(can_write(rig, nic_mr_rkey(mr), 0x1000));
	rig_expect_untouched(rig, 0, 4096);
	assert_true(can_write(rig, nic_mr_rkey(mr), 0x9000 + 56));
	assert_false(can_write(rig, nic_mr_rkey(mr), 0x9000 + 57));
	rig_expect_data(rig, 8192 + 56, 0, 8);
	rig_destroy(rig);
}

static void mem__MR_01_failed_rereg_changes_nothing(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_mr *mr = reg(rig, 0, 4096, 0x1000, WRITABLE);
	struct rig *stranger = rig_create(NULL);
	uint32_t rkey = nic_mr_rkey(mr);
	uint32_t all = NIC_REREG_TRANSLATION | NIC_REREG_PD | NIC_REREG_ACCESS;

	assert_int_equal(nic_mr_rereg(mr, 0, NULL, NULL, 0, 0, 0), -EINVAL);
	assert_int_equal(nic_mr_rereg(mr, 8, NULL, NULL, 0, 0, 0), -EINVAL);
	assert_int_equal(nic_mr_rereg(mr, all, NULL, rig->arena, 64, 0, 0), -EINVAL); /* no PD */
	assert_int_equal(nic_mr_rereg(mr, all, stranger->pd, rig->arena, 64, 0, 0), -EINVAL);
	assert_int_equal(nic_mr_rereg(mr, all, rig->pd, rig->arena, 64, 0, NIC_ACCESS_REMOTE_WRITE), -EINVAL);
	assert_int_equal(nic_mr_rereg(mr, all, rig->pd, rig->arena, 64, UINT64_MAX - 62, 0), -EINVAL);
	assert_int_equal(nic_mr_rereg(mr, all, rig->pd, (void *)(UINTPTR_MAX - 62), 64, 0, 0), -EINVAL);
	assert_int_equal(nic_mr_rkey(mr), rkey);
	assert_true(can_write(rig, rkey, 0x1000 + 4088));
	rig_destroy(stranger);
	rig_destroy(rig);
}

static void mem__registration_of_a_range_that_wraps_is_refused(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_mr *mr;

	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 64, UINT64_MAX - 62, 0, &mr), -EINVAL);
	assert_int_equal(nic_mr_reg(rig->pd, (void *)(UINTPTR_MAX - 62), 64, 0, 0, &mr), -EINVAL);
	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, UINT64_MAX, 0, 0, &mr), -EINVAL);
	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, 64, 0, 1u << 20, &mr), -EINVAL);
	rig_destroy(rig);
}

/* A receive fails if its buffer's L_Key is wrong, belongs to another PD, lacks LOCAL_WRITE, or does not cover the bytes
 * that arrive. */
static void mem__receive_buffers_need_a_valid_lkey_with_local_write(void **state)
{
	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig = rig_ready(NULL);
		struct nic_sge sge = {.addr = 0x1000, .length = 64};
		struct nic_recv_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1};
		struct nic_mr *mr = reg(rig, 0, 64, 0x1000, i == 1 ? NIC_ACCESS_REMOTE_READ : NIC_ACCESS_LOCAL_WRITE);
		struct nic_pd *other;

		sge.lkey = nic_mr_lkey(mr);
		assert_int_equal(nic_pd_alloc(rig->nic, &other), 0);
		if (i == 0)
			assert_int_equal(nic_mr_rereg(mr, NIC_REREG_PD, other, NULL, 0, 0, 0), 0);
		if (i == 2)
			sge.addr += 64 - 7; /* one byte too many */
		if (i == 3)
			sge.lkey ^= 0x10000;
		assert_int_equal(nic_post_recv(rig->qp, &wr), 0);
		rig_rx_data(rig, SEND_ONLY, E, 0, 8);
		rig_expect_wc(rig->recv_cq, 3, NIC_WC_LOC_PROT_ERR);
		expect_fatal(rig, E, SYN_OP);
		rig_expect_untouched(rig, 0, 128);
		rig_destroy(rig);
	}
}

static void mem__receive_buffers_may_be_longer_than_what_is_left_of_the_region(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_mr *mr = reg(rig, 0, 64, 0x1000, NIC_ACCESS_LOCAL_WRITE);
	struct nic_sge sge = {.addr = 0x1000 + 64 - 8, .length = 64, .lkey = nic_mr_lkey(mr)};
	struct nic_recv_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1};

	(void)state;
	assert_int_equal(nic_post_recv(rig->qp, &wr), 0);
	rig_rx_data(rig, SEND_ONLY, E, 0, 8);
	rig_expect_wc(rig->recv_cq, 3, NIC_WC_SUCCESS);
	rig_expect_untouched(rig, 0, 64 - 8);
	rig_expect_untouched(rig, 64, 64);
	rig_destroy(rig);
}

static void mem__each_packet_of_a_receive_is_checked_where_it_is_written(void **state)
{
	(void)state;
	for (unsigned beyond = 0; beyond < 2; beyond++) {
		struct rig *rig = rig_ready(NULL);
		struct nic_mr *mr = reg(rig, 0, RIG_MTU + 8, 0x1000, NIC_ACCESS_LOCAL_WRITE);
		struct nic_sge sge = {.addr = 0x1000 + beyond, .length = 2 * RIG_MTU, .lkey = nic_mr_lkey(mr)};
		struct nic_recv_wr wr = {.wr_id = 3, .sg_list = &sge, .num_sge = 1};

		assert_int_equal(nic_post_recv(rig->qp, &wr), 0);
		rig_rx_data(rig, SEND_FIRST, E, 0, RIG_MTU);
		rig_rx_data(rig, SEND_LAST, E + 1, RIG_MTU, 8);
		rig_expect_wc(rig->recv_cq, 3, beyond ? NIC_WC_LOC_PROT_ERR : NIC_WC_SUCCESS);
		if (beyond)
			expect_fatal(rig, E + 1, SYN_OP);
		else
			rig_expect_data(rig, 0, 0, RIG_MTU + 8);
		rig_expect_untouched(rig, RIG_MTU + 8, 64);
		rig_destroy(rig);
	}
}

/** Without nic_config.is_mapped. */
static void mem__memory_that_is_no_longer_mapped_is_an_error_and_no_crash(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.nic.guard = rig_guard});

	rig_good_accesses = 1;
	rx_write(rig, WRITE_FIRST, E, 0, RIG_MTU, 2 * RIG_MTU);
	rig_rx_data(rig, WRITE_LAST, E + 1, RIG_MTU, RIG_MTU);
	expect_fatal(rig, E + 1, SYN_OP);
	assert_int_equal(rig_counter(rig, app_memory_fault), 1);
	assert_true(rig_event(rig, NIC_EVENT_QP_FATAL, RIG_USER_QP(rig)));
	rig_destroy(rig);
}

static enum { MAPPED, UNMAPPED, MAPPED_MEANWHILE, MAPPINGS } mapping;
static unsigned asked;

/** As nic_config.is_mapped. */
static bool is_mapped(void *ctx, const void *app, size_t len)
{
	(void)ctx;
	(void)app;
	(void)len;
	asked++;
	if (mapping == MAPPED_MEANWHILE)
		rig_good_accesses = 1;
	return mapping != UNMAPPED;
}

static struct rig *rig_that_faults(bool on_demand)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.nic = {.guard = rig_guard, .is_mapped = is_mapped}});

	if (on_demand)
		assert_int_equal(nic_mr_rereg(rig->mr, NIC_REREG_ACCESS, NULL, NULL, 0, 0,
					      WRITABLE | NIC_ACCESS_REMOTE_ATOMIC | NIC_ACCESS_ON_DEMAND),
				 0);
	rig_good_accesses = 0;
	asked = 0;
	return rig;
}

enum kind { READ, WRITE, SEND, ATOMIC, KINDS };

/** Execute a request that accesses 8 bytes, by one copy. */
static void access_once(struct rig *rig, enum kind kind, bool succeeds)
{
	rig_post_recv(rig, 3, 64, 8);
	if (kind == READ)
		rx_read(rig, E, 0, 8);
	else if (kind == WRITE)
		rx_write(rig, WRITE_ONLY, E, 0, 8, 8);
	else if (kind == SEND)
		rig_rx_data(rig, SEND_ONLY, E, 0, 8);
	else
		rx_atomic(rig, FETCH_ADD, E, 0, 1, 0);
	if (succeeds)
		rig_expect_ack(rig, E, SYN_ACK);
	else if (kind == READ) /* its memory is accessed when its response is sent */
		rig_expect_ack(rig, E, SYN_OP);
	else
		expect_fatal(rig, E, SYN_OP);
	assert_int_equal(nic_qp_state(rig->qp), succeeds ? NIC_QPS_RTS : NIC_QPS_ERR);
	if (kind == SEND)
		rig_expect_wc(rig->recv_cq, 3, succeeds ? NIC_WC_SUCCESS : NIC_WC_LOC_PROT_ERR);
}

/** A request whose copy faults succeeds if it writes, the memory's pages count as pinned, and no page is mapped that
 * cannot be written. */
static void mem__a_fault_depends_on_the_region(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 2 * MAPPINGS * KINDS; i++) {
		enum kind kind = (enum kind)(i % KINDS);
		bool pinned = i / KINDS % 2, tried = pinned && (kind == WRITE || kind == SEND);
		struct rig *rig = rig_that_faults(!pinned);

		mapping = i / KINDS / 2;
		access_once(rig, kind, tried && mapping != MAPPED);
		assert_int_equal(asked, !tried ? 0 : mapping == MAPPED ? 2 : 1);
		assert_int_equal(rig_counter(rig, app_memory_fault), 1);
		assert_int_equal(rig_counter(rig, app_memory_lost), tried && mapping == UNMAPPED);
		if (tried && mapping == MAPPED_MEANWHILE && kind == WRITE)
			rig_expect_data(rig, 0, 0, 8);
		rig_destroy(rig);
	}
}

static void mem__regions_can_have_a_chosen_rkey_per_pd(void **state)
{
	struct rig *rig = rig_create(NULL);
	struct nic_pd *other;
	struct nic_mr *mr, *more;

	assert_int_equal(nic_pd_alloc(rig->nic, &other), 0);
	assert_int_equal(nic_mr_reg_named(rig->pd, rig->arena, 64, 0x1000, WRITABLE, 7, &mr), 0);
	assert_int_equal(nic_mr_rkey(mr), 7);
	assert_int_not_equal(nic_mr_lkey(mr), 7);
	assert_true(can_write(rig, 7, 0x1000));
	assert_false(can_write(rig, 7, 0x2000));
	assert_false(can_write(rig, 8, 0x1000));
	assert_int_equal(nic_mr_reg_named(rig->pd, rig->arena, 64, 0, WRITABLE, 7, &more), -EEXIST);
	assert_int_equal(nic_mr_reg_named(other, rig->arena + 64, 64, 0x2000, WRITABLE, 7, &more), 0);
	assert_false(can_write(rig, 7, 0x2000)); /* only QPs of the other PD can write there */
	assert_int_equal(nic_mr_rereg(mr, NIC_REREG_PD, other, NULL, 0, 0, 0), -EINVAL);
	assert_int_equal(nic_mr_rereg(mr, NIC_REREG_TRANSLATION, NULL, rig->arena, 64, 0x3000, 0), 0);
	assert_true(can_write(rig, 7, 0x3000));
	assert_int_equal(nic_mr_dereg(mr), 0);
	assert_false(can_write(rig, 7, 0x3000));
	assert_int_equal(nic_mr_reg_named(rig->pd, rig->arena, 64, 0, WRITABLE, 7, &mr), 0);
	rig_destroy(rig); /* also destroys what is left */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mem__QS_16_pd_is_busy_while_something_belongs_to_it),
		cmocka_unit_test(mem__QS_16_region_is_busy_while_a_window_is_bound_to_it),
		cmocka_unit_test(mem__MR_01_rereg_access_keeps_the_key),
		cmocka_unit_test(mem__MR_01_rereg_pd_moves_the_region),
		cmocka_unit_test(mem__MR_01_rereg_translation_ends_the_old_one),
		cmocka_unit_test(mem__MR_01_failed_rereg_changes_nothing),
		cmocka_unit_test(mem__registration_of_a_range_that_wraps_is_refused),
		cmocka_unit_test(mem__receive_buffers_need_a_valid_lkey_with_local_write),
		cmocka_unit_test(mem__receive_buffers_may_be_longer_than_what_is_left_of_the_region),
		cmocka_unit_test(mem__each_packet_of_a_receive_is_checked_where_it_is_written),
		cmocka_unit_test(mem__regions_can_have_a_chosen_rkey_per_pd),
		cmocka_unit_test(mem__memory_that_is_no_longer_mapped_is_an_error_and_no_crash),
		cmocka_unit_test(mem__a_fault_depends_on_the_region),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
