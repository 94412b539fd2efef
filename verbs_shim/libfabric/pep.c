/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pep.c - passive endpoints (fi_passive_ep(3)): a port of a device that listens for connection requests, which
 * request.c handles. A passive endpoint can also reserve a port for an endpoint that takes the port over later. A
 * passive endpoint belongs to a fabric, not to a domain, so it opens the device itself.
 */
#include "pep.h"
#include "endpoint.h"

#define BACKLOG_MAX 1024 /* as many requests as the NIC remembers for a listener */

static struct ufi_pep *pep_of(struct fid *fid)
{
	return container_of(fid, struct ufi_pep, pep.fid);
}

/** Never called: a passive endpoint posts no requests. */
static void pep_done(void *ctx, const struct nic_rdm_done *done)
{
}

/* ---- calls ----------------------------------------------------------------------------------------------- */

/** Take a port of the device, in exchange for the one that the endpoint has. @param port 0: keep the endpoint's port,
 * or take any free one if it has none. */
static int pep_serve(struct ufi_pep *pep, uint16_t port)
{
	int rc;

	if (pep->served && (port == 0 || port == pep->addr.port))
		return 0;
	rc = pmd_service_open(pep->engine, &port);
	if (rc)
		return rc;
	if (pep->served)
		pmd_service_close(pep->engine, pep->addr.port);
	pep->served = true;
	pep->addr.port = port;
	return 0;
}

static int pep_setname(fid_t fid, void *addr, size_t addrlen)
{
	struct ufi_pep *pep = pep_of(fid);
	uint16_t port;
	int rc;

	if (pep->rdm || pep->spent)
		return -FI_EOPBADSTATE;
	rc = ufi_addr_local(addr, addrlen, &pep->device.gid, &port);
	return rc ? rc : pep_serve(pep, port);
}

static int pep_getname(fid_t fid, void *addr, size_t *addrlen)
{
	struct ufi_pep *pep = pep_of(fid);

	if (!addrlen)
		return -FI_EINVAL;
	if (!pep->addr.port)
		return -FI_EOPBADSTATE;
	return ufi_addr_copy_out(&pep->addr, addr, addrlen);
}

static int pep_listen(struct fid_pep *fid)
{
	struct ufi_pep *pep = pep_of(&fid->fid);
	struct nic_rdm_init init = {
		.pd = pep->pd, .max_tx = 1, .max_rx = 1, .done = pep_done, .cm = ufi_request_event, .listens = true};
	int rc;

	if (!pep->eq)
		return -FI_ENOEQ;
	if (pep->rdm || pep->spent)
		return -FI_EOPBADSTATE;
	rc = pep_serve(pep, pep->addr.port);
	if (rc)
		return rc;
	init.addr = pep->addr;
	init.ctx = pep;
	if (!ufi_pep_enter(pep))
		return -FI_EIO;
	rc = nic_rdm_create(pmd_engine_nic(pep->engine), &init, &pep->rdm);
	ufi_pep_leave(pep);
	return rc;
}

static int pep_reject(struct fid_pep *fid, fid_t handle, const void *param, size_t paramlen)
{
	struct ufi_pep *pep = pep_of(&fid->fid);
	struct ufi_request *r;
	int rc = -FI_EINVAL;

	if (paramlen > NIC_RDM_CM_DATA_MAX || (paramlen && !param))
		return -FI_EINVAL;
	if (!ufi_pep_enter(pep))
		return -FI_EIO;
	r = ufi_request_find(pep, handle);
	if (r) {
		rc = nic_rdm_cm_refuse(pep->rdm, r->number, param, (uint32_t)paramlen);
		ufi_request_end(r);
		pmd_doorbell(pep->engine);
	}
	ufi_pep_leave(pep);
	return rc;
}

static int pep_bind(struct fid *fid, struct fid *bfid, uint64_t flags)
{
	struct ufi_pep *pep = pep_of(fid);
	struct ufi_eq *eq;

	if (!bfid || bfid->fclass != FI_CLASS_EQ || flags || pep->eq)
		return -FI_EINVAL;
	eq = container_of(bfid, struct ufi_eq, eq.fid);
	if (eq->fabric != pep->fabric)
		return -FI_EINVAL;
	pep->eq = eq;
	atomic_fetch_add(&eq->users, 1);
	return 0;
}

/* The application's backlog is checked and ignored: it does not limit pending requests. */
static int pep_control(struct fid *fid, int command, void *arg)
{
	if (command != FI_BACKLOG)
		return -FI_ENOSYS;
	if (!arg || *(int *)arg < 0 || *(int *)arg > BACKLOG_MAX)
		return -FI_EINVAL;
	return pep_of(fid)->rdm ? -FI_EOPBADSTATE : 0;
}

static int pep_getopt(fid_t fid, int level, int optname, void *optval, size_t *optlen)
{
	const size_t value = NIC_RDM_CM_DATA_MAX;

	if (level != FI_OPT_ENDPOINT || optname != FI_OPT_CM_DATA_SIZE)
		return -FI_ENOPROTOOPT;
	if (!optval || !optlen)
		return -FI_EINVAL;
	if (*optlen < sizeof(value))
		return -FI_ETOOSMALL;
	memcpy(optval, &value, sizeof(value));
	*optlen = sizeof(value);
	return 0;
}

static int pep_no_setopt(fid_t fid, int level, int optname, const void *optval, size_t optlen)
{
	return -FI_ENOPROTOOPT;
}

static ssize_t pep_no_cancel(fid_t fid, void *context)
{
	return -FI_ENOENT;
}

/* ---- opening, closing ------------------------------------------------------------------------------------ */

/** Refuse the pending requests and release the device. */
static void pep_end(struct ufi_pep *pep)
{
	if (!ufi_pep_enter(pep))
		return;
	for (struct ufi_request *r = pep->requests, *next; r; r = next) {
		next = r->next;
		nic_rdm_cm_refuse(pep->rdm, r->number, NULL, 0);
		ufi_request_end(r);
	}
	if (pep->rdm) {
		pmd_doorbell(pep->engine);
		nic_rdm_destroy(pep->rdm);
	}
	nic_pd_free(pep->pd);
	ufi_pep_leave(pep);
	if (pep->served)
		pmd_service_close(pep->engine, pep->addr.port);
	pmd_close(pep->engine);
}

/* All passive endpoints of the process. One list for all fabrics is needed, because a handle does not tell which fabric
 * it belongs to. Except during a fork, a thread that holds all_lock neither holds nor takes another lock. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ufi_pep *all;

static void all_take(void)
{
	pthread_mutex_lock(&all_lock);
}

static void all_release(void)
{
	pthread_mutex_unlock(&all_lock);
}

/* Register all fork handlers of the provider when it is loaded. If they were registered later, another thread could
 * fork during the registration, and the child could find a lock taken. */
static void __attribute__((constructor)) handlers_register(void)
{
	pmd_fork_handlers();
	pthread_atfork(all_take, all_release, all_release);
}

bool ufi_pep_exists(const struct fid *handle)
{
	struct ufi_pep *pep;

	all_take();
	for (pep = all; pep && &pep->pep.fid != handle; pep = pep->next_of_all)
		;
	all_release();
	return pep != NULL;
}

static void pep_unlist(struct ufi_pep *pep)
{
	struct ufi_pep **at = &all;

	all_take();
	while (*at != pep)
		at = &(*at)->next_of_all;
	*at = pep->next_of_all;
	all_release();
}

static int pep_close(struct fid *fid)
{
	struct ufi_pep *pep = pep_of(fid), **at = &pep->fabric->peps;

	ufi_lock(&pep->fabric->lock);
	while (*at != pep)
		at = &(*at)->next;
	*at = pep->next;
	ufi_unlock(&pep->fabric->lock);
	pep_unlist(pep);
	pep_end(pep);
	if (pep->eq) {
		ufi_eq_forget(pep->eq, fid);
		atomic_fetch_sub(&pep->eq->users, 1);
	}
	atomic_fetch_sub(&pep->fabric->users, 1);
	ufi_info_free(pep->info);
	free(pep);
	return 0;
}

static struct fi_ops pep_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = pep_close,
	.bind = pep_bind,
	.control = pep_control,
	.ops_open = ufi_no_ops_open,
};

static struct fi_ops_ep pep_ops = {
	.size = offsetof(struct fi_ops_ep, tx_ctx),
	.cancel = pep_no_cancel,
	.getopt = pep_getopt,
	.setopt = pep_no_setopt,
};

static struct fi_ops_cm pep_cm_ops = {
	.size = sizeof(struct fi_ops_cm),
	.setname = pep_setname,
	.getname = pep_getname,
	.listen = pep_listen,
	.reject = pep_reject,
};

static int pep_init(struct ufi_pep *pep, const struct fi_info *info)
{
	int rc = ufi_device_find(info->domain_attr->name, &pep->device);

	if (rc)
		return rc;
	pep->addr.gid = pep->device.gid;
	if (info->src_addr)
		rc = ufi_addr_local(info->src_addr, info->src_addrlen, &pep->addr.gid, &pep->addr.port);
	if (rc)
		return rc;
	pep->info = ufi_info_dup(info);
	if (!pep->info)
		return -FI_ENOMEM;
	rc = ufi_device_open(&pep->device, &pep->engine, &pep->pd);
	if (rc)
		ufi_info_free(pep->info);
	return rc;
}

int ufi_pep_open(struct fid_fabric *fabric, struct fi_info *info, struct fid_pep **out, void *context)
{
	struct ufi_pep *pep;
	int rc;

	if (ufi_is_inherited(&container_of(fabric, struct ufi_fabric, fabric)->lock))
		return -FI_EIO;
	if (!info || !info->ep_attr || info->ep_attr->type != FI_EP_MSG || !info->domain_attr ||
	    !info->domain_attr->name)
		return -FI_EINVAL;
	pep = calloc(1, sizeof(*pep));
	if (!pep)
		return -FI_ENOMEM;
	rc = pep_init(pep, info);
	if (rc) {
		free(pep);
		return rc;
	}
	pep->pep.fid.fclass = FI_CLASS_PEP;
	pep->pep.fid.context = context;
	pep->pep.fid.ops = &pep_fid_ops;
	pep->pep.ops = &pep_ops;
	pep->pep.cm = &pep_cm_ops;
	pep->fabric = container_of(fabric, struct ufi_fabric, fabric);
	atomic_fetch_add(&pep->fabric->users, 1);
	ufi_lock(&pep->fabric->lock);
	pep->next = pep->fabric->peps;
	pep->fabric->peps = pep;
	ufi_unlock(&pep->fabric->lock);
	all_take();
	pep->next_of_all = all;
	all = pep;
	all_release();
	*out = &pep->pep;
	return 0;
}
