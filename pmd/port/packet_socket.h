/* SPDX-License-Identifier: BSD-3-Clause */
/* packet_socket.h - access to the packet socket inside DPDK's net_af_packet (pmd-internal). */
#ifndef PMD_PACKET_SOCKET_H
#define PMD_PACKET_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

/** From here on, adapt the packet sockets that this thread opens inside DPDK; see packet_socket.c. */
void pmd_packet_socket_begin(void);

/** End of pmd_packet_socket_begin(). @return the first socket with a receive ring, which its opener still owns; -1:
 *  none. Readable while the ring holds packets. */
int pmd_packet_socket_end(void);

/** Receive all multicast packets of the interface, for as long as the socket is open. */
bool pmd_packet_socket_allmulti(int fd, const char *iface);

/** Packets dropped since the last call because the ring was full. */
uint32_t pmd_packet_socket_drops(int fd);

#endif
