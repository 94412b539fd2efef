/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * control_enemy.h - a hostile process in the virtual kernel (tests/control/vk.h), for fuzz_daemon.c and fuzz_told.c: it does
 * what the input says, with sockets, messages and descriptors. Messages are built as they should be, and then changed.
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
	unsigned function;	/* number that it has, or gives */
	int fds[ENEMY_CONNECTIONS];
	unsigned n;
	int toys[ENEMY_TOYS]; /* descriptors to send */
	int listeners[4];
	unsigned n_listeners;
	char text[256];
};

uint8_t enemy_byte(struct enemy *e);
uint32_t enemy_word(struct enemy *e);

/** Descriptors of all kinds: some as good ones are. */
void enemy_toys(struct enemy *e);
void enemy_keep(struct enemy *e, int fd);
/** Connect to the daemon, a function or a service, as the input says. */
void enemy_connects(struct enemy *e);
/** Listen under a name that is not the daemon's. */
void enemy_listens(struct enemy *e, const struct proto_name *name);
/** Take a visitor of any of the listeners. */
void enemy_accepts(struct enemy *e);
/** Send a message of this type, or of one that the input says (0). */
void enemy_says(struct enemy *e, int fd, unsigned type);
/** Send bytes that are no message. */
void enemy_babbles(struct enemy *e, int fd);
/** Receive what is there; descriptors become toys. @return the type, 0: nothing, -1: the connection has ended. */
int enemy_hears(struct enemy *e, unsigned i);
void enemy_ends(struct enemy *e, unsigned i);
int enemy_any(struct enemy *e);

/** For LLVMFuzzerTestOneInput: oracles abort. */
void fuzz_control_begin(void);
/** Time passes until the process has gone, at most so long. */
void fuzz_control_wait(const struct vk_proc *p, uint64_t most_ns);
void fuzz_control_expect(bool holds, const char *what);
#define fuzz_expect(holds) fuzz_control_expect(holds, #holds)

#endif
