/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma_query.c - answers what librdmacm asks about an id: the attributes that its QP needs in each state (IBTA 12.9.7),
 * addresses, GIDs, the path. Owns nothing.
 */
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <string.h>

#include "cma.h"

#define PATH_EXACTLY 2 /* selector: MTU, rate or packet life is exactly this value */
#define NO_INDEX     UINT32_MAX

/* ---- the QP ------------------------------------------------------------------------------------------ */

void cma_ah_attr(const struct cma_id *id, const struct nic_gid *peer, struct ib_uverbs_ah_attr *out)
{
	int index = cma_device_gid_index(id->device, &id->src.gid);

	*out = (struct ib_uverbs_ah_attr){.is_global = 1, .port_num = 1, .sl = id->path.sl};
	memcpy(out->grh.dgid, peer->raw, sizeof(out->grh.dgid));
	out->grh.sgid_index = (uint8_t)index; /* -1, if the device has lost the address, gives 255: invalid in verbs */
	out->grh.flow_label = id->path.flow_label;
	out->grh.hop_limit = id->path.hop_limit ? id->path.hop_limit : CMA_HOP_LIMIT;
	out->grh.traffic_class = id->path.traffic_class;
}

/** Fill in the attributes for an id without a connection, or for a UD id. */
static void attr_plain(const struct cma_id *id, struct ib_uverbs_qp_attr *out)
{
	out->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;
	out->port_num = 1;
	if (cma_is_ud(id)) {
		out->qp_attr_mask |= IBV_QP_QKEY;
		out->qkey = id->qkey;
	} else {
		out->qp_attr_mask |= IBV_QP_ACCESS_FLAGS;
	}
}

static void attr_init(const struct cma_id *id, struct ib_uverbs_qp_attr *out)
{
	out->qp_attr_mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	out->port_num = 1;
	out->qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	/* FLUSH like READ, as the kernel does from Linux 6.3 on for a device that has it. */
	if (id->conn.responder_resources)
		out->qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC | NIC_ACCESS_FLUSH_GLOBAL |
					NIC_ACCESS_FLUSH_PERSISTENT;
}

static void attr_rtr(const struct cma_id *id, struct ib_uverbs_qp_attr *out)
{
	out->qp_attr_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	cma_ah_attr(id, &id->dst.gid, &out->ah_attr);
	out->path_mtu = id->conn.mtu;
	out->dest_qp_num = id->conn.remote_qpn;
	out->rq_psn = id->conn.rq_psn;
	if (id->qp_type == UCMA_QPT_RC || id->qp_type == UCMA_QPT_XRC_RECV) {
		out->qp_attr_mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		out->max_dest_rd_atomic = id->conn.responder_resources;
	}
}

static void attr_rts(const struct cma_id *id, struct ib_uverbs_qp_attr *out)
{
	out->qp_attr_mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	out->sq_psn = id->conn.sq_psn;
	if (id->qp_type == UCMA_QPT_RC || id->qp_type == UCMA_QPT_XRC_SEND) {
		out->qp_attr_mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
		out->retry_cnt = id->conn.retry_count;
		out->rnr_retry = id->conn.rnr_retry_count;
		out->max_rd_atomic = id->conn.initiator_depth;
	} else if (id->qp_type == UCMA_QPT_XRC_RECV) {
		out->qp_attr_mask |= IBV_QP_TIMEOUT;
	}
	out->timeout = id->ack_timeout_set ? id->ack_timeout : id->conn.ack_timeout;
}

/** Whether the connection is being made or is established. If `answered`, the peer's values must also be known. */
static bool is_ready(const struct cma_id *id, bool answered)
{
	struct nic_cm_info info;

	nic_cm_id_info(id->cm, &info);
	if (info.state < NIC_CM_REQ_SENT || info.state > NIC_CM_ESTABLISHED)
		return false;
	return !answered || id->conn.answered;
}

static int attr_fill(const struct cma_id *id, uint32_t state, struct ib_uverbs_qp_attr *out)
{
	if (!id->cm || cma_is_ud(id)) {
		attr_plain(id, out);
		return 0;
	}
	if (!is_ready(id, state != IBV_QPS_INIT))
		return -EINVAL;
	switch (state) {
	case IBV_QPS_INIT:
		attr_init(id, out);
		return 0;
	case IBV_QPS_RTR:
		attr_rtr(id, out);
		return 0;
	case IBV_QPS_RTS:
		attr_rts(id, out);
		return 0;
	default:
		return -EINVAL;
	}
}

int cma_qp_attr(struct cma_id *id, uint32_t state, struct ib_uverbs_qp_attr *out)
{
	int err;

	memset(out, 0, sizeof(*out));
	out->qp_state = state;
	cma_engine_enter(id->device);
	err = attr_fill(id, state, out);
	cma_engine_leave(id->device);
	return err;
}

/* ---- addresses --------------------------------------------------------------------------------------- */

static uint64_t guid_of(const struct cma_id *id)
{
	return id->device ? htobe64(id->device->pmd.node_guid) : 0;
}

static void path_fill(const struct cma_id *id, struct ib_user_path_rec *out)
{
	const struct cma_path *p = &id->path;

	memcpy(out->dgid, id->dst.gid.raw, sizeof(out->dgid));
	memcpy(out->sgid, id->src.gid.raw, sizeof(out->sgid));
	out->pkey = htobe16(CMA_PKEY);
	if (!p->known)
		return;
	out->flow_label = htobe32(p->flow_label);
	out->reversible = 1;
	out->mtu = p->mtu;
	out->mtu_selector = PATH_EXACTLY;
	out->rate_selector = PATH_EXACTLY;
	out->packet_life_time_selector = PATH_EXACTLY;
	out->packet_life_time = p->packet_life;
	out->hop_limit = p->hop_limit;
	out->traffic_class = p->traffic_class;
	out->sl = p->sl;
}

void cma_query_route(struct cma_id *id, struct rdma_ucm_query_route_resp *out)
{
	memset(out, 0, sizeof(*out));
	out->ibdev_index = NO_INDEX;
	cma_engine_enter(id->device);
	cma_addr_to(&id->src, &out->src_addr);
	cma_addr_to(&id->dst, &out->dst_addr);
	if (id->device) {
		out->node_guid = guid_of(id);
		out->port_num = 1;
		out->num_paths = id->path.known;
		path_fill(id, &out->ib_route[0]);
	}
	cma_engine_leave(id->device);
}

static void device_fill(const struct cma_id *id, struct rdma_ucm_query_addr_resp *out)
{
	memset(out, 0, sizeof(*out));
	out->ibdev_index = NO_INDEX;
	if (!id->device)
		return;
	out->node_guid = guid_of(id);
	out->port_num = 1;
	out->pkey = htobe16(CMA_PKEY);
}

void cma_query_addr(struct cma_id *id, struct rdma_ucm_query_addr_resp *out)
{
	cma_engine_enter(id->device);
	device_fill(id, out);
	out->src_size = (uint16_t)cma_addr_to(&id->src, &out->src_addr);
	out->dst_size = (uint16_t)cma_addr_to(&id->dst, &out->dst_addr);
	cma_engine_leave(id->device);
}

/** Same layout as librdmacm's struct sockaddr_ib. */
struct sockaddr_gid {
	uint16_t family, pkey;
	uint32_t flowinfo;
	uint8_t gid[16];
	uint64_t service_id, mask, scope;
};

static uint16_t gid_fill(const struct cma_id *id, const struct cma_addr *addr, void *out)
{
	struct sockaddr_gid s = {.family = CMA_AF_IB,
				 .pkey = id->device ? htobe16(CMA_PKEY) : 0,
				 .service_id = htobe64(nic_cm_service_id(id->space, addr->port))};

	memcpy(s.gid, addr->gid.raw, sizeof(s.gid));
	memcpy(out, &s, sizeof(s));
	return sizeof(s);
}

void cma_query_gid(struct cma_id *id, struct rdma_ucm_query_addr_resp *out)
{
	cma_engine_enter(id->device);
	device_fill(id, out);
	out->src_size = gid_fill(id, &id->src, &out->src_addr);
	out->dst_size = gid_fill(id, &id->dst, &out->dst_addr);
	cma_engine_leave(id->device);
}

/* ---- path records on the wire ------------------------------------------------------------------------ */

/* Offsets in a path record, in bytes (IBTA 15.2.5.16). */
enum { PR_DGID = 8, PR_SGID = 24, PR_FLOW = 44, PR_TCLASS = 48, PR_REVERSIBLE, PR_PKEY, PR_SL = 53 };
enum { PR_MTU = 54, PR_RATE, PR_LIFE };
#define PR_EXACTLY (PATH_EXACTLY << 6)
#define PATH_FLAGS (IB_PATH_GMP | IB_PATH_PRIMARY | IB_PATH_BIDIRECTIONAL)

bool cma_query_path(struct cma_id *id, struct ib_path_rec_data *out)
{
	const struct cma_path *p = &id->path;
	uint8_t *rec = (uint8_t *)out->path_rec;

	memset(out, 0, sizeof(*out));
	if (!p->known)
		return false;
	out->flags = PATH_FLAGS;
	memcpy(rec + PR_DGID, id->dst.gid.raw, 16);
	memcpy(rec + PR_SGID, id->src.gid.raw, 16);
	rec[PR_FLOW] = (uint8_t)(p->flow_label >> 16 & 0xf);
	rec[PR_FLOW + 1] = (uint8_t)(p->flow_label >> 8);
	rec[PR_FLOW + 2] = (uint8_t)p->flow_label;
	rec[PR_FLOW + 3] = p->hop_limit;
	rec[PR_TCLASS] = p->traffic_class;
	rec[PR_REVERSIBLE] = 0x80;
	rec[PR_PKEY] = rec[PR_PKEY + 1] = 0xff;
	rec[PR_SL] = p->sl & 0xf;
	rec[PR_MTU] = PR_EXACTLY | p->mtu;
	rec[PR_RATE] = PR_EXACTLY;
	rec[PR_LIFE] = PR_EXACTLY | p->packet_life;
	return true;
}

int cma_path_take(struct cma_id *id, const struct ib_path_rec_data *path)
{
	const uint8_t *rec = (const uint8_t *)path->path_rec;

	if (path->flags != PATH_FLAGS || id->state != CMA_ADDR_RESOLVED)
		return -EINVAL;
	cma_path_set(id);
	id->path.traffic_class = rec[PR_TCLASS];
	id->path.sl = rec[PR_SL] & 0xf;
	if (rec[PR_FLOW + 3])
		id->path.hop_limit = rec[PR_FLOW + 3];
	if (rec[PR_LIFE] & 0x3f)
		id->path.packet_life = rec[PR_LIFE] & 0x1f;
	id->state = CMA_ROUTE_RESOLVED;
	return cma_event_simple(id, UCMA_ROUTE_RESOLVED, 0);
}
