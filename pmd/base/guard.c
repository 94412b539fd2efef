/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * guard.c - accesses to application memory that survive its disappearance, and checks of ranges at registration.
 *
 * pmd_guard_run notes a resume point for the thread and calls fn. A SIGSEGV or SIGBUS of this thread while the note
 * is set is fn's: the handler resumes there. Any other fault, and signals that somebody sends, go to the handler that
 * was installed before ours, or to the default action. The signal mask is put back on a fault only, so that the resume
 * point costs a few stores. The handlers run on the thread's alternate stack where it has one.
 *
 * A handler that the application installs later replaces ours until pmd_guard_reinstall. To look before each access would be
 * a system call in the data path, and to interpose sigaction would be a change to every program; docs/programs.md says so.
 *
 * Owns: the process's SIGSEGV and SIGBUS actions and the ones found before; installed when first needed. The threads'
 * notes.
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

/* What a thread has noted. The handler must find it without thread-local storage: that of a library which was loaded at
 * run time is allocated at a thread's first access, which may be in the handler, on a thread that faulted inside malloc;
 * and the static reserve of such storage is too small for a library with DPDK in it. */
struct guard_thread {
	struct guard_thread *next; /* constant once it is listed */
	uintptr_t owner;	   /* atomic: its thread; 0: free */
	void **volatile resume;	   /* of the access under way, as __builtin_setjmp wants it; NULL: there is none */
};

#define RESERVE 32

static _Thread_local struct guard_thread *guard_self; /* not for the handler */

static struct {
	pthread_mutex_t lock;
	struct sigaction previous[2]; /* SIGSEGV, SIGBUS */
	pthread_once_t once;
	pthread_key_t key; /* its destructor frees a thread's entry */
	bool have_key;
	struct guard_thread reserve[RESERVE];
	struct guard_thread *more; /* atomic: list of further ones, which only grows */
} guard = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

/* ---- threads ------------------------------------------------------------------------------------------------- */

static struct guard_thread *guard_next(struct guard_thread *t)
{
	if (t >= guard.reserve && t < guard.reserve + RESERVE - 1)
		return t + 1;
	return t == guard.reserve + RESERVE - 1 ? __atomic_load_n(&guard.more, __ATOMIC_ACQUIRE) : t->next;
}

/** The entry of this thread. @return NULL: it has none. */
static struct guard_thread *guard_find(void)
{
	uintptr_t self = (uintptr_t)pthread_self();
	struct guard_thread *t;

	for (t = guard.reserve; t; t = guard_next(t))
		if (__atomic_load_n(&t->owner, __ATOMIC_RELAXED) == self)
			break;
	return t;
}

/** The entry of this thread, or a free one that becomes it. Not for the handler: a thread that never comes to an access
 *  would keep it for ever. @return NULL: there is none. */
static struct guard_thread *guard_claim(void)
{
	struct guard_thread *t = guard_find();

	if (t)
		return t;
	for (t = guard.reserve; t; t = guard_next(t)) {
		uintptr_t nobody = 0;

		if (__atomic_compare_exchange_n(&t->owner, &nobody, (uintptr_t)pthread_self(), false, __ATOMIC_ACQUIRE,
						__ATOMIC_RELAXED))
			return t;
	}
	return NULL;
}

static void guard_thread_exit(void *arg)
{
	struct guard_thread *t = arg;

	guard_self = NULL; /* other destructors may yet come here again */
	t->resume = NULL;
	__atomic_store_n(&t->owner, 0, __ATOMIC_RELEASE);
}

/** In a program that has used up all keys (there are a thousand) an entry stays with its thread's handle, which a later
 *  thread takes over with the stack: there are as many as there ever were threads at a time. */
static void guard_create_key(void)
{
	guard.have_key = pthread_key_create(&guard.key, guard_thread_exit) == 0;
}

/** A thread's first access. A fault on a thread that blocks its signal kills the process; programs that block "all"
 *  signals do not mean these. @return NULL: out of memory. */
__attribute__((cold, noinline)) static struct guard_thread *guard_enter(void)
{
	struct guard_thread *t = guard_claim();
	sigset_t faults;

	if (!t && (t = calloc(1, sizeof(*t)))) {
		t->owner = (uintptr_t)pthread_self();
		t->next = __atomic_load_n(&guard.more, __ATOMIC_RELAXED);
		while (!__atomic_compare_exchange_n(&guard.more, &t->next, t, false, __ATOMIC_RELEASE,
						    __ATOMIC_RELAXED))
			;
	}
	if (!t)
		return NULL;
	pthread_once(&guard.once, guard_create_key);
	if (guard.have_key)
		pthread_setspecific(guard.key, t);
	sigemptyset(&faults);
	sigaddset(&faults, SIGSEGV);
	sigaddset(&faults, SIGBUS);
	pthread_sigmask(SIG_UNBLOCK, &faults, NULL);
	return guard_self = t;
}

/* ---- handlers ------------------------------------------------------------------------------------------------ */

static void guard_default(int sig)
{
	struct sigaction dfl;

	/* The instruction faults again on return and takes the default action, core dump included. */
	memset(&dfl, 0, sizeof(dfl));
	dfl.sa_handler = SIG_DFL;
	sigaction(sig, &dfl, NULL);
}

/** What the application wants done, once: a handler of one shot is the default action from then on. */
static struct sigaction guard_previous(int sig)
{
	struct sigaction *kept = &guard.previous[sig == SIGBUS], prev = *kept;

	if (prev.sa_flags & (int)SA_RESETHAND) {
		kept->sa_flags = 0;
		kept->sa_handler = SIG_DFL;
	}
	return prev;
}

/*
 * A handler of the application that calls its predecessor, us, would come back here for ever. So while it runs, the
 * context of the fault bears our mark, in a field that the kernel clears and never reads. Marks are listed, because there
 * may be one more library with a guard in the process. Nothing has to be cleaned up after a handler that jumps away: the
 * kernel makes a new context for every fault.
 */
struct guard_mark {
	const void *library;
	const struct guard_mark *outer;
};

static bool guard_is_marked(const ucontext_t *context)
{
	const struct guard_mark *m = (const void *)context->uc_link;

	while (m && m->library != &guard)
		m = m->outer;
	return m;
}

static void guard_chain(const struct sigaction *prev, int sig, siginfo_t *info, ucontext_t *context)
{
	const struct guard_mark mark = {&guard, (const void *)context->uc_link};
	sigset_t mask = prev->sa_mask;

	/* The mask goes back to the interrupted one when the handler returns, or as the application's jump wants. */
	if (!(prev->sa_flags & SA_NODEFER))
		sigaddset(&mask, sig);
	pthread_sigmask(SIG_BLOCK, &mask, NULL);
	context->uc_link = (void *)&mark;
	if (prev->sa_flags & SA_SIGINFO)
		prev->sa_sigaction(sig, info, context);
	else
		prev->sa_handler(sig);
	context->uc_link = (void *)mark.outer;
}

static void guard_handler(int sig, siginfo_t *info, void *ctx)
{
	struct guard_thread *t = guard_find();
	void **resume = t ? t->resume : NULL;
	bool fault = info->si_code > 0; /* else sent by kill(): nothing faults again */
	ucontext_t *context = ctx;
	struct sigaction prev;

	if (resume && fault) {
		t->resume = NULL;
		/* As it was: whatever stands between sigaction and the kernel may have asked for more to be blocked. */
		pthread_sigmask(SIG_SETMASK, &context->uc_sigmask, NULL);
		__builtin_longjmp(resume, 1);
	}
	prev = guard_previous(sig);
	if (!(prev.sa_flags & SA_SIGINFO) && prev.sa_handler == SIG_IGN && !fault)
		return;
	if (guard_is_marked(context) ||
	    (!(prev.sa_flags & SA_SIGINFO) && (prev.sa_handler == SIG_DFL || prev.sa_handler == SIG_IGN))) {
		guard_default(sig);
		if (!fault)
			raise(sig);
		return;
	}
	guard_chain(&prev, sig, info, context);
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

/* ---- fork ---------------------------------------------------------------------------------------------------- */

void pmd_guard_fork_prepare(void)
{
	pthread_mutex_lock(&guard.lock);
}

void pmd_guard_fork_parent(void)
{
	pthread_mutex_unlock(&guard.lock);
}

void pmd_guard_fork_child(void)
{
	for (struct guard_thread *t = guard.reserve; t; t = guard_next(t)) {
		if (t == guard_self)
			continue;
		t->resume = NULL; /* a new thread may get the handle of one that was in the middle of an access */
		t->owner = 0;
	}
	pthread_mutex_unlock(&guard.lock);
}

/* ---- accesses ------------------------------------------------------------------------------------------------ */

/* Never inlined: locals of a function that is resumed are only safe when nothing but `t` lives across the call. */
__attribute__((noinline)) bool pmd_guard_run(void *ctx, void (*fn)(void *arg), void *arg)
{
	struct guard_thread *t = guard_self;
	void *resume[5];

	(void)ctx;
	if (!t && !(t = guard_enter())) {
		fn(arg); /* without memory for a note there is no protection */
		return true;
	}
	if (__builtin_setjmp(resume))
		return false;
	t->resume = resume;
	__asm__ volatile("" ::: "memory");
	fn(arg);
	__asm__ volatile("" ::: "memory");
	t->resume = NULL;
	return true;
}

/* ---- ranges -------------------------------------------------------------------------------------------------- */

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
