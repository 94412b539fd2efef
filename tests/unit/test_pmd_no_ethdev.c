/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_no_ethdev.c - an engine that was built without DPDK: a device that needs it is refused, in words; buffers
 * for packets. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "devices.h"
#include "engine.h"
#include "pool.h"
#include "port.h"

static void no_ethdev__says_that_it_needs_dpdk(void **state)
{
	struct pmd_engine *engine = NULL;
	struct pmd_device device[1];
	char err[512];

	(void)state;
	assert_int_equal(pmd_devices_parse("127.0.9.9/ethdev=net_pcap0,iface=lo", device, 1, err, sizeof(err)), 1);
	assert_int_equal(pmd_open(device, NULL, NULL, &engine, err, sizeof(err)), -ENOTSUP);
	assert_null(engine);
	assert_non_null(strstr(err, "built without DPDK"));
	assert_non_null(strstr(err, "net_pcap0"));
}

static void pool__buffers_are_apart_and_come_back(void **state)
{
	struct nic_tx_frame frames[8] = {{0}}, one = {0};
	struct pmd_pool *pool = pmd_pool_open(8);

	(void)state;
	assert_non_null(pool);
	for (int round = 0; round < 3; round++) {
		assert_true(pmd_pool_take(pool, frames, 8));
		for (int i = 0; i < 8; i++) /* a sanitizer or the next loop finds buffers that are too short */
			memset(frames[i].data - PMD_TX_HEADROOM, i + 1, PMD_TX_HEADROOM + NIC_FRAME_MAX);
		for (int i = 0; i < 8; i++) {
			assert_int_equal(frames[i].data[-PMD_TX_HEADROOM], i + 1);
			assert_int_equal(frames[i].data[NIC_FRAME_MAX - 1], i + 1);
		}
		assert_false(pmd_pool_take(pool, &one, 1));
		assert_null(one.data);
		for (int i = 0; i < 8; i++)
			pmd_pool_give(pool, frames[i].cookie);
	}
	pmd_pool_close(pool);
	pmd_pool_close(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_ethdev__says_that_it_needs_dpdk),
		cmocka_unit_test(pool__buffers_are_apart_and_come_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
