/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma_file.c - open files of /dev/infiniband/rdma_cm, and their events.
 *
 * A file's descriptor is a UNIX datagram socket that is connected to itself and holds one byte for each queued event.
 * Thus it is readable while events are queued, and each new event is an edge for epoll. A thread that waits for an
 * event sleeps in the kernel, under the kernel's rules for signals. The socket needs only one descriptor. It has an
 * inode of its own, by which copies of the descriptor are recognized.
 *
 * State: all files, by inode. System calls are made directly, because the C library's functions are cancellation
 * points, and programs interpose them (librspreload). Only the wait for an event calls the C library.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "cma.h"

#define BUCKETS	       256
#define INLINE_POLL_MS 1

struct cma_file {
	struct cma_file *next; /* in its bucket */
	uint64_t ino, dev;
	pid_t pid;	/* the process that opened the file; a forked child cannot use it */
	unsigned forks; /* pmd_forks() when the file was opened */
	uint32_t refs;	/* one for each call in progress, and one for all descriptors together */
	uint32_t n_fds; /* descriptors that are open, as far as is known */
	int *fds;
	uint32_t bytes; /* in the socket */
	uint32_t n;	/* queued events */
	struct list events, ids;
};

pthread_mutex_t cma_lock = PTHREAD_MUTEX_INITIALIZER;
static struct cma_file *files[BUCKETS];

static struct cma_file **bucket(uint64_t ino)
{
	return &files[ino % BUCKETS];
}

static bool fd_identify(int fd, uint64_t *ino, uint64_t *dev)
{
	struct stat st;

	if (syscall(SYS_fstat, fd, &st) || !S_ISSOCK(st.st_mode))
		return false;
	*ino = st.st_ino;
	*dev = st.st_dev;
	return true;
}

/** Open a datagram socket that is connected to itself. @return a descriptor or a negative errno */
static int loop_open(int flags)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	socklen_t len = sizeof(name);
	int type = SOCK_DGRAM | (flags & O_CLOEXEC ? SOCK_CLOEXEC : 0) | (flags & O_NONBLOCK ? SOCK_NONBLOCK : 0);
	int fd = (int)syscall(SYS_socket, AF_UNIX, type, 0);

	if (fd < 0)
		return -errno;
	/* Without a path the kernel chooses a name. */
	if (syscall(SYS_bind, fd, &name, sizeof(name.sun_family)) || syscall(SYS_getsockname, fd, &name, &len) ||
	    syscall(SYS_connect, fd, &name, len)) {
		int err = -errno;

		syscall(SYS_close, fd);
		return err;
	}
	return fd;
}

struct cma_file *cma_file_open(int flags, int *fd)
{
	struct cma_file *f = calloc(1, sizeof(*f));
	int *fds = calloc(1, sizeof(*fds));

	*fd = f && fds ? loop_open(flags) : -ENOMEM;
	if (*fd >= 0 && !fd_identify(*fd, &f->ino, &f->dev)) {
		syscall(SYS_close, *fd);
		*fd = -EIO;
	}
	if (*fd < 0) {
		free(fds);
		free(f);
		return NULL;
	}
	f->pid = (pid_t)syscall(SYS_getpid);
	f->forks = pmd_forks();
	f->fds = fds;
	f->fds[0] = *fd;
	f->n_fds = f->refs = 1;
	list_init(&f->events);
	list_init(&f->ids);
	pthread_mutex_lock(&cma_lock);
	f->next = *bucket(f->ino);
	*bucket(f->ino) = f;
	pthread_mutex_unlock(&cma_lock);
	return f;
}

struct cma_file *cma_file_get(int fd)
{
	struct cma_file *f = NULL;
	uint64_t ino, dev;
	int saved = errno;

	if (fd_identify(fd, &ino, &dev)) {
		pthread_mutex_lock(&cma_lock);
		for (f = *bucket(ino); f && (f->ino != ino || f->dev != dev || !f->n_fds); f = f->next)
			;
		if (f)
			f->refs++;
		pthread_mutex_unlock(&cma_lock);
	}
	errno = saved;
	return f;
}

bool cma_file_is_inherited(const struct cma_file *f)
{
	return f->forks != pmd_forks() || f->pid != (pid_t)syscall(SYS_getpid);
}

void cma_file_put(struct cma_file *f)
{
	bool last;

	pthread_mutex_lock(&cma_lock);
	last = --f->refs == 0;
	if (last) {
		struct cma_file **at = bucket(f->ino);

		while (*at != f)
			at = &(*at)->next;
		*at = f->next;
	}
	pthread_mutex_unlock(&cma_lock);
	if (!last)
		return;
	free(f->fds);
	free(f);
}

void cma_file_dup(struct cma_file *f, int fd)
{
	int *more;

	pthread_mutex_lock(&cma_lock);
	more = reallocarray(f->fds, f->n_fds + 1, sizeof(*more));
	if (more) {
		f->fds = more;
		f->fds[f->n_fds++] = fd;
	}
	pthread_mutex_unlock(&cma_lock);
}

/** Forget a descriptor. @return whether it was the last one. cma_lock held. */
static bool fd_forget(struct cma_file *f, int fd)
{
	for (uint32_t i = 0; i < f->n_fds; i++) {
		if (f->fds[i] != fd)
			continue;
		f->fds[i] = f->fds[--f->n_fds];
		return !f->n_fds;
	}
	return false;
}

static struct cma_id *first_id(struct cma_file *f)
{
	struct cma_id *id = NULL;

	pthread_mutex_lock(&cma_lock);
	if (!list_empty(&f->ids)) {
		id = list_entry(f->ids.next, struct cma_id, link);
		id->refs++;
	}
	pthread_mutex_unlock(&cma_lock);
	return id;
}

void cma_file_close(struct cma_file *f, int fd)
{
	struct cma_id *id;
	bool last;

	pthread_mutex_lock(&cma_lock);
	last = fd_forget(f, fd);
	pthread_mutex_unlock(&cma_lock);
	if (!last)
		return;
	while ((id = first_id(f))) {
		pthread_mutex_lock(&id->op);
		if (id->state != CMA_DESTROYING)
			cma_id_destroy(id);
		cma_id_leave(id);
	}
	cma_file_put(f);
}

/* ---- fork -------------------------------------------------------------------------------------------- */

static void lock_files(void)
{
	pthread_mutex_lock(&cma_lock);
}

static void unlock_files(void)
{
	pthread_mutex_unlock(&cma_lock);
}

void cma_fork_inner(void)
{
	pthread_atfork(lock_files, unlock_files, unlock_files);
}

/* ---- the descriptor ---------------------------------------------------------------------------------- */

/** A descriptor of the file, or -1. Its inode is checked, because a program can close a descriptor unnoticed and reuse
 *  its number. cma_lock held. */
static int file_fd(struct cma_file *f)
{
	uint64_t ino, dev;

	for (uint32_t i = 0; i < f->n_fds; i++)
		if (fd_identify(f->fds[i], &ino, &dev) && ino == f->ino && dev == f->dev)
			return f->fds[i];
	return -1;
}

/** Make the socket hold one byte for each queued event, as far as it has room. cma_lock held. Keeps errno. */
static void file_settle(struct cma_file *f)
{
	int saved = errno, fd = f->bytes == f->n ? -1 : file_fd(f);
	char byte = 0;

	if (fd < 0)
		return;
	while (f->bytes < f->n && syscall(SYS_sendto, fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0) == 1)
		f->bytes++;
	while (f->bytes > f->n && syscall(SYS_recvfrom, fd, &byte, 1, MSG_DONTWAIT, NULL, NULL) == 1)
		f->bytes--;
	errno = saved;
}

/* ---- events ------------------------------------------------------------------------------------------ */

bool cma_file_add(struct cma_file *f, struct cma_id *id)
{
	if (!f->n_fds)
		return false;
	id->file = f;
	list_append(&f->ids, &id->link);
	return true;
}

bool cma_file_migrate(struct cma_file *to, struct cma_id *id)
{
	struct cma_file *from = id->file;
	struct list *next;

	if (!to->n_fds)
		return false;
	list_remove(&id->link);
	cma_file_add(to, id);
	for (struct list *n = from->events.next; n != &from->events; n = next) {
		struct cma_event *e = list_entry(n, struct cma_event, link);

		next = n->next;
		if (e->id != id)
			continue;
		list_remove(&e->link);
		list_append(&to->events, &e->link);
		/* Move the new id of a request too: an id must be in the file from which the program reads the
		 * event. */
		if (e->request) {
			list_remove(&e->request->link);
			cma_file_add(to, e->request);
		}
		from->n--;
		to->n++;
	}
	file_settle(from);
	file_settle(to);
	return true;
}

void cma_event_queue(struct cma_event *e)
{
	struct cma_file *f = e->id->file;

	list_append(&f->events, &e->link);
	f->n++;
	file_settle(f);
}

int cma_event_simple(struct cma_id *id, uint32_t type, int status)
{
	struct cma_event *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->id = id;
	e->resp.event = type;
	e->resp.status = (uint32_t)status;
	pthread_mutex_lock(&cma_lock);
	e->resp.uid = id->uid;
	e->resp.id = id->number;
	cma_event_queue(e);
	pthread_mutex_unlock(&cma_lock);
	return 0;
}

/** Remove the queued events of an id or, if `id` is NULL, of a multicast group. Connection requests are appended to
 *  `requests`; the other events are freed. A group has no connection requests. */
static void events_remove(struct cma_file *f, const struct cma_id *id, const uint32_t *reported, struct list *requests)
{
	struct list *next;

	for (struct list *n = f->events.next; n != &f->events; n = next) {
		struct cma_event *e = list_entry(n, struct cma_event, link);

		next = n->next;
		if (id ? e->id != id : e->reported != reported)
			continue;
		list_remove(&e->link);
		f->n--;
		if (requests && e->request)
			list_append(requests, &e->link);
		else
			free(e);
	}
	file_settle(f);
}

void cma_event_purge(struct cma_id *id, struct list *requests)
{
	events_remove(id->file, id, NULL, requests);
}

void cma_event_forget(struct cma_file *f, const uint32_t *reported)
{
	events_remove(f, NULL, reported, NULL);
}

static bool event_take(struct cma_file *f, struct rdma_ucm_event_resp *out)
{
	struct cma_event *e = NULL;

	pthread_mutex_lock(&cma_lock);
	if (!list_empty(&f->events)) {
		e = list_entry(f->events.next, struct cma_event, link);
		list_remove(&e->link);
		f->n--;
		file_settle(f);
		*out = e->resp;
		e->id->events_reported++;
		if (e->reported)
			++*e->reported;
		if (e->request)
			e->id->backlog++;
	}
	pthread_mutex_unlock(&cma_lock);
	if (e && e->request)
		cma_id_put(e->request);
	free(e);
	return e;
}

static int expect_sleep(void *arg, struct cma_device *device)
{
	(void)arg;
	pmd_lock(device->engine);
	pmd_expect_sleep(device->engine);
	pmd_unlock(device->engine);
	return 0;
}

static int progress(void *arg, struct cma_device *device)
{
	(void)arg;
	pmd_try_progress(device->engine);
	return 0;
}

/** Sleep until the descriptor is readable. If the engines have no threads, sleep for INLINE_POLL_MS at most,
 *  because the caller must then make progress. During the sleep, the thread's cancelability is `cancel`. */
static int event_wait(int fd, int cancel)
{
	struct pollfd readable = {.fd = fd, .events = POLLIN};
	bool is_inline = pmd_progress_is_inline();
	char byte;
	int err = 0;

	if (!is_inline)
		cma_device_open_each(expect_sleep, NULL);
	pthread_setcancelstate(cancel, NULL);
	if (is_inline && poll(&readable, 1, INLINE_POLL_MS) < 0)
		err = -errno;
	/* A signal ends or restarts this call by the same rules as a wait in the kernel's device. */
	if (!is_inline && recv(fd, &byte, 1, MSG_PEEK) < 0 && errno != EAGAIN)
		err = -errno;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
	return err;
}

int cma_event_read(struct cma_file *f, int fd, bool block, int cancel, struct rdma_ucm_event_resp *out)
{
	while (!event_take(f, out)) {
		int err = 0;

		/* A non-blocking read does not return the events that this progress brings; the next read does. Between
		 * the two reads, the program can poll its CQs, and get the last message of a connection before it reads
		 * that the connection is disconnected. */
		if (pmd_progress_is_inline())
			cma_device_open_each(progress, NULL);
		err = block ? event_wait(fd, cancel) : -EAGAIN;
		if (err)
			return err;
	}
	return 0;
}
