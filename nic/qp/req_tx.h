/* SPDX-License-Identifier: BSD-3-Clause */
/* req_tx.h - what the requester sends, and when it may. Private to nic/. */
#ifndef NIC_REQ_TX_H
#define NIC_REQ_TX_H

#include <stdbool.h>
#include <stdint.h>

#include "core.h"
#include "errors.h"
#include "mem.h"
#include "qp.h"
#include "req_window.h"

/** Write the next request packet to the frame, if the requester can send one now. `path` must be the path of WQE
 * sq.next. First finish the WQEs that need no packet; stop at a WQE that takes another path. Call only if
 * req_pending(). @return whether a packet was written. */
bool req_tx(struct nic_qp *qp, uint32_t path, struct nic_tx_frame *frame);
/** The error for a failure to gather payload; ERR_none for MEM_OK. */
enum error_id req_gathered(enum mem_verdict v);

/** Whether req_tx may have work (cheap; false positives are possible). */
static inline bool req_pending(const struct nic_qp *qp)
{
	return qp->sq.next != qp->sq.head && !(qp->held & ~HELD_BOUND);
}

static inline void req_hold(struct nic_qp *qp, enum req_held why, bool holds)
{
	qp->held = (uint8_t)((qp->held & ~why) | (holds ? why : 0));
}

/**
 * Whether to set AckReq in a packet of this WQE. The last packet of a message has AckReq set, and packets at intervals
 * (req_asks_between). On a lossless path the last packet needs it only if the application waits for the completion: the
 * peer is uroce, too, and acknowledges eventually even without AckReq.
 */
static inline bool req_asks_ack(struct nic_qp *qp, const struct swqe *w, bool ends, uint32_t psns)
{
	bool awaited = (w->flags & (NIC_SEND_SIGNALED | NIC_SEND_UNAWAITED)) == NIC_SEND_SIGNALED;
	bool lossy = !(qp->nic->paths[qp->path].flags & NIC_PATH_LOSSLESS);

	if (!(ends & (awaited | lossy)))
		return req_asks_between(qp, psns);
	qp->req.unasked = 0;
	return qp_is_reliable(qp);
}

#endif
