/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * trig.h - the functions of the trigger unit (trigger.c) that other files of the NIC call. Its public header is
 * trigger.h. Private to nic/.
 */
#ifndef NIC_TRIG_H
#define NIC_TRIG_H

#include "core.h"

void trig_init(struct nic *nic);
/** Start ready work; does nothing when called recursively. */
void trig_run(struct nic *nic);
/** If the time nic->trig.retry_ns is reached, let trig_run retry work that found no room before. */
void trig_timeout(struct nic *nic);

/** Let owners of QPs act on completions, then start the trigger work that became ready. */
void nic_settle(struct nic *nic);
/** Call at the end of every call into the NIC that may complete something. */
static inline void nic_settle_due(struct nic *nic)
{
	if (__builtin_expect(nic->owners_due | nic->trig_due, 0))
		nic_settle(nic);
}

#endif
