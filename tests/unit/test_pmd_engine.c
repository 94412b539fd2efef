/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_engine.c - pmd/engine/engine.c, progress.c, links and port_udp.c: two engines of one process, on two
 * loopback addresses that nothing else uses, joined by shared memory or, with UROCE_RING=off, by the kernel's UDP.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "ends.h"
#include "proto.h"
#include "sanitizer.h"

static struct pmd_device device[2];

static void open_pair(struct end *a, struct end *b)
{
	ends_open(a, &device[0], b, &device[1]);
}

/* ---- traffic -------------------------------------------------------------------------------------------------- */

struct player {
	struct end *end;
	bool first, sleep;
	unsigned rounds;
	uint32_t len;
};

static void *play(void *arg)
{
	struct player *p = arg;
	struct end *e = p->end;
	struct nic_wc wc;

	for (unsigned i = 0; i < p->rounds; i++) {
		for (unsigned half = 0; half < 2; half++) {
			bool mine = (half == 0) == p->first;

			if (mine) {
				memset(e->buf, (int)(i & 0xff), p->len);
				end_send(e, NIC_WR_SEND, p->len, NULL);
			}
			wc = end_wait(e, mine ? e->scq : e->rcq, p->sleep);
			assert_int_equal(wc.status, NIC_WC_SUCCESS);
			if (mine)
				continue;
			assert_int_equal(wc.byte_len, p->len);
			assert_int_equal(e->buf[BUF / 2], i & 0xff);
			assert_int_equal(e->buf[BUF / 2 + p->len - 1], i & 0xff);
			end_recv(e);
		}
	}
	return NULL;
}

static void ping_pong(bool sleep_a, bool sleep_b, unsigned rounds, uint32_t len)
{
	struct end a, b;
	struct player pa = {&a, true, sleep_a, rounds, len}, pb = {&b, false, sleep_b, rounds, len};
	pthread_t thread;

	open_pair(&a, &b);
	end_recv(&a);
	end_recv(&b);
	assert_int_equal(pthread_create(&thread, NULL, play, &pb), 0);
	play(&pa);
	pthread_join(thread, NULL);
	end_close(&a);
	end_close(&b);
}

static void engine__ping_pong_both_poll(void **state)
{
	(void)state;
	ping_pong(false, false, 2000, 8);
	ping_pong(false, false, 200, 30000);
}

static void engine__ping_pong_both_sleep(void **state)
{
	(void)state;
	ping_pong(true, true, 300, 8);
}

static void engine__ping_pong_one_sleeps(void **state)
{
	(void)state;
	ping_pong(false, true, 300, 5000);
}

/** A process that neither polls nor waits for events still serves RDMA: its engine's thread does the work. */
static void engine__a_target_that_does_not_poll_serves_rdma(void **state)
{
	struct end a, b;
	struct nic_wc wc;

	(void)state;
	open_pair(&a, &b);
	for (unsigned i = 1; i < 50; i++) {
		memset(a.buf, (int)i, BUF);
		end_send(&a, NIC_WR_RDMA_WRITE, BUF, &b);
		wc = end_wait(&a, a.scq, i & 1);
		assert_int_equal(wc.status, NIC_WC_SUCCESS);
		pmd_lock(b.engine); /* the lock orders the check after the engine thread's copy */
		assert_int_equal(b.buf[0], i);
		assert_int_equal(b.buf[BUF - 1], i);
		pmd_unlock(b.engine);
	}
	end_close(&a);
	end_close(&b);
}

/* ---- memory that goes away ------------------------------------------------------------------------------------ */

static void engine__a_protected_target_is_an_error_not_a_crash(void **state)
{
	struct pmd_port_stats stats;
	struct end a, b;
	struct nic_wc wc;

	(void)state;
	open_pair(&a, &b);
	pmd_guard_reinstall(); /* cmocka installs its own signal handlers */
	/* Inaccessible but still mapped: if it were unmapped, a new thread's stack could get these addresses. */
	assert_ptr_equal(mmap(b.buf, BUF, PROT_NONE, MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), b.buf);
	end_send(&a, NIC_WR_RDMA_WRITE, 8, &b);
	wc = end_wait(&a, a.scq, false);
	assert_int_not_equal(wc.status, NIC_WC_SUCCESS);
	pmd_lock(b.engine);
	assert_int_equal(nic_counters(b.nic)[NIC_CNT_app_memory_fault], 1);
	pmd_port_stats_get(b.engine, &stats);
	assert_true(stats.rx_packets + stats.link_rx_packets >= 1);
	pmd_unlock(b.engine);
	end_close(&a);
	end_close(&b);
}

/* ---- life ----------------------------------------------------------------------------------------------------- */

static void engine__same_device_is_one_engine(void **state)
{
	struct pmd_engine *one, *two, *three;
	char err[256] = "";

	(void)state;
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &one, err, sizeof(err)), 0);
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &two, err, sizeof(err)), 0);
	assert_ptr_equal(one, two);
	pmd_close(one);
	while (!pmd_try_progress(two)) /* fails while the engine's thread holds the lock */
		sched_yield();
	pmd_close(two);
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &three, err, sizeof(err)), 0);
	pmd_close(three);
}

static void engine__opening_keeps_the_cpu_affinity_and_signal_mask(void **state)
{
	cpu_set_t cpus, cpus_after;
	sigset_t mask, mask_after;
	struct pmd_engine *e;
	char err[256] = "";

	(void)state;
	CPU_ZERO(&cpus);
	CPU_ZERO(&cpus_after);
	sched_getaffinity(0, sizeof(cpus), &cpus);
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &e, err, sizeof(err)), 0);
	sched_getaffinity(0, sizeof(cpus_after), &cpus_after);
	pthread_sigmask(SIG_SETMASK, NULL, &mask_after);
	assert_true(CPU_EQUAL(&cpus, &cpus_after));
	for (int sig = 1; sig < 32; sig++)
		assert_int_equal(sigismember(&mask, sig), sigismember(&mask_after, sig));
	pmd_close(e);
}

static volatile sig_atomic_t children_ended;

static void on_child(int sig)
{
	(void)sig;
	children_ended++;
}

/** Opening a device starts its daemon when there is none. The daemon is no child of the program, and no descriptor
 * leaks. */
static void engine__the_daemon_is_not_a_child_of_the_program(void **state)
{
	const struct sigaction action = {.sa_handler = on_child};
	struct pmd_device d = device[0];
	struct proto_name name;
	struct sigaction before;
	struct pmd_engine *e;
	int fd, low = dup(2);
	struct ucred daemon;
	char err[256];

	(void)state;
	d.gid.raw[14] ^= 0x40; /* an address that has no daemon yet */
	close(low);
	assert_int_equal(sigaction(SIGCHLD, &action, &before), 0);
	assert_int_equal(pmd_open(&d, NULL, NULL, &e, err, sizeof(err)), 0);
	pmd_name_daemon(&d.gid, &name);
	fd = proto_connect(&name);
	assert_int_equal(fd, low); /* no lower descriptor was left open */
	assert_int_equal(proto_peer(fd, &daemon), 0);
	close(fd);
	assert_int_not_equal(daemon.pid, getpid());
	assert_int_equal(waitpid(-1, NULL, WNOHANG | __WALL), -1);
	assert_int_equal(errno, ECHILD);
	assert_int_equal(getsid(daemon.pid), daemon.pid);
	pmd_close(e);
	assert_int_equal(kill(daemon.pid, SIGKILL), 0);
	for (unsigned i = 0; i < 10000 && kill(daemon.pid, 0) == 0; i++)
		usleep(1000);
	assert_int_equal(children_ended, 0);
	assert_int_equal(sigaction(SIGCHLD, &before, NULL), 0);
}

static void engine__unusable_devices_return_an_error_message(void **state)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(NIC_UDP_PORT)};
	struct pmd_device d = device[0];
	struct pmd_engine *e;
	char err[256] = "";
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	(void)state;
	d.gid.raw[14] ^= 0x80; /* an address that has no daemon yet */
	memcpy(&sa.sin_addr, d.gid.raw + 12, 4);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(pmd_open(&d, NULL, NULL, &e, err, sizeof(err)), -EADDRINUSE);
	assert_non_null(strstr(err, "in use"));
	close(fd);
	d.gid.raw[12] = 203; /* 203.x is not this host's */
	assert_int_equal(pmd_open(&d, NULL, NULL, &e, err, sizeof(err)), -EADDRNOTAVAIL);
	assert_non_null(strstr(err, "not an address of this host"));
	d = device[0];
	strcpy(d.port, "ethdev:net_nonsense0");
	assert_true(pmd_open(&d, NULL, NULL, &e, err, sizeof(err)) < 0);
	assert_non_null(strstr(err, "net_nonsense0"));
	setenv("UROCE_MTU", "1500", 1);
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &e, err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "UROCE_MTU"));
	unsetenv("UROCE_MTU");
	setenv("UROCE_ACK_BACKOFF", "3", 1);
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &e, err, sizeof(err)), -EINVAL);
	assert_string_equal(err, "UROCE_ACK_BACKOFF is '3'; use 1, 2 or 4");
	setenv("UROCE_ACK_BACKOFF", "1", 1);
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &e, err, sizeof(err)), 0);
	pmd_close(e);
	unsetenv("UROCE_ACK_BACKOFF");
	assert_int_equal(pmd_open(&device[0], NULL, NULL, &e, err, sizeof(err)), 0);
	pmd_close(e);
}

static void engine__a_forked_child_has_only_devices_that_it_opens(void **state)
{
	struct end a, b;
	struct nic_wc wc;
	int status;
	pid_t pid;

	(void)state;
	SKIP_THREADS_AFTER_FORK();
	open_pair(&a, &b);
	pid = fork();
	if (pid == 0) {
		struct pmd_engine *e;
		char err[256] = "";
		int bad = 0;

		bad |= !pmd_is_dead(a.engine) || pmd_forks() != 1;
		bad |= pmd_try_progress(a.engine) ? 2 : 0;
		bad |= pmd_open(&device[0], NULL, NULL, &e, err, sizeof(err)) != 0 || pmd_is_dead(e) ? 4 : 0;
		if (!bad)
			pmd_close(e);
		pmd_lock(a.engine);
		pmd_doorbell(a.engine);
		pmd_progress(a.engine, 1);
		pmd_unlock(a.engine);
		pmd_close(a.engine);
		_exit(bad);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(pmd_forks(), 0);
	assert_false(pmd_is_dead(a.engine));
	end_send(&a, NIC_WR_RDMA_WRITE, 100, &b);
	wc = end_wait(&a, a.scq, true);
	assert_int_equal(wc.status, NIC_WC_SUCCESS);
	end_close(&a);
	end_close(&b);
}

static void *open_and_close(void *done)
{
	struct pmd_engine *e;
	char err[256] = "";
	int unused;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &unused);
	assert_int_equal(pthread_cancel(pthread_self()), 0);
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &unused);
	if (pmd_open(&device[0], NULL, NULL, &e, err, sizeof(err)) == 0)
		pmd_close(e);
	*(bool *)done = true;
	return NULL;
}

/** A cancelled thread does not end inside pmd_open() or pmd_close(), where it would leave a lock held. */
static void engine__opening_and_closing_are_no_cancellation_points(void **state)
{
	bool done = false;
	pthread_t thread;

	(void)state;
	assert_int_equal(pthread_create(&thread, NULL, open_and_close, &done), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_true(done);
}

#define NOT_PERMITTED 77

/** Open a device in a child process with an empty /sys. @return the child's exit status: 0 if the device opened, 1 if
 * it failed with the right message. */
static int open_without_sys(void)
{
	struct pmd_engine *e;
	char err[256] = "";
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		if ((unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) ||
		    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
		    mount("none", "/sys", "tmpfs", 0, NULL) != 0)
			_exit(NOT_PERMITTED);
		if (pmd_open(&device[0], NULL, NULL, &e, err, sizeof(err)) != 0)
			_exit(strstr(err, "mount -t sysfs") ? 1 : 2);
		pmd_close(e);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == NOT_PERMITTED) {
		print_message("needs a mount namespace, and those are not permitted here\n");
		skip();
	}
	return WEXITSTATUS(status);
}

/** With an empty /sys, opening fails with an error message, since DPDK needs /sys. This test comes first, because later
 *  DPDK is already running. */
static void engine__starting_without_sys_returns_an_error_message(void **state)
{
	(void)state;
#ifdef WITHOUT_DPDK
	assert_int_equal(open_without_sys(), 0);
#else
	assert_int_equal(open_without_sys(), 1);
#endif
}

static void engine__opening_needs_no_sys_once_dpdk_runs(void **state)
{
	(void)state;
	SKIP_THREADS_AFTER_FORK();
	assert_int_equal(open_without_sys(), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(engine__starting_without_sys_returns_an_error_message),
		cmocka_unit_test(engine__opening_keeps_the_cpu_affinity_and_signal_mask),
		cmocka_unit_test(engine__same_device_is_one_engine),
		cmocka_unit_test(engine__ping_pong_both_poll),
		cmocka_unit_test(engine__ping_pong_both_sleep),
		cmocka_unit_test(engine__ping_pong_one_sleeps),
		cmocka_unit_test(engine__a_target_that_does_not_poll_serves_rdma),
		cmocka_unit_test(engine__a_protected_target_is_an_error_not_a_crash),
		cmocka_unit_test(engine__the_daemon_is_not_a_child_of_the_program),
		cmocka_unit_test(engine__unusable_devices_return_an_error_message),
		cmocka_unit_test(engine__a_forked_child_has_only_devices_that_it_opens),
		cmocka_unit_test(engine__opening_and_closing_are_no_cancellation_points),
		cmocka_unit_test(engine__opening_needs_no_sys_once_dpdk_runs),
	};

	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
