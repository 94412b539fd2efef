/* SPDX-License-Identifier: BSD-3-Clause */
/* own_time.h - the NIC's own time, and what is due (time.c; <time.h> has its name). Private to nic/. */
#ifndef NIC_OWN_TIME_H
#define NIC_OWN_TIME_H

#include "core.h"

#define TIME_STEP_NS 250000000u /* time_jumped examines longer steps, and steps back */

void time_jumped(struct nic *nic, uint64_t now_ns);

/** Take the owner's current time. */
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
/** Make due the ACKs of a list whose delay ends by `until`. */
void acks_due(const struct list *acks, uint64_t until);

#endif
