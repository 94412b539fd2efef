/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run.c - one run of the simulation, in three phases: chaos, with random disturbances; calm, in which everything must
 * recover; and the end, after which nothing may be left over. Owns: the state of the simulated world.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "nic_rdm.h"

#define CALM_NS	    (25 * VK_S) /* daemons retry adoptions at least every 5 s, and addresses every 2 s */
#define QUIET_NS    (3 * VK_S)
#define END_NS	    (20 * VK_S)
#define QUIET_CALLS 1500 /* most system calls of an idle process in QUIET_NS */
#define PORT_FIRST  1000
#define PORTS	    6

const struct ctl_open ctl_opens[CTL_OPENS] = {
	{"127.0.0.1", PROTO_FOLLOW_NONE, 0}, {"127.0.0.2", PROTO_FOLLOW_NONE, 0}, {"10.0.0.1", PROTO_FOLLOW_ALL, 0},
	{"10.0.0.2", PROTO_FOLLOW_NONE, 0},  {"10.0.0.1", PROTO_FOLLOW_V6, 0},	  {"127.0.0.1", PROTO_FOLLOW_NONE, 1},
};

const char *const ctl_addresses[CTL_ADDRESSES] = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "fd00::1"};

struct ctl_stats ctl_stats;
bool ctl_verbose;

static struct {
	const struct ctl_opts *o;
	struct rng rng;
	struct vk_proc *paused[16], *limited[16];
	unsigned n_paused, n_limited, iface_index;
	uint64_t hash;
} w;

void ctl_log(const char *format, ...)
{
	va_list list;

	if (!ctl_verbose)
		return;
	printf("%10.6f ", (double)(vk_now_ns() - 1000 * VK_S) / 1e9);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	putchar('\n');
}

void ctl_fail(const char *oracle, const char *format, ...)
{
	va_list list;

	if (ctl_failed)
		return;
	ctl_failed = true;
	printf("VIOLATION of %s at %.6f s, seed %llu: ", oracle, (double)(vk_now_ns() - 1000 * VK_S) / 1e9,
	       w.o ? (unsigned long long)w.o->seed : 0ull);
	va_start(list, format);
	vprintf(format, list);
	va_end(list);
	if (w.o) {
		printf("\noptions: ");
		ctl_opts_print(stdout, w.o);
	}
	fflush(stdout);
}

struct nic_gid ctl_gid(const char *address)
{
	struct nic_gid gid = {0};

	if (!pmd_gid_parse(address, &gid))
		abort();
	return gid;
}

static void mix(uint64_t value)
{
	w.hash = rng_mix(w.hash ^ value);
}

/* ---- choosing processes ----------------------------------------------------------------------------------- */

static struct ctl_function *any_live(void)
{
	struct ctl_function *live[CTL_FUNCTIONS];
	unsigned n = 0;

	for (unsigned i = 0; i < ctl_n_functions; i++)
		if (ctl_is_live(ctl_functions[i]))
			live[n++] = ctl_functions[i];
	return n ? live[rng_below(&w.rng, n)] : NULL;
}

static unsigned count_functions(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < ctl_n_functions; i++)
		n += !vk_is_ending(ctl_functions[i]->proc);
	return n;
}

static struct ctl_daemon *any_daemon(void)
{
	struct ctl_daemon *live[CTL_DAEMONS];
	unsigned n = 0;

	for (unsigned i = 0; i < ctl_n_daemons; i++)
		if (!vk_is_ending(ctl_daemons[i].proc))
			live[n++] = &ctl_daemons[i];
	return n ? live[rng_below(&w.rng, n)] : NULL;
}

static struct vk_identity anybody(unsigned netns)
{
	struct vk_identity who = {.uid = 1000, .netns = netns};

	if (w.o->containers && rng_chance(&w.rng, 300))
		who.container = 1 + (unsigned)rng_below(&w.rng, 2);
	if (w.o->strangers && rng_chance(&w.rng, 150))
		who.uid = 1001;
	return who;
}

/* ---- disturbances ----------------------------------------------------------------------------------------- */

static void do_join(void)
{
	const struct ctl_open *open = &ctl_opens[rng_below(&w.rng, w.o->opens)];
	const struct vk_identity who = anybody(open->netns);

	if (count_functions() < w.o->functions)
		ctl_function_start(&who, open);
}

static void do_by_hand(void)
{
	static const char *const devices[] = {
		"127.0.0.1", "127.0.0.1,127.0.0.2", "127.0.0.2,127.0.0.1", "127.0.0.2", "10.0.0.1", ""};
	unsigned i = (unsigned)rng_below(&w.rng, w.o->opens > 2 ? 6 : w.o->opens > 1 ? 4 : 1);
	const struct vk_identity who = {.uid = 1000};

	ctl_daemon_start(&who, devices[i], i >= 4 ? CTL_IFACE : "", rng_chance(&w.rng, 200));
}

static void do_leave(void)
{
	struct ctl_function *f = any_live();

	if (f)
		ctl_function_order(f, CTL_CLOSE, NULL, 0);
}

/** Kill a process now, or in one of its next system calls. */
static void kill_soon(struct vk_proc *p)
{
	uint64_t calls = rng_chance(&w.rng, 300) ? 0 : 1 + rng_below(&w.rng, 60);

	ctl_log("process %d is killed, in %u calls", (int)vk_pid(p), (unsigned)calls);
	ctl_stats.kills++;
	if (calls)
		vk_kill_in(p, calls);
	else
		vk_kill(p);
}

static void do_kill(void)
{
	struct vk_proc *all[CTL_FUNCTIONS];
	unsigned n = 0;

	for (unsigned i = 0; i < ctl_n_functions; i++)
		if (!vk_is_ending(ctl_functions[i]->proc))
			all[n++] = ctl_functions[i]->proc;
	if (n)
		kill_soon(all[rng_below(&w.rng, n)]);
}

static void do_kill_daemon(void)
{
	struct ctl_daemon *d = any_daemon();

	if (d)
		kill_soon(d->proc);
}

static void do_term(void)
{
	struct ctl_daemon *d = any_daemon();

	if (d) {
		ctl_log("daemon %d is asked to end", (int)vk_pid(d->proc));
		vk_terminate(d->proc);
	}
}

static void go_on(unsigned i)
{
	ctl_log("process %d goes on", (int)vk_pid(w.paused[i]));
	vk_continue(w.paused[i]);
	w.paused[i] = w.paused[--w.n_paused];
}

static void do_pause(void)
{
	struct ctl_function *f = any_live();
	struct ctl_daemon *d = any_daemon();
	struct vk_proc *p = f && (!d || rng_chance(&w.rng, 600)) ? f->proc : d ? d->proc : NULL;

	if (w.n_paused && rng_chance(&w.rng, 500)) {
		go_on((unsigned)rng_below(&w.rng, w.n_paused));
		return;
	}
	if (!p || w.n_paused == 16)
		return;
	ctl_log("process %d is stopped", (int)vk_pid(p));
	ctl_stats.pauses++;
	w.paused[w.n_paused++] = p;
	if (rng_chance(&w.rng, 500))
		vk_pause(p);
	else
		vk_pause_in(p, 1 + rng_below(&w.rng, 50));
}

static void do_serve(void)
{
	struct ctl_function *f = any_live();
	uint16_t port = (uint16_t)(PORT_FIRST + rng_below(&w.rng, PORTS));

	if (f)
		ctl_function_order(f, rng_chance(&w.rng, 600) ? CTL_SERVE : CTL_UNSERVE, NULL, port);
}

static void do_route(void)
{
	struct ctl_function *f = any_live(), *to = any_live();
	struct nic_gid gid;

	if (!f || !to)
		return;
	gid = to->e.device.gid;
	if (rng_chance(&w.rng, 300))
		ctl_function_order(f, CTL_ROUTE, &gid,
				   NIC_SERVICE_QPN + PORT_FIRST + (uint32_t)rng_below(&w.rng, PORTS));
	else
		ctl_function_order(f, CTL_ROUTE, &gid, to->number << 16);
}

static void do_fork(void)
{
	struct ctl_function *f = any_live();

	if (f)
		ctl_function_order(f, CTL_FORK, NULL, 0);
}

static void do_hostile(unsigned how)
{
	/* A process of the device's user, or of an unrelated user. */
	const struct vk_identity who = {.uid = rng_chance(&w.rng, 600) ? 1000 : 1002};

	ctl_hostile_start(&who, how | (unsigned)rng_below(&w.rng, 32) << 1, rng_u64(&w.rng));
}

static void do_tool(void)
{
	static const char *const commands[] = {"status", "stats", "fault clear", "leave", "make way", "stay"};
	const struct ctl_open *open = &ctl_opens[rng_below(&w.rng, w.o->opens)];
	const struct nic_gid gid = ctl_gid(open->address);
	const struct vk_identity who = {.uid = 1000, .netns = open->netns};

	ctl_tool_start(&who, &gid, commands[rng_below(&w.rng, 6)]);
}

static void addresses_all(void)
{
	vk_iface_set(0, CTL_IFACE, w.iface_index, true);
	for (unsigned i = 0; i < CTL_ADDRESSES; i++) {
		const struct nic_gid gid = ctl_gid(ctl_addresses[i]);

		vk_address_add(0, CTL_IFACE, &gid);
	}
}

static void do_address(void)
{
	static const char *const some[] = {"10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "fd00::1", "fe80::1"};
	const struct nic_gid gid = ctl_gid(some[rng_below(&w.rng, 6)]);

	switch (rng_below(&w.rng, 8)) {
	case 0:
		vk_iface_set(0, CTL_IFACE, w.iface_index, rng_chance(&w.rng, 500));
		break;
	case 1:
		vk_iface_remove(0, CTL_IFACE);
		w.iface_index++;
		vk_iface_set(0, CTL_IFACE, w.iface_index, true);
		break;
	case 2:
		vk_addresses_silent(rng_chance(&w.rng, 500));
		break;
	case 3:
	case 4:
		vk_address_remove(0, CTL_IFACE, &gid);
		break;
	default:
		vk_address_add(0, CTL_IFACE, &gid);
	}
	ctl_log("the interface changes");
}

static void limit_end(unsigned i)
{
	vk_limit(w.limited[i], w.o->nofile);
	w.limited[i] = w.limited[--w.n_limited];
}

static void do_limit(void)
{
	struct ctl_function *f = any_live();
	struct ctl_daemon *d = any_daemon();
	struct vk_proc *p = f && (!d || rng_chance(&w.rng, 500)) ? f->proc : d ? d->proc : NULL;

	if (w.n_limited && rng_chance(&w.rng, 500)) {
		limit_end((unsigned)rng_below(&w.rng, w.n_limited));
		return;
	}
	if (!p || w.n_limited == 16)
		return;
	ctl_log("process %d gets no more descriptors", (int)vk_pid(p));
	w.limited[w.n_limited++] = p;
	vk_limit(p, 3 + (unsigned)rng_below(&w.rng, vk_descriptors(p) + 4));
}

static void do_datagrams(void)
{
	for (unsigned i = 0; i < w.o->opens; i++) {
		const struct nic_gid gid = ctl_gid(ctl_opens[i].address);

		for (unsigned n = 0; n < 6; n++)
			vk_udp_send(ctl_opens[i].netns, &gid, n << 16 | 5);
		vk_udp_send(ctl_opens[i].netns, &gid,
			    NIC_SERVICE_QPN + PORT_FIRST + (uint32_t)rng_below(&w.rng, PORTS));
	}
}

static void do_something(void)
{
	const struct ctl_opts *o = w.o;
	const struct {
		uint32_t weight;
		void (*act)(void);
	} all[] = {
		{o->join, do_join},
		{o->by_hand, do_by_hand},
		{o->leave, do_leave},
		{o->kill, do_kill},
		{o->kill_daemon, do_kill_daemon},
		{o->term, do_term},
		{o->pause, do_pause},
		{o->serve, do_serve},
		{o->route, do_route},
		{o->fork, do_fork},
		{o->tool, do_tool},
		{o->address, do_address},
		{o->limit, do_limit},
		{o->datagram, do_datagrams},
	};
	uint64_t sum = o->hostile + o->flood, pick;

	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		sum += all[i].weight;
	pick = rng_below(&w.rng, sum);
	for (unsigned i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		if (pick < all[i].weight) {
			all[i].act();
			return;
		}
		pick -= all[i].weight;
	}
	do_hostile(pick < o->hostile ? 0 : CTL_FLOODS);
}

/* ---- a run ------------------------------------------------------------------------------------------------ */

/** Advance time, and run the oracles regularly. */
static void pass(uint64_t ns)
{
	uint64_t end_ns = vk_now_ns() + ns;

	while (!ctl_failed && vk_now_ns() < end_ns) {
		uint64_t slice_ns = vk_now_ns() + VK_S < end_ns ? vk_now_ns() + VK_S : end_ns;

		while (!ctl_failed && !vk_run(slice_ns, 500)) {
			ctl_stats.turns += 500;
			ctl_check();
		}
		ctl_check();
	}
	mix(vk_now_ns());
	for (struct vk_proc *p = vk_next(NULL); p; p = vk_next(p))
		mix(vk_calls(p) << 16 ^ vk_descriptors(p));
}

static void chaos(void)
{
	for (unsigned i = 0; i < w.o->ops && !ctl_failed; i++) {
		do_something();
		pass(rng_below(&w.rng, 2 * 1000ull * w.o->gap_us));
	}
}

static void faults_stop(void)
{
	ctl_log("calm");
	while (w.n_paused)
		go_on(0);
	while (w.n_limited)
		limit_end(0);
	for (struct vk_proc *p = vk_next(NULL); p; p = vk_next(p)) {
		vk_continue(p);
		vk_kill_in(p, 0);
		if (strcmp(vk_command(p), "hostile") == 0)
			vk_kill(p);
	}
	vk_addresses_silent(false);
	addresses_all();
}

/** @return a live function of the device that `open` opens; if `other`, only a function of a user other than `uid`. */
static struct ctl_function *owner_of(const struct ctl_open *open, bool other, uid_t uid)
{
	const struct nic_gid gid = ctl_gid(open->address);

	for (unsigned k = 0; k < ctl_n_functions; k++) {
		struct ctl_function *f = ctl_functions[k];

		if (ctl_is_live(f) && f->netns == open->netns &&
		    (ctl_has_address(f, &gid) || (!other && pmd_gid_equal(&f->e.device.gid, &gid))) &&
		    (!other || vk_uid(f->proc) != uid))
			return f;
	}
	return NULL;
}

/** Start a function (a visitor) on each device that is in use and has had no visitor yet. @return how many were
 *  started. */
static unsigned visitors_start(struct ctl_function *visitors[CTL_OPENS])
{
	unsigned n = 0;

	for (unsigned i = 0; i < w.o->opens; i++) {
		const struct ctl_function *owner = owner_of(&ctl_opens[i], false, 0);
		struct vk_identity who = {.netns = ctl_opens[i].netns};

		if (!owner || visitors[i])
			continue;
		who.uid = vk_uid(owner->proc);
		visitors[i] = ctl_function_start(&who, &ctl_opens[i]);
		n++;
	}
	return n;
}

/** Check that a new function can join each device that is in use. Joining starts the device's daemon if it has none. */
static void visit(void)
{
	struct ctl_function *visitors[CTL_OPENS] = {NULL};

	visitors_start(visitors);
	pass(CALM_NS);
	/* visit devices that came into use late, because their daemon died during a join */
	if (visitors_start(visitors) > 0)
		pass(CALM_NS);
	for (unsigned i = 0; i < w.o->opens; i++) {
		const struct ctl_function *owner = owner_of(&ctl_opens[i], false, 0);

		/* A visitor may fail to join in four cases: an orphan still has the address; a function of another
		 * user has it; all functions with the address have ended, and another user's daemon has it (-EACCES);
		 * the visitor's user has too many descriptors in flight (-ETOOMANYREFS). */
		if (visitors[i] && !(owner ? ctl_is_orphan(owner) : visitors[i]->rc == -EACCES) &&
		    visitors[i]->state != CTL_LIVE && visitors[i]->rc != -ETOOMANYREFS &&
		    !owner_of(&ctl_opens[i], true, vk_uid(visitors[i]->proc)))
			ctl_fail("visitor", "function %u does not get in, all being calm: %d, %s", visitors[i]->index,
				 visitors[i]->rc, visitors[i]->err);
	}
}

/** Disturb nothing for a while, and check that processes are idle. */
static void quiet(void)
{
	struct vk_proc *all[64];
	uint64_t calls[64];
	unsigned n = 0;

	for (struct vk_proc *p = vk_next(NULL); p && n < 64; p = vk_next(p)) {
		all[n] = p;
		calls[n++] = vk_calls(p);
	}
	pass(QUIET_NS);
	for (unsigned i = 0; i < n; i++)
		if (vk_calls(all[i]) - calls[i] > QUIET_CALLS)
			ctl_fail("idle",
				 "process %d (%s) has made %llu system calls in %llu s in which nothing happened",
				 (int)vk_pid(all[i]), vk_command(all[i]),
				 (unsigned long long)(vk_calls(all[i]) - calls[i]),
				 (unsigned long long)(QUIET_NS / VK_S));
}

static void end(void)
{
	ctl_log("end");
	for (unsigned i = 0; i < ctl_n_functions; i++)
		if (ctl_is_live(ctl_functions[i]))
			ctl_function_order(ctl_functions[i], CTL_CLOSE, NULL, 0);
	pass(3 * VK_S);
	for (unsigned i = 0; i < ctl_n_functions; i++)
		if (!vk_is_ending(ctl_functions[i]->proc))
			ctl_fail("close", "function %u does not end", i);
	for (unsigned i = 0; i < ctl_n_daemons; i++)
		if (!vk_is_ending(ctl_daemons[i].proc) && ctl_daemons[i].d && ctl_daemon_stays(&ctl_daemons[i]))
			vk_terminate(ctl_daemons[i].proc);
	pass(END_NS);
	for (struct vk_proc *p = vk_next(NULL); p; p = vk_next(p))
		ctl_fail("end", "process %d (%s) is still there, and nobody needs it", (int)vk_pid(p), vk_command(p));
	if (!ctl_failed && vk_files() != 0)
		ctl_fail("files", "%u files are left over", vk_files());
}

bool ctl_run(const struct ctl_opts *opts, bool verbose, struct ctl_stats *stats, uint64_t *hash)
{
	const struct vk_config config = {.seed = opts->seed,
					 .preempt = opts->preempt,
					 .sndbuf = opts->sndbuf,
					 .nofile = opts->nofile,
					 .program_room = opts->program_room,
					 .slow_exit = opts->slow_exit};

	memset(&w, 0, sizeof(w));
	memset(&ctl_stats, 0, sizeof(ctl_stats));
	w.o = opts;
	w.iface_index = 2;
	ctl_verbose = verbose;
	ctl_failed = false;
	ctl_program_is_short = opts->program_room != 0;
	ctl_n_daemons = 0;
	rng_init(&w.rng, opts->seed, 2, 0);
	vk_start(&config);
	ctl_daemons_begin();
	addresses_all();
	chaos();
	faults_stop();
	if (opts->settle) {
		pass(CALM_NS);
		ctl_check_addresses();
	}
	visit();
	if (!ctl_failed)
		ctl_check_calm();
	quiet();
	end();
	if (ctl_failed && verbose)
		vk_print(stdout);
	ctl_stats.virtual_ms = (vk_now_ns() - 1000 * VK_S) / VK_MS;
	vk_stop();
	ctl_functions_free();
	*stats = ctl_stats;
	*hash = w.hash;
	w.o = NULL;
	return !ctl_failed;
}
