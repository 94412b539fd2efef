/* SPDX-License-Identifier: BSD-3-Clause */
/* qp_packet.h - building the packets of a QP: set the addresses, open the packet, emit it. Private to nic/. */
#ifndef NIC_QP_PACKET_H
#define NIC_QP_PACKET_H

#include <stdint.h>

#include "nic_frame.h"
#include "packet.h"

struct nic_qp;

/** Initialize a packet for the frame, and set the fields that all packets of a connected QP have in common. */
void qp_address(const struct nic_qp *qp, struct packet *p, const struct nic_tx_frame *frame);
/** Make a packet start at the IP header even if its path would permit a bare packet. */
void qp_address_whole(const struct nic_qp *qp, struct packet *p);
/** Open a packet whose fields are all set. @return where its payload_len bytes of payload go; see packet_open. */
static inline uint8_t *qp_open(struct packet *p, struct nic_tx_frame *frame, uint32_t payload_len)
{
	p->payload_len = payload_len;
	p->pad = (uint8_t)(-payload_len & 3);
	return packet_open(p, frame->data);
}
/** Finish a packet whose payload is in place: fill in the frame and count it. */
void qp_emit(struct nic_qp *qp, struct packet *p, struct nic_tx_frame *frame);

#endif
