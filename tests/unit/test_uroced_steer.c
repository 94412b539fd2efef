/* SPDX-License-Identifier: BSD-3-Clause */
/* test_uroced_steer.c - the filter program that the daemon loads into the kernel (uroced_steer.c): which socket gets
 * which datagram. The tests run it in the kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include <netinet/in.h>

#include "engine_cm.h"
#include "namespace.h"
#include "nic_rdm.h"
#include "uroced.h"

#define SOCKETS	   5
#define MAD_PACKET 280
#define BTH_QPN	   5
#define MAD	   20

enum { REQ = 0x10, MRA, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP, LAP, APR };

static struct daemon d;
static struct entry *const e = &d.gids[0];
static int sender;

/* ---- what uroced_steer.c asks of the daemon --------------------------------------------------------------------- */

int daemon_watch(struct daemon *daemon, int fd, uint32_t events, uint64_t source)
{
	(void)daemon, (void)fd, (void)events, (void)source;
	return 0;
}

void keeper_grow(struct daemon *daemon, const unsigned before[NIC_GID_TABLE_LEN])
{
	(void)daemon, (void)before;
}

bool cm_datagram(struct daemon *daemon, unsigned entry, const uint8_t *data, size_t len,
		 const struct sockaddr_in6 *from)
{
	(void)daemon, (void)entry, (void)data, (void)len, (void)from;
	return false;
}

void uplink_serve(struct daemon *daemon)
{
	(void)daemon;
}

/* ---- sending -------------------------------------------------------------------------------------------------- */

static uint8_t packet[MAD_PACKET];

static void put32(unsigned at, uint32_t value)
{
	for (unsigned i = 0; i < 4; i++)
		packet[at + i] = (uint8_t)(value >> (24 - 8 * i));
}

/** Send the first `len` bytes of the packet. @return the index of the socket that receives them; -1: none. */
static int arrives_at(size_t len)
{
	uint8_t byte;
	int found = -1;

	assert_int_equal(send(sender, packet, len, 0), len);
	for (int i = 0; i < SOCKETS; i++)
		if (recv(e->sockets[i], &byte, 1, MSG_DONTWAIT) >= 0) {
			assert_int_equal(found, -1);
			found = i;
		}
	return found;
}

static int to_qpn(uint32_t qpn)
{
	memset(packet, 0, sizeof(packet));
	put32(BTH_QPN - 1, qpn);
	return arrives_at(16);
}

static void mad(unsigned attribute)
{
	memset(packet, 0, sizeof(packet));
	put32(BTH_QPN - 1, 1);
	packet[MAD + 17] = (uint8_t)attribute;
}

static int to_ids(unsigned attribute, uint32_t first, uint32_t second)
{
	mad(attribute);
	put32(MAD + 24, first);
	put32(MAD + 28, second);
	return arrives_at(MAD_PACKET);
}

static int to_service(unsigned attribute, uint64_t service)
{
	mad(attribute);
	put32(MAD + 24, 0x02345678); /* the sender's ID: its first byte, 2, must not choose the socket */
	put32(MAD + 32, (uint32_t)(service >> 32));
	put32(MAD + 36, (uint32_t)service);
	return arrives_at(MAD_PACKET);
}

static void serve(unsigned n, uint32_t service)
{
	d.slots[n].services[d.slots[n].n_services++] = service;
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static int setup(void **state)
{
	struct sockaddr_in6 to;
	char err[256];

	(void)state;
	memset(&d, 0, sizeof(d));
	assert_true(pmd_gid_parse("127.0.0.1", &e->gid));
	d.slots[SOCKETS - 1].state = SLOT_LIVE;
	assert_int_equal(steer_open(&d, e, err, sizeof(err)), 0);
	assert_int_equal(e->n_sockets, SOCKETS);
	sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(sender, (struct sockaddr *)&to, pmd_gid_sockaddr(&e->gid, 0, &to)), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	steer_close(&d, e);
	close(sender);
	return 0;
}

static void steer__packets_go_to_the_socket_of_their_qpn(void **state)
{
	(void)state;
	for (unsigned n = 0; n < SOCKETS; n++)
		assert_int_equal(to_qpn(n << 16 | 5), n);
	assert_int_equal(to_qpn(SOCKETS << 16), 0);
	assert_int_equal(to_qpn(0xfe0001), 0);
	memset(packet, 0, sizeof(packet));
	packet[BTH_QPN] = 2;
	assert_int_equal(arrives_at(BTH_QPN), 0);
	assert_int_equal(arrives_at(BTH_QPN + 1), 2);
}

static void steer__datagrams_to_a_service_go_to_its_function(void **state)
{
	(void)state;
	assert_int_equal(to_qpn(NIC_SERVICE_QPN + 1000), 0);
	serve(3, proto_service(NIC_CM_PS_TCP, 1002)); /* a connection service, which gets no datagrams */
	serve(3, 1000);
	serve(2, 1001);
	steer_services_changed(&d);
	assert_int_equal(to_qpn(NIC_SERVICE_QPN + 1000), 3);
	assert_int_equal(to_qpn(NIC_SERVICE_QPN + 1001), 2);
	assert_int_equal(to_qpn(NIC_SERVICE_QPN + 1002), 2); /* unserved: the first server of datagrams gets it */
}

static void steer__cm_messages_are_steered_by_the_receivers_id(void **state)
{
	static const unsigned by_second[] = {MRA, REJ, REP, RTU, DREQ, DREP, LAP, APR};

	(void)state;
	for (unsigned i = 0; i < sizeof(by_second) / sizeof(by_second[0]); i++) {
		assert_int_equal(to_ids(by_second[i], 0x02000001, 0x03ffffff), 3);
		assert_int_equal(to_ids(by_second[i], 0x02000001, 0x00000001), 0);
		assert_int_equal(to_ids(by_second[i], 0x02000001, SOCKETS << 24), 0);
		assert_int_equal(to_ids(by_second[i], 0x02000001, 0xffffffff), 0);
	}
	assert_int_equal(to_ids(SIDR_REP, 0x02000001, 0x03000000), 2);
	assert_int_equal(to_ids(SIDR_REP, 0xff000001, 0x03000000), 0);
}

static void steer__cm_requests_are_steered_by_their_service_id(void **state)
{
	const uint64_t tcp = nic_cm_service_id(NIC_CM_PS_TCP, 1000);

	(void)state;
	assert_int_equal(to_service(REQ, tcp), 0);
	serve(2, proto_service(NIC_CM_PS_TCP, 1000));
	serve(3, proto_service(NIC_CM_PS_UDP, 1000));
	serve(4, 1000);
	serve(4, proto_service(NIC_CM_PS_TCP, 65535));
	steer_services_changed(&d);
	for (unsigned i = 0; i < 2; i++) {
		unsigned attribute = i ? SIDR_REQ : REQ;

		assert_int_equal(to_service(attribute, tcp), 2);
		assert_int_equal(to_service(attribute, nic_cm_service_id(NIC_CM_PS_UDP, 1000)), 3);
		assert_int_equal(to_service(attribute, nic_cm_service_id(NIC_CM_PS_TCP, 65535)), 4);
		assert_int_equal(to_service(attribute, nic_cm_service_id(NIC_CM_PS_IB, 1000)), 0);
		assert_int_equal(to_service(attribute, 1000), 0);
		assert_int_equal(to_service(attribute, tcp | UINT64_C(1) << 40), 0);
	}
	d.slots[2].n_services = 0;
	steer_services_changed(&d);
	assert_int_equal(to_service(REQ, tcp), 0);
}

static void steer__a_short_message_goes_to_the_daemon(void **state)
{
	(void)state;
	serve(2, proto_service(NIC_CM_PS_TCP, 1000));
	steer_services_changed(&d);
	mad(REQ);
	put32(MAD + 36, proto_service(NIC_CM_PS_TCP, 1000));
	for (size_t len = 8; len < MAD + 40; len++)
		assert_int_equal(arrives_at(len), 0);
	assert_int_equal(arrives_at(MAD + 40), 2);
	assert_int_equal(to_qpn(1), 0);
	assert_int_equal(to_qpn(2), 0);
	assert_int_equal(to_qpn(0x000100), 0);
}

/** All functions have as many datagram and connection services as they may. Requests for connection services that the
 * program has no room for go to the daemon. */
static void steer__services_beyond_the_table_go_to_the_daemon(void **state)
{
	unsigned listed = 0;

	(void)state;
	for (unsigned n = 1; n < SOCKETS; n++)
		for (unsigned i = 0; i < PROTO_SERVICES_MAX; i++)
			serve(n, proto_service(i % 2 ? NIC_CM_PS_TCP : 0, (uint16_t)(n << 10 | (i + 1))));
	steer_services_changed(&d);
	assert_int_equal(d.stats.unsteered_services, 0);
	for (unsigned n = 1; n < SOCKETS; n++)
		for (unsigned i = 1; i < PROTO_SERVICES_MAX; i += 2) {
			int at = to_service(REQ, nic_cm_service_id(NIC_CM_PS_TCP, (uint16_t)(n << 10 | (i + 1))));

			assert_true(at == 0 || at == (int)n);
			listed += at != 0;
		}
	assert_true(listed >= 128);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(steer__packets_go_to_the_socket_of_their_qpn, setup, teardown),
		cmocka_unit_test_setup_teardown(steer__datagrams_to_a_service_go_to_its_function, setup, teardown),
		cmocka_unit_test_setup_teardown(steer__cm_messages_are_steered_by_the_receivers_id, setup, teardown),
		cmocka_unit_test_setup_teardown(steer__cm_requests_are_steered_by_their_service_id, setup, teardown),
		cmocka_unit_test_setup_teardown(steer__a_short_message_goes_to_the_daemon, setup, teardown),
		cmocka_unit_test_setup_teardown(steer__services_beyond_the_table_go_to_the_daemon, setup, teardown),
	};

	if (!namespace_enter()) {
		fputs("no network namespace of its own: not tested\n", stderr);
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
