/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_enemy.h - what a malicious function of the same host does to its links: to the packets that it puts into the
 * rings, to the rings' memory, and on the connections. The fuzzer's input decides.
 */
#ifndef FUZZ_RING_ENEMY_H
#define FUZZ_RING_ENEMY_H

#include "links_priv.h"
#include "ring_engine.h"

enum { VICTIM = 1, ENEMY = RING_ENEMY, HONEST }; /* numbers of functions of one device */

/** The device's addresses. They are different in each process, because socket names are derived from them. */
extern struct nic_gid ring_gids[RING_GIDS];
void ring_gids_set(void);

/** The unread part of the input; when it is used up, zeroes are read. */
struct ring_input {
	const uint8_t *data;
	size_t left;
};
extern struct ring_input ring_input;
uint8_t ring_byte(void);
uint32_t ring_word16(void);

/** One of the enemy's connections. If it has a ring, the enemy created the ring (`to`) or the victim did (`from`). */
struct enemy_link {
	int fd, memfd; /* -1: none */
	bool over;     /* the enemy has shut the connection down */
	struct ring_producer to;
	struct ring_consumer from;
};

/** Connect to the victim, mostly with a valid ring. */
void enemy_connects(struct enemy_link *l);
/** Accept a connection from the victim, if there is one. */
void enemy_accepts(struct enemy_link *l, int name_fd);
void enemy_ends(struct enemy_link *l);

/** Put a packet of the enemy's NIC into the ring, corrupted. */
void enemy_sends(struct enemy_link *l, struct nic *nic);
/** Fill the ring with many entries that are not valid packets. */
void enemy_floods(struct enemy_link *l);
/** Pass packets from the victim to the enemy's NIC, which responds. */
void enemy_receives(struct enemy_link *l, struct nic *nic);
/** A value to write into a word of a ring: `choice` selects a special value, or `other`. */
uint32_t enemy_word(uint8_t choice, uint32_t other);
/** Write bytes into the ring, whichever side created it. */
void enemy_scribbles(struct enemy_link *l);
/** Try to resize the ring's memfd and to punch holes in it. Check that the ring's size does not change. */
void enemy_resizes(struct enemy_link *l);
/** Send messages on the connection. */
void enemy_says(struct enemy_link *l);

#endif
