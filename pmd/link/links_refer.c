/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links_refer.c - payload by reference: the consumer of a link reads long payloads from the producer's memory directly
 * to their destination (process_vm_readv). That is one copy instead of two, made by the receiver.
 *
 * Which process may be read: the process that made the connection, according to the kernel (SO_PEERCRED), if it runs as
 * our own user and is visible to us. Such a process can make us wait in a page fault, but it could control this process
 * anyway. The kernel must permit the read. Some container profiles, ptrace rules and programs prevent this, so we try a
 * read when the link is made. If that read succeeds, we set `welcome` in the ring, and clear it when later reads fail
 * permanently.
 *
 * How we know that it is still the same process: every call reads, along with the payload, a secret number from the
 * ring's control page, at the address where the producer has mapped the page. A call reads from a single address space,
 * and no other process has the ring at that address: not a child (it does not inherit the mapping), not a program that
 * the producer executes (exec removes the mapping), and not a later process with the same pid.
 *
 * How we know that the memory may still be read: it usually belongs to the producer's QP until the consumer has read
 * it: see nic/qp/refer.c. If a memory region is deregistered before that, or a request fails, the producer revokes the
 * entry: (R) in ring.h. The consumer checks the entry before it reads, and again afterwards; if the entry was revoked,
 * the payload is not used. Bytes that were already read stay at the destination, like the first half of a
 * message whose second half never arrives.
 *
 * One call may fetch the payloads of several entries: links_ahead.c.
 *
 * The opposite direction, in which the producer writes to the consumer's memory, would save as much, but a write that
 * comes after the consumer has deregistered the memory could not be undone.
 *
 * Owns: the references in flight of each outgoing link.
 */
#include <errno.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include "links_priv.h"
#include "mapped.h"
#include "tap.h"

#define FAILURES_MAX 4

/* ---- consuming ----------------------------------------------------------------------------------------------- */

/** Read the number that identifies the process, then any payloads, from the producer's memory. @return bytes read,
 *  or -1 with errno. This does not use the C library's wrapper of the system call: sanitizers intercept the wrapper,
 *  and would check writes to the application's memory. */
static ssize_t read_memory(const struct link_in *in, const struct iovec *local, unsigned n_local,
			   const struct iovec *remote, unsigned n_remote)
{
	return syscall(SYS_process_vm_readv, in->pid, local, (unsigned long)n_local, remote, (unsigned long)n_remote,
		       0ul);
}

static struct iovec number_at(const struct link_in *in)
{
	return (struct iovec){(void *)(uintptr_t)in->peer.number_at, sizeof(in->peer.number)};
}

/** Test whether the producer's memory can be read, by reading its number. */
static bool is_readable(const struct link_in *in)
{
	uint64_t number;
	const struct iovec local = {&number, sizeof(number)}, remote = number_at(in);

	return read_memory(in, &local, 1, &remote, 1) == sizeof(number) && number == in->peer.number;
}

unsigned links_parts(const struct link_payload *p, uint32_t offset, uint32_t len, struct iovec *out)
{
	unsigned n = 0;

	for (uint32_t i = 0; i < p->n && len > 0; i++) {
		uint64_t part = p->piece[i].len;

		if (offset >= part) {
			offset -= (uint32_t)part;
			continue;
		}
		part = part - offset < len ? part - offset : len;
		out[n++] = (struct iovec){(void *)(uintptr_t)(p->piece[i].addr + offset), part};
		len -= (uint32_t)part;
		offset = 0;
	}
	return n;
}

/** As nic_reference.fetch. @param ctx a struct link_payload. */
static bool fetch(void *ctx, uint32_t offset, void *dst, uint32_t len, void *last, uint32_t n_last)
{
	struct link_payload *p = ctx;
	struct link_in *in = p->in;
	struct pmd_port_stats *stats = &p->host->port->stats;
	bool there = ring_kind_now(&in->ring) == LINK_REFERENCE;
	bool whole = p->frame && offset == 0 && len == p->frame->reference->len;
	uint64_t number = 0, needed = sizeof(number) + len;
	ssize_t got = 0;
	struct link_copy c;

	if (there && whole && links_ahead_take(in, dst, len, last)) {
		stats->link_references_ahead++;
		return true;
	}
	in->n_ahead = 0; /* discard payloads read ahead: this payload has to be written before them */
	c.dst = dst;
	c.len = c.bytes = len;
	c.local[0] = (struct iovec){&number, sizeof(number)};
	c.local[1] = (struct iovec){dst, len - n_last};
	c.local[2] = (struct iovec){last, n_last};
	c.n_local = 3;
	c.remote[0] = number_at(in);
	c.n_remote = 1 + links_parts(p, offset, len, c.remote + 1);
	if (there && in->refers) {
		unsigned n_remote = c.n_remote;

		if (whole)
			links_look_ahead(p, &c);
		got = read_memory(in, c.local, c.n_local, c.remote, c.n_remote);
		if (got < 0 &&
		    in->n_ahead) /* try without the later payloads: one of them may be at an invalid address */
			got = read_memory(in, c.local, 3, c.remote, n_remote);
	}
	links_ahead_got(in, got > (ssize_t)needed && number == in->peer.number ? (uint64_t)got - needed : 0);
	PMD_POINT(reference_read);
	if (!there || (got > 0 && ring_kind_now(&in->ring) != LINK_REFERENCE)) {
		stats->link_references_revoked++;
		return false;
	}
	if (got >= (ssize_t)needed && number == in->peer.number) {
		in->failures = 0;
		return true;
	}
	stats->link_references_failed++;
	/* If the producer's number could not be read, or is wrong, stop using references at once. Otherwise perhaps
	 * only one message's memory is unmapped, on either side. If it is on this side, the NIC decides what becomes of
	 * it. If it is on the other, stop using references after FAILURES_MAX failures in a row. */
	if (got >= (ssize_t)sizeof(number) && number == in->peer.number && !pmd_is_mapped(NULL, dst, len))
		return false;
	if (got < (ssize_t)sizeof(number) || number != in->peer.number || ++in->failures == FAILURES_MAX) {
		in->refers = false;
		ring_set_welcome(&in->ring, false);
	}
	return false;
}

bool links_payload(struct link_payload *p, const uint8_t *packet, uint32_t len, struct nic_reference *out)
{
	*out = (struct nic_reference){.fetch = fetch, .ctx = p};
	if (!p->in->pid || len <= LINK_PIECES_AT || (len - LINK_PIECES_AT) % sizeof(*p->piece) ||
	    (len - LINK_PIECES_AT) / sizeof(*p->piece) > NIC_PIECES_MAX)
		return false;
	p->n = (len - LINK_PIECES_AT) / sizeof(*p->piece);
	memcpy(p->piece, packet + LINK_PIECES_AT, p->n * sizeof(*p->piece));
	out->psns = p->piece[0].psns;
	for (uint32_t i = 0; i < p->n; i++) {
		if (p->piece[i].len == 0 || p->piece[i].len > NIC_REFERENCE_MAX - out->len)
			return false;
		out->len += p->piece[i].len;
	}
	return true;
}

void links_welcome(const struct pmd_links *l, struct link_in *in)
{
	struct ucred peer;

	if (!l->one_copy || !in->peer.number_at || !proto_peer_is_self(in->watch.fd) ||
	    proto_peer(in->watch.fd, &peer) != 0)
		return;
	in->pid = peer.pid;
	in->refers = is_readable(in);
	if (!in->refers)
		in->pid = 0;
	else
		ring_set_welcome(&in->ring, true);
	PMD_POINT(reference_tried);
}

/* ---- producing ----------------------------------------------------------------------------------------------- */

int links_introduce(int connection, const struct ring_producer *ring, struct proto_link *self)
{
	uint64_t *number = &ring_control(ring->memory)->number;

	if (!proto_peer_is_self(connection))
		return 0;
	if (getrandom(&self->number, sizeof(self->number), 0) != sizeof(self->number))
		return -errno;
	self->number_at = (uintptr_t)number;
	*number = self->number;
	return 0;
}

/** Remove log entries whose packets the consumer has consumed. */
static void log_settle(struct link_out *out)
{
	uint64_t head = __atomic_load_n(&ring_control(out->ring.memory)->head, __ATOMIC_ACQUIRE); /* (H) in ring.h */

	while (out->log_first != out->log_next && (int64_t)(head - out->log[out->log_first % LINK_REFERENCES].end) >= 0)
		out->log_first++;
}

bool links_may_refer(struct pmd_links *l, struct link_out *out)
{
	if (!l->one_copy || !out->refers || !ring_is_welcome(&out->ring) || pmd_unlikely(l->host->taps))
		return false;
	if (out->log_next - out->log_first == LINK_REFERENCES)
		log_settle(out);
	return out->log_next - out->log_first < LINK_REFERENCES;
}

void links_refer(struct link_out *out, const struct nic_tx_frame *frame, bool revoked)
{
	struct link_reference *r = &out->log[out->log_next++ % LINK_REFERENCES];
	uint32_t len = LINK_PIECES_AT + frame->n_pieces * (uint32_t)sizeof(struct link_piece);

	*r = (struct link_reference){.at = out->ring.tail,
				     .end = out->ring.tail + ring_entry_bytes(len),
				     .qpn = frame->qpn,
				     .answers = frame->answers,
				     .key = frame->pieces[0].key};
	for (uint32_t i = 0; i < frame->n_pieces; i++) {
		const struct nic_piece *piece = &frame->pieces[i];
		const struct link_piece said = {piece->addr, piece->len, i == 0 ? frame->psns : 0};

		memcpy(frame->data + LINK_PIECES_AT + i * sizeof(said), &said, sizeof(said));
		r->keys |= piece->key != r->key;
	}
	ring_commit(&out->ring, len, revoked ? LINK_REVOKED : LINK_REFERENCE);
	PMD_POINT(reference_sent);
}

void links_revoke_all(struct link_out *out)
{
	log_settle(out);
	for (uint32_t i = out->log_first; i != out->log_next; i++)
		ring_change_kind(&out->ring, out->log[i % LINK_REFERENCES].at, LINK_REVOKED);
}

void pmd_links_revoke(struct pmd_links *l, uint32_t qpn, bool answers, uint32_t key)
{
	if (!l)
		return;
	if (qpn && !answers)
		l->request_revocations++;
	else
		l->revocations++;
	for (uint32_t path = 1; path < NIC_PATHS_MAX; path++) {
		struct link_out *out = l->out[path];

		if (!out || out->log_first == out->log_next)
			continue;
		log_settle(out);
		for (uint32_t i = out->log_first; i != out->log_next; i++) {
			const struct link_reference *r = &out->log[i % LINK_REFERENCES];

			if (qpn ? r->qpn != qpn || (r->answers && !answers) : r->key != key && !r->keys)
				continue;
			ring_change_kind(&out->ring, r->at, LINK_REVOKED);
			l->host->port->stats.link_revocations++;
		}
	}
}
