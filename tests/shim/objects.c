/* SPDX-License-Identifier: BSD-3-Clause */
/* objects.c - devices, queries and objects as programs see them: values, limits, errors, lifetimes. */
#include <arpa/inet.h>
#include "rig.h"

#include <dlfcn.h>
#include <infiniband/sa.h>
#include <link.h>
#include <rdma/ib_user_sa.h>
#include <rdma/ib_user_verbs.h>
#include <sys/mman.h>

static void device__list_has_configured_devices_and_stable_pointers(void **state)
{
	struct rig *rig = *state;
	struct ibv_device **list = ibv_get_device_list(NULL);

	assert_string_equal(ibv_get_device_name(list[0]), "uroce0");
	assert_string_equal(ibv_get_device_name(list[1]), "uroce1");
	assert_ptr_equal(list[0], rig->end[0].ctx->device);
	assert_ptr_equal(list[1], rig->end[1].ctx->device);
	assert_true(ibv_get_device_guid(list[0]) != 0);
	assert_true(ibv_get_device_guid(list[0]) != ibv_get_device_guid(list[1]));
	ibv_free_device_list(list);
}

static void device__attributes_honour_the_callers_size(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *ctx = rig->end[0].ctx;
	struct ibv_device_attr_ex attr;
	struct verbs_context *vctx = verbs_get_ctx(ctx);

	assert_int_equal(ibv_query_device_ex(ctx, NULL, &attr), 0);
	assert_int_equal(attr.orig_attr.atomic_cap, IBV_ATOMIC_HCA);
	assert_int_equal(attr.orig_attr.max_mcast_grp, 48);
	assert_true(attr.odp_caps.general_caps & IBV_ODP_SUPPORT);
	assert_int_equal(attr.pci_atomic_caps.fetch_add, 7); /* bits: 4, 8 and 16 bytes */
	assert_int_equal(attr.pci_atomic_caps.swap, 7);
	assert_true(attr.max_dm_size > 0);
	memset(&attr, 0x5a, sizeof(attr));
	assert_int_equal(vctx->query_device_ex(ctx, NULL, &attr, sizeof(attr.orig_attr)), 0);
	assert_int_equal(*((uint8_t *)&attr + sizeof(attr.orig_attr)), 0x5a);
	assert_int_equal(attr.orig_attr.phys_port_cnt, 1);
}

/* The exported ibv_query_port writes no member behind `flags`, because programs built with old headers pass a
 * structure that ends there. */
static void port__exported_query_stops_at_flags(void **state)
{
	struct rig *rig = *state;
	int (*query)(struct ibv_context *, uint8_t, void *) =
		(int (*)(struct ibv_context *, uint8_t, void *))dlsym(RTLD_DEFAULT, "ibv_query_port");
	struct ibv_port_attr attr;

	memset(&attr, 0x5a, sizeof(attr));
	assert_int_equal(query(rig->end[0].ctx, 1, &attr), 0);
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(attr.flags, IBV_QPF_GRH_REQUIRED);
	assert_int_equal(*((uint8_t *)&attr.flags + 1), 0x5a);
	assert_int_equal(query(rig->end[0].ctx, 2, &attr), EINVAL);
}

static void gid__table_and_entries(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *ctx = rig->end[1].ctx;
	uint8_t want[16] = {[10] = 0xff, [11] = 0xff};
	/* In the drop-in library the symbol has no default version, so only dlvsym() finds it. */
	void *symbol = dlsym(RTLD_DEFAULT, "ibv_query_gid_type");
	int (*query_type)(struct ibv_context *, uint8_t, unsigned, int *) =
		(int (*)(struct ibv_context *, uint8_t, unsigned, int *))(
			symbol ? symbol : dlvsym(RTLD_DEFAULT, "ibv_query_gid_type", "IBVERBS_PRIVATE_34"));
	struct ibv_gid_entry entry, table[4];
	union ibv_gid gid;
	__be16 pkey;
	int type;

	assert_int_equal(inet_pton(AF_INET, strchr(getenv("UROCE_DEVICES"), ',') + 1, want + 12), 1);
	assert_memory_equal(rig->end[1].gid.raw, want, sizeof(want));
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 0, &entry, 0), 0);
	assert_int_equal(entry.gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 1, &entry, 0), ENODATA);
	assert_int_equal(ibv_query_gid_table(ctx, table, 4, 0), 1);
	assert_memory_equal(table[0].gid.raw, want, sizeof(want));
	assert_int_equal(ibv_query_gid_table(ctx, table, 0, 0), -EINVAL);
	assert_int_equal(ibv_query_gid(ctx, 1, 1000, &gid), -1);
	assert_int_equal(ibv_query_pkey(ctx, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_get_pkey_index(ctx, 1, pkey), 0);
	assert_int_equal(query_type(ctx, 1, 0, &type), 0);
	assert_int_equal(type, 1); /* RoCE v2 */
	assert_int_equal(query_type(ctx, 1, 1, &type), 0);
	assert_int_equal(type, 0);
	assert_int_equal(query_type(ctx, 1, 1000, &type), -1);
	assert_int_equal(ibv_query_pkey(ctx, 1, 1, &pkey), -1);
}

static void mr__MR_03_inaccessible_memory_and_bad_access_flags_are_refused(void **state)
{
	struct rig *rig = *state;
	struct ibv_pd *pd = rig->end[0].pd;
	char *page = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	errno = 0;
	assert_null(ibv_reg_mr(pd, page, 4096, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);

	struct ibv_mr *mr = ibv_reg_mr(pd, page, 4096, 0);

	assert_non_null(mr);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	munmap(page + 4096, 4096);
	assert_null(ibv_reg_mr(pd, page, 8192, 0));
	assert_int_equal(errno, EFAULT);
	munmap(page, 4096);
	assert_null(ibv_reg_mr(pd, page, 4096, 0));
	assert_int_equal(errno, EFAULT);
	assert_null(ibv_reg_mr(pd, rig->end[0].buf, 64, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
}

static void mr__rereg_changes_all_or_nothing(void **state)
{
	struct rig *rig = *state;
	struct ibv_mr *mr = ibv_reg_mr(rig->end[0].pd, rig->end[0].buf, 4096, IBV_ACCESS_LOCAL_WRITE);
	uint32_t lkey = mr->lkey;

	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)8, 64, 0),
			 IBV_REREG_MR_ERR_CMD);
	assert_int_equal(mr->lkey, lkey);
	assert_ptr_equal(mr->addr, rig->end[0].buf);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RIG_ACCESS), 0);
	assert_int_equal(mr->lkey, lkey);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, rig->end[0].buf + 64, 128, 0), 0);
	assert_ptr_equal(mr->addr, rig->end[0].buf + 64);
	assert_int_equal(mr->length, 128);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* A PD of another context is refused: if that context closed first, the PD would be destroyed. */
static void mr__pd_of_another_context_is_refused(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];
	struct ibv_context *other = ibv_open_device(end->ctx->device);
	struct ibv_pd *pd = ibv_alloc_pd(other);

	assert_int_equal(ibv_rereg_mr(end->mr, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), IBV_REREG_MR_ERR_CMD);
	assert_int_equal(errno, EINVAL);
	assert_ptr_equal(end->mr->pd, end->pd);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_close_device(other), 0);
}

static void mw__of_another_context_is_refused(void **state)
{
	struct rig *rig = *state;
	struct rig_end *other = &rig->end[1];
	struct ibv_mw *mw = ibv_alloc_mw(other->pd, IBV_MW_TYPE_2);
	struct ibv_send_wr wr = {.opcode = IBV_WR_BIND_MW}, *bad;

	rig_connect(rig, IBV_QPT_RC);
	wr.bind_mw.mw = mw;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){other->mr, (uintptr_t)other->buf, 64, IBV_ACCESS_REMOTE_WRITE};
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), EINVAL);
	assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void srq__modify_changes_all_or_nothing(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];
	struct ibv_srq_init_attr init = {.attr = {.max_wr = 64, .max_sge = 1}};
	struct ibv_srq *srq = ibv_create_srq(end->pd, &init);
	struct ibv_recv_wr wr = {0}, *bad;
	/* Attributes passed to ibv_modify_srq, and the expected result. At first the SRQ has 64 entries and a limit
	 * of 32; 9 requests are posted. */
	static const struct {
		uint32_t max_wr, limit;
		int err;
	} cases[] = {
		{16, 8, 0}, {64, 32, 0}, {128, 129, EINVAL}, {8, 4, EINVAL}, {1u << 30, 100, EINVAL}, {128, 100, 0},
	};
	struct ibv_srq_attr have = {.max_wr = 64, .srq_limit = 32}, ask, got;

	for (int i = 0; i < 9; i++)
		assert_int_equal(ibv_post_srq_recv(srq, &wr, &bad), 0);
	assert_int_equal(ibv_modify_srq(srq, &have, IBV_SRQ_LIMIT), 0);
	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		ask = (struct ibv_srq_attr){.max_wr = cases[i].max_wr, .srq_limit = cases[i].limit};
		assert_int_equal(ibv_modify_srq(srq, &ask, IBV_SRQ_MAX_WR | IBV_SRQ_LIMIT), cases[i].err);
		if (!cases[i].err)
			have = ask;
		assert_int_equal(ibv_query_srq(srq, &got), 0);
		assert_int_equal(got.max_wr, have.max_wr);
		assert_int_equal(got.srq_limit, have.srq_limit);
	}
	assert_int_equal(ibv_destroy_srq(srq), 0);
}

static void objects__in_use_are_not_destroyed(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];
	struct ibv_comp_channel *ch = ibv_create_comp_channel(end->ctx);
	struct ibv_cq *cq = ibv_create_cq(end->ctx, 4, NULL, ch, 0);
	struct ibv_srq_init_attr sinit = {.attr = {.max_wr = 8, .max_sge = 2}};
	struct ibv_srq *srq = ibv_create_srq(end->pd, &sinit);
	struct ibv_qp_init_attr init = rig_qp_init(end, IBV_QPT_RC);
	struct ibv_qp *qp;

	init.recv_cq = cq;
	init.srq = srq;
	qp = ibv_create_qp(end->pd, &init);
	assert_non_null(qp);
	assert_int_equal(ibv_destroy_comp_channel(ch), EBUSY);
	assert_int_equal(ibv_destroy_cq(cq), EBUSY);
	assert_int_equal(ibv_destroy_srq(srq), EBUSY);
	assert_int_equal(ibv_dealloc_pd(end->pd), EBUSY);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(ch), 0);
}

static void objects__beyond_limits_are_refused(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];
	struct ibv_device_attr dev;
	struct ibv_qp_init_attr init = rig_qp_init(end, IBV_QPT_RC);

	assert_int_equal(ibv_query_device(end->ctx, &dev), 0);
	assert_null(ibv_create_cq(end->ctx, dev.max_cqe + 1, NULL, NULL, 0));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_create_cq(end->ctx, 0, NULL, NULL, 0));
	assert_null(ibv_create_cq(end->ctx, 1, NULL, NULL, end->ctx->num_comp_vectors));
	init.cap.max_send_wr = (uint32_t)dev.max_qp_wr + 1;
	assert_null(ibv_create_qp(end->pd, &init));
	assert_int_equal(errno, EINVAL);
	init = rig_qp_init(end, IBV_QPT_RAW_PACKET);
	assert_null(ibv_create_qp(end->pd, &init));
	assert_int_equal(errno, EOPNOTSUPP);
}

static void qp__modify_and_query_agree(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTS};
	struct ibv_qp_init_attr init;

	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(ibv_query_qp(rig->end[0].qp, &attr, IBV_QP_STATE | IBV_QP_AV | IBV_QP_CAP, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(rig->end[0].qp->state, IBV_QPS_RTS);
	assert_int_equal(attr.dest_qp_num, rig->end[1].qp->qp_num);
	assert_memory_equal(attr.ah_attr.grh.dgid.raw, rig->end[1].gid.raw, 16);
	assert_int_equal(attr.ah_attr.is_global, 1);
	assert_int_equal(attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.timeout, 14);
	assert_true(attr.cap.max_send_wr >= 16);
	assert_ptr_equal(init.send_cq, rig->end[0].cq);

	attr.qp_state = IBV_QPS_INIT; /* no legal change from RTS */
	assert_int_equal(ibv_modify_qp(rig->end[0].qp, &attr, IBV_QP_STATE), EINVAL);
	assert_int_equal(rig->end[0].qp->state, IBV_QPS_RTS);
	assert_int_equal(ibv_modify_qp(rig->end[0].qp, &attr, IBV_QP_ALT_PATH), EINVAL);
}

/* An address handle without a GRH is refused, because RoCE needs a GRH. An unknown source GID is refused too. */
static void ah__needs_a_grh_and_a_known_source(void **state)
{
	struct rig *rig = *state;
	struct ibv_ah_attr attr = {.dlid = 1, .port_num = 1};
	struct ibv_ah *ah;

	assert_null(ibv_create_ah(rig->end[0].pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr.is_global = 1;
	attr.grh.dgid = rig->end[1].gid;
	attr.grh.sgid_index = 3;
	assert_null(ibv_create_ah(rig->end[0].pd, &attr));
	ah = rig_ah(rig);
	assert_non_null(ah);
	assert_int_equal(ibv_destroy_ah(ah), 0);
}

/* A flow label's upper bits are ignored, because programs leave garbage in them. */
static void ah__flow_label_has_20_bits(void **state)
{
	struct rig *rig = *state;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD};
	struct ibv_qp_init_attr init;

	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(ibv_modify_qp(rig->end[0].qp, &attr, IBV_QP_STATE), 0);
	assert_int_equal(ibv_query_qp(rig->end[0].qp, &attr, IBV_QP_AV, &init), 0);
	attr.ah_attr.grh.flow_label = 0xabc12345;
	attr.qp_state = IBV_QPS_SQD;
	assert_int_equal(ibv_modify_qp(rig->end[0].qp, &attr, IBV_QP_STATE | IBV_QP_AV), 0);
	assert_int_equal(ibv_query_qp(rig->end[0].qp, &attr, IBV_QP_AV, &init), 0);
	assert_int_equal(attr.ah_attr.grh.flow_label, 0x12345);
}

static void parent_domain__shares_its_pd(void **state)
{
	struct rig *rig = *state;
	struct rig_end *end = &rig->end[0];
	struct ibv_td_init_attr tattr = {0};
	struct ibv_td *td = ibv_alloc_td(end->ctx, &tattr);
	struct ibv_parent_domain_init_attr pattr = {.pd = end->pd, .td = td};
	struct ibv_pd *parent = ibv_alloc_parent_domain(end->ctx, &pattr);
	struct ibv_mr *mr;

	assert_non_null(parent);
	mr = ibv_reg_mr(parent, end->buf, 64, 0);
	assert_non_null(mr);
	assert_int_equal(ibv_dealloc_td(td), EBUSY);
	assert_int_equal(ibv_dealloc_pd(parent), EBUSY);
	assert_int_equal(ibv_dealloc_pd(end->pd), EBUSY);
	assert_int_equal(ibv_dereg_mr(mr), 0);
	assert_int_equal(ibv_dealloc_pd(parent), 0);
	assert_int_equal(ibv_dealloc_td(td), 0);
}

static void parent_domain__td_of_another_context_is_refused(void **state)
{
	struct rig *rig = *state;
	struct ibv_td_init_attr tattr = {0};
	struct ibv_td *td = ibv_alloc_td(rig->end[1].ctx, &tattr);
	struct ibv_parent_domain_init_attr pattr = {.pd = rig->end[0].pd, .td = td};

	assert_null(ibv_alloc_parent_domain(rig->end[0].ctx, &pattr));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_dealloc_td(td), 0);
}

static void unsupported__calls_fail_with_eopnotsupp(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *ctx = rig->end[0].ctx;
	struct ibv_cq_init_attr_ex cq = {.cqe = 4, .wc_flags = IBV_WC_EX_WITH_CVLAN};

	assert_null(ibv_create_cq_ex(ctx, &cq));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* The drop-in library forwards conversion functions to the real library by a jump: all arguments arrive there. */
static void trampoline__passes_arguments_on(void **state)
{
	void (*copy)(struct ibv_ah_attr *, struct ib_uverbs_ah_attr *) =
		(void (*)(struct ibv_ah_attr *, struct ib_uverbs_ah_attr *))dlsym(RTLD_DEFAULT,
										  "ibv_copy_ah_attr_from_kern");
	struct ib_uverbs_ah_attr from = {
		.grh = {.flow_label = 77, .hop_limit = 5}, .dlid = 9, .is_global = 1, .port_num = 3};
	struct ibv_ah_attr to;

	assert_non_null(copy);
	for (int i = 0; i < 2; i++) { /* the jump's target is looked up at the first call */
		memset(&to, 0, sizeof(to));
		copy(&to, &from);
		assert_int_equal(to.grh.flow_label, 77);
		assert_int_equal(to.grh.hop_limit, 5);
		assert_int_equal(to.dlid, 9);
		assert_int_equal(to.port_num, 3);
	}
}

/** For dl_iterate_phdr: find the real library. */
static int find_real(struct dl_phdr_info *info, size_t size, void *found)
{
	void *library;

	(void)size;
	if (!strstr(info->dlpi_name, "/libibverbs.so.1"))
		return 0;
	library = dlopen(info->dlpi_name, RTLD_NOW | RTLD_NOLOAD);
	if (library && !dlsym(library, "uroce_ibverbs_marker"))
		*(void **)found = library;
	return 0;
}

/* Drivers of real devices read this variable of ours. The real library sets it when it looks for devices, as its user
 * has asked. */
static void trampoline__keeps_what_the_real_library_has_set(void **state)
{
	static const char name[] = "verbs_allow_disassociate_destroy";
	const bool *allow = dlsym(RTLD_DEFAULT, name);
	struct ib_user_path_rec from = {0};
	struct ibv_sa_path_rec to;
	void *real = NULL;

	(void)state;
	if (!allow) /* ours has many versions, none of them the default */
		allow = dlvsym(RTLD_DEFAULT, name, "IBVERBS_PRIVATE_34");
	assert_non_null(allow);
	dl_iterate_phdr(find_real, &real);
	assert_non_null(real);
	((struct ibv_device * *(*)(int *)) dlsym(real, "ibv_get_device_list"))(NULL);
	((void (*)(struct ibv_sa_path_rec *, struct ib_user_path_rec *))dlsym(
		RTLD_DEFAULT, "ibv_copy_path_rec_from_kern"))(&to, &from);
	assert_true(*allow);
}

/* A second context of a device is closed although objects are open on it: the first context is not affected. */
static void context__closed_with_objects_leaves_others_alone(void **state)
{
	struct rig *rig = *state;
	struct ibv_context *ctx = ibv_open_device(rig->end[0].ctx->device);
	struct ibv_pd *pd = ibv_alloc_pd(ctx);
	static void *forgotten[3]; /* keeps leak checkers quiet */

	forgotten[0] = pd;
	forgotten[1] = ibv_reg_mr(pd, rig->end[0].buf, 64, 0);
	forgotten[2] = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	assert_non_null(forgotten[1]);
	assert_non_null(forgotten[2]);
	assert_int_equal(ibv_close_device(ctx), 0);
	assert_int_equal(ibv_dealloc_pd(pd), EIO);
	pd = ibv_alloc_pd(rig->end[0].ctx);
	assert_non_null(pd);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
		T(device__list_has_configured_devices_and_stable_pointers),
		T(device__attributes_honour_the_callers_size),
		T(port__exported_query_stops_at_flags),
		T(gid__table_and_entries),
		T(mr__MR_03_inaccessible_memory_and_bad_access_flags_are_refused),
		T(mr__rereg_changes_all_or_nothing),
		T(mr__pd_of_another_context_is_refused),
		T(mw__of_another_context_is_refused),
		T(srq__modify_changes_all_or_nothing),
		T(objects__in_use_are_not_destroyed),
		T(objects__beyond_limits_are_refused),
		T(qp__modify_and_query_agree),
		T(ah__needs_a_grh_and_a_known_source),
		T(ah__flow_label_has_20_bits),
		T(parent_domain__shares_its_pd),
		T(parent_domain__td_of_another_context_is_refused),
		T(unsupported__calls_fail_with_eopnotsupp),
		T(trampoline__passes_arguments_on),
		T(trampoline__keeps_what_the_real_library_has_set),
		T(context__closed_with_objects_leaves_others_alone),
	};

	setenv("RDMAV_ALLOW_DISASSOC_DESTROY", "1", 1); /* of the real library */
	return cmocka_run_group_tests_name("shim_objects", tests, NULL, NULL);
}
