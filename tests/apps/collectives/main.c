/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * main.c - runs collectives that the NICs execute alone, and checks the results.
 *
 *   collectives [-n PROCESSES] [-r ROUNDS] [-b BATCH] [-s] [-p MS] [-l SECONDS] barrier|broadcast|allreduce
 *
 * Each process queues a batch of rounds. Then each process calls collective_go once, process 0 last. From then on no
 * program does any work: its thread sleeps in fi_cntr_wait, or with -s (stopped) in read(), outside the library, until
 * the launcher has seen that all processes are done. The launcher reads this from memory that the NICs add to at the
 * end of a batch. With -p process 0 pauses before its collective_go: the other processes wait for it, and should use no
 * CPU time during the pause. Then each process checks its results:
 *
 *   allreduce  the exact sum of numbers that differ in each round and process
 *   broadcast  the root's data, which differs in each round
 *   barrier    each process's NIC adds one to a shared number before it enters round r, and reads the number when it
 *              leaves the round: by then all processes must have entered it
 *
 * Prints the time of a round, how often the programs' threads were woken in a batch, and the CPU time that these
 * threads and the NICs' own threads used. Exit code 1: a result was wrong, a process died, or the time limit passed;
 * the message then says how far the processes had come.
 */
#include "group.h"

#include <errno.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#define BATCH_MAX 2000u
#define LIMIT_MAX 1000000u /* limit in seconds: an int can hold that many milliseconds */
#define PAUSE_MAX 60000u
#define PIECES	  20u /* maximum number of pieces of a round, in any collective */

enum kind { BARRIER, BROADCAST, ALLREDUCE, KINDS };
static const char *const kind_names[KINDS] = {"barrier", "broadcast", "allreduce"};

/** Contents of a broadcast message. */
struct parcel {
	uint64_t round, root, mixed;
};

/** Memory shared by all processes and the launcher. */
struct board {
	struct meeting meeting;
	enum kind kind;
	unsigned rounds, batch, limit_s, pause_ms;
	bool stopped;
	int bell[2];	  /* pipe: the launcher writes one byte for each process when a batch is done */
	unsigned rung;	  /* number of batches announced through the pipe */
	atomic_uint gone; /* batches started, added up over all processes */
	/* Time from collective_go to the end, added up over all batches; measured by process 0. */
	uint64_t ns;
	/* Batches finished, added up over all processes; NICs add to this field and to the next ones. */
	double finished;
	double in[BATCH_MAX]; /* processes that have entered the i-th barrier, added up over all batches */
	double numbers[COLLECTIVE_MAX][BATCH_MAX][COLLECTIVE_VALUES];
	struct {
		uint64_t sleeps, thread_us, others_us;
	} usage[COLLECTIVE_MAX];
};

/** A process's private state. */
struct member {
	struct group g;
	struct board *b;
	double seen[BATCH_MAX];
	const double *sum[BATCH_MAX];
	struct parcel parcel[BATCH_MAX];
};

static const double one = 1;

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

/** @return a process's input to an allreduce: a whole number, so that sums are exact. */
static double brings(unsigned round, unsigned rank)
{
	return (double)((round + 1) * 65537u % 1000003u * (rank + 3u));
}

static struct parcel parcel_of(unsigned round, unsigned root)
{
	return (struct parcel){round, root, (round + 1ull) * 0x9e3779b97f4a7c15ull ^ root};
}

/** Queue round number `round`, the i-th round of its batch. */
static void queue_round(struct member *m, unsigned round, unsigned i)
{
	struct collective *c = &m->g.c;
	double *v = m->b->numbers[c->rank][i];
	unsigned root = round % c->size;

	switch (m->b->kind) {
	case BARRIER:
		m->seen[i] = 0;
		collective_add(c, &one, &m->b->in[i]);
		collective_barrier(c);
		collective_look(c, &m->b->in[i], &m->seen[i]);
		break;
	case BROADCAST:
		m->parcel[i] = root == c->rank ? parcel_of(round, root) : (struct parcel){0};
		collective_broadcast(c, root, &m->parcel[i], sizeof(m->parcel[i]));
		break;
	default:
		memset(v, 0, sizeof(m->b->numbers[c->rank][i]));
		v[0] = brings(round, c->rank);
		m->sum[i] = collective_allreduce(c, v);
	}
}

static bool round_is_right(const struct member *m, unsigned round, unsigned i)
{
	const unsigned size = m->g.c.size;
	/* Number of times that each process has entered the i-th barrier. */
	const unsigned times = round / m->b->batch + 1;
	struct parcel parcel = parcel_of(round, round % size);
	double sum = 0;

	switch (m->b->kind) {
	case BARRIER:
		return m->seen[i] == (double)size * times;
	case BROADCAST:
		return memcmp(&m->parcel[i], &parcel, sizeof(parcel)) == 0;
	default:
		for (unsigned rank = 0; rank < size; rank++)
			sum += brings(round, rank);
		return *m->sum[i] == sum;
	}
}

/* ---- batches ----------------------------------------------------------------------------------------------------- */

/** Sleep until the NIC has done everything queued. */
static void sleep_through(struct member *m)
{
	struct collective *c = &m->g.c;
	char byte;

	if (!m->b->stopped)
		group_check(fi_cntr_wait(c->done, c->at, (int)m->b->limit_s * 1000), "fi_cntr_wait");
	else if (read(m->b->bell[0], &byte, 1) != 1)
		group_die("the bell", -errno);
}

/** @return the CPU time of the calling thread, or of all threads of the process. */
static uint64_t cpu_us(int who, long *sleeps)
{
	struct rusage u;

	getrusage(who, &u);
	*sleeps = u.ru_nvcsw;
	return (uint64_t)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000u +
	       (uint64_t)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

/** Run a batch from collective_go to its end, and measure its cost. Process 0 calls collective_go last, so the time
 * that it measures is the time of all processes. */
static void run(struct member *m)
{
	struct collective *c = &m->g.c;
	long before, after, unused;
	uint64_t thread, all, start;

	if (c->rank == 0) {
		const struct timespec pause = {m->b->pause_ms / 1000, (long)(m->b->pause_ms % 1000) * 1000000};

		group_meet(&m->g);
		nanosleep(&pause, NULL);
	}
	thread = cpu_us(RUSAGE_THREAD, &before);
	all = cpu_us(RUSAGE_SELF, &unused);
	start = now_ns();
	group_check(collective_go(c), "collective_go");
	atomic_fetch_add(&m->b->gone, 1);
	if (c->rank != 0) { /* what group_meet does, but without waiting */
		atomic_fetch_add(&m->b->meeting.arrived, 1);
		m->g.met++;
	}
	sleep_through(m);
	if (c->rank == 0)
		m->b->ns += now_ns() - start;
	thread = cpu_us(RUSAGE_THREAD, &after) - thread;
	all = cpu_us(RUSAGE_SELF, &unused) - all;
	m->b->usage[c->rank].sleeps += (uint64_t)(after - before);
	m->b->usage[c->rank].thread_us += thread;
	/* The two times are not read at the same moment, so the difference could be negative. */
	m->b->usage[c->rank].others_us += all > thread ? all - thread : 0;
}

/** Run rounds first ... first + n - 1. @return how many of them had a wrong result. */
static unsigned run_batch(struct member *m, unsigned first, unsigned n)
{
	struct collective *c = &m->g.c;
	struct board *b = m->b;
	unsigned wrong = 0;

	group_meet(&m->g); /* all processes have finished and checked the previous batch */
	group_check(collective_hold(c, n * PIECES + 1), "collective_hold");
	for (unsigned i = 0; i < n; i++)
		queue_round(m, first + i, i);
	collective_add(c, &one, &b->finished);
	run(m);
	group_check(fi_cntr_wait(c->done, c->at, (int)b->limit_s * 1000), "what was queued has failed");
	group_check(fi_cntr_wait(c->sent, c->sends, (int)b->limit_s * 1000), "a message has failed");
	if (fi_cntr_readerr(c->done) || fi_cntr_readerr(c->sent))
		group_die("work has failed", -FI_EIO);
	for (unsigned i = 0; i < n; i++)
		wrong += !round_is_right(m, first + i, i);
	collective_forget(c);
	return wrong;
}

static int member_run(unsigned rank, struct meeting *meeting)
{
	struct board *b = (struct board *)meeting;
	struct member *m = calloc(1, sizeof(*m));
	unsigned wrong = 0;

	if (!m)
		group_die("memory", -FI_ENOMEM);
	m->b = b;
	group_open(&m->g, rank, meeting, sizeof(*b));
	for (unsigned first = 0; first < b->rounds; first += b->batch)
		wrong += run_batch(m, first, b->rounds - first < b->batch ? b->rounds - first : b->batch);
	group_meet(&m->g);
	group_close(&m->g);
	if (wrong)
		fprintf(stderr, "process %u: %u of %u rounds were wrong\n", rank, wrong, b->rounds);
	free(m);
	return wrong ? 1 : 0;
}

/* ---- the launcher ------------------------------------------------------------------------------------------------ */

/** Wake the processes when all of them have finished a batch. Runs in the launcher, which sees only the shared memory.
 */
static void ring_when_done(struct meeting *meeting)
{
	struct board *b = (struct board *)meeting;
	volatile double *finished = &b->finished;
	char bytes[COLLECTIVE_MAX] = {0};

	if (!b->stopped || *finished < (double)(b->rung + 1) * meeting->size)
		return;
	b->rung++;
	if (write(b->bell[1], bytes, meeting->size) != (ssize_t)meeting->size)
		group_die("the bell", -errno);
}

static unsigned batches_of(const struct board *b)
{
	return (b->rounds - 1) / b->batch + 1;
}

static void report(const struct board *b)
{
	const unsigned batches = batches_of(b);
	uint64_t sleeps = 0, thread_us = 0, others_us = 0;

	for (unsigned i = 0; i < b->meeting.size; i++) {
		sleeps = b->usage[i].sleeps > sleeps ? b->usage[i].sleeps : sleeps;
		thread_us += b->usage[i].thread_us;
		others_us += b->usage[i].others_us;
	}
	printf("%s, %u processes: %u rounds, %.1f us each; a thread slept %.1f times in a batch; CPU time %.3f s of "
	       "these threads, %.3f "
	       "s of the NICs\n",
	       kind_names[b->kind], b->meeting.size, b->rounds, (double)b->ns / 1e3 / b->rounds,
	       (double)sleeps / batches, (double)thread_us / 1e6, (double)others_us / 1e6);
}

static void usage(void)
{
	fprintf(stderr,
		"usage: collectives [-n PROCESSES] [-r ROUNDS] [-b BATCH] [-s] [-p MS] [-l SECONDS] "
		"barrier|broadcast|allreduce\n"
		"  -n  2 to %u, or 1 (4)\n"
		"  -r  how often (1000)\n"
		"  -b  rounds that are queued at once, up to %u (500)\n"
		"  -s  sleep outside of the library\n"
		"  -p  process 0 goes that many milliseconds later than the others, up to %u (0)\n"
		"  -l  time for all of it, in seconds, up to %u (120)\n",
		COLLECTIVE_MAX, BATCH_MAX, PAUSE_MAX, LIMIT_MAX);
	exit(2);
}

static void options(int argc, char **argv, struct board *b)
{
	int option;

	*b = (struct board){.meeting = {.size = 4}, .rounds = 1000, .batch = 500, .limit_s = 120};
	while ((option = getopt(argc, argv, "n:r:b:l:p:s")) != -1) {
		switch (option) {
		case 'n':
			b->meeting.size = (unsigned)atoi(optarg);
			break;
		case 'r':
			b->rounds = (unsigned)atoi(optarg);
			break;
		case 'b':
			b->batch = (unsigned)atoi(optarg);
			break;
		case 'l':
			b->limit_s = (unsigned)atoi(optarg);
			break;
		case 'p':
			b->pause_ms = (unsigned)atoi(optarg);
			break;
		case 's':
			b->stopped = true;
			break;
		default:
			usage();
		}
	}
	while (optind < argc && b->kind < KINDS && strcmp(argv[optind], kind_names[b->kind]) != 0)
		b->kind++;
	if (optind + 1 != argc || b->kind == KINDS || !b->meeting.size || b->meeting.size > COLLECTIVE_MAX ||
	    !b->rounds || !b->batch || b->batch > BATCH_MAX || !b->limit_s || b->limit_s > LIMIT_MAX ||
	    b->pause_ms > PAUSE_MAX)
		usage();
}

int main(int argc, char **argv)
{
	struct board *b = group_share(sizeof(*b));

	options(argc, argv, b);
	if (pipe(b->bell) != 0)
		group_die("pipe", -errno);
	if (group_run(&b->meeting, b->limit_s, member_run, ring_when_done) != 0) {
		fprintf(stderr, "%u of %llu batches had been let go\n", atomic_load(&b->gone),
			(unsigned long long)batches_of(b) * b->meeting.size);
		return 1;
	}
	report(b);
	return 0;
}
