/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * refer.h - payload by reference: RC packets that name their payload's memory instead of carrying it. Private to nic/.
 */
#ifndef NIC_REFER_H
#define NIC_REFER_H

#include "mtu.h"
#include "packet.h"
#include "qp.h"

/** Whether a request of several packets may send its payload by reference, on a path that permits it. */
static inline bool refer_suits(const struct nic_qp *qp, const struct swqe *w)
{
	return w->length >= NIC_REFERENCE_MIN && qp->type == NIC_QPT_RC && w->num_sge <= NIC_PIECES_MAX;
}
/** PSNs that the next packet of a FORM_REFER request takes: more than 1 if it should refer to its payload. */
uint32_t refer_request_psns(const struct nic_qp *qp, const struct swqe *w, const struct nic_tx_frame *frame);
/** Open a packet that refers to `len` bytes of the request's payload from `offset` on. */
enum mem_verdict refer_request(struct nic_qp *qp, const struct swqe *w, uint64_t offset, uint32_t len, struct packet *p,
			       struct nic_tx_frame *frame);
/** Let the packet of a work request that offers a message also refer to the message's memory. No effect if the packet
 *  is retransmitted, its path does not allow references, or the owner does not allow it (qp_owner.offered). Call before
 *  the packet is opened. */
void refer_offer(struct nic_qp *qp, const struct swqe *w, struct packet *p, struct nic_tx_frame *frame);
/** PSNs that the next READ response takes: more than 1 if it should refer to its payload. */
uint32_t refer_response_psns(const struct nic_qp *qp, const struct resp_resource *r, const struct nic_tx_frame *frame);
/** Open a READ response that refers to its payload: `len` bytes at `app`, already checked against `rkey`. */
void refer_response(struct nic_qp *qp, uint32_t rkey, const uint8_t *app, uint32_t len, struct packet *p,
		    struct nic_tx_frame *frame);

/** Fetch the payload that the reference names, all of it, to application memory. @return MEM_OK, or MEM_UNREAD: the
 * payload could not be fetched or written. */
enum mem_verdict refer_write(struct nic *nic, const struct nic_reference *ref, uint8_t *app);
/** Write to an SGE list as mem_scatter does, but fetch the payload from the reference. @return MEM_UNREAD: as
 * refer_write; otherwise as mem_scatter. */
enum mem_verdict refer_scatter(struct nic *nic, const struct nic_pd *pd, const struct nic_sge *sge, uint32_t n,
			       uint64_t offset, const struct nic_reference *ref);

/** Revoke the references in flight that the QP's requests have sent, because the application gets those buffers back.
 * With `answers`, revoke those that its responses have sent, too: the application is resetting or destroying the QP, or
 * moving it to the error state. */
void refer_revoke_qp(struct nic_qp *qp, bool answers);

/** Number of PSNs that a received packet takes with our path MTU; refer_fits() tells whether the sender agrees. */
static inline uint32_t refer_psns(const struct nic_qp *qp, const struct packet *p)
{
	return __builtin_expect(p->reference != NULL, 0) ? packets_of(p->payload_len, qp->pmtu) : 1;
}

/** Whether sender and receiver count the same PSNs for the packet, i.e. use the same path MTU. */
static inline bool refer_fits(const struct nic_qp *qp, const struct packet *p)
{
	return __builtin_expect(!p->reference, 1) || p->reference->psns == refer_psns(qp, p);
}

#endif
