/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stx.c - shared transmit contexts (fi_endpoint(3)): several endpoints share one limit on their requests in flight.
 * A shared context does not change how requests are posted and how they complete.
 */
#include "endpoint.h"
#include "provider.h"

static int stx_close(struct fid *fid)
{
	struct ufi_stx *stx = container_of(fid, struct ufi_stx, stx.fid);

	if (atomic_load(&stx->users))
		return -FI_EBUSY;
	atomic_fetch_sub(&stx->domain->users, 1);
	free(stx);
	return 0;
}

static struct fi_ops stx_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = stx_close,
	.bind = ufi_no_bind,
	.control = ufi_no_control,
	.ops_open = ufi_no_ops_open,
};

int ufi_stx_open(struct fid_domain *fid, struct fi_tx_attr *attr, struct fid_stx **out, void *context)
{
	struct ufi_domain *domain = container_of(fid, struct ufi_domain, domain);
	struct ufi_stx *stx;

	if (attr && (attr->size > UFI_QUEUE_MAX || attr->caps & ~UFI_TX_CAPS))
		return -FI_EINVAL;
	stx = calloc(1, sizeof(*stx));
	if (!stx)
		return -FI_ENOMEM;
	stx->domain = domain;
	stx->size = attr && attr->size ? attr->size : ufi_params.tx_size;
	stx->stx.fid.fclass = FI_CLASS_STX_CTX;
	stx->stx.fid.context = context;
	stx->stx.fid.ops = &stx_fid_ops;
	stx->stx.ops = &ufi_no_ep_ops; /* all operations but closing are unsupported */
	atomic_fetch_add(&domain->users, 1);
	*out = &stx->stx;
	return 0;
}

bool ufi_stx_take(struct ufi_core *core)
{
	struct ufi_stx *stx = core->stx;

	if (!stx)
		return true;
	if (stx->used == stx->size)
		return false;
	stx->used++;
	core->sent++;
	return true;
}

void ufi_stx_give(struct ufi_core *core, size_t n)
{
	if (!core->stx)
		return;
	core->stx->used -= n;
	core->sent -= n;
}
