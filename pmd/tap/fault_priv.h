/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_priv.h - the fault stage as fault.c (packets) and fault_rule.c (commands) share it. */
#ifndef PMD_FAULT_PRIV_H
#define PMD_FAULT_PRIV_H

#include "fault.h"

#define PATH_ANY UINT32_MAX

/** A copy of a packet. */
struct fault_held {
	struct fault_held *next;
	uint64_t due_ns;   /* waiting for others: when it has waited long enough */
	uint64_t delay_ns; /* waiting for others: the delay that follows */
	uint64_t after;	   /* waiting for others: how many more */
	unsigned path;
	uint32_t size; /* bytes of data */
	union {
		struct nic_tx_frame tx;
		struct nic_rx_frame rx;
	};
	uint8_t data[];
};

/** One direction. */
struct fault_stage {
	struct fault_held *waiting; /* held back until others have passed, in order of arrival */
	unsigned n_waiting;
	struct fault_held *line, *line_last; /* by due time */
};

struct pmd_fault {
	uint32_t function;
	struct pmd_fault_rule rules[1 + PMD_FAULT_RULES]; /* the function's own, QPs' */
	struct fault_stage stage[2];			  /* transmission, reception */
	unsigned held;
	size_t held_bytes;
	struct fault_held *shown; /* the packet that the last pmd_fault_rx*() returned, if it is our copy */
	struct pmd_fault_stats stats;
};

/** Make all held packets due now. */
void fault_release_all(struct pmd_fault *f);

/** splitmix64, after Vigna's public description: the next number of the stream. */
static inline uint64_t fault_random(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

#endif
