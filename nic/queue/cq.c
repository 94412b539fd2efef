/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cq.c - completion queues: a ring of entries in the layout that verbs programs see, notification, overflow.
 * Overflow is an error of the CQ (C9-218, C11-37): existing entries stay readable and are not overwritten, and all QPs
 * that use the CQ go to the error state (nic_settle_failed_cqs() moves the QPs later, at the end of the call into the
 * NIC). Exception: a CQ may be set to drop its oldest entry instead (nic_cq_ignore_overrun).
 */
#include "cq.h"

/** Allocate the ring of a CQ. @param notes out: a ring of notes; NULL: allocate none. @param mask out: ring size - 1.
 *  @return 0, -EINVAL, -ENOMEM. */
static int ring_alloc(const struct nic *nic, uint32_t depth, struct nic_wc **ring, struct nic_cq_note **notes,
		      uint32_t *mask)
{
	if (!depth || depth > nic->cfg.limits.max_cqe)
		return -EINVAL;

	uint32_t size = round_up_pow2(depth);

	*ring = calloc(size, sizeof(**ring));
	if (notes && *ring) {
		*notes = calloc(size, sizeof(**notes));
		if (!*notes) {
			free(*ring);
			return -ENOMEM;
		}
	}
	*mask = size - 1;
	return *ring ? 0 : -ENOMEM;
}

int nic_cq_create(struct nic *nic, uint32_t depth, void *user, struct nic_cq **out)
{
	if (nic->n_cq >= nic->cfg.limits.max_cq)
		return -ENOMEM;

	struct nic_cq *cq = calloc(1, sizeof(*cq));

	if (!cq)
		return -ENOMEM;

	int err = ring_alloc(nic, depth, &cq->ring, NULL, &cq->mask);

	if (err) {
		free(cq);
		return err;
	}
	cq->nic = nic;
	list_init(&cq->failed);
	list_init(&cq->moderation.node);
	list_append(&nic->all_cqs, &cq->node);
	event_source_init(&cq->events, user);
	nic_trig_cntr_init(&cq->produced);
	nic->n_cq++;
	*out = cq;
	return 0;
}

int nic_cq_destroy(struct nic_cq *cq)
{
	if (cq->users || cq->waiters)
		return -EBUSY;
	nic_trig_cntr_fini(&cq->produced);
	event_source_fini(&cq->events);
	cq_unhold(cq);
	list_remove(&cq->failed);
	list_remove(&cq->node);
	cq->nic->n_cq--;
	free(cq->ring);
	free(cq->notes);
	free(cq);
	return 0;
}

uint32_t nic_cq_depth(const struct nic_cq *cq)
{
	return cq->mask + 1;
}

uint32_t nic_cq_count(const struct nic_cq *cq)
{
	return (uint32_t)(cq->head - cq->tail);
}

int nic_cq_resize(struct nic_cq *cq, uint32_t depth)
{
	struct nic_wc *ring;
	struct nic_cq_note *notes = NULL;
	uint32_t mask, n = nic_cq_count(cq);
	int err;

	if (depth < n)
		return -EINVAL;
	err = ring_alloc(cq->nic, depth, &ring, cq->notes ? &notes : NULL, &mask);
	if (err)
		return err;
	for (uint32_t i = 0; i < n; i++)
		ring[i] = cq->ring[(cq->tail + i) & cq->mask];
	for (uint32_t i = 0; notes && i < n; i++)
		notes[i] = cq->notes[(cq->tail + i) & cq->mask];
	free(cq->ring);
	free(cq->notes);
	cq->ring = ring;
	cq->notes = notes;
	cq->mask = mask;
	cq->before += cq->tail;
	cq->head -= cq->tail;
	cq->announced -= cq->tail;
	cq->solicited -= cq->tail;
	cq->tail = 0;
	return 0;
}

int nic_cq_poll(struct nic_cq *cq, int n, struct nic_wc *wc)
{
	int got = 0;

	while (got < n && cq->tail != cq->head)
		wc[got++] = cq->ring[cq->tail++ & cq->mask];
	return got || !cq->overflowed || n <= 0 ? got : -EIO;
}

void cq_announce(struct nic_cq *cq)
{
	cq->arm = CQ_UNARMED;
	cq->announced = cq->head;
	event_raise(cq->nic, &cq->events, NIC_EVENT_COMP);
}

/*
 * If entries are unread, arming raises the event at once (or after moderation). ConnectX does the same: its arming
 * doorbell carries the consumer index. Otherwise an application that polls a fixed number of entries per event
 * (perftest) would sleep although entries remain. Exception: no event is raised for a single unread entry that the last
 * event has announced, because the application will poll that entry. A ping-pong therefore costs one event per message.
 */
void nic_cq_arm(struct nic_cq *cq, bool solicited_only)
{
	uint64_t newest = solicited_only && cq->arm != CQ_ARMED ? cq->solicited : cq->head;
	uint64_t waiting = newest - cq->tail;

	if (!solicited_only)
		cq->arm = CQ_ARMED;
	else if (cq->arm == CQ_UNARMED)
		cq->arm = CQ_ARMED_SOLICITED;
	if (waiting > nic_cq_count(cq))
		return; /* the last solicited entry has been polled already */
	if (waiting < 1 || (waiting == 1 && newest == cq->announced))
		return;
	if (cq->moderation.count)
		cq_hold(cq, waiting > cq->moderation.held ? waiting : cq->moderation.held);
	else
		cq_announce(cq);
}

void nic_cq_ignore_overrun(struct nic_cq *cq, bool ignore)
{
	cq->overruns = ignore;
}

/* The CQ is full or has overflowed. @return whether the new entry may be added nevertheless, in place of the oldest
 * entry. */
static bool overrun(struct nic_cq *cq)
{
	struct nic *nic = cq->nic;

	if (cq->overruns && !cq->overflowed) {
		COUNT(nic, cq_overrun);
		cq->tail++;
		return true;
	}
	COUNT(nic, cq_overflow);
	if (cq->overflowed)
		return false;
	cq->overflowed = true;
	event_raise(nic, &cq->events, NIC_EVENT_CQ_ERR);
	list_append(&nic->cq_failed, &cq->failed);
	nic_trig_set(nic, &cq->produced, true, UINT64_MAX); /* wakes all WAITs */
	return false;
}

/** An entry was added, and the CQ is armed for it: raise the COMP event, or delay it. */
static inline void notify(struct nic_cq *cq)
{
	if (cq->moderation.count)
		cq_hold(cq, cq->moderation.held + 1);
	else
		cq_announce(cq);
}

/* Add an entry to the ring. @return false: the entry is lost. */
static inline bool add(struct nic_cq *cq, const struct nic_wc *wc, bool solicited)
{
	struct nic *nic = cq->nic;

	if ((cq->overflowed || nic_cq_count(cq) > cq->mask) && !overrun(cq))
		return false;
	solicited |= wc->status != NIC_WC_SUCCESS;
	cq->ring[cq->head++ & cq->mask] = *wc;
	nic->completions++;
	if (solicited)
		cq->solicited = cq->head;
	if (cq->arm == CQ_ARMED || (cq->arm == CQ_ARMED_SOLICITED && solicited))
		notify(cq);
	return true;
}

/** The sink of a CQ that counts its entries or keeps notes about them. */
static void add_noted(struct nic_cq *cq, const struct nic_wc *wc, bool solicited)
{
	if (!add(cq, wc, solicited))
		return;
	if (cq->notes)
		cq->notes[(cq->head - 1) & cq->mask] = (struct nic_cq_note){cq->nic->told_ns, cq->tag, cq->app_ctx};
	if (cq->counts)
		nic_trig_add(cq->nic, &cq->produced, false, 1);
}

void cq_count(struct nic_cq *cq)
{
	if (cq->counts || (cq->sink && cq->sink != add_noted))
		return;
	cq->sink = add_noted;
	cq->counts = true;
	nic_trig_set(cq->nic, &cq->produced, false, cq->before + cq->head);
}

int nic_cq_keep_notes(struct nic_cq *cq)
{
	cq->notes = calloc(cq->mask + 1, sizeof(*cq->notes));
	if (!cq->notes)
		return -ENOMEM;
	cq->sink = add_noted;
	return 0;
}

struct nic_cq_note nic_cq_polled_note(const struct nic_cq *cq)
{
	return cq->notes[(cq->tail - 1) & cq->mask];
}

void cq_push(struct nic_cq *cq, const struct nic_wc *wc, bool solicited)
{
	trace_add(cq->nic, wc->qp_num, NIC_TR_complete, wc->status, wc->opcode);
	if (cq->sink)
		cq->sink(cq, wc, solicited);
	else
		add(cq, wc, solicited);
}

void cq_push_tagged(struct nic_cq *cq, const struct nic_wc *wc, bool solicited, uint64_t tag, uint32_t app_ctx)
{
	cq->tag = tag;
	cq->app_ctx = app_ctx;
	cq_push(cq, wc, solicited);
	cq->tag = cq->app_ctx = 0;
}

void cq_purge(struct nic_cq *cq, uint32_t qpn)
{
	uint64_t kept = cq->tail, announced = cq->announced - cq->tail, solicited = cq->solicited - cq->tail;
	uint32_t n = nic_cq_count(cq);

	for (uint32_t i = 0; i < n; i++) {
		const struct nic_wc *wc = &cq->ring[(cq->tail + i) & cq->mask];

		if (wc->qp_num != qpn) {
			if (cq->notes)
				cq->notes[kept & cq->mask] = cq->notes[(cq->tail + i) & cq->mask];
			cq->ring[kept++ & cq->mask] = *wc;
			continue;
		}
		cq->announced -= i < announced && announced <= n;
		cq->solicited -= i < solicited && solicited <= n;
	}
	cq->before += cq->head - kept;
	cq->head = kept;
}
