/* SPDX-License-Identifier: BSD-3-Clause */
/* udp_socket.h - UDP sockets on the RoCE port of an address, set up for the transport (pmd-internal; no DPDK). */
#ifndef PMD_UDP_SOCKET_H
#define PMD_UDP_SOCKET_H

#include "nic.h"

/**
 * Open a socket bound to port 4791 of an address: non-blocking, close-on-exec.
 * @param scope index of the interface of a link-local address.
 * @param share use SO_REUSEPORT: all sockets that one user has opened with `share` share the port, and the kernel
 * numbers them in the order in which they were bound.
 * @return the socket, or a negative errno with a message in err.
 */
int pmd_udp_socket_open(const struct nic_gid *gid, uint32_t scope, bool share, char *err, size_t err_len);

/**
 * Open a socket that receives a multicast group's datagrams on the interface with address `own`: non-blocking,
 * close-on-exec. Other sockets of the group, of any user, receive the datagrams, too.
 * @param own an address of this host, IPv4 or IPv6 as the group. @param scope IPv6: index of the interface; 0: the
 * interface that has `own`.
 * @return the socket; -ENODEV: no interface has the address; another negative errno.
 */
int pmd_udp_socket_join(const struct nic_gid *group, const struct nic_gid *own, uint32_t scope);
/** Make a socket send its multicast datagrams through the interface that has the socket's own address. @return 0 or a
 *  negative errno. */
int pmd_udp_socket_multicast(int fd, const struct nic_gid *own, uint32_t scope);

/** Whether fd is a UDP socket bound to port 4791 of the address. */
bool pmd_udp_socket_is(int fd, const struct nic_gid *gid);
/** @return the index of the interface to which a socket of a link-local address is bound; 0: not such a socket. */
uint32_t pmd_udp_socket_scope(int fd);

/** Whether the kernel segments and coalesces runs of packets for the socket (UDP GSO and GRO). */
bool pmd_udp_socket_gso(int fd);

#endif
