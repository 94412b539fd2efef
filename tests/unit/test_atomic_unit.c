/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_atomic_unit.c - nic/atomic.c against a model that goes bit by bit, with random and adversarial operands; against itself
 * in several threads; and the constructions by which programs make other operations of the masked ones.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../atomic_model.h"
#include "atomic.h"
#include "sanitizer.h"

#if defined(__SANITIZE_ADDRESS__) || TEST_TSAN
#define CASES 40000
#else
#define CASES 1250000 /* of each operation and size: ten million together */
#endif
#define THREADS	  4
#define PER_CHILD 50000

static const uint32_t sizes[] = {4, 8, 16, 32};

/* ---- operands ------------------------------------------------------------------------------------------------ */

static uint64_t random_state = 1;

static uint64_t random_word(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

static uint64_t pattern(uint64_t kind)
{
	switch (kind % 8) {
	case 0:
		return 0;
	case 1:
		return UINT64_MAX;
	case 2:
		return 1ull << 63;
	case 3:
		return 0x5555555555555555;
	case 4:
		return 0xaaaaaaaaaaaaaaaa;
	case 5:
		return 1ull << random_word() % 64;
	case 6:
		return random_word() & random_word() & random_word();
	default:
		return random_word();
	}
}

/** All words of the same kind, or each of its own. */
static void operand(uint64_t *words, uint32_t size)
{
	uint64_t kind = random_word(), own = random_word();

	for (unsigned i = 0; i < ATOMIC_WORDS; i++)
		words[i] = i * 8 < size ? pattern(own & 1 ? random_word() : kind) : 0;
	if (size == 4)
		words[0] &= UINT32_MAX;
}

static unsigned changes; /* of memory, by operations checked */

/** Memory, and a word behind it that is to stay. */
static void random_memory(uint64_t memory[ATOMIC_WORDS + 1])
{
	for (unsigned i = 0; i <= ATOMIC_WORDS; i++)
		memory[i] = pattern(random_word());
}

/* ---- properties ---------------------------------------------------------------------------------------------- */

static void check(const struct atomic *a, const uint64_t *before)
{
	_Alignas(32) uint64_t target[ATOMIC_WORDS + 1], expect[ATOMIC_WORDS + 1];
	uint64_t orig[ATOMIC_WORDS] = {0};

	memcpy(target, before, sizeof(target));
	memcpy(expect, before, sizeof(expect));
	if (a->op == ATOMIC_MCS)
		model_swap(expect, a);
	else
		model_add(expect, a->size * 8, a->swap_add, a->boundary);
	atomic_execute(a, target, orig);
	changes += memcmp(target, before, a->size) != 0;
	if (memcmp(target, expect, sizeof(target)) || memcmp(orig, before, a->size))
		fail_msg("op %d, %u bytes: %016llx became %016llx, not %016llx", a->op, a->size,
			 (unsigned long long)before[0], (unsigned long long)target[0], (unsigned long long)expect[0]);
}

static void masked_compare_and_swap_is_the_models(void **state)
{
	(void)state;
	changes = 0;
	for (unsigned n = 0; n < CASES * 4; n++) {
		struct atomic a = {.op = ATOMIC_MCS, .size = sizes[n % 4]};
		uint64_t before[ATOMIC_WORDS + 1];

		random_memory(before);
		operand(a.swap_add, a.size);
		operand(a.compare, a.size);
		operand(a.swap_mask, a.size);
		operand(a.compare_mask, a.size);
		/* Random values seldom compare equal: half of them do so where it matters, all but for one bit in some. */
		if (random_word() & 1) {
			for (unsigned i = 0; i * 8 < a.size; i++)
				a.compare[i] = (before[i] & a.compare_mask[i]) | (a.compare[i] & ~a.compare_mask[i]);
			if (random_word() % 4 == 0)
				a.compare[random_word() % ((a.size + 7) / 8)] ^= 1ull << random_word() % 32;
			if (a.size == 4)
				a.compare[0] &= UINT32_MAX;
		}
		check(&a, before);
	}
	assert_in_range(changes, CASES, 3 * CASES); /* many comparisons succeed, and many fail */
}

static void masked_fetch_and_add_is_the_models(void **state)
{
	(void)state;
	for (unsigned n = 0; n < CASES * 4; n++) {
		struct atomic a = {.op = ATOMIC_MFA, .size = sizes[n % 4]};
		uint64_t before[ATOMIC_WORDS + 1];

		random_memory(before);
		operand(a.swap_add, a.size);
		operand(a.boundary, a.size);
		check(&a, before);
	}
}

/** The standard operations are masked ones whose masks are all ones, or that have no boundaries. */
static void standard_operations_are_special_masked_ones(void **state)
{
	(void)state;
	for (unsigned n = 0; n < CASES; n++) {
		struct atomic a = {.op = ATOMIC_FAA, .size = 8};
		uint64_t target, expect, orig, before = pattern(random_word());

		operand(a.swap_add, 8);
		target = expect = before;
		atomic_execute(&a, &target, &orig);
		model_add(&expect, 64, a.swap_add, NULL);
		assert_int_equal(target, expect);
		assert_int_equal(orig, before);

		a.op = ATOMIC_CAS;
		a.compare[0] = random_word() & 1 ? before : pattern(random_word());
		a.swap_mask[0] = a.compare_mask[0] = UINT64_MAX;
		target = expect = before;
		atomic_execute(&a, &target, &orig);
		model_swap(&expect, &a);
		assert_int_equal(target, expect);
		assert_int_equal(orig, before);
	}
}

/* ---- what programs make of them ------------------------------------------------------------------------------ */

static uint64_t mcs(uint64_t *target, uint32_t size, uint64_t swap, uint64_t swap_mask)
{
	struct atomic a = {.op = ATOMIC_MCS, .size = size, .swap_add = {swap}, .swap_mask = {swap_mask}};
	uint64_t orig;

	atomic_execute(&a, target, &orig);
	return orig;
}

static uint64_t mfa(uint64_t *target, uint32_t size, uint64_t add, uint64_t boundary)
{
	struct atomic a = {.op = ATOMIC_MFA, .size = size, .swap_add = {add}, .boundary = {boundary}};
	uint64_t orig;

	atomic_execute(&a, target, &orig);
	return orig;
}

#define BEFORE 0x0123456789abcdef
#define VALUE  0xff00ff00f0f00f0f

static void ucx_and_is_a_masked_swap_of_the_zeroes(void **state)
{
	uint64_t target = BEFORE;

	(void)state;
	assert_int_equal(mcs(&target, 8, VALUE, ~VALUE), BEFORE);
	assert_int_equal(target, BEFORE & VALUE);
}

static void ucx_or_is_a_masked_swap_of_the_ones(void **state)
{
	uint64_t target = BEFORE;

	(void)state;
	assert_int_equal(mcs(&target, 8, VALUE, VALUE), BEFORE);
	assert_int_equal(target, BEFORE | VALUE);
}

static void ucx_xor_is_an_addition_to_fields_of_one_bit(void **state)
{
	uint64_t target = BEFORE;

	(void)state;
	assert_int_equal(mfa(&target, 8, VALUE, UINT64_MAX), BEFORE);
	assert_int_equal(target, BEFORE ^ VALUE);
}

static void ucx_swap_is_a_swap_of_all_without_a_comparison(void **state)
{
	uint64_t target = BEFORE;

	(void)state;
	assert_int_equal(mcs(&target, 8, VALUE, UINT64_MAX), BEFORE);
	assert_int_equal(target, VALUE);
	assert_int_equal(mcs(&target, 4, 0x11223344, UINT32_MAX), (uint32_t)VALUE);
	assert_int_equal(target, (VALUE & ~(uint64_t)UINT32_MAX) | 0x11223344);
}

static void ucx_32_bit_addition_does_not_reach_the_other_half(void **state)
{
	uint64_t target = 0x00000001ffffffff;

	(void)state;
	assert_int_equal(mfa(&target, 4, 2, 0), UINT32_MAX);
	assert_int_equal(target, 0x0000000100000001);
}

/** Sherman's locks: the top bit alone is the field's end, which is an ordinary addition. */
static void sherman_boundary_at_the_top_bit_is_an_addition(void **state)
{
	uint64_t target = UINT64_MAX;

	(void)state;
	assert_int_equal(mfa(&target, 8, 3, 1ull << 63), UINT64_MAX);
	assert_int_equal(target, 2);
}

static void carries_cross_words_where_no_field_ends(void **state)
{
	_Alignas(16) uint64_t target[2] = {UINT64_MAX, 7};
	struct atomic a = {.op = ATOMIC_MFA, .size = 16, .swap_add = {1, 0}};
	uint64_t orig[ATOMIC_WORDS];

	(void)state;
	atomic_execute(&a, target, orig);
	assert_int_equal(target[0], 0);
	assert_int_equal(target[1], 8);
	target[0] = UINT64_MAX;
	a.boundary[0] = 1ull << 63;
	atomic_execute(&a, target, orig);
	assert_int_equal(target[0], 0);
	assert_int_equal(target[1], 8);
}

/* ---- several at once ----------------------------------------------------------------------------------------- */

static _Alignas(32) uint64_t shared[ATOMIC_WORDS];

struct hammer {
	uint32_t size;
	enum atomic_op op;
};

/** Adds one to every 32-bit field, by an addition or by comparing and swapping until it succeeds. */
static void *hammer(void *arg)
{
	const struct hammer *h = arg;
	struct atomic a = {.op = h->op, .size = h->size};
	uint64_t orig[ATOMIC_WORDS], seen[ATOMIC_WORDS] = {0};
	unsigned words = (h->size + 7) / 8;

	for (unsigned i = 0; i < words; i++) {
		a.swap_mask[i] = a.compare_mask[i] = h->size == 4 ? UINT32_MAX : UINT64_MAX;
		a.boundary[i] = h->size == 4 ? 1ull << 31 : 1ull << 63 | 1ull << 31;
	}
	for (unsigned n = 0; n < PER_CHILD;) {
		for (unsigned i = 0; i < words; i++) {
			uint64_t one = h->size == 4 ? 1 : 0x100000001;

			a.compare[i] = seen[i];
			a.swap_add[i] = h->op == ATOMIC_MFA ? one : seen[i] + one;
		}
		if (h->size == ATOMIC_SIZE_MAX)
			atomic_lock(shared);
		atomic_execute(&a, shared, orig);
		if (h->size == ATOMIC_SIZE_MAX)
			atomic_unlock(shared);
		n += h->op == ATOMIC_MFA || memcmp(orig, seen, words * 8) == 0;
		memcpy(seen, orig, words * 8);
	}
	return NULL;
}

static void no_update_is_lost_among_threads(void **state)
{
	(void)state;
	for (unsigned s = 0; s < 4; s++) {
		uint64_t all = (uint64_t)THREADS * PER_CHILD;
		struct hammer kinds[] = {{sizes[s], ATOMIC_MFA}, {sizes[s], ATOMIC_MCS}};
		pthread_t threads[THREADS];

		memset(shared, 0, sizeof(shared));
		for (unsigned i = 0; i < THREADS; i++)
			assert_int_equal(pthread_create(&threads[i], NULL, hammer, &kinds[i % 2]), 0);
		for (unsigned i = 0; i < THREADS; i++)
			assert_int_equal(pthread_join(threads[i], NULL), 0);
		assert_int_equal(shared[0], sizes[s] == 4 ? all : all << 32 | all);
		for (unsigned i = 1; i < ATOMIC_WORDS; i++)
			assert_int_equal(shared[i], i * 8 < sizes[s] ? all << 32 | all : 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(masked_compare_and_swap_is_the_models),
		cmocka_unit_test(masked_fetch_and_add_is_the_models),
		cmocka_unit_test(standard_operations_are_special_masked_ones),
		cmocka_unit_test(ucx_and_is_a_masked_swap_of_the_zeroes),
		cmocka_unit_test(ucx_or_is_a_masked_swap_of_the_ones),
		cmocka_unit_test(ucx_xor_is_an_addition_to_fields_of_one_bit),
		cmocka_unit_test(ucx_swap_is_a_swap_of_all_without_a_comparison),
		cmocka_unit_test(ucx_32_bit_addition_does_not_reach_the_other_half),
		cmocka_unit_test(sherman_boundary_at_the_top_bit_is_an_addition),
		cmocka_unit_test(carries_cross_words_where_no_field_ends),
		cmocka_unit_test(no_update_is_lost_among_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
