/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.h - completion queues (IBTA 10.2.4, 11.4.2). Private to nic/. */
#ifndef NIC_CQ_H
#define NIC_CQ_H

#include "core.h"
#include "trigger.h"

enum cq_arm { CQ_UNARMED, CQ_ARMED_SOLICITED, CQ_ARMED };

struct nic_cq {
	struct nic *nic;
	struct nic_wc *ring;
	uint32_t mask;	     /* ring size - 1 */
	uint64_t head, tail; /* free-running: entries tail..head-1 are there */
	uint64_t announced;  /* head when the last event was raised */
	uint64_t solicited;  /* head when the last entry came that a solicited-only arming waits for */
	enum cq_arm arm;
	bool overflowed;    /* a completion was lost; nothing is added any more */
	bool overruns;	    /* when it is full the oldest entry gives way, and that is no error */
	uint64_t before;    /* entries that are not in `head` any more */
	uint32_t users;	    /* QPs */
	struct list failed; /* on nic.cq_failed until its QPs are told */
	struct list node;   /* on nic.all_cqs */
	struct event_source events;
	/** Not NULL: gets what is completed instead of the ring, amid the work of the NIC. */
	void (*sink)(struct nic_cq *cq, const struct nic_wc *wc, bool solicited);
	void *sink_arg;
	/* What WAITs see (cross.c): */
	struct nic_trig_cntr produced; /* entries ever added, once somebody waits; overflowed: all that there are */
	uint64_t wait_index;	       /* WAITs that are posted count from here */
	uint32_t wait_count;	       /* the most that one has asked for since */
	uint32_t waiters;	       /* WAITs that are posted and have not ended */
};

/** Add an entry. When the CQ is full the entry is lost, the CQ is in error for good, and CQ_ERR is raised. */
void cq_push(struct nic_cq *cq, const struct nic_wc *wc, bool solicited);

/** Count in cq->produced, from now on. */
void cq_count(struct nic_cq *cq);

/** Remove all entries of a QP. */
void cq_purge(struct nic_cq *cq, uint32_t qpn);

#endif
