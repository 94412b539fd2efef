/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calc.h - calculations on a request's payload (CORE-Direct): the requester sends a result, e.g. the sum of the
 * operands that the SGE list names, in place of the operands.
 *
 *   0        8        16
 *   | value  | place  |   the layout of an operand and of the result; big-endian. Only MAXLOC uses `place`, which can
 *                         identify the source of the largest value; among equal values the lowest place wins. The other
 *                         operations return `place` 0.
 */
#ifndef NIC_CALC_H
#define NIC_CALC_H

#include "nic.h"

#define CALC_SIZE 16u /* bytes of an operand */

/** Combine n operands, at least one, into one result. `op`: enum nic_calc_op; `type`: enum nic_calc_type. */
void calc_reduce(uint32_t op, uint32_t type, const uint8_t *operands, uint32_t n, uint8_t *result);

#endif
