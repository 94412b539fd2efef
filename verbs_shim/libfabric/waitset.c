/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * waitset.c - wait sets of queues and counters (fi_wait_open(3)). Each member has its own descriptor, like an
 * object outside sets (wait.c). The set's descriptor, which applications can get, is readable while any member's
 * descriptor is readable.
 */
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>

#include "endpoint.h"
#include "provider.h"

struct ufi_set_member {
	struct ufi_set_member *next;
	struct fid *fid;
};

struct ufi_waitset {
	struct fid_wait set;
	struct ufi_fabric *fabric;
	struct ufi_wait wait; /* wait.fd is an epoll descriptor */
	struct ufi_lock lock; /* guards the list; taken before the locks of members */
	struct ufi_set_member *members;
};

static struct ufi_waitset *waitset_of(struct fid_wait *set)
{
	return container_of(set, struct ufi_waitset, set);
}

int ufi_waitset_add(struct fid_wait *fid, const struct ufi_fabric *fabric, struct fid *object, struct ufi_wait *wait)
{
	struct epoll_event event = {.events = EPOLLIN};
	struct ufi_waitset *set;
	struct ufi_set_member *m;
	int rc;

	if (wait->obj != FI_WAIT_SET)
		return 0;
	if (!fid || waitset_of(fid)->fabric != fabric)
		return -FI_EINVAL;
	set = waitset_of(fid);
	if (ufi_is_inherited(&set->lock)) /* the epoll set is shared with a parent */
		return -FI_EIO;
	m = malloc(sizeof(*m));
	if (!m)
		return -FI_ENOMEM;
	rc = ufi_wait_arm(wait); /* creates the member's descriptor */
	if (!rc && epoll_ctl(set->wait.fd, EPOLL_CTL_ADD, wait->fd, &event))
		rc = -errno;
	if (rc) {
		free(m);
		return rc;
	}
	wait->set = set;
	m->fid = object;
	ufi_lock(&set->lock);
	m->next = set->members;
	set->members = m;
	ufi_unlock(&set->lock);
	return 0;
}

void ufi_waitset_remove(struct ufi_wait *wait, const struct fid *object)
{
	struct ufi_waitset *set = wait->set;
	struct ufi_set_member **at, *m;

	if (!set)
		return;
	ufi_lock(&set->lock);
	for (at = &set->members; (*at)->fid != object; at = &(*at)->next)
		;
	m = *at;
	*at = m->next;
	ufi_unlock(&set->lock);
	free(m);
	wait->set = NULL;
	/* Remove the descriptor from the epoll set here: close() does not remove it while forked children hold copies.
	 * A forked child must not remove the descriptor, because the child shares the epoll set with its parent. */
	if (!ufi_is_inherited(&set->lock))
		epoll_ctl(set->wait.fd, EPOLL_CTL_DEL, wait->fd, NULL);
}

int ufi_waitset_trywait(struct ufi_waitset *set)
{
	int rc = 0;

	ufi_lock(&set->lock);
	for (struct ufi_set_member *m = set->members; m && !rc; m = m->next)
		rc = ufi_trywait(m->fid);
	ufi_unlock(&set->lock);
	return rc;
}

struct ufi_waitset *ufi_waitset_of(struct fid *fid)
{
	return container_of(fid, struct ufi_waitset, set.fid);
}

static int waitset_wait(struct fid_wait *fid, int timeout)
{
	struct ufi_waitset *set = waitset_of(fid);
	struct pollfd pfd = {.fd = set->wait.fd, .events = POLLIN};
	uint64_t deadline_ns = ufi_deadline(timeout);
	struct ufi_nap nap;
	int rc;

	if (ufi_is_inherited(&set->lock))
		return -FI_EIO;
	for (;;) {
		rc = ufi_waitset_trywait(set);
		if (rc)
			return rc == -FI_EAGAIN ? 0 : rc;
		if (!ufi_nap_begin(&nap, set->fabric, deadline_ns))
			return -FI_ETIMEDOUT;
		if (!ufi_wait_sleeps(&set->wait)) {
			sched_yield();
			continue;
		}
		rc = ppoll(&pfd, 1, nap.timeout, NULL);
		if (rc)
			return rc < 0 ? -errno : 0;
		if (!nap.looks)
			return -FI_ETIMEDOUT;
	}
}

static int waitset_control(struct fid *fid, int command, void *arg)
{
	return ufi_wait_control(&ufi_waitset_of(fid)->wait, command, arg);
}

static int waitset_close(struct fid *fid)
{
	struct ufi_waitset *set = ufi_waitset_of(fid);
	bool used;

	ufi_lock(&set->lock);
	used = set->members;
	ufi_unlock(&set->lock);
	if (used)
		return -FI_EBUSY;
	ufi_wait_fini(&set->wait);
	ufi_lock_fini(&set->lock);
	atomic_fetch_sub(&set->fabric->users, 1);
	free(set);
	return 0;
}

static struct fi_ops waitset_fid_ops = {
	.size = sizeof(struct fi_ops),
	.close = waitset_close,
	.bind = ufi_no_bind,
	.control = waitset_control,
	.ops_open = ufi_no_ops_open,
};

static struct fi_ops_wait waitset_ops = {
	.size = sizeof(struct fi_ops_wait),
	.wait = waitset_wait,
};

int ufi_waitset_open(struct fid_fabric *fabric, struct fi_wait_attr *attr, struct fid_wait **out)
{
	enum fi_wait_obj obj = attr ? attr->wait_obj : FI_WAIT_UNSPEC;
	struct ufi_waitset *set;
	int rc;

	if (ufi_is_inherited(&container_of(fabric, struct ufi_fabric, fabric)->lock))
		return -FI_EIO;
	if ((attr && attr->flags) || obj == FI_WAIT_NONE || obj == FI_WAIT_SET)
		return -FI_EINVAL;
	set = calloc(1, sizeof(*set));
	if (!set)
		return -FI_ENOMEM;
	rc = ufi_wait_init(&set->wait, obj);
	if (!rc) {
		pmd_forks_count();
		set->wait.fd = epoll_create1(EPOLL_CLOEXEC);
		rc = set->wait.fd < 0 ? -errno : 0;
	}
	if (rc) {
		free(set);
		return rc;
	}
	ufi_lock_init(&set->lock);
	set->fabric = container_of(fabric, struct ufi_fabric, fabric);
	set->set.fid.fclass = FI_CLASS_WAIT;
	set->set.fid.ops = &waitset_fid_ops;
	set->set.ops = &waitset_ops;
	atomic_fetch_add(&set->fabric->users, 1);
	*out = &set->set;
	return 0;
}
