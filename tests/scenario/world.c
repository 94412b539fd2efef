/* SPDX-License-Identifier: BSD-3-Clause */
/* world.c - see world.h. */
#include "world.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define RUN_LIMIT_NS 10000000000ull /* nothing here takes 10 s of virtual time */

static void say(struct world *w, const char *format, ...)
{
	va_list ap;

	w->length += (unsigned)snprintf(w->text + w->length, sizeof(w->text) - w->length, "%5llu.%03llu  ",
					(unsigned long long)w->now_ns / 1000, (unsigned long long)w->now_ns % 1000);
	va_start(ap, format);
	w->length += (unsigned)vsnprintf(w->text + w->length, sizeof(w->text) - w->length, format, ap);
	va_end(ap);
	w->length += (unsigned)snprintf(w->text + w->length, sizeof(w->text) - w->length, "\n");
	if (w->length >= sizeof(w->text))
		abort(); /* text[] is too small */
}

static void fixed_random(void *ctx, void *buf, size_t len)
{
	uint64_t *state = ctx;
	uint8_t *p = buf;

	for (size_t i = 0; i < len; i++) {
		*state = *state * 6364136223846793005ull + 1442695040888963407ull;
		p[i] = (uint8_t)(*state >> 33);
	}
}

static void check(int rc, const char *what)
{
	if (rc == 0)
		return;
	fprintf(stderr, "%s: %d\n", what, rc);
	abort();
}

static void node_open(struct world *w, unsigned i)
{
	struct world_node *n = &w->node[i];
	struct nic_config config = {.random = fixed_random, .ctx = &w->random, .limits = {.max_qp = 16}};
	struct nic_qp_init init = {.type = NIC_QPT_RC, .cap = {16, 16, 4, 4, 0}, .sq_sig_all = true};
	const uint32_t all =
		NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC;

	check(nic_create(&config, &n->nic), "nic_create");
	n->gid = (struct nic_gid){{[10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(i + 1)}};
	check(nic_gid_set(n->nic, 0, &n->gid), "nic_gid_set");
	check(nic_pd_alloc(n->nic, &n->pd), "nic_pd_alloc");
	check(nic_cq_create(n->nic, 64, NULL, &n->cq), "nic_cq_create");
	check(nic_mr_reg(n->pd, n->mem, sizeof(n->mem), (uintptr_t)n->mem, all, &n->mr), "nic_mr_reg");
	init.pd = n->pd;
	init.send_cq = init.recv_cq = n->cq;
	check(nic_qp_create(n->nic, &init, &n->qp), "nic_qp_create");
}

static void node_connect(struct world *w, unsigned i, const struct world_options *o)
{
	struct world_node *n = &w->node[i], *peer = &w->node[1 - i];
	struct nic_qp_attr a = {
		.qp_state = NIC_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC,
		.path_mtu = NIC_MTU_256,
		.dest_qp_num = nic_qp_num(peer->qp),
		.sq_psn = i == A ? 100 : 200,
		.rq_psn = i == A ? 200 : 100,
		.av = {.dgid = peer->gid},
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = o->rnr_timer,
		.timeout = o->timeout,
		.retry_cnt = o->retry_cnt,
		.rnr_retry = o->rnr_retry,
	};

	check(nic_qp_modify(n->qp, &a, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_ACCESS_FLAGS), "INIT");
	a.qp_state = NIC_QPS_RTR;
	check(nic_qp_modify(n->qp, &a,
			    NIC_QP_STATE | NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN |
				    NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER),
	      "RTR");
	a.qp_state = NIC_QPS_RTS;
	check(nic_qp_modify(n->qp, &a,
			    NIC_QP_STATE | NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY | NIC_QP_SQ_PSN |
				    NIC_QP_MAX_QP_RD_ATOMIC),
	      "RTS");
}

void world_open(struct world *w, const struct world_options *options)
{
	memset(w, 0, sizeof(*w));
	w->random = 1;
	node_open(w, A);
	node_open(w, B);
	node_connect(w, A, options);
	node_connect(w, B, options);
}

void world_close(struct world *w)
{
	nic_destroy(w->node[A].nic);
	nic_destroy(w->node[B].nic);
}

void world_post_wr(struct world *w, const struct nic_send_wr *wr)
{
	check(nic_post_send(w->node[A].qp, wr), "nic_post_send");
}

void world_post(struct world *w, uint64_t wr_id, uint32_t opcode, uint32_t at, uint32_t len, uint32_t remote)
{
	struct nic_sge sge = {(uintptr_t)w->node[A].mem + at, len, nic_mr_lkey(w->node[A].mr)};
	struct nic_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = len > 0, .opcode = opcode};

	wr.rdma.remote_addr = (uintptr_t)w->node[B].mem + remote;
	wr.rdma.rkey = nic_mr_rkey(w->node[B].mr);
	world_post_wr(w, &wr);
}

void world_recv(struct world *w, uint64_t wr_id)
{
	struct nic_sge sge = {(uintptr_t)w->node[B].mem + 4096, 1024, nic_mr_lkey(w->node[B].mr)};
	struct nic_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1};

	check(nic_post_recv(w->node[B].qp, &wr), "nic_post_recv");
}

static bool is_lost(const struct world *w, unsigned number)
{
	for (unsigned i = 0; i < sizeof(w->lose) / sizeof(w->lose[0]); i++)
		if (w->lose[i] == number)
			return true;
	return false;
}

static void transmit(struct world *w, unsigned from)
{
	static uint8_t buf[NIC_FRAME_MAX];
	struct nic_tx_frame f = {.data = buf};
	struct decoded d;
	char line[120];

	while (nic_tx(w->node[from].nic, &f, 1, w->now_ns) == 1) {
		bool lost = is_lost(w, ++w->frames);

		if (!decode_frame(f.data, f.len, &d))
			abort();
		decode_print(&d, line, sizeof(line));
		say(w, "%s  %s%s", from == A ? "A->B" : "B->A", line, lost ? "  (lost)" : "");
		if (lost)
			continue;
		if (w->flying == sizeof(w->flight) / sizeof(w->flight[0]))
			abort();
		struct world_flight *flight = &w->flight[w->flying++];
		flight->at_ns = w->now_ns + WORLD_DELAY_NS;
		flight->to = 1 - from;
		flight->len = f.len;
		memcpy(flight->data, f.data, f.len);
	}
}

static void poll(struct world *w, unsigned i)
{
	static const char *const status[] = {
		[NIC_WC_SUCCESS] = "success",
		[NIC_WC_LOC_LEN_ERR] = "local length error",
		[NIC_WC_LOC_PROT_ERR] = "local protection error",
		[NIC_WC_WR_FLUSH_ERR] = "flushed",
		[NIC_WC_REM_INV_REQ_ERR] = "remote invalid request",
		[NIC_WC_REM_ACCESS_ERR] = "remote access error",
		[NIC_WC_RETRY_EXC_ERR] = "retries exceeded",
		[NIC_WC_RNR_RETRY_EXC_ERR] = "RNR retries exceeded",
	};
	struct nic_wc wc;

	while (nic_cq_poll(w->node[i].cq, 1, &wc) == 1) {
		const char *name = wc.status < sizeof(status) / sizeof(status[0]) ? status[wc.status] : NULL;

		say(w, "%c     %llu: %s", i == A ? 'A' : 'B', (unsigned long long)wc.wr_id, name != NULL ? name : "?");
	}
}

static uint64_t next_time(const struct world *w)
{
	uint64_t t = w->recv_at_ns != 0 ? w->recv_at_ns : UINT64_MAX, due;

	if (w->flying > 0 && w->flight[0].at_ns < t)
		t = w->flight[0].at_ns;
	for (unsigned i = 0; i < 2; i++) {
		due = nic_next_deadline(w->node[i].nic);
		t = due < t ? due : t;
	}
	return t;
}

static void step(struct world *w)
{
	if (w->recv_at_ns != 0 && w->recv_at_ns <= w->now_ns) {
		w->recv_at_ns = 0;
		say(w, "B     posts a receive");
		world_recv(w, 91);
	}
	while (w->flying > 0 && w->flight[0].at_ns <= w->now_ns) {
		struct nic_rx_frame rx = {.data = w->flight[0].data, .len = w->flight[0].len};

		if (!nic_rx(w->node[w->flight[0].to].nic, &rx, w->now_ns))
			abort(); /* a NIC has refused the other NIC's packet */
		memmove(w->flight, w->flight + 1, --w->flying * sizeof(w->flight[0]));
	}
	for (unsigned i = 0; i < 2; i++) {
		nic_timeout(w->node[i].nic, w->now_ns);
		poll(w, i);
	}
	transmit(w, A);
	transmit(w, B);
	poll(w, A);
	poll(w, B);
}

void world_run(struct world *w)
{
	uint64_t t;

	step(w);
	while ((t = next_time(w)) != UINT64_MAX && t < RUN_LIMIT_NS) {
		w->now_ns = t > w->now_ns ? t : w->now_ns;
		step(w);
	}
}

bool world_saw(const struct world *w, const char *expected)
{
	if (strcmp(w->text, expected) == 0)
		return true;
	printf("expected:\n%s\nseen:\n%s\n", expected, w->text);
	return false;
}
