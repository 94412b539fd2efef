/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree.c - the folders and files of the tree: entries of our devices, merged with the kernel's own entries. As in the
 * kernel, an entry of a class folder is a link to a folder in /sys/devices. attributes.c defines the files in a
 * device's folder infiniband/NAME; pci.c defines the PCI functions and buses above this folder. Owns nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sysfs.h"

/* Content of abi_version in infiniband_verbs, infiniband_mad and misc/rdma_cm: versions of the kernel's interfaces. */
#define VERBS_ABI "6\n"
#define MAD_ABI	  "5\n"
#define CM_ABI	  "4\n"

int sysfs_world_read(struct sysfs_world *w)
{
	int n = pmd_devices(w->devices, SYSFS_DEVICES_MAX);
	long cpus = sysconf(_SC_NPROCESSORS_CONF);

	memset(w->kernel, 0, sizeof(w->kernel));
	w->n = n > 0 ? (unsigned)n : 0;
	if (n <= 0)
		return n < 0 ? n : -ENOENT;
	w->uverbs_first = sysfs_uverbs_first();
	w->pci_domain = sysfs_pci_domain();
	w->cpus = cpus > 0 ? (unsigned)cpus : 0;
	for (unsigned i = 0; i < w->n; i++)
		sysfs_rest_read(&w->devices[i], &w->rest[i]);
	/* Leave out SYSFS_CM and those after it: we show no entries of the kernel there. */
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

/** Emit the version of a kernel interface, unless the kernel has this file. */
static int abi_emit(const struct walk *k, enum sysfs_class c, const char *version)
{
	return sysfs_names_has(&k->w->kernel[c], "abi_version") ? 0 : put(k, SYSFS_FILE, c, "abi_version", version);
}

/** Emit a link in a class folder. @param to the path in /sys/devices that it leads to */
static int class_link_emit(const struct walk *k, enum sysfs_class c, const char *name, const char *to)
{
	char target[SYSFS_OWN_MAX];

	snprintf(target, sizeof(target), "../..%.200s", to + strlen("/sys"));
	return put(k, SYSFS_LINK, c, name, target);
}

/** Emit the link from a folder of the device to its PCI function, `pci`, two levels above. */
static int device_link_emit(const struct walk *k, const char *place, const char *pci)
{
	char path[SYSFS_OWN_MAX], target[SYSFS_OWN_MAX];

	snprintf(path, sizeof(path), "%.200s/device", place);
	snprintf(target, sizeof(target), "../../..%s", strrchr(pci, '/'));
	return k->emit(k->ctx, SYSFS_LINK, path, target);
}

/** Emit the folder infiniband/NAME of the PCI function `pci`. */
static int device_emit(const struct walk *k, unsigned i, const char *pci)
{
	char place[SYSFS_OWN_MAX];
	int err;

	snprintf(place, sizeof(place), "%.150s/infiniband/%s", pci, k->w->devices[i].name);
	err = sysfs_device_emit(place, &k->w->devices[i], &k->w->rest[i], k->emit, k->ctx);
	err = err ? err : device_link_emit(k, place, pci);
	return err ? err : class_link_emit(k, SYSFS_INFINIBAND, k->w->devices[i].name, place);
}

/** Emit the folder infiniband_verbs/uverbsN of the PCI function `pci`. */
static int uverbs_emit(const struct walk *k, unsigned i, const char *pci)
{
	/* 1:3 is the device number of /dev/null. Our character device is a link to /dev/null, so stat shows 1:3 too. */
	const char *const files[][2] = {{"abi_version", "1"}, {"dev", "1:3"}, {"ibdev", k->w->devices[i].name}};
	char name[32], place[SYSFS_OWN_MAX], path[SYSFS_OWN_MAX], text[SYSFS_TEXT_MAX];
	int err;

	snprintf(name, sizeof(name), "uverbs%u", k->w->uverbs_first + i);
	snprintf(place, sizeof(place), "%.150s/infiniband_verbs/%s", pci, name);
	err = k->emit(k->ctx, SYSFS_FOLDER, place, NULL);
	for (unsigned f = 0; f < sizeof(files) / sizeof(files[0]) && !err; f++) {
		snprintf(path, sizeof(path), "%.200s/%s", place, files[f][0]);
		snprintf(text, sizeof(text), "%s\n", files[f][1]);
		err = k->emit(k->ctx, SYSFS_FILE, path, text);
	}
	err = err ? err : device_link_emit(k, place, pci);
	return err ? err : class_link_emit(k, SYSFS_VERBS, name, place);
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
	static const char *const roots[] = {"/sys", "/sys/class", SYSFS_MISC, "/dev", "/sys/bus", "/sys/bus/pci"};
	const struct walk k = {w, emit, ctx};
	char pci[SYSFS_OWN_MAX];
	int err = 0;

	for (unsigned i = 0; i < sizeof(roots) / sizeof(roots[0]) && !err; i++)
		err = emit(ctx, SYSFS_FOLDER, roots[i], NULL);
	for (unsigned c = 0; c < SYSFS_CLASSES && !err; c++)
		err = folder_emit(&k, c);
	err = err ? err : abi_emit(&k, SYSFS_VERBS, VERBS_ABI);
	/* libibumad, which ibstat uses, checks the MAD version first. */
	err = err ? err : abi_emit(&k, SYSFS_MAD, MAD_ABI);
	err = err ? err : cm_emit(&k);
	err = err ? err : sysfs_pci_emit(w, emit, ctx);
	for (unsigned i = 0; i < w->n && !err; i++) {
		sysfs_pci_place(w, i, pci, sizeof(pci));
		err = device_emit(&k, i, pci);
		err = err ? err : uverbs_emit(&k, i, pci);
		err = err ? err : node_emit(&k, i);
	}
	return err;
}
