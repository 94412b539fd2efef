/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mesh.h - a process of a mesh: it exchanges data with every other process over RC, checks every byte, and copes with
 * processes that die, stop and come back. For the kill test, which reads the board.
 *
 *   mesh BOARD INDEX INCARNATION MEMBERS STEADY TIMEOUT FRAIL
 *
 *   BOARD        a file that all processes map, with the state of each process. Its name is also the mesh's name.
 *   INDEX        which of the MEMBERS this process is. Of two processes, the one with the higher index asks the
 *                other for a connection (calls it)
 *   INCARNATION  a number that no other process of the test has
 *   STEADY       bit mask of members
 *   TIMEOUT      timeout (as in struct ibv_qp_attr) of a connection between two members in STEADY
 *   FRAIL        timeout of every other connection
 *
 *   main.c  board, device, loop      meet.c  discovery, calls and answers      talk.c  a QP and its traffic
 *
 * On SIGTERM it closes everything it has, and ends.
 */
#ifndef MESH_H
#define MESH_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define MESH_MAX   8
#define TALKS_MAX  4096 /* maximum number of connections, including those that are ending */
#define PART_BYTES 524288u
#define SAID_BYTES 1024u /* longest pattern in a SEND */
#define RECVS	   16

/* ---- the board; kill_test.py knows its layout: 64-bit words, then a text ---- */

struct board_peer {
	uint64_t incarnation; /* incarnation of the peer we are connected to; 0: not connected */
	uint64_t connections; /* connections made to the peer so far */
	uint64_t batches;     /* our batches found correct since this connection was made */
	uint64_t received;    /* the peer's SENDs received on this connection */
};

struct board_member {
	uint64_t incarnation;	/* 0: the device is not open yet */
	uint64_t closed;	/* 1: the process has ended in an orderly way */
	uint64_t retry_exc;	/* completions with IBV_WC_RETRY_EXC_ERR: the peer is gone */
	uint64_t flushed;	/* completions flushed after a failed request */
	uint64_t other;		/* completions with any other error */
	uint64_t wrong;		/* data that differed from what was expected */
	uint64_t talks, ending; /* connections; ending: those that only wait for their last completions */
	uint64_t batches;	/* batches in total */
	struct board_peer peers[MESH_MAX];
	char sentence[184]; /* the first error found */
};

/** The whole board. */
struct board {
	struct board_member members[MESH_MAX];
	uint64_t hush; /* set by the test to 1: start no new batch */
};

/* ---- meeting ---- */

enum note_type { NOTE_HERE = 1, NOTE_CALL, NOTE_ANSWER };

struct note {
	uint32_t type, from;
	uint64_t incarnation; /* incarnation of the sender */
	uint64_t call;	      /* the caller's number for the connection */
	uint64_t addr;
	uint32_t rkey, qpn, psn, unused;
};

/* ---- talking ---- */

/** Memory of one connection, all of it registered. */
struct part {
	uint8_t target[PART_BYTES]; /* written and read by the peer */
	uint8_t source[PART_BYTES]; /* what we WRITE to the peer's target */
	uint8_t back[PART_BYTES];   /* what we READ back from the peer's target */
	uint64_t counter;	    /* the peer adds one to it in each batch */
	uint64_t fetched;	    /* old value of the peer's counter, returned by our atomic */
	uint8_t said[16 + SAID_BYTES];
	uint8_t heard[RECVS][16 + SAID_BYTES];
};

enum talk_state {
	TALK_CALLING, /* we have called, and wait for the answer */
	TALK_SILENT,  /* we have answered, and the caller has not sent anything yet */
	TALK_GOES,
	TALK_ENDS, /* the peer is gone, or we have called again; the connection waits for its last completions */
};

struct talk {
	enum talk_state state;
	uint32_t slot, peer, psn;
	uint64_t peer_incarnation, call;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct part *part;
	unsigned sends, recvs; /* outstanding work requests */
	bool failed;	       /* the QP is in the error state */
	struct note theirs;
	uint64_t batch, heard; /* batches done, messages received so far */
	uint32_t len;
	uint64_t due_ns; /* time of the next batch, or of the next call */
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
	uint64_t call_ns[MESH_MAX];	/* time of the next call or announcement to each peer */
	struct talk *current[MESH_MAX]; /* the connection to each peer, unless the connection is ending */
	struct talk *talks[TALKS_MAX];
	uint32_t highest; /* one past the last used entry of talks */
};

/* main.c */
void die(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
/** Report something that must never happen, such as wrong data. */
void wrong(struct mesh *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
uint64_t now_ns(void);
uint64_t dice(struct mesh *c, uint64_t sides);
void board_add(uint64_t *what, uint64_t n);
void board_set(uint64_t *what, uint64_t value);

/* meet.c */
void meet_open(struct mesh *c);
/** Handle all notes received. */
void meet_notes(struct mesh *c);
/** Call, or announce this process to, the peers whose time has come. @return the time of the next call of this
 * function. */
uint64_t meet_call(struct mesh *c, uint64_t now);

/* talk.c */
struct talk *talk_new(struct mesh *c, uint32_t peer, uint64_t call);
/** The note that describes our end to the peer. */
struct note talk_note(const struct mesh *c, const struct talk *t, enum note_type type);
/** Connect to the peer's end, as described in its note. */
void talk_connect(struct mesh *c, struct talk *t, const struct note *theirs);
/** End the connection. It is freed after its outstanding work requests have completed. */
void talk_end(struct mesh *c, struct talk *t);
void talk_complete(struct mesh *c, const struct ibv_wc *wc);
/** Start batches that are due, and free connections that have ended. @return the time of the next call of this
 * function. */
uint64_t talk_all(struct mesh *c, uint64_t now);
void talk_destroy(struct mesh *c, struct talk *t);

#endif
