/* SPDX-License-Identifier: BSD-3-Clause */
/* place.c - FLUSH and ATOMIC WRITE (IBTA A19) as programs use them. */
#include "rig.h"
#include <sys/mman.h>
#include <unistd.h>

/* What old verbs.h do not have. */
#define FLUSH_GLOBAL	 (1 << 8)  /* IBV_ACCESS_FLUSH_GLOBAL */
#define FLUSH_PERSISTENT (1 << 9)  /* IBV_ACCESS_FLUSH_PERSISTENT */
#define WITH_FLUSH	 (1 << 11) /* IBV_QP_EX_WITH_FLUSH */
#define TYPE_GLOBAL	 1	   /* IBV_FLUSH_GLOBAL */
#define TYPE_PERSISTENT	 2	   /* IBV_FLUSH_PERSISTENT */
#define WC_FLUSH	 8	   /* IBV_WC_FLUSH */
#define LEN		 8192

typedef void flush_fn(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level);

/** ibv_wr_flush(): calls the member after wr_atomic_write. */
static void flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level)
{
	flush_fn *fn;

	memcpy(&fn, (char *)ex + offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *), sizeof(fn));
	fn(ex, rkey, addr, len, type, level);
}

static struct ibv_qp *extended_create(struct rig_end *end)
{
	struct ibv_qp_init_attr_ex attr = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.cap = {.max_send_wr = 16, .max_recv_wr = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = end->pd,
		.send_ops_flags = IBV_QP_EX_WITH_ATOMIC_WRITE | WITH_FLUSH,
	};

	return ibv_create_qp_ex(end->ctx, &attr);
}

/** Connect QPs of both ends; that of end 1 lets the peer FLUSH. @return the extended interface of end 0's. */
static struct ibv_qp_ex *connect_both(struct rig *rig)
{
	struct ibv_qp_attr attr = {.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | FLUSH_GLOBAL | FLUSH_PERSISTENT};

	rig->end[0].qp = extended_create(&rig->end[0]);
	rig->end[1].qp = extended_create(&rig->end[1]);
	assert_non_null(rig->end[0].qp);
	rig_connect_qps(rig, rig->end[0].qp, rig->end[1].qp);
	assert_int_equal(ibv_modify_qp(rig->end[1].qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
	return ibv_qp_to_qp_ex(rig->end[0].qp);
}

static struct ibv_wc finish(struct rig *rig, struct ibv_qp_ex *ex)
{
	assert_int_equal(ibv_wr_complete(ex), 0);
	return rig_wait(rig->end[0].cq);
}

static void place__is_reported(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_device_attr_ex attr;

	assert_int_equal(ibv_query_device_ex(end->ctx, NULL, &attr), 0);
	assert_int_equal(attr.device_cap_flags_ex >> 38 & 7, 7); /* FLUSH_GLOBAL, FLUSH_PERSISTENT, ATOMIC_WRITE */
}

static void place__atomic_write(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_qp_ex *ex = connect_both(rig);
	uint64_t value = 0x1122334455667788;
	struct ibv_wc wc;

	ibv_wr_start(ex);
	ex->wr_id = 1;
	ex->wr_flags = 0;
	ibv_wr_atomic_write(ex, to->mr->rkey, (uintptr_t)to->buf + 8, &value);
	wc = finish(rig, ex);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_ATOMIC_WRITE);
	assert_memory_equal(to->buf + 8, &value, 8);
	ibv_wr_start(ex);
	ibv_wr_atomic_write(ex, to->mr->rkey, (uintptr_t)to->buf + 4, &value);
	assert_int_equal(finish(rig, ex).status, IBV_WC_REM_INV_REQ_ERR);
}

static void place__atomic_write_by_post_send(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[0], *to = &rig->end[1];
	struct ibv_sge sge = rig_sge(from, 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_ATOMIC_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)to->buf, to->mr->rkey}},
			   *bad;

	rig_connect(rig, IBV_QPT_RC);
	memset(from->buf, 37, 8);
	assert_int_equal(ibv_post_send(from->qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(from->cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(to->buf, from->buf, 8);
	memset(from->buf, 38, 8);
	wr.send_flags |= IBV_SEND_INLINE;
	sge.lkey = 0;
	assert_int_equal(ibv_post_send(from->qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(from->cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(to->buf, from->buf, 8);
	sge.length = 4;
	assert_int_equal(ibv_post_send(from->qp, &wr, &bad), EINVAL);
	sge.length = 8;
	wr.opcode = (enum ibv_wr_opcode)14; /* IBV_WR_FLUSH */
	assert_int_equal(ibv_post_send(from->qp, &wr, &bad), EINVAL);
}

static void place__flush_of_memory(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_qp_ex *ex = connect_both(rig);
	struct ibv_mr *mr = ibv_reg_mr(to->pd, to->buf, LEN, RIG_ACCESS | FLUSH_GLOBAL);
	struct ibv_wc wc;

	assert_non_null(mr);
	assert_null(ibv_reg_mr(to->pd, to->buf, LEN, RIG_ACCESS | FLUSH_PERSISTENT));
	assert_int_equal(errno, EINVAL);
	ibv_wr_start(ex);
	flush(ex, mr->rkey, (uintptr_t)to->buf, 64, TYPE_GLOBAL, 0);
	wc = finish(rig, ex);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, WC_FLUSH);
	ibv_wr_start(ex);
	flush(ex, mr->rkey, (uintptr_t)to->buf, 64, TYPE_PERSISTENT, 0);
	assert_int_equal(finish(rig, ex).status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void place__flush_of_a_file(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_qp_ex *ex = connect_both(rig);
	char name[] = "/tmp/uroce-flush-XXXXXX";
	int fd = mkstemp(name);
	uint64_t value = 0x0102030405060708, stored = 0;
	struct ibv_mr *mr;
	uint8_t *map;

	assert_int_equal(ftruncate(fd, LEN), 0);
	map = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	mr = ibv_reg_mr(to->pd, map, LEN, RIG_ACCESS | FLUSH_GLOBAL | FLUSH_PERSISTENT);
	assert_non_null(mr);
	ibv_wr_start(ex);
	ibv_wr_atomic_write(ex, mr->rkey, (uintptr_t)map + 4096, &value);
	flush(ex, mr->rkey, (uintptr_t)map + 4096, 8, TYPE_PERSISTENT, 0);
	flush(ex, mr->rkey, 0, 0, TYPE_GLOBAL | TYPE_PERSISTENT, 1);
	assert_int_equal(finish(rig, ex).status, IBV_WC_SUCCESS);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(pread(fd, &stored, 8, 4096), 8);
	assert_true(stored == value);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(map, LEN);
	close(fd);
	unlink(name);
}

#define RIGHTS (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC | FLUSH_GLOBAL | FLUSH_PERSISTENT)

/* What the QP does not permit is an invalid request; what the region does not permit, an access error. */
static void place__rights_of_the_qp_and_of_the_region(void **state)
{
	static const struct {
		uint8_t type; /* of a FLUSH; 0: an ATOMIC WRITE */
		unsigned lacking;
	} cases[] = {
		{0, IBV_ACCESS_REMOTE_WRITE},
		{TYPE_GLOBAL, FLUSH_GLOBAL},
		{TYPE_PERSISTENT, FLUSH_PERSISTENT},
	};
	struct rig *rig = *state;
	int fd = memfd_create("uroce-flush", MFD_CLOEXEC);
	uint64_t *map, value = 1;

	assert_int_equal(ftruncate(fd, LEN), 0);
	map = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(map != MAP_FAILED);
	for (unsigned i = 0; i < 9; i++) {
		unsigned of_qp = RIGHTS, of_mr = RIGHTS | IBV_ACCESS_LOCAL_WRITE, c = i / 3;
		enum ibv_wc_status expected = IBV_WC_SUCCESS;
		struct ibv_qp_ex *ex = connect_both(rig);
		struct ibv_qp_attr attr;
		struct ibv_mr *mr;

		if (i % 3 == 1) {
			of_qp &= ~cases[c].lacking;
			expected = IBV_WC_REM_INV_REQ_ERR;
		} else if (i % 3 == 2) {
			of_mr &= ~cases[c].lacking;
			expected = IBV_WC_REM_ACCESS_ERR;
		}
		attr.qp_access_flags = of_qp;
		assert_int_equal(ibv_modify_qp(rig->end[1].qp, &attr, IBV_QP_ACCESS_FLAGS), 0);
		mr = ibv_reg_mr(rig->end[1].pd, map, LEN, (int)of_mr);
		assert_non_null(mr);
		*map = 0;
		ibv_wr_start(ex);
		if (cases[c].type)
			flush(ex, mr->rkey, (uintptr_t)map, 64, cases[c].type, 0);
		else
			ibv_wr_atomic_write(ex, mr->rkey, (uintptr_t)map, &value);
		assert_int_equal(finish(rig, ex).status, expected);
		assert_int_equal(*map, !cases[c].type && expected == IBV_WC_SUCCESS);
		assert_int_equal(ibv_dereg_mr(mr), 0);
		rig_disconnect(rig);
	}
	munmap(map, LEN);
	close(fd);
}

/* The region's memory comes after its registration, also for FLUSH and ATOMIC WRITE. */
static void place__on_demand_regions(void **state)
{
	struct rig *rig = *state;
	struct rig_end *to = &rig->end[1];
	struct ibv_qp_ex *ex = connect_both(rig);
	uint8_t *pages = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	uint64_t value = 0x1020304050607080;
	struct ibv_mr *mr;

	assert_true(pages != MAP_FAILED);
	mr = ibv_reg_mr(to->pd, pages, LEN, RIG_ACCESS | FLUSH_GLOBAL | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	assert_int_equal(mprotect(pages, LEN / 2, PROT_READ | PROT_WRITE), 0);
	ibv_wr_start(ex);
	ibv_wr_atomic_write(ex, mr->rkey, (uintptr_t)pages + 8, &value);
	flush(ex, mr->rkey, (uintptr_t)pages, LEN / 2, TYPE_GLOBAL, 0);
	assert_int_equal(finish(rig, ex).status, IBV_WC_SUCCESS);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(pages + 8, &value, 8);
	ibv_wr_start(ex);
	ibv_wr_atomic_write(ex, mr->rkey, (uintptr_t)pages + LEN / 2, &value);
	assert_int_equal(finish(rig, ex).status, IBV_WC_REM_OP_ERR);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(pages, LEN);
}

/* All of a persistent region is a shared mapping of files, which those of a memory file system are as well. */
static void place__only_files_are_persistent(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[1];
	const int access = RIG_ACCESS | FLUSH_PERSISTENT, any = PROT_READ | PROT_WRITE;
	int fd = memfd_create("uroce-flush", MFD_CLOEXEC);
	uint8_t *map = mmap(NULL, 2 * 4096, any, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ibv_mr *mr;

	assert_int_equal(ftruncate(fd, 2 * 4096), 0);
	assert_true(mmap(map, 4096, any, MAP_SHARED | MAP_FIXED, fd, 0) == map);
	assert_null(ibv_reg_mr(end->pd, map, 2 * 4096, access)); /* the second page is anonymous */
	assert_int_equal(errno, EINVAL);
	mr = ibv_reg_mr(end->pd, map, 4096, access);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_true(mmap(map, 2 * 4096, any, MAP_PRIVATE | MAP_FIXED, fd, 0) == map);
	assert_null(ibv_reg_mr(end->pd, map, 4096, access));
	assert_int_equal(errno, EINVAL);
	munmap(map, 2 * 4096);
	close(fd);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(place__is_reported),
		TEST(place__atomic_write),
		TEST(place__atomic_write_by_post_send),
		TEST(place__flush_of_memory),
		TEST(place__flush_of_a_file),
		TEST(place__rights_of_the_qp_and_of_the_region),
		TEST(place__on_demand_regions),
		TEST(place__only_files_are_persistent),
	};

	return cmocka_run_group_tests_name("shim_place", tests, NULL, NULL);
}
