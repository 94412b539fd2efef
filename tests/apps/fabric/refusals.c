/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * refusals.c - wrong arguments, and calls that concern neither messages nor memory.
 */
#include <netinet/in.h>

#include "fabric.h"

/* The flag's name changed from FI_XPU_TRIGGER to FI_XPU, and libfabric 2 has neither: the bit. */
#undef FI_XPU
#define FI_XPU (1ull << 44)

void case_refusals(struct pair *p)
{
	struct iovec iov[5] = {{p->here, 1}, {p->here, 1}, {p->here, 1}, {p->here, 1}, {p->here, 1}};
	struct fi_msg_tagged msg = {.msg_iov = iov, .iov_count = 1, .addr = p->b.addr};
	struct fi_atomic_attr attr;
	struct fid_mr *mr;
	size_t count;

	WANT(fi_send(p->a.ep, p->here, 1, NULL, 999, NULL), -FI_EINVAL);
	WANT(fi_send(p->a.ep, p->here, 1, NULL, FI_ADDR_UNSPEC, NULL), -FI_EINVAL);
	WANT(fi_sendv(p->a.ep, iov, NULL, 5, p->b.addr, NULL), -FI_EINVAL);
	WANT(fi_inject(p->a.ep, p->here, p->info->tx_attr->inject_size + 1, p->b.addr), -FI_EMSGSIZE);
	WANT(fi_send(p->a.ep, p->here, p->info->ep_attr->max_msg_size + 1, NULL, p->b.addr, NULL), -FI_EMSGSIZE);
	WANT(fi_tsendmsg(p->a.ep, &msg, FI_PEEK), -FI_EBADFLAGS);
	WANT(fi_trecvmsg(p->a.ep, &msg, FI_DISCARD), -FI_EBADFLAGS);
	WANT(fi_write(p->a.ep, p->here, 1, NULL, p->b.addr, p->base, UINT64_C(1) << 32, NULL), -FI_EINVAL);
	WANT(fi_atomic(p->a.ep, p->here, 0, NULL, p->b.addr, p->base, p->key, FI_INT8, FI_SUM, NULL), -FI_EINVAL);
	WANT(fi_atomic(p->a.ep, p->here, 1, NULL, p->b.addr, p->base, p->key, FI_FLOAT, FI_BOR, NULL), -FI_EOPNOTSUPP);
	WANT_OK(fi_atomicvalid(p->a.ep, FI_UINT64, FI_SUM, &count));
	WANT(fi_atomic(p->a.ep, p->here, count + 1, NULL, p->b.addr, p->base, p->key, FI_UINT64, FI_SUM, NULL),
	     -FI_EINVAL);
	WANT(fi_query_atomic(p->domain, FI_UINT64, FI_SUM, &attr, FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC), -FI_EINVAL);
	WANT(fi_query_atomic(p->domain, FI_UINT64, FI_SUM, &attr, FI_MULTI_RECV), -FI_EBADFLAGS);
	WANT(fi_mr_reg(p->domain, (void *)8, 4096, FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL), -FI_EFAULT);
	WANT(fi_mr_reg(p->domain, p->here, 0, FI_REMOTE_WRITE, 0, 0, 0, &mr, NULL), -FI_EINVAL);
	WANT(fi_ep_bind(p->a.ep, &p->b.tx->fid, FI_TRANSMIT), -FI_EOPBADSTATE);
	WANT(fi_enable(p->a.ep), -FI_EOPBADSTATE);
	/* Refused requests have posted nothing, so none of them completes. */
	WANT(fi_cq_read(p->a.tx, &p->done, 1), -FI_EAGAIN);
	WANT(fi_cq_readerr(p->a.tx, &p->error, 0), -FI_EAGAIN);
}

/** An inserted address gets the lowest free index. Indices of removed addresses are free again, whatever the order of
 * removal. */
static void lowest_indices(struct pair *p, struct sockaddr_in *addr)
{
	fi_addr_t gone[] = {70, 3, 190, 5, 64}, at[6];
	const fi_addr_t expected[] = {3, 5, 64, 70, 190, 200};
	struct fid_av *table;

	WANT_OK(fi_av_open(p->domain, &(struct fi_av_attr){.type = FI_AV_TABLE}, &table, NULL));
	for (unsigned i = 0; i < 200; i++) {
		WANT(fi_av_insert(table, addr, 1, at, 0, NULL), 1);
		WANT(at[0], i);
	}
	WANT_OK(fi_av_remove(table, gone, 5, 0));
	for (unsigned i = 0; i < 6; i++) {
		WANT(fi_av_insert(table, addr, 1, &at[i], 0, NULL), 1);
		WANT(at[i], expected[i]);
	}
	WANT_OK(fi_close(&table->fid));
}

void case_address_vector(struct pair *p)
{
	struct sockaddr_in addrs[3], back;
	struct fid_av *table;
	fi_addr_t at[3];
	size_t len = sizeof(addrs[0]);
	int errors[3];
	char text[64];

	WANT_OK(fi_getname(&p->b.ep->fid, &addrs[0], &len));
	lowest_indices(p, &addrs[0]);
	memset(&addrs[1], 0, sizeof(addrs[1]));
	addrs[2] = addrs[0];
	WANT(fi_av_insert(p->av, addrs, 3, at, FI_SYNC_ERR, errors), 2);
	WANT(errors[0], 0);
	WANT(errors[1], FI_EINVAL);
	WANT(at[1], FI_ADDR_NOTAVAIL);
	WANT_OK(fi_av_open(p->domain, &(struct fi_av_attr){.type = FI_AV_TABLE}, &table, NULL));
	WANT(fi_av_insert(table, addrs, 3, NULL, 0, NULL), 2);
	len = sizeof(back);
	WANT(fi_av_lookup(table, 1, &back, &len), -FI_EINVAL); /* the slot of an invalid address stays empty */
	WANT_OK(fi_av_lookup(table, 2, &back, &len));
	WANT_OK(fi_close(&table->fid));
	len = sizeof(back);
	WANT_OK(fi_av_lookup(p->av, at[2], &back, &len));
	WANT(memcmp(&back, &addrs[0], sizeof(back)), 0);
	len = sizeof(text);
	WANT(strncmp(fi_av_straddr(p->av, addrs, text, &len), "fi_sockaddr_in://127.", 21), 0);
	/* An address is in the vector several times: the source of a message from it is the lowest of its remaining
	 * indices. */
	WANT_OK(fi_av_remove(p->av, &at[2], 1, 0));
	WANT(fi_send(p->a.ep, text, 1, NULL, at[2], NULL), -FI_EINVAL);
	WANT_OK(fi_av_remove(p->av, &p->b.addr, 1, 0));
	WANT(fi_av_remove(p->av, &p->b.addr, 1, 0), -FI_EINVAL);
	WANT_OK(fi_recv(p->a.ep, text, sizeof(text), NULL, FI_ADDR_UNSPEC, NULL));
	WANT_OK(fi_inject(p->b.ep, "x", 1, p->a.addr));
	await(p, p->a.rx);
	WANT(p->source, at[0]);
	p->b.addr = at[0];
}

void case_alias(struct pair *p)
{
	struct fid_ep *alias = NULL;
	char buf[8];

	WANT_OK(fi_ep_alias(p->a.ep, &alias, FI_TRANSMIT | FI_DELIVERY_COMPLETE));
	if (!alias)
		return;
	WANT(fi_close(&p->a.ep->fid), -FI_EBUSY);
	WANT_OK(fi_send(alias, "x", 1, NULL, p->b.addr, NULL));
	/* FI_DELIVERY_COMPLETE: no completion yet, because end b has not received the message. */
	WANT(fi_cq_sread(p->a.tx, &p->done, 1, NULL, 50), -FI_EAGAIN);
	WANT_OK(fi_recv(p->b.ep, buf, sizeof(buf), NULL, FI_ADDR_UNSPEC, NULL));
	await(p, p->b.rx);
	await(p, p->a.tx);
	WANT_OK(fi_close(&alias->fid));
}

/* fi_getinfo and fi_endpoint with FI_TRIGGER in op_flags, with and without the FI_TRIGGER capability. */
static void triggered_by_default(void)
{
	struct fi_info *hints = fi_allocinfo(), *info;

	hints->fabric_attr->prov_name = strdup("uroce");
	hints->caps = FI_MSG | FI_TRIGGER;
	hints->tx_attr->op_flags = hints->rx_attr->op_flags = FI_TRIGGER;
	WANT_OK(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info));
	WANT(info->tx_attr->op_flags & info->rx_attr->op_flags & FI_TRIGGER, FI_TRIGGER);
	fi_freeinfo(info);
	hints->caps = FI_MSG | FI_TRIGGER | FI_XPU;
	WANT(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), -FI_ENODATA);
	hints->caps = FI_MSG;
	WANT(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), -FI_ENODATA);
	fi_freeinfo(hints);
}

static int getinfo(uint64_t caps, int mr_mode, uint64_t order, struct fi_info **info)
{
	struct fi_info *hints = fi_allocinfo();
	int rc;

	hints->fabric_attr->prov_name = strdup("uroce");
	hints->caps = caps;
	hints->domain_attr->mr_mode = mr_mode;
	hints->tx_attr->msg_order = order;
	rc = fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, info);
	fi_freeinfo(hints);
	return rc;
}

/* Register memory in a domain in which the program chooses the keys. */
static void own_keys(struct pair *p, struct fi_info *info)
{
	struct fid_domain *domain;
	struct fid_mr *one, *two;

	WANT_OK(fi_domain(p->fabric, info, &domain, NULL));
	WANT(fi_mr_reg(domain, p->here, 64, FI_REMOTE_WRITE, 0, UINT64_C(1) << 32, 0, &one, NULL), -FI_EKEYREJECTED);
	WANT_OK(fi_mr_reg(domain, p->here, 64, FI_REMOTE_WRITE, 0, UINT32_MAX, 0, &one, NULL));
	WANT(fi_mr_key(one), UINT32_MAX);
	WANT(fi_mr_reg(domain, p->here, 64, FI_REMOTE_WRITE, 0, UINT32_MAX, 0, &two, NULL), -FI_ENOKEY);
	WANT_OK(fi_close(&one->fid));
	WANT_OK(fi_close(&domain->fid));
}

/* Check which mr_mode the provider returns for each requested mr_mode. */
static void registration(struct pair *p)
{
	const int basic = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	const struct {
		int wanted, got;
	} modes[] = {
		{basic, basic},
		{basic | FI_MR_LOCAL, basic},
		{FI_MR_PROV_KEY, FI_MR_PROV_KEY},
		{FI_MR_LOCAL, 0},
		{FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_LOCAL, 0},
		{basic | FI_MR_ENDPOINT, basic},
		{basic | FI_MR_LOCAL | FI_MR_ENDPOINT, 0},
		{basic | FI_MR_RAW, 0},
		{1 << 0, 1 << 0}, /* FI_MR_BASIC and FI_MR_SCALABLE of API 1.4 */
		{1 << 1, 1 << 1},
	};
	struct fi_info *info;

	for (size_t i = 0; i < sizeof(modes) / sizeof(modes[0]); i++) {
		WANT_OK(getinfo(FI_RMA, modes[i].wanted, 0, &info));
		WANT(info->domain_attr->mr_mode, modes[i].got);
		if (modes[i].got == 0)
			own_keys(p, info);
		fi_freeinfo(info);
	}
}

/** Without the provider's thread, progress is manual. Hints that ask for automatic progress then find no provider. */
static void progress_hints(struct pair *p, bool manual)
{
	struct fi_info *hints = fi_dupinfo(p->info), *info = NULL;
	enum fi_progress is = manual ? FI_PROGRESS_MANUAL : FI_PROGRESS_AUTO;

	WANT(p->info->domain_attr->data_progress, is);
	WANT(p->info->domain_attr->control_progress, is);
	hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
	WANT(fi_getinfo(FI_VERSION(1, 17), NULL, NULL, 0, hints, &info), manual ? -FI_ENODATA : 0);
	fi_freeinfo(info);
	fi_freeinfo(hints);
}

void case_hints(struct pair *p)
{
	struct fi_info *info;

	WANT_OK(getinfo(FI_TAGGED, 0, FI_ORDER_SAS, &info));
	WANT(info->domain_attr->mr_mode, 0);
	WANT(info->caps & (FI_MSG | FI_RMA | FI_SEND | FI_RECV), FI_SEND | FI_RECV);
	WANT(info->tx_attr->msg_order & FI_ORDER_SAR, 0);
	fi_freeinfo(info);
	WANT_OK(getinfo(FI_RMA, FI_MR_PROV_KEY, FI_ORDER_WAR, &info));
	WANT(info->domain_attr->mr_mode, FI_MR_PROV_KEY);
	WANT(info->tx_attr->msg_order & FI_ORDER_WAR, FI_ORDER_WAR);
	fi_freeinfo(info);
	WANT_OK(getinfo(FI_RMA, 0, 0, &info));
	WANT(info->domain_attr->mr_mode, 0);
	fi_freeinfo(info);
	WANT(getinfo(FI_MSG | FI_MULTICAST, 0, 0, &info), -FI_ENODATA);
	registration(p);
	triggered_by_default();
	progress_hints(p, getenv("UROCE_PROGRESS") && strcmp(getenv("UROCE_PROGRESS"), "inline") == 0);
}
