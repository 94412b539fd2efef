/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unknown.c - functions that older libraries lack: those of newer releases that uroce knows, called by name, and those
 * that it does not know, for which the real library's own functions stand here: called in that library, with objects
 * of uroce.
 */
#include "rig.h"
#include <dlfcn.h>

/* Attributes of ibv_reg_mr_ex in rdma-core 64, whose headers may not be installed. */
struct mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah, *buf;
};

enum { MASK_IOVA = 1, MASK_ADDR = 2, MASK_FD = 4, MASK_FD_OFFSET = 8, MASK_DMAH = 16, MASK_BUF = 32 };

/** The object of libibverbs's ibv_alloc_dmah: its context, then members that nobody outside reads. */
struct dmah {
	struct ibv_context *context;
	char rest[64];
};

/* ---- functions that are not known -------------------------------------------------------------------------------- */

/* Room for what a function reads or writes: zeroes, and enough for any attributes. */
static long long arg[512];

typedef void *returns_pointer(void *object, void *a, void *b, void *c, void *d);
typedef int returns_int(void *object, void *a, void *b, void *c, void *d);

enum object { CONTEXT, PD, CQ, QP, MR, SRQ, AH, DM, N_OBJECTS };

struct unknown {
	const char *name;
	enum object object;
	enum { EXPECT_NULL, EXPECT_ERRNO, EXPECT_MINUS_ONE } expect;
};

/* Each reads its operation from the private part of the context. */
static const struct unknown unknown[] = {
	{"ibv_alloc_pd", CONTEXT, EXPECT_NULL},
	{"ibv_create_cq", CONTEXT, EXPECT_NULL},
	{"ibv_create_srq", PD, EXPECT_NULL},
	{"ibv_create_ah", PD, EXPECT_NULL},
	{"ibv_import_pd", CONTEXT, EXPECT_NULL},
	{"ibv_import_mr", PD, EXPECT_NULL},
	{"ibv_import_dm", CONTEXT, EXPECT_NULL},
	{"ibv_reg_dmabuf_mr", PD, EXPECT_NULL},
	{"ibv_alloc_dmah", CONTEXT, EXPECT_NULL},
	{"ibv_create_comp_cntr", CONTEXT, EXPECT_NULL},
	{"ibv_dealloc_pd", PD, EXPECT_ERRNO},
	{"ibv_dereg_mr", MR, EXPECT_ERRNO},
	{"ibv_resize_cq", CQ, EXPECT_ERRNO},
	{"ibv_destroy_cq", CQ, EXPECT_ERRNO},
	{"ibv_modify_srq", SRQ, EXPECT_ERRNO},
	{"ibv_query_srq", SRQ, EXPECT_ERRNO},
	{"ibv_destroy_srq", SRQ, EXPECT_ERRNO},
	{"ibv_query_qp", QP, EXPECT_ERRNO},
	{"ibv_modify_qp", QP, EXPECT_ERRNO},
	{"ibv_destroy_qp", QP, EXPECT_ERRNO},
	{"ibv_attach_mcast", QP, EXPECT_ERRNO},
	{"ibv_detach_mcast", QP, EXPECT_ERRNO},
	{"ibv_query_ece", QP, EXPECT_ERRNO},
	{"ibv_set_ece", QP, EXPECT_ERRNO},
	{"ibv_destroy_ah", AH, EXPECT_ERRNO},
	{"ibv_query_port_speed", CONTEXT, EXPECT_ERRNO},
	{"_ibv_query_comp_cntr_caps", CONTEXT, EXPECT_ERRNO},
	{"ibv_qp_attach_comp_cntr", QP, EXPECT_ERRNO},
	{"ibv_dm_export_dmabuf_fd", DM, EXPECT_MINUS_ONE},
};

static void objects_make(struct rig *rig, void *objects[N_OBJECTS])
{
	struct rig_end *end = &rig->end[0];
	struct ibv_srq_init_attr srq = {.attr = {.max_wr = 4, .max_sge = 1}};
	struct ibv_alloc_dm_attr dm = {.length = 64};

	rig_connect(rig, IBV_QPT_RC);
	objects[CONTEXT] = end->ctx;
	objects[PD] = end->pd;
	objects[CQ] = end->cq;
	objects[QP] = end->qp;
	objects[MR] = end->mr;
	objects[SRQ] = ibv_create_srq(end->pd, &srq);
	objects[AH] = rig_ah(rig);
	objects[DM] = ibv_alloc_dm(end->ctx, &dm);
	for (int i = 0; i < N_OBJECTS; i++)
		assert_non_null(objects[i]);
}

static void objects_end(void *objects[N_OBJECTS])
{
	assert_int_equal(ibv_free_dm(objects[DM]), 0);
	assert_int_equal(ibv_destroy_ah(objects[AH]), 0);
	assert_int_equal(ibv_destroy_srq(objects[SRQ]), 0);
}

static void call_refuses(const struct unknown *u, void *fn, void *object)
{
	errno = 0;
	print_message("%s\n", u->name);
	if (u->expect == EXPECT_NULL) {
		assert_null(((returns_pointer *)fn)(object, arg, NULL, NULL, NULL));
		assert_int_equal(errno, EOPNOTSUPP);
		return;
	}

	int ret = ((returns_int *)fn)(object, arg, NULL, NULL, NULL);

	assert_int_equal(ret, u->expect == EXPECT_ERRNO ? EOPNOTSUPP : -1);
	if (u->expect == EXPECT_MINUS_ONE)
		assert_int_equal(errno, EOPNOTSUPP);
}

static void unknown__functions_of_the_real_library_refuse_our_objects(void **state)
{
	void *library = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_NOLOAD), *objects[N_OBJECTS];
	unsigned called = 0;

	assert_non_null(library);
	if (dlsym(library, "uroce_ibverbs_marker")) {
		print_message("the process has no libibverbs but uroce's: the linker names a function that it lacks\n");
		skip();
	}
	objects_make(*state, objects);
	for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); i++) {
		void *fn = dlsym(library, unknown[i].name);

		assert_true(!fn || fn != dlsym(RTLD_DEFAULT, unknown[i].name));
		if (fn)
			call_refuses(&unknown[i], fn, objects[unknown[i].object]);
		called += fn != NULL;
	}
	assert_true(called >= 20);
	objects_end(objects); /* they are unharmed */
}

/* ---- functions that are known ------------------------------------------------------------------------------------ */

static void newer__port_speed(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	int (*query)(struct ibv_context *, uint32_t, uint64_t *) =
		(int (*)(struct ibv_context *, uint32_t, uint64_t *))dlsym(RTLD_DEFAULT, "ibv_query_port_speed");
	struct ibv_port_attr port;
	uint64_t speed = 7;

	assert_non_null(query);
	assert_int_equal(query(end->ctx, 2, &speed), EINVAL);
	assert_int_equal(query(end->ctx, 0, &speed), EINVAL);
	assert_int_equal(speed, 7);
	assert_int_equal(query(end->ctx, 1, &speed), 0);
	assert_int_equal(speed, 1000); /* in 100 Mb/s */
	assert_int_equal(ibv_query_port(end->ctx, 1, &port), 0);
	assert_int_equal(port.active_width, 2);	 /* 4 lanes */
	assert_int_equal(port.active_speed, 32); /* of 25 Gb/s */
}

static void newer__mr_attributes(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_mr *(*reg)(struct ibv_pd *, struct mr_init_attr *) =
		(struct ibv_mr * (*)(struct ibv_pd *, struct mr_init_attr *)) dlsym(RTLD_DEFAULT, "ibv_reg_mr_ex");
	const struct {
		uint64_t mask;
		int err;
	} wrong[] = {
		{0, EINVAL},
		{MASK_IOVA, EINVAL},
		{MASK_BUF | MASK_ADDR, EINVAL}, /* no buffer */
		{MASK_FD | MASK_FD_OFFSET | MASK_IOVA, EBADF},
		{MASK_FD | MASK_ADDR, EINVAL},
		{MASK_DMAH | MASK_ADDR, EOPNOTSUPP},
		{MASK_ADDR | 64, EOPNOTSUPP},
		{MASK_ADDR | 1ull << 63, EOPNOTSUPP},
	};
	struct mr_init_attr attr = {.length = 64, .access = RIG_ACCESS, .addr = end->buf, .iova = 0x7000, .fd = -1};
	struct ibv_mr *mr;

	assert_non_null(reg);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		attr.comp_mask = wrong[i].mask;
		errno = 0;
		assert_null(reg(end->pd, &attr));
		assert_int_equal(errno, wrong[i].err);
	}
	attr.comp_mask = MASK_ADDR;
	mr = reg(end->pd, &attr);
	assert_non_null(mr);
	assert_ptr_equal(mr->addr, end->buf);
	assert_int_equal(mr->length, 64);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void newer__dma_handles(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	void *(*alloc)(struct ibv_context *, void *) =
		(void *(*)(struct ibv_context *, void *))dlsym(RTLD_DEFAULT, "ibv_alloc_dmah");
	int (*dealloc)(struct dmah *) = (int (*)(struct dmah *))dlsym(RTLD_DEFAULT, "ibv_dealloc_dmah");
	struct dmah dmah = {.context = end->ctx};

	assert_non_null(alloc);
	assert_non_null(dealloc);
	errno = 0;
	assert_null(alloc(end->ctx, arg));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(dealloc(&dmah), EOPNOTSUPP);
}

static void newer__device_memory_is_not_exported(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	int (*export)(struct ibv_dm *) = (int (*)(struct ibv_dm *))dlsym(RTLD_DEFAULT, "ibv_dm_export_dmabuf_fd");
	struct ibv_alloc_dm_attr attr = {.length = 4096};
	struct ibv_dm *dm = ibv_alloc_dm(end->ctx, &attr);

	assert_non_null(export);
	assert_non_null(dm);
	errno = 0;
	assert_int_equal(export(dm), -1);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_free_dm(dm), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(unknown__functions_of_the_real_library_refuse_our_objects),
		TEST(newer__port_speed),
		TEST(newer__mr_attributes),
		TEST(newer__dma_handles),
		TEST(newer__device_memory_is_not_exported),
	};

	return cmocka_run_group_tests_name("shim_unknown", tests, NULL, NULL);
}
