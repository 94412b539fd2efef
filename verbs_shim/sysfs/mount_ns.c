/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mount_ns.c - uroce-mount-ns COMMAND...: runs a command in a mount namespace in which our files of /sys/class,
 * /sys/devices and /dev/infiniband really exist, for programs that bypass the hooks in the C library.
 *
 * /sys/class and /sys/devices become small tmpfs that contain our folders and bind mounts of the kernel's other
 * folders. /sys/class/pci_bus and /sys/bus stay the kernel's: our entries would appear in their listings, and
 * programs that list PCI devices look for hardware. /dev/infiniband is covered in the same way if it exists. It is
 * never created, because that would change /dev for all processes. All mounts disappear with the last process of the
 * namespace. An ordinary user also needs a user namespace, in which the command keeps its user and group and has no
 * privileges. The files show idle devices: the counters are not updated.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sysfs.h"

#define SYS_CLASS   "/sys/class"
#define SYS_DEVICES "/sys/devices"

struct covered {
	int class_fd, dev_fd; /* the original /sys/class and /dev/infiniband; dev_fd -1: does not exist */
};

#define die(...) (fprintf(stderr, "uroce-mount-ns: " __VA_ARGS__), fputc('\n', stderr), exit(1))

/* ---- namespaces -------------------------------------------------------------------------------------- */

static void write_proc(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		die("cannot write %s: %s; is /proc mounted?", path, strerror(errno));
	close(fd);
}

static void enter_user_namespace(void)
{
	unsigned uid = geteuid(), gid = getegid();
	char map[64];

	if (unshare(CLONE_NEWUSER | CLONE_NEWNS))
		die("no user namespace: %s. The kernel, or a container's seccomp profile, refuses them to ordinary "
		    "users "
		    "here; see the sysctls user.max_user_namespaces, kernel.unprivileged_userns_clone and "
		    "kernel.apparmor_restrict_unprivileged_userns, or run this as root. Programs that link the C "
		    "library "
		    "dynamically need no --mount-ns",
		    strerror(errno));
	write_proc("/proc/self/setgroups", "deny");
	snprintf(map, sizeof(map), "%u %u 1", uid, uid);
	write_proc("/proc/self/uid_map", map);
	snprintf(map, sizeof(map), "%u %u 1", gid, gid);
	write_proc("/proc/self/gid_map", map);
}

/* ---- mounts ------------------------------------------------------------------------------------------ */

static void bind_mount(int covered, const char *name, const char *path)
{
	char from[SYSFS_OWN_MAX];

	snprintf(from, sizeof(from), "/proc/self/fd/%d/%s", covered, name);
	/* MS_REC: include the mounts inside, such as a tmpfs that hides a part of /sys/devices in a container. */
	if (mount(from, path, NULL, MS_BIND | MS_REC, NULL))
		die("cannot bind what %s was: %s", path, strerror(errno));
}

static void cover(const char *path)
{
	if (mount("uroce", path, "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755"))
		die("cannot mount over %s: %s", path, strerror(errno));
}

/** Whether this is a folder that uroce-mount-ns makes itself: a class folder in which the kernel's entries and ours are
 * merged, or the host bridge above our devices (an outer uroce-mount-ns may have made that one already). */
static bool is_made(const char *path, const struct sysfs_world *w)
{
	char bridge[64];

	for (unsigned c = 0; c < SYSFS_PCI_BUS; c++)
		if (!strcmp(path, sysfs_class_paths[c]))
			return true;
	snprintf(bridge, sizeof(bridge), SYS_DEVICES "/pci%04x:00", w->pci_domain);
	return !strcmp(path, bridge);
}

/** Cover a folder with a tmpfs, and bind-mount the kernel's folders in it, except those for which is_made() is true.
 * @param fd the original folder */
static void cover_folder(int fd, const char *folder, const struct sysfs_world *w)
{
	struct sysfs_names names;
	char path[SYSFS_OWN_MAX];

	sysfs_kernel_list(folder, &names);
	cover(folder);
	for (unsigned i = 0; i < names.n; i++) {
		snprintf(path, sizeof(path), "%s/%.200s", folder, names.list[i].name);
		if (is_made(path, w))
			continue;
		if (mkdir(path, 0755))
			die("%s: %s", path, strerror(errno));
		bind_mount(fd, names.list[i].name, path);
	}
	sysfs_names_free(&names);
}

/** Restore an entry of the kernel in a folder that was covered: recreate a symbolic link to another folder,
 * bind-mount anything else. */
static int keep_foreign(const struct covered *was, const char *path, const char *place)
{
	const char *dev = sysfs_class_paths[SYSFS_DEV];
	const char *name = path + strlen(SYS_CLASS) + 1;
	size_t n = strlen(dev);
	int covered = was->class_fd;
	struct stat st;

	if (strcmp(path, place) != 0)
		return symlink(place, path) ? -errno : 0;
	if (!strncmp(path, dev, n)) {
		covered = was->dev_fd;
		name = path + n + 1;
	}
	if (fstatat(covered, name, &st, 0))
		return -errno;
	if (S_ISDIR(st.st_mode)) {
		if (mkdir(path, 0755))
			return -errno;
	} else {
		int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0444);

		if (fd < 0)
			return -errno;
		close(fd);
	}
	bind_mount(covered, name, path);
	return 0;
}

/** Whether only the hooks show this path, and the namespace does not. The connection manager's device works only with
 *  the hooks, so the namespace does not contain the device, and librdmacm reports no devices there. /sys/class/misc
 *  stays the kernel's, as do the lists of PCI buses and devices. */
static bool is_hooks_only(const char *path)
{
	char node[SYSFS_OWN_MAX];

	snprintf(node, sizeof(node), "%s/" SYSFS_CM_NODE, sysfs_class_paths[SYSFS_DEV]);
	return !strcmp(path, node) || !strncmp(path, SYSFS_MISC, strlen(SYSFS_MISC)) ||
	       !strncmp(path, sysfs_class_paths[SYSFS_PCI_BUS], strlen(sysfs_class_paths[SYSFS_PCI_BUS])) ||
	       !strncmp(path, "/sys/bus", strlen("/sys/bus"));
}

/** A sysfs_emit_fn: creates one entry of the tree. Skips entries that only the hooks show, folders that already exist,
 * and all of /dev/infiniband if the host has no such folder. */
static int place_entry(void *ctx, enum sysfs_kind kind, const char *path, const char *text)
{
	const struct covered *was = ctx;
	const char *dev = sysfs_class_paths[SYSFS_DEV];
	char root[] = "";

	if (is_hooks_only(path))
		return 0;
	if (kind == SYSFS_FOLDER &&
	    (!strcmp(path, dev) || !strchr(path + 1, '/') || !strcmp(path, SYS_CLASS) || !strcmp(path, SYS_DEVICES)))
		return 0;
	if (was->dev_fd < 0 && !strncmp(path, dev, strlen(dev)))
		return 0;
	if (kind == SYSFS_FOREIGN)
		return keep_foreign(was, path, text);
	return sysfs_store_write(root, kind, path, text);
}

static void mount_tree(const struct sysfs_world *w)
{
	struct covered was = {open(SYS_CLASS, O_PATH | O_DIRECTORY | O_CLOEXEC),
			      open(sysfs_class_paths[SYSFS_DEV], O_PATH | O_DIRECTORY | O_CLOEXEC)};
	int devices_fd = open(SYS_DEVICES, O_PATH | O_DIRECTORY | O_CLOEXEC), err;

	if (was.class_fd < 0 || devices_fd < 0)
		die("%s is not there; is /sys mounted?", was.class_fd < 0 ? SYS_CLASS : SYS_DEVICES);
	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL))
		die("cannot make the mounts of the namespace private: %s", strerror(errno));
	cover_folder(was.class_fd, SYS_CLASS, w);
	cover_folder(devices_fd, SYS_DEVICES, w);
	if (was.dev_fd >= 0)
		cover(sysfs_class_paths[SYSFS_DEV]);
	err = sysfs_tree_emit(w, place_entry, &was);
	if (err)
		die("cannot write the files: %s", strerror(-err));
}

/** Bypass the hooks, because this program too may have them preloaded. */
static void see_the_kernel(void)
{
	void (*bypass)(int) = (void (*)(int))dlsym(RTLD_DEFAULT, "uroce_sysfs_bypass");

	if (bypass)
		bypass(1);
}

int main(int argc, char **argv)
{
	static struct sysfs_world world;
	int err;

	if (argc < 2)
		die("usage: uroce-mount-ns COMMAND [ARGUMENT...]");
	umask(022);
	see_the_kernel();
	err = sysfs_world_read(&world);
	if (err)
		die("there are no devices to show; see UROCE_DEVICES");
	/* Root in a container may lack the privilege; it then needs a user namespace like an ordinary user. */
	if (geteuid() != 0 || unshare(CLONE_NEWNS))
		enter_user_namespace();
	mount_tree(&world);
	sysfs_world_free(&world);
	execvp(argv[1], argv + 1);
	die("cannot run %s: %s", argv[1], strerror(errno));
}
