/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * devices.c - the list of devices: from UROCE_DEVICES, or one per usable IPv4 address of the network namespace.
 *
 *   UROCE_DEVICES = entry { separator entry }          separators: blanks, commas, semicolons
 *   entry         = where { "/" option }
 *   where         = IPv4 address | IPv6 address | "[" IPv6 address "]" | interface name
 *   option        = prefix length | "gw=" address | "vlan=" number | "ethdev=" DPDK device arguments
 *                 | "uplink=" DPDK device arguments | "uplink"
 *
 * `ethdev=` and `uplink=` must come last: the value contains commas and slashes, and extends to the next blank or
 * semicolon. `uplink` alone stands for the uplink that the device's daemon has.
 *   UROCE_DEVICES="127.0.0.1,127.0.0.2"                two devices on kernel UDP sockets
 *   UROCE_DEVICES="10.0.0.1/24/gw=10.0.0.254/ethdev=net_af_packet0,iface=veth0"
 *
 * An entry with an address defines a device with that GID. An entry with an interface defines a device with all
 * addresses of the interface, IPv4 first; when the interface's addresses change, so do the device's. With ethdev=
 * or uplink=, an interface stands for its first address. Without UROCE_DEVICES each IPv4 address of an interface that
 * is up is a device, except loopback addresses (127.0.0.1 is, if there is no other), and the device of the first IPv4
 * address of an interface has the interface's IPv6 addresses as well.
 *
 * Owns nothing; starts nothing. Does not check that an address can be bound: that is checked when the device is opened.
 */
#include <ctype.h>
#include <errno.h>
#include <ifaddrs.h>
#include <linux/if_packet.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "devices.h"
#include "filesize.h"
#include "kernel_calls.h"
#include "proto.h"

/** Whether an address is in the subnet of an interface's address. */
static bool gid_in_network(const struct nic_gid *gid, const struct ifaddrs *ifa)
{
	struct nic_gid net, mask;

	if (!ifa->ifa_netmask || !pmd_gid_from_sockaddr(ifa->ifa_addr, &net))
		return false;
	if (pmd_gid_is_v4(&net) != pmd_gid_is_v4(gid) || !pmd_gid_from_sockaddr(ifa->ifa_netmask, &mask))
		return false;
	for (int i = pmd_gid_is_v4(gid) ? 12 : 0; i < 16; i++)
		if ((gid->raw[i] ^ net.raw[i]) & mask.raw[i])
			return false;
	return true;
}

/** Make a locally administered EUI-64 from an FNV-1a hash of the address and the MAC. */
static uint64_t device_guid(const struct pmd_device *d)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (unsigned i = 0; i < sizeof(d->gid.raw); i++)
		h = (h ^ d->gid.raw[i]) * 0x100000001b3u;
	for (unsigned i = 0; i < sizeof(d->mac); i++)
		h = (h ^ d->mac[i]) * 0x100000001b3u;
	return (h & ~(0xffull << 56)) | (0x02ull << 56);
}

static void netdev_query(struct pmd_device *d)
{
	struct ifreq req;
	int fd = kernel_socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	memset(&req, 0, sizeof(req));
	memcpy(req.ifr_name, d->netdev, sizeof(d->netdev));
	if (ioctl(fd, SIOCGIFMTU, &req) == 0 && req.ifr_mtu > 0)
		d->netdev_mtu = (uint32_t)req.ifr_mtu;
	if (ioctl(fd, SIOCGIFHWADDR, &req) == 0)
		memcpy(d->mac, req.ifr_hwaddr.sa_data, sizeof(d->mac));
	close(fd);
}

/** Take the interface from the iface= argument of the device's DPDK arguments. */
static void netdev_from_devargs(struct pmd_device *d)
{
	const char *arg = strstr(d->port, "iface=");
	size_t n;

	if (!arg)
		return;
	arg += strlen("iface=");
	n = strcspn(arg, ",");
	if (n > 0 && n < sizeof(d->netdev)) {
		memcpy(d->netdev, arg, n);
		d->netdev[n] = '\0';
	}
}

/** Set the interface name from an address label such as "eth0:1". */
static void netdev_set(struct pmd_device *d, const char *label)
{
	snprintf(d->netdev, sizeof(d->netdev), "%.*s", (int)strcspn(label, ":"), label);
}

void pmd_device_fill_netdev(struct pmd_device *d)
{
	struct ifaddrs *list = NULL;
	struct nic_gid gid;

	if (strcmp(d->port, "udp") != 0) {
		netdev_from_devargs(d);
	} else if (getifaddrs(&list) == 0) {
		for (struct ifaddrs *i = list; i && !d->netdev[0]; i = i->ifa_next)
			if (pmd_gid_from_sockaddr(i->ifa_addr, &gid) && memcmp(&gid, &d->gid, sizeof(gid)) == 0)
				netdev_set(d, i->ifa_name);
		/* Addresses like 127.0.0.2 are assigned to no interface, but reach lo. */
		for (struct ifaddrs *i = list; i && !d->netdev[0]; i = i->ifa_next)
			if ((i->ifa_flags & IFF_LOOPBACK) && gid_in_network(&d->gid, i))
				netdev_set(d, i->ifa_name);
		freeifaddrs(list);
	}
	if (d->netdev[0])
		netdev_query(d);
	d->node_guid = device_guid(d);
}

/** Find the first address of an interface: IPv4 before IPv6, global before link-local. */
static bool gid_of_interface(const char *name, struct nic_gid *out)
{
	struct ifaddrs *list = NULL;
	struct nic_gid gid;
	int best = 0;

	if (getifaddrs(&list) != 0)
		return false;
	for (struct ifaddrs *i = list; i; i = i->ifa_next) {
		int rank;

		if (!pmd_label_is_of(i->ifa_name, name) || !pmd_gid_from_sockaddr(i->ifa_addr, &gid))
			continue;
		rank = pmd_gid_is_v4(&gid) ? 3 : gid.raw[0] == 0xfe && (gid.raw[1] & 0xc0) == 0x80 ? 1 : 2;
		if (rank > best) {
			best = rank;
			*out = gid;
		}
	}
	freeifaddrs(list);
	return best > 0;
}

static int parse_option(char *option, struct pmd_device *d, char *err, size_t err_len)
{
	char *end;
	unsigned long bits;

	if (strncmp(option, "gw=", 3) == 0) {
		if (!pmd_gid_parse(option + 3, &d->gateway) || pmd_gid_is_v4(&d->gateway) != pmd_gid_is_v4(&d->gid)) {
			snprintf(err, err_len, "UROCE_DEVICES: '%s' names no gateway of the device's address family",
				 option);
			return -EINVAL;
		}
		return 0;
	}
	if (strncmp(option, "vlan=", 5) == 0) {
		bits = strtoul(option + 5, &end, 10);
		if (!isdigit((unsigned char)option[5]) || *end || bits == 0 || bits > PMD_VLAN_MAX) {
			snprintf(err, err_len, "UROCE_DEVICES: '%s' names no VLAN; use 1 to %u", option, PMD_VLAN_MAX);
			return -EINVAL;
		}
		d->vlan = (uint16_t)bits;
		return 0;
	}
	bits = strtoul(option, &end, 10);
	if (!isdigit((unsigned char)option[0]) || *end || bits == 0 || bits > (pmd_gid_is_v4(&d->gid) ? 32 : 128)) {
		snprintf(err, err_len,
			 "UROCE_DEVICES: '%s' is no option; use a prefix length, gw=ADDRESS, vlan=NUMBER, "
			 "ethdev=ARGUMENTS or uplink=ARGUMENTS",
			 option);
		return -EINVAL;
	}
	d->prefix_len = (uint8_t)bits;
	return 0;
}

static int parse_where(char *where, struct pmd_device *d, char *err, size_t err_len)
{
	size_t n = strlen(where);

	if (n > 1 && where[0] == '[' && where[n - 1] == ']') {
		where[n - 1] = '\0';
		where++;
	}
	if (!pmd_gid_parse(where, &d->gid)) {
		if (if_nametoindex(where) == 0) {
			snprintf(err, err_len,
				 "UROCE_DEVICES: '%s' is neither an address nor an interface of this host", where);
			return -EINVAL;
		}
		if (!gid_of_interface(where, &d->gid)) {
			snprintf(err, err_len, "UROCE_DEVICES: interface '%s' has no IP address; give it one", where);
			return -EADDRNOTAVAIL;
		}
		snprintf(d->netdev, sizeof(d->netdev), "%s", where);
	}
	if (!pmd_gid_is_unicast(&d->gid)) {
		snprintf(err, err_len, "UROCE_DEVICES: '%s' is a wildcard or multicast address; name one host address",
			 where);
		return -EINVAL;
	}
	return 0;
}

/** Refuse a gateway without a prefix length: all addresses would be on link, and the gateway never used. */
static int check_gateway(const struct pmd_device *d, char *err, size_t err_len)
{
	static const struct nic_gid none;
	char gw[64];

	if (memcmp(&d->gateway, &none, sizeof(none)) == 0 || d->prefix_len != 0)
		return 0;
	snprintf(err, err_len, "UROCE_DEVICES: gw=%s needs a prefix length beside it, for example /%u",
		 pmd_gid_str(&d->gateway, gw, sizeof(gw)), pmd_gid_is_v4(&d->gid) ? 24 : 64);
	return -EINVAL;
}

/** Parse the option that names a DPDK port. @return 1; 0: the option is another one; -EINVAL with a message in err. */
static int parse_port(const char *option, struct pmd_device *d, char *err, size_t err_len)
{
	const char *kind = strncmp(option, "ethdev=", 7) == 0 ? PMD_PORT_ETHDEV : PMD_PORT_UPLINK;
	size_t len = strlen(option);

	if (strcmp(option, "uplink") == 0) {
		snprintf(d->port, sizeof(d->port), PMD_PORT_UPLINK);
		return 1;
	}
	if (strncmp(option, "ethdev=", 7) != 0 && strncmp(option, "uplink=", 7) != 0)
		return 0;
	if (len == 7 || len - 7 >= PROTO_UPLINK_MAX) {
		snprintf(err, err_len, "UROCE_DEVICES: the arguments of %.7s are missing or too long", option);
		return -EINVAL;
	}
	if (getauxval(AT_SECURE)) { /* some drivers write to files that the arguments name */
		snprintf(err, err_len,
			 "UROCE_DEVICES: programs that run with other rights than their caller's take no %.7s from it",
			 option);
		return -EACCES;
	}
	snprintf(d->port, sizeof(d->port), "%s%s", kind, option + 7);
	return 1;
}

/** Parse one entry, already cut out of the list. Modifies the text of the entry. */
static int parse_entry(char *entry, struct pmd_device *d, char *err, size_t err_len)
{
	char *slash = strchr(entry, '/'), *option;
	int rc;

	snprintf(d->port, sizeof(d->port), "udp");
	if (slash)
		*slash = '\0';
	rc = parse_where(entry, d, err, err_len);
	while (rc == 0 && slash) {
		option = slash + 1;
		rc = parse_port(option, d, err, err_len);
		if (rc != 0)
			break;
		slash = strchr(option, '/');
		if (slash)
			*slash = '\0';
		rc = parse_option(option, d, err, err_len);
	}
	if (d->netdev[0] && strcmp(d->port, "udp") == 0)
		d->follow = PROTO_FOLLOW_ALL;
	if (rc >= 0 && d->vlan != 0 && strcmp(d->port, "udp") == 0) {
		snprintf(err, err_len, "UROCE_DEVICES: vlan= is for DPDK ports; else name the VLAN's interface");
		return -EINVAL;
	}
	return rc >= 0 ? check_gateway(d, err, err_len) : rc;
}

/** Cut the next entry off *list. @return NULL at the end. */
static char *next_entry(char **list)
{
	char *start = *list + strspn(*list, " \t\n,;"), *end, *port;

	if (!*start)
		return NULL;
	end = start + strcspn(start, " \t\n,;");
	port = strstr(start, "/ethdev=");
	if (!port || port >= end)
		port = strstr(start, "/uplink=");
	if (port && port < end) /* commas there belong to the DPDK arguments */
		end = port + strcspn(port, " \t\n;");
	*list = *end ? end + 1 : end;
	*end = '\0';
	return start;
}

static bool gid_is_known(const struct nic_gid *gid, const struct pmd_device *devices, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (memcmp(&devices[i].gid, gid, sizeof(*gid)) == 0)
			return true;
	return false;
}

static bool netdev_is_known(const char *name, const struct pmd_device *devices, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		if (pmd_label_is_of(name, devices[i].netdev))
			return true;
	return false;
}

static int default_devices(struct pmd_device *devices, unsigned max)
{
	struct ifaddrs *list = NULL;
	unsigned n = 0;

	if (getifaddrs(&list) == 0) {
		for (struct ifaddrs *i = list; i && n < max; i = i->ifa_next) {
			struct pmd_device *d = &devices[n];

			if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_LOOPBACK) ||
			    !(i->ifa_flags & IFF_UP))
				continue;
			memset(d, 0, sizeof(*d));
			pmd_gid_from_sockaddr(i->ifa_addr, &d->gid);
			/* An address that several interfaces have (bridges, VRRP) is still one device. */
			if (!pmd_gid_is_unicast(&d->gid) || gid_is_known(&d->gid, devices, n))
				continue;
			d->follow = netdev_is_known(i->ifa_name, devices, n) ? PROTO_FOLLOW_NONE : PROTO_FOLLOW_V6;
			netdev_set(d, i->ifa_name);
			n++;
		}
		freeifaddrs(list);
	}
	if (n == 0 && max > 0) {
		memset(&devices[0], 0, sizeof(devices[0]));
		pmd_gid_parse("127.0.0.1", &devices[n++].gid);
	}
	for (unsigned i = 0; i < n; i++)
		snprintf(devices[i].port, sizeof(devices[i].port), "udp");
	return (int)n;
}

int pmd_devices_parse(const char *spec, struct pmd_device *devices, unsigned max, char *err, size_t err_len)
{
	char *copy = NULL, *rest, *entry;
	int n = 0, rc = 0;

	if (!spec || !spec[strspn(spec, " \t\n,;")]) {
		n = default_devices(devices, max);
	} else {
		copy = rest = strdup(spec);
		if (!copy)
			return -ENOMEM;
		while (rc == 0 && (unsigned)n < max && (entry = next_entry(&rest))) {
			memset(&devices[n], 0, sizeof(devices[n]));
			rc = parse_entry(entry, &devices[n++], err, err_len);
		}
		free(copy);
	}
	for (int i = 0; rc == 0 && i < n; i++) {
		snprintf(devices[i].name, sizeof(devices[i].name), "uroce%d", i);
		pmd_device_fill_netdev(&devices[i]);
		for (int j = 0; j < i; j++) {
			if (memcmp(&devices[i].gid, &devices[j].gid, sizeof(devices[i].gid)) != 0)
				continue;
			snprintf(err, err_len, "UROCE_DEVICES: uroce%d and uroce%d have the same address", j, i);
			rc = -EINVAL;
		}
	}
	return rc ? rc : n;
}

int pmd_devices(struct pmd_device *devices, unsigned max)
{
	static bool said;
	char err[256] = "";
	int n = pmd_devices_parse(getenv("UROCE_DEVICES"), devices, max, err, sizeof(err));

	if (n < 0 && err[0] && !__atomic_exchange_n(&said, true, __ATOMIC_RELAXED) && filesize_allows_stderr())
		fprintf(stderr, "uroce: %s\n", err);
	return n;
}
