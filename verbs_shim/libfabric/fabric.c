/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric.c - fabrics, which only group other objects; also the functions that stand for unsupported calls.
 */
#include "pep.h"
#include "endpoint.h"
#include "provider.h"

int ufi_no_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	return -FI_ENOSYS;
}

int ufi_no_control(struct fid *fid, int command, void *arg)
{
	return -FI_ENOSYS;
}

int ufi_no_ops_open(struct fid *fid, const char *name, uint64_t flags, void **ops, void *context)
{
	return -FI_ENOSYS;
}

static ssize_t no_cancel(fid_t fid, void *context)
{
	return -FI_ENOSYS;
}

static int no_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
	return -FI_ENOPROTOOPT;
}

static int no_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
	return -FI_ENOPROTOOPT;
}

int ufi_no_tx_ctx(struct fid_ep *sep, int index, struct fi_tx_attr *attr, struct fid_ep **tx_ep, void *context)
{
	return -FI_ENOSYS;
}

int ufi_no_rx_ctx(struct fid_ep *sep, int index, struct fi_rx_attr *attr, struct fid_ep **rx_ep, void *context)
{
	return -FI_ENOSYS;
}

ssize_t ufi_no_size_left(struct fid_ep *ep)
{
	return -FI_ENOSYS;
}

struct fi_ops_ep ufi_no_ep_ops = {
	.size = sizeof(struct fi_ops_ep),
	.cancel = no_cancel,
	.getopt = no_getopt,
	.setopt = no_setopt,
	.tx_ctx = ufi_no_tx_ctx,
	.rx_ctx = ufi_no_rx_ctx,
	.rx_size_left = ufi_no_size_left,
	.tx_size_left = ufi_no_size_left,
};

static int fabric_close(struct fid *fid)
{
	struct ufi_fabric *fabric = container_of(fid, struct ufi_fabric, fabric.fid);

	if (atomic_load(&fabric->users))
		return -FI_EBUSY;
	ufi_lock_fini(&fabric->lock);
	free(fabric);
	return 0;
}

void ufi_fabric_progress(struct ufi_fabric *fabric)
{
	ufi_lock(&fabric->lock);
	for (struct ufi_domain *domain = fabric->domains; domain; domain = domain->next)
		pmd_try_progress(domain->engine);
	for (struct ufi_pep *pep = fabric->peps; pep; pep = pep->next)
		pmd_try_progress(pep->engine);
	ufi_unlock(&fabric->lock);
}

bool ufi_fabric_moves(struct ufi_fabric *fabric)
{
	bool moves = false;

	ufi_lock(&fabric->lock);
	for (struct ufi_domain *domain = fabric->domains; domain && !moves; domain = domain->next)
		moves = pmd_has_moved(domain->engine);
	for (struct ufi_pep *pep = fabric->peps; pep && !moves; pep = pep->next)
		moves = pmd_has_moved(pep->engine);
	ufi_unlock(&fabric->lock);
	return moves;
}

int ufi_trywait(struct fid *fid)
{
	switch (fid->fclass) {
	case FI_CLASS_CQ:
		return ufi_cq_trywait(container_of(fid, struct ufi_cq, cq.fid));
	case FI_CLASS_CNTR:
		return ufi_cntr_trywait(container_of(fid, struct ufi_cntr, cntr.fid));
	case FI_CLASS_EQ:
		return ufi_eq_trywait(container_of(fid, struct ufi_eq, eq.fid));
	case FI_CLASS_WAIT:
		return ufi_waitset_trywait(ufi_waitset_of(fid));
	default:
		return -FI_EINVAL;
	}
}

static int fabric_trywait(struct fid_fabric *fabric, struct fid **fids, int count)
{
	int rc = 0;

	for (int i = 0; i < count && !rc; i++)
		rc = ufi_trywait(fids[i]);
	return rc;
}

static struct fi_ops fabric_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = fabric_close,
	.bind = ufi_no_bind,
	.control = ufi_no_control,
	.ops_open = ufi_no_ops_open,
};

static struct fi_ops_fabric fabric_ops = {
	.size = sizeof(struct fi_ops_fabric),
	.domain = ufi_domain_open,
	.passive_ep = ufi_pep_open,
	.eq_open = ufi_eq_open,
	.wait_open = ufi_waitset_open,
	.trywait = fabric_trywait,
};

int ufi_fabric_open(struct fi_fabric_attr *attr, struct fid_fabric **out, void *context)
{
	struct ufi_fabric *fabric = calloc(1, sizeof(*fabric));

	if (!fabric)
		return -FI_ENOMEM;
	ufi_lock_init(&fabric->lock);
	fabric->fabric.fid.fclass = FI_CLASS_FABRIC;
	fabric->fabric.fid.context = context;
	fabric->fabric.fid.ops = &fabric_fid_ops;
	fabric->fabric.ops = &fabric_ops;
	fabric->fabric.api_version = attr->api_version;
	*out = &fabric->fabric;
	return 0;
}
