/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of the kernel UDP port (pmd/port_udp*.c) in a network namespace of their own: what it takes, what it sends. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "devices.h"
#include "engine_priv.h"
#include "namespace.h"
#include "port_udp.h"

#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#endif

#define BYTES 64

static bool have_namespace;
static struct pmd_device device[3]; /* 127.80.2.1, 127.80.2.2, ::1 */

#define NEED_NAMESPACE()                                                                                               \
	do {                                                                                                           \
		if (!have_namespace) {                                                                                 \
			print_message("needs a network namespace, and those are not permitted here\n");                \
			skip();                                                                                        \
		}                                                                                                      \
	} while (0)

/** The port of a device and nothing else. */
static struct pmd_port *port_open(const struct pmd_device *d)
{
	struct pmd_port *port;
	char err[256] = "";

	assert_int_equal(pmd_port_udp_open(d, NIC_MTU_1024, NULL, &port, err, sizeof(err)), 0);
	return port;
}

/** A socket connected to the port of a device. */
static int sender_open(const struct pmd_device *d)
{
	struct sockaddr_in6 to;
	socklen_t len = pmd_gid_sockaddr(&d->gid, 0, &to);
	int fd = socket(to.sin6_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&to, len), 0);
	return fd;
}

static unsigned receive(struct pmd_port *port)
{
	struct nic_rx_frame frames[PMD_RX_BURST];

	return port->ops->rx_burst(port, frames, PMD_RX_BURST, 0);
}

static void udp__v6_packets_without_a_checksum_are_taken(void **state)
{
	uint8_t data[BYTES] = {0};
	struct pmd_port *port;
	int fd, on = 1;

	(void)state;
	NEED_NAMESPACE();
	port = port_open(&device[2]);
	fd = sender_open(&device[2]);
	assert_int_equal(setsockopt(fd, IPPROTO_UDP, UDP_NO_CHECK6_TX, &on, sizeof(on)), 0);
	assert_int_equal(send(fd, data, sizeof(data), 0), sizeof(data));
	assert_int_equal(receive(port), 1);
	close(fd);
	port->ops->close(port);
}

static void udp__empty_datagrams_are_counted_and_hide_nothing(void **state)
{
	uint8_t data[BYTES] = {0};
	struct pmd_port *port;
	int fd;

	(void)state;
	NEED_NAMESPACE();
	port = port_open(&device[0]);
	fd = sender_open(&device[0]);
	assert_int_equal(send(fd, data, 0, 0), 0);
	assert_int_equal(send(fd, data, sizeof(data), 0), sizeof(data));
	assert_int_equal(receive(port), 1);
	assert_int_equal(port->stats.rx_empty, 1);
	/* More of them than one burst looks at. */
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(send(fd, data, 0, 0), 0);
	assert_int_equal(receive(port), 0);
	assert_true(port->more);
	for (unsigned i = 0; i < 100 && port->more; i++)
		assert_int_equal(receive(port), 0);
	assert_false(port->more);
	assert_int_equal(port->stats.rx_empty, 101);
	close(fd);
	port->ops->close(port);
}

static void udp__overflow_of_the_socket_is_counted(void **state)
{
	uint8_t data[8192] = {0};
	struct pmd_port *port;
	int fd, room = 8192;

	(void)state;
	NEED_NAMESPACE();
	port = port_open(&device[0]);
	fd = sender_open(&device[0]);
	assert_int_equal(setsockopt(port->wait_fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room)), 0);
	for (unsigned i = 0; i < 50; i++)
		send(fd, data, sizeof(data), 0);
	port->ops->stats(port);
	assert_in_range(port->stats.rx_no_room, 1, 50);
	close(fd);
	port->ops->close(port);
}

/* ---- peers of our own kind ------------------------------------------------------------------------------------ */

static void hear(struct pmd_port *port, const struct nic_gid *from, uint16_t sport)
{
	struct nic_rx_frame frame = {.sgid = *from, .udp_sport = sport};

	port->ops->rx_valid(port, &frame);
}

static void udp__own_kind_is_forgotten_when_the_address_changes_hands(void **state)
{
	struct pmd_port *port;
	struct port_udp *u;

	(void)state;
	NEED_NAMESPACE();
	port = port_open(&device[0]);
	u = (struct port_udp *)port;
	assert_null(udp_peer_find(u, &device[1].gid));
	hear(port, &device[1].gid, 0xc001);
	assert_null(udp_peer_find(u, &device[1].gid));
	hear(port, &device[1].gid, NIC_UDP_PORT);
	assert_non_null(udp_peer_find(u, &device[1].gid));
	hear(port, &device[0].gid, 0xc001); /* somebody else */
	assert_non_null(udp_peer_find(u, &device[1].gid));
	hear(port, &device[1].gid, 0xc001);
	assert_null(udp_peer_find(u, &device[1].gid));
	port->ops->close(port);
}

/** Two packets of one size to a peer. */
static unsigned transmit_run(struct pmd_port *port, const struct nic_gid *to)
{
	static uint8_t data[2][NIC_FRAME_MAX];
	struct nic_tx_frame frames[2];

	memset(frames, 0, sizeof(frames));
	for (unsigned i = 0; i < 2; i++) {
		frames[i].data = data[i];
		frames[i].len = 28 + BYTES;
		frames[i].bth = 28;
		frames[i].sgid = device[0].gid;
		frames[i].dgid = *to;
		frames[i].hop_limit = 64;
	}
	return port->ops->tx_burst(port, frames, 2, 0);
}

static void udp__one_path_without_segmentation_leaves_the_others_theirs(void **state)
{
	struct pmd_port *port;
	int on = 1, off = 0;

	(void)state;
	NEED_NAMESPACE();
	port = port_open(&device[0]);
	hear(port, &device[0].gid, NIC_UDP_PORT);
	hear(port, &device[1].gid, NIC_UDP_PORT);
	assert_int_equal(transmit_run(port, &device[0].gid), 2);
	assert_int_equal(port->stats.tx_gso, 1);
	/* A socket without checksums refuses segmentation, as some paths do. */
	assert_int_equal(setsockopt(port->wait_fd, SOL_SOCKET, SO_NO_CHECK, &on, sizeof(on)), 0);
	assert_int_equal(transmit_run(port, &device[0].gid), 2);
	assert_int_equal(port->stats.tx_gso_fallback, 1);
	assert_int_equal(port->stats.tx_packets, 4);
	assert_int_equal(setsockopt(port->wait_fd, SOL_SOCKET, SO_NO_CHECK, &off, sizeof(off)), 0);
	assert_int_equal(transmit_run(port, &device[0].gid), 2);
	assert_int_equal(port->stats.tx_gso, 1);
	assert_int_equal(transmit_run(port, &device[1].gid), 2);
	assert_int_equal(port->stats.tx_gso, 2);
	assert_int_equal(port->stats.tx_gso_fallback, 1);
	port->ops->close(port);
}

/* ---- cancellation --------------------------------------------------------------------------------------------- */

/** What may be called with the engine locked must not end there the thread that somebody cancels. */
static void *cancelled_under_the_lock(void *arg)
{
	struct pmd_engine *e = arg;
	struct nic_gid nowhere = device[0].gid;

	nowhere.raw[12] = 203;
	pmd_lock(e);
	pthread_cancel(pthread_self());
	nic_psn_random(e->nic);
	transmit_run(e->port, &nowhere); /* which is said on stderr */
	pthread_mutex_unlock(&e->lock);
	pthread_testcancel();
	return NULL;
}

static void udp__no_cancellation_under_the_lock(void **state)
{
	struct pmd_engine *e;
	pthread_t thread;
	char err[256];
	void *ret;

	(void)state;
	NEED_NAMESPACE();
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &e, err, sizeof(err)), 0);
	assert_int_equal(pthread_create(&thread, NULL, cancelled_under_the_lock, e), 0);
	pthread_join(thread, &ret);
	assert_ptr_equal(ret, PTHREAD_CANCELED);
	assert_int_equal(e->port->stats.tx_unreachable, 2);
	assert_int_equal(pthread_mutex_trylock(&e->lock), 0);
	pthread_mutex_unlock(&e->lock);
	pmd_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(udp__v6_packets_without_a_checksum_are_taken),
		cmocka_unit_test(udp__empty_datagrams_are_counted_and_hide_nothing),
		cmocka_unit_test(udp__overflow_of_the_socket_is_counted),
		cmocka_unit_test(udp__own_kind_is_forgotten_when_the_address_changes_hands),
		cmocka_unit_test(udp__one_path_without_segmentation_leaves_the_others_theirs),
		cmocka_unit_test(udp__no_cancellation_under_the_lock),
	};
	char err[256];

	have_namespace = namespace_enter();
	if (pmd_devices_parse("127.80.2.1 127.80.2.2 ::1", device, 3, err, sizeof(err)) != 3)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
