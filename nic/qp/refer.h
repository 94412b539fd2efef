/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * refer.h - payload by reference: packets of RC that say where their payload lies instead of having it. Private to nic/.
 */
#ifndef NIC_REFER_H
#define NIC_REFER_H

#include "qp.h"

/** PSNs of the next packet of a SEND or WRITE: 1, or more if it is to refer to its payload. */
uint32_t refer_request_psns(const struct nic_qp *qp, const struct swqe *w, const struct nic_tx_frame *frame);
/** Open such a packet: its payload is `len` bytes of the request from `offset` on. */
enum mem_verdict refer_request(struct nic_qp *qp, const struct swqe *w, uint64_t offset, uint32_t len, struct packet *p,
			       struct nic_tx_frame *frame);
/** The work request offers a message: a packet that goes for the first time, by a path that can, says where that is, too. It is not
 *  open yet. */
void refer_offer(struct nic_qp *qp, const struct swqe *w, struct packet *p, struct nic_tx_frame *frame);
/** PSNs of the next response to a READ, likewise. */
uint32_t refer_response_psns(const struct nic_qp *qp, const struct resp_resource *r, const struct nic_tx_frame *frame);
/** Open such a packet: its payload is memory that has been checked, under this R_Key. */
void refer_response(struct nic_qp *qp, uint32_t rkey, const uint8_t *app, uint32_t len, struct packet *p,
		    struct nic_tx_frame *frame);

/** As mem_write, of the payload of a packet with a reference. @return also MEM_UNREAD: there is none. */
enum mem_verdict refer_write(struct nic *nic, const struct nic_reference *ref, uint8_t *app);
/** As mem_scatter, likewise. */
enum mem_verdict refer_scatter(struct nic *nic, const struct nic_pd *pd, const struct nic_sge *sge, uint32_t n,
			       uint64_t offset, const struct nic_reference *ref);

/** What requests of the QP have sent by reference is its program's again, or is to be sent no more; with `answers` what it has answered
 *  with, too: the program has ended it. */
void refer_revoke_qp(struct nic_qp *qp, bool answers);

/** PSNs that a received packet takes; whether its sender thinks so too, refer_fits knows. */
static inline uint32_t refer_psns(const struct nic_qp *qp, const struct packet *p)
{
	return __builtin_expect(p->reference != NULL, 0) ? packets_of(p->payload_len, qp->pmtu) : 1;
}

/** Whether sender and receiver count the packets that it stands for alike: a path MTU is theirs to agree on. */
static inline bool refer_fits(const struct nic_qp *qp, const struct packet *p)
{
	return __builtin_expect(!p->reference, 1) || p->reference->psns == refer_psns(qp, p);
}

#endif
