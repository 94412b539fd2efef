/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links_tx.c - sending packets through links. The sending NIC builds a packet directly in the ring: one copy in.
 * Packets have no ICRC (shared memory does not flip bits), those of connected QPs have no IP and UDP headers, and a
 * long payload may be passed by reference (links_refer.c); otherwise they are what would be sent on the wire.
 *
 * A ring whose consumer wrote an invalid head is given up and counted.
 */
#include <string.h>

#include "links_priv.h"
#include "tap.h"

/* A consumer that makes no progress for DEAF_NS, although its ring has packets, may have missed its bell. After
 * STOPPED_NS it counts as stopped. Do not reduce STOPPED_NS: if processes outnumber cores, a consumer can be off
 * the CPU for tens of milliseconds, and programs that send datagrams to a running process expect them to arrive. */
#define DEAF_NS	     2000000
#define STOPPED_NS   500000000
#define RETRY_MAX_NS 10000000
#define PATH_WORDS   (NIC_PATHS_MAX / 64)
#define STRAYS_PART  2 /* forwarded strays fill at most 1/STRAYS_PART of a ring */
_Static_assert(NIC_ROOM_LEN <= RING_PACKET_MAX, "a reserved entry holds any packet that tx_room promises room for");

/** Record the consumer's progress. @return whether the consumer has made no progress since the last call, although the
 *  ring had packets. */
static inline bool link_stands_still(struct link_out *out, uint64_t now_ns)
{
	uint64_t head = ring_head_seen(&out->ring);

	if (head == out->moved_head && head != out->moved_tail)
		return true;
	out->moved_ns = now_ns;
	out->moved_head = head;
	out->moved_tail = out->ring.tail;
	return false;
}

/** Wake the consumer if it sleeps, or if it has made no progress for longer than DEAF_NS: it may have missed its bell.
 *  Until then, do not read the consumer's head, because the consumer writes that cache line all the time. */
static inline void link_wake(struct pmd_links *l, struct link_out *out, uint64_t now_ns)
{
	bool sleeps = ring_must_wake(&out->ring);

	if (pmd_clock_age(now_ns, out->moved_ns) > DEAF_NS && link_stands_still(out, now_ns) &&
	    pmd_clock_age(now_ns, out->rung_ns) > DEAF_NS) {
		out->rung_ns = now_ns;
		sleeps = true;
	}
	if (sleeps) {
		l->host->port->stats.link_bells++;
		links_ring_bell(out);
	}
}

void links_wake(struct pmd_links *l, struct link_out *out, uint64_t now_ns)
{
	link_wake(l, out, now_ns);
}

/** Drop up to LINK_BURST pending datagrams and requests of endpoints; other packets wait for room: nic_path_lose(). */
static void link_lose(struct pmd_links *l, uint32_t path, uint64_t now_ns)
{
	uint8_t data[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = data};

	l->host->port->stats.link_dropped += nic_path_lose(l->host->nic, path, &frame, LINK_BURST, now_ns);
}

/** The ring is full. If packets are pending, wake the consumer as link_wake() does, and try again later. If the
 *  consumer has stopped, drop packets. */
static void link_wait(struct pmd_links *l, uint32_t path, uint64_t now_ns)
{
	struct link_out *out = l->out[path];
	uint64_t still_ns, retry_ns;

	if (!nic_path_pending(l->host->nic, path) &&
	    !(pmd_unlikely(l->host->taps) && pmd_tap_tx_paths(l->host, path / 64, now_ns) >> path % 64 & 1))
		return;
	link_wake(l, out, now_ns);
	link_stands_still(out, now_ns); /* record progress: not every call of link_wake does that */
	still_ns = pmd_clock_age(now_ns, out->moved_ns);
	if (still_ns > STOPPED_NS)
		link_lose(l, path, now_ns);
	l->full[path / 64] |= 1ull << path % 64;
	l->host->port->stats.link_busy++;
	/* Back off, because the consumer may never make progress again. */
	retry_ns = still_ns / 4 < PMD_RETRY_NS	 ? PMD_RETRY_NS
		   : still_ns / 4 < RETRY_MAX_NS ? still_ns / 4
						 : RETRY_MAX_NS;
	if (now_ns + retry_ns < l->retry_ns)
		l->retry_ns = now_ns + retry_ns;
}

/** Whether the NIC, or a tap, may have packets for the link. */
static inline bool tx_is_pending(const struct pmd_links *l, uint32_t path)
{
	return l->pending[path / 64] >> path % 64 & 1 || pmd_unlikely(l->host->taps);
}

static inline uint32_t kind_of(const struct nic_tx_frame *frame)
{
	if (frame->bare)
		return frame->qpn << LINK_QPN_SHIFT | (uint32_t)frame->addresses << LINK_KIND_BITS |
		       (frame->ordered ? LINK_BARE_FOLLOWED : LINK_BARE);
	if (pmd_unlikely(!frame->no_icrc))
		return LINK_SUMMED;
	return frame->ordered ? LINK_FOLLOWED : LINK_PACKET;
}

/** Transmit up to `budget` packets into one ring. @return the number of packets; -EPROTO: the consumer wrote an invalid
 *  head. */
static int link_tx(struct pmd_links *l, uint32_t path, unsigned budget, uint64_t now_ns)
{
	struct link_out *out = l->out[path];
	struct nic_piece pieces[NIC_PIECES_MAX];
	struct nic_tx_frame frame;
	unsigned n = 0, given, left;
	int room = 1;

	while (n < budget && (room = ring_reserve(&out->ring, &frame.data)) == 1) {
		uint32_t revocations = l->revocations, of_requests = l->request_revocations;

		frame.pieces = links_may_refer(l, out) ? pieces : NULL;
		frame.n_pieces = 0;
		frame.bare = pmd_likely(!l->host->taps);
		given = left = nic_path_tx(l->host->nic, path, &frame, 1, now_ns);
		if (pmd_unlikely(l->host->taps))
			left = pmd_tap_tx(l->host, path, &frame, given, 1, now_ns);
		if (given + left == 0)
			break;
		if (frame.n_pieces) {
			links_refer(out, &frame,
				    l->revocations != revocations ||
					    (!frame.answers && l->request_revocations != of_requests));
			l->host->port->stats.link_tx_references++;
		} else if (left) {
			ring_commit(&out->ring, frame.len, kind_of(&frame));
		}
		n++;
		if (!tx_is_pending(l, path))
			break;
	}
	if (n > 0)
		link_wake(l, out, now_ns);
	if (room == 0)
		link_wait(l, path, now_ns);
	return room < 0 ? room : (int)n;
}

/** Find the links on paths [64 * word, 64 * word + 63] that have packets to send and had room at the last attempt.
 *  @return one bit per path. */
static inline uint64_t tx_paths(const struct pmd_links *l, uint32_t word, uint64_t now_ns)
{
	uint64_t bits = l->pending[word];

	if (pmd_unlikely(l->host->taps))
		bits |= pmd_tap_tx_paths(l->host, word, now_ns);
	return bits & ~l->full[word] & (word ? ~0ull : ~1ull);
}

/** Whether the NIC, or a tap, may have packets for any link, even a full one. */
static inline bool tx_any(const struct pmd_links *l)
{
	uint64_t any = l->pending[0] & ~1ull;

	for (unsigned word = 1; word < PATH_WORDS; word++)
		any |= l->pending[word];
	return any || pmd_unlikely(l->host->taps);
}

/** Find the next link, in cyclic order from path `from`, that has packets to send, had room at the last attempt and is
 *  not in `served`. @return the link's path; NIC_PATHS_MAX: there is no such link. */
static uint32_t next_path(const struct pmd_links *l, uint32_t from, const uint64_t *served, uint64_t now_ns)
{
	for (uint32_t i = 0; i <= PATH_WORDS; i++) {
		uint32_t word = (from / 64 + i) % PATH_WORDS;
		uint64_t bits = tx_paths(l, word, now_ns) & ~served[word];

		if (i == 0)
			bits &= ~0ull << from % 64;
		if (bits)
			return word * 64 + (uint32_t)__builtin_ctzll(bits);
	}
	return NIC_PATHS_MAX;
}

/** Clear the marks of full links, so that they are tried again. */
static void tx_retry(struct pmd_links *l)
{
	if (l->retry_ns == UINT64_MAX)
		return;
	l->retry_ns = UINT64_MAX;
	memset(l->full, 0, sizeof(l->full));
}

/** Count packets that were sent, after which rings may have to be trimmed. */
static inline void count_sent(struct pmd_links *l, unsigned n, uint64_t now_ns)
{
	l->host->port->stats.link_tx_packets += n;
	if (n > 0 && l->trim_ns == UINT64_MAX)
		l->trim_ns = now_ns + LINKS_TRIM_NS;
}

/** Links take turns; each turn is up to LINK_BURST packets. */
unsigned pmd_links_tx(struct pmd_links *l, unsigned budget, uint64_t now_ns)
{
	uint64_t served[PATH_WORDS] = {0};
	unsigned total = 0;

	if (!l)
		return 0;
	if (pmd_unlikely(now_ns >= l->answer_ns))
		links_late_end(l, now_ns);
	tx_retry(l);
	while (total < budget && l->n_out > 0 && tx_any(l)) {
		uint32_t path = next_path(l, l->tx_turn, served, now_ns);
		unsigned turn = budget - total < LINK_BURST ? budget - total : LINK_BURST;
		int n;

		if (path == NIC_PATHS_MAX)
			break;
		n = link_tx(l, path, turn, now_ns);
		if (n < 0) {
			l->host->port->stats.link_broken++;
			links_drop_out(l, path);
			continue;
		}
		total += (unsigned)n;
		l->tx_turn = (path + ((unsigned)n == turn)) % NIC_PATHS_MAX;
		if ((unsigned)n < turn)
			served[path / 64] |= 1ull << path % 64;
	}
	count_sent(l, total, now_ns);
	return total;
}

uint8_t *pmd_links_room(struct pmd_links *l, uint32_t path)
{
	uint8_t *room;

	if (pmd_unlikely(l->host->taps) || ring_reserve(&l->out[path]->ring, &room) != 1)
		return NULL; /* pmd_links_tx handles a ring that is full or malformed */
	return room;
}

void pmd_links_send(struct pmd_links *l, uint32_t path, const struct nic_tx_frame *frame, uint64_t now_ns)
{
	struct link_out *out = l->out[path];

	ring_commit(&out->ring, frame->len, kind_of(frame));
	link_wake(l, out, now_ns);
	count_sent(l, 1, now_ns);
}

uint64_t pmd_links_trim(struct pmd_links *l, uint64_t now_ns)
{
	bool more = false, passing;

	if (!l)
		return UINT64_MAX;
	if (now_ns < l->trim_ns)
		return l->trim_ns;
	for (uint32_t path = 1; path < NIC_PATHS_MAX; path++) {
		struct link_out *out = l->out[path];

		if (!out)
			continue;
		passing = link_is_to_service(out->target) || out->for_strays;
		if (out->seen_tail != out->ring.tail || !ring_is_empty(&out->ring) || (passing && !out->taken)) {
			more = true;
		} else if (passing) {
			links_drop_out(l, path); /* unused for a while, so most likely not needed any more */
			continue;
		} else {
			ring_trim(&out->ring);
		}
		out->seen_tail = out->ring.tail;
	}
	l->trim_ns = more ? now_ns + LINKS_TRIM_NS : UINT64_MAX;
	return l->trim_ns;
}

bool pmd_links_pending(const struct pmd_links *l)
{
	uint64_t any = 0;

	if (!l || l->n_out == 0)
		return false;
	for (unsigned word = 0; word < PATH_WORDS; word++)
		any |= l->pending[word] & ~l->full[word] & (word ? ~0ull : ~1ull);
	return any && nic_port_is_up(l->host->nic);
}

uint64_t pmd_links_retry(const struct pmd_links *l)
{
	if (!l)
		return UINT64_MAX;
	return l->retry_ns < l->answer_ns ? l->retry_ns : l->answer_ns;
}

bool pmd_links_any(const struct pmd_links *l)
{
	return l && (l->n_in || l->n_out);
}

bool pmd_links_forward(struct pmd_links *l, uint32_t path, const struct nic_rx_frame *frame)
{
	const struct link_forward f = {
		.sgid = frame->sgid,
		.dgid = frame->dgid,
		.flags = frame->flags,
		.udp_sport = frame->udp_sport,
		.tclass = frame->tclass,
		.hop_limit = frame->hop_limit,
	};
	struct link_out *out = l->out[path];
	uint8_t *place;

	if (sizeof(f) + frame->len > RING_PACKET_MAX ||
	    out->ring.tail - ring_head_seen(&out->ring) > RING_BYTES / STRAYS_PART ||
	    ring_reserve(&out->ring, &place) != 1)
		return false;
	memcpy(place, &f, sizeof(f));
	memcpy(place + sizeof(f), frame->data, frame->len);
	ring_commit(&out->ring, (uint32_t)sizeof(f) + frame->len, LINK_FORWARD);
	if (ring_must_wake(&out->ring))
		links_ring_bell(out);
	return true;
}
