/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_enemy.h - what a malicious function of this host does to its links: to the packets it puts into them, to their
 * memory, and on their connections. The fuzzer's input decides.
 */
#ifndef FUZZ_RING_ENEMY_H
#define FUZZ_RING_ENEMY_H

#include "links_priv.h"
#include "ring_engine.h"

enum { VICTIM = 1, ENEMY = RING_ENEMY, HONEST }; /* functions of one device */

/** Addresses of the device: different in each process, because socket names derive from them. */
extern struct nic_gid ring_gids[RING_GIDS];
void ring_gids_set(void);

/** The rest of the input; then zeroes. */
struct ring_input {
	const uint8_t *data;
	size_t left;
};
extern struct ring_input ring_input;
uint8_t ring_byte(void);
uint32_t ring_word16(void);

/** One of the enemy's connections. The ring, if any, was created by the enemy (`to`) or by the victim (`from`). */
struct enemy_link {
	int fd, memfd; /* -1: none */
	bool over;     /* the enemy has ended it in some way */
	struct ring_producer to;
	struct ring_consumer from;
};

/** Connect to the victim, mostly with a ring. */
void enemy_connects(struct enemy_link *l);
/** Accept a connection from the victim, if there is one. */
void enemy_accepts(struct enemy_link *l, int name_fd);
void enemy_ends(struct enemy_link *l);

/** Put one of the NIC's packets, corrupted, into the ring. */
void enemy_sends(struct enemy_link *l, struct nic *nic);
/** Put many entries that are no packets into the ring. */
void enemy_floods(struct enemy_link *l);
/** Pass what the victim has sent to the NIC, which answers. */
void enemy_receives(struct enemy_link *l, struct nic *nic);
/** A value to write into a word of a ring: an interesting one, or `other`. */
uint32_t enemy_word(uint8_t choice, uint32_t other);
/** Write bytes into the ring, whichever side created it. */
void enemy_scribbles(struct enemy_link *l);
/** Try to resize the memfd and punch holes in it; a ring's size must not change. */
void enemy_resizes(struct enemy_link *l);
/** Send messages on the connection. */
void enemy_says(struct enemy_link *l);

#endif
