/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * collective_rounds.c - compares collectives that are offloaded to the NICs with the same collectives driven by the
 * program, over the same provider. In both cases tests/apps/collectives/collective.c creates the pieces (sends,
 * receives, additions).
 *
 *   collective_rounds barrier|allreduce offload|driven PROCESSES compute|away|until CHUNKS CHUNK_US COUNT
 *
 * A round begins one collective, computes for CHUNKS times CHUNK_US (measured on an undisturbed core), and then waits
 * until the collective is done. "away" sleeps for the same time instead of computing: as if each process had a core of
 * its own, or another device computed. "until" repeats the CHUNKS until the collective is done: it shows how late a
 * program that never sleeps gets its result. With "offload" all pieces are queued when the round begins, and the
 * library is not called before the wait. With "driven" the program starts each piece when its inputs have arrived: the
 * program polls its completion queue after each chunk, and adds the numbers itself. In both modes the program sleeps in
 * the library while it waits.
 *
 * Prints the median and the 99th percentile of a round's time in process 0, in microseconds.
 */
#include "../apps/collectives/group.h"

#include <rdma/fi_atomic.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include "bench_util.h"

#define BATCH	    64u /* rounds before memory is reused */
#define PIECES	    20u /* most pieces in a round */
#define WARM	    BATCH
#define PATIENCE_MS 10000
#define LIMIT_S	    60

struct board {
	struct meeting meeting;
	bool allreduce, driven, away, until;
	unsigned rounds, chunks, chunk_us;
	uint64_t spins; /* spins that take CHUNK_US */
	double numbers[COLLECTIVE_MAX][BATCH][COLLECTIVE_VALUES];
};

struct member {
	struct group g;
	struct board *b;
	size_t started;	     /* if driven: number of pieces started */
	uint64_t done, sent; /* if driven: the program's replacements for the NIC's counters c.done, c.sent */
	uint64_t *ns;
};

/* ---- work -------------------------------------------------------------------------------------------------------- */

/** Work that the compiler cannot optimise away. */
static void compute(uint64_t spins)
{
	for (volatile uint64_t i = 0; i < spins; i = i + 1)
		;
}

/** @return how many spins take `us` microseconds on an undisturbed core, taken from the fastest sample. */
static uint64_t calibrate(unsigned us)
{
	const uint64_t spins = 100000;
	uint64_t least = UINT64_MAX;

	for (int i = 0; i < 50; i++) {
		uint64_t start = bench_now_ns(), ns;

		compute(spins);
		ns = bench_now_ns() - start;
		least = ns < least ? ns : least;
	}
	return spins * us * 1000 / least;
}

static void work(const struct board *b)
{
	if (b->away)
		usleep(b->chunk_us);
	else
		compute(b->spins);
}

/* ---- driven ------------------------------------------------------------------------------------------------------ */

static void start_piece(struct member *m, struct collective_piece *p)
{
	struct collective *c = &m->g.c;
	ssize_t rc = 0;

	switch (p->work.op_type) {
	case FI_OP_TSEND:
		rc = fi_tsendmsg(c->ep, &p->message.msg, FI_COMPLETION);
		break;
	case FI_OP_TRECV:
		rc = fi_trecvmsg(c->ep, &p->message.msg, FI_COMPLETION);
		break;
	default:
		*(double *)(void *)(c->memory + (p->target.addr - c->base)) += *(const double *)p->operand.addr;
		m->done++;
	}
	group_check(rc, "a piece");
}

static void start_what_can(struct member *m)
{
	struct collective *c = &m->g.c;

	while (m->started < c->n && c->pieces[m->started].work.threshold <= m->done)
		start_piece(m, &c->pieces[m->started++]);
}

static void take(struct member *m, const struct fi_cq_entry *entries, ssize_t n)
{
	for (ssize_t i = 0; i < n; i++) {
		const struct collective_piece *p = entries[i].op_context;

		*(p->work.op_type == FI_OP_TSEND ? &m->sent : &m->done) += 1;
	}
}

/** Poll the completion queue once, or (if `wait`) sleep until it has an entry. Then start the pieces that can start. */
static void drive(struct member *m, bool wait)
{
	struct fi_cq_entry entries[16];
	ssize_t n = wait ? fi_cq_sread(m->g.cq, entries, 16, NULL, PATIENCE_MS) : fi_cq_read(m->g.cq, entries, 16);

	if (n == -FI_EAGAIN && !wait)
		return;
	group_check(n, "completions");
	take(m, entries, n);
	start_what_can(m);
}

/* ---- rounds ------------------------------------------------------------------------------------------------------ */

static void await_all(struct member *m, uint64_t done, uint64_t sent)
{
	struct collective *c = &m->g.c;

	if (!m->b->driven) {
		group_check(fi_cntr_wait(c->done, done, PATIENCE_MS), "fi_cntr_wait");
		group_check(fi_cntr_wait(c->sent, sent, PATIENCE_MS), "fi_cntr_wait");
		return;
	}
	while (m->done < done || m->sent < sent)
		drive(m, true);
}

static bool is_done(struct member *m)
{
	struct collective *c = &m->g.c;

	if (!m->b->driven)
		return fi_cntr_read(c->done) >= c->at || fi_cntr_readerr(c->done);
	drive(m, false);
	return m->done >= c->at;
}

static void one_round(struct member *m, unsigned round)
{
	struct collective *c = &m->g.c;
	struct board *b = m->b;
	double *v = b->numbers[c->rank][round % BATCH];
	const unsigned ranks = c->size * (c->size - 1) / 2; /* sum of all ranks */
	const double wanted = (double)round * c->size + ranks, *sum = &wanted;

	if (b->allreduce) {
		memset(v, 0, COLLECTIVE_VALUES * sizeof(*v));
		v[0] = round + c->rank;
		sum = collective_allreduce(c, v);
	} else {
		collective_barrier(c);
	}
	group_check(c->error, "a collective");
	if (b->driven)
		start_what_can(m);
	do {
		for (unsigned i = 0; i < b->chunks; i++) {
			work(b);
			if (b->driven)
				drive(m, false);
		}
	} while (b->until && !is_done(m));
	await_all(m, c->at, 0);
	if (*sum != wanted)
		group_die("a sum is wrong", -FI_EIO);
}

/** Begin a new batch, which reuses the memory of the last one: first wait until everything has been sent. */
static void new_batch(struct member *m)
{
	struct collective *c = &m->g.c;

	await_all(m, c->at, c->sends);
	collective_forget(c);
	m->started = 0;
	group_check(collective_hold(c, BATCH * PIECES), "collective_hold");
	if (m->b->driven)
		m->done++; /* if offloaded, collective_go increments the NIC's counter instead */
	else
		group_check(collective_go(c), "collective_go");
}

static int run(unsigned rank, struct meeting *meeting)
{
	struct board *b = (struct board *)meeting;
	struct member m = {.b = b, .ns = calloc(b->rounds, sizeof(*m.ns))};
	uint64_t start;

	if (!m.ns)
		group_die("memory", -FI_ENOMEM);
	group_open(&m.g, rank, meeting, sizeof(*b));
	m.g.c.driven = b->driven;
	for (unsigned i = 0; i < WARM + b->rounds; i++) {
		if (i % BATCH == 0)
			new_batch(&m);
		if (i == WARM)
			group_meet(&m.g);
		start = bench_now_ns();
		one_round(&m, i);
		if (i >= WARM)
			m.ns[i - WARM] = bench_now_ns() - start;
	}
	await_all(&m, m.g.c.at, m.g.c.sends);
	group_meet(&m.g);
	if (rank == 0)
		bench_print_trips(m.ns, b->rounds, 1);
	collective_forget(&m.g.c);
	group_close(&m.g);
	free(m.ns);
	return 0;
}

/** @return whether `word` equals `first`; ends the program if `word` is none of the three. */
static bool either(const char *word, const char *first, const char *second, const char *third)
{
	if (strcmp(word, first) != 0 && strcmp(word, second) != 0 && strcmp(word, third) != 0)
		group_die(word, -FI_EINVAL);
	return strcmp(word, first) == 0;
}

int main(int argc, char **argv)
{
	struct board *b = group_share(sizeof(*b));

	if (argc != 8) {
		fprintf(stderr,
			"usage: %s barrier|allreduce offload|driven PROCESSES compute|away|until CHUNKS CHUNK_US "
			"COUNT\n",
			argv[0]);
		return 2;
	}
	b->allreduce = either(argv[1], "allreduce", "barrier", "barrier");
	b->driven = either(argv[2], "driven", "offload", "offload");
	b->meeting.size = (unsigned)atoi(argv[3]);
	b->away = either(argv[4], "away", "compute", "until");
	b->until = strcmp(argv[4], "until") == 0;
	b->chunks = (unsigned)atoi(argv[5]);
	b->chunk_us = (unsigned)atoi(argv[6]);
	b->rounds = (unsigned)atoi(argv[7]);
	if (!b->meeting.size || b->meeting.size > COLLECTIVE_MAX || !b->rounds)
		group_die("how many", -FI_EINVAL);
	b->spins = calibrate(b->chunk_us);
	return group_run(&b->meeting, LIMIT_S, run, NULL);
}
