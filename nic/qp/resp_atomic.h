/* SPDX-License-Identifier: BSD-3-Clause */
/* resp_atomic.h - execution of atomics. Private to nic/. */
#ifndef NIC_RESP_ATOMIC_H
#define NIC_RESP_ATOMIC_H

#include <stdbool.h>
#include <stdint.h>

struct nic_qp;
struct nic_tx_frame;
struct packet;
struct resp_resource;

/** Bytes of memory that an atomic request operates on. */
uint32_t resp_atomic_size(const struct packet *p);
/** Execute a checked request and save the original value. @return false: access to its memory faulted. */
bool resp_atomic_execute(struct nic_qp *qp, const struct packet *p, uint8_t *app, struct resp_resource *r);
/** Open the response to an atomic and write the original value to it. */
void resp_atomic_open(const struct nic_qp *qp, const struct resp_resource *r, struct packet *p,
		      struct nic_tx_frame *frame);

#endif
