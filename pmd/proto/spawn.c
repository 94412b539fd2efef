/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spawn.c - starting the daemon, uroced, from inside an application that does not know about it.
 *
 * If the daemon were an ordinary child of the application, its end would raise SIGCHLD, and the application's wait()
 * would return it. So an intermediate child, which has no exit signal and is reaped with __WCLONE, starts the daemon
 * and exits at once: the daemon is then not a child of the application. The intermediate child and the daemon before
 * its exec share our memory while the caller is suspended, as with vfork: nothing is copied, and no fork handler runs.
 * Both processes make raw system calls only.
 *
 * The daemon's stderr is a pipe. Text in the pipe is the reason why the daemon does not start; end of file without text
 * means that the daemon has started and listens, or that it could not be executed (struct spawn.error).
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "address.h"
#include "eal.h"
#include "engine.h"
#include "points.h"
#include "proto.h"
#include "spawn.h"

#define STACK_BYTES  65536 /* stack of each of the two children; signals are blocked, so no handler runs on it */
#define READY_MS     30000 /* the daemon's new session may get no CPU for 15 s: see STARVED_MS in control_join.c */
#define SENTENCE_MAX 512

#ifndef UROCED_INSTALLED
#define UROCED_INSTALLED "/usr/local/bin/uroced"
#endif

#ifdef __SANITIZE_THREAD__
#define SPAWN_COPIES
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define SPAWN_COPIES
#endif
#endif

extern char **environ;

struct spawn {
	const char *path;
	const char *argv[18];
	const char **envp;
	int fd; /* write end of the pipe: becomes the daemon's stderr */
	char *stack;
	struct rlimit files; /* the daemon's limit on open files: what ours was before the start of DPDK */
	bool limit_files;
	int *error; /* errno of a failed clone or execve, in memory that the children share */
};

/* ---- finding uroced ------------------------------------------------------------------------------------- */

/** Whether to trust the program at `path`, which was found in the build tree of `object`. Other users may be able to
 *  write to its folder, so its owner must be the object's owner, our own user or root. */
static bool path_is_trusted(const char *path, const struct stat *object)
{
	struct stat it;

	return stat(path, &it) == 0 && (it.st_uid == object->st_uid || it.st_uid == geteuid() || it.st_uid == 0);
}

/** Find uroced in the tree that contains `object`. In a build tree a library's folder is two or three levels below the
 *  root, that of a test or benchmark two. An installed library's folder is lib/uroce or, with multiarch,
 *  lib/TRIPLET/uroce: so an installed tree can be moved, and DESTDIR be tried in place. */
static bool path_beside(const char *object, char *out, size_t len)
{
	static const char *const ways[] = {"/../../pmd/uroced", "/../../../pmd/uroced", "/../../bin/uroced",
					   "/../../../bin/uroced"};
	char real[PATH_MAX], *slash;
	struct stat its;

	if (!realpath(object, real) || stat(real, &its) != 0 || !(slash = strrchr(real, '/')))
		return false;
	*slash = '\0';
	for (unsigned i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (snprintf(out, len, "%s%s", real, ways[i]) < (int)len && access(out, X_OK) == 0 &&
		    path_is_trusted(out, &its))
			return true;
	return false;
}

static int daemon_path(char *out, size_t len, char *err, size_t err_len)
{
	const char *chosen = secure_getenv("UROCE_UROCED");
	Dl_info info;

	if (chosen && chosen[0]) {
		if (snprintf(out, len, "%s", chosen) < (int)len && access(out, X_OK) == 0)
			return 0;
		snprintf(err, err_len, "UROCE_UROCED is '%.128s', which is no program that can be run", chosen);
		return -ENOENT;
	}
	if (dladdr((void *)(uintptr_t)&pmd_spawn_daemon, &info) && path_beside(info.dli_fname, out, len))
		return 0;
	if (path_beside("/proc/self/exe", out, len))
		return 0;
	if (snprintf(out, len, "%s", UROCED_INSTALLED) < (int)len && access(out, X_OK) == 0)
		return 0;
	snprintf(err, err_len,
		 "uroced, the daemon of the device, is not at %s; install it there or set UROCE_UROCED to its path",
		 UROCED_INSTALLED);
	return -ENOENT;
}

/* ---- running uroced ------------------------------------------------------------------------------------- */

static int daemon_main(void *arg)
{
	struct spawn *s = arg;

	if (s->fd == STDERR_FILENO)
		syscall(SYS_fcntl, s->fd, F_SETFD, 0);
	else
		syscall(SYS_dup3, s->fd, STDERR_FILENO, 0);
	if (s->limit_files)
		syscall(SYS_prlimit64, 0, RLIMIT_NOFILE, &s->files, NULL);
	syscall(SYS_execve, s->path, s->argv, s->envp);
	*s->error = errno;
	syscall(SYS_exit_group, 127);
	return 0;
}

/** Start a child that has no exit signal and runs fn. With ThreadSanitizer, which does not support shared memory here,
 *  the child gets a copy of the memory. */
static pid_t child_start(int (*fn)(void *), char *stack_top, struct spawn *s)
{
#ifdef SPAWN_COPIES
	pid_t pid = (pid_t)syscall(SYS_clone, 0, NULL, NULL, NULL, NULL);

	(void)stack_top;
	if (pid == 0)
		fn(s);
	return pid;
#else
	return clone(fn, stack_top, CLONE_VM | CLONE_VFORK, s);
#endif
}

static int between_main(void *arg)
{
	struct spawn *s = arg;

	if (child_start(daemon_main, s->stack + STACK_BYTES, s) < 0)
		*s->error = errno;
	syscall(SYS_exit_group, 0);
	return 0;
}

/** Run the intermediate child, which starts the daemon. @return 0 or a negative errno. When the pipe reports end of
 *  file, *s->error tells whether the daemon could be executed. */
static int spawn_run(struct spawn *s)
{
	sigset_t all, old;
	pid_t pid;
	int rc;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = child_start(between_main, s->stack + 2 * STACK_BYTES, s);
	rc = pid < 0 ? -errno : 0;
	while (pid > 0 && waitpid(pid, NULL, __WCLONE) < 0 && errno == EINTR)
		;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return rc;
}

/** Copy the environment without LD_PRELOAD and LD_LIBRARY_PATH, which are meant for the application, and without
 *  UROCE_EAL if we have other rights than our caller: it can name code to load, and the daemon, which is executed with
 *  our rights, could not tell. @return NULL: out of memory. */
static const char **daemon_environment(void)
{
	const char **out;
	size_t n = 0, kept = 0;

	while (environ && environ[n])
		n++;
	out = calloc(n + 1, sizeof(*out));
	for (size_t i = 0; out && i < n; i++)
		if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0 && strncmp(environ[i], "LD_LIBRARY_PATH=", 16) != 0 &&
		    (strncmp(environ[i], "UROCE_EAL=", 10) != 0 || !getauxval(AT_SECURE)))
			out[kept++] = environ[i];
	return out;
}

/** Read the daemon's output until it closes the pipe. @return 0: no output, so the daemon listens or could not be
 *  executed; else a negative errno. */
static int spawn_listen(int fd, char *err, size_t err_len)
{
	uint64_t end_ns = pmd_now_ns() + READY_MS * 1000000ull, now_ns;
	struct pollfd p = {.fd = fd, .events = POLLIN};
	char text[SENTENCE_MAX];
	size_t len = 0;
	ssize_t n = 1;

	while (n != 0 && len + 1 < sizeof(text)) {
		int rc;

		now_ns = pmd_now_ns();
		rc = now_ns < end_ns ? poll(&p, 1, (int)((end_ns - now_ns) / 1000000 + 1)) : 0;
		if (rc < 0 && errno == EINTR)
			continue; /* do not read: the pipe may be empty, and the read could block for ever */
		if (rc == 0) {
			snprintf(err, err_len,
				 "uroced, the daemon of the device, does not get ready; see what it does");
			return -ETIMEDOUT;
		}
		n = read(fd, text + len, sizeof(text) - len - 1);
		if (n > 0)
			len += (size_t)n;
		else if (n < 0 && errno != EINTR && errno != EAGAIN)
			break;
	}
	if (len == 0)
		return 0;
	text[len] = '\0';
	text[strcspn(text, "\n")] = '\0';
	snprintf(err, err_len, "%s", strncmp(text, "uroced: ", 8) == 0 ? text + 8 : text);
	return -EIO;
}

static int spawn_and_listen(struct spawn *s, char *err, size_t err_len)
{
	int fds[2], rc;

	if (pipe2(fds, O_CLOEXEC) != 0) {
		rc = -errno;
		snprintf(err, err_len, "no pipe: %s", strerror(errno));
		return rc;
	}
	fds[0] = pmd_fd_high(fds[0]);
	s->fd = fds[1] = pmd_fd_high(fds[1]);
	rc = spawn_run(s);
	PMD_POINT(join_spawned);
	close(fds[1]);
	if (rc == 0)
		rc = spawn_listen(fds[0], err, err_len);
	else
		snprintf(err, err_len, "no process for uroced, the daemon of the device: %s", strerror(-rc));
	if (rc == 0 && *s->error) {
		rc = -*s->error;
		snprintf(err, err_len, "%.200s, the daemon of the device, cannot be run: %s", s->path, strerror(-rc));
	}
	close(fds[0]);
	return rc;
}

int pmd_spawn_daemon(const struct pmd_device *device, char *err, size_t err_len)
{
	const char *allow = secure_getenv("UROCE_ALLOW");
	char path[PATH_MAX], address[PMD_GID_TEXT], gateway[PMD_GID_TEXT], network[8], vlan[8];
	struct spawn s = {.path = path};
	unsigned n = 0;
	int rc = daemon_path(path, sizeof(path), err, err_len);

	if (rc != 0)
		return rc;
	if (strcmp(device->port, PMD_PORT_UPLINK) == 0) {
		snprintf(err, err_len,
			 "no daemon of %s runs; start one that has its port: uroce up ADDRESS/uplink=ARGUMENTS",
			 pmd_gid_str(&device->gid, address, sizeof(address)));
		return -ENODEV;
	}
	s.argv[n++] = "uroced";
	if (device->follow != PROTO_FOLLOW_ALL) {
		s.argv[n++] = "--device";
		s.argv[n++] = pmd_gid_str(&device->gid, address, sizeof(address));
	}
	if (device->follow != PROTO_FOLLOW_NONE) {
		s.argv[n++] = "--iface";
		s.argv[n++] = device->netdev;
	}
	if (strncmp(device->port, PMD_PORT_UPLINK, strlen(PMD_PORT_UPLINK)) == 0) {
		s.argv[n++] = "--uplink";
		s.argv[n++] = device->port + strlen(PMD_PORT_UPLINK);
		snprintf(network, sizeof(network), "%u", device->prefix_len);
		s.argv[n++] = "--network";
		s.argv[n++] = network;
		snprintf(vlan, sizeof(vlan), "%u", device->vlan);
		s.argv[n++] = "--vlan";
		s.argv[n++] = vlan;
		if (!pmd_gid_is_none(&device->gateway)) {
			s.argv[n++] = "--gateway";
			s.argv[n++] = pmd_gid_str(&device->gateway, gateway, sizeof(gateway));
		}
	}
	if (allow && allow[0]) {
		s.argv[n++] = "--allow";
		s.argv[n++] = allow;
	}
	s.limit_files = pmd_eal_files_limit(&s.files) == 0;
	s.envp = daemon_environment();
	s.stack = mmap(NULL, 2 * STACK_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	s.error = (int *)(void *)s.stack; /* at the low end of a stack, which the stack's contents never reach */
	rc = -ENOMEM;
	if (s.envp && s.stack != MAP_FAILED)
		rc = spawn_and_listen(&s, err, err_len);
	else
		snprintf(err, err_len, "out of memory");
	if (s.stack != MAP_FAILED)
		munmap(s.stack, 2 * STACK_BYTES);
	free(s.envp);
	return rc;
}
