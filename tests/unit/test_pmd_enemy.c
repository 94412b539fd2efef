/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_enemy.c - a running engine with hostile peers on its links. Threads write at random into the rings that the
 * engine consumes from and produces into; they knock, send almost valid packets, and close connections at any time.
 * Meanwhile the engine exchanges data with an honest engine, and this data must arrive intact. Mainly for
 * AddressSanitizer; fuzz_ring.c covers attacks by a single thread.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "ends.h"
#include "engine_priv.h"
#include "links_priv.h"
#include "ring.h"

#define ENEMY	200u /* an unused function number */
#define ROUNDS	1000 /* messages that must arrive intact */
#define LINKS	200  /* rings that must be spoilt in each direction */
#define MESSAGE 5000
#define TARGET	8192 /* size of the region, in the middle of a buffer, that the enemy may write to by RDMA */
#define SCRATCH (NIC_FRAME_MAX + 64)

static struct pmd_device device[2];

/** A ring that the enemy's threads spoil in turn. */
struct ring_in_danger {
	pthread_mutex_t lock; /* protects the mapping, not the ring's contents */
	uint8_t *memory;
	int fd;
	unsigned spoilt; /* atomic: rings replaced, at random or because the engine has given them up */
};

static struct {
	struct end victim, honest;
	struct nic_qp *qp; /* the victim's UC QP, connected to the enemy */
	struct nic_mr *mr;
	struct nic_cq *cq;
	uint8_t *target;
	struct ring_in_danger to, from; /* the enemy produces into `to` and consumes `from` */
	struct ring_producer producer;	/* of `to` */
	struct nic *nic;		/* the enemy's NIC */
	struct nic_qp *enemy_qp;
	struct nic_mr *enemy_mr;
	struct nic_cq *enemy_cq;
	uint8_t enemy_memory[TARGET];
	int listen_fd;
	bool stop; /* atomic */
} t;

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static bool stopped(void)
{
	return __atomic_load_n(&t.stop, __ATOMIC_RELAXED);
}

/* ---- rings come and go ------------------------------------------------------------------------------------------ */

static void danger_end(struct ring_in_danger *d)
{
	if (d->memory)
		ring_unmap(d->memory);
	if (d->fd >= 0)
		close(d->fd);
	d->memory = NULL;
	d->fd = -1;
}

static void hand_over(void)
{
	struct proto_link self = {.key = device[0].gid, .to = device[0].gid, .function = ENEMY};
	struct proto_name name;
	int memfd;

	pmd_name_function(&device[0].gid, t.victim.engine->host.function, &name);
	t.to.fd = proto_connect(&name);
	memfd = ring_create(&t.producer);
	if (memfd < 0)
		return;
	t.to.memory = t.producer.memory;
	if (t.to.fd >= 0 && links_introduce(t.to.fd, &t.producer, &self) == 0)
		proto_send(t.to.fd, PROTO_LINK, &self, sizeof(self), &memfd, 1);
	close(memfd);
}

/** Accept a link from the victim. In one of 64 cases refuse it instead: then the engine offers none for a while. */
static void take_over(uint32_t *seed)
{
	struct ring_consumer c;
	PROTO_MSG(m);

	t.from.fd = proto_accept(t.listen_fd);
	if (t.from.fd < 0 || proto_recv_wait(t.from.fd, &m, 1000) != 1)
		return;
	if (m.n_fds == 1 && ring_map(&c, m.fds[0]) == 0)
		t.from.memory = c.memory;
	proto_msg_close(&m);
	if (next_random(seed) % 64 != 0)
		proto_send(t.from.fd, PROTO_LINK_TAKEN, NULL, 0, NULL, 0);
}

static bool is_alive(int fd)
{
	char text[64];
	ssize_t n = fd < 0 ? 0 : recv(fd, text, sizeof(text), MSG_DONTWAIT);

	return n > 0 || (n < 0 && errno == EAGAIN);
}

/** Replace the ring if the engine has given it up, and otherwise in one of 64 calls. The caller holds the lock. */
static void danger_renew(struct ring_in_danger *d, uint32_t *seed)
{
	if (d->memory && is_alive(d->fd) && next_random(seed) % 64 != 0)
		return;
	if (d->memory)
		__atomic_fetch_add(&d->spoilt, 1, __ATOMIC_RELAXED);
	danger_end(d);
	if (d == &t.to)
		hand_over();
	else
		take_over(seed);
}

/* ---- enemies ---------------------------------------------------------------------------------------------------- */

/** @return a place that the consumer has just read or is about to read: the first word of an entry, or its kind. */
static uint32_t where_it_reads(uint32_t *seed)
{
	uint64_t line = t.producer.tail - next_random(seed) % 16 * (uint64_t)RING_LINE;

	return RING_CONTROL + (uint32_t)(line % RING_BYTES) + (next_random(seed) % 4 ? 0 : 4);
}

static void scribble(const struct ring_in_danger *d, uint32_t *seed)
{
	static const uint32_t words[] = {0, 1, 57, 121, 1100, RING_PACKET_MAX, RING_PACKET_MAX + 1, RING_SKIP};
	static const uint32_t places[] = {offsetof(struct ring_control, head), offsetof(struct ring_control, asleep),
					  offsetof(struct ring_control, welcome),
					  offsetof(struct ring_control, number)};
	uint32_t where = next_random(seed), at = next_random(seed) % (RING_MAP_BYTES / 4) * 4, what;

	if (where % 8 == 0)
		at = places[where / 8 % 4];
	else if (where % 8 == 1) /* the first word of a random entry */
		at = RING_CONTROL + at % RING_BYTES / RING_LINE * RING_LINE;
	else if (where % 8 < 7 && d == &t.to)
		at = where_it_reads(seed);
	what = where & 256 ? next_random(seed) : words[where / 512 % 8];
	__atomic_store_n((uint32_t *)(void *)(d->memory + at), what, __ATOMIC_RELAXED);
}

static void *scribbler(void *arg)
{
	struct ring_in_danger *d = arg;
	uint32_t seed = d == &t.to ? 1 : 2;

	while (!stopped()) {
		pthread_mutex_lock(&d->lock);
		for (unsigned i = 0; d->memory && i < 64; i++)
			scribble(d, &seed);
		if (d == &t.from)
			danger_renew(d, &seed);
		else if (d->fd >= 0)
			proto_send(d->fd, next_random(&seed) % 256 ? PROTO_LINK_KNOCK : PROTO_TEXT, NULL, 0, NULL, 0);
		pthread_mutex_unlock(&d->lock);
		sched_yield();
	}
	return NULL;
}

/** Write 1 to 4 pieces for a packet by reference; some have a random address, length or PSN count. @return the entry's
 * length. */
static uint32_t put_pieces(uint8_t *place, uint32_t *seed)
{
	uint32_t n = 1 + next_random(seed) % 4, len = 0;
	struct link_piece pieces[4];

	for (unsigned i = 0; i < n; i++) {
		pieces[i] = (struct link_piece){
			next_random(seed) % 8 ? (uintptr_t)t.enemy_memory : next_random(seed),
			next_random(seed) % 8 ? next_random(seed) % TARGET : next_random(seed),
		};
		len += pieces[i].len;
	}
	pieces[0].psns = next_random(seed) % 8 ? (len + 1023) / 1024 : next_random(seed);
	memcpy(place + LINK_PIECES_AT, pieces, n * sizeof(pieces[0]));
	return LINK_PIECES_AT + n * (uint32_t)sizeof(struct link_piece);
}

/** Send WRITEs of the enemy's real NIC to the region that the enemy may write to; corrupt some of the packets. */
static void send_packets(uint32_t *seed)
{
	static uint8_t frame_buffer[SCRATCH];
	struct nic_sge sge = {(uintptr_t)t.enemy_memory, next_random(seed) % TARGET, nic_mr_lkey(t.enemy_mr)};
	struct nic_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = NIC_WR_RDMA_WRITE};
	struct nic_tx_frame frame = {.data = frame_buffer};
	uint8_t *place;

	wr.rdma.remote_addr = (uintptr_t)t.target;
	wr.rdma.rkey = nic_mr_rkey(t.mr);
	nic_post_send(t.enemy_qp, &wr);
	while (nic_tx(t.nic, &frame, 1, pmd_now_ns()) == 1) {
		if (!t.to.memory || ring_reserve(&t.producer, &place) != 1)
			continue;
		memcpy(place, frame.data, frame.len);
		if (next_random(seed) % 4 == 0)
			place[next_random(seed) % frame.len] ^= (uint8_t)next_random(seed);
		if (next_random(seed) % 8 == 0)
			ring_commit(&t.producer, put_pieces(place, seed), LINK_REFERENCE);
		else
			ring_commit(&t.producer, frame.len, next_random(seed) % 3);
	}
}

static void *sender(void *arg)
{
	uint32_t seed = 3;

	(void)arg;
	while (!stopped()) {
		pthread_mutex_lock(&t.to.lock);
		danger_renew(&t.to, &seed);
		send_packets(&seed);
		pthread_mutex_unlock(&t.to.lock);
		sched_yield();
	}
	return NULL;
}

/* ---- the undisturbed pair --------------------------------------------------------------------------------------- */

static void uc_connect(struct nic_qp *qp, uint32_t dest_qpn)
{
	struct nic_qp_attr a = {.port_num = 1,
				.qp_access_flags = NIC_ACCESS_REMOTE_WRITE,
				.path_mtu = NIC_MTU_1024,
				.dest_qp_num = dest_qpn,
				.av.dgid = device[0].gid};

	a.qp_state = NIC_QPS_RESET;
	assert_int_equal(nic_qp_modify(qp, &a, NIC_QP_STATE), 0);
	a.qp_state = NIC_QPS_INIT;
	assert_int_equal(nic_qp_modify(qp, &a, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_ACCESS_FLAGS),
			 0);
	a.qp_state = NIC_QPS_RTR;
	assert_int_equal(
		nic_qp_modify(qp, &a, NIC_QP_STATE | NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN), 0);
	a.qp_state = NIC_QPS_RTS;
	assert_int_equal(nic_qp_modify(qp, &a, NIC_QP_STATE | NIC_QP_SQ_PSN), 0);
}

static struct nic_qp *uc_create(struct nic *nic, struct nic_pd *pd, struct nic_cq *cq)
{
	struct nic_qp_init init = {.type = NIC_QPT_UC, .pd = pd, .send_cq = cq, .recv_cq = cq, .cap = {16, 1, 1, 1, 0}};
	struct nic_qp *qp;

	assert_int_equal(nic_qp_create(nic, &init, &qp), 0);
	return qp;
}

static void fixed_random(void *ctx, void *buf, size_t len)
{
	uint32_t *seed = ctx;

	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)next_random(seed);
}

static void enemy_open(void)
{
	static uint32_t seed = 9;
	const struct nic_config config = {.qpn_base = ENEMY << 16,
					  .qpn_bits = 16,
					  .active_mtu = NIC_MTU_1024,
					  .random = fixed_random,
					  .ctx = &seed};
	const uint32_t rights = NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE;
	struct nic_pd *pd;
	struct proto_name name;

	pmd_name_function(&device[0].gid, ENEMY, &name);
	t.listen_fd = proto_listen(&name);
	assert_true(t.listen_fd >= 0);
	assert_int_equal(nic_create(&config, &t.nic), 0);
	assert_int_equal(nic_gid_set(t.nic, 0, &device[0].gid), 0);
	assert_int_equal(nic_pd_alloc(t.nic, &pd), 0);
	assert_int_equal(nic_cq_create(t.nic, 64, NULL, &t.enemy_cq), 0);
	assert_int_equal(nic_mr_reg(pd, t.enemy_memory, TARGET, (uintptr_t)t.enemy_memory, 0, &t.enemy_mr), 0);
	t.enemy_qp = uc_create(t.nic, pd, t.enemy_cq);
	pmd_lock(t.victim.engine);
	assert_int_equal(nic_cq_create(t.victim.nic, 64, NULL, &t.cq), 0);
	assert_int_equal(nic_mr_reg(t.victim.pd, t.target, TARGET, (uintptr_t)t.target, rights, &t.mr), 0);
	t.qp = uc_create(t.victim.nic, t.victim.pd, t.cq);
	uc_connect(t.qp, nic_qp_num(t.enemy_qp));
	uc_connect(t.enemy_qp, nic_qp_num(t.qp));
	pmd_unlock(t.victim.engine);
}

/** The victim sends a message to the enemy. If the enemy has ended the link, the QP is connected again first. */
static void talk_to_enemy(void)
{
	struct nic_sge sge = {(uintptr_t)t.victim.buf, MESSAGE, nic_mr_lkey(t.victim.mr)};
	struct nic_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = NIC_WR_SEND, .flags = NIC_SEND_SIGNALED};
	struct nic_wc wc;

	pmd_lock(t.victim.engine);
	if (nic_qp_path(t.qp) == 0)
		uc_connect(t.qp, nic_qp_num(t.enemy_qp));
	nic_post_send(t.qp, &wr);
	pmd_doorbell(t.victim.engine);
	while (nic_cq_poll(t.cq, 1, &wc) == 1)
		;
	pmd_unlock(t.victim.engine);
}

/** Send one message and check that it arrives intact. */
static void exchange(struct end *from, struct end *to, unsigned round)
{
	uint32_t len = 1 + round * 37 % MESSAGE;
	struct nic_wc wc;

	for (uint32_t at = 0; at < len; at++)
		from->buf[at] = (uint8_t)(round * 13 + at * 5);
	memset(to->buf + BUF / 2, 0xee, MESSAGE);
	end_recv(to);
	end_send(from, NIC_WR_SEND, len, NULL);
	wc = end_wait(to, to->rcq, round % 2);
	assert_int_equal(wc.status, NIC_WC_SUCCESS);
	assert_int_equal(wc.byte_len, len);
	for (uint32_t at = 0; at < MESSAGE; at++)
		assert_int_equal(to->buf[BUF / 2 + at], at < len ? (uint8_t)(round * 13 + at * 5) : 0xee);
	assert_int_equal(end_wait(from, from->scq, round % 2).status, NIC_WC_SUCCESS);
}

static unsigned spoilt(const struct ring_in_danger *d)
{
	return __atomic_load_n(&d->spoilt, __ATOMIC_RELAXED);
}

static void enemy__SE_10_random_ring_writes_do_not_disturb_other_traffic(void **state)
{
	void *(*const roles[3])(void *) = {sender, scribbler, scribbler};
	void *const args[3] = {NULL, &t.to, &t.from};
	uint8_t around[2][TARGET];
	pthread_t thread[3];
	unsigned round = 0;

	(void)state;
	ends_open(&t.victim, &device[0], &t.honest, &device[1]);
	t.target = malloc(3 * TARGET);
	assert_non_null(t.target);
	memset(t.target, 0xc5, 3 * TARGET);
	memset(around, 0xc5, sizeof(around));
	t.target += TARGET;
	t.to.fd = t.from.fd = -1;
	pthread_mutex_init(&t.to.lock, NULL);
	pthread_mutex_init(&t.from.lock, NULL);
	enemy_open();
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(pthread_create(&thread[i], NULL, roles[i], args[i]), 0);
	while (round < ROUNDS || spoilt(&t.to) < LINKS || spoilt(&t.from) < LINKS) {
		exchange(&t.victim, &t.honest, round);
		exchange(&t.honest, &t.victim, round);
		talk_to_enemy();
		round++;
	}
	__atomic_store_n(&t.stop, true, __ATOMIC_RELAXED);
	for (unsigned i = 0; i < 3; i++)
		pthread_join(thread[i], NULL);
	pmd_lock(t.victim.engine);
	assert_true(t.victim.engine->host.port->stats.link_broken > 0);
	assert_true(nic_qp_path(t.victim.qp) != 0); /* the victim still sends to the honest peer by a link */
	pmd_unlock(t.victim.engine);
	assert_memory_equal(t.target - TARGET, around[0], TARGET);
	assert_memory_equal(t.target + TARGET, around[1], TARGET);
	danger_end(&t.to);
	danger_end(&t.from);
	close(t.listen_fd);
	nic_destroy(t.nic);
	end_close(&t.victim);
	end_close(&t.honest);
	free(t.target - TARGET);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(enemy__SE_10_random_ring_writes_do_not_disturb_other_traffic),
	};

	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
