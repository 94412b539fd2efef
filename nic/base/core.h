/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core.h - the instance (struct nic), its counters and its trace.
 * Private to nic/.
 */
#ifndef NIC_CORE_H
#define NIC_CORE_H

#include <errno.h>
#include <string.h>

#include "event.h"
#include "keyed.h"
#include "list.h"
#include "nic.h"
#include "table.h"

#define NIC_RETIRED_QPNS 256 /* a QPN is not reused until this many other QPs have been destroyed (QS-18) */

#define TIME_NEVER UINT64_MAX

struct timer_entry {
	uint64_t deadline;
	struct nic_qp *qp;
};

/** An egress path; see nic_path.h. */
struct path {
	bool open;
	uint32_t flags;	   /* enum nic_path_flags */
	struct list ready; /* QPs with something to send on the path; they take turns */
	uint32_t turn;	   /* how much of its turn (TX_TURN, path.c) the first QP of the list has used */
};

/** State of the trigger unit. */
struct trig {
	struct list due; /* counters with ready work */
	/* Counters whose ready work found no room in its queue. untried: not tried yet in the present pass over
	 * them. hungry, fed: at the last try, none (hungry) or some (fed) of the counter's work was started. */
	struct list untried, hungry, fed;
	uint64_t completions; /* once nic.completions differs from this, a new pass may begin */
	uint64_t retry_ns;    /* when to retry in any case; TIME_NEVER: nothing to retry */
	bool firing;
};

/** A copy to or from application memory. */
struct copy_job {
	uint8_t *dst;
	const uint8_t *src;
	size_t len;
	uint32_t *icrc; /* NULL, or a CRC that is to be updated with these bytes */
};

struct nic {
	struct nic_config cfg; /* the configuration, with defaults filled in */
	bool port_up;
	bool refers;	       /* the NIC has sent at least one packet with a reference (nic_tx_frame.pieces) */
	bool answers_stranger; /* the datagram being posted answers a sender whose address is unproven */
	uint64_t now;	       /* the NIC's own time (time.c), which all deadlines use */
	uint64_t told_ns;      /* the time that the owner last passed in (small steps back are ignored); 0: none yet */
	uint64_t spared;       /* deadlines up to this time have been postponed once because of a gap in the clock */
	const struct keyed *keyed; /* NULL: packets end with an ICRC; else &tag_key */
	struct keyed tag_key;
	struct nic_gid gids[NIC_GID_TABLE_LEN];
	struct gsi *gsi;	     /* queue pair 1 (gsi.c); NULL: there is none */
	struct xrc_share *xrc_share; /* sharing of XRC domains with other NICs (xrc/); NULL: there is none */

	struct table qps;      /* by QPN */
	struct table mkeys;    /* by key >> 8: MRs and MWs */
	struct table xrc_srqs; /* SRQs of XRC domains, by number */
	uint32_t retired[NIC_RETIRED_QPNS];
	uint32_t retired_next;
	uint32_t n_pd, n_mr, n_mw, n_ah, n_cq, n_srq, n_qp, n_mcast;

	struct path paths[NIC_PATHS_MAX];
	uint64_t paths_pending[NIC_PATHS_MAX / 64]; /* a bit per path; 0 only if the path's ready list is empty */
	/* QPs whose ACK is delayed, by due time. ack_wait: the peer requested the ACK; ack_lazy: it did not. */
	struct list ack_wait, ack_lazy;
	struct list cq_failed; /* CQs that overflowed and have not yet failed their QPs */
	struct list all_pds, all_ahs, all_cqs, all_srqs, all_xrcds;
	struct list mcasts;    /* multicast groups that QPs are attached to */
	struct list rdms;      /* endpoints */
	struct list rdm_rqs;   /* their shared receive queues */
	uint64_t rdm_deadline; /* at or before the earliest deadline of any endpoint */
	uint64_t rdm_planned;  /* the rdm_deadline that rdm_timeout() last set; its next call compares it with `now` to
				  see how late it runs */
	bool owners_due;       /* settle_owners has something to do */
	bool (*settle_owners)(struct nic *nic); /* let owners of QPs act on completions; @return whether any acted */
	bool trig_due;				/* trig_run may have something to do */
	struct trig trig;
	uint64_t xrc_ns;  /* when to call xrc_timeout() (xrc/xrc_nic.h) */
	uint64_t rare_ns; /* the earliest of trig.retry_ns, moderated_ns and xrc_ns: one deadline to look at in each
			     step */

	struct timer_entry *heap; /* binary heap by deadline, at most one entry per QP */
	uint32_t heap_len, heap_cap;

	struct list events;
	struct event_source port_events;

	uint8_t scratch[NIC_PAYLOAD_MAX]
		__attribute__((aligned(64))); /* buffer for operands or results of one packet */

	uint64_t completions; /* see nic_completions */
	uint64_t counters[NIC_CNT_COUNT];
	struct nic_trace_entry *trace;
	uint64_t trace_head;

	struct list moderated;	 /* CQs with a delayed COMP event */
	uint64_t moderated_ns;	 /* at or before the time at which the first of these events is due */
	struct copy_job faulted; /* the last copy by mem_write() that failed */
};

#define COUNT(nic, name)       ((nic)->counters[NIC_CNT_##name]++)
#define COUNT_BY(nic, name, n) ((nic)->counters[NIC_CNT_##name] += (n))

static inline void trace_add(struct nic *nic, uint32_t qpn, enum nic_trace_event event, uint32_t a, uint32_t b)
{
	struct nic_trace_entry *e = &nic->trace[nic->trace_head++ & (nic->cfg.trace_len - 1)];

	*e = (struct nic_trace_entry){.now_ns = nic->told_ns, .qpn = qpn, .event = event, .a = a, .b = b};
}

/** Recompute nic->rare_ns. Call this after every change of trig.retry_ns, moderated_ns or xrc_ns. */
static inline void rare_update(struct nic *nic)
{
	nic->rare_ns = nic->trig.retry_ns < nic->moderated_ns ? nic->trig.retry_ns : nic->moderated_ns;
	if (nic->xrc_ns < nic->rare_ns)
		nic->rare_ns = nic->xrc_ns;
}

/** Smallest power of two that is at least n (n <= 2^31). */
static inline uint32_t round_up_pow2(uint32_t n)
{
	uint32_t p = 1;

	while (p < n)
		p <<= 1;
	return p;
}

#endif
