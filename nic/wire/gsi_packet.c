/* SPDX-License-Identifier: BSD-3-Clause */
/* gsi_packet.c - parses and builds packets of queue pair 1, without a NIC instance (nic_gsi.h). Stateless. */
#include "gid.h"
#include "nic_gsi.h"
#include "opcode.h"
#include "packet.h"

#define PKEY_BITS 0x7fff /* the leading bit tells full members from limited ones (10.9.3) */

const uint8_t *nic_gsi_parse(const struct nic_rx_frame *frame)
{
	struct packet p;

	if (packet_parse(frame, &p) != PACKET_OK || p.op->service != OP_UD || p.dest_qpn != NIC_GSI_QPN ||
	    p.qkey != NIC_GSI_QKEY || (p.pkey & PKEY_BITS) != PKEY_BITS || p.payload_len != NIC_MAD_LEN)
		return NULL;
	return p.payload;
}

uint32_t nic_gsi_build(const struct nic_gsi_addr *addr, const uint8_t *mad, uint8_t *buf, uint16_t *bth)
{
	struct packet p = {.op = op_find(OP_UD, OP_SEND, OP_ONLY, OP_PLAIN)};

	packet_init(&p);
	p.sgid = addr->own;
	p.dgid = addr->peer;
	p.v4 = gid_is_v4(&addr->peer);
	p.tclass = addr->tclass;
	p.hop_limit = addr->hop_limit ? addr->hop_limit : 64;
	p.flow_label = addr->flow_label;
	p.udp_sport = NIC_UDP_PORT;
	p.dest_qpn = p.src_qpn = NIC_GSI_QPN;
	p.qkey = NIC_GSI_QKEY;
	p.payload = mad;
	p.payload_len = NIC_MAD_LEN;
	*bth = p.v4 ? 28 : 48;
	return packet_encode(&p, buf);
}
