/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_neigh.c - pmd/port/neigh.c (ARP, ND) with two tables joined by a wire, and pmd/port/udp_split.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "neigh.h"
#include "udp_split.h"

#define WIRE 16

/** A host: its table, the frames that it sent, and the packets released or dropped by the table. */
struct host {
	struct neigh table;
	uint8_t frame[WIRE][NEIGH_FRAME_MAX];
	uint32_t frame_len[WIRE];
	unsigned sent, released, dropped;
	bool no_room;
	void *last_released;
	uint8_t released_to[6];
};

static struct host a, b;

static bool on_transmit(void *ctx, const uint8_t *frame, uint32_t len)
{
	struct host *h = ctx;

	assert_true(len <= NEIGH_FRAME_MAX && h->sent < WIRE);
	if (h->no_room)
		return false;
	memcpy(h->frame[h->sent], frame, len);
	h->frame_len[h->sent++] = len;
	return true;
}

static void on_release(void *ctx, void *packet, const uint8_t mac[6])
{
	struct host *h = ctx;

	h->released++;
	h->last_released = packet;
	memcpy(h->released_to, mac, 6);
}

static void on_drop(void *ctx, void *packet)
{
	(void)packet;
	((struct host *)ctx)->dropped++;
}

static const struct neigh_ops ops = {on_transmit, on_release, on_drop};
static const uint8_t mac_a[6] = {2, 0, 0, 0, 0, 0xa}, mac_b[6] = {2, 0, 0, 0, 0, 0xb};

static struct nic_gid address(bool v4, uint8_t last)
{
	struct nic_gid g = {{0}};

	if (v4) {
		g.raw[10] = g.raw[11] = 0xff;
		g.raw[12] = 10;
	} else {
		g.raw[0] = 0xfd;
	}
	g.raw[15] = last;
	return g;
}

static void start(bool v4)
{
	struct nic_gid ga = address(v4, 1), gb = address(v4, 2);

	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	neigh_init(&a.table, &ga, mac_a, &ops, &a);
	neigh_init(&b.table, &gb, mac_b, &ops, &b);
}

/** Deliver all frames that `from` has sent since the last call. @return the number of frames. */
static unsigned deliver(struct host *from, struct host *to, uint64_t now_ns)
{
	unsigned n = from->sent;

	from->sent = 0;
	for (unsigned i = 0; i < n; i++)
		assert_true(neigh_rx(&to->table, from->frame[i], from->frame_len[i], now_ns));
	return n;
}

static void resolve_releases(bool v4)
{
	struct nic_gid gb = address(v4, 2), ga = address(v4, 1);
	uint8_t mac[6];
	int x, y;

	start(v4);
	assert_int_equal(neigh_send(&a.table, &gb, &x, 1000, mac), NEIGH_QUEUED);
	assert_int_equal(neigh_send(&a.table, &gb, &y, 1001, mac), NEIGH_QUEUED);
	assert_int_equal(a.sent, 1);
	assert_int_equal(deliver(&a, &b, 2000), 1);
	assert_int_equal(b.table.replies, 1);
	assert_int_equal(deliver(&b, &a, 3000), 1);
	assert_int_equal(a.released, 2);
	assert_ptr_equal(a.last_released, &y);
	assert_memory_equal(a.released_to, mac_b, 6);
	assert_int_equal(neigh_send(&a.table, &gb, &x, 4000, mac), NEIGH_READY);
	assert_memory_equal(mac, mac_b, 6);
	/* The host that answered has learned the asker's address from the request. */
	assert_int_equal(neigh_send(&b.table, &ga, &x, 4000, mac), NEIGH_READY);
	assert_memory_equal(mac, mac_a, 6);
	assert_int_equal(a.sent + b.sent, 0);
}

static void neigh__arp_resolves(void **state)
{
	(void)state;
	resolve_releases(true);
}

static void neigh__nd_resolves(void **state)
{
	(void)state;
	resolve_releases(false);
}

static void neigh__resolves_ahead_of_packets(void **state)
{
	struct nic_gid gb = address(true, 2);
	uint64_t now = 1000;
	uint8_t mac[6];
	int x;

	(void)state;
	start(true);
	assert_true(neigh_resolve(&a.table, &gb, now));
	assert_true(neigh_resolve(&a.table, &gb, now + 1));
	assert_int_equal(a.sent, 1);
	for (unsigned i = 0; i < NEIGH_TRIES; i++)
		neigh_timeout(&a.table, now += NEIGH_RETRY_NS);
	assert_false(neigh_resolve(&a.table, &gb, now));
	assert_int_equal(a.sent, NEIGH_TRIES);
	/* Resolving in advance has failed. Nevertheless the first packet is queued, and the neighbour is asked again.
	 * No answer comes, so the next packet is refused. */
	assert_int_equal(neigh_send(&a.table, &gb, &x, now, mac), NEIGH_QUEUED);
	for (unsigned i = 0; i < NEIGH_TRIES; i++)
		neigh_timeout(&a.table, now += NEIGH_RETRY_NS);
	assert_int_equal(neigh_send(&a.table, &gb, &x, now, mac), NEIGH_REFUSED);
	assert_false(neigh_resolve(&a.table, &gb, now));
	assert_int_equal(a.sent, 2 * NEIGH_TRIES);
	now += NEIGH_FAILED_NS;
	assert_true(neigh_resolve(&a.table, &gb, now));
	for (unsigned i = 0; i < NEIGH_TRIES; i++)
		neigh_timeout(&a.table, now += NEIGH_RETRY_NS);
	assert_int_equal(neigh_send(&a.table, &gb, &x, now, mac), NEIGH_QUEUED);
	deliver(&a, &b, now);
	deliver(&b, &a, now);
	assert_false(neigh_resolve(&a.table, &gb, now));
	assert_int_equal(neigh_send(&a.table, &gb, &x, now, mac), NEIGH_READY);
}

static void neigh__an_unanswered_request_is_retried_and_then_fails(void **state)
{
	struct nic_gid gb = address(true, 2);
	uint64_t now = 1000, next;
	uint8_t mac[6];
	int x;

	(void)state;
	start(true);
	assert_int_equal(neigh_send(&a.table, &gb, &x, now, mac), NEIGH_QUEUED);
	for (unsigned i = 1; i < NEIGH_TRIES; i++) {
		next = neigh_timeout(&a.table, now);
		assert_int_equal(next, now + NEIGH_RETRY_NS);
		assert_int_equal(a.sent, i);
		now = next;
		neigh_timeout(&a.table, now);
		assert_int_equal(a.sent, i + 1);
	}
	assert_int_equal(a.dropped, 0);
	now += NEIGH_RETRY_NS;
	assert_true(neigh_timeout(&a.table, now) == UINT64_MAX);
	assert_int_equal(a.dropped, 1);
	assert_int_equal(a.table.failed, 1);
	assert_int_equal(neigh_send(&a.table, &gb, &x, now + 1, mac), NEIGH_REFUSED);
	assert_int_equal(a.sent, NEIGH_TRIES);
	/* After a while the neighbour is asked again, and an answer releases the packet. */
	now += NEIGH_FAILED_NS;
	assert_int_equal(neigh_send(&a.table, &gb, &x, now, mac), NEIGH_QUEUED);
	assert_int_equal(a.sent, NEIGH_TRIES + 1);
	deliver(&a, &b, now);
	deliver(&b, &a, now);
	assert_int_equal(a.released, 1);
}

static void neigh__queue_is_bounded(void **state)
{
	struct nic_gid gb = address(true, 2);
	uint8_t mac[6];
	int x;

	(void)state;
	start(true);
	for (unsigned i = 0; i < NEIGH_QUEUE; i++)
		assert_int_equal(neigh_send(&a.table, &gb, &x, 1, mac), NEIGH_QUEUED);
	assert_int_equal(neigh_send(&a.table, &gb, &x, 1, mac), NEIGH_REFUSED);
	assert_int_equal(a.table.queue_full, 1);
	neigh_clear(&a.table);
	assert_int_equal(a.dropped, NEIGH_QUEUE);
}

static void neigh__an_entry_in_use_is_refreshed(void **state)
{
	struct nic_gid gb = address(false, 2);
	uint64_t now = 1000;
	uint8_t mac[6];
	int x;

	(void)state;
	start(false);
	neigh_send(&a.table, &gb, &x, now, mac);
	deliver(&a, &b, now);
	deliver(&b, &a, now);
	now += NEIGH_REACHABLE_NS;
	assert_int_equal(neigh_send(&a.table, &gb, &x, now, mac), NEIGH_READY);
	assert_int_equal(a.sent, 1);
	deliver(&a, &b, now);
	deliver(&b, &a, now);
	assert_int_equal(neigh_send(&a.table, &gb, &x, now + 1, mac), NEIGH_READY);
	assert_int_equal(a.sent, 0);
	/* The neighbour does not answer any more: after the last try, nothing is sent to its old MAC. */
	now += 2 * NEIGH_REACHABLE_NS;
	assert_int_equal(neigh_send(&a.table, &gb, &x, now, mac), NEIGH_READY);
	for (unsigned i = 0; i <= NEIGH_TRIES; i++)
		neigh_timeout(&a.table, now += NEIGH_RETRY_NS);
	assert_int_equal(neigh_send(&a.table, &gb, &x, now, mac), NEIGH_REFUSED);
}

static void neigh__unsolicited_claims_add_nothing(void **state)
{
	struct nic_gid gb = address(true, 2), self = address(true, 1);
	uint8_t mac[6], claim[NEIGH_FRAME_MAX];
	int x;

	(void)state;
	start(true);
	neigh_send(&b.table, &self, &x, 1, mac); /* host b's ARP request, which the test turns into a false reply */
	memcpy(claim, b.frame[0], sizeof(claim));
	claim[14 + 7] = 2;   /* a reply */
	claim[14 + 27] = 77; /* addressed to another host */
	assert_true(neigh_rx(&a.table, claim, 60, 1));
	assert_int_equal(neigh_send(&a.table, &gb, &x, 2, mac), NEIGH_QUEUED);
	/* A claim to a's own address, or with a group MAC, is ignored. */
	memcpy(claim + 14 + 14, self.raw + 12, 4);
	claim[14 + 27] = 1;
	assert_true(neigh_rx(&a.table, claim, 60, 1));
	memcpy(claim + 14 + 14, gb.raw + 12, 4);
	claim[14 + 8] = 1;
	assert_true(neigh_rx(&a.table, claim, 60, 1));
	assert_int_equal(neigh_send(&a.table, &gb, &x, 3, mac), NEIGH_QUEUED);
	assert_int_equal(a.released, 0);
}

static void neigh__damaged_frames_get_no_reply(void **state)
{
	struct nic_gid gb = address(false, 2);
	uint8_t mac[6];
	int x;

	(void)state;
	for (unsigned at = 14; at < 14 + 40 + 32; at++) {
		start(false);
		neigh_send(&a.table, &gb, &x, 1, mac);
		if (at == 14 + 6 || at == 54) /* with another next header or ICMPv6 type the packet is not for ND */
			continue;
		a.frame[0][at] ^= 0x5a;
		neigh_rx(&b.table, a.frame[0], a.frame_len[0], 1);
		/* No checksum covers bytes 14 to 17 (version, traffic class, flow label), so nothing is expected for
		 * them. A changed hop limit is refused. */
		if (at >= 18) {
			assert_int_equal(b.table.replies, 0);
			assert_int_equal(b.table.malformed, 1);
		}
	}
	for (uint32_t len = 0; len < 86; len++) {
		start(false);
		neigh_send(&a.table, &gb, &x, 1, mac);
		neigh_rx(&b.table, a.frame[0], len, 1);
		assert_int_equal(b.table.replies, 0);
	}
}

/** Send a packet to each of `n` addresses of a net, none of which answers. @return the time after that */
static uint64_t send_to_nobody(uint8_t net, unsigned n, uint64_t now)
{
	struct nic_gid g = address(true, 0);
	uint8_t mac[6];
	static int x;

	for (unsigned i = 0; i < n; i++) {
		a.sent = 0;
		g.raw[13] = (uint8_t)(i >> 8);
		g.raw[14] = net;
		g.raw[15] = (uint8_t)i;
		assert_int_equal(neigh_send(&a.table, &g, &x, ++now, mac), NEIGH_QUEUED);
	}
	return now;
}

static void neigh__table_full_reuses_the_oldest(void **state)
{
	struct nic_gid gb = address(true, 2);
	uint8_t mac[6];
	uint64_t now = 1;
	int x;

	(void)state;
	start(true);
	now = send_to_nobody(1, 4 * NEIGH_ENTRIES, now);
	assert_int_equal(a.dropped, 3 * NEIGH_ENTRIES);
	a.sent = 0;
	neigh_send(&a.table, &gb, &x, now, mac);
	deliver(&a, &b, now);
	deliver(&b, &a, now);
	assert_int_equal(a.released, 1);
}

static void neigh__a_neighbour_that_answers_stays_in_a_full_table(void **state)
{
	struct nic_gid gb = address(true, 2);
	uint8_t mac[6];
	uint64_t now = 1;
	int x;

	(void)state;
	start(true);
	neigh_send(&a.table, &gb, &x, now, mac);
	deliver(&a, &b, now);
	deliver(&b, &a, now);
	now = send_to_nobody(1, 4 * NEIGH_ENTRIES, now);
	assert_int_equal(neigh_send(&a.table, &gb, &x, now, mac), NEIGH_READY);
	/* Once its answer is no longer valid, it is one of many. */
	now += NEIGH_REACHABLE_NS;
	now = send_to_nobody(2, NEIGH_ENTRIES, now);
	assert_int_equal(neigh_send(&a.table, &gb, &x, now, mac), NEIGH_QUEUED);
}

/** However many neighbours do not answer, at most NEIGH_HELD_MAX packets are held for all of them together. */
static void neigh__packets_held_for_all_neighbours_are_bounded(void **state)
{
	struct nic_gid g = address(true, 0);
	unsigned held = 0;
	uint8_t mac[6];
	int x;

	(void)state;
	start(true);
	for (unsigned i = 0; i < NEIGH_ENTRIES; i++) {
		a.sent = 0;
		g.raw[15] = (uint8_t)i;
		for (unsigned k = 0; k < NEIGH_QUEUE; k++)
			held += neigh_send(&a.table, &g, &x, 1, mac) == NEIGH_QUEUED;
	}
	assert_int_equal(held, NEIGH_HELD_MAX);
	assert_int_equal(a.table.queue_full, NEIGH_ENTRIES * NEIGH_QUEUE - held);
	neigh_clear(&a.table);
	assert_int_equal(a.dropped, held);
	assert_int_equal(neigh_send(&a.table, &g, &x, 1, mac), NEIGH_QUEUED);
}

static void neigh__requests_not_sent_for_lack_of_room_are_not_counted(void **state)
{
	struct nic_gid gb = address(true, 2);
	uint8_t mac[6];
	int x;

	(void)state;
	start(true);
	a.no_room = true;
	assert_int_equal(neigh_send(&a.table, &gb, &x, 1, mac), NEIGH_QUEUED);
	assert_int_equal(a.table.requests, 0);
	a.no_room = false;
	neigh_timeout(&a.table, 1 + NEIGH_RETRY_NS);
	assert_int_equal(a.table.requests, 1);
}

static void neigh__frames_other_than_arp_and_nd_are_not_consumed(void **state)
{
	uint8_t frame[64] = {[12] = 0x08};

	(void)state;
	start(true);
	assert_false(neigh_rx(&a.table, frame, sizeof(frame), 1));
	assert_false(neigh_rx(&a.table, frame, 13, 1));
}

/* ---- udp_split ------------------------------------------------------------------------------------------------ */

static void split__run_with_short_tail(void **state)
{
	uint8_t data[250];
	struct udp_split s = {.data = data, .left = sizeof(data), .segment = 60, .frame = {.udp_sport = 4791}};
	struct nic_rx_frame f[8];

	(void)state;
	assert_int_equal(udp_split_next(&s, f, 3), 3);
	for (unsigned i = 0; i < 3; i++) {
		assert_ptr_equal(f[i].data, data + 60 * i);
		assert_int_equal(f[i].len, 60);
		assert_int_equal(f[i].udp_sport, 4791);
	}
	assert_int_equal(udp_split_next(&s, f, 8), 2);
	assert_int_equal(f[0].len, 60);
	assert_int_equal(f[1].len, 10);
	assert_ptr_equal(f[1].data, data + 240);
	assert_int_equal(udp_split_next(&s, f, 8), 0);
}

static void split__single_packet(void **state)
{
	uint8_t data[100];
	struct nic_rx_frame f[2];

	(void)state;
	for (uint32_t segment = 0; segment <= 300;
	     segment += 100) { /* 0: no segment size is given; others: at least the packet's size */
		struct udp_split s = {.data = data, .left = 100, .segment = segment};

		assert_int_equal(udp_split_next(&s, f, 2), 1);
		assert_int_equal(f[0].len, 100);
		assert_int_equal(s.left, 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(neigh__arp_resolves),
		cmocka_unit_test(neigh__nd_resolves),
		cmocka_unit_test(neigh__resolves_ahead_of_packets),
		cmocka_unit_test(neigh__an_unanswered_request_is_retried_and_then_fails),
		cmocka_unit_test(neigh__queue_is_bounded),
		cmocka_unit_test(neigh__an_entry_in_use_is_refreshed),
		cmocka_unit_test(neigh__unsolicited_claims_add_nothing),
		cmocka_unit_test(neigh__damaged_frames_get_no_reply),
		cmocka_unit_test(neigh__table_full_reuses_the_oldest),
		cmocka_unit_test(neigh__a_neighbour_that_answers_stays_in_a_full_table),
		cmocka_unit_test(neigh__packets_held_for_all_neighbours_are_bounded),
		cmocka_unit_test(neigh__requests_not_sent_for_lack_of_room_are_not_counted),
		cmocka_unit_test(neigh__frames_other_than_arp_and_nd_are_not_consumed),
		cmocka_unit_test(split__run_with_short_tail),
		cmocka_unit_test(split__single_packet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
