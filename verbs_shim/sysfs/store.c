/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * store.c - the tree as a folder on disk, which all processes of a user that see the same devices share.
 *
 *   XDG_RUNTIME_DIR/uroce, or /tmp/uroce-UID, or /dev/shm/uroce-UID       mode 0700
 *       tree-<hash of its whole content>/sys/class/..., dev/infiniband/...  written once, never changed
 *       new-<pid>-<number>, old-<pid>-<number>                              being written, being removed
 *
 * A finished tree gets its final name by a rename. Each process that uses a tree holds a shared flock on the tree's
 * folder, which the kernel releases however the process ends. A process that writes a new tree removes all trees that
 * are not locked. No process waits for another.
 *
 * Folders are created with mkdirat, because in the preload library mkdir is the engine's own function
 * (pmd/dpdk/eal_host.c).
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "filesize.h"
#include "sysfs.h"

#define FD_HIGH 700 /* lower descriptors are left to the application */
#define TRIES	32

/* ---- writing ----------------------------------------------------------------------------------------- */

static int write_file(const char *at, const char *text)
{
	size_t len = strlen(text);
	int err = 0, fd;

	if (!filesize_is_allowed(len))
		return -EFBIG;
	fd = open(at, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0444);
	if (fd < 0)
		return -errno;
	if (write(fd, text, len) != (ssize_t)len)
		err = errno ? -errno : -ENOSPC;
	close(fd);
	return err;
}

int sysfs_store_write(void *ctx, enum sysfs_kind kind, const char *path, const char *text)
{
	const char *root = ctx;
	char at[2 * SYSFS_OWN_MAX];

	snprintf(at, sizeof(at), "%s%s", root, path);
	errno = 0;
	if (kind == SYSFS_FOLDER)
		return mkdirat(AT_FDCWD, at, 0755) ? -errno : 0;
	if (kind == SYSFS_FILE)
		return write_file(at, text);
	return symlink(text, at) ? -errno : 0;
}

/** A sysfs_emit_fn: adds an entry to the FNV-1a hash. */
static int hash_entry(void *ctx, enum sysfs_kind kind, const char *path, const char *text)
{
	uint64_t *h = ctx;

	*h = (*h ^ (uint64_t)kind) * 0x100000001b3u;
	for (; *path; path++)
		*h = (*h ^ (uint8_t)*path) * 0x100000001b3u;
	for (; text && *text; text++)
		*h = (*h ^ (uint8_t)*text) * 0x100000001b3u;
	return 0;
}

uint64_t sysfs_store_hash(const struct sysfs_world *w)
{
	uint64_t h = 0xcbf29ce484222325u;

	sysfs_tree_emit(w, hash_entry, &h);
	return h;
}

/* ---- the folder of all trees ------------------------------------------------------------------------- */

/** Create a folder, or check that only this user can access the existing one. @return false: another folder must be
 * used. */
static bool base_try(const char *path)
{
	struct stat st;

	if (mkdirat(AT_FDCWD, path, 0700) && errno != EEXIST)
		return false;
	return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == geteuid() && !(st.st_mode & 077);
}

static int base_find(char *base, size_t len)
{
	const char *runtime = secure_getenv("XDG_RUNTIME_DIR");
	const char *const places[] = {"/tmp", "/dev/shm"};
	struct stat st;

	if (runtime && runtime[0] == '/' && !stat(runtime, &st) && st.st_uid == geteuid() && !(st.st_mode & 022) &&
	    strlen(runtime) < len / 2) {
		snprintf(base, len, "%s/uroce", runtime);
		if (base_try(base))
			return 0;
	}
	for (unsigned i = 0; i < 2 * 4; i++) {
		/* Try several names: another user may already have a folder with the first one. */
		snprintf(base, len, i % 4 ? "%s/uroce-%u.%u" : "%s/uroce-%u", places[i / 4], (unsigned)geteuid(),
			 i % 4);
		if (base_try(base))
			return 0;
	}
	return -EACCES;
}

/* ---- locks ------------------------------------------------------------------------------------------- */

/** Lock a tree for use. @return 0; -ENOENT: the tree does not exist, or is being removed; another negative errno. */
static int store_hold(const char *root, struct sysfs_store *out)
{
	struct stat held, there;
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	int high;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_SH | LOCK_NB) || fstat(fd, &held) || lstat(root, &there) || held.st_ino != there.st_ino ||
	    held.st_dev != there.st_dev) {
		close(fd);
		return -ENOENT;
	}
	high = fcntl(fd, F_DUPFD_CLOEXEC, FD_HIGH); /* keeps the lock, which belongs to the open file */
	if (high >= 0) {
		close(fd);
		fd = high;
	}
	out->lock_fd = fd;
	out->lock_ino = held.st_ino;
	snprintf(out->root, sizeof(out->root), "%s", root);
	return 0;
}

void sysfs_store_close(const struct sysfs_store *store)
{
	struct stat st;

	/* Close the descriptor only if it is still ours: an application that closes descriptors in bulk may have
	 * closed it, and its number may be in use for another file. */
	if (!fstat(store->lock_fd, &st) && S_ISDIR(st.st_mode) && st.st_ino == store->lock_ino)
		close(store->lock_fd);
}

/* ---- removing ---------------------------------------------------------------------------------------- */

static void remove_all(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	const struct dirent *d;

	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	while ((d = readdir(dir))) {
		if (!strcmp(d->d_name, ".") || !strcmp(d->d_name, ".."))
			continue;
		if (unlinkat(fd, d->d_name, 0))
			remove_all(fd, d->d_name);
	}
	closedir(dir);
	unlinkat(parent, name, AT_REMOVEDIR);
}

static void name_unique(char *name, size_t len, const char *base, const char *what)
{
	static atomic_uint serial;

	snprintf(name, len, "%s/%s-%d-%u", base, what, (int)getpid(),
		 atomic_fetch_add_explicit(&serial, 1, memory_order_relaxed));
}

/** Remove an entry of the base folder unless a process uses it. */
static void collect_one(const char *base, const char *name)
{
	char path[2 * SYSFS_OWN_MAX], away[2 * SYSFS_OWN_MAX];
	int fd;

	snprintf(path, sizeof(path), "%s/%s", base, name);
	fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return;
	/* After the rename no process finds the folder; a process that has just opened it fails to lock it. */
	name_unique(away, sizeof(away), base, "old");
	if (!flock(fd, LOCK_EX | LOCK_NB) && !rename(path, away))
		remove_all(AT_FDCWD, away);
	close(fd);
}

static void collect(const char *base)
{
	DIR *dir = opendir(base);
	const struct dirent *d;

	if (!dir)
		return;
	while ((d = readdir(dir)))
		if (!strncmp(d->d_name, "tree-", 5) || !strncmp(d->d_name, "new-", 4) || !strncmp(d->d_name, "old-", 4))
			collect_one(base, d->d_name);
	closedir(dir);
}

/* ---- making ------------------------------------------------------------------------------------------ */

/** Write the tree under a temporary name and rename it. @return 0; -EAGAIN: another process has finished the same
 * tree first, or removed the folder; another negative errno. */
static int store_make(const struct sysfs_world *w, const char *base, const char *root, struct sysfs_store *out)
{
	char fresh[SYSFS_OWN_MAX];
	int err;

	name_unique(fresh, sizeof(fresh), base, "new");
	if (mkdirat(AT_FDCWD, fresh, 0755))
		return errno == EEXIST ? -EAGAIN : -errno; /* a process in another container may have our pid */
	err = store_hold(fresh, out);
	if (err)
		return err == -ENOENT ? -EAGAIN : err;
	err = sysfs_tree_emit(w, sysfs_store_write, fresh);
	if (!err && rename(fresh, root))
		err = errno == ENOTEMPTY || errno == EEXIST || errno == ENOENT ? -EAGAIN : -errno;
	if (err) {
		remove_all(AT_FDCWD, fresh);
		sysfs_store_close(out);
		return err;
	}
	snprintf(out->root, sizeof(out->root), "%s", root);
	collect(base);
	return 0;
}

/** Resolve symbolic links in the base folder: sysfs_path_back() compares with what realpath() returns below it. */
static void base_resolve(char *base, size_t len)
{
	char *resolved = realpath(base, NULL);

	if (resolved && strlen(resolved) < len)
		strcpy(base, resolved);
	free(resolved);
}

int sysfs_store_open(const struct sysfs_world *w, uint64_t hash, struct sysfs_store *out)
{
	char base[SYSFS_OWN_MAX / 2], root[SYSFS_OWN_MAX];
	int err = base_find(base, sizeof(base));

	if (err)
		return err;
	base_resolve(base, sizeof(base));
	snprintf(root, sizeof(root), "%s/tree-%016llx", base, (unsigned long long)hash);
	for (unsigned i = 0; i < TRIES; i++) {
		err = store_hold(root, out);
		if (err != -ENOENT)
			return err;
		err = store_make(w, base, root, out);
		if (err != -EAGAIN)
			return err;
	}
	return err;
}
