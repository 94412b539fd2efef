/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.h - fault injection: loss, duplication, corruption, reordering, delay (pmd-internal).
 *
 * A stage between the NIC and its paths (the port and the links). A rule applies to all packets of the function, or
 * only to those that one QP sends or receives; a QP's own rule replaces the function's. By default a rule applies only
 * to sent packets: if two functions have the same rule, a packet from one to the other meets the rule only once.
 *
 * Every rule has its own sequence of random numbers for each direction, derived only from the rule's seed and QPN and
 * the function's number. Each packet consumes the same count of random numbers, whatever happens to the packet, so a
 * change of one probability does not change the other decisions.
 *
 * The stage holds copies of packets, at most PMD_FAULT_HELD packets and PMD_FAULT_BYTES bytes; packets beyond that are
 * dropped and counted.
 */
#ifndef PMD_FAULT_H
#define PMD_FAULT_H

#include "nic.h"

struct pmd_fault;

#define PMD_FAULT_RULES	    16	       /* QPs with rules of their own */
#define PMD_FAULT_HELD	    8192       /* packets that the stage can hold */
#define PMD_FAULT_BYTES	    (32 << 20) /* bytes that the stage can hold */
#define PMD_FAULT_PPB	    1000000000u
#define PMD_FAULT_REORDERED 64	    /* packets held back for reordering, per direction */
#define PMD_FAULT_WAIT_NS   1000000 /* longest wait of a packet held back for reordering */

enum pmd_fault_direction { PMD_FAULT_TX = 1, PMD_FAULT_RX = 2 };

struct pmd_fault_rule {
	uint32_t qpn;					      /* 0: all packets of the function */
	uint32_t directions;				      /* enum pmd_fault_direction; 0: no rule */
	uint64_t loss_ppb, dup_ppb, corrupt_ppb, reorder_ppb; /* out of 10^9 packets */
	uint64_t gap;					      /* how many packets overtake a reordered packet */
	uint64_t delay_ns, jitter_ns;			      /* each packet waits delay +- jitter */
	uint64_t down;					      /* 1: the link is down */
	uint64_t seed;
	uint64_t state[2]; /* state of the random number generators, by direction */
};

struct pmd_fault_stats {
#define PMD_FAULT_STAT(name, sentence) uint64_t name;
#include "fault_stats.def"
#undef PMD_FAULT_STAT
};

/** @param function our function's number on its device. @return NULL: out of memory. */
struct pmd_fault *pmd_fault_create(uint32_t function);
void pmd_fault_destroy(struct pmd_fault *f);

/**
 * Execute a command: "set KEY=VALUE..." or "clear [qp=QPN]". Keys of set: qp, dir (tx, rx, both), loss, dup, corrupt,
 * reorder (parts of 10^9), gap (packets), delay, jitter (nanoseconds), down (1), seed. Numbers are decimal. "set"
 * replaces the previous rule of the QP (or function) as a whole. "clear" without a QP deletes all rules and releases
 * the held packets at once.
 * @return 0, or a negative errno with a message in err.
 */
int pmd_fault_command(struct pmd_fault *f, const char *text, char *err, size_t err_len);

/** @return rule number `index`, counted from 0; NULL after the last rule. */
const struct pmd_fault_rule *pmd_fault_rule(const struct pmd_fault *f, unsigned index);
const struct pmd_fault_stats *pmd_fault_stats(const struct pmd_fault *f);
/** Whether the rules say that the link is down. */
bool pmd_fault_link_down(const struct pmd_fault *f);
/** Whether there are no rules and no held packets, so that the stage can be bypassed. */
bool pmd_fault_idle(const struct pmd_fault *f);

/**
 * Apply the rules to n packets that are to be sent on `path`. Packets that pass are moved to the first frames (each
 * frame keeps its buffer). The frames of lost or held packets may be filled with held packets that are due. @return how
 * many frames are filled now, at most n.
 */
unsigned pmd_fault_tx(struct pmd_fault *f, unsigned path, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);
/** Fetch held packets that are due on `path`, at most n. @return how many frames were filled. */
unsigned pmd_fault_tx_due(struct pmd_fault *f, unsigned path, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);

/** @return a bitmap of the paths for which held packets are due: bit i stands for path 64 * word + i. */
uint64_t pmd_fault_tx_paths(const struct pmd_fault *f, uint32_t word, uint64_t now_ns);

/** Apply the rules to a packet that has arrived on `path`. @return whether the NIC gets the packet now; if so,
 *  *frame may have been replaced by a damaged copy, which is valid until the next call. */
bool pmd_fault_rx(struct pmd_fault *f, unsigned path, struct nic_rx_frame *frame, uint64_t now_ns);
/** Fetch the next received packet that was held and is due. *path receives the path on which the packet arrived.
 *  @return whether there is one. */
bool pmd_fault_rx_due(struct pmd_fault *f, unsigned *path, struct nic_rx_frame *frame, uint64_t now_ns);

/** @return when the first held packet becomes due; UINT64_MAX: no packet is held. */
uint64_t pmd_fault_tx_deadline(const struct pmd_fault *f);
uint64_t pmd_fault_rx_deadline(const struct pmd_fault *f);
/** The path has ended: drop the packets held for sending on it. */
void pmd_fault_path_gone(struct pmd_fault *f, unsigned path);

#endif
