/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_key.c - UROCE_KEY (pmd/base/key.c; conformance point SE-08): which files are accepted as a key, and whether
 * engines with the same, different or no keys talk, over the kernel's UDP.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "ends.h"
#include "key.h"

#define KEY_1 "000102030405060708090a0b0c0d0e0f"
#define KEY_2 "000102030405060708090a0b0c0d0e0e"
#define BYTES 5000 /* several packets */

static char path[2][64];
static struct pmd_device device[2];
static char err[512];

static void file_write(const char *name, const char *text, mode_t mode)
{
	int fd;

	unlink(name);
	fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	assert_int_equal(fchmod(fd, mode), 0);
	close(fd);
}

static int read_key(const char *text, mode_t mode, struct pmd_key *key)
{
	file_write(path[0], text, mode);
	setenv("UROCE_KEY", path[0], 1);
	return pmd_key_read(key, err, sizeof(err));
}

static void key__an_unset_variable_means_no_key(void **state)
{
	struct pmd_key key = {.set = true};

	unsetenv("UROCE_KEY");
	assert_false(pmd_key_is_set());
	assert_int_equal(pmd_key_read(&key, err, sizeof(err)), 0);
	assert_false(key.set);
}

static void key__32_hexadecimal_digits_are_accepted(void **state)
{
	static const char *const good[] = {KEY_1, KEY_1 "\n", KEY_1 "\r\n", "000102030405060708090A0B0C0D0E0F  \n\n"};
	struct pmd_key key;

	for (unsigned i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
		assert_int_equal(read_key(good[i], 0600, &key), 0);
		assert_true(key.set);
		for (unsigned k = 0; k < NIC_KEY_LEN; k++)
			assert_int_equal(key.secret[k], k);
	}
	pmd_key_wipe(&key);
	for (unsigned k = 0; k < NIC_KEY_LEN; k++)
		assert_int_equal(key.secret[k], 0);
	assert_int_equal(read_key(KEY_1, 0440, &key), 0); /* readable by a group that shares the key */
}

/** A wrong key setting makes the open fail instead of running without a key, and the error message shows no part of the
 * key file. */
static void key__SE_08_a_wrong_setting_is_an_error(void **state)
{
	static const char *const bad[] = {
		"",
		"\n",
		"00010203",
		"000102030405060708090a0b0c0d0e0",
		KEY_1 "0",
		KEY_1 KEY_1,
		" " KEY_1,
		KEY_1 " #",
		"0x0102030405060708090a0b0c0d0e0f",
		"000102030405060708090a0b0c0d0e0g",
	};
	char secret[] = "swordfishswordfishswordfishsword";
	struct pmd_key key;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(read_key(bad[i], 0600, &key), -EINVAL);
		assert_false(key.set);
		assert_non_null(strstr(err, "hexadecimal digits"));
	}
	assert_int_equal(read_key(secret, 0600, &key), -EINVAL);
	assert_null(strstr(err, "swordfish"));
	setenv("UROCE_KEY", "", 1);
	assert_true(pmd_key_is_set());
	assert_int_equal(pmd_key_read(&key, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "empty"));
	setenv("UROCE_KEY", "/nonexistent/key", 1);
	assert_int_equal(pmd_key_read(&key, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, "/nonexistent/key"));
	setenv("UROCE_KEY", "/", 1);
	assert_int_equal(pmd_key_read(&key, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "regular file"));
	setenv("UROCE_KEY", "/dev/zero", 1);
	assert_int_equal(pmd_key_read(&key, err, sizeof(err)), -EINVAL);
}

static void key__SE_08_a_file_accessible_to_others_is_refused(void **state)
{
	static const mode_t bad[] = {0604, 0602, 0620, 0644, 0666, 0601, 0660};
	struct pmd_key key;

	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(read_key(KEY_1, bad[i], &key), -EACCES);
		assert_false(key.set);
		assert_non_null(strstr(err, "chmod 600"));
	}
	if (geteuid() != 0)
		return;
	file_write(path[0], KEY_1, 0600);
	assert_int_equal(chown(path[0], 12345, 12345), 0);
	assert_int_equal(pmd_key_read(&key, err, sizeof(err)), -EACCES);
	assert_non_null(strstr(err, "12345"));
}

static void key__the_mtu_leaves_room_for_a_tag(void **state)
{
	struct pmd_device d = {.name = "uroce0", .netdev_mtu = 4180};
	enum nic_mtu mtu;

	unsetenv("UROCE_KEY");
	assert_int_equal(pmd_device_mtu(&d, NULL, &mtu, err, sizeof(err)), 0);
	assert_int_equal(mtu, NIC_MTU_4096);
	setenv("UROCE_KEY", path[0], 1);
	assert_int_equal(pmd_device_mtu(&d, NULL, &mtu, err, sizeof(err)), 0);
	assert_int_equal(mtu, NIC_MTU_2048);
	d.netdev_mtu = 4184;
	assert_int_equal(pmd_device_mtu(&d, NULL, &mtu, err, sizeof(err)), 0);
	assert_int_equal(mtu, NIC_MTU_4096);
}

static void key__a_device_does_not_open_without_its_key(void **state)
{
	struct pmd_engine *engine;

	setenv("UROCE_KEY", "/nonexistent/key", 1);
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &engine, err, sizeof(err)), -ENOENT);
	assert_non_null(strstr(err, "UROCE_KEY"));
	unsetenv("UROCE_KEY");
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &engine, err, sizeof(err)), 0);
	pmd_close(engine);
}

/* ---- engines --------------------------------------------------------------------------------------------- */

static void open_with(struct end *e, unsigned i, const char *key)
{
	unsetenv("UROCE_KEY");
	if (key) {
		file_write(path[i], key, 0600);
		setenv("UROCE_KEY", path[i], 1);
	}
	end_open(e, &device[i]);
	unsetenv("UROCE_KEY");
	unlink(path[i]); /* the engine reads the file only when it opens */
}

static uint64_t counter(struct end *e, enum nic_counter which)
{
	uint64_t value;

	pmd_lock(e->engine);
	value = nic_counters(e->nic)[which];
	pmd_unlock(e->engine);
	return value;
}

static void talk(struct end *a, struct end *b)
{
	for (unsigned i = 0; i < BYTES; i++)
		a->buf[i] = (uint8_t)(i * 7);
	end_recv(b);
	end_send(a, NIC_WR_SEND, BYTES, NULL);
	assert_int_equal(end_wait(a, a->scq, false).status, NIC_WC_SUCCESS);
	assert_int_equal(end_wait(b, b->rcq, false).status, NIC_WC_SUCCESS);
	assert_memory_equal(b->buf + BUF / 2, a->buf, BYTES);
	end_send(a, NIC_WR_RDMA_WRITE, BYTES, b);
	assert_int_equal(end_wait(a, a->scq, true).status, NIC_WC_SUCCESS);
	assert_memory_equal(b->buf, a->buf, BYTES);
	memset(a->buf, 0, BYTES);
	end_send(a, NIC_WR_RDMA_READ, BYTES, b);
	assert_int_equal(end_wait(a, a->scq, false).status, NIC_WC_SUCCESS);
	assert_memory_equal(a->buf, b->buf, BYTES);
}

static void refuse(const char *key_a, const char *key_b, enum nic_counter why)
{
	struct end a, b;

	open_with(&a, 0, key_a);
	open_with(&b, 1, key_b);
	end_connect(&a, &b);
	end_connect(&b, &a);
	end_recv(&b);
	memset(a.buf, 0x55, 64);
	end_send(&a, NIC_WR_SEND, 64, NULL);
	assert_int_equal(end_wait(&a, a.scq, true).status, NIC_WC_RETRY_EXC_ERR);
	assert_true(counter(&b, why) >= 8); /* the first transmission and seven retries */
	assert_int_equal(counter(&b, NIC_CNT_rx_packets), 0);
	assert_int_equal(counter(&b, NIC_CNT_tx_packets), 0);
	assert_int_equal(b.buf[BUF / 2], 0);
	end_close(&a);
	end_close(&b);
}

static void key__SE_08_engines_with_one_key_talk(void **state)
{
	struct end a, b;

	open_with(&a, 0, KEY_1);
	open_with(&b, 1, KEY_1);
	end_connect(&a, &b);
	end_connect(&b, &a);
	talk(&a, &b);
	talk(&b, &a);
	assert_int_equal(counter(&b, NIC_CNT_rx_key_wrong) + counter(&b, NIC_CNT_rx_key_missing), 0);
	end_close(&a);
	end_close(&b);
}

static void key__SE_08_engines_without_a_key_communicate(void **state)
{
	struct end a, b;

	open_with(&a, 0, NULL);
	open_with(&b, 1, NULL);
	end_connect(&a, &b);
	end_connect(&b, &a);
	talk(&a, &b);
	end_close(&a);
	end_close(&b);
}

static void key__SE_08_packets_without_a_tag_are_dropped(void **state)
{
	refuse(NULL, KEY_1, NIC_CNT_rx_key_missing);
}

static void key__SE_08_tagged_packets_are_dropped_without_a_key(void **state)
{
	refuse(KEY_1, NULL, NIC_CNT_rx_key_unknown);
}

static void key__SE_08_packets_tagged_with_another_key_are_dropped(void **state)
{
	refuse(KEY_2, KEY_1, NIC_CNT_rx_key_wrong);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(key__an_unset_variable_means_no_key),
		cmocka_unit_test(key__32_hexadecimal_digits_are_accepted),
		cmocka_unit_test(key__SE_08_a_wrong_setting_is_an_error),
		cmocka_unit_test(key__SE_08_a_file_accessible_to_others_is_refused),
		cmocka_unit_test(key__the_mtu_leaves_room_for_a_tag),
		cmocka_unit_test(key__a_device_does_not_open_without_its_key),
		cmocka_unit_test(key__SE_08_engines_with_one_key_talk),
		cmocka_unit_test(key__SE_08_engines_without_a_key_communicate),
		cmocka_unit_test(key__SE_08_packets_without_a_tag_are_dropped),
		cmocka_unit_test(key__SE_08_tagged_packets_are_dropped_without_a_key),
		cmocka_unit_test(key__SE_08_packets_tagged_with_another_key_are_dropped),
	};
	int rc;

	if (!nic_key_supported()) {
		print_message("this build has no libsodium, and so no tags\n");
		return 77;
	}
	setenv("UROCE_RING", "off", 1);
	for (unsigned i = 0; i < 2; i++)
		snprintf(path[i], sizeof(path[i]), "/tmp/uroce-key-test.%u.%u", (unsigned)getpid(), i);
	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	rc = cmocka_run_group_tests_name("key", tests, NULL, NULL);
	unlink(path[0]);
	return rc;
}
