/* SPDX-License-Identifier: BSD-3-Clause */
/* test_dma.c - nic/base/dma.h: where the fences of dma_deliver_fenced() are. Each fence looks at the destination. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void fence(void);

#define DMA_FENCE() fence()
#include "dma.h"

#define MOST 150

static _Alignas(16) uint8_t from[MOST + 32], to[MOST + 32];
static const uint8_t *source;
static uint8_t *target; /* where the copy goes, `length` bytes */
static size_t length;
static size_t there[3]; /* at each fence: how many bytes from the start are there; nothing of the rest is */
static unsigned fences;

static void fence(void)
{
	size_t n = 0;

	__asm__ volatile("" ::: "memory");
	while (n < length && target[n] == source[n])
		n++;
	for (size_t i = n; i < length; i++)
		assert_int_equal(target[i], 0);
	assert_true(fences < 3);
	there[fences++] = n;
	__asm__ volatile("" ::: "memory");
}

static void deliver_by(void (*fn)(uint8_t *, const uint8_t *, size_t), size_t at, size_t src_at, size_t len)
{
	memset(to, 0, sizeof(to));
	source = from + src_at;
	target = to + at;
	length = len;
	fences = 0;
	fn(target, source, len);
	assert_memory_equal(target, source, len);
	for (size_t i = 0; i < sizeof(to); i++)
		if (i < at || i >= at + len)
			assert_int_equal(to[i], 0);
}

static void deliver(size_t at, size_t src_at, size_t len)
{
	deliver_by(dma_deliver_fenced, at, src_at, len);
}

static void dma__the_last_word_is_stored_after_all_other_bytes(void **state)
{
	(void)state;
	for (size_t at = 0; at < 16; at++)
		for (size_t len = 1; len <= MOST; len++) {
			size_t last;

			deliver(at, len % 16, len);
			assert_in_range(fences, 1, 2);
			assert_int_equal(there[0], 0); /* earlier messages come first */
			last = fences == 2 ? len - there[1] : len;
			assert_true(last == 1 || last == 2 || last == 4 || last == 8);
			assert_int_equal((uintptr_t)(target + len) % last, 0);
			/* The word is no smaller than it has to be: a flag of that size is stored in one piece. */
			assert_true(last == 8 || 2 * last > len || (uintptr_t)(target + len) % (2 * last));
		}
}

static void dma__of_no_bytes_nothing_is_stored(void **state)
{
	(void)state;
	deliver(3, 0, 0);
	assert_int_equal(fences, 0);
}

static void dma__has_fences_where_the_processor_needs_them(void **state)
{
#if defined(__x86_64__) || defined(__s390x__)
	const unsigned want = 0;
#else
	const unsigned want = 1;
#endif

	(void)state;
	for (size_t len = 1; len <= MOST; len++) {
		deliver_by(dma_deliver, 1, 0, len);
		assert_int_equal(fences > 0, want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(dma__the_last_word_is_stored_after_all_other_bytes),
		cmocka_unit_test(dma__of_no_bytes_nothing_is_stored),
		cmocka_unit_test(dma__has_fences_where_the_processor_needs_them),
	};

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(1 + i); /* never 0 */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
