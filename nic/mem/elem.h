/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elem.h - the element unit: atomic operations on vectors of typed elements, as fi_atomic(3) has them (struct nic_elements).
 *
 * What each operation does follows from elem.def; where C leaves room, see elem.md.
 */
#ifndef NIC_ELEM_H
#define NIC_ELEM_H

#include "nic.h"

/** Bytes of the longest element. */
#define ELEM_SIZE_MAX 32

/**
 * Whether the element has to be operated on under the lock of atomic.h, alone: CPUs have no instruction for it. That is so for 32
 * bytes, and for complex numbers that lie at a multiple of the size of their parts only.
 */
bool elem_needs_lock(uint32_t datatype, const void *target);

extern const uint8_t elem_sizes[NIC_DT_COUNT + 1];
extern const uint8_t elem_vector_counts[NIC_ELEM_COUNT];

/** As nic_elem_size, of a datatype that there is: a power of two. Of NIC_DT_COUNT 0. */
static inline uint32_t elem_size(uint32_t datatype)
{
	return elem_sizes[datatype];
}
/** Vectors that go with the operation to whoever executes it: operands, compare values. */
static inline uint32_t elem_vectors(uint32_t op)
{
	return op < NIC_ELEM_COUNT ? elem_vector_counts[op] : 1;
}
/** Whether the operation compares: then it has compare values besides operands, and comes in no other form. */
static inline bool elem_compares(uint32_t op)
{
	return elem_vectors(op) == 2;
}

/** Whether what the datatype's operations do depends on how the CPU is set to calculate with fractions. */
bool elem_rounds(uint32_t datatype);

/**
 * Execute, element by element, from the first to the last. Each is one atomic step towards whoever uses atomic instructions on
 * the same memory, but for those that need the lock: these are one step towards other operations under the lock, and towards
 * others a step for each part.
 * @param e a pair that nic_elem_valid knows, with the operands that it needs. Where the lock is needed, of one element.
 * @param target application memory, aligned to the parts of an element (nic_elem_align).
 */
void elem_execute(const struct nic_elements *e, void *target);

/** How packets call a datatype: by its number, with a bit more where this host's long double is not that of x87, so that hosts
 *  of different ones do not misunderstand each other. And back; NIC_DT_COUNT: it is none of this host's. */
uint32_t elem_wire_of_type(uint32_t datatype);
uint32_t elem_type_of_wire(uint32_t wire);
/** Elements to the order of the network, and back: of each part, padding included, the most significant byte first. `to` and
 *  `from` may be the same. */
void elem_to_wire(uint32_t datatype, uint8_t *to, const uint8_t *from, uint32_t count);
void elem_from_wire(uint32_t datatype, uint8_t *to, const uint8_t *from, uint32_t count);

#endif
