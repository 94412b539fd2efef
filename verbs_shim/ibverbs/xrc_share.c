/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * xrc_share.c - XRC domains that the processes of a host share. The NICs of the processes do the work, through reliable
 * datagram endpoints (nic_xrc_share.h). This file tells a NIC which other NICs share a domain.
 *
 * No process has a list of them: the kernel has, as locks of the file that names the domain. Each process that has the
 * domain locks one byte far beyond the end of the file, and that byte's offset says on which device, by which function
 * of the device and at which port the process's NIC is reached. Every process that has the file open can look for such
 * locks, whatever user it runs as. The locks belong to open file descriptions (fcntl(2), F_OFD_SETLK), so they end with
 * the process that has taken them.
 *
 * State: a share for each engine that has opened a domain by a file.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "shim.h"
#include "xrc.h"

/* The offset of a lock: bit 62, then the number of the device (20 bits), the number of the function (24 bits), and the
 * port (16 bits; 0: the process has the domain, but cannot be reached). */
#define LOCK_OFFSET  (1ull << 62)
#define DEVICE_SHIFT 40
#define DEVICE_BITS  20
#define PORT_BITS    16
#define PORTS	     (1ull << PORT_BITS)
#define DEVICE_RANGE (1ull << DEVICE_SHIFT)
#define FUNCTIONS    (1u << (24 - PMD_FUNCTION_QPN_BITS))

struct shim_xrc_share {
	struct shim_xrc_share *next;
	struct nic *nic;
	struct nic_gid gid; /* the device's */
	uint64_t locks;	    /* offset of the device's first lock */
	unsigned function;
	uint16_t port;	/* of the NIC's endpoint; 0: there is none, and domains are private to the process */
	unsigned users; /* files, and threads that open one; protected by the engine lock */
};

static pthread_mutex_t shares_lock = PTHREAD_MUTEX_INITIALIZER; /* taken with an engine's lock held */
static struct shim_xrc_share *shares;

/* ---- locks of files ---------------------------------------------------------------------------------- */

/* Find a lock in a range of offsets that another open file description has. Locks that programs have are not taken for
 * ours: these belong to processes, or are longer. @return false: there is none, or a lock of a program is in the way */
static bool lock_find(int fd, uint64_t first, uint64_t last, uint64_t *at)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = (off_t)first, .l_len = (off_t)(last - first + 1)};

	if (fcntl(fd, F_OFD_GETLK, &lock) || lock.l_type != F_RDLCK || lock.l_len != 1 || lock.l_pid != -1 ||
	    (uint64_t)lock.l_start < first || (uint64_t)lock.l_start > last)
		return false;
	*at = (uint64_t)lock.l_start;
	return true;
}

/* Whether a lock of some functions of a device has this port; `locks` is the offset of the first of these functions.
 * The kernel tells of any lock in a range, not of the first. Of each function one lock is looked at, as by find(),
 * however many a program may have taken. */
static bool lock_has_port(int fd, uint64_t locks, unsigned functions, uint16_t port)
{
	uint64_t at;
	unsigned i;

	if (!functions || !lock_find(fd, locks, locks + functions * PORTS - 1, &at))
		return false;
	i = (unsigned)((at - locks) / PORTS);
	return at % PORTS == port || lock_has_port(fd, locks, i, port) ||
	       lock_has_port(fd, locks + (i + 1) * PORTS, functions - i - 1, port);
}

bool shim_share_is_taken(const struct shim_xrc_share *share, int fd)
{
	uint64_t at;

	return lock_find(fd, share->locks, share->locks + DEVICE_RANGE - 1, &at);
}

/* Only regular files and folders are opened again: opening others can have effects. */
int shim_share_lock(const struct shim_xrc_share *share, int fd, const struct stat *st)
{
	uint64_t at = share->locks + (uint64_t)share->function * PORTS + share->port;
	struct flock lock = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = (off_t)at, .l_len = 1};
	char path[64];
	int own;

	if (!S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode))
		return -1;
	snprintf(path, sizeof(path), "/proc/thread-self/fd/%d", fd);
	/* A raw system call is no cancellation point, and the hooks of sysfs do not see it. */
	own = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (own >= 0 && fcntl(own, F_OFD_SETLK, &lock)) {
		syscall(SYS_close, own);
		return -1;
	}
	return own;
}

/* ---- what the NIC asks ------------------------------------------------------------------------------- */

static bool find(void *ctx, const struct nic_xrcd *xrcd, uint32_t number, struct nic_rdm_addr *addr)
{
	const struct shim_xrc_share *share = ctx;
	const struct shim_xrc_file *file = shim_xrc_file_of(xrcd);
	uint64_t function = number >> PMD_FUNCTION_QPN_BITS, at;

	if (!file || !file->shared || function == share->function)
		return false;
	at = share->locks + function * PORTS;
	if (!lock_find(file->fd, at, at + PORTS - 1, &at) || at % PORTS == 0)
		return false;
	*addr = (struct nic_rdm_addr){.gid = share->gid, .port = (uint16_t)(at % PORTS)};
	return true;
}

static bool shares_domain(void *ctx, const struct nic_xrcd *xrcd, const struct nic_rdm_addr *addr)
{
	const struct shim_xrc_share *share = ctx;
	const struct shim_xrc_file *file = shim_xrc_file_of(xrcd);

	return file && file->shared && addr->port && !memcmp(&addr->gid, &share->gid, sizeof(addr->gid)) &&
	       lock_has_port(file->fd, share->locks, FUNCTIONS, addr->port);
}

static void raise_event(void *ctx, struct nic_xrcd *xrcd, uint32_t qpn, enum nic_event_type type)
{
	const struct shim_xrc_file *file = shim_xrc_file_of(xrcd);
	struct nic_event event = {.type = type};

	(void)ctx;
	for (struct shim_qp *qp = file ? file->remotes : NULL; qp; qp = qp->next_remote) {
		event.user = qp;
		if (qp->remote_qpn == qpn && qp->link.ctx) /* else ibv_open_qp() has not returned yet */
			shim_event_raise(NULL, &event);
	}
}

/* ---- shares ------------------------------------------------------------------------------------------ */

/* FNV-1a */
static uint64_t hash_add(uint64_t hash, const void *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		hash = (hash ^ ((const uint8_t *)bytes)[i]) * 1099511628211u;
	return hash;
}

/* The number of a device in the offsets of locks. The same address can belong to devices of several hosts, which see
 * each other's locks on a network file system, and of several network namespaces. */
static uint64_t device_number(const struct nic_gid *gid)
{
	uint64_t hash = hash_add(14695981039346656037u, gid, sizeof(*gid));
	long fd = syscall(SYS_openat, AT_FDCWD, "/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC), n;
	struct stat st;
	char text[64];

	if (fd >= 0) {
		n = syscall(SYS_read, fd, text, sizeof(text));
		hash = hash_add(hash, text, n > 0 ? (size_t)n : 0);
		syscall(SYS_close, fd);
	}
	if (!stat("/proc/self/ns/net", &st))
		hash = hash_add(hash, &st.st_ino, sizeof(st.st_ino));
	return (hash ^ hash >> DEVICE_BITS ^ hash >> 2 * DEVICE_BITS) % (1u << DEVICE_BITS);
}

/* The engine's share. Engine lock held. */
static struct shim_xrc_share *share_find(const struct nic *nic)
{
	struct shim_xrc_share *share;

	pthread_mutex_lock(&shares_lock);
	for (share = shares; share && share->nic != nic; share = share->next)
		;
	pthread_mutex_unlock(&shares_lock);
	return share;
}

static void share_link(struct shim_xrc_share *share)
{
	pthread_mutex_lock(&shares_lock);
	share->next = shares;
	shares = share;
	pthread_mutex_unlock(&shares_lock);
}

static void share_unlink(const struct shim_xrc_share *share)
{
	pthread_mutex_lock(&shares_lock);
	for (struct shim_xrc_share **at = &shares; *at; at = &(*at)->next) {
		if (*at == share) {
			*at = share->next;
			break;
		}
	}
	pthread_mutex_unlock(&shares_lock);
}

void shim_share_ref(struct shim_xrc_share *share)
{
	share->users++;
}

void shim_share_unref(struct shim_xrc_share *share)
{
	share->users--;
}

/* Open the NIC's endpoint at the share's port. @return false: the NIC has none, so the port is of no use */
static bool endpoint_open(struct shim_xrc_share *share)
{
	const struct nic_xrc_share_init init = {
		.addr = {.gid = share->gid, .port = share->port},
		.find = find,
		.shares = shares_domain,
		.event = raise_event,
		.ctx = share,
	};

	return !nic_xrc_share_open(share->nic, &init);
}

/* Make a new share the engine's, unless another thread has been faster. @param port the port that is served; on return
 * 0, or a port that must no longer be served */
static struct shim_xrc_share *share_enter(struct shim_context *ctx, struct shim_xrc_share *anew, uint16_t *port)
{
	struct shim_xrc_share *share = NULL;

	if (!shim_enter(ctx))
		return NULL;
	share = share_find(ctx->nic);
	if (!share) {
		share = anew;
		share->nic = ctx->nic;
		share->function = pmd_engine_function(ctx->engine);
		share->port = *port;
		if (*port && endpoint_open(share))
			*port = 0;
		else
			share->port = 0;
		share_link(share);
	}
	share->users++;
	shim_leave(ctx);
	return share;
}

/* A port is opened without the engine lock, so a thread that finds no share opens one and looks again. */
struct shim_xrc_share *shim_share_get(struct shim_context *ctx)
{
	struct shim_xrc_share *share, *anew;
	uint16_t port = 0;

	if (!shim_enter(ctx))
		return shim_fail(EIO);
	share = share_find(ctx->nic);
	if (share)
		share->users++;
	shim_leave(ctx);
	if (share)
		return share;
	anew = calloc(1, sizeof(*anew));
	if (!anew)
		return shim_fail(ENOMEM);
	anew->gid = ctx->dev->pmd.gid;
	anew->locks = LOCK_OFFSET + device_number(&anew->gid) * DEVICE_RANGE;
	if (pmd_service_open(ctx->engine, &port))
		port = 0;
	share = share_enter(ctx, anew, &port);
	if (port)
		pmd_service_close(ctx->engine, port);
	if (share != anew)
		free(anew);
	return share ? share : shim_fail(EIO);
}

void shim_share_end(struct shim_context *ctx)
{
	struct shim_xrc_share *share;
	uint16_t port = 0;

	pmd_lock(ctx->engine);
	share = share_find(ctx->nic);
	if (share && !share->users) {
		port = share->port;
		if (port) {
			pmd_settle(ctx->engine);
			while (nic_xrc_share_leave(ctx->nic) > 0)
				pmd_settle(ctx->engine);
			nic_xrc_share_close(ctx->nic);
		}
		share_unlink(share);
		free(share);
	}
	pmd_unlock(ctx->engine);
	if (port)
		pmd_service_close(ctx->engine, port);
}

bool shim_share_reaches(const struct shim_xrc_file *file)
{
	return file->locked && file->share->port;
}

void shim_share_domain(struct shim_xrc_file *file)
{
	const struct nic_xrc_name name = {{file->dev, file->ino}};

	file->shared = shim_share_reaches(file);
	if (file->shared)
		nic_xrcd_share(file->xrcd, &name);
}
