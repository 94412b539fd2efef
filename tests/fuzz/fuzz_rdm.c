/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_rdm.c - libFuzzer target: arbitrary packets from the peers of a reliable-datagram endpoint. The input is a
 * script of what two ports of another host send, and of what the application requests at the same time. The ports send
 * valid and invalid calls (datagrams that make or end connections), packets on the resulting queue pairs, and valid,
 * invalid or no responses to the endpoint's packets.
 *
 * Checked in addition to what the sanitizers find: bytes that neither peers nor receives may write never change; every
 * outstanding request completes at most once, and nothing else completes; when the peers fall silent, all requests
 * complete.
 */
#include <errno.h>
#include <string.h>

#include "fuzz_rdm_cm.h"
#include "fuzz_rdm_trigger.h"
#include "fuzz_util.h"
#include "nic_rdm.h"

#define GUARD	 64
#define WRITABLE 24576
#define IDS	 1024
#define PEERS	 2
#define MTU	 256u
#define QKEY	 0x75726f63u

enum {
	SEND_FIRST,
	SEND_MIDDLE,
	SEND_LAST,
	SEND_ONLY = 4,
	WRITE_ONLY = 10,
	READ = 12,
	READ_FIRST,
	READ_MIDDLE,
	READ_LAST
};
enum { READ_ONLY = 16, ACK, UD_SEND_ONLY = 0x64, ELEMENTS = 0xc4 };
enum { HELLO = 1, WHO, WELCOME };
enum { EAGER = 1, OFFER, FIN, WRITTEN, OPERATE, RESULT };
enum { BTH_LEN = 12, RETH_LEN = 16, DETH_LEN = 8 };

/** A port of the other host; the state is accurate while the script follows the protocol. */
struct other {
	uint16_t port;
	uint64_t from;		       /* the port's incarnation (nic/rdm/rdm.md) */
	uint32_t attempt, challenge;   /* the port's attempt number; the challenge received from the endpoint */
	uint32_t heard;		       /* attempt number received from the endpoint */
	uint32_t qpn, psn;	       /* QPN of the endpoint; PSN of the port's next request */
	uint32_t seen_psn;	       /* PSN of the last request from the endpoint */
	uint32_t read_psn, read_len;   /* PSN and length of the last READ from the endpoint */
	uint32_t id, rkey, offer_left; /* id of the endpoint's last message; R_Key and length of its last OFFER */
	uint64_t offer;
};

static struct {
	struct nic *nic;
	struct nic_pd *pd;
	struct nic_mr *mr;
	struct nic_rdm *ep;
	struct nic_rdm_peer *peer[PEERS + 1]; /* the last one is the endpoint itself */
	struct other other[PEERS];
	uint64_t now, incarnation;
	_Alignas(64) uint8_t memory[GUARD + WRITABLE + GUARD];
	uint8_t state[IDS]; /* 0: not outstanding; 1: a request; 2: a receive; 3: a receive for many messages */
	unsigned next_id, requests, receives;
} f;

static const struct nic_gid own = {{[10] = 0xff, 0xff, 10, 0, 0, 1}}, host = {{[10] = 0xff, 0xff, 10, 0, 0, 2}};

static uint64_t get(const uint8_t *p, unsigned n)
{
	uint64_t v = 0;

	while (n-- > 0)
		v = v << 8 | *p++;
	return v;
}

static uint8_t *put(uint8_t *p, uint64_t v, unsigned n)
{
	while (n-- > 0)
		*p++ = (uint8_t)(v >> n * 8);
	return p;
}

static void check_memory(void)
{
	for (unsigned i = 0; i < GUARD; i++)
		expect(f.memory[i] == 0xc5 && f.memory[GUARD + WRITABLE + i] == 0xc5);
}

/* ---- the application ------------------------------------------------------------------------------------------- */

static void done(void *ctx, const struct nic_rdm_done *d)
{
	uintptr_t id = (uintptr_t)d->context;

	(void)ctx;
	expect(d->kind < NIC_RDM_KINDS);
	trig_change(d->kind == NIC_RDM_RECV, d->status != NIC_RDM_OK, 1, false);
	if (d->kind == NIC_RDM_REMOTE_WRITE) {
		expect(d->peer != NULL && d->status == NIC_RDM_OK);
		return;
	}
	expect(id < IDS && f.state[id] == (d->kind != NIC_RDM_RECV ? 1 : f.state[id] == 3 ? 3 : 2));
	if (d->kind == NIC_RDM_RECV && d->status == NIC_RDM_OK)
		expect(d->overflow == 0 && d->peer != NULL);
	if (f.state[id] == 3 && !(d->flags & NIC_RDM_MULTI))
		return;
	f.requests -= f.state[id] == 1;
	f.receives -= f.state[id] != 1;
	f.state[id] = 0;
}

static int ask_later(uint8_t what);

static void open_nic(void)
{
	const struct nic_config config = {.random = fixed_random,
					  .psn_window = 64,
					  .trace_len = 16,
					  .active_mtu = NIC_MTU_256,
					  .limits = {.max_qp = 64}};
	struct nic_rdm_init init = {.addr = {.gid = own, .port = 100},
				    .max_tx = 32,
				    .max_rx = 32,
				    .connect_ns = 1000000000,
				    .max_unexpected = 131072,
				    .timeout = 8,
				    .done = done};

	memset(&f, 0, sizeof(f));
	memset(f.memory, 0xc5, sizeof(f.memory));
	expect(nic_create(&config, &f.nic) == 0 && nic_gid_set(f.nic, 0, &own) == 0 && nic_pd_alloc(f.nic, &f.pd) == 0);
	expect(nic_mr_reg(f.pd, f.memory + GUARD, WRITABLE, 0x10000,
			  NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ |
				  NIC_ACCESS_REMOTE_ATOMIC,
			  &f.mr) == 0);
	init.pd = f.pd;
	expect(nic_rdm_create(f.nic, &init, &f.ep) == 0);
	cm_open(f.nic, f.pd, &own);
	trig_open(f.nic, ask_later);
	for (unsigned i = 0; i <= PEERS; i++) {
		struct nic_rdm_addr addr = {.gid = i < PEERS ? host : own,
					    .port = (uint16_t)(i < PEERS ? 101 + i : 100)};

		f.peer[i] = nic_rdm_peer_get(f.ep, &addr);
		expect(f.peer[i] != NULL);
		if (i < PEERS)
			f.other[i] = (struct other){.port = addr.port, .from = 77 + i};
	}
}

static void *take_id(uint8_t state)
{
	unsigned id;

	do
		id = f.next_id++ % IDS;
	while (f.state[id] != 0);
	f.state[id] = state;
	return (void *)(uintptr_t)id;
}

static void took(int err, void *context)
{
	if (err == 0)
		return; /* the request was posted, and may even have completed already */
	expect(err == -EAGAIN || err == -EINVAL || err == -EMSGSIZE || err == -EOPNOTSUPP || err == -ENOMSG);
	f.requests -= f.state[(uintptr_t)context] == 1;
	f.receives -= f.state[(uintptr_t)context] != 1;
	f.state[(uintptr_t)context] = 0;
}

/** Fill in up to four segments, some of them empty. @return their number. */
static uint32_t segments(struct nic_iov *iov, uint32_t at, uint32_t len)
{
	uint32_t n = 0, left = len;

	at %= WRITABLE / 2;
	len %= WRITABLE / 2;
	for (left = len; left > 0 && n < 3; n++) {
		uint32_t part = n % 2 ? left / 2 : left / 3;

		iov[n] = (struct nic_iov){f.memory + GUARD + at, part};
		at += part;
		left -= part;
	}
	iov[n] = (struct nic_iov){f.memory + GUARD + at, left};
	return n + 1;
}

static void post_send(void)
{
	struct nic_iov iov[4];
	struct nic_rdm_send r = {.iov = iov, .flags = byte() & 31};
	struct nic_rdm_peer *to = f.peer[byte() % (PEERS + 1)];
	uint32_t at = word(), len = word();

	r.n_iov = segments(iov, at, r.flags & NIC_RDM_INJECT ? len % 200 : len);
	r.tag = at & 3;
	r.context = take_id(1);
	f.requests++;
	took(nic_rdm_send(to, &r), r.context);
}

static void post_rma(void)
{
	struct nic_iov iov[4];
	uint32_t at = word(), len = word();
	struct nic_rdm_remote remote[2] = {{at, 0, at}, {at + 100, len % 300, len}};
	struct nic_rdm_rma r = {.iov = iov, .remote = remote, .n_remote = 2, .flags = byte() & 31, .read = at & 1};
	struct nic_rdm_peer *to = f.peer[byte() % (PEERS + 1)];

	len %= WRITABLE / 2;
	remote[1].len = remote[1].len < len ? remote[1].len : len;
	remote[0].len = len - remote[1].len;
	if (to == f.peer[PEERS] && at & 2) {
		remote[0] = (struct nic_rdm_remote){0x10000, len, nic_mr_rkey(f.mr)};
		r.n_remote = 1;
	}
	r.n_iov = segments(iov, at, len);
	r.context = take_id(1);
	f.requests++;
	took(nic_rdm_rma(to, &r), r.context);
}

static void post_atomic(void)
{
	struct nic_iov v[3];
	uint32_t at = word(), op = byte() % 20, datatype = byte() % 20, count = byte();
	uint64_t len = count * (uint64_t)nic_elem_size(datatype);
	struct nic_rdm_remote remote = {0x10000, len, nic_mr_rkey(f.mr)};
	struct nic_rdm_atomic r = {.op = (uint8_t)op,
				   .datatype = (uint8_t)datatype,
				   .flags = byte() & 31,
				   .operand = &v[0],
				   .n_operand = at & 1,
				   .compare = &v[1],
				   .n_compare = at >> 1 & 1,
				   .result = &v[2],
				   .n_result = at >> 2 & 1,
				   .remote = &remote,
				   .n_remote = 1};

	for (unsigned i = 0; i < 3; i++)
		v[i] = (struct nic_iov){f.memory + GUARD + i * 8192, len < 8192 ? len : 8192};
	r.context = take_id(1);
	f.requests++;
	took(nic_rdm_atomic(f.peer[(at >> 4) % (PEERS + 1)], &r), r.context);
}

static void receive(void)
{
	struct nic_iov iov[4];
	struct nic_rdm_done found;
	uint8_t how = byte();
	uint32_t at = word(), len = word();
	struct nic_rdm_recv r = {
		.iov = iov, .flags = byte(), .tag = at & 3, .ignore = at >> 2 & 3, .min_free = how % 64};

	r.context = take_id(r.flags & NIC_RDM_MULTI && !(r.flags & NIC_RDM_CLAIM) ? 3 : 2);
	f.receives++;
	r.from = how & 0x40 ? f.peer[how % (PEERS + 1)] : NULL;
	r.n_iov = segments(iov, at, len);
	if (r.flags & NIC_RDM_MULTI)
		r.n_iov = 1;
	if (r.flags & NIC_RDM_CLAIM || how & 0x80)
		if (nic_rdm_peek(f.ep, &r, &found) == 0)
			expect(found.len <= NIC_RDM_MSG_MAX && found.peer != NULL);
	took(nic_rdm_recv(f.ep, &r), r.context);
}

static void cancel(void)
{
	uintptr_t id = f.next_id - byte() % 32;

	if (id < IDS && f.state[id] >= 2)
		nic_rdm_cancel(f.ep, (void *)id);
}

/** Post the send or receive that triggered work starts. */
static int ask_later(uint8_t what)
{
	struct nic_iov iov = {f.memory + GUARD + what * 8, what};
	bool receives = what & 1;
	uint32_t flags = what & 2 ? NIC_RDM_TAGGED : 0;
	const struct nic_rdm_recv recv = {
		.context = take_id(receives ? 2 : 1), .iov = &iov, .n_iov = 1, .flags = flags, .tag = what >> 2 & 3};
	const struct nic_rdm_send send = {
		.context = recv.context, .iov = &iov, .n_iov = 1, .flags = flags, .tag = what >> 2 & 3};
	int rc;

	f.receives += receives;
	f.requests += !receives;
	rc = receives ? nic_rdm_recv(f.ep, &recv) : nic_rdm_send(f.peer[what % (PEERS + 1)], &send);
	took(rc, recv.context);
	return rc;
}

/* ---- the wire -------------------------------------------------------------------------------------------------- */

static void come(const uint8_t *data, uint32_t len)
{
	/* a copy of exactly the packet's size, so that reads past the end are detected */
	uint8_t *copy = malloc(len > 0 ? len : 1);
	struct nic_rx_frame rx = {.data = copy,
				  .len = len,
				  .flags = NIC_RX_UDP_PAYLOAD | NIC_RX_NO_ICRC,
				  .sgid = host,
				  .dgid = own,
				  .udp_sport = 0xc000,
				  .hop_limit = 64};

	expect(copy != NULL);
	if (len > 0)
		memcpy(copy, data, len);
	nic_rx(f.nic, &rx, f.now);
	free(copy);
}

static uint8_t *put_bth(uint8_t *p, uint8_t opcode, uint32_t len, uint32_t qpn, uint32_t psn)
{
	p = put(put(p, opcode, 1), 0x40 | (-len & 3) << 4, 1);
	p = put(put(put(p, 0xffff, 2), qpn, 4), 0x80, 1);
	return put(p, psn, 3);
}

static void say_call(struct other *o, uint8_t kind, uint8_t how)
{
	uint8_t packet[128], *p = put_bth(packet, UD_SEND_ONLY, 40, NIC_SERVICE_QPN | 100, 0);
	uint32_t echo = kind == HELLO ? o->challenge : o->heard;

	o->from += (how & 1) << 8; /* sometimes a new incarnation of the port */
	o->attempt += how >> 1 & 1;
	p = put(put(p, QKEY, 4), NIC_SERVICE_QPN | o->port, 4);
	p = put(put(put(p, QKEY, 4), 1, 1), kind, 1);
	p = put(put(p, how & 4 ? 5 : 1, 1), 0, 1);
	/* Sometimes the port's incarnation is wrong, or the endpoint's is missing. */
	p = put(put(p, how & 8 ? 77 : o->from, 8), how & 16 ? 0 : f.incarnation, 8);
	p = put(put(p, how & 32 ? how : o->attempt, 4), how & 64 ? how : echo, 4);
	p = put(put(p, 0x77, 4), 0x100, 4);
	if (kind == HELLO || kind == WELCOME)
		o->psn = 0x100;
	p = put(p, 0, 4);
	come(packet, (uint32_t)(p - packet) - (how == 0xff ? 3 : 0));
}

/** Write a message header, mostly valid; an OFFER includes its segments. */
static uint8_t *put_message(uint8_t *p, struct other *o, uint8_t kind, uint64_t length)
{
	uint8_t how = byte(), n = kind == OFFER ? 1 + (how >> 2) % 4 : 0;
	uint32_t id = kind == FIN && !(how & 0x80) ? o->id : how;

	p = put(put(p, how == 0xff ? how : kind, 1), kind == OFFER ? 4 | (how & 1) : how & 7, 1);
	p = put(put(put(p, n, 1), 1, 1), id, 4);
	p = put(put(p, length, 8), how & 3, 8);
	p = put(p, how, 8);
	for (uint8_t i = 0; i < n; i++) {
		uint32_t part = i + 1 < n ? length / n : length - length / n * i;

		p = put(put(put(put(p, i * 100, 8), part, 8), 0x1234, 4), 0, 4);
	}
	return p;
}

static void say_packet(struct other *o, uint8_t opcode, const uint8_t *payload, uint32_t len, uint32_t psn)
{
	uint8_t packet[BTH_LEN + 1024], *p = put_bth(packet, opcode, len, o->qpn, psn);

	if (len)
		memcpy(p, payload, len);
	p += len;
	p = put(put(p, 0, -len & 3), 0, 4);
	come(packet, (uint32_t)(p - packet));
}

static void say_request(struct other *o, uint8_t opcode, const uint8_t *payload, uint32_t len)
{
	say_packet(o, opcode, payload, len, o->psn);
	o->psn = (o->psn + 1) & 0xffffff;
}

/** Send a call (a datagram that makes or ends a connection) to one of the connection-oriented endpoints. */
static void say_cm(struct other *o)
{
	uint8_t kind = (uint8_t)(1 + byte() % 7), how = byte(), data = kind >= CM_ASK ? byte() % 200 : 0;
	unsigned i = (how & 3) < CM_ENDPOINTS ? how & 3 : CM_LISTENS;
	uint8_t packet[300] = {0},
		*p = put_bth(packet, UD_SEND_ONLY, 40u + data, NIC_SERVICE_QPN | (CM_FIRST_PORT + i), 0);
	uint32_t echo = kind == HELLO || kind == CM_ASK ? cm[i].challenge : cm[i].heard;

	o->attempt += how >> 2 & 1;
	o->from += (how & 8) << 6;
	p = put(put(p, QKEY, 4), NIC_SERVICE_QPN | o->port, 4);
	p = put(put(put(p, QKEY, 4), 1, 1), kind, 1);
	p = put(put(p, 1, 1), 0, 1);
	p = put(put(p, o->from, 8), how & 16 ? 0 : cm[i].incarnation, 8);
	p = put(put(p, how & 32 ? how : o->attempt, 4), how & 64 ? how : echo, 4);
	p = put(put(p, 0x77, 4), 0x100, 4);
	if (kind == HELLO || kind == WELCOME)
		o->psn = 0x100;
	come(packet, (uint32_t)(p - packet) + data + (-data & 3) + 4);
}

/** Send an OPERATE packet (an atomic on the buffer of a receive, which its tag selects), or a response (RESULT). */
static void say_operate(struct other *o)
{
	uint8_t payload[MTU] = {0}, *p = payload, how = byte(), op = byte() % 20, datatype = byte() % 20;
	bool result = how & 1;
	uint32_t len = byte() % 96, id = result && !(how & 0x80) ? o->id : how;

	p = put(put(p, result ? RESULT : OPERATE, 1), result ? how >> 6 & 1 : 5 ^ (how >> 6 & 1), 1);
	p = put(put(put(p, !result, 1), 1, 1), id, 4);
	p = put(put(p, len, 8), how >> 1 & 3, 8);
	p = put(p, result && how & 8 ? byte() : 0, 8);
	if (!result) {
		p = put(put(p, how & 16 ? word() : 0, 8), how & 32 ? len / 2 : len, 8);
		p = put(put(put(p, op, 1), datatype, 1), how >> 3 & 1, 2);
		p = put(p, 0, 4);
	}
	memset(p, how, len);
	say_request(o, SEND_ONLY, payload, (uint32_t)(p - payload) + len);
}

/** Send a complete or incomplete message. */
static void say_message(struct other *o)
{
	uint8_t payload[MTU + 256], *p, how = byte();
	uint8_t kind = (uint8_t)(how & 0x80 ? EAGER : 1 + how % 4);
	uint32_t length = word() % (kind == OFFER ? 65536 : kind == EAGER ? 8300 : 1), at;

	memset(payload, how, sizeof(payload));
	p = put_message(payload, o, kind, how == 0x7f ? NIC_RDM_MSG_MAX * 3 : length);
	at = (uint32_t)(p - payload);
	if (kind != EAGER || at + length <= MTU) {
		say_request(o, SEND_ONLY, payload, at + (kind == EAGER ? length : 0) + (how % 64 == 63));
		return;
	}
	say_request(o, SEND_FIRST, payload, MTU);
	for (length -= MTU - at; length > MTU; length -= MTU) {
		if (how % 32 == 31 && length < 4 * MTU)
			return; /* leaves the message incomplete */
		say_request(o, SEND_MIDDLE, payload, MTU);
	}
	say_request(o, SEND_LAST, payload, length + (how % 64 == 30));
}

/** Send an RMA request or an element operation, on registered memory or on memory that the endpoint offered. */
static void say_access(struct other *o)
{
	uint8_t payload[256], *p = payload, how = byte();
	uint8_t opcode = (const uint8_t[]){WRITE_ONLY, READ, ELEMENTS, ELEMENTS + 1}[how & 3];
	uint32_t len = how & 4 ? 8 : word() % 256;
	bool offered = (how & 3) == 1 && how & 16;

	p = put(p, offered ? o->offer : 0x10000 + word() % WRITABLE, 8);
	p = put(p, offered ? o->rkey : nic_mr_rkey(f.mr) ^ (how >> 7), 4);
	if (opcode >= ELEMENTS)
		p = put(put(put(p, how >> 3 & 7, 1), byte() % 20, 1), 1, 6);
	else
		p = put(p, offered && o->offer_left ? o->offer_left : len, 4);
	memset(p, how, 8);
	say_packet(o, opcode, payload,
		   (uint32_t)(p - payload) + (opcode == READ	   ? 0
					      : opcode >= ELEMENTS ? 8
								   : len % 200),
		   o->psn);
	o->psn = (o->psn + 1 + (opcode == READ ? (len ? len - 1 : 0) / MTU : 0)) & 0xffffff;
}

/** Send a response to requests of the endpoint. */
static void say_answer(struct other *o)
{
	static const uint8_t syndromes[] = {0x1f, 0x1f, 0x1f, 0x21, 0x60, 0x61, 0x62, 0x63};
	uint8_t payload[4 + MTU], how = byte();
	uint32_t left = o->read_len, psn = o->read_psn;

	memset(payload, how, sizeof(payload));
	put(put(payload, syndromes[how % 8], 1), how, 3);
	if (how & 0x80) {
		say_packet(o, ACK, payload, 4, (o->seen_psn + (how & 0x40 ? how : 0)) & 0xffffff);
		return;
	}
	payload[0] = 0x1f;
	for (bool first = true; first || left > 0; first = false) {
		uint32_t len = left < MTU ? left : MTU;
		bool last = left <= MTU, middle = !first && !last;
		uint8_t opcode = middle ? READ_MIDDLE : first && last ? READ_ONLY : first ? READ_FIRST : READ_LAST;

		if (how == 0x7f && last)
			return;
		say_packet(o, opcode, payload + (middle ? 4 : 0), len + (middle ? 0 : 4), psn);
		psn = (psn + 1) & 0xffffff;
		left -= len;
	}
}

/** Record what a packet of the endpoint contains: a call (which makes or ends a connection) or a request. */
static void heed(const uint8_t *bth, uint32_t len)
{
	uint32_t qpn = (uint32_t)get(bth + 5, 3), psn = (uint32_t)get(bth + 9, 3);
	const uint8_t *p = bth + BTH_LEN;

	if (bth[0] == UD_SEND_ONLY && len >= BTH_LEN + DETH_LEN + 40u) {
		struct other *o = &f.other[(qpn & 0xffff) == 102];
		const uint8_t *call = p + DETH_LEN;
		uint32_t from = (uint32_t)get(p + 4, 4) & 0xffff;

		if (from >= CM_FIRST_PORT && from < CM_FIRST_PORT + CM_ENDPOINTS) {
			cm_heed(from - CM_FIRST_PORT, call[5], get(call + 8, 8), (uint32_t)get(call + 24, 4));
			if (call[5] == HELLO || call[5] == WELCOME)
				o->qpn = (uint32_t)get(call + 32, 4);
			return;
		}
		f.incarnation = get(call + 8, 8);
		if (call[5] == WHO) {
			o->challenge = (uint32_t)get(call + 24, 4);
			return;
		}
		o->heard = (uint32_t)get(call + 24, 4);
		o->qpn = (uint32_t)get(call + 32, 4);
		return;
	}
	for (unsigned i = 0; i < PEERS; i++) { /* both ports have the same QPN: record the packet for both */
		struct other *o = &f.other[i];

		if (bth[0] <= READ || bth[0] >= ELEMENTS)
			o->seen_psn = psn;
		if (bth[0] == READ) {
			o->read_psn = psn;
			o->read_len = (uint32_t)get(p + 12, 4);
		} else if ((bth[0] == SEND_ONLY || bth[0] == SEND_FIRST) && len >= BTH_LEN + 32u) {
			o->id = (uint32_t)get(p + 4, 4);
			if (p[0] == OFFER && p[2] > 0) {
				o->offer = get(p + 32, 8);
				o->offer_left = (uint32_t)get(p + 40, 8) % 4096;
				o->rkey = (uint32_t)get(p + 48, 4);
			}
		}
	}
}

static void drain(unsigned n)
{
	static uint8_t buf[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = buf};

	while (n-- > 0 && nic_tx(f.nic, &frame, 1, f.now) == 1) {
		struct nic_rx_frame rx = {.data = buf, .len = frame.len};

		expect(frame.len <= NIC_FRAME_MAX && frame.len >= frame.bth + 16u);
		if (memcmp(&frame.dgid, &own, sizeof(own)) == 0)
			nic_rx(f.nic, &rx, f.now);
		else
			heed(buf + frame.bth, frame.len - frame.bth);
	}
}

static void pass_time(uint64_t ns)
{
	f.now += ns;
	nic_timeout(f.nic, f.now);
	if (nic_next_deadline(f.nic) <= f.now) /* nic_timeout() itself has sent a packet, and so started a timer */
		nic_timeout(f.nic, f.now);
	expect(nic_next_deadline(f.nic) > f.now);
}

/** Connect as the protocol requires: send HELLO, receive WHO, send HELLO with the challenge. */
static void connect(struct other *o)
{
	o->attempt++;
	say_call(o, HELLO, 16);
	drain(64);
	say_call(o, HELLO, 0);
	drain(64);
}

static void command(uint8_t c)
{
	struct other *o = &f.other[c >> 7];
	uint8_t kind;

	if ((c & 0x70) == 0x50) {
		if (c % 4 == 0)
			say_operate(o);
		else if (c % 4 == 1)
			cm_act(f.nic, f.pd, &own, &host);
		else if (c % 8 == 7)
			trig_act();
		else
			say_cm(o);
		return;
	}
	switch (c % 16) {
	case 0:
		connect(o);
		break;
	case 1:
		kind = (uint8_t)(1 + byte() % 3);
		say_call(o, kind, byte());
		break;
	case 2:
	case 3:
	case 4:
		say_message(o);
		break;
	case 5:
		say_access(o);
		break;
	case 6:
	case 7:
		say_answer(o);
		break;
	case 8:
		post_send();
		break;
	case 9:
		receive();
		break;
	case 10:
		drain(byte());
		break;
	case 11:
		pass_time((uint64_t)word() * 2000);
		break;
	case 12:
		post_rma();
		break;
	case 13:
		cancel();
		break;
	case 14:
		post_atomic();
		break;
	default:
		o->psn = (o->psn + (uint32_t)(int8_t)byte()) & 0xffffff;
	}
}

/** Discard messages for which there is no receive, so that their senders (which can be the endpoint itself) need not
 * wait. */
static void discard_all(void)
{
	struct nic_rdm_recv r = {.ignore = UINT64_MAX};
	struct nic_rdm_done found;

	for (unsigned tagged = 0; tagged < 2; tagged++) {
		r.flags = NIC_RDM_DISCARD | (tagged ? NIC_RDM_TAGGED : 0);
		while (nic_rdm_peek(f.ep, &r, &found) == 0)
			;
	}
	r.flags = NIC_RDM_CLAIM | NIC_RDM_DISCARD;
	for (uintptr_t id = 0; id < IDS; id++) {
		r.context = (void *)id;
		while (f.state[id] == 0 && f.receives < 32) {
			f.state[id] = 2;
			f.receives++;
			if (nic_rdm_recv(f.ep, &r) == 0)
				continue;
			f.state[id] = 0;
			f.receives--;
			break;
		}
	}
}

/** The peers are silent from now on: everything in flight must end, and no timer remain. */
static void silence(void)
{
	unsigned steps = 0;

	trig_end();
	for (drain(100000); nic_next_deadline(f.nic) != UINT64_MAX; drain(100000)) {
		uint64_t next = nic_next_deadline(f.nic);

		expect(steps++ < 20000);
		discard_all();
		pass_time(next > f.now ? next - f.now : 0);
	}
	expect(f.requests == 0);
	for (uintptr_t id = 0; id < IDS; id++)
		if (f.state[id] >= 2)
			nic_rdm_cancel(f.ep, (void *)id);
	expect(f.receives == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned commands = 0;

	fuzz_begin(data, size);
	open_nic();
	while (fuzz_left > 0 && commands++ < 256) {
		command(byte());
		if (commands % 8 == 0)
			check_memory();
	}
	silence();
	check_memory();
	nic_rdm_destroy(f.ep);
	cm_close();
	trig_close();
	expect(nic_mr_dereg(f.mr) == 0 && nic_pd_free(f.pd) == 0); /* both succeed: no offer refers to f.mr any more */
	nic_destroy(f.nic);
	return 0;
}
