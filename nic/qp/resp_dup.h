/* SPDX-License-Identifier: BSD-3-Clause */
/* resp_dup.h - answers duplicate requests, from responder.res (qp.h) or by an ACK. Private to nic/. */
#ifndef NIC_RESP_DUP_H
#define NIC_RESP_DUP_H

struct nic_qp;
struct packet;

/** Handle a duplicate: a request with a PSN before ePSN. */
void resp_duplicate(struct nic_qp *qp, const struct packet *p);

#endif
