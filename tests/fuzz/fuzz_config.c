/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_config.c - libFuzzer target: settings that a user writes. The first byte of the input selects the setting
 * (UROCE_DEVICES, UROCE_MTU, or UROCE_ALLOW and --allow), the other bytes are its text.
 *
 * Checked in addition to what the sanitizers find: a refused value gets an error message; an accepted value describes
 * devices that can exist. If these devices are written as text again, the text parses to the same devices. The linker
 * replaces the calls that list the host's interfaces by those below, so that an input means the same on all hosts.
 */
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "devices.h"
#include "fuzz_util.h"
#include "proto.h"

#define TEXT_MAX 4096

/* ---- the host ------------------------------------------------------------------------------------------------ */

int __wrap_getifaddrs(struct ifaddrs **list);
void __wrap_freeifaddrs(struct ifaddrs *list);
unsigned __wrap_if_nametoindex(const char *name);

static struct sockaddr_in lo4 = {.sin_family = AF_INET}, eth4 = {.sin_family = AF_INET},
			  mask8 = {.sin_family = AF_INET}, mask24 = {.sin_family = AF_INET};
static struct sockaddr_in6 eth6 = {.sin6_family = AF_INET6}, link6 = {.sin6_family = AF_INET6};
static struct ifaddrs interfaces[] = {
	{.ifa_next = &interfaces[1],
	 .ifa_name = (char[]){"lo"},
	 .ifa_flags = IFF_UP | IFF_RUNNING | IFF_LOOPBACK,
	 .ifa_addr = (struct sockaddr *)&lo4,
	 .ifa_netmask = (struct sockaddr *)&mask8},
	{.ifa_next = &interfaces[2],
	 .ifa_name = (char[]){"eth0"},
	 .ifa_flags = IFF_UP | IFF_RUNNING,
	 .ifa_addr = (struct sockaddr *)&eth4,
	 .ifa_netmask = (struct sockaddr *)&mask24},
	{.ifa_next = &interfaces[3],
	 .ifa_name = (char[]){"eth0"},
	 .ifa_flags = IFF_UP | IFF_RUNNING,
	 .ifa_addr = (struct sockaddr *)&eth6},
	{.ifa_next = &interfaces[4],
	 .ifa_name = (char[]){"eth0"},
	 .ifa_flags = IFF_UP | IFF_RUNNING,
	 .ifa_addr = (struct sockaddr *)&link6},
	{.ifa_name = (char[]){"bare0"}, .ifa_flags = IFF_UP},
};

int __wrap_getifaddrs(struct ifaddrs **list)
{
	lo4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	mask8.sin_addr.s_addr = htonl(0xff000000);
	eth4.sin_addr.s_addr = htonl(0x0a000001);
	mask24.sin_addr.s_addr = htonl(0xffffff00);
	eth6.sin6_addr = (struct in6_addr){.s6_addr = {0xfd, [15] = 1}};
	link6.sin6_addr = (struct in6_addr){.s6_addr = {0xfe, 0x80, [15] = 1}};
	*list = interfaces;
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *list)
{
	expect(list == interfaces);
}

unsigned __wrap_if_nametoindex(const char *name)
{
	return strcmp(name, "lo") == 0 ? 1 : strcmp(name, "eth0") == 0 ? 2 : strcmp(name, "bare0") == 0 ? 3 : 0;
}

/* ---- settings ------------------------------------------------------------------------------------------------ */

static bool is_sentence(const char *err, size_t len)
{
	return err[0] && memchr(err, '\0', len);
}

/** Check that a device accepted by pmd_devices_parse() can exist. */
static void device_check(const struct pmd_device *d)
{
	expect(pmd_gid_is_unicast(&d->gid));
	expect(d->prefix_len <= (pmd_gid_is_v4(&d->gid) ? 32 : 128));
	expect(memchr(d->name, '\0', sizeof(d->name)) && memchr(d->netdev, '\0', sizeof(d->netdev)));
	expect(memchr(d->port, '\0', sizeof(d->port)));
	expect(strcmp(d->port, "udp") == 0 || (strncmp(d->port, "ethdev:", 7) == 0 && d->port[7]));
	expect(pmd_gid_is_none(&d->gateway) || (d->prefix_len && pmd_gid_is_v4(&d->gateway) == pmd_gid_is_v4(&d->gid)));
	expect(d->follow == PROTO_FOLLOW_NONE || d->netdev[0]);
}

/** Write a device as text, as a user could have written it. */
static void device_write(const struct pmd_device *d, FILE *out)
{
	char address[PMD_GID_TEXT];

	fprintf(out, " %s", d->follow == PROTO_FOLLOW_ALL ? d->netdev : pmd_gid_str(&d->gid, address, sizeof(address)));
	if (d->prefix_len)
		fprintf(out, "/%u", d->prefix_len);
	if (!pmd_gid_is_none(&d->gateway))
		fprintf(out, "/gw=%s", pmd_gid_str(&d->gateway, address, sizeof(address)));
	if (strncmp(d->port, "ethdev:", 7) == 0)
		fprintf(out, "/ethdev=%s", d->port + 7);
}

static void devices_read(const char *text)
{
	struct pmd_device devices[PMD_DEVICES_MAX], again[PMD_DEVICES_MAX];
	char written[PMD_DEVICES_MAX * 320], err[256] = "";
	int n = pmd_devices_parse(text, devices, PMD_DEVICES_MAX, err, sizeof(err));
	FILE *out;

	expect(n <= PMD_DEVICES_MAX);
	if (n < 0) {
		expect(is_sentence(err, sizeof(err)));
		return;
	}
	/* Text without entries gives default devices. One of them may follow only the IPv6 addresses of an interface,
	 * which cannot be expressed as text. So do not write these devices as text. */
	if (!text[strspn(text, " \t\n,;")])
		return;
	out = fmemopen(written, sizeof(written), "w");
	expect(out);
	for (int i = 0; i < n; i++) {
		device_check(&devices[i]);
		device_write(&devices[i], out);
	}
	expect(fclose(out) == 0);
	expect(pmd_devices_parse(written, again, PMD_DEVICES_MAX, err, sizeof(err)) == n);
	for (int i = 0; i < n; i++) {
		expect(pmd_gid_equal(&devices[i].gid, &again[i].gid) &&
		       pmd_gid_equal(&devices[i].gateway, &again[i].gateway));
		expect(strcmp(devices[i].port, again[i].port) == 0 && devices[i].follow == again[i].follow);
		expect(devices[i].prefix_len == again[i].prefix_len);
	}
}

static void mtu_read(const char *text)
{
	const struct pmd_device device = {.netdev_mtu = 9000};
	enum nic_mtu mtu = NIC_MTU_256;
	char err[256] = "";
	int rc = pmd_device_mtu(&device, text, &mtu, err, sizeof(err));

	expect(rc == 0 ? mtu >= NIC_MTU_256 && mtu <= NIC_MTU_4096 : is_sentence(err, sizeof(err)));
}

static void allow_read(const char *text)
{
	struct proto_policy policy = {.allow = PROTO_ALLOW_ALL};
	char err[256] = "";
	int rc = proto_policy_parse(text, &policy, err, sizeof(err));

	expect(rc == 0 || (is_sentence(err, sizeof(err)) && policy.allow == PROTO_ALLOW_NONE));
	expect(policy.allow != PROTO_ALLOW_ALL || strcmp(text, "all") == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const settings[])(const char *text) = {devices_read, mtu_read, allow_read};
	char *text;

	if (size == 0 || size > TEXT_MAX)
		return 0;
	text = malloc(size); /* exactly as long as the text, so that overruns are detected */
	expect(text);
	memcpy(text, data + 1, size - 1);
	text[size - 1] = '\0';
	settings[data[0] % (sizeof(settings) / sizeof(settings[0]))](text);
	free(text);
	return 0;
}
