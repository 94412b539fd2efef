/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ah.c - address handles, and addresses taken from received packets (IBTA 11.2.2). A UD message is preceded by 40 bytes
 * (annex A17.4.5.3): an IPv6 header, or 20 undefined bytes and an IPv4 header.
 */
#include <endian.h>
#include <string.h>

#include "say.h"
#include "shim.h"

bool shim_av_from_ibv(const struct ibv_ah_attr *attr, struct nic_av *av)
{
	static atomic_bool said;

	if (!attr->is_global)
		shim_say_once(&said,
			      "the program addresses its peer without a GRH (ah_attr.is_global is 0), by a LID; a "
			      "RoCE device has GIDs only: name a GID index (often -g 0 or -x 0), or connect by the "
			      "connection manager (perftest -R, qperf -cm1)");
	if (!attr->is_global || (attr->port_num && attr->port_num != 1))
		return false;
	memcpy(av->dgid.raw, attr->grh.dgid.raw, sizeof(av->dgid.raw));
	av->sgid_index = attr->grh.sgid_index;
	av->tclass = attr->grh.traffic_class;
	av->hop_limit = attr->grh.hop_limit;
	av->flow_label = attr->grh.flow_label & IB_GRH_FLOWLABEL_MASK;
	av->sl = attr->sl;
	return true;
}

void shim_av_to_ibv(const struct nic_av *av, struct ibv_ah_attr *attr)
{
	memset(attr, 0, sizeof(*attr));
	memcpy(attr->grh.dgid.raw, av->dgid.raw, sizeof(av->dgid.raw));
	attr->grh.sgid_index = av->sgid_index;
	attr->grh.traffic_class = av->tclass;
	attr->grh.hop_limit = av->hop_limit;
	attr->grh.flow_label = av->flow_label;
	attr->sl = av->sl;
	attr->is_global = 1;
	attr->port_num = 1;
}

SHIM_EXPORT struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	if (!shim_is_ours(pd->context))
		return shim_real(ibv_create_ah)(pd, attr);

	struct shim_context *ctx = shim_ctx(pd->context);
	struct shim_ah *ah;
	struct nic_av av;
	int err = -EIO;

	if (attr->port_num != 1 || !shim_av_from_ibv(attr, &av))
		return shim_fail(EINVAL);
	if (!shim_pd_intact(pd))
		return shim_fail(ENOENT);
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return shim_fail(ENOMEM);
	if (shim_enter(ctx)) {
		err = nic_ah_create(container_of(pd, struct shim_pd, ibv)->nic, &av, &ah->nic);
		if (!err)
			shim_object_add(ctx, SHIM_AH, &ah->link);
		shim_leave(ctx);
	}
	if (err) {
		free(ah);
		return shim_fail(-err);
	}
	ah->ibv.context = pd->context;
	ah->ibv.pd = pd;
	ah->ibv.handle = ah->link.handle;
	shim_pd_get(pd);
	pmd_resolve(ctx->engine, &av.dgid);
	return &ah->ibv;
}

SHIM_EXPORT int ibv_destroy_ah(struct ibv_ah *ibv)
{
	if (!shim_is_ours(ibv->context))
		return shim_real(ibv_destroy_ah)(ibv);

	struct shim_context *ctx = shim_ctx(ibv->context);
	struct shim_ah *ah = container_of(ibv, struct shim_ah, ibv);
	int err;

	if (!SHIM_INTACT(ah))
		return shim_errno(-ENOENT);
	if (!shim_enter(ctx))
		return EIO;
	err = nic_ah_destroy(ah->nic);
	if (!err)
		shim_object_remove(ctx, &ah->link);
	shim_leave(ctx);
	if (err)
		return shim_errno(err);
	shim_pd_put(ibv->pd);
	free(ah);
	return 0;
}

/* ---- addresses from received packets ----------------------------------------------------------------- */

#define IP4_OFFSET 20 /* offset of an IPv4 header in the 40 bytes before a UD message */

static bool ip4_checksum_holds(const uint8_t *ip4)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)ip4[i] << 8 | ip4[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum == 0xffff;
}

/* The IP version of the header before a UD message: 4, 6, or 0 (neither). The 20 undefined bytes before an IPv4
 * header can look like an IPv6 header, so the IPv4 checksum decides. */
static int grh_version(const uint8_t *grh)
{
	const uint8_t *ip4 = grh + IP4_OFFSET;

	if (ip4[0] == 0x45 && ip4_checksum_holds(ip4))
		return 4;
	return grh[0] >> 4 == 6 ? 6 : 0;
}

static void map_ip4(const uint8_t *address, union ibv_gid *gid)
{
	memset(gid->raw, 0, 10);
	memset(gid->raw + 10, 0xff, 2);
	memcpy(gid->raw + 12, address, 4);
}

SHIM_EXPORT int ibv_init_ah_from_wc(struct ibv_context *context, uint8_t port, struct ibv_wc *wc, struct ibv_grh *grh,
				    struct ibv_ah_attr *attr)
{
	if (!shim_is_ours(context))
		return shim_real(ibv_init_ah_from_wc)(context, port, wc, grh, attr);

	const uint8_t *raw = (const uint8_t *)grh;
	union ibv_gid local;
	int version, index;

	memset(attr, 0, sizeof(*attr));
	version = wc->wc_flags & IBV_WC_GRH && port == 1 ? grh_version(raw) : 0;
	if (!version) {
		errno = port == 1 ? EPROTONOSUPPORT : EINVAL;
		return -1;
	}
	if (version == 4) {
		map_ip4(raw + IP4_OFFSET + 12, &attr->grh.dgid);
		map_ip4(raw + IP4_OFFSET + 16, &local);
		attr->grh.traffic_class = raw[IP4_OFFSET + 1];
		attr->grh.hop_limit = raw[IP4_OFFSET + 8];
	} else {
		uint32_t first = be32toh(grh->version_tclass_flow);

		attr->grh.dgid = grh->sgid;
		local = grh->dgid;
		attr->grh.flow_label = first & IB_GRH_FLOWLABEL_MASK;
		attr->grh.traffic_class = (uint8_t)(first >> 20);
		attr->grh.hop_limit = grh->hop_limit;
	}
	index = shim_gid_find(shim_ctx(context), &local);
	if (index < 0) {
		errno = EINVAL; /* the GID table does not contain the destination address */
		return -1;
	}
	attr->grh.sgid_index = (uint8_t)index;
	attr->is_global = 1;
	attr->port_num = port;
	return 0;
}

SHIM_EXPORT struct ibv_ah *ibv_create_ah_from_wc(struct ibv_pd *pd, struct ibv_wc *wc, struct ibv_grh *grh,
						 uint8_t port)
{
	struct ibv_ah_attr attr;

	if (!shim_is_ours(pd->context))
		return shim_real(ibv_create_ah_from_wc)(pd, wc, grh, port);
	return ibv_init_ah_from_wc(pd->context, port, wc, grh, &attr) ? NULL : ibv_create_ah(pd, &attr);
}

/* Not supported: the engine or the kernel resolves Ethernet addresses, and applications cannot see them. */
SHIM_EXPORT int ibv_resolve_eth_l2_from_gid(struct ibv_context *context, struct ibv_ah_attr *attr,
					    uint8_t eth_mac[ETHERNET_LL_SIZE], uint16_t *vid)
{
	if (!shim_is_ours(context))
		return shim_real(ibv_resolve_eth_l2_from_gid)(context, attr, eth_mac, vid);
	errno = EOPNOTSUPP;
	return -1;
}
