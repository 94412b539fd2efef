/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pep.h - passive endpoints and their connection requests (private to pep.c and request.c). Requests and endpoint
 * state are guarded by the engine's lock, the list of passive endpoints by the fabric's.
 */
#ifndef UFI_PEP_H
#define UFI_PEP_H

#include "provider.h"

struct ufi_request {
	struct fid handle;
	struct ufi_pep *pep; /* the endpoint that lists it; NULL: answered */
	struct ufi_request *next;
	uint32_t number; /* the NIC's number for it */
	struct nic_rdm_addr from;
	bool given; /* an endpoint was opened for it, which frees it on closing */
};

struct ufi_pep {
	struct fid_pep pep;
	struct ufi_fabric *fabric;
	struct ufi_pep *next; /* in the fabric's list */
	struct ufi_pep *next_of_all;
	struct pmd_device device;
	struct pmd_engine *engine;
	struct nic_pd *pd;
	struct nic_rdm *rdm; /* NULL: not listening */
	struct nic_rdm_addr addr;
	bool served; /* it holds the port */
	bool spent;  /* an endpoint has taken over the port */
	struct ufi_eq *eq;
	struct fi_info *info; /* template for the fi_info of requests */
	struct ufi_request *requests;
};

static inline bool ufi_pep_enter(const struct ufi_pep *pep)
{
	if (pmd_is_forked_child())
		return false;
	pmd_lock(pep->engine);
	return true;
}

static inline void ufi_pep_leave(const struct ufi_pep *pep)
{
	pmd_unlock(pep->engine);
}

/** The unanswered request that a handle names; NULL: none. Engine lock held. */
struct ufi_request *ufi_request_find(const struct ufi_pep *pep, const struct fid *handle);
/** The request has been answered: unlist it, and free it unless an endpoint was opened for it. Engine lock held. */
void ufi_request_end(struct ufi_request *r);
/** nic_rdm_init.cm; ctx is the struct ufi_pep. */
void ufi_request_event(void *ctx, const struct nic_rdm_cm_event *event);

#endif
