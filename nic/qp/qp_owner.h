/* SPDX-License-Identifier: BSD-3-Clause */
/* qp_owner.h - what the transport calls when a part of the NIC, not the application, owns a QP. Private to nic/. */
#ifndef NIC_QP_OWNER_H
#define NIC_QP_OWNER_H

#include <stdbool.h>
#include <stdint.h>

#include "errors.h"

struct nic_foresight;
struct nic_piece;
struct nic_qp;
struct packet;
struct swqe;

/**
 * Functions of a QP's owner, if the owner is not the application but an endpoint of reliable datagrams (rdm/), the
 * general services interface (gsi.c), or an SRQ that matches tags (tm_qp.c). The transport reaches endpoints
 * through these functions, through the sinks of their CQs, and through nic->settle_owners. It calls these functions in
 * the middle of a call into the NIC, so an endpoint only notes events, and acts on them when the NIC settles
 * (nic_settle_due).
 */
struct qp_owner {
	/** Whether the owner has room for the message that begins with this packet. */
	bool (*takes)(const struct nic_qp *qp, const struct packet *p);
	/** Handle the next packet of a message, in order. If the packet begins a message, `takes` was called just
	 * before. @return the error that ends the connection, or ERR_none. */
	enum error_id (*arrive)(struct nic_qp *qp, const struct packet *p);
	/** Get the memory of the message that a NIC_SEND_OFFERS request offers. @return false: a packet cannot refer to
	 * this memory. */
	bool (*offered)(const struct swqe *w, struct nic_piece *piece);
	/** Predict where the message that this packet offers will go. @param f the messages already predicted to arrive
	 * before this one; the function adds the receive of this one. @return NULL: not known. */
	uint8_t *(*foresee)(const struct nic_qp *qp, const struct packet *p, struct nic_foresight *f);
	/** A datagram has arrived with the right Q_Key. */
	void (*datagram)(struct nic_qp *qp, const struct packet *p);
	/** A request of the peer that accesses local memory under this R_Key has been executed or, if a READ, answered.
	 * `read`, `write`: what it did to the memory. */
	void (*served)(struct nic_qp *qp, uint32_t rkey, bool read, bool write);
	/** Whether `served` acts on an access under this R_Key. */
	bool (*is_told)(const struct nic_qp *qp, uint32_t rkey);
	/** The QP is in error. */
	void (*failed)(struct nic_qp *qp);
};

#endif
