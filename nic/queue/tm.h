/* SPDX-License-Identifier: BSD-3-Clause */
/* tm.h - the tagged buffers of an SRQ. Private to nic/. */
#ifndef NIC_TM_H
#define NIC_TM_H

#include "core.h"
#include "nic_tm.h"
#include "rq.h"
#include "tag.h"

enum tm_place {
	TM_FREE,
	TM_LATE,   /* added while the application had not handled all unexpected messages: not matched yet */
	TM_LISTED, /* in the tag unit, except buffers that no tag can match */
	TM_TAKEN,  /* by a rendezvous */
};

/** A tagged buffer. */
struct tm_entry {
	struct tag_recv recv;
	struct list node; /* on tm.free, tm.late, or tm.waiting */
	enum tm_place place;
	uint32_t life; /* how many times the entry has been used; a part of its handle */
	uint64_t wr_id, length;
	struct nic_qp *qp;		/* TM_TAKEN: the QP that READs the data */
	uint8_t header[NIC_TM_HEADERS]; /* TM_TAKEN: headers of the rendezvous request */
	uint32_t num_sge;
	struct nic_sge sge[];
};

struct nic_tm {
	struct tag_unit unit;
	struct list free, late;
	struct list waiting; /* rendezvous whose QP cannot send yet, or has no room in its send queue */
	uint32_t unexpected; /* tagged messages that no buffer matched, except those that broke off in the middle */
	uint32_t handled;    /* how many unexpected messages the application has handled */
	struct nic_cq *sent; /* CQ for the completions of the QPs' send queues */
	size_t stride;
	uint32_t n;
	uint8_t *entries;
};

/** As nic_tag_op(), but does not settle (trig.h). */
int tm_op(struct nic_srq *srq, struct nic_tag_op *op);
/** Find the buffer that a message with this tag matches, and take it out of the unit. @return NULL: none matches. */
struct tm_entry *tm_match(struct nic_tm *tm, uint64_t tag);
/** Whether tm_match() would find a buffer. */
bool tm_would_match(struct nic_tm *tm, uint64_t tag);
/** If the application has handled all unexpected messages, list the buffers that have waited for that. */
void tm_list_late(struct nic_tm *tm);
/** Return a buffer to the free list; its handle becomes invalid. */
void tm_free_entry(struct nic_tm *tm, struct tm_entry *e);
/** Entry number i. */
static inline struct tm_entry *tm_entry(const struct nic_tm *tm, uint32_t i)
{
	return (struct tm_entry *)(void *)(tm->entries + i * tm->stride);
}
/** Free the tagged buffers of an SRQ that is being destroyed, and release its CQ. */
void tm_srq_leave(struct nic_srq *srq);

#endif
