/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * guard.c - accesses to application memory that survive its disappearance, and checks of ranges at registration.
 *
 * pmd_guard_run notes a resume point for the thread and calls fn. A SIGSEGV or SIGBUS of this thread while the note
 * is set is fn's: the handler resumes there. Any other fault goes to the handler that was installed before ours, or
 * to the default action. The signal mask is put back on a fault only, so that the resume point costs a few stores. The
 * handlers run on the thread's alternate stack where it has one.
 *
 * Owns: the process's SIGSEGV and SIGBUS actions and the ones found before; installed when first needed.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "engine.h"
#include "guard.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* Up to here a range is checked by touching its pages, beyond by reading the process's map. */
#define CHECK_TOUCH_MAX (1u << 20)

struct guard_thread {
	void *resume[5]; /* as __builtin_setjmp wants it */
	volatile bool active;
	/* Where the application's handler was last called from; tells a chain that loops from one that jumped away. */
	const void *chain_context, *chain_frame;
};

static _Thread_local struct guard_thread guard_thread; /* not initial-exec: libraries with that cannot be dlopened */

static struct {
	pthread_mutex_t lock;
	struct sigaction previous[2]; /* SIGSEGV, SIGBUS */
} guard = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void guard_default(int sig)
{
	struct sigaction dfl;

	/* The instruction faults again on return and takes the default action, core dump included. */
	memset(&dfl, 0, sizeof(dfl));
	dfl.sa_handler = SIG_DFL;
	sigaction(sig, &dfl, NULL);
}

static void guard_handler(int sig, siginfo_t *info, void *context)
{
	struct guard_thread *t = &guard_thread;
	const struct sigaction *prev = &guard.previous[sig == SIGBUS];
	const void *frame = __builtin_frame_address(0);
	sigset_t mask;

	if (t->active) {
		t->active = false;
		/* As it was: whatever stands between sigaction and the kernel may have asked for more to be blocked. */
		pthread_sigmask(SIG_SETMASK, &((ucontext_t *)context)->uc_sigmask, NULL);
		__builtin_longjmp(t->resume, 1);
	}
	/* A handler of the application that calls its predecessor, us, would come back here for ever: for the same
	 * fault, further down the stack. */
	if ((t->chain_context == context && (uintptr_t)frame < (uintptr_t)t->chain_frame) ||
	    (!(prev->sa_flags & SA_SIGINFO) && (prev->sa_handler == SIG_DFL || prev->sa_handler == SIG_IGN))) {
		guard_default(sig);
		if (info->si_code <= 0) /* sent by kill(): nothing faults again */
			raise(sig);
		return;
	}
	/* The mask goes back to the interrupted one when the handler returns, or as the application's jump wants. */
	mask = prev->sa_mask;
	if (!(prev->sa_flags & SA_NODEFER))
		sigaddset(&mask, sig);
	pthread_sigmask(SIG_BLOCK, &mask, NULL);
	t->chain_context = context;
	t->chain_frame = frame;
	if (prev->sa_flags & SA_SIGINFO)
		prev->sa_sigaction(sig, info, context);
	else
		prev->sa_handler(sig);
	t->chain_context = NULL;
}

static void guard_install(int sig)
{
	struct sigaction act, *prev = &guard.previous[sig == SIGBUS];
	struct sigaction now;

	if (sigaction(sig, NULL, &now) != 0 || ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == guard_handler))
		return;
	*prev = now;
	memset(&act, 0, sizeof(act));
	act.sa_sigaction = guard_handler;
	act.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
	sigaction(sig, &act, NULL);
}

void pmd_guard_reinstall(void)
{
	pthread_mutex_lock(&guard.lock);
	guard_install(SIGSEGV);
	guard_install(SIGBUS);
	pthread_mutex_unlock(&guard.lock);
}

/* Never inlined: locals of a function that is resumed are only safe when nothing but `t` lives across the call. */
__attribute__((noinline)) bool pmd_guard_run(void *ctx, void (*fn)(void *arg), void *arg)
{
	struct guard_thread *t = &guard_thread;

	(void)ctx;
	if (__builtin_setjmp(t->resume))
		return false;
	t->active = true;
	__asm__ volatile("" ::: "memory");
	fn(arg);
	__asm__ volatile("" ::: "memory");
	t->active = false;
	return true;
}

/** Every byte of [start, end) lies in mappings with the rights, by /proc/self/maps. Exact, but reads the whole map. */
static int check_maps(uintptr_t start, uintptr_t end, bool write)
{
	FILE *maps = fopen("/proc/self/maps", "re");
	char *line = NULL;
	size_t cap = 0;
	uintptr_t covered = start;

	if (!maps)
		return 0; /* no /proc: the guard catches what is wrong later */
	while (covered < end && getline(&line, &cap, maps) > 0) {
		unsigned long from, to;
		char rights[5] = "";

		if (sscanf(line, "%lx-%lx %4s", &from, &to, rights) != 3 || to <= covered)
			continue;
		if (from > covered || rights[0] != 'r' || (write && rights[1] != 'w'))
			break;
		covered = to;
	}
	free(line);
	fclose(maps);
	return covered >= end ? 0 : -EFAULT;
}

/*
 * Short ranges: have the kernel fault the pages in, as registering memory with hardware does; costs little where they
 * are present already, and spares the data path the faults. Long ranges, older kernels and special mappings: the map.
 */
int pmd_check_range(const void *addr, size_t len, bool write)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), start = (uintptr_t)addr & ~(page - 1), end;

	pmd_guard_reinstall();
	if (len == 0)
		return 0;
	if (__builtin_add_overflow((uintptr_t)addr, len, &end) || end > UINTPTR_MAX - page)
		return -EFAULT;
	end = (end + page - 1) & ~(page - 1);
	if (end - start <= CHECK_TOUCH_MAX) {
		if (madvise((void *)start, end - start, write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) == 0)
			return 0;
		if (errno == ENOMEM || errno == EFAULT)
			return -EFAULT;
	}
	return check_maps(start, end, write);
}
