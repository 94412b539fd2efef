/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shared.c - endpoints that share transmit and receive contexts.
 */
#include "fabric.h"

/** An endpoint that uses shared contexts. It has CQs of its own, and is in the pair's domain and address vector. */
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

/* Send a message that stays under way until the peer receives it. */
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
	/* This endpoint's info does not ask for a shared context. */
	WANT(fi_ep_bind(plain, &stx->fid, 0), -FI_EINVAL);
	WANT_OK(fi_close(&plain->fid));
	WANT(fi_close(&stx->fid), -FI_EBUSY);
	/* Binding the shared context to a.ep, which already sends with a context and CQ of its own, has no effect. */
	WANT_OK(fi_ep_bind(p->a.ep, &stx->fid, 0));
	WANT(fi_ep_bind(p->a.ep, &stx->fid, FI_TRANSMIT), -FI_EINVAL);
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
	/* The shared transmit context has room for two requests, which are under way: neither endpoint can post a
	 * third. */
	WANT_OK(send_slowly(p, &one, 11));
	WANT_OK(send_slowly(p, &two, 12));
	WANT(send_slowly(p, &one, 13), -FI_EAGAIN);
	WANT(fi_inject(two.ep, p->here, 8, p->b.addr), -FI_EAGAIN);
	receive(p, 12);
	await(p, two.tx);
	WANT(p->done.op_context == &two, 1);
	/* A request with an invalid address takes no room. */
	WANT(fi_tsend(two.ep, p->here, 8, NULL, 9999, 13, NULL), -FI_EINVAL);
	WANT_OK(send_slowly(p, &two, 13));
	WANT(send_slowly(p, &two, 14), -FI_EAGAIN);
	/* When an endpoint closes, its request's room becomes available to other endpoints. */
	sharer_close(p, &one);
	WANT_OK(send_slowly(p, &two, 14));
	receive(p, 14);
	await(p, two.tx);
	receive(p, 13);
	await(p, two.tx);
	receive(p, 11); /* this message had left before its endpoint closed */
	sharer_close(p, &two);
	WANT_OK(fi_close(&stx->fid)); /* works although p->a has bound the context: that bind had no effect */
	fi_freeinfo(info);
}

/* ---- receives -------------------------------------------------------------------------------------------- */

/** A shared receive context and two endpoints that use it. */
struct sharers {
	struct fi_info *info;
	struct fid_ep *srx;
	struct sharer one, two;
};

static bool sharers_open(struct pair *p, struct sharers *s)
{
	struct fi_rx_attr attr = {.size = 4};

	s->info = fi_dupinfo(p->info);
	s->info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
	s->info->caps &= ~FI_DIRECTED_RECV;
	WANT_OK(fi_srx_context(p->domain, &attr, &s->srx, NULL));
	if (failures || !sharer_open(p, s->info, &s->one) || !sharer_open(p, s->info, &s->two))
		return false;
	WANT(fi_enable(s->one.ep), -FI_EOPBADSTATE);
	WANT_OK(fi_ep_bind(s->one.ep, &s->srx->fid, 0));
	WANT_OK(fi_ep_bind(s->two.ep, &s->srx->fid, 0));
	sharer_enable(p, &s->one);
	sharer_enable(p, &s->two);
	return failures == 0;
}

static void sharers_close(struct sharers *s)
{
	WANT_OK(fi_close(&s->srx->fid));
	fi_freeinfo(s->info);
}

static void srx_messages(struct pair *p, struct sharers *s)
{
	char buf[3][8] = {"", "", ""};

	for (int i = 0; i < 2; i++)
		WANT_OK(fi_recv(s->srx, buf[i], sizeof(buf[i]), NULL, FI_ADDR_UNSPEC, buf[i]));
	WANT_OK(fi_inject(p->a.ep, "two", 4, s->two.addr));
	await(p, s->two.rx);
	WANT(p->done.op_context == buf[0], 1);
	WANT(p->done.flags, FI_MSG | FI_RECV);
	WANT(p->source, p->a.addr);
	WANT(strcmp(buf[0], "two"), 0);
	WANT_OK(fi_inject(p->a.ep, "one", 4, s->one.addr));
	await(p, s->one.rx);
	WANT(p->done.op_context == buf[1], 1);
	WANT(strcmp(buf[1], "one"), 0);
	/* A message that arrives before its receive waits for the receive. The two endpoints also send messages to each
	 * other. */
	WANT_OK(fi_tinject(s->two.ep, "tag", 4, s->one.addr, 5));
	WANT_OK(fi_trecv(s->srx, buf[2], sizeof(buf[2]), NULL, FI_ADDR_UNSPEC, 4, 1, buf[2]));
	await(p, s->one.rx);
	WANT(p->done.tag, 5);
	WANT(p->source, s->two.addr);
	WANT(strcmp(buf[2], "tag"), 0);
	/* A long message is received through the shared context. */
	WANT_OK(fi_recv(s->srx, p->there, LONG_LEN, NULL, FI_ADDR_UNSPEC, NULL));
	WANT_OK(fi_send(p->a.ep, p->here, LONG_LEN, NULL, s->two.addr, NULL));
	await(p, s->two.rx);
	WANT(memcmp(p->here, p->there, LONG_LEN), 0);
	await(p, p->a.tx);
}

/* A tagged atomic whose target is the buffer of a receive posted on the shared context. */
static void srx_atomic(struct pair *p, struct sharers *s)
{
	uint64_t operand = 7, *there = (uint64_t *)p->there;
	struct fi_ioc from = {.addr = &operand, .count = 1};
	struct fi_rma_ioc target = {.addr = 8, .count = 1, .key = 77};
	const struct fi_msg_atomic msg = {.msg_iov = &from,
					  .iov_count = 1,
					  .addr = s->two.addr,
					  .rma_iov = &target,
					  .rma_iov_count = 1,
					  .datatype = FI_UINT64,
					  .op = FI_SUM};

	there[1] = 100;
	WANT_OK(fi_atomicmsg(p->a.ep, &msg, FI_TAGGED | FI_COMPLETION));
	WANT_OK(fi_trecv(s->srx, there, 16, NULL, FI_ADDR_UNSPEC, 77, 0, s));
	await(p, p->a.tx);
	await(p, s->two.rx);
	WANT(p->done.flags, FI_TAGGED | FI_RECV | FI_ATOMIC);
	WANT(p->done.op_context == s, 1);
	WANT(there[1], 107);
}

static void srx_multi(struct pair *p, struct sharers *s)
{
	struct iovec iov = {.iov_base = p->there, .iov_len = 128};
	struct fi_msg msg = {.msg_iov = &iov, .iov_count = 1, .addr = FI_ADDR_UNSPEC, .context = s};
	size_t least = 40;

	WANT_OK(fi_setopt(&s->srx->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &least, sizeof(least)));
	WANT_OK(fi_recvmsg(s->srx, &msg, FI_MULTI_RECV));
	for (int i = 0; i < 2; i++) {
		WANT_OK(fi_inject(p->a.ep, p->here, 50, i ? s->two.addr : s->one.addr));
		await(p, i ? s->two.rx : s->one.rx);
		WANT(p->done.op_context == s, 1);
		WANT((char *)p->done.buf - p->there, i * 50);
		WANT((p->done.flags & FI_MULTI_RECV) != 0, i);
	}
}

/* When a shared receive is canceled, or a peek finds no message, the CQ of s->one reports that: this endpoint was bound
 * to the context before s->two. */
static void srx_without_message(struct pair *p, struct sharers *s)
{
	struct iovec iov = {.iov_base = p->there, .iov_len = 100};
	struct fi_msg_tagged msg = {.addr = FI_ADDR_UNSPEC, .tag = 9, .context = s, .msg_iov = &iov};

	WANT_OK(fi_trecv(s->srx, p->there, 8, NULL, FI_ADDR_UNSPEC, 9, 0, s));
	WANT_OK(fi_cancel(&s->srx->fid, s));
	await_error(p, s->one.rx, FI_ECANCELED);
	WANT(p->error.op_context == s, 1);
	WANT(fi_cancel(&s->srx->fid, s), -FI_ENOENT);
	WANT_OK(fi_trecvmsg(s->srx, &msg, FI_PEEK));
	await_error(p, s->one.rx, FI_ENOMSG);
	WANT_OK(fi_tinject(p->a.ep, "claimed", 8, s->two.addr, 9));
	/* This message is sent later, but over another connection: it may arrive before the one to be claimed. */
	WANT_OK(fi_tsend(p->a.ep, "x", 1, NULL, s->one.addr, 10, NULL));
	await(p, p->a.tx);
	do {
		WANT_OK(fi_trecvmsg(s->srx, &msg, FI_PEEK | FI_CLAIM));
	} while (fi_cq_read(s->one.rx, &p->done, 1) == -FI_EAVAIL && fi_cq_readerr(s->one.rx, &p->error, 0) == 1);
	await(p, s->two.rx);
	WANT(p->done.len, 8);
	msg.iov_count = 1;
	WANT_OK(fi_trecvmsg(s->srx, &msg, FI_CLAIM));
	await(p, s->two.rx);
	WANT(strcmp(p->there, "claimed"), 0);
}

void case_shared_receive(struct pair *p)
{
	struct sharers s;

	if (!sharers_open(p, &s))
		return;
	srx_messages(p, &s);
	srx_atomic(p, &s);
	srx_multi(p, &s);
	srx_without_message(p, &s);
	/* When one of the endpoints closes, the other one uses the remaining receive. */
	WANT_OK(fi_recv(s.srx, p->there, 8, NULL, FI_ADDR_UNSPEC, NULL));
	sharer_close(p, &s.one);
	WANT_OK(fi_inject(p->a.ep, "left", 5, s.two.addr));
	await(p, s.two.rx);
	WANT(strcmp(p->there, "left"), 0);
	sharer_close(p, &s.two);
	sharers_close(&s);
}

void case_shared_receive_mistakes(struct pair *p)
{
	struct fi_rx_attr huge = {.size = 1u << 30}, directed = {.caps = FI_MSG | FI_RECV | FI_DIRECTED_RECV};
	struct fid_ep *other, *plain;
	struct sharers s;
	char buf[8];

	WANT(fi_srx_context(p->domain, &huge, &other, NULL), -FI_EINVAL);
	WANT(fi_srx_context(p->domain, &directed, &other, NULL), -FI_EINVAL);
	if (!sharers_open(p, &s))
		return;
	WANT(fi_close(&s.srx->fid), -FI_EBUSY);
	WANT(fi_recv(s.one.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, NULL), -FI_EOPNOTSUPP);
	WANT(fi_cancel(&s.one.ep->fid, buf), -FI_ENOENT);
	WANT(fi_send(s.srx, buf, sizeof(buf), NULL, p->a.addr, NULL), -FI_EOPNOTSUPP);
	WANT(fi_read(s.srx, buf, sizeof(buf), NULL, p->a.addr, p->base, p->key, NULL), -FI_EOPNOTSUPP);
	WANT(fi_recv(s.srx, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, NULL), 0);
	for (int i = 1; i < 4; i++)
		WANT_OK(fi_recv(s.srx, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, NULL));
	/* The shared context has room for four receives. */
	WANT(fi_recv(s.srx, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, NULL), -FI_EAGAIN);
	WANT_OK(fi_endpoint(p->domain, p->info, &plain, NULL));
	/* This endpoint's info does not ask for a shared context. */
	WANT(fi_ep_bind(plain, &s.srx->fid, 0), -FI_EINVAL);
	WANT_OK(fi_close(&plain->fid));
	s.info->caps |= FI_DIRECTED_RECV;
	WANT(fi_endpoint(p->domain, s.info, &plain, NULL), -FI_EINVAL);
	sharer_close(p, &s.one);
	sharer_close(p, &s.two);
	sharers_close(&s);
}
