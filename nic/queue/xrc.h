/* SPDX-License-Identifier: BSD-3-Clause */
/* xrc.h - XRC domains and the numbers of their SRQs (IBTA A14). Private to nic/. */
#ifndef NIC_XRC_H
#define NIC_XRC_H

#include "core.h"

struct nic_srq;

struct nic_xrcd {
	struct nic *nic;
	uint32_t users;	  /* SRQs and target QPs of the domain */
	struct list node; /* on nic.all_xrcds */
};

/** Find the SRQ with this number. @return NULL: the domain has no such SRQ. */
struct nic_srq *xrc_srq(const struct nic_xrcd *xrcd, uint32_t num);
/** Release the number, the domain and the CQ of an SRQ that is being destroyed. */
void xrc_srq_leave(struct nic_srq *srq);

#endif
