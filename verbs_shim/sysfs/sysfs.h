/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sysfs.h - the files that a kernel driver would show of our devices (private to verbs_shim/sysfs).
 *
 * tree.c and attributes.c say what there is to see, file by file; store.c keeps it in a folder on disk; redirect.c sends
 * the paths of a program there; hooks_*.c are the C library's functions that do so; live.c answers from the engines of
 * this process where it can, rest.c from the device's daemon. kernel.c looks past all that at what the kernel itself shows. mount_ns.c puts the tree into
 * a mount namespace.
 *
 * Nothing runs before the first path of ours is named: the library is loaded into every shell and `ls`.
 */
#ifndef SYSFS_H
#define SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach.h"
#include "engine.h"

#define SYSFS_DEVICES_MAX 64
#define SYSFS_PATH_MAX	  4096 /* of a program */
#define SYSFS_OWN_MAX	  256  /* of a file in the tree, as the program sees it */
#define SYSFS_TEXT_MAX	  512  /* of an attribute */

/** The folders that are merged of the kernel's entries and ours. */
enum sysfs_class { SYSFS_INFINIBAND, SYSFS_VERBS, SYSFS_MAD, SYSFS_DEV, SYSFS_CLASSES };
extern const char *const sysfs_class_paths[SYSFS_CLASSES];

/* ---- what the kernel shows (kernel.c) ---------------------------------------------------------------- */

struct sysfs_names {
	unsigned n;
	struct sysfs_name {
		char name[64];
		char place[SYSFS_OWN_MAX]; /* where it really is: what a symbolic link means, or itself */
	} * list;			   /* sorted by name */
};

/** Entries of a folder, read past all hooks; none when there is no folder. */
void sysfs_kernel_list(const char *path, struct sysfs_names *out);
void sysfs_names_free(struct sysfs_names *names);
bool sysfs_names_has(const struct sysfs_names *names, const char *name);
/** The number of our first uverbs device: after all of the kernel's. */
unsigned sysfs_uverbs_first(void);

/* ---- the tree (tree.c, attributes.c) ----------------------------------------------------------------- */

/** All that the tree is made of, at one moment. */
struct sysfs_world {
	unsigned n, uverbs_first;
	struct pmd_device devices[SYSFS_DEVICES_MAX];
	struct sysfs_live rest[SYSFS_DEVICES_MAX]; /* of each device; no counters */
	struct sysfs_names kernel[SYSFS_CLASSES];
};

/** @return 0; -ENOENT when there are no devices; another negative errno. */
int sysfs_world_read(struct sysfs_world *w);
void sysfs_world_free(struct sysfs_world *w);

enum sysfs_kind {
	SYSFS_FOLDER,
	SYSFS_FILE,   /* text: its contents */
	SYSFS_LINK,   /* text: where it leads */
	SYSFS_NODE,   /* a character device; text: the device that stands in for it */
	SYSFS_FOREIGN /* an entry of the kernel's; text: where it is */
};

/** Called for every entry, folders before what is in them. @return 0 to go on. */
typedef int (*sysfs_emit_fn)(void *ctx, enum sysfs_kind kind, const char *path, const char *text);

int sysfs_tree_emit(const struct sysfs_world *w, sysfs_emit_fn emit, void *ctx);
/** How a device is for somebody who has not opened it (rest.c). */
void sysfs_rest_read(const struct pmd_device *device, struct sysfs_live *live);
/** The part below /sys/class/infiniband/NAME. */
int sysfs_device_emit(const struct pmd_device *device, const struct sysfs_live *live, sysfs_emit_fn emit, void *ctx);

/* ---- the folder (store.c) ---------------------------------------------------------------------------- */

struct sysfs_store {
	char root[SYSFS_OWN_MAX]; /* a file lies at root + its path */
	int lock_fd;		  /* keeps the folder from being removed */
	uint64_t lock_ino;
};

/** A number that stands for all that the tree says. */
uint64_t sysfs_store_hash(const struct sysfs_world *w);
/** Find or make the tree, and remove those that no process uses any more. @return 0 or a negative errno. */
int sysfs_store_open(const struct sysfs_world *w, uint64_t hash, struct sysfs_store *out);
void sysfs_store_close(const struct sysfs_store *store);
/** Write one entry to root + path. `ctx` is root. A sysfs_emit_fn. */
int sysfs_store_write(void *ctx, enum sysfs_kind kind, const char *path, const char *text);

/* ---- paths (redirect.c) ------------------------------------------------------------------------------ */

bool sysfs_match_slow(const char *path);
/** Whether a path may be one of ours; all that other paths cost. */
static inline bool sysfs_match(const char *path)
{
	return path && path[0] == '/' && (path[1] == 's' || path[1] == 'd' || path[1] == '/') && sysfs_match_slow(path);
}

/** Where `path` is to be looked for: in `buf`, of SYSFS_PATH_MAX bytes, or `path` when it is not ours. Keeps errno. */
const char *sysfs_path(const char *path, char *buf);
/** What a path in the tree is called by programs: a part of `path`. */
const char *sysfs_path_back(const char *path);
/** Whether what lies at `at`, an answer of sysfs_path, stands in for a character device. */
bool sysfs_is_node(const char *at);
/** The plain spelling of a path that matches. @return false when it is too long. */
bool sysfs_path_plain(const char *path, char *out, size_t len);
/** While above zero, this thread sees what the kernel shows. */
extern __thread int sysfs_bypass;

/* ---- live files (live.c) ----------------------------------------------------------------------------- */

/** The state of those devices that are open in this process, as they themselves say. */
void sysfs_live_world(struct sysfs_world *w);
/** Open an attribute of a device that is open in this process. @return the descriptor, or -1: take the file. */
int sysfs_live_open(const char *path, int flags);
extern bool sysfs_live_any; /* descriptors have been given out; atomic */
/** Before a read from the start of such a descriptor: the present value, as in sysfs. */
void sysfs_live_refresh(int fd, long offset);

#endif
