/* SPDX-License-Identifier: BSD-3-Clause */
/* calc.c - calculations on a request's payload; see calc.h. */
#include "calc.h"

#include <string.h>

#include "wire.h"

/* Bitwise operations treat numbers of any type as bits. */
bool nic_calc_valid(uint32_t op, uint32_t type)
{
	switch (op) {
	case NIC_CALC_ADD:
	case NIC_CALC_BAND:
	case NIC_CALC_BXOR:
	case NIC_CALC_BOR:
		return type <= NIC_CALC_FLOAT;
	case NIC_CALC_MAXLOC:
		return type == NIC_CALC_UINT;
	default:
		return false;
	}
}

static uint64_t add_doubles(uint64_t a, uint64_t b)
{
	double x, y;

	memcpy(&x, &a, sizeof(x));
	memcpy(&y, &b, sizeof(y));
	x += y;
	memcpy(&a, &x, sizeof(a));
	return a;
}

static uint64_t combine(uint32_t op, uint32_t type, uint64_t a, uint64_t b)
{
	switch (op) {
	case NIC_CALC_BAND:
		return a & b;
	case NIC_CALC_BXOR:
		return a ^ b;
	case NIC_CALC_BOR:
		return a | b;
	default:
		return type == NIC_CALC_FLOAT ? add_doubles(a, b) : a + b;
	}
}

void calc_reduce(uint32_t op, uint32_t type, const uint8_t *operands, uint32_t n, uint8_t *result)
{
	uint64_t value = wire_get64(operands), place = wire_get64(operands + 8);

	for (uint32_t i = 1; i < n; i++) {
		uint64_t v = wire_get64(operands + (size_t)i * CALC_SIZE);
		uint64_t p = wire_get64(operands + (size_t)i * CALC_SIZE + 8);

		if (op != NIC_CALC_MAXLOC) {
			value = combine(op, type, value, v);
		} else if (v > value || (v == value && p < place)) {
			value = v;
			place = p;
		}
	}
	wire_put64(result, value);
	wire_put64(result + 8, op == NIC_CALC_MAXLOC ? place : 0);
}
