/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pd.c - protection domains, parent domains, thread domains (IBTA 10.2.3, 11.2.1). A parent domain shares the NIC
 * object of its protection domain, so objects created on either of the two work together. With a thread domain the
 * application promises to serialise its calls; no code relies on this promise yet.
 */
#include "child.h"
#include "shim.h"

static struct shim_pd *pd_of(struct ibv_pd *pd)
{
	return container_of(pd, struct shim_pd, ibv);
}

SHIM_EXPORT struct ibv_pd *ibv_alloc_pd(struct ibv_context *context)
{
	if (!shim_is_ours(context))
		return shim_real(ibv_alloc_pd)(context);

	struct shim_context *ctx = shim_ctx(shim_context_here(context));
	struct shim_pd *pd = calloc(1, sizeof(*pd));
	int err;

	if (!pd)
		return shim_fail(ENOMEM);
	if (!shim_enter(ctx)) {
		free(pd);
		return shim_fail(EIO);
	}
	err = nic_pd_alloc(ctx->nic, &pd->nic);
	if (!err)
		shim_object_add(ctx, SHIM_PD, &pd->link);
	shim_leave(ctx);
	if (err) {
		free(pd);
		return shim_fail(-err);
	}
	pd->ibv.context = &ctx->vctx.context;
	pd->ibv.handle = pd->link.handle;
	return &pd->ibv;
}

bool shim_pd_intact(struct ibv_pd *ibv)
{
	const struct shim_pd *pd = pd_of(ibv), *base = pd->parent ? pd->parent : pd;

	return SHIM_INTACT(pd) && (!base->imported || shim_import_is_alive(base));
}

/** Decrement the count of the PD's users (objects and parent domains). The last user of an unimported PD frees it. */
static void release(struct shim_pd *pd)
{
	if (atomic_fetch_sub(&pd->users, 1) == 1 && pd->unimported)
		free(pd);
}

static int parent_domain_free(struct shim_pd *pd)
{
	release(pd->parent);
	if (pd->td)
		atomic_fetch_sub(&pd->td->users, 1);
	atomic_fetch_sub(&shim_ctx(pd->ibv.context)->objects, 1);
	free(pd);
	return 0;
}

SHIM_EXPORT int ibv_dealloc_pd(struct ibv_pd *ibv)
{
	if (!shim_is_ours(ibv->context))
		return shim_real(ibv_dealloc_pd)(ibv);

	struct shim_pd *pd = pd_of(ibv);
	struct shim_context *ctx = shim_ctx(ibv->context);
	int err;

	if (!SHIM_INTACT(pd))
		return shim_errno(-ENOENT);
	if (atomic_load(&pd->users))
		return shim_errno(-EBUSY);
	if (pd->parent)
		return parent_domain_free(pd);
	if (pd->imported) {
		ibv_unimport_pd(ibv);
		return 0;
	}
	if (!shim_enter(ctx))
		return EIO;
	err = nic_pd_free(pd->nic);
	if (!err)
		shim_object_remove(ctx, &pd->link);
	shim_leave(ctx);
	if (err)
		return shim_errno(err);
	free(pd);
	return 0;
}

void shim_pd_get(struct ibv_pd *ibv)
{
	if (pd_of(ibv)->parent || pd_of(ibv)->imported)
		atomic_fetch_add(&pd_of(ibv)->users, 1);
}

void shim_pd_put(struct ibv_pd *ibv)
{
	if (pd_of(ibv)->parent || pd_of(ibv)->imported)
		release(pd_of(ibv));
}

struct ibv_td *shim_alloc_td(struct ibv_context *context, struct ibv_td_init_attr *attr)
{
	struct shim_td *td;

	if (attr->comp_mask)
		return shim_fail(EINVAL);
	context = shim_context_here(context);
	if (!shim_alive(shim_ctx(context)))
		return shim_fail(EIO);
	td = calloc(1, sizeof(*td));
	if (!td)
		return shim_fail(ENOMEM);
	td->ibv.context = context;
	atomic_fetch_add(&shim_ctx(context)->objects, 1);
	return &td->ibv;
}

int shim_dealloc_td(struct ibv_td *ibv)
{
	struct shim_td *td = container_of(ibv, struct shim_td, ibv);

	if (atomic_load(&td->users))
		return EBUSY;
	atomic_fetch_sub(&shim_ctx(ibv->context)->objects, 1);
	free(td);
	return 0;
}

#define UNPROTECTED_ALLOC (1u << 2) /* IBV_PARENT_DOMAIN_INIT_ATTR_ALLOW_CC_UNPROTECTED_ALLOC, in newer verbs.h */

/* The application's allocators for queues are accepted and ignored: a provider need not use them. UNPROTECTED_ALLOC is
 * ignored too: it permits, but does not require, memory that confidential computing leaves unprotected. */
struct ibv_pd *shim_alloc_parent_domain(struct ibv_context *context, struct ibv_parent_domain_init_attr *attr)
{
	const uint32_t known =
		IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT | UNPROTECTED_ALLOC;
	struct shim_pd *pd, *parent;

	context = shim_context_here(context);
	if (!shim_alive(shim_ctx(context)))
		return shim_fail(EIO);
	if (!attr->pd || attr->comp_mask & ~known || attr->pd->context != context ||
	    (attr->td && attr->td->context != context))
		return shim_fail(EINVAL);
	if (!shim_pd_intact(attr->pd))
		return shim_fail(ENOENT);
	pd = calloc(1, sizeof(*pd));
	if (!pd)
		return shim_fail(ENOMEM);
	parent = pd_of(attr->pd);
	if (parent->parent)
		parent = parent->parent;
	pd->ibv.context = context;
	pd->nic = parent->nic;
	pd->parent = parent;
	atomic_fetch_add(&parent->users, 1);
	if (attr->td) {
		pd->td = container_of(attr->td, struct shim_td, ibv);
		atomic_fetch_add(&pd->td->users, 1);
	}
	shim_link_name(shim_ctx(context), &pd->link);
	pd->ibv.handle = pd->link.handle;
	atomic_fetch_add(&shim_ctx(context)->objects, 1);
	return &pd->ibv;
}
