/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_rdm_strangers.c - effects of unsolicited calls (packets that make and end connections) on reliable-datagram
 * endpoints. Callers with forged addresses use no memory and disturb no peer; of callers with real addresses that send
 * nothing, only a limited number is kept.
 */
#include "rdm_rig.h"

#include "rdm_stranger.h"

#include <stdlib.h>
#include <string.h>

#define SECOND	  1000000000ull
#define QUIET	  (20 * SECOND)
#define STRANGERS 1024u /* most peers that are kept although they sent no message; see rdm_stranger.c */

static void rdm__the_keyed_hash_is_siphash(void **state)
{
	/* The example in the paper on SipHash (Aumasson and Bernstein, 2012, appendix A). */
	static const uint64_t key[2] = {0x0706050403020100u, 0x0f0e0d0c0b0a0908u};
	uint8_t data[15];

	(void)state;
	for (uint8_t i = 0; i < sizeof(data); i++)
		data[i] = i;
	assert_true(rdm_keyed_hash(key, data, sizeof(data)) == 0xa129ca6149be45e5u);
	/* Two of the paper's test vectors: empty input and one whole word. */
	assert_true(rdm_keyed_hash(key, data, 0) == 0x726fdb47dd0e0e31u);
	assert_true(rdm_keyed_hash(key, data, 8) == 0x93f5f5799a932462u);
}

/* ---- calls from anywhere --------------------------------------------------------------------------------------- */

static uint8_t *put(uint8_t *p, uint64_t v, unsigned n)
{
	while (n-- > 0)
		*p++ = (uint8_t)(v >> n * 8);
	return p;
}

/** Deliver a call to a node's port that claims to come from this address. */
static void forge(struct rdm_node *to, uint16_t port, const struct nic_rdm_addr *from, const struct rdm_call *c)
{
	uint8_t packet[20 + RDM_CALL_LEN + 4], *p = packet;
	struct nic_rx_frame rx = {.data = packet,
				  .flags = NIC_RX_UDP_PAYLOAD | NIC_RX_NO_ICRC,
				  .sgid = from->gid,
				  .dgid = to->gid,
				  .udp_sport = 0xc000,
				  .hop_limit = 64};

	p = put(put(p, 0x64, 1), 0x40, 1);
	p = put(put(put(p, 0xffff, 2), NIC_SERVICE_QPN | port, 4), 0, 4);
	p = put(put(p, RDM_QKEY, 4), NIC_SERVICE_QPN | from->port, 4);
	rdm_call_put(c, p);
	p = put(p + RDM_CALL_LEN, 0, 4);
	rx.len = (uint32_t)(p - packet);
	nic_rx(to->nic, &rx, to->rig->now);
}

static struct nic_rdm_addr address(uint8_t net, uint8_t host, uint16_t port)
{
	struct nic_rdm_addr a;

	memset(&a, 0, sizeof(a));
	a.gid = (struct nic_gid){.raw = {[10] = 0xff, [11] = 0xff, 10, 1, net, host}};
	a.port = port;
	return a;
}

static struct rdm_call hello_to(const struct rdm_node *n, uint32_t echo)
{
	return (struct rdm_call){.kind = RDM_HELLO,
				 .mtu = NIC_MTU_1024,
				 .from = 4711,
				 .to = n->ep->incarnation,
				 .attempt = 1,
				 .echo = echo,
				 .qpn = 0x4242};
}

static void talk(struct rdm_rig *rig, struct rdm_node *a, struct rdm_node *b)
{
	assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, 100), 0);
	assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, 0, 100), 0);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1);
	rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 2);
	rdm_expect_nothing(a);
	rdm_expect_nothing(b);
}

static uint64_t counted(const struct rdm_node *n, enum nic_counter id)
{
	return n->nic->counters[id];
}

/** An attacker, at its real address, asks an endpoint for the endpoint's incarnation. Then the attacker floods the
 * endpoint with calls that have this incarnation and forged source addresses. */
static void rdm__a_flood_of_forged_hellos_creates_no_qps_or_peers(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(3, 70);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1], *c = &rig->node[2];
	const struct nic_rdm_addr real = address(200, 200, 5);
	uint32_t qps, proof = rdm_challenge(b->ep, &real, 0);
	uint64_t unsent;

	(void)state;
	qps = b->nic->qps.count;
	for (unsigned i = 0; i < 20000; i++) {
		struct nic_rdm_addr from = address((uint8_t)(i >> 8), (uint8_t)i, (uint16_t)(1 + i % 1000));
		struct rdm_call call = hello_to(b, i % 3 == 0 ? 0 : i % 3 == 1 ? proof : rdm_random(rig, UINT32_MAX));

		call.from = i;
		forge(b, b->addr.port, &from, &call);
		if (i == 10000)
			talk(rig, a, b); /* during the flood, a new peer can still connect */
	}
	unsent = counted(b, NIC_CNT_rdm_calls_unsent);
	assert_true(unsent > 0); /* only calls to forged addresses stay unsent */
	assert_int_equal(rdm_recv(c, NULL, 3, 0, 0, 0, 0, 8), 0);
	assert_int_equal(rdm_send(b, c, 4, 0, 0, 0, 8), 0);
	assert_int_equal(counted(b, NIC_CNT_rdm_calls_unsent), unsent);
	assert_true(rdm_run(rig, QUIET));
	rdm_expect(c, NIC_RDM_RECV, NIC_RDM_OK, 3);
	rdm_expect(b, NIC_RDM_SEND, NIC_RDM_OK, 4);
	assert_int_equal(b->nic->qps.count, qps + 2);
	assert_int_equal(b->ep->n_strangers, 0); /* node a has sent a message, so it is no stranger */
	assert_in_range(counted(b, NIC_CNT_rdm_calls_challenged), 20000, 20010);
	talk(rig, b, a);
	assert_int_equal(counted(b, NIC_CNT_rdm_unreachable), 0);
	rdm_rig_destroy(rig);
}

/** Calls, answers and BYEs that an attacker forges in a peer's name do not end a connection, even if it knows both
 * incarnations. */
static void rdm__forged_handshake_packets_do_not_end_a_connection(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 71);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	struct nic_qp *qp;

	(void)state;
	talk(rig, a, b);
	qp = nic_rdm_peer_find(b->ep, &a->addr)->qp;
	for (unsigned kind = RDM_HELLO; kind <= RDM_BYE; kind++)
		for (unsigned i = 0; i < 8; i++) {
			struct rdm_call c = hello_to(b, i / 2);

			c.kind = (uint8_t)kind;
			c.from = i % 2 ? a->ep->incarnation : 4711;
			c.attempt = i / 2 + (i % 2 ? nic_rdm_peer_find(a->ep, &b->addr)->attempt : 1);
			forge(b, b->addr.port, &a->addr, &c);
			rdm_run(rig, SECOND);
		}
	assert_ptr_equal(nic_rdm_peer_find(b->ep, &a->addr)->qp, qp);
	talk(rig, a, b);
	assert_ptr_equal(nic_rdm_peer_find(b->ep, &a->addr)->qp, qp);
	rdm_rig_destroy(rig);
}

/** An attacker calls from many real addresses and sends nothing: such peers are dropped. Peers in use are kept. */
static void rdm__peers_that_send_nothing_are_dropped_beyond_a_limit(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 72);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	const struct nic_rdm_addr asked_for = address(3, 3, 3);
	struct nic_rdm_peer *peer = NULL;
	uint32_t qps;

	(void)state;
	talk(rig, a, b);
	for (unsigned i = 0; i < 3 * STRANGERS; i++) {
		struct nic_rdm_addr from = i == 1 ? asked_for : address(1, 1, (uint16_t)(1 + i));
		struct rdm_call c = hello_to(b, rdm_challenge(b->ep, &from, 0));

		forge(b, b->addr.port, &from, &c);
		rdm_run(rig, 1000000);
		if (i == 1)
			peer = nic_rdm_peer_get(b->ep, &asked_for); /* the application looks this address up itself */
	}
	qps = b->nic->qps.count;
	assert_in_range(qps, STRANGERS, STRANGERS + 3);
	assert_in_range(b->ep->n_strangers, STRANGERS - 1, STRANGERS);
	assert_int_equal(counted(b, NIC_CNT_rdm_strangers_dropped), 2 * STRANGERS - 1);
	assert_ptr_equal(rdm_peer_find(b->ep, &asked_for), peer);
	assert_non_null(peer->qp);
	assert_true(rdm_run(rig, QUIET));
	talk(rig, a, b);
	talk(rig, b, a);
	rdm_rig_destroy(rig);
}

/** A peer that has sent a message counts as known to the application and is kept, even if its QP's PSNs show no
 * traffic. */
static void rdm__a_peer_that_has_sent_a_message_is_not_dropped(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 75);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	struct nic_rdm_peer *peer;

	(void)state;
	assert_int_equal(rdm_send(a, b, 1, 0, 0, 0, 100), 0);
	assert_true(rdm_run(rig, QUIET)); /* b has not posted a receive yet */
	rdm_expect(a, NIC_RDM_SEND, NIC_RDM_OK, 1);
	peer = rdm_peer_find(b->ep, &a->addr);
	assert_non_null(peer);
	assert_int_equal(b->ep->n_strangers, 0);
	peer->qp->resp.epsn = peer->qp->attr.rq_psn; /* as after 2^24 packets, when the PSN is the first one again */
	for (unsigned i = 0; i < 2 * STRANGERS; i++) {
		struct nic_rdm_addr from = address(1, 1, (uint16_t)(1 + i));
		struct rdm_call c = hello_to(b, rdm_challenge(b->ep, &from, 0));

		forge(b, b->addr.port, &from, &c);
		rdm_run(rig, 1000000);
	}
	assert_ptr_equal(rdm_peer_find(b->ep, &a->addr), peer);
	assert_int_equal(rdm_recv(b, NULL, 2, 0, 0, 0, 0, 100), 0);
	assert_ptr_equal(rdm_expect(b, NIC_RDM_RECV, NIC_RDM_OK, 2).peer, peer);
	rdm_rig_destroy(rig);
}

/** A dropped peer connects like a new one, whichever side calls. */
static void rdm__a_dropped_peer_connects_again(void **state)
{
	(void)state;
	for (unsigned who = 0; who < 2; who++) {
		struct rdm_rig *rig = rdm_rig_create(2, 73 + who);
		struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
		const struct nic_rdm_addr elsewhere = address(1, 2, 3);
		struct rdm_call c = hello_to(b, rdm_challenge(b->ep, &elsewhere, 0));

		rdm_send(a, b, 1, 0, 0, 0, 8);
		while (b->ep->n_strangers == 0)
			rdm_run(rig, 1); /* none of a's data has arrived yet */
		b->nic->cfg.limits.max_qp = 8;
		forge(b, b->addr.port, &elsewhere, &c);
		assert_null(rdm_peer_find(b->ep, &a->addr));
		b->nic->cfg.limits.max_qp = 16384;
		assert_true(rdm_run(rig, QUIET));
		rdm_expect(a, NIC_RDM_SEND, NIC_WC_RETRY_EXC_ERR, 1);
		talk(rig, who ? b : a, who ? a : b);
		talk(rig, who ? a : b, who ? b : a);
		rdm_rig_destroy(rig);
	}
}

static unsigned calls;

static bool count_calls(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	(void)rig;
	(void)from;
	calls += rdm_call_of(ip, len) != NO_CALL;
	return false;
}

/* ---- connection requests --------------------------------------------------------------------------------------- */

struct party {
	struct nic_rdm *ep;
	struct nic_rdm_addr addr;
	struct nic_rdm_cm_event last;
	unsigned events;
};

static void on_cm(void *ctx, const struct nic_rdm_cm_event *e)
{
	struct party *p = ctx;

	p->last = *e;
	p->events++;
}

static void on_done(void *ctx, const struct nic_rdm_done *done)
{
	(void)ctx;
	(void)done;
}

static void party_open(struct party *p, struct rdm_node *n, uint16_t port)
{
	struct nic_rdm_init init = {.pd = n->pd, .done = on_done, .cm = on_cm, .listens = true, .ctx = p};

	memset(p, 0, sizeof(*p));
	p->addr.gid = n->gid;
	p->addr.port = port;
	init.addr = p->addr;
	assert_int_equal(nic_rdm_create(n->nic, &init, &p->ep), 0);
}

/** A flood of forged connection requests does not reach the application, and a genuine caller still connects. */
static void cm__forged_connection_requests_do_not_reach_the_application(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 77);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	struct party asks, listens, chosen;

	(void)state;
	party_open(&asks, a, 1000);
	party_open(&listens, b, 2000);
	party_open(&chosen, b, 2001);
	for (unsigned i = 0; i < 5000; i++) {
		struct nic_rdm_addr from = address((uint8_t)(i >> 8), (uint8_t)i, 1000);
		struct rdm_call c = hello_to(b, i % 2 ? rdm_random(rig, UINT32_MAX) : 0);

		c.kind = RDM_ASK;
		c.from = i + 1;
		c.to = 0;
		forge(b, 2000, &from, &c);
	}
	assert_int_equal(listens.events, 0);
	assert_int_equal(listens.ep->n_requests, 0);
	rig->cut = count_calls;
	rdm_run(rig, SECOND);
	calls = 0;
	assert_int_equal(nic_rdm_cm_connect(asks.ep, &listens.addr, NULL, 0), 0);
	rdm_run(rig, 1000000);
	assert_int_equal(listens.events, 1);
	assert_int_equal(nic_rdm_cm_accept(listens.ep, listens.last.request, chosen.ep, NULL, 0), 0);
	rdm_run(rig, SECOND);
	assert_int_equal(calls, 6); /* ASK, WHO, ASK, ACCEPT, HELLO, WELCOME */
	assert_int_equal(asks.last.kind, NIC_RDM_CM_CONNECTED);
	assert_int_equal(chosen.last.kind, NIC_RDM_CM_CONNECTED);
	rdm_rig_destroy(rig);
}

/** Answers and BYEs forged by an attacker that knows all incarnations but sees no packets have no effect. */
static void cm__forged_answers_and_byes_are_ignored(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(2, 78);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1];
	struct party asks, listens, chosen;
	struct rdm_call c = {.mtu = NIC_MTU_1024, .echo = 1};

	(void)state;
	party_open(&asks, a, 1000);
	party_open(&listens, b, 2000);
	party_open(&chosen, b, 2001);
	assert_int_equal(nic_rdm_cm_connect(asks.ep, &listens.addr, NULL, 0), 0);
	c.from = listens.ep->incarnation;
	c.to = asks.ep->incarnation;
	for (c.kind = RDM_ASK; c.kind <= RDM_BYE; c.kind++)
		forge(a, 1000, &listens.addr, &c);
	c.kind = RDM_WHO;
	forge(a, 1000, &listens.addr, &c);
	rdm_run(rig, 1000000);
	assert_int_equal(listens.events, 1);
	assert_int_equal(asks.events, 0);
	assert_int_equal(nic_rdm_cm_accept(listens.ep, listens.last.request, chosen.ep, NULL, 0), 0);
	rdm_run(rig, SECOND);
	assert_int_equal(asks.last.kind, NIC_RDM_CM_CONNECTED);
	c.kind = RDM_BYE;
	c.from = chosen.ep->incarnation;
	forge(a, 1000, &chosen.addr, &c);
	rdm_run(rig, SECOND);
	assert_int_equal(asks.events, 1);
	assert_non_null(nic_rdm_cm_peer(asks.ep));
	nic_rdm_cm_shutdown(chosen.ep);
	rdm_run(rig, SECOND);
	assert_int_equal(asks.last.kind, NIC_RDM_CM_SHUTDOWN);
	rdm_rig_destroy(rig);
}

/* ---- what it costs --------------------------------------------------------------------------------------------- */

static void rdm__connecting_takes_4_packets_or_up_to_8_if_both_start(void **state)
{
	struct rdm_rig *rig = rdm_rig_create(3, 75);
	struct rdm_node *a = &rig->node[0], *b = &rig->node[1], *c = &rig->node[2];

	(void)state;
	rig->cut = count_calls;
	calls = 0;
	talk(rig, a, b);
	assert_int_equal(calls, 4); /* HELLO, WHO, HELLO, WELCOME */
	calls = 0;
	assert_int_equal(rdm_recv(a, NULL, 1, 0, 0, 0, 0, 8), 0);
	assert_int_equal(rdm_recv(c, NULL, 1, 0, 0, 0, 0, 8), 0);
	assert_int_equal(rdm_send(a, c, 2, 0, 0, 0, 8), 0);
	assert_int_equal(rdm_send(c, a, 2, 0, 0, 0, 8), 0);
	assert_true(rdm_run(rig, QUIET));
	assert_in_range(calls, 6, 8); /* HELLO, WHO and HELLO from each side, and one or two WELCOMEs */
	rdm_expect_among(a, NIC_RDM_RECV, 1);
	rdm_expect_among(c, NIC_RDM_RECV, 1);
	rdm_rig_destroy(rig);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rdm__the_keyed_hash_is_siphash),
		cmocka_unit_test(rdm__a_flood_of_forged_hellos_creates_no_qps_or_peers),
		cmocka_unit_test(rdm__forged_handshake_packets_do_not_end_a_connection),
		cmocka_unit_test(rdm__peers_that_send_nothing_are_dropped_beyond_a_limit),
		cmocka_unit_test(rdm__a_dropped_peer_connects_again),
		cmocka_unit_test(rdm__a_peer_that_has_sent_a_message_is_not_dropped),
		cmocka_unit_test(cm__forged_connection_requests_do_not_reach_the_application),
		cmocka_unit_test(cm__forged_answers_and_byes_are_ignored),
		cmocka_unit_test(rdm__connecting_takes_4_packets_or_up_to_8_if_both_start),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
