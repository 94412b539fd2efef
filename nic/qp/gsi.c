/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gsi.c - queue pair 1: a UD queue pair of the NIC that belongs to no application (IBTA 3.5.3, 10.2.5). Received MADs
 * need no receive requests: each MAD goes to the callback (nic_gsi_fn) at once.
 *
 * Owns: nic->gsi.
 */
#include "gid.h"
#include "gsi.h"
#include "mem.h"
#include "nic_gsi.h"
#include "packet.h"
#include "qp.h"
#include "qp_create.h"
#include "qp_owner.h"

#define SEND_DEPTH 1024 /* most MADs that wait to be sent */

struct gsi {
	nic_gsi_fn fn;
	void *ctx;
	struct nic_pd *pd;
	struct nic_cq *cq;
	struct nic_qp *qp;
};

static void arrived(struct nic_qp *qp, const struct packet *p)
{
	const struct gsi *g = qp->nic->gsi;
	const struct nic_gsi_addr addr = {.own = p->dgid, .peer = p->sgid};
	uint8_t mad[NIC_MAD_LEN]; /* a copy, because a forwarded packet lies in memory that others may write to */

	if (p->payload_len != NIC_MAD_LEN || !p->payload) {
		COUNT(qp->nic, ud_too_long);
		return;
	}
	memcpy(mad, p->payload, sizeof(mad));
	g->fn(g->ctx, &addr, mad);
}

static bool owns_nothing(const struct nic_qp *qp, uint32_t rkey)
{
	(void)qp;
	(void)rkey;
	return false;
}

static const struct qp_owner gsi_owner = {.datagram = arrived, .is_told = owns_nothing};

static int qp_start(struct nic *nic, struct gsi *g)
{
	struct nic_qp_init init = {
		.type = NIC_QPT_UD,
		.pd = g->pd,
		.send_cq = g->cq,
		.recv_cq = g->cq,
		.cap = {.max_send_wr = SEND_DEPTH, .max_send_sge = 1, .max_inline_data = NIC_MAD_LEN}};
	struct nic_qp_attr a = {.qp_state = NIC_QPS_INIT, .port_num = 1, .qkey = NIC_GSI_QKEY};
	int err = qp_create_at(nic, &init, NIC_GSI_QPN, &g->qp);

	if (err)
		return err;
	g->qp->owner = &gsi_owner;
	g->qp->events.silent = true;
	nic_qp_modify(g->qp, &a, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_QKEY);
	a.qp_state = NIC_QPS_RTR;
	nic_qp_modify(g->qp, &a, NIC_QP_STATE);
	a.qp_state = NIC_QPS_RTS;
	a.sq_psn = nic_psn_random(nic);
	return nic_qp_modify(g->qp, &a, NIC_QP_STATE | NIC_QP_SQ_PSN);
}

static void gsi_free(struct gsi *g)
{
	if (g->cq)
		nic_cq_destroy(g->cq);
	if (g->pd)
		nic_pd_free(g->pd);
	free(g);
}

int nic_gsi_open(struct nic *nic, nic_gsi_fn fn, void *ctx)
{
	struct gsi *g;
	int err;

	if (nic->gsi)
		return -EADDRINUSE;
	g = calloc(1, sizeof(*g));
	if (!g)
		return -ENOMEM;
	g->fn = fn;
	g->ctx = ctx;
	err = nic_pd_alloc(nic, &g->pd);
	if (!err)
		err = nic_cq_create(nic, 1, NULL, &g->cq);
	if (!err)
		err = qp_start(nic, g);
	if (err)
		gsi_free(g);
	else
		nic->gsi = g;
	return err;
}

void gsi_close(struct nic *nic)
{
	if (!nic->gsi)
		return;
	nic_qp_destroy(nic->gsi->qp);
	gsi_free(nic->gsi);
	nic->gsi = NULL;
}

int nic_gsi_send(struct nic *nic, const struct nic_gsi_addr *addr, const uint8_t *mad)
{
	struct nic_ah ah = {.av = {.dgid = addr->peer,
				   .tclass = addr->tclass,
				   .hop_limit = addr->hop_limit,
				   .flow_label = addr->flow_label}};
	struct nic_sge sge = {(uintptr_t)mad, NIC_MAD_LEN, 0};
	struct nic_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = NIC_WR_SEND, .flags = NIC_SEND_INLINE};

	if (!nic->gsi)
		return -EADDRNOTAVAIL;
	if (gid_is_v4(&addr->own) != gid_is_v4(&addr->peer))
		return -EINVAL;
	ah.pd = nic->gsi->pd;
	wr.ud.ah = &ah;
	wr.ud.remote_qpn = NIC_GSI_QPN;
	wr.ud.remote_qkey = NIC_GSI_QKEY;
	for (uint8_t i = 0; i < NIC_GID_TABLE_LEN; i++) {
		ah.av.sgid_index = i;
		if (!gid_is_zero(&addr->own) && memcmp(&nic->gids[i], &addr->own, sizeof(addr->own)) == 0)
			return nic_post_send(nic->gsi->qp, &wr);
	}
	return -EADDRNOTAVAIL;
}
