/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * calc.h - calculations on what a request sends: its operands are gathered, and their sum, or the like, goes (CORE-Direct). A leaf.
 *
 *   0        8        16
 *   | value  | place  |   an operand, and the result; big-endian. `place` counts for MAXLOC only, whoever sends the largest
 *                         value may say there who he is; of equal values the lowest is kept. It is 0 in other results.
 */
#ifndef NIC_CALC_H
#define NIC_CALC_H

#include "nic.h"

#define CALC_SIZE 16u /* bytes of an operand */

/** Calculate with n operands, at least one. */
void calc_reduce(uint32_t op, uint32_t type, const uint8_t *operands, uint32_t n, uint8_t *result);

#endif
