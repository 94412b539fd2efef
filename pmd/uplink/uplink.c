/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uplink.c - opens the DPDK port of a device, and connects functions to the switch between them and the port.
 *
 * The port is the one that a single process can have as its own (port_ethdev.c): it resolves neighbours, answers for
 * the address and carries IP packets. Here the NICs behind it are in other processes.
 *
 * Owns: the port, the pool of packets to send, the switch's thread.
 */
#include <errno.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rte_ethdev.h>
#include <rte_log.h>

#include "clock.h"
#include "packet_socket.h"
#include "pool.h"
#include "port.h"
#include "port_ethdev.h"
#include "uplink_priv.h"
#include "uplink_socket.h"

#define TX_POOL_SIZE 4095 /* what drivers keep in their rings, the port's backlog, what waits for neighbours */

/* ---- opening ------------------------------------------------------------------------------------------------- */

static uint32_t netdev_mtu(const char *name)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq req;
	uint32_t mtu = 0;

	if (fd < 0)
		return 0;
	memset(&req, 0, sizeof(req));
	memcpy(req.ifr_name, name, strnlen(name, sizeof(req.ifr_name) - 1));
	if (name[0] && ioctl(fd, SIOCGIFMTU, &req) == 0 && req.ifr_mtu > 0)
		mtu = (uint32_t)req.ifr_mtu;
	close(fd);
	return mtu;
}

/** The longest IP packet that the port carries: what the interface carries, if there is one, as drivers of interfaces
 *  do not ask it; but not more than the driver can. */
static uint16_t port_mtu(const struct uplink *u, const char *args)
{
	uint32_t mtu = netdev_mtu(u->netdev), frame = pmd_packet_socket_framesz(args);
	struct rte_eth_dev_info info = {0};
	uint16_t own = 0;

	if (rte_eth_dev_get_mtu(u->id, &own) != 0)
		own = 1500;
	if (mtu == 0)
		mtu = own;
	if (rte_eth_dev_info_get(u->id, &info) == 0 && info.max_mtu >= 576 && info.max_mtu < mtu)
		mtu = info.max_mtu;
	if (frame != 0 && frame < mtu)
		mtu = frame;
	return mtu > UINT16_MAX ? UINT16_MAX : (uint16_t)mtu;
}

static int port_open(struct uplink *u, const struct uplink_config *config, char *err, size_t err_len)
{
	struct pmd_device device = {
		.gid = config->gid, .gateway = config->gateway, .prefix_len = config->prefix_len, .vlan = config->vlan};
	char said[160], why[256];
	const struct port_ethdev *port;
	int rc;

	snprintf(device.port, sizeof(device.port), PMD_PORT_ETHDEV "%s", config->args);
	snprintf(device.netdev, sizeof(device.netdev), "%s", config->netdev);
	uplink_socket_unlink(config->args);
	rc = pmd_port_ethdev_open(&device, NIC_MTU_256, u->pool, &u->port, why, sizeof(why));
	if (rc != 0) {
		uplink_eal_complaint(said, sizeof(said));
		snprintf(err, err_len, "%s%s%s%s", why, said[0] ? " (" : "", said, said[0] ? ")" : "");
		return rc;
	}
	port = (const struct port_ethdev *)u->port;
	u->id = port->id;
	u->connects = uplink_socket_connects(config->args);
	u->connect_ns = pmd_now_ns() + UPLINK_CONNECT_NS;
	if (u->connects)
		rte_log_set_level_pattern("pmd.net.memif",
					  RTE_LOG_CRIT); /* each attempt to connect that fails is an error */
	memcpy(u->mac, port->mac, sizeof(u->mac));
	if (u->port->wait_fd < 0)
		u->port->wait_fd = uplink_socket_xdp();
	u->mtu = port_mtu(u, config->args);
	return 0;
}

static void uplink_free(struct uplink *u)
{
	const int fds[] = {u->changed_fd, u->epoll_fd, u->bell_fd};

	for (unsigned i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
		if (fds[i] >= 0)
			close(fds[i]);
	steering_clear(&u->steering);
	pmd_pool_close(u->pool);
	pthread_mutex_destroy(&u->lock);
	free(u);
}

static int uplink_new(const struct uplink_config *config, struct uplink **out)
{
	struct uplink *u = calloc(1, sizeof(*u));
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = UPLINK_FUNCTIONS};

	if (!u)
		return -ENOMEM;
	pthread_mutex_init(&u->lock, NULL);
	u->gid = config->gid;
	snprintf(u->netdev, sizeof(u->netdev), "%s", config->netdev);
	u->netdev_index = if_nametoindex(u->netdev); /* before the driver looks for it: one made meanwhile differs */
	u->up = true;
	u->changed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	u->bell_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	u->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	u->pool = pmd_pool_open(TX_POOL_SIZE);
	if (u->changed_fd < 0 || u->bell_fd < 0 || u->epoll_fd < 0 || !u->pool ||
	    epoll_ctl(u->epoll_fd, EPOLL_CTL_ADD, u->bell_fd, &event) != 0) {
		uplink_free(u);
		return -ENOMEM;
	}
	*out = u;
	return 0;
}

/** Start the thread with all signals blocked: they are the daemon's. */
static int thread_start(struct uplink *u)
{
	sigset_t all, before;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	rc = pthread_create(&u->thread, NULL, uplink_run, u);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -rc;
}

static int uplink_open(const struct uplink_config *config, struct uplink **out, char *err, size_t err_len)
{
	struct uplink *u = NULL;
	int rc = uplink_eal_start(config, err, err_len);

	if (rc != 0)
		return rc;
	rc = uplink_new(config, &u);
	if (rc != 0) {
		snprintf(err, err_len, "no memory for the packets of the uplink");
		return rc;
	}
	rc = port_open(u, config, err, err_len);
	if (rc != 0) {
		uplink_free(u);
		return rc;
	}
	uplink_check_link(u);
	if (u->up)
		pmd_ethdev_announce(u->port);
	uplink_eal_quiet();
	rc = thread_start(u);
	if (rc != 0) {
		snprintf(err, err_len, "no thread for the uplink: %s", strerror(-rc));
		u->port->ops->close(u->port);
		uplink_free(u);
		return rc;
	}
	*out = u;
	return 0;
}

static void ring(const struct uplink *u)
{
	const uint64_t one = 1;

	if (write(u->bell_fd, &one, sizeof(one)) < 0)
		return; /* its count is at the maximum: it has been rung */
}

static void uplink_close(struct uplink *u)
{
	uplink_lock(u);
	u->stop = true;
	ring(u);
	uplink_unlock(u);
	pthread_join(u->thread, NULL);
	for (unsigned n = 0; n < UPLINK_FUNCTIONS; n++) {
		uplink_function_flush(u, n, pmd_now_ns());
		uplink_function_drop(u, n);
	}
	u->port->ops->close(u->port);
	uplink_free(u);
}

/* ---- functions ------------------------------------------------------------------------------------------------ */

static int uplink_attach(struct uplink *u, unsigned n, int theirs[RING_PAIR_FDS])
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = n};
	struct uplink_function *f = &u->functions[n];
	struct ring_pair rings;
	int rc = ring_pair_create(&rings, theirs);

	if (rc != 0)
		return rc;
	uplink_lock(u);
	uplink_function_flush(u, n, pmd_now_ns());
	uplink_function_drop(u, n);
	if (epoll_ctl(u->epoll_fd, EPOLL_CTL_ADD, rings.bell_fd, &event) != 0)
		rc = -errno;
	if (rc == 0) {
		f->rings = rings;
		f->there = true;
		u->active[u->n_active++] = (uint8_t)n;
		if (u->asleep)
			ring_pair_sleep(&f->rings);
	}
	uplink_unlock(u);
	if (rc != 0) {
		ring_pair_close(&rings);
		for (unsigned i = 0; i < RING_PAIR_FDS; i++)
			close(theirs[i]);
	}
	return rc;
}

static void uplink_detach(struct uplink *u, unsigned n)
{
	uplink_lock(u);
	uplink_function_flush(u, n, pmd_now_ns());
	uplink_function_drop(u, n);
	uplink_unlock(u);
}

static int uplink_serve(struct uplink *u, const struct uplink_service *services, unsigned n)
{
	int rc;

	uplink_lock(u);
	rc = steering_set(&u->steering, services, n);
	uplink_unlock(u);
	return rc;
}

/** Add what the driver itself has lost: its counters, and the port's count of a packet socket's losses, start anew or
 * are apart, so that nothing is counted twice. But some drivers count as errors also packets that they did not take,
 * and which the port offers again. */
static void add_driver_losses(const struct uplink *u, struct uplink_stats *stats)
{
	static const char *const count_refused[] = {"net_af_xdp", "net_tap"};
	const struct port_ethdev *port = (const struct port_ethdev *)u->port;
	struct rte_eth_stats driver = {0};
	uint64_t refused = 0;

	if (rte_eth_stats_get(u->id, &driver) != 0)
		return;
	for (unsigned i = 0; i < sizeof(count_refused) / sizeof(count_refused[0]); i++)
		if (strncmp(port->name, count_refused[i], strlen(count_refused[i])) == 0)
			refused = port->refused;
	stats->rx_no_room += driver.imissed + driver.rx_nombuf + uplink_socket_ring_full(u->port->wait_fd);
	stats->tx_errors += driver.oerrors > refused ? driver.oerrors - refused : 0;
}

static void uplink_state(struct uplink *u, struct uplink_state *out)
{
	const struct pmd_port_stats *port;

	uplink_lock(u);
	port = pmd_port_stats_now(u->port);
	*out = (struct uplink_state){.up = u->up, .lost = u->lost, .mtu = u->mtu, .stats = u->stats};
	memcpy(out->mac, u->mac, sizeof(out->mac));
	out->stats.rx_not_ours = port->rx_not_ours;
	out->stats.rx_no_room = port->rx_no_room;
	out->stats.tx_busy = port->tx_busy;
	out->stats.tx_errors += port->tx_errors;
	out->stats.tx_local = port->tx_local;
	out->stats.tx_local_full = port->tx_local_full;
	out->stats.neigh_requests = port->neigh_requests;
	out->stats.neigh_replies = port->neigh_replies;
	out->stats.neigh_failed = port->neigh_failed;
	out->stats.neigh_queue_full = port->neigh_queue_full;
	out->stats.neigh_malformed = port->neigh_malformed;
	add_driver_losses(u, &out->stats);
	uplink_unlock(u);
}

static int uplink_changed_fd(const struct uplink *u)
{
	return u->changed_fd;
}

__attribute__((visibility("default"))) extern const struct uplink_ops uroce_uplink;
const struct uplink_ops uroce_uplink = {
	.version = UPLINK_VERSION,
	.open = uplink_open,
	.close = uplink_close,
	.attach = uplink_attach,
	.detach = uplink_detach,
	.serve = uplink_serve,
	.look = uplink_state,
	.changed_fd = uplink_changed_fd,
};
