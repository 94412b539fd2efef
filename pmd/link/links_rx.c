/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links_rx.c - receiving packets from links. The receiving NIC copies the payload directly from the ring: one copy out.
 * Headers are copied before the NIC parses them, because the producer could still change them.
 *
 * A malformed ring is given up and counted.
 */
#include <stdlib.h>
#include <string.h>

#include "links_priv.h"
#include "tap.h"

/* Bytes of a packet that are copied before it is parsed: the rest of the entry's first line, and one more line. */
#define HEAD_MAX (2 * RING_LINE - RING_WORD)
_Static_assert(HEAD_MAX >= NIC_HEADERS_MAX, "all headers are copied");
_Static_assert(RING_PACKET_MAX >= NIC_FRAME_MAX + sizeof(struct link_forward), "any packet fits an entry");

static inline void rx(struct pmd_host *host, const struct link_in *in, const struct nic_rx_frame *frame,
		      uint64_t now_ns)
{
	if (pmd_unlikely(host->taps))
		pmd_tap_rx(host, in->index + 1, frame, now_ns);
	else
		nic_rx(host->nic, frame, now_ns);
}

/** Copy the headers: whole cache lines, but no line that belongs to a later entry. */
static inline void take_head(struct nic_rx_frame *frame, uint8_t *head, const uint8_t *packet)
{
	frame->data = head;
	memcpy(head, packet, RING_LINE - RING_WORD);
	if (frame->len > RING_LINE - RING_WORD)
		memcpy(head + RING_LINE - RING_WORD, packet + RING_LINE - RING_WORD, RING_LINE);
	if (frame->len > HEAD_MAX)
		frame->body = packet;
}

static void rx_packet(struct pmd_host *host, const struct link_in *in, const uint8_t *packet, uint32_t len,
		      uint64_t now_ns)
{
	uint8_t head[HEAD_MAX] __attribute__((aligned(16)));
	struct nic_rx_frame frame = {.len = len, .flags = NIC_RX_NO_ICRC, .peer = in->number};

	take_head(&frame, head, packet);
	rx(host, in, &frame, now_ns);
}

static void rx_bare(struct pmd_host *host, const struct link_in *in, uint32_t kind, const uint8_t *packet, uint32_t len,
		    uint64_t now_ns)
{
	uint8_t head[HEAD_MAX] __attribute__((aligned(16)));
	struct nic_rx_frame frame = {.len = len,
				     .flags = NIC_RX_NO_ICRC | NIC_RX_BARE,
				     .peer = in->number,
				     .src_qpn = kind >> LINK_QPN_SHIFT,
				     .addresses = kind >> LINK_KIND_BITS & ((1u << NIC_ADDRESSES_BITS) - 1)};

	take_head(&frame, head, packet);
	/* Taps need the addresses, which nic_frame_address() fills in. If it fails, the packet is not from the peer of
	 * a connected QP: taps do not see the packet, and the NIC drops it. */
	if (pmd_unlikely(host->taps) && nic_frame_address(host->nic, &frame))
		rx(host, in, &frame, now_ns);
	else
		nic_rx(host->nic, &frame, now_ns);
}

/** Receive a packet with an ICRC. It is copied completely: it must not change between the check and the use. No
 *  authentication tag is required, because the kernel has identified the producer. */
static void rx_summed(struct pmd_host *host, const struct link_in *in, const uint8_t *packet, uint32_t len,
		      uint64_t now_ns)
{
	uint8_t copy[RING_PACKET_MAX];
	struct nic_rx_frame frame = {.data = copy, .len = len, .flags = NIC_RX_NO_KEY, .peer = in->number};

	memcpy(copy, packet, len);
	rx(host, in, &frame, now_ns);
}

/** Receive a packet that another function of our device got through its port: handle it as if our port had received it.
 *  @return false: malformed. */
static bool rx_forwarded(struct pmd_host *host, const struct link_in *in, const uint8_t *packet, uint32_t len,
			 uint64_t now_ns)
{
	uint8_t copy[RING_PACKET_MAX];
	struct link_forward f;
	struct nic_rx_frame frame;

	if (len < sizeof(f) || !pmd_gid_equal(&in->peer.key, &host->links->self.key))
		return false;
	memcpy(copy, packet, len);
	memcpy(&f, copy, sizeof(f));
	frame = (struct nic_rx_frame){
		.data = copy + sizeof(f),
		.len = len - (uint32_t)sizeof(f),
		.flags = NIC_RX_UDP_PAYLOAD | (f.flags & NIC_RX_IP_ID_UNKNOWN),
		.sgid = f.sgid,
		.dgid = f.dgid,
		.udp_sport = f.udp_sport,
		.tclass = f.tclass,
		.hop_limit = f.hop_limit,
	};
	rx(host, in, &frame, now_ns);
	return true;
}

/** As nic_reference.fetch, but copies from a buffer that holds the payload. @param ctx the buffer. */
static bool fetched(void *ctx, uint32_t offset, void *dst, uint32_t len, void *last, uint32_t n_last)
{
	const uint8_t *payload = ctx;

	memcpy(dst, payload + offset, len - n_last);
	if (n_last)
		memcpy(last, payload + offset + len - n_last, n_last);
	return true;
}

static bool not_fetched(void *ctx, uint32_t offset, void *dst, uint32_t len, void *last, uint32_t n_last)
{
	return false;
}

/** Called if there are taps. Splits a packet that refers to the producer's memory into the ordinary packets that it
 *  represents, with their payload. For a packet that offers a message, taps see the packet without the message. If a
 *  packet cannot be split, hands it to the NIC, and taps do not see it. */
static void rx_unfolded(struct pmd_host *host, const struct link_in *in, const struct nic_rx_frame *frame,
			uint64_t now_ns)
{
	const struct nic_reference *far = frame->reference;
	bool offers = far->psns == 0;
	struct nic_reference near = {
		.len = far->len, .psns = far->psns, .fetch = fetched, .ctx = offers ? NULL : malloc(far->len)};
	struct nic_rx_frame seen = *frame;
	uint8_t copy[NIC_FRAME_MAX];
	uint32_t index = 0;
	int len;

	seen.reference = &near;
	if (near.ctx && !far->fetch(far->ctx, 0, near.ctx, far->len, NULL, 0)) {
		free(near.ctx);
		near.ctx = NULL;
	}
	if (!near.ctx)
		near.fetch = not_fetched;
	while ((offers || near.ctx) && (len = nic_frame_unfold(host->nic, &seen, index, copy)) > 0) {
		const struct nic_rx_frame one = {
			.data = copy, .len = (uint32_t)len, .flags = NIC_RX_NO_ICRC, .peer = in->number};

		rx(host, in, &one, now_ns);
		index++;
	}
	if (index == 0)
		nic_rx(host->nic, &seen, now_ns);
	free(near.ctx);
}

/** Receive a packet that refers to the producer's memory. @return as rx_entry. */
static unsigned rx_referring(struct pmd_host *host, struct link_in *in, const uint8_t *packet, uint32_t len,
			     unsigned budget, uint64_t now_ns)
{
	struct link_payload payload = {.host = host, .in = in, .entry_len = len};
	struct nic_reference reference;
	uint8_t head[LINK_PIECES_AT];
	struct nic_rx_frame frame = {
		.data = head,
		.len = sizeof(head),
		.flags = NIC_RX_NO_ICRC,
		.reference = &reference,
		.peer = in->number,
	};

	if (!links_payload(&payload, packet, len, &reference))
		return 0;
	memcpy(head, packet, sizeof(head));
	in->budget = budget;
	host->port->stats.link_rx_references++;
	if (pmd_unlikely(host->taps)) {
		rx_unfolded(host, in, &frame, now_ns);
	} else {
		payload.frame = &frame;
		nic_rx(host->nic, &frame, now_ns);
	}
	return link_weight(reference.len);
}

/** Receive one entry. @return how much of the budget it used; 0: the entry is malformed. */
static inline unsigned rx_entry(struct pmd_host *host, struct link_in *in, uint32_t kind, const uint8_t *packet,
				uint32_t len, unsigned budget, uint64_t now_ns)
{
	if (link_is_bare(kind)) {
		rx_bare(host, in, kind, packet, len, now_ns);
		return 1;
	}
	switch (kind) {
	case LINK_PACKET:
	case LINK_FOLLOWED:
		rx_packet(host, in, packet, len, now_ns);
		return 1;
	case LINK_SUMMED:
		rx_summed(host, in, packet, len, now_ns);
		return 1;
	case LINK_REFERENCE:
	case LINK_REVOKED:
		return rx_referring(host, in, packet, len, budget, now_ns);
	case LINK_FORWARD:
		return rx_forwarded(host, in, packet, len, now_ns);
	default:
		return 0;
	}
}

/**
 * Receive up to `budget` packets from one link. Stops once the poller has its completions, except after an ACK that the
 * next packet of the same QP follows at once (LINK_FOLLOWED, LINK_BARE_FOLLOWED). Packets whose payloads were read
 * ahead are received in any case. With host->rx_brief, stops before a payload by reference.
 * @return packets received, -EPROTO: the ring is malformed.
 */
static int link_rx(struct pmd_host *host, struct link_in *in, unsigned budget, uint64_t now_ns)
{
	const uint8_t *packet;
	unsigned n = 0;
	uint32_t kind = LINK_PACKET;
	int len = 0;

	while ((links_has_ahead(in) ||
		(budget > 0 && (link_is_followed(kind) || nic_completions(host->nic) < host->rx_until))) &&
	       (len = ring_peek(&in->ring, &packet, &kind)) > 0) {
		unsigned weight;

		if (pmd_unlikely(host->rx_brief) && kind == LINK_REFERENCE)
			break;
		ring_will_peek(&in->ring, (uint32_t)len);
		weight = rx_entry(host, in, kind, packet, (uint32_t)len, budget, now_ns);
		if (weight == 0)
			return -EPROTO;
		ring_pop(&in->ring, (uint32_t)len);
		n++;
		budget = budget > weight ? budget - weight : 0;
	}
	in->n_ahead = 0; /* when the lock is released, the application may reuse the memory of payloads read ahead */
	ring_say_head(&in->ring);
	return len < 0 ? len : (int)n;
}

bool links_rx_rest(struct pmd_links *l, struct link_in *in)
{
	uint64_t now_ns = pmd_now_ns(), until = l->host->rx_until, end = in->ring.head + RING_BYTES;
	int n;

	l->host->rx_until = UINT64_MAX; /* the link ends, so the remaining packets cannot be received later */
	/* Receive at most one full ring: packets that the producer, or another process, adds meanwhile are ignored. */
	do {
		n = link_rx(l->host, in, LINK_BURST, now_ns);
		l->host->port->stats.link_rx_packets += n > 0 ? (unsigned)n : 0;
	} while (n > 0 && in->ring.head < end);
	l->host->rx_until = until;
	return n >= 0;
}

bool pmd_links_ready(const struct pmd_links *l)
{
	for (uint32_t i = 0; i < l->n_in; i++)
		if (l->in[i] && ring_has_entry(&l->in[i]->ring))
			return true;
	return false;
}

unsigned pmd_links_rx(struct pmd_links *l, unsigned budget, uint64_t now_ns)
{
	unsigned total = 0;

	if (!l || l->n_in == 0)
		return 0;
	for (uint32_t i = 0, first = l->turn < l->n_in ? l->turn : 0; i < l->n_in && total < budget; i++) {
		uint32_t index = first + i < l->n_in ? first + i : first + i - l->n_in;
		struct link_in *in = l->in[index];
		int n;

		if (!in || !ring_has_entry(&in->ring))
			continue;
		l->turn = index + 1;
		n = link_rx(l->host, in, LINK_BURST, now_ns);
		if (n < 0) {
			l->host->port->stats.link_broken++;
			links_drop_in(l, index);
			break; /* links_drop_in may have changed n_in */
		}
		total += (unsigned)n;
	}
	l->host->port->stats.link_rx_packets += total;
	return total;
}
