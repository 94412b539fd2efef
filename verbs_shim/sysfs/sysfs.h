/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sysfs.h - the sysfs and /dev files that a kernel driver would provide for our devices (private to verbs_shim/sysfs).
 *
 * tree.c, attributes.c and pci.c define the files; store.c keeps them in a folder on disk; redirect.c redirects an
 * application's paths there; hooks_open.c, hooks_stat.c and hooks_link.c interpose the C library's functions that take
 * paths. live.c gets the state of devices that are open in this process, rest.c that of other devices, from the
 * device's daemon. hooks_fd.c passes commands written to the connection manager's device to rdmacm/. hooks_ucx.c adds
 * our transport to UCX. kernel.c bypasses all this and reads what the kernel shows. mount_ns.c puts the tree into a
 * mount namespace.
 *
 * Until a path of the tree is first used, the library only registers a fork handler (hooks_fd.c), because it is loaded
 * into every shell and `ls`.
 */
#ifndef SYSFS_H
#define SYSFS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attach.h"
#include "engine.h"

#define SYSFS_DEVICES_MAX 64
#define SYSFS_PATH_MAX	  4096 /* buffer size for a path that the application passes */
#define SYSFS_OWN_MAX	  256  /* buffer size for a file's path in the tree, as the application sees it */
#define SYSFS_TEXT_MAX	  512  /* buffer size for the text of an attribute */

/** The folders in which the kernel's entries and ours are merged. Exceptions: SYSFS_CM (/sys/class/misc/rdma_cm) has
 * only our entries; we add nothing else to /sys/class/misc. From SYSFS_PCI_BUS on, our entries exist, but listings do
 * not show them: programs that list these folders (lspci, drivers in user space) look for hardware. */
enum sysfs_class {
	SYSFS_INFINIBAND,
	SYSFS_VERBS,
	SYSFS_MAD,
	SYSFS_DEV,
	SYSFS_CM,
	SYSFS_PCI_BUS,
	SYSFS_PCI,
	SYSFS_DEVICES,
	SYSFS_CLASSES
};
#define SYSFS_MISC    "/sys/class/misc"
#define SYSFS_MISC_CM "/sys/class/misc/rdma_cm"
#define SYSFS_CM_NODE "rdma_cm" /* in SYSFS_DEV */
extern const char *const sysfs_class_paths[SYSFS_CLASSES];

/* ---- the kernel's files (kernel.c) ------------------------------------------------------------------- */

struct sysfs_names {
	unsigned n;
	struct sysfs_name {
		char name[64];
		char place[SYSFS_OWN_MAX]; /* real path of the entry: the target of a symbolic link, or the entry's own
					      path */
	} * list;			   /* sorted by name */
};

/** List the entries of a folder without the hooks; an empty list if the folder does not exist. */
void sysfs_kernel_list(const char *path, struct sysfs_names *out);
void sysfs_names_free(struct sysfs_names *names);
bool sysfs_names_has(const struct sysfs_names *names, const char *name);
/** The number of our first uverbs device, higher than the numbers of all uverbs devices of the kernel. */
unsigned sysfs_uverbs_first(void);
/** The PCI domain of our devices: one in which the kernel has no bus. */
unsigned sysfs_pci_domain(void);

/* ---- the tree (tree.c, attributes.c, pci.c) ---------------------------------------------------------- */

/** All input that determines the tree, read at one time. */
struct sysfs_world {
	unsigned n, uverbs_first, pci_domain;
	unsigned cpus; /* number of CPUs of the machine; 0: unknown */
	struct pmd_device devices[SYSFS_DEVICES_MAX];
	struct sysfs_live rest[SYSFS_DEVICES_MAX]; /* state of each device, without counters */
	struct sysfs_names kernel[SYSFS_CLASSES];
};

/** Read the input of the tree. @return 0; -ENOENT: there are no devices; another negative errno. */
int sysfs_world_read(struct sysfs_world *w);
void sysfs_world_free(struct sysfs_world *w);

enum sysfs_kind {
	SYSFS_FOLDER,
	SYSFS_FILE,   /* text is the content of the file */
	SYSFS_LINK,   /* text is the target of the symbolic link */
	SYSFS_NODE,   /* a character device; text is the path of the device that stands in for it */
	SYSFS_FOREIGN /* an entry of the kernel; text is its real path */
};

/** Called for every entry of the tree; for a folder before its content. @return 0: continue; else stop. */
typedef int (*sysfs_emit_fn)(void *ctx, enum sysfs_kind kind, const char *path, const char *text);

int sysfs_tree_emit(const struct sysfs_world *w, sysfs_emit_fn emit, void *ctx);
/** Get the state of a device without opening it (rest.c). */
void sysfs_rest_read(const struct pmd_device *device, struct sysfs_live *live);
/** Emit the device's folder infiniband/NAME and its files. @param place the path of this folder */
int sysfs_device_emit(const char *place, const struct pmd_device *device, const struct sysfs_live *live,
		      sysfs_emit_fn emit, void *ctx);

/* The first and the last number that our PCI domain can have. The numbers have four hex digits, because many programs
 * expect exactly four. They are high, because firmware numbers its domains from 0; Linux numbers the domains that it
 * adds from 0x10000. */
#define SYSFS_PCI_DOMAIN_FIRST	0xff00
#define SYSFS_PCI_DOMAIN_LAST	0xfffe
#define SYSFS_PCI_DOMAIN_PREFIX "ff"

/** Emit the PCI functions of all devices. */
int sysfs_pci_emit(const struct sysfs_world *w, sysfs_emit_fn emit, void *ctx);
/** The path of the PCI function of the device at this index. */
void sysfs_pci_place(const struct sysfs_world *w, unsigned index, char *out, size_t len);

/* ---- the folder (store.c) ---------------------------------------------------------------------------- */

struct sysfs_store {
	char root[SYSFS_OWN_MAX]; /* a file's path on disk is root followed by its path in the tree */
	int lock_fd;		  /* holds the lock that keeps the folder from being removed */
	uint64_t lock_ino;
};

/** A hash of the whole tree. */
uint64_t sysfs_store_hash(const struct sysfs_world *w);
/** Find or create the tree; creating a tree removes the trees that no process uses. @return 0 or a negative errno. */
int sysfs_store_open(const struct sysfs_world *w, uint64_t hash, struct sysfs_store *out);
void sysfs_store_close(const struct sysfs_store *store);
/** A sysfs_emit_fn: writes one entry to root + path, where ctx is root. */
int sysfs_store_write(void *ctx, enum sysfs_kind kind, const char *path, const char *text);

/* ---- paths (redirect.c) ------------------------------------------------------------------------------ */

bool sysfs_match_slow(const char *path);
/** Whether a path can be in the tree. This test is fast, so that the hooks hardly slow down calls with other paths. */
static inline bool sysfs_match(const char *path)
{
	return path && path[0] == '/' && (path[1] == 's' || path[1] == 'd' || path[1] == '/') && sysfs_match_slow(path);
}

/** The path to use instead of `path`: a path in `buf` (SYSFS_PATH_MAX bytes), or `path` itself if it is not in the
 * tree. Does not change errno. */
const char *sysfs_path(const char *path, char *buf);
/** If `path` is a file of the tree on disk, the path by which applications know this file: a suffix of `path`.
 * Otherwise `path` itself. */
const char *sysfs_path_back(const char *path);
/** Whether `at`, a result of sysfs_path, is one of our character devices. */
bool sysfs_is_node(const char *at);
/** Whether `at`, a result of sysfs_path, is the device of the connection manager. */
bool sysfs_is_cm_node(const char *at);
/** Whether `path`, relative to the open folder `dirfd`, can be in the tree because `dirfd` is the root folder. */
bool sysfs_match_below_root(int dirfd, const char *path);
/** Normalize a path that sysfs_match() accepts. @return false: too long. */
bool sysfs_path_plain(const char *path, char *out, size_t len);
/** While this is above zero, the thread sees the kernel's files. */
extern __thread int sysfs_bypass;

/* ---- the connection manager's device (hooks_fd.c) ---------------------------------------------------- */

/** Open the device. @return the descriptor, or -1 with errno; ENODEV: no library with our engine is in the process. */
int sysfs_cm_open(int flags);

/* ---- live files (live.c) ----------------------------------------------------------------------------- */

/** For devices that are open in this process, replace the state in w->rest by the engine's state. */
void sysfs_live_world(struct sysfs_world *w);
/** Open an attribute of a device that is open in this process. @return the descriptor; -1: open the file in the tree
 * instead. */
int sysfs_live_open(const char *path, int flags);
extern bool sysfs_live_any; /* sysfs_live_open() has returned a descriptor; accessed atomically */
/** To be called before a read. If the descriptor is one from sysfs_live_open() and the read starts at offset 0,
 * update the content, as sysfs does. @param offset where the read starts; negative: at the descriptor's current offset.
 */
void sysfs_live_refresh(int fd, long offset);

#endif
