/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_event.h - asynchronous events; see nic.h. */
#ifndef NIC_NIC_EVENT_H
#define NIC_NIC_EVENT_H

#include <stdbool.h>

#include "nic_types.h"

/** Values below NIC_EVENT_COMP are those of enum ibv_event_type. */
enum nic_event_type {
	NIC_EVENT_CQ_ERR = 0,
	NIC_EVENT_QP_FATAL = 1,
	NIC_EVENT_QP_REQ_ERR = 2,
	NIC_EVENT_QP_ACCESS_ERR = 3,
	NIC_EVENT_COMM_EST = 4,
	NIC_EVENT_SQ_DRAINED = 5,
	NIC_EVENT_PORT_ACTIVE = 9,
	NIC_EVENT_PORT_ERR = 10,
	NIC_EVENT_SRQ_LIMIT = 15,
	NIC_EVENT_QP_LAST_WQE = 16,
	NIC_EVENT_GID_CHANGE = 18,
	NIC_EVENT_COMP = 32, /* completion notification of an armed CQ */
};

struct nic_event {
	enum nic_event_type type;
	void *user; /* the user pointer of the CQ, QP or SRQ concerned; NULL for port events */
};

/** Fetch the next event. Destroying an object discards its events that have not been fetched. @return false: there
 *  is no event. */
bool nic_event_next(struct nic *nic, struct nic_event *event);

#endif
