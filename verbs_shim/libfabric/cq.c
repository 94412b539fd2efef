/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cq.c - completion queues (fi_cq(3)). The ring's entries have the longest format; shorter formats are prefixes of it,
 * and readers get the prefix that they asked for. A full ring grows; entries are lost (FI_EOVERRUN) only if memory
 * runs out. The details of errors are in a separate list, in the same order as the ring.
 *
 * Reading an empty queue makes progress. Guarded by the engine's lock.
 */
#include <stdio.h>

#include "provider.h"
#include "requests.h"

#define SIZE_DEFAULT	 256
#define SIZE_MIN	 16
#define SIZE_MAX_ENTRIES (1u << 24)

static struct ufi_cq *cq_of(struct fid_cq *cq)
{
	return container_of(cq, struct ufi_cq, cq);
}

/* ---- writing --------------------------------------------------------------------------------------------- */

static bool ring_grow(struct ufi_cq *cq)
{
	struct ufi_comp *ring = malloc(2 * cq->size * sizeof(*ring));
	size_t first = cq->size - cq->head;

	if (!ring)
		return false;
	memcpy(ring, cq->ring + cq->head, first * sizeof(*ring));
	memcpy(ring + first, cq->ring, cq->head * sizeof(*ring));
	free(cq->ring);
	cq->ring = ring;
	cq->head = 0;
	cq->size *= 2;
	return true;
}

static bool error_keep(struct ufi_cq *cq, const struct ufi_comp_error *error)
{
	struct ufi_comp_error *kept = malloc(sizeof(*kept));

	if (!kept)
		return false;
	*kept = *error;
	kept->next = NULL;
	*cq->errors_tail = kept;
	cq->errors_tail = &kept->next;
	return true;
}

void ufi_cq_put(struct ufi_cq *cq, const struct ufi_comp *comp, const struct ufi_comp_error *error)
{
	struct ufi_comp *at;

	if ((cq->n == cq->size && !ring_grow(cq)) || (error && !error_keep(cq, error))) {
		cq->overrun = true;
	} else {
		at = &cq->ring[(cq->head + cq->n++) & (cq->size - 1)];
		*at = *comp;
		if (error)
			at->entry.flags |= UFI_COMP_ERROR;
	}
	ufi_wait_signal(&cq->wait);
}

/* ---- reading --------------------------------------------------------------------------------------------- */

/** Remove available entries. @return the number of entries; -FI_EAGAIN: none; -FI_EAVAIL: the next is an error;
 * -FI_EOVERRUN. */
static ssize_t cq_take(struct ufi_cq *cq, void *buf, size_t count, fi_addr_t *source)
{
	size_t n = 0;

	for (; n < count && cq->n; n++, cq->n--) {
		const struct ufi_comp *comp = &cq->ring[cq->head];

		if (comp->entry.flags & UFI_COMP_ERROR)
			return n ? (ssize_t)n : -FI_EAVAIL;
		memcpy((char *)buf + n * cq->entry_size, &comp->entry, cq->entry_size);
		if (source)
			source[n] = comp->source;
		cq->head = (cq->head + 1) & (cq->size - 1);
	}
	if (n)
		return (ssize_t)n;
	return cq->overrun && !cq->n ? -FI_EOVERRUN : -FI_EAGAIN;
}

/** As cq_take(), but make progress if the queue is empty. Engine lock held. */
static ssize_t cq_poll(struct ufi_cq *cq, void *buf, size_t count, fi_addr_t *source)
{
	ssize_t got = cq_take(cq, buf, count, source);

	if (got == -FI_EAGAIN && pmd_progress(cq->domain->engine, count ? (unsigned)count : 1))
		got = cq_take(cq, buf, count, source);
	return got;
}

static ssize_t cq_readfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source)
{
	struct ufi_cq *cq = cq_of(fid);
	ssize_t got;

	if (!ufi_enter(cq->domain))
		return -FI_EIO;
	got = cq_poll(cq, buf, count, source);
	ufi_leave(cq->domain);
	return got;
}

static ssize_t cq_read(struct fid_cq *fid, void *buf, size_t count)
{
	return cq_readfrom(fid, buf, count, NULL);
}

/** A thread in fi_cq_sread. `waits`: cq->readers counts this thread. `signals`: the value of cq->signals when the
 * thread began to wait. `begun`: the value for ufi_wait_sleep(). */
struct reader {
	bool waits;
	unsigned signals, begun;
};

/** As cq_poll(), but if the queue is empty and fi_cq_signal was not called, set r->waits and prepare to sleep. Engine
 * lock held. */
static ssize_t cq_poll_or_wait(struct ufi_cq *cq, void *buf, size_t count, fi_addr_t *source, struct reader *r)
{
	ssize_t got = cq_poll(cq, buf, count, source);
	bool told = r->waits ? cq->signals != r->signals : cq->signaled;

	cq->readers -= r->waits;
	if (!r->waits && got == -FI_EAGAIN)
		cq->signaled = false;
	r->waits = got == -FI_EAGAIN && !told;
	if (!r->waits)
		return got;
	cq->readers++;
	r->signals = cq->signals;
	r->begun = ufi_wait_begin(&cq->wait);
	if (ufi_wait_sleeps(&cq->wait))
		pmd_expect_sleep(cq->domain->engine);
	return got;
}

/** Stop counting a reader that no longer waits. */
static void cq_wait_end(struct ufi_cq *cq)
{
	if (!ufi_enter(cq->domain))
		return;
	cq->readers--;
	ufi_leave(cq->domain);
}

static ssize_t cq_sreadfrom(struct fid_cq *fid, void *buf, size_t count, fi_addr_t *source, const void *cond,
			    int timeout)
{
	struct ufi_cq *cq = cq_of(fid);
	uint64_t deadline_ns = ufi_deadline(timeout);
	struct reader r = {.waits = false};
	ssize_t got;
	int rc;

	if (cq->wait.obj == FI_WAIT_NONE)
		return -FI_EINVAL;
	for (;;) {
		if (!ufi_enter(cq->domain))
			return -FI_EIO;
		got = cq_poll_or_wait(cq, buf, count, source, &r);
		ufi_leave(cq->domain);
		if (!r.waits)
			return got;
		rc = ufi_wait_sleep(&cq->wait, cq->domain->fabric, r.begun, deadline_ns);
		if (rc) {
			cq_wait_end(cq);
			return rc == -FI_ETIMEDOUT ? -FI_EAGAIN : rc;
		}
	}
}

static ssize_t cq_sread(struct fid_cq *fid, void *buf, size_t count, const void *cond, int timeout)
{
	return cq_sreadfrom(fid, buf, count, NULL, cond, timeout);
}

/** Fill in the fields that exist in the application's API version. */
static void error_fill(struct ufi_cq *cq, const struct ufi_comp *comp, const struct ufi_comp_error *error,
		       struct fi_cq_err_entry *out)
{
	bool has_size = FI_VERSION_GE(cq->domain->fabric->fabric.api_version, FI_VERSION(1, 5));
	size_t room = has_size ? out->err_data_size : 0, len = error->source_len;

	cq->err_data = error->source;
	out->op_context = comp->entry.op_context;
	out->flags = comp->entry.flags & ~UFI_COMP_ERROR;
	out->len = comp->entry.len;
	out->buf = comp->entry.buf;
	out->data = comp->entry.data;
	out->tag = comp->entry.tag;
	out->olen = error->overflow;
	out->err = error->err;
	out->prov_errno = (int)error->prov_errno;
	if (room && out->err_data)
		memcpy(out->err_data, &cq->err_data, room < len ? room : len);
	else
		out->err_data = len ? &cq->err_data : NULL;
	if (has_size)
		out->err_data_size = room && room < len ? room : len;
	/* From 1.20 on one more field, which the headers of this build may lack: src_addr. */
	if (FI_VERSION_GE(cq->domain->fabric->fabric.api_version, FI_VERSION(1, 20)))
		memcpy((char *)out + UFI_SIZE_1_17(struct fi_cq_err_entry, err_data_size), &comp->source,
		       sizeof(fi_addr_t));
}

static ssize_t cq_readerr(struct fid_cq *fid, struct fi_cq_err_entry *buf, uint64_t flags)
{
	struct ufi_cq *cq = cq_of(fid);
	struct ufi_comp_error *error = NULL;

	if (!buf)
		return -FI_EINVAL;
	if (!ufi_enter(cq->domain))
		return -FI_EIO;
	if (cq->n && cq->ring[cq->head].entry.flags & UFI_COMP_ERROR) {
		error = cq->errors;
		error_fill(cq, &cq->ring[cq->head], error, buf);
		cq->errors = error->next;
		if (!cq->errors)
			cq->errors_tail = &cq->errors;
		cq->head = (cq->head + 1) & (cq->size - 1);
		cq->n--;
	}
	ufi_leave(cq->domain);
	free(error);
	return error ? 1 : -FI_EAGAIN;
}

bool ufi_cq_pending(struct ufi_cq *cq)
{
	bool pending;

	if (!ufi_enter(cq->domain))
		return false;
	if (!cq->n)
		pmd_progress(cq->domain->engine, 1);
	pending = cq->n || cq->overrun;
	ufi_leave(cq->domain);
	return pending;
}

/* ---- the rest -------------------------------------------------------------------------------------------- */

static int cq_signal(struct fid_cq *fid)
{
	struct ufi_cq *cq = cq_of(fid);

	if (cq->wait.obj == FI_WAIT_NONE)
		return -FI_EINVAL;
	if (!ufi_enter(cq->domain))
		return -FI_EIO;
	cq->signals++;
	cq->signaled = cq->readers == 0;
	ufi_wait_wake(&cq->wait);
	ufi_leave(cq->domain);
	return 0;
}

static const char *cq_strerror(struct fid_cq *fid, int prov_errno, const void *err_data, char *buf, size_t len)
{
	const char *text = ufi_comp_strerror(prov_errno);

	if (buf && len)
		snprintf(buf, len, "%s", text);
	return text;
}

int ufi_cq_trywait(struct ufi_cq *cq)
{
	int rc = -FI_EAGAIN;

	if (!ufi_enter(cq->domain))
		return -FI_EIO;
	if (!cq->n)
		pmd_progress(cq->domain->engine, 1);
	if (cq->signaled) {
		cq->signaled = false; /* this call reports the signal */
	} else if (!cq->n && !cq->overrun) {
		rc = ufi_wait_arm(&cq->wait);
		pmd_expect_sleep(cq->domain->engine);
	}
	ufi_leave(cq->domain);
	return rc;
}

static int cq_control(struct fid *fid, int command, void *arg)
{
	struct ufi_cq *cq = container_of(fid, struct ufi_cq, cq.fid);
	int rc;

	if (!ufi_enter(cq->domain))
		return -FI_EIO;
	rc = ufi_wait_control(&cq->wait, command, arg);
	ufi_leave(cq->domain);
	return rc;
}

static int cq_close(struct fid *fid)
{
	struct ufi_cq *cq = container_of(fid, struct ufi_cq, cq.fid);

	if (atomic_load(&cq->users))
		return -FI_EBUSY;
	ufi_waitset_remove(&cq->wait, &cq->cq.fid);
	while (cq->errors) {
		struct ufi_comp_error *error = cq->errors;

		cq->errors = error->next;
		free(error);
	}
	ufi_wait_fini(&cq->wait);
	atomic_fetch_sub(&cq->domain->users, 1);
	free(cq->ring);
	free(cq);
	return 0;
}

static struct fi_ops cq_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = cq_close,
	.bind = ufi_no_bind,
	.control = cq_control,
	.ops_open = ufi_no_ops_open,
};

static struct fi_ops_cq cq_ops = {
	.size = sizeof(struct fi_ops_cq),
	.read = cq_read,
	.readfrom = cq_readfrom,
	.readerr = cq_readerr,
	.sread = cq_sread,
	.sreadfrom = cq_sreadfrom,
	.signal = cq_signal,
	.strerror = cq_strerror,
};

static size_t format_size(enum fi_cq_format format)
{
	switch (format) {
	case FI_CQ_FORMAT_UNSPEC:
	case FI_CQ_FORMAT_CONTEXT:
		return sizeof(struct fi_cq_entry);
	case FI_CQ_FORMAT_MSG:
		return sizeof(struct fi_cq_msg_entry);
	case FI_CQ_FORMAT_DATA:
		return sizeof(struct fi_cq_data_entry);
	case FI_CQ_FORMAT_TAGGED:
		return sizeof(struct fi_cq_tagged_entry);
	default:
		return 0;
	}
}

int ufi_cq_open(struct fid_domain *fid, struct fi_cq_attr *attr, struct fid_cq **out, void *context)
{
	struct ufi_domain *domain = container_of(fid, struct ufi_domain, domain);
	size_t want = attr && attr->size ? attr->size : SIZE_DEFAULT;
	struct ufi_cq *cq;
	int rc;

	if (!attr || !format_size(attr->format) || attr->flags & ~FI_AFFINITY || want > SIZE_MAX_ENTRIES)
		return -FI_EINVAL;
	if (attr->wait_cond != FI_CQ_COND_NONE && attr->wait_obj != FI_WAIT_NONE)
		return -FI_ENOSYS;
	cq = calloc(1, sizeof(*cq));
	if (!cq)
		return -FI_ENOMEM;
	for (cq->size = SIZE_MIN; cq->size < want;)
		cq->size *= 2;
	cq->ring = malloc(cq->size * sizeof(*cq->ring));
	rc = cq->ring ? ufi_wait_init(&cq->wait, attr->wait_obj) : -FI_ENOMEM;
	if (rc) {
		free(cq->ring);
		free(cq);
		return rc;
	}
	cq->domain = domain;
	cq->entry_size = format_size(attr->format);
	cq->errors_tail = &cq->errors;
	cq->cq.fid.fclass = FI_CLASS_CQ;
	cq->cq.fid.context = context;
	cq->cq.fid.ops = &cq_fid_ops;
	cq->cq.ops = &cq_ops;
	atomic_fetch_add(&domain->users, 1);
	rc = ufi_waitset_add(attr->wait_set, domain->fabric, &cq->cq.fid, &cq->wait);
	if (rc) {
		cq_close(&cq->cq.fid);
		return rc;
	}
	*out = &cq->cq;
	return 0;
}
