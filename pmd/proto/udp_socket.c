/* SPDX-License-Identifier: BSD-3-Clause */
/* udp_socket.c - sockets on the RoCE port of an address. Owns nothing; the caller owns the sockets. */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/udp.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "address.h"
#include "kernel_calls.h"
#include "udp_socket.h"

#ifndef IPV6_MULTICAST_ALL
#define IPV6_MULTICAST_ALL 29
#endif
#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif
#ifndef UDP_NO_CHECK6_RX
#define UDP_NO_CHECK6_RX 102
#endif
#ifndef UDP_SEGMENT
#define UDP_SEGMENT 103
#endif
#ifndef UDP_GRO
#define UDP_GRO 104
#endif

#define UDP_RCVBUF (128 << 20) /* large: UC and UD have no flow control, and receivers can be off the CPU for long */
#define UDP_SNDBUF (4 << 20)

static void socket_options(int fd, bool v4, bool share)
{
	int on = 1, discover = IP_PMTUDISC_DO, size;
	int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;

	if (share)
		setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
	setsockopt(fd, level, v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &discover, sizeof(discover));
	setsockopt(fd, level, v4 ? IP_RECVTOS : IPV6_RECVTCLASS, &on, sizeof(on));
	setsockopt(fd, level, v4 ? IP_RECVTTL : IPV6_RECVHOPLIMIT, &on, sizeof(on));
	/* Other NICs send no UDP checksum over IPv6, since RoCEv2 has the ICRC; by default a socket drops such
	 * packets. */
	if (!v4)
		setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_RX, &on, sizeof(on));
	setsockopt(fd, IPPROTO_UDP, UDP_GRO, &on, sizeof(on));
	size = UDP_RCVBUF;
	if (setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof(size)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &size, sizeof(size));
	size = UDP_SNDBUF;
	if (setsockopt(fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) != 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
}

/** @return `scope` or, if that is 0, the index of the interface that has the IPv6 address `own`; 0: none has it. */
static unsigned interface_of(const struct nic_gid *own, uint32_t scope)
{
	struct ifaddrs *list, *i;
	struct nic_gid gid;
	unsigned index = 0;

	if (scope != 0)
		return scope;
	if (getifaddrs(&list) != 0)
		return 0;
	for (i = list; i && index == 0; i = i->ifa_next)
		if (i->ifa_addr && pmd_gid_from_sockaddr(i->ifa_addr, &gid) && pmd_gid_equal(&gid, own))
			index = if_nametoindex(i->ifa_name);
	freeifaddrs(list);
	return index;
}

static int socket_bind(int fd, const struct nic_gid *gid, uint32_t scope, char *err, size_t err_len)
{
	struct sockaddr_in6 self;
	socklen_t len = pmd_gid_sockaddr(gid, scope, &self);
	char addr[PMD_GID_TEXT], name[IF_NAMESIZE];
	int rc;

	if (bind(fd, (struct sockaddr *)&self, len) == 0)
		return 0;
	rc = -errno;
	/* a link-local address without its interface, or whose interface has gone */
	if (pmd_gid_is_link_local(gid) && (rc == -ENODEV || (rc == -EINVAL && scope == 0)))
		rc = -EADDRNOTAVAIL;
	pmd_gid_str(gid, addr, sizeof(addr));
	if (rc == -EADDRINUSE)
		snprintf(err, err_len,
			 "UDP port %u of %s is in use by a program that is not uroce, or by another user's; end it, or "
			 "use "
			 "another address with UROCE_DEVICES, for example UROCE_DEVICES=127.0.0.2",
			 NIC_UDP_PORT, addr);
	else if (rc == -EADDRNOTAVAIL)
		snprintf(err, err_len, "%s is not an address of %s; correct UROCE_DEVICES or configure the address",
			 addr, pmd_gid_is_link_local(gid) && if_indextoname(scope, name) ? name : "this host");
	else
		snprintf(err, err_len, "cannot bind to UDP port %u of %s: %s", NIC_UDP_PORT, addr, strerror(-rc));
	return rc;
}

int pmd_udp_socket_open(const struct nic_gid *gid, uint32_t scope, bool share, char *err, size_t err_len)
{
	bool v4 = pmd_gid_is_v4(gid);
	int fd = kernel_socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK), rc;

	if (fd < 0) {
		rc = -errno;
		snprintf(err, err_len, "no UDP socket: %s", strerror(errno));
		return rc;
	}
	socket_options(fd, v4, share);
	rc = socket_bind(fd, gid, scope, err, err_len);
	if (rc != 0) {
		close(fd);
		return rc;
	}
	return fd;
}

static int group_bind_v4(int fd, const struct nic_gid *group, const struct nic_gid *own)
{
	struct sockaddr_in6 self;
	struct ip_mreqn join = {0};
	int off = 0;

	memcpy(&join.imr_multiaddr, group->raw + 12, 4);
	memcpy(&join.imr_address, own->raw + 12, 4);
	if (setsockopt(fd, IPPROTO_IP, IP_MULTICAST_ALL, &off, sizeof(off)) != 0 ||
	    bind(fd, (struct sockaddr *)&self, pmd_gid_sockaddr(group, 0, &self)) != 0 ||
	    setsockopt(fd, IPPROTO_IP, IP_ADD_MEMBERSHIP, &join, sizeof(join)) != 0)
		return -errno;
	return 0;
}

/** Bind the socket to the interface and to the group, and join the group. If the socket only joined, it would also get
 *  the group's packets that other interfaces receive. Kernels before 5.7 let only privileged processes bind to an
 *  interface; without the privilege the socket gets those packets, too. */
static int group_bind_v6(int fd, const struct nic_gid *group, unsigned interface)
{
	struct ipv6_mreq join = {.ipv6mr_interface = interface};
	struct sockaddr_in6 self;
	socklen_t len = pmd_gid_sockaddr(group, 0, &self);
	int off = 0;

	self.sin6_scope_id = interface;
	memcpy(&join.ipv6mr_multiaddr, group->raw, 16);
	if (setsockopt(fd, SOL_SOCKET, SO_BINDTOIFINDEX, &interface, sizeof(interface)) != 0 && errno != EPERM &&
	    errno != ENOPROTOOPT)
		return -errno;
	if (setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_ALL, &off, sizeof(off)) != 0 && errno != ENOPROTOOPT)
		return -errno;
	if (bind(fd, (struct sockaddr *)&self, len) != 0 ||
	    setsockopt(fd, IPPROTO_IPV6, IPV6_JOIN_GROUP, &join, sizeof(join)) != 0)
		return -errno;
	return 0;
}

int pmd_udp_socket_join(const struct nic_gid *group, const struct nic_gid *own, uint32_t scope)
{
	bool v4 = pmd_gid_is_v4(group);
	unsigned interface = v4 ? 0 : interface_of(own, scope);
	int fd, rc, on = 1;

	if (!v4 && interface == 0)
		return -ENODEV;
	fd = kernel_socket(v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0)
		return -errno;
	socket_options(fd, v4, false);
	rc = setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) == 0 ? 0 : -errno;
	if (rc == 0)
		rc = v4 ? group_bind_v4(fd, group, own) : group_bind_v6(fd, group, interface);
	if (rc == 0)
		return fd;
	close(fd);
	return rc;
}

int pmd_udp_socket_multicast(int fd, const struct nic_gid *own, uint32_t scope)
{
	struct ip_mreqn from = {0};
	int interface;

	if (pmd_gid_is_v4(own)) {
		memcpy(&from.imr_address, own->raw + 12, 4);
		return setsockopt(fd, IPPROTO_IP, IP_MULTICAST_IF, &from, sizeof(from)) == 0 ? 0 : -errno;
	}
	interface = (int)interface_of(own, scope);
	if (interface == 0)
		return -ENODEV;
	return setsockopt(fd, IPPROTO_IPV6, IPV6_MULTICAST_IF, &interface, sizeof(interface)) == 0 ? 0 : -errno;
}

bool pmd_udp_socket_is(int fd, const struct nic_gid *gid)
{
	struct sockaddr_in6 self = {0}, expected;
	socklen_t len = sizeof(self), expected_len = pmd_gid_sockaddr(gid, 0, &expected), int_len = sizeof(int);
	int protocol;

	if (getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &int_len) != 0 || protocol != IPPROTO_UDP ||
	    getsockname(fd, (struct sockaddr *)&self, &len) != 0 || len != expected_len)
		return false;
	if (pmd_gid_is_v4(gid))
		return memcmp(&self, &expected, offsetof(struct sockaddr_in, sin_zero)) == 0;
	return self.sin6_family == AF_INET6 && self.sin6_port == expected.sin6_port &&
	       memcmp(&self.sin6_addr, &expected.sin6_addr, sizeof(self.sin6_addr)) == 0;
}

uint32_t pmd_udp_socket_scope(int fd)
{
	struct sockaddr_in6 self = {0};
	socklen_t len = sizeof(self);

	return getsockname(fd, (struct sockaddr *)&self, &len) == 0 && self.sin6_family == AF_INET6 ? self.sin6_scope_id
												    : 0;
}

/** GRO must be on for the socket, because GSO pays only if the receiver gets the packets coalesced; we assume that the
 * receiver's kernel is like ours. The kernel must also support GSO: then it lets us set UDP_SEGMENT to 0. */
bool pmd_udp_socket_gso(int fd)
{
	int gro = 0, off = 0;
	socklen_t len = sizeof(gro);

	return getsockopt(fd, IPPROTO_UDP, UDP_GRO, &gro, &len) == 0 && gro != 0 &&
	       setsockopt(fd, IPPROTO_UDP, UDP_SEGMENT, &off, sizeof(off)) == 0;
}
