/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uroced.c - the daemon of a device: options, claiming the device, running in the background, main loop, exit.
 *
 *   uroced --device ADDRESS[,ADDRESS...] [--iface INTERFACE] [--stay] [--allow WHOM] [--foreground]
 *   uroced --iface INTERFACE ...
 *   uroced --device ADDRESS --uplink ARGUMENTS [--network LENGTH] [--gateway ADDRESS] ...
 *
 * There is one daemon per device in a network namespace. The daemon is not part of the data path: it can be killed at
 * any time, and the next daemon finds the live functions and their sockets. The command returns when processes can
 * connect to join the device; with --foreground, when the daemon ends. Exit code 0: the daemon runs, or another daemon
 * already had the device; 1: failure, with a message on stderr; 2: bad options.
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <net/if.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "points.h"
#include "uroced.h"

#define TICK_MS	       50
#define IDLE_NS	       1000000000u /* exit after this time without functions */
#define FIRST_NS       4000000000u /* additional time for the first function to join */
#define START_TRIES    75 /* tries while an ending daemon has sockets of the address open: longer than IDLE_NS */
#define START_PAUSE_NS 20000000

struct options {
	const char *device, *iface, *allow;
	struct uplink_options uplink;
	bool stay, foreground;
	bool again; /* the daemon was killed, and its guard starts it again */
};

uint64_t daemon_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int daemon_watch(struct daemon *d, int fd, uint32_t events, uint64_t source)
{
	struct epoll_event event = {.events = events, .data.u64 = source};

	return epoll_ctl(d->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

void daemon_rewatch(struct daemon *d, int fd, uint32_t events, uint64_t source)
{
	struct epoll_event event = {.events = events, .data.u64 = source};

	epoll_ctl(d->epoll_fd, EPOLL_CTL_MOD, fd, &event);
}

/* ---- start ---------------------------------------------------------------------------------------------- */

static const char usage_text[] =
	"usage: uroced --device ADDRESS[,ADDRESS...] [--iface INTERFACE] [options]\n"
	"       uroced --iface INTERFACE [options]\n"
	"       uroced --device ADDRESS --uplink ARGUMENTS [options]\n"
	"\n"
	"The daemon of a uroce device. Programs start it by themselves; start it by hand to let others in or to keep "
	"it.\n"
	"\n"
	"  --device LIST     the device's addresses; the first names it\n"
	"  --iface NAME      follow an interface: its addresses (beside --device: its IPv6 addresses) and its link\n"
	"  --uplink ARGS     own a DPDK port that the device's programs share: net_af_packet0,iface=eth1\n"
	"  --network LENGTH  with --uplink: prefix length of the network; by default every address is on the link\n"
	"  --gateway ADDRESS with --uplink: next hop to other networks\n"
	"  --vlan NUMBER     with --uplink: send and accept frames of this VLAN\n"
	"  --stay            do not leave when the last program has closed the device\n"
	"  --allow WHOM      besides this user and root: user=NAME, group=NAME or all\n"
	"  --foreground      do not go into the background\n"
	"  --help            this text\n"
	"  --version         the version of uroce\n";

static int options_parse(int argc, char **argv, struct options *o)
{
	static const struct option names[] = {
		{"device", required_argument, NULL, 'd'},  {"iface", required_argument, NULL, 'i'},
		{"allow", required_argument, NULL, 'a'},   {"stay", no_argument, NULL, 's'},
		{"foreground", no_argument, NULL, 'f'},	   {"help", no_argument, NULL, 'h'},
		{"uplink", required_argument, NULL, 'u'},  {"network", required_argument, NULL, 'n'},
		{"gateway", required_argument, NULL, 'g'}, {"vlan", required_argument, NULL, 'l'},
		{"version", no_argument, NULL, 'v'},	   {NULL, 0, NULL, 0},
	};
	int c;

	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 'd':
			o->device = optarg;
			break;
		case 'i':
			o->iface = optarg;
			break;
		case 'a':
			o->allow = optarg;
			break;
		case 'u':
			o->uplink.args = optarg;
			break;
		case 'n':
			o->uplink.network = optarg;
			break;
		case 'g':
			o->uplink.gateway = optarg;
			break;
		case 'l':
			o->uplink.vlan = optarg;
			break;
		case 's':
			o->stay = true;
			break;
		case 'f':
			o->foreground = true;
			break;
		case 'h':
			fputs(usage_text, stdout);
			exit(0);
		case 'v':
			puts("uroced " UROCE_VERSION);
			exit(0);
		default:
			fputs(usage_text, stderr);
			return -EINVAL;
		}
	}
	if (optind == argc && (o->device || o->iface))
		return 0;
	fputs(usage_text, stderr);
	return -EINVAL;
}

/** Apply the options. @return 0 or a negative errno with a message in err. */
static int daemon_configure(struct daemon *d, const struct options *o, char *err, size_t err_len)
{
	char list[1024], *rest = list, *address;
	struct nic_gid gid;
	int rc = proto_policy_parse(o->allow, &d->policy, err, err_len);

	if (rc != 0)
		return rc;
	snprintf(d->allow, sizeof(d->allow), "%s", o->allow && o->allow[0] ? o->allow : "none");
	d->stay = o->stay;
	if (snprintf(list, sizeof(list), "%s", o->device ? o->device : "") >= (int)sizeof(list)) {
		snprintf(err, err_len, "--device: the list is too long; a device has up to %u addresses",
			 NIC_GID_TABLE_LEN);
		return -E2BIG;
	}
	while ((address = strsep(&rest, ","))) {
		if (!address[0])
			continue;
		if (!pmd_gid_parse(address, &gid) || !pmd_gid_is_unicast(&gid)) {
			snprintf(err, err_len, "--device: '%.64s' is no host address", address);
			return -EINVAL;
		}
		if (!gids_fix(d, &gid)) {
			snprintf(err, err_len, "--device: a device has up to %u addresses; name fewer",
				 NIC_GID_TABLE_LEN);
			return -E2BIG;
		}
	}
	rc = uplink_configure(d, &o->uplink, err, err_len);
	if (rc == 0 && o->iface && uplink_is(d)) {
		snprintf(err, err_len, "--iface and --uplink exclude each other: an uplink has one address");
		rc = -EINVAL;
	}
	if (rc != 0)
		return rc;
	if (o->iface)
		rc = gids_follow(d, o->iface, d->n_fixed ? PROTO_FOLLOW_V6 : PROTO_FOLLOW_ALL);
	if (rc == -ENODEV)
		snprintf(err, err_len, "--iface: there is no interface '%.32s' here", o->iface);
	else if (rc == -EADDRNOTAVAIL)
		snprintf(err, err_len, "interface '%.32s' has no IP address; give it one", o->iface);
	else if (rc == -EINVAL)
		snprintf(err, err_len,
			 "--device: not all of '%.64s' are addresses of interface '%.32s'; name others, or leave "
			 "out --iface",
			 o->device, o->iface);
	else if (rc != 0)
		snprintf(err, err_len, "--iface: the kernel does not tell the addresses of '%.32s': %s", o->iface,
			 strerror(-rc));
	return rc;
}

/** Become the daemon of the device. @return 0; -EADDRINUSE without a message: the device already has a daemon, or
 *  the address belongs to another device; a negative errno with a message in err. */
static int daemon_claim(struct daemon *d, char *err, size_t err_len)
{
	const struct timespec pause = {.tv_nsec = START_PAUSE_NS};
	struct nic_gid naming[NIC_GID_TABLE_LEN], key;
	struct proto_name name;
	int rc;

	d->key = d->fixed[0];
	if (find_device(d, naming, gids_naming(d, naming), false, &key))
		d->key = key; /* a device with functions but no daemon has our address: become its daemon */
	pmd_name_daemon(&d->key, &name);
	d->key_fd = proto_listen(&name);
	if (d->key_fd < 0) {
		if (d->key_fd != -EADDRINUSE)
			snprintf(err, err_len, "cannot listen: %s", strerror(-d->key_fd));
		return d->key_fd;
	}
	rc = daemon_watch(d, d->key_fd, EPOLLIN, SOURCE(SOURCE_NAME, NIC_GID_TABLE_LEN, 0));
	if (rc != 0) {
		snprintf(err, err_len, "cannot wait for visitors (epoll): %s", strerror(-rc));
		return rc;
	}
	PMD_POINT(daemon_named);
	rc = uplink_open(d, err, err_len);
	if (rc != 0)
		return rc;
	slots_probe(d);
	if (d->adopting > 0 && !uplink_is(d))
		return 0; /* we get the sockets from the functions when they are adopted */
	for (unsigned i = 0; i < START_TRIES; i++) {
		gids_sync(d);
		if (gids_find(d, &d->key) >= 0)
			return 0;
		if (d->why_rc != -EADDRINUSE)
			break;
		if (i == 0 && find_device(d, &d->key, 1, true, &key))
			return -EADDRINUSE; /* another device has the address */
		nanosleep(&pause, NULL);
	}
	snprintf(err, err_len, "%s", d->why);
	return d->why_rc;
}

static int daemon_init(struct daemon *d, char *err, size_t err_len)
{
	sigset_t end;

	d->since_ns = d->idle_since_ns = daemon_now_ns();
	d->idle_since_ns += FIRST_NS;
	d->key_fd = d->netlink_fd = d->keeper[0] = d->keeper[1] = -1;
	d->port_up = true;
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		d->gids[i].name_fd = -1;
	clients_init(d);
	sigemptyset(&end);
	sigaddset(&end, SIGTERM);
	sigaddset(&end, SIGINT);
	sigprocmask(SIG_BLOCK, &end, NULL);
	d->signal_fd = signalfd(-1, &end, SFD_CLOEXEC | SFD_NONBLOCK);
	d->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	if (d->epoll_fd < 0 || d->signal_fd < 0 ||
	    daemon_watch(d, d->signal_fd, EPOLLIN, SOURCE(SOURCE_SIGNAL, 0, 0)) != 0) {
		snprintf(err, err_len, "no epoll set: %s", strerror(errno));
		return -errno;
	}
	return 0;
}

/* ---- the loop ------------------------------------------------------------------------------------------- */

static void daemon_event(struct daemon *d, const struct epoll_event *event)
{
	unsigned kind = (unsigned)(event->data.u64 >> 32), a = event->data.u64 >> 16 & 0xffff,
		 b = event->data.u64 & 0xffff;

	switch (kind) {
	case SOURCE_NAME:
		clients_accept(d, a < NIC_GID_TABLE_LEN ? d->gids[a].name_fd : d->key_fd);
		break;
	case SOURCE_CLIENT:
		clients_ready(d, a);
		break;
	case SOURCE_FUNCTION:
		slots_ready_event(d, a, event->events);
		break;
	case SOURCE_DATAGRAM:
		steer_drain(d, a, b);
		break;
	case SOURCE_UPLINK:
		uplink_ready(d, a);
		break;
	case SOURCE_NETLINK:
		gids_netlink(d);
		break;
	default:
		d->leave = true;
	}
}

bool daemon_makes_way(struct daemon *d)
{
	if (d->live > 0 || d->adopting > 0 || d->stay || (int64_t)(daemon_now_ns() - d->idle_since_ns) < 0)
		return false;
	d->leave = true;
	return true;
}

/** Whether the daemon may exit: it has no functions and no clients, and has not been told to stay. Unless it has been
 *  told to leave, it also waits for IDLE_NS, and until cm_is_busy() returns false. */
static bool daemon_is_done(struct daemon *d)
{
	if (d->live > 0 || d->adopting > 0 || d->stay || (!d->leave && cm_is_busy(d)))
		return false;
	if (!d->leave && (int64_t)(daemon_now_ns() - d->idle_since_ns) < (int64_t)IDLE_NS)
		return false;
	/* Accept a client that has already connected: the daemon then stays. */
	clients_accept(d, d->key_fd);
	return !clients_any(d);
}

static bool daemon_has_signal(struct daemon *d)
{
	struct signalfd_siginfo info;

	return read(d->signal_fd, &info, sizeof(info)) > 0;
}

/** @return milliseconds until the next scheduled work; -1: no work is scheduled, so wait for an event. */
static int loop_timeout(const struct daemon *d)
{
	uint64_t now_ns = daemon_now_ns(), due_ns = d->retry_ns, cm_ns;

	if (clients_any(d) || d->deaf_ns != 0 || (d->live == 0 && d->adopting == 0 && !d->stay))
		return TICK_MS;
	if (due_ns == 0 || (d->slots_due_ns != 0 && d->slots_due_ns < due_ns))
		due_ns = d->slots_due_ns;
	if (due_ns == 0 || (d->keeper_due_ns != 0 && d->keeper_due_ns < due_ns))
		due_ns = d->keeper_due_ns;
	cm_ns = cm_due_ns(d);
	if (due_ns == 0 || (cm_ns != 0 && cm_ns < due_ns))
		due_ns = cm_ns;
	if (due_ns == 0)
		return -1;
	return due_ns <= now_ns ? 0 : (int)((due_ns - now_ns) / 1000000 + 1);
}

static void daemon_loop(struct daemon *d)
{
	for (;;) {
		struct epoll_event event;
		/* One event at a time: handling an event may close the descriptor of the next event. */
		int n = epoll_wait(d->epoll_fd, &event, 1, loop_timeout(d));

		if (n > 0)
			daemon_event(d, &event);
		if (d->give_up)
			clients_refuse(d, EMFILE,
				       "uroced has no descriptors left to take over the sockets of the device; raise "
				       "its limit (ulimit -n)");
		if (d->give_up || d->port_lost || daemon_has_signal(d))
			return; /* functions keep running without a daemon */
		if (d->retry_ns != 0 && daemon_now_ns() >= d->retry_ns)
			gids_sync(d);
		clients_tick(d);
		slots_tick(d);
		keeper_tick(d);
		cm_tick(d);
		if (daemon_is_done(d))
			return;
	}
}

/** Close the UDP sockets before the end of the process releases the names: a new daemon that gets a name must be able
 *  to bind the UDP port too. */
static void daemon_end(struct daemon *d)
{
	uplink_close(d);
	keeper_close(d);
	PMD_POINT(daemon_keeper_closed);
	for (unsigned i = 0; i < NIC_GID_TABLE_LEN; i++)
		if (!pmd_gid_is_none(&d->gids[i].gid))
			steer_close(d, &d->gids[i]);
	PMD_POINT(daemon_sockets_closed);
}

/** Run the daemon from start to end. @param told_fd pipe to which the command's exit code is written when the daemon is
 *  ready or has failed; -1: none. */
static int daemon_run(struct daemon *d, const struct options *o, int told_fd)
{
	char err[256] = "";
	uint8_t code = 0;
	int rc = daemon_init(d, err, sizeof(err));

	if (rc == 0)
		rc = daemon_configure(d, o, err, sizeof(err));
	if (rc == 0)
		rc = daemon_claim(d, err, sizeof(err));
	/* No message: another daemon has the device. That is what the starter wanted. */
	if (rc != 0 && err[0]) {
		fprintf(stderr, "uroced: %s\n", err);
		code = 1;
	}
	if (rc != 0 && o->again)
		code = (uint8_t)guard_verdict(d, err);
	if (rc == 0) {
		PMD_POINT(daemon_ready);
		guard_ready(d);
	}
	if (told_fd >= 0) {
		if (rc == 0)
			process_background();
		if (write(told_fd, &code, 1) != 1)
			code = 1;
		close(told_fd);
	}
	if (rc != 0) {
		uplink_close(d);
		return code;
	}
	daemon_loop(d);
	daemon_end(d);
	return d->port_lost ? DAEMON_AGAIN : 0;
}

struct start {
	struct daemon *d;
	const struct options *o;
	int told_fd;
};

/** Run the daemon of an uplink; see guard_run. Only the first start has someone to tell. */
static int start_guarded(void *ctx, bool first)
{
	const struct start *s = ctx;
	struct options o = *s->o;

	o.again = !first;
	o.stay = guard_keeps(s->d);
	return daemon_run(s->d, &o, first ? s->told_fd : -1);
}

/** The first daemon has told_fd and the descriptors of its starter's terminal or pipe: leave them to it. */
static void start_settle(void *ctx)
{
	const struct start *s = ctx;

	if (s->told_fd < 0)
		return;
	close(s->told_fd);
	process_background();
}

/** Run the daemon; that of an uplink in a child of its own. @return the exit code. */
static int start(struct daemon *d, const struct options *o, int told_fd)
{
	struct start s = {d, o, told_fd};
	const struct guard_job job = {start_guarded, start_settle, &s, o->device ? o->device : "", o->stay};
	const uint8_t failed = 1;
	int code = o->uplink.args ? guard_run(d, &job) : daemon_run(d, o, told_fd);

	if (code >= 0)
		return code;
	fprintf(stderr, "uroced: no process for the uplink: %s\n", strerror(-code));
	if (told_fd >= 0 && write(told_fd, &failed, 1) != 1)
		fprintf(stderr, "uroced: cannot tell that to the process that started it: %s\n", strerror(errno));
	return failed;
}

int main(int argc, char **argv)
{
	static struct daemon d;
	struct options o = {0};
	uint8_t code = 1;
	int told[2];
	pid_t child;

	if (options_parse(argc, argv, &o) != 0)
		return 2;
	d.files_limit = process_inherit_nothing();
	if (o.foreground)
		return start(&d, &o, -1);
	if (pipe2(told, O_CLOEXEC) != 0 || (child = fork()) < 0) {
		fprintf(stderr, "uroced: cannot go into the background: %s\n", strerror(errno));
		return 1;
	}
	if (child == 0) {
		close(told[0]);
		setsid();
		return start(&d, &o, told[1]);
	}
	close(told[1]);
	if (read(told[0], &code, 1) != 1)
		fprintf(stderr, "uroced: the daemon ended while it started\n");
	return code;
}
