/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.c - engines of this process: open, close, lock, fork.
 *
 * Owns: the list of open engines, each with its NIC, port, packet pool and thread. A thread takes the list's lock
 * before an engine's lock, never after. No thread runs before the first pmd_open.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "devices.h"
#include "eal.h"
#include "engine_priv.h"
#include "guard.h"
#include "local.h"
#include "nic_rdm.h"
#include "points.h"
#include "pool.h"
#include "strays.h"

#define ETHDEV_FUNCTION 1 /* function number of an ethdev device, which has one function and no daemon */

/* Buffers for one TX burst and a few more; on an ethdev also for frames in the device's ring and frames that wait for
 * neighbour resolution. */
#define TX_POOL_SIZE	    127
#define ETHDEV_TX_POOL_SIZE 1023

static struct {
	pthread_mutex_t lock;
	struct pmd_engine *engines;
	bool handlers;	/* fork handlers are registered */
	bool flushes;	/* the exit handler is registered */
	bool counts;	/* pmd_forks_count() was called: count forks even if no engine is open */
	unsigned forks; /* the result of pmd_forks() */
} process = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Disable cancellation and take the list's lock. Opening and closing an engine passes dozens of cancellation points,
 * and a cancelled thread would never release the lock. @return the previous cancellation state, which process_unlock
 * restores. */
static int process_lock(void)
{
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state);
	pthread_mutex_lock(&process.lock);
	return cancel_state;
}

static void process_unlock(int cancel_state)
{
	pthread_mutex_unlock(&process.lock);
	pthread_setcancelstate(cancel_state, NULL);
}

/* ---- lock --------------------------------------------------------------------------------------------------- */

void pmd_lock(struct pmd_engine *e)
{
	pmd_mutex_lock(&e->lock);
}

/** Release the lock, and handle what the caller may have caused while it held the lock: deliver events, and wake the
 *  sleeping thread if it has work, or if a deadline is earlier than the thread's wake-up time. */
void pmd_unlock(struct pmd_engine *e)
{
	bool kick = false;

	if (!e->host.dead) {
		pmd_engine_events(e);
		kick = __atomic_load_n(&e->sleeper.wake_ns, __ATOMIC_RELAXED) && pmd_sleep_is_over(e);
	}
	pmd_mutex_unlock(&e->lock);
	if (kick)
		pmd_engine_wake(e);
}

struct nic *pmd_engine_nic(struct pmd_engine *e)
{
	return e->host.nic;
}

unsigned pmd_engine_function(const struct pmd_engine *e)
{
	return e->host.function;
}

void pmd_port_stats_get(struct pmd_engine *e, struct pmd_port_stats *out)
{
	*out = e->host.dead ? e->host.port->stats : *pmd_port_stats_now(e->host.port);
}

/* ---- fork --------------------------------------------------------------------------------------------------- */

bool pmd_is_dead(const struct pmd_engine *e)
{
	return e->host.dead;
}

unsigned pmd_forks(void)
{
	return __atomic_load_n(&process.forks, __ATOMIC_RELAXED);
}

/* The locks of the list, the engines and the guard are held across fork. So in the child the guarded data is
 * consistent, and the child can release the locks. Of the threads, only the one that forked exists in the child. The
 * child has a copy of DPDK's heap, but the sockets belong to the parent. So engines that were open are dead in the
 * child. */
static void fork_prepare(void)
{
	pthread_mutex_lock(&process.lock);
	for (struct pmd_engine *e = process.engines; e; e = e->next)
		pmd_mutex_lock(&e->lock);
	pmd_guard_fork_prepare();
}

static void fork_parent(void)
{
	pmd_guard_fork_parent();
	for (struct pmd_engine *e = process.engines; e; e = e->next)
		pmd_mutex_unlock(&e->lock);
	pthread_mutex_unlock(&process.lock);
}

static void fork_child(void)
{
	bool counts = process.counts || process.forks;

	pmd_guard_fork_child();
	pmd_clock_forked();
	for (struct pmd_engine *e = process.engines; e; e = e->next) {
		pmd_random_forget(&e->random); /* otherwise the child would generate the same keys as the parent */
		if (!e->host.dead) {
			counts = e->host.dead = true;
			e->host.port->ops->abandon(e->host.port);
			pmd_links_abandon(e->host.links);
			pmd_tools_abandon(&e->host);
			pmd_cm_forked(e->cm);
			pmd_local_abandon(e->host.local);
			if (e->host.control)
				pmd_control_abandon(e->host.control);
			pmd_sleep_close(e);
		}
		pmd_mutex_unlock(&e->lock);
	}
	__atomic_store_n(&process.forks, process.forks + counts, __ATOMIC_RELAXED);
	pthread_mutex_unlock(&process.lock);
}

/* ---- exit --------------------------------------------------------------------------------------------------- */

/* A program may exit right after its last completion, so send requests and ACKs that are held back. Skip an engine that
 * another thread has locked: that thread makes progress itself, or is stuck. */
static void exit_flush(void)
{
	if (pthread_mutex_trylock(&process.lock) != 0)
		return;
	for (struct pmd_engine *e = process.engines; e; e = e->next) {
		if (e->host.dead || !pmd_mutex_trylock(&e->lock))
			continue;
		nic_rdm_no_delay_all(e->host.nic);
		pmd_settle(e);
		pmd_tools_last_words(&e->host);
		pmd_mutex_unlock(&e->lock);
	}
	pthread_mutex_unlock(&process.lock);
}

/** Register the fork handlers. Called before the first engine is opened: then a fork on another thread waits until
 *  pmd_open has finished. process.lock held. */
static void process_handlers(void)
{
	if (process.handlers)
		return;
	process.handlers = true;
	pthread_atfork(fork_prepare, fork_parent, fork_child);
}

/** Register the exit handler when the first engine is opened, not earlier: if it were registered while libraries are
 *  loaded, it would run after the program's own exit handlers, and these may free memory that is still to be sent.
 *  process.lock held. */
static void process_flushes(void)
{
	process.flushes = process.flushes || atexit(exit_flush) == 0;
}

void pmd_fork_handlers(void)
{
	int cancel_state = process_lock();

	process_handlers();
	process_unlock(cancel_state);
}

void pmd_forks_count(void)
{
	int cancel_state = process_lock();

	process_handlers();
	process.counts = true;
	process_unlock(cancel_state);
}

/* ---- open and close ----------------------------------------------------------------------------------------- */

/** Choose the IB MTU by what the device's uplink carries, which only the daemon knows. */
static int engine_uplink_mtu(struct pmd_engine *e, enum nic_mtu *mtu, char *err, size_t err_len)
{
	int rc;

	e->device.netdev_mtu = pmd_control_uplink_mtu(e->host.control);
	rc = pmd_device_mtu(&e->device, getenv("UROCE_MTU"), mtu, err, err_len);
	return rc == 0 ? pmd_device_mtu_fits(&e->device, *mtu, err, err_len) : rc;
}

/** Open the port. If the device is shared by processes, first become one of its functions. */
static int engine_open_port(struct pmd_engine *e, enum nic_mtu *mtu, char *err, size_t err_len)
{
	int rc;

	e->host.function = ETHDEV_FUNCTION;
	if (strncmp(e->device.port, PMD_PORT_ETHDEV, strlen(PMD_PORT_ETHDEV)) == 0)
		return pmd_port_ethdev_open(&e->device, *mtu, e->pool, &e->host.port, err, err_len);
	rc = pmd_control_join(&e->device, &e->host.control, err, err_len);
	if (rc != 0)
		return rc;
	e->host.function = pmd_control_function(e->host.control);
	if (pmd_control_uplink_mtu(e->host.control) == 0)
		rc = pmd_port_udp_create(e->host.function, &e->host.port, err, err_len);
	else if ((rc = engine_uplink_mtu(e, mtu, err, err_len)) == 0)
		rc = pmd_port_uplink_create(&e->host.port, err, err_len);
	if (rc != 0)
		goto no_port;
	rc = pmd_local_open(e->host.control, &e->host.local);
	if (rc != 0) {
		snprintf(err, err_len, "the addresses of this host cannot be listed: %s", strerror(-rc));
		goto no_addresses;
	}
	rc = pmd_control_sockets(e->host.control, e->host.port);
	if (rc != 0) {
		snprintf(err, err_len, "no room for the sockets of the device: %s", strerror(-rc));
		goto no_sockets;
	}
	return 0;

no_sockets:
	pmd_local_close(e->host.local);
no_addresses:
	e->host.port->ops->close(e->host.port);
no_port:
	pmd_control_close(e->host.control);
	e->host.control = NULL;
	return rc;
}

/** Close the port before the function's number is released: the number's next owner must find the sockets unused. */
static void engine_close_port(struct pmd_engine *e)
{
	e->host.port->ops->close(e->host.port);
	PMD_POINT(close_port_closed);
	pmd_local_close(e->host.local);
	if (e->host.control)
		pmd_control_close(e->host.control);
}

static bool engine_stray(void *ctx, const struct nic_rx_frame *frame)
{
	const struct pmd_engine *e = ctx;

	return pmd_strays_take(e->strays, frame);
}

static bool engine_serves(void *ctx, uint16_t service)
{
	const struct pmd_engine *e = ctx;

	return pmd_services_have(&e->host, service);
}

/** Open the links, by which peers on the same host are reached through shared memory. Only for devices that processes
 *  share. */
static int engine_open_links(struct pmd_engine *e, char *err, size_t err_len)
{
	const char *wrong;
	int rc;

	if (!e->host.control)
		return 0;
	rc = pmd_links_open(&e->host, e->host.control, &e->host.links, &wrong);
	if (rc == -EINVAL)
		snprintf(err, err_len, "%s is '%.32s'; use on or off", wrong, getenv(wrong));
	else if (rc != 0)
		snprintf(err, err_len, "no links: %s", strerror(-rc));
	if (rc != 0)
		return rc;
	e->strays = pmd_strays_open(&e->host);
	if (!e->strays) {
		pmd_links_close(e->host.links);
		snprintf(err, err_len, "out of memory");
		return -ENOMEM;
	}
	e->host.port->stray = engine_stray;
	e->host.port->serves = engine_serves;
	e->host.port->ctx = e;
	return 0;
}

static void engine_free_slots(struct pmd_engine *e)
{
	for (unsigned i = e->tx.first; i < e->tx.ready; i++)
		pmd_pool_give(e->pool, e->tx.slots[i].cookie);
}

bool pmd_progress_is_inline(void)
{
	const char *value = getenv("UROCE_PROGRESS");

	return value && strcmp(value, "inline") == 0;
}

static int engine_progress_mode(struct pmd_engine *e, char *err, size_t err_len)
{
	static const char *const names[] = {"auto", "thread", "pinned", "inline"};
	const char *value = getenv("UROCE_PROGRESS");

	if (!value || !value[0])
		return 0;
	for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		if (strcmp(value, names[i]) == 0) {
			e->progress = (enum pmd_progress_mode)i;
			return 0;
		}
	}
	snprintf(err, err_len, "UROCE_PROGRESS is '%.32s'; use auto, thread, pinned or inline", value);
	return -EINVAL;
}

/** Open the engine's parts in order of dependency. */
static int engine_start(struct pmd_engine *e, char *err, size_t err_len)
{
	bool ethdev = strncmp(e->device.port, PMD_PORT_ETHDEV, strlen(PMD_PORT_ETHDEV)) == 0;
	enum nic_mtu mtu;
	int rc = pmd_device_mtu(&e->device, getenv("UROCE_MTU"), &mtu, err, err_len);

	if (rc == 0)
		rc = engine_progress_mode(e, err, err_len);
	if (rc == 0)
		rc = pmd_eal_start(err, err_len);
	if (rc != 0)
		return rc;
	rc = pmd_random_open(&e->random);
	if (rc != 0) {
		snprintf(err, err_len, "the kernel gives no random numbers for keys (getrandom): %s", strerror(-rc));
		return rc;
	}
	e->pool = pmd_pool_open(ethdev ? ETHDEV_TX_POOL_SIZE : TX_POOL_SIZE);
	if (!e->pool || !pmd_engine_tx_refill(e)) {
		snprintf(err, err_len, "%s", pmd_pool_shortage);
		rc = -ENOMEM;
		goto no_pool;
	}
	rc = engine_open_port(e, &mtu, err, err_len);
	if (rc != 0)
		goto no_port;
	rc = pmd_engine_create_nic(e, mtu, err, err_len);
	if (rc != 0)
		goto no_nic;
	rc = engine_open_links(e, err, err_len);
	if (rc != 0)
		goto no_links;
	rc = pmd_sleep_open(e);
	if (rc != 0) {
		snprintf(err, err_len, "no eventfd: %s", strerror(-rc));
		goto no_bells;
	}
	pmd_guard_reinstall();
	rc = pmd_thread_start(e);
	if (rc != 0) {
		snprintf(err, err_len, "no thread: %s", strerror(-rc));
		goto no_thread;
	}
	err[0] = '\0';
	return 0;

no_thread:
	pmd_sleep_close(e);
no_bells:
	pmd_links_close(e->host.links);
	pmd_strays_close(e->strays);
no_links:
	nic_destroy(e->host.nic);
no_nic:
	engine_close_port(e);
no_port:
	engine_free_slots(e);
no_pool:
	pmd_pool_close(e->pool);
	return rc;
}

/** A forked child cannot open a DPDK port that was open in its parent: the child's copy of DPDK still has that port,
 *  and the port belongs to the parent. */
static int engine_may_open(const struct pmd_device *device, char *err, size_t err_len)
{
	if (strncmp(device->port, PMD_PORT_ETHDEV, strlen(PMD_PORT_ETHDEV)) != 0)
		return 0;
	for (const struct pmd_engine *e = process.engines; e; e = e->next) {
		if (!e->host.dead || strcmp(e->device.port, device->port) != 0)
			continue;
		snprintf(err, err_len, "%s was open when this process was forked; open it in the child only, or exec",
			 device->port);
		return -ENODEV;
	}
	return 0;
}

int pmd_open(const struct pmd_device *device, pmd_event_fn on_event, void *event_ctx, struct pmd_engine **out,
	     char *err, size_t err_len)
{
	struct pmd_engine *e;
	int cancel_state, rc = 0;

	cancel_state = process_lock();
	process_handlers();
	process_flushes();
	rc = engine_may_open(device, err, err_len);
	for (e = rc == 0 ? process.engines : NULL; e; e = e->next)
		if (!e->host.dead && memcmp(&e->device.gid, &device->gid, sizeof(device->gid)) == 0 &&
		    strcmp(e->device.port, device->port) == 0)
			break;
	if (rc != 0) {
		e = NULL;
	} else if (e) {
		e->refs++;
	} else if (!(e = calloc(1, sizeof(*e)))) {
		snprintf(err, err_len, "out of memory");
		rc = -ENOMEM;
	} else {
		pmd_engine_host_init(e);
		e->device = *device;
		e->on_event = on_event;
		e->event_ctx = event_ctx;
		e->refs = 1;
		pmd_inline_init(e);
		pmd_wait_init(e);
		rc = engine_start(e, err, err_len);
		if (rc != 0) {
			pmd_random_forget(&e->random);
			free(e);
			e = NULL;
		} else {
			e->next = process.engines;
			process.engines = e;
		}
	}
	process_unlock(cancel_state);
	*out = e;
	return rc;
}

void pmd_close(struct pmd_engine *engine)
{
	struct pmd_engine **link;
	int cancel_state = process_lock();

	if (engine->host.dead || --engine->refs > 0) {
		process_unlock(cancel_state);
		return;
	}
	for (link = &process.engines; *link != engine; link = &(*link)->next)
		;
	*link = engine->next;
	/* Keep the list's lock until the end: another thread that opens the same device now must find the device's
	 * address free. */
	pmd_thread_stop(engine);
	PMD_POINT(close_begun);
	pmd_tools_close(&engine->host);
	pmd_cm_ports_close(engine);
	pmd_services_close(&engine->host);
	pmd_links_close(engine->host.links);
	pmd_strays_close(engine->strays);
	PMD_POINT(close_unlinked);
	pmd_tap_close(&engine->host);
	pmd_cm_close(engine->cm);
	nic_destroy(engine->host.nic);
	engine_close_port(engine);
	engine_free_slots(engine);
	pmd_pool_close(engine->pool);
	pmd_sleep_close(engine);
	process_unlock(cancel_state);
	pmd_random_forget(&engine->random);
	free(engine);
}
