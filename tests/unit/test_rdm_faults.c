/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rdm_faults.c - faults of reliable-datagram endpoints: calls (packets that make and end connections) that are
 * lost, duplicated or late; peers that disappear, restart or never existed; wrong keys; unmapped memory.
 */
#include "rdm_rig.h"

#include <errno.h>
#include <string.h>

#define SECOND 1000000000ull
/** Long enough for everything pending to finish, or to notice that an awaited peer has disappeared. */
#define QUIET  (20 * SECOND)
#define HALF   (RDM_ARENA / 2)
#define LONG   50000u

/* ---- what the network does to one packet ---------------------------------------------------------------------- */

enum fate { LOST, DOUBLED, LATE, AGAIN_LATE, FATES };

static struct {
	enum fate fate;
	enum rdm_call_said kind; /* the kind of calls that are counted; NO_CALL: all kinds */
	unsigned from, nth;	 /* the nth call of node `from` (RDM_NODES: of all nodes) meets its fate */
	unsigned seen;
	uint8_t packet[NIC_FRAME_MAX];
	uint32_t len; /* length of the delayed packet */
} net;

static bool meddle(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	enum rdm_call_said said = rdm_call_of(ip, len);

	if (said == NO_CALL || (net.kind != NO_CALL && said != net.kind) ||
	    (net.from < RDM_NODES && from != net.from) || net.seen++ != net.nth)
		return false;
	if (net.fate == DOUBLED)
		rdm_deliver(rig, ip, len);
	if (net.fate == LATE || net.fate == AGAIN_LATE) {
		memcpy(net.packet, ip, len);
		net.len = len;
	}
	return net.fate == LOST || net.fate == LATE;
}

static void net_set(struct rdm_rig *rig, enum fate fate, enum rdm_call_said kind, unsigned from, unsigned nth)
{
	memset(&net, 0, sizeof(net));
	net.fate = fate;
	net.kind = kind;
	net.from = from;
	net.nth = nth;
	rig->cut = meddle;
}

/** Deliver the delayed packet. */
static void net_late(struct rdm_rig *rig)
{
	rig->cut = NULL;
	if (net.len)
		rdm_deliver(rig, net.packet, net.len);
	net.len = 0;
}

/** Send a long message from a to b and a short one back; both must arrive. */
static void talk(struct rdm_rig *rig, struct rdm_node *a, struct rdm_node *b)
{
	for (unsigned i = 0; i < 2; i++) {
		struct rdm_node *from = i ? b : a, *to = i ? a : b;

		rdm_fill(from, 0, LONG, i);
		assert_int_equal(rdm_send(from, to, 900, NIC_RDM_TAGGED, 99, 0, i ? 100 : LONG), 0);
		assert_int_equal(rdm_recv(to, from, 901, NIC_RDM_TAGGED, 99, 0, HALF, LONG), 0);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(from, NIC_RDM_SEND, NIC_RDM_OK, 900);
		rdm_expect(to, NIC_RDM_RECV, NIC_RDM_OK, 901);
		assert_true(rdm_holds(to, HALF, i ? 100 : LONG, i));
	}
	rdm_expect_nothing(a);
	rdm_expect_nothing(b);
}

/* ---- calls ---------------------------------------------------------------------------------------------------- */

/**
 * One or `both` of two nodes call the other. The nodes connect although the nth call is lost, duplicated or delayed. If
 * it is delayed, it arrives when the nodes are connected, and must not end the connection: messages offered before it
 * arrives can still be received.
 */
static void connect_with(enum fate fate, unsigned nth, bool both)
{
	struct rdm_rig *rig = rdm_rig_create(2, 20 + nth);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	net_set(rig, fate, NO_CALL, RDM_NODES, nth);
	assert_int_equal(rdm_send(a, b, 1, NIC_RDM_TAGGED, 1, 0, LONG), 0);
	if (both)
		assert_int_equal(rdm_send(b, a, 2, NIC_RDM_TAGGED, 2, 0, LONG), 0);
	rdm_run(rig, SECOND / 2);
	assert_true(net.seen > nth);
	net_late(rig);
	rdm_run(rig, SECOND / 2);
	assert_int_equal(rdm_recv(b, a, 3, NIC_RDM_TAGGED, 1, 0, HALF, LONG), 0);
	assert_int_equal(rdm_recv(a, b, 4, NIC_RDM_TAGGED, 2, 0, HALF, LONG), 0);
	rdm_run(rig, SECOND);
	rdm_expect_among(a, NIC_RDM_SEND, 1);
	rdm_expect_among(b, NIC_RDM_RECV, 3);
	if (both) {
		rdm_expect_among(a, NIC_RDM_RECV, 4);
		rdm_expect_among(b, NIC_RDM_SEND, 2);
	} else {
		assert_int_equal(nic_rdm_cancel(a->ep, (void *)4), 0);
		rdm_expect(a, NIC_RDM_RECV, NIC_RDM_CANCELED, 4);
	}
	talk(rig, a, b);
	rdm_rig_destroy(rig);
}

static void rdm__connecting_survives_lost_duplicate_and_late_packets(void **state)
{
	(void)state;
	for (unsigned fate = 0; fate < FATES; fate++)
		for (unsigned nth = 0; nth < 4; nth++) /* HELLO, WHO, HELLO, WELCOME */
			connect_with((enum fate)fate, nth, false);
}

static void rdm__both_sides_may_connect_at_once_despite_packet_faults(void **state)
{
	(void)state;
	for (unsigned fate = 0; fate < FATES; fate++)
		for (unsigned nth = 0; nth < 6; nth++)
			connect_with((enum fate)fate, nth, true);
}

/** A host calls and disappears. Its successor connects; then the old host's call arrives and must not end the new
 * connection. */
static void old_call(bool arrived_before)
{
	struct rdm_rig *rig = rdm_rig_create(2, 30);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	net_set(rig, arrived_before ? AGAIN_LATE : LATE, CALL_HELLO, 0, 1);
	assert_int_equal(rdm_send(a, b, 1, NIC_RDM_INJECT, 0, 0, 8), 0);
	rdm_run(rig, arrived_before ? SECOND : 1000000);
	rdm_node_stop(a);
	rig->cut = NULL;
	rdm_node_start(a);
	assert_int_equal(rdm_send(a, b, 2, NIC_RDM_TAGGED, 1, 0, LONG), 0);
	rdm_run(rig, SECOND / 10);
	assert_int_equal(rdm_send(b, a, 3, NIC_RDM_TAGGED, 2, 0, LONG), 0);
	rdm_run(rig, SECOND / 10);
	assert_int_not_equal(net.len, 0);
	net_late(rig);
	rdm_run(rig, 3 * SECOND);
	if (arrived_before)
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1);
	assert_int_equal(rdm_recv(b, a, 4, NIC_RDM_TAGGED, 1, 0, HALF, LONG), 0);
	assert_int_equal(rdm_recv(a, b, 5, NIC_RDM_TAGGED, 2, 0, HALF, LONG), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect_among(b, NIC_RDM_RECV, 4);
	rdm_expect_among(b, NIC_RDM_SEND, 3);
	rdm_expect_among(a, NIC_RDM_SEND, 2);
	rdm_expect_among(a, NIC_RDM_RECV, 5);
	talk(rig, a, b);
	rdm_rig_destroy(rig);
}

static void rdm__a_late_hello_from_before_a_restart_ends_no_connection(void **state)
{
	(void)state;
	old_call(false);
	old_call(true);
}

/** Post a WRITE with a wrong R_Key: it is refused, which ends the connection. */
static void refused(struct rdm_node *from, struct rdm_node *to, uintptr_t context)
{
	const struct nic_iov iov = {from->arena, 64};
	const struct nic_rdm_remote remote = {(uintptr_t)to->arena, 64, nic_mr_rkey(to->mr) ^ 0x5500};
	const struct nic_rdm_rma r = {
		.context = (void *)context, .iov = &iov, .n_iov = 1, .remote = &remote, .n_remote = 1};

	assert_int_equal(nic_rdm_rma(rdm_peer(from, to), &r), 0);
}

/** A call for a former connection arrives again when the nodes are unconnected (`idle`) or connected again: it does no
 * harm. */
static void rdm__a_late_hello_for_a_former_connection_is_harmless(void **state)
{
	(void)state;
	for (unsigned idle = 0; idle < 2; idle++) {
		struct rdm_rig *rig = rdm_rig_create(2, 31);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

		net_set(rig, AGAIN_LATE, CALL_HELLO, 0, 1);
		refused(a, b, 1);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(a, NIC_RDM_WRITE, NIC_WC_REM_ACCESS_ERR, 1);
		if (idle)
			net_late(rig);
		assert_int_equal(rdm_send(b, a, 2, NIC_RDM_TAGGED, 2, 0, LONG), 0);
		rdm_run(rig, SECOND / 10);
		net_late(rig);
		rdm_run(rig, 3 * SECOND);
		rdm_expect_nothing(b);
		assert_int_equal(rdm_recv(a, b, 3, NIC_RDM_TAGGED, 2, 0, HALF, LONG), 0);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(b, NIC_RDM_SEND, NIC_RDM_OK, 2);
		rdm_expect(a, NIC_RDM_RECV, NIC_RDM_OK, 3);
		talk(rig, a, b);
		rdm_rig_destroy(rig);
	}
}

/** b connects, but its WELCOME is lost and then its connection fails: b must answer a's repeated calls, so that a does
 * not give up. */
static void rdm__repeated_hellos_are_answered_after_a_lost_welcome(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 32);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	net_set(rig, LOST, CALL_WELCOME, 1, 0);
	assert_int_equal(rdm_send(a, b, 1, NIC_RDM_INJECT, 0, 0, 8), 0);
	rdm_run(rig, 1000000);
	assert_int_equal(net.seen, 1);
	b->unmapped = true;
	assert_int_equal(rdm_send(b, a, 2, 0, 0, 0, 8), 0);
	rdm_run(rig, 100000);
	b->unmapped = false;
	rdm_expect(b, NIC_RDM_SEND, NIC_WC_LOC_PROT_ERR, 2);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1);
	assert_int_equal(rdm_recv(b, a, 3, 0, 0, 0, 0, 8), 0);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 3);
	talk(rig, a, b);
	rdm_rig_destroy(rig);
}

/* ---- peers that go -------------------------------------------------------------------------------------------- */

static void rdm__requests_to_an_absent_peer_fail_after_the_connect_timeout(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 40);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	const struct nic_rdm_rma none = {
		.context = (void *)3, .flags = NIC_RDM_DATA, .remote = &(struct nic_rdm_remote){0}, .n_remote = 1};
	uint64_t began = rig->now;

	(void)state;
	rdm_node_stop(b);
	assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, LONG), 0);
	assert_int_equal(rdm_send(a, b, 2, NIC_RDM_INJECT, 0, 0, 8), 0);
	assert_int_equal(nic_rdm_rma(rdm_peer(a, b), &none), 0);
	rdm_run(rig, rig->init.connect_ns - 1000000);
	rdm_expect_nothing(a);
	assert_true(rdm_run(rig, 2000000));
	assert_true(rig->now - began < rig->init.connect_ns + 2000000);
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_UNREACHABLE, 1);
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_UNREACHABLE, 2);
	rdm_expect(a, NIC_RDM_WRITE, NIC_RDM_UNREACHABLE, 3);
	rdm_node_start(b);
	talk(rig, a, b);
	rdm_rig_destroy(rig);
}

static void rdm__a_restarted_peer_is_reconnected(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 41);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	talk(rig, a, b);
	rdm_node_stop(b);
	rdm_node_start(b);
	assert_int_equal(rdm_send(a, b, 1, NIC_RDM_INJECT, 0, 0, 8), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_SEND, NIC_WC_RETRY_EXC_ERR, 1);
	talk(rig, a, b);
	rdm_node_stop(b);
	rdm_node_start(b);
	talk(rig, b, a); /* the restarted node calls first, so no request is lost */
	rdm_rig_destroy(rig);
}

static unsigned packets_left;

static bool cut_after(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	(void)rig;
	if (from != 0 || rdm_call_of(ip, len) != NO_CALL)
		return false;
	return packets_left == 0 || packets_left-- == 0;
}

/** The sender disappears in the middle of a message, with or without a receive posted, and restarts or not: a receive
 * gets PEER_LOST, and an unreceived message is discarded. */
static void rdm__a_partial_message_from_a_lost_sender_fails_its_receive(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < 8; mode++) {
		struct rdm_rig *rig = rdm_rig_create(2, 42);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
		bool early = mode & 1, again = mode & 2, both = mode & 4;

		talk(rig, a, b);
		if (early)
			assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, HALF, 8192), 0);
		packets_left = 3;
		rig->cut = cut_after;
		rdm_fill(a, 0, 8000, 5);
		memset(b->arena + HALF, 0, 8192);
		assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, 8000), 0);
		rdm_run(rig, 1000000);
		assert_int_equal(packets_left, 0);
		rdm_node_stop(a);
		rig->cut = NULL;
		if (!early && both) /* matches the part that has arrived */
			assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, HALF, 8192), 0);
		if (again) {
			rdm_node_start(a);
			assert_int_equal(rdm_send(a, b, 3, NIC_RDM_TAGGED, 7, 0, 8), 0);
		}
		assert_true(rdm_run(rig, QUIET));
		if (again)
			rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 3);
		else
			rdm_node_start(a);
		if (early || both) {
			struct nic_rdm_done d = rdm_expect(b, NIC_RDM_RECV, NIC_RDM_PEER_LOST, 2);

			assert_true(d.len < 8000);
			assert_true(rdm_holds(b, HALF, (uint32_t)d.len, 5));
		} else { /* an incomplete message without a receive is discarded */
			struct nic_rdm_done found;

			assert_int_equal(nic_rdm_peek(b->ep, &(struct nic_rdm_recv){0}, &found), -ENOMSG);
		}
		talk(rig, a, b);
		rdm_rig_destroy(rig);
	}
}

/** A peer disappears before all operands of its operation on a receive have arrived: nothing is changed. */
static void rdm__an_operation_cut_off_amid_its_operands_changes_nothing(void **state)
{
	(void)state;
	for (unsigned early = 0; early < 2; early++) {
		struct rdm_rig *rig = rdm_rig_create(2, 44);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
		const struct nic_iov operand = {a->arena, 2048};
		const struct nic_rdm_remote remote = {.len = 2048};
		const struct nic_rdm_atomic r = {.context = (void *)1,
						 .flags = NIC_RDM_TAGGED,
						 .op = NIC_ELEM_ATOMIC_WRITE,
						 .datatype = NIC_DT_UINT64,
						 .operand = &operand,
						 .n_operand = 1,
						 .remote = &remote,
						 .n_remote = 1,
						 .tag = 5};
		struct nic_rdm_done d;

		talk(rig, a, b);
		if (early)
			assert_int_equal(rdm_recv(b, NULL, 2, NIC_RDM_TAGGED, 5, 0, HALF, 4096), 0);
		packets_left = 2;
		rig->cut = cut_after;
		memset(b->arena + HALF, 0x11, 4096);
		assert_int_equal(nic_rdm_atomic(rdm_peer(a, b), &r), 0);
		rdm_run(rig, 1000000);
		assert_int_equal(packets_left, 0);
		rdm_node_stop(a);
		rig->cut = NULL;
		if (!early)
			assert_int_equal(rdm_recv(b, NULL, 2, NIC_RDM_TAGGED, 5, 0, HALF, 4096), 0);
		assert_true(rdm_run(rig, QUIET));
		d = rdm_expect(b, NIC_RDM_RECV, NIC_RDM_PEER_LOST, 2);
		assert_int_equal(d.flags, NIC_RDM_TAGGED | NIC_RDM_OPERATED);
		assert_int_equal(d.len, 0);
		assert_int_equal(d.overflow, 0);
		assert_int_equal(d.tag, 5);
		for (unsigned i = 0; i < 4096; i++)
			assert_int_equal(b->arena[HALF + i], 0x11);
		rdm_node_start(a);
		talk(rig, a, b);
		rdm_rig_destroy(rig);
	}
}

/** The sender of an offered long message disappears: the message is no longer found. */
static void rdm__an_offer_is_discarded_when_its_sender_is_lost(void **state)
{
	const struct nic_rdm_recv look = {.context = (void *)3, .flags = NIC_RDM_CLAIM};
	struct nic_rdm_done found;

	(void)state;
	for (unsigned claimed = 0; claimed < 2; claimed++) {
		struct rdm_rig *rig = rdm_rig_create(2, 43);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

		assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, LONG), 0);
		rdm_run(rig, SECOND / 10);
		if (claimed)
			assert_int_equal(nic_rdm_peek(b->ep, &look, &found), 0);
		rdm_node_stop(a);
		rdm_node_start(a);
		talk(rig, a, b);
		assert_int_equal(nic_rdm_peek(b->ep, &look, &found), -ENOMSG);
		assert_int_equal(rdm_recv(b, NULL, 3, NIC_RDM_CLAIM, 0, 0, 0, 0), -ENOMSG);
		rdm_rig_destroy(rig);
	}
}

/** The receiver of an offer disappears, and restarts or not: the sender gets its buffer back, with an error. */
static void rdm__a_waiting_offer_fails_when_its_receiver_is_lost(void **state)
{
	(void)state;
	for (unsigned again = 0; again < 2; again++) {
		struct rdm_rig *rig = rdm_rig_create(2, 44);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

		assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, LONG), 0);
		assert_int_equal(rdm_send(a, b, 2, NIC_RDM_DELIVERY, 0, 0, 8), 0);
		rdm_run(rig, 3 * SECOND);
		rdm_expect_nothing(a);
		rdm_node_stop(b);
		if (again)
			rdm_node_start(b);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_PEER_LOST, 1);
		rdm_expect(a, NIC_RDM_SEND, NIC_RDM_PEER_LOST, 2);
		if (!again)
			rdm_node_start(b);
		talk(rig, a, b);
		rdm_rig_destroy(rig);
	}
}

static bool cut_from_0(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	(void)rig;
	(void)ip;
	(void)len;
	return from == 0;
}

/** The sender or the receiver of a long message disappears while the receiver reads the message, and restarts or not:
 * the other side gets an error. */
static void rdm__a_long_message_fails_if_either_side_is_lost_during_the_read(void **state)
{
	(void)state;
	for (unsigned mode = 0; mode < 4; mode++) {
		struct rdm_rig *rig = rdm_rig_create(2, 45);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
		bool reader = mode & 1, again = mode & 2;

		talk(rig, a, b);
		assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, LONG), 0);
		rdm_run(rig, SECOND / 10);
		rig->cut = cut_from_0;
		assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, HALF, LONG), 0);
		rdm_run(rig, 1000000);
		rdm_node_stop(reader ? b : a);
		rig->cut = NULL;
		if (again)
			rdm_node_start(reader ? b : a);
		assert_true(rdm_run(rig, QUIET));
		if (reader)
			rdm_expect(a, NIC_RDM_SEND, NIC_RDM_PEER_LOST, 1);
		else
			rdm_expect(b, NIC_RDM_RECV, NIC_RDM_PEER_LOST, 2);
		if (!again)
			rdm_node_start(reader ? b : a);
		talk(rig, a, b);
		rdm_rig_destroy(rig);
	}
}

/* ---- errors of requests --------------------------------------------------------------------------------------- */

/** An RMA with a wrong key ends the connection; requests posted afterwards use a new connection. */
static void rdm__requests_after_a_wrong_rkey_use_a_new_connection(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 50);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct rdm_node *from = i % 2 ? b : a, *to = i % 2 ? a : b;

		refused(from, to, 1);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(from, NIC_RDM_WRITE, NIC_WC_REM_ACCESS_ERR, 1);
		if (i >= 2)
			talk(rig, a, b);
	}
	for (unsigned i = 0; i < 30; i++) /* more requests than a queue pair holds at first; the peer sends some, too */
		if (i == 10)
			refused(a, b, 100 + i);
		else
			assert_int_equal(
				rdm_send(a, b, 100 + i, i % 3 ? 0 : NIC_RDM_DELIVERY, 0, 0, i % 5 ? 2000 : LONG), 0);
	for (unsigned i = 0; i < 10; i++)
		assert_int_equal(rdm_send(b, a, 200 + i, i % 2 ? 0 : NIC_RDM_DELIVERY, 0, 0, 100), 0);
	rdm_run(rig, QUIET);
	for (unsigned i = 0; i < 40; i++) {
		assert_int_equal(rdm_recv(b, NULL, 300 + i, NIC_RDM_MULTI, 0, 0, 0, 64), 0);
		assert_int_equal(rdm_recv(a, NULL, 400 + i, NIC_RDM_MULTI, 0, 0, 0, 64), 0);
	}
	assert_true(rdm_run(rig, QUIET));
	for (unsigned i = 0; i < 40; i++) {
		nic_rdm_cancel(b->ep, (void *)(uintptr_t)(300 + i));
		nic_rdm_cancel(a->ep, (void *)(uintptr_t)(400 + i));
	}
	unsigned sent = 0, refusals = 0;

	for (; a->n_seen < a->n_done; a->n_seen++) {
		sent += a->done[a->n_seen].kind == NIC_RDM_SEND;
		refusals += a->done[a->n_seen].kind == NIC_RDM_WRITE;
	}
	assert_int_equal(sent, 29);
	assert_int_equal(refusals, 1);
	for (sent = 0; b->n_seen < b->n_done; b->n_seen++)
		sent += b->done[b->n_seen].kind == NIC_RDM_SEND;
	assert_int_equal(sent, 10);
	talk(rig, a, b);
	rdm_rig_destroy(rig);
}

/** What follows an RMA with a wrong key, and waits for it: the next connection takes it, but not if the endpoint is
 * strict. */
static void rdm__a_strict_endpoint_sends_nothing_behind_a_lost_request(void **state)
{
	(void)state;
	for (unsigned strict = 0; strict < 2; strict++) {
		struct rdm_rig *rig = rdm_rig_create(2, 51);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

		rig->init.strict = strict;
		rdm_node_stop(a);
		rdm_node_start(a);
		talk(rig, a, b);
		refused(a, b, 1);
		assert_int_equal(rdm_send(a, b, 2, NIC_RDM_FENCE, 0, 0, 100), 0);
		assert_int_equal(rdm_recv(b, NULL, 3, 0, 0, 0, 0, 100), 0);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(a, NIC_RDM_WRITE, NIC_WC_REM_ACCESS_ERR, 1);
		rdm_expect(a, NIC_RDM_SEND, strict ? NIC_RDM_PEER_LOST : NIC_RDM_OK, 2);
		assert_int_equal(b->n_done - b->n_seen, strict ? 0 : 1);
		if (strict) /* what comes after the report is sent */
			assert_int_equal(rdm_send(a, b, 4, 0, 0, 0, 100), 0);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 3);
		rdm_rig_destroy(rig);
	}
}

/** The application has unmapped the memory of a request or of a receive: the request or receive fails, and the
 * connection recovers. */
static void rdm__unmapped_memory_fails_its_request_or_receive(void **state)
{
	static const uint32_t lengths[] = {100, 5000, LONG};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct rdm_rig *rig = rdm_rig_create(2, 51 + i);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
		bool pulled = lengths[i] > NIC_RDM_EAGER_MAX;

		talk(rig, a, b);
		a->unmapped = true;
		assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, lengths[i]), 0);
		assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, HALF, LONG), 0);
		assert_true(rdm_run(rig, QUIET));
		a->unmapped = false;
		if (pulled) {
			rdm_expect(a, NIC_RDM_SEND, NIC_RDM_PEER_LOST, 1);
			rdm_expect(b, NIC_RDM_RECV, NIC_RDM_PEER_LOST, 2);
		} else {
			rdm_expect(a, NIC_RDM_SEND, NIC_WC_LOC_PROT_ERR, 1);
			assert_int_equal(nic_rdm_cancel(b->ep, (void *)2), 0);
			rdm_expect(b, NIC_RDM_RECV, NIC_RDM_CANCELED, 2);
		}
		talk(rig, a, b);
		b->unmapped = true;
		assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, HALF, LONG), 0);
		assert_int_equal(rdm_send(a, b, 1, NIC_RDM_DELIVERY, 0, 0, lengths[i]), 0);
		rdm_run(rig, SECOND / 2); /* too short for a probe: the request ends because the peer answers */
		b->unmapped = false;
		rdm_expect(b, NIC_RDM_RECV, NIC_WC_LOC_PROT_ERR, 2);
		rdm_expect(a, NIC_RDM_SEND, pulled ? NIC_RDM_PEER_LOST : NIC_RDM_OK, 1);
		talk(rig, a, b);
		rdm_rig_destroy(rig);
	}
}

/* ---- what is served ------------------------------------------------------------------------------------------- */

/* Bytes of a READ: few enough for one READ request. */
#define PIECE 30000u

enum { BTH = 28, READ_REQUEST = 0x0c, READ_RESPONSE_FIRST = 0x0d, READ_RESPONSE_ONLY = 0x10 };

/** Packet hook: deliver the READ request again just before response packet number net.nth. */
static bool ask_again(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	if (ip[BTH] == READ_REQUEST && !net.len) {
		memcpy(net.packet, ip, len);
		net.len = len;
	}
	if (ip[BTH] >= READ_RESPONSE_FIRST && ip[BTH] <= READ_RESPONSE_ONLY && net.seen++ == net.nth)
		rdm_deliver(rig, net.packet, net.len);
	return false;
}

static void read_from(struct rdm_node *from, struct rdm_node *to, uintptr_t context)
{
	const struct nic_iov iov = {from->arena, PIECE};
	const struct nic_rdm_remote remote = {(uintptr_t)to->arena, PIECE, nic_mr_rkey(to->mr)};
	const struct nic_rdm_rma r = {
		.context = (void *)context, .read = true, .iov = &iov, .n_iov = 1, .remote = &remote, .n_remote = 1};

	assert_int_equal(nic_rdm_rma(rdm_peer(from, to), &r), 0);
}

/** A READ request that is repeated while its response is sent is served again, but counts once for the endpoint. */
static void rdm__a_repeated_READ_request_is_counted_once(void **state)
{
	(void)state;
	for (unsigned nth = 0; nth < (PIECE + 1023) / 1024; nth++) {
		struct rdm_rig *rig = rdm_rig_create(2, 51);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

		net_set(rig, DOUBLED, NO_CALL, RDM_NODES, nth);
		rig->cut = ask_again;
		rdm_fill(b, 0, PIECE, nth);
		read_from(a, b, 1);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(a, NIC_RDM_READ, NIC_RDM_OK, 1);
		assert_true(rdm_holds(a, 0, PIECE, nth));
		assert_true(net.seen > nth);
		assert_int_equal(b->n_read, 1);
		rdm_rig_destroy(rig);
	}
}

/** Many READs, while request and response packets are lost and duplicated: each is served once. */
static void rdm__READs_are_counted_once_on_a_lossy_network(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 52);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];

	(void)state;
	rig->lose = rig->twice = 20;
	for (unsigned i = 1; i <= 40; i++) {
		read_from(a, b, i);
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(a, NIC_RDM_READ, NIC_RDM_OK, i);
		assert_int_equal(b->n_read, i);
	}
	rdm_rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdm__connecting_survives_lost_duplicate_and_late_packets),
		cmocka_unit_test(rdm__both_sides_may_connect_at_once_despite_packet_faults),
		cmocka_unit_test(rdm__a_late_hello_from_before_a_restart_ends_no_connection),
		cmocka_unit_test(rdm__a_late_hello_for_a_former_connection_is_harmless),
		cmocka_unit_test(rdm__repeated_hellos_are_answered_after_a_lost_welcome),
		cmocka_unit_test(rdm__requests_to_an_absent_peer_fail_after_the_connect_timeout),
		cmocka_unit_test(rdm__a_restarted_peer_is_reconnected),
		cmocka_unit_test(rdm__a_partial_message_from_a_lost_sender_fails_its_receive),
		cmocka_unit_test(rdm__an_operation_cut_off_amid_its_operands_changes_nothing),
		cmocka_unit_test(rdm__an_offer_is_discarded_when_its_sender_is_lost),
		cmocka_unit_test(rdm__a_waiting_offer_fails_when_its_receiver_is_lost),
		cmocka_unit_test(rdm__a_long_message_fails_if_either_side_is_lost_during_the_read),
		cmocka_unit_test(rdm__requests_after_a_wrong_rkey_use_a_new_connection),
		cmocka_unit_test(rdm__a_strict_endpoint_sends_nothing_behind_a_lost_request),
		cmocka_unit_test(rdm__unmapped_memory_fails_its_request_or_receive),
		cmocka_unit_test(rdm__a_repeated_READ_request_is_counted_once),
		cmocka_unit_test(rdm__READs_are_counted_once_on_a_lossy_network),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
