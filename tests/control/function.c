/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * function.c - a function in a virtual process: joins like pmd_open, serves like the engine's thread, and executes
 * orders of run.c. Control side, services, links, tools, NIC and UDP port are the real code; this file replaces the
 * rest of the engine: lock, main loop, opening and closing.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ctl.h"
#include "eal.h"
#include "nic_rdm.h"
#include "services.h"
#include "tap.h"
#include "tools.h"

#define FD_HIGH 64

struct ctl_function *ctl_functions[CTL_FUNCTIONS];
unsigned ctl_n_functions;

/* ---- the engine's stand-ins ------------------------------------------------------------------------------- */

struct pmd_clock pmd_clock;
_Thread_local uint64_t pmd_clock_last_ns;

/** Replaces the engine's clock. Keeps no last time, because virtual time goes back when the next seed starts. */
uint64_t pmd_clock_slow(struct pmd_clock *c)
{
	(void)c;
	pmd_clock_last_ns = 0;
	return pmd_clock_monotonic_ns();
}

uint64_t pmd_clock_monotonic_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * VK_S + (uint64_t)t.tv_nsec;
}

int pmd_fd_high(int fd)
{
	int high;

	if (fd < 0)
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, FD_HIGH);
	if (high < 0)
		return fd;
	close(fd);
	return high;
}

void pmd_lock(struct pmd_engine *e)
{
	struct ctl_function *f = (struct ctl_function *)e;

	while (f->locked)
		vk_wait(&f->locked, UINT64_MAX);
	f->locked = true;
}

void pmd_unlock(struct pmd_engine *e)
{
	struct ctl_function *f = (struct ctl_function *)e;

	f->locked = false;
	vk_wake(&f->locked);
}

void pmd_engine_wake(struct pmd_engine *e)
{
	const uint64_t one = 1;

	syscall(SYS_write, e->host.bell_fd, &one, sizeof(one));
}

unsigned udp_rx_burst(struct pmd_port *port, struct nic_rx_frame *frames, unsigned n, uint64_t now_ns)
{
	(void)port, (void)frames, (void)n, (void)now_ns;
	return 0;
}

void pmd_engine_take(struct pmd_engine *e, const struct nic_rx_frame *frame, uint64_t now_ns)
{
	nic_rx(e->host.nic, frame, now_ns);
}

void udp_rx_accepted(struct pmd_port *port, const struct nic_rx_frame *frame)
{
	(void)port, (void)frame;
}

unsigned udp_tx_burst(struct pmd_port *port, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns)
{
	(void)port, (void)frames, (void)now_ns;
	return n;
}

static void engine_random(void *ctx, void *buf, size_t len)
{
	struct ctl_function *f = ctx;
	uint8_t *p = buf;

	for (size_t i = 0; i < len; i++) {
		f->random = f->random * 1664525u + 1013904223u;
		p[i] = (uint8_t)(f->random >> 24);
	}
}

static uint32_t engine_route(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn)
{
	struct ctl_function *f = ctx;

	return pmd_links_route(f->e.host.links, dgid, dest_qpn);
}

static void engine_revoke(void *ctx, uint32_t qpn, bool answers, uint32_t key)
{
	struct ctl_function *f = ctx;

	pmd_links_revoke(f->e.host.links, qpn, answers, key);
}

/* ---- opening ---------------------------------------------------------------------------------------------- */

static int open_port(struct ctl_function *f)
{
	int rc = pmd_control_join(&f->e.device, &f->e.host.control, f->err, sizeof(f->err));

	if (rc != 0)
		return rc;
	f->e.host.function = pmd_control_function(f->e.host.control);
	rc = pmd_port_udp_create(f->e.host.function, &f->e.host.port, f->err, sizeof(f->err));
	if (rc != 0)
		goto no_port;
	rc = pmd_control_sockets(f->e.host.control, f->e.host.port);
	if (rc != 0) {
		snprintf(f->err, sizeof(f->err), "no room for the sockets of the device: %s", strerror(-rc));
		goto no_sockets;
	}
	return 0;

no_sockets:
	f->e.host.port->ops->close(f->e.host.port);
no_port:
	pmd_control_close(f->e.host.control);
	f->e.host.control = NULL;
	f->e.host.port = NULL;
	return rc;
}

static int open_nic(struct ctl_function *f)
{
	const struct nic_config config = {.qpn_base = f->e.host.function << 16,
					  .qpn_bits = 16,
					  .random = engine_random,
					  .route = engine_route,
					  .revoke = engine_revoke,
					  .ctx = f,
					  .psn_window = 64,
					  .trace_len = 16,
					  .limits = {.max_qp = 16,
						     .max_cq = 16,
						     .max_srq = 16,
						     .max_pd = 16,
						     .max_mr = 16,
						     .max_mw = 16,
						     .max_ah = 16}};
	int rc = nic_create(&config, &f->e.host.nic);

	if (rc != 0)
		return rc;
	pmd_control_addresses(f->e.host.control, f->e.host.nic);
	f->e.stages.link_down = !nic_port_is_up(f->e.host.nic);
	f->e.services.next_port = nic_psn_random(f->e.host.nic);
	pmd_tools_serve(&f->e.host);
	return 0;
}

static int open_all(struct ctl_function *f)
{
	const char *wrong;
	int rc = open_port(f);

	if (rc != 0)
		return rc;
	rc = open_nic(f);
	if (rc != 0)
		goto no_nic;
	rc = pmd_links_open(&f->e.host, f->e.host.control, &f->e.host.links, &wrong);
	if (rc != 0)
		goto no_links;
	f->e.sleeper.doorbell_fd = pmd_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	f->e.host.bell_fd = pmd_fd_high(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	if (f->e.sleeper.doorbell_fd >= 0 && f->e.host.bell_fd >= 0)
		return 0;
	rc = -errno;
	close(f->e.sleeper.doorbell_fd);
	close(f->e.host.bell_fd);
	pmd_links_close(f->e.host.links);
no_links:
	nic_destroy(f->e.host.nic);
no_nic:
	f->e.host.port->ops->close(f->e.host.port);
	pmd_control_close(f->e.host.control);
	f->e.host.port = NULL;
	snprintf(f->err, sizeof(f->err), "no NIC, links or bells: %s", strerror(-rc));
	return rc;
}

static void close_all(struct ctl_function *f)
{
	f->stop = true;
	vk_wake(&f->stop);
	pmd_engine_wake(&f->e);
	while (!f->stopped)
		vk_wait(&f->stopped, UINT64_MAX);
	pmd_tools_close(&f->e.host);
	pmd_services_close(&f->e.host);
	pmd_links_close(f->e.host.links);
	pmd_tap_close(&f->e.host);
	nic_destroy(f->e.host.nic);
	f->e.host.port->ops->close(f->e.host.port);
	f->e.host.port = NULL;
	pmd_control_close(f->e.host.control);
	f->e.host.control = NULL;
	close(f->e.sleeper.doorbell_fd);
	close(f->e.host.bell_fd);
}

/* ---- the engine's thread ---------------------------------------------------------------------------------- */

static void take_datagrams(struct ctl_function *f)
{
	struct port_udp *u = (struct port_udp *)f->e.host.port;
	struct vk_datagram d;

	for (unsigned i = 0; i < UDP_SOCKETS; i++)
		for (unsigned n = 0; n < 16 && u->sockets[i].fd >= 0 && vk_udp_take(u->sockets[i].fd, &d); n++)
			ctl_check_datagram(f, &u->sockets[i].gid, &d);
}

static void drain_events(struct ctl_function *f)
{
	struct nic_event event;
	uint64_t count;

	syscall(SYS_read, f->e.host.bell_fd, &count, sizeof(count));
	while (nic_event_next(f->e.host.nic, &event))
		;
}

static void engine_main(void *arg)
{
	struct ctl_function *f = arg;
	uint64_t due_ns = UINT64_MAX;

	while (!f->stop) {
		const int fds[] = {pmd_control_fd(f->e.host.control), f->e.host.bell_fd, f->e.host.port->wait_fd};

		vk_wait_readable(fds, 3, due_ns);
		if (f->stop)
			break;
		pmd_lock(&f->e);
		drain_events(f);
		pmd_control_poll(&f->e.host);
		take_datagrams(f);
		pmd_links_rx(f->e.host.links, 64, pmd_now_ns());
		due_ns = pmd_links_trim(f->e.host.links, pmd_now_ns());
		pmd_unlock(&f->e);
	}
	f->stopped = true;
	vk_wake(&f->stopped);
	vk_wait(NULL, UINT64_MAX);
}

/* ---- the program's thread --------------------------------------------------------------------------------- */

/** Odd ports are TCP ports of the connection manager, even ports are ports of reliable datagrams. */
static uint32_t service_of(uint16_t port)
{
	return proto_service(port % 2 ? NIC_CM_PS_TCP : 0, port);
}

static void do_serve(struct ctl_function *f, uint16_t port)
{
	uint32_t service = service_of(port);

	if (f->n_services == CTL_SERVICES || pmd_engine_serve(&f->e, &service) != 0)
		return;
	f->services[f->n_services++] = service;
	ctl_stats.services++;
	ctl_log("function %u serves %#x", f->index, service);
}

static void do_unserve(struct ctl_function *f, uint16_t port)
{
	for (unsigned i = 0; i < f->n_services; i++) {
		if (f->services[i] != service_of(port))
			continue;
		f->services[i] = f->services[--f->n_services];
		pmd_engine_unserve(&f->e, service_of(port));
		ctl_log("function %u serves %u no more", f->index, port);
		return;
	}
}

static void do_route(struct ctl_function *f, const struct nic_gid *gid, uint32_t qpn)
{
	uint32_t path;

	pmd_lock(&f->e);
	path = pmd_links_route(f->e.host.links, gid, qpn);
	pmd_unlock(&f->e);
	ctl_stats.links += path != 0;
}

/** Does what the fork handler of pmd does in a forked child: close all descriptors. */
static void fork_child(void *arg)
{
	struct ctl_function *f = arg;

	f->e.host.port->ops->abandon(f->e.host.port);
	pmd_links_abandon(f->e.host.links);
	pmd_tools_abandon(&f->e.host);
	pmd_control_abandon(f->e.host.control);
	close(f->e.sleeper.doorbell_fd);
	close(f->e.host.bell_fd);
	if (vk_descriptors(vk_self()) != 0)
		ctl_fail("fork", "a child of function %u has %u descriptors of its parent's", f->index,
			 vk_descriptors(vk_self()));
}

static void child_main(void *arg)
{
	(void)arg;
	vk_sleep(3 * VK_S);
}

static void do_fork(struct ctl_function *f)
{
	pmd_lock(&f->e);
	vk_fork(fork_child, child_main, f);
	pmd_unlock(&f->e);
}

/** Execute order i. @return false: the order was to close the device. */
static bool do_order(struct ctl_function *f, unsigned i)
{
	const struct nic_gid gid = f->commands[i].gid;
	uint32_t arg = f->commands[i].arg;

	switch (f->commands[i].what) {
	case CTL_SERVE:
		do_serve(f, (uint16_t)arg);
		return true;
	case CTL_UNSERVE:
		do_unserve(f, (uint16_t)arg);
		return true;
	case CTL_ROUTE:
		do_route(f, &gid, arg);
		return true;
	case CTL_FORK:
		do_fork(f);
		return true;
	default:
		return false;
	}
}

bool ctl_has_address(const struct ctl_function *f, const struct nic_gid *gid)
{
	struct nic_gid own;

	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (nic_gid_get(f->e.host.nic, i, &own) == 0 && pmd_gid_equal(&own, gid))
			return true;
	return false;
}

static void function_main(void *arg)
{
	struct ctl_function *f = arg;

	f->rc = open_all(f);
	f->joined_ns = vk_now_ns();
	ctl_log("function %u: joined %d %s in %llu ms", f->index, f->rc, f->rc ? f->err : "",
		(unsigned long long)((f->joined_ns - f->began_ns) / VK_MS));
	if (f->rc != 0) {
		f->state = CTL_REFUSED;
		ctl_stats.refused++;
		ctl_check_closed(f);
		return;
	}
	ctl_stats.joins++;
	f->number = f->e.host.function;
	f->key = *pmd_control_key(f->e.host.control);
	f->state = CTL_LIVE;
	vk_thread_start(engine_main, f);
	for (;;) {
		unsigned i = f->next_command % CTL_COMMANDS;

		if (f->next_command == f->n_commands) {
			vk_wait(f, UINT64_MAX);
			continue;
		}
		f->next_command++;
		if (!do_order(f, i))
			break;
	}
	f->state = CTL_CLOSING;
	close_all(f);
	f->state = CTL_CLOSED;
	ctl_check_closed(f);
}

bool ctl_function_order(struct ctl_function *f, enum ctl_command what, const struct nic_gid *gid, uint32_t arg)
{
	unsigned i = f->n_commands % CTL_COMMANDS;

	if (f->n_commands - f->next_command == CTL_COMMANDS)
		return false;
	f->commands[i].what = what;
	f->commands[i].gid = gid ? *gid : (struct nic_gid){0};
	f->commands[i].arg = arg;
	f->n_commands++;
	vk_wake(f);
	return true;
}

struct ctl_function *ctl_function_start(const struct vk_identity *who, const struct ctl_open *open)
{
	struct ctl_function *f;

	if (ctl_n_functions == CTL_FUNCTIONS)
		return NULL;
	f = vk_alloc(sizeof(*f));
	f->index = ctl_n_functions;
	f->random = f->index + 1;
	f->netns = who->netns;
	f->began_ns = vk_now_ns();
	f->e.device.gid = ctl_gid(open->address);
	f->e.device.follow = open->follow;
	if (open->follow != PROTO_FOLLOW_NONE)
		snprintf(f->e.device.netdev, sizeof(f->e.device.netdev), CTL_IFACE);
	pmd_engine_host_init(&f->e);
	f->e.steps.port_deadline_ns = UINT64_MAX;
	f->e.sleeper.wait_set = -1;
	ctl_functions[ctl_n_functions++] = f;
	f->proc = vk_spawn(who, "program", function_main, f);
	ctl_log("function %u: process %d opens %s", f->index, (int)vk_pid(f->proc), open->address);
	return f;
}

void ctl_functions_free(void)
{
	for (unsigned i = 0; i < ctl_n_functions; i++)
		free(ctl_functions[i]);
	ctl_n_functions = 0;
}
