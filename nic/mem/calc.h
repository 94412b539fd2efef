/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calc.h - calculations on a request's payload (CORE-Direct): gathers the operands and sends e.g. their sum. A leaf.
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

/** Reduce n operands, at least one, to a result. */
void calc_reduce(uint32_t op, uint32_t type, const uint8_t *operands, uint32_t n, uint8_t *result);

#endif
