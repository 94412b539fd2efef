/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic.h - the public interface of the NIC: InfiniBand transport over UDP (RoCEv2), without I/O.
 *
 * A `struct nic` is one function of a RoCEv2 NIC. It has no sockets, no clock and no threads: frames and
 * time go in (nic_rx, nic_timeout), frames come out when the caller asks for them (nic_tx). Completions wait in
 * completion queues (nic_cq_poll), and asynchronous events wait until the caller fetches them (nic_event_next).
 *
 *   - One instance is single-threaded: its owner serialises all calls on it and on its objects.
 *   - `now_ns` is a monotonic time in nanoseconds. After a jump of it, or a stop of the process, timers continue with
 *     the time that they had left, so that nothing fails because of the jump. Names of times in nanoseconds end in _ns.
 *   - Return values are 0 or a negative errno, unless a comment says otherwise.
 *   - Numeric values of enums and flags that verbs programs see are those of the verbs ABI, unless a comment says
 *     otherwise: a front-end can pass them through unchanged. If a struct has the layout of the ABI, a comment says so.
 *   - Memory of the application is touched only inside regions that are registered at that moment, except inline
 *     data, which is copied when a request is posted, and the buffers of endpoints (nic_rdm.h).
 *     The NIC keeps no pointer that a call passes to it, unless the call's comment says so.
 *   - The data path (post, poll, rx, tx, timeout) allocates no memory, with these exceptions: posting a WAIT, the
 *     peer's first fetching operation on elements (nic_qp_init.max_fetch), and whatever endpoints do (nic_rdm.h).
 *
 * This file includes the parts of the interface. nic_device.h has the NIC instance; nic_mem.h, nic_cq.h, nic_qp.h,
 * nic_mcast.h, nic_wr.h, nic_tm.h, nic_xrc.h and nic_event.h have the verbs. The code that carries packets uses
 * nic_frame.h and nic_path.h, and observers use nic_observe.h and nic_capture.h. Not included here are the
 * headers of endpoints (nic_rdm.h, nic_elem.h), of triggered work (trigger.h), of queue pair 1 (nic_gsi.h) and of the
 * connection manager (nic_cm.h, nic_cm_ip.h).
 */
#ifndef NIC_NIC_H
#define NIC_NIC_H

#include "nic_capture.h"
#include "nic_cq.h"
#include "nic_device.h"
#include "nic_event.h"
#include "nic_frame.h"
#include "nic_mcast.h"
#include "nic_mem.h"
#include "nic_observe.h"
#include "nic_path.h"
#include "nic_qp.h"
#include "nic_tm.h"
#include "nic_types.h"
#include "nic_wr.h"
#include "nic_xrc.h"

#endif
