/* SPDX-License-Identifier: BSD-3-Clause */
/* refer_rig.h - two NICs that send payload by reference (nic/qp/refer.c); the carrier fetches it, or fails to. */
#ifndef UNIT_REFER_RIG_H
#define UNIT_REFER_RIG_H

#include "pair.h"
#include "qp.h"

#define A	PAIR_A
#define B	PAIR_B
#define LEN	(40u * 1024 + 77) /* bytes: one packet if sent by reference, else PACKETS packets */
#define PACKETS 161u
#define THERE	(64u * 1024)

/** The references of a packet, and whether fetching them fails. */
struct payload {
	struct nic_piece piece[NIC_PIECES_MAX];
	uint32_t n;
	uint32_t psns;
	bool fails;
};

/** Two rigs whose packets leave by a path with references. */
struct refer {
	struct pair *pair;
	uint32_t path[2];
	uint32_t sent[2], referring[2]; /* packets sent, and those of them with references */
	uint32_t fail_from, fail_to;	/* fetches [fail_from, fail_to) fail */
	uint32_t fetches;
	uint32_t fail_odds; /* chance in 64ths that a fetch fails */
	bool gone;	    /* the receiver's memory is unmapped */
	bool lose_next;	    /* lose the next packet of side A */
	uint32_t odds;	    /* chance of a loss, and of a duplicate, in 64ths; a fetch fails 4 times as often */
	uint64_t seed;
};

/** The last revocation, and the number of revocations since refer_create. */
extern struct refer_revocation {
	uint32_t calls, qpn, key;
	bool answers;
} refer_revoked;

struct refer refer_create(const struct rig_opts *more);
void refer_destroy(struct refer *r);
/** As nic_reference.fetch; ctx is a struct payload. */
bool refer_fetch(void *ctx, uint32_t offset, void *dst, uint32_t len, void *last, uint32_t n_last);
/** Take one packet from `side`. @return whether it had one. */
bool refer_take(struct refer *r, enum pair_side side, uint8_t *data, struct payload *p, struct nic_tx_frame *frame);
/** Deliver a packet to side `to`. */
void refer_give(struct refer *r, enum pair_side to, const uint8_t *data, uint32_t len, struct payload *p);
/** Take a packet from `side` and deliver it, with the losses and failures set in `r`. @return whether it had one. */
bool refer_carry(struct refer *r, enum pair_side side);
/** Carry packets and run timers until no packet is left and no timer is set. */
void refer_run(struct refer *r);
/** Post a request of side A. */
void refer_post(struct refer *r, uint64_t id, enum nic_wr_opcode opcode, uint32_t offset, uint32_t len,
		uint32_t remote);
uint32_t refer_bytes(const struct payload *p);
/** A random number. */
uint32_t refer_draw(struct refer *r);

#define EXPECT_SAME(r, there, here, len)                                                                               \
	assert_memory_equal((r)->pair->rig[B]->arena + (there), (r)->pair->rig[A]->arena + (here), len)

#endif
