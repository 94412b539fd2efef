/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elem_model.h - reference model of element operations, independent of the implementation, and test values for them.
 * For tests of nic/mem/elem.c and of its results as seen by programs.
 */
#ifndef ELEM_MODEL_H
#define ELEM_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "nic_elem.h"

#define MODEL_SIZE_MAX 32 /* bytes, largest element */

/** @return i: integer, f: real type of C, s: small floating-point format, c: complex */
char model_kind(unsigned dt);
/** @return bytes of an element; 0: no such datatype */
unsigned model_size(unsigned dt);
/** @return the datatype of the parts of a complex datatype */
unsigned model_part(unsigned dt);
const char *model_name(unsigned dt);
/** Whether fi_atomic(3) defines `op` for this datatype in this form. Accepts any `op` and `dt`. */
bool model_valid(unsigned op, unsigned dt, unsigned form);

/** Execute `op` on element `a` with operand `b` and, for comparing operations, the compare value or mask `c`.
 *  @return whether the element is written; if so, `r` is its new value. */
bool model_execute(unsigned dt, unsigned op, uint8_t *r, const uint8_t *a, const uint8_t *b, const uint8_t *c);
/** Whether `got` is a valid result where the model says `expected`. Payloads of calculated NaNs may differ; a complex
 *  product whose parts are both NaN by the formula may be infinite. */
bool model_same(unsigned dt, unsigned op, const uint8_t *got, const uint8_t *expected);
/** Zero the padding bytes of an x87 long double, which are zero in responses, too. */
void model_clean(unsigned dt, uint8_t *a);
/** Store a number of any datatype that is not complex. */
void model_put(unsigned dt, uint8_t *bytes, long double value);
/** Store 1 or 0; the imaginary part of a complex number is 0. */
void model_put_bool(unsigned dt, uint8_t *r, bool value);

/** A random number. The seed must not be 0. */
uint64_t model_word(uint64_t *seed);
/** A random element, often a value at the limits of the datatype. */
void model_random(uint64_t *seed, unsigned dt, uint8_t *bytes);

#endif
