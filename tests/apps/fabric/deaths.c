/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * deaths.c - see deaths.h. Prints a line for each case, "ok NAME" or "FAIL NAME"; exit code 1 when any case has failed.
 */
#include "deaths.h"

#include <errno.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../forked.h"

#define SHORT_LEN   64u
#define MIDDLE_LEN  70000u
#define PATIENCE_S  60
/* How long a peer may be silent, in ms. The two friends, which must not fail, keep the default. */
#define PEER_MS	    "6000"
#define CONNECT_MS  "5000"
#define MORE_ROUNDS 20u

struct deaths *deaths;

static struct seat *friends[2];

static void pause_ms(unsigned ms)
{
	const struct timespec pause = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

	nanosleep(&pause, NULL);
}

void *zeroes(size_t n, size_t size)
{
	void *mem = calloc(n, size);

	if (!mem)
		forked_die("no memory");
	return mem;
}

void await_word(const atomic_uint *what, unsigned least)
{
	for (unsigned ms = 0; atomic_load(what) < least; ms++) {
		if (ms == PATIENCE_S * 1000) {
			check_failed(__FILE__, __LINE__, "the progress of another process", atomic_load(what), least);
			return;
		}
		pause_ms(1);
	}
}

/* ---- children ---------------------------------------------------------------------------------------------- */

void seat_open(struct seat *s, struct pair *p)
{
	size_t len = sizeof(s->name);

	if (!pair_open(p) || failures)
		forked_die("the device cannot be opened");
	WANT_OK(fi_getname(&p->a.ep->fid, s->name, &len));
	s->base = p->base;
	s->key = p->key;
}

fi_addr_t seat_address(struct pair *p, const struct seat *s)
{
	fi_addr_t addr = FI_ADDR_UNSPEC;

	WANT(fi_av_insert(p->av, s->name, 1, &addr, 0, NULL), 1);
	return addr;
}

void wait_for_the_end(void)
{
	for (;;)
		pause();
}

/* ---- friends ----------------------------------------------------------------------------------------------- */

static void fill(char *buf, size_t len, unsigned round)
{
	for (size_t i = 0; i < len; i++)
		buf[i] = (char)(i * 7 + i / 251 + round * 13);
}

static bool holds(const char *buf, size_t len, unsigned round)
{
	for (size_t i = 0; i < len; i++)
		if (buf[i] != (char)(i * 7 + i / 251 + round * 13))
			return false;
	return true;
}

/** The two friends exchange short and long messages alternately: the second friend sends back what it receives. */
static int befriend(struct seat *s, unsigned number)
{
	struct pair p = {0};
	char *out, *in;
	fi_addr_t to;

	unsetenv("FI_UROCE_PEER_TIMEOUT");
	unsetenv("FI_UROCE_CONNECT_TIMEOUT");
	seat_open(s, &p);
	atomic_store(&s->step, 1);
	await_word(&friends[!number]->step, 1);
	to = seat_address(&p, friends[!number]);
	out = p.here;
	in = p.here + MIDDLE_LEN;
	for (unsigned round = 1; !failures; round++) {
		size_t len = round % 3 ? SHORT_LEN : MIDDLE_LEN;

		WANT_OK(fi_trecv(p.a.ep, in, len, NULL, to, round, 0, NULL));
		fill(out, len, round);
		if (number == 0)
			WANT_OK(fi_tsend(p.a.ep, out, len, NULL, to, round, NULL));
		await(&p, p.a.rx);
		WANT(p.done.len, len);
		WANT(holds(in, len, round), true);
		if (number == 1)
			WANT_OK(fi_tsend(p.a.ep, out, len, NULL, to, round, NULL));
		await(&p, p.a.tx);
		atomic_store(&s->word, round);
	}
	atomic_store(&s->wrong, 1);
	wait_for_the_end();
}

static int role_first(struct seat *s)
{
	return befriend(s, 0);
}

static int role_second(struct seat *s)
{
	return befriend(s, 1);
}

static int child(void *arg)
{
	static int (*const roles[ROLES])(struct seat * s) = {
		[FRIEND_FIRST] = role_first,	      [FRIEND_SECOND] = role_second,	  [TARGET] = role_target,
		[TARGET_PASSES] = role_target_passes, [TARGET_TALKS] = role_target_talks, [QUEUER] = role_queuer,
	};
	struct seat *s = arg;

	while (!atomic_load(&s->role))
		pause_ms(5);
	return roles[atomic_load(&s->role)](s);
}

/* ---- the tester -------------------------------------------------------------------------------------------- */

struct seat *friend_of_tester(void)
{
	return friends[1];
}

void friends_go_on(void)
{
	for (unsigned i = 0; i < 2; i++) {
		await_word(&friends[i]->word, atomic_load(&friends[i]->word) + MORE_ROUNDS);
		WANT(atomic_load(&friends[i]->wrong), 0);
	}
}

struct seat *begin(enum role role, unsigned word)
{
	struct seat *s = &deaths->seat[deaths->taken++];

	WANT(deaths->taken <= SEATS, true);
	atomic_store(&s->word, word);
	atomic_store(&s->role, role);
	return s;
}

void seat_kill(struct seat *s)
{
	WANT_OK(kill(s->pid, SIGKILL));
	WANT(waitpid(s->pid, NULL, 0), s->pid);
}

void seat_stop(struct seat *s)
{
	WANT_OK(kill(s->pid, SIGSTOP));
	WANT(waitpid(s->pid, NULL, WUNTRACED), s->pid); /* returns when the child has stopped */
}

void seat_ends(struct seat *s, int status)
{
	int found = -1;
	pid_t pid = 0;

	for (unsigned ms = 0; pid == 0 && ms < PATIENCE_S * 1000; ms++) {
		pid = waitpid(s->pid, &found, WNOHANG);
		pause_ms(1);
	}
	WANT(pid, s->pid);
	WANT(found, status);
	if (pid == 0)
		seat_kill(s);
}

void aim_rma(struct job *j, const struct seat *s, fi_addr_t addr, size_t at)
{
	j->rma.msg.addr = addr;
	j->remote.addr = s->base + at;
	j->remote.key = s->key;
}

void aim_atomic(struct job *j, const struct seat *s, fi_addr_t addr, size_t at)
{
	j->atomic.msg.addr = addr; /* `addr` has the same offset in all members of the union */
	j->target.addr = s->base + at;
	j->target.key = s->key;
}

void job_count_at(struct pair *p, struct job *j, struct fid_cntr *trigger, uint64_t threshold,
		  struct fid_cntr *completion, const struct seat *s, fi_addr_t addr, size_t at)
{
	static uint64_t one = 1;

	job_init(j, FI_OP_ATOMIC, trigger, threshold, completion);
	j->atomic = (struct fi_op_atomic){.ep = p->a.ep, .msg = job_on_word(p, j, &one, FI_SUM)};
	aim_atomic(j, s, addr, at);
}

uint64_t word_at(struct pair *p, const struct seat *s, fi_addr_t addr, size_t at)
{
	uint64_t value = 0;

	WANT_OK(fi_read(p->a.ep, &value, sizeof(value), NULL, addr, s->base + at, s->key, NULL));
	await(p, p->a.tx);
	return value;
}

void word_clear(struct pair *p, const struct seat *s, fi_addr_t addr, size_t at)
{
	const uint64_t zero = 0;

	WANT_OK(fi_write(p->a.ep, &zero, sizeof(zero), NULL, addr, s->base + at, s->key, NULL));
	await(p, p->a.tx);
}

static void case_closing(struct pair *p)
{
	friends_go_on();
	pair_close(p);
	friends_go_on();
}

static const struct {
	const char *name;
	void (*run)(struct pair *p);
} cases[] = {
	{"work for a process that is killed", case_target_killed},
	{"work for a process that is stopped", case_target_stopped},
	{"a chain through a process that is killed", case_target_killed_in_chain},
	{"messages from a process that is killed", case_target_killed_amid_messages},
	{"triggered operations for a process that is killed", case_target_of_triggered},
	{"an endpoint that closes with work for a process that is killed", case_target_closing},
	{"a process with work that calls exit", case_queuer_exits},
	{"a process with work that calls exit while threads use it", case_queuer_exits_busy},
	{"a process with work that calls _exit", case_queuer_exits_at_once},
	{"a process with work that is killed", case_queuer_killed},
	{"closing", case_closing},
};

int main(int argc, char **argv)
{
	struct pair p = {0};
	int failed = 0;

	setenv("FI_UROCE_PEER_TIMEOUT", PEER_MS, true);
	setenv("FI_UROCE_CONNECT_TIMEOUT", CONNECT_MS, true);
	setvbuf(stdout, NULL, _IOLBF, 0);
	deaths = forked_share(sizeof(*deaths));
	friends[0] = &deaths->seat[0];
	friends[1] = &deaths->seat[1];
	for (unsigned i = 0; i < SEATS; i++)
		deaths->seat[i].pid = forked_start(child, &deaths->seat[i]);
	seat_open(&deaths->tester, &p);
	begin(FRIEND_FIRST, 0);
	begin(FRIEND_SECOND, 0);
	await_word(&friends[1]->step, 1);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		if (argc > 1 && !strstr(cases[i].name, argv[1]))
			continue;
		failures = 0;
		cases[i].run(&p);
		printf("%s %s\n", failures ? "FAIL" : "ok", cases[i].name);
		failed |= failures != 0;
	}
	return failed; /* the children die with this process */
}
