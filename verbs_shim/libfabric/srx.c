/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * srx.c - shared receive contexts (fi_endpoint(3)): a queue of receives that several endpoints use. The code that posts
 * receives treats a context as an endpoint that can only post receives. A receive completes at the endpoint where its
 * message arrived. A receive that ends without a message completes at the first bound endpoint that has a completion
 * queue for receives.
 */
#include "work.h"

static struct ufi_srx *srx_of(struct fid *fid)
{
	return container_of(fid, struct ufi_srx, ep.ep.fid);
}

struct ufi_core *ufi_srx_reporter(struct ufi_srx *srx)
{
	struct ufi_core *core = srx->members;

	while (core && !core->rx_cq)
		core = core->next_of_srx;
	return core;
}

/* The nic_rdm_rq_init.done callback of the shared receive queue. */
static void srx_done(void *ctx, const struct nic_rdm_done *d)
{
	struct ufi_core *reporter = ufi_srx_reporter(ctx);
	struct ufi_work *work = ufi_work_of(d->cookie);

	if (reporter)
		ufi_done(reporter, d);
	else if (work)
		ufi_work_untold(work, d);
}

int ufi_srx_join(struct ufi_srx *srx, struct ufi_core *core)
{
	struct ufi_core **at = &srx->members;

	if (!ufi_enter(core->domain))
		return -FI_EIO;
	while (*at)
		at = &(*at)->next_of_srx;
	*at = core;
	core->srx = srx;
	ufi_leave(core->domain);
	atomic_fetch_add(&srx->users, 1);
	return 0;
}

void ufi_srx_leave(struct ufi_core *core)
{
	struct ufi_core **at = &core->srx->members;

	while (*at != core)
		at = &(*at)->next_of_srx;
	*at = core->next_of_srx;
}

bool ufi_srx_accepts(const struct ufi_srx *srx, const struct ufi_av *av)
{
	for (const struct ufi_core *core = srx->members; core; core = core->next_of_srx)
		if (core->rdm && core->av && core->av != av)
			return false;
	return true;
}

static int srx_close(struct fid *fid)
{
	struct ufi_srx *srx = srx_of(fid);
	struct ufi_domain *domain = srx->ep.own.domain;

	if (atomic_load(&srx->users))
		return -FI_EBUSY;
	if (ufi_enter(domain)) {
		ufi_work_stop(&srx->ep.own);
		nic_rdm_rq_destroy(srx->ep.own.rq);
		ufi_work_drop(&srx->ep.own);
		ufi_retry_work(domain);
		ufi_leave(domain);
	}
	atomic_fetch_sub(&domain->users, 1);
	free(srx);
	return 0;
}

/* FI_ENABLE does nothing: a context needs no enabling. */
static int srx_control(struct fid *fid, int command, void *arg)
{
	return command == FI_ENABLE ? 0 : -FI_ENOSYS;
}

static struct fi_ops srx_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = srx_close,
	.bind = ufi_no_bind,
	.control = srx_control,
	.ops_open = ufi_no_ops_open,
};

static int srx_create(struct ufi_srx *srx, const struct fi_rx_attr *attr)
{
	struct ufi_core *core = &srx->ep.own;
	struct nic_rdm_rq_init init = {
		.max_rx = (uint32_t)(attr && attr->size ? attr->size : ufi_params.rx_size),
		.max_unexpected = ufi_params.max_unexpected,
		.done = srx_done,
		.ctx = srx,
	};
	int rc;

	if (!ufi_enter(core->domain))
		return -FI_EIO;
	rc = nic_rdm_rq_create(core->domain->nic, &init, &core->rq);
	ufi_leave(core->domain);
	return rc;
}

/** Initialize the context's struct ufi_ep, an endpoint that can only post receives. */
static void srx_init(struct ufi_srx *srx, struct ufi_domain *domain, const struct fi_rx_attr *attr)
{
	uint64_t kinds = attr ? attr->caps & (FI_MSG | FI_TAGGED) : 0;

	srx->ep.core = &srx->ep.own;
	srx->ep.own.domain = domain;
	srx->ep.own.type = ufi_type_find(FI_EP_RDM);
	srx->ep.own.caps = FI_RECV | FI_TRIGGER | (kinds ? kinds : FI_MSG | FI_TAGGED);
	list_init(&srx->ep.own.works);
	list_init(&srx->ep.own.triggered);
	srx->ep.own.min_multi_recv = UFI_MIN_MULTI_RECV;
	/* Without FI_COMPLETION in a request, the receiving endpoint decides whether success is reported. */
	srx->ep.rx_op_flags = srx->ep.rx_flags = attr ? attr->op_flags : 0;
}

int ufi_srx_open(struct fid_domain *fid, struct fi_rx_attr *attr, struct fid_ep **out, void *context)
{
	struct ufi_domain *domain = container_of(fid, struct ufi_domain, domain);
	struct ufi_srx *srx;
	int rc;

	if (attr && (attr->size > UFI_QUEUE_MAX || attr->caps & ~(UFI_RX_CAPS & ~UFI_SRX_LACKS) ||
		     attr->op_flags & ~(UFI_RX_OP_FLAGS | FI_TRIGGER)))
		return -FI_EINVAL;
	srx = calloc(1, sizeof(*srx));
	if (!srx)
		return -FI_ENOMEM;
	srx_init(srx, domain, attr);
	rc = srx_create(srx, attr);
	if (rc) {
		free(srx);
		return rc;
	}
	srx->ep.ep.fid.fclass = FI_CLASS_SRX_CTX;
	srx->ep.ep.fid.context = context;
	srx->ep.ep.fid.ops = &srx_fid_ops;
	srx->ep.ep.ops = &ufi_ep_ops;
	srx->ep.ep.cm = &ufi_ep_cm_ops;
	srx->ep.ep.msg = &ufi_msg_ops;
	srx->ep.ep.rma = &ufi_rma_ops;
	srx->ep.ep.tagged = &ufi_tagged_ops;
	srx->ep.ep.atomic = &ufi_atomic_ops;
	atomic_fetch_add(&domain->users, 1);
	*out = &srx->ep.ep;
	return 0;
}
