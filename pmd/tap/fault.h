/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault.h - faults on purpose: loss, duplication, corruption, reordering, delay (pmd-internal).
 *
 * A stage between the NIC and the paths that its packets take. A rule holds for all packets of the function, or for
 * those that one QP sends or receives; a QP's own rule replaces the function's. Unless it says otherwise a rule holds
 * for sent packets only, so that a packet between two functions with the same rule meets it once.
 *
 * Every rule has its own random numbers for each direction, derived only from its seed, its QPN and the function's
 * number. Each packet consumes the same count of them whatever happens to it, so changing one probability leaves the
 * other decisions as they were.
 *
 * Packets inside are copies, at most PMD_FAULT_HELD of them (and PMD_FAULT_BYTES); any beyond are dropped and counted.
 */
#ifndef PMD_FAULT_H
#define PMD_FAULT_H

#include "nic.h"

struct pmd_fault;

#define PMD_FAULT_RULES	    16	       /* QPs with rules of their own */
#define PMD_FAULT_HELD	    8192       /* packets */
#define PMD_FAULT_BYTES	    (32 << 20) /* of packets */
#define PMD_FAULT_PPB	    1000000000u
#define PMD_FAULT_REORDERED 64	    /* packets held back for others, per direction */
#define PMD_FAULT_WAIT_NS   1000000 /* longest wait of a packet held back for others */

enum pmd_fault_direction { PMD_FAULT_TX = 1, PMD_FAULT_RX = 2 };

struct pmd_fault_rule {
	uint32_t qpn;					      /* 0: all packets of the function */
	uint32_t directions;				      /* enum pmd_fault_direction; 0: no rule */
	uint64_t loss_ppb, dup_ppb, corrupt_ppb, reorder_ppb; /* out of 10^9 packets */
	uint64_t gap;					      /* reordering: how many others go first */
	uint64_t delay_ns, jitter_ns;			      /* a packet waits delay +- jitter */
	uint64_t down;					      /* the link is down */
	uint64_t seed;
	uint64_t state[2]; /* of the random numbers, by direction */
};

struct pmd_fault_stats {
#define PMD_FAULT_STAT(name, sentence) uint64_t name;
#include "fault_stats.def"
#undef PMD_FAULT_STAT
};

/** @param function this function's number on its device. @return NULL: out of memory. */
struct pmd_fault *pmd_fault_create(uint32_t function);
void pmd_fault_destroy(struct pmd_fault *f);

/**
 * One command: "set KEY=VALUE..." or "clear [qp=QPN]". Keys of set: qp, dir (tx, rx, both), loss, dup, corrupt, reorder
 * (parts of 10^9), gap (packets), delay, jitter (nanoseconds), down (1), seed. Numbers are decimal. A rule is replaced
 * as a whole; clear without a QP ends all rules and releases the held packets at once.
 * @return 0, or a negative errno with one sentence in err.
 */
int pmd_fault_command(struct pmd_fault *f, const char *text, char *err, size_t err_len);

/** Rule number `index`, from 0; NULL after the last. */
const struct pmd_fault_rule *pmd_fault_rule(const struct pmd_fault *f, unsigned index);
const struct pmd_fault_stats *pmd_fault_stats(const struct pmd_fault *f);
/** Whether the rules say that the link is down. */
bool pmd_fault_link_down(const struct pmd_fault *f);
/** No rules and no held packets: the stage can be bypassed. */
bool pmd_fault_idle(const struct pmd_fault *f);

/**
 * n packets are about to take `path`. Those that pass move to the first frames (each frame keeps its buffer); due
 * packets may fill the frames of others. @return how many frames are filled now, at most n.
 */
unsigned pmd_fault_tx(struct pmd_fault *f, unsigned path, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);
/** Fetch held packets that are due on `path`, at most n. @return how many frames were filled. */
unsigned pmd_fault_tx_due(struct pmd_fault *f, unsigned path, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);

/** Bitmap of the paths from 64 * word on for which held packets are due. */
uint64_t pmd_fault_tx_paths(const struct pmd_fault *f, uint32_t word, uint64_t now_ns);

/** A packet has arrived on `path`. @return whether the NIC takes it now; *frame may then be replaced, valid until
 *  the next call. */
bool pmd_fault_rx(struct pmd_fault *f, unsigned path, struct nic_rx_frame *frame, uint64_t now_ns);
/** Fetch the next held packet that is due. *path receives the path it came on. @return whether there is one. */
bool pmd_fault_rx_due(struct pmd_fault *f, unsigned *path, struct nic_rx_frame *frame, uint64_t now_ns);

/** Due time of the first held packet; UINT64_MAX: none. */
uint64_t pmd_fault_tx_deadline(const struct pmd_fault *f);
uint64_t pmd_fault_rx_deadline(const struct pmd_fault *f);
/** The path has gone: drop the packets held for sending on it. */
void pmd_fault_path_gone(struct pmd_fault *f, unsigned path);

#endif
