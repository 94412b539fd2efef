/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rdm_shared.c - endpoints of one NIC that share a receive queue: node 1 has two of them, and node 0 talks to
 * both.
 */
#include "rdm_rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SECOND 1000000000ull
#define QUIET  (20 * SECOND)
#define LONG   50000u
#define TAKERS 2u
#define DONES  1024u

/** Context of completion callbacks. who: index of the endpoint, or TAKERS for the queue's owner. */
struct told {
	struct shared *s;
	unsigned who;
};

struct shared {
	struct rdm_rig *rig;
	struct rdm_node *a, *b;
	struct nic_rdm_rq *rq;
	struct nic_rdm *ep[TAKERS];
	struct nic_rdm_addr addr[TAKERS];
	struct told told[TAKERS + 1];
	struct {
		unsigned who;
		struct nic_rdm_done d;
	} done[DONES];
	unsigned n_done, n_seen;
	unsigned cut_after; /* data packets from node 0 to let pass */
};

static void done(void *ctx, const struct nic_rdm_done *d)
{
	struct told *told = ctx;
	struct shared *s = told->s;

	assert_true(s->n_done < DONES);
	s->done[s->n_done].who = told->who;
	s->done[s->n_done++].d = *d;
}

static void shared_open(struct shared *s, uint32_t max_rx, uint64_t seed)
{
	struct nic_rdm_rq_init rq = {.max_rx = max_rx, .max_unexpected = 65536, .done = done};

	memset(s, 0, sizeof(*s));
	s->rig = rdm_rig_create(2, seed);
	s->a = &s->rig->node[0];
	s->b = &s->rig->node[1];
	for (unsigned i = 0; i <= TAKERS; i++)
		s->told[i] = (struct told){s, i};
	rq.ctx = &s->told[TAKERS];
	assert_int_equal(nic_rdm_rq_create(s->b->nic, &rq, &s->rq), 0);
	for (unsigned i = 0; i < TAKERS; i++) {
		struct nic_rdm_init init = s->rig->init;

		init.pd = s->b->pd;
		init.addr = (struct nic_rdm_addr){s->b->gid, (uint16_t)(500 + i)};
		init.done = done;
		init.ctx = &s->told[i];
		init.rq = s->rq;
		s->addr[i] = init.addr;
		assert_int_equal(nic_rdm_create(s->b->nic, &init, &s->ep[i]), 0);
	}
}

static void shared_close(struct shared *s)
{
	rdm_rig_destroy(s->rig);
}

static int send(struct shared *s, unsigned to, uintptr_t context, uint32_t flags, uint64_t tag, uint32_t at,
		uint32_t len)
{
	const struct nic_iov iov = {s->a->arena + at, len};
	const struct nic_rdm_send r = {.context = (void *)context, .flags = flags, .iov = &iov, .n_iov = 1, .tag = tag};

	return nic_rdm_send(nic_rdm_peer_get(s->a->ep, &s->addr[to]), &r);
}

static struct nic_rdm_recv recv_of(struct shared *s, struct nic_iov *iov, uintptr_t context, uint32_t flags,
				   uint64_t tag, uint32_t at, uint32_t len)
{
	*iov = (struct nic_iov){s->b->arena + at, len};
	return (struct nic_rdm_recv){
		.context = (void *)context, .flags = flags, .iov = iov, .n_iov = 1, .tag = tag, .min_free = 64};
}

static int recv(struct shared *s, uintptr_t context, uint32_t flags, uint64_t tag, uint32_t at, uint32_t len)
{
	struct nic_iov iov;
	const struct nic_rdm_recv r = recv_of(s, &iov, context, flags, tag, at, len);

	return nic_rdm_rq_recv(s->rq, &r);
}

#define expect(s, who, status, context) expect_at(s, who, status, context, __FILE__, __LINE__)
static struct nic_rdm_done expect_at(struct shared *s, unsigned who, uint32_t status, uintptr_t context,
				     const char *file, int line)
{
	struct nic_rdm_done d;

	_assert_true(s->n_seen < s->n_done, "a completion", file, line);
	_assert_int_equal(s->done[s->n_seen].who, who, file, line);
	d = s->done[s->n_seen++].d;
	_assert_int_equal(d.kind, NIC_RDM_RECV, file, line);
	_assert_int_equal(d.status, status, file, line);
	_assert_int_equal((uintptr_t)d.context, context, file, line);
	return d;
}
#define expect_nothing(s) assert_int_equal((s)->n_done, (s)->n_seen)

/** Shared receives are used in the order of posting by whichever endpoint gets a message, short or long. */
static void rdm__shared_receives_serve_all_endpoints_in_posting_order(void **state)
{
	struct shared s;
	struct nic_rdm_done d;

	(void)state;
	shared_open(&s, 8, 1);
	rdm_fill(s.a, 0, LONG, 7);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(recv(&s, 10 + i, 0, 0, i * 60000, 60000), 0);
	assert_int_equal(recv(&s, 20, NIC_RDM_TAGGED, 5, 180000, 60000), 0);
	for (unsigned i = 0; i < 3; i++) {
		uint32_t len = i == 2 ? LONG : 100;

		assert_int_equal(send(&s, i % 2, 1, 0, 0, 0, len), 0);
		assert_true(rdm_run(s.rig, QUIET));
		d = expect(&s, i % 2, NIC_RDM_OK, 10 + i);
		assert_int_equal(d.len, len);
		assert_ptr_equal(nic_rdm_peer_owner(d.peer), &s.told[i % 2]);
		assert_int_equal(nic_rdm_peer_address(d.peer).port, s.a->addr.port);
		assert_true(rdm_holds(s.b, i * 60000, len, 7));
	}
	assert_int_equal(send(&s, 1, 1, NIC_RDM_TAGGED, 5, 0, LONG), 0);
	assert_true(rdm_run(s.rig, QUIET));
	expect(&s, 1, NIC_RDM_OK, 20);
	assert_true(rdm_holds(s.b, 180000, LONG, 7));
	expect_nothing(&s);
	shared_close(&s);
}

/** Unexpected messages of all endpoints wait in one queue in order of arrival, and can be peeked at, claimed and
 * discarded. */
static void rdm__shared_unexpected_messages_wait_in_arrival_order(void **state)
{
	struct nic_rdm_done found;
	struct nic_rdm_recv r;
	struct nic_iov iov;
	struct shared s;

	(void)state;
	shared_open(&s, 8, 2);
	for (unsigned i = 0; i < 4; i++) {
		rdm_fill(s.a, i * 100, 100, i);
		assert_int_equal(send(&s, i % 2, 1, NIC_RDM_TAGGED, 9, i * 100, 50 + i), 0);
		assert_true(rdm_run(s.rig, QUIET));
	}
	r = recv_of(&s, &iov, 30, NIC_RDM_TAGGED | NIC_RDM_CLAIM, 9, 0, 100);
	assert_int_equal(nic_rdm_rq_peek(s.rq, &r, &found), 0);
	assert_int_equal(found.len, 50);
	assert_ptr_equal(nic_rdm_peer_owner(found.peer), &s.told[0]);
	r.flags = NIC_RDM_TAGGED | NIC_RDM_DISCARD;
	assert_int_equal(nic_rdm_rq_peek(s.rq, &r, &found), 0);
	assert_ptr_equal(nic_rdm_peer_owner(found.peer), &s.told[1]);
	assert_int_equal(recv(&s, 31, NIC_RDM_TAGGED, 9, 100, 100), 0);
	expect(&s, 0, NIC_RDM_OK, 31);
	assert_true(rdm_holds(s.b, 100, 52, 2));
	r.flags = NIC_RDM_TAGGED | NIC_RDM_CLAIM;
	assert_int_equal(nic_rdm_rq_recv(s.rq, &r), 0);
	expect(&s, 0, NIC_RDM_OK, 30);
	assert_true(rdm_holds(s.b, 0, 50, 0));
	assert_int_equal(recv(&s, 33, NIC_RDM_TAGGED, 9, 200, 100), 0);
	expect(&s, 1, NIC_RDM_OK, 33);
	assert_true(rdm_holds(s.b, 200, 53, 3));
	assert_int_equal(nic_rdm_rq_peek(s.rq, &r, &found), -ENOMSG);
	shared_close(&s);
}

/** One multi-receive buffer receives messages of both endpoints. */
static void rdm__shared_buffer_for_many_messages(void **state)
{
	struct nic_rdm_done d;
	struct shared s;

	(void)state;
	shared_open(&s, 1, 3);
	assert_int_equal(recv(&s, 1, NIC_RDM_MULTI, 0, 0, 256), 0);
	assert_int_equal(recv(&s, 2, 0, 0, 0, 1), -EAGAIN); /* the queue has room for only one receive */
	for (unsigned i = 0; i < 4; i++) {
		assert_int_equal(send(&s, i % 2, 1, 0, 0, 0, 60), 0);
		assert_true(rdm_run(s.rig, QUIET));
		d = expect(&s, i % 2, NIC_RDM_OK, 1);
		assert_ptr_equal(d.buf, s.b->arena + i * 60);
		assert_int_equal(d.flags & NIC_RDM_MULTI, i == 3 ? NIC_RDM_MULTI : 0);
	}
	assert_int_equal(recv(&s, 2, 0, 0, 0, 1), 0);
	shared_close(&s);
}

/** Completions that belong to no endpoint go to the owner of the shared queue. Functions that make no sense with a
 * shared queue return an error. */
static void rdm__shared_queue_owner_gets_completions_without_an_endpoint(void **state)
{
	struct nic_rdm_rq_init init = {.done = done};
	struct nic_rdm_rq *other;
	struct nic_rdm_done d;
	struct nic_rdm_recv r;
	struct nic_iov iov;
	struct shared s;

	(void)state;
	shared_open(&s, 8, 4);
	r = recv_of(&s, &iov, 1, NIC_RDM_TAGGED, 77, 0, 10);
	assert_int_equal(nic_rdm_rq_recv(s.rq, &r), 0);
	assert_int_equal(nic_rdm_rq_cancel(s.rq, (void *)1), 0);
	d = expect(&s, TAKERS, NIC_RDM_CANCELED, 1);
	assert_null(d.peer);
	assert_int_equal(d.tag, 77);
	assert_int_equal(nic_rdm_rq_cancel(s.rq, (void *)1), -ENOENT);
	assert_int_equal(nic_rdm_recv(s.ep[0], &r), -EOPNOTSUPP);
	assert_int_equal(nic_rdm_peek(s.ep[0], &r, &d), -EOPNOTSUPP);
	assert_int_equal(nic_rdm_cancel(s.ep[0], (void *)1), -EOPNOTSUPP);
	assert_ptr_equal(nic_rdm_rq_of(s.ep[0]), s.rq);
	r.from = nic_rdm_peer_get(s.ep[0], &s.a->addr);
	assert_int_equal(nic_rdm_rq_recv(s.rq, &r), -EINVAL);
	assert_int_equal(nic_rdm_rq_peek(s.rq, &r, &d), -EINVAL);
	assert_int_equal(nic_rdm_rq_destroy(s.rq), -EBUSY);
	nic_rdm_destroy(s.ep[0]);
	assert_int_equal(nic_rdm_rq_destroy(s.rq), -EBUSY);
	nic_rdm_destroy(s.ep[1]);
	assert_int_equal(nic_rdm_rq_destroy(s.rq), 0);
	/* An endpoint cannot use a shared queue of another NIC; queues with invalid attributes cannot be created. */
	assert_int_equal(nic_rdm_rq_create(s.a->nic, &init, &other), 0);
	s.rig->init.rq = other;
	{
		struct nic_rdm_init ep = s.rig->init;

		ep.pd = s.b->pd;
		ep.addr = s.addr[0];
		ep.done = done;
		assert_int_equal(nic_rdm_create(s.b->nic, &ep, &s.ep[0]), -EINVAL);
	}
	assert_int_equal(nic_rdm_rq_destroy(other), 0);
	init.max_rx = 32769;
	assert_int_equal(nic_rdm_rq_create(s.a->nic, &init, &other), -EINVAL);
	init = (struct nic_rdm_rq_init){0};
	assert_int_equal(nic_rdm_rq_create(s.a->nic, &init, &other), -EINVAL);
	shared_close(&s);
}

static struct shared *cutting;

static bool cut(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	(void)rig;
	(void)ip;
	if (from != 0 || len < 1000)
		return false;
	return cutting->cut_after == 0 || cutting->cut_after-- == 0;
}

/** Destroying an endpoint leaves nothing behind: its unreceived messages are gone, and receives that had got part of a
 * message have failed. All other receives remain for the other endpoints. */
static void rdm__shared_queue_outlives_an_endpoint(void **state)
{
	struct nic_rdm_done found, d;
	struct nic_rdm_recv r;
	struct nic_iov iov;
	struct shared s;

	(void)state;
	shared_open(&s, 8, 5);
	r = recv_of(&s, &iov, 9, NIC_RDM_TAGGED, 1, 0, 10);
	assert_int_equal(recv(&s, 1, 0, 0, 0, 8192), 0);
	assert_int_equal(recv(&s, 2, 0, 0, 10000, 8192), 0);
	/* Three unexpected messages: a complete one, a long one to be read, and a claimed one. */
	assert_int_equal(send(&s, 0, 1, NIC_RDM_TAGGED, 1, 0, 50), 0);
	assert_int_equal(send(&s, 0, 1, NIC_RDM_TAGGED, 2, 0, LONG), 0);
	assert_int_equal(send(&s, 0, 1, NIC_RDM_TAGGED, 1, 0, 51), 0);
	rdm_run(s.rig, SECOND);
	r.flags |= NIC_RDM_CLAIM;
	assert_int_equal(nic_rdm_rq_peek(s.rq, &r, &found), 0);
	/* A fourth message has arrived only in part. */
	cutting = &s;
	s.cut_after = 3;
	s.rig->cut = cut;
	assert_int_equal(send(&s, 0, 1, 0, 0, 0, 8192), 0);
	rdm_run(s.rig, SECOND / 100);
	expect_nothing(&s);
	nic_rdm_destroy(s.ep[0]);
	d = expect(&s, TAKERS, NIC_RDM_PEER_LOST, 1);
	assert_null(d.peer);
	expect_nothing(&s);
	s.rig->cut = NULL;
	r.flags = NIC_RDM_TAGGED;
	assert_int_equal(nic_rdm_rq_peek(s.rq, &r, &found), -ENOMSG);
	r.tag = 2;
	assert_int_equal(nic_rdm_rq_peek(s.rq, &r, &found), -ENOMSG);
	r.flags |= NIC_RDM_CLAIM;
	assert_int_equal(nic_rdm_rq_recv(s.rq, &r), -ENOMSG);
	rdm_fill(s.a, 0, 100, 3);
	assert_int_equal(send(&s, 1, 1, 0, 0, 0, 100), 0);
	rdm_run(s.rig, SECOND);
	expect(&s, 1, NIC_RDM_OK, 2);
	assert_true(rdm_holds(s.b, 10000, 100, 3));
	shared_close(&s);
}

/** An endpoint with a shared queue is destroyed while it reads one long message and another one is unexpected: the
 * receive fails, nothing is left. */
static void rdm__shared_queue_outlives_an_endpoint_destroyed_amid_a_read(void **state)
{
	struct nic_rdm_done found;
	struct nic_rdm_recv r;
	struct nic_iov iov;
	struct shared s;

	(void)state;
	shared_open(&s, 8, 6);
	cutting = &s;
	s.cut_after = 5; /* lets part of the READ responses pass */
	s.rig->cut = cut;
	assert_int_equal(recv(&s, 1, 0, 0, 0, LONG), 0);
	assert_int_equal(send(&s, 0, 1, 0, 0, 0, LONG), 0);
	rdm_run(s.rig, SECOND / 100);
	s.cut_after = 2;
	assert_int_equal(send(&s, 1, 1, NIC_RDM_TAGGED, 5, 0, 8192), 0);
	rdm_run(s.rig, SECOND / 100);
	r = recv_of(&s, &iov, 3, NIC_RDM_TAGGED, 5, 0, 10);
	assert_int_equal(nic_rdm_rq_peek(s.rq, &r, &found), 0);
	expect_nothing(&s);
	nic_rdm_destroy(s.ep[0]);
	expect(&s, TAKERS, NIC_RDM_PEER_LOST, 1);
	nic_rdm_destroy(s.ep[1]);
	expect_nothing(&s);
	assert_int_equal(nic_rdm_rq_peek(s.rq, &r, &found), -ENOMSG);
	assert_int_equal(nic_rdm_rq_destroy(s.rq), 0);
	shared_close(&s);
}

static int operate(struct nic_rdm_peer *peer, uint8_t *operand, uint64_t tag)
{
	const struct nic_iov iov = {operand, 8};
	const struct nic_rdm_remote remote = {.addr = 8, .len = 8};
	const struct nic_rdm_atomic r = {.flags = NIC_RDM_TAGGED,
					 .op = NIC_ELEM_SUM,
					 .datatype = NIC_DT_UINT64,
					 .operand = &iov,
					 .n_operand = 1,
					 .remote = &remote,
					 .n_remote = 1,
					 .tag = tag};

	return nic_rdm_atomic(peer, &r);
}

/** An operation on a shared receive: its operands are held in the sender's endpoint, and at the target in the shared
 * queue. */
static void rdm__shared_receives_accept_operations(void **state)
{
	uint64_t operand = 5, *target;
	struct nic_rdm_done d;
	struct shared s;

	(void)state;
	shared_open(&s, 8, 8);
	target = (uint64_t *)(void *)s.b->arena;
	target[1] = 2;
	memcpy(s.a->arena, &operand, 8);
	assert_int_equal(operate(nic_rdm_peer_get(s.a->ep, &s.addr[1]), s.a->arena, 3), 0);
	rdm_run(s.rig, SECOND);
	assert_int_equal(recv(&s, 1, NIC_RDM_TAGGED, 3, 0, 16), 0);
	d = expect(&s, 1, NIC_RDM_OK, 1);
	assert_int_equal(d.flags, NIC_RDM_TAGGED | NIC_RDM_OPERATED);
	assert_int_equal(target[1], 7);
	/* When the endpoint is destroyed, an operation of each side still waits for a receive. */
	assert_int_equal(operate(nic_rdm_peer_get(s.a->ep, &s.addr[0]), s.a->arena, 4), 0);
	assert_int_equal(operate(nic_rdm_peer_get(s.ep[0], &s.a->addr), s.b->arena, 5), 0);
	rdm_run(s.rig, SECOND);
	nic_rdm_destroy(s.ep[0]);
	assert_int_equal(recv(&s, 2, NIC_RDM_TAGGED, 4, 0, 16), 0);
	assert_int_equal(operate(nic_rdm_peer_get(s.a->ep, &s.addr[1]), s.a->arena, 4), 0);
	rdm_run(s.rig, SECOND);
	expect(&s, 1, NIC_RDM_OK, 2);
	expect_nothing(&s);
	assert_int_equal(target[1], 12);
	nic_rdm_destroy(s.ep[1]);
	assert_int_equal(nic_rdm_rq_destroy(s.rq), 0);
	shared_close(&s);
}

/** Operations of an endpoint on remote receives take no room for messages in the shared queue; they end with the
 * endpoint. */
static void rdm__shared_message_room_is_not_used_by_operations(void **state)
{
	struct shared s;

	(void)state;
	shared_open(&s, 8, 9);
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(operate(nic_rdm_peer_get(s.ep[0], &s.a->addr), s.b->arena, 5), 0);
	rdm_run(s.rig, SECOND / 10);
	for (unsigned i = 0; i < 7; i++) /* as many messages as fit */
		assert_int_equal(send(&s, 1, 1, 0, 0, 0, 8192), 0);
	rdm_run(s.rig, SECOND / 10);
	assert_int_equal(s.a->n_done, 7);
	nic_rdm_destroy(s.ep[0]);
	for (unsigned i = 0; i < 7; i++) {
		assert_int_equal(recv(&s, i, 0, 0, 0, 8192), 0);
		expect(&s, 1, NIC_RDM_OK, i);
	}
	shared_close(&s);
}

/** All endpoints share one buffer space for unexpected messages; receiving them frees the space. */
static void rdm__shared_message_room_is_limited_and_reused(void **state)
{
	struct shared s;

	(void)state;
	shared_open(&s, 8, 7);
	for (unsigned i = 0; i < 20; i++) /* at most 7 messages of 8 KiB fit */
		assert_int_equal(send(&s, i % 2, 1, 0, 0, 0, 8192), 0);
	rdm_run(s.rig, SECOND / 10);
	assert_in_range(s.a->n_done, 7, 8);
	nic_rdm_destroy(s.ep[0]);
	rdm_run(s.rig, SECOND / 10);
	for (unsigned i = 0; i < 10; i++) {
		assert_int_equal(recv(&s, i, 0, 0, 0, 8192), 0);
		rdm_run(s.rig, SECOND / 10);
		expect(&s, 1, NIC_RDM_OK, i);
	}
	shared_close(&s);
}

/** One message of the random test. */
struct message {
	unsigned to, length, at;
	bool came;
};

/** On a bad network each message arrives once, at the endpoint to which it was sent; messages with the same tag arrive
 * in order. */
static void random_messages(uint64_t seed)
{
	enum { MESSAGES = 120, TAGS = 3, ROOM = 20000 };
	struct message messages[MESSAGES];
	unsigned posted = 0, sent = 0, last[TAKERS][TAGS] = {{0}};
	struct shared s;

	shared_open(&s, MESSAGES, seed); /* with fewer receives, all could wait for tags that are sent later */
	s.rig->lose = 60;
	s.rig->twice = 40;
	s.rig->swap = 60;
	rdm_fill(s.a, 0, 60000, 1);
	while (s.n_seen < MESSAGES) {
		/* The receiver identifies a message by its length: length % 1000 is the message's index. */
		if (sent < MESSAGES && rdm_random(s.rig, 2)) {
			struct message *m = &messages[sent];

			*m = (struct message){.to = rdm_random(s.rig, TAKERS), .at = sent};
			m->length = sent + (rdm_random(s.rig, 4) ? 0 : 9000) + (rdm_random(s.rig, 3) ? 0 : 4000);
			sent += send(&s, m->to, sent, NIC_RDM_TAGGED, sent % TAGS, m->at, m->length) == 0;
		}
		if (posted < MESSAGES && rdm_random(s.rig, 2))
			posted += recv(&s, posted, NIC_RDM_TAGGED, posted % TAGS, posted % 12 * ROOM, ROOM) == 0;
		rdm_run(s.rig, rdm_random(s.rig, 3) ? 20000 : SECOND / 100);
		while (s.n_seen < s.n_done) {
			unsigned who = s.done[s.n_seen].who;
			struct nic_rdm_done d = s.done[s.n_seen++].d;
			unsigned i = (unsigned)(d.len % 1000), *before;

			assert_int_equal(d.status, NIC_RDM_OK);
			assert_true(i < sent);
			assert_int_equal(d.len, messages[i].length);
			assert_int_equal(who, messages[i].to);
			assert_false(messages[i].came);
			messages[i].came = true;
			assert_int_equal(d.tag, i % TAGS);
			before = &last[who][i % TAGS];
			/* Each message matched a receive with its tag. A long message completes later than it is
			 * matched, so the order is checked only for short ones. */
			assert_int_equal((uintptr_t)d.context % TAGS, i % TAGS);
			if (d.len <= NIC_RDM_EAGER_MAX) {
				assert_true(*before <= i);
				*before = i;
			}
		}
	}
	assert_int_equal(s.n_done, MESSAGES);
	shared_close(&s);
}

static void rdm__shared_receives_under_loss(void **state)
{
	(void)state;
	for (uint64_t seed = 100; seed < 160; seed++)
		random_messages(seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdm__shared_receives_serve_all_endpoints_in_posting_order),
		cmocka_unit_test(rdm__shared_unexpected_messages_wait_in_arrival_order),
		cmocka_unit_test(rdm__shared_buffer_for_many_messages),
		cmocka_unit_test(rdm__shared_queue_owner_gets_completions_without_an_endpoint),
		cmocka_unit_test(rdm__shared_queue_outlives_an_endpoint),
		cmocka_unit_test(rdm__shared_queue_outlives_an_endpoint_destroyed_amid_a_read),
		cmocka_unit_test(rdm__shared_receives_accept_operations),
		cmocka_unit_test(rdm__shared_message_room_is_not_used_by_operations),
		cmocka_unit_test(rdm__shared_message_room_is_limited_and_reused),
		cmocka_unit_test(rdm__shared_receives_under_loss),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
