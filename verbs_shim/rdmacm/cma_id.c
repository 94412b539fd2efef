/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma_id.c - the ids of this process: their numbers, their references, and how they are destroyed.
 *
 * State: the table of ids by number. A new id gets the lowest free number, because librdmacm too has a table indexed by
 * these numbers. An id lives while it has references: one for its number, one for each command in progress on it, and
 * one for the unread event of the request that created it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cma.h"

static struct cma_id **ids;
static uint32_t n_ids, lowest; /* below `lowest` no number is free */

static int number_take(struct cma_id *id)
{
	while (lowest < n_ids && ids[lowest])
		lowest++;
	if (lowest == n_ids) {
		uint32_t n = n_ids ? 2 * n_ids : 64;
		struct cma_id **more = reallocarray(ids, n, sizeof(struct cma_id *));

		if (!more)
			return -ENOMEM;
		memset(more + n_ids, 0, (n - n_ids) * sizeof(struct cma_id *));
		ids = more;
		n_ids = n;
	}
	id->number = lowest;
	ids[lowest++] = id;
	return 0;
}

static void number_give(struct cma_id *id)
{
	ids[id->number] = NULL;
	if (id->number < lowest)
		lowest = id->number;
}

struct cma_event *cma_id_event(struct cma_id *id)
{
	return id->spare[--id->n_spare];
}

static bool events_reserve(struct cma_id *id)
{
	while (id->n_spare < CMA_CONN_EVENTS) {
		id->spare[id->n_spare] = calloc(1, sizeof(struct cma_event));
		if (!id->spare[id->n_spare])
			return false;
		id->n_spare++;
	}
	return true;
}

static void id_free(struct cma_id *id)
{
	while (id->n_spare)
		free(cma_id_event(id));
	free(id);
}

struct cma_id *cma_id_new(struct cma_file *file, uint16_t space, uint8_t qp_type)
{
	struct cma_id *id = calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	if (!events_reserve(id) || number_take(id)) {
		id_free(id);
		return NULL;
	}
	if (!cma_file_add(file, id)) {
		number_give(id);
		id_free(id);
		return NULL;
	}
	pthread_mutex_init(&id->op, NULL);
	id->refs = 1;
	id->space = space;
	id->qp_type = qp_type;
	id->qkey = CMA_UD_QKEY;
	return id;
}

void cma_id_put(struct cma_id *id)
{
	bool last;

	pthread_mutex_lock(&cma_lock);
	last = --id->refs == 0;
	pthread_mutex_unlock(&cma_lock);
	if (!last)
		return;
	pthread_mutex_destroy(&id->op);
	id_free(id);
}

int cma_id_enter(const struct cma_file *file, uint32_t number, struct cma_id **out)
{
	struct cma_id *id;
	int err = 0;

	pthread_mutex_lock(&cma_lock);
	id = number < n_ids ? ids[number] : NULL;
	if (!id)
		err = -ENOENT;
	else if (id->file != file)
		err = -EINVAL;
	else
		id->refs++;
	pthread_mutex_unlock(&cma_lock);
	if (err)
		return err;
	pthread_mutex_lock(&id->op);
	if (id->state == CMA_DESTROYING) {
		cma_id_leave(id);
		return -ENOENT;
	}
	*out = id;
	return 0;
}

void cma_id_leave(struct cma_id *id)
{
	pthread_mutex_unlock(&id->op);
	cma_id_put(id);
}

void cma_engine_enter(const struct cma_device *device)
{
	if (device)
		pmd_lock(device->engine);
}

void cma_engine_leave(const struct cma_device *device)
{
	if (!device)
		return;
	pmd_doorbell(device->engine);
	pmd_unlock(device->engine);
}

/** End the id's connection. After this, no event comes for the id. */
static void end_connection(struct cma_id *id)
{
	cma_engine_enter(id->device);
	id->state = CMA_DESTROYING;
	if (id->cm)
		nic_cm_id_destroy(id->cm);
	id->cm = NULL;
	cma_engine_leave(id->device);
}

/** Refuse the requests that the program has not read, by destroying their ids. */
static void end_requests(struct list *requests)
{
	struct list *next;

	for (struct list *n = requests->next; n != requests; n = next) {
		struct cma_event *e = list_entry(n, struct cma_event, link);
		struct cma_id *request = e->request;

		next = n->next;
		free(e);
		pthread_mutex_lock(&request->op);
		if (request->state != CMA_DESTROYING)
			cma_id_destroy(request);
		cma_id_leave(request); /* the event's reference */
	}
}

uint32_t cma_id_destroy(struct cma_id *id)
{
	struct list requests;
	uint32_t reported;

	list_init(&requests);
	cma_unbind(id);
	end_connection(id);
	pthread_mutex_lock(&cma_lock);
	cma_leave_all(id);
	cma_event_purge(id, &requests);
	list_remove(&id->link);
	number_give(id);
	reported = id->events_reported;
	id->refs--; /* the number's reference; the caller has another one */
	pthread_mutex_unlock(&cma_lock);
	end_requests(&requests);
	return reported;
}
