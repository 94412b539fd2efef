/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_xrc.h - extended reliable connections (XRC, IBTA A14): domains, and shared receive queues that a peer names in
 * each request. A QP of type XRC_INI sends requests. A QP of type XRC_TGT executes them, with the SRQ that each request
 * names, and with that SRQ's protection domain and CQ. See nic.h.
 */
#ifndef NIC_NIC_XRC_H
#define NIC_NIC_XRC_H

#include <stdint.h>

#include "nic_types.h"

/** Create an XRC domain. @return 0, -ENOMEM. */
int nic_xrcd_alloc(struct nic *nic, struct nic_xrcd **out);
/** Destroy an XRC domain. @return 0, -EBUSY while SRQs or QPs belong to it. */
int nic_xrcd_free(struct nic_xrcd *xrcd);

/** Create an SRQ of an XRC domain. Messages for it complete to `cq`; destroy it with nic_srq_destroy. @return as
 *  nic_srq_create. */
int nic_srq_create_xrc(struct nic_pd *pd, struct nic_xrcd *xrcd, struct nic_cq *cq, uint32_t max_wr, uint32_t max_sge,
		       uint32_t limit, void *user, struct nic_srq **out);
/** The 24-bit number by which peers name an SRQ of an XRC domain; 0: the SRQ belongs to no XRC domain. */
uint32_t nic_srq_num(const struct nic_srq *srq);
/** The target QP of the domain with this number; NULL: there is none. */
struct nic_qp *nic_xrc_target(const struct nic_xrcd *xrcd, uint32_t qpn);

#endif
