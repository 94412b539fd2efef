/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elem.h - the element unit: atomic operations on vectors of typed elements, as in fi_atomic(3) (struct nic_elements).
 *
 * elem.def defines the operations; for behaviour that C leaves open see elem.md.
 */
#ifndef NIC_ELEM_H
#define NIC_ELEM_H

#include "nic_elem.h"

/** Bytes of the longest element. */
#define ELEM_SIZE_MAX 32

/**
 * Whether an element must be operated on singly, under the lock of atomic.h, because CPUs have no instruction for it:
 * elements of 32 bytes, and complex numbers aligned to their parts but not to their whole size.
 */
bool elem_needs_lock(uint32_t datatype, const void *target);

extern const uint8_t elem_sizes[NIC_DT_COUNT + 1];
extern const uint8_t elem_vector_counts[NIC_ELEM_COUNT];

/** As nic_elem_size, without its range check: a power of two for a valid datatype, 0 for NIC_DT_COUNT. */
static inline uint32_t elem_size(uint32_t datatype)
{
	return elem_sizes[datatype];
}
/** Number of vectors (operands, compare values) that a request carries. 1 for an unknown operation. */
static inline uint32_t elem_vectors(uint32_t op)
{
	return op < NIC_ELEM_COUNT ? elem_vector_counts[op] : 1;
}
/** Whether the operation takes compare values besides operands; if so, the compare form is its only form. */
static inline bool elem_compares(uint32_t op)
{
	return elem_vectors(op) == 2;
}

/** Whether the datatype's operations depend on the CPU's floating-point settings. */
bool elem_rounds(uint32_t datatype);

/**
 * Execute an operation element by element, first to last. Each element is updated in one atomic step with respect to
 * all atomic instructions on the same memory. An element that needs the lock is atomic only with respect to other
 * operations under the lock; all other code sees one step per part.
 * @param e a valid operation and datatype (nic_elem_valid) with the operands they need; count 1 if the lock is needed.
 * @param target application memory, aligned to the parts of an element (nic_elem_align).
 */
void elem_execute(const struct nic_elements *e, void *target);

/** A datatype's code in packets: its number, plus a flag bit for long double types if this host's long double is not
 *  x87's, so that hosts with different formats refuse each other's requests. The second function is the inverse; it
 * returns NIC_DT_COUNT if this host does not have the type. */
uint32_t elem_wire_of_type(uint32_t datatype);
uint32_t elem_type_of_wire(uint32_t wire);
/** Convert elements to network order, and back: most significant byte first in each part, padding included. `to` and
 *  `from` may be the same. */
void elem_to_wire(uint32_t datatype, uint8_t *to, const uint8_t *from, uint32_t count);
void elem_from_wire(uint32_t datatype, uint8_t *to, const uint8_t *from, uint32_t count);

#endif
