/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mesh.h - a process of a mesh: each talks to every other over RC, checks every byte, and takes it as it comes when
 * others die, stop, and come back. For the kill test, which reads the board.
 *
 *   mesh BOARD INDEX INCARNATION MEMBERS STEADY TIMEOUT FRAIL
 *
 *   BOARD        a file that all of them map: what each has to say of itself. Its name is also the mesh's.
 *   INDEX        which of the MEMBERS this is; who has the higher one calls, the other answers
 *   INCARNATION  a number of this process alone
 *   STEADY       members, a bit each, who give each other up only after TIMEOUT, as in struct ibv_qp_attr; all others do so
 *                after FRAIL
 *
 *   main.c  board, device, loop      meet.c  who is there, calling and answering      talk.c  a QP and its traffic
 *
 * Ends with SIGTERM: then it closes all that it has.
 */
#ifndef MESH_H
#define MESH_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define MESH_MAX   8
#define TALKS_MAX  4096 /* at a time, those that end among them */
#define PART_BYTES 524288u
#define SAID_BYTES 1024u /* of a SEND's pattern, at most */
#define RECVS	   16

/* ---- the board; kill_test.py knows its layout: 64-bit words, then a text ---- */

struct board_peer {
	uint64_t incarnation; /* of the peer as we are connected to it; 0: we are not */
	uint64_t connections; /* made so far */
	uint64_t batches;     /* of ours that were found right since then */
	uint64_t received;    /* of its SENDs since then */
};

struct board_member {
	uint64_t incarnation;	/* 0: the device is not open yet */
	uint64_t closed;	/* 1: it has ended in order */
	uint64_t retry_exc;	/* completions that say that the peer is gone */
	uint64_t flushed;	/* and those behind them */
	uint64_t other;		/* completions with any other error */
	uint64_t wrong;		/* data that was not what it had to be */
	uint64_t talks, ending; /* QPs, and those among them that wait for their last completions */
	uint64_t batches;	/* in all */
	struct board_peer peers[MESH_MAX];
	char sentence[184]; /* the first thing that was wrong */
};

/** All of it. */
struct board {
	struct board_member members[MESH_MAX];
	uint64_t hush; /* from the test: 1: nobody is to begin anything */
};

/* ---- meeting ---- */

enum note_type { NOTE_HERE = 1, NOTE_CALL, NOTE_ANSWER };

struct note {
	uint32_t type, from;
	uint64_t incarnation; /* of whom it is from */
	uint64_t call;	      /* a number of the caller's for the connection */
	uint64_t addr;
	uint32_t rkey, qpn, psn, unused;
};

/* ---- talking ---- */

/** Memory of a connection, all of it registered. */
struct part {
	uint8_t target[PART_BYTES]; /* the peer writes and reads this */
	uint8_t source[PART_BYTES]; /* what we write there */
	uint8_t back[PART_BYTES];   /* and read back */
	uint64_t counter;	    /* the peer adds to it */
	uint64_t fetched;	    /* what was in the peer's */
	uint8_t said[16 + SAID_BYTES];
	uint8_t heard[RECVS][16 + SAID_BYTES];
};

enum talk_state {
	TALK_CALLING, /* we have called */
	TALK_SILENT,  /* we have answered; the caller begins */
	TALK_GOES,
	TALK_ENDS, /* nobody is there any more, or we have called again; waits for its last completions */
};

struct talk {
	enum talk_state state;
	uint32_t slot, peer, psn;
	uint64_t peer_incarnation, call;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct part *part;
	unsigned sends, recvs; /* outstanding */
	bool failed;	       /* the QP is in error */
	struct note theirs;
	uint64_t batch, heard; /* done so far */
	uint32_t len;
	uint64_t due_ns; /* of the next batch, or of calling again */
};

struct mesh {
	const char *board_path;
	uint32_t index, members;
	uint64_t incarnation;
	uint32_t steady;
	uint8_t timeout, frail;
	struct board *board;
	struct board_member *own;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	union ibv_gid gid;
	int notes_fd;
	uint64_t random, calls;
	uint64_t call_ns[MESH_MAX];	/* when we call, or say that we are here, again */
	struct talk *current[MESH_MAX]; /* the connection to each, not one that ends */
	struct talk *talks[TALKS_MAX];
	uint32_t highest; /* one past the last of talks */
};

/* main.c */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/** Something that must never be was there. */
void wrong(struct mesh *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t now_ns(void);
uint64_t dice(struct mesh *c, uint64_t sides);
void board_add(uint64_t *what, uint64_t n);
void board_set(uint64_t *what, uint64_t value);

/* meet.c */
void meet_open(struct mesh *c);
/** Take what notes there are. */
void meet_notes(struct mesh *c);
/** Call who is to be called, or is to call. @return when to come again. */
uint64_t meet_call(struct mesh *c, uint64_t now);

/* talk.c */
struct talk *talk_new(struct mesh *c, uint32_t peer, uint64_t call);
/** Our end as the other has to know it. */
struct note talk_note(const struct mesh *c, const struct talk *t, enum note_type type);
/** The other end is known. */
void talk_connect(struct mesh *c, struct talk *t, const struct note *theirs);
/** It is over; what is outstanding still has to complete. */
void talk_end(struct mesh *c, struct talk *t);
void talk_complete(struct mesh *c, const struct ibv_wc *wc);
/** Start batches, do away with connections that have ended. @return when to come again. */
uint64_t talk_all(struct mesh *c, uint64_t now);
void talk_destroy(struct mesh *c, struct talk *t);

#endif
