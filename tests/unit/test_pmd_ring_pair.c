/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_ring_pair.c - the rings between a function and the switch of an uplink, and a function's port on them.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "port.h"
#include "ring_pair.h"

/* ---- rings ---------------------------------------------------------------------------------------------------- */

static void open_pair(struct ring_pair *ours, struct ring_pair *theirs)
{
	int fds[RING_PAIR_FDS];

	assert_int_equal(ring_pair_create(ours, fds), 0);
	assert_int_equal(ring_pair_map(theirs, fds), 0);
}

static bool readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

static void assert_carries(struct ring_pair *from, struct ring_pair *to, uint8_t byte)
{
	const uint8_t sent[3] = {byte, 2, 3}, *got;
	uint32_t kind;

	assert_int_equal(ring_pair_send(from, sent, 3), 1);
	assert_int_equal(ring_peek(&to->in, &got, &kind), 3);
	assert_memory_equal(got, sent, 3);
	ring_pop(&to->in, 3);
	ring_say_head(&to->in);
}

static void pair__carries_packets_both_ways(void **state)
{
	struct ring_pair a, b;

	(void)state;
	open_pair(&a, &b);
	for (unsigned i = 0; i < 10000; i++) {
		assert_carries(&a, &b, (uint8_t)i);
		assert_carries(&b, &a, (uint8_t)(i + 1));
	}
	ring_pair_close(&a);
	ring_pair_close(&b);
}

static void pair__rings_only_a_sleeper_and_once(void **state)
{
	struct ring_pair a, b;
	const uint8_t byte = 1;

	(void)state;
	open_pair(&a, &b);
	assert_int_equal(ring_pair_send(&a, &byte, 1), 1);
	assert_false(ring_pair_wake(&a));
	assert_false(ring_pair_sleep(&b)); /* there is a packet */
	ring_pop(&b.in, 1);
	assert_true(ring_pair_sleep(&b));
	assert_false(readable(b.bell_fd));
	assert_int_equal(ring_pair_send(&a, &byte, 1), 1);
	assert_true(ring_pair_wake(&a));
	assert_false(ring_pair_wake(&a));
	assert_true(readable(b.bell_fd));
	ring_pair_awake(&b);
	ring_pair_drain(&b);
	assert_false(readable(b.bell_fd));
	assert_true(ring_pair_drain(&b));
	ring_pair_close(&a);
	ring_pair_close(&b);
}

static void pair__refuses_descriptors_of_no_ring(void **state)
{
	struct ring_pair a, b;
	int fds[RING_PAIR_FDS];

	(void)state;
	assert_int_equal(ring_pair_create(&a, fds), 0);
	close(fds[1]);
	fds[1] = dup(fds[2]); /* a bell in place of a ring */
	assert_true(ring_pair_map(&b, fds) < 0);
	for (unsigned i = 0; i < RING_PAIR_FDS; i++)
		assert_int_equal(close(fds[i]), -1); /* they are closed */
	ring_pair_close(&a);
}

/* ---- a function's port ---------------------------------------------------------------------------------------- */

struct port_rig {
	struct pmd_port *port;
	struct ring_pair switch_side;
};

static void port_open(struct port_rig *r)
{
	int fds[RING_PAIR_FDS];
	char err[100];

	assert_int_equal(pmd_port_uplink_create(&r->port, err, sizeof(err)), 0);
	assert_int_equal(ring_pair_create(&r->switch_side, fds), 0);
	assert_int_equal(pmd_port_uplink_rings(r->port, fds), 0);
}

static void port_close(struct port_rig *r)
{
	r->port->ops->close(r->port);
	ring_pair_close(&r->switch_side);
}

static void port__gives_packets_that_stay_valid_until_the_next_burst(void **state)
{
	struct nic_rx_frame frames[PMD_RX_BURST];
	uint8_t packet[NIC_FRAME_MAX];
	struct port_rig r;
	unsigned sent = 0, got;

	(void)state;
	port_open(&r);
	for (;; sent++) { /* until the ring is full */
		memset(packet, (int)sent, sizeof(packet));
		if (ring_pair_send(&r.switch_side, packet, sizeof(packet)) != 1)
			break;
	}
	assert_true(sent > 40);
	got = r.port->ops->rx_burst(r.port, frames, 32, 0);
	assert_int_equal(got, 32);
	assert_int_equal(ring_pair_send(&r.switch_side, packet, sizeof(packet)), 0); /* they are still in use */
	for (unsigned i = 0; i < got; i++) {
		assert_int_equal(frames[i].len, sizeof(packet));
		assert_int_equal(frames[i].data[0], (uint8_t)i);
		assert_int_equal(frames[i].data[sizeof(packet) - 1], (uint8_t)i);
	}
	assert_int_equal(r.port->ops->rx_burst(r.port, frames, PMD_RX_BURST, 0), sent - 32);
	assert_int_equal(frames[0].data[0], 32);
	assert_int_equal(ring_pair_send(&r.switch_side, packet, sizeof(packet)), 1);
	port_close(&r);
}

static void port__takes_no_more_than_fits_and_drops_without_a_daemon(void **state)
{
	struct nic_tx_frame frames[PMD_TX_BURST];
	uint8_t packet[NIC_FRAME_MAX] = {0};
	struct port_rig r;
	unsigned sent = 0, n;

	(void)state;
	port_open(&r);
	for (unsigned i = 0; i < PMD_TX_BURST; i++)
		frames[i] = (struct nic_tx_frame){.data = packet, .len = sizeof(packet)};
	while ((n = r.port->ops->tx_burst(r.port, frames, PMD_TX_BURST, 0)) == PMD_TX_BURST)
		sent += n;
	assert_true(n < PMD_TX_BURST);
	assert_int_equal(r.port->ops->tx_burst(r.port, frames, 1, 0), 0);
	assert_int_equal(r.port->stats.tx_packets, sent + n);
	pmd_port_uplink_gone(r.port);
	assert_int_equal(r.port->wait_fd, -1);
	assert_int_equal(r.port->ops->tx_burst(r.port, frames, 5, 0), 5);
	assert_int_equal(r.port->stats.uplink_gone, 5);
	assert_true(r.port->ops->sleep(r.port));
	port_close(&r);
}

static void port__goes_on_with_new_rings(void **state)
{
	uint8_t packet[64] = {7};
	struct nic_rx_frame frame;
	struct port_rig r;
	int fds[RING_PAIR_FDS];
	unsigned changes;

	(void)state;
	port_open(&r);
	changes = r.port->wait_changes;
	ring_pair_close(&r.switch_side);
	assert_int_equal(ring_pair_create(&r.switch_side, fds), 0);
	assert_int_equal(pmd_port_uplink_rings(r.port, fds), 0);
	assert_int_not_equal(r.port->wait_changes, changes);
	assert_true(r.port->ops->sleep(r.port));
	assert_int_equal(ring_pair_send(&r.switch_side, packet, sizeof(packet)), 1);
	assert_true(ring_pair_wake(&r.switch_side));
	assert_int_equal(r.port->ops->rx_burst(r.port, &frame, 1, 0), 1); /* by a thread that polls meanwhile */
	assert_int_equal(frame.data[0], 7);
	assert_true(readable(r.port->wait_fd)); /* the sleeper is still to wake */
	r.port->ops->awake(r.port);
	assert_false(readable(r.port->wait_fd));
	port_close(&r);
}

static void port__keeps_the_bell_open_for_a_thread_that_is_about_to_wait_on_it(void **state)
{
	struct port_rig r;
	int fds[RING_PAIR_FDS], before;

	(void)state;
	port_open(&r);
	before = r.port->wait_fd;
	pmd_port_uplink_gone(r.port);
	assert_int_equal(fcntl(before, F_GETFD), FD_CLOEXEC);
	ring_pair_close(&r.switch_side);
	assert_int_equal(ring_pair_create(&r.switch_side, fds), 0);
	assert_int_equal(pmd_port_uplink_rings(r.port, fds), 0);
	pmd_port_uplink_gone(r.port);
	assert_int_equal(fcntl(before, F_GETFD), -1);
	port_close(&r);
}

static void port__sleeps_without_a_switch(void **state)
{
	struct port_rig r;

	(void)state;
	port_open(&r);
	assert_true(r.port->ops->sleep(r.port));
	ring_pair_close(&r.switch_side);
	assert_true(readable(r.port->wait_fd));
	r.port->ops->awake(r.port);
	assert_int_equal(r.port->wait_fd, -1);
	r.port->ops->close(r.port);
}

static void pair__neither_side_makes_the_other_wait(void **state)
{
	struct ring_pair a, b;
	const uint8_t byte = 1;

	(void)state;
	open_pair(&a, &b);
	for (unsigned i = 0; i < 100000;
	     i++) { /* the other side never reads its bell, and always says that it sleeps */
		ring_set_asleep(&b.in, true);
		ring_pair_send(&a, &byte, 1);
		ring_pair_wake(&a);
	}
	assert_true(readable(b.bell_fd));
	ring_pair_close(&b);
	ring_control(a.out.memory)->asleep = 1;
	assert_true(ring_pair_wake(&a)); /* without a signal */
	ring_pair_close(&a);
}

static void port__gives_up_rings_with_nonsense(void **state)
{
	struct nic_rx_frame frame;
	struct port_rig r;

	(void)state;
	port_open(&r);
	*ring_word(r.switch_side.out.memory, 0) = RING_PACKET_MAX + 1;
	assert_int_equal(r.port->ops->rx_burst(r.port, &frame, 1, 0), 0);
	assert_int_equal(r.port->stats.uplink_broken, 1);
	assert_int_equal(r.port->ops->rx_burst(r.port, &frame, 1, 0), 0);
	assert_int_equal(r.port->stats.uplink_broken, 1);
	port_close(&r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pair__carries_packets_both_ways),
		cmocka_unit_test(pair__rings_only_a_sleeper_and_once),
		cmocka_unit_test(pair__refuses_descriptors_of_no_ring),
		cmocka_unit_test(port__gives_packets_that_stay_valid_until_the_next_burst),
		cmocka_unit_test(port__takes_no_more_than_fits_and_drops_without_a_daemon),
		cmocka_unit_test(port__goes_on_with_new_rings),
		cmocka_unit_test(port__keeps_the_bell_open_for_a_thread_that_is_about_to_wait_on_it),
		cmocka_unit_test(port__sleeps_without_a_switch),
		cmocka_unit_test(pair__neither_side_makes_the_other_wait),
		cmocka_unit_test(port__gives_up_rings_with_nonsense),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
