/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control_enemy.h - a hostile process in the virtual kernel (tests/control/vk.h), for fuzz_daemon.c and fuzz_told.c:
 * the input drives its sockets, messages and descriptors. Messages are built well-formed, then mutated.
 */
#ifndef FUZZ_CONTROL_ENEMY_H
#define FUZZ_CONTROL_ENEMY_H

#include "../control/ctl.h"

#define ENEMY_CONNECTIONS 24
#define ENEMY_TOYS	  16

struct enemy {
	const uint8_t *in;
	size_t left;
	struct nic_gid gids[2]; /* of the device */
	unsigned function;	/* number that it has, or assigns */
	int fds[ENEMY_CONNECTIONS];
	unsigned n;
	int toys[ENEMY_TOYS]; /* descriptors to send */
	int listeners[4];
	unsigned n_listeners;
	char text[256];
};

uint8_t enemy_byte(struct enemy *e);
uint32_t enemy_word(struct enemy *e);

/** Open descriptors of all kinds, some of them valid for the protocol. */
void enemy_toys(struct enemy *e);
void enemy_keep(struct enemy *e, int fd);
/** Connect to the daemon, a function or a service, as the input says. */
void enemy_connects(struct enemy *e);
/** Listen under `name`, which is not the daemon's. */
void enemy_listens(struct enemy *e, const struct proto_name *name);
/** Accept a connection on any of the listeners. */
void enemy_accepts(struct enemy *e);
/** Send a message of this type; 0: the input chooses it. */
void enemy_says(struct enemy *e, int fd, unsigned type);
/** Send bytes that are no message. */
void enemy_babbles(struct enemy *e, int fd);
/** Receive a message; descriptors become toys. @return the type, 0: nothing pending, -1: the connection has ended. */
int enemy_hears(struct enemy *e, unsigned i);
void enemy_ends(struct enemy *e, unsigned i);
int enemy_any(struct enemy *e);

/** Start the virtual kernel for one input; fuzz_control_wait() aborts if an oracle is violated. */
void fuzz_control_begin(void);
/** Run until the process is gone, for at most `most_ns`. */
void fuzz_control_wait(const struct vk_proc *p, uint64_t most_ns);
void fuzz_control_expect(bool holds, const char *what);
#define fuzz_expect(holds) fuzz_control_expect(holds, #holds)

#endif
