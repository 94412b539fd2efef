/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * refer.c - payload by reference. Between processes of one host a long payload need not be copied twice, into shared
 * memory and out of it: the packet names it, and the receiver fetches it straight to its destination.
 *
 * For the purposes of IBTA 9.7 one packet with a reference stands for consecutive packets of one message. It takes the
 * PSNs of all these packets. It is FIRST, MIDDLE, LAST or ONLY depending on whether the message's first and last
 * packets are among them.
 *
 * The payload of a SEND or WRITE belongs to the QP until the request is acknowledged, which happens after the fetch.
 * But before the fetch the application may destroy the QP, the request may complete in error, or a region that packets
 * refer to may be deregistered. In these cases references in flight are revoked. The receiver therefore never delivers
 * payload that the sender was no longer entitled to send, although some bytes may already be in the receiver's buffer.
 *
 * An endpoint of reliable datagrams can offer a message to another endpoint. The receiver fetches the message by
 * reference, too, if a receive for the message is posted when the offer arrives. Otherwise, or if the fetch fails, the
 * receiver reads the message later. The message's memory is a region that exists as long as the offer. The offer ends
 * when the receiver has confirmed the message, or can no longer get it.
 *
 * A packet whose reference cannot be fetched counts as lost. Its payload is then sent again, in ordinary packets. The
 * path loses nothing else, so the first retransmission uses up no retry (req_unread). Faulty memory thus causes the
 * same error as without references, at the side that owns the memory. A sender that refers to invalid memory only
 * delays itself.
 *
 * Only the path knows which references are in flight: this file only notes, in `refers` of the NIC and the QP and in
 * requester.referred, that there may be some.
 */
#include "refer.h"

#include "mem.h"
#include "mtu.h"
#include "opcode.h"
#include "packet.h"
#include "psn.h"
#include "qp_owner.h"
#include "qp_packet.h"
#include "wire.h"

static bool path_refers(const struct nic_qp *qp, const struct nic_tx_frame *frame)
{
	return qp->nic->paths[qp->path].flags & NIC_PATH_REFERENCES && frame->pieces;
}

/** PSNs of the next packet when `left` bytes of payload remain; 1: too few bytes for a reference. */
static uint32_t psns_of(const struct nic_qp *qp, uint64_t left)
{
	if (left < NIC_REFERENCE_MIN)
		return 1;
	return packets_of(left < NIC_REFERENCE_MAX ? left : NIC_REFERENCE_MAX, qp->pmtu);
}

/* ---- sending ------------------------------------------------------------------------------------------------- */

uint32_t refer_request_psns(const struct nic_qp *qp, const struct swqe *w, const struct nic_tx_frame *frame)
{
	if (!path_refers(qp, frame) || qp->req.psn != qp->req.sent_psn)
		return 1;
	return psns_of(qp, w->length - (uint64_t)qp->req.packet * qp->pmtu);
}

static void open_packet(struct nic_qp *qp, uint32_t len, struct packet *p, struct nic_tx_frame *frame)
{
	qp_address_whole(qp, p);
	qp_open(p, frame, 0);
	p->referred = len;
	qp->refers = qp->nic->refers = true;
}

enum mem_verdict refer_request(struct nic_qp *qp, const struct swqe *w, uint64_t offset, uint32_t len, struct packet *p,
			       struct nic_tx_frame *frame)
{
	open_packet(qp, len, p, frame);
	frame->answers = false;
	qp->req.referred = true;
	qp->req.referred_end = psn_add(qp->req.psn, packets_of(len, qp->pmtu));
	frame->n_pieces = 0;
	for (uint32_t i = 0; i < w->num_sge && len; i++) {
		const struct nic_sge *sge = &w->sge[i];
		enum mem_verdict v;
		uint32_t part;
		uint8_t *app;

		if (offset >= sge->length) {
			offset -= sge->length;
			continue;
		}
		v = mem_check_local(qp->nic, qp->pd, sge->lkey, sge->addr, sge->length, 0, &app);
		if (v != MEM_OK)
			return v;
		part = sge->length - (uint32_t)offset < len ? sge->length - (uint32_t)offset : len;
		frame->pieces[frame->n_pieces++] = (struct nic_piece){(uintptr_t)app + offset, part, sge->lkey};
		len -= part;
		offset = 0;
	}
	return len ? MEM_BAD_RANGE : MEM_OK;
}

void refer_offer(struct nic_qp *qp, const struct swqe *w, struct packet *p, struct nic_tx_frame *frame)
{
	if (!path_refers(qp, frame) || qp->req.psn != qp->req.sent_psn || !qp->owner->offered(w, frame->pieces))
		return;
	p->offers = true;
	qp_address_whole(qp, p);
	frame->n_pieces = 1;
	frame->answers = false;
	qp->refers = qp->nic->refers = true;
}

uint32_t refer_response_psns(const struct nic_qp *qp, const struct resp_resource *r, const struct nic_tx_frame *frame)
{
	/* If the application is told of the READ, it may overwrite the memory at once: send no reference. */
	if (r->length < NIC_REFERENCE_MIN || qp->type != NIC_QPT_RC || !path_refers(qp, frame) || r->duplicate ||
	    qp->state == NIC_QPS_ERR /* in ERR: the peer could not repeat the READ if the fetch failed */ ||
	    (qp->owner && qp->owner->is_told(qp, r->rkey)))
		return 1;
	return psns_of(qp, r->stop - r->cursor * qp->pmtu);
}

void refer_response(struct nic_qp *qp, uint32_t rkey, const uint8_t *app, uint32_t len, struct packet *p,
		    struct nic_tx_frame *frame)
{
	open_packet(qp, len, p, frame);
	frame->answers = true;
	frame->pieces[0] = (struct nic_piece){(uintptr_t)app, len, mkey_find_remote(qp->nic, qp->pd, rkey)->key};
	frame->n_pieces = 1;
}

void refer_revoke_qp(struct nic_qp *qp, bool answers)
{
	if (!qp->refers)
		return;
	qp->refers = !answers;
	qp->nic->cfg.revoke(qp->nic->cfg.ctx, qp->qpn, answers, 0);
}

/* ---- fetching ------------------------------------------------------------------------------------------------ */

/*
 * Applications poll the last bytes of a WRITE to see that all of it has arrived. A fetch may copy in any order (the
 * kernel's string moves do), so the last bytes are written separately, once the fetch has succeeded.
 */
static enum mem_verdict fetch(struct nic *nic, const struct nic_reference *ref, uint32_t offset, uint8_t *app,
			      uint32_t len)
{
	uint8_t last[NIC_REFERENCE_LAST];
	uint32_t n_last = len < sizeof(last) ? len : (uint32_t)sizeof(last);

	/* The fetch, or the writing of the last bytes, may have failed because of the receiver's own memory. That error
	 * is found again, and handled, when the payload has been retransmitted inside packets and is written. */
	if (!ref->fetch(ref->ctx, offset, app, len, last, n_last) || !mem_write(nic, app + len - n_last, last, n_last))
		return MEM_UNREAD;
	return MEM_OK;
}

enum mem_verdict refer_write(struct nic *nic, const struct nic_reference *ref, uint8_t *app)
{
	return fetch(nic, ref, 0, app, ref->len);
}

enum mem_verdict refer_scatter(struct nic *nic, const struct nic_pd *pd, const struct nic_sge *sge, uint32_t n,
			       uint64_t offset, const struct nic_reference *ref)
{
	uint32_t done = 0;

	for (; done < ref->len && n; sge++, n--) {
		enum mem_verdict v;
		uint32_t part;
		uint8_t *app;

		if (offset >= sge->length) {
			offset -= sge->length;
			continue;
		}
		part = sge->length - (uint32_t)offset;
		part = part < ref->len - done ? part : ref->len - done;
		v = mem_check_local(nic, pd, sge->lkey, sge->addr + offset, part, NIC_ACCESS_LOCAL_WRITE, &app);
		if (v == MEM_OK)
			v = fetch(nic, ref, done, app, part);
		if (v != MEM_OK)
			return v;
		done += part;
		offset = 0;
	}
	return done < ref->len ? MEM_BAD_RANGE : MEM_OK;
}

/* ---- for observers ------------------------------------------------------------------------------------------- */

static enum op_pos pos_of(const struct opcode *op, bool first, bool last)
{
	first &= op_starts(op);
	last &= op_ends(op);
	return first ? (last ? OP_ONLY : OP_FIRST) : last ? OP_LAST : OP_MIDDLE;
}

/** Copy the packet as it is, without anything that the carrier may have put after it. */
static int copy_of(const struct nic_rx_frame *frame, const struct packet *p, uint8_t *buf)
{
	size_t len = (size_t)(p->payload - frame->data) + p->payload_len + p->pad + ICRC_LEN;

	memcpy(buf, frame->data, len);
	return (int)len;
}

int nic_frame_unfold(const struct nic *nic, const struct nic_rx_frame *frame, uint32_t index, uint8_t *buf)
{
	struct packet p;
	const struct nic_qp *qp;
	uint32_t packets, offset;
	uint8_t *place;
	bool last;

	if (!frame->reference || packet_parse(frame, &p) != PACKET_OK)
		return -EINVAL;
	if (p.offer)
		return index == 0 ? copy_of(frame, &p, buf) : 0;
	qp = table_find(&nic->qps, p.dest_qpn);
	if (!qp || !qp->pmtu)
		return -EINVAL;
	packets = refer_psns(qp, &p);
	if (frame->reference->psns != packets)
		return -EINVAL;
	if (index >= packets)
		return 0;
	last = index + 1 == packets;
	offset = index * qp->pmtu;
	p.op = op_find(OP_RC, p.op->kind, pos_of(p.op, index == 0, last), last ? p.op->extra : OP_PLAIN);
	p.psn = psn_add(p.psn, index);
	p.ackreq &= last;
	p.se &= last;
	p.payload_len = last ? p.payload_len - offset : qp->pmtu;
	p.pad = (uint8_t)(-p.payload_len & 3);
	p.no_icrc = true;
	p.bare = false;
	p.referred = 0;
	p.reference = NULL;
	place = packet_open(&p, buf);
	if (!frame->reference->fetch(frame->reference->ctx, offset, place, p.payload_len, NULL, 0))
		return -EIO;
	return (int)packet_close(&p, buf);
}
