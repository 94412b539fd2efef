/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sysfs.h - the sysfs and /dev files that a kernel driver would provide for the devices (private to verbs_shim/sysfs).
 *
 * tree.c and attributes.c define the files; store.c keeps them in a folder on disk; redirect.c redirects an
 * application's paths there; hooks_*.c interpose the C library's functions that take paths; live.c answers from the
 * engines of this process where it can, rest.c from the device's daemon. kernel.c bypasses all this and reads what the
 * kernel shows. mount_ns.c puts the tree into a mount namespace.
 *
 * Nothing runs before a path of the tree is first used: the library is loaded into every shell and `ls`.
 */
#ifndef SYSFS_H
#define SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach.h"
#include "engine.h"

#define SYSFS_DEVICES_MAX 64
#define SYSFS_PATH_MAX	  4096 /* of an application's path */
#define SYSFS_OWN_MAX	  256  /* of a file's path in the tree, as the application sees it */
#define SYSFS_TEXT_MAX	  512  /* of an attribute's text */

/** The folders in which the kernel's entries and ours are merged. */
enum sysfs_class { SYSFS_INFINIBAND, SYSFS_VERBS, SYSFS_MAD, SYSFS_DEV, SYSFS_CLASSES };
extern const char *const sysfs_class_paths[SYSFS_CLASSES];

/* ---- the kernel's files (kernel.c) ------------------------------------------------------------------- */

struct sysfs_names {
	unsigned n;
	struct sysfs_name {
		char name[64];
		char place[SYSFS_OWN_MAX]; /* real path: the target of a symbolic link, or its own */
	} * list;			   /* sorted by name */
};

/** The entries of a folder, read without hooks; none if there is no folder. */
void sysfs_kernel_list(const char *path, struct sysfs_names *out);
void sysfs_names_free(struct sysfs_names *names);
bool sysfs_names_has(const struct sysfs_names *names, const char *name);
/** The number of our first uverbs device, above all of the kernel's. */
unsigned sysfs_uverbs_first(void);

/* ---- the tree (tree.c, attributes.c) ----------------------------------------------------------------- */

/** The input of the tree, at one moment. */
struct sysfs_world {
	unsigned n, uverbs_first;
	struct pmd_device devices[SYSFS_DEVICES_MAX];
	struct sysfs_live rest[SYSFS_DEVICES_MAX]; /* of each device; without counters */
	struct sysfs_names kernel[SYSFS_CLASSES];
};

/** @return 0; -ENOENT: no devices; another negative errno. */
int sysfs_world_read(struct sysfs_world *w);
void sysfs_world_free(struct sysfs_world *w);

enum sysfs_kind {
	SYSFS_FOLDER,
	SYSFS_FILE,   /* text: its content */
	SYSFS_LINK,   /* text: its target */
	SYSFS_NODE,   /* a character device; text: the path of the device that replaces it */
	SYSFS_FOREIGN /* an entry of the kernel's; text: its real path */
};

/** Called for every entry, a folder before its content. @return 0 to continue. */
typedef int (*sysfs_emit_fn)(void *ctx, enum sysfs_kind kind, const char *path, const char *text);

int sysfs_tree_emit(const struct sysfs_world *w, sysfs_emit_fn emit, void *ctx);
/** The state of a device that is not open in this process (rest.c). */
void sysfs_rest_read(const struct pmd_device *device, struct sysfs_live *live);
/** Emit the part below /sys/class/infiniband/NAME. */
int sysfs_device_emit(const struct pmd_device *device, const struct sysfs_live *live, sysfs_emit_fn emit, void *ctx);

/* ---- the folder (store.c) ---------------------------------------------------------------------------- */

struct sysfs_store {
	char root[SYSFS_OWN_MAX]; /* a file is at root + its path */
	int lock_fd;		  /* keeps the folder from being removed */
	uint64_t lock_ino;
};

/** A hash of the whole tree. */
uint64_t sysfs_store_hash(const struct sysfs_world *w);
/** Find or create the tree; creating one removes those that no process uses. @return 0 or a negative errno. */
int sysfs_store_open(const struct sysfs_world *w, uint64_t hash, struct sysfs_store *out);
void sysfs_store_close(const struct sysfs_store *store);
/** Write one entry to root + path. `ctx` is root. A sysfs_emit_fn. */
int sysfs_store_write(void *ctx, enum sysfs_kind kind, const char *path, const char *text);

/* ---- paths (redirect.c) ------------------------------------------------------------------------------ */

bool sysfs_match_slow(const char *path);
/** Whether a path may be in the tree; the only cost for other paths. */
static inline bool sysfs_match(const char *path)
{
	return path && path[0] == '/' && (path[1] == 's' || path[1] == 'd' || path[1] == '/') && sysfs_match_slow(path);
}

/** The path to use instead of `path`: in `buf` (SYSFS_PATH_MAX bytes), or `path` itself if it is not in the tree.
 *  Keeps errno. */
const char *sysfs_path(const char *path, char *buf);
/** The application's name for a path in the tree: a suffix of `path`. */
const char *sysfs_path_back(const char *path);
/** Whether `at`, a result of sysfs_path, stands for a character device. */
bool sysfs_is_node(const char *at);
/** Normalize a path that matches. @return false: too long. */
bool sysfs_path_plain(const char *path, char *out, size_t len);
/** While above zero, this thread sees the kernel's files. */
extern __thread int sysfs_bypass;

/* ---- live files (live.c) ----------------------------------------------------------------------------- */

/** Replace the state of devices that are open in this process with their engine's. */
void sysfs_live_world(struct sysfs_world *w);
/** Open an attribute of a device that is open in this process. @return the descriptor, or -1: use the file in the
 *  tree. */
int sysfs_live_open(const char *path, int flags);
extern bool sysfs_live_any; /* descriptors were handed out; atomic */
/** Call before a read: if it starts at offset 0 of such a descriptor, the content is brought up to date, as in
 *  sysfs. offset < 0: the current one. */
void sysfs_live_refresh(int fd, long offset);

#endif
