/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * redirect.c - decides which paths belong to the tree, and where the tree is on disk.
 *
 * State: this process's view of the tree, published as a whole through one atomic pointer. There is no lock: several
 * threads, also in a forked child, can examine the devices at the same time and get the same result. The devices are
 * examined again when the view is older than a second, because addresses are added and removed. A view that was
 * replaced is never freed, because other threads may still read it; each change of the devices leaves one such view.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "filesize.h"
#include "sysfs.h"

#define FRESH_MS 1000

struct state {
	uint64_t hash;
	struct sysfs_store store;
	size_t len;	    /* bytes used in `own` */
	char *own;	    /* our entries of the class folders: a sequence of zero-terminated paths */
	size_t room;	    /* bytes allocated for `own` */
	struct state *next; /* next in the list of replaced states */
};

static struct state *_Atomic current, *_Atomic replaced;
static _Atomic uint64_t looked_ms; /* when the devices were examined last; 0: never */
__thread int sysfs_bypass;

__attribute__((visibility("default"))) void uroce_sysfs_bypass(int change)
{
	sysfs_bypass += change;
}

/* ---- matching ---------------------------------------------------------------------------------------- */

/** Skip slashes and "." components, as the kernel does. */
static const char *skip_slashes(const char *p)
{
	while (p[0] == '/' || (p[0] == '.' && (p[1] == '/' || !p[1])))
		p++;
	return p;
}

/** If `p` begins with the absolute path `pattern`, return the part of `p` after it; otherwise NULL. */
static const char *follow(const char *p, const char *pattern)
{
	while (*pattern) {
		if (*pattern == '/') {
			if (*p != '/')
				return NULL;
			p = skip_slashes(p);
			pattern++;
		} else if (*p++ != *pattern++) {
			return NULL;
		}
	}
	return *p == '/' || !*p ? p : NULL;
}

static int class_of(const char *path, const char **rest)
{
	for (int c = 0; c < SYSFS_CLASSES; c++) {
		*rest = follow(path, sysfs_class_paths[c]);
		if (*rest)
			return c;
	}
	return -1;
}

bool sysfs_match_slow(const char *p)
{
	/* How our paths begin: with the first string, slashes, and the second string. Most other paths in /sys and
	 * /dev differ after a few characters, even those of the kernel's PCI devices, which have other domains. */
	static const char *const starts[][2] = {
		{"/sys/class", "infiniband"},
		{"/sys/class", "misc"},
		{"/sys/class/pci_bus", SYSFS_PCI_DOMAIN_PREFIX},
		{"/sys/bus/pci/devices", SYSFS_PCI_DOMAIN_PREFIX},
		{"/sys/devices", "pci" SYSFS_PCI_DOMAIN_PREFIX},
		{"/dev", "infiniband"},
	};
	const char *rest;

	for (unsigned i = 0; i < sizeof(starts) / sizeof(starts[0]); i++) {
		rest = follow(p, starts[i][0]);
		if (rest && !strncmp(skip_slashes(rest), starts[i][1], strlen(starts[i][1])))
			return class_of(p, &rest) >= 0;
	}
	return false;
}

bool sysfs_match_below_root(int dirfd, const char *path)
{
	int saved = errno;
	char below[SYSFS_PATH_MAX];
	struct stat folder, root;
	bool is;

	if (dirfd < 0 || (strncmp(path, "sys/", 4) != 0 && strncmp(path, "dev/", 4) != 0))
		return false;
	if (snprintf(below, sizeof(below), "/%s", path) >= (int)sizeof(below) || !sysfs_match_slow(below))
		return false;
	is = !fstat(dirfd, &folder) && !stat("/", &root) && folder.st_ino == root.st_ino &&
	     folder.st_dev == root.st_dev;
	errno = saved;
	return is;
}

bool sysfs_path_plain(const char *path, char *out, size_t len)
{
	size_t n = 0;

	while (*path) {
		if (*path == '/') {
			path = skip_slashes(path);
			if (!*path)
				break;
			if (n + 1 < len)
				out[n++] = '/';
		}
		while (*path && *path != '/') {
			if (n + 1 >= len)
				return false;
			out[n++] = *path++;
		}
	}
	out[n] = '\0';
	return true;
}

/* ---- state ------------------------------------------------------------------------------------------- */

/** A sysfs_emit_fn: records the paths of our entries directly in a class folder. */
static int note_own(void *ctx, enum sysfs_kind kind, const char *path, const char *text)
{
	struct state *s = ctx;
	size_t n = strlen(path) + 1;
	const char *rest;

	(void)text;
	if (kind == SYSFS_FOREIGN || class_of(path, &rest) < 0 || !rest[0] || strchr(rest + 1, '/'))
		return 0;
	if (s->len + n > s->room) {
		char *more = realloc(s->own, 2 * s->room + n + 256);

		if (!more)
			return -ENOMEM;
		s->own = more;
		s->room = 2 * s->room + n + 256;
	}
	memcpy(s->own + s->len, path, n);
	s->len += n;
	return 0;
}

static struct state *state_new(const struct sysfs_world *w, uint64_t hash)
{
	struct state *s = calloc(1, sizeof(*s));
	int err = s ? sysfs_tree_emit(w, note_own, s) : -ENOMEM;

	if (!err)
		err = sysfs_store_open(w, hash, &s->store);
	if (err) {
		static atomic_bool said;

		if (!atomic_exchange(&said, true) && filesize_allows_stderr())
			fprintf(stderr,
				"uroce: no place for the files of /sys/class/infiniband (%s); give XDG_RUNTIME_DIR a "
				"writable folder of yours\n",
				strerror(-err));
		if (s)
			free(s->own);
		free(s);
		return NULL;
	}
	s->hash = hash;
	return s;
}

/** Whether the tree still exists and is readable: it may have been deleted, and after a setuid it can be unreadable. */
static bool state_is_good(const struct state *s)
{
	int fd = open(s->store.root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return false;
	close(fd);
	return true;
}

static void state_free(struct state *s)
{
	if (!s)
		return;
	sysfs_store_close(&s->store);
	free(s->own);
	free(s);
}

/** Make `s` the current state, unless another thread has replaced `old` first. @return the current state. */
static struct state *state_replace(struct state *old, struct state *s)
{
	if (!atomic_compare_exchange_strong(&current, &old, s)) {
		state_free(s);
		return old;
	}
	if (old) {
		sysfs_store_close(&old->store);
		old->next = atomic_load(&replaced);
		while (!atomic_compare_exchange_weak(&replaced, &old->next, old))
			;
	}
	return s;
}

static struct state *state_look(void)
{
	struct sysfs_world *w = malloc(sizeof(*w));
	struct state *s = atomic_load(&current);

	if (!w || sysfs_world_read(w)) {
		s = state_replace(s, NULL);
	} else {
		uint64_t hash;

		sysfs_live_world(w);
		hash = sysfs_store_hash(w);
		if (!s || s->hash != hash || !state_is_good(s))
			s = state_replace(s, state_new(w, hash));
		sysfs_world_free(w);
	}
	free(w);
	return s;
}

static struct state *state_get(void)
{
	struct timespec ts;
	uint64_t now_ms, then_ms = atomic_load(&looked_ms);

	clock_gettime(CLOCK_MONOTONIC_COARSE, &ts);
	now_ms = (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000 + 1;
	if (then_ms && now_ms - then_ms < FRESH_MS)
		return atomic_load(&current);

	struct state *s;
	int cancel;

	/* state_look() contains cancellation points, but the C function that the program called is not necessarily
	 * one. */
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	sysfs_bypass++;
	s = state_look();
	sysfs_bypass--;
	pthread_setcancelstate(cancel, NULL);
	atomic_store(&looked_ms, now_ms);
	return s;
}

/* ---- paths ------------------------------------------------------------------------------------------- */

/** Whether a path is in the tree: one of our entries, anything below one, or a class folder whose listing shows our
 * entries. @param class, rest the path's class folder, and the rest of the path */
static bool is_own(const struct state *s, int class, const char *rest)
{
	const char *entry = skip_slashes(rest);
	size_t n = strcspn(entry, "/"), prefix = strlen(sysfs_class_paths[class]);

	if (!n)
		return class < SYSFS_PCI_BUS;
	for (const char *own = s->own; own < s->own + s->len; own += strlen(own) + 1)
		if (!strncmp(own, sysfs_class_paths[class], prefix) && own[prefix] == '/' &&
		    !strncmp(own + prefix + 1, entry, n) && !own[prefix + 1 + n])
			return true;
	return false;
}

const char *sysfs_path(const char *path, char *buf)
{
	int saved = errno, class;
	const struct state *s;
	const char *rest;

	class = class_of(path, &rest);
	if (class < 0 || sysfs_bypass)
		return path;
	s = state_get();
	errno = saved;
	if (!s || !is_own(s, class, rest) ||
	    snprintf(buf, SYSFS_PATH_MAX, "%s%s%s", s->store.root, sysfs_class_paths[class], rest) >= SYSFS_PATH_MAX)
		return path;
	return buf;
}

const char *sysfs_path_back(const char *path)
{
	const struct state *s = atomic_load(&current);
	size_t n = s ? strlen(s->store.root) : 0;

	return n && !strncmp(path, s->store.root, n) && path[n] == '/' ? path + n : path;
}

bool sysfs_is_node(const char *at)
{
	const size_t n = strlen(sysfs_class_paths[SYSFS_DEV]);
	const char *path = sysfs_path_back(at);

	return path != at && !strncmp(path, sysfs_class_paths[SYSFS_DEV], n) && path[n] == '/';
}

bool sysfs_is_cm_node(const char *at)
{
	const char *path = sysfs_path_back(at), *rest;

	if (path == at)
		return false;
	rest = follow(path, sysfs_class_paths[SYSFS_DEV]);
	return rest && !strcmp(skip_slashes(rest), SYSFS_CM_NODE);
}
