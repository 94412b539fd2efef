/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links_late.c - slow consumers: consumers that do not claim a ring, and consumers that do not take packets out of a
 * ring.
 *
 * A producer sends a ring to the socket that has the consumer's name, and uses the ring at once. A process that has no
 * descriptor left, or whose engine does not run, cannot receive the ring. If the consumer does not claim the ring in
 * time, the producer withdraws it: RC packets in the ring are retransmitted through the port. Claim and withdrawal
 * exclude each other: (C) in ring.h. A claimed ring stays. A withdrawn ring is never read, however late the consumer
 * receives it, so no packet in it arrives twice.
 *
 * A withdrawn ring stays in the socket's queue until the consumer receives it, finds it withdrawn and closes the
 * connection. Each queued ring counts against the user's limit of descriptors in flight, so we send the consumer no
 * other ring before it has closed the connection.
 *
 * The time limit is longer than the time that a runnable process waits for a CPU, and shorter than the time that
 * programs usually wait for a response. Queue pairs do not use up retries before the limit: see pmd_links_untaken.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#include "links_priv.h"

#define ANSWER_NS     500000000u
#define IP_V4_BYTES   28u /* IP and UDP headers */
#define IP_V6_BYTES   48u
#define SERVICE_SHIFT 5 /* the opcode (first byte of the BTH) >> SERVICE_SHIFT is the transport service */
#define SERVICE_RC    0u
#define SERVICE_OWN   6u /* transport service of the RC opcodes that uroce defines */

void links_late_begin(struct pmd_links *l, struct link_out *out, uint64_t now_ns)
{
	out->answer_ns = now_ns + ANSWER_NS;
	if (out->answer_ns < l->answer_ns)
		l->answer_ns = out->answer_ns;
}

/** @return when the first time limit of an unanswered link expires; UINT64_MAX: there is no such link. */
static uint64_t first_answer_ns(const struct pmd_links *l)
{
	uint64_t first_ns = UINT64_MAX;

	for (uint32_t path = 1; path < NIC_PATHS_MAX; path++)
		if (l->out[path] && l->out[path]->answer_ns < first_ns)
			first_ns = l->out[path]->answer_ns;
	return first_ns;
}

void links_late_answered(struct pmd_links *l, struct link_out *out)
{
	out->answer_ns = UINT64_MAX;
	l->answer_ns = first_answer_ns(l);
}

/** Whether the entry was sent by an RC requester or responder, and so will be retransmitted. */
static bool is_sent_again(uint32_t kind, const uint8_t *packet, uint32_t len)
{
	uint32_t bth = link_is_bare(kind) ? 0 : packet[0] >> 4 == 6 ? IP_V6_BYTES : IP_V4_BYTES;
	uint8_t service;

	if (kind == LINK_FORWARD || len <= bth)
		return false;
	service = packet[bth] >> SERVICE_SHIFT;
	return service == SERVICE_RC || service == SERVICE_OWN;
}

/** The number of packets lost with an unclaimed ring. Count from position 0: a consumer must not move head before it
 *  has claimed the ring. If the consumer has moved head nevertheless, and the ring has wrapped, the count is 0. */
static unsigned count_lost(const struct link_out *out)
{
	struct ring_consumer c = {.memory = out->ring.memory};
	const uint8_t *packet;
	unsigned lost = 0;
	uint32_t kind;
	int len;

	while (out->ring.tail <= RING_BYTES && c.head < out->ring.tail && (len = ring_peek(&c, &packet, &kind)) > 0) {
		lost += !is_sent_again(kind, packet, (uint32_t)len);
		ring_pop(&c, (uint32_t)len);
	}
	return lost;
}

static void withdrawn_close(struct pmd_links *l, struct link_out *out)
{
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* no cancellation while the engine is locked */
	pmd_control_unwatch(l->control, &out->watch);
	close(out->watch.fd);
	free(out);
	l->n_withdrawn--;
	pthread_setcancelstate(cancel_state, NULL);
}

/** The consumer has closed the connection of a withdrawn ring, or has sent an unexpected message: close our side. */
static void withdrawn_ready(struct pmd_host *host, struct pmd_watch *w, uint32_t events)
{
	struct link_out *out = (struct link_out *)w, **at = &host->links->withdrawn;

	(void)events;
	while (*at != out)
		at = &(*at)->next_withdrawn;
	*at = out->next_withdrawn;
	withdrawn_close(host->links, out);
}

/** End a link whose ring was withdrawn, but keep the connection open. */
static void withdraw(struct pmd_links *l, uint32_t path)
{
	struct link_out *out;
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* no cancellation while the engine is locked */
	out = links_out_detach(l, path);
	ring_empty(out->ring.memory);
	ring_unmap(out->ring.memory);
	out->watch.ready = withdrawn_ready;
	out->next_withdrawn = l->withdrawn;
	l->withdrawn = out;
	l->n_withdrawn++;
	pthread_setcancelstate(cancel_state, NULL);
}

bool links_late_waits(const struct pmd_links *l, const struct nic_gid *key, uint32_t target)
{
	for (const struct link_out *out = l->withdrawn; out; out = out->next_withdrawn)
		if (out->target == target && pmd_gid_equal(&out->key, key))
			return true;
	return false;
}

void links_late_close(struct pmd_links *l)
{
	struct link_out *next;

	for (struct link_out *out = l->withdrawn; out; out = next) {
		next = out->next_withdrawn;
		withdrawn_close(l, out);
	}
	l->withdrawn = NULL;
}

void links_late_end(struct pmd_links *l, uint64_t now_ns)
{
	struct pmd_port_stats *stats = &l->host->port->stats;

	for (uint32_t path = 1; path < NIC_PATHS_MAX; path++) {
		struct link_out *out = l->out[path];

		if (!out || out->answer_ns > now_ns)
			continue;
		out->answer_ns = UINT64_MAX;
		if (!ring_withdraw(&out->ring))
			continue; /* the consumer has claimed the ring, and its answer will arrive */
		stats->link_late++;
		stats->link_late_dropped += count_lost(out);
		withdraw(l, path);
	}
	l->answer_ns = first_answer_ns(l);
}

bool pmd_links_untaken(struct pmd_links *l, uint32_t path, uint64_t *mark)
{
	struct link_out *out = l->out[path];
	uint64_t head = ring_head_seen(&out->ring);

	if (*mark == 0)
		*mark = out->ring.tail;
	/* If the consumer wrote an invalid head, the next use of the ring detects it. */
	if (out->ring.tail - head > RING_BYTES || (int64_t)(head - *mark) >= 0)
		return false;
	links_wake(l, out, pmd_now_ns());
	return true;
}
