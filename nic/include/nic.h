/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic.h - the public interface of the NIC: InfiniBand transport over UDP (RoCEv2), without I/O.
 *
 * A `struct nic` is one function of a RoCEv2 NIC. It has no sockets, no clock and no threads: frames and
 * time go in (nic_rx, nic_timeout), frames come out when asked for (nic_tx), completions lie in completion
 * queues (nic_cq_poll), everything asynchronous is an event that the caller fetches (nic_event_next).
 *
 *   - One instance is single-threaded: its owner serialises all calls on it and on its objects.
 *   - `now` is a monotonic time in nanoseconds. If it jumps, or the process was stopped, timers continue from there:
 *     nothing fails for that reason alone. All times end in _ns.
 *   - Return values are 0 or a negative errno, unless a comment says otherwise.
 *   - Numeric values of enums and flags that verbs programs see are those of the verbs ABI, so that a
 *     front-end passes them through. Layouts that equal the ABI's say so.
 *   - Memory of the application is touched only inside registered regions that are still registered.
 *     Pointers that a call receives stay the caller's unless the comment says that the NIC keeps them.
 *   - The data path (post, poll, rx, tx, timeout) allocates no memory, except that posting a WAIT may, and that the
 *     peer's first fetching operation on elements does (nic_qp_init.max_fetch).
 *
 * The parts, which this file includes: verbs are nic_mem.h, nic_cq.h, nic_qp.h, nic_wr.h and nic_event.h on a device
 * (nic_device.h). What carries packets uses nic_frame.h and nic_path.h, and observers use nic_observe.h and
 * nic_capture.h. Endpoints are not included: nic_rdm.h, with nic_elem.h.
 */
#ifndef NIC_NIC_H
#define NIC_NIC_H

#include "nic_capture.h"
#include "nic_cq.h"
#include "nic_device.h"
#include "nic_event.h"
#include "nic_frame.h"
#include "nic_mem.h"
#include "nic_observe.h"
#include "nic_path.h"
#include "nic_qp.h"
#include "nic_types.h"
#include "nic_wr.h"

#endif
