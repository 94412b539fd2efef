/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.c - the network. A link joins two nodes in one direction and is a row of stages, each with a random stream of
 * its own: cut, loss, bit flip, rate, delay with jitter, reorder, duplicate. Without the reorder stage it is FIFO.
 * When the run is quiet (sim->quiet) the faulty stages are off.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

void link_init(struct sim *sim)
{
	for (unsigned i = 0; i < sim->nodes; i++) {
		for (unsigned j = 0; j < sim->nodes; j++) {
			struct link *link = &sim->link[i][j];
			unsigned index = i * SIM_NODES + j;

			link->from = &sim->node[i];
			link->to = &sim->node[j];
			rng_init(&link->delay, sim->opts.seed, STREAM_LINK_DELAY, index);
			rng_init(&link->loss, sim->opts.seed, STREAM_LINK_LOSS, index);
			rng_init(&link->dup, sim->opts.seed, STREAM_LINK_DUP, index);
			rng_init(&link->reorder, sim->opts.seed, STREAM_LINK_REORDER, index);
			rng_init(&link->flip, sim->opts.seed, STREAM_LINK_FLIP, index);
		}
	}
}

static struct frame *frame_get(struct sim *sim)
{
	struct frame *f = sim->free_frames;

	if (f == NULL)
		return sim_alloc(sim, sizeof(*f));
	sim->free_frames = f->next_free;
	return f;
}

/** Whether the ICRC covers byte `at` of an IP packet (IBTA A17, wire-facts: everything but the variant fields). */
static bool icrc_covers(const uint8_t *ip, uint32_t at)
{
	uint32_t udp = ip[0] >> 4 == 4 ? 20 : 40;

	if (udp == 20 && (at == 1 || at == 8 || at == 10 || at == 11))
		return false;
	if (udp == 40 && at >= 1 && at <= 3)
		return false;
	if (udp == 40 && (at == 0 || at == 7))
		return false; /* byte 0 holds version and half of the traffic class: leave it out */
	return at != udp + 6 && at != udp + 7 && at != udp + 8 + 4;
}

/** The bit flip stage: one to three bits. A CRC-32 finds all such errors at these lengths. */
static void stage_flip(struct link *link, struct frame *f)
{
	uint8_t before[NIC_FRAME_MAX];
	unsigned n = 1 + (unsigned)rng_below(&link->flip, 3);

	memcpy(before, f->data, f->len);
	for (unsigned i = 0; i < n; i++) {
		uint64_t bit = rng_below(&link->flip, (uint64_t)f->len * 8);

		f->data[bit / 8] ^= (uint8_t)(1u << (bit % 8));
	}
	for (uint32_t i = 0; i < f->len; i++) {
		if (f->data[i] != before[i]) {
			f->touched = true;
			f->corrupt |= icrc_covers(before, i);
		}
	}
	link->from->sim->stats.flipped++;
}

static void deliver_later(struct link *link, struct frame *f, uint64_t at_ns)
{
	if (f->to != NULL)
		f->to->in_flight++;
	sched_at(link->from->sim, at_ns, node_rx, f);
}

/** Rate, delay, jitter; overtaking only by the reorder stage. */
static uint64_t stage_delay(struct sim *sim, struct link *link, uint32_t len)
{
	uint64_t at;

	link->busy_ns = (link->busy_ns > sim->now_ns ? link->busy_ns : sim->now_ns) +
			(uint64_t)len * sim->opts.ns_per_kib / 1024;
	at = link->busy_ns + sim->opts.delay_ns + rng_below(&link->delay, (uint64_t)sim->opts.jitter_ns + 1);
	if (!sim->quiet && rng_chance(&link->reorder, sim->opts.reorder)) {
		sim->stats.reordered++;
		return at + rng_below(&link->reorder, 4ull * (sim->opts.delay_ns + sim->opts.jitter_ns) + 1000);
	}
	if (at < link->last_ns)
		at = link->last_ns;
	link->last_ns = at;
	return at;
}

void link_send(struct link *link, const uint8_t *data, uint32_t len, struct qp *to)
{
	struct sim *sim = link->from->sim;
	bool lost = rng_chance(&link->loss, sim->opts.loss), doubled = rng_chance(&link->dup, sim->opts.dup);
	bool flipped = rng_chance(&link->flip, sim->opts.flip);

	sim->stats.frames++;
	if (!sim->quiet && (lost || link->cut_until_ns > sim->now_ns)) {
		sim->stats.lost++;
		sim_log(sim, "    lost");
		return;
	}
	for (int i = 0; i < 1 + (doubled && !sim->quiet); i++) {
		struct frame *f = frame_get(sim);
		uint64_t at = stage_delay(sim, link, len);

		memcpy(f->data, data, len);
		f->link = link;
		f->len = len;
		f->corrupt = f->touched = false;
		f->copy = i > 0;
		f->to = to;
		f->incarnation = to == NULL ? 0 : to->incarnation;
		if (flipped && !sim->quiet)
			stage_flip(link, f);
		sim->stats.doubled += i > 0;
		deliver_later(link, f, at);
	}
}
