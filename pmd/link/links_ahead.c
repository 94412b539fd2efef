/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links_ahead.c - fetching payloads of several packets with one system call. Each call of process_vm_readv, and each
 * engine step that makes one, has a fixed cost that is noticeable next to the copying of 64 KiB.
 *
 * When the payload of an entry is about to be fetched, look at the entries after it in the ring: the NIC predicts where
 * their payloads will go (nic_foresee). The same call also fetches these payloads, in ring order. The last bytes of
 * each payload go to a buffer here, all other bytes to the predicted place. Then each entry is handed to the NIC as
 * usual. When the NIC asks for a payload at the predicted place, only its last bytes are copied there, provided that
 * the entry has not been revoked since: (R) in ring.h.
 *
 * Payloads read ahead but not used are discarded before the lock is released, because from then on the program may
 * write to their destinations. So we read ahead only as many payloads as can be received in the link's turn, and
 * receive all of them in that turn. Two payloads that overlap are not fetched together unless they have the same
 * address and length: the last bytes of the first would be written after the body of the second.
 *
 * What this changes for a program: The body of a WRITE (all but its last bytes) may become visible before an earlier
 * WRITE, as with a NIC whose writes pass each other on the bus. The last bytes of a WRITE, its completion and later
 * operations never overtake an earlier WRITE. If two WRITEs have the same destination, the call for the first may leave
 * the body of the second there, even if the second is then revoked. Destinations are compared by address: if memory is
 * mapped twice and two WRITEs overlap in it by different addresses, the last bytes of the first may overwrite a
 * part of the second's body, and remain.
 */
#include <string.h>

#include "links_priv.h"

/** Whether payload `b` can be fetched after payload `a`, and the last bytes of both written later, without changing the
 *  result. */
static bool go_together(const uint8_t *a, uint32_t a_len, const uint8_t *b, uint32_t b_len)
{
	return a + a_len <= b || b + b_len <= a || (a == b && a_len == b_len);
}

static bool goes_with_all(const struct link_in *in, const struct link_copy *c, const uint8_t *dst, uint32_t len)
{
	if (!go_together(c->dst, c->len, dst, len))
		return false;
	for (uint32_t i = 0; i < in->n_ahead; i++)
		if (!go_together(in->ahead[i].dst, in->ahead[i].len, dst, len))
			return false;
	return true;
}

/** Whether payload `p` of `len` bytes fits into the call. */
static bool has_room(const struct link_copy *c, const struct link_payload *p, uint32_t len)
{
	return c->n_remote + p->n <= LINK_COPY_PIECES && len <= LINK_COPY_BYTES - c->bytes;
}

/** Advance `ring` past its current entry, and get the entry after it.
 *  @param len in: length of the current entry in bytes; out: of the next one.
 *  @param head set to a copy of the next entry's headers, because the producer can change the original.
 *  @return false: there is no next entry, or it is not a valid LINK_REFERENCE. */
static bool next_entry(struct ring_consumer *ring, uint32_t *len, struct link_payload *p, uint8_t *head,
		       struct nic_reference *reference)
{
	const uint8_t *packet;
	uint32_t kind;
	int got;

	ring_pop(ring, *len);
	got = ring_peek(ring, &packet, &kind);
	if (got <= 0 || kind != LINK_REFERENCE || !links_payload(p, packet, (uint32_t)got, reference))
		return false;
	memcpy(head, packet, LINK_PIECES_AT);
	*len = (uint32_t)got;
	return true;
}

void links_look_ahead(struct link_payload *p, struct link_copy *c)
{
	struct link_in *in = p->in;
	struct ring_consumer ring = in->ring;
	unsigned weight = link_weight(c->len);
	uint32_t len = p->entry_len;
	struct nic_foresight f;

	if (c->bytes > LINK_COPY_BYTES)
		return;
	nic_foresee_behind(p->host->nic, p->frame, &f);
	/* Each payload may complete a request: stop when the poller has no room for another completion. */
	while (f.qp && in->n_ahead < LINK_AHEAD && weight < in->budget &&
	       nic_completions(p->host->nic) + in->n_ahead + 1 < p->host->rx_until) {
		struct link_ahead *a = &in->ahead[in->n_ahead];
		struct link_payload next = {.host = p->host, .in = in};
		struct nic_reference reference;
		uint8_t head[LINK_PIECES_AT];
		const struct nic_rx_frame frame = {
			.data = head,
			.len = sizeof(head),
			.flags = NIC_RX_NO_ICRC,
			.reference = &reference,
			.peer = in->number,
		};

		if (!next_entry(&ring, &len, &next, head, &reference) || reference.len < NIC_REFERENCE_MIN ||
		    !has_room(c, &next, reference.len))
			return;
		a->dst = nic_foresee(p->host->nic, &frame, &f);
		if (!a->dst || !goes_with_all(in, c, a->dst, reference.len))
			return;
		a->at = ring.head;
		a->len = reference.len;
		c->local[c->n_local++] = (struct iovec){a->dst, a->len - NIC_REFERENCE_LAST};
		c->local[c->n_local++] = (struct iovec){a->last, NIC_REFERENCE_LAST};
		c->n_remote += links_parts(&next, 0, a->len, c->remote + c->n_remote);
		c->bytes += a->len;
		weight += link_weight(a->len);
		in->n_ahead++;
	}
}

void links_ahead_got(struct link_in *in, uint64_t bytes)
{
	uint32_t n = 0;

	while (n < in->n_ahead && bytes >= in->ahead[n].len)
		bytes -= in->ahead[n++].len;
	in->n_ahead = n;
}

bool links_ahead_take(const struct link_in *in, const uint8_t *dst, uint32_t len, void *last)
{
	for (uint32_t i = 0; i < in->n_ahead; i++) {
		const struct link_ahead *a = &in->ahead[i];

		if (a->at != in->ring.head || a->dst != dst || a->len != len)
			continue;
		memcpy(last, a->last, NIC_REFERENCE_LAST);
		return true;
	}
	return false;
}
