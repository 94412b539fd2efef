/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * query.c - queries of a device, its port and its GID table (IBTA 11.2.1). Only features that work are reported.
 */
#include <endian.h>
#include <net/if.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "facts.h"
#include "child.h"
#include "shim.h"

/* ---- device ------------------------------------------------------------------------------------------ */

/* Works without the engine lock, also in a forked child: none of these values changes. */
static void device_attr_fill(const struct shim_context *ctx, struct ibv_device_attr *a)
{
	const struct nic_limits *lim = nic_limits(ctx->nic);

	memset(a, 0, sizeof(*a));
	snprintf(a->fw_ver, sizeof(a->fw_ver), "%s", FACT_FIRMWARE);
	a->node_guid = a->sys_image_guid = htobe64(ctx->dev->pmd.node_guid);
	a->max_mr_size = UINTPTR_MAX >> 1;
	a->page_size_cap = ~(uint64_t)0xfff; /* regions need no alignment; programs expect page sizes from 4 KiB up */
	a->vendor_id = FACT_VENDOR_ID;
	a->vendor_part_id = FACT_VENDOR_PART_ID;
	a->hw_ver = FACT_HARDWARE;
	a->max_qp = (int)lim->max_qp;
	a->max_qp_wr = (int)lim->max_qp_wr;
	a->device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SYS_IMAGE_GUID |
			      IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SRQ_RESIZE | IBV_DEVICE_MEM_WINDOW |
			      IBV_DEVICE_MEM_WINDOW_TYPE_2B | IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC;
	a->max_sge = a->max_sge_rd = a->max_srq_sge = (int)lim->max_sge;
	a->max_cq = (int)lim->max_cq;
	a->max_cqe = (int)lim->max_cqe;
	a->max_mr = (int)lim->max_mr;
	a->max_mw = (int)lim->max_mw;
	a->max_pd = (int)lim->max_pd;
	a->max_ah = (int)lim->max_ah;
	a->max_qp_rd_atom = a->max_qp_init_rd_atom = (int)lim->max_rd_atomic;
	a->max_res_rd_atom = (int)(lim->max_rd_atomic * lim->max_qp);
	a->atomic_cap = ctx->personality->cap;
	a->max_srq = (int)lim->max_srq;
	a->max_srq_wr = (int)lim->max_srq_wr;
	a->local_ca_ack_delay = (uint8_t)nic_local_ack_delay(ctx->nic);
	if (pmd_mcast_supported(ctx->engine)) {
		a->max_mcast_grp = NIC_MCAST_GROUPS_MAX;
		a->max_mcast_qp_attach = NIC_MCAST_QPS_MAX;
		a->max_total_mcast_qp_attach = NIC_MCAST_GROUPS_MAX * NIC_MCAST_QPS_MAX;
	}
	a->max_pkeys = 1;
	a->phys_port_cnt = 1;
}

SHIM_EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	if (!shim_is_ours(context))
		return shim_real(ibv_query_device)(context, attr);
	if (shim_is_closed(shim_ctx(context)))
		return EIO;
	device_attr_fill(shim_ctx(context), attr);
	return 0;
}

/* IBV_ODP_SUPPORT_FLUSH and IBV_ODP_SUPPORT_ATOMIC_WRITE, which older verbs.h do not have. */
#define ODP_PLACEMENT (3u << 6)

/* The CPU faults pages in wherever the NIC accesses memory. */
static void odp_caps_fill(struct ibv_odp_caps *caps)
{
	const uint32_t messages = IBV_ODP_SUPPORT_SEND | IBV_ODP_SUPPORT_RECV | IBV_ODP_SUPPORT_SRQ_RECV;

	caps->general_caps = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	caps->per_transport_caps.ud_odp_caps = messages;
	caps->per_transport_caps.uc_odp_caps = messages | IBV_ODP_SUPPORT_WRITE;
	caps->per_transport_caps.rc_odp_caps =
		messages | IBV_ODP_SUPPORT_WRITE | IBV_ODP_SUPPORT_READ | IBV_ODP_SUPPORT_ATOMIC | ODP_PLACEMENT;
}

/* The NIC accepts a rendezvous request of any length, because it reads only the request's headers. The limit reported
 * here is that of mlx5: programs reserve this much space. */
#define SHIM_RNDV_HDR_MAX 64

/* IB_UVERBS_DEVICE_FLUSH_GLOBAL, FLUSH_PERSISTENT and ATOMIC_WRITE, which have no names in verbs.h. */
#define PLACEMENT_CAPS (7ull << 38)

int shim_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *input,
			 struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ibv_device_attr_ex full;

	if (shim_is_closed(shim_ctx(context)))
		return EIO;
	if ((input && input->comp_mask) || attr_size < sizeof(full.orig_attr))
		return EINVAL;
	memset(&full, 0, sizeof(full));
	device_attr_fill(shim_ctx(context), &full.orig_attr);
	full.device_cap_flags_ex = (uint64_t)full.orig_attr.device_cap_flags | PLACEMENT_CAPS;
	full.phys_port_cnt_ex = full.orig_attr.phys_port_cnt;
	/* Atomics are executed with CPU instructions, so they are atomic with respect to CPUs and other NICs. */
	full.pci_atomic_caps.fetch_add = SHIM_PCI_ATOMIC_SIZES;
	full.pci_atomic_caps.swap = SHIM_PCI_ATOMIC_SIZES;
	full.pci_atomic_caps.compare_swap = SHIM_PCI_ATOMIC_SIZES;
	full.max_dm_size = SHIM_DM_MAX;
	full.completion_timestamp_mask = UINT64_MAX;
	full.hca_core_clock = 1000000; /* kHz: timestamps count nanoseconds */
	full.tm_caps = (struct ibv_tm_caps){.max_rndv_hdr_size = SHIM_RNDV_HDR_MAX,
					    .max_num_tags = NIC_TM_TAGS_MAX,
					    .flags = IBV_TM_CAP_RC,
					    .max_ops = NIC_TM_TAGS_MAX,
					    .max_sge = (uint32_t)full.orig_attr.max_sge};
	full.cq_mod_caps = (struct ibv_cq_moderation_caps){UINT16_MAX, UINT16_MAX}; /* entries, microseconds */
	odp_caps_fill(&full.odp_caps);
	full.xrc_odp_caps = full.odp_caps.per_transport_caps.rc_odp_caps;
	memset(attr, 0, attr_size);
	memcpy(attr, &full, attr_size < sizeof(full) ? attr_size : sizeof(full));
	return 0;
}

int shim_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	uint32_t asked = values->comp_mask;

	if (asked & ~(uint32_t)IBV_VALUES_MASK_RAW_CLOCK)
		return EINVAL;
	values->comp_mask = 0;
	if (asked & IBV_VALUES_MASK_RAW_CLOCK) {
		values->raw_clock.tv_sec = 0; /* as with mlx5, tv_nsec contains the whole raw clock */
		values->raw_clock.tv_nsec = (long)pmd_clock_steady_ns();
		values->comp_mask = IBV_VALUES_MASK_RAW_CLOCK;
	}
	return 0;
}

/* The context that answers queries whose results can change: in a forked child, the one opened there. */
static struct shim_context *ctx_here(struct ibv_context *context)
{
	return shim_ctx(shim_context_here(context));
}

/* ---- port -------------------------------------------------------------------------------------------- */

int shim_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr, size_t attr_len)
{
	const struct shim_context *ctx = ctx_here(context);
	struct ibv_port_attr full;
	bool up;

	if (!shim_alive(ctx))
		return EIO;
	if (port != 1)
		return EINVAL;
	pmd_lock(ctx->engine);
	up = nic_port_is_up(ctx->nic);
	pmd_unlock(ctx->engine);
	memset(&full, 0, sizeof(full));
	full.state = up ? FACT_STATE : IBV_PORT_DOWN;
	full.max_mtu = IBV_MTU_4096;
	full.active_mtu = (enum ibv_mtu)nic_active_mtu(ctx->nic);
	full.gid_tbl_len = NIC_GID_TABLE_LEN;
	full.port_cap_flags = FACT_PORT_CAPS;
	full.max_msg_sz = NIC_MSG_MAX;
	full.pkey_tbl_len = 1;
	full.max_vl_num = 1;
	full.active_width = FACT_WIDTH;
	full.active_speed = FACT_SPEED;
	full.phys_state = up ? FACT_PHYS_STATE : FACT_PHYS_STATE_DOWN;
	full.link_layer = IBV_LINK_LAYER_ETHERNET;
	full.flags = IBV_QPF_GRH_REQUIRED;
	memset(attr, 0, attr_len);
	memcpy(attr, &full, attr_len < sizeof(full) ? attr_len : sizeof(full));
	return 0;
}

/* Programs built against old headers pass a struct _compat_ibv_port_attr, whose last member is `flags`. */
SHIM_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port, struct _compat_ibv_port_attr *attr)
{
	struct ibv_port_attr full;
	int err;

	if (!shim_is_ours(context))
		return shim_real(ibv_query_port)(context, port, attr);
	err = shim_query_port(context, port, &full, sizeof(full));
	if (!err)
		memcpy(attr, &full, offsetof(struct ibv_port_attr, flags) + sizeof(full.flags));
	return err;
}

int shim_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);

/* Exists since rdma-core 61. Sets *speed in units of 100 Mb/s. */
int shim_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
	int (*real)(struct ibv_context *, uint32_t, uint64_t *);

	if (!shim_is_ours(context)) {
		real = (int (*)(struct ibv_context *, uint32_t, uint64_t *))shim_real_symbol("ibv_query_port_speed");
		return real ? real(context, port, speed) : EOPNOTSUPP;
	}
	if (port != 1)
		return EINVAL;
	*speed = FACT_LANES * FACT_LANE_GBPS * 10;
	return 0;
}

/* ---- GIDs and P_Keys --------------------------------------------------------------------------------- */

/* @param ctx from ctx_here() */
static bool gid_read(const struct shim_context *ctx, unsigned index, union ibv_gid *gid)
{
	struct nic_gid raw;

	if (!shim_enter(ctx))
		return false;

	int err = nic_gid_get(ctx->nic, index, &raw);

	shim_leave(ctx);
	if (!err)
		memcpy(gid->raw, raw.raw, sizeof(raw.raw));
	return !err;
}

static bool gid_is_zero(const union ibv_gid *gid)
{
	return !gid->global.subnet_prefix && !gid->global.interface_id;
}

int shim_gid_find(struct shim_context *ctx, const union ibv_gid *gid)
{
	union ibv_gid g;

	ctx = ctx_here(&ctx->vctx.context);
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (gid_read(ctx, i, &g) && !memcmp(&g, gid, sizeof(g)))
			return (int)i;
	return -1;
}

SHIM_EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index, union ibv_gid *gid)
{
	if (!shim_is_ours(context))
		return shim_real(ibv_query_gid)(context, port, index, gid);
	if (port != 1 || index < 0 || !gid_read(ctx_here(context), (unsigned)index, gid)) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}

static void gid_entry_fill(const struct shim_context *ctx, unsigned index, const union ibv_gid *gid, void *entry,
			   size_t entry_size)
{
	const char *netdev = ctx->dev->pmd.netdev;
	struct ibv_gid_entry full = {
		.gid = *gid,
		.gid_index = index,
		.port_num = 1,
		.gid_type = IBV_GID_TYPE_ROCE_V2,
		.ndev_ifindex = netdev[0] ? if_nametoindex(netdev) : 0,
	};

	memset(entry, 0, entry_size);
	memcpy(entry, &full, entry_size < sizeof(full) ? entry_size : sizeof(full));
}

SHIM_EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
				  struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	union ibv_gid gid;

	if (!shim_is_ours(context))
		return shim_real(_ibv_query_gid_ex)(context, port, index, entry, flags, entry_size);
	if (port != 1 || flags || !gid_read(ctx_here(context), index, &gid))
		return EINVAL;
	if (gid_is_zero(&gid))
		return ENODATA;
	gid_entry_fill(shim_ctx(context), index, &gid, entry, entry_size);
	return 0;
}

SHIM_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries, size_t max,
					 uint32_t flags, size_t entry_size)
{
	const struct shim_context *ctx;
	union ibv_gid gid;
	size_t n = 0;

	if (!shim_is_ours(context))
		return shim_real(_ibv_query_gid_table)(context, entries, max, flags, entry_size);
	if (flags || !entry_size)
		return -EINVAL;
	ctx = ctx_here(context);
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++) {
		if (!gid_read(ctx, i, &gid) || gid_is_zero(&gid))
			continue;
		if (n == max)
			return -EINVAL;
		gid_entry_fill(ctx, i, &gid, (char *)entries + n++ * entry_size, entry_size);
	}
	return (ssize_t)n;
}

int shim_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type);

/* Private to rdma-core, but ibv_devinfo and pyverbs call it. Sets *type to 1 for RoCE v2, or to 0 for an empty
 * entry, as the kernel does. */
int shim_query_gid_type(struct ibv_context *context, uint8_t port, unsigned index, int *type)
{
	int (*real)(struct ibv_context *, uint8_t, unsigned, int *);
	union ibv_gid gid;

	if (!shim_is_ours(context)) {
		real = (int (*)(struct ibv_context *, uint8_t, unsigned, int *))shim_real_symbol("ibv_query_gid_type");
		return real ? real(context, port, index, type) : -1;
	}
	if (port != 1 || !gid_read(ctx_here(context), index, &gid)) {
		errno = EINVAL;
		return -1;
	}
	*type = !gid_is_zero(&gid);
	return 0;
}

SHIM_EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	if (!shim_is_ours(context))
		return shim_real(ibv_query_pkey)(context, port, index, pkey);
	if (port != 1 || index != 0) {
		errno = EINVAL;
		return -1;
	}
	*pkey = htobe16(FACT_PKEY);
	return 0;
}

SHIM_EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	if (!shim_is_ours(context))
		return shim_real(ibv_get_pkey_index)(context, port, pkey);
	if (port != 1 || pkey != htobe16(FACT_PKEY)) {
		errno = EINVAL;
		return -1;
	}
	return 0;
}
