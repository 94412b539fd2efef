/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vk_file.c - descriptors of virtual processes and the files they refer to: references, epoll sets, the collector.
 *
 * An epoll set works as in Linux. When something happens to a registered file, its item is appended to the set's ready
 * list. epoll_wait takes items from the front of the list, and appends those that are still ready again. An item exists
 * as long as its file has a reference, even after the registered descriptor is closed.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "vk_priv.h"

const char *const vk_kind_names[VK_KINDS] = {"unix", "udp", "epoll", "timer", "event", "signal", "memfd", "netlink"};

/* ---- references ------------------------------------------------------------------------------------------- */

struct vk_file *vk_file_new(enum vk_kind kind)
{
	struct vk_file *f = vk_zalloc(sizeof(*f));

	f->kind = kind;
	f->refs = 1;
	f->id = ++vk.next_id;
	f->next = vk.files;
	if (f->next)
		f->next->prev = f;
	vk.files = f;
	vk.n_files++;
	if (kind == VK_UNIX)
		vk_unix_init(f);
	else if (kind == VK_EPOLL)
		f->u.epoll.last_ready = &f->u.epoll.first_ready;
	return f;
}

void vk_file_get(struct vk_file *f)
{
	f->refs++;
}

static void item_unready(struct vk_item *item)
{
	struct vk_file *set = item->set;
	struct vk_item **at = &set->u.epoll.first_ready;

	if (!item->ready)
		return;
	while (*at != item)
		at = &(*at)->next_ready;
	*at = item->next_ready;
	if (set->u.epoll.last_ready == &item->next_ready)
		set->u.epoll.last_ready = at;
	item->ready = false;
}

static void item_ready(struct vk_item *item)
{
	if (item->ready)
		return;
	item->ready = true;
	item->next_ready = NULL;
	*item->set->u.epoll.last_ready = item;
	item->set->u.epoll.last_ready = &item->next_ready;
}

static void item_end(struct vk_item *item)
{
	struct vk_item **at = &item->file->watchers;

	while (*at != item)
		at = &(*at)->next_of_file;
	*at = item->next_of_file;
	for (at = &item->set->u.epoll.items; *at != item;)
		at = &(*at)->next_of_set;
	*at = item->next_of_set;
	item_unready(item);
	__real_free(item);
}

void vk_file_put(struct vk_file *f)
{
	if (--f->refs > 0)
		return;
	while (f->watchers)
		item_end(f->watchers);
	switch (f->kind) {
	case VK_UNIX:
		vk_unix_release(f);
		break;
	case VK_UDP:
		vk_udp_release(f);
		break;
	case VK_EPOLL:
		while (f->u.epoll.items)
			item_end(f->u.epoll.items);
		break;
	case VK_MEMFD:
		__real_free(f->u.mem.memory);
		break;
	default:
		break;
	}
	vk_wake(f);
	if (f->prev)
		f->prev->next = f->next;
	else
		vk.files = f->next;
	if (f->next)
		f->next->prev = f->prev;
	vk.n_files--;
	__real_free(f);
}

/* ---- descriptors ------------------------------------------------------------------------------------------ */

struct vk_file *vk_descriptor(const struct vk_proc *p, int fd)
{
	return fd >= 0 && fd < p->fd_end ? p->fds[fd] : NULL;
}

struct vk_file *vk_fd(int fd)
{
	struct vk_file *f = vk_descriptor(vk_self(), fd);

	if (!f)
		errno = EBADF;
	return f;
}

int vk_fd_new(struct vk_proc *p, struct vk_file *f, int least)
{
	int fd = least, limit = (int)(p->nofile < VK_FDS ? p->nofile : VK_FDS);

	while (fd < limit && p->fds[fd])
		fd++;
	if (fd >= limit)
		return -EMFILE;
	p->fds[fd] = f;
	p->n_fds++;
	if (fd >= p->fd_end)
		p->fd_end = fd + 1;
	return fd;
}

int vk_fd_close(struct vk_proc *p, int fd)
{
	struct vk_file *f = vk_descriptor(p, fd);

	if (!f)
		return -EBADF;
	p->fds[fd] = NULL;
	p->n_fds--;
	vk_file_put(f);
	return 0;
}

bool vk_has(const struct vk_proc *p, const struct vk_file *f)
{
	for (int fd = 0; fd < p->fd_end; fd++)
		if (p->fds[fd] == f)
			return true;
	return false;
}

enum vk_kind vk_kind(const struct vk_file *f)
{
	return f->kind;
}

/* ---- readiness -------------------------------------------------------------------------------------------- */

static uint32_t set_poll(const struct vk_file *set)
{
	for (const struct vk_item *i = set->u.epoll.first_ready; i; i = i->next_ready)
		if (vk_poll(i->file) & (i->events | EPOLLERR | EPOLLHUP))
			return EPOLLIN;
	return 0;
}

uint32_t vk_poll(const struct vk_file *f)
{
	switch (f->kind) {
	case VK_UNIX:
		return vk_unix_poll(f);
	case VK_UDP:
		return EPOLLOUT | (f->u.udp.count ? EPOLLIN : 0);
	case VK_EPOLL:
		return set_poll(f);
	case VK_TIMER:
		return f->u.timer.count ? EPOLLIN : 0;
	case VK_EVENT:
		return EPOLLOUT | (f->u.count ? EPOLLIN : 0);
	case VK_SIGNAL:
		return f->u.proc->term ? EPOLLIN : 0;
	case VK_NETLINK:
		return f->u.netlink.news ? EPOLLIN : 0;
	default:
		return EPOLLIN | EPOLLOUT;
	}
}

void vk_notify(struct vk_file *f)
{
	for (struct vk_item *i = f->watchers; i; i = i->next_of_file) {
		item_ready(i);
		vk_notify(i->set);
	}
	vk_wake(f);
}

/* ---- epoll ------------------------------------------------------------------------------------------------ */

int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int set_fd, int what, int fd, struct epoll_event *event);
int __wrap_epoll_wait(int set_fd, struct epoll_event *events, int max, int timeout_ms);

static int set_errno(int rc)
{
	if (rc >= 0)
		return rc;
	errno = -rc;
	return -1;
}

int __wrap_epoll_create1(int flags)
{
	struct vk_file *f;
	int fd;

	(void)flags;
	vk_enter();
	f = vk_file_new(VK_EPOLL);
	fd = vk_fd_new(vk_self(), f, 3);
	if (fd < 0)
		vk_file_put(f);
	return set_errno(fd);
}

static struct vk_item *item_find(struct vk_file *set, struct vk_file *f, int fd)
{
	for (struct vk_item *i = set->u.epoll.items; i; i = i->next_of_set)
		if (i->file == f && i->fd == fd)
			return i;
	return NULL;
}

int __wrap_epoll_ctl(int set_fd, int what, int fd, struct epoll_event *event)
{
	struct vk_file *set, *f;
	struct vk_item *item;

	vk_enter();
	set = vk_fd(set_fd);
	f = vk_fd(fd);
	if (!set || !f)
		return set_errno(-EBADF);
	if (set->kind != VK_EPOLL || f == set)
		return set_errno(-EINVAL);
	if (f->kind == VK_MEMFD)
		return set_errno(-EPERM);
	item = item_find(set, f, fd);
	if ((what == EPOLL_CTL_ADD) == (item != NULL))
		return set_errno(item ? -EEXIST : -ENOENT);
	if (what == EPOLL_CTL_DEL) {
		item_end(item);
		return 0;
	}
	if (!item) {
		item = vk_zalloc(sizeof(*item));
		item->set = set;
		item->file = f;
		item->fd = fd;
		item->next_of_file = f->watchers;
		f->watchers = item;
		item->next_of_set = set->u.epoll.items;
		set->u.epoll.items = item;
	}
	item->events = event->events;
	item->data = event->data.u64;
	if (vk_poll(f) & (item->events | EPOLLERR | EPOLLHUP)) {
		item_ready(item);
		vk_notify(set);
	}
	return 0;
}

static int take_events(struct vk_file *set, struct epoll_event *events, int max)
{
	struct vk_item *stop = NULL;
	int n = 0;

	while (n < max && set->u.epoll.first_ready && set->u.epoll.first_ready != stop) {
		struct vk_item *i = set->u.epoll.first_ready;
		uint32_t now = vk_poll(i->file) & (i->events | EPOLLERR | EPOLLHUP);

		item_unready(i);
		if (!now)
			continue;
		events[n++] = (struct epoll_event){.events = now, .data.u64 = i->data};
		item_ready(i);
		stop = stop ? stop : i;
	}
	return n;
}

int __wrap_epoll_wait(int set_fd, struct epoll_event *events, int max, int timeout_ms)
{
	uint64_t until_ns;
	struct vk_file *set;

	vk_enter();
	until_ns = timeout_ms < 0 ? UINT64_MAX : vk.now_ns + (uint64_t)timeout_ms * VK_MS;
	for (;;) {
		const void *channel;
		int n;

		set = vk_fd(set_fd);
		if (!set || set->kind != VK_EPOLL)
			return set_errno(set ? -EINVAL : -EBADF);
		n = take_events(set, events, max);
		channel = set;
		if (n > 0 || timeout_ms == 0 || !vk_block(&channel, 1, until_ns))
			return n;
	}
}

/* ---- the collector ---------------------------------------------------------------------------------------- */

static void mark(struct vk_file *f)
{
	if (f->marked == vk.mark)
		return;
	f->marked = vk.mark;
	if (f->kind != VK_UNIX)
		return;
	for (struct vk_message *m = vk_unix_messages(f); m; m = m->next)
		for (unsigned i = 0; i < m->n_files; i++)
			mark(m->files[i]);
	for (struct vk_file *b = f->u.un.backlog; b; b = b->u.un.backlog_next)
		mark(b);
}

/** Free sockets whose only references are in messages queued in each other (garbage collection). */
void vk_collect(void)
{
	bool again = true;

	while (again) {
		again = false;
		vk.mark++;
		for (unsigned i = 0; i < vk.n_procs; i++) {
			for (int fd = 0; fd < vk.procs[i]->fd_end; fd++)
				if (vk.procs[i]->fds[fd])
					mark(vk.procs[i]->fds[fd]);
			for (struct vk_mapping *m = vk.procs[i]->mappings; m; m = m->next)
				mark(m->file);
		}
		for (struct vk_file *f = vk.files; f; f = f->next) {
			if (f->marked == vk.mark || f->kind != VK_UNIX || !f->u.un.first)
				continue;
			/* Drop the socket's queue, and so release files that only the queue references. */
			f->refs++;
			vk_unix_release(f);
			vk_file_put(f);
			again = true;
			break;
		}
	}
}

unsigned vk_files(void)
{
	vk_collect();
	return vk.n_files;
}

void vk_print(FILE *to)
{
	for (unsigned i = 0; i < vk.n_procs; i++) {
		const struct vk_proc *p = vk.procs[i];

		if (p->state == PROC_GONE)
			continue;
		fprintf(to, "  process %d %s, user %u, state %d, %u descriptors, %llu calls:", (int)p->pid, p->command,
			p->who.uid, (int)p->state, p->n_fds, (unsigned long long)p->calls);
		for (int fd = 0; fd < p->fd_end; fd++) {
			const struct vk_file *f = p->fds[fd];

			if (!f)
				continue;
			fprintf(to, " %d=%s%llu", fd, vk_kind_names[f->kind], (unsigned long long)f->id);
			if (f->kind == VK_UNIX && f->u.un.first) {
				unsigned n = 0, files = 0;

				for (const struct vk_message *m = f->u.un.first; m; m = m->next, n++)
					files += m->n_files;
				fprintf(to, "(%u messages, %u files)", n, files);
			}
			if (f->kind == VK_UNIX)
				fprintf(to, "%s%s%s", f->u.un.name[0] ? "@" : "", f->u.un.name,
					f->u.un.state == UNIX_CONNECTED ? (f->u.un.peer ? "(connected)" : "(ended)")
									: "");
		}
		fputc('\n', to);
	}
}
