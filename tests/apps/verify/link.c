/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.c - device, memory and queue pairs of the data verifier.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "verify.h"

static struct ibv_context *device_open(const char *name)
{
	int count = 0;
	struct ibv_device **list = ibv_get_device_list(&count);
	struct ibv_context *ctx = NULL;

	for (int i = 0; list && i < count; i++)
		if (!name || !strcmp(name, ibv_get_device_name(list[i]))) {
			ctx = ibv_open_device(list[i]);
			if (!ctx)
				die("cannot open %s: %s", ibv_get_device_name(list[i]), strerror(errno));
			break;
		}
	if (!ctx)
		die("no RDMA device%s%s", name ? " named " : "", name ? name : "");
	ibv_free_device_list(list);
	return ctx;
}

static void area_make(struct end *end, struct area *area, size_t len, int access)
{
	area->len = len;
	area->mem = aligned_alloc(4096, len);
	area->shadow = aligned_alloc(4096, len);
	if (!area->mem || !area->shadow)
		die("out of memory");
	memset(area->mem, 0, len);
	area->mr = ibv_reg_mr(end->pd, area->mem, len, access);
	if (!area->mr)
		die("ibv_reg_mr of %zu bytes with access 0x%x: %s", len, access, strerror(errno));
}

void end_open(struct end *end, const char *device, const struct plan *plan, size_t area_len)
{
	int remote = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		     IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND;

	end->ctx = device_open(device);
	/* rdma_rxe passes the kernel's value of "with invalidate" to programs, 4 instead of the verbs ABI's 8. */
	end->inv_flag = strncmp(ibv_get_device_name(end->ctx->device), "rxe", 3) ? IBV_WC_WITH_INV : 1 << 2;
	end->pd = ibv_alloc_pd(end->ctx);
	if (!end->pd)
		die("ibv_alloc_pd: %s", strerror(errno));
	if (plan->events && !(end->channel = ibv_create_comp_channel(end->ctx)))
		die("ibv_create_comp_channel: %s", strerror(errno));
	end->send_cq = ibv_create_cq(end->ctx, 2 * MAX_QPS * MAX_MSGS + 16, (void *)"send", end->channel, 0);
	end->recv_cq = ibv_create_cq(end->ctx, MAX_QPS * MAX_MSGS + 16, (void *)"recv", end->channel, 0);
	if (!end->send_cq || !end->recv_cq)
		die("ibv_create_cq: %s", strerror(errno));
	if (plan->use_srq) {
		struct ibv_srq_init_attr init = {.attr = {.max_wr = MAX_QPS * MAX_MSGS, .max_sge = MAX_SGES}};

		end->srq = ibv_create_srq(end->pd, &init);
		if (!end->srq)
			die("ibv_create_srq: %s", strerror(errno));
	}
	area_make(end, &end->area[AREA_TX], area_len, 0);
	area_make(end, &end->area[AREA_SINK], area_len, IBV_ACCESS_LOCAL_WRITE);
	area_make(end, &end->area[AREA_TARGET], area_len, remote);
	area_make(end, &end->area[AREA_RESULT], area_len, IBV_ACCESS_LOCAL_WRITE);
	if (ibv_query_gid(end->ctx, 1, end->gid_index, &end->local.gid))
		die("GID %u: %s", end->gid_index, strerror(errno));
	end->local.target_addr = (uintptr_t)end->area[AREA_TARGET].mem;
	end->local.target_rkey = end->area[AREA_TARGET].mr->rkey;
}

void end_close(struct end *end)
{
	links_destroy(end);
	for (int i = 0; i < AREA_COUNT; i++) {
		if (ibv_dereg_mr(end->area[i].mr))
			die("ibv_dereg_mr: %s", strerror(errno));
		free(end->area[i].mem);
		free(end->area[i].shadow);
	}
	if (end->srq && ibv_destroy_srq(end->srq))
		die("ibv_destroy_srq: %s", strerror(errno));
	if (ibv_destroy_cq(end->send_cq) || ibv_destroy_cq(end->recv_cq))
		die("ibv_destroy_cq: %s", strerror(errno));
	if (end->channel && ibv_destroy_comp_channel(end->channel))
		die("ibv_destroy_comp_channel: %s", strerror(errno));
	if (ibv_dealloc_pd(end->pd))
		die("ibv_dealloc_pd: %s", strerror(errno));
	if (ibv_close_device(end->ctx))
		die("ibv_close_device: %s", strerror(errno));
}

void links_destroy(struct end *end)
{
	for (uint32_t i = 0; i < end->links; i++) {
		if (end->link[i].ah && ibv_destroy_ah(end->link[i].ah))
			die("ibv_destroy_ah: %s", strerror(errno));
		if (ibv_destroy_qp(end->link[i].qp))
			die("ibv_destroy_qp: %s", strerror(errno));
		end->link[i] = (struct link){0};
	}
	end->links = 0;
}

static void qp_modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const char *to)
{
	int rc = ibv_modify_qp(qp, attr, mask);

	if (rc)
		die("QP 0x%x to %s: %s", qp->qp_num, to, strerror(rc > 0 ? rc : errno));
}

void qp_make(struct end *end, const struct plan *plan, enum service svc, struct link *link, bool use_srq)
{
	static const enum ibv_qp_type type[] = {IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD};
	struct ibv_qp_init_attr init = {
		.send_cq = end->send_cq,
		.recv_cq = end->recv_cq,
		.srq = use_srq ? end->srq : NULL,
		.qp_type = type[svc],
		.cap = {.max_send_wr = 2 * MAX_MSGS,
			.max_recv_wr = MAX_MSGS,
			.max_send_sge = MAX_SGES,
			.max_recv_sge = MAX_SGES,
			.max_inline_data = plan->no_inline ? 0 : 128},
	};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT,
				   .port_num = 1,
				   .qkey = UD_QKEY,
				   .qp_access_flags =
					   IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};

	if (svc == SVC_UC)
		attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
	link->qp = ibv_create_qp(end->pd, &init);
	if (!link->qp)
		die("ibv_create_qp (%s): %s", service_name(svc), strerror(errno));
	end->max_inline = init.cap.max_inline_data;
	qp_modify(link->qp, &attr,
		  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (svc == SVC_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS),
		  "INIT");
}

void qp_bring_up(struct end *end, const struct plan *plan, enum service svc, struct link *link,
		 const struct link_info *peer, uint8_t rnr_retry)
{
	static const int rtr_more[] = {IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER, 0, 0};
	static const int rts_more[] = {IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC,
				       0, 0};
	struct ibv_ah_attr ah = {.is_global = 1,
				 .port_num = 1,
				 .grh = {.dgid = end->remote.gid, .sgid_index = end->gid_index, .hop_limit = 64}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
				   .dest_qp_num = peer->qpn,
				   .rq_psn = peer->psn,
				   .max_dest_rd_atomic = 16,
				   .min_rnr_timer = 12,
				   .ah_attr = ah};
	int connected = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	attr.path_mtu = IBV_MTU_256;
	while (256u << (attr.path_mtu - IBV_MTU_256) < plan->mtu)
		attr.path_mtu++;
	qp_modify(link->qp, &attr, IBV_QP_STATE | (svc == SVC_UD ? 0 : connected) | rtr_more[svc], "RTR");
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = link->psn;
	attr.timeout = plan->timeout_code;
	attr.retry_cnt = 7;
	attr.rnr_retry = rnr_retry;
	attr.max_rd_atomic = 4;
	qp_modify(link->qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN | rts_more[svc], "RTS");
	if (svc == SVC_UD && !(link->ah = ibv_create_ah(end->pd, &ah)))
		die("ibv_create_ah: %s", strerror(errno));
}

void links_connect(struct end *end, const struct plan *plan, enum service svc, uint64_t generation)
{
	struct phase ph = {.plan = plan, .index = 0xfffff - (generation & 0xffff)};

	links_destroy(end);
	for (uint32_t i = 0; i < plan->qps; i++) {
		uint32_t psn = data_u64(data_key(&ph, KIND_PSN, end->self, i, svc)) & 0xffffff;

		/* Every second QP starts close to the end of the PSN space, so that its PSNs wrap around in the first
		 * phases. */
		end->link[i].psn = i & 1 ? 0xffffff - (psn & 15) : psn;
		qp_make(end, plan, svc, &end->link[i], svc == SVC_RC && plan->use_srq);
		end->links = i + 1;
		end->local.link[i] = (struct link_info){end->link[i].qp->qp_num, end->link[i].psn};
	}
	end->local.qps = plan->qps;
	oob_swap(end->oob, &end->local, &end->remote, sizeof(end->local));
	if (end->remote.qps != plan->qps)
		die("the other end made %u QPs, not %u", end->remote.qps, plan->qps);
	for (uint32_t i = 0; i < plan->qps; i++)
		qp_bring_up(end, plan, svc, &end->link[i], &end->remote.link[i], 7);
	oob_agree(end->oob, 0);
}
