/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port_uplink.c - a function's port on an uplink: the rings to the switch in the device's daemon, which owns the DPDK
 * port, its address and its neighbours (pmd/uplink).
 *
 * The switch gives us IP packets for our function, whole, so that the NIC can check the ICRC over all headers; it
 * checks and routes those that we send. If the daemon ends, its switch ends: packets are dropped and counted until the
 * next daemon has taken the port over and hands us new rings. A peer repeats what it missed.
 *
 * Owns: the pair of rings; the bell of the pair before.
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "port.h"
#include "ring_pair.h"

#define UPLINK_PSN_WINDOW   256 /* packets in flight per QP: fewer than any ring on the path can hold */
#define UPLINK_ACK_DELAY_NS 10000
#define UPLINK_INFLIGHT	    (RING_BYTES / 2) /* bytes in flight per QP: peers of our kind have rings like ours */

struct port_uplink {
	struct pmd_port port;
	struct ring_pair rings;
	bool there;	/* we have rings */
	int retired_fd; /* the bell before: a thread may be about to wait on it, and must not find it closed */
};

static void rings_drop(struct port_uplink *p)
{
	if (!p->there)
		return;
	p->there = false;
	if (p->retired_fd >= 0)
		close(p->retired_fd);
	p->retired_fd = p->rings.bell_fd;
	p->rings.bell_fd = -1;
	ring_pair_close(&p->rings);
	__atomic_store_n(&p->port.wait_fd, -1, __ATOMIC_RELAXED);
	p->port.wait_changes++;
}

/** The switch has written nonsense. */
static void rings_broken(struct port_uplink *p)
{
	p->port.stats.uplink_broken++;
	rings_drop(p);
}

static unsigned uplink_rx_burst(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns)
{
	struct port_uplink *p = (struct port_uplink *)port;
	const uint8_t *packet;
	uint32_t kind;
	unsigned got = 0;
	int len = 0;

	port->more = false;
	port->looked_at = 0;
	if (!p->there)
		return 0;
	ring_say_head(&p->rings.in); /* releases what the last burst returned */
	while (got < n && (len = ring_peek(&p->rings.in, &packet, &kind)) > 0) {
		frames[got++] = (struct nic_rx_frame){.data = packet, .len = (uint32_t)len};
		ring_pop(&p->rings.in, (uint32_t)len);
	}
	if (len < 0 && got == 0)
		rings_broken(p); /* otherwise after the packets before it, which are in use until the next burst */
	port->looked_at = got;
	port->stats.rx_packets += got;
	return got;
}

static unsigned uplink_tx_burst(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns)
{
	struct port_uplink *p = (struct port_uplink *)port;
	unsigned sent = 0;
	int rc = 1;

	while (p->there && sent < n && (rc = ring_pair_send(&p->rings, frames[sent].data, frames[sent].len)) == 1)
		sent++;
	port->stats.tx_packets += sent;
	if (rc < 0)
		rings_broken(p);
	if (!p->there) {
		port->stats.uplink_gone += n - sent;
		return n;
	}
	port->stats.tx_busy += sent < n;
	if (sent > 0)
		ring_pair_wake(&p->rings);
	return sent;
}

static bool uplink_sleep(struct pmd_port *port)
{
	struct port_uplink *p = (struct port_uplink *)port;

	return !p->there || ring_pair_sleep(&p->rings);
}

/** If the switch is gone, the bell stays readable: only without rings can we sleep. */
static void uplink_awake(struct pmd_port *port)
{
	struct port_uplink *p = (struct port_uplink *)port;

	if (!p->there || !p->rings.asleep)
		return;
	ring_pair_awake(&p->rings);
	if (!ring_pair_drain(&p->rings))
		rings_drop(p);
}

static void uplink_close(struct pmd_port *port)
{
	struct port_uplink *p = (struct port_uplink *)port;

	rings_drop(p);
	if (p->retired_fd >= 0)
		close(p->retired_fd);
	free(p);
}

static void uplink_abandon(struct pmd_port *port)
{
	struct port_uplink *p = (struct port_uplink *)port;

	if (p->there)
		ring_pair_abandon(&p->rings);
	if (p->retired_fd >= 0)
		close(p->retired_fd);
	p->retired_fd = -1;
}

static const struct pmd_port_ops uplink_ops = {
	.rx_burst = uplink_rx_burst,
	.tx_burst = uplink_tx_burst,
	.tx_copies = true,
	.sleep = uplink_sleep,
	.awake = uplink_awake,
	.close = uplink_close,
	.abandon = uplink_abandon,
};

int pmd_port_uplink_create(struct pmd_port **out, char *err, size_t err_len)
{
	struct port_uplink *p = calloc(1, sizeof(*p));

	if (!p) {
		snprintf(err, err_len, "out of memory");
		return -ENOMEM;
	}
	p->port.ops = &uplink_ops;
	p->port.wait_fd = p->retired_fd = -1;
	p->port.psn_window = UPLINK_PSN_WINDOW;
	p->port.max_inflight = UPLINK_INFLIGHT;
	p->port.ack_delay_ns = UPLINK_ACK_DELAY_NS;
	*out = &p->port;
	return 0;
}

int pmd_port_uplink_rings(struct pmd_port *port, const int fds[RING_PAIR_FDS])
{
	struct port_uplink *p = (struct port_uplink *)port;
	struct ring_pair fresh;
	int rc = ring_pair_map(&fresh, fds);

	if (rc != 0)
		return rc;
	rings_drop(p);
	p->rings = fresh;
	p->there = true;
	__atomic_store_n(&p->port.wait_fd, fresh.bell_fd, __ATOMIC_RELAXED);
	p->port.wait_changes++;
	return 0;
}

void pmd_port_uplink_gone(struct pmd_port *port)
{
	rings_drop((struct port_uplink *)port);
}
