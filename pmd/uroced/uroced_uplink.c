/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_uplink.c - the daemon's part in an uplink: a DPDK port that all functions of the device share.
 *
 * The port and the switch between it and the functions' rings are in a module (uplink.h), which is loaded only for such
 * a device: they need DPDK's shared libraries. The device has no sockets, so that nothing is steered by the kernel, and
 * no keeper is needed: if the daemon is killed, the next one opens the port anew and hands its functions new rings.
 *
 * The daemon is number 0 of the switch. As with sockets, it gets the packets for numbers that no function has.
 *
 * Owns: daemon.uplink.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <syslog.h>
#include <unistd.h>

#include "engine.h"
#include "roce_ip.h"
#include "uroced_uplink.h"

/* ---- the module ----------------------------------------------------------------------------------------------- */

/** Find the module beside the program: in a build tree in the same folder, else in lib/uroce or lib/TRIPLET/uroce of
 *  the same prefix. @return false: it is not there. */
static bool module_path(char *out, size_t len)
{
	static const char *const ways[] = {"/uroce-uplink.so", "/../" UROCE_LIBDIR "/uroce/uroce-uplink.so"};
	char self[PATH_MAX], *slash;
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (n <= 0)
		return false;
	self[n] = '\0';
	slash = strrchr(self, '/');
	if (!slash)
		return false;
	*slash = '\0';
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (snprintf(out, len, "%s%s", self, ways[i]) < (int)len && access(out, R_OK) == 0)
			return true;
	return false;
}

static const struct uplink_ops *module_load(char *err, size_t err_len)
{
	const struct uplink_ops *ops;
	char path[PATH_MAX + 64];
	void *module;

	if (!module_path(path, sizeof(path))) {
		snprintf(err, err_len,
			 "this uroce has no uplinks (uroce-uplink.so): install the package uroce-uplink, or build with "
			 "DPDK's shared libraries");
		return NULL;
	}
	module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!module) {
		snprintf(err, err_len, "the module for uplinks cannot be loaded: %s", dlerror());
		return NULL;
	}
	ops = dlsym(module, UPLINK_SYMBOL);
	if (ops && ops->version == UPLINK_VERSION)
		return ops;
	snprintf(err, err_len, "%s is of another version of uroce", path);
	return NULL;
}

/* ---- opening -------------------------------------------------------------------------------------------------- */

/** Become number 0 of the switch. */
static int own_rings(struct daemon *d)
{
	struct daemon_uplink *u = d->uplink;
	int fds[RING_PAIR_FDS], rc = u->ops->attach(u->uplink, 0, fds);

	if (rc == 0)
		rc = ring_pair_map(&u->rings, fds);
	if (rc != 0)
		return rc;
	u->has_rings = true;
	ring_pair_sleep(&u->rings);
	return daemon_watch(d, u->rings.bell_fd, EPOLLIN, SOURCE(SOURCE_UPLINK, 0, 0));
}

/** Whether the uplink is open. */
static bool is_open(const struct daemon *d)
{
	return d->uplink && d->uplink->ops;
}

bool uplink_is_up(const struct daemon *d)
{
	return d->uplink->state.up;
}

/** Read a number of an option. @return false: it is none, or not from `least` to `most`. */
static bool number(const char *text, unsigned long least, unsigned long most, unsigned long *out)
{
	char *end;

	if (text[0] < '0' || text[0] > '9')
		return false;
	*out = strtoul(text, &end, 10);
	return !*end && *out >= least && *out <= most;
}

/** Whether an argument of a DPDK device is there, and begins so. */
static bool begins(const char *args, const char *name, const char *value)
{
	for (const char *at = strchr(args, ','); at; at = strchr(at + 1, ','))
		if (strncmp(at + 1, name, strlen(name)) == 0)
			return strncmp(at + 1 + strlen(name), value, strlen(value)) == 0;
	return false;
}

/** Whether the arguments name a file by a relative path: where it is would depend on who starts the daemon, and on
 * whether it is started again. memif's sockets are files if they are not abstract. */
static bool has_relative_path(const char *args)
{
	return (begins(args, "path=", "") && !begins(args, "path=", "/")) ||
	       (begins(args, "socket=", "") && !begins(args, "socket=", "/") && begins(args, "socket-abstract=", "no"));
}

int uplink_configure(struct daemon *d, const struct uplink_options *o, char *err, size_t err_len)
{
	static struct daemon_uplink uplink;
	struct daemon_uplink *u = &uplink;
	unsigned long bits = 0, vlan = 0;
	bool v4 = pmd_gid_is_v4(&d->fixed[0]);

	if (!o->args) {
		if (!o->network && !o->gateway && !o->vlan)
			return 0;
		snprintf(err, err_len, "--network, --gateway and --vlan are for devices with --uplink");
		return -EINVAL;
	}
	if (!o->args[0] || strlen(o->args) >= sizeof(u->args) || d->n_fixed != 1) {
		snprintf(err, err_len, "--uplink takes the arguments of a DPDK device, and --device with one address");
		return -EINVAL;
	}
	if (has_relative_path(o->args)) {
		snprintf(err, err_len, "--uplink: the path in '%.100s' has to begin with /", o->args);
		return -EINVAL;
	}
	if (o->network && !number(o->network, 0, v4 ? 32 : 128, &bits)) {
		snprintf(err, err_len, "--network: '%.16s' is no prefix length", o->network);
		return -EINVAL;
	}
	if (o->vlan && !number(o->vlan, 0, PMD_VLAN_MAX, &vlan)) {
		snprintf(err, err_len, "--vlan: '%.16s' is no VLAN; use 1 to %u", o->vlan, PMD_VLAN_MAX);
		return -EINVAL;
	}
	if (o->gateway && (!pmd_gid_parse(o->gateway, &u->gateway) || pmd_gid_is_v4(&u->gateway) != v4 || bits == 0)) {
		snprintf(err, err_len,
			 "--gateway: '%.64s' is no address of the device's family, or --network is missing",
			 o->gateway);
		return -EINVAL;
	}
	snprintf(u->args, sizeof(u->args), "%s", o->args);
	u->prefix_len = (uint8_t)bits;
	u->vlan = (uint16_t)vlan;
	d->uplink = u;
	return 0;
}

/** The interface in the device's arguments: iface=NAME. */
static void netdev_of(const char *args, char *out, size_t len)
{
	const char *at = strstr(args, "iface=");

	out[0] = '\0';
	if (at)
		snprintf(out, len, "%.*s", (int)strcspn(at + 6, ","), at + 6);
}

int uplink_open(struct daemon *d, char *err, size_t err_len)
{
	struct daemon_uplink *u = d->uplink;
	char netdev[16];
	struct uplink_config config = {.netdev = netdev, .gid = d->fixed[0], .eal = secure_getenv("UROCE_EAL")};
	const struct uplink_ops *ops;
	int rc;

	if (!u)
		return 0;
	config.args = u->args;
	config.gateway = u->gateway;
	config.prefix_len = u->prefix_len;
	config.vlan = u->vlan;
	netdev_of(u->args, netdev, sizeof(netdev));
	ops = module_load(err, err_len);
	if (!ops)
		return -ENOENT;
	rc = ops->open(&config, &u->uplink, err, err_len);
	if (rc != 0)
		return rc;
	u->ops = ops;
	ops->look(u->uplink, &u->state);
	d->port_up = u->state.up;
	d->sockets_known = true; /* there are none */
	rc = own_rings(d);
	if (rc == 0)
		rc = daemon_watch(d, ops->changed_fd(u->uplink), EPOLLIN, SOURCE(SOURCE_UPLINK, 1, 0));
	if (rc != 0)
		snprintf(err, err_len, "no rings to the uplink: %s", strerror(-rc));
	return rc;
}

void uplink_close(struct daemon *d)
{
	struct daemon_uplink *u = d->uplink;

	if (!is_open(d))
		return;
	u->ops->close(u->uplink);
	u->ops = NULL;
	if (u->has_rings)
		ring_pair_close(&u->rings);
}

/* ---- functions ------------------------------------------------------------------------------------------------ */

bool uplink_suits(const struct daemon *d, const struct proto_join *join, char *err, size_t err_len)
{
	char address[PMD_GID_TEXT], vlan[16] = "no VLAN";
	bool same;

	if (!join->uplink[0])
		return true;
	same = uplink_is(d) &&
	       (strcmp(join->uplink, PROTO_UPLINK_ANY) == 0 || strcmp(join->uplink, d->uplink->args) == 0);
	if (same && (join->vlan == 0 || join->vlan == d->uplink->vlan))
		return true;
	pmd_gid_str(&d->key, address, sizeof(address));
	if (same && d->uplink->vlan != 0)
		snprintf(vlan, sizeof(vlan), "VLAN %u", d->uplink->vlan);
	if (same)
		snprintf(err, err_len, "the uplink of %s is in %s, not in VLAN %u; correct or leave out vlan=", address,
			 vlan, join->vlan);
	else if (uplink_is(d))
		snprintf(err, err_len, "the uplink of %s is %s; name that one, or just: uplink", address,
			 d->uplink->args);
	else
		snprintf(err, err_len,
			 "%s is in use as a device without uplink; end the programs that use it, or leave out uplink",
			 address);
	return false;
}

bool uplink_ready_for(struct daemon *d, unsigned n)
{
	struct slot *s = &d->slots[n];

	if (!s->rings_made && !s->rings_sent) {
		s->rings_made = d->uplink->ops->attach(d->uplink->uplink, n, s->rings) == 0;
		d->stats.uplink_no_rings += !s->rings_made;
	}
	return s->rings_made || s->rings_sent;
}

unsigned uplink_describe(struct daemon *d, unsigned n, struct proto_device *out, int *fds)
{
	struct daemon_uplink *u = d->uplink;
	struct slot *s = &d->slots[n];

	if (!is_open(d))
		return 0;
	out->uplink = 1;
	out->mtu = u->state.mtu;
	if (s->rings_sent)
		return 0;
	if (!uplink_ready_for(d, n))
		return 0;
	out->rings = 1;
	memcpy(fds, s->rings, sizeof(s->rings));
	return RING_PAIR_FDS;
}

void uplink_sent(struct daemon *d, unsigned n)
{
	struct slot *s = &d->slots[n];

	if (!s->rings_made)
		return;
	for (unsigned i = 0; i < RING_PAIR_FDS; i++)
		close(s->rings[i]);
	s->rings_made = false;
	s->rings_sent = true;
}

void uplink_detach(struct daemon *d, unsigned n)
{
	if (!is_open(d))
		return;
	uplink_sent(d, n);
	d->slots[n].rings_sent = false;
	d->uplink->ops->detach(d->uplink->uplink, n);
}

void uplink_serve(struct daemon *d)
{
	struct uplink_service *list = NULL;
	unsigned total = 0, n = 0;

	if (!is_open(d))
		return;
	for (unsigned i = 1; i < DAEMON_SLOTS; i++)
		total += d->slots[i].n_services;
	list = calloc(total + 1, sizeof(*list));
	for (unsigned i = 1; list && i < DAEMON_SLOTS; i++)
		for (unsigned k = 0; k < d->slots[i].n_services; k++)
			list[n++] = (struct uplink_service){.service = d->slots[i].services[k], .function = i};
	if (!list || d->uplink->ops->serve(d->uplink->uplink, list, n) != 0)
		d->stats.unsteered_services++;
	free(list);
}

/* ---- the daemon's own packets --------------------------------------------------------------------------------- */

bool uplink_send(struct daemon *d, const uint8_t *packet, uint32_t len)
{
	struct daemon_uplink *u = d->uplink;

	if (!is_open(d) || !u->has_rings || ring_pair_send(&u->rings, packet, len) != 1)
		return false;
	ring_pair_wake(&u->rings);
	return true;
}

static void packet_take(struct daemon *d, const uint8_t *ip, uint32_t len)
{
	uint32_t at = pmd_roce_payload(ip, len);
	int entry = gids_find(d, &d->key);
	struct nic_gid from, to;
	struct sockaddr_in6 name;

	if (at != 0 && entry >= 0) {
		pmd_roce_addresses(ip, &from, &to);
		pmd_gid_sockaddr(&from, 0, &name);
		name.sin6_port = htons((uint16_t)pmd_be16(ip + at - 8)); /* where an IPv4 name has it, too */
		if (cm_datagram(d, (unsigned)entry, ip + at, len - at, &name))
			return;
	}
	d->stats.unowned_datagrams++;
}

/** @return whether there was a packet. */
static bool packet_next(struct daemon *d, struct ring_pair *rings)
{
	uint8_t copy[RING_PACKET_MAX];
	const uint8_t *packet;
	uint32_t kind;
	int len = ring_peek(&rings->in, &packet, &kind);

	if (len <= 0)
		return false;
	memcpy(copy, packet, (size_t)len);
	ring_pop(&rings->in, (uint32_t)len);
	ring_say_head(&rings->in);
	packet_take(d, copy, (uint32_t)len);
	return true;
}

/** Take the packets for numbers without a function: those that are there, at most a full ring. For those that come
 *  meanwhile the bell rings again, as the sleep has already been announced. */
static void rings_drain(struct daemon *d)
{
	struct ring_pair *rings = &d->uplink->rings;

	ring_pair_drain(rings);
	ring_set_asleep(&rings->in, true);
	__atomic_thread_fence(__ATOMIC_SEQ_CST); /* (S) in ring.h */
	for (unsigned i = 0; i < RING_BYTES / RING_LINE && packet_next(d, rings); i++)
		;
}

void uplink_ready(struct daemon *d, unsigned what)
{
	struct daemon_uplink *u = d->uplink;
	uint64_t count;

	if (!is_open(d))
		return;
	if (what == 0) {
		rings_drain(d);
		return;
	}
	if (read(u->ops->changed_fd(u->uplink), &count, sizeof(count)) < 0)
		return; /* already handled */
	u->ops->look(u->uplink, &u->state);
	if (u->state.lost && !d->port_lost)
		syslog(LOG_DAEMON | LOG_NOTICE, "the interface of %s was made anew; so is the port", u->args);
	d->port_lost |= u->state.lost;
	d->retry_ns = daemon_now_ns(); /* gids_sync compares the state, and tells the functions */
}

const struct uplink_state *uplink_look(struct daemon *d)
{
	struct daemon_uplink *u = d->uplink;

	if (!is_open(d))
		return NULL;
	u->ops->look(u->uplink, &u->state);
	return &u->state;
}

void uplink_put(const struct daemon *d, FILE *out)
{
	const struct daemon_uplink *u = d->uplink;
	char gateway[PMD_GID_TEXT] = "";
	const uint8_t *mac;

	if (!is_open(d))
		return;
	mac = u->state.mac;
	fprintf(out, ",\n  \"uplink\": {\"device\": \"");
	for (const char *c = u->args; *c; c++)
		fprintf(out, *c == '"' || *c == '\\' ? "\\%c" : (unsigned char)*c < 0x20 ? "?" : "%c", *c);
	if (!pmd_gid_is_none(&u->gateway))
		pmd_gid_str(&u->gateway, gateway, sizeof(gateway));
	fprintf(out,
		"\", \"mac\": \"%02x:%02x:%02x:%02x:%02x:%02x\", \"mtu\": %u, \"network\": %u, \"gateway\": \"%s\", "
		"\"vlan\": %u}",
		mac[0], mac[1], mac[2], mac[3], mac[4], mac[5], u->state.mtu, u->prefix_len, gateway, u->vlan);
}
