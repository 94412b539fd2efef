/* SPDX-License-Identifier: BSD-3-Clause */
/* wc.h - error completions of the scenarios that use verbs. */
#ifndef WC_H
#define WC_H

#include <infiniband/verbs.h>

#include "runner.h"

/** Note an error completion, with errno 0 because no call has failed: the connection was lost, or the request itself
 *  has failed. @return false */
static inline bool broken(struct failure *f, int phase, enum ibv_wc_status status)
{
	bool gone =
		status == IBV_WC_RETRY_EXC_ERR || status == IBV_WC_RNR_RETRY_EXC_ERR || status == IBV_WC_WR_FLUSH_ERR;

	return (gone ? lost : failed)(f, phase, ibv_wc_status_str(status), 0);
}

#endif
