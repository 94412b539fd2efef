/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deaths.h - processes that end while work waits for counters or is under way (fabric_deaths). One process is the tester; the others
 * are its children, which were forked before anything was open and wait for what they are to be:
 *
 *   friends    two that send each other messages, and look at every byte, as long as the test runs
 *   targets    somebody whom the tester has work for (deaths_target.c)
 *   queuers    somebody who ends with work queued (deaths_queuer.c)
 *
 *   deaths.c   processes, friends, the cases' order
 */
#ifndef TEST_FABRIC_DEATHS_H
#define TEST_FABRIC_DEATHS_H

#include <stdatomic.h>
#include <sys/types.h>

#include "job.h"

#define SEATS	  64
#define NAME_LEN  64
#define FAR	  (UINT64_C(1) << 40) /* a threshold that no counter comes to */
#define LOOSE_TAG 0x10000u	      /* of messages that nobody receives */

/** A child, as all processes see it. */
struct seat {
	pid_t pid;
	atomic_uint role;    /* what it is to be; 0: nothing yet */
	atomic_uint step;    /* what it has come to; the tester waits for that */
	atomic_uint word;    /* that the tester may give it */
	atomic_uint wrong;   /* what was not as it has to be */
	char name[NAME_LEN]; /* its endpoint's address, its memory's */
	uint64_t base, key;
};

struct deaths {
	struct seat seat[SEATS];
	unsigned taken;
	struct seat tester;
};

/** Shared by all processes. */
extern struct deaths *deaths;

enum role { IDLE, FRIEND_FIRST, FRIEND_SECOND, TARGET, TARGET_PASSES, TARGET_TALKS, QUEUER, ROLES };

/* ---- of all ---- */

/** As calloc; without memory the process ends. */
void *zeroes(size_t n, size_t size);

/* ---- of children ---- */

/** Open what a process has, and say where it is found. */
void seat_open(struct seat *s, struct pair *p);
/** Wait until the child's step or word is at least so much. */
void await_word(const atomic_uint *what, unsigned least);
/** The address of another process, in the pair's vector. */
fi_addr_t seat_address(struct pair *p, const struct seat *s);
_Noreturn void wait_for_the_end(void);
int role_target(struct seat *s);
int role_target_passes(struct seat *s);
int role_target_talks(struct seat *s);
int role_queuer(struct seat *s);

/* ---- of the tester ---- */

/** A child begins to be something. */
struct seat *begin(enum role role, unsigned word);
/** Kill it. */
void seat_kill(struct seat *s);
/** Stop it. */
void seat_stop(struct seat *s);
/** It ends by itself. */
void seat_ends(struct seat *s, int status);
struct seat *friend_of_tester(void);
/** The friends go on, and nothing was wrong with what they have said. */
void friends_go_on(void);

/** The work is for memory of this process, at its address, so many bytes from its beginning. */
void aim_rma(struct job *j, const struct seat *s, fi_addr_t addr, size_t at);
void aim_atomic(struct job *j, const struct seat *s, fi_addr_t addr, size_t at);
/** Add one to a word of that memory. */
void job_count_at(struct pair *p, struct job *j, struct fid_cntr *trigger, uint64_t threshold,
		  struct fid_cntr *completion, const struct seat *s, fi_addr_t addr, size_t at);
/** What that word is. */
uint64_t word_at(struct pair *p, const struct seat *s, fi_addr_t addr, size_t at);
void word_clear(struct pair *p, const struct seat *s, fi_addr_t addr, size_t at);

void case_target_killed(struct pair *p);
void case_target_stopped(struct pair *p);
void case_target_killed_in_chain(struct pair *p);
void case_target_killed_amid_messages(struct pair *p);
void case_target_of_triggered(struct pair *p);
void case_target_closing(struct pair *p);
void case_queuer_exits(struct pair *p);
void case_queuer_exits_at_once(struct pair *p);
void case_queuer_killed(struct pair *p);
void case_queuer_exits_busy(struct pair *p);

#endif
