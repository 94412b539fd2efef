/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * enable.c - managed queues (nic/qp/cross.c). A WR posted to such a queue must not start or be consumed before it
 * is enabled. The node's runner enables some or all WRs some time after they are posted.
 *
 * Oracle: managed_early.
 */
#include <errno.h>

#include "sim.h"

#define LATER_NS 50000 /* maximum delay until WRs are enabled */

bool enable_init(struct node *node)
{
	struct nic_qp_init init = {
		.type = NIC_QPT_UD, .pd = node->pd[0], .cap = {64, 0, 1, 1, 0}, .cross_channel = true};
	struct nic_qp_attr a = {.qp_state = NIC_QPS_INIT, .port_num = 1};
	struct nic_cq *cq;

	if (nic_cq_create(node->nic, 4, NULL, &cq) != 0)
		return false;
	init.send_cq = init.recv_cq = cq;
	if (nic_qp_create(node->nic, &init, &node->runner) != 0 ||
	    nic_qp_modify(node->runner, &a, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_QKEY) != 0)
		return false;
	a.qp_state = NIC_QPS_RTR;
	if (nic_qp_modify(node->runner, &a, NIC_QP_STATE) != 0)
		return false;
	a.qp_state = NIC_QPS_RTS;
	return nic_qp_modify(node->runner, &a, NIC_QP_STATE | NIC_QP_SQ_PSN) == 0;
}

static void enable_sends(struct sim *sim, void *arg);
static void enable_recvs(struct sim *sim, void *arg);

static void enable_event(struct sim *sim, struct qp *qp, unsigned recv)
{
	uint32_t posted = recv ? qp->rposted : qp->posted, left = posted - qp->enabled[recv];
	struct nic_send_wr wr = {.opcode = recv ? NIC_WR_RECV_ENABLE : NIC_WR_SEND_ENABLE};
	int rc;

	if (node_is_stopped(qp->node, recv ? enable_recvs : enable_sends, qp))
		return;
	qp->enable_scheduled[recv] = false;
	if (left == 0 || qp->life == QP_DEAD || qp->emptied)
		return;
	wr.enable.qp = qp->qp;
	wr.enable.count = rng_chance(&qp->pair_rng, 500) ? 0 : 1 + (uint32_t)rng_below(&qp->pair_rng, left);
	wr.enable.last = true;
	rc = nic_post_send(qp->node->runner, &wr);
	if (rc == 0)
		qp->enabled[recv] += wr.enable.count == 0 ? left : wr.enable.count;
	else if (rc != -ENOMEM)
		sim_fail(sim, "api", "QP %06x: enabling %u of %u returned %d", qp->qpn, wr.enable.count, left, rc);
	node_kick(qp->node);
	enable_later(qp, recv);
}

static void enable_sends(struct sim *sim, void *arg)
{
	enable_event(sim, arg, 0);
}

static void enable_recvs(struct sim *sim, void *arg)
{
	enable_event(sim, arg, 1);
}

void enable_later(struct qp *qp, unsigned recv)
{
	uint32_t posted = recv ? qp->rposted : qp->posted;

	if (!qp->managed[recv] || qp->enable_scheduled[recv] || posted == qp->enabled[recv])
		return;
	qp->enable_scheduled[recv] = true;
	sched_at(qp->sim, qp->sim->now_ns + rng_below(&qp->pair_rng, LATER_NS), recv ? enable_recvs : enable_sends, qp);
}

void enable_check(struct qp *qp, unsigned recv, uint32_t index)
{
	if (qp->managed[recv] && index >= qp->enabled[recv])
		sim_fail(qp->sim, "managed_early", "QP %06x: %s %u of its queue, of which %u are enabled", qp->qpn,
			 recv ? "receive" : "WR", index, qp->enabled[recv]);
}
