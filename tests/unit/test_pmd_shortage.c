/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_shortage.c - opening a device while something is short: the open fails with an error, the process goes on,
 * and the device opens once there is enough. Each case runs in a process of its own, because DPDK can start only once.
 * The functions below replace the C library's for everything linked into this program, including DPDK.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "control.h"
#include "devices.h"
#include "ends.h"
#include "engine_priv.h"
#include "random.h"
#include "sanitizer.h"

static struct pmd_device device[1];
static int epoll_error, random_error; /* the errno with which calls fail (epoll_ctl: those that add); 0: they work */
static int epoll_works;		      /* calls that add a descriptor and work nevertheless */
static bool panics;

long __real_syscall(long number, long a, long b, long c, long d, long e, long f);
long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f);
int __real_rte_service_init(void);
int __wrap_rte_service_init(void);
void __rte_panic(const char *function, const char *format, ...) __attribute__((noreturn));

int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
	return (int)syscall(SYS_epoll_ctl, set, op, fd, event);
}

long __wrap_syscall(long number, long a, long b, long c, long d, long e, long f)
{
	int error = number == SYS_epoll_ctl ? __atomic_load_n(&epoll_error, __ATOMIC_RELAXED) : 0;

	if (error && (b != EPOLL_CTL_ADD || __atomic_fetch_sub(&epoll_works, 1, __ATOMIC_RELAXED) > 0))
		error = 0;
	if (!error)
		return __real_syscall(number, a, b, c, d, e, f);
	errno = error;
	return -1;
}

ssize_t getrandom(void *buf, size_t len, unsigned flags)
{
	errno = __atomic_load_n(&random_error, __ATOMIC_RELAXED);
	return errno ? -1 : (ssize_t)syscall(SYS_getrandom, buf, len, flags);
}

/** Called by rte_eal_init(): panic there if the test wants it. */
int __wrap_rte_service_init(void)
{
	if (panics)
		__rte_panic(__func__, "no %s\n", "luck");
	return __real_rte_service_init();
}

/** Open and close the device. @return 0, or a negative errno with a message in err. */
static int try_to_open(char *err, size_t err_len)
{
	struct pmd_engine *e;
	int rc = pmd_open(&device[0], NULL, NULL, &e, err, err_len);

	if (rc == 0)
		pmd_close(e);
	return rc;
}

#define MUST(condition)                                                                                                \
	do {                                                                                                           \
		if (!(condition)) {                                                                                    \
			fprintf(stderr, "line %d: not so: %s (%s)\n", __LINE__, #condition, err);                      \
			return 1;                                                                                      \
		}                                                                                                      \
	} while (0)

static int epoll_case(void)
{
	char err[256] = "";

	epoll_error = ENOSPC;
	MUST(try_to_open(err, sizeof(err)) == -ENOSPC && strstr(err, "epoll"));
	epoll_error = 0;
	MUST(try_to_open(err, sizeof(err)) == 0);
	return 0;
}

/** A tool is refused after its connection was accepted, for want of `error`: it is told why. */
static int tool_case(struct pmd_engine *e, int error, const char *words)
{
	struct proto_name name;
	PROTO_MSG(m);
	int32_t status = 0;
	char err[256] = "";
	int tool;

	pmd_name_function(&device[0].gid, pmd_control_function(e->host.control), &name);
	epoll_works = 1; /* the visitor's connection, not yet the tool's */
	__atomic_store_n(&epoll_error, error, __ATOMIC_RELAXED);
	tool = proto_connect(&name);
	MUST(tool >= 0 && proto_send(tool, PROTO_TOOL, "status", 6, NULL, 0) == 0);
	MUST(proto_recv_wait(tool, &m, 20000) == 1 && m.type == PROTO_TEXT && m.len < sizeof(err));
	memcpy(err, m.data, m.len);
	MUST(strstr(err, words));
	MUST(proto_recv_wait(tool, &m, 20000) == 1 && proto_msg_is(&m, PROTO_END, sizeof(status), 0));
	memcpy(&status, m.data, sizeof(status));
	MUST(status == -error);
	close(tool);
	__atomic_store_n(&epoll_error, 0, __ATOMIC_RELAXED);
	return 0;
}

static int tools_case(void)
{
	struct pmd_engine *e;
	char err[256] = "";
	int rc;

	MUST(pmd_open(&device[0], NULL, NULL, &e, err, sizeof(err)) == 0);
	rc = tool_case(e, ENOSPC, "fs.epoll.max_user_watches") || tool_case(e, ENOMEM, "no memory") ||
	     tool_case(e, EPERM, "could not watch");
	pmd_close(e);
	return rc;
}

static int panic_case(void)
{
	char err[256] = "";

	panics = true;
	MUST(try_to_open(err, sizeof(err)) == -EIO && strstr(err, "no luck") && strstr(err, "restart"));
	panics = false;
	err[0] = '\0';
	MUST(try_to_open(err, sizeof(err)) == -EIO && strstr(err, "no luck") && strstr(err, "restart"));
	return 0;
}

static int random_case(void)
{
	char err[256] = "";

	random_error = EPERM;
	MUST(try_to_open(err, sizeof(err)) == -EPERM && strstr(err, "getrandom"));
	random_error = 0;
	MUST(try_to_open(err, sizeof(err)) == 0);
	return 0;
}

/** After the device was opened, getrandom() is forbidden, as in a sandbox: PSNs stay random. */
static int later_random_case(void)
{
	struct pmd_engine *e;
	uint32_t psn[1024];
	char err[256] = "";

	MUST(pmd_open(&device[0], NULL, NULL, &e, err, sizeof(err)) == 0);
	random_error = EPERM;
	pmd_lock(e);
	for (unsigned i = 0; i < 1024; i++) /* far more than the engine keeps in reserve */
		psn[i] = nic_psn_random(pmd_engine_nic(e));
	pmd_unlock(e);
	for (unsigned i = 0; i + 2 < 1024; i++)
		MUST(psn[i] != psn[i + 1] || psn[i] != psn[i + 2]);
	pmd_close(e);
	return 0;
}

static uint64_t address_space(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (f && fscanf(f, "%lu", &pages) != 1)
		pages = 0;
	if (f)
		fclose(f);
	return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static int address_space_case(void)
{
	struct rlimit limit;
	char err[256] = "";

	getrlimit(RLIMIT_AS, &limit);
	limit.rlim_cur = address_space() + (100 << 20);
	setrlimit(RLIMIT_AS, &limit);
	MUST(try_to_open(err, sizeof(err)) == -ENOMEM && strstr(err, "address space"));
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_AS, &limit);
	MUST(try_to_open(err, sizeof(err)) == 0);
	return 0;
}

static unsigned entries(const char *folder)
{
	DIR *d = opendir(folder);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	closedir(d);
	return n;
}

/** Closing the device ends the threads and closes the descriptors that opening it created, including those of DPDK's
 * helpers. */
static int nothing_left_case(void)
{
	unsigned threads = entries("/proc/self/task"), descriptors = entries("/proc/self/fd");
	char err[256] = "";

	MUST(try_to_open(err, sizeof(err)) == 0);
	MUST(entries("/proc/self/task") == threads);
	MUST(entries("/proc/self/fd") == descriptors);
	return 0;
}

static void run(int (*test)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		alarm(100);
		_exit(test());
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void open__a_failing_epoll_ctl_is_an_error(void **state)
{
	(void)state;
	SKIP_THREADS_AFTER_FORK();
	run(epoll_case);
}

static void tools__a_refused_one_is_told_the_reason(void **state)
{
	(void)state;
	SKIP_THREADS_AFTER_FORK();
	run(tools_case);
}

static void open__a_dpdk_panic_is_a_permanent_error(void **state)
{
	(void)state;
	SKIP_THREADS_AFTER_FORK();
	run(panic_case);
}

static void open__without_random_numbers_is_an_error(void **state)
{
	(void)state;
	SKIP_THREADS_AFTER_FORK();
	run(random_case);
}

static void open__psns_stay_random_if_getrandom_fails_later(void **state)
{
	(void)state;
	SKIP_THREADS_AFTER_FORK();
	run(later_random_case);
}

static void open__succeeds_once_the_address_space_limit_is_raised(void **state)
{
	(void)state;
#ifdef __SANITIZE_ADDRESS__
	print_message("AddressSanitizer's shadow has no limit\n");
	skip();
#endif
	SKIP_THREADS_AFTER_FORK();
	run(address_space_case);
}

static void open__dpdk_leaves_no_thread_and_no_descriptor(void **state)
{
	(void)state;
	SKIP_THREADS_AFTER_FORK();
	run(nothing_left_case);
}

/** The test vector of RFC 8439, 2.3.2. */
static void random__a_block_matches_the_rfc_8439_test_vector(void **state)
{
	static const uint8_t expected[64] = {
		0x10, 0xf1, 0xe7, 0xe4, 0xd1, 0x3b, 0x59, 0x15, 0x50, 0x0f, 0xdd, 0x1f, 0xa3, 0x20, 0x71, 0xc4,
		0xc7, 0xd1, 0xf4, 0xc7, 0x33, 0xc0, 0x68, 0x03, 0x04, 0x22, 0xaa, 0x9a, 0xc3, 0xd4, 0x6c, 0x4e,
		0xd2, 0x82, 0x64, 0x46, 0x07, 0x9f, 0xaa, 0x09, 0x14, 0xc2, 0xd7, 0x05, 0xd9, 0x8b, 0x02, 0xa2,
		0xb5, 0x12, 0x9c, 0xd1, 0xde, 0x16, 0x4e, 0xb9, 0xcb, 0xd0, 0x83, 0xe8, 0xa2, 0x50, 0x3c, 0x4e};
	static const uint32_t nonce[3] = {0x09000000, 0x4a000000, 0};
	uint32_t key[8];
	uint8_t out[64];

	(void)state;
	for (uint32_t i = 0; i < 8; i++)
		key[i] = (4 * i) | (4 * i + 1) << 8 | (4 * i + 2) << 16 | (4 * i + 3) << 24;
	pmd_random_block(key, 1, nonce, out);
	assert_memory_equal(out, expected, sizeof(out));
}

/** Without getrandom(), random bytes never repeat, and the state does not reveal bytes already given out. */
static void random__bytes_do_not_repeat_if_getrandom_fails(void **state)
{
	uint8_t bytes[2][4096];
	struct pmd_random r, kept;

	(void)state;
	assert_int_equal(pmd_random_open(&r), 0);
	random_error = EPERM;
	pmd_random_take(&r, bytes[0], 1000);
	kept = r;
	pmd_random_take(&r, bytes[0], sizeof(bytes[0]));
	pmd_random_take(&r, bytes[1], sizeof(bytes[1]));
	random_error = 0;
	for (size_t i = 0; i + 16 <= sizeof(bytes[0]); i += 16)
		for (size_t j = 0; j + 16 <= sizeof(bytes[1]); j += 16)
			assert_memory_not_equal(bytes[0] + i, bytes[1] + j, 16);
	assert_memory_not_equal(r.key, kept.key, sizeof(r.key));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(open__a_failing_epoll_ctl_is_an_error),
		cmocka_unit_test(tools__a_refused_one_is_told_the_reason),
		cmocka_unit_test(open__a_dpdk_panic_is_a_permanent_error),
		cmocka_unit_test(open__without_random_numbers_is_an_error),
		cmocka_unit_test(open__psns_stay_random_if_getrandom_fails_later),
		cmocka_unit_test(open__succeeds_once_the_address_space_limit_is_raised),
		cmocka_unit_test(open__dpdk_leaves_no_thread_and_no_descriptor),
		cmocka_unit_test(random__a_block_matches_the_rfc_8439_test_vector),
		cmocka_unit_test(random__bytes_do_not_repeat_if_getrandom_fails),
	};

	if (ends_devices(device, 1, NULL) != 1)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
