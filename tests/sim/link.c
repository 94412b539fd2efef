/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * link.c - the network. A link joins two nodes in one direction and is a row of stages, each with a random stream of
 * its own: cut, loss, bit flip, rate, delay with jitter, reorder, duplicate. Without the reorder stage it is FIFO. An
 * attacker forges frames from those it sees. When the run is quiet (sim->quiet), cut, loss, bit flip, reorder and
 * duplicate are off; the attacker goes on.
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
			rng_init(&link->forge, sim->opts.seed, STREAM_LINK_FORGE, index);
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

/** Whether the ICRC or the tag covers byte `at` of an IP packet (IBTA A17: all but variant fields;
 *  nic/base/keyed.md). */
static bool sum_covers(const struct sim *sim, const uint8_t *ip, uint32_t at)
{
	uint32_t udp = ip[0] >> 4 == 4 ? 20 : 40;

	if (sim->opts.keyed && sim->opts.udp_port && at < udp + 8)
		return false; /* the receiver sees only the UDP payload */
	if (sim->opts.keyed && udp == 20 && at >= 4 && at < 8)
		return false;

	if (udp == 20 && (at == 1 || at == 8 || at == 10 || at == 11))
		return false;
	if (udp == 40 && at >= 1 && at <= 3)
		return false;
	if (udp == 40 && (at == 0 || at == 7))
		return false; /* byte 0 holds version and half of the traffic class: leave it out */
	return at != udp + 6 && at != udp + 7 && at != udp + 8 + 4;
}

/** The bit flip stage: one to three bits. A CRC-32 detects all such errors at these lengths; a tag misses one in
 *  2^64. */
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
			f->corrupt |= sum_covers(link->from->sim, before, i);
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

/** @return the arrival time: after rate, delay and jitter. Only the reorder stage lets a frame overtake another. */
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

/* ---- an attacker ------------------------------------------------------------------------------------- */

static void ipv4_lengths(uint8_t *ip, uint32_t len)
{
	uint32_t sum = 0;

	ip[2] = (uint8_t)(len >> 8);
	ip[3] = (uint8_t)len;
	ip[10] = ip[11] = 0;
	for (unsigned i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum += sum >> 16;
	ip[10] = (uint8_t)(~sum >> 8);
	ip[11] = (uint8_t)~sum;
}

/** Set all lengths, and the fields derived from them. */
static void set_lengths(struct frame *f, uint32_t len)
{
	bool v4 = f->data[0] >> 4 == 4;
	uint8_t *udp = f->data + (v4 ? 20 : 40);

	f->len = len;
	if (v4) {
		ipv4_lengths(f->data, len);
	} else {
		f->data[4] = (uint8_t)((len - 40) >> 8);
		f->data[5] = (uint8_t)(len - 40);
	}
	len -= (uint32_t)(udp - f->data);
	udp[4] = (uint8_t)(len >> 8);
	udp[5] = (uint8_t)len;
}

/** Forge a frame from one that the attacker has seen. It always differs from the original: an equal frame would only
 * be a duplicate. */
static void forge(struct rng *rng, struct frame *f)
{
	uint32_t udp = f->data[0] >> 4 == 4 ? 20 : 40, bth = udp + 8, addr = udp == 20 ? 12 : 8, n = udp == 20 ? 4 : 16;
	uint8_t swap[16];

	switch (rng_below(rng, f->link->from == f->link->to ? 4 : 5)) {
	case 0: /* another PSN, and a random tag */
		f->data[bth + 11] ^= (uint8_t)(1 + rng_below(rng, 255));
		rng_bytes(rng, f->data + f->len - 8, 8);
		break;
	case 1: /* change one byte after the BTH, maybe in the tag */
		f->data[bth + 12 + rng_below(rng, f->len - bth - 12)] ^= (uint8_t)(1 + rng_below(rng, 255));
		break;
	case 2: /* a frame as sent by a NIC without a key */
		f->data[bth + 1] &= 0xf0;
		set_lengths(f, f->len - 4);
		nic_frame_icrc_set(f->data, f->len);
		break;
	case 4: /* a frame reflected to its sender */
		memcpy(swap, f->data + addr, n);
		memcpy(f->data + addr, f->data + addr + n, n);
		memcpy(f->data + addr + n, swap, n);
		f->link = &f->link->from->sim->link[f->link->to->index][f->link->from->index];
		break;
	default: /* a frame cut short */
		set_lengths(f, f->len - 4 * (1 + (uint32_t)rng_below(rng, (f->len - bth - 12) / 4)));
	}
}

/** The forged frame arrives at about the same time as the original, before or after it. */
static void stage_forge(struct sim *sim, struct link *link, const uint8_t *data, uint32_t len)
{
	struct frame *f = frame_get(sim);

	memcpy(f->data, data, len);
	f->link = link;
	f->len = len;
	f->corrupt = f->touched = f->copy = false;
	f->forged = true;
	f->to = NULL;
	f->incarnation = 0;
	forge(&link->forge, f);
	sim->stats.forged++;
	sched_at(sim, sim->now_ns + 1 + rng_below(&link->forge, 2ull * sim->opts.delay_ns), node_rx, f);
}

static FILE *packets_file;

void link_packets_to(FILE *out)
{
	packets_file = out;
}

static void print_packet(const uint8_t *data, uint32_t len)
{
	fputs("packet ", packets_file);
	for (uint32_t i = 0; i < len; i++)
		fprintf(packets_file, "%02x", data[i]);
	fputc('\n', packets_file);
}

void link_send(struct link *link, const uint8_t *data, uint32_t len, struct qp *to)
{
	struct sim *sim = link->from->sim;
	bool lost = rng_chance(&link->loss, sim->opts.loss), doubled = rng_chance(&link->dup, sim->opts.dup);
	bool flipped = rng_chance(&link->flip, sim->opts.flip);

	sim->stats.frames++;
	if (packets_file != NULL)
		print_packet(data, len);
	if (sim->opts.keyed && rng_chance(&link->forge, sim->opts.forge))
		stage_forge(sim, link, data, len);
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
		f->corrupt = f->touched = f->forged = false;
		f->copy = i > 0;
		f->to = to;
		f->incarnation = to == NULL ? 0 : to->incarnation;
		if (flipped && !sim->quiet)
			stage_flip(link, f);
		sim->stats.doubled += i > 0;
		deliver_later(link, f, at);
	}
}
