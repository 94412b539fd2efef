/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.h - completion queues (IBTA 10.2.4, 11.4.2). Private to nic/. */
#ifndef NIC_CQ_H
#define NIC_CQ_H

#include "core.h"
#include "trigger.h"

enum cq_arm { CQ_UNARMED, CQ_ARMED_SOLICITED, CQ_ARMED };

/** Moderation of a CQ's COMP events (moderate.c). */
struct cq_moderation {
	uint32_t count;	    /* entries per event; 0: no moderation */
	uint64_t period_ns; /* longest delay of an event */
	uint64_t held;	    /* number of entries that the delayed event announces; 0: no event is delayed */
	uint64_t due_ns;    /* when the delayed event is raised at the latest */
	struct list node;   /* on nic.moderated while held > 0 */
};

struct nic_cq {
	struct nic *nic;
	struct nic_wc *ring;
	struct nic_cq_note *notes; /* one note per entry of the ring; NULL: no notes are kept */
	uint32_t mask;		   /* ring size - 1 */
	uint64_t head, tail;	   /* free-running indices: entries tail..head-1 are unread */
	uint64_t announced;	   /* head when the last event was raised */
	uint64_t solicited;	   /* `head` just after the latest solicited or failed entry was added */
	enum cq_arm arm;
	bool overflowed;    /* a completion was lost; no more are added */
	bool overruns;	    /* a full CQ drops its oldest entry, without error */
	bool counts;	    /* `produced` is kept up to date */
	uint64_t tag;	    /* for the note about the next entry */
	uint32_t app_ctx;   /* likewise */
	uint64_t before;    /* before + head: entries ever added; resize and purge reduce `head` */
	uint32_t users;	    /* number of send queues plus receive queues that complete to the CQ */
	struct list failed; /* on nic.cq_failed until its QPs have been put in error */
	struct list node;   /* on nic.all_cqs */
	struct event_source events;
	/** Unless NULL, handles each completion in place of add() (cq.c). It is called in the middle of other work. */
	void (*sink)(struct nic_cq *cq, const struct nic_wc *wc, bool solicited);
	void *sink_arg;
	/* For WAITs (cross.c): */
	struct nic_trig_cntr
		produced;    /* entries ever added; kept up to date from the first WAIT on; overflow wakes all WAITs */
	uint64_t wait_index; /* value of `produced` from which posted WAITs count */
	uint32_t wait_count; /* largest count of a WAIT posted since wait_index last moved */
	uint32_t waiters;    /* WAITs posted and not yet ended */
	struct cq_moderation moderation;
};

/** Add an entry. If the CQ is full (and may not overrun), the entry is lost, the CQ stays in error, and CQ_ERR is
 *  raised. */
void cq_push(struct nic_cq *cq, const struct nic_wc *wc, bool solicited);

/** As cq_push(); the note about the entry gets `tag` and `app_ctx`. */
void cq_push_tagged(struct nic_cq *cq, const struct nic_wc *wc, bool solicited, uint64_t tag, uint32_t app_ctx);

/** Raise the COMP event of an armed CQ, which uses up the arming. */
void cq_announce(struct nic_cq *cq);

/** Raise the COMP event of an armed CQ with moderation, or delay it if it announces fewer than moderation.count
 * entries.
 *  @param n number of entries to announce, including those that a delayed event already counts. */
void cq_hold(struct nic_cq *cq, uint64_t n);
/** Cancel the delayed event, if there is one. */
void cq_unhold(struct nic_cq *cq);
/** Raise the delayed events that are due. */
void cq_hold_timeout(struct nic *nic);

/** Keep cq->produced up to date from now on. No effect on a CQ with a sink other than that of cq.c. */
void cq_count(struct nic_cq *cq);

/** Remove all entries of a QP. */
void cq_purge(struct nic_cq *cq, uint32_t qpn);

#endif
