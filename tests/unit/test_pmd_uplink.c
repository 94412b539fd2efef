/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_uplink.c - the switch of an uplink, without DPDK: steering, and what goes between rings and a port that is
 * made up. The rings themselves: test_pmd_ring_pair.c.
 */
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#include "nic_gsi.h"
#include "nic_rdm.h"
#include "pool.h"
#include "port.h"
#include "proto.h"
#include "uplink_priv.h"

#define OWN  10 /* last byte of the device's address */
#define PEER 20

/* ---- packets -------------------------------------------------------------------------------------------------- */

static void put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/** An IPv4 RoCEv2 packet of `len` bytes. */
static void packet_v4(uint8_t *ip, uint32_t len, uint8_t from, uint8_t to, uint32_t qpn)
{
	memset(ip, 0, len);
	ip[0] = 0x45;
	put16(ip + 2, len);
	ip[6] = 0x40;
	ip[9] = 17;
	memcpy(ip + 12, (uint8_t[]){10, 0, 0, from}, 4);
	memcpy(ip + 16, (uint8_t[]){10, 0, 0, to}, 4);
	put16(ip + 22, NIC_UDP_PORT);
	put16(ip + 24, len - 20);
	ip[33] = (uint8_t)(qpn >> 16);
	put16(ip + 34, qpn & 0xffff);
}

static void packet_v6(uint8_t *ip, uint32_t len, uint8_t from, uint8_t to, uint32_t qpn)
{
	memset(ip, 0, len);
	ip[0] = 0x60;
	put16(ip + 4, len - 40);
	ip[6] = 17;
	ip[8] = ip[24] = 0xfd;
	ip[23] = from;
	ip[39] = to;
	put16(ip + 42, NIC_UDP_PORT);
	put16(ip + 44, len - 40);
	ip[53] = (uint8_t)(qpn >> 16);
	put16(ip + 54, qpn & 0xffff);
}

static struct nic_gid gid_v4(uint8_t last)
{
	struct nic_gid gid = {.raw = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = last}};

	return gid;
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

/* ---- steering ------------------------------------------------------------------------------------------------- */

static void steer__by_the_function_of_the_qpn(void **state)
{
	struct steering s = {.n_ports = 0};
	uint8_t ip[80];

	(void)state;
	for (unsigned n = 0; n < 255; n++) {
		packet_v4(ip, 60, PEER, OWN, n << 16 | 0x1234);
		assert_int_equal(uplink_steer(&s, ip, 60), n);
		packet_v6(ip, 80, PEER, OWN, n << 16 | 0x1234);
		assert_int_equal(uplink_steer(&s, ip, 80), n);
	}
}

static void steer__services_to_who_serves_them(void **state)
{
	const struct uplink_service list[] = {{proto_service(0, 7), 3},
					      {proto_service(0, 9), 2},
					      {proto_service(0x106, 7), 4},
					      {proto_service(0x106, 1), 5}};
	struct steering s = {.n_ports = 0};
	uint8_t ip[60];

	(void)state;
	packet_v4(ip, 60, PEER, OWN, 0xff0007);
	assert_int_equal(uplink_steer(&s, ip, 60), 0); /* nobody serves anything */
	assert_int_equal(steering_set(&s, list, 4), 0);
	assert_int_equal(uplink_steer(&s, ip, 60), 3);
	packet_v4(ip, 60, PEER, OWN, 0xff0009);
	assert_int_equal(uplink_steer(&s, ip, 60), 2);
	packet_v4(ip, 60, PEER, OWN, 0xff0001); /* not served: the first that serves any says so */
	assert_int_equal(uplink_steer(&s, ip, 60), 2);
	assert_int_equal(steering_set(&s, list, 0), 0);
	assert_int_equal(uplink_steer(&s, ip, 60), 0);
	steering_clear(&s);
}

static void steer__messages_of_the_connection_manager(void **state)
{
	enum { BTH = 28, MAD = BTH + 20, LEN = 320 };
	const struct uplink_service list[] = {{proto_service(0x106, 7), 4}, {proto_service(0x106, 1), 5}};
	struct steering s = {.n_ports = 0};
	uint8_t ip[LEN];

	(void)state;
	assert_int_equal(steering_set(&s, list, 2), 0);
	packet_v4(ip, LEN, PEER, OWN, NIC_GSI_QPN);
	put16(ip + MAD + 16, 0x10); /* REQ */
	put16(ip + MAD + 36, 0x106);
	put16(ip + MAD + 38, 7);
	assert_int_equal(uplink_steer(&s, ip, LEN), 4);
	put16(ip + MAD + 16, 0x17); /* SIDR_REQ */
	put16(ip + MAD + 38, 1);
	assert_int_equal(uplink_steer(&s, ip, LEN), 5);
	put16(ip + MAD + 38, 2); /* not served: the daemon waits, then refuses */
	assert_int_equal(uplink_steer(&s, ip, LEN), 0);
	put16(ip + MAD + 38, 1);
	ip[MAD + 32] = 1; /* not a service ID of a port */
	assert_int_equal(uplink_steer(&s, ip, LEN), 0);
	put16(ip + MAD + 16, 0x13); /* REP */
	ip[MAD + 24] = 8;
	ip[MAD + 28] = 9;
	assert_int_equal(uplink_steer(&s, ip, LEN), 9);
	put16(ip + MAD + 16, 0x18); /* SIDR_REP */
	assert_int_equal(uplink_steer(&s, ip, LEN), 8);
	packet_v4(ip, 60, PEER, OWN, NIC_GSI_QPN); /* too short for a message */
	assert_int_equal(uplink_steer(&s, ip, 60), 0);
	steering_clear(&s);
}

static void steer__knows_what_is_not_roce(void **state)
{
	struct steering s = {.n_ports = 0};
	uint8_t good[60], ip[80];

	(void)state;
	packet_v4(good, 60, PEER, OWN, 0x010001);
	assert_int_equal(uplink_steer(&s, good, 60), 1);
	for (uint32_t len = 0; len < 60; len++)
		assert_int_equal(uplink_steer(&s, good, len), STEER_NOT_ROCE);
#define BAD(change)                                                                                                    \
	memcpy(ip, good, 60);                                                                                          \
	change;                                                                                                        \
	assert_int_equal(uplink_steer(&s, ip, 60), STEER_NOT_ROCE)
	BAD(ip[0] = 0x46);	 /* options */
	BAD(ip[9] = 6);		 /* TCP */
	BAD(ip[7] = 1);		 /* a fragment */
	BAD(ip[6] = 0x20);	 /* the first fragment */
	BAD(put16(ip + 2, 61));	 /* longer than the frame */
	BAD(put16(ip + 22, 53)); /* another port */
	BAD(put16(ip + 24, 41)); /* UDP longer than IP */
	BAD(put16(ip + 24, 39));
	BAD(ip[0] = 0x65);
#undef BAD
	packet_v6(ip, 80, PEER, OWN, 0x010001);
	ip[6] = 0; /* an extension header */
	assert_int_equal(uplink_steer(&s, ip, 80), STEER_NOT_ROCE);
}

static void send__only_whole_packets_from_the_own_address(void **state)
{
	struct nic_gid own = gid_v4(OWN), to, want = gid_v4(PEER);
	uint8_t ip[80];

	(void)state;
	packet_v4(ip, 60, OWN, PEER, 1);
	assert_true(uplink_may_send(ip, 60, &own, &to));
	assert_memory_equal(&to, &want, sizeof(to));
	assert_false(uplink_may_send(ip, 61, &own, &to)); /* bytes behind the packet */
	packet_v4(ip, 60, OWN + 1, PEER, 1);
	assert_false(uplink_may_send(ip, 60, &own, &to)); /* another's address */
	packet_v6(ip, 80, OWN, PEER, 1);
	assert_false(uplink_may_send(ip, 80, &own, &to)); /* another family */
}

/* ---- the switch, between rings and a port that is made up ------------------------------------------------------ */

static struct {
	struct pmd_port port;
	uint8_t in[64][64];
	unsigned n_in;
	uint8_t out[256][64], more[NIC_FRAME_MAX];
	unsigned n_out, room;
	unsigned buffers; /* taken and not given back */
	void (*given)(void);
} fake;

bool pmd_pool_take(struct pmd_pool *pool, struct nic_tx_frame *frames, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		frames[i].data = frames[i].cookie = malloc(NIC_FRAME_MAX);
	fake.buffers += n;
	return true;
}

void pmd_pool_give(struct pmd_pool *pool, void *cookie)
{
	free(cookie);
	fake.buffers--;
	if (fake.given)
		fake.given();
}

static unsigned fake_rx(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns)
{
	unsigned got = fake.n_in;

	for (unsigned i = 0; i < got; i++)
		frames[i] = (struct nic_rx_frame){.data = fake.in[i], .len = 60};
	fake.n_in = 0;
	port->looked_at = got;
	return got;
}

static unsigned fake_tx(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns)
{
	unsigned taken = n < fake.room ? n : fake.room;

	for (unsigned i = 0; i < taken; i++) {
		memcpy(fake.out[fake.n_out++], frames[i].data, 60);
		pmd_pool_give(NULL, frames[i].cookie);
	}
	fake.room -= taken;
	return taken;
}

static uint64_t fake_timeout(struct pmd_port *port, uint64_t now_ns)
{
	return UINT64_MAX;
}

static const struct pmd_port_ops fake_ops = {.rx_burst = fake_rx, .tx_burst = fake_tx, .timeout = fake_timeout};

static struct uplink *switch_open(void)
{
	struct uplink *u = calloc(1, sizeof(*u));

	memset(&fake, 0, sizeof(fake));
	fake.port.ops = &fake_ops;
	fake.room = 256;
	u->port = &fake.port;
	u->up = true;
	u->gid = gid_v4(OWN);
	u->epoll_fd = epoll_create1(0);
	return u;
}

static void switch_attach(struct uplink *u, unsigned n, struct ring_pair *function)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = n};
	int fds[RING_PAIR_FDS];

	assert_int_equal(ring_pair_create(&u->functions[n].rings, fds), 0);
	assert_int_equal(epoll_ctl(u->epoll_fd, EPOLL_CTL_ADD, u->functions[n].rings.bell_fd, &event), 0);
	u->functions[n].there = true;
	u->active[u->n_active++] = (uint8_t)n;
	assert_int_equal(ring_pair_map(function, fds), 0);
}

static void switch_close(struct uplink *u)
{
	for (unsigned n = 0; n < UPLINK_FUNCTIONS; n++)
		uplink_function_drop(u, n);
	assert_int_equal(u->n_active, 0);
	assert_int_equal(fake.buffers, 0);
	close(u->epoll_fd);
	free(u);
}

static void step(struct uplink *u)
{
	uint64_t deadline_ns;

	uplink_step(u, 0, &deadline_ns);
}

static unsigned count_in(struct ring_pair *p)
{
	const uint8_t *packet;
	uint32_t kind;
	unsigned n = 0;
	int len;

	while ((len = ring_peek(&p->in, &packet, &kind)) > 0) {
		ring_pop(&p->in, (uint32_t)len);
		n++;
	}
	ring_say_head(&p->in);
	return n;
}

static void arrive(uint32_t qpn)
{
	packet_v4(fake.in[fake.n_in++], 60, PEER, OWN, qpn);
}

static void switch__gives_each_function_its_packets_and_the_daemon_the_rest(void **state)
{
	struct uplink *u = switch_open();
	struct ring_pair one, two, daemon;

	(void)state;
	switch_attach(u, 0, &daemon);
	switch_attach(u, 1, &one);
	switch_attach(u, 2, &two);
	for (unsigned i = 0; i < 6; i++)
		arrive(i % 2 ? 0x010001 : 0x020001);
	arrive(0x030001); /* no such function */
	memset(fake.in[fake.n_in++], 0, 60);
	assert_true(ring_pair_sleep(&two));
	step(u);
	assert_int_equal(count_in(&one), 3);
	assert_int_equal(count_in(&two), 3);
	assert_int_equal(count_in(&daemon), 1);
	assert_int_equal(u->stats.rx_packets, 7);
	assert_int_equal(u->stats.rx_not_roce, 1);
	assert_int_equal(u->stats.bells, 1);
	assert_true(readable(two.bell_fd));
	uplink_function_drop(u, 2);
	arrive(0x020001);
	step(u);
	assert_int_equal(count_in(&daemon), 1);
	uplink_function_drop(u, 0);
	arrive(0x020001);
	step(u);
	assert_int_equal(u->stats.rx_nobody, 1);
	switch_close(u);
	ring_pair_close(&one);
	ring_pair_close(&two);
	ring_pair_close(&daemon);
}

static void switch__a_function_that_does_not_keep_up_harms_nobody(void **state)
{
	struct uplink *u = switch_open();
	struct ring_pair slow, fast;
	unsigned fits = RING_BYTES / 128;

	(void)state;
	switch_attach(u, 1, &slow);
	switch_attach(u, 2, &fast);
	for (unsigned i = 0; i < fits + 100; i++) {
		arrive(0x010001);
		arrive(0x020001);
		step(u);
		assert_int_equal(count_in(&fast), 1);
	}
	assert_true(u->stats.rx_full >= 100);
	assert_int_equal(u->stats.rx_packets + u->stats.rx_full, 2 * (fits + 100));
	switch_close(u);
	ring_pair_close(&slow);
	ring_pair_close(&fast);
}

static void send_one(struct ring_pair *p, uint8_t from, uint8_t mark)
{
	uint8_t ip[60];

	packet_v4(ip, 60, from, PEER, 1);
	ip[59] = mark;
	assert_int_equal(ring_pair_send(p, ip, 60), 1);
}

static void switch__keeps_what_the_port_has_no_room_for_in_order(void **state)
{
	struct uplink *u = switch_open();
	struct ring_pair one, two;
	unsigned next[2] = {0};

	(void)state;
	switch_attach(u, 1, &one);
	switch_attach(u, 2, &two);
	for (unsigned i = 0; i < 50; i++) {
		send_one(&one, OWN, (uint8_t)i);
		send_one(&two, OWN, (uint8_t)(100 + i));
	}
	for (unsigned i = 0; i < 100; i++) {
		fake.room = 7;
		step(u);
	}
	assert_int_equal(fake.n_out, 100);
	for (unsigned i = 0; i < 100; i++) {
		unsigned who = fake.out[i][59] >= 100;

		assert_int_equal(fake.out[i][59], 100 * who + next[who]++);
	}
	assert_int_equal(u->stats.tx_packets, 100);
	switch_close(u);
	ring_pair_close(&one);
	ring_pair_close(&two);
}

static void switch__refuses_packets_that_are_not_the_devices(void **state)
{
	struct uplink *u = switch_open();
	struct ring_pair one;

	(void)state;
	switch_attach(u, 1, &one);
	for (unsigned i = 0; i < 200; i++)
		send_one(&one, i % 4 ? OWN + 1 : OWN, (uint8_t)i);
	for (unsigned i = 0; i < 20; i++)
		step(u);
	assert_int_equal(fake.n_out, 50);
	assert_int_equal(u->stats.tx_refused, 150);
	assert_int_equal(ring_pair_send(&one, fake.out[0], NIC_FRAME_MAX + 1), 1); /* longer than a buffer */
	step(u);
	assert_int_equal(u->stats.tx_refused, 151);
	switch_close(u);
	ring_pair_close(&one);
}

static void switch__sends_what_a_function_left_behind(void **state)
{
	struct uplink *u = switch_open();
	struct ring_pair one;

	(void)state;
	switch_attach(u, 1, &one);
	for (unsigned i = 0; i < 200; i++)
		send_one(&one, OWN, (uint8_t)i);
	ring_pair_close(&one);
	fake.room = 150;
	uplink_function_flush(u, 1, 0);
	assert_int_equal(fake.n_out, 150);
	assert_int_equal(u->stats.tx_packets, 150);
	assert_int_equal(u->stats.tx_errors, 50);
	switch_close(u);
}

static struct ring_pair tireless;

static void send_another(void)
{
	if (ring_has_room(&tireless.out, 2 * RING_LINE) == 1)
		send_one(&tireless, OWN, 0);
}

static void switch__sends_no_more_than_a_ring_holds_for_a_function_that_goes_on(void **state)
{
	struct uplink *u = switch_open();

	(void)state;
	switch_attach(u, 1, &tireless);
	for (unsigned i = 0; i < 100; i++)
		send_one(&tireless, OWN, 0);
	u->up = false;
	fake.given = send_another;
	uplink_function_flush(u, 1, 0);
	fake.given = NULL;
	assert_in_range(u->stats.tx_down, 1, RING_BYTES / RING_LINE);
	ring_pair_close(&tireless);
	switch_close(u);
}

static void switch__drops_all_that_waits_for_a_port_that_is_stuck(void **state)
{
	struct uplink *u = switch_open();
	const uint64_t late_ns = 1000000000u;
	struct ring_pair one;
	uint64_t deadline_ns;

	(void)state;
	switch_attach(u, 1, &one);
	fake.room = 0;
	for (unsigned i = 0; i < 1000; i++)
		send_one(&one, OWN, (uint8_t)i);
	step(u);
	assert_int_equal(u->stats.tx_errors, 0);
	uplink_step(u, late_ns, &deadline_ns);
	assert_int_equal(u->stats.tx_errors, 1000);
	uplink_step(u, late_ns, &deadline_ns);
	/* The switch itself was stopped for long: the port is asked first. */
	for (unsigned i = 0; i < 100; i++)
		send_one(&one, OWN, (uint8_t)i);
	fake.room = 100;
	for (unsigned i = 0; i < 10; i++)
		uplink_step(u, 3 * late_ns, &deadline_ns);
	assert_int_equal(fake.n_out, 100);
	assert_int_equal(u->stats.tx_errors, 1000);
	switch_close(u);
	ring_pair_close(&one);
}

/** Each sleep ends by the bell, and not by the time, however often. */
static void switch__hears_every_bell(void **state)
{
	struct uplink *u = switch_open();
	struct ring_pair one, two;

	(void)state;
	fake.port.wait_fd = -1;
	switch_attach(u, 1, &one);
	switch_attach(u, 2, &two);
	for (unsigned i = 0; i < 2000; i++) {
		struct ring_pair *who = i % 3 ? &one : &two;

		fake.n_out = 0;
		fake.room = 256;
		assert_true(uplink_sleep_announce(u));
		send_one(who, OWN, (uint8_t)i);
		assert_true(ring_pair_wake(who));
		assert_true(uplink_sleep(u, 5000000000u));
		uplink_sleep_end(u);
		step(u);
		assert_int_equal(fake.n_out, 1);
	}
	assert_true(uplink_sleep_announce(u));
	assert_false(uplink_sleep(u, 1000));
	uplink_sleep_end(u);
	switch_close(u);
	ring_pair_close(&one);
	ring_pair_close(&two);
}

static void switch__disconnects_a_function_that_writes_nonsense(void **state)
{
	struct uplink *u = switch_open();
	struct ring_pair bad, good;

	(void)state;
	switch_attach(u, 1, &bad);
	switch_attach(u, 2, &good);
	send_one(&bad, OWN, 1);
	*ring_word(bad.out.memory, 128) = RING_PACKET_MAX + 1; /* after that packet */
	send_one(&good, OWN, 2);
	step(u);
	assert_int_equal(fake.n_out, 2);
	step(u);
	assert_int_equal(u->stats.functions_broken, 1);
	assert_false(u->functions[1].there);
	send_one(&good, OWN, 3);
	step(u);
	assert_int_equal(fake.n_out, 3);
	ring_control(good.in.memory)->head = 1ull << 40; /* of the ring that the switch fills */
	for (unsigned i = 0; i < 3000 && u->functions[2].there; i++) {
		arrive(0x020001);
		step(u);
	}
	assert_int_equal(u->stats.functions_broken, 2);
	switch_close(u);
	ring_pair_close(&bad);
	ring_pair_close(&good);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steer__by_the_function_of_the_qpn),
		cmocka_unit_test(steer__services_to_who_serves_them),
		cmocka_unit_test(steer__messages_of_the_connection_manager),
		cmocka_unit_test(steer__knows_what_is_not_roce),
		cmocka_unit_test(send__only_whole_packets_from_the_own_address),
		cmocka_unit_test(switch__gives_each_function_its_packets_and_the_daemon_the_rest),
		cmocka_unit_test(switch__a_function_that_does_not_keep_up_harms_nobody),
		cmocka_unit_test(switch__keeps_what_the_port_has_no_room_for_in_order),
		cmocka_unit_test(switch__refuses_packets_that_are_not_the_devices),
		cmocka_unit_test(switch__sends_what_a_function_left_behind),
		cmocka_unit_test(switch__sends_no_more_than_a_ring_holds_for_a_function_that_goes_on),
		cmocka_unit_test(switch__drops_all_that_waits_for_a_port_that_is_stuck),
		cmocka_unit_test(switch__hears_every_bell),
		cmocka_unit_test(switch__disconnects_a_function_that_writes_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
