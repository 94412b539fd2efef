/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_priv.h - the fault stage's structs, shared by fault.c (packets) and fault_rule.c (commands). */
#ifndef PMD_FAULT_PRIV_H
#define PMD_FAULT_PRIV_H

#include "fault.h"

#define PATH_ANY UINT32_MAX

/** A copy of a packet, on the waiting list (held back for reordering) or in the delay line. */
struct fault_held {
	struct fault_held *next;
	uint64_t due_ns;   /* when the packet leaves the delay line; on the waiting list: when it stops waiting */
	uint64_t delay_ns; /* on the waiting list: the delay after the wait */
	uint64_t after;	   /* on the waiting list: how many more packets must pass this packet */
	unsigned path;
	uint32_t size; /* bytes of data */
	union {
		struct nic_tx_frame tx;
		struct nic_rx_frame rx;
	};
	uint8_t data[];
};

/** The held packets of one direction. */
struct fault_stage {
	struct fault_held *waiting; /* waiting list: reordered packets, in order of arrival */
	unsigned n_waiting;
	struct fault_held *line, *line_last; /* delay line, sorted by due time */
};

struct pmd_fault {
	uint32_t function;
	struct pmd_fault_rule rules[1 + PMD_FAULT_RULES]; /* the function's rule, then the QPs' rules */
	struct fault_stage stage[2];			  /* transmission, reception */
	unsigned held;
	size_t held_bytes;
	struct fault_held *shown; /* the last copy that a pmd_fault_rx*() has returned; NULL: none yet */
	struct pmd_fault_stats stats;
};

/** Make all held packets due now. */
void fault_release_all(struct pmd_fault *f);

/** @return the next random number: splitmix64, after Vigna's public description. */
static inline uint64_t fault_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

#endif
