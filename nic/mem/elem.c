/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * elem.c - the element unit; see elem.h.
 *
 * Each datatype of elem.def has a function (next_INT8 etc.) that computes the new element from the old one, operand and
 * compare value. Its switch consists of the cases for the kind of the datatype (CASES_SIGNED etc.). One loop
 * (run) serves all datatypes; the compiler specializes it for each datatype. It loads an element, computes the new
 * element and stores it by the CPU's compare-and-swap of that size. It retries if the element has changed meanwhile.
 */
#include "elem.h"

#include <float.h>
#include <string.h>

#include "cas16.h"
#include "elem_small.h"

#define INLINE static inline __attribute__((always_inline))

/* LONG_DOUBLE_BYTES: bytes of a long double that hold its value; x87's long double ends with padding. Packets
 * distinguish only these two formats (elem_wire_of_type). */
_Static_assert(LDBL_MANT_DIG == 64 || LDBL_MANT_DIG == 113, "long double of x87, or binary128");
#if LDBL_MANT_DIG == 64
#define LONG_DOUBLE_BYTES 10
#else
#define LONG_DOUBLE_BYTES 16
#endif

/** An element, as its bytes in memory and as words for the CPU's instructions. */
union element {
	uint8_t u8;
	uint16_t u16;
	uint32_t u32;
	uint64_t u64;
	uint128 u128;
	uint8_t bytes[ELEM_SIZE_MAX];
};

/* ---- the operations ------------------------------------------------------------------------------------------ */

/** What the new element is: the old element; a bitwise copy of the operand; a calculated value. */
enum fate { STAYS, REPLACED, CALCULATED };

/*
 * Cases of a switch over the operation. a: element, b: operand, c: compare value, in the type for comparisons; x, y, z:
 * these three in the type for calculations; r: the new element. (clang-format is off because it takes products for
 * pointers.)
 */
/* clang-format off */
#define BECOMES(value)                                                                                                 \
	r = (value);                                                                                                   \
	break
#define REPLACED_IF(condition) return (condition) ? REPLACED : STAYS

#define CASES_ALL                                                                                                      \
	case NIC_ELEM_SUM:                                                                                             \
		BECOMES(x + y);                                                                                        \
	case NIC_ELEM_DIFF:                                                                                            \
		BECOMES(x - y);                                                                                        \
	case NIC_ELEM_PROD:                                                                                            \
		BECOMES(x * y);                                                                                        \
	case NIC_ELEM_LOR:                                                                                             \
		BECOMES(a != 0 || b != 0);                                                                             \
	case NIC_ELEM_LAND:                                                                                            \
		BECOMES(a != 0 && b != 0);                                                                             \
	case NIC_ELEM_LXOR:                                                                                            \
		BECOMES((a != 0) != (b != 0));                                                                         \
	case NIC_ELEM_ATOMIC_WRITE:                                                                                    \
		return REPLACED;                                                                                       \
	case NIC_ELEM_CSWAP:                                                                                           \
		REPLACED_IF(c == a);                                                                                   \
	case NIC_ELEM_CSWAP_NE:                                                                                        \
		REPLACED_IF(c != a);

#define CASES_ORDERED                                                                                                  \
	case NIC_ELEM_MIN:                                                                                             \
		REPLACED_IF(b < a);                                                                                    \
	case NIC_ELEM_MAX:                                                                                             \
		REPLACED_IF(b > a);                                                                                    \
	case NIC_ELEM_CSWAP_LE:                                                                                        \
		REPLACED_IF(c <= a);                                                                                   \
	case NIC_ELEM_CSWAP_LT:                                                                                        \
		REPLACED_IF(c < a);                                                                                    \
	case NIC_ELEM_CSWAP_GE:                                                                                        \
		REPLACED_IF(c >= a);                                                                                   \
	case NIC_ELEM_CSWAP_GT:                                                                                        \
		REPLACED_IF(c > a);

#define CASES_INTEGER                                                                                                  \
	case NIC_ELEM_BOR:                                                                                             \
		BECOMES(x | y);                                                                                        \
	case NIC_ELEM_BAND:                                                                                            \
		BECOMES(x & y);                                                                                        \
	case NIC_ELEM_BXOR:                                                                                            \
		BECOMES(x ^ y);                                                                                        \
	case NIC_ELEM_MSWAP:                                                                                           \
		BECOMES((y & z) | (x & ~z));
/* clang-format on */

#define CASES_SIGNED   CASES_ALL CASES_ORDERED CASES_INTEGER
#define CASES_UNSIGNED CASES_ALL CASES_ORDERED CASES_INTEGER
#define CASES_REAL     CASES_ALL CASES_ORDERED
#define CASES_SMALL    CASES_ALL CASES_ORDERED
#define CASES_COMPLEX  CASES_ALL

/* Convert a number from its form in memory, and back. */
#define GET_SIGNED(name, stored)   (stored)
#define GET_UNSIGNED(name, stored) (stored)
#define GET_REAL(name, stored)	   (stored)
#define GET_COMPLEX(name, stored)  (stored)
#define GET_SMALL(name, stored)	   small_get(&small_##name, stored)

#define PUT_SIGNED(name, value)	  (value)
#define PUT_UNSIGNED(name, value) (value)
#define PUT_REAL(name, value)	  (value)
#define PUT_COMPLEX(name, value)  (value)
#define PUT_SMALL(name, value)	  small_put(&small_##name, value)

/* next_NAME: calculate the new element in *e. If the function returns STAYS or REPLACED, *e is unchanged; for REPLACED
 * the caller copies the operand. Integers are calculated as unsigned, which wraps around. */
#define ELEM_TYPE(name, number, kind, type, part, parts, wide)                                                         \
	INLINE enum fate next_##name(uint32_t op, union element *e, const uint8_t *operand, const uint8_t *compare)    \
	{                                                                                                              \
		type was, with, cmp, is;                                                                               \
		wide r;                                                                                                \
                                                                                                                       \
		memcpy(&was, e->bytes, sizeof(was));                                                                   \
		memcpy(&with, operand, sizeof(with));                                                                  \
		memcpy(&cmp, compare, sizeof(cmp));                                                                    \
		const __auto_type a = GET_##kind(name, was);                                                           \
		const __auto_type b = GET_##kind(name, with);                                                          \
		const __auto_type c = GET_##kind(name, cmp);                                                           \
		const wide x = (wide)a, y = (wide)b, z = (wide)c;                                                      \
		(void)z;                                                                                               \
		switch (op) {                                                                                          \
			CASES_##kind default : return STAYS;                                                           \
		}                                                                                                      \
		is = (type)PUT_##kind(name, r);                                                                        \
		memcpy(e->bytes, &is, sizeof(is));                                                                     \
		return CALCULATED;                                                                                     \
	}
#include "elem.def"

/* ---- elements in memory -------------------------------------------------------------------------------------- */

/** The layout of an element; constant in the loop specialized for a datatype. */
struct shape {
	uint32_t part, parts; /* bytes of a part; number of parts, two for complex numbers */
	uint32_t used;	      /* bytes of a part that are not padding */
};

INLINE uint32_t shape_size(const struct shape *s)
{
	return s->part * s->parts;
}

/** Zero the padding of an element that is to be stored or returned: padding is not part of the value. */
INLINE void pad(const struct shape *s, uint8_t *element)
{
	if (s->used < s->part)
		for (uint32_t i = 0; i < s->parts; i++)
			memset(element + i * s->part + s->used, 0, s->part - s->used);
}

/** Compare-and-swap a word of `size` bytes. @return false: *target was not *old, and *old gets the value found. */
DMA INLINE bool swap_word(void *target, uint32_t size, union element *old, const union element *next)
{
#define SWAP(field)                                                                                                    \
	__atomic_compare_exchange_n((__typeof__(&old->field))target, &old->field, next->field, false,                  \
				    __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)
	switch (size) {
	case 1:
		return SWAP(u8);
	case 2:
		return SWAP(u16);
	case 4:
		return SWAP(u32);
	case 8:
		return SWAP(u64);
	default: {
		uint64_t was[2] = {(uint64_t)old->u128, (uint64_t)(old->u128 >> 64)};
		const uint64_t is[2] = {(uint64_t)next->u128, (uint64_t)(next->u128 >> 64)};
		bool done = cas16(target, was, is);

		old->u128 = (uint128)was[1] << 64 | was[0];
		return done;
	}
	}
#undef SWAP
}

/** Load a word. A 16-byte word is loaded in two halves and may be torn. */
DMA INLINE void guess_word(const void *target, uint32_t size, union element *word)
{
	switch (size) {
	case 1:
		word->u8 = __atomic_load_n((const uint8_t *)target, __ATOMIC_SEQ_CST);
		break;
	case 2:
		word->u16 = __atomic_load_n((const uint16_t *)target, __ATOMIC_SEQ_CST);
		break;
	case 4:
		word->u32 = __atomic_load_n((const uint32_t *)target, __ATOMIC_SEQ_CST);
		break;
	case 8:
		word->u64 = __atomic_load_n((const uint64_t *)target, __ATOMIC_SEQ_CST);
		break;
	default: {
		const uint64_t *half = target;
		uint64_t halves[2] = {__atomic_load_n(half, __ATOMIC_RELAXED),
				      __atomic_load_n(half + 1, __ATOMIC_RELAXED)};

		memcpy(word->bytes, halves, sizeof(halves));
	}
	}
}

typedef enum fate (*next_fn)(uint32_t op, union element *e, const uint8_t *operand, const uint8_t *compare);

/** Compute the new element in *is. @return whether to store it. */
INLINE bool become(const struct shape *s, next_fn next, uint32_t op, const union element *old, union element *is,
		   const uint8_t *operand, const uint8_t *compare)
{
	enum fate fate;

	*is = *old;
	fate = next(op, is, operand, compare);
	if (fate == REPLACED)
		memcpy(is->bytes, operand, shape_size(s));
	if (fate != STAYS)
		pad(s, is->bytes);
	return fate != STAYS;
}

DMA INLINE void one_word(const struct shape *s, next_fn next, uint32_t op, uint8_t *target, const uint8_t *operand,
			 const uint8_t *compare, union element *old)
{
	uint32_t size = shape_size(s);
	union element is;

	guess_word(target, size, old);
	/* An unchanged element needs no store. Exception: the load of a 16-byte element may have been torn, so swap it
	 * with itself; success proves that the load was not torn. */
	do
		if (!become(s, next, op, old, &is, operand, compare) && size < 16)
			break;
	while (!swap_word(target, size, old, &is));
}

/** Update an element part by part, because it is too large or misaligned for one instruction. If code that does not
 * take the lock changes a part other than the first meanwhile, that change can be lost. */
DMA INLINE void by_parts(const struct shape *s, next_fn next, uint32_t op, uint8_t *target, const uint8_t *operand,
			 const uint8_t *compare, union element *old)
{
	union element part, is, out;

	do {
		for (uint32_t i = 0; i < s->parts; i++) {
			guess_word(target + i * s->part, s->part, &part);
			while (s->part == 16 && !swap_word(target + i * s->part, s->part, &part, &part))
				;
			memcpy(old->bytes + i * s->part, part.bytes, s->part);
		}
		if (!become(s, next, op, old, &is, operand, compare))
			return;
		memcpy(part.bytes, old->bytes, s->part);
		memcpy(out.bytes, is.bytes, s->part);
	} while (!swap_word(target, s->part, &part, &out));
	for (uint32_t i = 1; i < s->parts; i++) {
		memcpy(part.bytes, old->bytes + i * s->part, s->part);
		memcpy(out.bytes, is.bytes + i * s->part, s->part);
		while (!swap_word(target + i * s->part, s->part, &part, &out))
			;
	}
}

/** The loop over elements, specialized for a datatype. */
DMA INLINE void run(const struct nic_elements *e, const struct shape *s, next_fn next, uint8_t *target)
{
	static const uint8_t none[ELEM_SIZE_MAX];
	const uint8_t *operand = e->op == NIC_ELEM_ATOMIC_READ ? none : e->operand;
	const uint8_t *compare = e->compare ? e->compare : none;
	uint32_t size = shape_size(s), operand_step = operand == none ? 0 : size,
		 compare_step = compare == none ? 0 : size;
	uint8_t *result = e->result;
	union element old;

	for (uint32_t i = 0; i < e->count; i++) {
		if (s->parts == 1 || (size <= 16 && ((uintptr_t)target & (size - 1)) == 0))
			one_word(s, next, e->op, target, operand, compare, &old);
		else
			by_parts(s, next, e->op, target, operand, compare, &old);
		if (result) {
			pad(s, old.bytes);
			memcpy(result, old.bytes, size);
			result += size;
		}
		target += size;
		operand += operand_step;
		compare += compare_step;
	}
}

/* ---- datatypes ----------------------------------------------------------------------------------------------- */

#define USED_SIGNED(part)   sizeof(part)
#define USED_UNSIGNED(part) sizeof(part)
#define USED_SMALL(part)    sizeof(part)
#define USED_REAL(part)	    (sizeof(part) == 16 ? LONG_DOUBLE_BYTES : sizeof(part))
#define USED_COMPLEX(part)  USED_REAL(part)

#define ELEM_TYPE(name, number, kind, type, part_type, n_parts, wide)                                                  \
	_Static_assert(sizeof(type) == sizeof(part_type) * (n_parts), #name);                                          \
	static const struct shape shape_##name = {sizeof(part_type), n_parts, USED_##kind(part_type)};                 \
	DMA static void run_##name(const struct nic_elements *e, uint8_t *target)                                      \
	{                                                                                                              \
		run(e, &shape_##name, next_##name, target);                                                            \
	}
#include "elem.def"

enum kind { SIGNED = 1, UNSIGNED = 2, REAL = 4, SMALL = 8, COMPLEX = 16 };
enum kinds {
	INTEGER = SIGNED | UNSIGNED,
	ORDERED = INTEGER | REAL | SMALL,
	ALL = ORDERED | COMPLEX,
};
enum forms {
	FETCH = 1 << NIC_ELEM_FETCH,
	UPDATE = 1 << NIC_ELEM_BASE | FETCH,
	COMPARE = 1 << NIC_ELEM_COMPARE,
};

static const struct {
	const struct shape *shape;
	void (*run)(const struct nic_elements *e, uint8_t *target);
	enum kind kind;
} types[] = {
#define ELEM_TYPE(name, number, kind, type, part, parts, wide) [number] = {&shape_##name, run_##name, kind},
#include "elem.def"
};

static const struct {
	uint8_t kinds, forms;
} ops[] = {
#define ELEM_OP(name, number, kinds, forms, sentence) [number] = {kinds, forms},
#include "elem.def"
};

const uint8_t elem_sizes[] = {
#define ELEM_TYPE(name, number, kind, type, part, parts, wide) [number] = sizeof(type),
#include "elem.def"
	[NIC_DT_COUNT] = 0,
};

const uint8_t elem_vector_counts[] = {
#define ELEM_OP(name, number, kinds, forms, sentence)                                                                  \
	[number] = (forms) == COMPARE ? 2 : (number) == NIC_ELEM_ATOMIC_READ ? 0 : 1,
#include "elem.def"
};

bool nic_elem_valid(uint32_t op, uint32_t datatype, enum nic_elem_form form)
{
	return op < NIC_ELEM_COUNT && datatype < NIC_DT_COUNT && (ops[op].kinds & types[datatype].kind) &&
	       (unsigned)form <= NIC_ELEM_COMPARE && ops[op].forms >> form & 1;
}

uint32_t nic_elem_size(uint32_t datatype)
{
	return datatype < NIC_DT_COUNT ? elem_size(datatype) : 0;
}

uint32_t nic_elem_align(uint32_t datatype)
{
	return datatype < NIC_DT_COUNT ? types[datatype].shape->part : 0;
}

bool elem_needs_lock(uint32_t datatype, const void *target)
{
	uint32_t size = nic_elem_size(datatype);

	return size > 16 || ((uintptr_t)target & (size - 1));
}

bool elem_rounds(uint32_t datatype)
{
	return !(types[datatype].kind & INTEGER);
}

void elem_execute(const struct nic_elements *e, void *target)
{
	types[e->datatype].run(e, target);
}

/* ---- network byte order -------------------------------------------------------------------------------- */

#define WIRE_OTHER_LONG_DOUBLE 0x80

/** The flag that this host adds to a datatype in packets, or 0. */
static uint32_t wire_bit(uint32_t datatype)
{
	bool is_long = datatype == NIC_DT_LONG_DOUBLE || datatype == NIC_DT_LONG_DOUBLE_COMPLEX;

	return is_long && LONG_DOUBLE_BYTES == 16 ? WIRE_OTHER_LONG_DOUBLE : 0;
}

uint32_t elem_wire_of_type(uint32_t datatype)
{
	return datatype | wire_bit(datatype);
}

uint32_t elem_type_of_wire(uint32_t wire)
{
	uint32_t datatype = wire & ~(uint32_t)WIRE_OTHER_LONG_DOUBLE;

	return datatype < NIC_DT_COUNT && elem_wire_of_type(datatype) == wire ? datatype : (uint32_t)NIC_DT_COUNT;
}

/** Reverse the bytes of each of n words of `size` bytes; `to` and `from` may be the same. */
INLINE void reverse_words(uint8_t *to, const uint8_t *from, uint32_t n, uint32_t size)
{
	for (size_t i = 0; i < (size_t)n * size; i += size) {
		union element word;

		memcpy(word.bytes, from + i, size);
		if (size == 2)
			word.u16 = __builtin_bswap16(word.u16);
		else if (size == 4)
			word.u32 = __builtin_bswap32(word.u32);
		else if (size == 8)
			word.u64 = __builtin_bswap64(word.u64);
		else
			word.u128 = (uint128)__builtin_bswap64((uint64_t)word.u128) << 64 |
				    __builtin_bswap64((uint64_t)(word.u128 >> 64));
		memcpy(to + i, word.bytes, size);
	}
}

static void reverse(const struct shape *s, uint8_t *to, const uint8_t *from, uint32_t count)
{
	uint32_t n = count * s->parts;

	if (s->part == 2)
		reverse_words(to, from, n, 2);
	else if (s->part == 4)
		reverse_words(to, from, n, 4);
	else if (s->part == 8)
		reverse_words(to, from, n, 8);
	else
		reverse_words(to, from, n, 16);
}

/** Convert between host and network order: the same operation in both directions. */
static void convert(uint32_t datatype, uint8_t *to, const uint8_t *from, uint32_t count)
{
	const struct shape *s = types[datatype].shape;

	if (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ || s->part == 1)
		memmove(to, from, (size_t)count * shape_size(s));
	else
		reverse(s, to, from, count);
}

void elem_to_wire(uint32_t datatype, uint8_t *to, const uint8_t *from, uint32_t count)
{
	convert(datatype, to, from, count);
}

void elem_from_wire(uint32_t datatype, uint8_t *to, const uint8_t *from, uint32_t count)
{
	convert(datatype, to, from, count);
}
