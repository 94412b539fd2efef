/* SPDX-License-Identifier: BSD-3-Clause */
/* post.h - posts requests that the NIC itself makes, on connected RC QPs: short inline SENDs, fetches of one element.
 * Private to nic/. */
#ifndef NIC_POST_H
#define NIC_POST_H

#include <stdint.h>

#include "nic_wr.h"

struct nic_qp;

/** A fetch of one element, which is valid (nic_elem_valid). */
struct qp_fetch {
	uint64_t wr_id;
	uint32_t flags; /* enum nic_send_flags */
	uint8_t op, datatype;
	uint32_t rkey;
	uint64_t remote_addr;
	struct nic_sge result;	 /* as long as an element */
	const uint8_t *operands; /* those that the operation takes: operand, compare value */
};

/** Where to write the payload of the next SEND, at most sq.max_inline bytes, before qp_post_small() posts it. @return
 * NULL: the send queue is full. */
uint8_t *qp_small_place(const struct nic_qp *qp);
/** Post a SEND of `length` bytes, which the caller has written to qp_small_place(). `flags`: enum nic_send_flags. The
 * SEND is signaled only if `flags` has NIC_SEND_SIGNALED: sq_sig_all is ignored. */
void qp_post_small(struct nic_qp *qp, uint64_t wr_id, uint32_t flags, uint32_t length);

/** Post a fetch whose operands are copied, for req_quick_send(). The send queue must have room. */
void qp_post_fetch(struct nic_qp *qp, const struct qp_fetch *f);

#endif
