/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * eq.c - event queues (fi_eq(3)): events of connections, address vectors and memory registrations, and events that the
 * application writes. A queue is a list, because events of different types have different lengths. Reading an empty
 * queue makes progress.
 *
 * Owns: the list, under a mutex that is the innermost of all locks.
 */
#include <stdio.h>

#include "provider.h"

struct ufi_event {
	struct ufi_event *next;
	uint32_t event;
	bool error;
	bool cm; /* a connection management event: the data after the entry is truncated to the reader's buffer */
	size_t len;
	union {
		struct fi_eq_err_entry err;
		struct fi_eq_cm_entry entry;
		char data[64]; /* event_new() allocates room for all data of the event */
	};
};

static struct ufi_eq *eq_of(struct fid_eq *eq)
{
	return container_of(eq, struct ufi_eq, eq);
}

/** @return a new event that contains the entry, then `data`; NULL: no memory. */
static struct ufi_event *event_new(uint32_t event, const void *entry, size_t len, const void *data, size_t data_len)
{
	struct ufi_event *e = calloc(1, sizeof(*e) + len + data_len);

	if (!e)
		return NULL;
	e->event = event;
	e->len = len + data_len;
	if (len)
		memcpy(e->data, entry, len);
	if (data_len)
		memcpy(e->data + len, data, data_len);
	return e;
}

/** Append an event. @return 0; -FI_ENOMEM if `e` is NULL. */
static int eq_add(struct ufi_eq *eq, struct ufi_event *e)
{
	if (!e)
		return -FI_ENOMEM;
	ufi_lock(&eq->lock);
	*eq->tail = e;
	eq->tail = &e->next;
	ufi_wait_signal(&eq->wait);
	ufi_unlock(&eq->lock);
	return 0;
}

int ufi_eq_put(struct ufi_eq *eq, uint32_t event, const void *buf, size_t len)
{
	return eq_add(eq, event_new(event, buf, len, NULL, 0));
}

int ufi_eq_put_error(struct ufi_eq *eq, const struct fi_eq_err_entry *error)
{
	struct ufi_event *e = event_new(0, error, sizeof(*error), error->err_data, error->err_data_size);

	if (e)
		e->error = true;
	return eq_add(eq, e);
}

int ufi_eq_put_cm(struct ufi_eq *eq, uint32_t event, const struct fi_eq_cm_entry *entry, const void *data, size_t len)
{
	struct ufi_event *e = event_new(event, entry, sizeof(*entry), data, len);

	if (e)
		e->cm = true;
	return eq_add(eq, e);
}

/** Free an event that was not read. */
static void event_drop(struct ufi_event *e)
{
	if (e->cm)
		ufi_info_free(e->entry.info);
	free(e);
}

static struct ufi_event *eq_take_first(struct ufi_eq *eq)
{
	struct ufi_event *e = eq->head;

	eq->head = e->next;
	if (!eq->head)
		eq->tail = &eq->head;
	return e;
}

void ufi_eq_forget(struct ufi_eq *eq, const struct fid *fid)
{
	struct ufi_event *e, **at = &eq->head;

	ufi_lock(&eq->lock);
	while ((e = *at)) {
		if ((e->cm && e->entry.fid == fid) || (e->error && e->err.fid == fid)) {
			*at = e->next;
			event_drop(e);
		} else {
			at = &e->next;
		}
	}
	eq->tail = at;
	ufi_unlock(&eq->lock);
}

/** Read the first event. Called with the queue's lock held. */
static ssize_t eq_take(struct ufi_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct ufi_event *e = eq->head;
	size_t got;

	if (!e)
		return -FI_EAGAIN;
	if (e->error)
		return -FI_EAVAIL;
	got = e->len;
	if (len < got && e->cm && len >= sizeof(e->entry))
		got = len;
	if (len < got)
		return -FI_ETOOSMALL;
	*event = e->event;
	memcpy(buf, e->data, got);
	if (!(flags & FI_PEEK))
		free(eq_take_first(eq));
	return (ssize_t)got;
}

static ssize_t eq_look(struct ufi_eq *eq, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	ssize_t got;

	ufi_lock(&eq->lock);
	got = eq_take(eq, event, buf, len, flags);
	ufi_unlock(&eq->lock);
	return got;
}

static ssize_t eq_read(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, uint64_t flags)
{
	struct ufi_eq *eq = eq_of(fid);
	ssize_t got;

	if (ufi_is_inherited(&eq->lock))
		return -FI_EIO;
	got = eq_look(eq, event, buf, len, flags);
	/* Make progress, but leave the events that it brings to the next call: if it receives the last message of a
	 * connection and then the shutdown, the application can read the message before it learns of the shutdown. */
	if (got == -FI_EAGAIN)
		ufi_fabric_progress(eq->fabric);
	return got;
}

static ssize_t eq_sread(struct fid_eq *fid, uint32_t *event, void *buf, size_t len, int timeout, uint64_t flags)
{
	struct ufi_eq *eq = eq_of(fid);
	uint64_t deadline_ns = ufi_deadline(timeout);
	unsigned begun = 0;
	ssize_t got;
	int rc = 0;

	if (timeout == 0)
		return eq_read(fid, event, buf, len, flags);
	if (ufi_is_inherited(&eq->lock))
		return -FI_EIO;
	for (;;) {
		ufi_fabric_progress(eq->fabric);
		ufi_lock(&eq->lock);
		got = eq_take(eq, event, buf, len, flags);
		if (got == -FI_EAGAIN && !rc)
			begun = ufi_wait_begin(&eq->wait);
		ufi_unlock(&eq->lock);
		if (got != -FI_EAGAIN || rc)
			return got == -FI_EAGAIN && rc != -FI_ETIMEDOUT ? rc : got;
		if (!ufi_wait_sleeps(&eq->wait))
			sched_yield();
		rc = ufi_wait_sleep(&eq->wait, eq->fabric, begun, deadline_ns);
	}
}

/** Copy an error to the application. If the application gives a buffer, the error's data is copied to it; else the
 * application gets a pointer to the event's data. */
static void error_read(const struct ufi_eq *eq, struct ufi_event *e, struct fi_eq_err_entry *out)
{
	void *room = out->err_data;
	size_t len = out->err_data_size;

	*out = e->err;
	out->err_data = out->err_data_size ? e->data + sizeof(e->err) : NULL;
	if (!len || !room || FI_VERSION_LT(eq->fabric->fabric.api_version, FI_VERSION(1, 5)))
		return;
	if (len < out->err_data_size)
		out->err_data_size = len;
	if (out->err_data_size)
		memcpy(room, out->err_data, out->err_data_size);
	out->err_data = room;
}

static ssize_t eq_readerr(struct fid_eq *fid, struct fi_eq_err_entry *buf, uint64_t flags)
{
	struct ufi_eq *eq = eq_of(fid);
	ssize_t got = -FI_EAGAIN;

	ufi_lock(&eq->lock);
	if (eq->head && eq->head->error) {
		error_read(eq, eq->head, buf);
		if (!(flags & FI_PEEK)) {
			free(eq->error);
			eq->error = eq_take_first(eq);
		}
		got = sizeof(*buf);
	}
	ufi_unlock(&eq->lock);
	return got;
}

static ssize_t eq_write(struct fid_eq *fid, uint32_t event, const void *buf, size_t len, uint64_t flags)
{
	struct ufi_eq *eq = eq_of(fid);
	int rc;

	if (!eq->writable || (!buf && len))
		return -FI_EINVAL;
	rc = ufi_eq_put(eq, event, buf, len);
	return rc ? rc : (ssize_t)len;
}

static const char *eq_strerror(struct fid_eq *eq, int prov_errno, const void *err_data, char *buf, size_t len)
{
	const char *text = fi_strerror(prov_errno < 0 ? -prov_errno : prov_errno);

	if (buf && len)
		snprintf(buf, len, "%s", text);
	return text;
}

int ufi_eq_trywait(struct ufi_eq *eq)
{
	int rc;

	if (ufi_is_inherited(&eq->lock))
		return -FI_EIO;
	ufi_fabric_progress(eq->fabric);
	ufi_lock(&eq->lock);
	rc = eq->head ? -FI_EAGAIN : ufi_wait_arm(&eq->wait);
	ufi_unlock(&eq->lock);
	return rc;
}

static int eq_control(struct fid *fid, int command, void *arg)
{
	struct ufi_eq *eq = container_of(fid, struct ufi_eq, eq.fid);
	int rc;

	ufi_lock(&eq->lock);
	rc = ufi_wait_control(&eq->wait, command, arg);
	ufi_unlock(&eq->lock);
	return rc;
}

static int eq_close(struct fid *fid)
{
	struct ufi_eq *eq = container_of(fid, struct ufi_eq, eq.fid);

	if (atomic_load(&eq->users))
		return -FI_EBUSY;
	ufi_waitset_remove(&eq->wait, &eq->eq.fid);
	while (eq->head)
		event_drop(eq_take_first(eq));
	free(eq->error);
	ufi_wait_fini(&eq->wait);
	ufi_lock_fini(&eq->lock);
	atomic_fetch_sub(&eq->fabric->users, 1);
	free(eq);
	return 0;
}

static struct fi_ops eq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = eq_close,
	.bind = ufi_no_bind,
	.control = eq_control,
	.ops_open = ufi_no_ops_open,
};

static struct fi_ops_eq eq_ops = {
	.size = sizeof(struct fi_ops_eq),
	.read = eq_read,
	.readerr = eq_readerr,
	.write = eq_write,
	.sread = eq_sread,
	.strerror = eq_strerror,
};

int ufi_eq_open(struct fid_fabric *fabric, struct fi_eq_attr *attr, struct fid_eq **out, void *context)
{
	uint64_t flags = attr ? attr->flags : 0;
	struct ufi_eq *eq;
	int rc;

	if (ufi_is_inherited(&container_of(fabric, struct ufi_fabric, fabric)->lock))
		return -FI_EIO;
	if (flags & ~(FI_WRITE | FI_AFFINITY))
		return -FI_EINVAL;
	eq = calloc(1, sizeof(*eq));
	if (!eq)
		return -FI_ENOMEM;
	rc = ufi_wait_init(&eq->wait, attr ? attr->wait_obj : FI_WAIT_NONE);
	if (rc) {
		free(eq);
		return rc;
	}
	if (eq->wait.obj != FI_WAIT_NONE)
		pmd_forks_count();
	ufi_lock_init(&eq->lock);
	eq->tail = &eq->head;
	eq->writable = flags & FI_WRITE;
	eq->fabric = container_of(fabric, struct ufi_fabric, fabric);
	eq->eq.fid.fclass = FI_CLASS_EQ;
	eq->eq.fid.context = context;
	eq->eq.fid.ops = &eq_fid_ops;
	eq->eq.ops = &eq_ops;
	atomic_fetch_add(&eq->fabric->users, 1);
	rc = ufi_waitset_add(attr ? attr->wait_set : NULL, eq->fabric, &eq->eq.fid, &eq->wait);
	if (rc) {
		eq_close(&eq->eq.fid);
		return rc;
	}
	*out = &eq->eq;
	return 0;
}
