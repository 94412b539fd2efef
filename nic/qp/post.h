/* SPDX-License-Identifier: BSD-3-Clause */
/* post.h - posting of short inline SENDs of the NIC's own, on connected RC QPs. Private to nic/. */
#ifndef NIC_POST_H
#define NIC_POST_H

#include <stdint.h>

struct nic_qp;

/** Where to write the payload, up to the queue's max_inline bytes; NULL: the queue is full. Nothing is posted yet. */
uint8_t *qp_small_place(const struct nic_qp *qp);
/** Post a SEND of `length` bytes written to that place. `flags`: enum nic_send_flags, as resolved with sq_sig_all. */
void qp_post_small(struct nic_qp *qp, uint64_t wr_id, uint32_t flags, uint32_t length);

#endif
