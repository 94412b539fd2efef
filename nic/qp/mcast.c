/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mcast.c - multicast groups: which UD QPs are attached to which group, and delivery (IBTA 10.5.2, annex A17.9.1). Each
 * attached QP gets a copy if the packet passes the checks of admit.c for this QP. A refusal for one QP does not affect
 * the other QPs.
 *
 * The port decides which groups' packets reach the NIC. The NIC does not loop back the multicast packets that it sends:
 * the port's network loops them back to members on this host.
 */
#include "admit.h"
#include "gid.h"
#include "opcode.h"
#include "packet.h"
#include "qp.h"
#include "ud.h"

#include "mcast.h"

struct mcast_group {
	struct list node;
	struct nic_gid gid;
	uint32_t n;
	struct nic_qp *qps[NIC_MCAST_QPS_MAX];
};

/* ---- attaching ------------------------------------------------------------------------------------------ */

static struct mcast_group *group_find(const struct nic *nic, const struct nic_gid *gid)
{
	for (struct list *n = nic->mcasts.next; n != &nic->mcasts; n = n->next) {
		struct mcast_group *g = list_entry(n, struct mcast_group, node);

		if (!memcmp(&g->gid, gid, sizeof(*gid)))
			return g;
	}
	return NULL;
}

/** @return NULL: too many groups, or no memory */
static struct mcast_group *group_new(struct nic *nic, const struct nic_gid *gid)
{
	struct mcast_group *g = nic->n_mcast < NIC_MCAST_GROUPS_MAX ? calloc(1, sizeof(*g)) : NULL;

	if (!g)
		return NULL;
	g->gid = *gid;
	list_append(&nic->mcasts, &g->node);
	nic->n_mcast++;
	return g;
}

static void group_free(struct nic *nic, struct mcast_group *g)
{
	list_remove(&g->node);
	nic->n_mcast--;
	free(g);
}

/** @return index of the QP in the group, or g->n if the QP is not attached. */
static uint32_t member(const struct mcast_group *g, const struct nic_qp *qp)
{
	uint32_t i = 0;

	while (i < g->n && g->qps[i] != qp)
		i++;
	return i;
}

int nic_mcast_attach(struct nic_qp *qp, const struct nic_gid *gid)
{
	struct mcast_group *g = group_find(qp->nic, gid);

	if (qp->type != NIC_QPT_UD || !nic_gid_is_multicast(gid))
		return -EINVAL;
	if (g && member(g, qp) < g->n)
		return 0;
	if (!g)
		g = group_new(qp->nic, gid);
	if (!g || g->n == NIC_MCAST_QPS_MAX)
		return -ENOMEM;
	g->qps[g->n++] = qp;
	qp->mcasts++;
	return 0;
}

int nic_mcast_detach(struct nic_qp *qp, const struct nic_gid *gid)
{
	struct mcast_group *g = group_find(qp->nic, gid);
	uint32_t i = g ? member(g, qp) : 0;

	if (!g || i == g->n)
		return -EINVAL;
	g->qps[i] = g->qps[--g->n];
	qp->mcasts--;
	if (!g->n)
		group_free(qp->nic, g);
	return 0;
}

bool nic_mcast_has(const struct nic *nic, const struct nic_gid *gid)
{
	return group_find(nic, gid);
}

bool nic_mcast_any(const struct nic_qp *qp, struct nic_gid *gid)
{
	const struct nic *nic = qp->nic;

	for (struct list *n = nic->mcasts.next; n != &nic->mcasts && qp->mcasts; n = n->next) {
		const struct mcast_group *g = list_entry(n, struct mcast_group, node);

		if (member(g, qp) == g->n)
			continue;
		*gid = g->gid;
		return true;
	}
	return false;
}

void mcast_close(struct nic *nic)
{
	struct list *next;

	for (struct list *n = nic->mcasts.next; n != &nic->mcasts; n = next) {
		struct mcast_group *g = list_entry(n, struct mcast_group, node);

		next = n->next;
		while (g->n)
			g->qps[--g->n]->mcasts--;
		group_free(nic, g);
	}
}

/* ---- receiving ------------------------------------------------------------------------------------------ */

static void copy_to(struct nic_qp *qp, const struct packet *p)
{
	struct nic *nic = qp->nic;
	enum nic_counter why = rx_refusal(nic, qp, p);

	if (why != NIC_CNT_COUNT) {
		nic->counters[why]++;
		qp->counters.dropped_rx++;
		trace_add(nic, qp->qpn, NIC_TR_drop, p->psn, why);
		return;
	}
	qp->counters.rx_packets++;
	qp->counters.rx_bytes += p->payload_len;
	trace_add(nic, qp->qpn, NIC_TR_rx, p->psn, p->op->value);
	ud_rx(qp, p);
}

void mcast_rx(struct nic *nic, const struct packet *p)
{
	const struct mcast_group *g = p->bare ? NULL : group_find(nic, &p->dgid);

	if (!g) {
		COUNT(nic, rx_no_group);
		trace_add(nic, p->dest_qpn, NIC_TR_drop, p->psn, NIC_CNT_rx_no_group);
		return;
	}
	COUNT(nic, rx_multicast);
	for (uint32_t i = 0; i < g->n; i++)
		copy_to(g->qps[i], p);
}
