/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_wait.c - pmd/engine/wait.c, thread.c and sleep.c: an application thread serves in place of the engine's
 * thread. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "engine_priv.h"
#include "fake_peer.h"
#include "sanitizer.h"

static struct pmd_device device[2];

static void open_with(struct end *e, const char *progress)
{
	setenv("UROCE_PROGRESS", progress, 1);
	end_open(e, &device[0]);
	unsetenv("UROCE_PROGRESS");
}

/* ---- a port that is looked at through the test ------------------------------------------------------------------ */

static const struct pmd_port_ops *real_ops;
static struct pmd_port_ops ops;
static unsigned looks; /* atomic: how often the engine has read the port */
static void (*on_look)(struct pmd_port *port);

static unsigned count_looks(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns)
{
	if (on_look)
		on_look(port);
	__atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);
	return real_ops->rx_burst(port, frames, n, now_ns);
}

/** Count the engine's reads of the port, and call `look` at each. If `look` is NULL, remove the port's descriptor. */
static void watch_port(struct end *e, void (*look)(struct pmd_port *port))
{
	pmd_mutex_lock(&e->engine->lock);
	real_ops = e->engine->host.port->ops;
	ops = *real_ops;
	ops.rx_burst = count_looks;
	on_look = look;
	e->engine->host.port->ops = &ops;
	if (!look)
		__atomic_store_n(&e->engine->host.port->wait_fd, -1, __ATOMIC_RELAXED);
	pmd_mutex_unlock(&e->engine->lock);
}

/* ---- a thread that waits ---------------------------------------------------------------------------------------- */

struct waiter {
	pthread_t thread;
	struct pmd_engine *engine;
	int fd, rc;
	bool ready; /* atomic */
};

static void *wait_for_it(void *arg)
{
	struct waiter *w = arg;

	w->rc = pmd_wait(w->engine, w->fd, &w->ready);
	return NULL;
}

static void waiter_start(struct waiter *w, struct end *e)
{
	*w = (struct waiter){.engine = e->engine, .fd = e->event_fd};
	assert_int_equal(pthread_create(&w->thread, NULL, wait_for_it, w), 0);
}

/** Report the awaited event, like a front-end in which a different thread from the waiter received it. Then wait until
 * the waiter has ended. */
static void waiter_end(struct waiter *w)
{
	pmd_lock(w->engine);
	__atomic_store_n(&w->ready, true, __ATOMIC_RELAXED);
	pmd_unlock(w->engine);
	pthread_join(w->thread, NULL);
	assert_int_equal(w->rc, 0);
}

/** Wait until the waiter sleeps; fail if it does not. */
static void waiter_sleeps(struct waiter *w)
{
	bool asleep = false;

	for (unsigned ms = 0; ms < 20000 && !asleep; ms++) {
		pmd_mutex_lock(&w->engine->lock);
		asleep = w->engine->waiter.asleep;
		pmd_mutex_unlock(&w->engine->lock);
		usleep(1000);
	}
	assert_true(asleep);
}

/** A port without a descriptor to sleep on is read repeatedly during a wait, with or without the engine's thread. */
static void wait__a_port_without_a_descriptor_is_read_repeatedly(void **state)
{
	static const char *const modes[] = {"auto", "inline"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct waiter w;
		struct end a;
		unsigned before;

		open_with(&a, modes[i]);
		watch_port(&a, NULL);
		waiter_start(&w, &a);
		while (__atomic_load_n(&a.engine->waiter.waits, __ATOMIC_RELAXED) == 0)
			usleep(1000);
		before = __atomic_load_n(&looks, __ATOMIC_RELAXED);
		for (unsigned ms = 0; ms < 20000 && __atomic_load_n(&looks, __ATOMIC_RELAXED) - before < 50; ms++)
			usleep(1000);
		assert_true(__atomic_load_n(&looks, __ATOMIC_RELAXED) - before >= 50);
		waiter_end(&w);
		end_close(&a);
	}
}

/* ---- the engine's thread beside it ------------------------------------------------------------------------------ */

/** Wait until the engine's thread sleeps without a deadline. */
static void wait_until_asleep(struct pmd_engine *e)
{
	bool asleep = false;

	for (unsigned ms = 0; ms < 20000 && !asleep; ms++) {
		pmd_mutex_lock(&e->lock);
		asleep = __atomic_load_n(&e->sleeper.wake_ns, __ATOMIC_RELAXED) == UINT64_MAX;
		pmd_mutex_unlock(&e->lock);
		usleep(1000);
	}
	assert_true(asleep);
}

/** The engine's thread wakes to serve, but when it gets the lock, a waiter already serves: the thread must not change
 * the wake-up time that the waiter has set. */
static void wait__a_late_engine_thread_keeps_the_wake_time_of_the_waiter(void **state)
{
	const uint64_t sleeps_until = UINT64_MAX - 1;
	uint64_t said;
	struct end a;

	(void)state;
	open_with(&a, "auto");
	wait_until_asleep(a.engine);
	pmd_mutex_lock(&a.engine->lock);
	pmd_engine_kick(a.engine);
	usleep(50000); /* by now the thread waits for the lock */
	__atomic_store_n(&a.engine->waiter.serves, true, __ATOMIC_SEQ_CST);
	__atomic_store_n(&a.engine->thread.polled, true, __ATOMIC_RELAXED);
	__atomic_store_n(&a.engine->sleeper.wake_ns, sleeps_until, __ATOMIC_RELAXED);
	pmd_mutex_unlock(&a.engine->lock);
	usleep(50000);
	pmd_mutex_lock(&a.engine->lock);
	said = __atomic_load_n(&a.engine->sleeper.wake_ns, __ATOMIC_RELAXED);
	pmd_mutex_unlock(&a.engine->lock);
	__atomic_store_n(&a.engine->waiter.serves, false, __ATOMIC_SEQ_CST);
	pmd_engine_kick(a.engine);
	assert_true(said == sleeps_until);
	end_close(&a);
}

/** The waiter returns and the application does not poll: the engine's thread, which slept during the wait, serves
 * again. */
static void wait__the_engine_thread_serves_again_after_the_waiter_returns(void **state)
{
	const struct nic_send_wr wr = {.opcode = NIC_WR_SEND, .flags = NIC_SEND_SIGNALED};
	struct waiter w;
	struct nic_qp *qp;
	struct nic_wc wc;
	struct end a;

	(void)state;
	open_with(&a, "auto");
	qp = fake_qp(&a, NIC_QPT_RC, a.scq, &device[1].gid, FAKE_QPN, 8); /* a peer that does not exist */
	for (unsigned ms = 0; ms <= 40; ms += 20) {
		wait_until_asleep(a.engine);
		waiter_start(&w, &a);
		while (__atomic_load_n(&a.engine->waiter.waits, __ATOMIC_RELAXED) == ms / 20)
			usleep(100);
		usleep(100 + ms * 1000);
		waiter_end(&w);
	}
	pmd_lock(a.engine);
	nic_cq_arm(a.scq, false);
	assert_int_equal(nic_post_send(qp, &wr), 0);
	pmd_doorbell(a.engine);
	pmd_unlock(a.engine);
	assert_true(fake_readable(a.event_fd));
	assert_int_equal(end_poll(&a, a.scq, &wc), 1);
	assert_int_equal(wc.status, NIC_WC_RETRY_EXC_ERR);
	end_close(&a);
}

/** If a wait lasts longer than the thread's usual slices, the thread sets thread.deep: then the end of the wait wakes
 * it. */
static void wait__the_engine_thread_sets_deep_during_a_longer_wait(void **state)
{
	bool seen = false;
	struct waiter w;
	struct end a;

	(void)state;
	open_with(&a, "auto");
	/* Within 12 ms the thread has not begun to sleep without a deadline. */
	for (unsigned i = 0; i < 200 && !seen; i++) {
		uint64_t end_ns = pmd_now_ns() + 12000000;
		bool deep = false;

		waiter_start(&w, &a);
		for (unsigned ms = 0; ms < 5; ms++) {
			usleep(1000);
			deep |= __atomic_load_n(&a.engine->thread.deep, __ATOMIC_SEQ_CST);
		}
		seen |= deep && pmd_now_ns() < end_ns;
		waiter_end(&w);
	}
	assert_true(seen);
	end_close(&a);
}

/* ---- an event and packets at the same time ---------------------------------------------------------------------- */

static struct fake_producer producer;
static struct end *consumer;

static bool all_ready;	 /* atomic */
static bool all_to_come; /* protected by the lock */

/** Called within a step, after the links were read: a packet arrives, its bell rings, and the awaited event occurs. */
static void all_at_once(struct pmd_port *port)
{
	const uint64_t one = 1;

	(void)port;
	if (!all_to_come || __atomic_load_n(&consumer->engine->waiter.waits, __ATOMIC_RELAXED) == 0)
		return;
	assert_int_equal(fake_put(&producer, 1), 1);
	assert_int_equal(write(consumer->engine->host.bell_fd, &one, sizeof(one)), sizeof(one));
	__atomic_store_n(&all_ready, true, __ATOMIC_RELAXED);
	all_to_come = false;
}

static uint64_t junk_seen(struct end *e)
{
	uint64_t n;

	pmd_mutex_lock(&e->engine->lock);
	n = nic_counters(e->nic)[NIC_CNT_rx_not_roce];
	pmd_mutex_unlock(&e->engine->lock);
	return n;
}

/** A packet that arrives together with the awaited event is received even though its bell has been drained and the
 * waiter has returned. */
static void wait__packets_that_come_with_the_event_are_received(void **state)
{
	struct end a;

	(void)state;
	open_with(&a, "auto");
	consumer = &a;
	fake_hand_over(&producer, &a);
	fake_upkeep(&a);
	fake_upkeep(&a);
	watch_port(&a, all_at_once);
	pmd_mutex_lock(&a.engine->lock);
	all_to_come = true;
	__atomic_store_n(&a.engine->host.port->wait_fd, -1,
			 __ATOMIC_RELAXED); /* so that the port is read in each step */
	pmd_mutex_unlock(&a.engine->lock);
	assert_int_equal(pmd_wait(a.engine, a.event_fd, &all_ready), 0);
	pmd_mutex_lock(&a.engine->lock);
	assert_false(all_to_come);
	pmd_mutex_unlock(&a.engine->lock);
	for (unsigned ms = 0; ms < 20000 && junk_seen(&a) == 0; ms++)
		usleep(1000);
	assert_int_equal(junk_seen(&a), 1);
	fake_gone(&producer);
	end_close(&a);
}

static struct end *sender; /* atomic */

/** Called within a step, after the links were read: the peer sends. */
static void send_once(struct pmd_port *port)
{
	struct end *e = __atomic_exchange_n(&sender, NULL, __ATOMIC_ACQ_REL);

	(void)port;
	if (e)
		end_send(e, NIC_WR_SEND, 8, NULL);
}

/** The waiter polls for 50 us only. If it was interrupted for so long, it sleeps, and nothing makes the peer send. */
static void *send_at_last(void *arg)
{
	usleep(500000);
	send_once(NULL);
	return arg;
}

/** Exchange messages until they go through links. */
static void warm_up(struct end *from, struct end *to)
{
	uint64_t by_links = 0;
	struct nic_wc wc;

	for (unsigned i = 0; i < 10000 && by_links == 0; i++) {
		end_recv(to);
		end_send(from, NIC_WR_SEND, 8, NULL);
		end_wait(to, to->rcq, false);
		while (end_poll(from, from->scq, &wc) == 0)
			pmd_try_progress(to->engine);
		fake_upkeep(from);
		fake_upkeep(to);
		by_links = to->engine->host.port->stats.link_rx_packets;
	}
	assert_true(by_links > 0);
}

/** A thread that polls while it waits sends the ACK of the message that it waited for, before the program continues. */
static void wait__a_spin_ends_with_an_ack(void **state)
{
	pthread_t fallback;
	struct end a, b;

	(void)state;
	open_with(&b, "inline");
	end_open(&a, &device[1]);
	end_connect(&a, &b);
	end_connect(&b, &a);
	warm_up(&a, &b);
	end_recv(&b);
	watch_port(&b, send_once);
	pmd_lock(b.engine);
	nic_cq_arm(b.rcq, false);
	b.event = false;
	b.engine->waiter.spin.shorts = b.engine->waiter.spin.after; /* a spin is due */
	b.engine->steps.port.pause_ns = 0;			    /* and so is a check of the port */
	__atomic_store_n(&sender, &a, __ATOMIC_RELEASE);
	pmd_unlock(b.engine);
	assert_int_equal(pthread_create(&fallback, NULL, send_at_last, NULL), 0);
	assert_int_equal(pmd_wait(b.engine, b.event_fd, &b.event), 0);
	pmd_lock(b.engine);
	assert_false(nic_acks_wait(b.nic));
	pmd_unlock(b.engine);
	end_wait(&a, a.scq, true);
	assert_int_equal(pthread_join(fallback, NULL), 0);
	end_close(&a);
	end_close(&b);
}

/* ---- how a wait ends -------------------------------------------------------------------------------------------- */

/** A program may make its event descriptor non-blocking at any time, even after a thread has slept on it. From then on,
 * pmd_wait() returns -EAGAIN instead of sleeping. */
static void wait__a_nonblocking_descriptor_returns_eagain(void **state)
{
	static const char *const modes[] = {"auto", "inline"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		bool ready = false;
		struct waiter w;
		struct end a;

		open_with(&a, modes[i]);
		waiter_start(&w, &a);
		waiter_sleeps(&w);
		waiter_end(&w);
		fcntl(a.event_fd, F_SETFL, O_NONBLOCK);
		assert_int_equal(pmd_wait(a.engine, a.event_fd, &ready), -EAGAIN);
		ready = true;
		assert_int_equal(pmd_wait(a.engine, a.event_fd, &ready), 0);
		fcntl(a.event_fd, F_SETFL, 0);
		waiter_start(&w, &a);
		waiter_sleeps(&w);
		waiter_end(&w);
		end_close(&a);
	}
}

/** Only one application thread serves. A second one gets -EBUSY and does not disturb the first. */
static void wait__a_second_waiter_gets_ebusy(void **state)
{
	bool ready = false;
	struct waiter w;
	struct end a;

	(void)state;
	open_with(&a, "auto");
	waiter_start(&w, &a);
	waiter_sleeps(&w);
	assert_int_equal(pmd_wait(a.engine, a.event_fd, &ready), -EBUSY);
	waiter_end(&w);
	waiter_start(&w, &a);
	waiter_sleeps(&w);
	waiter_end(&w);
	end_close(&a);
}

/** A cancelled waiter leaves no state behind: the engine's thread serves again, and other threads can wait. */
static void wait__a_cancelled_waiter_leaves_no_state_behind(void **state)
{
	struct fake_producer p;
	struct waiter w;
	struct end a;
	void *ret;

	(void)state;
	SKIP_UNDER_TSAN("does not see what a cancelled thread locks");
	open_with(&a, "auto");
	fake_hand_over(&p, &a);
	fake_upkeep(&a);
	fake_upkeep(&a);
	for (unsigned i = 0; i < 3; i++) {
		waiter_start(&w, &a);
		waiter_sleeps(&w);
		usleep(i * 20000); /* in later rounds the engine's thread sleeps deeply */
		pthread_cancel(w.thread);
		pthread_join(w.thread, &ret);
		assert_ptr_equal(ret, PTHREAD_CANCELED);
		assert_int_equal(fake_put(&p, 1), 1);
		fake_ring(&p, &a);
		for (unsigned ms = 0; ms < 20000 && junk_seen(&a) == i; ms++)
			usleep(1000);
		assert_int_equal(junk_seen(&a), i + 1);
	}
	waiter_start(&w, &a);
	waiter_sleeps(&w);
	waiter_end(&w);
	fake_gone(&p);
	end_close(&a);
}

/* ---- what wakes a waiter ---------------------------------------------------------------------------------------- */

/** The bell of a link with packets wakes the waiter, whether it rings before or after the waiter goes to sleep. */
static void wait__the_bell_wakes_the_waiter_whenever_it_rings(void **state)
{
	static const char *const modes[] = {"auto", "inline"};

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct fake_producer p;
		struct waiter w;
		struct end a;

		open_with(&a, modes[i]);
		fake_hand_over(&p, &a);
		fake_upkeep(&a);
		fake_upkeep(&a);
		waiter_start(&w, &a);
		for (unsigned n = 1; n <= 2000; n++) {
			if (n % 3 == 0)
				usleep(n % 7 * 20);
			assert_int_equal(fake_put(&p, 1), 1);
			fake_ring(&p, &a);
			for (unsigned ms = 0; ms < 20000 && junk_seen(&a) < n; ms++)
				usleep(n % 50 == 0 ? 1000 : 10);
			assert_int_equal(junk_seen(&a), n);
		}
		waiter_end(&w);
		fake_gone(&p);
		end_close(&a);
	}
}

static void look_at_nothing(struct pmd_port *port)
{
	(void)port;
}

/** An address change gives the port another descriptor while a waiter sleeps: the waiter then sleeps on the new one. */
static void wait__the_waiter_sleeps_on_a_new_descriptor_of_the_port(void **state)
{
	const uint64_t one = 1;
	struct waiter w;
	struct end a;
	unsigned before;
	int fd, was;

	(void)state;
	open_with(&a, "inline");
	watch_port(&a, look_at_nothing);
	waiter_start(&w, &a);
	waiter_sleeps(&w);
	fd = eventfd(0, EFD_NONBLOCK);
	pmd_mutex_lock(&a.engine->lock);
	was = a.engine->host.port->wait_fd;
	__atomic_store_n(&a.engine->host.port->wait_fd, fd, __ATOMIC_RELAXED);
	a.engine->host.port->wait_changes++;
	pmd_engine_upkeep(a.engine);
	pmd_mutex_unlock(&a.engine->lock);
	usleep(20000);
	waiter_sleeps(&w);
	before = __atomic_load_n(&looks, __ATOMIC_RELAXED);
	assert_int_equal(write(fd, &one, sizeof(one)), sizeof(one));
	for (unsigned ms = 0; ms < 20000 && __atomic_load_n(&looks, __ATOMIC_RELAXED) - before < 3; ms++)
		usleep(1000);
	assert_true(__atomic_load_n(&looks, __ATOMIC_RELAXED) - before >= 3);
	waiter_end(&w);
	__atomic_store_n(&a.engine->host.port->wait_fd, was, __ATOMIC_RELAXED);
	a.engine->host.port->wait_changes++;
	close(fd);
	end_close(&a);
}

/** Timers expire during a wait, with or without an engine thread. */
static void wait__timers_expire_during_a_wait(void **state)
{
	static const char *const modes[] = {"auto", "inline"};
	const struct nic_send_wr wr = {.opcode = NIC_WR_SEND, .flags = NIC_SEND_SIGNALED};

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		uint64_t retries = 0;
		struct nic_qp *qp;
		struct waiter w;
		struct end a;

		open_with(&a, modes[i % 2]);
		qp = fake_qp(&a, NIC_QPT_RC, a.scq, &device[1].gid, FAKE_QPN, 8);
		waiter_start(&w, &a);
		waiter_sleeps(&w);
		usleep(i / 2 * 40000);
		pmd_lock(a.engine);
		assert_int_equal(nic_post_send(qp, &wr), 0);
		pmd_doorbell(a.engine);
		pmd_unlock(a.engine);
		for (unsigned ms = 0; ms < 20000 && retries < 3; ms++) {
			usleep(1000);
			pmd_mutex_lock(&a.engine->lock);
			retries = nic_counters(a.nic)[NIC_CNT_local_ack_timeout_err];
			pmd_mutex_unlock(&a.engine->lock);
		}
		assert_true(retries >= 3);
		waiter_end(&w);
		end_close(&a);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wait__a_port_without_a_descriptor_is_read_repeatedly),
		cmocka_unit_test(wait__a_late_engine_thread_keeps_the_wake_time_of_the_waiter),
		cmocka_unit_test(wait__the_engine_thread_serves_again_after_the_waiter_returns),
		cmocka_unit_test(wait__the_engine_thread_sets_deep_during_a_longer_wait),
		cmocka_unit_test(wait__packets_that_come_with_the_event_are_received),
		cmocka_unit_test(wait__a_spin_ends_with_an_ack),
		cmocka_unit_test(wait__a_nonblocking_descriptor_returns_eagain),
		cmocka_unit_test(wait__a_second_waiter_gets_ebusy),
		cmocka_unit_test(wait__a_cancelled_waiter_leaves_no_state_behind),
		cmocka_unit_test(wait__the_bell_wakes_the_waiter_whenever_it_rings),
		cmocka_unit_test(wait__the_waiter_sleeps_on_a_new_descriptor_of_the_port),
		cmocka_unit_test(wait__timers_expire_during_a_wait),
	};

	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
