/* SPDX-License-Identifier: BSD-3-Clause */
/* xrc.c - XRC domains and the numbers of their SRQs; see xrc.h. */
#include "xrc.h"

#include "cq.h"
#include "mem.h"
#include "nic_xrc.h"
#include "rq.h"

int nic_xrcd_alloc(struct nic *nic, struct nic_xrcd **out)
{
	struct nic_xrcd *xrcd = calloc(1, sizeof(*xrcd));

	if (!xrcd)
		return -ENOMEM;
	xrcd->nic = nic;
	list_append(&nic->all_xrcds, &xrcd->node);
	*out = xrcd;
	return 0;
}

int nic_xrcd_free(struct nic_xrcd *xrcd)
{
	if (xrcd->sharing)
		xrcd->sharing->leave(xrcd);
	if (xrcd->users)
		return -EBUSY;
	list_remove(&xrcd->node);
	free(xrcd);
	return 0;
}

/* Choose an SRQ number as QPNs are chosen: at random, so that nobody can guess it (SE-01), from the range of QPNs. */
static uint32_t pick_num(struct nic *nic)
{
	uint32_t num, mask = (1u << nic->cfg.qpn_bits) - 1;

	do {
		nic->cfg.random(nic->cfg.ctx, &num, sizeof(num));
		num = nic->cfg.qpn_base | (num & mask);
	} while (!num || table_find(&nic->xrc_srqs, num));
	return num;
}

int nic_srq_create_xrc(struct nic_pd *pd, struct nic_xrcd *xrcd, struct nic_cq *cq, uint32_t max_wr, uint32_t max_sge,
		       uint32_t limit, void *user, struct nic_srq **out)
{
	struct nic *nic = pd->nic;
	uint32_t num;
	int err;

	if (nic->xrc_srqs.count >= 1u << (nic->cfg.qpn_bits - 1))
		return -ENOMEM; /* too few free numbers to find one by chance */
	err = nic_srq_create(pd, max_wr, max_sge, limit, user, out);
	if (err)
		return err;
	num = pick_num(nic);
	if (!table_insert(&nic->xrc_srqs, num, *out)) {
		nic_srq_destroy(*out);
		return -ENOMEM;
	}
	(*out)->num = num;
	(*out)->xrcd = xrcd;
	(*out)->cq = cq;
	xrcd->users++;
	cq->users++;
	return 0;
}

void xrc_srq_leave(struct nic_srq *srq)
{
	table_remove(&srq->pd->nic->xrc_srqs, srq->num);
	srq->xrcd->users--;
	srq->cq->users--;
}

struct nic_srq *xrc_srq(const struct nic_xrcd *xrcd, uint32_t num)
{
	struct nic_srq *srq = table_find(&xrcd->nic->xrc_srqs, num);

	return srq && srq->xrcd == xrcd ? srq : NULL;
}

uint32_t nic_srq_num(const struct nic_srq *srq)
{
	return srq->num;
}
