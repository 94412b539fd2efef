/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_nic.c - creates the engine's NIC, and implements the callbacks of the NIC (struct nic_config), except those of
 * guard.c. Owns nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "engine_priv.h"
#include "guard.h"
#include "mapped.h"
#include "key.h"
#include "local.h"

static void engine_random(void *ctx, void *buf, size_t len)
{
	struct pmd_engine *e = ctx;

	pmd_random_take(&e->random, buf, len);
}

static uint32_t engine_route(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn)
{
	const struct pmd_engine *e = ctx;

	return pmd_links_route(e->host.links, dgid, dest_qpn);
}

static uint32_t engine_route_known(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn)
{
	const struct pmd_engine *e = ctx;

	return pmd_links_find(e->host.links, dgid, pmd_links_target(dest_qpn));
}

static uint32_t engine_source(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn, const struct nic_gid *own,
			      uint32_t claimed)
{
	const struct pmd_engine *e = ctx;

	return pmd_links_source(e->host.links, dgid, dest_qpn, own, claimed);
}

/** Whether other processes of this host can send from an address through kernel sockets. Always false for a
 *  device with a DPDK port: packets from kernel sockets do not reach it. */
static bool engine_is_local(void *ctx, const struct nic_gid *gid)
{
	const struct pmd_engine *e = ctx;

	return e->host.control && pmd_control_uplink_mtu(e->host.control) == 0 && pmd_local_has(e->host.local, gid);
}

static void engine_revoke(void *ctx, uint32_t qpn, bool answers, uint32_t key)
{
	const struct pmd_engine *e = ctx;

	pmd_links_revoke(e->host.links, qpn, answers, key);
}

static bool engine_untaken(void *ctx, uint32_t path, uint64_t *mark)
{
	const struct pmd_engine *e = ctx;

	return pmd_links_untaken(e->host.links, path, mark);
}

/** Write the pages of a mapped file to the file's medium. */
static bool engine_persist(void *ctx, void *addr, uint64_t len)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)addr & ~(page - 1);

	(void)ctx;
	return msync((void *)start, (uintptr_t)addr + len - start, MS_SYNC) == 0;
}

static void engine_pause(void *ctx)
{
	const struct timespec pause = {0, 20000};
	int cancel;

	(void)ctx;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* no cancellation while the engine is locked */
	nanosleep(&pause, NULL);
	pthread_setcancelstate(cancel, NULL);
}

static uint8_t *engine_tx_room(void *ctx, uint32_t path, uint64_t *now_ns)
{
	const struct pmd_engine *e = ctx;
	uint8_t *room = pmd_links_room(e->host.links, path);

	if (room && now_ns)
		*now_ns = pmd_now_ns();
	return room;
}

static void engine_tx_now(void *ctx, uint32_t path, const struct nic_tx_frame *frame, uint64_t now_ns)
{
	const struct pmd_engine *e = ctx;

	pmd_links_send(e->host.links, path, frame, now_ns);
}

/** Read UROCE_ACK_BACKOFF. The default is 1: ConnectX does not wait longer than the QP's timeout either
 * (docs/answers.md). @return false: the value is not 1, 2 or 4. */
static bool setting_ack_backoff(uint32_t *out)
{
	const char *value = getenv("UROCE_ACK_BACKOFF");

	*out = !value || !value[0] ? 1 : value[1] ? 0 : (uint32_t)(value[0] - '0');
	return *out == 1 || *out == 2 || *out == 4;
}

int pmd_engine_create_nic(struct pmd_engine *e, enum nic_mtu mtu, char *err, size_t err_len)
{
	struct pmd_key key;
	struct nic_config config = {
		.qpn_base = e->host.function << PMD_FUNCTION_QPN_BITS, /* function 0 is the daemon's */
		.qpn_bits = PMD_FUNCTION_QPN_BITS,
		.active_mtu = mtu,
		.psn_window = e->host.port->psn_window,
		.max_inflight = e->host.port->max_inflight,
		.udp_sport = e->host.port->udp_sport,
		.ack_delay_ns = e->host.port->ack_delay_ns,
		.local_ack_delay = 15, /* 134 ms: a process may wait long for a CPU */
		.random = engine_random,
		.route = engine_route,
		.route_known = engine_route_known,
		.source = engine_source,
		.is_local = engine_is_local,
		.revoke = engine_revoke,
		.untaken = engine_untaken,
		.guard = pmd_guard_run,
		.is_mapped = pmd_is_mapped,
		.persist = engine_persist,
		.pause = engine_pause,
		.tx_room = engine_tx_room,
		.tx_now = engine_tx_now,
		.ctx = e,
	};
	struct nic_event event;
	int rc;

	if (!setting_ack_backoff(&config.ack_backoff)) {
		snprintf(err, err_len, "UROCE_ACK_BACKOFF is '%.32s'; use 1, 2 or 4", getenv("UROCE_ACK_BACKOFF"));
		return -EINVAL;
	}
	rc = pmd_key_read(&key, err, err_len);
	if (rc != 0)
		return rc;
	e->host.keyed = key.set;
	if (key.set)
		config.key = key.secret;
	rc = nic_create(&config, &e->host.nic);
	pmd_key_wipe(&key);
	if (rc != 0) {
		snprintf(err, err_len, "no NIC: %s", strerror(-rc));
		return rc;
	}
	if (e->host.control)
		pmd_control_addresses(e->host.control, e->host.nic);
	else
		nic_gid_set(e->host.nic, 0, &e->device.gid);
	e->stages.link_down = !nic_port_is_up(e->host.nic);
	e->services.next_port = nic_psn_random(e->host.nic);
	if (e->host.control)
		pmd_tools_serve(&e->host);
	while (nic_event_next(e->host.nic, &event))
		; /* drop the events of the first GIDs: no application knows the device yet */
	return 0;
}
