/* SPDX-License-Identifier: BSD-3-Clause */
/* resp_place.h - the responder's part of FLUSH and ATOMIC WRITE (IBTA A19). Private to nic/. */
#ifndef NIC_RESP_PLACE_H
#define NIC_RESP_PLACE_H

#include <stdbool.h>
#include <stdint.h>

#include "errors.h"

struct nic_qp;
struct packet;

/** Check a FLUSH: its header, the rights of the QP and the region, the R_Key, the range. @return the error, or
 * ERR_none. */
enum error_id resp_flush_check(const struct nic_qp *qp, const struct packet *p);
/** Execute a checked FLUSH. @return false: the data could not be written to the persistent medium. */
bool resp_flush_execute(const struct nic_qp *qp, const struct packet *p);
/** Execute a checked ATOMIC WRITE, in one store. @return false: access to its memory faulted. */
bool resp_atomic_write(struct nic_qp *qp, const struct packet *p, uint8_t *app);

#endif
