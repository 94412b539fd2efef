/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * port_udp.c - a port on a kernel UDP socket bound to port 4791 of one local address. No privilege, no set-up.
 *
 * Opening, closing and the socket's options; port_udp_rx.c receives, port_udp_tx.c sends.
 *
 * Owns: the socket, its receive buffer, a table of peers of our own kind.
 */
#include <errno.h>
#include <linux/sock_diag.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "devices.h"
#include "eal.h"
#include "port_udp.h"

#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define UDP_RCVBUF	 (128 << 20) /* UC and UD know no window; a receiver may be off the CPU for long */
#define UDP_SNDBUF	 (4 << 20)
#define UDP_INFLIGHT_MAX (1 << 20) /* bytes a QP; more brings no bandwidth on a socket */
#define UDP_ACK_DELAY_NS 20000

socklen_t udp_address(const struct port_udp *u, const struct nic_gid *gid, struct sockaddr_in6 *out)
{
	memset(out, 0, sizeof(*out));
	if (u->v4) {
		struct sockaddr_in *in = (struct sockaddr_in *)(void *)out;

		in->sin_family = AF_INET;
		in->sin_port = htons(NIC_UDP_PORT);
		memcpy(&in->sin_addr, gid->raw + 12, 4);
		return sizeof(*in);
	}
	out->sin6_family = AF_INET6;
	out->sin6_port = htons(NIC_UDP_PORT);
	memcpy(&out->sin6_addr, gid->raw, 16);
	if (gid->raw[0] == 0xfe && (gid->raw[1] & 0xc0) == 0x80)
		out->sin6_scope_id = u->scope;
	return sizeof(*out);
}

static void udp_close(struct pmd_port *port)
{
	struct port_udp *u = (struct port_udp *)port;

	close(port->wait_fd);
	free(u->rx_buf);
	free(u);
}

static void udp_abandon(struct pmd_port *port)
{
	close(port->wait_fd);
}

static void udp_stats(struct pmd_port *port)
{
	uint32_t info[SK_MEMINFO_VARS] = {0};
	socklen_t len = sizeof(info);

	if (getsockopt(port->wait_fd, SOL_SOCKET, SO_MEMINFO, info, &len) == 0)
		port->stats.rx_no_room = info[SK_MEMINFO_DROPS];
}

static const struct pmd_port_ops udp_ops = {
	.rx_burst = udp_rx_burst,
	.rx_valid = udp_rx_valid,
	.tx_burst = udp_tx_burst,
	.tx_copies = true,
	.stats = udp_stats,
	.close = udp_close,
	.abandon = udp_abandon,
};

static int udp_bind(struct port_udp *u, char *err, size_t err_len)
{
	struct sockaddr_in6 self;
	socklen_t len = udp_address(u, &u->gid, &self);
	char addr[64];
	int rc;

	pmd_gid_str(&u->gid, addr, sizeof(addr));
	if (bind(u->port.wait_fd, (struct sockaddr *)&self, len) == 0)
		return 0;
	rc = -errno;
	if (rc == -EADDRINUSE)
		snprintf(err, err_len,
			 "UDP port %u of %s is in use by another process; give each process its own address with "
			 "UROCE_DEVICES, for example UROCE_DEVICES=127.0.0.2",
			 NIC_UDP_PORT, addr);
	else if (rc == -EADDRNOTAVAIL)
		snprintf(err, err_len,
			 "%s is not an address of this host; correct UROCE_DEVICES or configure the address", addr);
	else
		snprintf(err, err_len, "cannot bind to UDP port %u of %s: %s", NIC_UDP_PORT, addr, strerror(-rc));
	return rc;
}

static void udp_options(struct port_udp *u)
{
	int fd = u->port.wait_fd, on = 1, off = 0, discover = IP_PMTUDISC_DO, size;
	int level = u->v4 ? IPPROTO_IP : IPPROTO_IPV6;
	socklen_t len = sizeof(size);

	setsockopt(fd, level, u->v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &discover, sizeof(discover));
	setsockopt(fd, level, u->v4 ? IP_RECVTOS : IPV6_RECVTCLASS, &on, sizeof(on));
	setsockopt(fd, level, u->v4 ? IP_RECVTTL : IPV6_RECVHOPLIMIT, &on, sizeof(on));
	/* RoCEv2 has the ICRC: over IPv6 others send no UDP checksum, which a socket would drop. */
	if (!u->v4)
		setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, &on, sizeof(on));
	/* Only GSO where GRO is there as well: a kernel that has one has both. */
	u->gso = setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on)) == 0 &&
		 setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &off, sizeof(off)) == 0;
	size = UDP_RCVBUF;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	size = UDP_SNDBUF;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	u->tclass = 0;
	u->hop_limit = 0; /* unknown: set with the first packet */
	/* What is under way to a receiver must fit its buffer, which is taken to be like ours: the kernel drops silently
	 * what does not, and go-back-N then sends it all again. The kernel counts its own overhead; several QPs share
	 * the buffer, and narrow their windows when they lose. */
	if (getsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, &len) != 0)
		size = 212992;
	u->port.max_inflight = (uint32_t)size / 4 < UDP_INFLIGHT_MAX ? (uint32_t)size / 4 : UDP_INFLIGHT_MAX;
}

int pmd_port_udp_open(const struct pmd_device *device, enum nic_mtu mtu, struct rte_mempool *pool,
		      struct pmd_port **out, char *err, size_t err_len)
{
	struct port_udp *u = calloc(1, sizeof(*u));
	int rc = -ENOMEM;

	(void)pool;
	if (!u || !(u->rx_buf = aligned_alloc(64, UDP_RX_BYTES)))
		goto no_memory;
	u->port.ops = &udp_ops;
	u->gid = device->gid;
	u->v4 = pmd_gid_is_v4(&device->gid);
	u->scope = device->netdev[0] ? if_nametoindex(device->netdev) : 0;
	u->port.wait_fd = pmd_fd_high(socket(u->v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
	if (u->port.wait_fd < 0) {
		rc = -errno;
		snprintf(err, err_len, "no UDP socket: %s", strerror(errno));
		goto no_socket;
	}
	udp_options(u);
	rc = udp_bind(u, err, err_len);
	if (rc != 0)
		goto no_bind;
	u->split.frame.flags = NIC_RX_UDP_PAYLOAD | (u->v4 ? NIC_RX_IP_ID_UNKNOWN : 0);
	u->split.frame.dgid = u->gid;
	u->port.udp_sport = NIC_UDP_PORT;
	u->port.ack_delay_ns = UDP_ACK_DELAY_NS;
	*out = &u->port;
	return 0;

no_bind:
	close(u->port.wait_fd);
no_socket:
	free(u->rx_buf);
	free(u);
	return rc;
no_memory:
	free(u);
	snprintf(err, err_len, "out of memory");
	return -ENOMEM;
}
