/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_observe.c - pmd/control/observe.c, capture.c and tap.c: two engines of one process, and a tool at the other
 * end of a socket pair.
 */
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "capture.h"
#include "devices.h"
#include "ends.h"
#include "engine_priv.h"
#include "observe.h"
#include "packet.h"
#include "proto.h"
#include "tap.h"

static struct pmd_device device[2];
static bool by_udp; /* the engines talk by UDP instead of links */
static struct end a, b;
static int tool, function_end; /* the two ends of the tool's connection to a's function */
static union {
	uint64_t align;
	char text[65536];
	struct pmd_capture_header header;
	int32_t status;
} in;

static int setup(void **state)
{
	int fds[2];

	(void)state;
	ends_open(&a, &device[0], &b, &device[1]);
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds) != 0)
		return -1;
	tool = fds[0];
	function_end = fds[1];
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pmd_lock(a.engine);
	pmd_observe_closed(&a.engine->host, function_end);
	pmd_unlock(a.engine);
	close(tool);
	close(function_end);
	end_close(&a);
	end_close(&b);
	return 0;
}

static void request(const char *text)
{
	pmd_lock(a.engine);
	pmd_observe_request(&a.engine->host, function_end, text);
	pmd_unlock(a.engine);
}

/** Receive the tool's next message into `in`. @return its type; 0 if none is there or the connection has ended. */
static unsigned receive(unsigned *len)
{
	struct proto_msg m = {.data = &in, .room = sizeof(in) - 1};

	if (proto_recv(tool, &m) != 1)
		return 0;
	*len = m.len;
	in.text[m.len] = '\0';
	return m.type;
}

/** Send a request and receive the answer into in.text. @return the answer's status. */
static int ask(const char *text)
{
	static char answer[65536];
	unsigned len = 0, type;

	answer[0] = '\0';
	request(text);
	while ((type = receive(&len)) == PROTO_TEXT)
		strcat(answer, in.text);
	assert_int_equal(type, PROTO_END);
	assert_int_equal(len, sizeof(int32_t));
	type = (unsigned)in.status;
	strcpy(in.text, answer);
	return (int)type;
}

static void has(const char *what)
{
	if (!strstr(in.text, what))
		fail_msg("no %s in %s", what, in.text);
}

/** SEND a message from x to y and wait for both completions. */
static void exchange(struct end *x, struct end *y, uint32_t len)
{
	end_recv(y);
	end_send(x, NIC_WR_SEND, len, NULL);
	assert_int_equal(end_wait(y, y->rcq, false).status, NIC_WC_SUCCESS);
	assert_int_equal(end_wait(x, x->scq, false).status, NIC_WC_SUCCESS);
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

static void observe__status_identifies_the_function(void **state)
{
	char text[96], address[PMD_GID_TEXT];

	(void)state;
	assert_int_equal(ask("status"), 0);
	snprintf(text, sizeof(text), "{\"function\":%u,\"pid\":%d,\"command\":\"test_pmd_observe\"",
		 a.engine->host.function, (int)getpid());
	has(text);
	snprintf(text, sizeof(text), "\"gids\":[{\"index\":0,\"address\":\"%s\"}",
		 pmd_gid_str(&device[0].gid, address, sizeof(address)));
	has(text);
	has("\"link\":\"up\",\"faults\":false,\"qps\":1,\"version\":\"");
	pmd_lock(a.engine);
	pmd_tap_link(&a.engine->host, false);
	pmd_unlock(a.engine);
	assert_int_equal(ask("status"), 0);
	has("\"link\":\"down\"");
}

static void observe__stats_have_every_counter_and_its_sentence(void **state)
{
	char text[300];

	(void)state;
	exchange(&a, &b, 8);
	assert_int_equal(ask("stats"), 0);
	has("[\"tx_packets\",1,\"Packets handed to the port.\"]");
	has("\"port\":[[\"rx_datagrams\",");
	for (unsigned i = 0; i < NIC_CNT_COUNT; i++) {
		snprintf(text, sizeof(text), "[\"%s\",%llu,\"%s\"]", nic_counter_name(i),
			 (unsigned long long)nic_counters(a.nic)[i], nic_counter_sentence(i));
		has(text);
	}
	has("[\"fault_lost\",0,");
}

/** A list of many QPs arrives in several messages: each QP once, in the order of the QPNs. */
static void observe__qps_come_in_pieces(void **state)
{
	struct nic_qp_init init = {.type = NIC_QPT_UD, .cap = {1, 1, 1, 1, 0}, .pd = a.pd};
	uint32_t next = 0, last = 0;
	unsigned seen = 0;
	char text[160], address[PMD_GID_TEXT];

	(void)state;
	init.send_cq = a.scq;
	init.recv_cq = a.rcq;
	pmd_lock(a.engine);
	for (unsigned i = 0; i < 99; i++) {
		struct nic_qp *qp;

		assert_int_equal(nic_qp_create(a.nic, &init, &qp), 0);
	}
	pmd_unlock(a.engine);
	do {
		snprintf(text, sizeof(text), "qps %u", next);
		assert_int_equal(ask(text), 0);
		for (const char *p = in.text; (p = strstr(p, "{\"qpn\":")); p++, seen++) {
			uint32_t qpn = (uint32_t)strtoul(p + 7, NULL, 10);

			assert_true(qpn > last && qpn >= next);
			last = qpn;
		}
		next = (uint32_t)strtoul(strstr(in.text, "\"next\":") + 7, NULL, 10);
	} while (next);
	assert_int_equal(seen, 100);
	exchange(&a, &b, 100);
	snprintf(text, sizeof(text), "qps %u", nic_qp_num(a.qp));
	assert_int_equal(ask(text), 0);
	snprintf(text, sizeof(text), "[{\"qpn\":%u,\"type\":\"RC\",\"state\":\"RTS\",\"peer\":\"%s\",",
		 nic_qp_num(a.qp), pmd_gid_str(&device[1].gid, address, sizeof(address)));
	has(text);
	snprintf(text, sizeof(text),
		 "\"peer_qpn\":%u,\"mtu\":1024,\"by\":\"%s\",\"counters\":{\"tx_packets\":1,\"tx_bytes\":100,",
		 nic_qp_num(b.qp), by_udp ? "network" : "memory");
	has(text);
}

static void observe__an_invalid_request_returns_an_error_message(void **state)
{
	(void)state;
	for (const char *const *t = (const char *const[]){"", "stat", "statusquo", "fault", "fault set x=1",
							  "capture qp=x", "capture dir=up", "capture snaplen=0",
							  "capture counts", "capture stop", NULL};
	     *t; t++) {
		assert_true(ask(*t) < 0);
		assert_true(strlen(in.text) > 10 && in.text[0] != '{');
	}
}

/** The engine does not wait for a tool that does not read: it closes the tool's connection. */
static void observe__a_tool_that_does_not_read_is_cut_off(void **state)
{
	struct pollfd p = {.fd = function_end, .events = POLLIN};

	(void)state;
	for (unsigned i = 0; i < 1000; i++)
		request("stats");
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_true(p.revents & POLLHUP);
	exchange(&a, &b, 8);
}

/* ---- captures ---------------------------------------------------------------------------------------------------- */

/** Receive all captured packets; each must be whole, and their times must not go back. @return how many; *directions:
 * the directions seen. */
static unsigned captured(unsigned *directions, uint32_t qpn)
{
	unsigned n = 0, len;
	uint64_t last_ns = 0;

	*directions = 0;
	while (receive(&len)) {
		const uint8_t *ip = (const uint8_t *)in.text + sizeof(in.header);
		struct nic_rx_frame frame = {.data = ip, .len = in.header.len};
		struct packet p;

		assert_int_equal(len, sizeof(in.header) + in.header.len);
		assert_true(in.header.time_ns >= last_ns);
		last_ns = in.header.time_ns;
		assert_int_equal(in.header.path == 0, by_udp);
		assert_int_equal(packet_parse(&frame, &p), PACKET_OK);
		assert_int_equal(p.dest_qpn == nic_qp_num(a.qp), in.header.direction == PMD_CAPTURE_RX);
		if (qpn)
			assert_int_equal(nic_qp_num(a.qp), qpn);
		*directions |= in.header.direction;
		n++;
	}
	return n;
}

static void capture__sees_every_packet_whole(void **state)
{
	const uint64_t *counters = nic_counters(a.nic);
	unsigned directions;
	uint64_t before;

	(void)state;
	exchange(&a, &b, 8);
	request("capture");
	before = counters[NIC_CNT_tx_packets] + counters[NIC_CNT_rx_packets];
	exchange(&a, &b, 5000);
	exchange(&b, &a, 3);
	pmd_lock(a.engine); /* so that the counters stand still */
	before = counters[NIC_CNT_tx_packets] + counters[NIC_CNT_rx_packets] - before;
	assert_true(before >= 5 + 1 + 1 + 1);
	assert_int_equal(captured(&directions, 0), before);
	pmd_unlock(a.engine);
	assert_int_equal(directions, PMD_CAPTURE_TX | PMD_CAPTURE_RX);
	assert_int_equal(ask("capture stop"), 0);
	has("\"lost\":0}");
	exchange(&a, &b, 8);
	assert_int_equal(captured(&directions, 0), 0);
	assert_int_equal(a.engine->host.taps, 0);
}

static void capture__filters_by_qp_and_direction_and_truncates_to_snaplen(void **state)
{
	unsigned directions, len;
	char text[64];

	(void)state;
	snprintf(text, sizeof(text), "capture qp=%u dir=tx", nic_qp_num(a.qp) ^ 1);
	request(text);
	exchange(&a, &b, 8);
	assert_int_equal(captured(&directions, 0), 0);
	assert_int_equal(ask("capture stop"), 0);
	snprintf(text, sizeof(text), "capture qp=%u dir=tx", nic_qp_num(a.qp));
	request(text);
	exchange(&a, &b, 8);
	exchange(&b, &a, 8);
	assert_in_range(captured(&directions, nic_qp_num(a.qp)), 1,
			2); /* a's SEND, and a's ACK of b's SEND unless that ACK is sent later */
	assert_int_equal(directions, PMD_CAPTURE_TX);
	request("capture");
	assert_int_equal(receive(&len), PROTO_TEXT); /* a connection can have only one capture */
	assert_int_equal(receive(&len), PROTO_END);
	assert_int_equal(in.status, -EBUSY);
	assert_int_equal(ask("capture stop"), 0);
	request("capture dir=rx snaplen=40");
	exchange(&b, &a, 100);
	assert_int_equal(receive(&len), PROTO_PACKET);
	assert_int_equal(len, sizeof(in.header) + 40);
	assert_int_equal(in.header.len, 28 + 12 + 100 + 4);
	assert_int_equal(in.header.direction, PMD_CAPTURE_RX);
}

/** Capture more packets than the socket has room for. */
static void capture_too_much(void)
{
	request("capture dir=tx");
	for (unsigned i = 0; i < 600; i++)
		exchange(&a, &b, 30000);
}

/** Captured packets that the tool's socket has no room for are dropped and counted; the engine does not wait. */
static void capture__losses_are_counted(void **state)
{
	unsigned function, seen, lost, got = 0, len, type;

	(void)state;
	capture_too_much();
	while ((type = receive(&len)) == PROTO_PACKET)
		got++;
	assert_int_equal(type, 0);
	assert_int_equal(ask("capture counts"), 0);
	assert_int_equal(sscanf(in.text, "{\"function\":%u,\"seen\":%u,\"lost\":%u}", &function, &seen, &lost), 3);
	assert_true(lost > 0);
	assert_int_equal(got, seen - lost);
	exchange(&a, &b, 8);
	assert_int_equal(receive(&len), PROTO_PACKET);
	assert_int_equal(in.header.lost, lost);
	/* A tool disappears without stopping its capture. */
	close(tool);
	tool = -1;
	exchange(&a, &b, 8);
}

/** When a capture ends, a tool whose socket is full is still told how many packets were lost. */
static void capture__the_number_lost_is_sent_even_to_a_full_socket(void **state)
{
	unsigned function, seen, lost, got = 0, len, type;

	(void)state;
	capture_too_much();
	pmd_lock(a.engine);
	pmd_observe_last_words(&a.engine->host, function_end);
	pmd_unlock(a.engine);
	while ((type = receive(&len)) == PROTO_PACKET)
		got++;
	assert_int_equal(type, PROTO_TEXT);
	assert_int_equal(sscanf(in.text, "{\"function\":%u,\"seen\":%u,\"lost\":%u}", &function, &seen, &lost), 3);
	assert_true(lost > 0);
	assert_int_equal(got, seen - lost);
	assert_int_equal(receive(&len), PROTO_END);
	/* A tool without a capture gets no last message. */
	pmd_lock(a.engine);
	pmd_observe_last_words(&a.engine->host, function_end);
	pmd_unlock(a.engine);
	assert_int_equal(receive(&len), 0);
}

/* ---- faults ------------------------------------------------------------------------------------------------------ */

static void fault__lost_packets_are_sent_again(void **state)
{
	unsigned len;

	(void)state;
	assert_int_equal(
		ask("fault set loss=200000000 corrupt=100000000 dup=100000000 reorder=100000000 dir=both seed=1"), 0);
	for (unsigned i = 0; i < 20; i++)
		exchange(&a, &b, 5000);
	assert_int_equal(ask("fault show"), 0);
	has(",\"rules\":[{\"qp\":0,\"dir\":\"both\",\"loss\":200000000,\"dup\":100000000,"
	    "\"corrupt\":100000000,\"reorder\":100000000,\"gap\":3,\"delay\":0,\"jitter\":0,\"down\":0,\"seed\":1}]");
	assert_null(strstr(in.text, "[\"fault_lost\",0,"));
	assert_null(strstr(in.text, "[\"fault_corrupted\",0,"));
	assert_int_equal(ask("status"), 0);
	has("\"faults\":true");
	assert_int_equal(ask("fault clear"), 0);
	exchange(&a, &b, 8);
	pmd_lock(a.engine);
	assert_int_equal(a.engine->host.taps, 0);
	pmd_unlock(a.engine);
	assert_int_equal(receive(&len), 0);
}

/** A capture shows the packets on the cable: with 100% loss no sent packet, with duplication both copies. */
static void fault__a_capture_shows_sent_packets_after_the_fault_stage(void **state)
{
	const struct nic_send_wr wr = {.opcode = NIC_WR_SEND, .flags = NIC_SEND_SIGNALED};
	unsigned directions;

	(void)state;
	assert_int_equal(ask("fault set dup=1000000000"), 0);
	request("capture dir=tx");
	exchange(&a, &b, 8);
	assert_int_equal(captured(&directions, 0), 2);
	assert_int_equal(ask("capture stop"), 0);
	assert_int_equal(ask("fault set loss=1000000000"), 0);
	request("capture dir=tx");
	end_recv(&b);
	pmd_lock(a.engine);
	assert_int_equal(nic_post_send(a.qp, &wr), 0);
	pmd_doorbell(a.engine);
	pmd_unlock(a.engine);
	assert_int_equal(captured(&directions, 0), 0);
	assert_int_equal(ask("capture stop"), 0);
	assert_int_equal(ask("fault clear"), 0);
	assert_int_equal(end_wait(&a, a.scq, false).status, NIC_WC_SUCCESS); /* the lost SEND was retransmitted */
}

/** The engine's thread wakes to release delayed packets although nothing else happens, not only at the next
 * retransmission. */
static void fault__delayed_packets_wake_the_thread(void **state)
{
	const uint64_t *counters = nic_counters(a.nic);
	unsigned unaided = 0;

	(void)state;
	assert_int_equal(ask("fault set delay=3000000 dir=both"), 0);
	for (unsigned i = 0; i < 20; i++) {
		uint64_t again = counters[NIC_CNT_retransmitted];

		end_recv(&b);
		end_send(&a, NIC_WR_SEND, 8, NULL);
		assert_int_equal(end_wait(&b, b.rcq, true).status, NIC_WC_SUCCESS);
		assert_int_equal(end_wait(&a, a.scq, true).status, NIC_WC_SUCCESS);
		unaided += counters[NIC_CNT_retransmitted] == again;
	}
	assert_true(unaided > 0);
	assert_int_equal(ask("stats"), 0);
	assert_null(strstr(in.text, "[\"fault_delayed\",0,"));
}

static void fault__a_down_rule_takes_the_link_down_until_replaced(void **state)
{
	(void)state;
	assert_int_equal(ask("fault set down=1"), 0);
	assert_int_equal(ask("status"), 0);
	has("\"link\":\"down\",\"faults\":true");
	pmd_lock(a.engine);
	pmd_tap_link(&a.engine->host, true); /* bringing the device's link up does not end the fault */
	pmd_unlock(a.engine);
	assert_int_equal(ask("status"), 0);
	has("\"link\":\"down\"");
	assert_int_equal(ask("fault set loss=1"), 0);
	assert_int_equal(ask("status"), 0);
	has("\"link\":\"up\"");
	exchange(&a, &b, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(observe__status_identifies_the_function, setup, teardown),
		cmocka_unit_test_setup_teardown(observe__stats_have_every_counter_and_its_sentence, setup, teardown),
		cmocka_unit_test_setup_teardown(observe__qps_come_in_pieces, setup, teardown),
		cmocka_unit_test_setup_teardown(observe__an_invalid_request_returns_an_error_message, setup, teardown),
		cmocka_unit_test_setup_teardown(observe__a_tool_that_does_not_read_is_cut_off, setup, teardown),
		cmocka_unit_test_setup_teardown(capture__sees_every_packet_whole, setup, teardown),
		cmocka_unit_test_setup_teardown(capture__filters_by_qp_and_direction_and_truncates_to_snaplen, setup,
						teardown),
		cmocka_unit_test_setup_teardown(capture__losses_are_counted, setup, teardown),
		cmocka_unit_test_setup_teardown(capture__the_number_lost_is_sent_even_to_a_full_socket, setup,
						teardown),
		cmocka_unit_test_setup_teardown(fault__lost_packets_are_sent_again, setup, teardown),
		cmocka_unit_test_setup_teardown(fault__a_capture_shows_sent_packets_after_the_fault_stage, setup,
						teardown),
		cmocka_unit_test_setup_teardown(fault__delayed_packets_wake_the_thread, setup, teardown),
		cmocka_unit_test_setup_teardown(fault__a_down_rule_takes_the_link_down_until_replaced, setup, teardown),
	};
	const char *ring = getenv("UROCE_RING");

	by_udp = ring && strcmp(ring, "off") == 0;
	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	return cmocka_run_group_tests_name("observe", tests, NULL, NULL);
}
