/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_gsi.h - queue pair 1, the general services interface, which exchanges management datagrams (MADs; IBTA 3.5.3,
 * 13.5.1). See nic.h.
 *
 * A MAD has 256 bytes and goes from queue pair 1 to queue pair 1. The highest bit of queue pair 1's Q_Key is set, and a
 * work request cannot select such a Q_Key (10.2.5). Any host can send any MAD: the code behind this header checks the
 * packet, but not the MAD in it.
 */
#ifndef NIC_NIC_GSI_H
#define NIC_NIC_GSI_H

#include <stdbool.h>
#include <stdint.h>

#include "nic_frame.h"
#include "nic_types.h"

#define NIC_GSI_QPN  1u
#define NIC_GSI_QKEY 0x80010000u
#define NIC_MAD_LEN  256u

/** The addresses of a MAD: this host's address and the peer's. */
struct nic_gsi_addr {
	struct nic_gid own, peer;
	uint32_t flow_label;
	uint8_t tclass, hop_limit; /* received MADs: 0, as is flow_label; sent MADs: hop limit 0 stands for 64 */
};

/** Callback for a MAD that has arrived. It runs within nic_rx, and may call nic_gsi_send and every function that the
 *  caller of nic_rx may call. `mad` is valid during the call. */
typedef void (*nic_gsi_fn)(void *ctx, const struct nic_gsi_addr *addr, const uint8_t *mad);

/** Create queue pair 1. It lives as long as the NIC. Datagrams to it that are not as long as a MAD are dropped and
 *  counted (ud_too_long). @return 0, -EADDRINUSE (it exists already), -ENOMEM. */
int nic_gsi_open(struct nic *nic, nic_gsi_fn fn, void *ctx);
/** Send a MAD from queue pair 1. @return 0; -EADDRNOTAVAIL: `own` is not an address of the NIC, or queue pair 1 does
 *  not exist; -ENOMEM: the send queue is full; -EINVAL: one of `own` and `peer` is IPv4, the other IPv6. */
int nic_gsi_send(struct nic *nic, const struct nic_gsi_addr *addr, const uint8_t *mad);

/* ---- functions that need no NIC instance: for a daemon that answers MADs in place of ended processes ----------- */

/** Read a packet. @return its MAD, which lies in the frame; NULL: the packet is not for queue pair 1, is
 *  malformed, has a wrong ICRC, P_Key or Q_Key, is authenticated by a key, or holds no MAD. */
const uint8_t *nic_gsi_parse(const struct nic_rx_frame *frame);
/** Write the packet that carries a MAD, with its ICRC. `buf` has NIC_FRAME_MAX bytes. @param bth out: offset of the UDP
 *  payload @return the packet's length from the IP header on. */
uint32_t nic_gsi_build(const struct nic_gsi_addr *addr, const uint8_t *mad, uint8_t *buf, uint16_t *bth);

#endif
