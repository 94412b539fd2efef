/* SPDX-License-Identifier: BSD-3-Clause */
/* post.h - posting of short inline SENDs of the NIC's own, on connected RC QPs. Private to nic/. */
#ifndef NIC_POST_H
#define NIC_POST_H

#include <stdint.h>

struct nic_qp;

/** @return where to write the payload of the next SEND, at most sq.max_inline bytes; NULL: the send queue is full.
 * qp_post_small() then posts the SEND. */
uint8_t *qp_small_place(const struct nic_qp *qp);
/** Post a SEND of `length` bytes written to that place. `flags`: enum nic_send_flags, as resolved with sq_sig_all. */
void qp_post_small(struct nic_qp *qp, uint64_t wr_id, uint32_t flags, uint32_t length);

#endif
