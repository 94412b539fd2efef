/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma_device.c - the devices of this process, and the search for a device by its address or by a route.
 *
 * State: the list of devices seen so far. The configuration is read again if it was last read more than a second ago,
 * or if a search finds no device. A device is opened when it is first used, and stays open, because a connection can
 * outlive its id.
 */
#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "cma.h"

#define FRESH_NS UINT64_C(1000000000)

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cma_device *devices;
static uint64_t looked_ns;

/* ---- the list ---------------------------------------------------------------------------------------- */

static struct cma_device *device_find(const struct pmd_device *pmd)
{
	struct cma_device *d = devices;

	while (d && (strcmp(d->pmd.name, pmd->name) != 0 || memcmp(&d->pmd.gid, &pmd->gid, sizeof(pmd->gid)) != 0 ||
		     strcmp(d->pmd.port, pmd->port) != 0))
		d = d->next;
	return d;
}

/** Mark a device as present. New ones are appended in the order of the configuration, as in the verbs' device list. */
static void device_add(const struct pmd_device *pmd)
{
	struct cma_device *d = device_find(pmd), **at = &devices;

	if (!d) {
		d = calloc(1, sizeof(*d));
		if (!d)
			return;
		d->pmd = *pmd;
		while (*at)
			at = &(*at)->next;
		*at = d;
	}
	d->present = true;
}

static uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/** Read the configuration, if `again` or if it was not read in the last FRESH_NS. devices_lock held. @return whether it
 * was read */
static bool devices_look(bool again)
{
	struct pmd_device *found;
	int n;

	if (!again && looked_ns && now_ns() - looked_ns < FRESH_NS)
		return false;
	found = calloc(PMD_DEVICES_MAX, sizeof(*found));
	n = found ? pmd_devices(found, PMD_DEVICES_MAX) : 0;
	/* If the configuration cannot be read now, the devices that were present stay present. */
	for (struct cma_device *d = devices; d && found && n >= 0; d = d->next)
		d->present = false;
	for (int i = 0; i < n; i++)
		device_add(&found[i]);
	free(found);
	looked_ns = now_ns();
	return true;
}

static void fork_prepare(void)
{
	pthread_mutex_lock(&devices_lock);
}

static void fork_done(void)
{
	pthread_mutex_unlock(&devices_lock);
}

void cma_fork_outer(void)
{
	pthread_atfork(fork_prepare, fork_done, fork_done);
}

static int device_open(struct cma_device *d)
{
	struct pmd_engine *engine;
	int err;

	if (d->engine && !pmd_is_dead(d->engine))
		return 0;
	err = cma_front_open(&d->pmd, &engine);
	if (err)
		return err;
	err = pmd_cm_open(engine, cma_event_from_cm, d, &d->cm);
	if (err) {
		pmd_close(engine);
		return err;
	}
	d->engine = engine;
	return 0;
}

int cma_device_each(int (*fn)(void *arg, struct cma_device *device), void *arg)
{
	int err = 0, none = -ENODEV;

	pthread_mutex_lock(&devices_lock);
	devices_look(false);
	for (struct cma_device *d = devices; d && !err; d = d->next) {
		int rc = d->present ? device_open(d) : -ENODEV;

		if (rc == 0)
			err = fn(arg, d);
		else if (none == -ENODEV)
			none = rc;
		if (rc == 0)
			none = 0;
	}
	pthread_mutex_unlock(&devices_lock);
	return err ? err : none;
}

int cma_device_open_each(int (*fn)(void *arg, struct cma_device *device), void *arg)
{
	int err = 0;

	pthread_mutex_lock(&devices_lock);
	for (struct cma_device *d = devices; d && !err; d = d->next)
		if (d->engine)
			err = fn(arg, d);
	pthread_mutex_unlock(&devices_lock);
	return err;
}

/* ---- a device's addresses ---------------------------------------------------------------------------- */

int cma_device_gid_index(const struct cma_device *d, const struct nic_gid *gid)
{
	struct nic_gid at;

	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (!nic_gid_get(pmd_engine_nic(d->engine), i, &at) && !memcmp(&at, gid, sizeof(at)))
			return (int)i;
	return -1;
}

uint8_t cma_device_mtu(const struct cma_device *d)
{
	return (uint8_t)nic_active_mtu(pmd_engine_nic(d->engine));
}

uint8_t cma_device_ack_delay(const struct cma_device *d)
{
	return (uint8_t)nic_local_ack_delay(pmd_engine_nic(d->engine));
}

static bool is_of_family(const struct nic_gid *gid, int family)
{
	return cma_gid_is_v4(gid) == (family == AF_INET);
}

bool cma_device_address(const struct cma_device *d, int family, struct cma_addr *out)
{
	*out = (struct cma_addr){.family = (uint16_t)family, .gid = d->pmd.gid};
	return is_of_family(&d->pmd.gid, family);
}

/** Get the name of the interface that has an address; "" if no interface has it. */
static void interface_of(const struct nic_gid *gid, char *out, size_t len)
{
	struct ifaddrs *list;
	struct cma_addr at;

	out[0] = '\0';
	if (getifaddrs(&list))
		return;
	for (struct ifaddrs *i = list; i; i = i->ifa_next) {
		if (!i->ifa_addr || cma_addr_from(i->ifa_addr, &at) || memcmp(&at.gid, gid, sizeof(*gid)) != 0)
			continue;
		/* A label may follow the name ("eth0:1"). */
		size_t n = strcspn(i->ifa_name, ":");

		if (n < len) {
			memcpy(out, i->ifa_name, n);
			out[n] = '\0';
		}
		break;
	}
	freeifaddrs(list);
}

/** Whether this host has the address. */
static bool is_ours(const struct nic_gid *gid)
{
	char name[IF_NAMESIZE];

	interface_of(gid, name, sizeof(name));
	return name[0];
}

/** Find a device by an address that is not its configured one. A device that follows its interface (`follow`) can also
 *  have other addresses of the interface. devices_lock held. */
static struct cma_device *find_follower(const struct nic_gid *gid)
{
	char name[sizeof(devices->pmd.netdev)];
	struct cma_device *d;
	bool has = false;

	for (d = devices; d && !(d->present && d->pmd.follow); d = d->next)
		;
	if (!d)
		return NULL;
	interface_of(gid, name, sizeof(name));
	for (d = devices; d && name[0]; d = d->next) {
		if (!d->present || !d->pmd.follow || strcmp(d->pmd.netdev, name) != 0 || device_open(d))
			continue;
		pmd_lock(d->engine);
		has = cma_device_gid_index(d, gid) >= 0;
		pmd_unlock(d->engine);
		if (has)
			return d;
	}
	return NULL;
}

/** devices_lock held. */
static struct cma_device *find_by_gid(const struct nic_gid *gid)
{
	for (struct cma_device *d = devices; d; d = d->next)
		if (d->present && !memcmp(&d->pmd.gid, gid, sizeof(*gid)))
			return d;
	return find_follower(gid);
}

static struct cma_device *find_by_address(const struct cma_addr *addr)
{
	bool looked = devices_look(false);
	struct cma_device *d = find_by_gid(&addr->gid);

	if (!d && !looked && devices_look(true))
		d = find_by_gid(&addr->gid);
	return d;
}

/** End a search: open the device `d` that was found. If `d` is NULL, no device was found: fail with -ENODEV. Unlocks
 *  devices_lock. */
static int found(struct cma_device *d, struct cma_device **out)
{
	int err = d ? device_open(d) : -ENODEV;

	pthread_mutex_unlock(&devices_lock);
	if (!err)
		*out = d;
	return err;
}

bool cma_device_has(const struct cma_addr *addr)
{
	bool has;

	pthread_mutex_lock(&devices_lock);
	has = find_by_address(addr);
	pthread_mutex_unlock(&devices_lock);
	return has;
}

int cma_device_by_address(const struct cma_addr *addr, struct cma_device **out)
{
	pthread_mutex_lock(&devices_lock);
	return found(find_by_address(addr), out);
}

/* ---- routes ------------------------------------------------------------------------------------------ */

/** Get the source address that the kernel uses to reach dst, by connecting a datagram socket to dst. If `src` contains
 *  an address, the socket is first bound to that address. Makes direct system calls, because programs interpose socket
 * functions. */
static int kernel_source(const struct cma_addr *dst, const struct cma_addr *src, struct cma_addr *out)
{
	struct sockaddr_in6 name;
	struct cma_addr at = *src;
	socklen_t len = sizeof(name);
	int err = 0, fd = (int)syscall(SYS_socket, dst->family, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	at.port = 0;
	if (at.family && !cma_addr_is_any(&at) && syscall(SYS_bind, fd, &name, cma_addr_to(&at, &name)))
		err = -errno;
	at = *dst;
	at.port = NIC_UDP_PORT;
	if (!err && syscall(SYS_connect, fd, &name, cma_addr_to(&at, &name)))
		err = -errno;
	if (!err && syscall(SYS_getsockname, fd, &name, &len))
		err = -errno;
	syscall(SYS_close, fd);
	return err ? err : cma_addr_from(&name, out);
}

/** Whether the device sends through the kernel's sockets, by the kernel's routes. */
static bool is_kernels(const struct cma_device *d)
{
	return !strcmp(d->pmd.port, "udp");
}

/** Whether a device is an ethdev device that reaches an address. The kernel does not know the routes of ethdev devices:
 *  such a device reaches an address if the device has a gateway or no subnet, or if the address is in its subnet. */
static bool ethdev_reaches(const struct cma_device *d, const struct nic_gid *gid)
{
	static const struct nic_gid none;
	unsigned bits = d->pmd.prefix_len + (cma_gid_is_v4(gid) ? 96u : 0);

	if (is_kernels(d))
		return false;
	if (!d->pmd.prefix_len || memcmp(&d->pmd.gateway, &none, sizeof(none)) != 0)
		return true;
	for (unsigned i = 0; i < bits && i < 128; i++)
		if ((gid->raw[i / 8] ^ d->pmd.gid.raw[i / 8]) & 0x80 >> i % 8)
			return false;
	return true;
}

/** Find a device for a destination that is an address of this host. Prefer the device that has the address. Otherwise,
 *  take a device that uses the kernel's sockets, because the kernel delivers datagrams between the addresses of the
 * host.
 *  @param loopback whether the kernel would use a loopback address as the source. If true, the device's own address
 *  must be a loopback address too. If false, a device with a loopback address is taken only as a last resort.
 *  devices_lock held. */
static struct cma_device *find_local(const struct cma_addr *dst, bool loopback, struct cma_addr *src)
{
	struct cma_device *d = find_by_gid(&dst->gid), *found = NULL;
	struct cma_addr own;
	bool same;

	if (d) {
		src->gid = dst->gid;
		return d;
	}
	for (d = devices; d; d = d->next) {
		if (!d->present || !is_kernels(d) || !cma_device_address(d, dst->family, &own))
			continue;
		same = cma_addr_is_loopback(&own) == loopback;
		if (!same && (loopback || found))
			continue;
		found = d;
		src->gid = own.gid;
		if (same)
			break;
	}
	return found;
}

/** Find the first ethdev device whose own routes reach the destination. devices_lock held. */
static struct cma_device *find_ethdev(const struct cma_addr *dst, struct cma_addr *src)
{
	struct cma_addr own;

	for (struct cma_device *d = devices; d; d = d->next)
		if (d->present && cma_device_address(d, dst->family, &own) && ethdev_reaches(d, &dst->gid)) {
			src->gid = own.gid;
			return d;
		}
	return NULL;
}

/** Find a device for the wildcard destination, which means this host: any device of the family. devices_lock held. */
static struct cma_device *find_any(int family, struct cma_addr *src)
{
	struct cma_addr own;

	for (struct cma_device *d = devices; d; d = d->next) {
		if (!d->present || !cma_device_address(d, family, &own))
			continue;
		src->gid = own.gid;
		return d;
	}
	return NULL;
}

/** Find the device and the source address by which to reach `dst`. @param at the source address that the kernel would
 *  use; family 0: the kernel has no route. @param src out: the source address. devices_lock held. */
static struct cma_device *find_route(const struct cma_addr *dst, const struct cma_addr *at, struct cma_addr *src)
{
	struct cma_device *d = at->family ? find_by_gid(&at->gid) : NULL;
	bool loopback = at->family && cma_addr_is_loopback(at);

	if (d) {
		src->gid = at->gid;
		src->scope = at->scope;
		return d;
	}
	if (loopback || (at->family && is_ours(&dst->gid)))
		d = find_local(dst, loopback, src);
	return d || loopback ? d : find_ethdev(dst, src);
}

int cma_route_find(const struct cma_addr *dst, struct cma_addr *src, struct cma_device **out)
{
	bool any = cma_addr_is_any(dst), looked;
	struct cma_addr at = {0};
	struct cma_device *d;
	int err = any ? 0 : kernel_source(dst, src, &at);

	src->family = dst->family;
	pthread_mutex_lock(&devices_lock);
	looked = devices_look(false);
	d = any ? find_any(dst->family, src) : find_route(dst, &at, src);
	if (!d && !any && !looked && devices_look(true))
		d = find_route(dst, &at, src);
	if (d || !err)
		return found(d, out);
	/* No ethdev device reaches the destination either: return the kernel's error. */
	pthread_mutex_unlock(&devices_lock);
	return err;
}
