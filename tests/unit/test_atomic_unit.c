/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_atomic_unit.c - nic/mem/atomic.c: compared with a bit-by-bit model, for random and adversarial operands; run by
 * several threads at once; and used in the ways in which programs build other operations from masked atomics.
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
#include "wire_util.h"

#if defined(__SANITIZE_ADDRESS__) || TEST_TSAN || defined(TEST_EMULATED)
#define CASES 40000
#else
#define CASES 1250000 /* for each operation and size: ten million in all */
#endif
#define THREADS	  4
#define PER_CHILD 50000

static const uint32_t sizes[] = {4, 8, 16, 32};

/* ---- operands ------------------------------------------------------------------------------------------------ */

static uint64_t seed = 1;

static uint64_t random_word(void)
{
	return util_random(&seed);
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

/** Fill in an operand: all words with the same kind of pattern, or each word with its own kind. */
static void operand(uint64_t *words, uint32_t size)
{
	uint64_t kind = random_word(), own = random_word();

	for (unsigned i = 0; i < NIC_ATOMIC_WORDS; i++)
		words[i] = i * 8 < size ? pattern(own & 1 ? random_word() : kind) : 0;
	if (size == 4)
		words[0] &= UINT32_MAX;
}

static unsigned changes; /* number of checked operations that changed memory */

/** Fill memory with random words, and one more word after it that must not change. */
static void random_memory(uint64_t memory[NIC_ATOMIC_WORDS + 1])
{
	for (unsigned i = 0; i <= NIC_ATOMIC_WORDS; i++)
		memory[i] = pattern(random_word());
}

/* ---- properties ---------------------------------------------------------------------------------------------- */

static void check(const struct nic_atomic *a, const uint64_t *before)
{
	_Alignas(32) uint64_t target[NIC_ATOMIC_WORDS + 1], expect[NIC_ATOMIC_WORDS + 1];
	uint64_t orig[NIC_ATOMIC_WORDS] = {0}, was[NIC_ATOMIC_WORDS];

	memcpy(target, before, sizeof(target));
	memcpy(expect, before, sizeof(expect));
	if (a->op == NIC_ATOMIC_MCS)
		model_swap(expect, a);
	else
		model_add_words(expect, a->size, a->swap_add, a->boundary);
	atomic_execute(a, target, orig);
	model_from_words(was, orig, a->size);
	changes += memcmp(target, before, a->size) != 0;
	if (memcmp(target, expect, sizeof(target)) || memcmp(was, before, a->size))
		fail_msg("op %d, %u bytes: %016llx became %016llx, not %016llx", a->op, a->size,
			 (unsigned long long)before[0], (unsigned long long)target[0], (unsigned long long)expect[0]);
}

static void masked_compare_and_swap_is_the_models(void **state)
{
	(void)state;
	changes = 0;
	for (unsigned n = 0; n < CASES * 4; n++) {
		struct nic_atomic a = {.op = NIC_ATOMIC_MCS, .size = sizes[n % 4]};
		uint64_t before[NIC_ATOMIC_WORDS + 1];

		random_memory(before);
		operand(a.swap_add, a.size);
		operand(a.compare, a.size);
		operand(a.swap_mask, a.size);
		operand(a.compare_mask, a.size);
		/* Random values seldom compare equal. Half of the time, make those bits equal that the mask
		 * compares, and in a quarter of these cases flip one bit. */
		if (random_word() & 1) {
			uint64_t words[NIC_ATOMIC_WORDS];

			model_to_words(words, before, a.size);
			for (unsigned i = 0; i * 8 < a.size; i++)
				a.compare[i] = (words[i] & a.compare_mask[i]) | (a.compare[i] & ~a.compare_mask[i]);
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
		struct nic_atomic a = {.op = NIC_ATOMIC_MFA, .size = sizes[n % 4]};
		uint64_t before[NIC_ATOMIC_WORDS + 1];

		random_memory(before);
		operand(a.swap_add, a.size);
		operand(a.boundary, a.size);
		check(&a, before);
	}
}

/** The standard operations equal masked ones with an all-ones mask (CAS) or without boundaries (FAA). */
static void standard_operations_are_special_masked_ones(void **state)
{
	(void)state;
	for (unsigned n = 0; n < CASES; n++) {
		struct nic_atomic a = {.op = NIC_ATOMIC_FAA, .size = 8};
		uint64_t target, expect, orig, before = pattern(random_word());

		operand(a.swap_add, 8);
		target = expect = before;
		atomic_execute(&a, &target, &orig);
		model_add_words(&expect, 8, a.swap_add, NULL);
		assert_int_equal(target, expect);
		assert_int_equal(orig, before);

		a.op = NIC_ATOMIC_CAS;
		a.compare[0] = random_word() & 1 ? before : pattern(random_word());
		a.swap_mask[0] = a.compare_mask[0] = UINT64_MAX;
		target = expect = before;
		atomic_execute(&a, &target, &orig);
		model_swap(&expect, &a);
		assert_int_equal(target, expect);
		assert_int_equal(orig, before);
	}
}

/** The lower half of a word in memory. */
static uint32_t *lower_half(uint64_t *word)
{
	return (uint32_t *)word + model_byte(2, 0);
}

/* ---- operations that programs build from masked atomics ------------------------------------------------------ */

static uint64_t mcs(void *target, uint32_t size, uint64_t swap, uint64_t swap_mask)
{
	struct nic_atomic a = {.op = NIC_ATOMIC_MCS, .size = size, .swap_add = {swap}, .swap_mask = {swap_mask}};
	uint64_t orig;

	atomic_execute(&a, target, &orig);
	return orig;
}

static uint64_t mfa(void *target, uint32_t size, uint64_t add, uint64_t boundary)
{
	struct nic_atomic a = {.op = NIC_ATOMIC_MFA, .size = size, .swap_add = {add}, .boundary = {boundary}};
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
	assert_int_equal(mcs(lower_half(&target), 4, 0x11223344, UINT32_MAX), (uint32_t)VALUE);
	assert_int_equal(target, (VALUE & ~(uint64_t)UINT32_MAX) | 0x11223344);
}

static void ucx_32_bit_addition_does_not_reach_the_other_half(void **state)
{
	uint64_t target = 0x00000001ffffffff;

	(void)state;
	assert_int_equal(mfa(lower_half(&target), 4, 2, 0), UINT32_MAX);
	assert_int_equal(target, 0x0000000100000001);
}

/** As in Sherman's locks: a boundary at the top bit alone makes the whole word one field, so this is an ordinary
 *  addition. */
static void sherman_boundary_at_the_top_bit_is_an_addition(void **state)
{
	uint64_t target = UINT64_MAX;

	(void)state;
	assert_int_equal(mfa(&target, 8, 3, 1ull << 63), UINT64_MAX);
	assert_int_equal(target, 2);
}

static void carries_cross_words_where_no_field_ends(void **state)
{
	_Alignas(16) uint64_t target[2];
	const unsigned low = model_byte(2, 0), high = model_byte(2, 1);
	struct nic_atomic a = {.op = NIC_ATOMIC_MFA, .size = 16, .swap_add = {1, 0}};
	uint64_t orig[NIC_ATOMIC_WORDS];

	(void)state;
	target[low] = UINT64_MAX;
	target[high] = 7;
	atomic_execute(&a, target, orig);
	assert_int_equal(target[low], 0);
	assert_int_equal(target[high], 8);
	target[low] = UINT64_MAX;
	a.boundary[0] = 1ull << 63;
	atomic_execute(&a, target, orig);
	assert_int_equal(target[low], 0);
	assert_int_equal(target[high], 8);
}

/* ---- several threads ----------------------------------------------------------------------------------------- */

static _Alignas(32) uint64_t shared[NIC_ATOMIC_WORDS];
#define WORD_3 model_byte(NIC_ATOMIC_WORDS, 3) /* the most significant one's place in `shared` */
/* Accessed atomically. Set if an operation returned a value that memory never had. */
static int torn;

static void execute_shared(const struct nic_atomic *a, uint64_t *target, uint64_t *orig)
{
	bool locks = a->size == NIC_ATOMIC_SIZE_MAX;

	while (locks && !atomic_try_lock(target))
		;
	atomic_execute(a, target, orig);
	if (locks)
		atomic_unlock(target);
}

struct hammer {
	uint32_t size;
	enum nic_atomic_op op;
	uint64_t boundary; /* for MFA, the same in each word */
};

/** Adds one to every 32-bit field of every word, by MFA, or by compare-and-swap that is repeated until it succeeds. All
 *  words get the same additions, so an operation must return equal words. */
static void *hammer(void *arg)
{
	const struct hammer *h = arg;
	struct nic_atomic a = {.op = h->op, .size = h->size};
	uint64_t orig[NIC_ATOMIC_WORDS], seen[NIC_ATOMIC_WORDS] = {0};
	unsigned words = (h->size + 7) / 8;

	for (unsigned i = 0; i < words; i++) {
		a.swap_mask[i] = a.compare_mask[i] = h->size == 4 ? UINT32_MAX : UINT64_MAX;
		a.boundary[i] = h->boundary;
	}
	for (unsigned n = 0; n < PER_CHILD;) {
		for (unsigned i = 0; i < words; i++) {
			uint64_t one = h->size == 4 ? 1 : 0x100000001;

			a.compare[i] = seen[i];
			a.swap_add[i] = h->op == NIC_ATOMIC_MFA ? one : seen[i] + one;
		}
		execute_shared(&a, shared, orig);
		for (unsigned i = 1; i < words; i++)
			if (orig[i] != orig[0])
				__atomic_store_n(&torn, 1, __ATOMIC_RELAXED);
		n += h->op == NIC_ATOMIC_MFA || memcmp(orig, seen, words * 8) == 0;
		memcpy(seen, orig, words * 8);
	}
	return NULL;
}

static void run_threads(void *(*fn)(void *), void *args, size_t arg_size, unsigned n)
{
	pthread_t threads[THREADS];

	assert_true(n <= THREADS);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, fn, (char *)args + i * arg_size), 0);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
}

static void no_update_is_lost_among_threads(void **state)
{
	const uint64_t all = (uint64_t)THREADS * PER_CHILD;

	(void)state;
	for (unsigned s = 0; s < 4; s++) {
		uint64_t ends = sizes[s] == 4 ? 1ull << 31 : 1ull << 63 | 1ull << 31;
		struct hammer kinds[THREADS] = {
			{sizes[s], NIC_ATOMIC_MFA, ends},
			{sizes[s], NIC_ATOMIC_MCS, 0},
			{sizes[s], NIC_ATOMIC_MFA, 0},
			{sizes[s], NIC_ATOMIC_MCS, 0},
		};
		uint64_t words[NIC_ATOMIC_WORDS];

		memset(shared, 0, sizeof(shared));
		torn = 0;
		run_threads(hammer, kinds, sizeof(kinds[0]), THREADS);
		assert_int_equal(torn, 0);
		model_to_words(words, shared, sizes[s]);
		for (unsigned i = 0; i * 8 < sizes[s]; i++)
			assert_int_equal(words[i], sizes[s] == 4 ? all : all << 32 | all);
		for (unsigned i = sizes[s]; i < sizeof(shared); i++)
			assert_int_equal(((uint8_t *)shared)[i], 0);
	}
}

/** Executes the same operation PER_CHILD times. */
static void *repeat(void *arg)
{
	uint64_t orig[NIC_ATOMIC_WORDS];
	const struct nic_atomic *a = arg;
	uint64_t *target = a->size == NIC_ATOMIC_SIZE_MAX ? shared : &shared[WORD_3];

	for (unsigned n = 0; n < PER_CHILD; n++)
		execute_shared(a, target, orig);
	return NULL;
}

/** A 32-byte operation is not atomic with respect to an addition to one of its words, but neither undoes the other. */
static void additions_to_a_part_of_32_bytes_stay(void **state)
{
	struct nic_atomic ops[THREADS] = {
		/* One thread carries into word 3, one swaps the lowest byte of word 3, two add to the upper half of
		 * word 3. */
		{.op = NIC_ATOMIC_MFA, .size = 32, .swap_add = {UINT64_MAX, UINT64_MAX, UINT64_MAX, 0}},
		{.op = NIC_ATOMIC_MCS, .size = 32, .swap_add = {0, 0, 0, 0x5a}, .swap_mask = {0, 0, 0, 0xff}},
		{.op = NIC_ATOMIC_FAA, .size = 8, .swap_add = {1ull << 32}},
		{.op = NIC_ATOMIC_MFA, .size = 8, .swap_add = {1ull << 32}},
	};

	(void)state;
	memset(shared, 0, sizeof(shared));
	/* Adding 2^192 - 1 to the lower three words carries into word 3 nearly every time. */
	shared[model_byte(NIC_ATOMIC_WORDS, 0)] = 1;
	run_threads(repeat, ops, sizeof(ops[0]), THREADS);
	assert_int_equal(shared[WORD_3] >> 32, 2 * PER_CHILD);
}

/** A 32-byte compare-and-swap whose comparison fails changes nothing: concurrent additions to one of its words stay. */
static void a_failed_comparison_of_32_bytes_undoes_nothing(void **state)
{
	struct nic_atomic ops[THREADS] = {
		{.op = NIC_ATOMIC_MCS,
		 .size = 32,
		 .compare = {1},
		 .compare_mask = {1},
		 .swap_mask = {1, 1, 1, UINT64_MAX}},
		{.op = NIC_ATOMIC_MCS,
		 .size = 32,
		 .compare = {1},
		 .compare_mask = {1},
		 .swap_mask = {1, 1, 1, UINT64_MAX}},
		{.op = NIC_ATOMIC_FAA, .size = 8, .swap_add = {1}},
		{.op = NIC_ATOMIC_FAA, .size = 8, .swap_add = {1}},
	};

	(void)state;
	memset(shared, 0, sizeof(shared));
	run_threads(repeat, ops, sizeof(ops[0]), THREADS);
	assert_int_equal(shared[WORD_3], 2 * PER_CHILD);
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
		cmocka_unit_test(additions_to_a_part_of_32_bytes_stay),
		cmocka_unit_test(a_failed_comparison_of_32_bytes_undoes_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
