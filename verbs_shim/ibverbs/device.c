/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * device.c - the device list (ours first, then the real devices), opening and closing devices. State: the devices seen
 * so far, each with its open contexts.
 */
#include <endian.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"
#include "filesize.h"
#include "real.h"
#include "settings.h"
#include "shim.h"
#include "sysfs/sysfs.h"
#include "xrc.h"

#define MAX_DEVICES 64
#define LIST_MAGIC  0x75726f6365766273ull

/* Header of the array that ibv_get_device_list returns. */
struct device_list {
	uint64_t magic;
	struct ibv_device **real; /* the real library's list; its devices are valid until the list is freed */
	struct ibv_device *devices[];
};

static pthread_mutex_t devices_lock = PTHREAD_MUTEX_INITIALIZER;
static struct shim_device *devices;

/* Held from shim_context_borrow to shim_context_return. ibv_close_device also takes this lock, and so waits until the
 * context has been returned. Taken before the engines' locks. */
static pthread_mutex_t borrow_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- locks, also around fork ------------------------------------------------------------------------- */

static void fork_prepare(void)
{
	pthread_mutex_lock(&devices_lock);
	for (struct shim_device *d = devices; d; d = d->next)
		pthread_mutex_lock(&d->lock);
}

static void fork_done(void)
{
	for (struct shim_device *d = devices; d; d = d->next)
		pthread_mutex_unlock(&d->lock);
	pthread_mutex_unlock(&devices_lock);
}

static void borrow_take(void)
{
	pthread_mutex_lock(&borrow_lock);
}

static void borrow_release(void)
{
	pthread_mutex_unlock(&borrow_lock);
}

void shim_devices_fork_inner(void)
{
	pthread_atfork(fork_prepare, fork_done, fork_done);
}

void shim_devices_fork_outer(void)
{
	pthread_atfork(borrow_take, borrow_release, borrow_release);
}

static void devices_enter(void)
{
	pthread_mutex_lock(&devices_lock);
}

static void devices_leave(void)
{
	pthread_mutex_unlock(&devices_lock);
}

/* ---- the list ---------------------------------------------------------------------------------------- */

static struct shim_device *device_find(const struct pmd_device *pmd)
{
	for (struct shim_device *d = devices; d; d = d->next)
		if (!strcmp(d->pmd.name, pmd->name) && !memcmp(&d->pmd.gid, &pmd->gid, sizeof(pmd->gid)) &&
		    !strcmp(d->pmd.port, pmd->port))
			return d;
	return NULL;
}

static struct shim_device *device_new(const struct pmd_device *pmd, unsigned index)
{
	struct shim_device *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->pmd = *pmd;
	pthread_mutex_init(&d->lock, NULL);
	d->ibv.node_type = IBV_NODE_CA;
	d->ibv.transport_type = IBV_TRANSPORT_IB;
	snprintf(d->ibv.name, sizeof(d->ibv.name), "%s", pmd->name);
	snprintf(d->ibv.dev_name, sizeof(d->ibv.dev_name), "uverbs%u", sysfs_uverbs_first() + index);
	snprintf(d->ibv.dev_path, sizeof(d->ibv.dev_path), "%s/%s", sysfs_class_paths[SYSFS_VERBS], d->ibv.dev_name);
	snprintf(d->ibv.ibdev_path, sizeof(d->ibv.ibdev_path), "%s/%s", sysfs_class_paths[SYSFS_INFINIBAND], pmd->name);
	d->next = devices;
	devices = d;
	return d;
}

/* Fills `out` with our devices. @return their number, or a negative errno. */
static int devices_scan(struct shim_device **out)
{
	struct pmd_device *found = calloc(MAX_DEVICES, sizeof(*found));
	int n = found ? pmd_devices(found, MAX_DEVICES) : -ENOMEM;

	pmd_settings_tell();
	devices_enter();
	for (int i = 0; i < n; i++) {
		out[i] = device_find(&found[i]);
		if (!out[i])
			out[i] = device_new(&found[i], (unsigned)i);
		if (!out[i])
			n = -ENOMEM;
	}
	devices_leave();
	free(found);
	return n;
}

/* Uses a raw system call: a call of the C library's function would reach the sysfs hooks, which report our own devices
 * too. */
bool shim_kernel_has_verbs(void)
{
	return syscall(SYS_faccessat, AT_FDCWD, sysfs_class_paths[SYSFS_VERBS], F_OK) == 0;
}

/* Get the real library's device list, and its length in *n. The library is not opened if the kernel has no verbs
 * (shim_kernel_has_verbs). @return NULL with *n 0: no list. */
static struct ibv_device **real_devices(int *n)
{
	*n = 0;
	if (!shim_kernel_has_verbs() || !shim_real(ibv_get_device_list))
		return NULL;
	shim_sysfs_bypass(1);

	struct ibv_device **list = shim_real(ibv_get_device_list)(n);

	shim_sysfs_bypass(-1);
	if (!list)
		*n = 0;
	return list;
}

_Thread_local bool shim_real_devices_only;

static struct ibv_device **list_new(int *num)
{
	struct shim_device *own[MAX_DEVICES];
	int n_own = shim_real_devices_only ? 0 : devices_scan(own), n_real;

	if (num)
		*num = 0;
	if (n_own == -ENOMEM)
		return shim_fail(ENOMEM);
	if (n_own < 0)
		n_own = 0; /* on a configuration error, which has been reported, the real devices stay usable */

	struct ibv_device **real = real_devices(&n_real);
	/* NOLINTNEXTLINE(bugprone-sizeof-expression): it is an array of pointers */
	struct device_list *list = calloc(1, sizeof(*list) + (n_own + n_real + 1) * sizeof(list->devices[0]));

	if (!list) {
		if (real)
			shim_real(ibv_free_device_list)(real);
		return shim_fail(ENOMEM);
	}
	list->magic = LIST_MAGIC;
	list->real = real;
	for (int i = 0; i < n_own; i++)
		list->devices[i] = &own[i]->ibv;
	for (int i = 0; i < n_real; i++)
		list->devices[n_own + i] = real[i];
	if (num)
		*num = n_own + n_real;
	return list->devices;
}

/* Cancellation is disabled during the scan, which contains dozens of cancellation points. A thread cancelled there
 * would leak descriptors and memory, here and in the real library. */
SHIM_EXPORT struct ibv_device **ibv_get_device_list(int *num)
{
	struct ibv_device **list;
	int cancel;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel);
	shim_cm_attach(__builtin_return_address(0));
	list = list_new(num);
	pthread_setcancelstate(cancel, NULL);
	return list;
}

SHIM_EXPORT void ibv_free_device_list(struct ibv_device **devs)
{
	if (!devs)
		return;

	struct device_list *list = container_of(devs, struct device_list, devices[0]);

	if (list->magic != LIST_MAGIC)
		return;
	if (list->real)
		shim_real(ibv_free_device_list)(list->real);
	list->magic = 0;
	free(list);
}

struct shim_device *shim_device_of(const struct ibv_device *device)
{
	struct shim_device *d;

	devices_enter();
	for (d = devices; d && &d->ibv != device; d = d->next)
		;
	devices_leave();
	return d;
}

SHIM_EXPORT const char *ibv_get_device_name(struct ibv_device *device)
{
	return device->name;
}

SHIM_EXPORT __be64 ibv_get_device_guid(struct ibv_device *device)
{
	const struct shim_device *d = shim_device_of(device);

	return d ? htobe64(d->pmd.node_guid) : shim_real(ibv_get_device_guid)(device);
}

/* ibv_get_device_index returns the kernel's number for a device; for our devices the kernel has none. */
SHIM_EXPORT int ibv_get_device_index(struct ibv_device *device)
{
	return shim_device_of(device) ? -1 : shim_real(ibv_get_device_index)(device);
}

/* ---- contexts ---------------------------------------------------------------------------------------- */

/** Initialize a context, except its engine. @param cmd_fd for an imported context the descriptor, which the context
 * owns on success; -1: create a descriptor. */
static int context_init(struct shim_context *ctx, struct shim_device *dev, int cmd_fd)
{
	struct ibv_context *ibv = &ctx->vctx.context;
	int err = shim_event_queue_init(&ctx->async);

	if (err)
		return err;
	/* Programs copy this descriptor and pass it on, so it must be valid, but its file stays empty. Every context
	 * that is not imported has a file of its own, by which context_of_fd() recognizes the context. */
	ibv->cmd_fd = cmd_fd >= 0 ? cmd_fd : memfd_create(SHIM_CMD_FILE, MFD_CLOEXEC);
	if (ibv->cmd_fd < 0 || fstat(ibv->cmd_fd, &ctx->cmd) < 0) {
		err = -errno;
		shim_event_queue_fini(&ctx->async, true);
		return err;
	}
	ctx->dev = dev;
	ctx->sibling = ctx;
	ctx->forks = pmd_forks();
	ibv->device = &dev->ibv;
	ibv->async_fd = ctx->async.fd;
	ibv->num_comp_vectors = 1;
	ibv->abi_compat = __VERBS_ABI_IS_EXTENDED;
	pthread_mutex_init(&ibv->mutex, NULL);
	ctx->vctx.sz = sizeof(ctx->vctx);
	ctx->vctx.priv = shim_unknown_private();
	shim_ops_init(&ctx->vctx);
	return 0;
}

static void context_fini(struct shim_context *ctx, bool close_cmd_fd)
{
	shim_event_queue_fini(&ctx->async, shim_holds_queue(ctx, &ctx->async));
	if (close_cmd_fd && shim_holds_cmd_fd(ctx))
		close(ctx->vctx.context.cmd_fd);
}

static void tell(const struct shim_device *dev, const char *sentence, bool quiet)
{
	if (!quiet && filesize_allows_stderr())
		fprintf(stderr, "uroce: %s: %s\n", dev->pmd.name, sentence);
}

/* Open the device's engine. The engine reports events to the device, not to one context: port events go to all contexts
 * of the device, also to those opened later. */
static int engine_open(struct shim_device *dev, bool quiet, struct pmd_engine **out)
{
	char sentence[256] = "";
	int err = pmd_open(&dev->pmd, shim_event_raise, dev, out, sentence, sizeof(sentence));

	if (err)
		tell(dev, sentence, quiet);
	return err;
}

int shim_engine_open(const struct pmd_device *pmd, struct pmd_engine **out)
{
	struct shim_device *own[MAX_DEVICES], *dev;
	int n = devices_scan(own);

	devices_enter();
	dev = n < 0 ? NULL : device_find(pmd);
	devices_leave();
	return dev ? engine_open(dev, false, out) : -ENODEV;
}

/** Find, among the device's open contexts, one whose cmd_fd refers to the same file as `fd`. Contexts that this process
 * inherited in a fork are skipped. dev->lock held. */
static struct shim_context *context_of_fd(const struct shim_device *dev, int fd)
{
	struct stat want, have;

	for (struct shim_context *c = fstat(fd, &want) ? NULL : dev->contexts; c; c = c->next)
		if (!shim_is_inherited(c) && !fstat(c->vctx.context.cmd_fd, &have) && have.st_dev == want.st_dev &&
		    have.st_ino == want.st_ino)
			return c;
	return NULL;
}

/** Add a context to its device's list. @param import also add it to the ring of the contexts that share its cmd_fd
 * file. */
static void context_link(struct shim_context *ctx, bool import)
{
	struct shim_device *dev = ctx->dev;
	struct shim_context *other;

	pmd_lock(ctx->engine);
	pthread_mutex_lock(&dev->lock);
	other = import ? context_of_fd(dev, ctx->vctx.context.cmd_fd) : NULL;
	if (other) { /* if the other context was closed meanwhile, there is nothing to import */
		ctx->sibling = other->sibling;
		other->sibling = ctx;
	}
	ctx->next = dev->contexts;
	dev->contexts = ctx;
	pthread_mutex_unlock(&dev->lock);
	pmd_unlock(ctx->engine);
}

/** @param cmd_fd as for context_init()
 * @param quiet do not tell the user why it fails */
static struct ibv_context *context_open(struct shim_device *dev, int cmd_fd, bool quiet)
{
	struct shim_context *ctx = calloc(1, sizeof(*ctx));
	char sentence[256] = "";
	int err;

	if (!ctx)
		return shim_fail(ENOMEM);
	err = context_init(ctx, dev, cmd_fd);
	if (err) {
		snprintf(sentence, sizeof(sentence), "no descriptors for a context: %s", strerror(-err));
		tell(dev, sentence, quiet);
		free(ctx);
		return shim_fail(-err);
	}
	ctx->personality = shim_personality_find(sentence, sizeof(sentence));
	err = ctx->personality ? engine_open(dev, quiet, &ctx->engine) : -EINVAL;
	if (!ctx->personality)
		tell(dev, sentence, quiet);
	if (err) {
		context_fini(ctx, cmd_fd < 0);
		free(ctx);
		return shim_fail(-err);
	}
	ctx->nic = pmd_engine_nic(ctx->engine);
	context_link(ctx, cmd_fd >= 0);
	shim_sysfs_attach();
	return &ctx->vctx.context;
}

SHIM_EXPORT struct ibv_context *ibv_open_device(struct ibv_device *device)
{
	struct shim_device *dev = shim_device_of(device);

	return dev ? context_open(dev, -1, false) : shim_real(ibv_open_device)(device);
}

struct ibv_context *shim_context_open(struct shim_device *dev, bool quiet)
{
	return context_open(dev, -1, quiet);
}

struct ibv_context *shim_context_import(int cmd_fd)
{
	struct shim_device *dev;
	bool found = false;

	devices_enter();
	for (dev = devices; dev && !found; dev = found ? dev : dev->next) {
		pthread_mutex_lock(&dev->lock);
		found = context_of_fd(dev, cmd_fd);
		pthread_mutex_unlock(&dev->lock);
	}
	devices_leave();
	return found ? context_open(dev, cmd_fd, false) : shim_fail(ENOENT);
}

static void context_unlink(struct shim_context *ctx)
{
	struct shim_context **at = &ctx->dev->contexts;

	bool dead = shim_is_inherited(ctx); /* then no thread of this process borrows it */

	if (!dead)
		borrow_take(); /* wait until no thread borrows a context */
	pthread_mutex_lock(&ctx->dev->lock);
	while (*at && *at != ctx)
		at = &(*at)->next;
	if (*at)
		*at = ctx->next;
	pthread_mutex_unlock(&ctx->dev->lock);
	if (!dead)
		borrow_release();
}

struct shim_context *shim_context_borrow(const char *name)
{
	struct shim_context *ctx = NULL;

	borrow_take();
	devices_enter();
	for (struct shim_device *d = devices; d && !ctx; d = d->next) {
		if (strcmp(d->pmd.name, name) != 0)
			continue;
		pthread_mutex_lock(&d->lock);
		ctx = d->contexts;
		while (ctx && shim_is_inherited(ctx))
			ctx = ctx->next;
		pthread_mutex_unlock(&d->lock);
	}
	devices_leave();
	if (!ctx)
		borrow_release();
	return ctx;
}

void shim_context_return(void)
{
	borrow_release();
}

/** Remove a context from the ring of contexts that share its cmd_fd file. Engine lock held. */
static void context_leave_siblings(struct shim_context *ctx)
{
	struct shim_context *before = ctx;

	while (before->sibling != ctx)
		before = before->sibling;
	before->sibling = ctx->sibling;
	ctx->sibling = ctx;
}

SHIM_EXPORT int ibv_close_device(struct ibv_context *context)
{
	if (!shim_is_ours(context))
		return shim_real(ibv_close_device)(context);

	struct shim_context *ctx = shim_ctx(context);

	const bool held = shim_holds_cmd_fd(ctx);

	if (atomic_exchange(&ctx->closed, true))
		return EINVAL;
	ctx->held = held;
	shim_anew_close(ctx);
	context_unlink(ctx);
	if (!shim_is_inherited(ctx)) {
		pmd_lock(ctx->engine);
		if (ctx->links[SHIM_QP])
			pmd_settle(ctx->engine);
		shim_objects_drop(ctx);
		context_leave_siblings(ctx);
		pmd_unlock(ctx->engine);
		shim_share_end(ctx);
		pmd_close(ctx->engine);
	}
	context_fini(ctx, true);
	/* If the program has not destroyed all objects, keep the context: the objects still point to it. */
	if (!atomic_load(&ctx->objects))
		free(ctx);
	return 0;
}
