/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_impostor.c - processes allowed to use a device that claim to be other functions of it. They get no link in
 * another function's name, and on links of their own they reach only their own connections.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "clock.h"
#include "devices.h"
#include "ends.h"
#include "engine_priv.h"
#include "links_priv.h"
#include "packet.h"
#include "ring.h"

#define LONG_MS	  20000
#define SEND_ONLY 0x04
#define LEN	  100u

static struct pmd_device device[2];

/** What an impostor claims and does. */
struct plot {
	struct proto_link said;
	struct nic_gid victim_key, from, to;
	unsigned victim;   /* function number of the victim */
	unsigned own_name; /* the impostor listens as this function of device `said.key`; 0: it does not listen */
	uint32_t qpn, psn; /* destination QP and PSN of the forged packet */
	enum link_kind kind;
};

/* ---- the impostor: a process of its own ------------------------------------------------------------------------- */

/** Write a SEND into the ring as the real peer would send it. */
static void put_forgery(const struct plot *plot, struct ring_producer *ring)
{
	struct packet p = {.op = op_get(SEND_ONLY), .sgid = plot->from, .dgid = plot->to, .v4 = true, .hop_limit = 64};
	const struct link_forward forward = {
		.sgid = plot->from, .dgid = plot->to, .udp_sport = NIC_UDP_PORT, .hop_limit = 64};
	uint8_t data[NIC_FRAME_MAX], payload[LEN] = "forged", *place;
	uint32_t len;

	packet_init(&p);
	p.payload = payload;
	p.payload_len = LEN;
	p.no_icrc = plot->kind != LINK_FORWARD;
	p.udp_sport = NIC_UDP_PORT;
	p.dest_qpn = plot->qpn;
	p.psn = plot->psn;
	len = packet_encode(&p, data);
	if (ring_reserve(ring, &place) != 1)
		_exit(3);
	if (plot->kind == LINK_FORWARD) {
		memcpy(place, &forward, sizeof(forward));
		memcpy(place + sizeof(forward), data + 28, len - 28);
		len = (uint32_t)sizeof(forward) + len - 28;
	} else {
		memcpy(place, data, len);
	}
	ring_commit(ring, len, plot->kind);
}

/** Hand over a ring with a forged packet in it. @return 0 if the victim took the link, 1 if it refused it. */
static int impostor(const struct plot *plot)
{
	struct ring_producer ring;
	struct proto_name name;
	PROTO_MSG(m);
	int memfd = ring_create(&ring), fd, rc;

	pmd_name_function(&plot->said.key, plot->own_name, &name);
	if (memfd < 0 || (plot->own_name && proto_listen(&name) < 0))
		return 4;
	put_forgery(plot, &ring);
	pmd_name_function(&plot->victim_key, plot->victim, &name);
	fd = proto_connect(&name);
	if (fd < 0 || proto_send(fd, PROTO_LINK, &plot->said, sizeof(plot->said), &memfd, 1) != 0)
		return 5;
	rc = proto_recv_wait(fd, &m, LONG_MS);
	if (rc == 0 || rc == -ECONNRESET)
		return 1;
	if (rc != 1 || m.type != PROTO_LINK_TAKEN)
		return 6;
	/* Wait until the victim has emptied the ring or ended the link. */
	for (unsigned i = 0; i < LONG_MS && !ring_is_empty(&ring); i++)
		if (proto_recv_wait(fd, &m, 1) == 0)
			break;
	return 0;
}

/** Run impostor() in a child process. @return the value of impostor(). */
static int try_it(struct end *victim, const struct plot *plot)
{
	pid_t pid = fork();
	int status;

	if (pid == 0)
		_exit(impostor(plot));
	while (waitpid(pid, &status, WNOHANG) == 0)
		pmd_try_progress(victim->engine);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* ---- its victims ------------------------------------------------------------------------------------------------ */

static struct plot plot_against(const struct end *victim, const struct end *peer)
{
	return (struct plot){
		.said = {.key = peer->gid, .to = victim->gid, .function = peer->engine->host.function},
		.victim_key = victim->gid,
		.from = peer->gid,
		.to = victim->gid,
		.victim = victim->engine->host.function,
		.qpn = nic_qp_num(victim->qp),
		.psn = peer->psn,
	};
}

static struct pmd_port_stats stats_of(struct end *e)
{
	struct pmd_port_stats stats;

	pmd_lock(e->engine);
	stats = e->engine->host.port->stats;
	pmd_unlock(e->engine);
	return stats;
}

static uint64_t bad_sources(struct end *e)
{
	uint64_t n;

	pmd_lock(e->engine);
	n = nic_counters(e->nic)[NIC_CNT_rx_bad_source];
	pmd_unlock(e->engine);
	return n;
}

/** The victim has received nothing forged, and the real peer's message still arrives. */
static void expect_undisturbed(struct end *victim, struct end *peer)
{
	struct nic_wc wc;

	assert_int_equal(end_poll(victim, victim->rcq, &wc), 0);
	memset(peer->buf, 0x5a, LEN);
	end_send(peer, NIC_WR_SEND, LEN, NULL);
	wc = end_wait(victim, victim->rcq, false);
	assert_int_equal(wc.status, NIC_WC_SUCCESS);
	for (unsigned i = 0; i < LEN; i++)
		assert_int_equal(victim->buf[BUF / 2 + i], 0x5a);
	assert_int_equal(end_wait(peer, peer->scq, false).status, NIC_WC_SUCCESS);
}

static void impostor__SE_10_gets_no_link_in_the_name_of_another_process(void **state)
{
	struct end a, b;
	struct plot plot;

	(void)state;
	ends_open(&a, &device[0], &b, &device[1]);
	end_recv(&a);
	plot = plot_against(&a, &b);
	assert_int_equal(try_it(&a, &plot), 1);
	assert_int_equal(stats_of(&a).link_unproved, 1);
	plot.said = (struct proto_link){.key = a.gid, .to = a.gid, .function = a.engine->host.function};
	assert_int_equal(try_it(&a, &plot), 1); /* the impostor claims its victim's own function */
	assert_int_equal(stats_of(&a).link_unproved, 2);
	plot.said.function = 222; /* an unused name, under which the impostor does not listen either */
	assert_int_equal(try_it(&a, &plot), 1);
	assert_int_equal(stats_of(&a).link_unproved, 3);
	plot.said.function = 0;
	assert_int_equal(try_it(&a, &plot), 1);
	expect_undisturbed(&a, &b);
	end_close(&a);
	end_close(&b);
}

/** An impostor's own link is accepted, but packets that it sends there to another function's connection are dropped. */
static void impostor__SE_10_reaches_no_connection_of_others_by_its_own_link(void **state)
{
	static const enum link_kind kinds[] = {LINK_PACKET, LINK_FORWARD};
	struct end a, b;
	struct plot plot;

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		ends_open(&a, &device[0], &b, &device[1]);
		end_recv(&a);
		end_recv(&a); /* a second receive, for the message that gives the peer a link */
		end_send(&b, NIC_WR_SEND, 1, NULL);
		assert_int_equal(end_wait(&a, a.rcq, false).status, NIC_WC_SUCCESS);
		assert_int_equal(end_wait(&b, b.scq, false).status, NIC_WC_SUCCESS);
		plot = plot_against(&a, &b);
		plot.psn = (b.psn + 1) & 0xffffff;
		plot.own_name = plot.said.function = 222;
		plot.said.key = a.gid;
		plot.kind = kinds[i];
		assert_int_equal(try_it(&a, &plot), 0);
		if (kinds[i] == LINK_PACKET)
			assert_int_equal(bad_sources(&a), 1);
		else
			assert_int_equal(nic_counters(a.nic)[NIC_CNT_rx_beside_link], 1);
		assert_int_equal(stats_of(&a).link_broken, 0);
		expect_undisturbed(&a, &b);
		end_close(&a);
		end_close(&b);
	}
}

/** A packet forwarded through a link is accepted only from a function of the same device. */
static void impostor__SE_10_of_another_device_forwards_nothing(void **state)
{
	struct end a, b;
	struct plot plot;

	(void)state;
	ends_open(&a, &device[0], &b, &device[1]);
	end_recv(&a);
	plot = plot_against(&a, &b);
	plot.own_name = plot.said.function = 222;
	plot.said.key = b.gid;
	plot.kind = LINK_FORWARD;
	assert_int_equal(try_it(&a, &plot), 0);
	while (stats_of(&a).link_broken == 0)
		pmd_try_progress(a.engine);
	expect_undisturbed(&a, &b);
	end_close(&a);
	end_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(impostor__SE_10_gets_no_link_in_the_name_of_another_process),
		cmocka_unit_test(impostor__SE_10_reaches_no_connection_of_others_by_its_own_link),
		cmocka_unit_test(impostor__SE_10_of_another_device_forwards_nothing),
	};

	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
