/* SPDX-License-Identifier: BSD-3-Clause */
/* req.h - the requester: its position, timers and retries. Private to nic/. */
#ifndef NIC_REQ_H
#define NIC_REQ_H

#include <stdbool.h>
#include <stdint.h>

#include "errors.h"

struct nic_qp;

void req_reset(struct nic_qp *qp);
/** The peer has acknowledged `packets` more packets, up to comp.una: reset retry counts, restart the ACK timer. */
void req_progress(struct nic_qp *qp, uint32_t packets);
/** Handle a loss: retransmit from comp.una if retries are left, or if this loss costs none (req_unread); otherwise fail
 * the oldest WQE with the error `exhausted`. */
void req_go_back(struct nic_qp *qp, enum error_id exhausted);
/** Payload sent by reference was not fetched: retransmit from comp.una, the first time without using up a retry. */
void req_unread(struct nic_qp *qp);
/** The QP's path was closed or replaced, or the peer's packets now come another way, so that what is in flight may be
 * lost: a reliable QP retransmits from comp.una, with full retry counts. */
void req_path_gone(struct nic_qp *qp);
/** Handle an RNR NAK for comp.una: wait as its timer code says, then retransmit; without RNR retries left, fail. */
void req_rnr(struct nic_qp *qp, uint8_t timer_code);
/** Account for a READ request or atomic that was answered: another may now be sent. */
void req_rd_done(struct nic_qp *qp);
/** Retry counts or the ACK timeout have changed: apply them now. */
void req_attributes_changed(struct nic_qp *qp);
/** Handle timers of this QP that have expired. */
void req_timeout(struct nic_qp *qp, uint64_t now);
/** Report a local error of WQE sq.next once the WQE is the oldest, and report when the send queue has drained. */
void req_settle(struct nic_qp *qp);
/** WQE sq.next cannot proceed: it fails once everything before it is complete. @return false. */
bool req_fail(struct nic_qp *qp, enum error_id error);
/** Retries needed to cover `ns` with this ACK timeout (nic_qp_attr.timeout, not 0): 1 ... 255. */
uint8_t req_retries(uint8_t timeout, uint64_t ns);
/** Account for a packet that has been built. It takes `psns` PSNs and is the last packet of `ends` WQEs. */
void req_sent(struct nic_qp *qp, uint32_t psns, uint32_t ends);

#endif
