/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_ring.c - the shared-memory ring: order and contents over many laps, full and empty rings, invalid values
 * written by the other side, sleeping. With one thread and with two.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "nic.h"
#include "ring.h"

struct both {
	struct ring_producer p;
	struct ring_consumer c;
};

static void open_both(struct both *b)
{
	int fd = ring_create(&b->p);

	assert_true(fd >= 0);
	assert_int_equal(ring_map(&b->c, fd), 0);
	close(fd);
}

static void close_both(struct both *b)
{
	ring_unmap(b->p.memory);
	ring_unmap(b->c.memory);
}

/* @return the length of the nth packet: its length and bytes follow from n. */
static uint32_t packet_len(uint32_t n)
{
	uint32_t x = n * 2654435761u;

	return x >> 30 ? 1 + (x >> 8) % 200 : 1 + (x >> 8) % NIC_FRAME_MAX;
}

static void packet_fill(uint8_t *place, uint32_t n)
{
	memset(place, (int)(n & 0xff), packet_len(n));
	place[0] = (uint8_t)(n >> 8);
}

static bool packet_is(const uint8_t *place, int len, uint32_t kind, uint32_t n)
{
	if (len != (int)packet_len(n) || kind != n % 3 || place[0] != (uint8_t)(n >> 8))
		return false;
	for (int i = 1; i < len; i++)
		if (place[i] != (uint8_t)n)
			return false;
	return true;
}

static bool put(struct ring_producer *p, uint32_t n)
{
	uint8_t *place = NULL;
	int room = ring_reserve(p, &place);

	assert_true(room >= 0);
	if (room == 0)
		return false;
	packet_fill(place, n);
	ring_commit(p, packet_len(n), n % 3);
	return true;
}

static bool take(struct ring_consumer *c, uint32_t n)
{
	const uint8_t *packet = NULL;
	uint32_t kind = 0;
	int len = ring_peek(c, &packet, &kind);

	assert_true(len >= 0);
	if (len == 0)
		return false;
	assert_true(packet_is(packet, len, kind, n));
	ring_pop(c, (uint32_t)len);
	return true;
}

static void ring__keeps_order_and_contents_through_many_laps(void **state)
{
	struct both b;
	uint32_t in = 0, out = 0;

	(void)state;
	open_both(&b);
	for (unsigned round = 0; round < 3000; round++) {
		for (unsigned i = 0; i < 1 + round % 90; i++)
			in += put(&b.p, in);
		for (unsigned i = 0; i < 1 + round * 7 % 90; i++)
			out += take(&b.c, out);
		ring_say_head(&b.c);
	}
	while (take(&b.c, out))
		out++;
	assert_int_equal(in, out);
	assert_true(b.p.tail > 50ull * RING_BYTES);
	close_both(&b);
}

static void ring__a_full_ring_stays_full_until_the_consumer_publishes_its_head(void **state)
{
	struct both b;
	uint8_t *place = NULL;
	uint32_t in = 0;

	(void)state;
	open_both(&b);
	while (put(&b.p, in))
		in++;
	assert_true(in >= (RING_BYTES - 3 * RING_ENTRY_MAX) / RING_ENTRY_MAX);
	for (uint32_t out = 0; out < in; out++)
		assert_true(take(&b.c, out));
	assert_false(ring_has_entry(&b.c));
	assert_int_equal(ring_reserve(&b.p, &place), 0);
	ring_say_head(&b.c);
	assert_int_equal(ring_reserve(&b.p, &place), 1);
	close_both(&b);
}

static blkcnt_t blocks(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return st.st_blocks;
}

static void ring__an_empty_ring_gives_its_memory_back(void **state)
{
	struct both b;
	uint32_t in = 0, out = 0;
	int fd = ring_create(&b.p);
	blkcnt_t least = (blkcnt_t)sysconf(_SC_PAGESIZE) / 512;

	(void)state;
	assert_true(fd >= 0);
	assert_int_equal(ring_map(&b.c, fd), 0);
	for (unsigned round = 0; round < 20; round++) {
		blkcnt_t full;

		while (put(&b.p, in))
			in++;
		full = blocks(fd);
		while (out + 1 < in)
			out += take(&b.c, out);
		ring_say_head(&b.c);
		ring_trim(&b.p);
		assert_true(blocks(fd) == full); /* one packet is left, so nothing is freed */
		out += take(&b.c, out);
		ring_trim(&b.p);
		assert_true(blocks(fd) == full); /* the producer does not know yet that the ring is empty */
		assert_false(take(&b.c, out));	 /* finds no packet, but skips to the start */
		ring_say_head(&b.c);
		ring_trim(&b.p);
		assert_true(blocks(fd) <= least); /* the page with the control page */
		assert_false(ring_has_entry(&b.c));
		for (unsigned i = 0; i <= round; i++)
			in += put(&b.p, in);
		while (take(&b.c, out))
			out++;
		assert_int_equal(in, out);
		ring_say_head(&b.c);
	}
	close(fd);
	close_both(&b);
}

static void ring__an_uncommitted_entry_is_invisible_to_the_consumer(void **state)
{
	struct both b;
	uint8_t *place = NULL;
	const uint8_t *packet = NULL;
	uint32_t kind = 0;

	(void)state;
	open_both(&b);
	for (uint32_t n = 0; n < 1000; n++) { /* before each entry, its place is filled with what looks like lengths */
		assert_int_equal(ring_reserve(&b.p, &place), 1);
		for (uint32_t i = 0; i < RING_PACKET_MAX; i += 4)
			memcpy(place + i, &(uint32_t){64}, 4);
		assert_int_equal(ring_peek(&b.c, &packet, &kind), 0);
		ring_commit(&b.p, 1 + n % RING_PACKET_MAX, 0);
		assert_int_equal(ring_peek(&b.c, &packet, &kind), 1 + n % RING_PACKET_MAX);
		ring_pop(&b.c, 1 + n % RING_PACKET_MAX);
		ring_say_head(&b.c);
	}
	assert_int_equal(ring_peek(&b.c, &packet, &kind), 0);
	close_both(&b);
}

static void ring__a_consumer_refuses_invalid_lengths_and_skips(void **state)
{
	static const uint32_t words[] = {RING_PACKET_MAX + 1, 0x80000000u, 0xfffffffeu, RING_SKIP};
	struct both b;
	const uint8_t *packet = NULL;
	uint32_t kind = 0;

	(void)state;
	for (unsigned i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		open_both(&b);
		*ring_word(b.p.memory, 0) = words[i]; /* RING_SKIP at the start would mean to skip a whole lap */
		assert_int_equal(ring_peek(&b.c, &packet, &kind), -EPROTO);
		close_both(&b);
	}
	open_both(&b);
	/* An entry that would extend beyond the end of the ring. */
	b.c.head = RING_BYTES - RING_LINE;
	*ring_word(b.p.memory, b.c.head) = 40;
	assert_int_equal(ring_peek(&b.c, &packet, &kind), -EPROTO);
	/* The word after a skip is checked like any other. */
	*ring_word(b.p.memory, b.c.head) = RING_SKIP;
	*ring_word(b.p.memory, 0) = RING_SKIP;
	assert_int_equal(ring_peek(&b.c, &packet, &kind), -EPROTO);
	close_both(&b);
}

static void ring__a_producer_refuses_an_out_of_range_head(void **state)
{
	struct both b;
	uint8_t *place = NULL;
	uint32_t in = 0;

	(void)state;
	open_both(&b);
	while (put(&b.p, in))
		in++;
	ring_control(b.c.memory)->head = b.p.tail + RING_LINE;
	assert_int_equal(ring_reserve(&b.p, &place), -EPROTO);
	ring_control(b.c.memory)->head = b.p.tail - RING_BYTES - RING_LINE;
	assert_int_equal(ring_reserve(&b.p, &place), -EPROTO);
	close_both(&b);
}

static void ring__only_sealed_memory_of_the_right_size_is_mapped(void **state)
{
	struct ring_consumer c;
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	(void)state;
	assert_int_equal(ftruncate(fd, RING_MAP_BYTES), 0);
	assert_int_equal(ring_map(&c, fd), -EPERM);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_SEAL), 0);
	assert_int_equal(ring_map(&c, fd), -EPERM);
	close(fd);
	fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_int_equal(ftruncate(fd, RING_MAP_BYTES - 4096), 0);
	assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	assert_int_equal(ring_map(&c, fd), -EINVAL);
	close(fd);
	assert_int_equal(ring_map(&c, STDIN_FILENO), -EPERM);
}

static void ring__wakes_a_sleeper_once(void **state)
{
	struct both b;

	(void)state;
	open_both(&b);
	assert_false(ring_must_wake(&b.p));
	ring_set_asleep(&b.c, true);
	assert_true(ring_must_wake(&b.p));
	assert_false(ring_must_wake(&b.p));
	ring_set_asleep(&b.c, true);
	ring_set_asleep(&b.c, false);
	assert_false(ring_must_wake(&b.p));
	close_both(&b);
}

/* ---- two threads ------------------------------------------------------------------------------------------- */

#define PACKETS 100000u

static struct both shared;
static uint32_t woken; /* stands in for a futex: set when the bell rings, cleared when the consumer wakes */

static void *produce(void *arg)
{
	(void)arg;
	for (uint32_t n = 0; n < PACKETS;) {
		if (put(&shared.p, n))
			n++;
		else
			sched_yield();
		if (ring_must_wake(&shared.p))
			__atomic_store_n(&woken, 1, __ATOMIC_RELEASE);
	}
	return NULL;
}

/* The consumer sleeps whenever the ring is empty: a lost wake-up would hang the test. */
static void ring__no_packet_and_no_wake_up_is_lost(void **state)
{
	pthread_t thread;

	(void)state;
	open_both(&shared);
	/* Both sides use one mapping, because ThreadSanitizer identifies memory by its address. */
	ring_unmap(shared.c.memory);
	shared.c.memory = shared.p.memory;
	assert_int_equal(pthread_create(&thread, NULL, produce, NULL), 0);
	for (uint32_t n = 0; n < PACKETS;) {
		if (take(&shared.c, n)) {
			n++;
			continue;
		}
		ring_say_head(&shared.c);
		ring_set_asleep(&shared.c, true);
		__atomic_thread_fence(__ATOMIC_SEQ_CST);
		if (!ring_has_entry(&shared.c))
			while (!__atomic_exchange_n(&woken, 0, __ATOMIC_ACQUIRE))
				sched_yield();
		ring_set_asleep(&shared.c, false);
	}
	pthread_join(thread, NULL);
	ring_unmap(shared.p.memory);
}

/* ---- a producer that scribbles -------------------------------------------------------------------------------- */

static void scribble(uint8_t *memory, unsigned seed)
{
	for (;;) {
		uint32_t at;

		seed = seed * 1103515245 + 12345;
		at = (seed >> 8) % (RING_MAP_BYTES / 4) * 4;
		memcpy(memory + at, &(uint32_t){seed >> 4 & 1 ? seed >> 20 : seed}, 4);
	}
}

/* Another process writes anywhere at any time: each packet read has a length within the memory, or is refused. */
static void ring__random_writes_by_the_producer_cause_no_out_of_bounds_read(void **state)
{
	struct both b;
	unsigned good = 0, refused = 0;
	uint32_t sum = 0;
	pid_t pid;

	(void)state;
	open_both(&b);
	madvise(b.p.memory, RING_MAP_BYTES, MADV_DOFORK);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		scribble(b.p.memory, 1);
	while (good < 10000 || refused < 10000) {
		const uint8_t *packet = NULL;
		uint32_t kind = 0;
		int len = ring_peek(&b.c, &packet, &kind);

		if (len < 0) {
			refused++;
			b.c.head = (b.c.head + RING_LINE) & ~(uint64_t)(RING_LINE - 1);
			continue;
		}
		if (len == 0) {
			b.c.head += RING_LINE;
			continue;
		}
		assert_true(packet >= b.c.memory + RING_CONTROL);
		assert_true(packet + len <= b.c.memory + RING_MAP_BYTES);
		for (int k = 0; k < len; k += 64)
			sum += packet[k];
		ring_pop(&b.c, (uint32_t)len);
		ring_say_head(&b.c);
		good++;
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	assert_true(sum != 1);
	close_both(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ring__keeps_order_and_contents_through_many_laps),
		cmocka_unit_test(ring__a_full_ring_stays_full_until_the_consumer_publishes_its_head),
		cmocka_unit_test(ring__an_empty_ring_gives_its_memory_back),
		cmocka_unit_test(ring__an_uncommitted_entry_is_invisible_to_the_consumer),
		cmocka_unit_test(ring__a_consumer_refuses_invalid_lengths_and_skips),
		cmocka_unit_test(ring__a_producer_refuses_an_out_of_range_head),
		cmocka_unit_test(ring__only_sealed_memory_of_the_right_size_is_mapped),
		cmocka_unit_test(ring__wakes_a_sleeper_once),
		cmocka_unit_test(ring__no_packet_and_no_wake_up_is_lost),
		cmocka_unit_test(ring__random_writes_by_the_producer_cause_no_out_of_bounds_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
