/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_links.c - pmd/link/links*.c: links whose other end misbehaves. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "engine_priv.h"
#include "fake_peer.h"
#include "links_priv.h"
#include "qp.h"

#define OTHER_USER  54321 /* an unused UID */
#define CPU_TEST_MS 400

static struct pmd_device device[4];

static unsigned open_descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static struct nic_qp *qp_to_fake(struct end *e, enum nic_qp_type type)
{
	return fake_qp(e, type, e->scq, &e->gid, FAKE_QPN, 14);
}

/* ---- what a consumer answers ------------------------------------------------------------------------------------ */

/** A second PROTO_LINK_TAKEN breaks the link, and the descriptors that it carries are closed. */
static void links__a_second_link_taken_breaks_the_link_and_leaks_no_descriptors(void **state)
{
	struct fake_consumer f;
	struct end a;
	int many[PROTO_FDS_MAX], bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	unsigned before = 0;

	(void)state;
	for (unsigned i = 0; i < PROTO_FDS_MAX; i++)
		many[i] = 1;
	end_open(&a, &device[0]);
	fake_listen(&f, &device[0], FAKE_FUNCTION);
	for (unsigned round = 0; round < 3; round++) {
		struct nic_qp *qp = qp_to_fake(&a, NIC_QPT_UC);
		uint32_t path = nic_qp_path(qp);

		assert_true(path > 0);
		end_destroy_qp(&a, qp);
		fake_take(&f);
		fake_answer(&f, bell);
		assert_int_equal(proto_send(f.fd, PROTO_LINK_TAKEN, NULL, 0, many, PROTO_FDS_MAX), 0);
		fake_upkeep(&a);
		assert_null(a.engine->host.links->out[path]);
		fake_end(&f);
		if (round == 0)
			before = open_descriptors();
	}
	assert_int_equal(open_descriptors(), before);
	pmd_lock(a.engine);
	assert_int_equal(a.engine->host.port->stats.link_broken, 3);
	pmd_unlock(a.engine);
	close(bell);
	fake_close(&f);
	end_close(&a);
}

/** The consumer marks itself as asleep, then a packet for it is sent. */
static void send_to_sleeper(struct end *e, struct nic_qp *qp, struct fake_consumer *f)
{
	const struct nic_send_wr wr = {.opcode = NIC_WR_SEND};

	ring_set_asleep(&f->ring, true);
	pmd_lock(e->engine);
	assert_int_equal(nic_post_send(qp, &wr), 0);
	pmd_doorbell(e->engine);
	pmd_unlock(e->engine);
	assert_true(ring_has_entry(&f->ring));
}

/** @return the i-th of the descriptors that do harm as a bell, because writing to them raises a signal or can block;
 * -1: there are no more. */
static int harmful_bell(unsigned i)
{
	static char junk[65536];
	int p[2];

	if (i == 0) { /* a pipe without a reader: SIGPIPE */
		assert_int_equal(pipe2(p, O_CLOEXEC | O_NONBLOCK), 0);
		close(p[0]);
		return p[1];
	}
	if (i == 1) {
		assert_int_equal(pipe2(p, O_CLOEXEC), 0);
		assert_int_equal(write(p[1], junk, sizeof(junk)), sizeof(junk));
		return p[1]; /* a full pipe whose reading end stays open: write() blocks */
	}
	return i == 2 ? eventfd(0, EFD_CLOEXEC) : -1;
}

/** A consumer whose bell could do harm is woken by a message over its connection (a knock) instead. */
static void links__a_harmful_bell_is_replaced_by_a_knock(void **state)
{
	struct fake_consumer f;
	struct nic_qp *qp;
	struct end a;
	int bell;

	(void)state;
	end_open(&a, &device[0]);
	fake_listen(&f, &device[0], FAKE_FUNCTION);
	for (unsigned i = 0; (bell = harmful_bell(i)) >= 0; i++) {
		qp = qp_to_fake(&a, NIC_QPT_UC);
		fake_take(&f);
		fake_answer(&f, bell);
		fake_upkeep(&a);
		send_to_sleeper(&a, qp, &f);
		assert_true(fake_is_knocked(&f));
		end_destroy_qp(&a, qp);
		fake_end(&f);
		fake_upkeep(&a);
		close(bell);
	}
	fake_close(&f);
	end_close(&a);
}

static void links__a_good_bell_is_rung(void **state)
{
	int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct fake_consumer f;
	struct nic_qp *qp;
	struct end a;

	(void)state;
	end_open(&a, &device[0]);
	fake_listen(&f, &device[0], FAKE_FUNCTION);
	qp = qp_to_fake(&a, NIC_QPT_UC);
	fake_take(&f);
	fake_answer(&f, bell);
	fake_upkeep(&a);
	send_to_sleeper(&a, qp, &f);
	assert_true(fake_readable(bell));
	end_destroy_qp(&a, qp);
	fake_close(&f);
	end_close(&a);
	close(bell);
}

/** A third party drains the bell before the consumer sees it: the requester's retransmission rings it again. */
static void links__a_bell_that_is_lost_is_rung_again(void **state)
{
	int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct fake_consumer f;
	struct nic_qp *qp;
	struct end a;
	uint64_t count;

	(void)state;
	end_open(&a, &device[0]);
	fake_listen(&f, &device[0], FAKE_FUNCTION);
	qp = qp_to_fake(&a, NIC_QPT_RC);
	fake_take(&f);
	fake_answer(&f, bell);
	fake_upkeep(&a);
	send_to_sleeper(&a, qp, &f);
	assert_true(fake_readable(bell));
	assert_int_equal(read(bell, &count, sizeof(count)), sizeof(count));
	assert_true(fake_readable(bell));
	end_destroy_qp(&a, qp);
	fake_close(&f);
	end_close(&a);
	close(bell);
}

/* ---- other users ------------------------------------------------------------------------------------------------ */

/** From now on, this thread connects and listens as user `uid`. @return false if that is not permitted. */
static bool become(uid_t uid)
{
	return syscall(SYS_setresuid, -1, uid, -1) == 0; /* seteuid() would change all threads */
}

/** Open a device that all users may use. */
static void open_to_all(struct end *e)
{
	setenv("UROCE_ALLOW", "all", 1);
	end_open(e, &device[2]);
	unsetenv("UROCE_ALLOW");
}

static void links__a_bell_of_another_user_is_not_rung(void **state)
{
	int bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct fake_consumer f;
	struct nic_qp *qp;
	struct end a;

	(void)state;
	if (geteuid() != 0) {
		print_message("needs root, to be another user\n");
		skip();
	}
	open_to_all(&a);
	assert_true(become(OTHER_USER));
	fake_listen(&f, &device[2], FAKE_FUNCTION);
	assert_true(become(0));
	qp = fake_qp(&a, NIC_QPT_UC, a.scq, &a.gid, FAKE_QPN, 14);
	assert_true(nic_qp_path(qp) > 0);
	fake_take(&f);
	assert_int_equal(f.said.number_at | f.said.number, 0); /* another user is not told how to identify our memory */
	ring_set_welcome(&f.ring, true);
	assert_false(links_may_refer(a.engine->host.links, a.engine->host.links->out[nic_qp_path(qp)]));
	fake_answer(&f, bell);
	fake_upkeep(&a);
	send_to_sleeper(&a, qp, &f);
	assert_true(fake_is_knocked(&f));
	end_destroy_qp(&a, qp);
	fake_close(&f);
	end_close(&a);
	close(bell);
}

static void links__another_user_gets_no_bell(void **state)
{
	struct fake_producer p;
	struct end a;
	PROTO_MSG(m);

	(void)state;
	if (geteuid() != 0) {
		print_message("needs root, to be another user\n");
		skip();
	}
	open_to_all(&a);
	assert_true(become(OTHER_USER));
	fake_hand_over(&p, &a);
	assert_true(become(0));
	assert_int_equal(proto_recv_wait(p.fd, &m, 20000), 1);
	assert_true(proto_msg_is(&m, PROTO_LINK_TAKEN, 0, 0));
	fake_gone(&p);
	fake_hand_over(&p, &a);
	assert_int_equal(proto_recv_wait(p.fd, &m, 20000), 1);
	assert_true(proto_msg_is(&m, PROTO_LINK_TAKEN, 0, 1));
	proto_msg_close(&m);
	fake_gone(&p);
	end_close(&a);
}

/* ---- the owner of an address ------------------------------------------------------------------------------------ */

/** Whether this process is at the other end. Programs that list daemons connect to those of all tests. */
static bool is_from_self(int fd)
{
	struct ucred who;
	socklen_t len = sizeof(who);

	assert_int_equal(getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &who, &len), 0);
	return who.pid == getpid();
}

/** A daemon that does not answer is asked only once in a while, not for each function number and each datagram. */
static void links__a_silent_daemon_is_not_queried_for_each_datagram(void **state)
{
	struct proto_name name;
	unsigned asked = 0;
	struct end a;
	int daemon;

	(void)state;
	pmd_name_daemon(&device[3].gid, &name);
	daemon = proto_listen(&name);
	assert_true(daemon >= 0);
	end_open_inline(&a, &device[0]);
	pmd_lock(a.engine);
	for (uint32_t function = 1; function <= 3; function++)
		for (unsigned i = 0; i < 2; i++)
			assert_int_equal(pmd_links_route(a.engine->host.links, &device[3].gid, function << 16), 0);
	assert_int_equal(a.engine->host.port->stats.link_whois_late, 1);
	pmd_unlock(a.engine);
	for (int fd; (fd = proto_accept(daemon)) >= 0; close(fd))
		asked += is_from_self(fd);
	assert_int_equal(asked, 1);
	end_close(&a);
	close(daemon);
}

/* ---- consumers that do not look --------------------------------------------------------------------------------- */

/** Send packets until the ring to the fake consumer is full. */
static void fill(struct end *e, struct nic_qp *qp)
{
	struct link_out *out = e->engine->host.links->out[nic_qp_path(qp)];
	uint8_t *place;

	pmd_lock(e->engine);
	while (ring_reserve(&out->ring, &place) == 1) {
		end_post_sends(e, qp, 1, 1024);
		assert_int_equal(pmd_links_tx(e->engine->host.links, 1, pmd_now_ns()), 1);
	}
	pmd_unlock(e->engine);
}

/** Consume everything that is in the ring now. */
static void drain(struct fake_consumer *f)
{
	const uint8_t *packet;
	uint32_t kind;
	int len;

	while ((len = ring_peek(&f->ring, &packet, &kind)) > 0)
		ring_pop(&f->ring, (uint32_t)len);
	assert_int_equal(len, 0);
	ring_say_head(&f->ring);
}

/** Whether all posted work requests have been sent. */
static bool all_sent(struct end *e, const struct nic_qp *qp)
{
	bool sent;

	pmd_mutex_lock(&e->engine->lock); /* not pmd_unlock(), which would wake the engine's thread */
	sent = qp->sq.next == qp->sq.head;
	pmd_mutex_unlock(&e->engine->lock);
	return sent;
}

/** A full ring is only retried when a packet is waiting for it, and it does not delay packets to other functions. */
static void links__a_full_ring_is_retried_only_if_needed_and_delays_no_other(void **state)
{
	struct fake_consumer f[2];
	struct nic_qp *qp[2];
	struct end a;

	(void)state;
	end_open_inline(&a, &device[0]);
	for (unsigned i = 0; i < 2; i++) {
		fake_listen(&f[i], &device[0], FAKE_FUNCTION + i);
		qp[i] = fake_qp(&a, NIC_QPT_RC, a.scq, &a.gid, (FAKE_FUNCTION + i) << 16 | 7, 0);
		fake_take(&f[i]);
		fake_answer(&f[i], -1);
		fake_upkeep(&a);
	}
	fill(&a, qp[0]);
	pmd_lock(a.engine);
	assert_int_equal(pmd_links_tx(a.engine->host.links, 32, pmd_now_ns()), 0);
	assert_true(pmd_links_retry(a.engine->host.links) == UINT64_MAX);
	assert_int_equal(a.engine->host.port->stats.link_busy, 0);
	end_post_sends(&a, qp[0], 1, 8);
	assert_int_equal(pmd_links_tx(a.engine->host.links, 32, pmd_now_ns()), 0);
	assert_true(pmd_links_retry(a.engine->host.links) < UINT64_MAX);
	assert_int_equal(a.engine->host.port->stats.link_busy, 1);
	assert_true(pmd_engine_timeout(a.engine, 0, 1) > 0);
	end_post_sends(&a, qp[1], 1, 8);
	assert_int_equal(pmd_engine_timeout(a.engine, 0, 1), 0);
	pmd_unlock(a.engine);
	for (unsigned i = 0; i < 2; i++) {
		end_destroy_qp(&a, qp[i]);
		fake_close(&f[i]);
	}
	end_close(&a);
}

/** A full ring from which the consumer has read something is retried soon, however long ago the producer last checked
 * it. */
static void links__a_full_ring_that_is_read_is_tried_again_soon(void **state)
{
	struct fake_consumer f;
	const uint8_t *packet;
	struct nic_qp *qp;
	struct end a;
	uint64_t now_ns;
	uint32_t kind;
	int len;

	(void)state;
	end_open_inline(&a, &device[0]);
	fake_listen(&f, &device[0], FAKE_FUNCTION);
	qp = fake_qp(&a, NIC_QPT_RC, a.scq, &a.gid, FAKE_QPN, 0);
	fake_take(&f);
	fill(&a, qp);
	len = ring_peek(&f.ring, &packet, &kind);
	assert_true(len > 0 &&
		    len < (int)RING_PACKET_MAX / 2); /* too little: a packet of the maximum length still does not fit */
	ring_pop(&f.ring, (uint32_t)len);
	ring_say_head(&f.ring);
	pmd_lock(a.engine);
	end_post_sends(&a, qp, 1, 8);
	now_ns = pmd_now_ns() + 1000000;
	assert_int_equal(pmd_links_tx(a.engine->host.links, 32, now_ns), 0);
	assert_true(pmd_links_retry(a.engine->host.links) == now_ns + PMD_RETRY_NS);
	pmd_unlock(a.engine);
	end_destroy_qp(&a, qp);
	fake_close(&f);
	end_close(&a);
}

/** A thread on a CPU whose clock is slightly behind must not conclude that a full ring's consumer has been inactive for
 * long. */
static void links__a_cpu_clock_slightly_behind_drops_no_packets(void **state)
{
	struct fake_consumer f;
	struct nic_qp *qp;
	struct end a;
	uint64_t now_ns;

	(void)state;
	end_open_inline(&a, &device[0]);
	fake_listen(&f, &device[0], FAKE_FUNCTION);
	qp = fake_qp(&a, NIC_QPT_RC, a.scq, &a.gid, FAKE_QPN, 14);
	fake_take(&f);
	fill(&a, qp);
	drain(&f);
	fill(&a, qp); /* drain() moved the consumer's head; from now on, the head stands still */
	pmd_lock(a.engine);
	end_post_sends(&a, qp, 1, 8);
	now_ns = pmd_now_ns();
	for (unsigned behind = 0; behind < 100; behind++) {
		assert_int_equal(pmd_links_tx(a.engine->host.links, 32, now_ns - behind), 0);
		assert_int_equal(a.engine->host.port->stats.link_dropped, 0);
	}
	pmd_unlock(a.engine);
	end_destroy_qp(&a, qp);
	fake_close(&f);
	end_close(&a);
}

/** RC packets wait for a stopped function, with retries at growing intervals, and are sent when it continues. */
static void links__a_ring_that_stays_full_is_retried_rarely_and_drops_nothing(void **state)
{
	struct rusage before, after;
	struct fake_consumer f;
	struct nic_qp *qp;
	struct end a;

	(void)state;
	end_open(&a, &device[0]);
	fake_listen(&f, &device[0], FAKE_FUNCTION);
	qp = fake_qp(&a, NIC_QPT_RC, a.scq, &a.gid, FAKE_QPN, 0);
	fake_take(&f);
	fill(&a, qp);
	pmd_lock(a.engine);
	end_post_sends(&a, qp, 1, 8);
	pmd_doorbell(a.engine);
	pmd_unlock(a.engine);
	getrusage(RUSAGE_SELF, &before);
	usleep(CPU_TEST_MS * 1000);
	getrusage(RUSAGE_SELF, &after);
	assert_true(after.ru_nvcsw - before.ru_nvcsw < CPU_TEST_MS);
	pmd_lock(a.engine);
	assert_int_equal(a.engine->host.port->stats.link_dropped, 0);
	pmd_unlock(a.engine);
	assert_false(all_sent(&a, qp));
	while (!all_sent(&a, qp)) {
		drain(&f);
		usleep(1000);
	}
	end_destroy_qp(&a, qp);
	fake_close(&f);
	end_close(&a);
}

/** A datagram for a stopped function is dropped after some time and does not delay later datagrams for ever. */
static void links__a_datagram_to_a_stopped_function_does_not_block_later_ones(void **state)
{
	struct nic_av av = {.dgid = device[0].gid};
	struct nic_send_wr wr = {.opcode = NIC_WR_SEND};
	struct fake_consumer f;
	struct nic_ah *ah;
	struct nic_qp *qp;
	struct end a;

	(void)state;
	end_open(&a, &device[0]);
	fake_listen(&f, &device[0], FAKE_FUNCTION);
	assert_true(fake_route(&a) > 0);
	fake_take(&f);
	fake_answer(&f, -1);
	fake_upkeep(&a);
	qp = fake_qp(&a, NIC_QPT_UD, a.scq, NULL, 0, 0);
	pmd_lock(a.engine);
	assert_int_equal(nic_ah_create(a.pd, &av, &ah), 0);
	wr.ud.ah = ah;
	wr.ud.remote_qpn = FAKE_QPN;
	/* If this loop takes long, some datagrams are already dropped here. */
	while (qp->sq.head - qp->sq.next < 8 && a.engine->host.port->stats.link_dropped == 0) {
		assert_int_equal(nic_post_send(qp, &wr), 0);
		pmd_doorbell(a.engine);
	}
	wr.ud.remote_qpn = nic_qp_num(qp);
	wr.flags = NIC_SEND_SIGNALED;
	assert_int_equal(nic_post_send(qp, &wr), 0);
	pmd_doorbell(a.engine);
	pmd_unlock(a.engine);
	for (unsigned i = 0; i < 200 && !all_sent(&a, qp); i++)
		usleep(100000);
	assert_true(all_sent(&a, qp));
	assert_int_equal(end_wait(&a, a.scq, true).status, NIC_WC_SUCCESS);
	end_destroy_qp(&a, qp);
	pmd_lock(a.engine);
	assert_true(a.engine->host.port->stats.link_dropped > 0);
	nic_ah_destroy(ah);
	pmd_unlock(a.engine);
	fake_close(&f);
	end_close(&a);
}

/** A consumer that ends a link without having taken it is offered no further links: packets to it use the port. After a
 * consumer has ended a link that it had taken, a new link is made, because a new process may have replaced the
 * consumer. */
static void links__a_consumer_that_refuses_a_link_is_offered_no_other(void **state)
{
	struct fake_consumer f;
	struct end a;

	(void)state;
	end_open(&a, &device[0]);
	fake_listen(&f, &device[0], FAKE_FUNCTION);
	assert_true(fake_route(&a) > 0);
	fake_take(&f);
	fake_answer(&f, -1);
	fake_upkeep(&a);
	fake_end(&f);
	fake_upkeep(&a);
	assert_true(fake_route(&a) > 0);
	fake_take(&f);
	fake_end(&f);
	fake_upkeep(&a);
	assert_int_equal(fake_route(&a), 0);
	fake_close(&f);
	end_close(&a);
}

/* ---- a port that is down ---------------------------------------------------------------------------------------- */

static void port_set(struct end *e, bool up)
{
	pmd_lock(e->engine);
	nic_port_set(e->nic, up);
	pmd_unlock(e->engine);
}

static uint64_t cpu_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/** While the port is down, unsent packets cost less than half of a CPU; they are sent when the port is up again. */
static void links__the_engine_sleeps_while_the_port_is_down(void **state)
{
	struct end a, b;
	struct nic_wc wc;
	uint64_t before;

	(void)state;
	ends_open(&a, &device[0], &b, &device[1]);
	assert_true(nic_qp_path(a.qp) > 0);
	port_set(&a, false);
	end_send(&a, NIC_WR_RDMA_WRITE, 8, &b);
	pmd_lock(a.engine);
	assert_false(pmd_links_pending(a.engine->host.links));
	pmd_unlock(a.engine);
	before = cpu_ns();
	usleep(CPU_TEST_MS * 1000);
	assert_true(cpu_ns() - before < CPU_TEST_MS * 1000000ull / 2);
	assert_int_equal(end_poll(&a, a.scq, &wc), 0);
	port_set(&a, true);
	assert_int_equal(end_wait(&a, a.scq, true).status, NIC_WC_SUCCESS);
	end_close(&a);
	end_close(&b);
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links__a_second_link_taken_breaks_the_link_and_leaks_no_descriptors),
		cmocka_unit_test(links__a_harmful_bell_is_replaced_by_a_knock),
		cmocka_unit_test(links__a_good_bell_is_rung),
		cmocka_unit_test(links__a_bell_that_is_lost_is_rung_again),
		cmocka_unit_test(links__a_bell_of_another_user_is_not_rung),
		cmocka_unit_test(links__another_user_gets_no_bell),
		cmocka_unit_test(links__a_silent_daemon_is_not_queried_for_each_datagram),
		cmocka_unit_test(links__a_full_ring_is_retried_only_if_needed_and_delays_no_other),
		cmocka_unit_test(links__a_full_ring_that_is_read_is_tried_again_soon),
		cmocka_unit_test(links__a_cpu_clock_slightly_behind_drops_no_packets),
		cmocka_unit_test(links__a_ring_that_stays_full_is_retried_rarely_and_drops_nothing),
		cmocka_unit_test(links__a_datagram_to_a_stopped_function_does_not_block_later_ones),
		cmocka_unit_test(links__a_consumer_that_refuses_a_link_is_offered_no_other),
		cmocka_unit_test(links__the_engine_sleeps_while_the_port_is_down),
	};

	if (ends_devices(device, 4, NULL) != 4)
		return 1;
	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
