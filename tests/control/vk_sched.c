/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vk_sched.c - processes, threads, clock and scheduler of the virtual kernel. See vk.h.
 *
 * A thread is a coroutine, and yields only in system calls: when a call has to wait, and at random in other calls. Time
 * advances with every call, and jumps to the next deadline when all threads wait.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "vk_priv.h"

#if defined(__SANITIZE_ADDRESS__)
#define VK_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define VK_ASAN
#endif
#endif

#ifdef VK_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#include <sanitizer/lsan_interface.h>
#endif

struct vk vk;
void (*vk_on_point)(struct vk_proc *proc, int point);

static void *stacks[VK_THREADS]; /* stacks of ended threads, to be reused */
static unsigned n_stacks;
#ifdef VK_ASAN
static const void *scheduler_stack;
static size_t scheduler_stack_size;
#endif

_Noreturn void vk_bug(const char *what)
{
	fprintf(stderr, "virtual kernel: %s\n", what);
	abort();
}

/* ---- switching -------------------------------------------------------------------------------------------- */

static void to_scheduler(struct vk_thread *t, bool for_ever)
{
#ifdef VK_ASAN
	__sanitizer_start_switch_fiber(for_ever ? NULL : &t->fake_stack, scheduler_stack, scheduler_stack_size);
#endif
	(void)for_ever;
	t->error = errno;
	swapcontext(&t->context, &vk.scheduler);
#ifdef VK_ASAN
	__sanitizer_finish_switch_fiber(t->fake_stack, &scheduler_stack, &scheduler_stack_size);
#endif
	errno = t->error;
}

static void to_thread(struct vk_thread *t)
{
	vk.current = t;
#ifdef VK_ASAN
	/* vk_memory.c frees what a killed process has allocated, except the C library's own (streams in memory). */
	__lsan_disable();
	__sanitizer_start_switch_fiber(&vk.scheduler_fake_stack, t->stack, VK_STACK);
#endif
	swapcontext(&vk.scheduler, &t->context);
#ifdef VK_ASAN
	__lsan_enable();
	__sanitizer_finish_switch_fiber(vk.scheduler_fake_stack, NULL, NULL);
#endif
	vk.current = NULL;
}

static void thread_free(struct vk_thread *t)
{
#ifdef VK_ASAN
	__asan_unpoison_memory_region(t->stack, VK_STACK);
#endif
	if (n_stacks < VK_THREADS)
		stacks[n_stacks++] = t->stack;
	for (unsigned i = 0; i < vk.n_threads; i++)
		if (vk.threads[i] == t) {
			memmove(vk.threads + i, vk.threads + i + 1, (vk.n_threads - i - 1) * sizeof(t));
			vk.n_threads--;
			break;
		}
	__real_free(t);
}

_Noreturn void vk_die(void)
{
	struct vk_proc *p = vk.current->proc;

	p->state = PROC_ENDS;
	to_scheduler(vk.current, true);
	vk_bug("a dead thread goes on");
}

static void thread_main(void)
{
	struct vk_thread *t = vk.current;

#ifdef VK_ASAN
	__sanitizer_finish_switch_fiber(NULL, &scheduler_stack, &scheduler_stack_size);
#endif
	t->started = true;
	errno = 0;
	t->run(t->arg);
	vk_die(); /* the process ends as soon as one of its threads returns */
}

static void thread_new(struct vk_proc *p, void (*run)(void *), void *arg)
{
	struct vk_thread *t = vk_zalloc(sizeof(*t));

	if (vk.n_threads == VK_THREADS)
		vk_bug("too many threads");
	t->proc = p;
	t->run = run;
	t->arg = arg;
	t->stack = n_stacks ? stacks[--n_stacks] : NULL;
	if (!t->stack) {
		uint8_t *room = mmap(NULL, VK_STACK + 4096, PROT_READ | PROT_WRITE,
				     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

		if (room == MAP_FAILED || mprotect(room, 4096, PROT_NONE) != 0)
			vk_bug("no stack");
		t->stack = room + 4096;
	}
	getcontext(&t->context);
	t->context.uc_stack.ss_sp = t->stack;
	t->context.uc_stack.ss_size = VK_STACK;
	t->context.uc_link = NULL;
	makecontext(&t->context, thread_main, 0);
	vk.threads[vk.n_threads++] = t;
}

/* ---- the current thread ----------------------------------------------------------------------------------- */

void vk_yield(void)
{
	to_scheduler(vk.current, false);
}

void vk_enter(void)
{
	struct vk_proc *p = vk.current->proc;
	int error = errno;

	p->calls++;
	vk.now_ns += VK_CALL_NS;
	if (p->calls == p->kill_at) {
		p->killed = true;
		vk_die();
	}
	if (p->calls == p->pause_at) {
		p->state = PROC_PAUSED;
		vk_yield();
	} else if (!vk.config.fuzz && rng_chance(&vk.rng, vk.config.preempt)) {
		vk_yield();
	}
	errno = error;
}

bool vk_block(const void *const *channels, unsigned n, uint64_t until_ns)
{
	struct vk_thread *t = vk.current;

	if (vk.now_ns >= until_ns)
		return false;
	for (unsigned i = 0; i < VK_WAITS; i++)
		t->waits[i] = i < n ? channels[i] : NULL;
	t->wake_ns = until_ns;
	t->blocked = true;
	t->timed_out = false;
	vk_yield();
	return !t->timed_out;
}

bool vk_wait(const void *channel, uint64_t until_ns)
{
	return vk_block(&channel, 1, until_ns);
}

void vk_sleep(uint64_t ns)
{
	vk_block(NULL, 0, vk.now_ns + ns);
}

void vk_wake(const void *channel)
{
	for (unsigned i = 0; i < vk.n_threads; i++) {
		struct vk_thread *t = vk.threads[i];

		for (unsigned k = 0; t->blocked && k < VK_WAITS; k++)
			if (t->waits[k] == channel)
				t->blocked = false;
	}
}

bool vk_wait_readable(const int *fds, unsigned n, uint64_t until_ns)
{
	for (;;) {
		const void *channels[VK_WAITS];
		unsigned n_channels = 0;

		vk_enter();
		for (unsigned i = 0; i < n; i++) {
			struct vk_file *f = fds[i] < 0 ? NULL : vk_fd(fds[i]);

			if (!f)
				continue;
			if (vk_poll(f) & (EPOLLIN | EPOLLERR | EPOLLHUP))
				return true;
			channels[n_channels++] = f;
		}
		if (!vk_block(channels, n_channels, until_ns))
			return false;
	}
}

struct rng *vk_rng(void)
{
	return &vk.rng;
}

/* ---- processes -------------------------------------------------------------------------------------------- */

struct vk_proc *vk_self(void)
{
	return vk.current ? vk.current->proc : NULL;
}

struct vk_proc *vk_proc_find(pid_t pid)
{
	for (unsigned i = 0; i < vk.n_procs; i++)
		if (vk.procs[i]->pid == pid)
			return vk.procs[i];
	return NULL;
}

static struct vk_proc *proc_new(const struct vk_identity *who, const char *command)
{
	struct vk_proc *p = vk_zalloc(sizeof(*p));

	if (vk.n_procs == VK_PROCS)
		vk_bug("too many processes");
	p->pid = vk.next_pid++;
	p->who = *who;
	snprintf(p->command, sizeof(p->command), "%s", command);
	p->nofile = vk.config.nofile;
	vk.procs[vk.n_procs++] = p;
	return p;
}

struct vk_proc *vk_spawn(const struct vk_identity *who, const char *command, void (*run)(void *), void *arg)
{
	struct vk_proc *p = proc_new(who, command);

	thread_new(p, run, arg);
	return p;
}

void vk_thread_start(void (*run)(void *), void *arg)
{
	thread_new(vk_self(), run, arg);
}

struct vk_proc *vk_fork(void (*first)(void *), void (*run)(void *), void *arg)
{
	struct vk_proc *parent = vk_self(), *p = vk_spawn(&parent->who, parent->command, run, arg);
	unsigned preempt = vk.config.preempt;

	for (int fd = 0; fd < parent->fd_end; fd++) {
		p->fds[fd] = parent->fds[fd];
		if (p->fds[fd])
			vk_file_get(p->fds[fd]);
	}
	p->fd_end = parent->fd_end;
	p->n_fds = parent->n_fds;
	p->nofile = parent->nofile;
	vk.config.preempt = 0;
	vk.current->proc = p;
	first(arg);
	vk.current->proc = parent;
	vk.config.preempt = preempt;
	return p;
}

void vk_kill(struct vk_proc *p)
{
	if (p->state >= PROC_ENDS)
		return;
	p->killed = true;
	p->state = PROC_ENDS;
}

void vk_terminate(struct vk_proc *p)
{
	p->term = true;
	for (struct vk_file *f = vk.files; f; f = f->next)
		if (f->kind == VK_SIGNAL && f->u.proc == p)
			vk_notify(f);
}

void vk_pause(struct vk_proc *p)
{
	if (p->state == PROC_RUNS)
		p->state = PROC_PAUSED;
}

void vk_continue(struct vk_proc *p)
{
	p->pause_at = 0;
	if (p->state != PROC_PAUSED)
		return;
	p->state = PROC_RUNS;
	p->continued_ns = vk_now_ns();
}

void vk_kill_in(struct vk_proc *p, uint64_t calls)
{
	p->kill_at = calls ? p->calls + calls : 0;
}

void vk_pause_in(struct vk_proc *p, uint64_t calls)
{
	p->pause_at = p->calls + calls;
}

void vk_limit(struct vk_proc *p, unsigned nofile)
{
	p->nofile = nofile;
}

bool vk_is_gone(const struct vk_proc *p)
{
	return p->state == PROC_GONE;
}

bool vk_is_ending(const struct vk_proc *p)
{
	return p->state >= PROC_ENDS;
}

bool vk_is_paused(const struct vk_proc *p)
{
	return p->state == PROC_PAUSED;
}

bool vk_was_paused(const struct vk_proc *p, uint64_t ns)
{
	return vk_is_paused(p) || p->continued_ns >= ns;
}

pid_t vk_pid(const struct vk_proc *p)
{
	return p->pid;
}

uid_t vk_uid(const struct vk_proc *p)
{
	return p->who.uid;
}

unsigned vk_container(const struct vk_proc *p)
{
	return p->who.container;
}

unsigned vk_netns(const struct vk_proc *p)
{
	return p->who.netns;
}

bool vk_was_killed(const struct vk_proc *p)
{
	return p->killed;
}

const char *vk_command(const struct vk_proc *p)
{
	return p->command;
}

uint64_t vk_calls(const struct vk_proc *p)
{
	return p->calls;
}

unsigned vk_descriptors(const struct vk_proc *p)
{
	return p->n_fds;
}

size_t vk_allocated(const struct vk_proc *p)
{
	return p->allocated;
}

struct vk_proc *vk_next(const struct vk_proc *p)
{
	unsigned i = 0;

	while (p && i < vk.n_procs && vk.procs[i++] != p)
		;
	while (i < vk.n_procs && vk.procs[i]->state == PROC_GONE)
		i++;
	return i < vk.n_procs ? vk.procs[i] : NULL;
}

unsigned vk_uid_index(uid_t uid)
{
	return uid % VK_UIDS;
}

/** Release the resources of an ended process: threads, then descriptors in order, then memory. @return false: some
 *  resources are left, so call again. */
static bool proc_reap(struct vk_proc *p)
{
	for (unsigned i = vk.n_threads; i-- > 0;)
		if (vk.threads[i]->proc == p)
			thread_free(vk.threads[i]);
	for (int fd = 0; fd < p->fd_end; fd++) {
		if (!p->fds[fd])
			continue;
		vk_fd_close(p, fd);
		if (vk.config.slow_exit)
			return false;
	}
	while (p->mappings) {
		struct vk_mapping *m = p->mappings;

		p->mappings = m->next;
		vk_file_put(m->file);
		__real_free(m);
	}
	vk_memory_drop(p);
	p->state = PROC_GONE;
	vk_collect(); /* Linux runs its garbage collector whenever a UNIX socket is closed */
	return true;
}

/* ---- scheduling ------------------------------------------------------------------------------------------- */

static bool is_ready(struct vk_thread *t)
{
	if (t->proc->state != PROC_RUNS)
		return false;
	if (t->blocked && vk.now_ns >= t->wake_ns) {
		t->blocked = false;
		t->timed_out = true;
	}
	return !t->blocked;
}

/** Expire the timers that are due. */
static void timers_fire(void)
{
	if (vk.now_ns < vk.timer_ns)
		return;
	vk.timer_ns = UINT64_MAX;
	for (struct vk_file *f = vk.files; f; f = f->next) {
		if (f->kind != VK_TIMER || f->u.timer.due_ns == 0)
			continue;
		if (vk.now_ns < f->u.timer.due_ns) {
			vk.timer_ns = f->u.timer.due_ns < vk.timer_ns ? f->u.timer.due_ns : vk.timer_ns;
			continue;
		}
		f->u.timer.due_ns = 0;
		f->u.timer.count++;
		vk_notify(f);
	}
}

static uint64_t next_deadline(void)
{
	uint64_t due_ns = vk.timer_ns;

	for (unsigned i = 0; i < vk.n_threads; i++)
		if (vk.threads[i]->proc->state == PROC_RUNS && vk.threads[i]->wake_ns < due_ns)
			due_ns = vk.threads[i]->wake_ns;
	return due_ns;
}

/** Run one ready thread until it yields, or release resources of an ending process. @return false: all threads wait. */
static bool turn(void)
{
	struct vk_thread *ready[VK_THREADS];
	struct vk_proc *ending[VK_PROCS];
	unsigned n_ready = 0, n_ending = 0;
	uint64_t pick;

	for (unsigned i = 0; i < vk.n_threads; i++)
		if (is_ready(vk.threads[i]))
			ready[n_ready++] = vk.threads[i];
	for (unsigned i = 0; i < vk.n_procs; i++)
		if (vk.procs[i]->state == PROC_ENDS)
			ending[n_ending++] = vk.procs[i];
	if (n_ready + n_ending == 0)
		return false;
	pick = vk.config.fuzz ? vk.turns++ % (n_ready + n_ending) : rng_below(&vk.rng, n_ready + n_ending);
	if (pick < n_ready)
		to_thread(ready[pick]);
	else
		proc_reap(ending[pick - n_ready]);
	return true;
}

bool vk_run(uint64_t until_ns, uint64_t turns)
{
	while (vk.now_ns < until_ns) {
		uint64_t due_ns;

		if (turns-- == 0)
			return false;
		if (turn()) {
			timers_fire();
			continue;
		}
		due_ns = next_deadline();
		vk.now_ns = due_ns < until_ns ? (due_ns > vk.now_ns ? due_ns : vk.now_ns) : until_ns;
		timers_fire();
	}
	return true;
}

void vk_run_ready(void)
{
	for (unsigned i = 0; i < 1000000 && turn(); i++)
		timers_fire();
}

uint64_t vk_now_ns(void)
{
	return vk.now_ns;
}

/* ---- a run ------------------------------------------------------------------------------------------------ */

void vk_start(const struct vk_config *config)
{
	memset(&vk, 0, sizeof(vk));
	vk.config = *config;
	if (vk.config.program_room == 0)
		vk.config.program_room = BPF_MAXINSNS;
	rng_init(&vk.rng, config->seed, 100, 0);
	vk.now_ns = 1000 * VK_S;
	vk.next_pid = 100;
	vk.timer_ns = UINT64_MAX;
	vk.running = true;
}

void vk_stop(void)
{
	vk.config.slow_exit = false;
	for (unsigned i = 0; i < vk.n_procs; i++)
		if (vk.procs[i]->state != PROC_GONE)
			proc_reap(vk.procs[i]); /* uses all of vk.procs, which are freed only afterwards */
	for (unsigned i = 0; i < vk.n_procs; i++)
		__real_free(vk.procs[i]);
	vk.n_procs = 0;
	vk_collect();
	vk_udp_stop();
	if (vk.n_files != 0)
		vk_bug("files are left over");
	vk.running = false;
}
