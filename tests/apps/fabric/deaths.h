/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deaths.h - processes that end while work waits for counters or is under way (fabric_deaths). One process is the
 * tester. All others are its children: they were forked before any object was open, and wait until the tester assigns
 * them a role:
 *
 *   friends    two processes that exchange messages, and check every byte, for as long as the test runs
 *   targets    a process that the tester has work for (deaths_target.c)
 *   queuers    a process that ends with work queued (deaths_queuer.c)
 *
 *   deaths.c   processes, friends, the order of the cases
 */
#ifndef TEST_FABRIC_DEATHS_H
#define TEST_FABRIC_DEATHS_H

#include <stdatomic.h>
#include <sys/types.h>

#include "job.h"

#define SEATS	  64
#define NAME_LEN  64
#define FAR	  (UINT64_C(1) << 40) /* a threshold that no counter reaches */
#define LOOSE_TAG 0x10000u	      /* tags of messages that nobody receives */

/** A child process, as described in memory shared by all processes. */
struct seat {
	pid_t pid;
	atomic_uint role;    /* the role assigned to the child; 0: none yet */
	atomic_uint step;    /* progress of the child, for which the tester waits */
	atomic_uint word;    /* a parameter from the tester */
	atomic_uint wrong;   /* number of checks that have failed in the child */
	char name[NAME_LEN]; /* addresses of its endpoint and its memory */
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

/* ---- for all processes ---- */

/** Like calloc, but ends the process when there is no memory. */
void *zeroes(size_t n, size_t size);

/* ---- for children ---- */

/** Open the endpoints and memory of a child process, and publish their addresses. */
void seat_open(struct seat *s, struct pair *p);
/** Wait until `*what`, the step or word of a child, is at least `least`. */
void await_word(const atomic_uint *what, unsigned least);
/** @return the address of the process `s` in the pair's address vector, where this function inserts it. */
fi_addr_t seat_address(struct pair *p, const struct seat *s);
_Noreturn void wait_for_the_end(void);
int role_target(struct seat *s);
int role_target_passes(struct seat *s);
int role_target_talks(struct seat *s);
int role_queuer(struct seat *s);

/* ---- for the tester ---- */

/** Assign a role to a waiting child, with a parameter. @return the child's seat. */
struct seat *begin(enum role role, unsigned word);
/** Kill the child. */
void seat_kill(struct seat *s);
/** Stop the child with SIGSTOP. */
void seat_stop(struct seat *s);
/** Wait until the child ends by itself, and check its exit status. */
void seat_ends(struct seat *s, int status);
struct seat *friend_of_tester(void);
/** Check that the friends still exchange messages, and have seen no error. */
void friends_go_on(void);

/** Make the job's target the memory of process `s` at address `addr`, `at` bytes from the beginning of the memory. */
void aim_rma(struct job *j, const struct seat *s, fi_addr_t addr, size_t at);
void aim_atomic(struct job *j, const struct seat *s, fi_addr_t addr, size_t at);
/** Queue an atomic that adds one to the word at offset `at` in the memory of process `s`. */
void job_count_at(struct pair *p, struct job *j, struct fid_cntr *trigger, uint64_t threshold,
		  struct fid_cntr *completion, const struct seat *s, fi_addr_t addr, size_t at);
/** @return the value of the word at offset `at` in the memory of process `s`. */
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
