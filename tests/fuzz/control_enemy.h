/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control_enemy.h - a hostile process in the virtual kernel (tests/control/vk.h), for fuzz_daemon.c and fuzz_told.c.
 * The input decides what it does with sockets, messages and descriptors. A message is first built well-formed, then
 * changed.
 */
#ifndef FUZZ_CONTROL_ENEMY_H
#define FUZZ_CONTROL_ENEMY_H

#include "../control/ctl.h"

#define ENEMY_CONNECTIONS 24
#define ENEMY_TOYS	  16

struct enemy {
	const uint8_t *in;
	size_t left;
	struct nic_gid gids[2]; /* addresses of the device */
	unsigned function;	/* function number that the enemy has, or that it assigns as a daemon */
	int fds[ENEMY_CONNECTIONS];
	unsigned n;
	int toys[ENEMY_TOYS]; /* descriptors that messages can carry */
	int listeners[4];
	unsigned n_listeners;
	char text[256];
};

uint8_t enemy_byte(struct enemy *e);
uint32_t enemy_word(struct enemy *e);

/** Open descriptors of all kinds to send in messages; the protocol accepts some of them. */
void enemy_toys(struct enemy *e);
void enemy_keep(struct enemy *e, int fd);
/** Connect to the daemon, to a function or to a service, as the input decides. */
void enemy_connects(struct enemy *e);
/** Listen on a socket of this name, which is not the daemon's name. */
void enemy_listens(struct enemy *e, const struct proto_name *name);
/** Accept a connection on each listener that has one pending. */
void enemy_accepts(struct enemy *e);
/** Send a message of this type; with type 0 the input chooses the type. */
void enemy_says(struct enemy *e, int fd, unsigned type);
/** Send bytes that are not a valid message. */
void enemy_babbles(struct enemy *e, int fd);
/** Receive a message; its descriptors replace some of e->toys. @return the type; 0: no message pending; -1: the
 * connection has ended. */
int enemy_hears(struct enemy *e, unsigned i);
void enemy_ends(struct enemy *e, unsigned i);
int enemy_any(struct enemy *e);

/** Start the virtual kernel for one input. From then on fuzz_control_wait() aborts if one of the checks fails. */
void fuzz_control_begin(void);
/** Run until the process is gone, for at most `most_ns`. */
void fuzz_control_wait(const struct vk_proc *p, uint64_t most_ns);
void fuzz_control_expect(bool holds, const char *what);
#define fuzz_expect(holds) fuzz_control_expect(holds, #holds)

#endif
