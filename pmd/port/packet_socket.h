/* SPDX-License-Identifier: BSD-3-Clause */
/* packet_socket.h - the packet socket that DPDK's net_af_packet keeps to itself (pmd-internal). */
#ifndef PMD_PACKET_SOCKET_H
#define PMD_PACKET_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

/** From here on packet sockets that this thread opens inside DPDK are ours to shape. */
void pmd_packet_socket_begin(void);

/** The end of that. @return the socket with the first receive ring, which stays its opener's; -1: there was none.
 *  Readable while the ring holds packets. */
int pmd_packet_socket_end(void);

/** Receive all multicast packets of the interface, for as long as the socket is open. */
bool pmd_packet_socket_allmulti(int fd, const char *iface);

/** Packets dropped since the last call because the ring was full. */
uint32_t pmd_packet_socket_drops(int fd);

#endif
