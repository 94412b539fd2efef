/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_nic_rx.c - libFuzzer target: arbitrary packets from a peer to live QPs. One NIC has an RC, a UC and a UD QP in
 * RTS, an MR with all rights, a read-only MR, a bound type 2 window, posted receives and outstanding requests. The
 * input is a script of what the peer sends and what the application does at the same time. Packets are raw bytes, or
 * have PSNs near the expected ones and no ICRC, so that they are accepted.
 *
 * Checked in addition to what the sanitizers find: bytes outside registered, writable memory never change; every
 * outstanding WR completes at most once, and nothing else completes; a QP in ERR has completed all its WRs; nic_timeout
 * and nic_tx make progress.
 */
#include <string.h>

#include "fuzz_util.h"
#include "nic.h"

#define GUARD	  64
#define WRITABLE  8192
#define READ_ONLY 4096
#define QPS	  3
#define DEPTH	  16
#define IDS	  4096

enum { RC, UC, UD };
enum { MASKED_CMP_SWAP = 0xc0, MASKED_FETCH_ADD, EXT_ATOMIC_ACK }; /* opcodes of nic/mem/extended.md */
enum { ELEMENTS = 0xc4, FETCH_ELEMENTS, ELEMENTS_ACK };		   /* opcodes of nic/mem/elem.md */

struct fuzz_qp {
	struct nic_qp *qp;
	uint32_t psn;	       /* PSN of the peer's next request, provided that the script follows the protocol */
	uint32_t seen_psn;     /* PSN of the last request that the NIC sent */
	uint32_t seen_end;     /* one past the last PSN that this request covers */
	unsigned sends, recvs; /* number of outstanding requests and receives */
};

static struct {
	struct nic *nic;
	struct nic_pd *pd;
	struct nic_cq *cq;
	struct nic_mr *mr, *ro;
	struct nic_mw *mw;
	struct nic_ah *ah;
	struct fuzz_qp q[QPS];
	uint64_t now;
	_Alignas(64) uint8_t memory[GUARD + WRITABLE + GUARD + READ_ONLY + GUARD];
	uint8_t state[IDS]; /* 0: not outstanding; else 1 + index of the QP, with 0x80 added for a receive */
	unsigned next_id;
} f;

static const struct nic_gid own = {{[10] = 0xff, 0xff, 10, 0, 0, 1}}, peer = {{[10] = 0xff, 0xff, 10, 0, 0, 2}};

static uint8_t *writable(void)
{
	return f.memory + GUARD;
}

static uint8_t *read_only(void)
{
	return f.memory + GUARD + WRITABLE + GUARD;
}

static void check_memory(void)
{
	const uint8_t *guard[3] = {f.memory, f.memory + GUARD + WRITABLE, f.memory + sizeof(f.memory) - GUARD};

	for (unsigned g = 0; g < 3; g++)
		for (unsigned i = 0; i < GUARD; i++)
			expect(guard[g][i] == 0xc5);
	for (unsigned i = 0; i < READ_ONLY; i++)
		expect(read_only()[i] == (uint8_t)(i * 13));
}

/* ---- the NIC and its application --------------------------------------------------------------------- */

static void connect(unsigned i)
{
	struct fuzz_qp *q = &f.q[i];
	struct nic_qp_attr a = {
		.qp_state = NIC_QPS_INIT,
		.port_num = 1,
		.qkey = 0x1234,
		.qp_access_flags = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC,
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
	uint32_t rtr = NIC_QP_STATE, rts = NIC_QP_STATE | NIC_QP_SQ_PSN;

	if (i != UD)
		rtr |= NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN;
	if (i == RC) {
		rtr |= NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER;
		rts |= NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY | NIC_QP_MAX_QP_RD_ATOMIC;
	}
	expect(nic_qp_modify(q->qp, &a,
			     NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT |
				     (i == UD ? NIC_QP_QKEY : NIC_QP_ACCESS_FLAGS)) == 0);
	a.qp_state = NIC_QPS_RTR;
	expect(nic_qp_modify(q->qp, &a, rtr) == 0);
	a.qp_state = NIC_QPS_RTS;
	expect(nic_qp_modify(q->qp, &a, rts) == 0);
	q->psn = a.rq_psn;
	q->seen_psn = q->seen_end = a.sq_psn;
}

static void open_nic(void)
{
	static const enum nic_qp_type type[QPS] = {NIC_QPT_RC, NIC_QPT_UC, NIC_QPT_UD};
	struct nic_config config = {
		.random = fixed_random, .psn_window = 64, .trace_len = 16, .limits = {.max_qp = 16}};
	struct nic_av av = {.dgid = peer};

	memset(&f, 0, sizeof(f));
	memset(f.memory, 0xc5, sizeof(f.memory));
	for (unsigned i = 0; i < READ_ONLY; i++)
		read_only()[i] = (uint8_t)(i * 13);
	expect(nic_create(&config, &f.nic) == 0 && nic_gid_set(f.nic, 0, &own) == 0 && nic_pd_alloc(f.nic, &f.pd) == 0);
	expect(nic_cq_create(f.nic, 128, NULL, &f.cq) == 0 && nic_ah_create(f.pd, &av, &f.ah) == 0);
	expect(nic_mr_reg(f.pd, writable(), WRITABLE, 0x10000,
			  NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ |
				  NIC_ACCESS_REMOTE_ATOMIC | NIC_ACCESS_MW_BIND,
			  &f.mr) == 0);
	expect(nic_mr_reg(f.pd, read_only(), READ_ONLY, 0x20000, NIC_ACCESS_REMOTE_READ, &f.ro) == 0);
	expect(nic_mw_alloc(f.pd, NIC_MW_TYPE_2, &f.mw) == 0);
	for (unsigned i = 0; i < QPS; i++) {
		struct nic_qp_init init = {.type = type[i],
					   .pd = f.pd,
					   .send_cq = f.cq,
					   .recv_cq = f.cq,
					   .cap = {DEPTH, DEPTH, 4, 4, 64},
					   .sq_sig_all = true,
					   .max_atomic_arg = type[i] == NIC_QPT_RC ? 32 : 0,
					   .max_fetch = type[i] == NIC_QPT_RC ? 128 : 0};

		expect(nic_qp_create(f.nic, &init, &f.q[i].qp) == 0);
		connect(i);
	}
}

static uint64_t take_id(unsigned qp, bool recv)
{
	unsigned id;

	do
		id = f.next_id++ % IDS;
	while (f.state[id] != 0);
	f.state[id] = (uint8_t)((1 + qp) | (recv ? 0x80 : 0));
	return id;
}

/* A local buffer, sometimes without the right to be written. */
static struct nic_sge local(uint32_t at, uint32_t len)
{
	struct nic_sge sge = {0x10000 + at % (WRITABLE - 2048), len % 2048, nic_mr_lkey(f.mr)};

	if (at % 61 == 60)
		sge.lkey = nic_mr_lkey(f.ro);
	return sge;
}

/* Operation, datatype and number of elements packed into 32 bits; most results are valid. */
static uint32_t some_elements(void)
{
	uint32_t op = byte(), datatype = byte(), count = byte();

	return (op < 0xf0 ? op % 20 : op) << 24 | (datatype < 0xf0 ? datatype % 20 : datatype) << 16 |
	       (count >= 0xf8) << 8 | count % 40;
}

static const uint8_t sizes[20] = {1, 1, 2, 2, 4, 4, 8, 8, 4, 8, 8, 16, 16, 32, 16, 16, 2, 2, 1, 1};

static uint32_t elements_len(uint8_t opcode, uint32_t elements, uint32_t otherwise)
{
	uint32_t op = elements >> 24, datatype = elements >> 16 & 255, count = elements & 255;
	uint32_t vectors = op == 10 ? 0 : op >= 12 && op <= 18 ? 2 : 1;

	if (otherwise % 16 >= 14 || datatype >= 20)
		return otherwise;
	return (opcode == ELEMENTS_ACK ? 1 : vectors) * count * sizes[datatype] % 800;
}

static void elements_wr(struct nic_send_wr *wr, struct nic_sge *result, struct nic_sge *data, uint32_t at, uint32_t len)
{
	bool fetch = wr->opcode == 13;
	uint32_t elements = some_elements(), data_len = elements_len(fetch ? FETCH_ELEMENTS : ELEMENTS, elements, len);

	wr->opcode = fetch ? NIC_WR_FETCH_ELEMENTS : NIC_WR_ELEMENTS;
	wr->num_sge = fetch;
	result->length = elements_len(ELEMENTS_ACK, elements, len) % 2048;
	*data = local(at + 700, data_len);
	if (wr->flags & NIC_SEND_INLINE)
		*data = (struct nic_sge){(uintptr_t)writable(), data_len % 800, 0};
	wr->elements.data = data;
	wr->elements.num_data = data->length > 0;
	wr->elements.remote_addr = wr->elements.rkey = at;
	wr->elements.op = (uint8_t)(elements >> 24);
	wr->elements.datatype = (uint8_t)(elements >> 16);
	wr->elements.count = elements & 0xffff;
}

static void post_send(void)
{
	unsigned qp = byte() % QPS;
	struct nic_sge sge[2], data;
	struct nic_send_wr wr = {.opcode = byte() % 14, .flags = byte() & 15, .sg_list = sge, .num_sge = byte() % 3};
	uint32_t at = word(), len = word();
	struct nic_atomic masked = {
		.op = wr.opcode == 10 ? NIC_ATOMIC_MCS : NIC_ATOMIC_MFA, .size = 4u << at % 4, .swap_add = {len}};

	sge[0] = local(at, len);
	sge[1] = local(at + 100, len / 2);
	if (wr.opcode >= 12) {
		elements_wr(&wr, sge, &data, at, len);
	} else if (wr.opcode >= 10) {
		wr.opcode = wr.opcode == 10 ? NIC_WR_MASKED_CMP_AND_SWP : NIC_WR_MASKED_FETCH_AND_ADD;
		sge[0].length = masked.size;
		wr.num_sge = 1;
		wr.masked.remote_addr = at;
		wr.masked.rkey = at;
		wr.masked.operation = &masked;
	} else if (wr.opcode == NIC_WR_ATOMIC_CMP_AND_SWP || wr.opcode == NIC_WR_ATOMIC_FETCH_AND_ADD) {
		sge[0].length = 8;
		wr.num_sge = 1;
		wr.atomic.remote_addr = at;
		wr.atomic.rkey = at;
	} else if (qp == UD) {
		wr.ud.ah = f.ah;
		wr.ud.remote_qpn = at;
	} else if (wr.opcode == NIC_WR_BIND_MW) {
		wr.bind = (struct nic_bind){f.mw,
					    f.mr,
					    0x10000 + at % WRITABLE,
					    len,
					    NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ,
					    (nic_mw_rkey(f.mw) & ~0xffu) | (at & 0xff)};
	} else {
		wr.ex = wr.opcode == NIC_WR_LOCAL_INV ? nic_mw_rkey(f.mw) : at;
		wr.rdma.remote_addr = at;
		wr.rdma.rkey = len;
	}
	if ((wr.flags & NIC_SEND_INLINE) != 0 && wr.opcode != NIC_WR_FETCH_ELEMENTS)
		for (unsigned i = 0; i < 2; i++)
			sge[i] = (struct nic_sge){(uintptr_t)writable() + i, sge[i].length % 40, 0};
	wr.wr_id = take_id(qp, false);
	if (nic_post_send(f.q[qp].qp, &wr) == 0)
		f.q[qp].sends++;
	else
		f.state[wr.wr_id] = 0;
}

static void post_recv(void)
{
	unsigned qp = byte() % QPS;
	uint32_t at = word();
	struct nic_sge sge[2] = {local(at, word()), local(at + 500, 64)};
	struct nic_recv_wr wr = {.wr_id = take_id(qp, true), .sg_list = sge, .num_sge = byte() % 3};

	if (nic_post_recv(f.q[qp].qp, &wr) == 0)
		f.q[qp].recvs++;
	else
		f.state[wr.wr_id] = 0;
}

static void poll(void)
{
	struct nic_wc wc;
	int n;

	while ((n = nic_cq_poll(f.cq, 1, &wc)) == 1) {
		expect(wc.wr_id < IDS && f.state[wc.wr_id] != 0);
		struct fuzz_qp *q = &f.q[(f.state[wc.wr_id] & 0x7f) - 1];

		expect(wc.qp_num == nic_qp_num(q->qp) && wc.status <= NIC_WC_GENERAL_ERR);
		if (f.state[wc.wr_id] & 0x80)
			q->recvs--;
		else
			q->sends--;
		f.state[wc.wr_id] = 0;
	}
	expect(n == 0);
}

/* Modify the QP to ERR and check that everything outstanding has completed; then connect the QP again. */
static void kill_qp(unsigned i)
{
	struct nic_qp_attr a = {.qp_state = NIC_QPS_ERR};
	struct fuzz_qp *q = &f.q[i];

	expect(nic_qp_modify(q->qp, &a, NIC_QP_STATE) == 0);
	poll();
	expect(q->sends == 0 && q->recvs == 0);
	a.qp_state = NIC_QPS_RESET;
	expect(nic_qp_modify(q->qp, &a, NIC_QP_STATE) == 0);
	connect(i);
}

static void reregister(void)
{
	nic_mw_dealloc(f.mw);
	expect(nic_mr_dereg(f.mr) == 0);
	expect(nic_mr_reg(f.pd, writable(), WRITABLE, 0x10000,
			  NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ |
				  NIC_ACCESS_REMOTE_ATOMIC | NIC_ACCESS_MW_BIND,
			  &f.mr) == 0);
	expect(nic_mw_alloc(f.pd, NIC_MW_TYPE_2, &f.mw) == 0);
	for (unsigned i = 0; i < QPS; i++)
		kill_qp(i); /* drop the QP's queued binds, which refer to the old window */
}

/* ---- the wire ---------------------------------------------------------------------------------------- */

static void drain(unsigned n)
{
	static uint8_t buf[NIC_FRAME_MAX];
	struct nic_tx_frame frame = {.data = buf};

	while (n-- > 0 && nic_tx(f.nic, &frame, 1, f.now) == 1) {
		const uint8_t *bth = buf + frame.bth;
		uint32_t psn = (uint32_t)bth[9] << 16 | (uint32_t)bth[10] << 8 | bth[11], span = 1;
		uint8_t op = bth[0] & 0x1f;

		expect(frame.len <= NIC_FRAME_MAX && frame.len >= frame.bth + 16u);
		bool ours = bth[0] == MASKED_CMP_SWAP || bth[0] == MASKED_FETCH_ADD || bth[0] == ELEMENTS ||
			    bth[0] == FETCH_ELEMENTS;

		if (!ours && (bth[0] >= 0x20 || (op >= 0x0d && op <= 0x12)))
			continue;
		if (op == 0x0c) /* a READ's PSNs include those of its responses */
			span += ((uint32_t)bth[26] << 8 | bth[27]) / 256;
		f.q[RC].seen_psn = psn;
		f.q[RC].seen_end = psn + span;
	}
}

static uint8_t *put(uint8_t *p, uint64_t v, unsigned n)
{
	while (n-- > 0)
		*p++ = (uint8_t)(v >> n * 8);
	return p;
}

static uint32_t some_key(uint8_t choice)
{
	switch (choice % 8) {
	case 0:
		return nic_mr_rkey(f.ro);
	case 1:
		return nic_mw_rkey(f.mw);
	case 2:
		return nic_mr_rkey(f.mr) ^ 1;
	default:
		return nic_mr_rkey(f.mr);
	}
}

static uint64_t some_address(uint8_t choice)
{
	uint64_t base = choice & 1 ? 0x20000 : 0x10000;

	switch (choice >> 5) {
	case 0:
		return base + word();
	case 1:
		return base - choice;
	case 2:
		return UINT64_MAX - choice;
	case 3:
		return base + (choice & 1 ? READ_ONLY : WRITABLE) - word() % 600;
	default:
		return base + (word() & 0xff8);
	}
}

/* Choose a packet's PSN: for a response near the PSNs that the NIC sent, for a request near the PSN that the NIC
 * expects. */
static uint32_t some_psn(struct fuzz_qp *q, bool response, uint8_t choice)
{
	int8_t shift = choice < 0xe0 ? 0 : (int8_t)((choice & 31) - 16);

	if (response)
		return (q->seen_psn + (choice & 3) * (q->seen_end - q->seen_psn > 1) + (uint32_t)shift) & 0xffffff;
	return (q->psn + (uint32_t)shift) & 0xffffff;
}

/* Payload length of a run (operations coalesced into one packet, each element with its own address); mostly correct. */
static uint32_t run_len(uint32_t elements, uint32_t otherwise)
{
	uint32_t datatype = elements >> 16 & 255, count = elements & 255;

	if (otherwise % 16 >= 14 || datatype >= 20)
		return otherwise;
	return (8 + sizes[datatype]) * count % 800;
}

static void put_addresses(uint8_t *p, uint32_t elements, uint32_t len)
{
	uint32_t entry = 8 + sizes[(elements >> 16 & 255) % 20];

	for (uint32_t at = 0; at + entry <= len; at += entry)
		put(p + at, some_address(byte()), 8);
}

/* Map RC opcodes that the IBTA reserves to those of extended atomics and element operations. */
static uint8_t extended(uint8_t opcode)
{
	static const uint8_t ours[32] = {[0x15] = ELEMENTS,	  [0x18] = MASKED_CMP_SWAP, [0x19] = MASKED_FETCH_ADD,
					 [0x1a] = EXT_ATOMIC_ACK, [0x1b] = FETCH_ELEMENTS,  [0x1e] = ELEMENTS_ACK};

	return ours[opcode & 31] ? ours[opcode & 31] : opcode;
}

/* The length of an extended atomic's operands, or of the original value in its response; mostly correct. */
static uint32_t extended_len(uint8_t opcode, uint8_t log_size, uint32_t otherwise)
{
	uint32_t n = opcode == MASKED_CMP_SWAP ? 4 : opcode == MASKED_FETCH_ADD ? 2 : 1;

	return log_size < 8 && otherwise % 16 < 14 ? n << log_size : otherwise;
}

/* Write the headers of a packet with this opcode (IBTA 9.2), with plausible values. */
static uint8_t *put_headers(uint8_t *p, uint8_t opcode, uint8_t log_size, uint32_t elements, bool run,
			    uint32_t *dma_len)
{
	uint8_t op = opcode == EXT_ATOMIC_ACK || opcode == ELEMENTS_ACK ? 0x11 : opcode & 0x1f;

	*dma_len = 0;
	if (opcode == ELEMENTS || opcode == FETCH_ELEMENTS) {
		p = put(p, some_address(byte()), 8);
		p = put(p, some_key(byte()), 4);
		p = put(put(p, elements >> 16, 2), run ^ (byte() % 32 == 0), 1);
		return put(put(p, 0, 1), elements & 0xffff, 4);
	}
	if (opcode == MASKED_CMP_SWAP || opcode == MASKED_FETCH_ADD) {
		p = put(p, some_address(byte()), 8);
		p = put(p, some_key(byte()), 4);
		return put(put(p, log_size, 1), 0, 3);
	}
	if (opcode >> 5 == 3)
		p = put(put(p, byte() % 8 == 0 ? 1 : 0x1234, 4), 0x55, 4);
	if (op == 0x06 || op == 0x0a || op == 0x0b || op == 0x0c) {
		p = put(p, some_address(byte()), 8);
		p = put(p, some_key(byte()), 4);
		*dma_len = word() % 2100;
		if (byte() % 32 == 0)
			*dma_len = 0x80000000u + byte() - 3;
		p = put(p, *dma_len, 4);
	}
	if (op == 0x13 || op == 0x14) {
		p = put(p, some_address(byte()), 8);
		p = put(p, some_key(byte()), 4);
		p = put(put(p, byte(), 8), byte() % 4, 8);
	}
	if (op >= 0x0d && op <= 0x12 && op != 0x0e) {
		static const uint8_t syndromes[] = {0x1f, 0x00, 0x1f, 0x21, 0x60, 0x61,
						    0x62, 0x63, 0x64, 0x40, 0x7f, 0x2a};
		uint8_t choice = byte();

		*p++ = choice < sizeof(syndromes) ? syndromes[choice] : choice & 0x80 ? 0x1f : choice;
		p = put(p, word(), 3);
	}
	if (op == 0x12)
		p = put(p, word(), 8);
	if (op == 0x03 || op == 0x05 || op == 0x09 || op == 0x0b)
		p = put(p, word(), 4);
	if (op == 0x16 || op == 0x17)
		p = put(p, some_key(byte()), 4);
	return p;
}

static void receive(const uint8_t *data, uint32_t len, uint32_t flags)
{
	/* a copy of exactly the packet's size, so that reads past the end are detected */
	uint8_t *copy = malloc(len > 0 ? len : 1);
	struct nic_rx_frame rx = {.data = copy,
				  .len = len,
				  .flags = flags,
				  .sgid = peer,
				  .dgid = own,
				  .udp_sport = 0xc000,
				  .hop_limit = 64};

	expect(copy != NULL);
	if (len > 0)
		memcpy(copy, data, len);
	nic_rx(f.nic, &rx, f.now);
	free(copy);
}

static void send_packet(void)
{
	static const uint8_t service[QPS] = {0x00, 0x20, 0x60};
	uint8_t packet[1024 + 128], *p = packet, choice = byte(), opcode = byte(), bits = byte();
	struct fuzz_qp *q = &f.q[choice % QPS];
	uint32_t len, dma_len, pad, psn, elements = 0;
	uint8_t log_size = 0;
	bool response, run = false;

	opcode = choice >= 0xf8 ? opcode : (uint8_t)(service[choice % QPS] | (opcode & 0x1f));
	if (choice % QPS == RC && choice < 0xf8)
		opcode = extended(opcode);
	response = opcode == EXT_ATOMIC_ACK || opcode == ELEMENTS_ACK ||
		   (opcode < 0xc0 && (opcode & 0x1f) >= 0x0d && (opcode & 0x1f) <= 0x12);
	psn = some_psn(q, response, byte());
	p = put(p, opcode, 1);
	len = bits & 3 ? (uint32_t[]){0, 256, word() % 257, word() % 800}[bits & 3] : 0;
	if (opcode >= MASKED_CMP_SWAP && opcode <= EXT_ATOMIC_ACK) {
		log_size = byte();
		log_size = log_size < 0xf0 ? 2 + log_size % 4 : log_size & 15;
		len = extended_len(opcode, log_size, len);
	} else if (opcode >= ELEMENTS && opcode <= ELEMENTS_ACK) {
		elements = some_elements();
		run = bits & 0x20;
		len = run ? run_len(elements, len) : elements_len(opcode, elements, len);
	}
	pad = -len & 3;
	if (bits >= 0xfc)
		pad = bits & 3; /* sometimes a wrong pad count */
	p = put(p, (bits & 0x40) << 1 | 0x40 | pad << 4, 1);
	p = put(p, bits == 0xf0 ? 0x1234 : 0xffff, 2);
	p = put(p, nic_qp_num(q->qp), 4);
	p = put(put(p, bits & 0x80, 1), psn, 3);
	p = put_headers(p, opcode, log_size, elements, run, &dma_len);
	memset(p, choice, len + pad);
	if (run)
		put_addresses(p, elements, len);
	p += len + pad;
	p = put(p, 0, 4);
	if (bits % 64 == 60 && p - packet > bits >> 3)
		p -= bits >> 3; /* send a truncated packet */
	receive(packet, (uint32_t)(p - packet), NIC_RX_UDP_PAYLOAD | NIC_RX_NO_ICRC);
	if (!response && psn == q->psn)
		q->psn = (psn + ((opcode & 0x1f) == 0x0c && dma_len > 256 ? (dma_len + 255) / 256
				 : run && elements & 255		  ? elements & 255
									  : 1)) &
			 0xffffff;
}

static void send_raw(void)
{
	uint32_t len = byte();
	uint8_t flags = byte();

	if (len > fuzz_left)
		len = (uint32_t)fuzz_left;
	receive(fuzz_in, len, flags & (NIC_RX_UDP_PAYLOAD | NIC_RX_IP_ID_UNKNOWN | NIC_RX_NO_ICRC));
	fuzz_in += len;
	fuzz_left -= len;
}

static void pass_time(void)
{
	f.now += (uint64_t)word() * 200;
	nic_timeout(f.nic, f.now);
	expect(nic_next_deadline(f.nic) > f.now);
}

static void command(uint8_t c)
{
	struct nic_event e;

	switch (c % 16) {
	case 8:
		post_send();
		break;
	case 9:
		post_recv();
		break;
	case 10:
		drain(byte());
		break;
	case 11:
		pass_time();
		break;
	case 12:
		poll();
		while (nic_event_next(f.nic, &e))
			;
		break;
	case 13:
		send_raw();
		break;
	case 14:
		if (c & 0x80)
			kill_qp((c >> 4) % QPS);
		else if (c == 0x7e)
			reregister();
		else
			nic_ack_flush(f.nic, true);
		break;
	default:
		send_packet();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	unsigned commands = 0;

	open_nic();
	while (fuzz_left > 0 && commands++ < 512) {
		command(byte());
		if (commands % 8 == 0)
			check_memory();
		poll();
	}
	drain(4096);
	check_memory();
	for (unsigned i = 0; i < QPS; i++)
		kill_qp(i);
	nic_ah_destroy(f.ah);
	nic_destroy(f.nic);
	return 0;
}
