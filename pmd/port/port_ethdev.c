/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port_ethdev.c - a port on any DPDK ethdev that is given as virtual device arguments: net_af_packet0,iface=veth0,
 * net_pcap0,iface=veth0 or any other PMD that is linked in. Uses one queue in each direction.
 *
 * Adds the Ethernet header to the NIC's IP packets and resolves neighbours (neigh.c), since the kernel's IP stack is
 * not involved. Received IP packets are passed on complete, so that the NIC can check the ICRC over all headers.
 * Packets to our own address never leave the port. The UDP source port depends on the flow, and is never 4791: so
 * peers on kernel sockets know that they must not send us segmented datagrams (port_udp_rx.c).
 *
 * The address should not be configured on a kernel interface of the same link, or the kernel would answer ARP requests
 * as well (with the same MAC, so this is harmless) and answer each packet with ICMP port unreachable (which RoCE
 * ignores).
 *
 * The port sleeps on net_af_packet's socket (packet_socket.c). Other PMDs are polled at intervals.
 *
 * Owns: the neighbour table, and mbufs in flight. port_ethdev_open.c opens and closes the device.
 */
#include <pthread.h>
#include <string.h>

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "packet_socket.h"
#include "port_ethdev.h"

#define ETHDEV_RX_BURST	  32
#define ETHDEV_BACKLOG_NS 20000 /* pause before packets are offered to a full device again */

/* ---- transmit ----------------------------------------------------------------------------------------------- */

/** Transmit, with cancellation disabled: PMDs call cancellation points, and the engine is locked. */
static unsigned ethdev_tx(struct port_ethdev *p, struct rte_mbuf **pkts, unsigned n)
{
	unsigned sent;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	sent = rte_eth_tx_burst(p->id, 0, pkts, (uint16_t)n);
	pthread_setcancelstate(cancel, NULL);
	p->refused += n - sent;
	return sent;
}

/** Hand packets to the device. Packets that the device does not take go to the backlog, or are dropped if the backlog
 *  is full. */
static void ethdev_push(struct port_ethdev *p, struct rte_mbuf **pkts, unsigned n)
{
	unsigned sent = p->backlog_n ? 0 : ethdev_tx(p, pkts, n);

	p->port.stats.tx_packets += sent;
	p->port.stats.tx_busy += sent < n;
	for (; sent < n; sent++) {
		if (p->backlog_n < PMD_TX_BURST) {
			p->backlog[p->backlog_n++] = pkts[sent];
		} else {
			p->port.stats.tx_errors++;
			rte_pktmbuf_free(pkts[sent]);
		}
	}
}

/** Offer the backlog to the device. @return whether the backlog is empty now. */
static bool ethdev_drain(struct port_ethdev *p)
{
	unsigned sent;

	if (p->backlog_n == 0)
		return true;
	sent = ethdev_tx(p, p->backlog, p->backlog_n);
	p->port.stats.tx_packets += sent;
	p->backlog_n -= sent;
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): it is an array of pointers */
	memmove(p->backlog, p->backlog + sent, p->backlog_n * sizeof(p->backlog[0]));
	return p->backlog_n == 0;
}

/** Put the tag of the port's VLAN, if it has one, into a frame (IEEE 802.1Q 9.6). */
static void ethdev_tag(const struct port_ethdev *p, struct rte_mbuf *m)
{
	if (p->vlan == 0)
		return;
	m->vlan_tci = p->vlan;
	rte_vlan_insert(&m); /* cannot fail: every packet has headroom, and is ours alone */
}

static void ethdev_header(const struct port_ethdev *p, struct rte_mbuf *m, const uint8_t mac[6])
{
	uint8_t *h = (uint8_t *)rte_pktmbuf_prepend(m, NEIGH_ETHER_LEN);

	memcpy(h, mac, 6);
	memcpy(h + 6, p->mac, 6);
	h[12] = p->v4 ? 0x08 : 0x86;
	h[13] = p->v4 ? 0x00 : 0xdd;
	ethdev_tag(p, m);
}

static const struct nic_gid *next_hop(const struct port_ethdev *p, const struct nic_gid *dgid)
{
	unsigned first = p->v4 ? 12 : 0;

	if (!p->has_gateway || (!p->v4 && dgid->raw[0] == 0xfe && (dgid->raw[1] & 0xc0) == 0x80))
		return dgid; /* routers do not forward link-local addresses */
	for (unsigned bit = 0; bit < p->prefix_len; bit += 8) {
		unsigned left = p->prefix_len - bit;
		uint8_t mask = left >= 8 ? 0xff : (uint8_t)(0xff << (8 - left));

		if ((dgid->raw[first + bit / 8] ^ p->gid.raw[first + bit / 8]) & mask)
			return &p->gateway;
	}
	return dgid;
}

static void ethdev_to_self(struct port_ethdev *p, struct rte_mbuf *m)
{
	if (p->local_tail - p->local_head == ETHDEV_LOCAL) {
		p->port.stats.tx_local_full++;
		rte_pktmbuf_free(m);
		return;
	}
	p->port.stats.tx_local++;
	p->local[p->local_tail++ % ETHDEV_LOCAL] = m;
}

unsigned pmd_ethdev_tx_burst(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns)
{
	struct port_ethdev *p = (struct port_ethdev *)port;
	struct rte_mbuf *ready[PMD_TX_BURST];
	unsigned ready_n = 0;
	uint8_t mac[6];

	if (!ethdev_drain(p))
		return 0;
	for (unsigned i = 0; i < n; i++) {
		struct rte_mbuf *m = frames[i].cookie;

		m->data_len = (uint16_t)frames[i].len;
		m->pkt_len = frames[i].len;
		if (memcmp(&frames[i].dgid, &p->gid, sizeof(p->gid)) == 0) {
			ethdev_to_self(p, m);
			continue;
		}
		switch (neigh_send(&p->neigh, next_hop(p, &frames[i].dgid), m, now_ns, mac)) {
		case NEIGH_READY:
			ethdev_header(p, m, mac);
			ready[ready_n++] = m;
			break;
		case NEIGH_REFUSED:
			rte_pktmbuf_free(m);
			break;
		case NEIGH_QUEUED:
			break;
		}
	}
	if (ready_n > 0)
		ethdev_push(p, ready, ready_n);
	return n;
}

bool pmd_ethdev_resolve(struct pmd_port *port, const struct nic_gid *dgid, uint64_t now_ns)
{
	struct port_ethdev *p = (struct port_ethdev *)port;

	if (dgid->raw[0] == 0xff || (pmd_gid_is_v4(dgid) && (dgid->raw[12] & 0xf0) == 0xe0))
		return false; /* multicast groups are not resolved */
	return memcmp(dgid, &p->gid, sizeof(*dgid)) != 0 && neigh_resolve(&p->neigh, next_hop(p, dgid), now_ns);
}

void pmd_ethdev_announce(struct pmd_port *port)
{
	neigh_announce(&((struct port_ethdev *)port)->neigh);
}

/* ---- neighbours --------------------------------------------------------------------------------------------- */

static bool ethdev_neigh_transmit(void *ctx, const uint8_t *frame, uint32_t len)
{
	struct port_ethdev *p = ctx;
	struct rte_mbuf *m = rte_pktmbuf_alloc(p->tx_pool);

	if (!m)
		return false; /* this ARP or ND frame is lost: we repeat a request, the peer repeats its own */
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
	ethdev_tag(p, m);
	ethdev_push(p, &m, 1);
	return true;
}

static void ethdev_neigh_release(void *ctx, void *packet, const uint8_t mac[6])
{
	struct port_ethdev *p = ctx;
	struct rte_mbuf *m = packet;

	ethdev_header(p, m, mac);
	ethdev_push(p, &m, 1);
}

static void ethdev_neigh_drop(void *ctx, void *packet)
{
	(void)ctx;
	rte_pktmbuf_free(packet);
}

const struct neigh_ops pmd_ethdev_neigh_ops = {ethdev_neigh_transmit, ethdev_neigh_release, ethdev_neigh_drop};

uint64_t pmd_ethdev_timeout(struct pmd_port *port, uint64_t now_ns)
{
	struct port_ethdev *p = (struct port_ethdev *)port;
	uint64_t next;

	ethdev_drain(p);
	next = neigh_timeout(&p->neigh, now_ns);
	if (p->local_head != p->local_tail)
		return now_ns;
	return p->backlog_n && next > now_ns + ETHDEV_BACKLOG_NS ? now_ns + ETHDEV_BACKLOG_NS : next;
}

/* ---- receive ------------------------------------------------------------------------------------------------ */

/** Remove the frame's VLAN tag, if it has one. @return whether the frame is of the port's VLAN or, if the port has
 * none, of none. A tag with VLAN number 0 gives a frame a priority only (IEEE 802.1Q 9.6). */
static bool ethdev_untag(const struct port_ethdev *p, struct rte_mbuf *m)
{
	rte_vlan_strip(m);
	return (m->ol_flags & RTE_MBUF_F_RX_VLAN_STRIPPED ? m->vlan_tci & 0xfff : 0) == p->vlan;
}

/** Whether a frame is an IP packet to our address; if so, *out is filled in. ARP and ND frames are handled here. */
static bool ethdev_accept(struct port_ethdev *p, struct rte_mbuf *m, uint64_t now_ns, struct nic_rx_frame *out)
{
	const uint8_t *h, *ip;
	uint32_t len;

	/* A frame in several mbuf segments is longer than any RoCE frame. */
	if (m->nb_segs != 1 || m->data_len < NEIGH_ETHER_LEN + 20 || !ethdev_untag(p, m))
		goto not_ours;
	h = rte_pktmbuf_mtod(m, const uint8_t *);
	ip = h + NEIGH_ETHER_LEN;
	len = m->data_len;
	if (len < NEIGH_ETHER_LEN + 20 || (!(h[0] & 1) && memcmp(h, p->mac, 6) != 0))
		goto not_ours;
	if (neigh_rx(&p->neigh, h, len, now_ns))
		return false;
	if (p->v4) {
		if (h[12] != 0x08 || h[13] != 0x00 || memcmp(ip + 16, p->gid.raw + 12, 4) != 0)
			goto not_ours;
	} else if (h[12] != 0x86 || h[13] != 0xdd || len < NEIGH_ETHER_LEN + 40 ||
		   memcmp(ip + 24, p->gid.raw, 16) != 0) {
		goto not_ours;
	}
	*out = (struct nic_rx_frame){.data = ip, .len = len - NEIGH_ETHER_LEN};
	return true;

not_ours:
	p->port.stats.rx_not_ours++;
	return false;
}

/** Receive, with cancellation disabled as in ethdev_tx(). net_af_packet, the only PMD with a wait_fd, does not need
 *  this: it only reads its ring, and calls no cancellation point. */
static unsigned ethdev_rx(const struct port_ethdev *p, struct rte_mbuf **pkts, unsigned n)
{
	unsigned got;
	int cancel;

	if (p->port.wait_fd >= 0)
		return rte_eth_rx_burst(p->id, 0, pkts, (uint16_t)n);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	got = rte_eth_rx_burst(p->id, 0, pkts, (uint16_t)n);
	pthread_setcancelstate(cancel, NULL);
	return got;
}

unsigned pmd_ethdev_rx_burst(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns)
{
	struct port_ethdev *p = (struct port_ethdev *)port;
	struct rte_mbuf *burst[ETHDEV_RX_BURST];
	unsigned out = 0, got, k;

	rte_pktmbuf_free_bulk(p->held, p->held_n);
	p->held_n = 0;
	while (p->local_head != p->local_tail && out < n) {
		struct rte_mbuf *m = p->local[p->local_head++ % ETHDEV_LOCAL];

		frames[out++] = (struct nic_rx_frame){.data = rte_pktmbuf_mtod(m, uint8_t *), .len = m->data_len};
		p->held[p->held_n++] = m;
	}
	/* Receive again if a burst had only frames for others: returning 0 packets without setting `more` must mean
	 * that no packet is left. */
	port->more = false;
	port->looked_at = out;
	while (out == 0 && port->looked_at < PMD_RX_VAIN) {
		got = ethdev_rx(p, burst, RTE_MIN(n, (unsigned)ETHDEV_RX_BURST));
		port->stats.rx_datagrams += got;
		port->looked_at += got;
		for (k = 0; k < got; k++) {
			if (ethdev_accept(p, burst[k], now_ns, &frames[out])) {
				p->held[p->held_n++] = burst[k];
				out++;
			} else {
				rte_pktmbuf_free(burst[k]);
			}
		}
		port->more = got > 0 && out == 0;
		if (got == 0)
			break;
	}
	port->stats.rx_packets += out;
	return out;
}

void pmd_ethdev_stats(struct pmd_port *port)
{
	struct port_ethdev *p = (struct port_ethdev *)port;

	port->stats.neigh_requests = p->neigh.requests;
	port->stats.neigh_replies = p->neigh.replies;
	port->stats.neigh_failed = p->neigh.failed;
	port->stats.neigh_queue_full = p->neigh.queue_full;
	port->stats.neigh_malformed = p->neigh.malformed;
	if (port->wait_fd >= 0)
		port->stats.rx_no_room += pmd_packet_socket_drops(port->wait_fd);
}
