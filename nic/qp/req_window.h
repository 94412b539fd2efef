/* SPDX-License-Identifier: BSD-3-Clause */
/* req_window.h - how much the requester may have in flight. Private to nic/. */
#ifndef NIC_REQ_WINDOW_H
#define NIC_REQ_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

struct nic_qp;

/** Maximum number of response packets that one READ request packet asks for. */
uint32_t req_read_piece(const struct nic_qp *qp);
/** PSNs that may be sent now. */
uint32_t req_window_room(const struct nic_qp *qp);
/** Whether, with `out` PSNs in flight, the window admits `psns` more in `packets` packets. */
bool req_window_admits(const struct nic_qp *qp, uint32_t out, uint32_t psns, uint32_t packets);
/** Account for `packets` more acknowledged packets: each time that a whole window has been acknowledged, widen it. */
void req_window_widen(struct nic_qp *qp, uint32_t packets);
/** Narrow the window after a loss. */
void req_window_narrow(struct nic_qp *qp);
/** Narrow the window to its minimum. Call when the path has changed: the peer may be dead. */
void req_window_restart(struct nic_qp *qp);
/** Account for a packet of `psns` PSNs that needs no AckReq of its own. @return whether it has to set AckReq all the
 * same, because none of the latest packets has (RQ-07). */
bool req_asks_between(struct nic_qp *qp, uint32_t psns);

#endif
