/* SPDX-License-Identifier: BSD-3-Clause */
/* test_pmd_guard.c - pmd/base/guard.c: faults in guarded accesses, faults in the application's own code, checks of
 * address ranges. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "dma.h"
#include "engine.h"
#include "guard.h"

#ifndef SS_AUTODISARM
#define SS_AUTODISARM (1U << 31)
#endif

static size_t page;

/** Write one byte, as the NIC's guarded accesses do. DMA keeps ThreadSanitizer from reporting several threads that
 * fault at one address. */
DMA static void touch(void *arg)
{
	*(volatile char *)arg = 1;
}

static void copy_then_touch(void *arg)
{
	char **p = arg;

	memset(p[0], 7, 64);
	touch(p[1]);
	p[0][0] = 9; /* not reached when p[1] faults */
}

static char *map(size_t pages, int prot)
{
	char *p = mmap(NULL, pages * page, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_true(p != MAP_FAILED);
	return p;
}

static void guard__good_access_returns_true(void **state)
{
	char *p = map(1, PROT_READ | PROT_WRITE);

	(void)state;
	pmd_guard_reinstall(); /* cmocka brings its own handlers to every test */
	assert_true(pmd_guard_run(NULL, touch, p));
	assert_int_equal(p[0], 1);
	munmap(p, page);
}

static void guard__access_to_unmapped_or_protected_memory_returns_false(void **state)
{
	char *good = map(1, PROT_READ | PROT_WRITE), *gone = map(1, PROT_READ | PROT_WRITE), *ro = map(1, PROT_READ);
	char *pair[2] = {good, gone};

	(void)state;
	pmd_guard_reinstall(); /* cmocka brings its own handlers to every test */
	munmap(gone, page);
	for (unsigned i = 0; i < 20; i++) {
		assert_false(pmd_guard_run(NULL, touch, gone));
		assert_false(pmd_guard_run(NULL, touch, ro));
		assert_true(pmd_guard_run(NULL, touch, good));
	}
	assert_false(pmd_guard_run(NULL, copy_then_touch, pair));
	assert_int_equal(good[0], 7);
	munmap(good, page);
	munmap(ro, page);
}

/** A handler begins with other floating-point modes, signals blocked, and the alternate stack disarmed if the thread
 * asks for that. After a fault the thread has its own again. */
static void guard__a_fault_leaves_the_thread_s_modes(void **state)
{
	static char stack[65536];
	stack_t own = {.ss_sp = stack, .ss_size = sizeof(stack), .ss_flags = SS_AUTODISARM},
		none = {.ss_flags = SS_DISABLE};
	char *p = map(1, PROT_NONE);
	sigset_t blocked, now;
	stack_t after;
	fenv_t modes;

	(void)state;
	pmd_guard_reinstall();
	assert_int_equal(sigaltstack(&own, NULL), 0);
	sigemptyset(&blocked);
	sigaddset(&blocked, SIGUSR1);
	assert_int_equal(pthread_sigmask(SIG_BLOCK, &blocked, NULL), 0);
	fegetenv(&modes);
	assert_int_equal(fesetround(FE_UPWARD), 0);
#ifdef __SSE__
	unsigned csr = __builtin_ia32_stmxcsr() | 0x8040; /* denormals are flushed */

	__builtin_ia32_ldmxcsr(csr);
#endif
	for (unsigned i = 0; i < 2; i++) {
		assert_false(pmd_guard_run(NULL, touch, p));
		assert_int_equal(fegetround(), FE_UPWARD);
#ifdef __SSE__
		assert_int_equal(__builtin_ia32_stmxcsr(), csr);
#endif
		pthread_sigmask(SIG_BLOCK, NULL, &now);
		assert_int_equal(sigismember(&now, SIGUSR1), 1);
		assert_int_equal(sigismember(&now, SIGSEGV), 0);
		assert_int_equal(sigaltstack(NULL, &after), 0);
		assert_ptr_equal(after.ss_sp, stack);
	}
	fesetenv(&modes);
	pthread_sigmask(SIG_UNBLOCK, &blocked, NULL);
	sigaltstack(&none, NULL);
	munmap(p, page);
}

static void guard__access_beyond_a_truncated_file_returns_false(void **state)
{
	int fd = memfd_create("t", 0);
	char *p;

	(void)state;
	pmd_guard_reinstall(); /* cmocka brings its own handlers to every test */
	assert_int_equal(ftruncate(fd, (off_t)page), 0);
	p = mmap(NULL, page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_true(p != MAP_FAILED);
	assert_true(pmd_guard_run(NULL, touch, p));
	assert_int_equal(ftruncate(fd, 0), 0);
	assert_false(pmd_guard_run(NULL, touch, p));
	munmap(p, page);
	close(fd);
}

static void *thread_with_blocked_signals(void *arg)
{
	sigset_t all;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, NULL);
	for (unsigned i = 0; i < 20; i++)
		if (pmd_guard_run(NULL, touch, arg))
			return arg;
	return NULL;
}

static void guard__each_of_many_threads_recovers_from_its_own_faults(void **state)
{
	char *gone = map(1, PROT_NONE); /* not unmapped: a new thread's stack could get its addresses */
	pthread_t t[40];		/* more threads than the guard has places in reserve */
	void *ret;

	(void)state;
	pmd_guard_reinstall(); /* cmocka brings its own handlers to every test */
	for (unsigned i = 0; i < 40; i++)
		assert_int_equal(pthread_create(&t[i], NULL, thread_with_blocked_signals, gone), 0);
	for (unsigned i = 0; i < 40; i++) {
		pthread_join(t[i], &ret);
		assert_null(ret);
	}
}

/* ---- the application's own handler --------------------------------------------------------------------------- */

static sigjmp_buf app_jump;
static volatile int app_faults;
static volatile void *app_addr;

static void app_handler(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	app_faults++;
	app_addr = info->si_addr;
	siglongjmp(app_jump, 1);
}

static void app_install(void)
{
	struct sigaction act = {.sa_flags = SA_SIGINFO};

	act.sa_sigaction = app_handler;
	sigemptyset(&act.sa_mask);
	sigaction(SIGSEGV, &act, NULL);
}

static void app_fault(char *gone)
{
	if (sigsetjmp(app_jump, 1) == 0)
		touch(gone);
}

static void guard__faults_of_the_application_go_to_its_handler(void **state)
{
	char *gone = map(1, PROT_READ | PROT_WRITE);

	(void)state;
	munmap(gone, page);
	app_install();
	pmd_guard_reinstall();
	app_faults = 0;
	for (int i = 1; i <= 5; i++) {
		app_fault(gone);
		assert_int_equal(app_faults, i);
		assert_ptr_equal(app_addr, gone);
		assert_false(pmd_guard_run(NULL, touch, gone));
		assert_int_equal(app_faults, i);
	}
}

static void guard__handler_installed_later_is_chained_after_a_check(void **state)
{
	char *gone = map(1, PROT_READ | PROT_WRITE), *good = map(1, PROT_READ | PROT_WRITE);

	(void)state;
	munmap(gone, page);
	pmd_guard_reinstall();
	app_install(); /* replaces the guard's handler */
	assert_int_equal(pmd_check_range(good, page, true), 0);
	app_faults = 0;
	assert_false(pmd_guard_run(NULL, touch, gone));
	assert_int_equal(app_faults, 0);
	app_fault(gone);
	assert_int_equal(app_faults, 1);
	munmap(good, page);
}

static struct sigaction chained;

static void chaining_handler(int sig, siginfo_t *info, void *context)
{
	chained.sa_sigaction(sig, info, context);
}

/** Run fn in a child process. No handler resolves its fault: the child must die of the signal, not hang or recurse. */
static int child_status(void (*fn)(char *gone))
{
	char *gone = map(1, PROT_READ | PROT_WRITE);
	struct rlimit none = {0, 0};
	int status;
	pid_t pid;

	munmap(gone, page);
	pid = fork();
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &none);
		signal(SIGSEGV, SIG_DFL);
		alarm(20);
		fn(gone);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static void die_plainly(char *gone)
{
	pmd_guard_reinstall();
	touch(gone);
}

static void die_in_a_circle(char *gone)
{
	struct sigaction act = {.sa_flags = SA_SIGINFO | SA_NODEFER};

	pmd_guard_reinstall();
	act.sa_sigaction = chaining_handler; /* an application handler that calls the guard's, while the guard's calls
						it: a loop */
	sigemptyset(&act.sa_mask);
	sigaction(SIGSEGV, &act, &chained);
	pmd_guard_reinstall();
	touch(gone);
}

static volatile int shots;

static void one_shot_handler(int sig)
{
	(void)sig;
	if (++shots == 3)
		_exit(1);
}

/** A one-shot handler (SA_RESETHAND) returns to the faulting access: the second fault ends the process. */
static void die_after_one_shot(char *gone)
{
	struct sigaction act = {.sa_flags = (int)SA_RESETHAND};

	act.sa_handler = one_shot_handler;
	sigemptyset(&act.sa_mask);
	sigaction(SIGSEGV, &act, NULL);
	pmd_guard_reinstall();
	touch(gone);
}

static void raise_segv(void *arg)
{
	(void)arg;
	raise(SIGSEGV);
}

static void die_by_kill_during_an_access(char *gone)
{
	(void)gone;
	pmd_guard_reinstall();
	pmd_guard_run(NULL, raise_segv, NULL);
}

static void die_though_ignored(char *gone)
{
	signal(SIGSEGV, SIG_IGN);
	pmd_guard_reinstall();
	touch(gone);
}

static void live_when_kill_is_ignored(char *gone)
{
	(void)gone;
	signal(SIGSEGV, SIG_IGN);
	pmd_guard_reinstall();
	raise(SIGSEGV);
	_exit(7);
}

static void die_by_kill(char *gone)
{
	(void)gone;
	pmd_guard_reinstall();
	raise(SIGSEGV);
}

static void guard__faults_without_a_handler_kill(void **state)
{
	void (*const ways[])(char *) = {
		die_plainly,	   die_in_a_circle, die_by_kill, die_after_one_shot, die_by_kill_during_an_access,
		die_though_ignored};

	(void)state;
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		int status = child_status(ways[i]);

		assert_true(WIFSIGNALED(status));
		assert_int_equal(WTERMSIG(status), SIGSEGV);
	}
}

static void guard__a_signal_that_is_ignored_stays_so(void **state)
{
	int status = child_status(live_when_kill_is_ignored);

	(void)state;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

/* ---- loaded at run time --------------------------------------------------------------------------------------- */

/** Look up a function of the library that is loaded at run time and contains a second copy of the guard. */
static void *module_symbol(const char *name)
{
	void *library = dlopen(getenv("GUARD_MODULE"), RTLD_NOW), *symbol;

	assert_non_null(library);
	symbol = dlsym(library, name);
	assert_non_null(symbol);
	return symbol;
}

static void module_install(void)
{
	((void (*)(void))module_symbol("guard_module_install"))();
}

static void *fault_and_count(void *arg)
{
	size_t before = mallinfo2().uordblks;

	app_fault(arg);
	return mallinfo2().uordblks == before ? NULL : arg;
}

/** The guard's handler never allocates, not even on a thread that never used the guard: the fault can be inside
 * malloc(). */
static void guard__handler_of_a_loaded_library_allocates_nothing(void **state)
{
	char *gone = map(1, PROT_NONE);
	pthread_t t;
	void *ret;

	(void)state;
	mallopt(M_ARENA_MAX, 1);
	app_install();
	module_install();
	app_faults = 0;
	assert_int_equal(pthread_create(&t, NULL, fault_and_count, gone), 0);
	pthread_join(t, &ret);
	assert_int_equal(app_faults, 1);
	assert_null(ret);
	munmap(gone, page);
}

static void guard__two_libraries_find_the_application_s_handler(void **state)
{
	char *gone = map(1, PROT_NONE);

	(void)state;
	app_install();
	pmd_guard_reinstall();
	module_install();
	app_faults = 0;
	app_fault(gone);
	assert_int_equal(app_faults, 1);
	munmap(gone, page);
}

static int circles;

static void counting_handler(int sig, siginfo_t *info, void *context)
{
	if (++circles == 3)
		_exit(1);
	chained.sa_sigaction(sig, info, context);
}

/** Three signal handlers form a loop: the guard's handler calls the application's, the application's calls the
 * module's, and the module's calls the guard's. The process must die. */
static void die_in_a_circle_of_libraries(char *gone)
{
	struct sigaction act = {.sa_flags = SA_SIGINFO | SA_NODEFER};

	pmd_guard_reinstall();
	module_install();
	act.sa_sigaction = counting_handler;
	sigemptyset(&act.sa_mask);
	sigaction(SIGSEGV, &act, &chained);
	pmd_guard_reinstall();
	touch(gone);
}

static void guard__a_loop_of_library_handlers_kills_the_process(void **state)
{
	int status = child_status(die_in_a_circle_of_libraries);

	(void)state;
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGSEGV);
}

static void live_without_keys(char *gone)
{
	bool (*run)(void (*fn)(void *), void *) = (bool (*)(void (*)(void *), void *))module_symbol("guard_module_run");
	pthread_key_t key;

	module_install();
	while (pthread_key_create(&key, NULL) == 0)
		;
	_exit(run(touch, gone) ? 1 : 7);
}

static void guard__works_when_all_keys_are_taken(void **state)
{
	int status = child_status(live_without_keys);

	(void)state;
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 7);
}

/* ---- threads that come and go -------------------------------------------------------------------------------- */

#define CROWD 100 /* more threads than the guard has made room for so far */

static pthread_mutex_t crowd_lock = PTHREAD_MUTEX_INITIALIZER; /* protects app_jump */
static pthread_barrier_t crowd_is_here, crowd_may_go;

static void *crowd_faults(void *arg)
{
	pthread_mutex_lock(&crowd_lock);
	app_fault(arg);
	pthread_mutex_unlock(&crowd_lock);
	pthread_barrier_wait(&crowd_is_here);
	pthread_barrier_wait(&crowd_may_go);
	return NULL;
}

static void *run_and_count(void *arg)
{
	size_t before = mallinfo2().uordblks;

	if (pmd_guard_run(NULL, touch, arg))
		return arg;
	return mallinfo2().uordblks == before ? NULL : arg;
}

/** The guard has limited room for threads. A thread that faults in the application's own code takes none of it. */
static void guard__application_faults_use_none_of_the_room_for_threads(void **state)
{
	char *gone = map(1, PROT_NONE);
	pthread_t crowd[CROWD], t;
	void *ret;

	(void)state;
	mallopt(M_ARENA_MAX, 1);
	pthread_barrier_init(&crowd_is_here, NULL, CROWD + 1);
	pthread_barrier_init(&crowd_may_go, NULL, CROWD + 1);
	app_install();
	pmd_guard_reinstall();
	app_faults = 0;
	for (unsigned i = 0; i < CROWD; i++)
		assert_int_equal(pthread_create(&crowd[i], NULL, crowd_faults, gone), 0);
	pthread_barrier_wait(&crowd_is_here);
	assert_int_equal(app_faults, CROWD);
	assert_int_equal(pthread_create(&t, NULL, run_and_count, gone), 0);
	pthread_join(t, &ret);
	assert_null(ret);
	pthread_barrier_wait(&crowd_may_go);
	for (unsigned i = 0; i < CROWD; i++)
		pthread_join(crowd[i], NULL);
	munmap(gone, page);
}

/* ---- ranges -------------------------------------------------------------------------------------------------- */

static void range__mapped_and_writable(void **state)
{
	char *p = map(4, PROT_READ | PROT_WRITE);

	(void)state;
	assert_int_equal(pmd_check_range(p, 4 * page, true), 0);
	assert_int_equal(pmd_check_range(p + 1, 4 * page - 2, true), 0);
	assert_int_equal(pmd_check_range(p, 0, true), 0);
	munmap(p + 2 * page, page); /* unmapped: a hole between mapped pages */
	assert_int_equal(pmd_check_range(p, 2 * page, true), 0);
	assert_int_equal(pmd_check_range(p, 2 * page + 1, true), -EFAULT);
	assert_int_equal(pmd_check_range(p, 4 * page, false), -EFAULT);
	assert_int_equal(pmd_check_range(p + 3 * page, page, true), 0);
	mprotect(p, page, PROT_READ);
	assert_int_equal(pmd_check_range(p, page, false), 0);
	assert_int_equal(pmd_check_range(p, page, true), -EFAULT);
	mprotect(p, page, PROT_NONE);
	assert_int_equal(pmd_check_range(p, page, false), -EFAULT);
	munmap(p, 4 * page);
}

static void range__long_ranges_are_not_populated(void **state)
{
	size_t len = (size_t)1 << 30, pages = len / page;
	char *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	unsigned char *in_core = malloc(pages);
	size_t present = 0;

	(void)state;
	assert_true(p != MAP_FAILED);
	assert_int_equal(pmd_check_range(p, len, true), 0);
	assert_int_equal(mincore(p, len, in_core), 0);
	for (size_t i = 0; i < pages; i++)
		present += in_core[i] & 1;
	assert_int_equal(present, 0);
	munmap(p + len / 2, page);
	assert_int_equal(pmd_check_range(p, len, true), -EFAULT);
	assert_int_equal(pmd_check_range(p, len / 2, true), 0);
	munmap(p, len);
	free(in_core);
}

static void range__overflow_is_a_fault(void **state)
{
	(void)state;
	assert_int_equal(pmd_check_range((void *)(UINTPTR_MAX - 10), 100, false), -EFAULT);
	assert_int_equal(pmd_check_range((void *)16, SIZE_MAX, true), -EFAULT);
	assert_int_equal(pmd_check_range(NULL, 1, false), -EFAULT);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guard__good_access_returns_true),
		cmocka_unit_test(guard__access_to_unmapped_or_protected_memory_returns_false),
		cmocka_unit_test(guard__a_fault_leaves_the_thread_s_modes),
		cmocka_unit_test(guard__access_beyond_a_truncated_file_returns_false),
		cmocka_unit_test(guard__each_of_many_threads_recovers_from_its_own_faults),
		cmocka_unit_test(guard__faults_of_the_application_go_to_its_handler),
		cmocka_unit_test(guard__handler_installed_later_is_chained_after_a_check),
		cmocka_unit_test(guard__faults_without_a_handler_kill),
		cmocka_unit_test(guard__a_signal_that_is_ignored_stays_so),
		cmocka_unit_test(guard__handler_of_a_loaded_library_allocates_nothing),
		cmocka_unit_test(guard__two_libraries_find_the_application_s_handler),
		cmocka_unit_test(guard__a_loop_of_library_handlers_kills_the_process),
		cmocka_unit_test(guard__works_when_all_keys_are_taken),
		cmocka_unit_test(guard__application_faults_use_none_of_the_room_for_threads),
		cmocka_unit_test(range__mapped_and_writable),
		cmocka_unit_test(range__long_ranges_are_not_populated),
		cmocka_unit_test(range__overflow_is_a_fault),
	};

	page = (size_t)sysconf(_SC_PAGESIZE);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
