/* SPDX-License-Identifier: BSD-3-Clause */
/* stranger.h - packets from an unknown sender: well-formed, with a valid ICRC, to any QPN. */
#ifndef TEST_STRANGER_H
#define TEST_STRANGER_H

#include <string.h>

#include "nic.h"

#define STRANGER_CARRIER 28u /* bytes of IPv4 and UDP header; the UDP payload follows */
#define STRANGER_BYTES	 (STRANGER_CARRIER + 12 + 8 + 16 + 4)
#define STRANGER_UD_SEND 0x64
#define STRANGER_RC_SEND 0x04 /* has no DETH: the bytes of the DETH become payload */

/** Build an IPv4 packet of STRANGER_BYTES between two IPv4-mapped addresses, from UDP port `sport`. */
static inline void stranger_packet(uint8_t *ip, const struct nic_gid *from, uint16_t sport, const struct nic_gid *to,
				   uint8_t opcode, uint32_t qpn)
{
	uint8_t *bth = ip + STRANGER_CARRIER;

	memset(ip, 0, STRANGER_BYTES);
	ip[0] = 0x45;
	ip[3] = STRANGER_BYTES;
	ip[6] = 0x40; /* don't fragment */
	ip[8] = 64;
	ip[9] = 17;
	memcpy(ip + 12, from->raw + 12, 4);
	memcpy(ip + 16, to->raw + 12, 4);
	ip[20] = (uint8_t)(sport >> 8);
	ip[21] = (uint8_t)sport;
	ip[22] = NIC_UDP_PORT >> 8;
	ip[23] = NIC_UDP_PORT & 0xff;
	ip[25] = STRANGER_BYTES - 20;
	bth[0] = opcode;
	bth[2] = bth[3] = 0xff; /* P_Key */
	bth[5] = (uint8_t)(qpn >> 16);
	bth[6] = (uint8_t)(qpn >> 8);
	bth[7] = (uint8_t)qpn;
	nic_frame_icrc_set(ip, STRANGER_BYTES);
}

#endif
