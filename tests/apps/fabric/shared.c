/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shared.c - endpoints that share contexts.
 */
#include "fabric.h"

/** An endpoint that shares, with queues of its own, in the domain and address vector of the others. */
struct sharer {
	struct fid_ep *ep;
	struct fid_cq *tx, *rx;
	fi_addr_t addr;
};

static bool sharer_open(struct pair *p, const struct fi_info *info, struct sharer *s)
{
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_UNSPEC};

	memset(s, 0, sizeof(*s));
	WANT_OK(fi_cq_open(p->domain, &cq, &s->tx, NULL));
	WANT_OK(fi_cq_open(p->domain, &cq, &s->rx, NULL));
	WANT_OK(fi_endpoint(p->domain, (struct fi_info *)(uintptr_t)info, &s->ep, NULL));
	if (!s->ep)
		return false;
	WANT_OK(fi_ep_bind(s->ep, &p->av->fid, 0));
	WANT_OK(fi_ep_bind(s->ep, &s->tx->fid, FI_TRANSMIT));
	WANT_OK(fi_ep_bind(s->ep, &s->rx->fid, FI_RECV));
	return true;
}

static void sharer_enable(struct pair *p, struct sharer *s)
{
	char name[64];
	size_t len = sizeof(name);

	WANT_OK(fi_enable(s->ep));
	WANT_OK(fi_getname(&s->ep->fid, name, &len));
	WANT(fi_av_insert(p->av, name, 1, &s->addr, 0, NULL), 1);
}

static void sharer_close(struct pair *p, struct sharer *s)
{
	WANT_OK(fi_close(&s->ep->fid));
	WANT_OK(fi_close(&s->tx->fid));
	WANT_OK(fi_close(&s->rx->fid));
	WANT_OK(fi_av_remove(p->av, &s->addr, 1, 0));
}

/* A message that is under way until somebody receives it. */
static ssize_t send_slowly(struct pair *p, struct sharer *s, uint64_t tag)
{
	struct iovec iov = {.iov_base = p->here, .iov_len = 8};
	struct fi_msg_tagged msg = {.msg_iov = &iov, .iov_count = 1, .addr = p->b.addr, .tag = tag, .context = s};

	return fi_tsendmsg(s->ep, &msg, FI_DELIVERY_COMPLETE | FI_COMPLETION);
}

static void receive(struct pair *p, uint64_t tag)
{
	WANT_OK(fi_trecv(p->b.ep, p->there, 8, NULL, FI_ADDR_UNSPEC, tag, 0, NULL));
	await(p, p->b.rx);
}

static void stx_binding(struct pair *p, struct fid_stx *stx, struct sharer *s)
{
	struct fid_ep *plain;

	WANT(fi_enable(s->ep), -FI_EOPBADSTATE);
	WANT(fi_ep_bind(s->ep, &stx->fid, FI_TRANSMIT), -FI_EINVAL);
	WANT_OK(fi_ep_bind(s->ep, &stx->fid, 0));
	WANT(fi_ep_bind(s->ep, &stx->fid, 0), -FI_EINVAL);
	WANT_OK(fi_endpoint(p->domain, p->info, &plain, NULL));
	WANT(fi_ep_bind(plain, &stx->fid, 0), -FI_EINVAL); /* it has not asked for one */
	WANT_OK(fi_close(&plain->fid));
	WANT(fi_close(&stx->fid), -FI_EBUSY);
}

void case_shared_transmit(struct pair *p)
{
	struct fi_info *info = fi_dupinfo(p->info);
	struct fi_tx_attr attr = {.size = 2}, huge = {.size = 1u << 30};
	struct sharer one, two;
	struct fid_stx *stx;

	info->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
	WANT(fi_stx_context(p->domain, &huge, &stx, NULL), -FI_EINVAL);
	WANT_OK(fi_stx_context(p->domain, &attr, &stx, NULL));
	if (!sharer_open(p, info, &one) || !sharer_open(p, info, &two))
		return;
	stx_binding(p, stx, &one);
	WANT_OK(fi_ep_bind(two.ep, &stx->fid, 0));
	sharer_enable(p, &one);
	sharer_enable(p, &two);
	/* Two requests are under way: there is no place for a third, whose ever it is. */
	WANT_OK(send_slowly(p, &one, 11));
	WANT_OK(send_slowly(p, &two, 12));
	WANT(send_slowly(p, &one, 13), -FI_EAGAIN);
	WANT(fi_inject(two.ep, p->here, 8, p->b.addr), -FI_EAGAIN);
	receive(p, 12);
	await(p, two.tx);
	WANT(p->done.op_context == &two, 1);
	WANT(fi_tsend(two.ep, p->here, 8, NULL, 9999, 13, NULL), -FI_EINVAL); /* takes none */
	WANT_OK(send_slowly(p, &two, 13));
	WANT(send_slowly(p, &two, 14), -FI_EAGAIN);
	/* Who goes leaves his. */
	sharer_close(p, &one);
	WANT_OK(send_slowly(p, &two, 14));
	receive(p, 14);
	await(p, two.tx);
	receive(p, 13);
	await(p, two.tx);
	receive(p, 11); /* it had come */
	sharer_close(p, &two);
	WANT_OK(fi_close(&stx->fid));
	fi_freeinfo(info);
}
