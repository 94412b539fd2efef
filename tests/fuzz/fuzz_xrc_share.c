/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_xrc_share.c - libFuzzer target: a process that shares an XRC domain with a NIC sends it arbitrary messages:
 * valid ones, answers to what the NIC has sent, and both with changes. At the same time the peer of the NIC's target
 * sends requests for SRQs of both, and the application acts. The input is a script of all that.
 *
 * Checked in addition to what the sanitizers find: memory that is not registered in the protection domain of an SRQ of
 * the domain never changes; receives complete at most once, in the CQ of their SRQ; calls return what an application
 * can use. In the end a new connection of the target works.
 */
#include <errno.h>
#include <string.h>

#include "fuzz_util.h"
#include "nic.h"
#include "share.h"

#define GUARD	  64u
#define SIZE	  8192u
#define VA	  0x10000u
#define SRQS	  2u
#define PDS	  (SRQS + 1) /* the last one has no SRQ */
#define IDS	  64u
#define MTU	  256u
#define CALLS	  4u
#define OUT	  64u /* messages on their way */
#define IN	  16u
#define PORT	  100u
#define NODE_BITS 16u
#define PEER_QPN  0x77u
#define RANGE(n)  ((n) << NODE_BITS)

enum { OWN = 1, OTHER }; /* the NIC; the other process's */

struct message {
	uint32_t len;
	bool busy;
	_Alignas(8) uint8_t bytes[XRC_MSG_MAX + 64];
};

static struct {
	struct nic *nic;
	struct nic_pd *pd[PDS];
	struct nic_mr *mr[PDS];
	struct nic_cq *cq[SRQS];
	struct nic_srq *srq[SRQS];
	struct nic_xrcd *xrcd;
	struct nic_xrc_call call[CALLS];
	bool called[CALLS], banned;
	uint32_t target, psn; /* of the peer's next request */
	uint64_t now;
	_Alignas(64) uint8_t memory[PDS][GUARD + SIZE + GUARD];
	struct posted {
		bool is;
		uint32_t n;
		struct nic_sge sge[2];
	} posted[SRQS][IDS];
	uint8_t shadow[SIZE]; /* what the memory of the last SRQ was */
	unsigned next_id;
} f;

/** The other process. */
static struct {
	struct nic *nic;
	struct nic_pd *pd;
	struct nic_rdm *ep;
	struct nic_rdm_peer *to;
	struct message out[OUT], in[IN];
	struct message seen[XRC_KINDS]; /* the last message of each kind */
	uint64_t lease;
	uint32_t psn; /* the state of what it lends */
} other;

#define GID(n)                                                                                                         \
	{                                                                                                              \
		{                                                                                                      \
			[10] = 0xff, [11] = 0xff, 10, 0, 0, (n)                                                        \
		}                                                                                                      \
	}
static const struct nic_gid gid = GID(1), peer = GID(2), other_gid = GID(3);
static const struct nic_rdm_addr own_addr = {.gid = GID(1), .port = PORT + OWN};
static const struct nic_rdm_addr other_addr = {.gid = GID(3), .port = PORT + OTHER};
static const struct nic_xrc_name name = {{1, 2}};

static void check_memory(void)
{
	for (unsigned k = 0; k < PDS; k++)
		for (unsigned i = 0; i < (k < SRQS ? GUARD : GUARD + SIZE); i++)
			expect(f.memory[k][i] == 0xc5 && f.memory[k][sizeof(f.memory[k]) - 1 - i] == 0xc5);
}

/** Only what was posted has changed of the memory of the last SRQ. Before completions are polled. */
static void check_buffers(void)
{
	uint8_t *memory = f.memory[SRQS - 1] + GUARD;

	for (unsigned i = 0; i < IDS; i++)
		for (unsigned j = 0; f.posted[SRQS - 1][i].is && j < f.posted[SRQS - 1][i].n; j++) {
			const struct nic_sge *sge = &f.posted[SRQS - 1][i].sge[j];

			memcpy(f.shadow + (sge->addr - VA), memory + (sge->addr - VA), sge->length);
		}
	expect(memcmp(f.shadow, memory, SIZE) == 0);
}

/* ---- the NIC and its application ------------------------------------------------------------------------------- */

static bool find(void *ctx, const struct nic_xrcd *xrcd, uint32_t number, struct nic_rdm_addr *addr)
{
	(void)ctx;
	if (xrcd != f.xrcd || (number >> NODE_BITS != OWN && number >> NODE_BITS != OTHER))
		return false;
	*addr = number >> NODE_BITS == OWN ? own_addr : other_addr;
	return !f.banned;
}

static bool shares(void *ctx, const struct nic_xrcd *xrcd, const struct nic_rdm_addr *addr)
{
	(void)ctx;
	return xrcd == f.xrcd && !memcmp(&addr->gid, &other_gid, sizeof(other_gid)) && !f.banned;
}

static bool is_event(enum nic_event_type type)
{
	return (type >= NIC_EVENT_QP_FATAL && type <= NIC_EVENT_SQ_DRAINED) || type == NIC_EVENT_QP_LAST_WQE;
}

static void event(void *ctx, struct nic_xrcd *xrcd, uint32_t qpn, enum nic_event_type type)
{
	(void)ctx;
	expect(xrcd == f.xrcd && is_event(type));
}

static struct nic_qp *target(void)
{
	return nic_xrc_target(f.xrcd, f.target);
}

static struct nic_qp_attr attr_of_target(void)
{
	return (struct nic_qp_attr){
		.qp_state = NIC_QPS_RTS,
		.port_num = 1,
		.qp_access_flags = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC |
				   NIC_ACCESS_FLUSH_GLOBAL,
		.path_mtu = NIC_MTU_256,
		.dest_qp_num = PEER_QPN,
		.rq_psn = 0xfffff0,
		.sq_psn = 0xfffff8,
		.av = {.dgid = peer},
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 4,
	};
}

static void connect(void)
{
	struct nic_qp_attr a = attr_of_target();
	struct nic_qp *qp = target();

	if (!qp) { /* it was left, and the other process has closed it */
		struct nic_qp_init init = {.type = NIC_QPT_XRC_TGT, .xrcd = f.xrcd, .user = &f};

		expect(nic_qp_create(f.nic, &init, &qp) == 0);
		f.target = nic_qp_num(qp);
	}
	nic_xrc_target_join(qp, &f);
	a.qp_state = NIC_QPS_RESET;
	expect(nic_qp_modify(qp, &a, NIC_QP_STATE) == 0);
	a.qp_state = NIC_QPS_INIT;
	expect(nic_qp_modify(qp, &a, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_ACCESS_FLAGS) == 0);
	a.qp_state = NIC_QPS_RTR;
	expect(nic_qp_modify(qp, &a,
			     NIC_QP_STATE | NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN |
				     NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER) == 0);
	f.psn = a.rq_psn;
	a.qp_state = NIC_QPS_RTS;
	expect(nic_qp_modify(qp, &a, NIC_QP_STATE | NIC_QP_SQ_PSN | NIC_QP_TIMEOUT) == 0);
}

static void open_nic(void)
{
	const struct nic_config config = {.random = fixed_random,
					  .qpn_base = RANGE(OWN),
					  .qpn_bits = NODE_BITS,
					  .trace_len = 16,
					  .limits = {.max_qp = 64}};
	const struct nic_xrc_share_init init = {.addr = own_addr, .find = find, .shares = shares, .event = event};
	const uint32_t all = NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ |
			     NIC_ACCESS_REMOTE_ATOMIC | NIC_ACCESS_FLUSH_GLOBAL;

	memset(&f, 0, sizeof(f));
	memset(f.memory, 0xc5, sizeof(f.memory));
	memset(f.shadow, 0xc5, sizeof(f.shadow));
	expect(nic_create(&config, &f.nic) == 0 && nic_gid_set(f.nic, 0, &gid) == 0);
	expect(nic_xrc_share_open(f.nic, &init) == 0 && nic_xrcd_alloc(f.nic, &f.xrcd) == 0);
	nic_xrcd_share(f.xrcd, &name);
	for (unsigned k = 0; k < PDS; k++) {
		expect(nic_pd_alloc(f.nic, &f.pd[k]) == 0);
		expect(nic_mr_reg(f.pd[k], f.memory[k] + GUARD, SIZE, VA, k == SRQS - 1 ? NIC_ACCESS_LOCAL_WRITE : all,
				  &f.mr[k]) == 0);
		if (k == SRQS)
			break;
		expect(nic_cq_create(f.nic, 1024, NULL, &f.cq[k]) == 0);
		expect(nic_srq_create_xrc(f.pd[k], f.xrcd, f.cq[k], 16, 2, 0, NULL, &f.srq[k]) == 0);
	}
	connect();
}

static void post_recv(void)
{
	unsigned k = byte() % SRQS;
	struct nic_recv_wr wr;
	struct posted *p;

	while (f.posted[k][f.next_id % IDS].is)
		f.next_id++;
	p = &f.posted[k][f.next_id % IDS];
	p->n = 2 - byte() % 16 % 3;
	for (unsigned i = 0; i < 2; i++) {
		uint32_t at = word();

		p->sge[i] = (struct nic_sge){VA + at % (SIZE - 1280), word() % 1024 | 256,
					     nic_mr_lkey(f.mr[at % 61 == 60 ? SRQS : k])};
	}
	wr = (struct nic_recv_wr){.wr_id = f.next_id % IDS, .sg_list = p->sge, .num_sge = p->n};
	p->is = nic_post_srq_recv(f.srq[k], &wr) == 0;
}

static void poll(void)
{
	struct nic_event e;
	struct nic_wc wc;

	for (unsigned k = 0; k < SRQS; k++)
		while (nic_cq_poll(f.cq[k], 1, &wc) == 1) {
			expect(wc.wr_id < IDS && f.posted[k][wc.wr_id].is);
			f.posted[k][wc.wr_id].is = false;
		}
	while (nic_event_next(f.nic, &e))
		expect(e.user != &f || is_event(e.type));
	for (unsigned i = 0; i < CALLS; i++)
		if (f.called[i] && f.call[i].done) {
			expect(f.call[i].error <= 0);
			if (!f.call[i].error && f.call[i].attr.en_sqd_async_notify && f.call[i].attr.sq_draining)
				f.now++;
			f.called[i] = false;
		}
}

/** Call a verb on a target of the other process, or forget a call. */
static void call(void)
{
	uint8_t bits = byte();
	struct nic_xrc_call *c = &f.call[bits % CALLS];

	if (f.called[bits % CALLS]) {
		nic_xrc_forget(c);
		f.called[bits % CALLS] = false;
		return;
	}
	*c = (struct nic_xrc_call){.verb = (enum nic_xrc_verb)(bits / 4 % 4),
				   .qpn = RANGE(bits & 0x80 ? OTHER : OWN) | bits >> 4,
				   .mask = NIC_QP_STATE,
				   .attr = attr_of_target()};
	f.called[bits % CALLS] = true;
	nic_xrc_call(f.xrcd, c);
}

/** What else the application does. */
static void act(void)
{
	struct nic_qp *qp = target();
	struct nic_qp_attr a = {.qp_state = NIC_QPS_ERR};

	switch (byte() % 8) {
	case 0:
		if (qp)
			expect(nic_qp_modify(qp, &a, NIC_QP_STATE) == 0);
		break;
	case 1:
		if (qp && !nic_xrc_target_leave(qp))
			expect(nic_qp_destroy(qp) == 0);
		break;
	case 2:
		f.banned = !f.banned;
		break;
	default:
		connect();
	}
}

/* ---- packets --------------------------------------------------------------------------------------------------- */

static uint8_t *put(uint8_t *p, uint64_t v, unsigned n)
{
	while (n-- > 0)
		*p++ = (uint8_t)(v >> n * 8);
	return p;
}

/** A packet of a request to a target, or of a response. @return its length, up to 512. */
static uint32_t make_packet(uint8_t *packet, uint32_t qpn, uint32_t psn, bool response)
{
	static const uint8_t requests[] = {0x00, 0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09,
					   0x0a, 0x0b, 0x0c, 0x13, 0x14, 0x16, 0x17, 0x1c, 0x1d, 0x04,
					   0x0c, 0x14, 0x00, 0x01, 0x02, 0x04, 0x04, 0x02};
	static const uint8_t responses[] = {0x0d, 0x0e, 0x0f, 0x10, 0x11, 0x12};
	uint8_t bits = byte(), op = response ? responses[bits % sizeof(responses)] : requests[bits % sizeof(requests)];
	uint32_t len = (uint32_t[]){0, 8, 256, word() % 257}[byte() % 4];
	unsigned key = byte();
	uint8_t *p = put(packet, 0xa0 | op, 1);

	p = put(p, 0x40 | (-len & 3) << 4, 1);
	p = put(put(p, 0xffff, 2), qpn, 4);
	p = put(put(p, key & 0x80, 1), psn & 0xffffff, 3);
	if (!response)
		p = put(p, key & 0x40 ? RANGE(OTHER) | 5 : nic_srq_num(f.srq[key / 8 % SRQS]) ^ (key == 0x3f), 4);
	if (op == 0x1c)
		p = put(p, key & 0x20 ? 0x11 : 0x01, 4);
	if (op == 0x06 || op == 0x0a || op == 0x0b || op == 0x0c || op == 0x1c || op == 0x1d) {
		p = put(p, VA + (word() % SIZE & 0xfff8), 8);
		p = put(p, nic_mr_rkey(f.mr[key % 8 ? key / 8 % SRQS : key / 8 % PDS]), 4);
		p = put(p, key & 0x10 ? len : word() % 3000, 4);
	}
	if (op == 0x13 || op == 0x14) {
		p = put(p, VA + (word() % SIZE & 0xfff8), 8);
		p = put(put(put(p, nic_mr_rkey(f.mr[key / 8 % SRQS]), 4), key, 8), key, 8);
	}
	if (op == 0x03 || op == 0x05 || op == 0x09 || op == 0x0b || op == 0x16 || op == 0x17)
		p = put(p, op < 0x10 ? key : nic_mr_rkey(f.mr[key / 8 % PDS]), 4);
	if (op == 0x0d || op >= 0x0f)
		p = response ? put(p, key, 4) : p;
	if (op == 0x12)
		p = put(p, key, 8);
	memset(p, bits, len + (-len & 3));
	return (uint32_t)(p + len + (-len & 3) - packet);
}

/** A packet of the target's peer arrives. */
static void request(void)
{
	uint8_t packet[640], *copy, near = byte();
	uint32_t psn = (f.psn + (near < 0xe0 ? 0u : near - 0xf0u)) & 0xffffff;
	uint32_t len = make_packet(packet, f.target, psn, false) + 4;
	struct nic_rx_frame rx = {.len = len,
				  .flags = NIC_RX_UDP_PAYLOAD | NIC_RX_NO_ICRC,
				  .sgid = peer,
				  .dgid = gid,
				  .udp_sport = 0xc000,
				  .hop_limit = 64};

	copy = malloc(len); /* of exactly the packet's size, so that reads past the end are detected */
	expect(copy != NULL);
	memcpy(copy, packet, len - 4);
	memset(copy + len - 4, 0, 4);
	rx.data = copy;
	nic_rx(f.nic, &rx, f.now);
	free(copy);
	if (psn == f.psn)
		f.psn = (psn + 1) & 0xffffff;
}

static void carry(struct nic *to, const uint8_t *data, uint32_t len)
{
	uint8_t *copy = malloc(len);
	const struct nic_rx_frame rx = {.data = copy, .len = len};

	expect(copy != NULL);
	memcpy(copy, data, len);
	nic_rx(to, &rx, f.now);
	free(copy);
}

/** Carry up to n packets of each NIC. */
static void pump(unsigned n)
{
	static uint8_t buf[NIC_FRAME_MAX];
	bool any = true;

	for (; any && n > 0; n--) {
		struct nic_tx_frame frame = {.data = buf};

		any = false;
		f.now += 1000;
		if (nic_tx(f.nic, &frame, 1, f.now) == 1) {
			const uint8_t *bth = buf + frame.bth;
			uint32_t qpn = (uint32_t)bth[5] << 16 | (uint32_t)bth[6] << 8 | bth[7];

			any = true;
			if (qpn != PEER_QPN)
				carry(other.nic, buf, frame.len);
			else if (bth[0] == 0xb1 && bth[12] >= 0x20) /* a NAK says what the NIC expects */
				f.psn = (uint32_t)bth[9] << 16 | (uint32_t)bth[10] << 8 | bth[11];
		}
		frame = (struct nic_tx_frame){.data = buf};
		if (nic_tx(other.nic, &frame, 1, f.now) == 1) {
			any = true;
			carry(f.nic, buf, frame.len);
		}
	}
}

/* ---- the other process ----------------------------------------------------------------------------------------- */

static void listen(struct message *m)
{
	const struct nic_iov iov = {m->bytes, sizeof(m->bytes)};

	m->busy = nic_rdm_recv(other.ep, &(struct nic_rdm_recv){.context = m, .iov = &iov, .n_iov = 1}) == 0;
}

static void done(void *ctx, const struct nic_rdm_done *d)
{
	struct message *m = d->context;
	struct xrc_head head;

	(void)ctx;
	m->busy = false;
	if (d->kind != NIC_RDM_RECV || d->status != NIC_RDM_OK)
		return;
	expect(d->len >= sizeof(head) && d->len <= XRC_MSG_MAX);
	memcpy(&head, m->bytes, sizeof(head));
	expect(head.version == XRC_VERSION && head.kind < XRC_KINDS);
	m->len = (uint32_t)d->len;
	memcpy(other.seen[head.kind].bytes, m->bytes, m->len);
	other.seen[head.kind].len = m->len;
}

static void open_other(void)
{
	const struct nic_config config = {.random = fixed_random,
					  .qpn_base = RANGE(OTHER),
					  .qpn_bits = NODE_BITS,
					  .trace_len = 16,
					  .limits = {.max_qp = 64}};
	struct nic_rdm_init init = {.addr = other_addr, .max_tx = OUT, .max_rx = IN, .done = done};

	memset(&other, 0, sizeof(other));
	other.psn = 0x1000;
	expect(nic_create(&config, &other.nic) == 0 && nic_gid_set(other.nic, 0, &other_gid) == 0);
	expect(nic_pd_alloc(other.nic, &other.pd) == 0);
	init.pd = other.pd;
	expect(nic_rdm_create(other.nic, &init, &other.ep) == 0);
	other.to = nic_rdm_peer_get(other.ep, &own_addr);
	expect(other.to != NULL);
}

/** A target of the other process. */
static uint32_t lent_qpn(void)
{
	uint8_t c = byte();

	return RANGE(OTHER) | (c < 0xe0 ? 1 : c % 4);
}

/** A head that fits the last message of this kind, if there was one; otherwise that of a new lease. */
static struct xrc_head head_of(enum xrc_kind kind, enum xrc_kind answered)
{
	struct xrc_head head = {.qpn = lent_qpn(), .incarnation = 5, .lease = other.lease};

	if (other.seen[answered].len)
		memcpy(&head, other.seen[answered].bytes, sizeof(head));
	head.version = XRC_VERSION;
	head.kind = (uint8_t)kind;
	return head;
}

/** The state that the NIC has returned, or another one that is possible. */
static struct resp_state state_to_lend(void)
{
	static const uint8_t open[] = {0xff, 0xff, 0xff, 0xff, 0xa0, 0xa1, 0xa6, 0xa7};
	struct xrc_return returned;
	uint8_t bits = byte();

	memcpy(&returned, other.seen[XRC_RETURN].bytes, sizeof(returned));
	if (bits < 0x80 && returned.state.epsn) {
		other.psn = returned.state.epsn;
		return returned.state;
	}
	return (struct resp_state){.va = VA + word() % SIZE,
				   .received = bits & 8 ? word() : 0,
				   .epsn = other.psn & 0xffffff,
				   .rkey = nic_mr_rkey(f.mr[bits % SRQS]),
				   .left = bits & 16 ? word() : 256,
				   .srqn = nic_srq_num(f.srq[bits / 32 % SRQS]),
				   .open = open[bits & 7],
				   .nak_sent = bits == 0xff};
}

/** Let the state be one in which this packet may come: the same SRQ, and a message in progress if it begins none. */
static void expect_packet(struct resp_state *state, const uint8_t *packet)
{
	uint8_t op = packet[0] & 0x1f;
	bool sends = (op >= 1 && op <= 3) || op == 0x16, writes = op >= 7 && op <= 9;

	state->open = sends ? 0xa0 : writes ? 0xa6 : RESP_NOT_OPEN;
	state->srqn = (uint32_t)packet[13] << 16 | (uint32_t)packet[14] << 8 | packet[15];
}

static uint32_t lend(uint8_t *bytes)
{
	struct xrc_lend m = {.head = {XRC_VERSION, XRC_LEND, 0, lent_qpn(), 5, ++other.lease},
			     .domain = name,
			     .attr = attr_of_target()};
	uint8_t bits = byte();
	uint32_t len;

	m.head.incarnation += bits >= 0xf8;
	m.state = state_to_lend();
	len = make_packet(bytes + sizeof(m), PEER_QPN, other.psn++, false);
	if (bits % 4)
		expect_packet(&m.state, bytes + sizeof(m));
	memcpy(bytes, &m, sizeof(m));
	return (uint32_t)sizeof(m) + len;
}

static uint32_t give_back(uint8_t *bytes)
{
	struct xrc_return m = {.head = head_of(XRC_RETURN, XRC_LEND)};
	struct xrc_lend lent = {.head = {0}};
	uint8_t bits = byte();

	memcpy(&lent, other.seen[XRC_LEND].bytes, sizeof(lent));
	m.state = lent.state;
	if (bits & 1) {
		m.state.epsn = (m.state.epsn + 1) & 0xffffff;
		m.state.msn = (m.state.msn + 1) & 0xffffff;
	}
	m.outcome = (struct resp_outcome){.events = bits & 2 ? 1ull << byte() % 64 : 0,
					  .nak_psn = m.state.epsn,
					  .answer = bits / 4 % 4,
					  .syndrome = (uint8_t[]){0x1f, 0x60, 0x61, 0x2c}[byte() % 4],
					  .failed = bits >= 0xe0,
					  .dying = bits & 16 ? 1 : 0};
	m.verdict = bits / 32 == 6 ? byte() % 4u : XRC_DONE;
	memcpy(bytes, &m, sizeof(m));
	return sizeof(m);
}

static uint32_t respond(uint8_t *bytes)
{
	struct xrc_response m = {.head = head_of(XRC_RESPONSE, XRC_LEND)};

	memcpy(bytes, &m, sizeof(m));
	return (uint32_t)sizeof(m) + make_packet(bytes + sizeof(m), PEER_QPN, f.psn + byte() % 8u - 4, true);
}

static uint32_t call_verb(uint8_t *bytes)
{
	static const uint32_t masks[] = {
		NIC_QP_STATE,
		NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_ACCESS_FLAGS,
		NIC_QP_STATE | NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN |
			NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER,
		NIC_QP_STATE | NIC_QP_EN_SQD_ASYNC_NOTIFY,
	};
	struct xrc_call m = {.head = {.version = XRC_VERSION, .kind = XRC_CALL, .qpn = f.target},
			     .domain = name,
			     .verb = byte() % 5,
			     .attr = attr_of_target()};
	uint8_t bits = byte();

	m.mask = masks[bits % 4];
	m.attr.qp_state = (enum nic_qp_state)(bits / 4 % 8);
	m.cookie = bits;
	memcpy(bytes, &m, sizeof(m));
	return sizeof(m);
}

static uint32_t small_message(uint8_t *bytes, uint8_t choice)
{
	struct xrc_credit credit = {.head = head_of(XRC_CREDIT, XRC_RESPONSE), .responses = byte() % 66};
	struct xrc_end end = {.head = {XRC_VERSION, XRC_END, 0, lent_qpn(), 5, 0}};
	struct xrc_event event = {.head = {.version = XRC_VERSION, .kind = XRC_EVENT, .qpn = RANGE(OTHER) | 1},
				  .domain = name,
				  .type = byte()};
	struct xrc_result result = {.head = head_of(XRC_RESULT, XRC_CALL), .attr = attr_of_target()};
	struct xrc_call called;

	switch (choice % 4) {
	case 0:
		memcpy(bytes, &credit, sizeof(credit));
		return sizeof(credit);
	case 1:
		memcpy(bytes, &end, sizeof(end));
		return sizeof(end);
	case 2:
		memcpy(bytes, &event, sizeof(event));
		return sizeof(event);
	default:
		memcpy(&called, other.seen[XRC_CALL].bytes, sizeof(called));
		result.cookie = called.cookie;
		result.error = choice & 4 ? -byte() : 0;
		if (choice & 8)
			memset(&result.attr.en_sqd_async_notify, choice, 1);
		memcpy(bytes, &result, sizeof(result));
		return sizeof(result);
	}
}

/** Change some bytes of a message, or its length. */
static void change(struct message *m)
{
	uint8_t n = byte();

	if (n < 0x80)
		return;
	for (n &= 7; n > 0 && m->len; n--)
		m->bytes[word() % m->len] = byte();
	n = byte();
	if (n > 0xf0)
		m->len = word() % sizeof(m->bytes);
	else if (n > 0xe0)
		m->len += n & 7;
}

static void tell(uint8_t c)
{
	struct message *m = other.out;
	struct nic_iov iov;

	while (m < other.out + OUT && m->busy)
		m++;
	if (m == other.out + OUT)
		return;
	memset(m->bytes, 0, sizeof(m->bytes));
	switch (c / 16 % 8) {
	case 0:
	case 1:
	case 2:
		m->len = lend(m->bytes);
		break;
	case 3:
	case 4:
		m->len = give_back(m->bytes);
		break;
	case 5:
		m->len = respond(m->bytes);
		break;
	case 6:
		m->len = call_verb(m->bytes);
		break;
	default:
		m->len = small_message(m->bytes, byte());
	}
	change(m);
	iov = (struct nic_iov){m->bytes, m->len};
	m->busy = true;
	if (nic_rdm_send(other.to, &(struct nic_rdm_send){.context = m, .iov = &iov, .n_iov = 1}) != 0)
		m->busy = false;
}

/* ---- a run ----------------------------------------------------------------------------------------------------- */

static void settle(void)
{
	pump(64);
	for (unsigned i = 0; i < IN; i++)
		if (!other.in[i].busy)
			listen(&other.in[i]);
	check_memory();
	check_buffers();
	poll();
}

static void command(uint8_t c)
{
	switch (c % 16) {
	case 0:
	case 1:
		post_recv();
		break;
	case 2:
		call();
		break;
	case 3:
		if (c & 0x80)
			act();
		break;
	case 4:
		f.now += (uint64_t)word() * 2000;
		nic_timeout(f.nic, f.now);
		nic_timeout(other.nic, f.now);
		break;
	case 5:
	case 6:
	case 7:
	case 8:
		request();
		break;
	default:
		tell(c);
	}
	if (c < 0xf0)
		settle();
}

/** Whatever the other process has done, a new connection of the target works, on a new SRQ. */
static void check_works(void)
{
	uint8_t packet[64] = {0xa4, 0x40, 0xff, 0xff}, *p = packet + 4;
	const struct nic_sge sge = {VA, 64, nic_mr_lkey(f.mr[0])};
	const struct nic_recv_wr wr = {.wr_id = 4711, .sg_list = &sge, .num_sge = 1};
	struct nic_rx_frame rx = {.data = packet,
				  .flags = NIC_RX_UDP_PAYLOAD | NIC_RX_NO_ICRC,
				  .sgid = peer,
				  .dgid = gid,
				  .udp_sport = 0xc000,
				  .hop_limit = 64};
	struct nic_srq *srq;
	struct nic_cq *cq;
	struct nic_wc wc;

	connect();
	expect(nic_cq_create(f.nic, 8, NULL, &cq) == 0);
	expect(nic_srq_create_xrc(f.pd[0], f.xrcd, cq, 8, 1, 0, NULL, &srq) == 0 && nic_post_srq_recv(srq, &wr) == 0);
	p = put(put(put(put(p, f.target, 4), 0x80, 1), f.psn, 3), nic_srq_num(srq), 4);
	p = put(put(p, 0x0123456789abcdef, 8), 0, 4);
	rx.len = (uint32_t)(p - packet);
	nic_rx(f.nic, &rx, f.now);
	expect(nic_cq_poll(cq, 1, &wc) == 1 && wc.wr_id == 4711 && wc.status == NIC_WC_SUCCESS && wc.byte_len == 8);
	expect(memcmp(f.memory[0] + GUARD, packet + 16, 8) == 0 && nic_qp_state(target()) == NIC_QPS_RTS);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned commands = 0;

	fuzz_begin(data, size);
	open_nic();
	open_other();
	while (fuzz_left > 0 && commands++ < 256)
		command(byte());
	settle();
	check_works();
	nic_destroy(f.nic);
	nic_destroy(other.nic);
	for (unsigned i = 0; i < CALLS; i++)
		expect(!f.called[i] || f.call[i].done);
	return 0;
}
