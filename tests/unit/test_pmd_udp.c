/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_udp.c - the kernel UDP port (pmd/port_udp*.c) in a network namespace of its own: which packets it accepts
 * and what it sends. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "devices.h"
#include "ends.h"
#include "engine_priv.h"
#include "namespace.h"
#include "nic_rdm.h"
#include "port_udp.h"
#include "udp_socket.h"

#ifndef UDP_NO_CHECK6_TX
#define UDP_NO_CHECK6_TX 101
#endif

#define BYTES 64

static bool have_namespace;
static struct pmd_device device[3]; /* two IPv4 addresses and ::1 */

#define NEED_NAMESPACE()                                                                                               \
	do {                                                                                                           \
		if (!have_namespace) {                                                                                 \
			print_message("needs a network namespace, and those are not permitted here\n");                \
			skip();                                                                                        \
		}                                                                                                      \
	} while (0)

/** Open only the port of a device, without an engine. */
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

static void udp__empty_datagrams_are_counted_and_block_no_others(void **state)
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
	/* More empty datagrams than one burst reads. */
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

	port->ops->rx_accepted(port, &frame);
}

static void udp__a_packet_from_another_source_port_unmarks_a_uroce_peer(void **state)
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
	hear(port, &device[0].gid, 0xc001); /* a packet of another peer changes nothing */
	assert_non_null(udp_peer_find(u, &device[1].gid));
	hear(port, &device[1].gid, 0xc001);
	assert_null(udp_peer_find(u, &device[1].gid));
	port->ops->close(port);
}

/** Send two packets of the same size to a peer. */
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

static void udp__gso_refused_for_one_peer_is_still_used_for_others(void **state)
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
	/* A socket without UDP checksums refuses segmentation, like some network paths. */
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

/** A run of an ACK and a longer request: the ACK is sent last, unless the frames are marked as ordered. */
static void udp__an_ack_that_is_ordered_stays_first(void **state)
{
	static uint8_t data[2][NIC_FRAME_MAX];
	struct pmd_port *port;

	(void)state;
	NEED_NAMESPACE();
	port = port_open(&device[0]);
	hear(port, &device[1].gid, NIC_UDP_PORT);
	for (unsigned ordered = 0; ordered < 2; ordered++) {
		struct nic_tx_frame frames[2];

		for (unsigned i = 0; i < 2; i++) {
			data[i][28] = i ? 0x04 : 0x11; /* SEND ONLY, ACKNOWLEDGE */
			frames[i] = (struct nic_tx_frame){.data = data[i],
							  .len = 28 + BYTES + 32 * i,
							  .bth = 28,
							  .hop_limit = 64,
							  .ordered = ordered && i == 0,
							  .sgid = device[0].gid,
							  .dgid = device[1].gid};
		}
		assert_int_equal(port->ops->tx_burst(port, frames, 2, 0), 2);
		assert_int_equal(frames[0].data[28], ordered ? 0x11 : 0x04);
		assert_int_equal(port->stats.tx_gso, 1);
	}
	port->ops->close(port);
}

/* ---- fields of the IP header ---------------------------------------------------------------------------------- */

static void udp__a_refused_traffic_class_is_counted_and_set_again(void **state)
{
	uint8_t data[NIC_FRAME_MAX] = {0};
	struct nic_tx_frame frame = {.data = data,
				     .len = 28 + BYTES,
				     .bth = 28,
				     .sgid = device[0].gid,
				     .dgid = device[1].gid,
				     .tclass = 0x20,
				     .hop_limit = 64};
	socklen_t len = sizeof(int);
	struct pmd_port *port;
	int udp, other, value = 0;

	(void)state;
	NEED_NAMESPACE();
	port = port_open(&device[0]);
	udp = dup(port->wait_fd);
	other = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0); /* a socket without IP options */
	assert_true(dup2(other, port->wait_fd) == port->wait_fd);
	port->ops->tx_burst(port, &frame, 1, 0);
	assert_int_equal(port->stats.tx_fields_refused, 1);
	assert_true(dup2(udp, port->wait_fd) == port->wait_fd);
	port->ops->tx_burst(port, &frame, 1, 0);
	assert_int_equal(port->stats.tx_fields_refused, 1);
	assert_int_equal(getsockopt(port->wait_fd, IPPROTO_IP, IP_TOS, &value, &len), 0);
	assert_int_equal(value, 0x20);
	close(udp);
	close(other);
	port->ops->close(port);
}

/* ---- functions and sockets ------------------------------------------------------------------------------------ */

/** Open a port for function 5 with sockets on the first `n` devices, shared as the daemon shares them. */
static struct pmd_port *shared_port_open(unsigned n)
{
	struct pmd_port *port;
	char err[256] = "";

	assert_int_equal(pmd_port_udp_create(5, &port, err, sizeof(err)), 0);
	for (unsigned i = 0; i < n; i++) {
		int fd = pmd_udp_socket_open(&device[i].gid, 0, true, err, sizeof(err));

		assert_true(fd >= 0);
		assert_int_equal(pmd_port_udp_add(port, i, &device[i].gid, 0, fd), 0);
	}
	return port;
}

static void send_to_qpn(unsigned i, uint32_t qpn, unsigned times)
{
	uint8_t data[BYTES] = {[5] = (uint8_t)(qpn >> 16), (uint8_t)(qpn >> 8), (uint8_t)qpn};
	int fd = sender_open(&device[i]);

	while (times-- > 0)
		assert_int_equal(send(fd, data, sizeof(data), 0), sizeof(data));
	close(fd);
}

static void send_to(unsigned i, uint8_t function, unsigned times)
{
	send_to_qpn(i, (uint32_t)function << 16, times);
}

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

/** Receive at time `now_ns` until the port has no more packets. @param got packets per address. */
static void receive_all(struct pmd_port *port, uint64_t now_ns, unsigned got[3])
{
	struct nic_rx_frame frames[PMD_RX_BURST];
	unsigned n;

	memset(got, 0, 3 * sizeof(got[0]));
	do {
		n = port->ops->rx_burst(port, frames, PMD_RX_BURST, now_ns);
		for (unsigned i = 0; i < n; i++)
			for (unsigned d = 0; d < 3; d++)
				got[d] += pmd_gid_equal(&frames[i].dgid, &device[d].gid);
	} while (n > 0 || port->more);
}

static void udp__packets_to_all_addresses_are_received(void **state)
{
	struct pmd_port *port;
	uint64_t now_ns = 1000000000;
	unsigned got[3];

	(void)state;
	NEED_NAMESPACE();
	port = shared_port_open(3);
	for (unsigned round = 0; round < 50; round++) {
		for (unsigned i = 0; i < 3; i++)
			if (round % (i + 1) == 0)
				send_to(i, 5, i + 1);
		assert_true(is_readable(port->wait_fd));
		now_ns += 3000000; /* all sockets have been silent for long, so each is read */
		receive_all(port, now_ns, got);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(got[i], round % (i + 1) == 0 ? i + 1 : 0);
		assert_false(is_readable(port->wait_fd));
	}
	/* A busy address delays reading the others by some bursts at most. */
	send_to(2, 5, 1);
	for (unsigned round = 0, seen = 0; seen == 0; round++) {
		send_to(0, 5, 1);
		now_ns += 1000;
		receive_all(port, now_ns, got);
		assert_int_equal(got[0], 1);
		seen = got[2];
		assert_in_range(round, 0, 20);
	}
	port->ops->close(port);
}

static void udp__addresses_are_removed_added_and_replaced_under_a_sleeper(void **state)
{
	struct pmd_port *port;
	char err[256];
	unsigned got[3];
	int fd, was;

	(void)state;
	NEED_NAMESPACE();
	port = shared_port_open(1);
	was = port->wait_fd;
	send_to(0, 5, 1);
	assert_true(is_readable(was));
	/* Remove the only address. Waiters can still sleep on its descriptor, so its number is not freed: it stays open
	 * and never becomes readable. */
	pmd_port_udp_remove(port, 0);
	assert_int_equal(fcntl(was, F_GETFD), FD_CLOEXEC);
	assert_false(is_readable(was));
	receive_all(port, 1000000000, got);
	assert_int_equal(got[0], 0);
	fd = pmd_udp_socket_open(&device[0].gid, 0, false, err, sizeof(err)); /* the UDP port is free again */
	assert_true(fd >= 0);
	assert_int_equal(pmd_port_udp_add(port, 1, &device[0].gid, 0, fd), 0);
	send_to(0, 5, 2);
	assert_true(is_readable(port->wait_fd) && is_readable(was));
	receive_all(port, 2000000000, got);
	assert_int_equal(got[0], 2);
	/* An address is replaced in place. */
	fd = pmd_udp_socket_open(&device[1].gid, 0, false, err, sizeof(err));
	assert_int_equal(pmd_port_udp_add(port, 1, &device[1].gid, 0, fd), 0);
	send_to(1, 5, 3);
	receive_all(port, 3000000000, got);
	assert_true(got[0] == 0 && got[1] == 3);
	port->ops->close(port);
	assert_int_equal(fcntl(was, F_GETFD), -1);
}

/** Stray handler that consumes the packets for function 6; the NIC gets all others. */
static bool stray(void *ctx, const struct nic_rx_frame *frame)
{
	unsigned *count = ctx;

	++*count;
	return frame->data[5] == 6;
}

static bool taken(void *ctx, const struct nic_rx_frame *frame)
{
	unsigned *count = ctx;

	(void)frame;
	++*count;
	return true;
}

static bool serves_7(void *ctx, uint16_t service)
{
	(void)ctx;
	return service == 7;
}

static void udp__packets_to_other_functions_go_to_the_stray_handler(void **state)
{
	struct pmd_port *port;
	unsigned got[3], count = 0;

	(void)state;
	NEED_NAMESPACE();
	port = shared_port_open(1);
	send_to(0, 6, 3);
	send_to(0, 5, 1);
	receive_all(port, 1, got);
	assert_int_equal(got[0], 1);
	assert_int_equal(port->stats.rx_misrouted, 3);
	assert_int_equal(port->stats.rx_misrouted_dropped, 3);
	port->stray = stray;
	port->ctx = &count;
	send_to(0, 6, 2);
	send_to(0, 7, 1);
	send_to(0, 5, 1);
	receive_all(port, 1, got);
	assert_int_equal(got[0], 2);
	assert_int_equal(count, 3);
	assert_int_equal(port->stats.rx_misrouted, 6);
	assert_int_equal(port->stats.rx_misrouted_dropped, 3);
	assert_int_equal(port->stats.rx_packets, 3);
	port->ops->close(port);
}

/** The port looks at the whole QPN of a packet to a service: it keeps packets to this function's services; all others
 * are strays. */
static void udp__packets_to_services_not_served_here_are_strays(void **state)
{
	unsigned got[3], count = 0;
	struct pmd_port *port;

	(void)state;
	NEED_NAMESPACE();
	port = shared_port_open(1);
	port->stray = taken;
	port->ctx = &count;
	send_to_qpn(0, NIC_SERVICE_QPN + 7, 1);
	receive_all(port, 1, got);
	assert_int_equal(got[0], 0);
	port->serves = serves_7;
	send_to_qpn(0, NIC_SERVICE_QPN + 7, 1);
	send_to_qpn(0, NIC_SERVICE_QPN + 8, 1);
	send_to_qpn(0, NIC_SERVICE_QPN + 0x700, 1);
	receive_all(port, 1, got);
	assert_int_equal(got[0], 1);
	assert_int_equal(count, 3);
	assert_int_equal(port->stats.rx_misrouted, 3);
	port->ops->close(port);
}

/** A burst ends after a limited number of packets, even if all of them are strays, and reports that there is more. */
static void udp__a_burst_of_nothing_but_strays_is_bounded(void **state)
{
	struct nic_rx_frame frames[PMD_RX_BURST];
	unsigned count = 0, bursts = 0, own = 0;
	struct pmd_port *port;

	(void)state;
	NEED_NAMESPACE();
	port = shared_port_open(1);
	port->stray = taken;
	port->ctx = &count;
	send_to(0, 6, 150);
	send_to(0, 5, 1);
	do {
		unsigned before = count;

		own += port->ops->rx_burst(port, frames, PMD_RX_BURST, 0);
		bursts++;
		assert_in_range(count - before, 0, PMD_RX_VAIN + PMD_RX_BURST - 1);
		assert_in_range(port->looked_at, count - before, PMD_RX_VAIN + PMD_RX_BURST - 1);
	} while (port->more && bursts < 100);
	assert_int_equal(count, 150);
	assert_int_equal(own, 1);
	assert_in_range(bursts, 2, 10);
	port->ops->close(port);
}

/** Strangers flood one address with datagrams that are dropped: another address is read after a few bursts at most. */
static void udp__a_flooded_address_does_not_starve_another(void **state)
{
	struct nic_rx_frame frames[PMD_RX_BURST];
	struct pmd_port *port;
	bool seen = false;
	unsigned count = 0;
	int fd;

	(void)state;
	NEED_NAMESPACE();
	port = shared_port_open(3);
	port->stray = taken;
	port->ctx = &count;
	fd = sender_open(&device[0]);
	send_to(1, 5, 1);
	for (unsigned burst = 0; burst < 6 && !seen; burst++) {
		for (unsigned i = 0; i < 2 * PMD_RX_VAIN; i++)
			assert_int_equal(send(fd, frames, 0, 0), 0);
		seen = port->ops->rx_burst(port, frames, PMD_RX_BURST, 1000000000 + burst) == 1 &&
		       pmd_gid_equal(&frames[0].dgid, &device[1].gid);
		assert_true(seen || port->more);
		assert_in_range(port->looked_at, 1, PMD_RX_VAIN + PMD_RX_BURST - 1);
	}
	assert_true(seen);
	close(fd);
	port->ops->close(port);
}

static void udp__a_gso_run_targets_one_function_and_needs_its_source_address(void **state)
{
	static uint8_t data[4][NIC_FRAME_MAX];
	struct nic_tx_frame frames[4] = {{0}};
	struct pmd_port *port, *to;
	unsigned got[3];

	(void)state;
	NEED_NAMESPACE();
	port = shared_port_open(1);
	to = port_open(&device[1]);
	hear(port, &device[1].gid, NIC_UDP_PORT);
	for (unsigned i = 0; i < 4; i++) {
		frames[i] = (struct nic_tx_frame){.data = data[i],
						  .len = 28 + BYTES,
						  .bth = 28,
						  .hop_limit = 64,
						  .sgid = device[0].gid,
						  .dgid = device[1].gid};
		data[i][28 + 5] = i < 2 ? 8 : 9;
		data[i][28 + 7] = (uint8_t)i; /* QPNs of two functions; packets to one function may share a run */
	}
	assert_int_equal(port->ops->tx_burst(port, frames, 4, 0), 4);
	assert_int_equal(port->stats.tx_gso, 2);
	receive_all(to, 1, got);
	assert_int_equal(got[1], 4);
	assert_int_equal(to->stats.rx_datagrams, 2);
	for (unsigned i = 0; i < 4; i++) {
		data[i][28 + 5] = 0xff; /* QPNs of services 0, 1, 3, 3; different services share no run */
		data[i][28 + 7] |= i >> 1;
	}
	assert_int_equal(port->ops->tx_burst(port, frames, 4, 0), 4);
	receive_all(to, 1, got);
	assert_int_equal(got[1], 4);
	assert_int_equal(to->stats.rx_datagrams, 5);
	for (unsigned i = 0; i < 4; i++) { /* messages to queue pair 1: each may be for a different function */
		memset(data[i] + 28 + 5, 0, 3);
		data[i][28 + 7] = 1;
	}
	assert_int_equal(port->ops->tx_burst(port, frames, 4, 0), 4);
	receive_all(to, 1, got);
	assert_int_equal(got[1], 4);
	assert_int_equal(to->stats.rx_datagrams, 9);
	frames[0].sgid = device[2].gid; /* which the port does not have */
	assert_int_equal(port->ops->tx_burst(port, frames, 1, 0), 1);
	assert_int_equal(port->stats.tx_no_source, 1);
	assert_int_equal(port->stats.tx_packets, 12);
	to->ops->close(to);
	port->ops->close(port);
}

/* ---- cancellation --------------------------------------------------------------------------------------------- */

/** Calls made with the engine locked must not be cancellation points: the thread would die holding the lock. */
static void *cancelled_under_the_lock(void *arg)
{
	struct pmd_engine *e = arg;
	struct nic_gid nowhere = device[0].gid;

	nowhere.raw[12] = 203;
	pmd_lock(e);
	pthread_cancel(pthread_self());
	nic_psn_random(e->host.nic);
	transmit_run(e->host.port, &nowhere); /* writes an error message to stderr */
	pmd_mutex_unlock(&e->lock);
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
	assert_int_equal(e->host.port->stats.tx_unreachable, 2);
	pmd_lock(e); /* would hang if the cancelled thread had kept the lock */
	pmd_mutex_unlock(&e->lock);
	pmd_close(e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(udp__v6_packets_without_a_checksum_are_taken),
		cmocka_unit_test(udp__empty_datagrams_are_counted_and_block_no_others),
		cmocka_unit_test(udp__overflow_of_the_socket_is_counted),
		cmocka_unit_test(udp__a_packet_from_another_source_port_unmarks_a_uroce_peer),
		cmocka_unit_test(udp__gso_refused_for_one_peer_is_still_used_for_others),
		cmocka_unit_test(udp__an_ack_that_is_ordered_stays_first),
		cmocka_unit_test(udp__a_refused_traffic_class_is_counted_and_set_again),
		cmocka_unit_test(udp__packets_to_all_addresses_are_received),
		cmocka_unit_test(udp__addresses_are_removed_added_and_replaced_under_a_sleeper),
		cmocka_unit_test(udp__packets_to_other_functions_go_to_the_stray_handler),
		cmocka_unit_test(udp__packets_to_services_not_served_here_are_strays),
		cmocka_unit_test(udp__a_burst_of_nothing_but_strays_is_bounded),
		cmocka_unit_test(udp__a_flooded_address_does_not_starve_another),
		cmocka_unit_test(udp__a_gso_run_targets_one_function_and_needs_its_source_address),
		cmocka_unit_test(udp__no_cancellation_under_the_lock),
	};

	have_namespace = namespace_enter();
	if (ends_devices(device, 2, "::1") != 3)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
