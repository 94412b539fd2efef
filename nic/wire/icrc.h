/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * icrc.h - the invariant CRC that ends every RoCEv2 packet (IBTA 7.8.1, annex A17.3).
 *
 * CRC-32 as in Ethernet, over eight bytes of ones (the masked LRH of InfiniBand) and then over the packet from the
 * IP header to the end of the pad, in which all fields that routers may change are replaced by ones:
 *
 *   IPv4  type of service, time to live, header checksum        UDP  checksum
 *   IPv6  traffic class, flow label, hop limit                  BTH  byte 4 (FECN, BECN, Resv6)
 *
 * The code that builds or copies the headers masks them (packet.c, packet_build.c, frame.c). Includes nothing of ours;
 * stateless.
 */
#ifndef NIC_ICRC_H
#define NIC_ICRC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** The CRC after the eight bytes of ones: where every computation starts. */
#define ICRC_START 0x2144df1cu

/** Continue a CRC over `len` bytes. A CRC that starts from ICRC_START and covers the whole masked packet is
 *  the ICRC. */
uint32_t icrc_update(uint32_t crc, const uint8_t *bytes, size_t len);

/** Copy len bytes, and continue the CRC over them as they are in dst. */
uint32_t icrc_copy(uint32_t crc, uint8_t *dst, const uint8_t *src, size_t len);

/**
 * Recover the IPv4 identification that the carrier hides.
 *
 * The ICRC covers the ID, but a plain UDP socket does not show it. CRCs are linear: the difference between the
 * received ICRC and one computed with ID 0 depends only on the ID and its distance from the end. Running that
 * difference back through the bytes after the ID, and through the two bytes of the ID, leaves the ID with 16 zero bits
 * above it. Any other result means that the packet is damaged. So 16 of the CRC's 32 bits are used to find the ID, and
 * 16 are left as a check: a damaged packet passes, with a wrong ID, with probability 2^-16 instead of 2^-32. A single
 * error burst of up to 3 bits is always detected, anywhere in the longest packet; a longer one passes with probability
 * 2^-16. Packets that really have ID 0 (all that uroce sends) lose no protection if the caller accepts no other ID from
 * peers known to send 0.
 *
 * @param difference received ICRC xor the one computed with ID 0; not 0
 * @param len bytes from the IPv4 header to the end of the ICRC, less than 8192
 * @return whether the ICRC holds with some ID, stored in *id
 */
bool icrc_find_ip_id(uint32_t difference, unsigned len, uint16_t *id);

#endif
