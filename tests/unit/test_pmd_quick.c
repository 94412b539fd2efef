/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_quick.c - pmd_links_room and pmd_links_send (nic_config.tx_room): what a link takes at once, and when it
 * takes nothing.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "engine_priv.h"
#include "fake_peer.h"
#include "links_priv.h"

static struct pmd_device device[1];

/** An end with a link to a fake consumer. */
struct linked {
	struct end a;
	struct fake_consumer f;
	struct nic_qp *qp;
	struct pmd_links *links;
	uint32_t path;
};

static void linked_open(struct linked *l)
{
	end_open_inline(&l->a, &device[0]);
	fake_listen(&l->f, &device[0], FAKE_FUNCTION);
	l->qp = fake_qp(&l->a, NIC_QPT_RC, l->a.scq, &l->a.gid, FAKE_FUNCTION << 16 | 7, 0);
	fake_take(&l->f);
	l->links = l->a.engine->host.links;
	l->path = nic_qp_path(l->qp);
	assert_true(l->path > 0);
}

static void linked_close(struct linked *l)
{
	end_destroy_qp(&l->a, l->qp);
	fake_close(&l->f);
	end_close(&l->a);
}

/** Send one packet of `len` bytes at once. @return false: the link gives no room. */
static bool send_one(struct linked *l, uint32_t len, uint8_t byte)
{
	struct nic_tx_frame frame = {.len = len, .no_icrc = true, .bare = true, .qpn = 0x123456, .addresses = 9};

	frame.data = pmd_links_room(l->links, l->path);
	if (!frame.data)
		return false;
	memset(frame.data, byte, len);
	pmd_links_send(l->links, l->path, &frame, pmd_now_ns());
	return true;
}

/** The consumer takes the next packet. @return whether there is one. */
static bool take_one(struct linked *l, uint32_t len, uint8_t byte)
{
	const uint8_t *packet = NULL;
	uint32_t kind = 0;
	int got = ring_peek(&l->f.ring, &packet, &kind);

	if (got == 0)
		return false;
	assert_int_equal(got, len);
	assert_true(link_is_bare(kind) && !link_is_followed(kind));
	assert_int_equal(kind >> LINK_QPN_SHIFT, 0x123456);
	assert_int_equal(kind >> LINK_KIND_BITS & ((1u << NIC_ADDRESSES_BITS) - 1), 9);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(packet[i], byte);
	ring_pop(&l->f.ring, len);
	return true;
}

/** Until the ring is full, and again when the consumer has made room, several times around the ring. */
static void quick__packets_arrive_in_order_until_the_ring_is_full(void **state)
{
	uint64_t sent = 0, taken = 0, before;
	struct linked l;

	(void)state;
	linked_open(&l);
	before = l.a.engine->host.port->stats.link_tx_packets;
	for (unsigned round = 0; round < 5; round++) {
		while (send_one(&l, NIC_ROOM_LEN - (uint32_t)(sent % 3), (uint8_t)sent))
			sent++;
		assert_in_range(sent - taken, (RING_BYTES - 2 * RING_ENTRY_MAX) / RING_LINE, RING_BYTES / RING_LINE);
		while (take_one(&l, NIC_ROOM_LEN - (uint32_t)(taken % 3), (uint8_t)taken))
			taken++;
		assert_int_equal(taken, sent);
		ring_say_head(&l.f.ring);
	}
	assert_int_equal(l.a.engine->host.port->stats.link_tx_packets - before, sent);
	linked_close(&l);
}

/** Room that is not used is no packet. */
static void quick__room_may_stay_unused(void **state)
{
	struct linked l;

	(void)state;
	linked_open(&l);
	assert_non_null(pmd_links_room(l.links, l.path));
	assert_false(take_one(&l, 20, 1));
	assert_true(send_one(&l, 20, 1));
	assert_true(take_one(&l, 20, 1));
	assert_false(take_one(&l, 20, 1));
	linked_close(&l);
}

static void quick__taps_see_every_packet(void **state)
{
	struct linked l;

	(void)state;
	linked_open(&l);
	l.a.engine->host.taps = 1;
	assert_false(send_one(&l, 20, 1));
	l.a.engine->host.taps = 0;
	assert_true(send_one(&l, 20, 1));
	linked_close(&l);
}

/** The consumer claims to have taken more than there was: no room; pmd_links_tx then gives the link up. */
static void quick__a_malformed_ring_gives_no_room(void **state)
{
	struct linked l;

	(void)state;
	linked_open(&l);
	while (send_one(&l, 20, 1))
		;
	__atomic_store_n(&ring_control(l.f.ring.memory)->head, UINT64_MAX / 2, __ATOMIC_RELEASE);
	assert_false(send_one(&l, 20, 1));
	end_post_sends(&l.a, l.qp, 1, 8);
	pmd_links_tx(l.links, 1, pmd_now_ns());
	assert_int_equal(l.a.engine->host.port->stats.link_broken, 1);
	assert_int_equal(nic_qp_path(l.qp), 0);
	linked_close(&l);
}

static void quick__a_sleeping_consumer_is_woken(void **state)
{
	int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct linked l;
	uint64_t count;

	(void)state;
	linked_open(&l);
	fake_answer(&l.f, bell);
	fake_upkeep(&l.a);
	assert_true(send_one(&l, 20, 1));
	assert_int_equal(read(bell, &count, sizeof(count)), -1);
	ring_set_asleep(&l.f.ring, true);
	assert_true(send_one(&l, 20, 1));
	assert_int_equal(read(bell, &count, sizeof(count)), sizeof(count));
	assert_true(send_one(&l, 20, 1));
	assert_int_equal(read(bell, &count, sizeof(count)), -1);
	linked_close(&l);
	close(bell);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(quick__packets_arrive_in_order_until_the_ring_is_full),
		cmocka_unit_test(quick__room_may_stay_unused),
		cmocka_unit_test(quick__taps_see_every_packet),
		cmocka_unit_test(quick__a_malformed_ring_gives_no_room),
		cmocka_unit_test(quick__a_sleeping_consumer_is_woken),
	};

	if (ends_devices(device, 1, NULL) != 1)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
