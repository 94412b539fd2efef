/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of pmd/wait.c, thread.c and sleep.c: an application thread that stands in for the engine's, and what it leaves. */
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
static unsigned looks; /* atomic */
static void (*on_look)(struct pmd_port *port);

static unsigned count_looks(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns)
{
	if (on_look)
		on_look(port);
	__atomic_fetch_add(&looks, 1, __ATOMIC_RELAXED);
	return real_ops->rx_burst(port, frames, n, now_ns);
}

/** `look` is called at every look; NULL: the port has no descriptor. */
static void watch_port(struct end *e, void (*look)(struct pmd_port *port))
{
	pthread_mutex_lock(&e->engine->lock);
	real_ops = e->engine->port->ops;
	ops = *real_ops;
	ops.rx_burst = count_looks;
	on_look = look;
	e->engine->port->ops = &ops;
	if (!look)
		e->engine->port->wait_fd = -1;
	pthread_mutex_unlock(&e->engine->lock);
}

/* ---- a thread that waits ---------------------------------------------------------------------------------------- */

struct waiter {
	pthread_t thread;
	struct pmd_engine *engine;
	int fd, rc;
};

static void *wait_for_it(void *arg)
{
	struct waiter *w = arg;

	w->rc = pmd_wait(w->engine, w->fd);
	return NULL;
}

static void waiter_start(struct waiter *w, struct end *e)
{
	*w = (struct waiter){.engine = e->engine, .fd = e->event_fd};
	assert_int_equal(pthread_create(&w->thread, NULL, wait_for_it, w), 0);
}

static void waiter_end(struct waiter *w)
{
	const uint64_t one = 1;
	uint64_t count;

	assert_int_equal(write(w->fd, &one, sizeof(one)), sizeof(one));
	pthread_join(w->thread, NULL);
	assert_int_equal(w->rc, 0);
	assert_int_equal(read(w->fd, &count, sizeof(count)), sizeof(count));
}

/** A port that cannot be waited for is looked at again and again, also by a thread that stands in. */
static void wait__a_port_without_a_descriptor_is_looked_at(void **state)
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
		while (__atomic_load_n(&a.engine->waits, __ATOMIC_RELAXED) == 0)
			usleep(1000);
		before = __atomic_load_n(&looks, __ATOMIC_RELAXED);
		for (unsigned ms = 0; ms < 20000 && __atomic_load_n(&looks, __ATOMIC_RELAXED) - before < 50; ms++)
			usleep(1000);
		assert_true(__atomic_load_n(&looks, __ATOMIC_RELAXED) - before >= 50);
		waiter_end(&w);
		end_close(&a);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(wait__a_port_without_a_descriptor_is_looked_at),
	};

	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
