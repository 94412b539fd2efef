/* SPDX-License-Identifier: BSD-3-Clause */
/* req_taken.h - whether the peer has had time to answer. Private to nic/. */
#ifndef NIC_REQ_TAKEN_H
#define NIC_REQ_TAKEN_H

#include <stdint.h>

struct nic_qp;

/** Judge an expiry of the ACK timer. @return 0: the peer has had time to respond, so the expiry counts as a retry;
 * otherwise the nanoseconds by which to extend the timer. */
uint64_t req_taken_look(struct nic_qp *qp);

#endif
