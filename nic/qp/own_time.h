/* SPDX-License-Identifier: BSD-3-Clause */
/* own_time.h - the NIC's own time and the deadlines in it (time.c). Not named time.h because of <time.h>. Private to
 * nic/. */
#ifndef NIC_OWN_TIME_H
#define NIC_OWN_TIME_H

#include "core.h"

#define TIME_STEP_NS 250000000u /* time_jumped handles longer steps of the clock, and steps back */

void time_jumped(struct nic *nic, uint64_t now_ns);

/** Advance the NIC's time by the step that the clock of the NIC's owner has made since the last call. @param now_ns
 * that clock's time. */
static inline void nic_see_time(struct nic *nic, uint64_t now_ns)
{
	uint64_t step = now_ns - nic->told_ns;

	if (__builtin_expect(step > TIME_STEP_NS, 0)) {
		time_jumped(nic, now_ns);
		return;
	}
	nic->now += step;
	nic->told_ns = now_ns;
}

/** The earliest deadline, in the NIC's time. */
uint64_t time_next(const struct nic *nic);
/** Make every delayed ACK on the list `acks` due if its delay ends at or before `until`. */
void acks_due(const struct list *acks, uint64_t until);

#endif
