/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_capture.h - turns frames into whole IP packets for captures and other observers; see nic.h. */
#ifndef NIC_NIC_CAPTURE_H
#define NIC_NIC_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "nic_frame.h"
#include "nic_types.h"

/**
 * Write a frame to buf as a whole IP packet, for captures. This restores headers that the carrier removed (the IPv4 ID
 * only if it can be computed from the ICRC), computes the ICRC, and in IPv6 packets the UDP checksum, if they are
 * absent, and reads the payload from `body` if `body` is set. The frame need not be well-formed. If it has
 * NIC_RX_BARE, call nic_frame_address first.
 * @return the packet's length; 0: the packet is longer than `size`, or longer than an IP packet can be.
 */
uint32_t nic_frame_ip(const struct nic_rx_frame *frame, uint8_t *buf, uint32_t size);
/**
 * A frame with a reference can stand for several packets. Write packet number `index` of them to buf (NIC_FRAME_MAX
 * bytes), with zeroes for the ICRC.
 * @return the packet's length; 0: no more packets; -EINVAL: the frame is malformed, has no reference or a wrong one,
 * or its QPN is unknown; -EIO: the payload cannot be fetched.
 */
int nic_frame_unfold(const struct nic *nic, const struct nic_rx_frame *frame, uint32_t index, uint8_t *buf);
/** For observers: replace a frame's NIC_RX_BARE with NIC_RX_UDP_PAYLOAD, and fill in the addresses of the connection.
 *  Only the sender knows its traffic class and hop limit, so this function fills in the values that our QP sends with.
 *  @return false: the frame is unchanged, because it does not come from the peer of a connected QP. */
bool nic_frame_address(const struct nic *nic, struct nic_rx_frame *frame);
/** Copy all frame->len bytes of a frame unchanged to buf, from `data` and, if `body` is set, from `body`. */
void nic_frame_copy(const struct nic_rx_frame *frame, uint8_t *buf);
/** Destination QPN of a frame; 0: the frame has no BTH. */
uint32_t nic_frame_qpn(const struct nic_rx_frame *frame);
/** Offset of the UDP payload (BTH) in a frame; frame->len if the frame is not RoCEv2. */
uint32_t nic_frame_bth(const struct nic_rx_frame *frame);
/** Compute the ICRC of an IP packet, and write the ICRC over the packet's last four bytes. @return false: not a
 *  RoCEv2 packet. */
bool nic_frame_icrc_set(uint8_t *ip, uint32_t len);

#endif
