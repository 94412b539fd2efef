/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * runner.c - runs a scenario in a new process for each call that is to fail, next to a partner process that lives on,
 * and reports the outcomes.
 *
 *     PROGRAM KIND once|on FIRST STEP MOST [alone]
 *
 * Fails the n-th call of the kind, or all from the n-th on, for n = FIRST, FIRST + STEP, ... until the scenario makes
 * no n-th call, at most MOST times. The same process then runs the scenario again without failures, which has to work,
 * and closes it: afterwards the process must hold no more than a process in which nothing failed. One line a call: n,
 * outcome, phase, what, errno, message:
 *
 *     worked    the scenario did not notice, or the failed call was repeated
 *     error     an error was returned; the second run worked
 *     for-good  an error was returned, and a message says that the process can no longer open the device
 *     CRASH, HANG, LEAK, WRONG
 *
 * "alone": there is no partner. Each process has a device of its own, and starts the daemon for that device.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "failing.h"
#include "runner.h"

#define HANG_S	   60
#define SETTLE_MS  3000
#define REPEATS	   4 /* repetitions of a suspected leak, each next to a run without the failure */
#define PARTNER_MS 20000

static const char *const phases[] = {"open", "connect", "transfer", "close"};

static const char *const kinds[] = {
#define FAILING(name, error) #name,
#include "kinds.def"
#undef FAILING
};

struct report {
	bool first, second; /* whether the first and the second run succeeded */
	bool forever;	    /* the second run failed too, as the first run's message had said it would */
	struct failure failure, again;
	unsigned descriptors, threads; /* how many more of each the process holds than before */
	int64_t blocks, mappings;
	int64_t calls;
};

static struct failing *state;
static struct report *report;

bool failed(struct failure *failure, int phase, const char *what, int error)
{
	if (!failure->what[0]) {
		failure->phase = phase;
		failure->error = error;
		snprintf(failure->what, sizeof(failure->what), "%s", what);
	}
	return false;
}

bool lost(struct failure *failure, int phase, const char *what, int error)
{
	failure->lost |= !failure->what[0];
	return failed(failure, phase, what, error);
}

static uint8_t byte_of(uint32_t seed, uint32_t i)
{
	return (uint8_t)(seed * 31 + i * 7 + i / 251);
}

void fill(uint8_t *to, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		to[i] = byte_of(seed, i);
}

bool holds(const uint8_t *at, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		if (at[i] != byte_of(seed, i))
			return false;
	return true;
}

bool say(int fd, const void *buf, size_t len)
{
	return send(fd, buf, len, MSG_NOSIGNAL) == (ssize_t)len;
}

bool hear(int fd, void *buf, size_t len)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char *to = buf;

	while (len > 0) {
		ssize_t n = poll(&p, 1, PARTNER_MS) == 1 ? read(fd, to, len) : -1;

		if (n <= 0)
			return false;
		to += n;
		len -= (size_t)n;
	}
	return true;
}

static unsigned entries(const char *folder)
{
	DIR *d = opendir(folder);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* ---- the partner --------------------------------------------------------------------------------------------- */

static struct sockaddr_un name = {.sun_family = AF_UNIX};
static socklen_t name_len;

static int partner_listen(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	name_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 +
			       (size_t)snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "failing/%d", getpid()));
	if (fd < 0 || bind(fd, (struct sockaddr *)&name, name_len) != 0 || listen(fd, 16) != 0)
		exit(2);
	return fd;
}

static int partner_call(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (struct sockaddr *)&name, name_len) != 0)
		exit(2);
	return fd;
}

static pid_t partner_start(int listener, int *said)
{
	int fds[2];
	pid_t pid;

	if (pipe(fds) != 0)
		exit(2);
	pid = fork();
	if (pid != 0) {
		close(fds[1]);
		*said = fds[0];
		return pid;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!scenario.partner_open() || write(fds[1], "y", 1) != 1)
		_exit(3);
	for (;;) {
		int fd = accept(listener, NULL, NULL);

		scenario.partner_serve(fd);
		close(fd);
	}
}

static unsigned partner_descriptors(pid_t pid)
{
	char folder[64];

	snprintf(folder, sizeof(folder), "/proc/%d/fd", pid);
	return entries(folder);
}

/* ---- a victim ------------------------------------------------------------------------------------------------ */

static bool run_once(bool alone, struct failure *failure)
{
	int fd = alone ? -1 : partner_call();
	bool well = scenario.victim(fd, failure);

	if (fd >= 0)
		close(fd);
	return well;
}

static void victim(bool alone, int kind, int64_t n, bool on)
{
	unsigned descriptors = entries("/proc/self/fd"), threads = entries("/proc/self/task");

	state->kind = kind;
	state->n = n;
	state->on = on;
	state->calls = state->blocks = state->mappings = 0;
	state->watched = getpid();
	state->pid = n > 0 ? getpid() : 0;
	report->first = run_once(alone, &report->failure);
	state->pid = 0;
	report->calls = state->calls;
	fflush(stderr);
	fprintf(stderr, "--\n");
	report->second = run_once(alone, &report->again);
	report->descriptors = entries("/proc/self/fd") - descriptors;
	report->threads = entries("/proc/self/task") - threads;
	report->blocks = state->blocks;
	report->mappings = state->mappings;
	_exit(0);
}

/** The call that fails, the n-th of its kind (0: none), and with `on` all after it. */
struct call {
	bool alone, on;
	int kind;
	int64_t n;
};

struct ended {
	bool hang;
	int status;
	char sentence[300], second[300];
};

static void read_sentences(FILE *f, struct ended *e)
{
	char line[300];
	char *to = e->sentence;

	rewind(f);
	e->sentence[0] = e->second[0] = '\0';
	while (fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		if (!strcmp(line, "--"))
			to = e->second;
		else if (!strstr(to, "restart the program"))
			snprintf(to, sizeof(e->sentence), "%s", line);
	}
}

/** Run the scenario in a new process in which this call fails. */
static struct ended run_victim(const struct call *c)
{
	static unsigned count;
	struct ended e = {0};
	FILE *f = tmpfile();
	pid_t pid;

	memset(report, 0, sizeof(*report));
	count++;
	pid = fork();
	if (pid == 0) {
		char device[32];

		snprintf(device, sizeof(device), "127.%d.%u.%u", 100 + getppid() % 100, count / 250 + 1,
			 count % 250 + 1);
		if (c->alone)
			setenv("UROCE_DEVICES", device, 1);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(fileno(f), STDERR_FILENO);
		fclose(f);
		victim(c->alone, c->kind, c->n, c->on);
	}
	for (unsigned ms = 0; waitpid(pid, &e.status, WNOHANG) != pid; ms++) {
		usleep(1000);
		if (ms < HANG_S * 1000)
			continue;
		e.hang = true;
		if (getenv("FAILING_STAY")) {
			fprintf(stderr, "%d hangs\n", pid);
			pause();
		}
		kill(pid, SIGKILL);
		waitpid(pid, &e.status, 0);
		break;
	}
	read_sentences(f, &e);
	fclose(f);
	return e;
}

/** Whether a process holds more than `like`; then say what in `why`. */
static bool holds_more(const struct report *r, const struct report *like, char *why, size_t len)
{
	if (r->descriptors <= like->descriptors && r->threads <= like->threads && r->mappings <= like->mappings &&
	    r->blocks <= like->blocks)
		return false;
	snprintf(why, len, "%u descriptors, %u threads, %ld blocks, %ld mappings; without a failure %u, %u, %ld, %ld",
		 r->descriptors, r->threads, (long)r->blocks, (long)r->mappings, like->descriptors, like->threads,
		 (long)like->blocks, (long)like->mappings);
	return true;
}

/** Judge the outcome: `report` and `e`. */
static const char *verdict(const struct ended *e, const struct call *c, const struct report *like, char *why,
			   size_t len)
{
	/* From the failure on, every send or every receive on a socket fails: the process cannot learn of new shared
	 * memory rings, and may lose its connection without an errno. */
	bool cut_off = c->on && (c->kind == FAILING_recvmsg || c->kind == FAILING_sendmsg);
	const struct report *r = report;
	/* The second run may fail as well, if a message on stderr announces that. DPDK prints its message once, perhaps
	 * in the first run. Through libfabric only DPDK's message is on stderr, because providers write to libfabric's
	 * log. A failure while a library is loaded shows only later, when DPDK starts. */
	bool for_good = !r->second && (strstr(e->second, "restart the program") || strstr(e->second, "EAL: FATAL") ||
				       strstr(e->sentence, "EAL: FATAL"));

	why[0] = '\0';
	if (e->hang)
		return "HANG";
	if (!WIFEXITED(e->status) || WEXITSTATUS(e->status)) {
		snprintf(why, len, "status %x", (unsigned)e->status);
		return "CRASH";
	}
	if (!r->first && r->failure.error == 0 && !(cut_off && r->failure.lost)) {
		snprintf(why, len, "no errno");
		return "WRONG";
	}
	if (!r->second && !for_good) {
		snprintf(why, len, "then: %s %s (%s)", phases[r->again.phase], r->again.what, e->second);
		return "WRONG";
	}
	/* A process that makes no n-th call is one more without a failure, and the sweep ends with it. */
	if (r->calls >= c->n && holds_more(r, like, why, len))
		return "LEAK";
	return r->first ? "worked" : for_good ? "for-good" : "error";
}

static bool is_bad(const char *outcome)
{
	return outcome[0] >= 'A' && outcome[0] <= 'Z';
}

/** What processes without a failure hold: the most that one of them held, and the most that two of them held. */
struct normal {
	struct report once, twice;
};

static void learn(struct normal *normal, const struct report *r)
{
#define LEARN(what)                                                                                                    \
	do {                                                                                                           \
		if (r->what > normal->once.what) {                                                                     \
			normal->twice.what = normal->once.what;                                                        \
			normal->once.what = r->what;                                                                   \
		} else if (r->what > normal->twice.what) {                                                             \
			normal->twice.what = r->what;                                                                  \
		}                                                                                                      \
	} while (0)
	LEARN(descriptors);
	LEARN(threads);
	LEARN(blocks);
	LEARN(mappings);
#undef LEARN
}

/** Repeat a process that held more than one without a failure, alternating with processes without a failure. Without
 * one a process holds less when a peer's ring comes late and packets go by the port; any process holds a descriptor
 * more while it answers a request for its status. So it is a leak only if it shows two more times, compared with what
 * two processes without a failure have held so far. @return the outcome; `report` and `e` are those of the run that it
 * is about */
static const char *repeat_suspect(const struct call *c, struct normal *normal, struct ended *e, char *why, size_t len)
{
	const struct report *like = &normal->twice;
	struct call none = {.alone = c->alone, .kind = c->kind};
	struct report suspect = *report;
	struct ended first = *e;
	unsigned seen = 0, leaks = 0;
	const char *outcome;
	char said[300];

	for (unsigned i = 0; seen < REPEATS && i < 2 * REPEATS; i++) {
		*e = run_victim(&none);
		outcome = verdict(e, &none, report, said, sizeof(said));
		if (strcmp(outcome, "worked")) {
			snprintf(why, len, "a run without a failure: %s %s", outcome, said);
			return "WRONG";
		}
		learn(normal, report);
		*e = run_victim(c);
		outcome = verdict(e, c, like, why, len);
		leaks += !strcmp(outcome, "LEAK");
		if (leaks == 2 || (is_bad(outcome) && strcmp(outcome, "LEAK")))
			return outcome;
		seen += report->calls >= c->n; /* if not, it made fewer calls this time, and none failed */
	}
	*report = suspect;
	*e = first;
	outcome = verdict(e, c, seen ? report : like, why, len); /* compared with itself it holds no more */
	if (!is_bad(outcome) && holds_more(report, like, said, sizeof(said)))
		snprintf(why, len, "held more, but seldom: %s", said);
	return outcome;
}

static int sweep(struct call c, long first, long step, long most)
{
	struct call none = {.alone = c.alone, .kind = c.kind};
	struct normal normal = {0};
	struct ended e;
	int bad = 0;
	char why[600];

	for (unsigned i = 0; i < 2; i++) {
		e = run_victim(&none);
		if (!report->first || !report->second) {
			printf("%s without a failure: %s %s: errno %d; %s\n", kinds[c.kind],
			       phases[report->failure.phase], report->failure.what, report->failure.error, e.sentence);
			return 2;
		}
		learn(&normal, report);
	}
	c.n = first;
	for (long i = 0; i < most; i++, c.n += step) {
		const char *outcome;

		e = run_victim(&c);
		outcome = verdict(&e, &c, &normal.twice, why, sizeof(why));
		if (!strcmp(outcome, "LEAK"))
			outcome = repeat_suspect(&c, &normal, &e, why, sizeof(why));
		if (!e.hang && report->calls < c.n && !is_bad(outcome) && !why[0])
			break;
		printf("%s %s %ld %s", kinds[c.kind], c.on ? "on" : "once", (long)c.n, outcome);
		if (!report->first)
			printf(" %s %s errno %d", phases[report->failure.phase], report->failure.what,
			       report->failure.error);
		printf("; %s%s%s\n", why, why[0] ? "; " : "", e.sentence);
		fflush(stdout);
		bad |= is_bad(outcome);
	}
	return bad;
}

/** The partner may notice only after a while that a process has ended. @return whether the partner holds no more
 * descriptors than before. */
static bool partner_is_as_before(pid_t pid, unsigned before)
{
	for (unsigned ms = 0; ms < SETTLE_MS; ms += 10) {
		if (partner_descriptors(pid) <= before)
			return true;
		usleep(10000);
	}
	return false;
}

int main(int argc, char **argv)
{
	failing_get_fn get = (failing_get_fn)dlsym(RTLD_DEFAULT, "failing_get");
	bool alone = argc > 6 && !strcmp(argv[6], "alone");
	int listener, said = -1, kind = -1, bad;
	unsigned before = 0;
	pid_t partner = 0;
	char byte;

	for (int i = 0; argc > 5 && i < FAILING_KINDS; i++)
		if (!strcmp(argv[1], kinds[i]))
			kind = i;
	state = get ? get() : NULL;
	report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (kind < 0 || !state || report == MAP_FAILED) {
		fprintf(stderr, "usage: KIND once|on FIRST STEP MOST [alone], with libfailing.so preloaded\n");
		return 2;
	}
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!alone) {
		listener = partner_listen();
		partner = partner_start(listener, &said);
		if (read(said, &byte, 1) != 1) {
			printf("the partner cannot open the device\n");
			return 3;
		}
		run_victim(&(struct call){.kind = kind}); /* a first run lets the partner allocate what it keeps */
		usleep(100000);
		before = partner_descriptors(partner);
	}
	bad = sweep((struct call){.alone = alone, .kind = kind, .on = !strcmp(argv[2], "on")}, atol(argv[3]),
		    atol(argv[4]), atol(argv[5]));
	if (partner && waitpid(partner, NULL, WNOHANG) != 0) {
		printf("%s: the partner has ended\n", kinds[kind]);
		bad = 1;
	} else if (partner && !partner_is_as_before(partner, before)) {
		printf("%s: LEAK: the partner has %u descriptors, %u before\n", kinds[kind],
		       partner_descriptors(partner), before);
		bad = 1;
	}
	if (partner)
		kill(partner, SIGKILL);
	return bad;
}
