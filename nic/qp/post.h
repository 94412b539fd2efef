/* SPDX-License-Identifier: BSD-3-Clause */
/* post.h - posts short inline SENDs that the NIC itself makes, on connected RC QPs. Private to nic/. */
#ifndef NIC_POST_H
#define NIC_POST_H

#include <stdint.h>

struct nic_qp;

/** Where to write the payload of the next SEND, at most sq.max_inline bytes, before qp_post_small() posts it. @return
 * NULL: the send queue is full. */
uint8_t *qp_small_place(const struct nic_qp *qp);
/** Post a SEND of `length` bytes, which the caller has written to qp_small_place(). `flags`: enum nic_send_flags. The
 * SEND is signaled only if `flags` has NIC_SEND_SIGNALED: sq_sig_all is ignored. */
void qp_post_small(struct nic_qp *qp, uint64_t wr_id, uint32_t flags, uint32_t length);

#endif
