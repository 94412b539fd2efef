/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced_guard.c - starts the daemon of an uplink again if it is killed.
 *
 * Functions survive the end of a daemon that has only sockets: they hold these themselves. But the DPDK port of an
 * uplink ends with its daemon, and a function often lacks the right to open it. So that daemon is the child of a
 * process that does nothing but wait, with the same rights, arguments and environment. A daemon that fails again and
 * again is started less and less often. One that has lost its port asks for the next by its exit code. One that ends
 * without a failure is not started again; nor is the first if it fails, because its starter is told.
 *
 * Why a later one fails goes to syslog. The guard ends when another daemon has the device; when nobody needs one,
 * because the device is not kept (uroce up) and no function lives; and after GIVE_UP_NS in which none could start.
 * It listens under "\0uroce/<address>/guard". As long as its daemon serves, it has nothing to say; at other times it
 * tells tools why, and a tool's "leave" ends the keeping, as it does at a daemon.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <syslog.h>
#include <unistd.h>

#include "uroced.h"

#define STAYED_NS     10000000000u /* a daemon that ran for this long starts anew without a pause */
#define PAUSE_NS      50000000u	   /* before the second start in a row; doubles */
#define PAUSE_DOUBLES 7
#define GIVE_UP_NS    600000000000u /* docs/configuration.md says so */
#define ANSWER_MS     5000	    /* for another daemon, which may be busy */
#define REQUEST_MS    200	    /* for a tool, to say what it wants */

/** Shared by the guard and its daemons. */
struct guard_shared {
	bool keep;     /* the device is kept: the next daemon stays, too */
	bool ready;    /* the daemon serves */
	char why[256]; /* why the last one did not start; "": it did, or none has failed */
};

struct guard {
	struct daemon *daemon; /* the guard's own: without the changes that its children make to theirs */
	struct guard_shared *shared;
	int signal_fd, listen_fd; /* listen_fd -1: there is no name */
	const char *device;
};

/* ---- in the daemon -------------------------------------------------------------------------------------------- */

void guard_ready(struct daemon *d)
{
	if (!d->guard)
		return;
	d->guard->why[0] = '\0';
	__atomic_store_n(&d->guard->ready, true, __ATOMIC_SEQ_CST);
	d->stay = __atomic_load_n(&d->guard->keep, __ATOMIC_SEQ_CST); /* a tool may have told the guard meanwhile */
}

bool guard_keeps(const struct daemon *d)
{
	return d->guard->keep;
}

void guard_keep(struct daemon *d)
{
	if (d->guard)
		d->guard->keep = d->stay;
}

/** Whether another daemon has the device, and answers. One that does not may still fail to open the port. */
static bool other_serves(const struct daemon *d)
{
	const struct proto_whois whois = {.gid = d->key};
	struct proto_name name;
	bool answers;
	int fd;
	PROTO_MSG(m);

	pmd_name_daemon(&d->key, &name);
	fd = proto_connect(&name);
	if (fd < 0)
		return false;
	answers = proto_send(fd, PROTO_WHOIS, &whois, sizeof(whois), NULL, 0) == 0 &&
		  proto_recv_wait(fd, &m, ANSWER_MS) == 1;
	proto_msg_close(&m);
	close(fd);
	return answers;
}

/** Whether a process listens under the name of a function of the device. */
static bool function_lives(const struct daemon *d)
{
	struct proto_name name;

	for (unsigned n = 1; n < DAEMON_SLOTS; n++) {
		int fd;

		pmd_name_function(&d->key, n, &name);
		fd = proto_connect(&name);
		if (fd >= 0)
			close(fd);
		if (fd != -ECONNREFUSED)
			return true;
	}
	return false;
}

/** Tell why a daemon has not started. @return whether the next is to be started: somebody needs it. */
static bool failed(const struct daemon *d, const char *why)
{
	char address[PMD_GID_TEXT];

	pmd_gid_str(&d->key, address, sizeof(address));
	syslog(LOG_DAEMON | LOG_ERR, "the daemon of %s does not start: %s", address, why);
	snprintf(d->guard->why, sizeof(d->guard->why), "%s", why);
	if (d->guard->keep || function_lives(d))
		return true;
	syslog(LOG_DAEMON | LOG_NOTICE, "nobody uses %s; its guard ends", address);
	return false;
}

int guard_verdict(struct daemon *d, const char *why)
{
	char address[PMD_GID_TEXT];

	if (!why[0] && other_serves(d)) {
		syslog(LOG_DAEMON | LOG_NOTICE, "another daemon has %s; its guard ends",
		       pmd_gid_str(&d->key, address, sizeof(address)));
		return 0;
	}
	return failed(d, why[0] ? why : "another process has the name of the daemon, and does not answer");
}

/* ---- tools ---------------------------------------------------------------------------------------------------- */

static void tool_refuse(const struct guard *g, int fd, int error)
{
	struct proto_refused refused = {.error = error};

	if (error == EPERM)
		snprintf(refused.sentence, sizeof(refused.sentence),
			 "this is for the user who runs the daemon of the device, and for root");
	else if (error == EBUSY)
		snprintf(refused.sentence, sizeof(refused.sentence),
			 "the daemon of %.64s has started meanwhile; try again", g->device);
	else if (g->shared->why[0])
		snprintf(refused.sentence, sizeof(refused.sentence),
			 "the daemon of %.64s does not start, and is tried again: %.200s", g->device, g->shared->why);
	else
		snprintf(refused.sentence, sizeof(refused.sentence), "the daemon of %.64s is being started", g->device);
	proto_send(fd, PROTO_REFUSED, &refused, sizeof(refused), NULL, 0);
}

static void tool_answer(int fd)
{
	const int32_t done = 0;

	if (proto_send(fd, PROTO_TEXT, "{}\n", 3, NULL, 0) == 0)
		proto_send(fd, PROTO_END, &done, sizeof(done), NULL, 0);
}

static bool is_ready(const struct guard *g)
{
	return __atomic_load_n(&g->shared->ready, __ATOMIC_SEQ_CST);
}

/** End the keeping. A daemon that becomes ready meanwhile may have read `keep` before. @return 0 or EBUSY */
static int leave(struct guard *g)
{
	if (is_ready(g))
		return EBUSY;
	__atomic_store_n(&g->shared->keep, false, __ATOMIC_SEQ_CST);
	return is_ready(g) ? EBUSY : 0;
}

/** Everybody may ask why there is no daemon. */
static void tool_serve(struct guard *g)
{
	int fd = proto_accept(g->listen_fd), error;
	struct ucred peer;
	PROTO_MSG(m);

	if (fd < 0)
		return;
	if (proto_peer(fd, &peer) == 0 && proto_recv_wait(fd, &m, REQUEST_MS) == 1 && m.type == PROTO_TOOL) {
		if (m.len != 5 || memcmp(m.data, "leave", 5) != 0)
			error = is_ready(g) ? 0 : EAGAIN;
		else
			error = peer.uid != geteuid() && peer.uid != 0 ? EPERM : leave(g);
		if (error)
			tool_refuse(g, fd, error);
		else
			tool_answer(fd);
	}
	proto_msg_close(&m);
	close(fd);
}

/* ---- waiting -------------------------------------------------------------------------------------------------- */

/** Wait for a signal, and serve tools meanwhile. @return the signal; 0: none has come until end_ns, or a tool has ended
 *  the keeping */
static int wait_signal(struct guard *g, uint64_t end_ns)
{
	struct pollfd fds[] = {{.fd = g->signal_fd, .events = POLLIN}, {.fd = g->listen_fd, .events = POLLIN}};
	bool kept = g->shared->keep;
	uint64_t now_ns;

	while ((now_ns = daemon_now_ns()) < end_ns) {
		struct signalfd_siginfo info;
		int ms = end_ns == UINT64_MAX ? -1 : (int)((end_ns - now_ns) / 1000000u) + 1;

		if (poll(fds, 2, ms) <= 0)
			continue;
		if (fds[0].revents && read(g->signal_fd, &info, sizeof(info)) == sizeof(info))
			return (int)info.ssi_signo;
		if (fds[1].revents)
			tool_serve(g);
		if (kept && !g->shared->keep)
			return 0;
	}
	return 0;
}

/** Wait for the end of the child; pass requests to end on to it. @return its status. @param told whether we were asked
 *  to end. */
static int wait_for(struct guard *g, pid_t child, bool *told)
{
	int status = 0;

	for (;;) {
		pid_t pid = waitpid(child, &status, WNOHANG);
		int sig;

		if (pid == child || (pid < 0 && errno == ECHILD))
			return status;
		sig = wait_signal(g, UINT64_MAX);
		if (sig != SIGTERM && sig != SIGINT)
			continue;
		*told = true;
		kill(child, SIGTERM);
	}
}

/** Pause before another start: the longer, the more have failed in a row. @return false: we were asked to end. */
static bool pause_for(struct guard *g, unsigned failures)
{
	unsigned doubles = failures - 2 < PAUSE_DOUBLES ? failures - 2 : PAUSE_DOUBLES;
	uint64_t end_ns = daemon_now_ns() + ((uint64_t)PAUSE_NS << doubles);
	int sig = SIGCHLD;

	while (failures > 1 && sig == SIGCHLD)
		sig = wait_signal(g, end_ns);
	return sig == SIGCHLD || sig == 0;
}

/** Listen for tools, unless another guard of the device does, which then ends soon. */
static void guard_listen(struct guard *g)
{
	struct proto_name name;

	if (g->listen_fd >= 0)
		return;
	pmd_name_guard(&g->daemon->key, &name);
	g->listen_fd = proto_listen(&name);
}

/* ---- the guard ------------------------------------------------------------------------------------------------ */

static int guard_init(struct guard *g, sigset_t *set, struct daemon *d, const struct guard_job *job)
{
	sigemptyset(set);
	sigaddset(set, SIGCHLD);
	sigaddset(set, SIGTERM);
	sigaddset(set, SIGINT);
	sigprocmask(SIG_BLOCK, set, NULL);
	*g = (struct guard){.daemon = d, .device = job->device, .listen_fd = -1};
	g->signal_fd = signalfd(-1, set, SFD_CLOEXEC | SFD_NONBLOCK);
	g->shared = mmap(NULL, sizeof(*g->shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (g->signal_fd < 0 || g->shared == MAP_FAILED)
		return -errno;
	g->shared->keep = job->keep;
	d->guard = g->shared;
	if (pmd_gid_parse(job->device, &d->key))
		guard_listen(g);
	return 0;
}

/** Whether another daemon is to be started. A daemon that could not start judged that itself, unless a signal ended
 *  it. @param error != 0: there was no process for it */
static bool guard_goes_on(const struct guard *g, bool first, int error, int status)
{
	char why[128];

	if (!error && WIFEXITED(status))
		return WEXITSTATUS(status) == DAEMON_AGAIN || (!first && WEXITSTATUS(status) != 0);
	if (!error && is_ready(g))
		return true;
	if (error)
		snprintf(why, sizeof(why), "no process: %s", strerror(error));
	else
		snprintf(why, sizeof(why), "signal %d ended it while it started", WTERMSIG(status));
	if (first)
		fprintf(stderr, "uroced: the daemon does not start: %s\n", why);
	return !first && failed(g->daemon, why);
}

int guard_run(struct daemon *d, const struct guard_job *job)
{
	uint64_t since_ns, well_ns = daemon_now_ns();
	unsigned failures = 0;
	bool told = false;
	sigset_t set;
	struct guard g;
	int rc = guard_init(&g, &set, d, job);

	for (bool first = true; rc == 0; first = false) {
		pid_t child = fork();
		int error = child < 0 ? errno : 0, status = 0;

		since_ns = daemon_now_ns();
		if (child == 0) {
			close(g.listen_fd);
			close(g.signal_fd);
			sigprocmask(SIG_UNBLOCK, &set, NULL);
			return job->run(job->ctx, first);
		}
		if (first && error) {
			rc = -error;
			break;
		}
		if (first)
			job->settle(job->ctx);
		if (!error)
			status = wait_for(&g, child, &told);
		if (told || !guard_goes_on(&g, first, error, status))
			return WIFEXITED(status) ? WEXITSTATUS(status) : !told;
		if (g.shared->ready)
			well_ns = daemon_now_ns();
		g.shared->ready = false;
		failures = daemon_now_ns() - since_ns < STAYED_NS ? failures + 1 : 1;
		if (daemon_now_ns() - well_ns > GIVE_UP_NS) {
			syslog(LOG_DAEMON | LOG_ERR, "the guard of %s gives up", job->device);
			return 1;
		}
		guard_listen(&g);
		if (!pause_for(&g, failures))
			return 0;
	}
	return rc;
}
