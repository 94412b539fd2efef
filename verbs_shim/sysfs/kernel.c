/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kernel.c - reads the kernel's own files below /sys and /dev. It opens, lists and resolves paths by direct system
 * calls, because this library may hook the C library's functions.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sysfs.h"

const char *const sysfs_class_paths[SYSFS_CLASSES] = {
	[SYSFS_INFINIBAND] = "/sys/class/infiniband",
	[SYSFS_VERBS] = "/sys/class/infiniband_verbs",
	[SYSFS_MAD] = "/sys/class/infiniband_mad",
	[SYSFS_DEV] = "/dev/infiniband",
	[SYSFS_CM] = SYSFS_MISC_CM,
	[SYSFS_PCI_BUS] = "/sys/class/pci_bus",
	[SYSFS_PCI] = "/sys/bus/pci/devices",
	[SYSFS_DEVICES] = "/sys/devices",
};

/* An entry in the result of getdents64, which the C library does not declare. */
struct kernel_dirent {
	uint64_t ino, off;
	uint16_t reclen;
	uint8_t type;
	char name[];
};

static int kernel_open(const char *path, int flags)
{
	return (int)syscall(SYS_openat, AT_FDCWD, path, flags | O_RDONLY | O_CLOEXEC);
}

static void find_place(const char *path, char *out, size_t len)
{
	char target[SYSFS_OWN_MAX];
	long n = syscall(SYS_readlinkat, AT_FDCWD, path, target, sizeof(target) - 1);

	/* Entries of a class folder are symbolic links that begin with ../../, which stands for /sys. */
	if (n > 6 && !strncmp(target, "../../", 6) && !strncmp(path, "/sys/class/", 11))
		snprintf(out, len, "/sys/%.*s", (int)n - 6, target + 6);
	else
		snprintf(out, len, "%s", path);
}

static void names_add(struct sysfs_names *names, const char *folder, const char *name)
{
	char path[SYSFS_OWN_MAX];
	struct sysfs_name *more;

	if (!strcmp(name, ".") || !strcmp(name, "..") || strlen(name) >= sizeof(more->name))
		return;
	more = reallocarray(names->list, names->n + 1, sizeof(*more));
	if (!more)
		return;
	names->list = more;
	snprintf(path, sizeof(path), "%s/%s", folder, name);
	snprintf(more[names->n].name, sizeof(more->name), "%s", name);
	find_place(path, more[names->n].place, sizeof(more->place));
	names->n++;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct sysfs_name *)a)->name, ((const struct sysfs_name *)b)->name);
}

void sysfs_kernel_list(const char *path, struct sysfs_names *out)
{
	_Alignas(struct kernel_dirent) char buf[2048];
	long n;
	int fd = kernel_open(path, O_DIRECTORY);

	memset(out, 0, sizeof(*out));
	if (fd < 0)
		return;
	while ((n = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0) {
		for (long at = 0; at < n;) {
			const struct kernel_dirent *d = (const void *)(buf + at);

			names_add(out, path, d->name);
			at += d->reclen;
		}
	}
	close(fd);
	if (out->n > 1)
		qsort(out->list, out->n, sizeof(*out->list), by_name);
}

void sysfs_names_free(struct sysfs_names *names)
{
	free(names->list);
	memset(names, 0, sizeof(*names));
}

bool sysfs_names_has(const struct sysfs_names *names, const char *name)
{
	for (unsigned i = 0; i < names->n; i++)
		if (!strcmp(names->list[i].name, name))
			return true;
	return false;
}

/** Whether a uverbs entry is one of ours: in a namespace of uroce-mount-ns, the kernel's folder contains ours, too. */
static bool uverbs_is_ours(const char *name)
{
	char path[SYSFS_OWN_MAX], ibdev[64] = "";
	int fd;

	snprintf(path, sizeof(path), "%s/%.64s/ibdev", sysfs_class_paths[SYSFS_VERBS], name);
	fd = kernel_open(path, 0);
	if (fd < 0)
		return false;
	if (read(fd, ibdev, sizeof(ibdev) - 1) < 0)
		ibdev[0] = '\0';
	close(fd);
	return !strncmp(ibdev, "uroce", 5);
}

unsigned sysfs_uverbs_first(void)
{
	struct sysfs_names names;
	unsigned first = 0;

	sysfs_kernel_list(sysfs_class_paths[SYSFS_VERBS], &names);
	for (unsigned i = 0; i < names.n; i++) {
		unsigned number;

		if (sscanf(names.list[i].name, "uverbs%u", &number) == 1 && number >= first && number < UINT32_MAX &&
		    !uverbs_is_ours(names.list[i].name))
			first = number + 1;
	}
	sysfs_names_free(&names);
	return first;
}

static bool has_domain(const struct sysfs_names *buses, unsigned domain)
{
	char start[16];

	snprintf(start, sizeof(start), "%04x:", domain);
	for (unsigned i = 0; i < buses->n; i++)
		if (!strncmp(buses->list[i].name, start, strlen(start)))
			return true;
	return false;
}

unsigned sysfs_pci_domain(void)
{
	struct sysfs_names buses;
	unsigned domain = SYSFS_PCI_DOMAIN_LAST;

	/* Firmware and Hyper-V may use any 16-bit domain, so find a free one. No machine uses all in this range. */
	sysfs_kernel_list(sysfs_class_paths[SYSFS_PCI_BUS], &buses);
	while (domain > SYSFS_PCI_DOMAIN_FIRST && has_domain(&buses, domain))
		domain--;
	sysfs_names_free(&buses);
	return domain;
}
