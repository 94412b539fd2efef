/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree.c - the folders and files of the tree: entries of our devices, merged with the kernel's own entries.
 * attributes.c defines the files in a device's folder. Owns nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sysfs.h"

/* Versions of the kernel interfaces that infiniband_verbs and infiniband_mad belong to. */
#define VERBS_ABI "6\n"
#define MAD_ABI	  "5\n"
#define CM_ABI	  "4\n"

int sysfs_world_read(struct sysfs_world *w)
{
	int n = pmd_devices(w->devices, SYSFS_DEVICES_MAX);

	memset(w->kernel, 0, sizeof(w->kernel));
	w->n = n > 0 ? (unsigned)n : 0;
	if (n <= 0)
		return n < 0 ? n : -ENOENT;
	w->uverbs_first = sysfs_uverbs_first();
	for (unsigned i = 0; i < w->n; i++)
		sysfs_rest_read(&w->devices[i], &w->rest[i]);
	/* Leave out SYSFS_CM, the last one: it contains no entries of the kernel. */
	for (unsigned c = 0; c < SYSFS_CM; c++)
		sysfs_kernel_list(sysfs_class_paths[c], &w->kernel[c]);
	return 0;
}

void sysfs_world_free(struct sysfs_world *w)
{
	for (unsigned c = 0; c < SYSFS_CLASSES; c++)
		sysfs_names_free(&w->kernel[c]);
}

struct walk {
	const struct sysfs_world *w;
	sysfs_emit_fn emit;
	void *ctx;
};

static int put(const struct walk *k, enum sysfs_kind kind, enum sysfs_class c, const char *name, const char *text)
{
	char path[SYSFS_OWN_MAX];

	snprintf(path, sizeof(path), "%s/%s", sysfs_class_paths[c], name);
	return k->emit(k->ctx, kind, path, text);
}

/** Whether an entry of a class folder is one of ours. */
static bool is_ours(const struct sysfs_world *w, enum sysfs_class c, const char *name)
{
	char uverbs[32];

	if (c == SYSFS_DEV && !strcmp(name, SYSFS_CM_NODE))
		return true;
	for (unsigned i = 0; i < w->n; i++) {
		snprintf(uverbs, sizeof(uverbs), "uverbs%u", w->uverbs_first + i);
		if (!strcmp(name, c == SYSFS_INFINIBAND ? w->devices[i].name : uverbs))
			return true;
	}
	return false;
}

static int folder_emit(const struct walk *k, enum sysfs_class c)
{
	const struct sysfs_names *kernel = &k->w->kernel[c];
	int err = k->emit(k->ctx, SYSFS_FOLDER, sysfs_class_paths[c], NULL);

	for (unsigned i = 0; i < kernel->n && !err; i++) {
		if (!is_ours(k->w, c, kernel->list[i].name))
			err = put(k, SYSFS_FOREIGN, c, kernel->list[i].name, kernel->list[i].place);
	}
	return err;
}

/** Emit the version of a kernel interface, unless the kernel has this file too. */
static int abi_emit(const struct walk *k, enum sysfs_class c, const char *version)
{
	return sysfs_names_has(&k->w->kernel[c], "abi_version") ? 0 : put(k, SYSFS_FILE, c, "abi_version", version);
}

static int uverbs_emit(const struct walk *k, unsigned i)
{
	char name[64], text[SYSFS_TEXT_MAX];
	int err;

	snprintf(name, sizeof(name), "uverbs%u", k->w->uverbs_first + i);
	err = put(k, SYSFS_FOLDER, SYSFS_VERBS, name, NULL);
	snprintf(text, sizeof(text), "%s\n", k->w->devices[i].name);
	snprintf(name, sizeof(name), "uverbs%u/ibdev", k->w->uverbs_first + i);
	err = err ? err : put(k, SYSFS_FILE, SYSFS_VERBS, name, text);
	snprintf(name, sizeof(name), "uverbs%u/abi_version", k->w->uverbs_first + i);
	err = err ? err : put(k, SYSFS_FILE, SYSFS_VERBS, name, "1\n");
	/* 1:3 is the device number of /dev/null. Our character device is a link to /dev/null, so stat shows 1:3 too. */
	snprintf(name, sizeof(name), "uverbs%u/dev", k->w->uverbs_first + i);
	err = err ? err : put(k, SYSFS_FILE, SYSFS_VERBS, name, "1:3\n");
	snprintf(name, sizeof(name), "uverbs%u/device", k->w->uverbs_first + i);
	snprintf(text, sizeof(text), "../../infiniband/%s/device", k->w->devices[i].name);
	return err ? err : put(k, SYSFS_LINK, SYSFS_VERBS, name, text);
}

static int node_emit(const struct walk *k, unsigned i)
{
	char name[32];

	snprintf(name, sizeof(name), "uverbs%u", k->w->uverbs_first + i);
	return put(k, SYSFS_NODE, SYSFS_DEV, name, "/dev/null");
}

/** The device of the connection manager, /dev/infiniband/rdma_cm, one for all devices. */
static int cm_emit(const struct walk *k)
{
	int err = put(k, SYSFS_FILE, SYSFS_CM, "abi_version", CM_ABI);

	err = err ? err : put(k, SYSFS_FILE, SYSFS_CM, "dev", "1:3\n"); /* of /dev/null, as in uverbs_emit */
	return err ? err : put(k, SYSFS_NODE, SYSFS_DEV, SYSFS_CM_NODE, "/dev/null");
}

int sysfs_tree_emit(const struct sysfs_world *w, sysfs_emit_fn emit, void *ctx)
{
	static const char *const roots[] = {"/sys", "/sys/class", SYSFS_MISC, "/dev"};
	const struct walk k = {w, emit, ctx};
	int err = 0;

	for (unsigned i = 0; i < sizeof(roots) / sizeof(roots[0]) && !err; i++)
		err = emit(ctx, SYSFS_FOLDER, roots[i], NULL);
	for (unsigned c = 0; c < SYSFS_CLASSES && !err; c++)
		err = folder_emit(&k, c);
	err = err ? err : abi_emit(&k, SYSFS_VERBS, VERBS_ABI);
	/* libibumad, which ibstat uses, checks the MAD version first. */
	err = err ? err : abi_emit(&k, SYSFS_MAD, MAD_ABI);
	err = err ? err : cm_emit(&k);
	for (unsigned i = 0; i < w->n && !err; i++) {
		err = sysfs_device_emit(&w->devices[i], &w->rest[i], emit, ctx);
		err = err ? err : uverbs_emit(&k, i);
		err = err ? err : node_emit(&k, i);
	}
	return err;
}
