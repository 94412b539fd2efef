/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ud.c - unreliable datagrams: sending by address handle, receiving with the 40-byte GRH area (IBTA 9.8.3, 11.4.1.2,
 * annex A17.4.5). A datagram is dropped and counted, but never answered, if its Q_Key is wrong, if there is no receive
 * WQE, or if the next one is too short.
 */
#include "comp.h"
#include "gid.h"
#include "mem.h"
#include "mtu.h"
#include "opcode.h"
#include "packet.h"
#include "psn.h"
#include "qp.h"
#include "qp_owner.h"
#include "qp_packet.h"
#include "qp_recv.h"
#include "qp_state.h"
#include "ud.h"

#define GRH_LEN		40
#define QKEY_CONTROLLED 0x80000000u /* if set in a work request's Q_Key, send the QP's Q_Key instead (10.2.5) */

enum { WC_SL_IPV6 = 1, WC_SL_IPV4 = 2 }; /* values of wc.sl: applications expect the IP version in its low bits */

/* Rebuild the IPv4 header that the carrier hid; receivers recognize IPv4 by the valid checksum of this header. */
static void make_ipv4(const struct packet *p, uint8_t *ip, uint16_t udp_len)
{
	uint16_t total = (uint16_t)(20 + udp_len);
	uint8_t head[12] = {0x45,
			    p->tclass,
			    (uint8_t)(total >> 8),
			    (uint8_t)total,
			    (uint8_t)(p->ip_id >> 8),
			    (uint8_t)p->ip_id,
			    0x40,
			    0,
			    p->hop_limit,
			    17,
			    0,
			    0};
	uint32_t sum = 0;

	memcpy(ip, head, 12);
	memcpy(ip + 12, p->sgid.raw + 12, 4);
	memcpy(ip + 16, p->dgid.raw + 12, 4);
	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	ip[10] = (uint8_t)(sum >> 8);
	ip[11] = (uint8_t)sum;
}

static void make_ipv6(const struct packet *p, uint8_t *ip, uint16_t udp_len)
{
	uint8_t head[8] = {(uint8_t)(0x60 | p->tclass >> 4),
			   (uint8_t)(p->tclass << 4 | p->flow_label >> 16),
			   (uint8_t)(p->flow_label >> 8),
			   (uint8_t)p->flow_label,
			   (uint8_t)(udp_len >> 8),
			   (uint8_t)udp_len,
			   17,
			   p->hop_limit};

	memcpy(ip, head, 8);
	memcpy(ip + 8, p->sgid.raw, 16);
	memcpy(ip + 24, p->dgid.raw, 16);
}

/* Fill in the 40-byte GRH area. IPv6: the header. IPv4: 20 bytes of zeroes, then the header. */
static void make_grh(const struct packet *p, uint8_t *grh)
{
	uint16_t udp_len = (uint16_t)(8 + p->op->hdr_len + p->payload_len + p->pad + 4);

	memset(grh, 0, GRH_LEN);
	if (p->ip)
		memcpy(p->v4 ? grh + 20 : grh, p->ip, p->v4 ? 20 : 40);
	else if (p->v4)
		make_ipv4(p, grh + 20, udp_len);
	else
		make_ipv6(p, grh, udp_len);
}

static void drop(struct nic_qp *qp, const struct packet *p, enum nic_counter why)
{
	qp->nic->counters[why]++;
	qp->counters.dropped_rx++;
	trace_add(qp->nic, qp->qpn, NIC_TR_drop, p->psn, why);
}

void ud_rx(struct nic_qp *qp, const struct packet *p)
{
	const struct rwqe *next = rq_peek(qp->srq ? &qp->srq->rq : &qp->rq);
	struct nic_wc wc = {
		.byte_len = GRH_LEN + p->payload_len,
		.opcode = NIC_WC_RECV,
		.wc_flags = NIC_WC_GRH,
		.src_qp = p->src_qpn,
		.sl = p->v4 ? WC_SL_IPV4 : WC_SL_IPV6,
	};
	struct responder *resp = &qp->resp;
	uint8_t grh[GRH_LEN];

	if (p->qkey != qp->attr.qkey) {
		drop(qp, p, NIC_CNT_bad_qkey);
		return;
	}
	if (qp->owner) {
		qp->owner->datagram(qp, p);
		return;
	}
	if (!next) {
		drop(qp, p, NIC_CNT_ud_no_wqe);
		return;
	}
	if (next->length < GRH_LEN + (uint64_t)p->payload_len) { /* C9-205; the WQE stays (RL-13) */
		drop(qp, p, NIC_CNT_ud_too_long);
		return;
	}
	qp_take_wqe(qp);
	make_grh(p, grh);
	if (mem_scatter(qp->nic, qp_recv_pd(qp), resp->wqe->sge, resp->wqe->num_sge, 0, grh, GRH_LEN) != MEM_OK ||
	    mem_scatter(qp->nic, qp_recv_pd(qp), resp->wqe->sge, resp->wqe->num_sge, GRH_LEN, p->payload,
			p->payload_len) != MEM_OK) {
		wc = (struct nic_wc){.status = error_rows[ERR_receive_key].status, .vendor_err = ERR_receive_key};
		qp_complete_recv(qp, &wc, false);
		qp_enter_error(qp);
		return;
	}
	if (p->op->extra == OP_IMM) {
		wc.ex = p->imm;
		wc.wc_flags |= NIC_WC_WITH_IMM;
	}
	qp_complete_recv(qp, &wc, p->se);
}

bool ud_skip(struct nic_qp *qp)
{
	if (sq_at(qp, qp->sq.next)->length <= mtu_bytes(qp->nic->cfg.active_mtu))
		return false;
	COUNT(qp->nic, ud_oversize); /* C10-93.1.1: nothing is sent, and the WQE succeeds */
	qp->sq.next++;
	comp_finish(qp, ERR_none);
	return true;
}

/* Sends WQE sq.next, which is also the oldest: a datagram completes as soon as it is sent. */
bool ud_tx(struct nic_qp *qp, struct nic_tx_frame *frame)
{
	struct swqe *w = sq_at(qp, qp->sq.next);
	const struct nic_av *av = &w->ud.av;
	enum mem_verdict v = MEM_OK;
	struct packet p;
	uint8_t *payload;

	packet_init(&p);
	p.key = qp->nic->keyed;
	p.no_icrc = frame->no_icrc;
	p.bare = false;
	p.op = op_find(OP_UD, OP_SEND, OP_ONLY, w->opcode == NIC_WR_SEND_WITH_IMM ? OP_IMM : OP_PLAIN);
	p.sgid = qp->nic->gids[av->sgid_index];
	p.dgid = av->dgid;
	p.v4 = gid_is_v4(&av->dgid);
	p.tclass = av->tclass;
	p.hop_limit = av->hop_limit ? av->hop_limit : 64;
	p.flow_label = av->flow_label;
	p.udp_sport = qp->udp_sport;
	p.dest_qpn = w->ud.remote_qpn;
	p.qkey = w->ud.remote_qkey & QKEY_CONTROLLED ? qp->attr.qkey : w->ud.remote_qkey;
	p.src_qpn = qp->qpn;
	p.imm = w->ex;
	p.se = w->flags & NIC_SEND_SOLICITED;
	p.psn = qp->req.psn;
	payload = qp_open(&p, frame, w->length);
	if (w->flags & NIC_SEND_INLINE)
		packet_copy(&p, payload, w->sge, w->length);
	else
		v = mem_gather(qp->nic, qp->pd, w->sge, w->num_sge, 0, payload, w->length, packet_icrc(&p));
	qp->sq.next++;
	if (v != MEM_OK) {
		comp_finish(qp, v == MEM_FAULT ? ERR_gather_fault : ERR_gather_key);
		return false;
	}
	qp->req.psn = qp->req.sent_psn = qp->comp.una = psn_add(p.psn, 1);
	qp_emit(qp, &p, frame);
	COUNT_BY(qp->nic, tx_multicast, nic_gid_is_multicast(&p.dgid));
	comp_finish(qp, ERR_none);
	return true;
}
