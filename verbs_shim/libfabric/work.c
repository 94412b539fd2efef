/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * work.c - requests that wait for a counter; see work.h.
 *
 * The application names deferred work by its struct fi_deferred_work, which stores the index of the work's slot in the
 * domain. It does not store a pointer, because the application can name work that has completed long ago.
 *
 * Owns: ufi_domain.works, the entries of ufi_core.works and ufi_core.triggered, and a count in `users` of each counter
 * that a work waits for, reports to or changes.
 */
#include "work.h"

#define SLOTS_FIRST 64u
#define NO_SLOT	    UINT32_MAX

/** Deferred work of a domain. */
struct ufi_works {
	uint32_t n, free; /* number of slots; index of the first free slot, or NO_SLOT */
	struct {
		struct ufi_work *work; /* NULL: the slot is free */
		uint32_t next;
	} slot[];
};

/* ---- copies ---------------------------------------------------------------------------------------------- */

/** 64-bit words in `n` elements of a type. */
#define WORDS(n, type) ((n) * (sizeof(type) / sizeof(uint64_t)))
_Static_assert(sizeof(struct iovec) % sizeof(uint64_t) == 0 && sizeof(struct fi_rma_iov) % sizeof(uint64_t) == 0 &&
		       sizeof(struct fi_ioc) % sizeof(uint64_t) == 0 &&
		       sizeof(struct fi_rma_ioc) % sizeof(uint64_t) == 0,
	       "vectors are whole words");

/** Copy a vector to *at, and advance *at to the end of the copy. */
static const void *keep(uint64_t **at, const void *from, size_t words)
{
	uint64_t *to = *at;

	if (words == 0)
		return from;
	memcpy(to, from, words * sizeof(*to));
	*at += words;
	return to;
}

static int fire(struct nic_trig_work *trig);

static struct ufi_work *work_new(struct ufi_domain *domain, struct ufi_core *core, size_t words)
{
	struct ufi_work *w = calloc(1, sizeof(*w) + words * sizeof(uint64_t));

	if (!w)
		return NULL;
	w->trig.fire = fire;
	w->domain = domain;
	w->core = core;
	w->slot = NO_SLOT;
	list_init(&w->node);
	return w;
}

static int post_send(struct ufi_work *w, const struct ufi_way *way)
{
	return ufi_send_post(w->core, &w->send, way);
}

struct ufi_work *ufi_work_send(struct ufi_core *core, const struct ufi_send *s)
{
	struct ufi_work *w = work_new(core->domain, core, WORDS(s->n_iov, struct iovec));
	uint64_t *at = w ? w->vectors : NULL;

	if (!w)
		return NULL;
	w->post = post_send;
	w->kind = NIC_RDM_SEND;
	w->flags = s->flags;
	w->context = s->context;
	w->send = *s;
	w->send.iov = keep(&at, s->iov, WORDS(s->n_iov, struct iovec));
	return w;
}

static int post_recv(struct ufi_work *w, const struct ufi_way *way)
{
	return ufi_recv_post(w->core, &w->recv, way);
}

struct ufi_work *ufi_work_recv(struct ufi_core *core, const struct ufi_recv *r)
{
	struct ufi_work *w = work_new(core->domain, core, WORDS(r->n_iov, struct iovec));
	uint64_t *at = w ? w->vectors : NULL;

	if (!w)
		return NULL;
	w->post = post_recv;
	w->kind = NIC_RDM_RECV;
	w->repeats = r->flags & FI_MULTI_RECV;
	w->flags = r->flags;
	w->context = r->context;
	w->recv = *r;
	w->recv.iov = keep(&at, r->iov, WORDS(r->n_iov, struct iovec));
	return w;
}

static int post_rma(struct ufi_work *w, const struct ufi_way *way)
{
	return ufi_rma_post(w->core, &w->rma, way);
}

struct ufi_work *ufi_work_rma(struct ufi_core *core, const struct ufi_rma *r)
{
	size_t iov = WORDS(r->n_iov, struct iovec), remote = WORDS(r->n_remote, struct fi_rma_iov);
	struct ufi_work *w = work_new(core->domain, core, iov + remote);
	uint64_t *at = w ? w->vectors : NULL;

	if (!w)
		return NULL;
	w->post = post_rma;
	w->kind = r->flags & FI_READ ? NIC_RDM_READ : NIC_RDM_WRITE;
	w->flags = r->flags;
	w->context = r->context;
	w->rma = *r;
	w->rma.iov = keep(&at, r->iov, iov);
	w->rma.remote = keep(&at, r->remote, remote);
	return w;
}

static int post_atomic(struct ufi_work *w, const struct ufi_way *way)
{
	return ufi_atomic_post(w->core, &w->atomic, way);
}

bool ufi_work_atomic_fits(const struct ufi_atomic *a)
{
	return a->n_operand <= NIC_RDM_IOV_MAX && a->n_compare <= NIC_RDM_IOV_MAX && a->n_result <= NIC_RDM_IOV_MAX &&
	       a->n_remote <= NIC_RDM_REMOTE_MAX && (!a->n_operand || a->operand || a->op == FI_ATOMIC_READ) &&
	       (!a->n_compare || a->compare) && (!a->n_result || a->result);
}

struct ufi_work *ufi_work_atomic(struct ufi_core *core, const struct ufi_atomic *a)
{
	size_t n_operand = a->op == FI_ATOMIC_READ ? 0 : a->n_operand; /* FI_ATOMIC_READ ignores the operand, whose list
									  can be NULL even if its length is not 0 */
	size_t operand = WORDS(n_operand, struct fi_ioc), compare = WORDS(a->n_compare, struct fi_ioc);
	size_t result = WORDS(a->n_result, struct fi_ioc), remote = WORDS(a->n_remote, struct fi_rma_ioc);
	struct ufi_work *w = work_new(core->domain, core, operand + compare + result + remote);
	uint64_t *at = w ? w->vectors : NULL;

	if (!w)
		return NULL;
	w->post = post_atomic;
	w->kind = a->form == NIC_ELEM_BASE ? NIC_RDM_ATOMIC : NIC_RDM_FETCH;
	w->flags = a->flags;
	w->context = a->context;
	w->atomic = *a;
	w->atomic.n_operand = n_operand;
	w->atomic.operand = keep(&at, a->operand, operand);
	w->atomic.compare = keep(&at, a->compare, compare);
	w->atomic.result = keep(&at, a->result, result);
	w->atomic.remote = keep(&at, a->remote, remote);
	return w;
}

static int count(struct ufi_work *w, const struct ufi_way *way)
{
	const struct ufi_counting *c = &w->counting;

	if (way->check)
		return 0;
	ufi_cntr_change(c->cntr, false, c->value, c->add);
	return 0;
}

struct ufi_work *ufi_work_count(struct ufi_domain *domain, const struct ufi_counting *c)
{
	struct ufi_work *w = work_new(domain, NULL, 0);

	if (!w)
		return NULL;
	w->post = count;
	w->counting = *c;
	return w;
}

/* ---- names of deferred work ------------------------------------------------------------------------------- */

static struct ufi_work *work_find(const struct ufi_domain *domain, const struct fi_deferred_work *user)
{
	uintptr_t slot = (uintptr_t)user->context.internal[0];
	struct ufi_work *w = domain->works && slot < domain->works->n ? domain->works->slot[slot].work : NULL;

	return w && w->user == user ? w : NULL;
}

static bool slots_grow(struct ufi_domain *domain)
{
	uint32_t before = domain->works ? domain->works->n : 0, n = before ? 2 * before : SLOTS_FIRST;
	struct ufi_works *works;

	if (n >= NO_SLOT / 2)
		return false;
	works = realloc(domain->works, sizeof(*works) + n * sizeof(works->slot[0]));
	if (!works)
		return false;
	works->n = n;
	works->free = before; /* all slots before that index are in use */
	for (uint32_t i = before; i < n; i++) {
		works->slot[i].work = NULL;
		works->slot[i].next = i + 1 < n ? i + 1 : NO_SLOT;
	}
	domain->works = works;
	return true;
}

/** Take a slot for the work, and make `user` name the work. Applications reuse the struct for several requests, so
 * `user` may have named older work until now. @return 0, -FI_ENOMEM. */
static int slot_take(struct ufi_work *w, struct fi_deferred_work *user)
{
	struct ufi_domain *domain = w->domain;

	if ((!domain->works || domain->works->free == NO_SLOT) && !slots_grow(domain))
		return -FI_ENOMEM;
	w->user = user;
	w->slot = domain->works->free;
	domain->works->free = domain->works->slot[w->slot].next;
	domain->works->slot[w->slot].work = w;
	user->context.internal[0] = (void *)(uintptr_t)w->slot;
	return 0;
}

static void slot_give(struct ufi_work *w)
{
	struct ufi_works *works = w->domain->works;

	works->slot[w->slot].work = NULL;
	works->slot[w->slot].next = works->free;
	works->free = w->slot;
}

void ufi_works_fini(struct ufi_domain *domain)
{
	free(domain->works);
}

/* ---- from queueing to completion ------------------------------------------------------------------------- */

static void use(struct ufi_cntr *cntr)
{
	if (cntr)
		atomic_fetch_add(&cntr->users, 1);
}

static void leave(struct ufi_cntr *cntr)
{
	if (cntr)
		atomic_fetch_sub(&cntr->users, 1);
}

/** Free work that has been queued. Engine lock held. */
static void work_free(struct ufi_work *w)
{
	list_remove(&w->node);
	if (w->slot != NO_SLOT)
		slot_give(w);
	leave(w->trigger);
	leave(w->completion);
	if (!w->core)
		leave(w->counting.cntr);
	free(w);
}

void ufi_work_done(struct ufi_work *w, const struct nic_rdm_done *d)
{
	if (!w->repeats || d->flags & NIC_RDM_MULTI)
		work_free(w);
}

void ufi_work_untold(struct ufi_work *w, const struct nic_rdm_done *d)
{
	if (w->completion)
		ufi_cntr_count(w->completion, d->status != NIC_RDM_OK);
	ufi_work_done(w, d);
}

/** End work that failed without having been in flight, and report the failure. */
static void work_fail(struct ufi_work *w, uint32_t status)
{
	/* A shared receive context has no completion queue, so a bound endpoint reports the context's work. The same
	 * endpoint reports the context's receives that end without a message. */
	struct ufi_core *teller =
		w->core->rdm ? w->core : ufi_srx_reporter(container_of(w->core, struct ufi_srx, ep.own));
	struct ufi_work *deferred = w->user ? w : NULL;
	struct nic_rdm_done done = {
		.context = w->context,
		.cookie = ufi_cookie(&(struct ufi_way){.work = deferred}, w->flags),
		.kind = w->kind,
		.flags = (w->flags & FI_TAGGED ? NIC_RDM_TAGGED : 0) | (w->repeats ? NIC_RDM_MULTI : 0),
		.status = status,
	};

	if (w->kind == NIC_RDM_RECV)
		done.tag = w->recv.tag;
	if (teller)
		ufi_tell(teller, &done);
	else if (deferred)
		ufi_work_untold(w, &done);
	if (!deferred)
		work_free(w);
}

static uint32_t status_of(int err)
{
	switch (-err) {
	case FI_EINVAL: /* the peer is unknown; all other arguments were checked when the work was queued */
		return UFI_STATUS_NO_PEER;
	case FI_ENOTCONN:
		return UFI_STATUS_UNCONNECTED;
	case FI_ENOMSG:
		return UFI_STATUS_NO_MESSAGE;
	case FI_ENOMEM:
		return NIC_RDM_NO_MEMORY;
	default:
		return NIC_WC_LOC_QP_OP_ERR;
	}
}

/* The nic_trig_work.fire callback. Deferred work can complete, and be freed, while post() runs. */
static int fire(struct nic_trig_work *trig)
{
	struct ufi_work *w = container_of(trig, struct ufi_work, trig);
	struct ufi_cntr *trigger = w->trigger;
	bool stays = w->core && w->user;
	const struct ufi_way way = {.work = stays ? w : NULL};
	int rc;

	w->trigger = NULL;
	rc = w->post(w, &way);
	if (rc == -EAGAIN) {
		w->trigger = trigger;
		return rc;
	}
	leave(trigger);
	if (rc)
		work_fail(w, status_of(rc));
	else if (!stays)
		work_free(w);
	return 0;
}

/** The steps of queueing that can fail. Engine lock held. */
static int work_begin(struct ufi_work *w, struct ufi_cntr *trigger, uint64_t threshold, struct fi_deferred_work *user,
		      struct ufi_cntr *completion)
{
	int rc = w->post(w, &(struct ufi_way){.check = true});
	void *named = user ? user->context.internal[0] : NULL;

	if (!rc && user)
		rc = slot_take(w, user);
	if (rc)
		return rc;
	rc = nic_trig_queue(w->domain->nic, &trigger->trig, threshold, &w->trig);
	if (rc) {
		if (user)
			user->context.internal[0] = named; /* `user` names the older work again */
		return rc;
	}
	w->trigger = trigger;
	w->completion = completion;
	use(trigger);
	use(completion);
	if (w->core)
		list_append(user ? &w->core->works : &w->core->triggered, &w->node);
	else
		use(w->counting.cntr);
	return 0;
}

int ufi_work_queue(struct ufi_work *w, struct ufi_cntr *trigger, uint64_t threshold, struct fi_deferred_work *user,
		   struct ufi_cntr *completion)
{
	struct ufi_domain *domain = w->domain;
	int rc;

	if (!ufi_enter(domain)) {
		free(w);
		return -FI_EIO;
	}
	rc = work_begin(w, trigger, threshold, user, completion);
	if (!rc) {
		ufi_run_work(domain);
	} else {
		if (w->slot != NO_SLOT)
			slot_give(w);
		free(w);
	}
	ufi_leave(domain);
	return rc;
}

/* ---- cancelling ------------------------------------------------------------------------------------------ */

/** Cancel work that has not started, and free it. @return false: the work has already started. */
static bool work_take_back(struct ufi_work *w)
{
	if (!nic_trig_cancel(&w->trig))
		return false;
	work_free(w);
	return true;
}

int ufi_work_cancel(struct ufi_domain *domain, struct fi_deferred_work *user)
{
	struct ufi_work *w;
	bool canceled;

	if (!ufi_enter(domain))
		return -FI_EIO;
	w = work_find(domain, user);
	canceled = w && work_take_back(w);
	ufi_retry_work(domain);
	ufi_leave(domain);
	return canceled ? 0 : -FI_ENOENT;
}

int ufi_work_flush(struct ufi_domain *domain, const struct ufi_cntr *cntr)
{
	if (!ufi_enter(domain))
		return -FI_EIO;
	for (uint32_t i = 0; domain->works && i < domain->works->n; i++) {
		struct ufi_work *w = domain->works->slot[i].work;

		if (w && (!cntr || w->trigger == cntr))
			work_take_back(w);
	}
	ufi_retry_work(domain);
	ufi_leave(domain);
	return 0;
}

bool ufi_work_cancel_triggered(struct ufi_core *core, const void *context)
{
	for (struct list *n = core->triggered.next; n != &core->triggered; n = n->next) {
		struct ufi_work *w = list_entry(n, struct ufi_work, node);

		if (w->context != context || !nic_trig_cancel(&w->trig))
			continue;
		work_fail(w, NIC_RDM_CANCELED);
		return true;
	}
	return false;
}

static void all_take_back(struct list *works)
{
	for (struct list *n = works->next, *next; n != works; n = next) {
		next = n->next;
		work_take_back(list_entry(n, struct ufi_work, node));
	}
}

void ufi_work_stop(struct ufi_core *core)
{
	all_take_back(&core->triggered);
	all_take_back(&core->works);
}

/* Frees only deferred work. Triggered operations need no action: ufi_work_stop has canceled those that waited, and
 * those that have started are not tracked. */
void ufi_work_drop(struct ufi_core *core)
{
	for (struct list *n = core->works.next, *next; n != &core->works; n = next) {
		next = n->next;
		work_free(list_entry(n, struct ufi_work, node));
	}
}
