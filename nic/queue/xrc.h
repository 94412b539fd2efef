/* SPDX-License-Identifier: BSD-3-Clause */
/* xrc.h - XRC domains and the numbers of their SRQs (IBTA A14). Private to nic/. */
#ifndef NIC_XRC_H
#define NIC_XRC_H

#include "core.h"
#include "nic_xrc_share.h"

struct nic_qp;
struct nic_srq;
struct nic_tx_frame;
struct packet;

/** What the NIC does with the target QPs of a domain that it shares with other NICs. Implemented in xrc/. */
struct xrc_sharing {
	/** A packet has arrived for the target. @return whether it is kept, to be processed later, here or by another
	 * NIC; false: process it now. */
	bool (*keep)(struct nic_qp *qp, const struct packet *p);
	/** Build the next of the responses that another NIC has made for the target (resp.foreign). */
	void (*respond)(struct nic_qp *qp, struct nic_tx_frame *frame);
	/** The target is in error or reset: drop the packets that are kept, and what other NICs have of the target.
	 * Responses stay if resp.foreign counts them. */
	void (*drop)(struct nic_qp *qp);
	/** The target is being destroyed. */
	void (*destroy)(struct nic_qp *qp);
	/** The domain is being freed: destroy what this NIC made in it for other NICs. */
	void (*leave)(struct nic_xrcd *xrcd);
};

struct nic_xrcd {
	struct nic *nic;
	uint32_t users;			   /* SRQs and target QPs of the domain */
	struct list node;		   /* on nic.all_xrcds */
	const struct xrc_sharing *sharing; /* NULL: no other NIC shares the domain */
	struct nic_xrc_name name;	   /* if it is shared */
};

/** Find the SRQ with this number. @return NULL: the domain has no such SRQ. */
struct nic_srq *xrc_srq(const struct nic_xrcd *xrcd, uint32_t num);
/** Release the number, the domain and the CQ of an SRQ that is being destroyed. */
void xrc_srq_leave(struct nic_srq *srq);

#endif
