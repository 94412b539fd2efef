/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tm.c - SRQs that match tags: the list of tagged buffers, and the operations on it (ibv_post_srq_ops(3)).
 *
 * A tagged message that no buffer matches (an unexpected message) goes to an untagged buffer, and the application
 * checks whether one of its own receives matches the message. Until the application has checked, a buffer that it adds
 * may be meant for that message, so the buffer must not take a message that arrives later. The NIC therefore counts
 * unexpected messages, and the application reports how many of them it has handled. While the counts differ, new
 * buffers wait. Buffers that are already in the list continue to match.
 */
#include "tm.h"

#include "cq.h"
#include "mem.h"

static int entries_init(struct nic_tm *tm, uint32_t n, uint32_t max_sge)
{
	tag_init(&tm->unit);
	list_init(&tm->free);
	list_init(&tm->late);
	list_init(&tm->waiting);
	tm->n = n;
	tm->stride = (sizeof(struct tm_entry) + max_sge * sizeof(struct nic_sge) + 15) & ~(size_t)15;
	tm->entries = calloc(n, tm->stride);
	if (!tm->entries)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		list_append(&tm->free, &tm_entry(tm, i)->node);
	return 0;
}

int nic_srq_create_tm(struct nic_pd *pd, struct nic_cq *cq, uint32_t max_wr, uint32_t max_sge, uint32_t max_tags,
		      uint32_t limit, void *user, struct nic_srq **out)
{
	struct nic_tm *tm;
	int err;

	if (!max_tags || max_tags > NIC_TM_TAGS_MAX)
		return -EINVAL;
	tm = calloc(1, sizeof(*tm));
	if (!tm)
		return -ENOMEM;
	err = entries_init(tm, max_tags, pd->nic->cfg.limits.max_sge);
	if (!err)
		err = nic_cq_create(pd->nic, 1, NULL, &tm->sent);
	if (!err)
		err = nic_srq_create(pd, max_wr, max_sge, limit, user, out);
	if (err) {
		if (tm->sent)
			nic_cq_destroy(tm->sent);
		free(tm->entries);
		free(tm);
		return err;
	}
	(*out)->tm = tm;
	(*out)->cq = cq;
	cq->users++;
	return 0;
}

void tm_srq_leave(struct nic_srq *srq)
{
	srq->cq->users--;
	nic_cq_destroy(srq->tm->sent);
	free(srq->tm->entries);
	free(srq->tm);
}

/* ---- matching ---------------------------------------------------------------------------------------------------- */

static struct tm_entry *entry_of(struct tag_recv *r)
{
	return r ? list_entry(r, struct tm_entry, recv) : NULL;
}

bool tm_would_match(struct nic_tm *tm, uint64_t tag)
{
	return tag_find(&tm->unit, tag, 0);
}

struct tm_entry *tm_match(struct nic_tm *tm, uint64_t tag)
{
	return entry_of(tag_arrive(&tm->unit, tag, 0));
}

void tm_free_entry(struct nic_tm *tm, struct tm_entry *e)
{
	list_remove(&e->node);
	e->place = TM_FREE;
	e->life++;
	list_append(&tm->free, &e->node);
}

/* ---- operations -------------------------------------------------------------------------------------------------- */

static bool in_step(const struct nic_tm *tm)
{
	return tm->handled == tm->unexpected;
}

/** Put a buffer in the list. If the buffer's tag has bits outside its mask, the buffer matches no message: leave it out
 * of the tag unit. */
static void list_entry_of(struct nic_tm *tm, struct tm_entry *e)
{
	e->place = TM_LISTED;
	if (!(e->recv.tag & e->recv.ignore))
		tag_post(&tm->unit, &e->recv);
}

void tm_list_late(struct nic_tm *tm)
{
	while (in_step(tm) && tm->late.next != &tm->late) {
		struct tm_entry *e = list_entry(tm->late.next, struct tm_entry, node);

		list_remove(&e->node);
		list_entry_of(tm, e);
	}
}

static uint32_t handle_of(const struct nic_tm *tm, const struct tm_entry *e)
{
	return (uint32_t)(((const uint8_t *)e - tm->entries) / (ptrdiff_t)tm->stride) | e->life * NIC_TM_TAGS_MAX;
}

static int add(struct nic_srq *srq, struct nic_tag_op *op)
{
	struct nic_tm *tm = srq->tm;
	struct tm_entry *e;

	if (op->num_sge > srq->pd->nic->cfg.limits.max_sge)
		return -EINVAL;
	if (tm->free.next == &tm->free)
		return -ENOMEM;
	e = list_entry(tm->free.next, struct tm_entry, node);
	list_remove(&e->node);
	e->recv = (struct tag_recv){.tag = op->tag, .ignore = ~op->mask, .source = TAG_ANY_SOURCE};
	e->wr_id = op->recv_wr_id;
	e->num_sge = op->num_sge;
	e->length = 0;
	for (uint32_t i = 0; i < op->num_sge; i++) {
		e->sge[i] = op->sg_list[i];
		e->length += op->sg_list[i].length;
	}
	if (e->length > NIC_MSG_MAX)
		e->length = NIC_MSG_MAX; /* no message is longer (C9-94) */
	op->handle = handle_of(tm, e);
	if (in_step(tm)) {
		list_entry_of(tm, e);
	} else {
		e->place = TM_LATE;
		list_append(&tm->late, &e->node);
	}
	return 0;
}

/** Remove the buffer with this handle. @return false: a message has taken it, or the handle names no buffer. */
static bool delete (struct nic_tm *tm, uint32_t handle)
{
	uint32_t i = handle % NIC_TM_TAGS_MAX;
	struct tm_entry *e = tm_entry(tm, i < tm->n ? i : 0);

	if (handle_of(tm, e) != handle || e->place == TM_FREE || e->place == TM_TAKEN)
		return false;
	if (e->place == TM_LISTED && !(e->recv.tag & e->recv.ignore))
		tag_cancel(&tm->unit, &e->recv);
	tm_free_entry(tm, e);
	return true;
}

int tm_op(struct nic_srq *srq, struct nic_tag_op *op)
{
	struct nic_wc wc = {.wr_id = op->wr_id, .opcode = NIC_WC_TM_ADD + op->opcode};
	struct nic_tm *tm = srq->tm;
	int err = tm && op->opcode <= NIC_TAG_SYNC ? 0 : -EINVAL;

	if (!err && op->sync) {
		tm->handled = op->handled;
		tm_list_late(tm);
	}
	if (!err && op->opcode == NIC_TAG_ADD)
		err = add(srq, op);
	if (err)
		return err;
	if (op->opcode == NIC_TAG_DEL && !delete (tm, op->handle))
		wc.status = NIC_WC_TM_ERR;
	if (op->opcode != NIC_TAG_SYNC && !in_step(tm))
		wc.wc_flags = NIC_WC_TM_SYNC_REQ;
	if (op->signaled || wc.status != NIC_WC_SUCCESS)
		cq_push(srq->cq, &wc, false);
	return 0;
}
