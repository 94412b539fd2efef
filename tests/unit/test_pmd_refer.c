/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_refer.c - pmd/link/links_refer.c: payload that is read from the sender's memory, senders that have exited or
 * give invalid references, memory that is revoked.
 */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "engine_priv.h"
#include "liar.h"

#define LEN	 40000u
#define OBSERVED 0x80000000u /* the bit of a tap that does nothing */

static struct pmd_device device[4];

static void expect_same(struct end *a, const struct end *b, uint32_t len)
{
	pmd_lock(a->engine);
	assert_memory_equal(a->buf, b->buf, len);
	pmd_unlock(a->engine);
}

static void open_pair(struct end *a, struct end *b)
{
	ends_open(a, &device[0], b, &device[1]);
	end_send(a, NIC_WR_RDMA_WRITE, 8, b); /* one WRITE in each direction, so that both links exist */
	assert_int_equal(end_wait(a, a->scq, true).status, NIC_WC_SUCCESS);
	end_send(b, NIC_WR_RDMA_WRITE, 8, a);
	assert_int_equal(end_wait(b, b->scq, true).status, NIC_WC_SUCCESS);
}

/* ---- both sides well-behaved ---------------------------------------------------------------------------------- */

/** Exchange a WRITE and a READ of `len` bytes and a SEND of half as many, and check the data. */
static void exchange(struct end *a, struct end *b, uint32_t len)
{
	memset(a->buf, 0x11, len);
	end_send(a, NIC_WR_RDMA_WRITE, len, b);
	assert_int_equal(end_wait(a, a->scq, true).status, NIC_WC_SUCCESS);
	expect_same(b, a, len);
	pmd_lock(b->engine);
	for (uint32_t i = 0; i < len; i++)
		b->buf[i] = (uint8_t)(i * 7);
	pmd_unlock(b->engine);
	end_send(a, NIC_WR_RDMA_READ, len, b);
	assert_int_equal(end_wait(a, a->scq, true).status, NIC_WC_SUCCESS);
	expect_same(a, b, len);
	end_recv(b);
	end_send(a, NIC_WR_SEND, len / 2, NULL);
	assert_int_equal(end_wait(b, b->rcq, true).byte_len, len / 2);
	assert_int_equal(end_wait(a, a->scq, true).status, NIC_WC_SUCCESS);
	pmd_lock(b->engine);
	assert_memory_equal(b->buf + BUF / 2, a->buf, len / 2);
	pmd_unlock(b->engine);
}

static void refer__long_messages_are_read_from_the_senders_memory(void **state)
{
	struct pmd_port_stats sa, sb;
	struct end a, b;

	(void)state;
	open_pair(&a, &b);
	exchange(&a, &b, LEN);
	sa = liar_stats(&a);
	sb = liar_stats(&b);
	assert_int_equal(sa.link_tx_references, 2); /* the WRITE and the SEND */
	assert_int_equal(sb.link_rx_references, 2);
	assert_int_equal(sb.link_tx_references, 1); /* the READ response */
	assert_int_equal(sa.link_rx_references, 1);
	assert_int_equal(sa.link_references_failed + sb.link_references_failed, 0);
	end_close(&a);
	end_close(&b);
}

/** Count the received packets in the trace. Lock held. */
static uint32_t packets_traced(const struct end *e)
{
	struct nic_trace_entry entry;
	uint64_t head = nic_trace_head(e->nic);
	uint32_t n = 0;

	for (uint64_t i = head > 1024 ? head - 1024 : 0; i < head; i++)
		n += nic_trace_get(e->nic, i, &entry) && entry.event == NIC_TR_rx;
	return n;
}

/** A tap sees packets with their payload, whether its engine sends or receives them. */
static void refer__a_tap_sees_packets_with_their_payload(void **state)
{
	struct end a, b;

	(void)state;
	open_pair(&a, &b);
	pmd_lock(b.engine);
	b.engine->host.taps = OBSERVED;
	pmd_unlock(b.engine);
	exchange(&a, &b, LEN);
	assert_int_equal(liar_stats(&a).link_tx_references, 2);
	assert_int_equal(liar_stats(&b).link_tx_references,
			 0); /* b puts the payload into the READ response, because b's tap needs it */
	assert_int_equal(liar_stats(&b).link_rx_references, 2);
	pmd_lock(b.engine);
	/* The trace shows the packets of the WRITE and the SEND one by one, with at most 1024 bytes each. */
	assert_true(packets_traced(&b) >= LEN / 1024 + LEN / 2048);
	b.engine->host.taps = 0;
	pmd_unlock(b.engine);
	end_close(&a);
	end_close(&b);
}

static void refer__can_be_switched_off(void **state)
{
	struct end a, b;

	(void)state;
	setenv("UROCE_ONE_COPY", "off", 1);
	end_open(&a, &device[0]);
	unsetenv("UROCE_ONE_COPY");
	end_open(&b, &device[1]);
	end_connect(&a, &b);
	end_connect(&b, &a);
	exchange(&a, &b, LEN);
	exchange(&b, &a, LEN);
	assert_int_equal(liar_stats(&a).link_tx_references + liar_stats(&a).link_rx_references, 0);
	pmd_lock(b.engine);
	for (uint32_t i = 0; i < b.engine->host.links->n_in; i++)
		assert_int_equal(b.engine->host.links->in[i] ? b.engine->host.links->in[i]->pid : 0,
				 0); /* b did not even try to read the peer's memory */
	pmd_unlock(b.engine);
	end_close(&a);
	end_close(&b);
}

static void refer__a_wrong_setting_is_refused(void **state)
{
	struct pmd_engine *engine;
	char err[256] = "";

	(void)state;
	setenv("UROCE_ONE_COPY", "maybe", 1);
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &engine, err, sizeof(err)), -EINVAL);
	unsetenv("UROCE_ONE_COPY");
	assert_string_equal(err, "UROCE_ONE_COPY is 'maybe'; use on or off");
}

/** If the sender's memory is unreadable, the sender's request fails. */
static void refer__unmapped_source_completes_with_a_local_protection_error(void **state)
{
	struct end a, b;

	(void)state;
	open_pair(&a, &b);
	assert_int_equal(munmap(a.buf + BUF / 2, BUF / 2), 0);
	end_send(&a, NIC_WR_RDMA_WRITE, BUF, &b);
	assert_int_equal(end_wait(&a, a.scq, true).status, NIC_WC_LOC_PROT_ERR);
	assert_int_equal(liar_stats(&b).link_references_failed, 1);
	end_close(&a);
	end_close(&b);
}

/** If the receiver's memory is unmapped, what is mapped of it gets its data, and the request succeeds; references stay
 *  welcome. */
static void refer__the_mapped_part_of_an_unmapped_target_is_written(void **state)
{
	struct end a, b;

	(void)state;
	open_pair(&a, &b);
	assert_int_equal(munmap(b.buf + BUF / 2, BUF / 2), 0);
	memset(a.buf, 0x5a, BUF);
	for (unsigned i = 1; i <= 6; i++) { /* more often than failures of the sender's memory are put up with */
		end_send(&a, NIC_WR_RDMA_WRITE, BUF, &b);
		assert_int_equal(end_wait(&a, a.scq, true).status, NIC_WC_SUCCESS);
		assert_memory_equal(b.buf, a.buf, BUF / 2);
		assert_int_equal(liar_stats(&b).link_references_failed, i);
	}
	pmd_lock(b.engine);
	assert_true(nic_counters(b.nic)[NIC_CNT_app_memory_lost] > 0);
	pmd_unlock(b.engine);
	assert_true(ring_is_welcome(&a.engine->host.links->out[nic_qp_path(a.qp)]->ring));
	end_close(&a);
	end_close(&b);
}

/** A region is deregistered while its bytes are in flight by reference: the receiver does not deliver them. */
static void refer__a_payload_revoked_by_deregistration_is_not_delivered(void **state)
{
	struct end a, b;

	(void)state;
	open_pair(&a, &b);
	pmd_lock(b.engine); /* so that b receives nothing */
	memset(b.buf, 0x11, LEN);
	end_send(&a, NIC_WR_RDMA_WRITE, LEN, &b);
	assert_int_equal(liar_stats(&a).link_tx_references, 1);
	pmd_lock(a.engine);
	assert_int_equal(nic_mr_dereg(a.mr), 0);
	pmd_unlock(a.engine);
	memset(a.buf, 0xee, LEN);
	pmd_unlock(b.engine);
	assert_int_equal(end_wait(&a, a.scq, true).status, NIC_WC_LOC_PROT_ERR);
	assert_int_equal(liar_stats(&a).link_revocations, 1);
	assert_int_equal(liar_stats(&b).link_references_revoked, 1);
	assert_int_equal(liar_stats(&b).link_references_failed, 0);
	pmd_lock(b.engine);
	assert_ptr_equal(memchr(b.buf, 0xee, LEN), NULL); /* the new contents must not leak to the peer */
	pmd_unlock(b.engine);
	end_close(&a);
	end_close(&b);
}

/** Deregistering another region revokes no reference. When all of a reference has been read, deregistering its region
 * revokes nothing, either. */
static void refer__deregistering_other_or_finished_regions_revokes_nothing(void **state)
{
	static uint8_t other[4096];
	struct nic_mr *mr;
	struct end a, b;

	(void)state;
	open_pair(&a, &b);
	pmd_lock(b.engine);
	end_send(&a, NIC_WR_RDMA_WRITE, LEN, &b);
	pmd_lock(a.engine);
	assert_int_equal(nic_mr_reg(a.pd, other, sizeof(other), 0, 0, &mr), 0);
	assert_int_equal(nic_mr_dereg(mr), 0);
	pmd_unlock(a.engine);
	pmd_unlock(b.engine);
	assert_int_equal(end_wait(&a, a.scq, true).status, NIC_WC_SUCCESS);
	pmd_lock(a.engine);
	assert_int_equal(nic_mr_reg(a.pd, a.buf, BUF, 0, 0, &mr), 0);
	assert_int_equal(nic_mr_dereg(mr), 0);
	pmd_unlock(a.engine);
	assert_int_equal(liar_stats(&a).link_revocations, 0);
	end_close(&a);
	end_close(&b);
}

/** Wait until b has received the revoked packet: it counts as unread and is not delivered. */
static void expect_revoked(struct end *b)
{
	while (liar_stats(b).link_references_revoked == 0)
		pmd_try_progress(b->engine);
	pmd_lock(b->engine);
	assert_int_equal(nic_counters(b->nic)[NIC_CNT_rx_unread], 1);
	pmd_unlock(b->engine);
}

static int completions(struct end *e)
{
	int n;

	pmd_lock(e->engine);
	n = (int)nic_cq_count(e->scq);
	pmd_unlock(e->engine);
	return n;
}

/** A QP fails because its CQ overflows. The overflow is detected while a payload of the QP is being sent by reference:
 * the reference is revoked. */
static void refer__a_qp_failing_by_cq_overflow_revokes_its_reference(void **state)
{
	const struct nic_send_wr nop = {.opcode = NIC_WR_NOP, .flags = NIC_SEND_SIGNALED};
	struct end a, b;

	(void)state;
	open_pair(&a, &b);
	for (int i = 1; i <= 60; i++) { /* 60 of the 64 completions that fit */
		end_send(&a, NIC_WR_RDMA_WRITE, 8, &b);
		while (completions(&a) < i)
			pmd_try_progress(a.engine);
	}
	pmd_lock(b.engine);
	pmd_lock(a.engine);
	for (unsigned i = 0; i < 8; i++)
		assert_int_equal(nic_post_send(a.qp, &nop), 0);
	assert_int_equal(nic_qp_state(a.qp), NIC_QPS_RTS);
	end_post(&a, NIC_WR_RDMA_WRITE, LEN,
		 &b); /* posted in the same call, before the engine's thread looks at the queue */
	assert_int_equal(nic_qp_state(a.qp), NIC_QPS_ERR);
	assert_int_equal(a.engine->host.port->stats.link_tx_references, 1);
	pmd_unlock(a.engine);
	pmd_unlock(b.engine);
	expect_revoked(&b);
	end_close(&a);
	end_close(&b);
}

static void refer__a_qp_moved_to_err_revokes_its_reference(void **state)
{
	const struct nic_qp_attr attr = {.qp_state = NIC_QPS_ERR};
	struct end a, b;

	(void)state;
	open_pair(&a, &b);
	pmd_lock(b.engine);
	end_send(&a, NIC_WR_RDMA_WRITE, LEN, &b);
	pmd_lock(a.engine);
	assert_int_equal(nic_qp_modify(a.qp, &attr, NIC_QP_STATE), 0);
	pmd_unlock(a.engine);
	assert_int_equal(end_wait(&a, a.scq, false).status, NIC_WC_WR_FLUSH_ERR);
	assert_int_equal(liar_stats(&a).link_revocations, 1);
	pmd_unlock(b.engine);
	expect_revoked(&b);
	end_close(&a);
	end_close(&b);
}

/* ---- a producer that is not ------------------------------------------------------------------------------------ */

/** Put an entry for a WRITE of `len` bytes whose payload is in `pieces` into the ring. `cut`: surplus bytes at the
 * entry's end. */
static void put(struct fake_producer *f, const struct end *e, const struct nic_qp *qp, uint32_t psn, uint32_t len,
		const struct link_piece *pieces, unsigned n, unsigned cut)
{
	liar_put(f, e, qp, &(struct lie){.psn = psn, .len = len, .pieces = pieces, .n = n, .cut = cut});
}

static bool is_welcome(const struct fake_producer *f)
{
	return ring_is_welcome(&f->ring);
}

static void refer__a_payload_in_two_pieces_is_read(void **state)
{
	static uint8_t source[2 * LEN];
	const struct link_piece pieces[2] = {{(uintptr_t)source + 10, 1000}, {(uintptr_t)source + 3000, LEN - 1000}};
	struct liar l;

	(void)state;
	liar_open(&l, &device[0], true);
	assert_true(is_welcome(&l.f));
	for (uint32_t i = 0; i < sizeof(source); i++)
		source[i] = (uint8_t)(i * 5 + (i >> 9));
	put(&l.f, &l.end, l.qp, 0, LEN, pieces, 2, 0);
	liar_receive(&l.end);
	pmd_lock(l.end.engine);
	assert_memory_equal(l.end.buf, source + 10, 1000);
	assert_memory_equal(l.end.buf + 1000, source + 3000, LEN - 1000);
	pmd_unlock(l.end.engine);
	liar_close(&l);
}

/** A SEND that carries a payload and also refers to other memory (an offer) is one packet, for taps, too. Only the
 * payload that it carries is delivered. */
static void refer__an_offer_delivers_only_its_own_payload_as_one_packet(void **state)
{
	static const uint8_t message[16] = "what it says";
	static uint8_t offered[LEN];
	const struct link_piece piece = {(uintptr_t)offered, LEN, 0};

	(void)state;
	for (unsigned observed = 0; observed < 2; observed++) {
		struct packet p = {
			.op = op_get(0x04), .v4 = true, .hop_limit = 64, .payload = message, .payload_len = 16};
		uint8_t *place = NULL;
		struct liar l;
		struct nic_wc wc;
		struct nic_sge to;
		struct nic_recv_wr recv = {.wr_id = 7, .sg_list = &to, .num_sge = 1};

		liar_open(&l, &device[0], true);
		to = (struct nic_sge){(uintptr_t)l.end.buf, 64, nic_mr_lkey(l.end.mr)};
		packet_init(&p);
		p.sgid = p.dgid = l.end.gid;
		p.no_icrc = true;
		p.pad = 0;
		p.udp_sport = 49152;
		p.dest_qpn = nic_qp_num(l.qp);
		p.psn = 0;
		pmd_lock(l.end.engine);
		l.end.engine->host.taps = observed ? OBSERVED : 0;
		assert_int_equal(nic_post_recv(l.qp, &recv), 0);
		pmd_unlock(l.end.engine);
		assert_int_equal(ring_reserve(&l.f.ring, &place), 1);
		packet_encode(&p, place);
		memcpy(place + LINK_PIECES_AT, &piece, sizeof(piece));
		ring_commit(&l.f.ring, LINK_PIECES_AT + sizeof(piece), LINK_REFERENCE);
		liar_receive(&l.end);
		assert_int_equal(end_poll(&l.end, l.end.scq, &wc), 1);
		pmd_lock(l.end.engine);
		assert_int_equal(wc.status, NIC_WC_SUCCESS);
		assert_int_equal(wc.byte_len, 16);
		assert_memory_equal(l.end.buf, message, 16);
		assert_int_equal(packets_traced(&l.end), 1);
		assert_int_equal(l.end.engine->host.port->stats.link_references_failed, 0);
		l.end.engine->host.taps = 0;
		pmd_unlock(l.end.engine);
		liar_close(&l);
	}
}

static void refer__RQ_20_a_malformed_or_unwelcome_reference_ends_the_link(void **state)
{
	static uint8_t source[NIC_REFERENCE_MAX];
	struct link_piece many[NIC_PIECES_MAX + 1];

	(void)state;
	for (unsigned i = 0; i <= NIC_PIECES_MAX; i++)
		many[i] = (struct link_piece){(uintptr_t)source, 1000};
	for (unsigned i = 0; i < 7; i++) {
		struct liar l;

		liar_open(&l, &device[0], i != 6);
		if (i == 0) {
			put(&l.f, &l.end, l.qp, 0, LEN, many, 0, 0);
		} else if (i == 1) {
			put(&l.f, &l.end, l.qp, 0, LEN, many, NIC_PIECES_MAX + 1, 0);
		} else if (i == 2) {
			put(&l.f, &l.end, l.qp, 0, LEN, many, 1, 8);
		} else if (i == 3) {
			put(&l.f, &l.end, l.qp, 0, LEN, &(struct link_piece){(uintptr_t)source, 0}, 1, 0);
		} else if (i == 4) {
			put(&l.f, &l.end, l.qp, 0, LEN, &(struct link_piece){(uintptr_t)source, UINT32_MAX - 5}, 1, 0);
		} else if (i == 5) {
			const struct link_piece two[2] = {{(uintptr_t)source, NIC_REFERENCE_MAX},
							  {(uintptr_t)source, 1}};

			put(&l.f, &l.end, l.qp, 0, LEN, two, 2, 0);
		} else {
			assert_false(is_welcome(&l.f)); /* this producer was not told that references are welcome */
			put(&l.f, &l.end, l.qp, 0, LEN, many, 1, 0);
		}
		liar_receive(&l.end);
		assert_int_equal(liar_stats(&l.end).link_broken, 1);
		assert_int_equal(liar_stats(&l.end).link_rx_references, 0);
		liar_close(&l);
	}
}

/** References to memory that is not the sender's: the first four fail as unread packets, then references are no longer
 * welcome. */
static void refer__unreadable_references_deliver_nothing_and_become_unwelcome(void **state)
{
	void *closed = mmap(NULL, LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const uint64_t nowhere[] = {0, 8, (uintptr_t)closed, 0xffff800000000000, UINT64_MAX - 100};

	(void)state;
	assert_ptr_not_equal(closed, MAP_FAILED);
	for (unsigned i = 0; i < sizeof(nowhere) / sizeof(nowhere[0]); i++) {
		const struct link_piece piece = {nowhere[i], LEN};
		static uint8_t source[LEN];
		struct liar l;

		liar_open(&l, &device[0], true);
		memset(l.end.buf, 0x42, LEN);
		for (unsigned n = 1; n <= 4; n++) {
			assert_true(is_welcome(&l.f));
			put(&l.f, &l.end, l.qp, 0, LEN, &piece, 1, 0);
			liar_receive(&l.end);
			assert_int_equal(liar_stats(&l.end).link_references_failed, n);
		}
		assert_int_equal(liar_stats(&l.end).link_broken, 0);
		assert_false(is_welcome(&l.f));
		put(&l.f, &l.end, l.qp, 0, LEN, &(struct link_piece){(uintptr_t)source, LEN}, 1,
		    0); /* a valid reference, but no longer welcome */
		liar_receive(&l.end);
		assert_int_equal(liar_stats(&l.end).link_references_failed, 5);
		pmd_lock(l.end.engine);
		for (uint32_t k = 0; k < LEN; k++)
			assert_int_equal(l.end.buf[k], 0x42);
		assert_int_equal(nic_counters(l.end.nic)[NIC_CNT_rx_unread], 5);
		pmd_unlock(l.end.engine);
		liar_close(&l);
	}
	munmap(closed, LEN);
}

/** The process number now belongs to another process or program, so its memory is not the sender's and is not read. */
static void refer__memory_of_a_process_with_a_reused_pid_is_not_read(void **state)
{
	static uint8_t source[LEN];
	struct liar l;

	(void)state;
	liar_open(&l, &device[0], true);
	ring_control(l.f.ring.memory)->number ^= 1;
	put(&l.f, &l.end, l.qp, 0, LEN, &(struct link_piece){(uintptr_t)source, LEN}, 1, 0);
	liar_receive(&l.end);
	assert_int_equal(liar_stats(&l.end).link_references_failed, 1);
	assert_false(is_welcome(&l.f));
	liar_close(&l);
}

static void refer__revoking_one_reference_leaves_the_next_one_valid(void **state)
{
	static uint8_t source[LEN];
	const struct link_piece piece = {(uintptr_t)source, LEN};
	struct liar l;

	(void)state;
	liar_open(&l, &device[0], true);
	pmd_lock(l.end.engine); /* so that the engine's thread does not receive the packet before it is revoked */
	put(&l.f, &l.end, l.qp, 0, LEN, &piece, 1, 0);
	ring_change_kind(&l.f.ring, 0, LINK_REVOKED);
	put(&l.f, &l.end, l.qp, 0, LEN, &piece, 1, 0);
	pmd_unlock(l.end.engine);
	liar_receive(&l.end);
	assert_int_equal(liar_stats(&l.end).link_references_revoked, 1);
	assert_true(is_welcome(&l.f));
	pmd_lock(l.end.engine);
	assert_int_equal(nic_counters(l.end.nic)[NIC_CNT_rx_write_requests], 1);
	pmd_unlock(l.end.engine);
	liar_close(&l);
}

/* ---- a producer that dies -------------------------------------------------------------------------------------- */

/** Put an entry into the ring and exit. The connection stays open in a child process. */
static void producer(struct end *e, const struct nic_qp *qp, int handed_over, int go)
{
	struct fake_producer f;
	uint8_t *source = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char c = 0;

	liar_introduce(&f, e, true);
	if (write(handed_over, &c, 1) != 1 || read(go, &c, 1) != 1 || !is_welcome(&f))
		_exit(1);
	put(&f, e, qp, 0, LEN, &(struct link_piece){(uintptr_t)source, LEN}, 1, 0);
	if (fork() == 0) {
		close(handed_over);
		if (read(go, &c, 1) == 0) /* the test has ended */
			_exit(0);
	}
	_exit(0);
}

static void refer__memory_of_an_exited_producer_is_not_read(void **state)
{
	int handed_over[2], go[2], status;
	struct liar l;
	pid_t child;
	char c = 0;

	(void)state;
	liar_open(&l, &device[0], true);
	assert_int_equal(pipe(handed_over), 0);
	assert_int_equal(pipe(go), 0);
	memset(l.end.buf, 0x42, LEN);
	child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		close(go[1]);
		producer(&l.end, l.qp, handed_over[1], go[0]);
	}
	close(go[0]);
	assert_int_equal(read(handed_over[0], &c, 1), 1);
	fake_upkeep(&l.end);
	pmd_lock(l.end.engine);
	assert_int_equal(write(go[1], &c, 1), 1);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_int_equal(status, 0);
	pmd_unlock(l.end.engine);
	liar_receive(&l.end);
	assert_int_equal(liar_stats(&l.end).link_references_failed, 1);
	pmd_lock(l.end.engine);
	for (uint32_t k = 0; k < LEN; k++)
		assert_int_equal(l.end.buf[k], 0x42);
	pmd_unlock(l.end.engine);
	close(go[1]);
	close(handed_over[0]);
	close(handed_over[1]);
	liar_close(&l);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(refer__long_messages_are_read_from_the_senders_memory),
		cmocka_unit_test(refer__a_tap_sees_packets_with_their_payload),
		cmocka_unit_test(refer__can_be_switched_off),
		cmocka_unit_test(refer__a_wrong_setting_is_refused),
		cmocka_unit_test(refer__unmapped_source_completes_with_a_local_protection_error),
		cmocka_unit_test(refer__the_mapped_part_of_an_unmapped_target_is_written),
		cmocka_unit_test(refer__a_payload_revoked_by_deregistration_is_not_delivered),
		cmocka_unit_test(refer__deregistering_other_or_finished_regions_revokes_nothing),
		cmocka_unit_test(refer__a_qp_failing_by_cq_overflow_revokes_its_reference),
		cmocka_unit_test(refer__a_qp_moved_to_err_revokes_its_reference),
		cmocka_unit_test(refer__a_payload_in_two_pieces_is_read),
		cmocka_unit_test(refer__an_offer_delivers_only_its_own_payload_as_one_packet),
		cmocka_unit_test(refer__RQ_20_a_malformed_or_unwelcome_reference_ends_the_link),
		cmocka_unit_test(refer__unreadable_references_deliver_nothing_and_become_unwelcome),
		cmocka_unit_test(refer__memory_of_a_process_with_a_reused_pid_is_not_read),
		cmocka_unit_test(refer__revoking_one_reference_leaves_the_next_one_valid),
		cmocka_unit_test(refer__memory_of_an_exited_producer_is_not_read),
	};

	if (ends_devices(device, 4, NULL) != 4)
		return 1;
	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
