/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * domain.c - domains. A domain is an open device: the engine, which all domains of the device in this process share,
 * and a protection domain of its own.
 */
#include "work.h"

#define REG_MR (1ull << 59) /* FI_REG_MR, which newer headers mark as deprecated */

/* Ignore the NIC's events of queue pairs and ports, which the provider does not use. */
static void device_event(void *ctx, const struct nic_event *event)
{
}

static void domain_unlink(struct ufi_domain *domain)
{
	struct ufi_domain **at = &domain->fabric->domains;

	ufi_lock(&domain->fabric->lock);
	while (*at != domain)
		at = &(*at)->next;
	*at = domain->next;
	ufi_unlock(&domain->fabric->lock);
}

static int domain_close(struct fid *fid)
{
	struct ufi_domain *domain = container_of(fid, struct ufi_domain, domain.fid);
	int rc = 0;

	if (atomic_load(&domain->users))
		return -FI_EBUSY;
	if (ufi_enter(domain)) {
		rc = nic_pd_free(domain->pd);
		ufi_leave(domain);
		if (rc)
			return rc;
	}
	domain_unlink(domain);
	pmd_close(domain->engine);
	if (domain->eq)
		atomic_fetch_sub(&domain->eq->users, 1);
	atomic_fetch_sub(&domain->fabric->users, 1);
	ufi_works_fini(domain);
	free(domain);
	return 0;
}

/* fi_domain_bind: bind the event queue. With FI_REG_MR, memory registrations report their completion in this queue. */
static int domain_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct ufi_domain *domain = container_of(fid, struct ufi_domain, domain.fid);

	if (bfid->fclass != FI_CLASS_EQ || flags & ~REG_MR || domain->eq)
		return -FI_EINVAL;
	domain->eq = container_of(bfid, struct ufi_eq, eq.fid);
	domain->mr_events = flags & REG_MR;
	atomic_fetch_add(&domain->eq->users, 1);
	return 0;
}

/** FI_FLUSH_WORK: cancel all deferred work if arg is NULL, otherwise only the work that waits for one counter. arg is
 * this counter, or a struct fi_deferred_work that waits for the counter. */
static int domain_flush(struct ufi_domain *domain, void *arg)
{
	struct ufi_cntr *cntr = NULL;

	if (!arg)
		return ufi_work_flush(domain, NULL);
	if (!ufi_enter(domain))
		return -FI_EIO;
	for (struct list *n = domain->cntrs.next; n != &domain->cntrs && !cntr; n = n->next)
		if (&list_entry(n, struct ufi_cntr, node)->cntr == arg)
			cntr = list_entry(n, struct ufi_cntr, node);
	ufi_leave(domain);
	if (!cntr) {
		int rc = ufi_work_cntr(domain, ((struct fi_deferred_work *)arg)->triggering_cntr, &cntr);

		if (rc)
			return rc;
	}
	return ufi_work_flush(domain, cntr);
}

static int domain_control(struct fid *fid, int command, void *arg)
{
	struct ufi_domain *domain = container_of(fid, struct ufi_domain, domain.fid);

	switch (command) {
	case FI_QUEUE_WORK:
		return arg ? ufi_deferred_queue(domain, arg) : -FI_EINVAL;
	case FI_CANCEL_WORK:
		return arg ? ufi_work_cancel(domain, arg) : -FI_EINVAL;
	case FI_FLUSH_WORK:
		return domain_flush(domain, arg);
	default:
		return -FI_ENOSYS;
	}
}

static int domain_no_sep(struct fid_domain *domain, struct fi_info *info, struct fid_ep **sep, void *context)
{
	return -FI_ENOSYS;
}

static struct fi_ops domain_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = domain_close,
	.bind = domain_bind,
	.control = domain_control,
	.ops_open = ufi_no_ops_open,
};

static struct fi_ops_domain domain_ops = {
	.size = offsetof(struct fi_ops_domain, query_collective),
	.av_open = ufi_av_open,
	.cq_open = ufi_cq_open,
	.endpoint = ufi_ep_open,
	.scalable_ep = domain_no_sep,
	.cntr_open = ufi_cntr_open,
	.poll_open = ufi_poll_open,
	.stx_ctx = ufi_stx_open,
	.srx_ctx = ufi_srx_open,
	.query_atomic = ufi_query_atomic,
};

int ufi_device_find(const char *name, struct pmd_device *out)
{
	struct pmd_device devices[PMD_DEVICES_MAX];
	int n = pmd_devices(devices, PMD_DEVICES_MAX);

	for (int i = 0; i < n && i < PMD_DEVICES_MAX; i++)
		if (strcmp(devices[i].name, name) == 0) {
			*out = devices[i];
			return 0;
		}
	return -FI_ENODEV;
}

int ufi_device_open(const struct pmd_device *device, struct pmd_engine **engine, struct nic_pd **pd)
{
	char sentence[256] = "";
	int rc = pmd_open(device, device_event, NULL, engine, sentence, sizeof(sentence));

	if (rc) {
		UFI_WARN(DOMAIN, "%s: %s\n", device->name, sentence);
		return rc;
	}
	pmd_lock(*engine);
	rc = nic_pd_alloc(pmd_engine_nic(*engine), pd);
	pmd_unlock(*engine);
	if (rc)
		pmd_close(*engine);
	return rc;
}

int ufi_domain_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_domain **out, void *context)
{
	struct ufi_domain *domain;
	int rc, mode;

	if (ufi_is_inherited(&container_of(fabric, struct ufi_fabric, fabric)->lock))
		return -FI_EIO;
	if (!info || !info->domain_attr || !info->domain_attr->name)
		return -FI_EINVAL;
	domain = calloc(1, sizeof(*domain));
	if (!domain)
		return -FI_ENOMEM;
	rc = ufi_device_find(info->domain_attr->name, &domain->device);
	if (!rc)
		rc = ufi_device_open(&domain->device, &domain->engine, &domain->pd);
	if (rc) {
		free(domain);
		return rc;
	}
	domain->nic = pmd_engine_nic(domain->engine);
	list_init(&domain->cntrs);
	mode = info->domain_attr->mr_mode;
	domain->virt_addr = mode & FI_MR_VIRT_ADDR || mode & 1; /* bit 0 is FI_MR_BASIC of API 1.4 */
	domain->user_keys = !(mode & FI_MR_PROV_KEY || mode & 1);
	domain->allocated = mode & FI_MR_ALLOCATED || mode & 1;
	atomic_store(&domain->rma_event, (info->caps & FI_RMA_EVENT) != 0);
	domain->fabric = container_of(fabric, struct ufi_fabric, fabric);
	domain->domain.fid.fclass = FI_CLASS_DOMAIN;
	domain->domain.fid.context = context;
	domain->domain.fid.ops = &domain_fid_ops;
	domain->domain.ops = &domain_ops;
	domain->domain.mr = &ufi_mr_ops;
	atomic_fetch_add(&domain->fabric->users, 1);
	ufi_lock(&domain->fabric->lock);
	domain->next = domain->fabric->domains;
	domain->fabric->domains = domain;
	ufi_unlock(&domain->fabric->lock);
	*out = &domain->domain;
	return 0;
}
