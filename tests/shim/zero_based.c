/* SPDX-License-Identifier: BSD-3-Clause */
/* zero_based.c - regions whose addresses count from their start (IBV_ACCESS_ZERO_BASED). */
#include "region_rig.h"

#define LENGTH 1000u

static struct ibv_mr *zero_based(struct rig_end *end, size_t offset)
{
	struct ibv_mr *mr = ibv_reg_mr(end->pd, end->buf + offset, LENGTH, RIG_ACCESS | IBV_ACCESS_ZERO_BASED);

	assert_non_null(mr);
	assert_ptr_equal(mr->addr, end->buf + offset);
	return mr;
}

/** Check that the region's addresses begin at `base`, which is that of the bytes at `at`. */
static void begins_at(struct rig *rig, uint64_t base, const uint8_t *at, const struct ibv_mr *mr)
{
	uint8_t *from = rig->end[0].buf;

	from[0]++;
	assert_int_equal(write_to(rig, 0, 1, base, mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(at[0], from[0]);
	from[1] = (uint8_t)(at[LENGTH - 1] + 1);
	assert_int_equal(write_to(rig, 1, 1, base + LENGTH - 1, mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(at[LENGTH - 1], from[1]);
	assert_int_equal(read_from(rig, 8, LENGTH, base, mr->rkey), IBV_WC_SUCCESS);
	assert_memory_equal(from + 8, at, LENGTH);
	refused(rig, base + LENGTH, 1, mr->rkey);
	refused(rig, base + 1, LENGTH, mr->rkey);
}

static void zero_based__peers_count_from_the_regions_start(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_mr *mr = zero_based(to, 100);

	rig_connect(rig, IBV_QPT_RC);
	begins_at(rig, 0, to->buf + 100, mr);
	refused(rig, (uintptr_t)to->buf + 100, 1, mr->rkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	/* the flag counts, not an address that the program chooses */
	mr = ibv_reg_mr_iova(to->pd, to->buf, LENGTH, 0x5000, RIG_ACCESS | IBV_ACCESS_ZERO_BASED);
	assert_non_null(mr);
	begins_at(rig, 0, to->buf, mr);
	refused(rig, 0x5000, 1, mr->rkey);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void zero_based__sges_do_too(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct ibv_mr *source = zero_based(from, 64), *target = zero_based(to, 128);
	struct ibv_sge out = {0, 8, source->lkey}, in = {LENGTH - 8, 8, target->lkey};
	struct ibv_recv_wr recv = {.sg_list = &in, .num_sge = 1}, *bad;

	rig_connect(rig, IBV_QPT_RC);
	memcpy(from->buf + 64, "at zero", 8);
	assert_int_equal(ibv_post_recv(to->qp, &recv, &bad), 0);
	assert_int_equal(request(rig, IBV_WR_SEND, out, 0, 0), IBV_WC_SUCCESS);
	assert_int_equal(rig_wait(to->cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(to->buf + 128 + LENGTH - 8, "at zero", 8);
	out.addr = (uintptr_t)from->buf + 64;
	assert_int_equal(request(rig, IBV_WR_RDMA_WRITE, out, 0, target->rkey), IBV_WC_LOC_PROT_ERR);
	assert_int_equal(ibv_dereg_mr(source), 0);
	assert_int_equal(ibv_dereg_mr(target), 0);
}

/* A new range takes the region's present kind of addresses, or that of the new rights. */
static void zero_based__a_new_range_begins_at_zero_again(void **state)
{
	const int range = IBV_REREG_MR_CHANGE_TRANSLATION, rights = IBV_REREG_MR_CHANGE_ACCESS;
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_mr *mr = zero_based(to, 0);

	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(ibv_rereg_mr(mr, range, NULL, to->buf + 5000, LENGTH, 0), 0);
	begins_at(rig, 0, to->buf + 5000, mr);
	refused(rig, (uintptr_t)to->buf + 5000, 1, mr->rkey);
	assert_int_equal(ibv_rereg_mr(mr, range | rights, NULL, to->buf + 7000, LENGTH, RIG_ACCESS), 0);
	begins_at(rig, (uintptr_t)to->buf + 7000, to->buf + 7000, mr);
	refused(rig, 0, 1, mr->rkey);
	assert_int_equal(
		ibv_rereg_mr(mr, range | rights, NULL, to->buf + 9000, LENGTH, RIG_ACCESS | IBV_ACCESS_ZERO_BASED), 0);
	begins_at(rig, 0, to->buf + 9000, mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* Without a new range, the flag among the new rights changes nothing, not even what a later range will take. */
static void zero_based__new_rights_keep_the_addresses(void **state)
{
	const int range = IBV_REREG_MR_CHANGE_TRANSLATION, rights = IBV_REREG_MR_CHANGE_ACCESS;
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_mr *mr = zero_based(to, 0);
	struct ibv_mr *plain = ibv_reg_mr(to->pd, to->buf, LENGTH, RIG_ACCESS);

	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(ibv_rereg_mr(mr, rights, NULL, NULL, 0, RIG_ACCESS), 0);
	begins_at(rig, 0, to->buf, mr);
	assert_int_equal(ibv_rereg_mr(mr, range, NULL, to->buf + 3000, LENGTH, 0), 0);
	begins_at(rig, 0, to->buf + 3000, mr);
	assert_int_equal(ibv_rereg_mr(plain, rights, NULL, NULL, 0, RIG_ACCESS | IBV_ACCESS_ZERO_BASED), 0);
	begins_at(rig, (uintptr_t)to->buf, to->buf, plain);
	assert_int_equal(ibv_rereg_mr(plain, range, NULL, to->buf + 3000, LENGTH, 0), 0);
	begins_at(rig, (uintptr_t)to->buf + 3000, to->buf + 3000, plain);
	assert_int_equal(ibv_dereg_mr(plain), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		T(zero_based__peers_count_from_the_regions_start),
		T(zero_based__sges_do_too),
		T(zero_based__a_new_range_begins_at_zero_again),
		T(zero_based__new_rights_keep_the_addresses),
#undef T
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
