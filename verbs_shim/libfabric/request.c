/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c - connection requests to a passive endpoint (fi_cm(3)). Each request is reported as an event with a struct
 * fi_info whose handle identifies the request; an endpoint opened with this fi_info can accept the request. Handles are
 * looked up, never dereferenced, because an application can use a handle after its request is freed. An endpoint can
 * also be opened with the handle of a passive endpoint. The new endpoint then takes over the passive endpoint's port.
 *
 * Owns: requests. Once an endpoint is opened for a request, the endpoint and this file share the ownership.
 */
#include "endpoint.h"
#include "pep.h"

struct ufi_request *ufi_request_find(const struct ufi_pep *pep, const struct fid *handle)
{
	for (struct ufi_request *r = pep->requests; r; r = r->next)
		if (&r->handle == handle)
			return r;
	return NULL;
}

void ufi_request_end(struct ufi_request *r)
{
	struct ufi_request **at = &r->pep->requests;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	r->pep = NULL;
	if (!r->given)
		free(r);
}

int ufi_request_accept(struct ufi_request *r, struct nic_rdm *ep, const void *data, size_t len)
{
	int rc;

	if (!r->pep)
		return -FI_ECONNABORTED;
	rc = nic_rdm_cm_accept(r->pep->rdm, r->number, ep, data, (uint32_t)len);
	if (rc == 0)
		ufi_request_end(r);
	return rc;
}

void ufi_request_leave(struct ufi_request *r)
{
	r->given = false;
	if (!r->pep)
		free(r);
}

static struct fi_info *request_info(const struct ufi_pep *pep, struct ufi_request *r)
{
	struct fi_info *info = ufi_info_dup(pep->info);

	if (!info)
		return NULL;
	free(info->src_addr);
	free(info->dest_addr);
	info->dest_addr = NULL;
	if (ufi_addr_dup(&pep->addr, &info->src_addr, &info->src_addrlen) ||
	    ufi_addr_dup(&r->from, &info->dest_addr, &info->dest_addrlen)) {
		ufi_info_free(info);
		return NULL;
	}
	info->handle = &r->handle;
	return info;
}

/* If there is no memory, the request is not answered, and the peer's connection attempt times out. */
void ufi_request_event(void *ctx, const struct nic_rdm_cm_event *e)
{
	struct ufi_pep *pep = ctx;
	struct fi_eq_cm_entry entry = {.fid = &pep->pep.fid};
	struct ufi_request *r;

	if (e->kind != NIC_RDM_CM_REQUEST)
		return;
	r = calloc(1, sizeof(*r));
	if (r) {
		r->handle.fclass = FI_CLASS_CONNREQ;
		r->number = e->request;
		r->from = e->from;
		entry.info = request_info(pep, r);
	}
	if (!r || !entry.info || ufi_eq_put_cm(pep->eq, FI_CONNREQ, &entry, e->data, e->len)) {
		UFI_WARN(EP_CTRL, "no memory for a connection request\n");
		ufi_info_free(entry.info);
		free(r);
		return;
	}
	r->pep = pep;
	r->next = pep->requests;
	pep->requests = r;
}

/* ---- opening an endpoint with a handle ------------------------------------------------------------------- */

static int give_request(struct ufi_core *core, struct ufi_request *r)
{
	if (r->given)
		return -FI_EINVAL;
	r->given = true;
	core->cm.request = r;
	core->cm.local = r->pep->addr;
	core->cm.remote = r->from;
	core->addr.port = 0; /* 0: any port */
	return 0;
}

static int give_port(struct ufi_core *core, struct ufi_pep *pep)
{
	if (pep->rdm || pep->spent)
		return -FI_EINVAL;
	core->addr.port = pep->addr.port;
	core->served = pep->served;
	pep->served = false;
	pep->spent = true;
	return 0;
}

int ufi_pep_give(struct ufi_core *core, const struct fid *handle)
{
	struct ufi_fabric *fabric = core->domain->fabric;
	struct ufi_request *r;
	int rc = -FI_EINVAL;

	ufi_lock(&fabric->lock);
	for (struct ufi_pep *pep = fabric->peps; pep; pep = pep->next) {
		/* The endpoint must be on the same device: only the NIC that received a request can accept it. */
		if (pep->engine != core->domain->engine || !ufi_pep_enter(pep))
			continue;
		r = ufi_request_find(pep, handle);
		if (r)
			rc = give_request(core, r);
		else if (handle == &pep->pep.fid)
			rc = give_port(core, pep);
		ufi_pep_leave(pep);
	}
	ufi_unlock(&fabric->lock);
	return rc;
}
