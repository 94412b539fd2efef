/* SPDX-License-Identifier: BSD-3-Clause */
/* port_ethdev_open.c - opens and closes an ethdev port: checks the MTU, makes the device known to DPDK, starts it. Owns
 * the port's receive pool. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_dev.h>
#include <rte_ethdev.h>
#include <rte_mbuf.h>

#include "eal.h"
#include "packet_socket.h"
#include "port_ethdev.h"

#define ETHDEV_DESCRIPTORS  512
/* Receive buffers. A PMD that copies packets out of a ring of its own needs enough for two bursts; any other fills its
 * ring with them, and keeps some for what it sends (net_af_xdp). */
#define ETHDEV_RX_POOL	    511
#define ETHDEV_RX_POOL_RING 8191
#define ETHDEV_PSN_WINDOW   256 /* packets in flight per QP: fewer than any ring on the path can hold */
#define ETHDEV_ACK_DELAY_NS 10000
#define ETHDEV_RX_ROOM	    4608 /* longest frame: NIC_FRAME_MAX, the Ethernet header, and the PMD's own header */
#define ETHDEV_RX_ROOM_MIN  2048 /* what drivers expect */
#define ETHDEV_XDP_OBJECT   4096 /* see ethdev_pool_xdp() */
#define ETHDEV_LINK_HEADER  64	 /* Ethernet header, VLAN tags and a driver's own header */

/* net_af_packet's default frame size of 2048 bytes is too small for an MTU of 4096. The ring must have room for the
 * packets that arrive while another thread has our CPU for one scheduler slice (3 ms). 1024 frames are too few,
 * especially for UC, which has no window that limits the packets in flight. 4096 frames (19 MB) exceed most caches. */
#define AF_PACKET_FRAME	 4608
#define AF_PACKET_FRAMES 2072

/** Make DPDK forget the device, which is closed: another process may want it. */
static void ethdev_remove(const struct port_ethdev *p)
{
	rte_eal_hotplug_remove(p->name[0] >= '0' && p->name[0] <= '9' ? "pci" : "vdev", p->name);
}

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
	ethdev_remove(p);
	rte_mempool_free(p->rx_pool);
	free(p);
}

/** Close net_af_packet's socket; the child has not inherited the mapping of the socket's ring. The descriptors of
 *  net_pcap belong to libpcap, and stay open until the child ends. */
static void ethdev_abandon(struct pmd_port *port)
{
	if (port->wait_fd >= 0)
		close(port->wait_fd);
}

static const struct pmd_port_ops ethdev_ops = {
	.rx_burst = pmd_ethdev_rx_burst,
	.tx_burst = pmd_ethdev_tx_burst,
	.resolve = pmd_ethdev_resolve,
	.timeout = pmd_ethdev_timeout,
	.stats = pmd_ethdev_stats,
	.close = ethdev_close,
	.abandon = ethdev_abandon,
};

static bool is_af_packet(const struct pmd_device *device)
{
	return strncmp(device->port, "ethdev:net_af_packet", 20) == 0;
}

/** Refuse an MTU whose full-size packets do not fit into the interface's MTU or into the ring's frames: such packets
 *  would be lost without an error. */
static int ethdev_check_mtu(const struct pmd_device *device, enum nic_mtu mtu, char *err, size_t err_len)
{
	uint32_t need = pmd_device_mtu_need(device, mtu);
	uint32_t frame = pmd_packet_socket_framesz(device->port);
	int rc = pmd_device_mtu_fits(device, mtu, err, err_len);

	if (rc != 0)
		return rc;
	if (is_af_packet(device) && frame != 0 && frame < need) {
		snprintf(err, err_len,
			 "an IB MTU of %u needs a framesz of %u; raise it, leave it out or lower UROCE_MTU",
			 128u << mtu, need + PMD_PACKET_SOCKET_HEADER);
		return -EMSGSIZE;
	}
	return 0;
}

void pmd_ethdev_ring(size_t page, char *out, size_t len)
{
	/* Whole frames fill 9 pages of any size. For 63 of the small ones the kernel allocates 64 (a power of two). */
	size_t block = (page > 4096 ? 9 : 63) * page, each = block / AF_PACKET_FRAME;

	snprintf(out, len, ",framesz=%d,blocksz=%zu,framecnt=%zu", AF_PACKET_FRAME, block,
		 (AF_PACKET_FRAMES + each - 1) / each * each);
}

/** Make the device known to DPDK, from its virtual device arguments. */
static int ethdev_probe(struct port_ethdev *p, const struct pmd_device *device, char *err, size_t err_len)
{
	char ring[ETHDEV_RING_TEXT] = "", args[sizeof(device->port) + sizeof(ring)];
	const char *given = device->port + strlen("ethdev:");
	bool probed;
	int rc;

	if (is_af_packet(device) && !strstr(given, "framesz="))
		pmd_ethdev_ring((size_t)sysconf(_SC_PAGESIZE), ring, sizeof(ring));
	snprintf(args, sizeof(args), "%s%s", given, ring);
	snprintf(p->name, sizeof(p->name), "%.*s", (int)strcspn(given, ","), given);
	pmd_packet_socket_begin();
	rc = rte_dev_probe(args);
	p->port.wait_fd = pmd_packet_socket_end();
	probed = rc == 0;
	if (probed)
		rc = rte_eth_dev_get_port_by_name(p->name, &p->id);
	if (rc != 0 && probed)
		ethdev_remove(p);
	if (rc != 0)
		snprintf(err, err_len,
			 "DPDK cannot open '%s'%s; check the arguments, that the interface exists and is up, and that "
			 "the process has CAP_NET_RAW",
			 args, rc == -EEXIST ? ": another device uses this name" : "");
	return rc < 0 ? rc : rc > 0 ? -EIO : 0;
}

/** Whether the driver copies packets out of a ring of its own. */
static bool ethdev_copies(const struct port_ethdev *p)
{
	return strncmp(p->name, "net_af_packet", 13) == 0 || strncmp(p->name, "net_pcap", 8) == 0;
}

/** @return bytes that a receive buffer needs. */
static uint16_t ethdev_rx_room(const struct port_ethdev *p)
{
	uint16_t mtu = 0;

	if (ethdev_copies(p) || rte_eth_dev_get_mtu(p->id, &mtu) != 0 || mtu > ETHDEV_RX_ROOM - ETHDEV_LINK_HEADER)
		return ETHDEV_RX_ROOM;
	return RTE_MAX((uint16_t)(mtu + ETHDEV_LINK_HEADER), (uint16_t)ETHDEV_RX_ROOM_MIN);
}

/** Make receive buffers for net_af_xdp, which tells the kernel that they lie one after the other, without gaps, in one
 *  piece of memory, and takes the first's page for their beginning. DPDK never lets one cross a page, and spreads their
 *  starts over memory channels: only objects of a page's size, unspread, lie as the driver says. Packets in others are
 *  lost without an error. */
static struct rte_mempool *ethdev_pool_xdp(const char *name)
{
	const unsigned elt_size = ETHDEV_XDP_OBJECT -
				  rte_mempool_calc_obj_size(RTE_CACHE_LINE_SIZE, RTE_MEMPOOL_F_NO_SPREAD, NULL) +
				  RTE_CACHE_LINE_SIZE;
	struct rte_pktmbuf_pool_private room = {.mbuf_data_room_size = (uint16_t)(elt_size - sizeof(struct rte_mbuf))};
	struct rte_mempool *pool = rte_mempool_create_empty(name, ETHDEV_RX_POOL_RING, elt_size, 0, sizeof(room),
							    SOCKET_ID_ANY, RTE_MEMPOOL_F_NO_SPREAD);

	if (!pool)
		return NULL;
	rte_pktmbuf_pool_init(pool, &room);
	if (rte_mempool_populate_default(pool) < 0 || pool->nb_mem_chunks != 1) {
		rte_mempool_free(pool);
		return NULL;
	}
	rte_mempool_obj_iter(pool, rte_pktmbuf_init, NULL);
	return pool;
}

static struct rte_mempool *ethdev_pool(const struct port_ethdev *p)
{
	char name[48];

	snprintf(name, sizeof(name), "uroce_rx_%u", p->id);
	if (strncmp(p->name, "net_af_xdp", 10) == 0)
		return ethdev_pool_xdp(name);
	return rte_pktmbuf_pool_create(name, ethdev_copies(p) ? ETHDEV_RX_POOL : ETHDEV_RX_POOL_RING, 0, 0,
				       RTE_PKTMBUF_HEADROOM + ethdev_rx_room(p), 0);
}

static int ethdev_start(struct port_ethdev *p, const char *netdev, char *err, size_t err_len)
{
	struct rte_eth_conf conf = {0};
	uint16_t rxd = ETHDEV_DESCRIPTORS, txd = ETHDEV_DESCRIPTORS;
	struct rte_ether_addr mac;
	int rc;

	p->rx_pool = ethdev_pool(p);
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
	/* Receive all multicast frames, because neighbour solicitations are sent to multicast groups. Request this
	 * through the socket if possible: the request ends when the socket is closed, while net_af_packet's
	 * allmulticast mode would stay on the interface if the process is killed. Devices that do not filter multicast
	 * (-ENOTSUP) are fine. Promiscuous mode is not needed. */
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

int pmd_port_ethdev_open(const struct pmd_device *device, enum nic_mtu mtu, struct pmd_pool *pool,
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
	p->vlan = device->vlan;
	p->v4 = pmd_gid_is_v4(&p->gid);
	p->tx_pool = (struct rte_mempool *)pool;
	rc = ethdev_probe(p, device, err, err_len);
	if (rc != 0)
		goto no_device;
	rc = ethdev_start(p, device->netdev, err, err_len);
	if (rc != 0)
		goto no_start;
	neigh_init(&p->neigh, &p->gid, p->mac, &pmd_ethdev_neigh_ops, p);
	p->port.psn_window = ETHDEV_PSN_WINDOW;
	p->port.ack_delay_ns = ETHDEV_ACK_DELAY_NS;
	*out = &p->port;
	return 0;

no_start:
	rte_eth_dev_close(p->id);
	ethdev_remove(p);
no_device:
	free(p);
	return rc;
}
