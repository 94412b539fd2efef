/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mr.c - memory regions for RMA and atomics (fi_mr(3)). The key is the region's R_Key, 32 bits; the domain's mr_mode
 * says whether the NIC or the application chooses it. Local buffers need no registration; their descriptors are
 * accepted and ignored.
 */
#include "provider.h"

struct ufi_mr {
	struct fid_mr mr;
	struct ufi_domain *domain;
	struct nic_mr *nic;
	struct ufi_cntr *reads, *writes; /* count accesses by peers; NULL: not bound */
	struct ufi_mr *next_counted;
};

#define MR_ACCESS (FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE)

/* FI_REMOTE_WRITE also grants the NIC's REMOTE_ATOMIC right. Atomic operations need no other right. */
static uint32_t mr_rights(uint64_t access)
{
	uint32_t rights = 0;

	if (access & (FI_RECV | FI_READ | FI_REMOTE_WRITE))
		rights |= NIC_ACCESS_LOCAL_WRITE;
	if (access & FI_REMOTE_READ)
		rights |= NIC_ACCESS_REMOTE_READ;
	if (access & FI_REMOTE_WRITE)
		rights |= NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_ATOMIC;
	return rights;
}

/* ---- counting peers' accesses ---------------------------------------------------------------------------- */

void ufi_mr_served(const struct ufi_domain *domain, uint32_t rkey, bool read, bool write)
{
	for (struct ufi_mr *mr = domain->counted; mr; mr = mr->next_counted)
		if (nic_mr_rkey(mr->nic) == rkey)
			ufi_cntr_count_served(read ? mr->reads : NULL, write ? mr->writes : NULL);
}

static int mr_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct ufi_mr *mr = container_of(fid, struct ufi_mr, mr.fid);
	struct ufi_cntr *cntr;
	int rc = 0;

	if (bfid->fclass != FI_CLASS_CNTR || !flags || flags & ~(FI_REMOTE_READ | FI_REMOTE_WRITE))
		return -FI_EINVAL;
	cntr = container_of(bfid, struct ufi_cntr, cntr.fid);
	if (cntr->domain != mr->domain)
		return -FI_EDOMAIN;
	/* Refuse a counter that would never count: endpoints that peers access count the accesses only with
	 * FI_RMA_EVENT, and neither the domain nor any endpoint has requested FI_RMA_EVENT. */
	if (!atomic_load(&mr->domain->rma_event))
		return -FI_EOPNOTSUPP;
	if (!ufi_enter(mr->domain))
		return -FI_EIO;
	if ((flags & FI_REMOTE_READ && mr->reads) || (flags & FI_REMOTE_WRITE && mr->writes)) {
		rc = -FI_EINVAL;
	} else {
		if (!mr->reads && !mr->writes) {
			mr->next_counted = mr->domain->counted;
			mr->domain->counted = mr;
		}
		if (flags & FI_REMOTE_READ)
			mr->reads = cntr;
		if (flags & FI_REMOTE_WRITE)
			mr->writes = cntr;
		atomic_fetch_add(&cntr->users, (flags & FI_REMOTE_READ ? 1 : 0) + (flags & FI_REMOTE_WRITE ? 1 : 0));
	}
	ufi_leave(mr->domain);
	return rc;
}

/** Remove a region from the domain's list of regions with counters, and end its use of the counters. Engine lock
 * held. */
static void mr_unbind(struct ufi_mr *mr)
{
	struct ufi_mr **at = &mr->domain->counted;

	while (*at && *at != mr)
		at = &(*at)->next_counted;
	if (*at)
		*at = mr->next_counted;
	if (mr->reads)
		atomic_fetch_sub(&mr->reads->users, 1);
	if (mr->writes)
		atomic_fetch_sub(&mr->writes->users, 1);
}

/* ---- registering ----------------------------------------------------------------------------------------- */

static int mr_close(struct fid *fid)
{
	struct ufi_mr *mr = container_of(fid, struct ufi_mr, mr.fid);
	bool shared = ufi_enter(mr->domain);
	int rc = shared ? nic_mr_dereg(mr->nic) : 0;

	if (!rc)
		mr_unbind(mr);
	if (shared)
		ufi_leave(mr->domain);
	if (rc)
		return rc;
	atomic_fetch_sub(&mr->domain->users, 1);
	free(mr);
	return 0;
}

static struct fi_ops mr_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = mr_close,
	.bind = mr_bind,
	.control = ufi_no_control,
	.ops_open = ufi_no_ops_open,
};

static int mr_create(struct ufi_mr *mr, const struct iovec *iov, uint64_t access, uint64_t offset, uint64_t key)
{
	uint64_t iova = mr->domain->virt_addr ? (uintptr_t)iov->iov_base : offset;
	/* Without FI_MR_ALLOCATED, the memory need not be mapped yet, so register the region for on-demand paging. */
	uint32_t rights = mr_rights(access) | (mr->domain->allocated ? 0 : NIC_ACCESS_ON_DEMAND);
	int rc;

	if (mr->domain->allocated) {
		rc = pmd_check_range(iov->iov_base, iov->iov_len, rights & NIC_ACCESS_LOCAL_WRITE);
		if (rc)
			return rc;
	}
	if (!ufi_enter(mr->domain))
		return -FI_EIO;
	if (mr->domain->user_keys)
		rc = nic_mr_reg_named(mr->domain->pd, iov->iov_base, iov->iov_len, iova, rights, (uint32_t)key,
				      &mr->nic);
	else
		rc = nic_mr_reg(mr->domain->pd, iov->iov_base, iov->iov_len, iova, rights, &mr->nic);
	ufi_leave(mr->domain);
	return rc == -EEXIST ? -FI_ENOKEY : rc;
}

static int mr_regattr(struct fid *fid, const struct fi_mr_attr *attr, uint64_t flags, struct fid_mr **out)
{
	struct ufi_domain *domain = container_of(fid, struct ufi_domain, domain.fid);
	struct ufi_mr *mr;
	int rc;

	if (fid->fclass != FI_CLASS_DOMAIN || !attr || attr->iov_count != 1 || !attr->mr_iov ||
	    !attr->mr_iov->iov_len || attr->access & ~MR_ACCESS)
		return -FI_EINVAL;
	if (flags & ~FI_RMA_EVENT) /* any region may have FI_RMA_EVENT, which allows a counter to be bound */
		return -FI_EBADFLAGS;
	if (domain->user_keys && attr->requested_key > UINT32_MAX)
		return -FI_EKEYREJECTED;
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return -FI_ENOMEM;
	mr->domain = domain;
	rc = mr_create(mr, attr->mr_iov, attr->access, attr->offset, attr->requested_key);
	if (rc) {
		free(mr);
		return rc;
	}
	mr->mr.fid.fclass = FI_CLASS_MR;
	mr->mr.fid.context = attr->context;
	mr->mr.fid.ops = &mr_fid_ops;
	mr->mr.mem_desc = mr;
	mr->mr.key = nic_mr_rkey(mr->nic);
	atomic_fetch_add(&domain->users, 1);
	*out = &mr->mr;
	if (domain->mr_events) {
		struct fi_eq_entry entry = {.fid = &mr->mr.fid, .context = attr->context};

		ufi_eq_put(domain->eq, FI_MR_COMPLETE, &entry, sizeof(entry));
	}
	return 0;
}

static int mr_regv(struct fid *fid, const struct iovec *iov, size_t count, uint64_t access, uint64_t offset,
		   uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
	struct fi_mr_attr attr = {
		.mr_iov = iov,
		.iov_count = count,
		.access = access,
		.offset = offset,
		.requested_key = requested_key,
		.context = context,
	};

	return mr_regattr(fid, &attr, flags, mr);
}

static int mr_reg(struct fid *fid, const void *buf, size_t len, uint64_t access, uint64_t offset,
		  uint64_t requested_key, uint64_t flags, struct fid_mr **mr, void *context)
{
	struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = len};

	return mr_regv(fid, &iov, 1, access, offset, requested_key, flags, mr, context);
}

struct fi_ops_mr ufi_mr_ops = {
	.size = sizeof(struct fi_ops_mr),
	.reg = mr_reg,
	.regv = mr_regv,
	.regattr = mr_regattr,
};
