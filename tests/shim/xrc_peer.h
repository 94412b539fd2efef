/* SPDX-License-Identifier: BSD-3-Clause */
/* xrc_peer.h - child processes that do verbs of XRC on request, for tests of domains that processes share. */
#ifndef XRC_PEER_H
#define XRC_PEER_H

#include <sys/types.h>

#include "xrc_rig.h"

enum peer_verb {
	PEER_DOMAIN,	   /* open the domain with oflags `a` */
	PEER_DOMAIN_CLOSE, /* close it */
	PEER_SRQ,	   /* create an SRQ; `number` is its number */
	PEER_SRQ_DESTROY,
	PEER_POST,    /* post a receive of `b` bytes at offset `a` to the SRQ, with wr_id `c` */
	PEER_WAIT,    /* wait for a completion: `wc` */
	PEER_TARGET,  /* create a target; `number` is its number */
	PEER_OPEN,    /* open target `a`; `number` is its number, and `state` is its state */
	PEER_READY,   /* change the target to RTS, connected to initiator `a` at `gid` */
	PEER_QUERY,   /* query the target: `state`, `dest` */
	PEER_DESTROY, /* destroy the target */
	PEER_MISUSE,  /* post to the target, and attach it: EINVAL */
	PEER_EVENT,   /* wait for an asynchronous event of the target: `number` */
};

struct peer_ask {
	enum peer_verb verb;
	uint32_t a, b, c;
	union ibv_gid gid;
};

struct peer_answer {
	int err; /* 0, or errno of the verb */
	uint32_t number, dest;
	enum ibv_qp_state state;
	struct ibv_wc wc;
};

/** A child process at end 1 of the rig. */
struct peer {
	pid_t pid;
	int fd;
	uint8_t *buf; /* its registered buffer of RIG_BUF bytes, which this process sees, too */
	uint32_t rkey, srqn;
};

/** Start a child. @param fd the file that names its domain */
struct peer peer_start(int fd);
/** Let the child do a verb. */
struct peer_answer peer_ask(const struct peer *peer, struct peer_ask ask);
/** As peer_ask; the verb must succeed. */
struct peer_answer peer_do(const struct peer *peer, struct peer_ask ask);
/** Stop the child. */
void peer_stop(const struct peer *peer);
/** Kill the child. */
void peer_kill(struct peer *peer);
/** End the child, which closes its devices first. */
void peer_end(struct peer *peer);

#endif
