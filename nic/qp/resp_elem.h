/* SPDX-License-Identifier: BSD-3-Clause */
/* resp_elem.h - execution of operations on elements. Private to nic/. */
#ifndef NIC_RESP_ELEM_H
#define NIC_RESP_ELEM_H

#include <stdbool.h>
#include <stdint.h>

#include "qp.h"

struct nic_tx_frame;
struct packet;

/** Whether a request packet has a valid operation and datatype, and a payload of the matching length. */
bool resp_elements_fit(const struct nic_qp *qp, const struct packet *p);
/** Bytes of memory that a request on elements operates on. */
uint32_t resp_elements_size(const struct packet *p);
/** Allocate memory for the results of fetching operations, on first use. @return false: out of memory. */
bool resp_elements_room(struct nic_qp *qp);
/** Where the result of a resource is saved, in network order. */
static inline uint8_t *resp_elements_saved(const struct nic_qp *qp, const struct resp_resource *r)
{
	return qp->resp.saved + (size_t)(r - qp->resp.res) * qp->sq.max_fetch;
}
/** Execute a checked request; if it takes a resource, save the original values for it. @param r the resource, or NULL.
 *  @return false: access to its memory faulted. */
bool resp_elements_execute(struct nic_qp *qp, const struct packet *p, uint8_t *app, const struct resp_resource *r);
/** Open the response and write the original values to it. */
void resp_elements_open(struct nic_qp *qp, const struct resp_resource *r, struct packet *p, struct nic_tx_frame *frame);

/** Whether a packet is a well-formed run of requests. A malformed run is then checked as a single request, and fails
 *  resp_elements_fit(). */
bool resp_elements_run(const struct nic_qp *qp, const struct packet *p);
/** Extract request number i of a run, as if it had come in its own packet. */
void resp_elements_member(const struct packet *run, uint32_t i, struct packet *one);

#endif
