/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_ring.c - libFuzzer target: attacks by a malicious function of the same host. `victim` is a function with the
 * complete engine except threads and port. It has queue pairs with the enemy, and with `honest`, another function with
 * the same engine. The enemy is a NIC whose packets the input corrupts before they are put into a ring. As the input
 * decides, the enemy also writes into its own rings and into those received from the victim, both between the victim's
 * engine steps and during them (ring_touch.h), sends messages, and closes connections.
 *
 * Checked in addition to what the sanitizers find (rings are mapped between guard pages): messages between victim and
 * honest arrive complete, in order and without retransmission, and wake a sleeping receiver; engine steps take a
 * bounded time; memory that the enemy must not access does not change; everything the victim drops is counted; rings
 * keep their size; no memory or descriptor leaks.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "capture.h"
#include "ring_enemy.h"
#include "ring_touch.h"
#include "ring_traffic.h"
#include "tap.h"

#define QPS	 3
#define LINKS	 3 /* most links that the enemy has at a time, in each direction */
#define WRITABLE 8192
#define RECEIVE	 2048 /* size of a receive buffer */
#define ZONE	 64
#define BURST	 32 /* must equal LINK_BURST of links_priv.h */

static struct {
	struct ring_engine victim, honest;
	struct nic *enemy;
	struct nic_pd *pd, *enemy_pd;
	struct nic_cq *cq, *enemy_cq;
	struct nic_mr *mr, *enemy_mr;
	struct nic_qp *qp[QPS], *enemy_qp[QPS];
	struct nic_ah *ah, *enemy_ah;
	struct ring_stream stream[2]; /* [0]: to the victim, [1]: from the victim */
	struct nic_qp *honest_qp[2];  /* [0]: in the victim, [1]: in honest */
	struct enemy_link out[LINKS], in[LINKS];
	int name_fd, capture[2];
	bool asleep, called; /* asleep: the victim sleeps; called: honest has sent a packet since then */
	unsigned gone;	     /* number of connections that the victim has closed */
	_Alignas(64) uint8_t memory[ZONE + WRITABLE + ZONE], enemy_memory[WRITABLE];
} f;

static const enum nic_qp_type types[QPS] = {NIC_QPT_RC, NIC_QPT_UC, NIC_QPT_UD};

/* ---- victim and honest ---------------------------------------------------------------------------------- */

static void drain(struct nic_cq *cq)
{
	struct nic_wc wc;

	while (cq && nic_cq_poll(cq, 1, &wc) == 1)
		expect(wc.status != NIC_WC_SUCCESS || !(wc.opcode & NIC_WC_RECV) || wc.byte_len <= RECEIVE);
}

static void look(void)
{
	for (unsigned i = 0; i < 2; i++)
		ring_stream_check(&f.stream[i]);
	for (unsigned i = 0; i < ZONE; i++)
		expect(f.memory[i] == 0xc5 && f.memory[ZONE + WRITABLE + i] == 0xc5);
	for (unsigned i = 0; i < 2; i++)
		expect(nic_qp_path(f.honest_qp[i]) != 0);
	drain(f.cq);
	drain(f.enemy_cq);
}

static void victim_wakes(void)
{
	struct pmd_engine *e = &f.victim.e;
	unsigned woken;

	if (!f.asleep)
		return;
	woken = pmd_engine_sleep(e, true, 0);
	expect(!f.called || woken & PMD_WOKEN_PACKETS);
	f.asleep = f.called = false;
	pmd_links_awake(e->host.links);
	if (woken & PMD_WOKEN_CONTROL)
		pmd_engine_upkeep(e);
}

/** Run an engine step, during which the enemy changes the contents of rings up to `changes` times. */
static void victim_steps(unsigned budget, bool flush, unsigned changes)
{
	struct pmd_engine *e = &f.victim.e;
	uint64_t before;
	unsigned got;

	victim_wakes();
	before = e->host.port->stats.link_rx_packets;
	touch_begin(e->host.links, changes);
	got = pmd_engine_step(e, budget, flush);
	touch_end();
	expect(got < budget + BURST && e->host.port->stats.link_rx_packets - before == got);
	look();
}

static void victim_looks_after(unsigned changes)
{
	victim_wakes();
	touch_begin(f.victim.e.host.links, changes);
	pmd_engine_upkeep(&f.victim.e);
	touch_end();
}

static void victim_sleeps(void)
{
	struct pmd_engine *e = &f.victim.e;

	victim_wakes();
	if (pmd_engine_timeout(e, 0, ring_now_ns) > 0)
		f.asleep = pmd_links_sleep(e->host.links);
}

static void honest_steps(void)
{
	uint64_t before = f.honest.port.stats.link_tx_packets;

	pmd_engine_step(&f.honest.e, 128, true);
	f.called |= f.asleep && f.honest.port.stats.link_tx_packets != before;
	pmd_engine_upkeep(&f.honest.e);
}

static bool honest_is_served(void)
{
	for (unsigned round = 0; round < 1000; round++) {
		honest_steps();
		victim_steps(128, true, 0);
		pmd_engine_upkeep(&f.victim.e);
		if (ring_stream_is_done(&f.stream[0]) && ring_stream_is_done(&f.stream[1]))
			return true;
		ring_now_ns += 1000000;
	}
	return false;
}

/** Sum of the victim's counters of refused or dropped packets, messages and links. */
static uint64_t counted(void)
{
	const struct pmd_port_stats *p = &f.victim.port.stats;
	const struct pmd_control_stats *c = pmd_control_stats(f.victim.e.host.control);

	return p->link_broken + p->link_refused + c->visitors_unknown + c->visitors_silent + c->visitors_refused +
	       c->bad_updates;
}

/* ---- opening, closing ----------------------------------------------------------------------------------- */

static void connect_enemy(unsigned i)
{
	ring_qp_connect(f.enemy_qp[i], types[i], nic_qp_num(f.qp[i]), &ring_gids[0], 0, 1);
	ring_qp_connect(f.qp[i], types[i], nic_qp_num(f.enemy_qp[i]), &ring_gids[0], 0, 1);
}

static void open_enemy(void)
{
	const struct nic_config config = {.qpn_base = ENEMY << 16,
					  .qpn_bits = 16,
					  .random = ring_random,
					  .trace_len = 16,
					  .limits = {.max_qp = 16}};
	const struct nic_av av = {.dgid = ring_gids[0]};
	const uint32_t rights =
		NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC;
	struct nic *nic = f.victim.e.host.nic;
	struct proto_name name;

	pmd_name_function(&ring_gids[0], ENEMY, &name);
	f.name_fd = proto_listen(&name);
	for (unsigned i = 0; i < LINKS; i++)
		f.out[i].fd = f.out[i].memfd = f.in[i].fd = f.in[i].memfd = -1;
	expect(f.name_fd >= 0 && nic_create(&config, &f.enemy) == 0 && nic_gid_set(f.enemy, 0, &ring_gids[0]) == 0);
	expect(nic_pd_alloc(f.enemy, &f.enemy_pd) == 0 && nic_cq_create(f.enemy, 256, NULL, &f.enemy_cq) == 0);
	expect(nic_cq_create(nic, 256, NULL, &f.cq) == 0);
	expect(nic_mr_reg(f.pd, f.memory + ZONE, WRITABLE, 0x10000, rights, &f.mr) == 0);
	expect(nic_mr_reg(f.enemy_pd, f.enemy_memory, WRITABLE, 0x10000, rights, &f.enemy_mr) == 0);
	expect(nic_ah_create(f.pd, &av, &f.ah) == 0 && nic_ah_create(f.enemy_pd, &av, &f.enemy_ah) == 0);
	for (unsigned i = 0; i < QPS; i++) {
		struct nic_qp_init init = {.type = types[i],
					   .pd = f.pd,
					   .send_cq = f.cq,
					   .recv_cq = f.cq,
					   .cap = {16, 16, 2, 2, 64},
					   .sq_sig_all = true};

		expect(nic_qp_create(nic, &init, &f.qp[i]) == 0);
		init.pd = f.enemy_pd;
		init.send_cq = init.recv_cq = f.enemy_cq;
		expect(nic_qp_create(f.enemy, &init, &f.enemy_qp[i]) == 0);
		connect_enemy(i);
	}
}

/** Open one well-formed link in each direction. */
static void open_enemy_links(void)
{
	ring_input.left = 0;
	enemy_accepts(&f.in[0], f.name_fd);
	enemy_connects(&f.out[0]);
	for (unsigned i = 0; i < 2; i++) /* first accept the enemy's connection, then read its message */
		pmd_engine_upkeep(&f.victim.e);
	expect(f.in[0].from.memory && f.out[0].to.memory && f.victim.e.host.links->n_in == 2);
}

/** Open a stream in each direction between victim and honest, and send a first message in each. */
static void open_streams(void)
{
	struct ring_engine *end[2] = {&f.victim, &f.honest};
	struct nic_pd *pd[2];

	for (unsigned i = 0; i < 2; i++) {
		struct nic_qp_init init = {.type = NIC_QPT_RC, .cap = {16, 16, 1, 1, 0}};
		struct ring_stream *from = &f.stream[1 - i], *to = &f.stream[i];

		expect(nic_pd_alloc(end[i]->e.host.nic, &pd[i]) == 0);
		expect(nic_cq_create(end[i]->e.host.nic, 64, NULL, &from->send_cq) == 0);
		expect(nic_cq_create(end[i]->e.host.nic, 64, NULL, &to->recv_cq) == 0);
		init.pd = pd[i];
		init.send_cq = from->send_cq;
		init.recv_cq = to->recv_cq;
		expect(nic_qp_create(end[i]->e.host.nic, &init, &f.honest_qp[i]) == 0);
		from->from = to->to = f.honest_qp[i];
	}
	for (unsigned i = 0; i < 2; i++)
		ring_qp_connect(f.honest_qp[i], NIC_QPT_RC, nic_qp_num(f.honest_qp[1 - i]), &ring_gids[1], 1, 0);
	for (unsigned i = 0; i < 2; i++) {
		ring_stream_open(&f.stream[i], pd[1 - i], pd[i]);
		ring_stream_post(&f.stream[i]);
	}
	f.pd = pd[0];
	expect(honest_is_served());
	honest_steps(); /* honest gets the eventfd with which it wakes the victim */
}

static void close_all(void)
{
	for (unsigned i = 0; i < LINKS; i++) {
		enemy_ends(&f.out[i]);
		enemy_ends(&f.in[i]);
	}
	ring_engine_close(&f.victim);
	ring_engine_close(&f.honest);
	nic_destroy(f.enemy);
	close(f.name_fd);
	if (f.capture[0] > 0) {
		close(f.capture[0]);
		close(f.capture[1]);
	}
}

/* ---- the enemy: packets --------------------------------------------------------------------------------- */

/* Each value of the input is read in a separate statement, because the evaluation order within a statement is
 * unspecified. */
static void post(struct nic_qp *qp, unsigned i, struct nic_mr *own, uint32_t rkey, struct nic_ah *ah, uint32_t qpn)
{
	struct nic_sge sge = {.addr = 0x10000 + ring_word16() % (WRITABLE - RECEIVE), .lkey = nic_mr_lkey(own)};
	struct nic_send_wr wr = {.sg_list = &sge, .num_sge = 1};
	uint32_t at;

	sge.length = ring_word16() % RECEIVE;
	wr.opcode = ring_byte() % 7;
	wr.flags = ring_byte() & 7;
	at = ring_word16();

	if (wr.opcode >= NIC_WR_ATOMIC_CMP_AND_SWP) {
		sge.length = 8;
		wr.atomic.remote_addr = 0x10000 + (at & 0xff8);
		wr.atomic.rkey = rkey;
	} else if (types[i] == NIC_QPT_UD) {
		sge.length %= 257;
		wr.ud.ah = ah;
		wr.ud.remote_qpn = qpn;
		wr.ud.remote_qkey = 0x1234;
	} else {
		wr.rdma.remote_addr = 0x10000 + at % WRITABLE;
		wr.rdma.rkey = rkey;
	}
	nic_post_send(qp, &wr);
}

static void post_receive(struct nic_qp *qp, struct nic_mr *own)
{
	struct nic_sge sge = {0x10000 + ring_word16() % (WRITABLE - RECEIVE), RECEIVE, nic_mr_lkey(own)};
	struct nic_recv_wr wr = {.sg_list = &sge, .num_sge = 1};

	nic_post_recv(qp, &wr);
}

/** Count a connection if the victim has closed it, and close the enemy's end. */
static void count_gone(struct enemy_link *l)
{
	struct pollfd p = {.fd = l->fd, .events = POLLRDHUP};

	if (l->fd < 0 || poll(&p, 1, 0) != 1 || !(p.revents & POLLHUP))
		return;
	f.gone += !l->over;
	enemy_ends(l);
}

/* ---- the script ----------------------------------------------------------------------------------------- */

static void disturb(void)
{
	static const char *const rules[] = {"dir=both loss=300000000", "dir=both dup=500000000 corrupt=200000000",
					    "dir=both reorder=500000000 gap=3", "dir=tx delay=20000 jitter=10000",
					    "dir=rx delay=5000 dup=300000000"};
	const struct pmd_capture_filter all = {.directions = PMD_CAPTURE_TX | PMD_CAPTURE_RX, .snaplen = 200};
	uint8_t choice = ring_byte();
	char text[128], err[160];

	if (choice % 8 == 7 && !f.capture[0]) {
		expect(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, f.capture) == 0);
		f.victim.e.stages.capture = pmd_capture_create();
		expect(f.victim.e.stages.capture &&
		       pmd_capture_add(f.victim.e.stages.capture, f.capture[1], &all) == 0);
		pmd_tap_update(&f.victim.e.host);
		return;
	}
	if (choice % 8 >= 5)
		snprintf(text, sizeof(text), "clear");
	else
		snprintf(text, sizeof(text), "set qp=%u seed=%u %s", nic_qp_num(f.qp[choice / 8 % QPS]), choice,
			 rules[choice % 8]);
	expect(pmd_tap_fault(&f.victim.e.host, text, err, sizeof(err)) == 0);
}

static void reconnect(unsigned i)
{
	const struct nic_qp_attr reset = {.qp_state = NIC_QPS_RESET};

	expect(nic_qp_modify(f.qp[i], &reset, NIC_QP_STATE) == 0);
	expect(nic_qp_modify(f.enemy_qp[i], &reset, NIC_QP_STATE) == 0);
	connect_enemy(i);
}

static void pass_time(void)
{
	ring_now_ns += (uint64_t)ring_word16() * 2000;
	nic_timeout(f.enemy, ring_now_ns);
}

static void command(uint8_t c)
{
	unsigned i = c / 16 % QPS;
	struct enemy_link *l = &f.out[c / 16 % LINKS];

	switch (c % 16) {
	case 0:
		victim_steps(c & 0x80 ? 1 : 128, c & 0x40, c / 16 % 4);
		break;
	case 1:
		victim_looks_after(c / 16 % 4);
		break;
	case 2:
		victim_sleeps();
		break;
	case 3:
		ring_stream_post(&f.stream[c / 16 % 2]);
		honest_steps();
		break;
	case 4:
		if (c & 0x80)
			post_receive(f.qp[i], f.mr);
		else
			post(f.qp[i], i, f.mr, nic_mr_rkey(f.enemy_mr), f.ah, nic_qp_num(f.enemy_qp[i]));
		break;
	case 5:
		if (c & 0x80)
			post_receive(f.enemy_qp[i], f.enemy_mr);
		else
			post(f.enemy_qp[i], i, f.enemy_mr, nic_mr_rkey(f.mr), f.enemy_ah, nic_qp_num(f.qp[i]));
		break;
	case 6:
	case 7:
		if (c == 0xf7 || c == 0xe7 || c == 0xd7)
			enemy_floods(l);
		else
			enemy_sends(l, f.enemy);
		break;
	case 8:
		enemy_receives(&f.in[c / 16 % LINKS], f.enemy);
		break;
	case 9:
		enemy_scribbles(l);
		break;
	case 10:
		enemy_scribbles(&f.in[c / 16 % LINKS]);
		break;
	case 11:
		enemy_connects(l);
		break;
	case 12:
		enemy_accepts(&f.in[c / 16 % LINKS], f.name_fd);
		break;
	case 13:
		enemy_says(c & 0x80 ? &f.in[c / 16 % LINKS] : l);
		break;
	case 14:
		if (c & 0x80)
			disturb();
		else if (c & 0x40)
			reconnect(i);
		else
			pass_time();
		break;
	default:
		if (c & 0x80)
			enemy_resizes(c & 0x40 ? &f.in[i] : l);
		else
			enemy_ends(c & 0x40 ? &f.in[i] : l);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static unsigned runs, descriptors;
	unsigned commands = 0;

	memset(&f, 0, sizeof(f));
	memset(f.memory, 0xc5, sizeof(f.memory));
	ring_gids_set();
	ring_random_start();
	ring_now_ns = 1;
	ring_engine_open(&f.victim, VICTIM, ring_gids);
	ring_engine_open(&f.honest, HONEST, ring_gids);
	open_streams();
	open_enemy();
	open_enemy_links();
	ring_input = (struct ring_input){data, size};
	while (ring_input.left > 0 && commands++ < 512) {
		command(ring_byte());
		for (unsigned i = 0; i < LINKS; i++) {
			count_gone(&f.out[i]);
			count_gone(&f.in[i]);
		}
		expect(counted() >= f.gone);
	}
	ring_stream_post(&f.stream[0]);
	ring_stream_post(&f.stream[1]);
	expect(honest_is_served());
	expect(f.victim.port.stats.link_tx_packets > 0 && f.honest.port.stats.link_broken == 0);
	close_all();
	ring_now_ns = 0;
	/* The first run opens descriptors that each process opens only once: later runs must not add any. */
	if (runs++ == 0)
		descriptors = ring_descriptors();
	expect(ring_descriptors() == descriptors);
	return 0;
}
