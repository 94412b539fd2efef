/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_engine.c - see ring_engine.h. The linker redirects some calls to functions of this file: clock_gettime; the
 * functions that map rings, which here place each ring between guard pages to detect overruns; and the check whether a
 * peer runs as the same user.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "ring.h"
#include "ring_engine.h"
#include "ring_touch.h"
#include "tap.h"

#define GUARD 4096

uint64_t ring_now_ns;
static uint64_t random_state;

void expect_at(bool holds, const char *what, const char *file, int line)
{
	if (holds)
		return;
	fprintf(stderr, "%s:%d: expected: %s\n", file, line, what);
	abort();
}

/* ---- diverted by the linker ----------------------------------------------------------------------------- */

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __real_ring_create(struct ring_producer *p);
int __wrap_ring_create(struct ring_producer *p);
int __real_ring_map(struct ring_consumer *c, int fd);
int __wrap_ring_map(struct ring_consumer *c, int fd);
void __wrap_ring_unmap(uint8_t *memory);
bool __wrap_proto_peer_is_self(int fd);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	if (clock != CLOCK_MONOTONIC || ring_now_ns == 0)
		return __real_clock_gettime(clock, t);
	t->tv_sec = (time_t)(ring_now_ns / 1000000000u);
	t->tv_nsec = (long)(ring_now_ns % 1000000000u);
	return 0;
}

/** Move a mapped ring between guard pages. @return its new address. */
static uint8_t *fence(uint8_t *memory)
{
	uint8_t *room = mmap(NULL, RING_MAP_BYTES + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	expect(room != MAP_FAILED);
	expect(mremap(memory, RING_MAP_BYTES, RING_MAP_BYTES, MREMAP_MAYMOVE | MREMAP_FIXED, room + GUARD) ==
	       room + GUARD);
	return room + GUARD;
}

int __wrap_ring_create(struct ring_producer *p)
{
	int fd = __real_ring_create(p);

	if (fd >= 0)
		p->memory = fence(p->memory);
	return fd;
}

int __wrap_ring_map(struct ring_consumer *c, int fd)
{
	int rc = __real_ring_map(c, fd);

	if (rc == 0)
		c->memory = fence(c->memory);
	return rc;
}

void __wrap_ring_unmap(uint8_t *memory)
{
	touch_forget(memory);
	munmap(memory - GUARD, RING_MAP_BYTES + 2 * GUARD);
}

/** Whether the peer counts as the same user. Every function except the enemy counts as the same user. Only the enemy
 * connects from a named socket. The name of a listening socket ends with the number of its function. */
bool __wrap_proto_peer_is_self(int fd)
{
	struct sockaddr_un sa;
	socklen_t len = sizeof(sa);

	if (getpeername(fd, (struct sockaddr *)&sa, &len) != 0)
		return false;
	return len == sizeof(sa.sun_family) ||
	       (len > 2 && ((const char *)&sa)[len - 2] == '/' && ((const char *)&sa)[len - 1] != '0' + RING_ENEMY);
}

/* ---- engines -------------------------------------------------------------------------------------------- */

void ring_random_start(void)
{
	random_state = 1;
}

void ring_random(void *ctx, void *buf, size_t len)
{
	uint8_t *p = buf;

	(void)ctx;
	for (size_t i = 0; i < len; i++) {
		random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
		p[i] = (uint8_t)(random_state >> 33);
	}
}

static uint32_t route(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn)
{
	const struct ring_engine *r = ctx;

	return pmd_links_route(r->e.host.links, dgid, dest_qpn);
}

static uint32_t source(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn, const struct nic_gid *own,
		       uint32_t claimed)
{
	const struct ring_engine *r = ctx;

	return pmd_links_source(r->e.host.links, dgid, dest_qpn, own, claimed);
}

static unsigned port_rx(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns)
{
	(void)port, (void)frames, (void)n, (void)now_ns;
	return 0;
}

static unsigned port_tx(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns)
{
	(void)frames, (void)now_ns;
	port->stats.tx_packets += n;
	return n;
}

static void port_nothing(struct pmd_port *port)
{
	(void)port;
}

static const struct pmd_port_ops port_ops = {
	.rx_burst = port_rx, .tx_burst = port_tx, .tx_copies = true, .close = port_nothing, .abandon = port_nothing};

static void open_control(struct ring_engine *r)
{
	struct pmd_control *c = calloc(1, sizeof(*c));
	struct proto_name name;
	int ends[2];

	expect(c && socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) == 0);
	r->daemon_fd = ends[1];
	c->daemon.fd = ends[0];
	c->keeper_fd = -1;
	c->function = r->e.host.function;
	c->device.key = r->gids[0];
	c->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	pmd_name_function(&r->gids[0], c->function, &name);
	c->listen.fd = proto_listen(&name);
	c->timer.fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	for (unsigned i = 0; i < CONTROL_VISITORS; i++)
		c->visitors[i].watch.fd = -1;
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		c->sockets[i] = -1;
	expect(c->epoll_fd >= 0 && c->listen.fd >= 0 && c->timer.fd >= 0 && control_watch_all(c) == 0);
	r->e.host.control = c;
}

static void take_back(void *ctx, uint32_t qpn, bool answers, uint32_t key)
{
	const struct ring_engine *r = ctx;

	pmd_links_revoke(r->e.host.links, qpn, answers, key);
}

void ring_engine_open(struct ring_engine *r, unsigned function, const struct nic_gid gids[RING_GIDS])
{
	const struct nic_config config = {.qpn_base = function << 16,
					  .qpn_bits = 16,
					  .random = ring_random,
					  .route = route,
					  .source = source,
					  .revoke = take_back,
					  .ctx = r,
					  .psn_window = 64,
					  .trace_len = 16,
					  .ack_delay_ns = 1000,
					  .limits = {.max_qp = 16}};
	struct nic_event event;
	const char *wrong;

	memset(r, 0, sizeof(*r));
	memcpy(r->gids, gids, sizeof(r->gids));
	pmd_engine_host_init(&r->e);
	r->e.host.function = function;
	pmd_inline_init(&r->e);
	r->e.thread.polled = true;
	r->e.progress = PMD_PROGRESS_INLINE;
	r->port.ops = &port_ops;
	r->port.wait_fd = -1;
	r->e.host.port = &r->port;
	/* No buffer pool is needed: every slot has a buffer, and the port keeps no buffers. */
	for (unsigned i = 0; i < PMD_TX_BURST; i++) {
		r->e.tx.slots[i].data = malloc(NIC_FRAME_MAX);
		expect(r->e.tx.slots[i].data != NULL);
	}
	r->e.tx.ready = PMD_TX_BURST;
	open_control(r);
	expect(nic_create(&config, &r->e.host.nic) == 0 &&
	       pmd_links_open(&r->e.host, r->e.host.control, &r->e.host.links, &wrong) == 0);
	for (unsigned i = 0; i < RING_GIDS; i++)
		expect(nic_gid_set(r->e.host.nic, i, &gids[i]) == 0);
	while (nic_event_next(r->e.host.nic, &event))
		;
	r->e.sleeper.doorbell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	r->e.host.bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	expect(r->e.sleeper.doorbell_fd >= 0 && r->e.host.bell_fd >= 0);
}

void ring_engine_close(struct ring_engine *r)
{
	pmd_links_close(r->e.host.links);
	pmd_tap_close(&r->e.host);
	nic_destroy(r->e.host.nic);
	pmd_control_close(r->e.host.control);
	for (unsigned i = 0; i < PMD_TX_BURST; i++)
		free(r->e.tx.slots[i].data);
	close(r->daemon_fd);
	close(r->e.sleeper.doorbell_fd);
	close(r->e.host.bell_fd);
}

unsigned ring_descriptors(void)
{
	DIR *all = opendir("/proc/self/fd");
	unsigned n = 0;

	expect(all != NULL);
	for (struct dirent *d = readdir(all); d; d = readdir(all)) {
		char what[64] = "";

		/* Skip files and pipes, which the sanitizers open. */
		if (readlinkat(dirfd(all), d->d_name, what, sizeof(what) - 1) > 0 && what[0] != '/' && what[0] != 'p')
			n++;
		n += strncmp(what, "/memfd", 6) == 0;
	}
	closedir(all);
	return n;
}
