/* SPDX-License-Identifier: BSD-3-Clause */
/* packet_socket.h - access to the packet socket inside DPDK's net_af_packet (pmd-internal). */
#ifndef PMD_PACKET_SOCKET_H
#define PMD_PACKET_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

#define PMD_PACKET_SOCKET_HEADER 80 /* header bytes per frame in the ring: the kernel's and Ethernet's */

/** From now on, adapt the packet sockets that this thread opens inside DPDK; see packet_socket.c. */
void pmd_packet_socket_begin(void);

/** Stop adapting packet sockets. @return the first socket opened since pmd_packet_socket_begin() that has a receive
 *  ring; -1: there is none. DPDK still owns the socket, which is readable while its ring has packets. */
int pmd_packet_socket_end(void);

/** Filter the port's traffic (UDP to port 4791, ARP, neighbour discovery), and ignore what this host sends. Kernels
 *  that lack one of these options are no error: the port checks each frame itself, at a cost. */
void pmd_packet_socket_filter(int fd);

/** @return the longest IP packet that the ring of net_af_packet with these arguments can hold; 0: they do not say. */
uint32_t pmd_packet_socket_framesz(const char *args);

/** Receive all multicast packets of the interface, as long as the socket is open. @return false: the kernel refused. */
bool pmd_packet_socket_allmulti(int fd, const char *iface);

/** @return how many packets were dropped since the last call because the ring was full. */
uint32_t pmd_packet_socket_drops(int fd);

#endif
