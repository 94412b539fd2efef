/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_devices.c - pmd/control/devices.c: the syntax of UROCE_DEVICES, the default devices, the MTU. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "devices.h"
#include "proto.h"
#include "namespace.h"

static struct pmd_device dev[PMD_DEVICES_MAX];
static char err[256];

static int parse(const char *spec)
{
	memset(dev, 0xee, sizeof(dev));
	err[0] = '\0';
	return pmd_devices_parse(spec, dev, PMD_DEVICES_MAX, err, sizeof(err));
}

static void assert_gid(unsigned i, const char *text)
{
	char buf[64];

	assert_string_equal(pmd_gid_str(&dev[i].gid, buf, sizeof(buf)), text);
}

static void devices__list_of_addresses(void **state)
{
	(void)state;
	assert_int_equal(parse("127.0.0.1, 127.0.0.2;127.0.0.3\t[::1]"), 4);
	assert_gid(0, "127.0.0.1");
	assert_gid(1, "127.0.0.2");
	assert_gid(2, "127.0.0.3");
	assert_gid(3, "::1");
	for (unsigned i = 0; i < 4; i++) {
		assert_string_equal(dev[i].port, "udp");
		assert_string_equal(dev[i].netdev, "lo");
		assert_true(dev[i].netdev_mtu >= 1500);
		assert_int_equal(dev[i].prefix_len, 0);
	}
	assert_string_equal(dev[0].name, "uroce0");
	assert_string_equal(dev[3].name, "uroce3");
	assert_true(dev[0].node_guid != dev[1].node_guid);
}

static void devices__guid_is_stable(void **state)
{
	uint64_t guid;

	(void)state;
	assert_int_equal(parse("127.0.0.1"), 1);
	guid = dev[0].node_guid;
	assert_int_equal(parse("127.0.0.9 127.0.0.1"), 2);
	assert_true(dev[1].node_guid == guid);
}

static void devices__an_interface_name_gives_its_address(void **state)
{
	(void)state;
	assert_int_equal(parse("lo"), 1);
	assert_gid(0, "127.0.0.1");
	assert_string_equal(dev[0].netdev, "lo");
	assert_int_equal(dev[0].follow, PROTO_FOLLOW_ALL);
	assert_int_equal(parse("lo/ethdev=net_nothing0"), 1); /* an ethdev device has a single address */
	assert_int_equal(dev[0].follow, PROTO_FOLLOW_NONE);
	assert_int_equal(parse("127.0.0.1"), 1);
	assert_int_equal(dev[0].follow, PROTO_FOLLOW_NONE);
}

static void devices__uplink(void **state)
{
	(void)state;
	assert_int_equal(parse("10.0.0.1/24/gw=10.0.0.254/uplink=net_memif0,socket=/a/b 10.0.0.2/uplink,10.0.0.3"), 3);
	assert_string_equal(dev[0].port, "uplink:net_memif0,socket=/a/b");
	assert_int_equal(dev[0].prefix_len, 24);
	assert_string_equal(dev[1].port, "uplink:");
	assert_string_equal(dev[2].port, "udp");
	assert_int_equal(parse("10.0.0.1/uplink=net_af_packet0,iface=lo;10.0.0.2/ethdev=net_pcap0,iface=lo"), 2);
	assert_string_equal(dev[0].netdev, "lo");
	assert_string_equal(dev[1].port, "ethdev:net_pcap0,iface=lo");
	assert_int_equal(parse("10.0.0.1/vlan=7/uplink=net_memif0"), 1);
	assert_int_equal(dev[0].vlan, 7);
	assert_int_equal(parse("10.0.0.1/vlan=4095/uplink=net_memif0"), -EINVAL);
	assert_int_equal(parse("10.0.0.1/vlan=7"), -EINVAL);
	assert_int_equal(parse("10.0.0.1/uplink="), -EINVAL);
	assert_non_null(strstr(err, "uplink= are missing"));
	assert_int_equal(parse("10.0.0.1/uplinks"), -EINVAL);
	assert_int_equal(parse("lo/uplink"), 1);
	assert_int_equal(dev[0].follow, PROTO_FOLLOW_NONE);
}

static void devices__ethdev_takes_commas_and_slashes(void **state)
{
	(void)state;
	assert_int_equal(parse("10.0.0.1/24/gw=10.0.0.254/ethdev=net_pcap0,rx_pcap=/a/b,tx_pcap=/c;fd00::1/64/ethdev="
			       "net_af_packet1,iface=lo 127.0.0.1"),
			 3);
	assert_string_equal(dev[0].port, "ethdev:net_pcap0,rx_pcap=/a/b,tx_pcap=/c");
	assert_int_equal(dev[0].prefix_len, 24);
	assert_int_equal(dev[0].gateway.raw[15], 254);
	assert_gid(1, "fd00::1");
	assert_string_equal(dev[1].port, "ethdev:net_af_packet1,iface=lo");
	assert_string_equal(dev[1].netdev, "lo");
	assert_int_equal(dev[1].prefix_len, 64);
	assert_string_equal(dev[2].port, "udp");
}

static void devices__default_is_never_empty(void **state)
{
	int n = parse(NULL);

	(void)state;
	assert_true(n >= 1);
	assert_int_equal(parse(" \t,;\n"), n);
	for (int i = 0; i < n; i++)
		assert_string_equal(dev[i].port, "udp");
	if (n > 1) /* 127.0.0.1 is a default only if there is no other address */
		for (int i = 0; i < n; i++)
			assert_true(dev[i].gid.raw[12] != 127);
}

/** An address that two interfaces have is listed once among the default devices. */
static void devices__defaults_name_an_address_once(void **state)
{
	int n;

	(void)state;
	if (!namespace_enter() || !namespace_veth("pf-a", "pf-b", 1500) ||
	    system("PATH=$PATH:/usr/sbin:/sbin; ip addr add 10.80.0.1/24 dev pf-a && ip addr add 10.80.0.1/32 dev pf-b "
		   "&& ip addr add 10.80.0.2/24 dev pf-b && ip addr add 10.80.0.3/24 dev pf-b label pf-b:1") != 0) {
		print_message("needs a network namespace and the ip command; one of them is not to be had\n");
		skip();
	}
	n = parse(NULL);
	assert_string_equal(err, "");
	assert_int_equal(n, 3);
	assert_gid(0, "10.80.0.1");
	assert_gid(1, "10.80.0.2");
	assert_gid(2, "10.80.0.3");
	/* Only the first device of an interface gets the interface's IPv6 addresses. */
	assert_int_equal(dev[0].follow, PROTO_FOLLOW_V6);
	assert_int_equal(dev[1].follow, PROTO_FOLLOW_NONE);
	assert_int_equal(dev[2].follow, PROTO_FOLLOW_NONE);
	assert_string_equal(dev[0].netdev, "pf-b");
	assert_string_equal(dev[1].netdev, "pf-b");
	assert_string_equal(dev[2].netdev, "pf-b");
}

static void devices__no_more_than_the_maximum_are_returned(void **state)
{
	(void)state;
	memset(dev, 0xee, sizeof(dev));
	assert_int_equal(pmd_devices_parse("127.0.0.1 127.0.0.2 127.0.0.3", dev, 2, err, sizeof(err)), 2);
	assert_int_equal((uint8_t)dev[2].name[0], 0xee);
}

static void devices__invalid_input_returns_a_one_line_error(void **state)
{
	static const char *const bad[] = {
		"nosuchif0",
		"127.0.0.1 300.1.1.1",
		"0.0.0.0",
		"::",
		"224.0.0.1",
		"ff02::1",
		"127.0.0.1/33",
		"fd00::1/129",
		"127.0.0.1/0",
		"127.0.0.1/x",
		"127.0.0.1/ethdev=",
		"127.0.0.1/gw=fd00::1/ethdev=net_null0",
		"127.0.0.1/gw=nonsense",
		"10.0.0.1/gw=10.0.0.254",
		"10.0.0.1/gw=10.0.0.254/ethdev=net_null0",
		"127.0.0.1 127.0.0.1",
		"[fd00::1",
		"/24",
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_true(parse(bad[i]) < 0);
		assert_int_equal(strncmp(err, "UROCE_DEVICES: ", 15), 0);
		assert_null(strchr(err, '\n'));
	}
}

static void devices__too_long_arguments_are_refused(void **state)
{
	char spec[512];

	(void)state;
	memset(spec, 'a', sizeof(spec));
	memcpy(spec, "127.0.0.1/ethdev=", 17);
	spec[sizeof(spec) - 1] = '\0';
	assert_int_equal(parse(spec), -EINVAL);
}

static void mtu__follows_the_interface_or_the_setting(void **state)
{
	static const struct {
		uint32_t netdev;
		const char *override;
		enum nic_mtu mtu;
	} row[] = {
		{65536, NULL, NIC_MTU_4096}, {9000, "", NIC_MTU_4096},	   {4180, NULL, NIC_MTU_4096},
		{4179, NULL, NIC_MTU_2048},  {1500, NULL, NIC_MTU_1024},   {0, NULL, NIC_MTU_1024},
		{576, NULL, NIC_MTU_256},    {1500, "4096", NIC_MTU_4096}, {65536, "256", NIC_MTU_256},
	};
	struct pmd_device d = {.name = "uroce0"};
	enum nic_mtu mtu;

	(void)state;
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		d.netdev_mtu = row[i].netdev;
		assert_int_equal(pmd_device_mtu(&d, row[i].override, &mtu, err, sizeof(err)), 0);
		assert_int_equal(mtu, row[i].mtu);
	}
	assert_int_equal(pmd_device_mtu(&d, "1500", &mtu, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "UROCE_MTU"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(devices__list_of_addresses),
		cmocka_unit_test(devices__guid_is_stable),
		cmocka_unit_test(devices__an_interface_name_gives_its_address),
		cmocka_unit_test(devices__uplink),
		cmocka_unit_test(devices__ethdev_takes_commas_and_slashes),
		cmocka_unit_test(devices__default_is_never_empty),
		cmocka_unit_test(devices__no_more_than_the_maximum_are_returned),
		cmocka_unit_test(devices__invalid_input_returns_a_one_line_error),
		cmocka_unit_test(devices__too_long_arguments_are_refused),
		cmocka_unit_test(devices__defaults_name_an_address_once), /* puts the process into a net namespace */
		cmocka_unit_test(mtu__follows_the_interface_or_the_setting),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
