/* SPDX-License-Identifier: BSD-3-Clause */
/* resp_check.h - checks of a request. Private to nic/. */
#ifndef NIC_RESP_CHECK_H
#define NIC_RESP_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "errors.h"
#include "opcode.h"

struct nic_qp;
struct packet;

/* Verdicts besides enum error_id; all but the last: the request cannot be executed now. resp_check() returns only the
 * first of them. */
enum {
	CHECK_RNR = ERR_COUNT, /* no receive WQE */
	CHECK_UNREAD,	       /* the payload cannot be fetched: treat the packet as lost */
	CHECK_NO_MEMORY,       /* no memory to save the original elements: drop the packet */
	CHECK_NOT_QUICK,       /* resp_quick() leaves the request to resp_check() */
};

/** Whether a request with this opcode takes a responder resource. */
static inline bool needs_resource(const struct opcode *op)
{
	return op->traits & OP_IS_ANSWERED;
}

/** Check a request. @param app out: the memory that the request accesses, if any; not set for a FLUSH.
 * @return enum error_id, or CHECK_RNR. */
unsigned resp_check(const struct nic_qp *qp, const struct packet *p, uint8_t **app);
/** Whether a single-packet WRITE would be accepted if it came next. @param app out: where it would write. */
bool resp_would_take(const struct nic_qp *qp, const struct packet *p, uint8_t **app);

#endif
