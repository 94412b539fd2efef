/* SPDX-License-Identifier: BSD-3-Clause */
/* req_taken.h - whether the peer has had time to answer. Private to nic/. */
#ifndef NIC_REQ_TAKEN_H
#define NIC_REQ_TAKEN_H

#include <stdint.h>

struct nic_qp;

/** The ACK timer has expired. @return 0: the peer has had time to answer, so this counts as a retry; else it has not,
 *  and the timer is extended by this many ns. */
uint64_t req_taken_look(struct nic_qp *qp);

#endif
