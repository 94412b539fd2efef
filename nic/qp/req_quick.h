/* SPDX-License-Identifier: BSD-3-Clause */
/* req_quick.h - the fast path for fetching one element: the requester's part. Private to nic/. */
#ifndef NIC_REQ_QUICK_H
#define NIC_REQ_QUICK_H

#include <stdint.h>

struct nic_qp;

/** Get room to send a fetch that is posted now, and tell the NIC the time. @return NULL: the fetch has to be posted as
 * any other request. */
uint8_t *req_quick_room(struct nic_qp *qp);
/** Send the fetch of one element that was just posted by qp_post_fetch(). @param room from req_quick_room(). */
void req_quick_send(struct nic_qp *qp, uint8_t *room);

#endif
