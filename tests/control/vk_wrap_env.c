/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vk_wrap_env.c - other calls that the linker diverts to the virtual kernel: time, users, environment variables,
 * interfaces, mapped memory, files of /proc. See vk_wrap.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "address.h"
#include "points.h"
#include "vk_priv.h"

/* ---- time ------------------------------------------------------------------------------------------------- */

int __real_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_clock_gettime(clockid_t clock, struct timespec *t);
int __wrap_nanosleep(const struct timespec *t, struct timespec *left);

int __wrap_clock_gettime(clockid_t clock, struct timespec *t)
{
	if (!vk_self())
		return __real_clock_gettime(clock, t);
	vk.now_ns += VK_CLOCK_NS;
	t->tv_sec = (time_t)(vk.now_ns / VK_S) + (clock == CLOCK_REALTIME ? 1700000000 : 0);
	t->tv_nsec = (long)(vk.now_ns % VK_S);
	return 0;
}

int __wrap_nanosleep(const struct timespec *t, struct timespec *left)
{
	(void)left;
	vk_enter();
	vk_sleep((uint64_t)t->tv_sec * VK_S + (uint64_t)t->tv_nsec);
	return 0;
}

/* ---- identity --------------------------------------------------------------------------------------------- */

pid_t __real_getpid(void);
uid_t __real_geteuid(void);
char *__real_getenv(const char *name);
pid_t __wrap_getpid(void);
uid_t __wrap_geteuid(void);
struct passwd *__wrap_getpwuid(uid_t uid);
char *__wrap_getenv(const char *name);
char *__wrap_secure_getenv(const char *name);
int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old);
ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags);

pid_t __wrap_getpid(void)
{
	return vk_self() ? vk_self()->pid : __real_getpid();
}

uid_t __wrap_geteuid(void)
{
	return vk_self() ? vk_self()->who.uid : __real_geteuid();
}

struct passwd *__wrap_getpwuid(uid_t uid)
{
	(void)uid;
	return NULL; /* no user has a name, so messages show numbers */
}

char *__wrap_secure_getenv(const char *name)
{
	return strcmp(name, "UROCE_ALLOW") == 0 && vk_self() ? (char *)(uintptr_t)vk_self()->who.allow : NULL;
}

char *__wrap_getenv(const char *name)
{
	return vk_self() ? __wrap_secure_getenv(name) : __real_getenv(name);
}

int __wrap_sigprocmask(int how, const sigset_t *set, sigset_t *old)
{
	(void)how, (void)set, (void)old;
	return 0;
}

ssize_t __wrap_getrandom(void *buf, size_t len, unsigned flags)
{
	(void)flags;
	rng_bytes(&vk.rng, buf, len);
	return (ssize_t)len;
}

void pmd_point_pass(enum pmd_point point);

/** Replaces points.c: reports passed test points to the simulator. */
void pmd_point_pass(enum pmd_point point)
{
	if (vk_self() && vk_on_point)
		vk_on_point(vk_self(), (int)point);
}

/* ---- interfaces ------------------------------------------------------------------------------------------- */

int __wrap_getifaddrs(struct ifaddrs **out);
void __wrap_freeifaddrs(struct ifaddrs *list);
unsigned __wrap_if_nametoindex(const char *name);
char *__wrap_if_indextoname(unsigned index, char *name);

struct list_entry {
	struct ifaddrs entry; /* must be the first member */
	struct sockaddr_in6 sa;
	char name[16];
};

int __wrap_getifaddrs(struct ifaddrs **out)
{
	struct ifaddrs **last = out;

	vk_enter();
	*out = NULL;
	if (vk.addresses_silent) {
		errno = ENOBUFS;
		return -1;
	}
	for (unsigned i = 0; i < VK_IFACES; i++) {
		const struct vk_iface *iface = &vk.ifaces[i];

		if (!iface->name[0] || iface->netns != vk_self()->who.netns)
			continue;
		for (unsigned k = 0; k <= iface->n; k++) { /* the last entry is the interface itself, without address */
			struct list_entry *e = calloc(1, sizeof(*e));

			if (!e)
				abort();
			memcpy(e->name, iface->name, sizeof(e->name));
			e->entry.ifa_name = e->name;
			e->entry.ifa_flags = iface->up ? IFF_UP | IFF_RUNNING : 0;
			if (k < iface->n) {
				pmd_gid_sockaddr(&iface->gids[k], iface->index, &e->sa);
				e->entry.ifa_addr = (struct sockaddr *)&e->sa;
			}
			*last = &e->entry;
			last = &e->entry.ifa_next;
		}
	}
	return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *list)
{
	while (list) {
		struct ifaddrs *next = list->ifa_next;

		free(list);
		list = next;
	}
}

unsigned __wrap_if_nametoindex(const char *name)
{
	vk_enter();
	for (unsigned i = 0; i < VK_IFACES; i++)
		if (vk.ifaces[i].netns == vk_self()->who.netns && vk.ifaces[i].name[0] &&
		    strcmp(vk.ifaces[i].name, name) == 0)
			return vk.ifaces[i].index;
	return 0;
}

char *__wrap_if_indextoname(unsigned index, char *name)
{
	vk_enter();
	for (unsigned i = 0; i < VK_IFACES; i++)
		if (vk.ifaces[i].netns == vk_self()->who.netns && vk.ifaces[i].name[0] && vk.ifaces[i].index == index)
			return memcpy(name, vk.ifaces[i].name, sizeof(vk.ifaces[i].name));
	errno = ENXIO;
	return NULL;
}

/* ---- shared memory ---------------------------------------------------------------------------------------- */

int __wrap_memfd_create(const char *name, unsigned flags);
int __wrap_ftruncate64(int fd, off64_t size);
int __wrap_fstat64(int fd, struct stat64 *out);
void *__real_mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t at);
void *__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t at);
int __real_munmap(void *addr, size_t len);
int __wrap_munmap(void *addr, size_t len);
int __real_madvise(void *addr, size_t len, int advice);
int __wrap_madvise(void *addr, size_t len, int advice);

static int failed(int error)
{
	errno = error;
	return -1;
}

int __wrap_memfd_create(const char *name, unsigned flags)
{
	struct vk_file *f;
	int fd;

	(void)name, (void)flags;
	vk_enter();
	f = vk_file_new(VK_MEMFD);
	fd = vk_fd_new(vk_self(), f, 3);
	if (fd >= 0)
		return fd;
	vk_file_put(f);
	return failed(-fd);
}

int __wrap_ftruncate64(int fd, off64_t size)
{
	struct vk_file *f;

	vk_enter();
	f = vk_fd(fd);
	if (!f)
		return -1;
	if (f->kind != VK_MEMFD || size < 0 || size > 1 << 20 || f->u.mem.memory)
		return failed(EINVAL);
	f->u.mem.size = (size_t)size;
	return 0;
}

int __wrap_fstat64(int fd, struct stat64 *out)
{
	const struct vk_file *f;

	vk_enter();
	f = vk_fd(fd);
	if (!f)
		return -1;
	memset(out, 0, sizeof(*out));
	out->st_mode = f->kind == VK_MEMFD ? S_IFREG : f->kind == VK_UNIX || f->kind == VK_UDP ? S_IFSOCK : 0;
	out->st_size = f->kind == VK_MEMFD ? (off64_t)f->u.mem.size : 0;
	return 0;
}

/** Map a memfd. All virtual processes share one address space, so they see its memory at the same address. */
void *__wrap_mmap64(void *addr, size_t len, int prot, int flags, int fd, off64_t at)
{
	struct vk_mapping *m;
	struct vk_file *f;

	if (!vk_self() || fd < 0)
		return __real_mmap64(addr, len, prot, flags, fd, at);
	vk_enter();
	f = vk_fd(fd);
	if (!f || f->kind != VK_MEMFD || f->u.mem.size < len) {
		errno = f ? ENODEV : EBADF;
		return MAP_FAILED;
	}
	if (!f->u.mem.memory)
		f->u.mem.memory = vk_zalloc(f->u.mem.size);
	m = vk_zalloc(sizeof(*m));
	m->file = f;
	m->next = vk_self()->mappings;
	vk_self()->mappings = m;
	vk_file_get(f);
	return f->u.mem.memory;
}

int __wrap_munmap(void *addr, size_t len)
{
	struct vk_mapping **at;

	if (!vk_self())
		return __real_munmap(addr, len);
	vk_enter();
	for (at = &vk_self()->mappings; *at; at = &(*at)->next) {
		struct vk_mapping *m = *at;

		if (m->file->u.mem.memory != addr)
			continue;
		*at = m->next;
		vk_file_put(m->file);
		__real_free(m);
		return 0;
	}
	vk_bug("memory that is not mapped is unmapped");
}

int __wrap_madvise(void *addr, size_t len, int advice)
{
	if (!vk_self())
		return __real_madvise(addr, len, advice);
	if (advice == MADV_REMOVE)
		memset(addr, 0, len);
	return 0;
}

/* ---- files ------------------------------------------------------------------------------------------------ */

FILE *__real_fopen64(const char *path, const char *mode);
FILE *__wrap_fopen64(const char *path, const char *mode);

/** Open a file of /proc: @return a stream with a snapshot of the contents, so that reading makes no system calls. */
FILE *__wrap_fopen64(const char *path, const char *mode)
{
	char *text = NULL;
	size_t len = 0;
	int pid, n = 0;
	FILE *out;

	if (!vk_self())
		return __real_fopen64(path, mode);
	vk_enter();
	out = open_memstream(&text, &len);
	if (!out)
		return NULL;
	if (strcmp(path, "/proc/net/unix") == 0) {
		vk_unix_list(out, vk_self()->who.netns);
	} else if (strcmp(path, "/proc/net/udp") == 0 || strcmp(path, "/proc/net/udp6") == 0) {
		vk_udp_list(out, vk_self()->who.netns, path[strlen(path) - 1] != '6');
	} else if (sscanf(path, "/proc/%d/%n", &pid, &n) == 1 && n > 0) {
		const struct vk_proc *p = vk_proc_find(pid);

		if (p && p->state < PROC_GONE && strcmp(path + n, "comm") == 0)
			fprintf(out, "%s\n", p->command);
		else if (p && p->state < PROC_GONE && strcmp(path + n, "stat") == 0)
			/* never R: no process waits for a CPU */
			fprintf(out, "%d (%s) %c\n", pid, p->command, vk_is_paused(p) ? 'T' : 'S');
	}
	fclose(out);
	if (len == 0) {
		__real_free(text);
		errno = ENOENT;
		return NULL;
	}
	out = fmemopen(NULL, len, "w+");
	if (out && (fwrite(text, 1, len, out) != len || fseek(out, 0, SEEK_SET) != 0)) {
		fclose(out);
		out = NULL;
	}
	__real_free(text);
	return out;
}
