/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_listen.c - listeners, and requests that wait for the answer of a listener's owner. The service ID in a request
 * selects the listener (IBTA 12.7.3). A request that exceeds a limit is refused before any memory is allocated for it.
 */
#include "cm.h"

#include <errno.h>

static uint64_t hash_service(const struct nic_cm *cm, uint64_t service_id)
{
	return cm_hash_mix(cm->seed, service_id);
}

static bool takes(const struct nic_cm_id *id, uint64_t service_id, const struct nic_gid *own)
{
	if (((id->service_id ^ service_id) & id->service_mask) != 0)
		return false;
	if (!gid_is_zero(&id->route.own))
		return cm_same_gid(&id->route.own, own);
	return id->family == NIC_CM_BOTH_FAMILIES || (id->family == NIC_CM_IPV4) == gid_is_v4(own);
}

/** Choose the better of two matching listeners: a listener with an address is better than a listener without. If that
 *  does not decide, the listener with more bits in its mask is better. */
static struct nic_cm_id *better(struct nic_cm_id *a, struct nic_cm_id *b)
{
	bool any_a, any_b;

	if (!a)
		return b;
	any_a = gid_is_zero(&a->route.own);
	any_b = gid_is_zero(&b->route.own);
	if (any_a != any_b)
		return any_a ? b : a;
	return __builtin_popcountll(b->service_mask) > __builtin_popcountll(a->service_mask) ? b : a;
}

struct nic_cm_id *nic_cm_listener(const struct nic_cm *cm, uint64_t service_id, const struct nic_gid *own)
{
	struct nic_cm_id *best = NULL;

	for (struct cm_link *l = cm_hash_first(&cm->service, hash_service(cm, service_id)); l; l = cm_hash_next(l)) {
		struct nic_cm_id *id = list_entry(l, struct nic_cm_id, by_peer);

		if (takes(id, service_id, own))
			best = better(best, id);
	}
	for (const struct list *l = cm->masked.next; l != &cm->masked; l = l->next) {
		struct nic_cm_id *id = list_entry(l, struct nic_cm_id, masked);

		if (takes(id, service_id, own))
			best = better(best, id);
	}
	return best;
}

/** Whether the listener `id` and the new listener `listen` have the same address and at least one address family in
 *  common. */
static bool is_at(const struct nic_cm_id *id, const struct nic_cm_listen *listen)
{
	return cm_same_gid(&id->route.own, &listen->own) &&
	       (id->family == listen->family || !id->family || !listen->family);
}

/** Whether a listener for the same services at the same address exists. */
static bool taken(const struct nic_cm *cm, const struct nic_cm_listen *listen, uint64_t mask)
{
	for (const struct list *l = cm->masked.next; l != &cm->masked; l = l->next) {
		const struct nic_cm_id *id = list_entry(l, struct nic_cm_id, masked);

		if (id->service_mask == mask && ((id->service_id ^ listen->service_id) & mask) == 0 &&
		    is_at(id, listen))
			return true;
	}
	for (struct cm_link *l = cm_hash_first(&cm->service, hash_service(cm, listen->service_id)); l;
	     l = cm_hash_next(l)) {
		const struct nic_cm_id *id = list_entry(l, struct nic_cm_id, by_peer);

		if (mask == NIC_CM_MASK_ALL && id->service_id == listen->service_id && is_at(id, listen))
			return true;
	}
	return false;
}

int nic_cm_listen(struct nic_cm *cm, const struct nic_cm_listen *listen, struct nic_cm_id **out)
{
	uint64_t mask = listen->mask ? listen->mask : NIC_CM_MASK_ALL;
	struct nic_cm_id *id;
	int rc;

	if (taken(cm, listen, mask))
		return -EADDRINUSE;
	rc = cm_id_new(cm, CM_LISTENER, &id);
	if (rc)
		return rc;
	id->user = listen->user;
	id->service_id = listen->service_id;
	id->service_mask = mask;
	id->family = listen->family;
	id->route.own = listen->own;
	id->backlog = listen->backlog;
	if (mask == NIC_CM_MASK_ALL)
		cm_hash_add(&cm->service, &id->by_peer, hash_service(cm, id->service_id));
	else
		list_append(&cm->masked, &id->masked);
	cm_id_set(id, NIC_CM_LISTEN);
	*out = id;
	return 0;
}

void cm_unlisten(struct nic_cm_id *id)
{
	cm_hash_remove(&id->cm->service, &id->by_peer);
	list_remove(&id->masked);
	while (!list_empty(&id->pending)) {
		struct nic_cm_id *request = list_entry(list_first(&id->pending), struct nic_cm_id, pending);

		list_remove(&request->pending);
		request->listener = NULL;
	}
}

void cm_answered(struct nic_cm_id *id)
{
	if (!id->unanswered)
		return;
	id->unanswered = false;
	id->cm->pending--;
	list_remove(&id->pending);
	if (id->listener)
		id->listener->n_pending--;
	id->listener = NULL;
}

struct nic_cm_id *cm_pending_new(const struct cm_rx *rx, uint64_t service_id, enum cm_kind kind, uint16_t *reason)
{
	struct nic_cm *cm = rx->cm;
	struct nic_cm_id *listener = nic_cm_listener(cm, service_id, &rx->route->own), *id;

	if (!listener) {
		CM_COUNT(cm, no_listener);
		*reason = NIC_CM_REJ_INVALID_SERVICE_ID;
		return NULL;
	}
	if (listener->backlog && listener->n_pending >= listener->backlog) {
		CM_COUNT(cm, backlog_full);
		*reason = NIC_CM_REJ_CONSUMER;
		return NULL;
	}
	if (cm->pending >= cm->config.max_pending || cm_id_new(cm, kind, &id)) {
		CM_COUNT(cm, no_room);
		*reason = NIC_CM_REJ_NO_RESOURCES;
		return NULL;
	}
	id->listener = listener;
	id->unanswered = true;
	listener->n_pending++;
	cm->pending++;
	list_append(&listener->pending, &id->pending);
	id->passive = true;
	id->service_id = service_id;
	id->route = *rx->route;
	return id;
}
