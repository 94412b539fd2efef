/* SPDX-License-Identifier: BSD-3-Clause */
/* qp_packet.c - building the packets of a queue pair: set the addresses, open the packet, emit it. */
#include "gid.h"
#include "mtu.h"
#include "opcode.h"
#include "packet.h"
#include "qp.h"
#include "qp_packet.h"
#include "wire.h"

static void address(const struct nic_qp *qp, struct packet *p)
{
	const struct nic_av *av = &qp->attr.av;

	p->sgid = qp->sgid;
	p->dgid = av->dgid;
	p->v4 = gid_is_v4(&av->dgid);
	p->tclass = av->tclass;
	p->hop_limit = av->hop_limit ? av->hop_limit : 64;
	p->flow_label = av->flow_label;
	p->udp_sport = qp->udp_sport;
}

void qp_address(const struct nic_qp *qp, struct packet *p, const struct nic_tx_frame *frame)
{
	packet_init(p);
	p->key = qp->nic->keyed;
	p->dest_qpn = qp->attr.dest_qp_num;
	p->no_icrc = frame->no_icrc;
	p->bare = frame->bare & frame->no_icrc;
	if (!p->bare)
		address(qp, p);
}

void qp_address_whole(const struct nic_qp *qp, struct packet *p)
{
	p->bare = false;
	address(qp, p);
}

void qp_emit(struct nic_qp *qp, struct packet *p, struct nic_tx_frame *frame)
{
	uint32_t psns = 1, bytes = p->payload_len;

	frame->len = packet_close(p, frame->data);
	frame->bare = p->bare;
	frame->bth = (uint16_t)(p->payload_at - p->op->hdr_len);
	if (!p->bare) {
		frame->tclass = p->tclass;
		frame->hop_limit = p->hop_limit;
		frame->sgid = p->sgid;
		frame->dgid = p->dgid;
	}
	frame->qpn = qp->qpn;
	frame->addresses = qp->says;
	if (p->offers) {
		frame->psns = 0;
	} else if (p->referred) {
		bytes = p->referred;
		frame->psns = psns = packets_of(bytes, qp->pmtu);
	} else {
		frame->n_pieces = 0;
		frame->psns = 1;
	}
	COUNT_BY(qp->nic, tx_packets, psns);
	COUNT_BY(qp->nic, tx_bytes, bytes);
	qp->counters.tx_packets += psns;
	qp->counters.tx_bytes += bytes;
	trace_add(qp->nic, qp->qpn, NIC_TR_tx, p->psn, p->op->value);
}

bool nic_frame_address(const struct nic *nic, struct nic_rx_frame *frame)
{
	const struct nic_qp *qp =
		frame->len >= BTH_LEN ? table_find(&nic->qps, wire_get24(frame->data + BTH_QPN)) : NULL;

	if (!(frame->flags & NIC_RX_BARE) || !qp || qp->type == NIC_QPT_UD || frame->src_qpn != qp->attr.dest_qp_num ||
	    frame->addresses != qp->hears)
		return false;
	frame->flags ^= NIC_RX_BARE | NIC_RX_UDP_PAYLOAD;
	frame->sgid = qp->attr.av.dgid;
	frame->dgid = qp->sgid;
	frame->udp_sport = qp->udp_sport; /* both directions of a connection use the same UDP source port */
	frame->tclass = qp->attr.av.tclass & (uint8_t)~3u; /* without an ECN mark */
	frame->hop_limit = qp->attr.av.hop_limit ? qp->attr.av.hop_limit : 64;
	return true;
}
