/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * object.c - tracks the NIC objects of each context. Closing a context destroys the objects that the program has not
 * destroyed: other contexts can keep the NIC running, and peers must not be able to access a leaked region. The lists
 * are changed with the engine lock held.
 */
#include "dmabuf.h"
#include "shim.h"
#include "xrc.h"

/* Handles are unique in the process, because contexts that share a cmd_fd find each other's objects by handle. */
void shim_link_name(struct shim_context *ctx, struct shim_link *link)
{
	static atomic_uint next;

	link->ctx = ctx;
	link->handle = atomic_fetch_add_explicit(&next, 1, memory_order_relaxed);
}

void shim_object_add(struct shim_context *ctx, enum shim_kind kind, struct shim_link *link)
{
	link->next = ctx->links[kind];
	link->at = &ctx->links[kind];
	if (link->next)
		link->next->at = &link->next;
	ctx->links[kind] = link;
	shim_link_name(ctx, link);
	atomic_fetch_add(&ctx->objects, 1);
}

void shim_object_remove(struct shim_context *ctx, struct shim_link *link)
{
	*link->at = link->next;
	if (link->next)
		link->next->at = link->at;
	atomic_fetch_sub(&ctx->objects, 1);
}

static void drop_qp(struct shim_link *link)
{
	struct shim_qp *qp = container_of(link, struct shim_qp, link);

	if (qp->remote_qpn)
		shim_remote_leave(qp, false);
	if (qp->remote_qpn || shim_target_leave(qp))
		return;
	pmd_mcast_leave(shim_ctx(qp->ibv.context)->engine, qp->nic);
	nic_qp_destroy(qp->nic);
}

static void drop_srq(struct shim_link *link)
{
	nic_srq_destroy(container_of(link, struct shim_srq, link)->nic);
}

static void drop_xrcd(struct shim_link *link)
{
	shim_xrcd_drop(container_of(link, struct shim_xrcd, link));
}

static void drop_cq(struct shim_link *link)
{
	nic_cq_destroy(container_of(link, struct shim_cq, link)->nic);
}

static void drop_ah(struct shim_link *link)
{
	nic_ah_destroy(container_of(link, struct shim_ah, link)->nic);
}

static void drop_mw(struct shim_link *link)
{
	nic_mw_dealloc(container_of(link, struct shim_mw, link)->nic);
}

static void drop_mr(struct shim_link *link)
{
	struct shim_mr *mr = container_of(link, struct shim_mr, link);

	nic_mr_dereg(mr->nic);
	shim_dmabuf_unmap(mr);
	if (mr->dm)
		atomic_fetch_sub(&mr->dm->users, 1);
}

static void drop_pd(struct shim_link *link)
{
	nic_pd_free(container_of(link, struct shim_pd, link)->nic);
}

/* Mark device memory as no longer in the context's list. Its memory stays until the program frees it (dm.c). */
static void drop_dm(struct shim_link *link)
{
	link->at = NULL;
}

void shim_objects_drop(struct shim_context *ctx)
{
	/* Kinds are destroyed in the order of enum shim_kind: each object after the objects that use it. */
	static void (*const drop[SHIM_KINDS])(struct shim_link *) = {
		[SHIM_QP] = drop_qp, [SHIM_SRQ] = drop_srq, [SHIM_XRCD] = drop_xrcd,
		[SHIM_CQ] = drop_cq, [SHIM_AH] = drop_ah,   [SHIM_MW] = drop_mw,
		[SHIM_MR] = drop_mr, [SHIM_DM] = drop_dm,   [SHIM_PD] = drop_pd,
	};

	for (int kind = 0; kind < SHIM_KINDS; kind++)
		for (struct shim_link *link = ctx->links[kind]; link; link = link->next)
			drop[kind](link);
}
