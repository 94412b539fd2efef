/* SPDX-License-Identifier: BSD-3-Clause */
/* udp_socket.h - sockets on the RoCE port of an address, with the options that the transport needs (pmd-internal; no DPDK). */
#ifndef PMD_UDP_SOCKET_H
#define PMD_UDP_SOCKET_H

#include "nic.h"

/**
 * A socket bound to port 4791 of an address: non-blocking, close-on-exec.
 * @param scope index of the interface of a link-local address.
 * @param share whether it is one of several: sockets of one user that were all opened so share the port, and number in the
 *	  order in which they were bound.
 * @return it, or a negative errno with one sentence in err.
 */
int pmd_udp_socket_open(const struct nic_gid *gid, uint32_t scope, bool share, char *err, size_t err_len);

/** Whether fd is a UDP socket bound to port 4791 of the address. */
bool pmd_udp_socket_is(int fd, const struct nic_gid *gid);

/** Whether the kernel cuts and joins runs of packets for the socket. */
bool pmd_udp_socket_gso(int fd);

#endif
