/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_quick.h - the fast path for fetching one element: the endpoint's part. Private to nic/. */
#ifndef NIC_RDM_QUICK_H
#define NIC_RDM_QUICK_H

#include "rdm.h"

/** Send a fetch of one element if the fast path can serve it. @return false: nothing was posted, and the request has
 * not been validated. */
bool rdm_quick_fetch(struct nic_rdm_peer *peer, const struct nic_rdm_atomic *r);

#endif
