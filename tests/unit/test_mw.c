/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_mw.c - memory windows: binding rules, access through them, invalidation (IBTA 10.6.6.2, 10.6.7; conformance
 * points MW-02 to MW-11). Which verb binds which type (MW-01) is decided in the layer above; here, work requests bind
 * both types.
 */
#include "resp_util.h"

#define REMOTE (NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC)
#define WINDOW 8192u /* offset in the arena of the memory that windows cover */
#define LEN    512u

struct win {
	struct rig *rig;
	struct nic_mw *mw;
	enum nic_mw_type type;
	struct nic_bind bind; /* binds to [WINDOW, WINDOW + LEN) of the arena unless changed before win_bind */
	uint32_t flags;
};

static void win_alloc(struct win *w, struct rig *rig, enum nic_mw_type type)
{
	*w = (struct win){.rig = rig, .type = type};
	assert_int_equal(nic_mw_alloc(rig->pd, type, &w->mw), 0);
	w->bind = (struct nic_bind){
		.mw = w->mw, .mr = rig->mr, .addr = rig_va(rig, WINDOW), .len = LEN, .access = REMOTE};
	w->bind.rkey = (nic_mw_rkey(w->mw) & ~0xffu) | 0x5a;
}

/* Post the bind. @return the status of its completion. An error ends the QP. */
static enum nic_wc_status win_bind(struct win *w)
{
	struct nic_send_wr wr = {.wr_id = 77, .opcode = NIC_WR_BIND_MW, .flags = w->flags, .bind = w->bind};
	struct nic_wc wc = {0};

	rig_post(w->rig, &wr);
	rig_expect_silence(w->rig);
	assert_true(rig_poll(w->rig->send_cq, &wc));
	assert_int_equal(wc.wr_id, 77);
	if (wc.status == NIC_WC_SUCCESS)
		assert_int_equal(wc.opcode, NIC_WC_BIND_MW);
	return (enum nic_wc_status)wc.status;
}

static void new_qp(struct rig *rig)
{
	rig->qp = rig_qp_create(rig);
	rig->qpn = nic_qp_num(rig->qp);
	rig_to_rts(rig);
}

/* The syndrome of rig->qp's answer to a request from the peer with this key. */
static unsigned try_op(struct rig *rig, unsigned op, uint32_t psn, uint32_t rkey, uint64_t va, uint32_t len)
{
	struct packet p = rig_peer_data(rig, op, psn, 0, op_get((uint8_t)op)->payload ? len : 0);

	p.rkey = rkey;
	p.va = va;
	p.dma_len = len;
	assert_true(rig_rx(rig, &p));
	assert_true(rig_tx(rig, &p));
	return p.syndrome;
}

static void mw__MW_02_window_region_and_qp_must_share_a_pd(void **state)
{
	for (unsigned i = 0; i < 4; i++) { /* a region or window of another PD, both window types */
		struct rig *rig = rig_ready(NULL);
		struct nic_pd *other;
		struct win w;

		win_alloc(&w, rig, i & 1 ? NIC_MW_TYPE_1 : NIC_MW_TYPE_2);
		assert_int_equal(nic_pd_alloc(rig->nic, &other), 0);
		if (i < 2)
			assert_int_equal(nic_mr_reg(other, rig->arena, RIG_ARENA, rig_va(rig, 0),
						    NIC_ACCESS_MW_BIND | NIC_ACCESS_LOCAL_WRITE, &w.bind.mr),
					 0);
		else
			assert_int_equal(nic_mw_alloc(other, w.type, &w.bind.mw), 0);
		w.bind.rkey = nic_mw_rkey(w.bind.mw);
		assert_int_equal(win_bind(&w), NIC_WC_MW_BIND_ERR);
		assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
		rig_destroy(rig);
	}
}

static void mw__MW_03_region_needs_bind_right_and_local_write_for_writing_windows(void **state)
{
	static const struct {
		uint32_t mr, mw;
		bool ok;
	} cases[] = {
		{NIC_ACCESS_LOCAL_WRITE | REMOTE, NIC_ACCESS_REMOTE_READ, false}, /* the region has no MW_BIND */
		{NIC_ACCESS_MW_BIND, NIC_ACCESS_REMOTE_WRITE, false},
		{NIC_ACCESS_MW_BIND, NIC_ACCESS_REMOTE_ATOMIC, false},
		{NIC_ACCESS_MW_BIND, NIC_ACCESS_REMOTE_READ, true},
		{NIC_ACCESS_MW_BIND | NIC_ACCESS_LOCAL_WRITE, NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_ATOMIC, true},
		{NIC_ACCESS_MW_BIND | NIC_ACCESS_LOCAL_WRITE, NIC_ACCESS_LOCAL_WRITE, false}, /* not a window's right */
		{NIC_ACCESS_MW_BIND | NIC_ACCESS_LOCAL_WRITE, NIC_ACCESS_MW_BIND, false},
	};

	for (unsigned i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
		struct rig *rig = rig_ready(NULL);
		struct win w;

		win_alloc(&w, rig, i & 1 ? NIC_MW_TYPE_1 : NIC_MW_TYPE_2);
		assert_int_equal(
			nic_mr_reg(rig->pd, rig->arena, RIG_ARENA, rig_va(rig, 0), cases[i / 2].mr, &w.bind.mr), 0);
		w.bind.access = cases[i / 2].mw;
		assert_int_equal(win_bind(&w), cases[i / 2].ok ? NIC_WC_SUCCESS : NIC_WC_MW_BIND_ERR);
		rig_destroy(rig);
	}
}

static void mw__MW_04_range_must_lie_inside_the_region(void **state)
{
	static const struct {
		int64_t from; /* the window's start, relative to the start of a region of 4096 bytes */
		uint64_t len;
		bool ok;
	} cases[] = {
		{0, 4096, true},
		{4095, 1, true},
		{1, 4095, true},
		{-1, 2, false},
		{0, 4097, false},
		{4096, 1, false},
		{1, 4096, false},
		{1, UINT64_MAX, false},
		{-1, 0, false},
		{8, UINT64_MAX - 0x10000 - 7, false},
		{4095, UINT64_MAX - 4094, false},
	};

	for (unsigned i = 0; i < 2 * sizeof(cases) / sizeof(*cases); i++) {
		struct rig *rig = rig_ready(NULL);
		struct win w;

		win_alloc(&w, rig, i & 1 ? NIC_MW_TYPE_1 : NIC_MW_TYPE_2);
		assert_int_equal(nic_mr_reg(rig->pd, rig->arena + WINDOW, 4096, 0x10000,
					    NIC_ACCESS_MW_BIND | NIC_ACCESS_LOCAL_WRITE, &w.bind.mr),
				 0);
		w.bind.addr = 0x10000 + (uint64_t)cases[i / 2].from;
		w.bind.len = cases[i / 2].len;
		if (!w.bind.len && w.type == NIC_MW_TYPE_1) {
			rig_destroy(rig);
			continue; /* length 0 unbinds a type 1 window */
		}
		assert_int_equal(win_bind(&w), cases[i / 2].ok ? NIC_WC_SUCCESS : NIC_WC_MW_BIND_ERR);
		if (cases[i / 2].ok) { /* and the window ends where it should */
			uint64_t end = w.bind.addr + w.bind.len;

			assert_int_equal(try_op(rig, WRITE_ONLY, E, nic_mw_rkey(w.mw), end - 1, 1), SYN_ACK);
			assert_int_equal(try_op(rig, WRITE_ONLY, E + 1, nic_mw_rkey(w.mw), end, 1), SYN_ACCESS);
			rig_expect_untouched(rig, WINDOW + 4096, 64);
		}
		rig_destroy(rig);
	}
}

static void mw__MW_05_type_1_is_never_zero_based(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct win w;

	win_alloc(&w, rig, NIC_MW_TYPE_1);
	w.bind.access |= NIC_ACCESS_ZERO_BASED;
	assert_int_equal(win_bind(&w), NIC_WC_MW_BIND_ERR);
	rig_destroy(rig);
}

static void mw__MW_05_a_bound_type_2_window_cannot_be_rebound(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr inv = {.wr_id = 5, .opcode = NIC_WR_LOCAL_INV};
	struct win w;

	win_alloc(&w, rig, NIC_MW_TYPE_2);
	assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
	inv.ex = nic_mw_rkey(w.mw);
	rig_post(rig, &inv);
	rig_expect_silence(rig);
	rig_expect_wc(rig->send_cq, 5, NIC_WC_SUCCESS);
	w.bind.rkey++;
	assert_int_equal(win_bind(&w), NIC_WC_SUCCESS); /* the window was unbound by the invalidate */
	w.bind.rkey++;
	assert_int_equal(win_bind(&w), NIC_WC_MW_BIND_ERR);
	rig_destroy(rig);
}

static void mw__MW_05_type_2_may_be_zero_based(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct win w;

	win_alloc(&w, rig, NIC_MW_TYPE_2);
	w.bind.access |= NIC_ACCESS_ZERO_BASED;
	assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
	assert_int_equal(try_op(rig, WRITE_ONLY, E, w.bind.rkey, LEN - 8, 8), SYN_ACK);
	rig_expect_data(rig, WINDOW + LEN - 8, 0, 8);
	assert_int_equal(try_op(rig, WRITE_ONLY, E + 1, w.bind.rkey, rig_va(rig, WINDOW), 8), SYN_ACCESS);
	rig_destroy(rig);
}

static void mw__MW_06_type_2_needs_a_region_and_a_length(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct rig *rig = rig_ready(NULL);
		struct win w;

		win_alloc(&w, rig, NIC_MW_TYPE_2);
		if (i)
			w.bind.mr = NULL;
		else
			w.bind.len = 0;
		assert_int_equal(win_bind(&w), NIC_WC_MW_BIND_ERR);
		rig_destroy(rig);
	}
}

/* Allocate a type 1 window and bind it with the defaults of win_alloc. @return the window's key */
static uint32_t win_bound(struct win *w, struct rig *rig)
{
	win_alloc(w, rig, NIC_MW_TYPE_1);
	assert_int_equal(win_bind(w), NIC_WC_SUCCESS);
	return nic_mw_rkey(w->mw);
}

static void mw__MW_06_type_1_with_zero_length_is_unbound(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct win w;
	uint32_t bound;

	bound = win_bound(&w, rig);
	assert_int_equal(try_op(rig, WRITE_ONLY, E, bound, w.bind.addr, 8), SYN_ACK);
	w.bind.len = 0;
	w.bind.mr = NULL;
	w.bind.rkey++;
	assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
	assert_int_equal(try_op(rig, WRITE_ONLY, E + 1, bound, w.bind.addr, 8), SYN_ACCESS);
	new_qp(rig);
	assert_int_equal(try_op(rig, WRITE_ONLY, E, nic_mw_rkey(w.mw), w.bind.addr, 8), SYN_ACCESS);
	assert_int_equal(nic_mr_dereg(rig->mr), 0); /* no window is bound to the region */
	rig_destroy(rig);
}

static void mw__MW_07_rebind_of_type_1_kills_the_old_key(void **state)
{
	struct rig *rig = rig_ready(NULL);
	uint32_t old[4];
	struct win w;

	win_alloc(&w, rig, NIC_MW_TYPE_1);
	for (uint32_t i = 0; i < 4; i++) {
		w.bind.rkey++;
		assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
		old[i] = nic_mw_rkey(w.mw);
		assert_int_equal(old[i], w.bind.rkey);
		assert_int_equal(try_op(rig, WRITE_ONLY, E + i, old[i], w.bind.addr, 8), SYN_ACK);
	}
	for (unsigned i = 0; i < 3; i++) {
		new_qp(rig);
		assert_int_equal(try_op(rig, WRITE_ONLY, E, old[i], w.bind.addr, 8), SYN_ACCESS);
	}
	new_qp(rig);
	assert_int_equal(try_op(rig, WRITE_ONLY, E, old[3], w.bind.addr, 8), SYN_ACK);
	rig_destroy(rig);
}

/* The application increments its copy of the key for each bind that it posts. If a bind fails, the window keeps its
 * key; the next bind that succeeds gives the window the key that the application has posted. */
static void mw__MW_07_failed_and_flushed_type_1_binds_keep_the_old_key(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct win w;
	uint32_t bound;

	bound = win_bound(&w, rig);
	w.bind.rkey++;
	w.bind.len = RIG_ARENA;
	assert_int_equal(win_bind(&w), NIC_WC_MW_BIND_ERR);
	w.bind.rkey++;
	w.bind.len = LEN;
	assert_int_equal(win_bind(&w), NIC_WC_WR_FLUSH_ERR);
	assert_int_equal(nic_mw_rkey(w.mw), bound);
	new_qp(rig);
	assert_int_equal(try_op(rig, WRITE_ONLY, E, bound, w.bind.addr, 8), SYN_ACK);
	w.bind.rkey = (w.bind.rkey + 1) ^ 0xff00; /* only the low byte counts */
	assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
	w.bind.rkey ^= 0xff00;
	assert_int_equal(nic_mw_rkey(w.mw), w.bind.rkey);
	assert_int_equal(try_op(rig, WRITE_ONLY, E + 1, w.bind.rkey, w.bind.addr, 8), SYN_ACK);
	assert_int_equal(try_op(rig, WRITE_ONLY, E + 2, bound, w.bind.addr, 8), SYN_ACCESS);
	rig_destroy(rig);
}

static void mw__MW_07_deallocated_window_is_dead(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct win w;
	uint32_t rkey;

	win_alloc(&w, rig, NIC_MW_TYPE_2);
	assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
	rkey = nic_mw_rkey(w.mw);
	assert_int_equal(nic_mw_dealloc(w.mw), 0);
	assert_int_equal(try_op(rig, READ_REQ, E, rkey, w.bind.addr, 8), SYN_ACCESS);
	rig_destroy(rig);
}

static void mw__MW_08_type_1_serves_its_pd_and_type_2_its_qp(void **state)
{
	for (unsigned type = NIC_MW_TYPE_1; type <= NIC_MW_TYPE_2; type++) {
		struct rig *rig = rig_ready(NULL);
		struct nic_qp *first = rig->qp;
		struct nic_pd *other;
		struct win w;

		win_alloc(&w, rig, (enum nic_mw_type)type);
		assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
		assert_int_equal(try_op(rig, WRITE_ONLY, E, nic_mw_rkey(w.mw), w.bind.addr, 8), SYN_ACK);
		new_qp(rig); /* another QP of the same PD */
		assert_int_equal(try_op(rig, WRITE_ONLY, E, nic_mw_rkey(w.mw), w.bind.addr, 8),
				 type == NIC_MW_TYPE_1 ? SYN_ACK : SYN_ACCESS);
		assert_int_equal(nic_pd_alloc(rig->nic, &other), 0);
		rig->pd = other;
		new_qp(rig);
		assert_int_equal(try_op(rig, WRITE_ONLY, E, nic_mw_rkey(w.mw), w.bind.addr, 8), SYN_ACCESS);
		rig->qpn = nic_qp_num(first);
		assert_int_equal(try_op(rig, WRITE_ONLY, E + 1, nic_mw_rkey(w.mw), w.bind.addr, 8), SYN_ACK);
		rig_destroy(rig);
	}
}

static void mw__MW_08_rights_and_range_are_those_of_the_window(void **state)
{
	static const struct {
		uint32_t access;
		uint8_t op;
	} cases[] = {{NIC_ACCESS_REMOTE_READ, READ_REQ},
		     {NIC_ACCESS_REMOTE_WRITE, WRITE_ONLY},
		     {NIC_ACCESS_REMOTE_ATOMIC, FETCH_ADD}};

	for (unsigned i = 0; i < 18; i++) { /* access right given, operation tried, window type */
		struct rig *rig = rig_ready(NULL);
		struct win w;
		bool fits = i / 6 == i / 2 % 3;

		win_alloc(&w, rig, i & 1 ? NIC_MW_TYPE_1 : NIC_MW_TYPE_2);
		w.bind.access = cases[i / 6].access;
		assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
		assert_int_equal(try_op(rig, cases[i / 2 % 3].op, E, nic_mw_rkey(w.mw), w.bind.addr, 8),
				 fits ? SYN_ACK : SYN_ACCESS);
		if (fits) /* the region continues after the window's end, but the window's key gives no access there */
			assert_int_equal(try_op(rig, cases[i / 6].op, E + 1, nic_mw_rkey(w.mw), w.bind.addr + LEN, 8),
					 SYN_ACCESS);
		rig_destroy(rig);
	}
}

static void mw__MW_08_a_window_is_no_local_key(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct win w;

	win_alloc(&w, rig, NIC_MW_TYPE_1);
	assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
	struct nic_send_wr wr = rig_wr(rig, 1, NIC_WR_SEND, WINDOW, 8);

	rig->sge.lkey = nic_mw_rkey(w.mw);
	rig_post(rig, &wr);
	rig_expect_silence(rig);
	rig_expect_wc(rig->send_cq, 1, NIC_WC_LOC_PROT_ERR);
	rig_destroy(rig);
}

static void mw__MW_09_only_bound_type_2_windows_can_be_invalidated(void **state)
{
	for (unsigned i = 0; i < 5; i++) {
		struct rig *rig = rig_ready(NULL);
		struct nic_send_wr inv = {.wr_id = 5, .opcode = NIC_WR_LOCAL_INV};
		struct win w;

		win_alloc(&w, rig, i == 0 ? NIC_MW_TYPE_1 : NIC_MW_TYPE_2);
		if (i != 2)
			assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
		inv.ex = nic_mw_rkey(w.mw);
		if (i == 1)
			inv.ex = rig->rkey; /* the key of a region, not of a window */
		if (i == 3)
			inv.ex ^= 1;
		if (i == 4)
			new_qp(rig); /* not the QP through which the window is bound */
		rig_post(rig, &inv);
		rig_expect_silence(rig);
		rig_expect_wc(rig->send_cq, 5, NIC_WC_MW_BIND_ERR);
		assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
		rig_destroy(rig);
	}
}

static void mw__MW_09_a_window_is_invalidated_once(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct nic_send_wr inv = {.wr_id = 5, .opcode = NIC_WR_LOCAL_INV};
	struct win w;

	win_alloc(&w, rig, NIC_MW_TYPE_2);
	assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
	inv.ex = nic_mw_rkey(w.mw);
	for (unsigned i = 0; i < 2; i++) {
		rig_post(rig, &inv);
		rig_expect_silence(rig);
		rig_expect_wc(rig->send_cq, 5, i ? NIC_WC_MW_BIND_ERR : NIC_WC_SUCCESS);
	}
	rig_destroy(rig);
}

static void mw__MW_10_send_with_invalidate_frees_the_window(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct packet p = rig_peer_data(rig, SEND_ONLY_INV, E, 0, 8);
	struct nic_wc wc;
	struct win w;

	win_alloc(&w, rig, NIC_MW_TYPE_2);
	assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
	rig_post_recv(rig, 1, 0, 64);
	p.inv_rkey = nic_mw_rkey(w.mw);
	rig_rx(rig, &p);
	rig_expect_ack(rig, E, SYN_ACK);
	wc = rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, NIC_WC_WITH_INV);
	assert_int_equal(wc.ex, p.inv_rkey);
	assert_int_equal(wc.byte_len, 8);
	rig_expect_data(rig, 0, 0, 8);
	assert_int_equal(nic_mr_dereg(rig->mr), 0); /* the window is unbound */
	assert_int_equal(try_op(rig, READ_REQ, E + 1, p.inv_rkey, w.bind.addr, 8), SYN_ACCESS);
	rig_destroy(rig);
}

/* Class J (9.9.6.3): the peer gets no NAK. */
static void mw__MW_10_an_invalid_invalidate_fails_the_receive_and_the_qp(void **state)
{
	/* An unknown key, a region's key and a type 1 window's key, each in a SEND ONLY and in a SEND LAST. */
	for (unsigned i = 0; i < 6; i++) {
		struct rig *rig = rig_ready(NULL);
		bool last = i & 1;
		struct packet p = rig_peer_data(rig, last ? SEND_LAST_INV : SEND_ONLY_INV, last ? E + 1 : E, 0, 8);
		struct win w;

		win_alloc(&w, rig, NIC_MW_TYPE_1);
		assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
		rig_post_recv(rig, 1, 0, 1024);
		rig_post_recv(rig, 2, 1024, 64);
		if (last)
			rig_rx_data(rig, SEND_FIRST, E, 0, RIG_MTU);
		p.inv_rkey = i / 2 == 0 ? 0x12345678 : i / 2 == 1 ? rig->rkey : nic_mw_rkey(w.mw);
		rig_rx(rig, &p);
		rig_expect_wc(rig->recv_cq, 1, NIC_WC_MW_BIND_ERR);
		rig_expect_wc(rig->recv_cq, 2, NIC_WC_WR_FLUSH_ERR);
		assert_int_equal(nic_qp_state(rig->qp), NIC_QPS_ERR);
		rig_rx(rig, &p); /* as the peer does when its ACK timer has expired */
		rig_expect_silence(rig);
		assert_int_equal(rig_events(rig, RIG_USER_QP(rig)), 0);
		assert_true(nic_mr_dereg(rig->mr) == -EBUSY); /* the window is still bound */
		rig_destroy(rig);
	}
}

/* The ACK of an earlier message does not wait any longer, and an earlier READ is answered. */
static void mw__MW_10_an_invalid_invalidate_leaves_earlier_answers(void **state)
{
	struct rig *rig = rig_ready(&(struct rig_opts){.nic.ack_delay_ns = 1000000});
	struct packet p = rig_peer_packet(rig, READ_REQ, E);

	rig_post_recv(rig, 1, 0, 64);
	rig_post_recv(rig, 2, 0, 64);
	p.va = rig_va(rig, 512);
	p.dma_len = 8;
	rig_rx(rig, &p);
	rig_rx_data(rig, SEND_ONLY, E + 1, 0, 8);
	p = rig_peer_data(rig, SEND_ONLY_INV, E + 2, 0, 8);
	p.inv_rkey = rig->rkey;
	rig_rx(rig, &p);
	rig_expect_tx(rig, READ_RESP_ONLY, E);
	rig_expect_ack(rig, E + 1, SYN_ACK);
	rig_expect_silence(rig);
	rig_expect_wc(rig->recv_cq, 1, NIC_WC_SUCCESS);
	rig_expect_wc(rig->recv_cq, 2, NIC_WC_MW_BIND_ERR);
	rig_destroy(rig);
}

static void mw__MW_11_consumers_choose_only_the_low_byte_of_type_2_keys(void **state)
{
	struct rig *rig = rig_ready(NULL);
	struct win w;
	uint32_t first;

	win_alloc(&w, rig, NIC_MW_TYPE_2);
	first = w.bind.rkey;
	for (uint32_t i = 0; i < 3; i++) {
		struct nic_send_wr inv = {.wr_id = 5, .opcode = NIC_WR_LOCAL_INV};

		w.bind.rkey = (first & ~0xffu) | (uint8_t)(first + 17 * i);
		assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
		assert_int_equal(nic_mw_rkey(w.mw), w.bind.rkey);
		assert_int_equal(try_op(rig, WRITE_ONLY, E + i, w.bind.rkey, w.bind.addr, 8), SYN_ACK);
		inv.ex = w.bind.rkey;
		rig_post(rig, &inv);
		rig_expect_silence(rig);
		rig_expect_wc(rig->send_cq, 5, NIC_WC_SUCCESS);
	}
	w.bind.rkey = ~first; /* the other bytes of the key are the window's, whatever the request says */
	assert_int_equal(win_bind(&w), NIC_WC_SUCCESS);
	assert_int_equal(nic_mw_rkey(w.mw), first ^ 0xff);
	assert_int_equal(try_op(rig, WRITE_ONLY, E + 3, first ^ 0xff, w.bind.addr, 8), SYN_ACK);
	assert_int_equal(try_op(rig, WRITE_ONLY, E + 4, ~first, w.bind.addr, 8), SYN_ACCESS);
	rig_destroy(rig);
}

/* If the application destroys the region or the window before the bind runs, the bind completes in error and uses no
 * stale pointer. */
static void mw__object_gone_before_its_bind_runs(void **state)
{
	for (unsigned i = 0; i < 2; i++) {
		struct rig *rig = rig_ready(NULL);
		struct nic_send_wr wr = {.wr_id = 7, .opcode = NIC_WR_BIND_MW};
		struct win w;

		win_alloc(&w, rig, NIC_MW_TYPE_1);
		wr.bind = w.bind;
		rig_post(rig, &wr);
		if (i)
			nic_mw_dealloc(w.mw);
		else
			nic_mr_dereg(rig->mr);
		rig_expect_silence(rig);
		rig_expect_wc(rig->send_cq, 7, NIC_WC_MW_BIND_ERR);
		rig_destroy(rig);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mw__MW_02_window_region_and_qp_must_share_a_pd),
		cmocka_unit_test(mw__MW_03_region_needs_bind_right_and_local_write_for_writing_windows),
		cmocka_unit_test(mw__MW_04_range_must_lie_inside_the_region),
		cmocka_unit_test(mw__MW_05_type_1_is_never_zero_based),
		cmocka_unit_test(mw__MW_05_a_bound_type_2_window_cannot_be_rebound),
		cmocka_unit_test(mw__MW_05_type_2_may_be_zero_based),
		cmocka_unit_test(mw__MW_06_type_2_needs_a_region_and_a_length),
		cmocka_unit_test(mw__MW_06_type_1_with_zero_length_is_unbound),
		cmocka_unit_test(mw__MW_07_rebind_of_type_1_kills_the_old_key),
		cmocka_unit_test(mw__MW_07_failed_and_flushed_type_1_binds_keep_the_old_key),
		cmocka_unit_test(mw__MW_07_deallocated_window_is_dead),
		cmocka_unit_test(mw__MW_08_type_1_serves_its_pd_and_type_2_its_qp),
		cmocka_unit_test(mw__MW_08_rights_and_range_are_those_of_the_window),
		cmocka_unit_test(mw__MW_08_a_window_is_no_local_key),
		cmocka_unit_test(mw__MW_09_only_bound_type_2_windows_can_be_invalidated),
		cmocka_unit_test(mw__MW_09_a_window_is_invalidated_once),
		cmocka_unit_test(mw__MW_10_send_with_invalidate_frees_the_window),
		cmocka_unit_test(mw__MW_10_an_invalid_invalidate_fails_the_receive_and_the_qp),
		cmocka_unit_test(mw__MW_10_an_invalid_invalidate_leaves_earlier_answers),
		cmocka_unit_test(mw__MW_11_consumers_choose_only_the_low_byte_of_type_2_keys),
		cmocka_unit_test(mw__object_gone_before_its_bind_runs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
