/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_elem.h - atomic operations on typed elements (NIC_WR_ELEMENTS, nic_rdm_atomic); see nic.h. */
#ifndef NIC_NIC_ELEM_H
#define NIC_NIC_ELEM_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Atomic operations on vectors of typed elements, as in fi_atomic(3). elem.def lists them all.
 */

/** Values of libfabric's enum fi_datatype. */
enum nic_datatype {
#define ELEM_TYPE(name, number, kind, type, part, parts, wide) NIC_DT_##name = number,
#include "elem.def"
	NIC_DT_COUNT
};

/** Values of libfabric's enum fi_op. */
enum nic_elem_op {
#define ELEM_OP(name, number, kinds, forms, sentence) NIC_ELEM_##name = number,
#include "elem.def"
	NIC_ELEM_COUNT
};

/** BASE returns nothing. FETCH and COMPARE return the elements' previous values. COMPARE also takes compare values. */
enum nic_elem_form { NIC_ELEM_BASE, NIC_ELEM_FETCH, NIC_ELEM_COMPARE };

/** An operation on `count` elements, in the host's byte order. The vectors here need no alignment. */
struct nic_elements {
	uint8_t op, datatype; /* enum nic_elem_op, enum nic_datatype */
	uint32_t count;
	const void *operand; /* ignored by ATOMIC_READ */
	const void *compare; /* NIC_ELEM_COMPARE only: compare values, or MSWAP's mask */
	void *result;	     /* NULL, or receives the elements' previous values */
};

/** Whether this operation exists in this form for this datatype; false for numbers out of range. */
bool nic_elem_valid(uint32_t op, uint32_t datatype, enum nic_elem_form form);
/** Size of an element in bytes; 0: no such datatype. */
uint32_t nic_elem_size(uint32_t datatype);
/** Alignment that an element needs: its size, or the size of one part for complex numbers. 0: no such datatype. */
uint32_t nic_elem_align(uint32_t datatype);

#endif
