/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_ahead.c - pmd/link/links_ahead.c: one process_vm_readv() call reads the payloads of several packets; entries
 * that change between that call and their processing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include <cmocka.h>

#include "liar.h"
#include "nic_rdm.h"
#include "wire.h"

#define ONE   16384u
#define PSNS  (ONE / 1024)
#define BLANK 0x42

static struct pmd_device device[2];

/* ---- calls of the kernel --------------------------------------------------------------------------------------- */

static unsigned calls;			       /* calls of process_vm_readv, counted while `counted` is set */
static struct liar *counted;		       /* the test's liar */
static void (*meanwhile)(const struct liar *); /* run after the next process_vm_readv */
static uint64_t entry;			       /* the position of the entry that `meanwhile` changes */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	long rc = __real_syscall(number, a, b, c, d, e, f);
	void (*happens)(const struct liar *);

	/* Other calls can be the engine's thread's; this one is made with the engine's lock, which the test holds. */
	if (number != SYS_process_vm_readv || !counted)
		return rc;
	calls++;
	happens = meanwhile;
	meanwhile = NULL;
	if (happens)
		happens(counted);
	return rc;
}

/** Make the engine believe that the poller already has all the completions it polls for. */
static void be_enough(const struct liar *l)
{
	l->end.engine->host.rx_until = 0;
}

static void revoke(const struct liar *l)
{
	struct ring_producer ring = l->f.ring;

	ring_change_kind(&ring, entry, LINK_REVOKED);
}

/* ---- what is sent ---------------------------------------------------------------------------------------------- */

static uint8_t source[4][ONE];

/** Open l and lock its engine: until stop(), only the test receives. */
static void start(struct liar *l)
{
	for (unsigned i = 0; i < 4; i++)
		for (unsigned k = 0; k < ONE; k++)
			source[i][k] = (uint8_t)(k * (2 * i + 3) + (k >> 8) + i);
	liar_open(l, &device[0], true);
	pmd_lock(l->end.engine);
	memset(l->end.buf, BLANK, BUF);
	calls = 0;
	meanwhile = NULL;
	counted = l;
}

static void stop(struct liar *l)
{
	counted = NULL;
	pmd_unlock(l->end.engine);
	liar_close(l);
}

/** Put into the ring a WRITE with payload source[i], divided into `n` pieces. @return the position of its entry. */
static uint64_t put_pieces(struct liar *l, uint32_t psn, unsigned i, uint32_t at, unsigned n)
{
	struct link_piece piece[NIC_PIECES_MAX];

	for (unsigned k = 0; k < n; k++)
		piece[k] = (struct link_piece){(uintptr_t)source[i] + k * (ONE / n), ONE / n, 0};
	piece[n - 1].len += ONE % n;
	liar_put(&l->f, &l->end, l->qp, &(struct lie){.psn = psn, .at = at, .len = ONE, .pieces = piece, .n = n});
	return l->f.ring.tail - ring_entry_bytes((uint32_t)(LINK_PIECES_AT + n * sizeof(*piece)));
}

static uint64_t put(struct liar *l, uint32_t psn, unsigned i, uint32_t at)
{
	return put_pieces(l, psn, i, at, 1);
}

/** Receive from the link once, up to 64 packets. */
static void receive(struct liar *l)
{
	pmd_links_rx(l->end.engine->host.links, 64, pmd_now_ns());
}

static uint64_t writes(struct liar *l)
{
	return nic_counters(l->end.nic)[NIC_CNT_rx_write_requests];
}

static const struct pmd_port_stats *stats(const struct end *e)
{
	return &e->engine->host.port->stats;
}

static void expect_at(struct liar *l, unsigned i, uint32_t at)
{
	assert_memory_equal(l->end.buf + at, source[i], ONE);
}

/* ---- tests ----------------------------------------------------------------------------------------------------- */

static void ahead__one_call_reads_the_payloads_of_several_packets(void **state)
{
	struct liar l;

	(void)state;
	start(&l);
	for (unsigned i = 0; i < 4; i++)
		put_pieces(&l, i * PSNS, i, i * ONE, i + 1);
	receive(&l);
	for (unsigned i = 0; i < 4; i++)
		expect_at(&l, i, i * ONE);
	assert_int_equal(writes(&l), 4);
	assert_int_equal(calls, 1);
	assert_int_equal(stats(&l.end)->link_references_ahead, 3);
	assert_int_equal(stats(&l.end)->link_rx_references, 4);
	stop(&l);
}

/** A link processes a limited number of packets in each turn. A call reads ahead only payloads that are processed in
 * the same turn, so no payload is read twice. */
static void ahead__reads_no_more_payloads_than_the_turn_can_process(void **state)
{
	enum { N = 40 };
	uint64_t before = 0;
	struct liar l;

	(void)state;
	start(&l);
	assert_int_equal(fake_put(&l.f, 3), 3);
	for (unsigned i = 0; i < N; i++)
		put(&l, i * PSNS, i % 4, i % 4 * ONE);
	while (writes(&l) < N) {
		receive(&l);
		assert_true(writes(&l) > before);
		before = writes(&l);
	}
	for (unsigned i = 0; i < 4; i++)
		expect_at(&l, i, i * ONE);
	assert_int_equal(stats(&l.end)->link_references_ahead + calls, N);
	assert_int_equal(calls, 6); /* 8 payloads per call; the first turn has room for 15, later turns for 16 */
	stop(&l);
}

/** A single call reads ahead only as many payloads as fit into NIC_PIECES_MAX pieces. */
static void ahead__one_call_reads_at_most_nic_pieces_max_pieces(void **state)
{
	struct liar l;

	(void)state;
	start(&l);
	for (unsigned i = 0; i < 4; i++)
		put_pieces(&l, i * PSNS, i, i * ONE, i == 1 ? NIC_PIECES_MAX : NIC_PIECES_MAX / 2 - 1);
	receive(&l);
	for (unsigned i = 0; i < 4; i++)
		expect_at(&l, i, i * ONE);
	assert_int_equal(writes(&l), 4);
	assert_int_equal(calls, 2); /* the last payload does not fit into the first call */
	stop(&l);
}

/** While the application polls for two completions, a call reads two payloads; further payloads are read by later
 * calls. */
static void ahead__one_call_reads_no_more_payloads_than_completions_polled(void **state)
{
	struct liar l;

	(void)state;
	start(&l);
	for (unsigned i = 0; i < 4; i++)
		put(&l, i * PSNS, i, i * ONE);
	pmd_progress(l.end.engine, 2);
	assert_int_equal(calls, 2); /* two payloads each */
	assert_int_equal(stats(&l.end)->link_references_ahead, 2);
	assert_int_equal(writes(&l), 4); /* a WRITE generates no completion here, so all four are received */
	stop(&l);
}

/** Every payload read ahead is processed, even if the poller gets the last completion it polls for in between. */
static void ahead__payloads_read_are_processed_even_if_the_poll_is_satisfied(void **state)
{
	struct liar l;

	(void)state;
	start(&l);
	for (unsigned i = 0; i < 4; i++)
		put(&l, i * PSNS, i, i * ONE);
	put(&l, 5 * PSNS, 0, 0); /* out of sequence: neither read ahead nor processed */
	meanwhile = be_enough;
	receive(&l);
	l.end.engine->host.rx_until = UINT64_MAX;
	assert_int_equal(writes(&l), 4);
	assert_int_equal(calls, 1);
	assert_int_equal(stats(&l.end)->link_rx_references, 4);
	for (unsigned i = 0; i < 4; i++)
		expect_at(&l, i, i * ONE);
	stop(&l);
}

/** Two WRITEs to identical or overlapping addresses: the second one's payload is complete in the end. */
static void ahead__overlapping_writes_are_applied_in_ring_order(void **state)
{
	static const uint32_t other[] = {0, ONE - 64, ONE - 32, ONE - ONE / 2, ONE};

	(void)state;
	for (unsigned k = 0; k < sizeof(other) / sizeof(other[0]); k++) {
		struct liar l;

		start(&l);
		put(&l, 0, 0, 0);
		put(&l, PSNS, 1, other[k]);
		receive(&l);
		expect_at(&l, 1, other[k]);
		assert_memory_equal(l.end.buf, source[0], other[k]);
		assert_int_equal(calls, other[k] == 0 || other[k] == ONE ? 1 : 2);
		stop(&l);

		start(&l); /* the same with the two addresses swapped */
		put(&l, 0, 0, other[k]);
		put(&l, PSNS, 1, 0);
		receive(&l);
		expect_at(&l, 1, 0);
		assert_memory_equal(l.end.buf + ONE, source[0] + ONE - other[k], other[k]);
		stop(&l);
	}
}

static void expect_no_last_bytes(const struct liar *l, uint32_t at)
{
	for (uint32_t k = ONE - NIC_REFERENCE_LAST; k < ONE; k++)
		assert_int_equal(l->end.buf[at + k], BLANK); /* programs may poll these last bytes for arrival */
}

/** A payload is revoked after it was read: part of it is in memory, but neither it nor later packets are delivered. */
static void ahead__a_payload_revoked_after_the_read_is_not_delivered(void **state)
{
	(void)state;
	for (unsigned which = 0; which < 3; which++) {
		struct liar l;

		start(&l);
		for (unsigned i = 0; i < 3; i++) {
			uint64_t at = put(&l, i * PSNS, i, i * ONE);

			entry = i == which ? at : entry;
		}
		meanwhile = revoke;
		receive(&l);
		assert_int_equal(writes(&l), which);
		for (unsigned i = 0; i < 3; i++)
			if (i < which)
				expect_at(&l, i, i * ONE);
			else
				expect_no_last_bytes(&l, i * ONE);
		assert_int_equal(calls, 1);
		assert_int_equal(stats(&l.end)->link_references_revoked, 1);
		assert_int_equal(stats(&l.end)->link_references_ahead, which > 0 ? which - 1 : 0);
		for (unsigned i = which; i < 3; i++)
			put(&l, i * PSNS, 3 - i, i * ONE); /* the sender retransmits the packets not delivered */
		receive(&l);
		for (unsigned i = which; i < 3; i++)
			expect_at(&l, 3 - i, i * ONE);
		assert_int_equal(writes(&l), 3);
		stop(&l);
	}
}

enum { RETH_AT = 20 + 8 + 12, ADDRESS_LEN = 8, KEY_LEN = 4 };

static uint8_t *packet_of(const struct liar *l)
{
	return (uint8_t *)ring_word(l->f.ring.memory, entry) + RING_WORD;
}

static void elsewhere(const struct liar *l)
{
	wire_put64(packet_of(l) + RETH_AT, (uintptr_t)l->end.buf + 3 * ONE);
}

static void less(const struct liar *l)
{
	struct link_piece piece = {(uintptr_t)source[1], ONE - 1024, PSNS - 1};

	wire_put32(packet_of(l) + RETH_AT + ADDRESS_LEN + KEY_LEN, piece.len);
	memcpy(packet_of(l) + LINK_PIECES_AT, &piece, sizeof(piece));
}

/** A misbehaving sender rewrites an entry that was already examined: the entry's current contents are executed. */
static void ahead__an_entry_changed_after_the_read_is_read_again(void **state)
{
	struct liar l;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		start(&l);
		put(&l, 0, 0, 0);
		entry = put(&l, PSNS, 1, ONE);
		put(&l, 2 * PSNS, 2, 2 * ONE);
		meanwhile = i ? less : elsewhere;
		receive(&l);
		expect_at(&l, 0, 0);
		if (i) {
			assert_memory_equal(l.end.buf + ONE, source[1], ONE - 1024);
			expect_no_last_bytes(&l, ONE);
			expect_no_last_bytes(&l, 2 * ONE);
		} else {
			expect_at(&l, 1, 3 * ONE);
			expect_at(&l, 2, 2 * ONE);
			expect_no_last_bytes(&l, ONE);
		}
		assert_int_equal(writes(&l), i ? 2 : 3); /* after a shortened WRITE the third one is out of sequence */
		assert_int_equal(calls, 2);
		assert_int_equal(stats(&l.end)->link_references_ahead, i ? 0 : 1);
		stop(&l);
	}
}

/** Reading ahead stops at an entry that is revoked or is no reference. */
static void ahead__stops_at_a_revoked_entry_or_a_non_reference(void **state)
{
	struct liar l;
	uint64_t second;

	(void)state;
	start(&l);
	put(&l, 0, 0, 0);
	second = put(&l, PSNS, 1, ONE);
	put(&l, 2 * PSNS, 2, 2 * ONE);
	ring_change_kind(&l.f.ring, second, LINK_REVOKED);
	receive(&l);
	assert_int_equal(writes(&l), 1);
	for (unsigned k = ONE; k < 3 * ONE; k++)
		assert_int_equal(l.end.buf[k], BLANK);
	stop(&l);

	start(&l);
	put(&l, 0, 0, 0);
	assert_int_equal(fake_put(&l.f, 1), 1);
	put(&l, PSNS, 1, ONE);
	receive(&l);
	assert_int_equal(writes(&l), 2);
	assert_int_equal(calls, 2);
	stop(&l);
}

/** The second packet's memory is unmapped, at the sender or at the receiver: the first packet is delivered
 * nevertheless. */
static void ahead__a_packet_is_delivered_if_a_later_ones_memory_is_unmapped(void **state)
{
	void *closed = mmap(NULL, ONE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(closed, MAP_FAILED);
	for (unsigned receiver = 0; receiver < 2; receiver++) {
		const struct link_piece piece = {(uintptr_t)(receiver ? source[1] : closed), ONE, 0};
		struct liar l;

		start(&l);
		if (receiver)
			assert_int_equal(mprotect(l.end.buf + ONE, ONE, PROT_READ), 0);
		put(&l, 0, 0, 0);
		liar_put(&l.f, &l.end, l.qp,
			 &(struct lie){.psn = PSNS, .at = ONE, .len = ONE, .pieces = &piece, .n = 1});
		put(&l, 2 * PSNS, 2, 2 * ONE);
		receive(&l);
		expect_at(&l, 0, 0);
		assert_int_equal(writes(&l), 1);
		assert_int_equal(stats(&l.end)->link_references_ahead, 0);
		assert_int_equal(stats(&l.end)->link_references_failed, 1);
		assert_true(ring_is_welcome(&l.f.ring));
		assert_int_equal(mprotect(l.end.buf + ONE, ONE, PROT_READ | PROT_WRITE), 0);
		stop(&l);
	}
	munmap(closed, ONE);
}

/* ---- between devices -------------------------------------------------------------------------------------------- */

/** Open both ends, give each access to the other's memory, and fill end b's buffer with a pattern. */
static void meet(struct end *a, struct end *b)
{
	ends_open(a, &device[0], b, &device[1]);
	end_send(a, NIC_WR_RDMA_WRITE, 8, b); /* one WRITE in each direction, so that both links exist */
	assert_int_equal(end_wait(a, a->scq, true).status, NIC_WC_SUCCESS);
	end_send(b, NIC_WR_RDMA_WRITE, 8, a);
	assert_int_equal(end_wait(b, b->scq, true).status, NIC_WC_SUCCESS);
	pmd_lock(b->engine);
	for (uint32_t i = 0; i < BUF; i++)
		b->buf[i] = (uint8_t)(i * 7 + (i >> 9));
	pmd_unlock(b->engine);
}

static void part(struct end *a, struct end *b)
{
	end_close(a);
	end_close(b);
}

/** Wait until end b has sent n packets by reference, then have end a, whose lock the caller holds, receive them all at
 * once. (A poll would stop at the number of completions polled for.) */
static void receive_all(struct end *a, struct end *b, unsigned n)
{
	while (liar_stats(b).link_tx_references < n)
		pmd_try_progress(b->engine);
	pmd_links_rx(a->engine->host.links, 64, pmd_now_ns());
}

/** Ring enough doorbells for the engine to check for arrivals although nothing was posted. */
static void ring_doorbells(struct pmd_engine *e, uint64_t last_step_ns)
{
	for (unsigned i = 0; i < 16; i++) {
		e->steps.full_ns = e->polling.stepped_ns = last_step_ns;
		pmd_doorbell(e);
	}
}

/** Ringing a doorbell receives no payloads, unless the engine's last full step was too long ago: then the doorbell
 * takes such a step. */
static void ahead__a_doorbell_receives_payloads_only_if_a_step_is_overdue(void **state)
{
	unsigned put_in = 0;
	struct liar l;

	(void)state;
	start(&l);
	do { /* if another thread ran in between, too much time has passed since the last step: try again */
		assert_true(put_in < 1000);
		receive(&l);
		put(&l, put_in++ * PSNS, 1, 100);
		ring_doorbells(l.end.engine, pmd_now_ns());
	} while (writes(&l) == put_in);
	ring_doorbells(l.end.engine, 0);
	assert_int_equal(writes(&l), put_in);
	expect_at(&l, 1, 100);
	stop(&l);
}

/** End a reads ONE bytes, from offset `from` of end b's buffer to offset `to` of its own. */
static void post_read(struct end *a, const struct end *b, uint32_t to, uint32_t from)
{
	struct nic_sge sge = {(uintptr_t)a->buf + to, ONE, nic_mr_lkey(a->mr)};
	struct nic_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = NIC_WR_RDMA_READ, .flags = NIC_SEND_SIGNALED};

	wr.rdma.remote_addr = (uintptr_t)b->buf + from;
	wr.rdma.rkey = nic_mr_rkey(b->mr);
	assert_int_equal(nic_post_send(a->qp, &wr), 0);
	pmd_doorbell(a->engine);
}

/** Three READ responses wait in the link: the call that fetches the first payload also fetches the other two. */
static void ahead__one_call_reads_several_read_responses(void **state)
{
	struct end a, b;

	(void)state;
	meet(&a, &b);
	pmd_lock(a.engine); /* posting makes end a receive, so end b must not answer before all READs are posted */
	pmd_lock(b.engine);
	for (uint32_t i = 0; i < 3; i++)
		post_read(&a, &b, i * ONE, 100 + (2 - i) * ONE);
	pmd_unlock(b.engine);
	receive_all(&a, &b, 3);
	pmd_unlock(a.engine);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(end_wait(&a, a.scq, false).status, NIC_WC_SUCCESS);
	assert_int_equal(liar_stats(&a).link_rx_references, 3);
	assert_int_equal(liar_stats(&a).link_references_ahead, 2);
	pmd_lock(a.engine);
	for (uint32_t i = 0; i < 3; i++)
		assert_memory_equal(a.buf + i * ONE, b.buf + 100 + (2 - i) * ONE, ONE);
	pmd_unlock(a.engine);
	part(&a, &b);
}

/** A reliable datagram endpoint and the completions it has reported. */
struct talker {
	struct end *end;
	struct nic_rdm *ep;
	struct nic_rdm_addr addr;
	struct nic_rdm_done done[8];
	unsigned n_done;
};

static void talker_done(void *ctx, const struct nic_rdm_done *done)
{
	struct talker *t = ctx;

	assert_true(t->n_done < sizeof(t->done) / sizeof(t->done[0]));
	t->done[t->n_done++] = *done;
}

static void talker_open(struct talker *t, struct end *e)
{
	struct nic_rdm_init init = {.pd = e->pd, .addr.gid = e->gid, .done = talker_done, .ctx = t};

	*t = (struct talker){.end = e};
	assert_int_equal(pmd_service_open(e->engine, &init.addr.port), 0);
	t->addr = init.addr;
	pmd_lock(e->engine);
	assert_int_equal(nic_rdm_create(e->nic, &init, &t->ep), 0);
	pmd_unlock(e->engine);
}

/* The caller of talker_send() and talker_recv() holds the engine's lock. */

static void talker_send(struct talker *from, const struct talker *to, uint64_t tag, uint32_t at, uint32_t len)
{
	const struct nic_iov iov = {from->end->buf + at, len};
	const struct nic_rdm_send r = {.flags = NIC_RDM_TAGGED, .iov = &iov, .n_iov = 1, .tag = tag};

	assert_int_equal(nic_rdm_send(nic_rdm_peer_get(from->ep, &to->addr), &r), 0);
	pmd_doorbell(from->end->engine);
}

static void talker_recv(struct talker *t, uint64_t tag, void *buf, uint32_t len)
{
	const struct nic_iov iov = {buf, len};
	const struct nic_rdm_recv r = {.flags = NIC_RDM_TAGGED, .iov = &iov, .n_iov = 1, .tag = tag};

	assert_int_equal(nic_rdm_recv(t->ep, &r), 0);
}

static void talker_wait(struct talker *t, unsigned n)
{
	unsigned have = 0;

	while (have < n) {
		pmd_try_progress(t->end->engine);
		pmd_lock(t->end->engine);
		have = t->n_done;
		pmd_unlock(t->end->engine);
	}
}

/** Open an endpoint on each side and connect them by one message. */
static void talkers_open(struct talker *to, struct end *a, struct talker *from, struct end *b)
{
	meet(a, b);
	talker_open(to, a);
	talker_open(from, b);
	pmd_lock(a->engine);
	talker_recv(to, 9, a->buf, 8);
	pmd_unlock(a->engine);
	pmd_lock(b->engine);
	talker_send(from, to, 9, 0, 8);
	pmd_unlock(b->engine);
	talker_wait(to, 1);
	talker_wait(from, 1);
}

/** Send three long messages with tags 2, 1, 0 as offers; `to` receives all three at once and stays locked. */
static void three_offers(struct talker *to, struct talker *from)
{
	pmd_lock(from->end->engine);
	for (uint32_t i = 0; i < 3; i++)
		talker_send(from, to, 2 - i, 100 + i * ONE, ONE);
	pmd_unlock(from->end->engine);
	receive_all(to->end, from->end, 3);
}

/** Three offers whose receives were posted in the opposite order: one call fetches all payloads. */
static void ahead__one_call_reads_several_offers(void **state)
{
	struct talker to, from;
	struct end a, b;

	(void)state;
	talkers_open(&to, &a, &from, &b);
	pmd_lock(a.engine);
	for (uint32_t i = 0; i < 3; i++)
		talker_recv(&to, i, a.buf + i * ONE, ONE);
	three_offers(&to, &from);
	assert_int_equal(to.n_done, 4);
	for (uint32_t i = 0; i < 3; i++) {
		assert_int_equal(to.done[1 + i].status, NIC_RDM_OK);
		assert_ptr_equal(to.done[1 + i].buf, a.buf + (2 - i) * ONE);
		assert_memory_equal(to.done[1 + i].buf, b.buf + 100 + i * ONE, ONE);
	}
	assert_int_equal(stats(&a)->link_rx_references, 3);
	assert_int_equal(stats(&a)->link_references_ahead, 2);
	pmd_unlock(a.engine);
	talker_wait(&from, 4);
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(from.done[i].status, NIC_RDM_OK);
	part(&a, &b);
}

/** The second offer's receive has an address that no mapping can have, so the kernel fails the call for all three: the
 * first offer still completes. */
static void ahead__an_invalid_receive_address_does_not_fail_an_earlier_offer(void **state)
{
	void *nowhere = (void *)(uintptr_t)(INT64_MAX / 4096 * 4096 - 2 * ONE);
	struct talker to, from;
	struct end a, b;

	(void)state;
	talkers_open(&to, &a, &from, &b);
	pmd_lock(a.engine);
	for (uint32_t i = 0; i < 3; i++)
		talker_recv(&to, i, i == 1 ? nowhere : a.buf + i * ONE, ONE);
	three_offers(&to, &from);
	assert_int_equal(to.n_done, 2); /* the connecting message and the first offer */
	pmd_unlock(a.engine);
	talker_wait(&to, 4); /* the third message can fail with the connection */
	pmd_lock(a.engine);
	assert_int_equal(to.done[1].status, NIC_RDM_OK);
	assert_memory_equal(a.buf + 2 * ONE, b.buf + 100, ONE);
	for (unsigned i = 2; i < 4; i++)
		assert_true(to.done[i].tag != 1 || to.done[i].status != NIC_RDM_OK);
	pmd_unlock(a.engine);
	part(&a, &b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ahead__one_call_reads_the_payloads_of_several_packets),
		cmocka_unit_test(ahead__reads_no_more_payloads_than_the_turn_can_process),
		cmocka_unit_test(ahead__one_call_reads_at_most_nic_pieces_max_pieces),
		cmocka_unit_test(ahead__one_call_reads_no_more_payloads_than_completions_polled),
		cmocka_unit_test(ahead__payloads_read_are_processed_even_if_the_poll_is_satisfied),
		cmocka_unit_test(ahead__overlapping_writes_are_applied_in_ring_order),
		cmocka_unit_test(ahead__a_payload_revoked_after_the_read_is_not_delivered),
		cmocka_unit_test(ahead__an_entry_changed_after_the_read_is_read_again),
		cmocka_unit_test(ahead__stops_at_a_revoked_entry_or_a_non_reference),
		cmocka_unit_test(ahead__a_packet_is_delivered_if_a_later_ones_memory_is_unmapped),
		cmocka_unit_test(ahead__a_doorbell_receives_payloads_only_if_a_step_is_overdue),
		cmocka_unit_test(ahead__one_call_reads_several_read_responses),
		cmocka_unit_test(ahead__one_call_reads_several_offers),
		cmocka_unit_test(ahead__an_invalid_receive_address_does_not_fail_an_earlier_offer),
	};

	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
