/* SPDX-License-Identifier: BSD-3-Clause */
/* share_rig.c - see share_rig.h. */
#include "share_rig.h"

#include <stdlib.h>

#include "opcode.h"
#include "packet.h"

#define STEPS	  2000000
#define STEP_NS	  50000000ull /* longer steps would count as jumps of the clock */
#define PORT	  100
#define BTH	  28
#define NODE_BITS 16

static const struct nic_xrc_name domain = {{0x0123456789abcdef, 42}};

uint32_t share_random(struct share_rig *rig, uint32_t below)
{
	rig->random = rig->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(rig->random >> 33) % below;
}

static void nic_random(void *ctx, void *buf, size_t len)
{
	struct share_node *n = ctx;

	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)share_random(n->rig, 256);
}

/* ---- what the NICs ask --------------------------------------------------------------------------------------------
 */

static bool find(void *ctx, const struct nic_xrcd *xrcd, uint32_t number, struct nic_rdm_addr *addr)
{
	const struct share_node *n = ctx;
	uint32_t i = (number >> NODE_BITS) - 1;

	if (i >= SHARE_NODES || (i > G && !n->rig->node[i].member) || n->rig->node[i].hidden || xrcd != n->xrcd)
		return false;
	*addr = n->rig->node[i].addr;
	return true;
}

static bool shares(void *ctx, const struct nic_xrcd *xrcd, const struct nic_rdm_addr *addr)
{
	const struct share_node *n = ctx;

	for (unsigned i = O; i < SHARE_NODES; i++)
		if (!memcmp(&n->rig->node[i].addr.gid, &addr->gid, sizeof(addr->gid)) &&
		    n->rig->node[i].addr.port == addr->port)
			return xrcd == n->xrcd && !n->rig->node[i].banned && (i <= G || n->rig->node[i].member);
	return false;
}

static void event(void *ctx, struct nic_xrcd *xrcd, uint32_t qpn, enum nic_event_type type)
{
	struct share_node *n = ctx;

	assert_ptr_equal(xrcd, n->xrcd);
	n->told |= 1ull << type;
	n->told_qpn = qpn;
}

static void done(void *ctx, const struct nic_rdm_done *d)
{
	struct share_node *n = ctx;

	(void)d;
	n->served++;
}

/* ---- nodes --------------------------------------------------------------------------------------------------------
 */

void share_join(struct share_node *n)
{
	const struct nic_xrc_share_init init = {
		.addr = n->addr, .find = find, .shares = shares, .event = event, .ctx = n};

	assert_int_equal(nic_xrc_share_open(n->nic, &init), 0);
	assert_int_equal(nic_xrc_share_open(n->nic, &init), -EEXIST);
	assert_int_equal(nic_xrcd_alloc(n->nic, &n->xrcd), 0);
	nic_xrcd_share(n->xrcd, &domain);
	assert_int_equal(nic_srq_create_xrc(n->pd, n->xrcd, n->cq, 64, 4, 0, NULL, &n->srq), 0);
}

static void open_node(struct share_rig *rig, unsigned i)
{
	struct share_node *n = &rig->node[i];
	const uint32_t all = NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ |
			     NIC_ACCESS_REMOTE_ATOMIC | NIC_ACCESS_FLUSH_GLOBAL;
	const struct nic_config config = {.random = nic_random,
					  .ctx = n,
					  .qpn_base = (i + 1) << NODE_BITS,
					  .qpn_bits = NODE_BITS,
					  .active_mtu = rig->opts.port_mtu ? rig->opts.port_mtu : NIC_MTU_1024,
					  .ack_delay_ns = rig->opts.ack_delay_ns};
	struct nic_rdm_init init = {.done = done, .ctx = n};

	n->rig = rig;
	n->allowance = UINT32_MAX;
	memset(&n->addr, 0, sizeof(n->addr));
	n->addr.gid = (struct nic_gid){
		.raw = {[10] = 0xff, [11] = 0xff, 10, 0, 0, rig->opts.one_gid ? (uint8_t)1 : (uint8_t)(1 + i)}};
	n->addr.port = (uint16_t)(PORT + i);
	n->arena = calloc(1, SHARE_ARENA);
	assert_non_null(n->arena);
	assert_int_equal(nic_create(&config, &n->nic), 0);
	assert_int_equal(nic_gid_set(n->nic, 0, &n->addr.gid), 0);
	assert_int_equal(nic_pd_alloc(n->nic, &n->pd), 0);
	assert_int_equal(nic_cq_create(n->nic, 128, NULL, &n->cq), 0);
	assert_int_equal(nic_mr_reg(n->pd, n->arena, SHARE_ARENA, (uintptr_t)n->arena, all, &n->mr), 0);
	if (i <= G)
		share_join(n);
	init.pd = n->pd;
	init.addr = n->addr;
	if (i == S)
		assert_int_equal(nic_rdm_create(n->nic, &init, &n->ep), 0);
}

struct nic_qp *share_target(struct share_node *n)
{
	struct nic_qp_init init = {.type = NIC_QPT_XRC_TGT, .xrcd = n->xrcd, .user = &n->qp};
	struct nic_qp *qp;

	assert_int_equal(nic_qp_create(n->nic, &init, &qp), 0);
	return qp;
}

struct nic_qp *share_initiator(struct share_node *n)
{
	struct nic_qp_init init = {.type = NIC_QPT_XRC_INI,
				   .sq_sig_all = true,
				   .pd = n->pd,
				   .send_cq = n->cq,
				   .cap = {.max_send_wr = SHARE_WRS, .max_send_sge = 1}};
	struct nic_qp *qp;

	assert_int_equal(nic_qp_create(n->nic, &init, &qp), 0);
	return qp;
}

struct share_rig *share_create(uint64_t seed, bool one_gid)
{
	return share_create_with(seed, &(struct share_opts){.one_gid = one_gid});
}

struct share_rig *share_create_with(uint64_t seed, const struct share_opts *opts)
{
	struct share_rig *rig = calloc(1, sizeof(*rig));

	assert_non_null(rig);
	rig->opts = *opts;
	rig->random = seed * 2 + 1;
	rig->now = 1000000;
	for (unsigned i = 0; i < SHARE_NODES; i++)
		open_node(rig, i);
	rig->node[O].qp = share_target(&rig->node[O]);
	rig->node[I].qp = share_initiator(&rig->node[I]);
	rig->target = nic_qp_num(rig->node[O].qp);
	rig->attr = (struct nic_qp_attr){
		.path_mtu = NIC_MTU_256,
		.qp_access_flags = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC |
				   NIC_ACCESS_FLUSH_GLOBAL,
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 12,
		.timeout = 16,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.port_num = 1,
	};
	share_connect(rig, 0x001000, 0x002000);
	return rig;
}

void share_stop(struct share_node *n)
{
	if (n->nic)
		nic_destroy(n->nic);
	n->nic = NULL;
}

void share_restart(struct share_node *n)
{
	struct share_rig *rig = n->rig;

	share_stop(n);
	free(n->arena);
	memset(n, 0, sizeof(*n));
	open_node(rig, (unsigned)(n - rig->node));
}

void share_destroy(struct share_rig *rig)
{
	for (unsigned i = 0; i < SHARE_NODES; i++) {
		share_stop(&rig->node[i]);
		free(rig->node[i].arena);
	}
	free(rig);
}

uint32_t share_mask(enum nic_qp_state state, bool target)
{
	switch (state) {
	case NIC_QPS_INIT:
		return NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_ACCESS_FLAGS;
	case NIC_QPS_RTR:
		return NIC_QP_STATE | NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN |
		       (target ? NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER : 0);
	case NIC_QPS_RTS:
		return NIC_QP_STATE | NIC_QP_SQ_PSN | NIC_QP_TIMEOUT |
		       (target ? 0 : NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY | NIC_QP_MAX_QP_RD_ATOMIC);
	default:
		return NIC_QP_STATE;
	}
}

void share_modify(struct nic_qp *qp, const struct nic_qp_attr *attr, enum nic_qp_state state, bool target)
{
	struct nic_qp_attr to = *attr;

	to.qp_state = state;
	assert_int_equal(nic_qp_modify(qp, &to, share_mask(state, target)), 0);
}

void share_connect_pair(struct share_rig *rig, unsigned owner, struct nic_qp *target, struct nic_qp *initiator,
			uint32_t psn, uint32_t answers)
{
	static const enum nic_qp_state states[] = {NIC_QPS_RESET, NIC_QPS_INIT, NIC_QPS_RTR, NIC_QPS_RTS};
	struct nic_qp_attr to = rig->attr, ti = rig->attr;

	to.rq_psn = ti.sq_psn = psn;
	to.sq_psn = ti.rq_psn = answers;
	to.dest_qp_num = nic_qp_num(initiator);
	ti.dest_qp_num = nic_qp_num(target);
	to.av.dgid = rig->node[I].addr.gid;
	ti.av.dgid = rig->node[owner].addr.gid;
	for (unsigned i = 0; i < 4; i++) {
		share_modify(target, &to, states[i], true);
		share_modify(initiator, &ti, states[i], false);
	}
}

void share_connect(struct share_rig *rig, uint32_t psn, uint32_t answers)
{
	rig->msn = 0;
	share_connect_pair(rig, O, rig->node[O].qp, rig->node[I].qp, psn, answers);
}

/* ---- the network --------------------------------------------------------------------------------------------------
 */

/** The node that a packet goes to, as the QPN says. */
static struct share_node *route(struct share_rig *rig, const uint8_t *bth)
{
	uint32_t qpn = (uint32_t)bth[5] << 16 | (uint32_t)bth[6] << 8 | bth[7];
	uint32_t i = qpn >= NIC_SERVICE_QPN ? qpn - NIC_SERVICE_QPN - PORT : (qpn >> NODE_BITS) - 1;

	return i < SHARE_NODES ? &rig->node[i] : NULL;
}

static bool falls_to(struct share_rig *rig, const uint32_t of_1000[2], unsigned link)
{
	return of_1000[link] && share_random(rig, 1000) < of_1000[link];
}

/** Change a byte of the payload of a packet, and its ICRC. */
static uint32_t damage(struct share_rig *rig, const uint8_t *data, uint32_t len, uint8_t *out)
{
	const struct nic_rx_frame rx = {.data = data, .len = len};
	uint8_t payload[NIC_FRAME_MAX];
	struct packet p;

	memset(&p, 0, sizeof(p));
	assert_int_equal(packet_parse(&rx, &p), PACKET_OK);
	if (p.payload_len) {
		memcpy(payload, p.payload, p.payload_len);
		payload[share_random(rig, p.payload_len)] ^= (uint8_t)(1u << share_random(rig, 8));
		p.payload = payload;
	}
	return packet_encode(&p, out);
}

static void record(struct share_rig *rig, const uint8_t *data, uint32_t len)
{
	const struct nic_rx_frame rx = {.data = data, .len = len};
	struct share_heard *h = &rig->heard[rig->n_heard];
	struct packet p;

	memset(&p, 0, sizeof(p));
	assert_int_equal(packet_parse(&rx, &p), PACKET_OK);
	if (!p.payload_len || p.payload_len > sizeof(h->data) || rig->n_heard == SHARE_HEARD)
		return;
	memcpy(h->data, p.payload, p.payload_len);
	h->len = p.payload_len;
	rig->n_heard++;
}

static void record_msn(struct share_rig *rig, const uint8_t *data, uint32_t len)
{
	const struct nic_rx_frame rx = {.data = data, .len = len};
	struct packet p;

	memset(&p, 0, sizeof(p));
	assert_int_equal(packet_parse(&rx, &p), PACKET_OK);
	if (op_is_response(p.op) && p.msn > rig->msn)
		rig->msn = p.msn;
}

static void deliver(struct share_node *to, const uint8_t *data, uint32_t len)
{
	uint8_t *copy = malloc(len); /* exactly this size, so that a sanitizer sees reads beyond its end */
	const struct nic_rx_frame rx = {.data = copy, .len = len};

	if (!copy)
		return; /* a test makes it fail: the packet is lost */
	memcpy(copy, data, len);
	if (to->nic)
		nic_rx(to->nic, &rx, to->rig->now);
	free(copy);
}

static void carry(struct share_node *from, const uint8_t *data, uint32_t len)
{
	struct share_rig *rig = from->rig;
	struct share_node *to = route(rig, data + BTH);
	unsigned link = from != &rig->node[I] && to != &rig->node[I];
	uint8_t other[NIC_FRAME_MAX];

	if (from->allowance != UINT32_MAX && from->allowance-- == 0) {
		from->mute = true;
		from->allowance = UINT32_MAX;
	}
	if (from == &rig->node[O] && to == &rig->node[I])
		record_msn(rig, data, len);
	if (!to || from->mute || to->deaf || falls_to(rig, rig->lose, link))
		return;
	rig->carried[link]++;
	if (rig->records && from == &rig->node[O] && to == &rig->node[G])
		record(rig, data, len);
	if (falls_to(rig, rig->damage, link)) {
		len = damage(rig, data, len, other);
		data = other;
	}
	deliver(to, data, len);
	if (rig->astray && to == &rig->node[O])
		deliver(&rig->node[G], data, len);
	if (falls_to(rig, rig->twice, link))
		deliver(to, data, len);
}

bool share_step(struct share_rig *rig)
{
	uint8_t data[NIC_FRAME_MAX];
	bool any = false;

	for (unsigned i = 0; i < SHARE_NODES; i++) {
		struct nic_tx_frame frame = {.data = data};

		if (!rig->node[i].nic || !nic_tx(rig->node[i].nic, &frame, 1, rig->now))
			continue;
		any = true;
		rig->now += 1000;
		assert_int_equal(frame.bth, BTH);
		carry(&rig->node[i], data, frame.len);
	}
	return any;
}

/** Wait for the next timer, or for a part of the time until then. @return false: none is due before `until`. */
static bool wait_for_timer(struct share_rig *rig, uint64_t until)
{
	uint64_t deadline = UINT64_MAX;

	for (unsigned i = 0; i < SHARE_NODES; i++)
		if (rig->node[i].nic && nic_next_deadline(rig->node[i].nic) < deadline)
			deadline = nic_next_deadline(rig->node[i].nic);
	if (deadline >= until)
		return false;
	if (deadline > rig->now + STEP_NS)
		deadline = rig->now + STEP_NS;
	rig->now = deadline > rig->now ? deadline : rig->now;
	for (unsigned i = 0; i < SHARE_NODES; i++)
		if (rig->node[i].nic)
			nic_timeout(rig->node[i].nic, rig->now);
	return true;
}

bool share_turn(struct share_rig *rig, uint64_t until)
{
	return share_step(rig) || wait_for_timer(rig, until);
}

bool share_await(struct share_rig *rig, struct nic_cq *cq, uint32_t n, uint64_t ns)
{
	uint64_t until = rig->now + ns;

	for (unsigned step = 0; rig->now < until; step++) {
		assert_true(step < STEPS);
		if (cq && nic_cq_count(cq) >= n)
			return true;
		if (!share_turn(rig, until))
			break;
	}
	return false;
}

void share_run(struct share_rig *rig, uint64_t ns)
{
	share_await(rig, NULL, 0, ns);
}

void share_drop(struct share_node *n, bool drop)
{
	n->mute = n->deaf = drop;
	n->allowance = UINT32_MAX;
}

/* ---- requests -----------------------------------------------------------------------------------------------------
 */

struct nic_send_wr share_wr(struct share_rig *rig, unsigned to, enum nic_wr_opcode opcode, uint32_t at, uint32_t len,
			    uint32_t remote)
{
	const struct share_node *n = &rig->node[to];
	struct nic_send_wr wr = {.opcode = opcode, .sg_list = &rig->sge, .num_sge = 1, .srqn = nic_srq_num(n->srq)};

	rig->sge = (struct nic_sge){(uintptr_t)rig->node[I].arena + at, len, nic_mr_lkey(rig->node[I].mr)};
	if (opcode == NIC_WR_ATOMIC_CMP_AND_SWP || opcode == NIC_WR_ATOMIC_FETCH_AND_ADD) {
		wr.atomic.remote_addr = (uintptr_t)n->arena + remote;
		wr.atomic.rkey = nic_mr_rkey(n->mr);
	} else if (opcode == NIC_WR_FLUSH) {
		wr.num_sge = 0;
		wr.flush.remote_addr = (uintptr_t)n->arena + remote;
		wr.flush.rkey = nic_mr_rkey(n->mr);
		wr.flush.length = len;
		wr.flush.type = NIC_FLUSH_GLOBAL;
	} else {
		wr.rdma.remote_addr = (uintptr_t)n->arena + remote;
		wr.rdma.rkey = nic_mr_rkey(n->mr);
	}
	return wr;
}

void share_post(struct share_rig *rig, unsigned to, enum nic_wr_opcode opcode, uint32_t at, uint32_t len,
		uint32_t remote)
{
	struct nic_send_wr wr = share_wr(rig, to, opcode, at, len, remote);

	assert_int_equal(nic_post_send(rig->node[I].qp, &wr), 0);
}

void share_recv(struct share_node *n, uint64_t wr_id, uint32_t at, uint32_t len)
{
	const struct nic_sge sge = {(uintptr_t)n->arena + at, len, nic_mr_lkey(n->mr)};
	const struct nic_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

	assert_int_equal(nic_post_srq_recv(n->srq, &wr), 0);
}

struct nic_wc share_expect_at(struct share_node *n, enum nic_wc_status status, const char *file, int line)
{
	struct nic_wc wc = {0};

	_assert_true(share_await(n->rig, n->cq, 1, 60 * SHARE_SECOND), "a completion", file, line);
	nic_cq_poll(n->cq, 1, &wc);
	_assert_int_equal(wc.status, status, file, line);
	return wc;
}

struct nic_wc share_next(struct share_node *n)
{
	struct nic_wc wc = {0};

	assert_true(share_await(n->rig, n->cq, 1, 60 * SHARE_SECOND));
	nic_cq_poll(n->cq, 1, &wc);
	return wc;
}

uint64_t share_events(struct share_rig *rig)
{
	struct share_node *o = &rig->node[O];
	struct nic_event e;

	while (nic_event_next(o->nic, &e))
		if (e.user == &o->qp)
			o->events |= 1ull << e.type;
	return o->events;
}

static uint8_t byte_of(uint32_t i, uint32_t seed)
{
	return (uint8_t)(i * 7 + (i >> 8) * 3 + seed * 31 + 1);
}

void share_fill(uint8_t *p, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		p[i] = byte_of(i, seed);
}

bool share_holds(const uint8_t *p, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		if (p[i] != byte_of(i, seed))
			return false;
	return true;
}
