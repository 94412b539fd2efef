/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_links_late.c - pmd/link/links_late.c: links that the consumer does not take. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "engine_priv.h"
#include "fake_peer.h"
#include "links_priv.h"
#include "qp.h"

static struct pmd_device device[1];

/** Pretend that the time for which a target is left alone after it refused a link has passed. */
static void forget_refusals(struct end *e)
{
	pmd_lock(e->engine);
	for (unsigned i = 0; i < ROUTES; i++)
		e->engine->host.links->routes[i].until_ns = 0;
	pmd_unlock(e->engine);
}

static uint32_t withdrawn(struct end *e)
{
	uint32_t n;

	pmd_lock(e->engine);
	n = e->engine->host.links->n_withdrawn;
	pmd_unlock(e->engine);
	return n;
}

/** Whether the engine still waits for a consumer to take a link. */
static bool is_awaited(struct end *e)
{
	bool is;

	pmd_lock(e->engine);
	is = e->engine->host.links->answer_ns != UINT64_MAX;
	pmd_unlock(e->engine);
	return is;
}

static uint64_t late_links(struct end *e)
{
	struct pmd_port_stats stats;

	pmd_lock(e->engine);
	pmd_port_stats_get(e->engine, &stats);
	pmd_unlock(e->engine);
	return stats.link_late;
}

/** Wait until the engine has given up a link because the consumer did not take it. */
static void await_late_link(struct end *e)
{
	for (unsigned i = 0; i < 2000 && late_links(e) == 0; i++)
		usleep(10000);
	assert_int_equal(late_links(e), 1);
}

/** A link that its consumer does not take is withdrawn. A consumer that comes later finds it withdrawn. The UC
 * and UD packets in the link are counted as dropped. Its RC packets are not, because they will be retransmitted. */
static void links__a_link_not_taken_by_the_consumer_is_withdrawn(void **state)
{
	struct nic_send_wr wr = {.opcode = NIC_WR_SEND};
	struct nic_av av = {.dgid = device[0].gid};
	struct ring_consumer late;
	struct fake_consumer f;
	struct nic_qp *qp[3];
	struct nic_ah *ah;
	struct end a;
	PROTO_MSG(m);

	(void)state;
	end_open(&a, &device[0]);
	fake_listen(&f, &device[0], FAKE_FUNCTION);
	qp[0] = fake_qp(&a, NIC_QPT_RC, a.scq, &a.gid, FAKE_QPN, 14);
	qp[1] = fake_qp(&a, NIC_QPT_UC, a.scq, &a.gid, FAKE_QPN, 0);
	qp[2] = fake_qp(&a, NIC_QPT_UD, a.scq, NULL, 0, 0);
	pmd_lock(a.engine);
	assert_int_equal(nic_ah_create(a.pd, &av, &ah), 0);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(nic_post_send(qp[0], &wr), 0);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(nic_post_send(qp[1], &wr), 0);
	wr.ud.ah = ah;
	wr.ud.remote_qpn = FAKE_QPN;
	for (unsigned i = 0; i < 4; i++)
		assert_int_equal(nic_post_send(qp[2], &wr), 0);
	pmd_doorbell(a.engine);
	pmd_unlock(a.engine);
	await_late_link(&a);
	assert_int_equal(nic_qp_path(qp[0]), 0);
	assert_int_equal(a.engine->host.port->stats.link_late_dropped, 7);
	assert_int_equal(fake_route(&a), 0); /* no new link is offered at once */
	assert_true(fake_readable(f.listen_fd));
	f.fd = proto_accept(f.listen_fd);
	assert_int_equal(proto_recv_wait(f.fd, &m, 20000), 1);
	assert_int_equal(ring_map(&late, m.fds[0]), 0);
	proto_msg_close(&m);
	assert_false(ring_take(&late));
	ring_unmap(late.memory);
	for (unsigned i = 0; i < 3; i++)
		end_destroy_qp(&a, qp[i]);
	pmd_lock(a.engine);
	nic_ah_destroy(ah);
	pmd_unlock(a.engine);
	close(f.fd);
	f.fd = -1;
	fake_close(&f);
	end_close(&a);
}

/** A link that the consumer has claimed is kept although its PROTO_LINK_TAKEN is late. */
static void links__a_claimed_link_is_kept_although_its_answer_is_late(void **state)
{
	struct fake_consumer f;
	uint32_t path;
	struct end a;

	(void)state;
	end_open(&a, &device[0]);
	fake_listen(&f, &device[0], FAKE_FUNCTION);
	path = fake_route(&a);
	fake_take(&f);
	for (unsigned i = 0; i < 2000 && is_awaited(&a); i++)
		usleep(10000);
	assert_false(is_awaited(&a));
	assert_int_equal(late_links(&a), 0);
	assert_int_equal(fake_route(&a), path);
	fake_answer(&f, -1);
	fake_upkeep(&a);
	pmd_lock(a.engine);
	assert_true(a.engine->host.links->out[path]->taken);
	pmd_unlock(a.engine);
	fake_close(&f);
	end_close(&a);
}

/** An engine that fetches a ring after its producer has withdrawn it does not read the ring. */
static void links__a_ring_that_was_withdrawn_is_not_read(void **state)
{
	struct fake_producer p;
	struct end a;

	(void)state;
	end_open_inline(&a, &device[0]);
	fake_hand_over(&p, &a);
	assert_int_equal(fake_put(&p, 100), 100);
	assert_true(ring_withdraw(&p.ring));
	while (a.engine->host.port->stats.link_withdrawn == 0)
		fake_upkeep(&a);
	assert_int_equal(a.engine->host.links->n_in, 0);
	assert_int_equal(a.engine->host.port->stats.link_rx_packets, 0);
	assert_int_equal(a.engine->host.port->stats.link_refused, 0);
	fake_gone(&p);
	end_close(&a);
}

/** Leave a withdrawn ring in the listen queue of `f`. */
static void have_withdrawn(struct end *e, struct fake_consumer *f)
{
	end_open(e, &device[0]);
	fake_listen(f, &device[0], FAKE_FUNCTION);
	assert_true(fake_route(e) > 0);
	await_late_link(e);
	assert_int_equal(withdrawn(e), 1);
}

/** The consumer fetches the withdrawn ring and closes the connection, like a real consumer. */
static void fetch_withdrawn(struct fake_consumer *f)
{
	f->fd = proto_accept(f->listen_fd);
	assert_true(f->fd >= 0);
	close(f->fd);
	f->fd = -1;
}

/** Turn away the connections in the queue. A daemon that has just started connects, too, but nobody offers a ring. */
static void expect_no_ring(struct fake_consumer *f)
{
	int fd;

	while ((fd = proto_accept(f->listen_fd)) >= 0) {
		PROTO_MSG(m);

		if (proto_recv_wait(fd, &m, 1000) == 1) {
			assert_int_not_equal(m.type, PROTO_LINK);
			proto_msg_close(&m);
		}
		close(fd);
	}
}

/** While a withdrawn ring with its descriptors is still in the consumer's queue, no second ring is offered. */
static void links__no_second_ring_is_offered_while_a_withdrawn_one_is_queued(void **state)
{
	struct fake_consumer f;
	struct end a;

	(void)state;
	have_withdrawn(&a, &f);
	forget_refusals(&a);
	assert_int_equal(fake_route(&a), 0);
	pmd_lock(a.engine);
	assert_int_equal(pmd_links_make(a.engine->host.links, &a.gid, FAKE_FUNCTION),
			 -EAGAIN); /* forwarded packets get no link, either */
	pmd_unlock(a.engine);
	fetch_withdrawn(&f);
	expect_no_ring(&f); /* only one was in the queue */
	for (unsigned i = 0; i < 2000 && withdrawn(&a) > 0; i++)
		usleep(10000);
	assert_int_equal(withdrawn(&a), 0);
	forget_refusals(&a);
	assert_true(fake_route(&a) > 0);
	fake_close(&f);
	end_close(&a);
}

/** A device is closed while its withdrawn ring is still in a consumer's queue: the connection ends. */
static void links__a_ring_that_was_withdrawn_ends_with_its_device(void **state)
{
	struct fake_consumer f;
	struct end a;

	(void)state;
	have_withdrawn(&a, &f);
	end_close(&a);
	f.fd = proto_accept(f.listen_fd);
	assert_true(f.fd >= 0);
	assert_true(fake_readable(f.fd));
	close(f.fd);
	f.fd = -1;
	fake_close(&f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(links__a_link_not_taken_by_the_consumer_is_withdrawn),
		cmocka_unit_test(links__a_claimed_link_is_kept_although_its_answer_is_late),
		cmocka_unit_test(links__a_ring_that_was_withdrawn_is_not_read),
		cmocka_unit_test(links__no_second_ring_is_offered_while_a_withdrawn_one_is_queued),
		cmocka_unit_test(links__a_ring_that_was_withdrawn_ends_with_its_device),
	};

	if (ends_devices(device, 1, NULL) != 1)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
