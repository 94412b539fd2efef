/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * query.c - ibv_exp_query_device, ibv_exp_query_gid_attr. The fields of unsupported features are zero. Their comp_mask
 * bits are cleared, too, except for those in FIELDS_ANSWERED.
 */
#include <stddef.h>
#include <string.h>

#include "exp.h"

/* The comp_mask bits of supported features, and of fields in which a zero says that the feature is unsupported. */
#define FIELDS_ANSWERED                                                                                                \
	((uint32_t)(IBV_EXP_DEVICE_ATTR_CALC_CAP | IBV_EXP_DEVICE_ATTR_EXP_CAP_FLAGS |                                 \
		    IBV_EXP_DEVICE_ATTR_EXT_ATOMIC_ARGS | IBV_EXP_DEVICE_ATTR_MASKED_ATOMICS |                         \
		    IBV_EXP_DEVICE_ATTR_MAX_DM_SIZE | IBV_EXP_DEVICE_ATTR_INLINE_RECV_SZ | IBV_EXP_DEVICE_ATTR_ODP |   \
		    IBV_EXP_DEVICE_ATTR_COMP_MASK_2))

#define SAME_PLACE(ours, plain)                                                                                        \
	_Static_assert(offsetof(struct ibv_exp_device_attr, ours) == offsetof(struct ibv_device_attr, plain), #ours)

SAME_PLACE(fw_ver, fw_ver);
SAME_PLACE(max_qp_wr, max_qp_wr);
SAME_PLACE(reserved, device_cap_flags);
SAME_PLACE(max_qp_rd_atom, max_qp_rd_atom);
SAME_PLACE(exp_atomic_cap, atomic_cap);
SAME_PLACE(max_total_mcast_qp_attach, max_total_mcast_qp_attach);
SAME_PLACE(max_srq_sge, max_srq_sge);
SAME_PLACE(phys_port_cnt, phys_port_cnt);

/* Copy struct ibv_device_attr into the extended structure, which begins with the same members. */
static void plain_fill(const struct ibv_device_attr *in, struct ibv_exp_device_attr *out)
{
	memcpy(out, in, offsetof(struct ibv_device_attr, phys_port_cnt) + sizeof(in->phys_port_cnt));
}

/* Translate the flags of verbs.h, some of which have another bit here, and add the flags of the experimental verbs. */
static uint64_t cap_flags(unsigned plain)
{
	const unsigned same = (IBV_EXP_DEVICE_N_NOTIFY_CQ << 1) - 1;
	uint64_t flags = plain & same;

	if (plain & IBV_DEVICE_MEM_WINDOW)
		flags |= IBV_EXP_DEVICE_MEM_WINDOW;
	if (plain & IBV_DEVICE_MEM_MGT_EXTENSIONS)
		flags |= IBV_EXP_DEVICE_MEM_MGT_EXTENSIONS;
	if (plain & IBV_DEVICE_MEM_WINDOW_TYPE_2B)
		flags |= IBV_EXP_DEVICE_MW_TYPE_2B;
	return flags | IBV_EXP_DEVICE_EXT_ATOMICS | IBV_EXP_DEVICE_EXT_MASKED_ATOMICS | IBV_EXP_DEVICE_NOP |
	       IBV_EXP_DEVICE_CROSS_CHANNEL | IBV_EXP_DEVICE_ODP;
}

static void atomics_fill(const struct shim_personality *personality, struct ibv_exp_device_attr *out)
{
	uint32_t like_cap = personality->be_asked ? personality->be_sizes : SHIM_ATOMIC_SIZES & ~personality->be_sizes;

	out->exp_atomic_cap = personality->exp_cap;
	out->ext_atom.log_atomic_arg_sizes = like_cap;
	out->ext_atom.max_fa_bit_boundary = out->masked_atomic.max_fa_bit_boundary = NIC_ATOMIC_SIZE_MAX * 8;
	out->ext_atom.log_max_atomic_inline = out->masked_atomic.log_max_atomic_inline =
		(uint32_t)__builtin_ctz(NIC_ATOMIC_SIZE_MAX);
	out->masked_atomic.masked_log_atomic_arg_sizes = SHIM_ATOMIC_SIZES;
	out->masked_atomic.masked_log_atomic_arg_sizes_network_endianness = personality->be_sizes;
	out->pci_atomic_caps.fetch_add = SHIM_PCI_ATOMIC_SIZES;
	out->pci_atomic_caps.swap = SHIM_PCI_ATOMIC_SIZES;
	out->pci_atomic_caps.compare_swap = SHIM_PCI_ATOMIC_SIZES;
}

static uint64_t calc_ops(enum ibv_exp_calc_data_type type)
{
	uint64_t ops = 0;

	for (uint32_t op = 0; op < IBV_EXP_CALC_OP_NUMBER; op++)
		ops |= (uint64_t)nic_calc_valid(op, type) << op;
	return ops;
}

static void calc_fill(struct ibv_exp_device_calc_cap *out)
{
	out->data_types = (1 << IBV_EXP_CALC_DATA_TYPE_NUMBER) - 1;
	out->data_sizes = 1 << IBV_EXP_CALC_DATA_SIZE_64_BIT;
	out->int_ops = calc_ops(IBV_EXP_CALC_DATA_TYPE_INT);
	out->uint_ops = calc_ops(IBV_EXP_CALC_DATA_TYPE_UINT);
	out->fp_ops = calc_ops(IBV_EXP_CALC_DATA_TYPE_FLOAT);
}

/* The bits are those of verbs.h. */
static void odp_fill(const struct ibv_odp_caps *in, struct ibv_exp_odp_caps *out)
{
	out->general_odp_caps = in->general_caps;
	out->per_transport_caps.rc_odp_caps = in->per_transport_caps.rc_odp_caps;
	out->per_transport_caps.uc_odp_caps = in->per_transport_caps.uc_odp_caps;
	out->per_transport_caps.ud_odp_caps = in->per_transport_caps.ud_odp_caps;
}

int exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr)
{
	uint32_t asked = attr->comp_mask;
	uint64_t asked_2 = asked & (uint32_t)IBV_EXP_DEVICE_ATTR_COMP_MASK_2 ? attr->comp_mask_2 : 0;
	struct ibv_device_attr_ex plain;
	int err = shim_query_device_ex(context, NULL, &plain, sizeof(plain));

	if (err)
		return err;
	memset(attr, 0, sizeof(*attr));
	plain_fill(&plain.orig_attr, attr);
	atomics_fill(shim_ctx(context)->personality, attr);
	attr->exp_device_cap_flags = cap_flags(plain.orig_attr.device_cap_flags);
	attr->max_dm_size = SHIM_DM_MAX;
	calc_fill(&attr->calc_cap);
	odp_fill(&plain.odp_caps, &attr->odp_caps);
	attr->comp_mask = asked & FIELDS_ANSWERED;
	attr->comp_mask_2 = asked_2 & IBV_EXP_DEVICE_ATTR_PCI_ATOMIC_CAPS;
	return 0;
}

int exp_query_gid_attr(struct ibv_context *context, uint8_t port, unsigned index, struct ibv_exp_gid_attr *attr)
{
	union ibv_gid gid;
	const union ibv_gid none = {{0}};

	if (!shim_alive(shim_ctx(shim_context_here(context))))
		return EIO;
	if (index > INT32_MAX || ibv_query_gid(context, port, (int)index, &gid))
		return EINVAL;
	if (attr->comp_mask & IBV_EXP_QUERY_GID_ATTR_GID)
		attr->gid = gid;
	/* An empty entry has the first GID type, as with the kernel. */
	if (attr->comp_mask & IBV_EXP_QUERY_GID_ATTR_TYPE)
		attr->type = memcmp(&gid, &none, sizeof(gid)) ? IBV_EXP_ROCE_V2_GID_TYPE : IBV_EXP_IB_ROCE_V1_GID_TYPE;
	return 0;
}
