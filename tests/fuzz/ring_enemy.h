/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_enemy.h - what a function of this host that means harm does to its links: in the packets that it puts into them, in
 * their memory, and on their connections. The input of the fuzzer decides.
 */
#ifndef FUZZ_RING_ENEMY_H
#define FUZZ_RING_ENEMY_H

#include "links_priv.h"
#include "ring_engine.h"

enum { VICTIM = 1, ENEMY = RING_ENEMY, HONEST }; /* functions of one device */

/** Its addresses: each process has others, because names are formed by them. */
extern struct nic_gid ring_gids[RING_GIDS];
void ring_gids_set(void);

/** What is left of the input; zeroes follow. */
struct ring_input {
	const uint8_t *data;
	size_t left;
};
extern struct ring_input ring_input;
uint8_t ring_byte(void);
uint32_t ring_word16(void);

/** One of the enemy's connections. It has made the ring (`to`), or the victim has (`from`), or there is none. */
struct enemy_link {
	int fd, memfd; /* -1: none */
	bool over;     /* the enemy has ended it, in a way */
	struct ring_producer to;
	struct ring_consumer from;
};

/** To the victim, mostly with a ring. */
void enemy_connects(struct enemy_link *l);
/** One that the victim has made, if there is one. */
void enemy_accepts(struct enemy_link *l, int name_fd);
void enemy_ends(struct enemy_link *l);

/** One packet of the NIC, garbled, into the ring. */
void enemy_sends(struct enemy_link *l, struct nic *nic);
/** Many entries that are no packets. */
void enemy_floods(struct enemy_link *l);
/** What the victim has sent, to the NIC, which answers. */
void enemy_receives(struct enemy_link *l, struct nic *nic);
/** What it likes to write where a ring has a word; or `other`. */
uint32_t enemy_word(uint8_t choice, uint32_t other);
/** Bytes into the ring, whoever made it. */
void enemy_scribbles(struct enemy_link *l);
/** In vain. */
void enemy_resizes(struct enemy_link *l);
/** Messages on the connection. */
void enemy_says(struct enemy_link *l);

#endif
