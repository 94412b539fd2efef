/* SPDX-License-Identifier: BSD-3-Clause */
/* resp_quick.h - the fast path for fetching one element: the responder's part. Private to nic/. */
#ifndef NIC_RESP_QUICK_H
#define NIC_RESP_QUICK_H

struct nic_qp;
struct packet;

/** Execute and answer a FETCH_ELEMENTS request with the expected PSN if the fast path can serve it. @return ERR_none:
 * done, CHECK_NOT_QUICK: nothing was done, ERR_remote_fault: its memory cannot be accessed. */
unsigned resp_quick(struct nic_qp *qp, const struct packet *p);

#endif
