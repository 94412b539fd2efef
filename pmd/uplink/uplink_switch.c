/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uplink_switch.c - moves packets between the DPDK port and the rings of the functions.
 *
 * A packet is copied once in each direction: from an mbuf into the function's ring, and from the ring into an mbuf.
 * That copy is also what makes the check of a function's packet hold: the function can no longer change it.
 *
 * Functions take turns, FUNCTION_BURST packets each. A function whose ring is full loses what arrives for it, as if its
 * receive queue were full; it does not hold up the others.
 */
#include <string.h>
#include <sys/epoll.h>

#include "pool.h"
#include "port.h"
#include "uplink_priv.h"

#define FUNCTION_BURST 32
#define STUCK_NS       500000000u /* a port that takes no packet for this long loses them */

void uplink_function_drop(struct uplink *u, unsigned n)
{
	struct uplink_function *f = &u->functions[n];

	if (!f->there)
		return;
	f->there = false;
	/* The function may still have the other descriptors of the bell: closing ours would not remove it. */
	epoll_ctl(u->epoll_fd, EPOLL_CTL_DEL, f->rings.bell_fd, NULL);
	ring_pair_close(&f->rings);
	for (unsigned i = 0; i < u->n_active; i++)
		if (u->active[i] == n)
			u->active[i] = u->active[--u->n_active];
}

static void function_broken(struct uplink *u, unsigned n)
{
	u->stats.functions_broken++;
	uplink_function_drop(u, n);
}

/* ---- from the port to functions ------------------------------------------------------------------------------ */

static void give(struct uplink *u, unsigned n, const struct nic_rx_frame *frame)
{
	struct uplink_function *f = &u->functions[n];
	int rc;

	if (!f->there) /* the daemon disconnects what functions have left */
		f = &u->functions[n = 0];
	if (!f->there) {
		u->stats.rx_nobody++;
		return;
	}
	rc = ring_pair_send(&f->rings, frame->data, frame->len);
	f->given |= rc == 1;
	u->stats.rx_packets += rc == 1;
	u->stats.rx_full += rc == 0;
	if (rc < 0)
		function_broken(u, n);
}

static void wake_given(struct uplink *u)
{
	for (unsigned i = 0; i < u->n_active; i++) {
		struct uplink_function *f = &u->functions[u->active[i]];

		if (!f->given)
			continue;
		f->given = false;
		u->stats.bells += ring_pair_wake(&f->rings);
	}
}

static unsigned from_port(struct uplink *u, uint64_t now_ns)
{
	struct nic_rx_frame frames[PMD_RX_BURST];
	unsigned got = u->port->ops->rx_burst(u->port, frames, PMD_RX_BURST, now_ns);

	for (unsigned i = 0; i < got; i++) {
		unsigned n = frames[i].len <= RING_PACKET_MAX
				     ? uplink_steer(&u->steering, frames[i].data, frames[i].len)
				     : STEER_NOT_ROCE;

		if (n == STEER_NOT_ROCE)
			u->stats.rx_not_roce++;
		else
			give(u, n, &frames[i]);
	}
	if (got > 0)
		wake_given(u);
	return u->port->looked_at;
}

/* ---- from functions to the port ------------------------------------------------------------------------------ */

/** Copy the function's next packets into mbufs. @param heads receives the ring's head before each of them. @return how
 *  many; -EPROTO. */
static int collect(struct uplink *u, struct ring_consumer *in, struct nic_tx_frame *frames, uint64_t *heads)
{
	const uint8_t *packet;
	uint32_t kind;
	unsigned n = 0;
	int len = 0;

	for (unsigned looked_at = 0; n < FUNCTION_BURST && looked_at < 2 * FUNCTION_BURST; looked_at++) {
		heads[n] = in->head;
		len = ring_peek(in, &packet, &kind);
		if (len <= 0)
			break;
		if (len > NIC_FRAME_MAX) { /* rings take a little more than a buffer */
			ring_pop(in, (uint32_t)len);
			u->stats.tx_refused++;
			continue;
		}
		if (!pmd_pool_take(u->pool, &frames[n], 1))
			break;
		memcpy(frames[n].data, packet, (size_t)len);
		frames[n].len = (uint32_t)len;
		ring_pop(in, (uint32_t)len);
		if (uplink_may_send(frames[n].data, (uint32_t)len, &u->gid, &frames[n].dgid)) {
			n++;
			continue;
		}
		u->stats.tx_refused++;
		pmd_pool_give(u->pool, frames[n].cookie);
	}
	heads[n] = in->head;
	return n > 0 ? (int)n : len < 0 ? len : 0; /* nonsense after packets is found again in the next round */
}

/** Drop all packets that the ring has now. @return how many. */
static unsigned discard(struct ring_consumer *in)
{
	const uint8_t *packet;
	uint32_t kind;
	unsigned n = 0;
	int len;

	while (n < RING_BYTES / RING_LINE && (len = ring_peek(in, &packet, &kind)) > 0) {
		ring_pop(in, (uint32_t)len);
		n++;
	}
	ring_say_head(in);
	return n;
}

static unsigned from_function(struct uplink *u, unsigned number, uint64_t now_ns)
{
	struct ring_consumer *in = &u->functions[number].rings.in;
	struct nic_tx_frame frames[FUNCTION_BURST];
	uint64_t heads[FUNCTION_BURST + 1];
	unsigned sent = 0;
	int n = collect(u, in, frames, heads);

	if (n > 0 && !u->up) {
		sent = (unsigned)n;
		u->stats.tx_down += sent;
		for (unsigned i = 0; i < sent; i++)
			pmd_pool_give(u->pool, frames[i].cookie);
	} else if (n > 0) {
		sent = u->port->ops->tx_burst(u->port, frames, (unsigned)n, now_ns);
		u->stats.tx_packets += sent;
		for (unsigned i = sent; i < (unsigned)n; i++)
			pmd_pool_give(u->pool, frames[i].cookie);
		in->head = heads[sent]; /* those that the port had no room for stay in the ring */
		u->full |= sent == 0;
		/* Else those that wait would keep the switch awake, and be sent long after their senders gave up. */
		if (sent == 0 && now_ns - u->flowed_ns > STUCK_NS)
			u->stats.tx_errors += discard(in);
	}
	ring_say_head(in);
	if (n < 0)
		function_broken(u, number);
	return sent;
}

void uplink_function_flush(struct uplink *u, unsigned n, uint64_t now_ns)
{
	struct uplink_function *f = &u->functions[n];

	/* What it left fits into the ring; a process that goes on sending does not hold up the others. */
	for (uint64_t end = f->rings.in.head + RING_BYTES; f->there && f->rings.in.head < end;)
		if (from_function(u, n, now_ns) == 0)
			break;
	if (f->there)
		u->stats.tx_errors += discard(&f->rings.in);
}

unsigned uplink_step(struct uplink *u, uint64_t now_ns, uint64_t *deadline_ns)
{
	unsigned moved = u->stopped ? 0 : from_port(u, now_ns), active = u->n_active, sent = 0;

	u->full = false;
	for (unsigned i = 0; i < active && u->n_active > 0; i++)
		sent += from_function(u, u->active[(u->turn + i) % u->n_active], now_ns);
	if (sent > 0 || !u->full)
		u->flowed_ns = now_ns;
	u->turn++;
	*deadline_ns = u->stopped ? UINT64_MAX : u->port->ops->timeout(u->port, now_ns);
	return moved + sent;
}
