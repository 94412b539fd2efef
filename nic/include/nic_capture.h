/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_capture.h - frames as observers want them: whole IP packets, addressed and unfolded; see nic.h. */
#ifndef NIC_NIC_CAPTURE_H
#define NIC_NIC_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "nic_frame.h"
#include "nic_types.h"

/**
 * Write a frame to buf as a whole IP packet, for captures: headers that the carrier removed are restored (the IPv4 ID
 * as far as the ICRC reveals it), an absent ICRC and an absent UDP checksum over IPv6 are computed, payload is read
 * from `body` if that is set. The frame may contain anything.
 * @return the length; 0: longer than `size`, or than an IP packet can be.
 */
uint32_t nic_frame_ip(const struct nic_rx_frame *frame, uint8_t *buf, uint32_t size);
/**
 * Write packet number `index` of those that a frame with a reference stands for to buf (NIC_FRAME_MAX bytes), with
 * zeroes for the ICRC.
 * @return its length; 0: no more packets; -EINVAL: no such frame, or unknown QPN; -EIO: the payload cannot be fetched.
 */
int nic_frame_unfold(const struct nic *nic, const struct nic_rx_frame *frame, uint32_t index, uint8_t *buf);
/** Replace NIC_RX_BARE in a frame by NIC_RX_UDP_PAYLOAD and the addressing of its connection, for observers. What only
 *  the sender knows (traffic class, hop limit) is set as on our side. @return false: the frame is unchanged, because it
 *  is not from the peer of a connected QP. */
bool nic_frame_address(const struct nic *nic, struct nic_rx_frame *frame);
/** Copy the frame->len bytes of a frame unchanged, from `data` and, if set, `body`. */
void nic_frame_copy(const struct nic_rx_frame *frame, uint8_t *buf);
/** Destination QPN of a frame; 0: it has no BTH. */
uint32_t nic_frame_qpn(const struct nic_rx_frame *frame);
/** Offset of the UDP payload (BTH) in a frame that may be RoCEv2; frame->len: it is not RoCEv2. */
uint32_t nic_frame_bth(const struct nic_rx_frame *frame);
/** Compute the ICRC of an IP packet, and write it over the last four bytes. @return false: not a RoCEv2 packet. */
bool nic_frame_icrc_set(uint8_t *ip, uint32_t len);

#endif
