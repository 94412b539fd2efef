/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elem_model.h - what operations on elements are to do, by a model that shares nothing with who executes them, and values to try
 * them with. For tests of nic/mem/elem.c, and of what programs get to see of it.
 */
#ifndef ELEM_MODEL_H
#define ELEM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "nic.h"

#define MODEL_SIZE_MAX 32 /* of an element */

/** i: integer, f: real (C's), s: small, c: complex. */
char model_kind(unsigned dt);
/** 0: no such datatype. */
unsigned model_size(unsigned dt);
/** Of a complex datatype: that of its parts. */
unsigned model_part(unsigned dt);
const char *model_name(unsigned dt);
/** As fi_atomic(3) defines them: which operations make sense for which kinds, and in which form. Any numbers. */
bool model_valid(unsigned op, unsigned dt, unsigned form);

/** An element `a`, the operand b and, for a comparing operation, the compare value or mask c. @return whether the element is
 *  written to, then with what is in r. */
bool model_execute(unsigned dt, unsigned op, uint8_t *r, const uint8_t *a, const uint8_t *b, const uint8_t *c);
/** Whether that is what the operation may have made. NaNs that have been calculated may differ in what they contain; a complex
 *  product that has NaN by the formula may be infinite. */
bool model_same(unsigned dt, unsigned op, const uint8_t *got, const uint8_t *expected);
/** As an answer has it: with zeroes where x87 has padding. */
void model_clean(unsigned dt, uint8_t *a);
/** A number of any kind but complex. */
void model_put(unsigned dt, uint8_t *bytes, long double value);
/** 1 or 0; a complex number's second part is 0. */
void model_put_bool(unsigned dt, uint8_t *r, bool value);

/** Any number. The seed is not 0. */
uint64_t model_word(uint64_t *seed);
/** Values at the edges of a datatype rather often, and any others. */
void model_random(uint64_t *seed, unsigned dt, uint8_t *bytes);

#endif
