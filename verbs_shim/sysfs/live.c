/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * live.c - files with current content: the files below ports/ of a device that is open in this process.
 *
 * Opening such a file returns an anonymous file with the text. Applications that watch a counter keep the descriptor
 * and read again from the start; sysfs then returns the new value. Therefore descriptors are remembered, and a read
 * from offset 0 first updates the file. Only read and pread do this; a stream shows the content of the time when it was
 * opened.
 *
 * State: the source of values (attach.h), and the table of descriptors handed out. An application may have closed a
 * descriptor of the table, and its number may now be another file's; comparing device and inode shows this. Reading
 * takes locks of the engine, so it is not allowed in a signal handler that may have interrupted a verbs call.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "filesize.h"
#include "sysfs.h"

#define SLOTS	   64
#define TAKE_TRIES 1000

static const struct uroce_sysfs_source *_Atomic source;
bool sysfs_live_any;

static struct {
	pthread_mutex_t lock;
	struct slot {
		bool used;
		int fd;
		ino_t ino;
		dev_t dev;
		char path[SYSFS_OWN_MAX];
	} slots[SLOTS];
} given = {.lock = PTHREAD_MUTEX_INITIALIZER};

__attribute__((visibility("default"))) void uroce_sysfs_attach(const struct uroce_sysfs_source *s)
{
	if (s->size == sizeof(struct sysfs_live))
		atomic_store(&source, s);
}

/* ---- text -------------------------------------------------------------------------------------------- */

struct search {
	const char *path;
	char *text;
	size_t len;
};

/** A sysfs_emit_fn: when it gets the file that is searched for, it copies the text and ends the search. */
static int search_entry(void *ctx, enum sysfs_kind kind, const char *path, const char *text)
{
	struct search *s = ctx;

	if (kind != SYSFS_FILE || strcmp(path, s->path) != 0)
		return 0;
	snprintf(s->text, s->len, "%s", text);
	return 1;
}

void sysfs_live_world(struct sysfs_world *w)
{
	const struct uroce_sysfs_source *from = atomic_load(&source);
	struct sysfs_live *live = from ? malloc(sizeof(*live)) : NULL;
	struct pmd_device d;

	for (unsigned i = 0; live && i < w->n; i++) {
		if (!from->read(w->devices[i].name, &d, live) || memcmp(&d.gid, &w->devices[i].gid, sizeof(d.gid)) != 0)
			continue;
		w->rest[i].state = live->state;
		w->rest[i].phys_state = live->phys_state;
		memcpy(w->rest[i].gids, live->gids, sizeof(live->gids));
	}
	free(live);
}

/** From a path below the folder ports/ of a device, get the path of the device's folder. It ends with infiniband/NAME.
 * @param place out: the path of the device's folder. @return the device's name, which is part of `place`; NULL: `path`
 * is not below a device's folder ports/. */
static const char *device_of(const char *path, char *place, size_t len)
{
	const char *ports = strstr(path, "/ports/");
	size_t n = ports ? (size_t)(ports - path) : len;
	char *name;

	if (n >= len)
		return NULL;
	memcpy(place, path, n);
	place[n] = '\0';
	name = strrchr(place, '/');
	if (!name || name - place < 11 || strncmp(name - 11, "/infiniband", 11) != 0)
		return NULL;
	return name + 1;
}

/** Get the current text of a file. @param path normalized by sysfs_path_plain(). @return false: the file has no live
 * text in this process. */
static bool live_text(const char *path, char *text, size_t len)
{
	const struct uroce_sysfs_source *from = atomic_load(&source);
	struct search s = {path, text, len};
	char place[SYSFS_OWN_MAX];
	const char *name = from ? device_of(path, place, sizeof(place)) : NULL;
	struct sysfs_live *live = name ? calloc(1, sizeof(*live)) : NULL;
	struct pmd_device d;
	bool found = live && from->read(name, &d, live) && sysfs_device_emit(place, &d, live, search_entry, &s) == 1;

	free(live);
	return found;
}

/* ---- descriptors ------------------------------------------------------------------------------------- */

/** Lock the table, giving up after `tries` attempts: in a forked child the thread that holds the lock may not exist.
 * @return false: not locked; the caller then leaves the table and the files as they are. */
static bool table_lock(unsigned tries)
{
	while (pthread_mutex_trylock(&given.lock) != 0) {
		if (--tries == 0)
			return false;
		sched_yield();
	}
	return true;
}

static bool slot_is(const struct slot *s, int fd)
{
	struct stat st;

	return s->used && s->fd == fd && !fstat(fd, &st) && st.st_ino == s->ino && st.st_dev == s->dev;
}

static void slot_take(int fd, const char *path)
{
	struct slot *free_slot = NULL;
	struct stat st;

	if (fstat(fd, &st))
		return;
	if (!table_lock(TAKE_TRIES))
		return;
	for (unsigned i = 0; i < SLOTS && !free_slot; i++)
		if (!given.slots[i].used || given.slots[i].fd == fd || !slot_is(&given.slots[i], given.slots[i].fd))
			free_slot = &given.slots[i];
	if (free_slot) {
		*free_slot = (struct slot){.used = true, .fd = fd, .ino = st.st_ino, .dev = st.st_dev};
		snprintf(free_slot->path, sizeof(free_slot->path), "%s", path);
		__atomic_store_n(&sysfs_live_any, true, __ATOMIC_RELEASE);
	}
	pthread_mutex_unlock(&given.lock);
}

int sysfs_live_open(const char *path, int flags)
{
	char plain[SYSFS_OWN_MAX], text[SYSFS_TEXT_MAX];
	int saved = errno, fd;

	if ((flags & O_DIRECTORY) || !atomic_load(&source) || !sysfs_path_plain(path, plain, sizeof(plain)) ||
	    !live_text(plain, text, sizeof(text)) || !filesize_is_allowed(strlen(text))) {
		errno = saved;
		return -1;
	}
	/* A direct system call, because the preload library wraps memfd_create (pmd/dpdk/eal_host.c): it fails while
	 * DPDK starts. */
	fd = (int)syscall(SYS_memfd_create, "uroce-sysfs", flags & O_CLOEXEC ? MFD_CLOEXEC : 0);
	if (fd >= 0 && pwrite(fd, text, strlen(text), 0) < 0) {
		close(fd);
		fd = -1;
	}
	if (fd >= 0)
		slot_take(fd, plain);
	errno = saved;
	return fd;
}

void sysfs_live_refresh(int fd, long offset)
{
	char path[SYSFS_OWN_MAX] = "", text[SYSFS_TEXT_MAX];
	int saved = errno;

	/* Give up at once if the lock is taken: if this is a signal handler, the code that it interrupted can hold
	 * the lock. */
	if (!table_lock(1))
		return;
	for (unsigned i = 0; i < SLOTS && !path[0]; i++)
		if (given.slots[i].fd == fd && slot_is(&given.slots[i], fd))
			snprintf(path, sizeof(path), "%s", given.slots[i].path);
	pthread_mutex_unlock(&given.lock);
	if (path[0] && (offset < 0 ? lseek(fd, 0, SEEK_CUR) : offset) == 0 && live_text(path, text, sizeof(text)) &&
	    filesize_is_allowed(strlen(text)) && ftruncate(fd, (off_t)strlen(text)) == 0) {
		ssize_t n = pwrite(fd, text, strlen(text), 0);

		(void)n; /* a short write would truncate the text, but does not happen in a memory file */
	}
	errno = saved;
}
