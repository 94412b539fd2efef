/* SPDX-License-Identifier: BSD-3-Clause */
/* rig.c - see rig.h. */
#include "rig.h"

#include <stdlib.h>
#include <sys/mman.h>

#define GUARD_BYTE 0xa5

/* xorshift64*: the same numbers in every run. */
static void rig_random(void *ctx, void *buf, size_t len)
{
	struct rig *rig = ctx;
	uint8_t *out = buf;

	while (len--) {
		rig->seed ^= rig->seed >> 12;
		rig->seed ^= rig->seed << 25;
		rig->seed ^= rig->seed >> 27;
		*out++ = (uint8_t)(rig->seed * 0x2545f4914f6cdd1dull >> 56);
	}
}

static struct nic_gid gid_of(bool v6, uint8_t host)
{
	struct nic_gid gid = {0};

	if (v6) {
		gid.raw[0] = 0xfd;
	} else {
		gid.raw[10] = gid.raw[11] = 0xff;
		gid.raw[12] = 127;
	}
	gid.raw[15] = host;
	return gid;
}

/* The first contents of every arena, computed once. */
static const uint8_t *arena_pattern(void)
{
	static uint8_t pattern[RIG_ARENA];
	static bool ready;

	for (uint32_t i = 0; i < RIG_ARENA && !ready; i++)
		pattern[i] = rig_byte(i);
	ready = true;
	return pattern;
}

static void arena_create(struct rig *rig)
{
	size_t len = RIG_ARENA + 2 * RIG_GUARD;

	rig->map = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(rig->map, MAP_FAILED);
	memset(rig->map, GUARD_BYTE, len);
	rig->arena = rig->map + RIG_GUARD;
	memcpy(rig->arena, arena_pattern(), RIG_ARENA);
	for (uint32_t i = 0; i < sizeof(rig->peer_data); i++)
		rig->peer_data[i] = rig_peer_byte(i);
}

static void default_cap(uint32_t *field, uint32_t value)
{
	if (!*field)
		*field = value;
}

static void opts_complete(struct rig *rig)
{
	struct rig_opts *o = &rig->opts;

	if (!o->type)
		o->type = NIC_QPT_RC;
	default_cap(&o->cq_depth, 256);
	default_cap(&o->cap.max_send_wr, 64);
	default_cap(&o->cap.max_recv_wr, 64);
	default_cap(&o->cap.max_send_sge, 4);
	default_cap(&o->cap.max_recv_sge, 4);
	default_cap(&o->cap.max_inline_data, 128);
	if (!o->nic.active_mtu)
		o->nic.active_mtu = NIC_MTU_4096;
	o->nic.random = rig_random;
	o->nic.ctx = rig;
}

static void attr_default(struct rig *rig)
{
	rig->attr = (struct nic_qp_attr){
		.path_mtu = NIC_MTU_256,
		.qkey = RIG_QKEY,
		.rq_psn = RIG_RQ_PSN,
		.sq_psn = RIG_SQ_PSN,
		.dest_qp_num = RIG_PEER_QPN,
		.qp_access_flags = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC,
		.av = {.dgid = rig->peer_gid, .sgid_index = rig->opts.v6 ? 1 : 0},
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.timeout = 8,
		.retry_cnt = 3,
		.rnr_retry = 3,
		.port_num = 1,
	};
}

struct nic_qp *rig_qp_create(struct rig *rig)
{
	struct nic_qp_init init = {
		.type = rig->opts.type,
		.pd = rig->pd,
		.send_cq = rig->send_cq,
		.recv_cq = rig->recv_cq,
		.srq = rig->srq,
		.cap = rig->opts.cap,
		.sq_sig_all = !rig->opts.sig_none,
		.cross_channel = rig->opts.cross_channel,
		.managed_send = rig->opts.managed_send,
		.managed_recv = rig->opts.managed_recv,
		.max_atomic_arg = rig->opts.type == NIC_QPT_RC ? 32 : 0,
		.max_fetch = rig->opts.type != NIC_QPT_RC || rig->opts.max_fetch == RIG_NO_ELEMENTS ? 0
			     : rig->opts.max_fetch ? rig->opts.max_fetch
						   : 256,
		.be_replies = rig->opts.be_replies,
		.user = RIG_USER_QP(rig),
	};
	struct nic_qp *qp;

	if (rig->xrcd)
		init = (struct nic_qp_init){.type = NIC_QPT_XRC_TGT, .xrcd = rig->xrcd, .user = RIG_USER_QP(rig)};
	assert_int_equal(nic_qp_create(rig->nic, &init, &qp), 0);
	return qp;
}

struct nic_cq *rig_cq_create(struct rig *rig, uint32_t depth, void *user)
{
	struct nic_cq *cq;

	assert_int_equal(nic_cq_create(rig->nic, depth, user, &cq), 0);
	return cq;
}

struct rig *rig_create(const struct rig_opts *opts)
{
	const uint32_t all = NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ |
			     NIC_ACCESS_REMOTE_ATOMIC | NIC_ACCESS_MW_BIND;
	struct rig *rig = calloc(1, sizeof(*rig));
	struct nic_gid gid;

	assert_non_null(rig);
	rig->frames = calloc(RIG_FRAMES, NIC_FRAME_MAX);
	assert_non_null(rig->frames);
	rig->seed = 0x9e3779b97f4a7c15ull;
	rig->now = 1000000;
	if (opts)
		rig->opts = *opts;
	opts_complete(rig);
	arena_create(rig);
	assert_int_equal(nic_create(&rig->opts.nic, &rig->nic), 0);
	for (unsigned i = 0; i < 2; i++) {
		gid = gid_of(i == 1, 1);
		assert_int_equal(nic_gid_set(rig->nic, i, &gid), 0);
	}
	rig->gid = gid_of(rig->opts.v6, 1);
	rig->peer_gid = gid_of(rig->opts.v6, 2);
	assert_int_equal(nic_pd_alloc(rig->nic, &rig->pd), 0);
	rig->send_cq = rig_cq_create(rig, rig->opts.cq_depth, RIG_USER_SEND_CQ(rig));
	rig->recv_cq = rig_cq_create(rig, rig->opts.cq_depth, RIG_USER_RECV_CQ(rig));
	if (rig->opts.type == NIC_QPT_XRC_TGT) {
		assert_int_equal(nic_xrcd_alloc(rig->nic, &rig->xrcd), 0);
		assert_int_equal(
			nic_srq_create_xrc(rig->pd, rig->xrcd, rig->recv_cq, 64, 4, 0, RIG_USER_SRQ(rig), &rig->srq),
			0);
	} else if (rig->opts.tags) {
		assert_int_equal(nic_srq_create_tm(rig->pd, rig->recv_cq, 64, 4, rig->opts.tags, 0, RIG_USER_SRQ(rig),
						   &rig->srq),
				 0);
		assert_int_equal(nic_cq_keep_notes(rig->recv_cq), 0);
	} else if (rig->opts.srq) {
		assert_int_equal(nic_srq_create(rig->pd, 64, 4, 0, RIG_USER_SRQ(rig), &rig->srq), 0);
	}
	assert_int_equal(nic_mr_reg(rig->pd, rig->arena, RIG_ARENA, (uintptr_t)rig->arena, all, &rig->mr), 0);
	rig->lkey = nic_mr_lkey(rig->mr);
	rig->rkey = nic_mr_rkey(rig->mr);
	attr_default(rig);
	rig->qp = rig_qp_create(rig);
	rig->qpn = nic_qp_num(rig->qp);
	while (rig_event(rig, NIC_EVENT_GID_CHANGE, NULL)) /* discard the events of the GIDs just set */
		;
	return rig;
}

void rig_destroy(struct rig *rig)
{
	for (uint32_t i = 0; i < RIG_GUARD; i++) {
		assert_int_equal(rig->map[i], GUARD_BYTE);
		assert_int_equal(rig->map[RIG_GUARD + RIG_ARENA + i], GUARD_BYTE);
	}
	nic_destroy(rig->nic);
	munmap(rig->map, RIG_ARENA + 2 * RIG_GUARD);
	free(rig->frames);
	free(rig);
}

/* ---- states -------------------------------------------------------------------------------------------- */

static void modify(struct rig *rig, enum nic_qp_state state, uint32_t mask)
{
	rig->attr.qp_state = state;
	assert_int_equal(nic_qp_modify(rig->qp, &rig->attr, mask | NIC_QP_STATE), 0);
	assert_int_equal(nic_qp_state(rig->qp), state);
}

void rig_modify_state(struct rig *rig, enum nic_qp_state state)
{
	modify(rig, state, 0);
}

void rig_to_init(struct rig *rig)
{
	modify(rig, NIC_QPS_INIT,
	       NIC_QP_PKEY_INDEX | NIC_QP_PORT | (rig->opts.type == NIC_QPT_UD ? NIC_QP_QKEY : NIC_QP_ACCESS_FLAGS));
}

void rig_to_rtr(struct rig *rig)
{
	uint32_t mask = 0;

	if (nic_qp_state(rig->qp) == NIC_QPS_RESET)
		rig_to_init(rig);
	if (rig->opts.type != NIC_QPT_UD)
		mask |= NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN;
	if (rig->opts.type == NIC_QPT_RC || rig->opts.type == NIC_QPT_XRC_TGT)
		mask |= NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER;
	modify(rig, NIC_QPS_RTR, mask);
}

void rig_to_rts(struct rig *rig)
{
	uint32_t mask = NIC_QP_SQ_PSN;

	if (nic_qp_state(rig->qp) != NIC_QPS_RTR)
		rig_to_rtr(rig);
	if (rig->opts.type == NIC_QPT_XRC_TGT)
		mask |= NIC_QP_TIMEOUT;
	if (rig->opts.type == NIC_QPT_RC || rig->opts.type == NIC_QPT_XRC_INI)
		mask |= NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY | NIC_QP_MAX_QP_RD_ATOMIC;
	modify(rig, NIC_QPS_RTS, mask);
}

struct rig *rig_ready(const struct rig_opts *opts)
{
	struct rig *rig = rig_create(opts);

	rig_to_rts(rig);
	return rig;
}

/* ---- work requests ------------------------------------------------------------------------------------- */

struct nic_send_wr rig_wr(struct rig *rig, uint64_t wr_id, enum nic_wr_opcode opcode, uint32_t offset, uint32_t len)
{
	struct nic_send_wr wr = {
		.wr_id = wr_id,
		.sg_list = &rig->sge,
		.num_sge = len ? 1 : 0,
		.opcode = opcode,
		.srqn = RIG_SRQN,
	};

	rig->sge = (struct nic_sge){.addr = rig_va(rig, offset), .length = len, .lkey = rig->lkey};
	if (opcode == NIC_WR_ATOMIC_CMP_AND_SWP || opcode == NIC_WR_ATOMIC_FETCH_AND_ADD) {
		wr.atomic.remote_addr = RIG_REMOTE_VA;
		wr.atomic.rkey = RIG_REMOTE_RKEY;
	} else if (rig->opts.type != NIC_QPT_UD) {
		wr.rdma.remote_addr = RIG_REMOTE_VA;
		wr.rdma.rkey = RIG_REMOTE_RKEY;
	}
	return wr;
}

void rig_post_send_at(struct rig *rig, uint64_t wr_id, enum nic_wr_opcode opcode, uint32_t offset, uint32_t len,
		      const char *file, int line)
{
	struct nic_send_wr wr = rig_wr(rig, wr_id, opcode, offset, len);

	_assert_int_equal((uintmax_t)nic_post_send(rig->qp, &wr), 0, file, line);
}

void rig_post_recv_at(struct rig *rig, uint64_t wr_id, uint32_t offset, uint32_t len, const char *file, int line)
{
	struct nic_sge sge = {.addr = rig_va(rig, offset), .length = len, .lkey = rig->lkey};
	struct nic_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = len ? 1 : 0};
	int err = rig->srq ? nic_post_srq_recv(rig->srq, &wr) : nic_post_recv(rig->qp, &wr);

	_assert_int_equal((uintmax_t)err, 0, file, line);
}

/* ---- packets ------------------------------------------------------------------------------------------- */

bool rig_tx(struct rig *rig, struct packet *p)
{
	unsigned slot = (rig->frame + 1) % RIG_FRAMES;
	struct nic_tx_frame tx = {.data = rig->frames[slot]};
	struct nic_rx_frame rx;

	if (!nic_tx(rig->nic, &tx, 1, rig->now))
		return false;
	rig->frame = slot;
	rig->frame_lens[slot] = tx.len;
	rx = (struct nic_rx_frame){.data = tx.data, .len = tx.len};
	*p = (struct packet){0};
	if (rig->opts.nic.key) {
		static struct keyed key; /* static, because the packet refers to it */

		assert_true(keyed_derive(&key, rig->opts.nic.key));
		assert_int_equal(packet_parse_keyed(&rx, &key, p), PACKET_OK);
	} else {
		assert_int_equal(packet_parse(&rx, p), PACKET_OK);
	}
	return true;
}

struct packet rig_expect_tx_at(struct rig *rig, unsigned op, uint32_t psn, const char *file, int line)
{
	struct packet p = {0};

	_assert_true(rig_tx(rig, &p), "a packet is sent", file, line);
	if (p.op->value != op)
		print_error("sent: %s, PSN %#x\n", p.op->name, p.psn);
	_assert_int_equal(p.op->value, op, file, line);
	_assert_int_equal(p.psn, psn & PSN_MASK, file, line);
	return p;
}

struct packet rig_expect_ack_at(struct rig *rig, uint32_t psn, unsigned syndrome, const char *file, int line)
{
	struct packet p = rig_expect_tx_at(rig, ACK, psn, file, line);

	_assert_int_equal(p.syndrome, syndrome, file, line);
	return p;
}

void rig_expect_silence_at(struct rig *rig, const char *file, int line)
{
	struct packet p = {0};
	bool sent = rig_tx(rig, &p);

	if (sent)
		print_error("sent: %s, PSN %#x, syndrome %#x\n", p.op->name, p.psn, p.syndrome);
	_assert_true(!sent, "nothing is sent", file, line);
}

unsigned rig_drain(struct rig *rig)
{
	struct packet p;
	unsigned n = 0;

	while (rig_tx(rig, &p))
		n++;
	return n;
}

struct packet rig_peer_packet(struct rig *rig, unsigned op, uint32_t psn)
{
	const struct opcode *row = op_get((uint8_t)op);

	assert_non_null(row);
	return (struct packet){
		.op = row,
		.sgid = rig->peer_gid,
		.dgid = rig->gid,
		.v4 = !rig->opts.v6,
		.hop_limit = 64,
		.ip_frag = 0x4000,
		.udp_sport = 0xc000,
		.migreq = true,
		.ackreq = (row->service == OP_RC || row->service == OP_XRC) && !op_is_response(row) && op_ends(row),
		.pkey = 0xffff,
		.dest_qpn = rig->qpn,
		.psn = psn & PSN_MASK,
		.va = rig_va(rig, 0),
		.rkey = rig->rkey,
		.syndrome = SYN_ACK,
		.qkey = RIG_QKEY,
		.src_qpn = RIG_PEER_QPN,
		.xrc_srqn = rig->srq ? nic_srq_num(rig->srq) : 0,
	};
}

struct packet rig_peer_data(struct rig *rig, unsigned op, uint32_t psn, uint32_t offset, uint32_t len)
{
	struct packet p = rig_peer_packet(rig, op, psn);

	assert_true(offset + len <= sizeof(rig->peer_data));
	p.payload = rig->peer_data + offset;
	p.payload_len = p.dma_len = len;
	return p;
}

bool rig_rx_bytes(struct rig *rig, const uint8_t *ip, uint32_t len)
{
	/* A copy of exactly this size, so that a sanitizer sees reads beyond its end. */
	uint8_t *copy = malloc(len ? len : 1);
	struct nic_rx_frame frame = {.data = copy, .len = len};
	bool ok;

	assert_non_null(copy);
	memcpy(copy, ip, len);
	ok = nic_rx(rig->nic, &frame, rig->now);
	free(copy);
	return ok;
}

enum nic_rx_verdict rig_rx_verdict(struct rig *rig, const struct packet *p)
{
	struct packet filled = *p;
	uint8_t buf[NIC_FRAME_MAX];
	struct nic_rx_frame frame = {.data = buf};

	filled.pad = (uint8_t)(-p->payload_len & 3);
	frame.len = packet_encode(&filled, buf);
	return nic_rx(rig->nic, &frame, rig->now);
}

bool rig_rx(struct rig *rig, const struct packet *p)
{
	struct packet filled = *p;
	uint8_t buf[NIC_FRAME_MAX];

	filled.pad = (uint8_t)(-p->payload_len & 3);
	return rig_rx_bytes(rig, buf, packet_encode(&filled, buf));
}

void rig_rx_data(struct rig *rig, unsigned op, uint32_t psn, uint32_t offset, uint32_t len)
{
	struct packet p = rig_peer_data(rig, op, psn, offset, len);

	assert_true(rig_rx(rig, &p));
}

void rig_ack(struct rig *rig, uint32_t psn, unsigned syndrome)
{
	struct packet p = rig_peer_packet(rig, ACK, psn);

	p.syndrome = (uint8_t)syndrome;
	assert_true(rig_rx(rig, &p));
}

/* ---- observations -------------------------------------------------------------------------------------- */

bool rig_poll(struct nic_cq *cq, struct nic_wc *wc)
{
	return nic_cq_poll(cq, 1, wc) == 1;
}

struct nic_wc rig_expect_wc_at(struct nic_cq *cq, uint64_t wr_id, enum nic_wc_status status, const char *file, int line)
{
	struct nic_wc wc = {0};

	_assert_true(rig_poll(cq, &wc), "a completion is there", file, line);
	_assert_int_equal(wc.wr_id, wr_id, file, line);
	if (wc.status != status)
		print_error("status %u: %s\n", wc.status, nic_vendor_err_str(wc.vendor_err));
	_assert_int_equal(wc.status, status, file, line);
	return wc;
}

void rig_advance(struct rig *rig, uint64_t ns)
{
	/* Tell the NIC the time in steps, as a busy owner does, but run the timers only at the end. */
	const uint64_t step = 100000000;

	for (; ns > step; ns -= step) {
		rig->now += step;
		nic_time(rig->nic, rig->now);
	}
	rig->now += ns;
	nic_timeout(rig->nic, rig->now);
}

uint64_t rig_events(struct rig *rig, const void *user)
{
	struct nic_event event;
	uint64_t bits = 0;

	while (nic_event_next(rig->nic, &event))
		if (event.user == user)
			bits |= 1ull << event.type;
	return bits;
}

bool rig_event(struct rig *rig, enum nic_event_type type, const void *user)
{
	return rig_events(rig, user) >> type & 1;
}

bool rig_untouched(const struct rig *rig, uint32_t offset, uint32_t len)
{
	for (uint32_t i = offset; i < offset + len; i++)
		if (rig->arena[i] != rig_byte(i))
			return false;
	return true;
}

unsigned rig_good_accesses;

bool rig_guard(void *ctx, void (*fn)(void *arg), void *arg)
{
	(void)ctx;
	if (!rig_good_accesses)
		return false;
	rig_good_accesses--;
	fn(arg);
	return true;
}
