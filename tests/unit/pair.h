/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pair.h - two rigs back to back on a scripted network: the nth packet with a given opcode from a given side is
 * dropped, duplicated, delayed or corrupted. All other packets arrive at once and in order.
 */
#ifndef UNIT_PAIR_H
#define UNIT_PAIR_H

#include "rig.h"

enum pair_side { PAIR_A, PAIR_B };

enum pair_fate {
	PAIR_PASS,
	PAIR_DROP,
	PAIR_DOUBLE,
	PAIR_SWAP,  /* arrives after the next packet of its direction */
	PAIR_LATE,  /* arrives (once) when all other traffic has ceased, before any timer runs */
	PAIR_DAMAGE /* bit pair->damage_bit is flipped, counted from the IP header; if that is 0, a bit in the middle */
};

#define PAIR_ANY_OP   0xffffu
#define PAIR_EVERY    UINT32_MAX
#define PAIR_LOG_LEN  4096
#define PAIR_LATE_MAX 16

/** Of the packets from `side` with opcode `op`, packet number `nth` (from 0; PAIR_EVERY: all) meets this fate. */
struct pair_rule {
	enum pair_side side;
	unsigned op;
	uint32_t nth;
	enum pair_fate fate;
};

struct pair_log {
	enum pair_side side;
	enum pair_fate fate;
	uint8_t op, syndrome;
	uint32_t psn;
	uint64_t now;
};

struct pair_held {
	uint8_t data[NIC_FRAME_MAX];
	uint32_t len;
	enum pair_side to;
};

struct pair {
	struct rig *rig[2];
	const struct pair_rule *rules;
	unsigned n_rules;
	uint32_t seen[16];   /* per rule: packets that matched side and op */
	uint32_t damage_bit; /* bit that PAIR_DAMAGE flips; 0: a bit in the middle */
	struct pair_held swap[2], late[PAIR_LATE_MAX];
	bool swap_used[2];
	unsigned n_late;
	struct pair_log log[PAIR_LOG_LEN];
	unsigned n_log;
};

/** Two rigs with the same options, connected and in RTS; an XRC initiator at side a has a target at side b, and tags
 * are matched at side b only. Side a's
 * first PSN is a_psn, side b's first PSN is b_psn. */
struct pair *pair_create(const struct rig_opts *opts, uint32_t a_psn, uint32_t b_psn);
void pair_destroy(struct pair *pair);
/** Set the rules; packet numbers restart at 0. */
void pair_script(struct pair *pair, const struct pair_rule *rules, unsigned n);
/** Carry packets until none is left and no timer is set; time jumps from deadline to deadline. */
void pair_run(struct pair *pair);
/** Like pair_run, but stops before the first timer would run. */
void pair_settle(struct pair *pair);
/** How many packets with this opcode this side has sent, whatever their fate. */
unsigned pair_count(const struct pair *pair, enum pair_side side, unsigned op);
/** A send WR of side a whose remote address is arena[remote] of side b. */
struct nic_send_wr pair_wr(struct pair *pair, uint64_t wr_id, enum nic_wr_opcode opcode, uint32_t offset, uint32_t len,
			   uint32_t remote);

#endif
