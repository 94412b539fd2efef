/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_words.c - libFuzzer target: requests to a function from the `uroce` command, or from another program that
 * replaces it. The input is a sequence of requests, one per line, each sent on one of two connections. Between requests
 * the function sends and receives packets.
 *
 * Checked in addition to what the sanitizers find: each request gets one answer, which is JSON or an error message with
 * an errno; the messages of a packet capture are complete; an accepted planted fault is within its limits; closed
 * connections leave nothing behind.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "capture.h"
#include "engine_priv.h"
#include "fault.h"
#include "fuzz_util.h"
#include "observe.h"
#include "proto.h"
#include "tap.h"

#define TOOLS	    2
#define QPS	    3
#define PACKET	    64
#define ANSWERS_MAX 64 /* maximum number of messages read from a connection at a time */

static struct {
	struct pmd_engine e;
	struct pmd_port port;
	struct nic_pd *pd;
	struct nic_cq *cq;
	struct nic_qp *qps[QPS];
	int tools[TOOLS][2]; /* [0]: the function's end, [1]: the tool's end */
	bool capturing[TOOLS];
	uint64_t now_ns;
} f;

/* ---- JSON, as RFC 8259 has it ------------------------------------------------------------------------------------ */

static const char *json_value(const char *s, unsigned depth);

static const char *json_space(const char *s)
{
	return s + strspn(s, " \t\r\n");
}

static const char *json_string(const char *s)
{
	if (*s++ != '"')
		return NULL;
	for (; *s != '"'; s++) {
		if ((unsigned char)*s < 0x20)
			return NULL;
		if (*s != '\\')
			continue;
		s++;
		if (*s == 'u') {
			if (strspn(s + 1, "0123456789abcdefABCDEF") < 4)
				return NULL;
			s += 4;
		} else if (!*s || !strchr("\"\\/bfnrt", *s)) {
			return NULL;
		}
	}
	return s + 1;
}

/** Skip the members of a JSON object, or the elements of an array, up to `end`. */
static const char *json_members(const char *s, bool named, char end, unsigned depth)
{
	s = json_space(s);
	if (*s == end)
		return s + 1;
	for (;; s = json_space(s + 1)) {
		if (named) {
			s = json_string(s);
			if (!s || *(s = json_space(s)) != ':')
				return NULL;
			s = json_space(s + 1);
		}
		s = json_value(s, depth);
		if (!s)
			return NULL;
		s = json_space(s);
		if (*s == end)
			return s + 1;
		if (*s != ',')
			return NULL;
	}
}

static const char *json_value(const char *s, unsigned depth)
{
	size_t digits = strspn(s, "-0123456789.eE+");

	if (depth > 8)
		return NULL;
	if (*s == '{' || *s == '[')
		return json_members(s + 1, *s == '{', *s == '{' ? '}' : ']', depth + 1);
	if (*s == '"')
		return json_string(s);
	if (strncmp(s, "true", 4) == 0)
		return s + 4;
	if (strncmp(s, "false", 5) == 0)
		return s + 5;
	return digits ? s + digits : NULL;
}

static bool is_json(const char *s)
{
	s = json_value(json_space(s), 0);
	return s && *json_space(s) == '\0';
}

/* ---- the function ------------------------------------------------------------------------------------------------ */

static void no_event(void *ctx, const struct nic_event *event)
{
}

static void function_open(void)
{
	static const struct pmd_port_ops ops = {.tx_copies = true};
	const struct nic_config config = {.random = fixed_random};
	const struct nic_gid gid = {{[10] = 0xff, 0xff, 127, 0, 0, 1}};

	memset(&f, 0, sizeof(f));
	f.now_ns = 1;
	pmd_engine_host_init(&f.e);
	f.port.ops = &ops;
	f.e.host.port = &f.port;
	f.e.host.function = 1;
	f.e.on_event = no_event;
	expect(nic_create(&config, &f.e.host.nic) == 0 && nic_gid_set(f.e.host.nic, 0, &gid) == 0);
	expect(nic_pd_alloc(f.e.host.nic, &f.pd) == 0 && nic_cq_create(f.e.host.nic, 16, NULL, &f.cq) == 0);
	for (unsigned i = 0; i < QPS; i++) {
		struct nic_qp_init init = {
			.type = i == 0	 ? NIC_QPT_RC
				: i == 1 ? NIC_QPT_UC
					 : NIC_QPT_UD,
			.pd = f.pd,
			.send_cq = f.cq,
			.recv_cq = f.cq,
			.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};

		expect(nic_qp_create(f.e.host.nic, &init, &f.qps[i]) == 0);
	}
	for (unsigned i = 0; i < TOOLS; i++)
		expect(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, f.tools[i]) == 0);
}

static void function_close(void)
{
	for (unsigned i = 0; i < TOOLS; i++) {
		pmd_observe_closed(&f.e.host, f.tools[i][0]);
		close(f.tools[i][0]);
		close(f.tools[i][1]);
	}
	expect(!f.e.stages.capture || pmd_capture_idle(f.e.stages.capture));
	pmd_tap_close(&f.e.host);
	nic_destroy(f.e.host.nic);
}

/** Pass packets through the taps (capture, planted faults) if there are any. */
static void packets_pass(void)
{
	uint8_t out[PACKET] = {0x45, [3] = PACKET, [9] = 17, [22] = 0x12, 0xb7, [25] = PACKET - 20}, in[PACKET];
	struct nic_tx_frame tx = {.data = out, .len = sizeof(out), .qpn = nic_qp_num(f.qps[0])};
	const struct nic_rx_frame rx = {.data = in, .len = sizeof(in), .flags = NIC_RX_NO_ICRC};

	f.now_ns += 1000000;
	if (!f.e.host.taps)
		return;
	for (unsigned i = 0; i < PACKET; i++)
		in[i] = byte();
	pmd_tap_tx(&f.e.host, 0, &tx, 1, 1, f.now_ns);
	pmd_tap_rx(&f.e.host, 0, &rx, f.now_ns);
	pmd_tap_rx_due(&f.e.host, f.now_ns);
}

/* ---- the tools --------------------------------------------------------------------------------------------------- */

static void packet_check(const struct proto_msg *m)
{
	struct pmd_capture_header header;

	expect(m->len >= sizeof(header));
	memcpy(&header, m->data, sizeof(header));
	expect(m->len - sizeof(header) <= header.len &&
	       (header.direction == PMD_CAPTURE_TX || header.direction == PMD_CAPTURE_RX));
}

/** Read the pending messages of a tool's connection. @return the number of answers; -1: the function has closed the
 * connection. */
static int answers_read(unsigned tool)
{
	static uint64_t room[(PROTO_TEXT_MAX + 8) / 8];
	char text[PROTO_TEXT_MAX + 1] = "";
	int answers = 0;

	for (unsigned i = 0; i < ANSWERS_MAX; i++) {
		struct proto_msg m = {.data = room, .room = sizeof(room)};
		int rc = proto_recv(f.tools[tool][1], &m);
		int32_t status;

		if (rc == -EAGAIN)
			return answers;
		if (rc == 0)
			return -1;
		expect(rc == 1 && m.n_fds == 0);
		if (m.type == PROTO_PACKET) {
			packet_check(&m);
		} else if (m.type == PROTO_TEXT) {
			memcpy(text, m.data, m.len);
			text[m.len] = '\0';
		} else {
			expect(m.type == PROTO_END && m.len == sizeof(status));
			memcpy(&status, m.data, sizeof(status));
			expect(status == 0 ? is_json(text) : status < 0 && text[0]);
			answers++;
		}
	}
	return answers;
}

static void faults_check(void)
{
	const struct pmd_fault_rule *rule;

	for (unsigned i = 0; f.e.stages.fault && (rule = pmd_fault_rule(f.e.stages.fault, i)); i++) {
		expect(rule->directions >= PMD_FAULT_TX && rule->directions <= (PMD_FAULT_TX | PMD_FAULT_RX));
		expect(rule->loss_ppb <= PMD_FAULT_PPB && rule->dup_ppb <= PMD_FAULT_PPB);
		expect(rule->corrupt_ppb <= PMD_FAULT_PPB && rule->reorder_ppb <= PMD_FAULT_PPB);
		expect(rule->qpn <= 0xffffff && rule->down <= 1 && rule->gap > 0);
	}
}

/** Send one line of the input as a request from one of the tools. */
static void request(void)
{
	unsigned tool = byte() % TOOLS;
	struct pmd_capture_counts counts;
	char text[PROTO_COMMAND_MAX + 1];
	bool captured;
	size_t len = 0;
	int answers;

	while (fuzz_left > 0 && len < PROTO_COMMAND_MAX && (text[len] = (char)byte()) != '\n')
		len++;
	text[len] = '\0';
	answers_read(tool);
	captured = f.e.stages.capture && pmd_capture_get(f.e.stages.capture, f.tools[tool][0], &counts);
	pmd_observe_request(&f.e.host, f.tools[tool][0], text);
	answers = answers_read(tool);
	/* A request that starts a capture is answered by packets only. A connection with a running capture is closed
	 * if an answer does not fit. */
	f.capturing[tool] = f.e.stages.capture && pmd_capture_get(f.e.stages.capture, f.tools[tool][0], &counts);
	expect(answers == 1 || (answers == 0 && !captured && f.capturing[tool]));
	faults_check();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_begin(data, size);
	function_open();
	while (fuzz_left > 0) {
		request();
		packets_pass();
	}
	function_close();
	return 0;
}
