/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pep.h - passive endpoints and their connection requests (private to pep.c, request.c and fabric.c). The engine's lock
 * guards requests and endpoint state; a fabric's lock guards the fabric's list of passive endpoints.
 */
#ifndef UFI_PEP_H
#define UFI_PEP_H

#include "provider.h"

struct ufi_request {
	struct fid handle;
	struct ufi_pep *pep; /* the passive endpoint that received the request; NULL: the request has been answered */
	struct ufi_request *next;
	uint32_t number; /* the NIC's number of the request */
	struct nic_rdm_addr from;
	bool given; /* an endpoint that was opened for the request is still open: do not free the request yet */
};

struct ufi_pep {
	struct fid_pep pep;
	struct ufi_fabric *fabric;
	struct ufi_pep *next; /* next in the fabric's list */
	struct ufi_pep *next_of_all;
	struct pmd_device device;
	struct pmd_engine *engine;
	struct nic_pd *pd;
	struct nic_rdm *rdm; /* NULL: the endpoint is not listening */
	struct nic_rdm_addr addr;
	bool served; /* the endpoint holds its port */
	bool spent;  /* another endpoint has taken over the port */
	struct ufi_eq *eq;
	struct fi_info *info; /* template for the fi_info of requests */
	struct ufi_request *requests;
};

static inline bool ufi_pep_enter(const struct ufi_pep *pep)
{
	if (pmd_is_dead(pep->engine))
		return false;
	pmd_lock(pep->engine);
	return true;
}

static inline void ufi_pep_leave(const struct ufi_pep *pep)
{
	pmd_unlock(pep->engine);
}

/** The unanswered request that a handle points to. Engine lock held. @return NULL: no such request. */
struct ufi_request *ufi_request_find(const struct ufi_pep *pep, const struct fid *handle);
/** Called when a request has been answered: remove it from the list, and free it unless it is `given`. Engine lock
 * held. */
void ufi_request_end(struct ufi_request *r);
/** A nic_rdm_init.cm callback; ctx is the struct ufi_pep. */
void ufi_request_event(void *ctx, const struct nic_rdm_cm_event *event);

#endif
