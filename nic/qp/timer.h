/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timer.h - deadlines of QPs: a binary heap with at most one entry per QP.
 *
 * A QP's timers (ACK timer, tail loss probe, RNR wait) are fields of the QP; the heap holds only the earliest deadline.
 * Deadlines mostly move into the future (every ACK restarts the timer), so an entry may be early; it is corrected when
 * it reaches the top.
 */
#ifndef NIC_TIMER_H
#define NIC_TIMER_H

#include "core.h"

/** Ensure that the heap has room for `qps` QPs in total. @return false: out of memory. */
bool timer_reserve(struct nic *nic, uint32_t qps);
/** Make timer_expired return the QP at qp->deadline, which must not be TIME_NEVER. Call whenever qp->deadline becomes
 * earlier. */
void timer_update(struct nic *nic, struct nic_qp *qp);
/** Remove the QP's entry, if it has one. */
void timer_remove(struct nic *nic, struct nic_qp *qp);
/** Remove and return a QP whose deadline has passed, or NULL. */
struct nic_qp *timer_expired(struct nic *nic, uint64_t now);
/** Recompute qp->deadline from the requester's timers. */
void qp_timer(struct nic_qp *qp);

#endif
