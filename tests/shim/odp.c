/* SPDX-License-Identifier: BSD-3-Clause */
/* odp.c - on-demand paging: what a device reports, regions whose memory comes later, prefetching. */
#include "rig.h"
#include <sys/mman.h>
#include <unistd.h>

#define PAGE	      4096u
#define ON_DEMAND     (RIG_ACCESS | IBV_ACCESS_ON_DEMAND)
#define ODP_PLACEMENT (1 << 6 | 1 << 7) /* IBV_ODP_SUPPORT_FLUSH, IBV_ODP_SUPPORT_ATOMIC_WRITE: not in old verbs.h */

static void odp__is_reported(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	const uint32_t messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;
	struct ibv_device_attr_ex attr;

	assert_int_equal(ibv_query_device_ex(end->ctx, NULL, &attr), 0);
	assert_int_equal(attr.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	assert_int_equal(attr.odp_caps.per_transport_caps.ud_odp_caps, messages);
	assert_int_equal(attr.odp_caps.per_transport_caps.uc_odp_caps, messages | IBV_ODP_SUPPORT_WRITE);
	assert_int_equal(attr.odp_caps.per_transport_caps.rc_odp_caps, messages | IBV_ODP_SUPPORT_WRITE |
									       IBV_ODP_SUPPORT_READ |
									       IBV_ODP_SUPPORT_ATOMIC | ODP_PLACEMENT);
	assert_int_equal(attr.xrc_odp_caps, attr.odp_caps.per_transport_caps.rc_odp_caps);
}

/** Some pages that nothing may access yet. */
static uint8_t *pages_reserve(unsigned n)
{
	uint8_t *pages = mmap(NULL, (size_t)n * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(pages != MAP_FAILED);
	return pages;
}

/** WRITE from end 0's memory. @return how the request ended. */
static enum ibv_wc_status write_from(struct rig *rig, struct ibv_sge sge, uint64_t to, uint32_t rkey)
{
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {to, rkey}},
			   *bad;

	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	return rig_wait(rig->end[0].cq).status;
}

static void odp__memory_may_come_after_its_registration(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	uint8_t *pages = pages_reserve(2);
	struct ibv_mr *mr;

	assert_null(ibv_reg_mr(to->pd, pages, 2 * PAGE, RIG_ACCESS));
	assert_int_equal(errno, EFAULT);
	mr = ibv_reg_mr(to->pd, pages, 2 * PAGE, ON_DEMAND);
	assert_non_null(mr);
	assert_int_equal(mprotect(pages, PAGE, PROT_READ | PROT_WRITE), 0);
	rig_connect(rig, IBV_QPT_RC);
	rig->end[0].buf[0] = 17;
	assert_int_equal(write_from(rig, rig_sge(&rig->end[0], 0, 1), (uintptr_t)pages, mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(pages[0], 17);
	/* Other memory in its place belongs to the region as well. */
	assert_true(mmap(pages, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == pages);
	assert_int_equal(write_from(rig, rig_sge(&rig->end[0], 0, 1), (uintptr_t)pages + 5, mr->rkey), IBV_WC_SUCCESS);
	assert_int_equal(pages[5], 17);
	assert_int_equal(write_from(rig, rig_sge(&rig->end[0], 0, 1), (uintptr_t)pages + PAGE, mr->rkey),
			 IBV_WC_REM_OP_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(pages, 2 * PAGE);
}

static void odp__implicit_region_is_all_memory(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct ibv_mr *mine = ibv_reg_mr(from->pd, NULL, SIZE_MAX, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ON_DEMAND);
	struct ibv_mr *theirs = ibv_reg_mr(to->pd, NULL, SIZE_MAX, ON_DEMAND);
	uint8_t *long_message = malloc(1 << 20), *place = calloc(1, 1 << 20);
	uint8_t on_the_stack = 23;

	assert_non_null(mine);
	assert_non_null(theirs);
	memset(long_message, 29, 1 << 20);
	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(write_from(rig, (struct ibv_sge){(uintptr_t)&on_the_stack, 1, mine->lkey}, (uintptr_t)place,
				    theirs->rkey),
			 IBV_WC_SUCCESS);
	assert_int_equal(place[0], 23);
	assert_int_equal(write_from(rig, (struct ibv_sge){(uintptr_t)long_message, 1 << 20, mine->lkey},
				    (uintptr_t)place, theirs->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(place, long_message, 1 << 20);
	assert_int_equal(write_from(rig, (struct ibv_sge){PAGE, 8, mine->lkey}, (uintptr_t)place, theirs->rkey),
			 IBV_WC_LOC_PROT_ERR);
	assert_int_equal(ibv_dereg_mr(mine), 0);
	assert_int_equal(ibv_dereg_mr(theirs), 0);
	free(long_message);
	free(place);
}

static bool is_resident(uint8_t *page)
{
	unsigned char in_core = 0;

	assert_int_equal(mincore(page, PAGE, &in_core), 0);
	return in_core & 1;
}

static void odp__advice_brings_pages_in(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	uint8_t *pages = pages_reserve(4);
	struct ibv_mr *mr = ibv_reg_mr(end->pd, pages, 4 * PAGE, ON_DEMAND);
	struct ibv_sge sge[2] = {{(uintptr_t)pages, 8, mr->lkey}, {(uintptr_t)pages + 2 * PAGE, PAGE, mr->lkey}};

	assert_int_equal(mprotect(pages, 4 * PAGE, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(
		ibv_advise_mr(end->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, IBV_ADVISE_MR_FLAG_FLUSH, sge, 2), 0);
	assert_false(is_resident(pages));
	assert_int_equal(ibv_advise_mr(end->pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH, sge, 2),
			 0);
	assert_true(is_resident(pages));
	assert_false(is_resident(pages + PAGE));
	assert_true(is_resident(pages + 2 * PAGE));
	assert_false(is_resident(pages + 3 * PAGE));
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(pages, 4 * PAGE);
}

static int advise(struct rig_end *end, enum ibv_advise_mr_advice advice, uint32_t flags, struct ibv_sge sge)
{
	return ibv_advise_mr(end->pd, advice, flags, &sge, 1);
}

static void odp__advice_that_is_wrong(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];
	const enum ibv_advise_mr_advice read = IBV_ADVISE_MR_ADVICE_PREFETCH,
					write = IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	uint8_t *pages = pages_reserve(1);
	struct ibv_mr *mr = ibv_reg_mr(end->pd, pages, PAGE, ON_DEMAND);
	struct ibv_mr *read_only = ibv_reg_mr(end->pd, pages, PAGE, IBV_ACCESS_ON_DEMAND);
	struct ibv_sge sge = {(uintptr_t)pages, 8, mr->lkey};
	struct ibv_sge beyond = {(uintptr_t)pages + PAGE - 4, 8, mr->lkey};

	assert_int_equal(advise(end, (enum ibv_advise_mr_advice)77, 0, sge), EOPNOTSUPP);
	assert_int_equal(advise(end, read, 2, sge), EINVAL);
	assert_int_equal(ibv_advise_mr(end->pd, read, 0, &sge, 0), EINVAL);
	assert_int_equal(advise(end, read, 0, (struct ibv_sge){(uintptr_t)pages, 8, mr->lkey ^ 0x10000}), ENOENT);
	assert_int_equal(advise(&rig->end[1], read, 0, sge), ENOENT);
	assert_int_equal(advise(end, write, 0, (struct ibv_sge){(uintptr_t)pages, 8, read_only->lkey}), EPERM);
	assert_int_equal(advise(end, read, 0, beyond), EFAULT);
	/* The range is right, but nothing is mapped there. */
	assert_int_equal(advise(end, read, 0, sge), 0);
	assert_int_equal(advise(end, read, IBV_ADVISE_MR_FLAG_FLUSH, sge), EFAULT);
	assert_int_equal(ibv_dereg_mr(read_only), 0);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(pages, PAGE);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(odp__is_reported),
		TEST(odp__memory_may_come_after_its_registration),
		TEST(odp__implicit_region_is_all_memory),
		TEST(odp__advice_brings_pages_in),
		TEST(odp__advice_that_is_wrong),
	};

	return cmocka_run_group_tests_name("shim_odp", tests, NULL, NULL);
}
