/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * guard.c - accesses to application memory that may have been unmapped.
 *
 * pmd_guard_run stores a resume point for the thread and calls fn. If the thread faults (SIGSEGV, SIGBUS) while the
 * resume point is set, the thread goes on there, and pmd_guard_run returns false. Any other fault, and signals sent by
 * kill(), go to the handler that was installed before ours, or to the default action. Setting a resume point costs a
 * few stores. The handlers run on the thread's alternate stack if it has one.
 *
 * A handler that the application installs later replaces ours until pmd_guard_reinstall is called. The alternatives are
 * worse: a check before each access costs a system call in the data path, and interposing sigaction affects every
 * program; see docs/programs.md.
 *
 * Owns: the process's SIGSEGV and SIGBUS actions (set by pmd_guard_reinstall), the previous actions, and the threads'
 * resume points.
 */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

#include "engine.h"
#include "guard.h"

/* A thread's resume point. The handler must not use thread-local storage to find it. In a library loaded at run time, a
 * thread's first access to a thread-local variable allocates memory. The handler could make that first access, in a
 * thread that has faulted inside malloc. The static TLS reserve is too small for a library with DPDK in it. */
struct guard_thread {
	struct guard_thread *next; /* constant once the entry is in the list */
	uintptr_t owner;	   /* atomic: the owning thread; 0: free */
	void **volatile resume;	   /* __builtin_setjmp buffer of the current guarded access; NULL: none */
};

#define RESERVE 32

static _Thread_local struct guard_thread *guard_self; /* must not be used in the handler */

static struct {
	pthread_mutex_t lock;
	struct sigaction previous[2]; /* the actions before ours, for SIGSEGV and SIGBUS */
	pthread_once_t once;
	pthread_key_t key; /* its destructor frees a thread's entry */
	bool have_key;
	struct guard_thread reserve[RESERVE];
	struct guard_thread *more; /* atomic: list of further entries, which are never removed */
} guard = {.lock = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

/* ---- threads ------------------------------------------------------------------------------------------------- */

static struct guard_thread *guard_next(struct guard_thread *t)
{
	if (t >= guard.reserve && t < guard.reserve + RESERVE - 1)
		return t + 1;
	return t == guard.reserve + RESERVE - 1 ? __atomic_load_n(&guard.more, __ATOMIC_ACQUIRE) : t->next;
}

/** @return the guard's entry of the calling thread; NULL: it has none. */
static struct guard_thread *guard_find(void)
{
	uintptr_t self = (uintptr_t)pthread_self();
	struct guard_thread *t;

	for (t = guard.reserve; t; t = guard_next(t))
		if (__atomic_load_n(&t->owner, __ATOMIC_RELAXED) == self)
			break;
	return t;
}

/** The entry of this thread; claims a free entry if the thread has none. The handler must not call this: a thread that
 *  faults and never makes a guarded access would keep the entry for ever. @return NULL: no free entry. */
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

	guard_self = NULL; /* destructors that run later in this thread may make guarded accesses */
	t->resume = NULL;
	__atomic_store_n(&t->owner, 0, __ATOMIC_RELEASE);
}

/** If the program has used up all pthread keys (about a thousand), no destructor frees a thread's entry. A later thread
 *  that gets the same pthread_t takes the entry over, so the list seldom grows. */
static void guard_create_key(void)
{
	guard.have_key = pthread_key_create(&guard.key, guard_thread_exit) == 0;
}

/** Prepare a thread's first guarded access. Unblocks SIGSEGV and SIGBUS: a fault whose signal is blocked kills the
 *  process, and programs that block "all" signals do not mean these two. @return NULL: out of memory. */
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

	/* The instruction faults again when the handler returns, and then the default action dumps core. */
	memset(&dfl, 0, sizeof(dfl));
	dfl.sa_handler = SIG_DFL;
	sigaction(sig, &dfl, NULL);
}

/** The application's action for one signal. If its handler is one-shot (SA_RESETHAND), the next signal gets the default
 *  action. */
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
 * An application handler may call the handler that was installed before it. If that is ours, the two would call each
 * other for ever. So while an application handler runs, our mark is in uc_link of the fault's context, a field that the
 * kernel clears and never reads. Marks form a list, because another library with a guard may be in the process. If the
 * handler jumps away (longjmp), nothing needs to be cleaned up: the kernel makes a new context for every fault.
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

	/* Block what the kernel would block for this handler. Nothing restores the mask here: the kernel restores it
	 * when our handler returns, and a handler that jumps away sets its own mask. */
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

/** The thread goes on here after the handler has returned. */
__attribute__((noreturn, noinline)) static void guard_resume(void **resume)
{
	__builtin_longjmp(resume, 1);
}

/** Have the thread call guard_resume(resume) when the handler returns. A jump out of the handler would leave the thread
 *  with what the kernel gives a handler: other floating-point control, protection keys, signal mask, and a disarmed
 *  alternate stack. The frames below that of pmd_guard_run() are given up, so the stack pointer needs only to be
 *  aligned. */
static void guard_divert(ucontext_t *context, void **resume)
{
#if defined(__x86_64__)
	greg_t *regs = context->uc_mcontext.gregs;

	regs[REG_RIP] = (greg_t)(uintptr_t)guard_resume;
	regs[REG_RDI] = (greg_t)(uintptr_t)resume;
	regs[REG_RSP] = (regs[REG_RSP] & ~(greg_t)15) - 8; /* as after a call */
	regs[REG_EFL] &= ~(greg_t)0x400;		   /* the direction flag */
#elif defined(__aarch64__)
	context->uc_mcontext.pc = (uintptr_t)guard_resume;
	context->uc_mcontext.regs[0] = (uintptr_t)resume;
	context->uc_mcontext.sp &= ~UINT64_C(15);
#else /* at least the signal mask */
	pthread_sigmask(SIG_SETMASK, &context->uc_sigmask, NULL);
	guard_resume(resume);
#endif
}

static void guard_handler(int sig, siginfo_t *info, void *ctx)
{
	struct guard_thread *t = guard_find();
	void **resume = t ? t->resume : NULL;
	bool fault = info->si_code > 0; /* false: sent by kill(), so the instruction will not fault again */
	ucontext_t *context = ctx;
	struct sigaction prev;

	if (resume && fault) {
		t->resume = NULL;
		guard_divert(context, resume);
		return;
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
		t->resume = NULL; /* a new thread may get the pthread_t of a thread that was in a guarded access */
		t->owner = 0;
	}
	pthread_mutex_unlock(&guard.lock);
}

/* ---- accesses ------------------------------------------------------------------------------------------------ */

/* Never inlined: after the jump, the local variables of a function that had inlined this one could be wrong. */
__attribute__((noinline)) bool pmd_guard_run(void *ctx, void (*fn)(void *arg), void *arg)
{
	struct guard_thread *t = guard_self;
	void *resume[5];

	(void)ctx;
	if (!t && !(t = guard_enter())) {
		fn(arg); /* no memory for an entry: no protection */
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
