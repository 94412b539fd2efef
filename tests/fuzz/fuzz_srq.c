/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_srq.c - libFuzzer target: packets from a peer to a QP on an SRQ that matches tags, to an XRC target, and FLUSHes
 * and ATOMIC WRITEs to an RC QP. The input is a script of what the peer sends and what the application does at the same
 * time. Packets have PSNs near the expected ones and no ICRC, so that they are accepted.
 *
 * Checked in addition to what the sanitizers find: bytes outside registered memory never change; a tagged buffer is
 * matched at most once and ends at most once; an untagged one ends at most once.
 */
#include <string.h>

#include "fuzz_util.h"
#include "nic.h"

#define GUARD 64
#define SIZE  8192
#define VA    0x10000
#define IDS   1024
#define TAGS  8
#define QPS   3

enum { TM, XRC, PLAIN };
enum { FREE, UNTAGGED, TAGGED, MATCHED };

static struct {
	struct nic *nic;
	struct nic_pd *pd;
	struct nic_cq *cq;
	struct nic_mr *mr;
	struct nic_xrcd *xrcd;
	struct nic_srq *srq[2]; /* of TM and XRC */
	struct nic_qp *qp[QPS];
	uint32_t psn[QPS];	     /* of the peer's next request */
	uint32_t seen_psn, seen_len; /* TM: the NIC's last request; the length that a READ asked for */
	bool seen_read;
	uint32_t unexpected, handle;
	uint64_t now;
	_Alignas(64) uint8_t memory[GUARD + SIZE + GUARD];
	uint8_t state[IDS];
	unsigned next_id;
} f;

static const struct nic_gid own = {{[10] = 0xff, 0xff, 10, 0, 0, 1}}, peer = {{[10] = 0xff, 0xff, 10, 0, 0, 2}};

static bool persist(void *ctx, void *addr, uint64_t len)
{
	(void)ctx;
	expect((uint8_t *)addr >= f.memory + GUARD && (uint8_t *)addr + len <= f.memory + GUARD + SIZE);
	return len % 7 != 6;
}

static void check_memory(void)
{
	for (unsigned i = 0; i < GUARD; i++)
		expect(f.memory[i] == 0xc5 && f.memory[GUARD + SIZE + i] == 0xc5);
}

/* ---- the NIC and its application --------------------------------------------------------------------- */

static void connect(unsigned i, bool rts)
{
	struct nic_qp_attr a = {
		.qp_state = NIC_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC |
				   NIC_ACCESS_FLUSH_GLOBAL | NIC_ACCESS_FLUSH_PERSISTENT,
		.path_mtu = NIC_MTU_256,
		.dest_qp_num = 0x77,
		.rq_psn = 0xfffff0,
		.sq_psn = 0xfffff8,
		.av = {.dgid = peer},
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 4,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};

	expect(nic_qp_modify(f.qp[i], &a, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_ACCESS_FLAGS) == 0);
	a.qp_state = NIC_QPS_RTR;
	expect(nic_qp_modify(f.qp[i], &a,
			     NIC_QP_STATE | NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN |
				     NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER) == 0);
	f.psn[i] = a.rq_psn;
	if (!rts)
		return;
	a.qp_state = NIC_QPS_RTS;
	expect(nic_qp_modify(f.qp[i], &a,
			     NIC_QP_STATE | NIC_QP_SQ_PSN | NIC_QP_TIMEOUT |
				     (i == XRC ? 0 : NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY | NIC_QP_MAX_QP_RD_ATOMIC)) ==
	       0);
}

static void create_qp(unsigned i)
{
	struct nic_qp_init init = {.type = NIC_QPT_RC,
				   .pd = f.pd,
				   .send_cq = f.cq,
				   .recv_cq = f.cq,
				   .srq = i == TM ? f.srq[TM] : NULL,
				   .cap = {4, 4, 4, 4, 0},
				   .sq_sig_all = true};

	if (i == XRC)
		init = (struct nic_qp_init){.type = NIC_QPT_XRC_TGT, .xrcd = f.xrcd};
	expect(nic_qp_create(f.nic, &init, &f.qp[i]) == 0);
	connect(i, byte() % 8 != 7);
}

static void create_srq(unsigned i)
{
	if (i == TM)
		expect(nic_srq_create_tm(f.pd, f.cq, 16, 2, TAGS, 0, NULL, &f.srq[TM]) == 0);
	else
		expect(nic_srq_create_xrc(f.pd, f.xrcd, f.cq, 16, 2, 0, NULL, &f.srq[XRC]) == 0);
}

static void open_nic(void)
{
	struct nic_config config = {.random = fixed_random,
				    .persist = persist,
				    .psn_window = 64,
				    .trace_len = 16,
				    .limits = {.max_qp = 16}};
	const uint32_t all = NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ |
			     NIC_ACCESS_REMOTE_ATOMIC | NIC_ACCESS_FLUSH_GLOBAL | NIC_ACCESS_FLUSH_PERSISTENT;

	memset(&f, 0, sizeof(f));
	memset(f.memory, 0xc5, sizeof(f.memory));
	expect(nic_create(&config, &f.nic) == 0 && nic_gid_set(f.nic, 0, &own) == 0 && nic_pd_alloc(f.nic, &f.pd) == 0);
	expect(nic_cq_create(f.nic, 1024, NULL, &f.cq) == 0 && nic_cq_keep_notes(f.cq) == 0);
	expect(nic_xrcd_alloc(f.nic, &f.xrcd) == 0);
	expect(nic_mr_reg(f.pd, f.memory + GUARD, SIZE, VA, all, &f.mr) == 0);
	for (unsigned i = 0; i < 2; i++)
		create_srq(i);
	for (unsigned i = 0; i < QPS; i++)
		create_qp(i);
}

static uint64_t take_id(uint8_t state)
{
	unsigned id;

	do
		id = f.next_id++ % IDS;
	while (f.state[id] != FREE);
	f.state[id] = state;
	return id;
}

static void poll(void)
{
	struct nic_wc wc;

	while (nic_cq_poll(f.cq, 1, &wc) == 1) {
		uint8_t *state = &f.state[wc.wr_id % IDS];

		if (wc.opcode >= NIC_WC_TM_ADD && wc.opcode <= NIC_WC_TM_SYNC && wc.wr_id == IDS)
			continue;
		expect(wc.wr_id < IDS && *state != FREE);
		f.unexpected += wc.status == NIC_WC_SUCCESS && wc.opcode == NIC_WC_TM_RECV && *state == UNTAGGED;
		if (wc.wc_flags & NIC_WC_TM_MATCH) {
			expect(*state == TAGGED);
			*state = MATCHED;
		}
		if (wc.status != NIC_WC_SUCCESS || wc.wc_flags & NIC_WC_TM_DATA_VALID || *state == UNTAGGED)
			*state = FREE;
	}
}

static struct nic_sge local(void)
{
	uint32_t at = word();

	return (struct nic_sge){VA + at % (SIZE - 1024), word() % 1024, nic_mr_lkey(f.mr) ^ (at % 61 == 60)};
}

static void tag_op(void)
{
	struct nic_sge sge[2] = {local(), local()};
	uint8_t bits = byte();
	struct nic_tag_op op = {.wr_id = IDS,
				.opcode = bits % 3,
				.signaled = bits & 4,
				.sync = bits & 8,
				.handled = f.unexpected - (bits & 16 ? 1 : 0),
				.handle = f.handle ^ (bits & 32 ? byte() : 0),
				.sg_list = sge,
				.num_sge = byte() % 3,
				.tag = byte() % 4,
				.mask = bits & 64 ? 1 : UINT64_MAX};

	if (op.opcode == NIC_TAG_ADD)
		op.recv_wr_id = take_id(TAGGED);
	if (nic_tag_op(f.srq[TM], &op) != 0)
		f.state[op.recv_wr_id] = FREE;
	else if (op.opcode == NIC_TAG_ADD)
		f.handle = op.handle;
	/* The id of a buffer that is deleted stays outstanding, which checks nothing and harms nothing. */
}

static void post_recv(void)
{
	struct nic_sge sge[2] = {local(), local()};
	struct nic_recv_wr wr = {.wr_id = take_id(UNTAGGED), .sg_list = sge, .num_sge = byte() % 3};

	if (nic_post_srq_recv(f.srq[byte() % 2], &wr) != 0)
		f.state[wr.wr_id] = FREE;
}

static void reset(unsigned i)
{
	struct nic_qp_attr a = {.qp_state = NIC_QPS_RESET};

	expect(nic_qp_modify(f.qp[i], &a, NIC_QP_STATE) == 0);
	connect(i, byte() % 8 != 7);
}

/** Reset, destroy or fail a QP, and connect it again. */
static void restart(void)
{
	unsigned i = byte() % QPS;
	struct nic_qp_attr a = {.qp_state = NIC_QPS_ERR};

	switch (byte() % 4) {
	case 0:
		poll(); /* what has completed is not lost with the QP */
		expect(nic_qp_destroy(f.qp[i]) == 0);
		if (i != PLAIN) {
			expect(nic_srq_destroy(f.srq[i]) == 0);
			create_srq(i);
			f.unexpected = i == TM ? 0 : f.unexpected;
		}
		create_qp(i);
		return;
	case 1:
		expect(nic_qp_modify(f.qp[i], &a, NIC_QP_STATE) == 0);
		poll();
		break;
	default:
		break;
	}
	reset(i);
}

/* ---- the wire ---------------------------------------------------------------------------------------- */

static uint8_t *put(uint8_t *p, uint64_t v, unsigned n)
{
	while (n-- > 0)
		*p++ = (uint8_t)(v >> n * 8);
	return p;
}

static void receive(const uint8_t *data, uint32_t len)
{
	uint8_t *copy = malloc(len); /* of exactly the packet's size, so that reads past the end are detected */
	struct nic_rx_frame rx = {.data = copy,
				  .len = len,
				  .flags = NIC_RX_UDP_PAYLOAD | NIC_RX_NO_ICRC,
				  .sgid = peer,
				  .dgid = own,
				  .udp_sport = 0xc000,
				  .hop_limit = 64};

	expect(copy != NULL);
	memcpy(copy, data, len);
	nic_rx(f.nic, &rx, f.now);
	free(copy);
}

static uint8_t *put_header_of_message(uint8_t *p)
{
	uint8_t opcode = byte();

	p = put(p, opcode < 0xf0 ? opcode % 4 : opcode, 1);
	p = put(put(p, 0, 3), opcode, 4);
	p = put(p, byte() % 4, 8);
	p = put(put(p, byte() % 16 ? VA : word(), 8), byte() % 16 ? nic_mr_rkey(f.mr) : word(), 4);
	return put(p, byte() % 16 ? word() % 1100 : UINT32_MAX - byte(), 4);
}

/** What follows the BTH of a request (IBTA 9.2, A14, A19). @param dma_len of a WRITE, READ, FLUSH or ATOMIC WRITE */
static uint8_t *put_headers(uint8_t *p, uint8_t opcode, uint32_t *dma_len)
{
	uint8_t op = opcode & 0x1f;

	*dma_len = 0;
	if (opcode >> 5 == 5)
		p = put(p, byte() % 8 ? nic_srq_num(f.srq[XRC]) : word(), 4);
	if (op == 0x1c)
		p = put(p, byte() % 64 ? (byte() % 4u) | (byte() & 1u) << 4 : word(), 4);
	if (op == 0x06 || op == 0x0a || op == 0x0b || op == 0x0c || op == 0x1c || op == 0x1d) {
		p = put(p, VA + (byte() % 32 ? word() % SIZE & 0xfff8 : word()), 8);
		p = put(p, nic_mr_rkey(f.mr) ^ (byte() % 32 == 0), 4);
		*dma_len = op == 0x1d && byte() % 16 ? 8 : word() % 2100;
		p = put(p, *dma_len, 4);
	}
	if (op == 0x13 || op == 0x14) {
		p = put(put(p, VA + (word() % SIZE & 0xfff8), 8), nic_mr_rkey(f.mr), 4);
		p = put(put(p, byte(), 8), byte(), 8);
	}
	if (op == 0x03 || op == 0x05 || op == 0x09 || op == 0x0b || op == 0x16 || op == 0x17)
		p = put(p, word(), 4);
	return p;
}

static uint8_t *put_bth(uint8_t *p, uint8_t opcode, unsigned qp, uint32_t psn, uint32_t len, uint8_t bits)
{
	p = put(p, opcode, 1);
	p = put(p, (bits & 0x40) << 1 | 0x40 | (-len & 3) << 4, 1);
	p = put(p, 0xffff, 2);
	p = put(p, nic_qp_num(f.qp[qp]), 4);
	return put(put(p, bits & 0x80, 1), psn, 3);
}

static void send_request(void)
{
	static const uint8_t frequent[] = {0x04, 0x00, 0x01, 0x02, 0x04, 0x1c, 0x1d, 0x0c, 0x0a, 0x06, 0x14, 0x08};
	uint8_t packet[1024] = {0}, *p = packet, *payload, choice = byte(), bits = byte(), op = byte();
	unsigned qp = choice % QPS;
	uint32_t psn = (f.psn[qp] + (choice < 0xe0 ? 0 : choice - 0xf0)) & 0xffffff, dma_len, len;

	if (nic_qp_state(f.qp[qp]) == NIC_QPS_ERR) {
		reset(qp);
		return;
	}
	if (op < 0xf0)
		op = qp == TM && op < 0xc0 ? 0x04 : frequent[op % sizeof(frequent)];
	op &= 0x1f;
	op |= qp == XRC ? 0xa0 : 0;
	len = (uint32_t[]){op == 0x1d || op == 0xbd ? 8 : 48, op & 4 ? 40 : 256, word() % 257, 0}[bits & 3];
	p = put_bth(p, op, qp, psn, len, bits);
	p = put_headers(p, op, &dma_len);
	payload = p;
	memset(payload, choice, len);
	if (len >= 32 && choice % 16 != 15)
		put_header_of_message(payload);
	p = put(payload + len + (-len & 3), 0, 4);
	receive(packet, (uint32_t)(p - packet));
	if (psn == f.psn[qp])
		f.psn[qp] = (psn + ((op & 0x1f) == 0x0c && dma_len > 256 ? (dma_len + 255) / 256 : 1)) & 0xffffff;
}

/** Answer the last request of the QP that matches tags, more or less. */
static void answer(void)
{
	uint8_t packet[2048] = {0}, *p = packet, bits = byte();
	bool read = f.seen_read && f.seen_len <= 256 && bits < 0xf8;
	uint32_t len = read ? f.seen_len : 0;

	p = put_bth(p, read ? 0x10 : 0x11, TM, (f.seen_psn + (bits >= 0xf8)) & 0xffffff, len, 0);
	p = put(put(p, bits < 0xf0 ? 0x1f : 0x60 | (bits & 3), 1), 0, 3);
	p += len + (-len & 3);
	receive(packet, (uint32_t)(put(p, 0, 4) - packet));
}

static void drain(unsigned n)
{
	static uint8_t buf[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = buf};

	while (n-- > 0 && nic_tx(f.nic, &frame, 1, f.now) == 1) {
		const uint8_t *bth = buf + frame.bth;

		if (bth[0] != 0x0c && bth[0] != 0x04)
			continue;
		f.seen_psn = (uint32_t)bth[9] << 16 | (uint32_t)bth[10] << 8 | bth[11];
		f.seen_read = bth[0] == 0x0c;
		f.seen_len = f.seen_read ? (uint32_t)bth[26] << 8 | bth[27] : 0;
	}
}

static void command(uint8_t c)
{
	switch (c % 16) {
	case 0:
	case 1:
	case 2:
		tag_op();
		break;
	case 3:
	case 4:
		post_recv();
		break;
	case 5:
		drain(1 + byte() % 4);
		break;
	case 6:
	case 7:
		drain(1);
		answer();
		break;
	case 8:
		f.now += (uint64_t)word() * 200;
		nic_timeout(f.nic, f.now);
		expect(nic_next_deadline(f.nic) > f.now);
		break;
	case 9:
		if (c & 0x80)
			restart();
		break;
	default:
		send_request();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned commands = 0;

	fuzz_begin(data, size);
	open_nic();
	while (fuzz_left > 0 && commands++ < 512) {
		command(byte());
		check_memory();
		poll();
	}
	drain(4096);
	poll();
	nic_destroy(f.nic);
	return 0;
}
