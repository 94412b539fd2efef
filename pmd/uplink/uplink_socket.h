/* SPDX-License-Identifier: BSD-3-Clause */
/* uplink_socket.h - see uplink_socket.c. */
#ifndef PMD_UPLINK_SOCKET_H
#define PMD_UPLINK_SOCKET_H

#include <stdbool.h>
#include <stdint.h>

/** @return the AF_XDP socket that was opened since pmd_packet_socket_begin(); -1: there is none. It is readable when
 *  packets have arrived. */
int uplink_socket_xdp(void);
/** @return how many frames an AF_XDP socket has lost because its ring was full; 0: it is no such socket. Its driver
 * does not count them. */
uint64_t uplink_socket_ring_full(int fd);
/** Whether the device is the client of a memif: it has to be started again whenever its server was away. */
bool uplink_socket_connects(const char *args);
/** Remove the UNIX socket that a daemon has left behind which was killed, and on which the device will listen: the
 *  drivers of memif and virtio-user refuse to start beside it. A socket on which somebody listens stays. */
void uplink_socket_unlink(const char *args);

#endif
