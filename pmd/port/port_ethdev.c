/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port_ethdev.c - a port on any DPDK ethdev, given as virtual device arguments: net_af_packet0,iface=veth0,
 * net_pcap0,iface=veth0 or any other linked PMD. One queue each way.
 *
 * Adds the Ethernet header to the NIC's IP packets and resolves neighbours (neigh.c), since the kernel's IP stack is
 * not involved. Received IP packets go up whole, so that the ICRC is checked exactly. Packets to our own address never
 * leave the port. Each flow has its own UDP source port, which also tells peers on kernel sockets not to send us
 * segmented datagrams (port_udp_rx.c).
 *
 * The address should not be configured on a kernel interface of the same link: the kernel would answer ARP as well
 * (with the same MAC, so this is harmless) and answer each packet with ICMP port unreachable (which RoCE ignores).
 *
 * The port sleeps on net_af_packet's socket (packet_socket.c). Other PMDs are polled at intervals.
 *
 * Owns: the ethdev, its receive pool, the neighbour table, mbufs in flight.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "eal.h"
#include "key.h"
#include "neigh.h"
#include "packet_socket.h"
#include "port.h"

#define ETHDEV_DESCRIPTORS  512
#define ETHDEV_RX_POOL	    511 /* a burst, and what the last one gave out: PMDs copy from their own rings */
#define ETHDEV_RX_BURST	    32
#define ETHDEV_LOCAL	    256 /* packets to our own address that wait for rx_burst */
#define ETHDEV_PSN_WINDOW   256 /* less than any ring on the path holds */
#define ETHDEV_ACK_DELAY_NS 10000
#define ETHDEV_BACKLOG_NS   20000 /* pause before a full device is tried again */
#define ETHDEV_RX_ROOM	    4608  /* longest frame: NIC_FRAME_MAX, Ethernet, and the PMD's own header */

/* net_af_packet's default frame size of 2048 bytes is too small for an MTU of 4096. 56 frames fill 63 pages exactly,
 * and the kernel rounds a block up to 2^n pages. The ring must hold what arrives while another thread has our CPU for
 * one scheduler slice (3 ms): 1024 frames are too few, and UC has no window to limit that; 4096 frames exceed any
 * cache. */
#define AF_PACKET_RING	 ",framesz=4608,blocksz=258048,framecnt=2072"
#define AF_PACKET_HEADER 80 /* per frame in the ring: the kernel's and Ethernet's */

struct port_ethdev {
	struct pmd_port port;
	struct nic_gid gid, gateway;
	bool v4, has_gateway;
	uint8_t prefix_len;
	uint8_t mac[6];
	uint16_t id; /* ethdev port number */
	char name[64];
	struct rte_mempool *rx_pool, *tx_pool;
	struct rte_mbuf *held[PMD_RX_BURST]; /* handed out by the last rx_burst */
	unsigned held_n;
	struct rte_mbuf *backlog[PMD_TX_BURST]; /* packets the device had no room for */
	unsigned backlog_n;
	struct rte_mbuf *local[ETHDEV_LOCAL]; /* ring of packets to our own address */
	unsigned local_head, local_tail;
	struct neigh neigh;
};

/* ---- transmit ----------------------------------------------------------------------------------------------- */

/** Transmit with cancellation disabled: PMDs call cancellation points, and the engine is locked. */
static unsigned ethdev_tx(struct port_ethdev *p, struct rte_mbuf **pkts, unsigned n)
{
	unsigned sent;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	sent = rte_eth_tx_burst(p->id, 0, pkts, (uint16_t)n);
	pthread_setcancelstate(cancel, NULL);
	return sent;
}

/** Hand packets to the device; those it does not take go to the backlog, or are dropped if that is full. */
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

/** @return whether the backlog is empty. */
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

static void ethdev_header(const struct port_ethdev *p, struct rte_mbuf *m, const uint8_t mac[6])
{
	uint8_t *h = (uint8_t *)rte_pktmbuf_prepend(m, NEIGH_ETHER_LEN);

	memcpy(h, mac, 6);
	memcpy(h + 6, p->mac, 6);
	h[12] = p->v4 ? 0x08 : 0x86;
	h[13] = p->v4 ? 0x00 : 0xdd;
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

static unsigned ethdev_tx_burst(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns)
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

static bool ethdev_resolve(struct pmd_port *port, const struct nic_gid *dgid, uint64_t now_ns)
{
	struct port_ethdev *p = (struct port_ethdev *)port;

	if (dgid->raw[0] == 0xff || (pmd_gid_is_v4(dgid) && (dgid->raw[12] & 0xf0) == 0xe0))
		return false; /* multicast groups are not resolved */
	return memcmp(dgid, &p->gid, sizeof(*dgid)) != 0 && neigh_resolve(&p->neigh, next_hop(p, dgid), now_ns);
}

/* ---- neighbours --------------------------------------------------------------------------------------------- */

static bool ethdev_neigh_transmit(void *ctx, const uint8_t *frame, uint32_t len)
{
	struct port_ethdev *p = ctx;
	struct rte_mbuf *m = rte_pktmbuf_alloc(p->tx_pool);

	if (!m)
		return false; /* retried soon, by us or by the peer */
	memcpy(rte_pktmbuf_append(m, (uint16_t)len), frame, len);
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

static const struct neigh_ops ethdev_neigh_ops = {ethdev_neigh_transmit, ethdev_neigh_release, ethdev_neigh_drop};

static uint64_t ethdev_timeout(struct pmd_port *port, uint64_t now_ns)
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

/** Whether a frame is an IP packet to our address; if so, fills in *out. ARP and ND frames are handled here. */
static bool ethdev_accept(struct port_ethdev *p, struct rte_mbuf *m, uint64_t now_ns, struct nic_rx_frame *out)
{
	const uint8_t *h = rte_pktmbuf_mtod(m, const uint8_t *), *ip = h + NEIGH_ETHER_LEN;
	uint32_t len = m->data_len;

	/* A frame in several mbuf segments is longer than any RoCE frame. */
	if (m->nb_segs != 1 || len < NEIGH_ETHER_LEN + 20 || (!(h[0] & 1) && memcmp(h, p->mac, 6) != 0))
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

/** Receive, with cancellation disabled as in ethdev_tx(). net_af_packet, the one PMD with a wait_fd, only reads its
 *  ring, which is no cancellation point. */
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

static unsigned ethdev_rx_burst(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns)
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
	/* Skip bursts of foreign frames: 0 packets without `more` must mean that nothing is left. */
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

static void ethdev_stats(struct pmd_port *port)
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

/* ---- open and close ----------------------------------------------------------------------------------------- */

static void ethdev_close(struct pmd_port *port)
{
	struct port_ethdev *p = (struct port_ethdev *)port;

	neigh_clear(&p->neigh);
	rte_pktmbuf_free_bulk(p->held, p->held_n);
	rte_pktmbuf_free_bulk(p->backlog, p->backlog_n);
	while (p->local_head != p->local_tail)
		rte_pktmbuf_free(p->local[p->local_head++ % ETHDEV_LOCAL]);
	rte_eth_dev_stop(p->id);
	rte_eth_dev_close(p->id);
	rte_eal_hotplug_remove("vdev", p->name);
	rte_mempool_free(p->rx_pool);
	free(p);
}

/** Close net_af_packet's socket; the child has no mapping of its ring. net_pcap's descriptors belong to libpcap and
 *  stay open until the child ends. */
static void ethdev_abandon(struct pmd_port *port)
{
	if (port->wait_fd >= 0)
		close(port->wait_fd);
}

static const struct pmd_port_ops ethdev_ops = {
	.rx_burst = ethdev_rx_burst,
	.tx_burst = ethdev_tx_burst,
	.resolve = ethdev_resolve,
	.timeout = ethdev_timeout,
	.stats = ethdev_stats,
	.close = ethdev_close,
	.abandon = ethdev_abandon,
};

static bool is_af_packet(const struct pmd_device *device)
{
	return strncmp(device->port, "ethdev:net_af_packet", 20) == 0;
}

/** Refuse an MTU whose full-size packets do not fit: they would be lost silently, one by one. */
static int ethdev_check_mtu(const struct pmd_device *device, enum nic_mtu mtu, char *err, size_t err_len)
{
	uint32_t need = (128u << mtu) + (pmd_gid_is_v4(&device->gid) ? PMD_OVERHEAD_V4 : PMD_OVERHEAD_V6);
	const char *framesz = strstr(device->port, "framesz=");

	if (pmd_key_is_set())
		need += PMD_OVERHEAD_KEY;
	if (device->netdev_mtu != 0 && device->netdev_mtu < need) {
		snprintf(err, err_len,
			 "an IB MTU of %u needs an MTU of %u on %s, which has %u; raise it or lower UROCE_MTU",
			 128u << mtu, need, device->netdev, device->netdev_mtu);
		return -EMSGSIZE;
	}
	if (is_af_packet(device) && framesz &&
	    strtoul(framesz + strlen("framesz="), NULL, 10) < need + AF_PACKET_HEADER) {
		snprintf(err, err_len,
			 "an IB MTU of %u needs a framesz of %u; raise it, leave it out or lower UROCE_MTU",
			 128u << mtu, need + AF_PACKET_HEADER);
		return -EMSGSIZE;
	}
	return 0;
}

/** Make the device known to DPDK. */
static int ethdev_probe(struct port_ethdev *p, const struct pmd_device *device, char *err, size_t err_len)
{
	char args[sizeof(device->port) + sizeof(AF_PACKET_RING)];
	const char *given = device->port + strlen("ethdev:");
	bool probed;
	int rc;

	snprintf(args, sizeof(args), "%s%s", given,
		 is_af_packet(device) && !strstr(given, "framesz=") ? AF_PACKET_RING : "");
	snprintf(p->name, sizeof(p->name), "%.*s", (int)strcspn(given, ","), given);
	pmd_packet_socket_begin();
	rc = rte_dev_probe(args);
	p->port.wait_fd = pmd_packet_socket_end();
	probed = rc == 0;
	if (probed)
		rc = rte_eth_dev_get_port_by_name(p->name, &p->id);
	if (rc != 0 && probed)
		rte_eal_hotplug_remove("vdev", p->name);
	if (rc != 0)
		snprintf(err, err_len,
			 "DPDK cannot open '%s'%s; check the arguments, that the interface exists and is up, and that "
			 "the process has CAP_NET_RAW",
			 args, rc == -EEXIST ? ": another device uses this name" : "");
	return rc < 0 ? rc : rc > 0 ? -EIO : 0;
}

static int ethdev_start(struct port_ethdev *p, const char *netdev, char *err, size_t err_len)
{
	struct rte_eth_conf conf = {0};
	uint16_t rxd = ETHDEV_DESCRIPTORS, txd = ETHDEV_DESCRIPTORS;
	struct rte_ether_addr mac;
	char pool[48];
	int rc;

	snprintf(pool, sizeof(pool), "uroce_rx_%u", p->id);
	p->rx_pool = rte_pktmbuf_pool_create(pool, ETHDEV_RX_POOL, 0, 0, RTE_PKTMBUF_HEADROOM + ETHDEV_RX_ROOM, 0);
	if (!p->rx_pool) {
		snprintf(err, err_len,
			 "DPDK's heap of " PMD_HEAP_MIB
			 " MiB has no room for the receive buffers of %s; close some device",
			 p->name);
		return -ENOMEM;
	}
	rc = rte_eth_dev_configure(p->id, 1, 1, &conf);
	if (rc == 0)
		rc = rte_eth_dev_adjust_nb_rx_tx_desc(p->id, &rxd, &txd);
	if (rc == 0)
		rc = rte_eth_rx_queue_setup(p->id, 0, rxd, SOCKET_ID_ANY, NULL, p->rx_pool);
	if (rc == 0)
		rc = rte_eth_tx_queue_setup(p->id, 0, txd, SOCKET_ID_ANY, NULL);
	if (rc == 0)
		rc = rte_eth_dev_start(p->id);
	if (rc == 0)
		rc = rte_eth_macaddr_get(p->id, &mac);
	if (rc != 0) {
		snprintf(err, err_len, "DPDK device %s does not start: %s", p->name, strerror(-rc));
		rte_mempool_free(p->rx_pool);
		return rc;
	}
	memcpy(p->mac, mac.addr_bytes, 6);
	/* Neighbour solicitations arrive at multicast groups. Devices that do not filter multicast (-ENOTSUP) are fine.
	 * A membership on the socket ends with it, while net_af_packet's allmulticast would stay on the interface when
	 * the process dies. Promiscuous mode is not needed. */
	if (!p->v4 && !(p->port.wait_fd >= 0 && pmd_packet_socket_allmulti(p->port.wait_fd, netdev)))
		rc = rte_eth_allmulticast_enable(p->id);
	if (rc != 0 && rc != -ENOTSUP) {
		snprintf(err, err_len, "DPDK device %s does not take multicast frames, which IPv6 needs: %s", p->name,
			 strerror(-rc));
		rte_eth_dev_stop(p->id);
		rte_mempool_free(p->rx_pool);
		return rc;
	}
	return 0;
}

int pmd_port_ethdev_open(const struct pmd_device *device, enum nic_mtu mtu, struct rte_mempool *pool,
			 struct pmd_port **out, char *err, size_t err_len)
{
	static const struct nic_gid none;
	struct port_ethdev *p;
	int rc = ethdev_check_mtu(device, mtu, err, err_len);

	if (rc != 0)
		return rc;
	p = calloc(1, sizeof(*p));
	if (!p) {
		snprintf(err, err_len, "out of memory");
		return -ENOMEM;
	}
	p->port.ops = &ethdev_ops;
	p->gid = device->gid;
	p->gateway = device->gateway;
	p->has_gateway = memcmp(&p->gateway, &none, sizeof(none)) != 0;
	p->prefix_len = device->prefix_len;
	p->v4 = pmd_gid_is_v4(&p->gid);
	p->tx_pool = pool;
	rc = ethdev_probe(p, device, err, err_len);
	if (rc != 0)
		goto no_device;
	rc = ethdev_start(p, device->netdev, err, err_len);
	if (rc != 0)
		goto no_start;
	neigh_init(&p->neigh, &p->gid, p->mac, &ethdev_neigh_ops, p);
	p->port.psn_window = ETHDEV_PSN_WINDOW;
	p->port.ack_delay_ns = ETHDEV_ACK_DELAY_NS;
	*out = &p->port;
	return 0;

no_start:
	rte_eth_dev_close(p->id);
	rte_eal_hotplug_remove("vdev", p->name);
no_device:
	free(p);
	return rc;
}
