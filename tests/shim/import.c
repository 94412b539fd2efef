/* SPDX-License-Identifier: BSD-3-Clause */
/* import.c - contexts that share a command descriptor, and the objects that one imports from the other. */
#include "rig.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

struct import {
	struct rig_end *from;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
};

static struct import import_open(void **state)
{
	struct import in = {.from = &((struct rig *)*state)->end[1]};

	in.ctx = ibv_import_device(dup(in.from->ctx->cmd_fd));
	assert_non_null(in.ctx);
	in.pd = ibv_import_pd(in.ctx, in.from->pd->handle);
	assert_non_null(in.pd);
	in.mr = ibv_import_mr(in.pd, in.from->mr->handle);
	assert_non_null(in.mr);
	return in;
}

static void import_close(const struct import *in)
{
	ibv_unimport_mr(in->mr);
	ibv_unimport_pd(in->pd);
	assert_int_equal(ibv_close_device(in->ctx), 0);
}

static void import__a_region_is_that_of_its_creator(void **state)
{
	struct import in = import_open(state);
	struct rig *rig = *state;
	struct ibv_pd *own = rig->end[1].pd;
	struct ibv_cq *cq = ibv_create_cq(in.ctx, 8, NULL, NULL, 0), *own_cq = rig->end[1].cq;
	struct ibv_send_wr wr = {.num_sge = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8);

	assert_ptr_equal(in.mr->context, in.ctx);
	assert_null(in.mr->addr);
	assert_int_equal(in.mr->length, in.from->mr->length);
	assert_int_equal(in.mr->rkey, in.from->mr->rkey);
	assert_int_equal(in.mr->lkey, in.from->mr->lkey);
	rig->end[1].pd = in.pd; /* a QP of the imported context and PD */
	rig->end[1].cq = cq;
	rig_connect(rig, IBV_QPT_RC);
	rig->end[0].buf[0] = 23;
	wr.sg_list = &sge;
	wr.wr.rdma.remote_addr = (uintptr_t)in.from->buf;
	wr.wr.rdma.rkey = in.mr->rkey;
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(in.from->buf[0], 23);
	rig_disconnect(rig);
	rig->end[1].pd = own;
	rig->end[1].cq = own_cq;
	assert_int_equal(ibv_destroy_cq(cq), 0);
	import_close(&in);
}

static void import__what_ends_goes_on_at_its_creator(void **state)
{
	struct import in = import_open(state);
	struct rig_end *end = in.from;
	struct ibv_mr *mr;

	assert_int_equal(ibv_dereg_mr(in.mr), 0);
	assert_int_equal(ibv_dealloc_pd(in.pd), 0);
	assert_int_equal(ibv_close_device(in.ctx), 0);
	mr = ibv_reg_mr(end->pd, end->buf, 64, RIG_ACCESS);
	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

static void import__what_has_ended_cannot_be_used(void **state)
{
	struct import in = import_open(state);
	struct ibv_pd *pd = ibv_alloc_pd(in.from->ctx), *imported = ibv_import_pd(in.ctx, pd->handle);
	struct ibv_mr *mr = ibv_reg_mr(imported, in.from->buf, 64, RIG_ACCESS);
	uint32_t handle = pd->handle;

	assert_non_null(mr);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_dealloc_pd(imported), EBUSY);
	assert_int_equal(ibv_rereg_mr(in.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_null(ibv_reg_mr(imported, in.from->buf, 64, RIG_ACCESS));
	assert_int_equal(errno, ENOENT);
	assert_null(ibv_import_mr(imported, in.from->mr->handle));
	assert_int_equal(errno, ENOENT);
	assert_null(ibv_import_pd(in.ctx, handle));
	assert_int_equal(errno, ENOENT);
	ibv_unimport_pd(imported);
	import_close(&in);
}

/** WRITE 8 bytes from end 0 to end 1. */
static enum ibv_wc_status write_with(struct rig *rig, uint32_t rkey)
{
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {(uintptr_t)rig->end[1].buf, rkey}},
			   *bad;

	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	return rig_wait(rig->end[0].cq).status;
}

/* The keys are the creator's: they end with its region, not with the imported one. */
static void import__keys_end_with_the_region_of_the_creator(void **state)
{
	struct import in = import_open(state);
	struct rig *rig = *state;
	struct ibv_mr *mr = ibv_reg_mr(in.from->pd, in.from->buf, 4096, RIG_ACCESS);
	struct ibv_mr *imported = ibv_import_mr(in.pd, mr->handle), *again = ibv_import_mr(in.pd, mr->handle);
	uint32_t rkey = mr->rkey;

	rig_connect(rig, IBV_QPT_RC);
	ibv_unimport_mr(imported);
	assert_int_equal(write_with(rig, rkey), IBV_WC_SUCCESS);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(again->rkey, rkey);
	assert_int_equal(write_with(rig, rkey), IBV_WC_REM_ACCESS_ERR);
	ibv_unimport_mr(again);
	import_close(&in);
}

/* QP, window and region are of the importing context. The region that it has made itself may have windows. */
static void import__no_window_is_bound_to_a_region(void **state)
{
	const int access = RIG_ACCESS | IBV_ACCESS_MW_BIND;
	struct import in = import_open(state);
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[1], own = *end;
	struct ibv_mr *origin = ibv_reg_mr(own.pd, own.buf, 4096, access),
		      *imported = ibv_import_mr(in.pd, origin->handle);
	struct ibv_mr *made = ibv_reg_mr(in.pd, own.buf, 4096, access);
	struct ibv_mw *mw = ibv_alloc_mw(in.pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad;

	end->pd = in.pd;
	end->cq = ibv_create_cq(in.ctx, 8, NULL, NULL, 0);
	rig_connect(rig, IBV_QPT_RC);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){imported, (uintptr_t)own.buf, 64, IBV_ACCESS_REMOTE_WRITE};
	assert_int_equal(ibv_post_send(end->qp, &wr, &bad), EINVAL);
	wr.bind_mw.bind_info.mr = made;
	assert_int_equal(ibv_post_send(end->qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(end->cq).status, IBV_WC_SUCCESS);
	rig_disconnect(rig);
	assert_int_equal(ibv_destroy_cq(end->cq), 0);
	end->pd = own.pd;
	end->cq = own.cq;
	assert_int_equal(ibv_dealloc_mw(mw), 0);
	ibv_unimport_mr(imported);
	assert_int_equal(ibv_dereg_mr(made), 0);
	assert_int_equal(ibv_dereg_mr(origin), 0);
	import_close(&in);
}

/* The program's objects may outlive the PD that they were made with. */
static void import__a_pd_may_be_unimported_under_its_objects(void **state)
{
	struct import in = import_open(state);
	struct ibv_mr *mr = ibv_reg_mr(in.pd, in.from->buf, 64, RIG_ACCESS);

	ibv_unimport_mr(in.mr);
	ibv_unimport_pd(in.pd);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_close_device(in.ctx), 0);
}

static void import__device_memory_is_shared(void **state)
{
	struct import in = import_open(state);
	struct ibv_alloc_dm_attr attr = {.length = 64};
	struct ibv_dm *dm = ibv_alloc_dm(in.from->ctx, &attr), *imported = ibv_import_dm(in.ctx, dm->handle);
	uint32_t in_value = 77, out_value = 0, handle = dm->handle;

	assert_non_null(imported);
	assert_int_equal(ibv_memcpy_to_dm(dm, 8, &in_value, 4), 0);
	assert_int_equal(ibv_memcpy_from_dm(&out_value, imported, 8, 4), 0);
	assert_int_equal(out_value, 77);
	assert_int_equal(ibv_free_dm(dm), EBUSY);
	ibv_unimport_dm(imported);
	assert_int_equal(ibv_free_dm(dm), 0);
	assert_null(ibv_import_dm(in.ctx, handle));
	assert_int_equal(errno, ENOENT);
	import_close(&in);
}

/* Without a context that has the descriptor's file there is nothing to import. */
static void import__descriptors_of_others_are_refused(void **state)
{
	struct rig_end *end = &((struct rig *)*state)->end[0];
	struct ibv_context *other = ibv_open_device(end->ctx->device);
	int other_process = memfd_create("uroce-cmd", MFD_CLOEXEC), gone = dup(other->cmd_fd);
	int no_device =
		open("/dev/null", O_RDWR | O_CLOEXEC); /* the real library compares its number with real devices' */

	assert_null(ibv_import_pd(other, end->pd->handle)); /* the same device, but not the same descriptor */
	assert_int_equal(errno, ENOENT);
	assert_int_equal(ibv_close_device(other), 0);
	assert_null(ibv_import_device(gone));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_import_device(other_process));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_true(no_device >= 0);
	errno = 0;
	assert_null(ibv_import_device(no_device));
	assert_true(errno == ENODEV || errno == EOPNOTSUPP); /* without a real library: EOPNOTSUPP */
	close(no_device);
	close(gone); /* a descriptor that is refused stays the caller's */
	close(other_process);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(import__a_region_is_that_of_its_creator),
		TEST(import__what_ends_goes_on_at_its_creator),
		TEST(import__what_has_ended_cannot_be_used),
		TEST(import__a_pd_may_be_unimported_under_its_objects),
		TEST(import__keys_end_with_the_region_of_the_creator),
		TEST(import__no_window_is_bound_to_a_region),
		TEST(import__device_memory_is_shared),
		TEST(import__descriptors_of_others_are_refused),
	};

	return cmocka_run_group_tests_name("shim_import", tests, NULL, NULL);
}
