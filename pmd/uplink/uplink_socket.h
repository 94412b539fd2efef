/* SPDX-License-Identifier: BSD-3-Clause */
/* uplink_socket.h - see uplink_socket.c. */
#ifndef PMD_UPLINK_SOCKET_H
#define PMD_UPLINK_SOCKET_H

/** @return the AF_XDP socket that was opened since pmd_packet_socket_begin(); -1: there is none. It is readable when
 *  packets have arrived. */
int uplink_socket_xdp(void);

#endif
