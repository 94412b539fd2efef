/* SPDX-License-Identifier: BSD-3-Clause */
/* req_run.h - runs: several requests in one packet. Private to nic/. */
#ifndef NIC_REQ_RUN_H
#define NIC_REQ_RUN_H

#include <stdbool.h>
#include <stdint.h>

struct nic_qp;
struct nic_tx_frame;
struct swqe;

/** Whether a WQE of FORM_ELEMENT about to be posted may share the packet of the WQE before it. */
bool req_run_joins(const struct nic_qp *qp, const struct swqe *w);
/** Number of WQEs from sq.next on that go in one packet, usually 1. 0: wait for more WQEs to join the run, since enough
 * requests are in flight. */
uint32_t req_run(const struct nic_qp *qp);
/** Send n WQEs in one packet, or only those before the first whose operand cannot be read; the window has room for n.
 * @return false: none was sent. */
bool req_run_send(struct nic_qp *qp, uint32_t n, struct nic_tx_frame *frame);
/** Number of in-flight WQEs that were sent in the packet of the WQE before them. */
uint32_t req_run_coalesced(const struct nic_qp *qp);

#endif
