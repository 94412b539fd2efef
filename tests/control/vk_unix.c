/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vk_unix.c - AF_UNIX SOCK_SEQPACKET sockets of the virtual kernel: abstract names, backlogs, queues, descriptors in
 * messages, peer credentials. The end of a connection is reported as in Linux, with errors and remaining messages in
 * the same order.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/un.h>

#include "vk_priv.h"

#define SNDBUF_MAX   (2 * 212992)
#define MESSAGE_COST 768 /* the kernel's overhead per message */

void vk_unix_init(struct vk_file *f)
{
	struct vk_unix *u = &f->u.un;
	const struct vk_proc *p = vk_self();

	u->last = &u->first;
	u->backlog_last = &u->backlog;
	u->sndbuf = vk.config.sndbuf;
	u->peek_off = -1;
	if (p) {
		u->netns = p->who.netns;
		u->self = (struct vk_cred){p->pid, p->who.container, p->who.uid};
	}
}

/* ---- messages --------------------------------------------------------------------------------------------- */

struct vk_message *vk_unix_messages(const struct vk_file *f)
{
	return f->u.un.first;
}

/** Free a message, and credit its sender and user; if `files`, also drop the references to its files. */
static void message_free(struct vk_message *m, bool files)
{
	vk.in_flight[vk_uid_index(m->uid)] -= m->n_files;
	if (m->sender) {
		m->sender->u.un.under_way -= m->cost;
		m->sender->u.un.n_sent--;
		vk_notify(m->sender);
	}
	for (unsigned i = 0; files && i < m->n_files; i++)
		vk_file_put(m->files[i]);
	__real_free(m->files);
	__real_free(m);
}

static void queue_drop(struct vk_file *f)
{
	struct vk_message *m = f->u.un.first;

	f->u.un.first = NULL;
	f->u.un.last = &f->u.un.first;
	while (m) {
		struct vk_message *next = m->next;

		message_free(m, true);
		m = next;
	}
}

/** Remove `f` as the sender of all messages that it has sent. */
static void sender_forget(struct vk_file *f)
{
	if (f->u.un.n_sent == 0)
		return;
	for (struct vk_file *other = vk.files; other; other = other->next) {
		if (other->kind != VK_UNIX)
			continue;
		for (struct vk_message *m = other->u.un.first; m; m = m->next)
			if (m->sender == f)
				m->sender = NULL;
	}
	f->u.un.n_sent = 0;
}

static void connection_end(struct vk_file *f, bool reset)
{
	struct vk_file *peer = f->u.un.peer;

	if (!peer)
		return;
	f->u.un.peer = NULL;
	peer->u.un.peer = NULL;
	peer->u.un.ended = true;
	if (reset)
		peer->u.un.error = ECONNRESET;
	vk_notify(peer);
}

void vk_unix_release(struct vk_file *f)
{
	struct vk_unix *u = &f->u.un;

	connection_end(f, u->first != NULL);
	u->ended = true;
	while (u->backlog) {
		struct vk_file *waiting = u->backlog;

		u->backlog = waiting->u.un.backlog_next;
		connection_end(waiting, true);
		vk_file_put(waiting);
	}
	u->backlog_last = &u->backlog;
	u->n_backlog = 0;
	u->name[0] = '\0';
	if (u->state == UNIX_LISTENS || u->state == UNIX_BOUND)
		u->state = UNIX_NEW;
	sender_forget(f);
	f->refs++; /* a message in the socket's own queue can hold a reference to the socket */
	queue_drop(f);
	f->refs--;
}

uint32_t vk_unix_poll(const struct vk_file *f)
{
	const struct vk_unix *u = &f->u.un;
	uint32_t events = 0;

	if (u->state == UNIX_LISTENS)
		return u->backlog ? EPOLLIN : 0;
	if (u->state != UNIX_CONNECTED)
		return EPOLLHUP | EPOLLOUT;
	if (u->error)
		events |= EPOLLERR;
	if (u->first || u->ended)
		events |= EPOLLIN;
	if (u->ended)
		events |= EPOLLHUP | EPOLLRDHUP;
	if (u->under_way * 4 <= u->sndbuf)
		events |= EPOLLOUT;
	return events;
}

struct vk_proc *vk_peer(const struct vk_file *f)
{
	return vk_proc_find(f->u.un.other.pid);
}

bool vk_is_connected(const struct vk_file *f)
{
	return f->kind == VK_UNIX && f->u.un.peer;
}

/* ---- names and connections -------------------------------------------------------------------------------- */

static bool name_of(const struct sockaddr *sa, socklen_t len, struct vk_unix *out)
{
	const struct sockaddr_un *un = (const struct sockaddr_un *)(const void *)sa;
	size_t at = offsetof(struct sockaddr_un, sun_path);

	if (len <= at + 1 || un->sun_family != AF_UNIX || un->sun_path[0] != '\0')
		return false;
	out->name_len = len - at - 1;
	memcpy(out->name, un->sun_path + 1, out->name_len);
	out->name[out->name_len] = '\0';
	return true;
}

static struct vk_file *find(unsigned netns, const char *name)
{
	for (struct vk_file *f = vk.files; f; f = f->next)
		if (f->kind == VK_UNIX && f->u.un.state != UNIX_CONNECTED && f->u.un.netns == netns &&
		    f->u.un.name[0] && strcmp(f->u.un.name, name) == 0)
			return f;
	return NULL;
}

int vk_unix_bind(struct vk_file *f, const struct sockaddr *sa, socklen_t len)
{
	struct vk_unix name = {0};

	if (f->u.un.state != UNIX_NEW || !name_of(sa, len, &name))
		return -EINVAL;
	if (find(f->u.un.netns, name.name))
		return -EADDRINUSE;
	memcpy(f->u.un.name, name.name, sizeof(name.name));
	f->u.un.name_len = name.name_len;
	f->u.un.state = UNIX_BOUND;
	return 0;
}

int vk_unix_listen(struct vk_file *f, int backlog)
{
	const struct vk_proc *p = vk_self();

	if (f->u.un.state != UNIX_BOUND && f->u.un.state != UNIX_LISTENS)
		return -EINVAL;
	f->u.un.state = UNIX_LISTENS;
	f->u.un.backlog_max = (unsigned)backlog;
	f->u.un.self = (struct vk_cred){p->pid, p->who.container, p->who.uid};
	return 0;
}

const char *vk_listens(const struct vk_file *f)
{
	return f->kind == VK_UNIX && f->u.un.state == UNIX_LISTENS ? f->u.un.name : NULL;
}

static void join(struct vk_file *a, struct vk_file *b)
{
	a->u.un.state = b->u.un.state = UNIX_CONNECTED;
	a->u.un.peer = b;
	b->u.un.peer = a;
	a->u.un.other = b->u.un.self;
	b->u.un.other = a->u.un.self;
}

long vk_unix_connect(struct vk_file *f, const struct sockaddr *sa, socklen_t len)
{
	struct vk_unix name = {0};
	struct vk_file *to, *end;
	const struct vk_proc *p = vk_self();

	if (!name_of(sa, len, &name))
		return -EINVAL;
	if (f->u.un.state == UNIX_CONNECTED)
		return -EISCONN;
	if (f->u.un.state == UNIX_LISTENS)
		return -EINVAL;
	to = find(f->u.un.netns, name.name);
	if (!to || to->u.un.state != UNIX_LISTENS)
		return -ECONNREFUSED;
	if (to->u.un.n_backlog > to->u.un.backlog_max)
		return -EAGAIN;
	end = vk_file_new(VK_UNIX);
	end->u.un.netns = to->u.un.netns;
	end->u.un.self = to->u.un.self;
	f->u.un.self = (struct vk_cred){p->pid, p->who.container, p->who.uid};
	join(f, end);
	*to->u.un.backlog_last = end;
	to->u.un.backlog_last = &end->u.un.backlog_next;
	to->u.un.n_backlog++;
	vk_notify(to);
	return 0;
}

long vk_unix_accept(struct vk_file *f)
{
	struct vk_file *end = f->u.un.backlog;
	int fd;

	if (f->u.un.state != UNIX_LISTENS)
		return -EINVAL;
	/* Check for a free descriptor first: without one, the connection stays in the backlog. */
	fd = vk_fd_new(vk_self(), f, 3);
	if (fd < 0)
		return fd;
	vk_self()->fds[fd] = NULL;
	vk_self()->n_fds--;
	if (!end)
		return -EAGAIN;
	f->u.un.backlog = end->u.un.backlog_next;
	if (!f->u.un.backlog)
		f->u.un.backlog_last = &f->u.un.backlog;
	end->u.un.backlog_next = NULL;
	f->u.un.n_backlog--;
	vk_self()->fds[fd] = end;
	vk_self()->n_fds++;
	return fd;
}

int vk_unix_pair(int fds[2])
{
	struct vk_file *a = vk_file_new(VK_UNIX), *b = vk_file_new(VK_UNIX);
	struct vk_proc *p = vk_self();

	join(a, b);
	fds[0] = vk_fd_new(p, a, 3);
	fds[1] = fds[0] < 0 ? -EMFILE : vk_fd_new(p, b, 3);
	if (fds[1] >= 0)
		return 0;
	if (fds[0] >= 0)
		vk_fd_close(p, fds[0]);
	else
		vk_file_put(a);
	vk_file_put(b);
	return -EMFILE;
}

void vk_unix_shutdown(struct vk_file *f)
{
	connection_end(f, false);
	f->u.un.ended = true;
	vk_notify(f);
}

/* ---- sending ---------------------------------------------------------------------------------------------- */

static size_t iov_bytes(const struct msghdr *msg)
{
	size_t len = 0;

	for (size_t i = 0; i < msg->msg_iovlen; i++)
		len += msg->msg_iov[i].iov_len;
	return len;
}

/** Look up the files whose descriptors a message to send contains. @return their number, or -EBADF. */
static int files_take(const struct msghdr *msg, struct vk_file **files)
{
	int n = 0;

	for (struct cmsghdr *c = msg->msg_control ? CMSG_FIRSTHDR(msg) : NULL; c;
	     c = CMSG_NXTHDR((struct msghdr *)(uintptr_t)msg, c)) {
		size_t count = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);

		for (size_t i = 0; i < count && n < VK_FDS_SENT; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(int), sizeof(int));
			files[n] = vk_fd(fd);
			if (!files[n])
				return -EBADF;
			n++;
		}
	}
	return n;
}

long vk_unix_send(struct vk_file *f, const struct msghdr *msg, int flags)
{
	struct vk_file *files[VK_FDS_SENT], *peer = f->u.un.peer;
	const struct vk_proc *p = vk_self();
	size_t len = iov_bytes(msg), at = 0;
	int n = files_take(msg, files);
	struct vk_message *m;

	(void)flags;
	if (n < 0)
		return n;
	if (f->u.un.error) {
		int error = f->u.un.error;

		f->u.un.error = 0;
		return -error;
	}
	if (f->u.un.state != UNIX_CONNECTED)
		return -ENOTCONN;
	if (!peer || f->u.un.ended)
		return -EPIPE;
	if (len > SNDBUF_MAX - 32)
		return -EMSGSIZE;
	if (f->u.un.under_way >= f->u.un.sndbuf)
		return -EAGAIN;
	if (n > 0 && p->who.uid != 0 && vk.in_flight[vk_uid_index(p->who.uid)] > p->nofile) {
		vk.too_many++;
		return -ETOOMANYREFS;
	}
	m = vk_zalloc(sizeof(*m) + len);
	m->files = vk_zalloc((size_t)(n ? n : 1) * sizeof(*files));
	m->uid = p->who.uid;
	m->sender = f;
	m->cost = MESSAGE_COST + (len + 511) / 512 * 512;
	m->n_files = (unsigned)n;
	m->len = len;
	for (int i = 0; i < n; i++) {
		m->files[i] = files[i];
		vk_file_get(files[i]);
	}
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		memcpy(m->data + at, msg->msg_iov[i].iov_base, msg->msg_iov[i].iov_len);
		at += msg->msg_iov[i].iov_len;
	}
	vk.in_flight[vk_uid_index(m->uid)] += m->n_files;
	f->u.un.under_way += m->cost;
	f->u.un.n_sent++;
	*peer->u.un.last = m;
	peer->u.un.last = &m->next;
	vk_notify(peer);
	return (long)len;
}

/* ---- receiving -------------------------------------------------------------------------------------------- */

/** Install descriptors in the receiving process for the files of a message, as many as fit. */
static void files_give(struct vk_message *m, struct msghdr *msg, int flags)
{
	struct cmsghdr *c = msg->msg_control ? CMSG_FIRSTHDR(msg) : NULL;
	size_t room = c && msg->msg_controllen >= CMSG_LEN(sizeof(int))
			      ? (msg->msg_controllen - CMSG_LEN(0)) / sizeof(int)
			      : 0;
	unsigned n = 0;

	while (n < m->n_files && n < room) {
		int fd = vk_fd_new(vk_self(), m->files[n], 3);

		if (fd < 0)
			break;
		vk_file_get(m->files[n]);
		memcpy(CMSG_DATA(c) + n * sizeof(int), &fd, sizeof(int));
		n++;
	}
	if (n < m->n_files)
		msg->msg_flags |= MSG_CTRUNC;
	if (n > 0) {
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n * sizeof(int));
		msg->msg_controllen = msg->msg_controllen < CMSG_SPACE(n * sizeof(int)) ? msg->msg_controllen
											: CMSG_SPACE(n * sizeof(int));
	} else {
		msg->msg_controllen = 0;
	}
	(void)flags;
}

/** @return the next message to receive or peek at. @param skip gets the offset in this message at which to begin. */
static struct vk_message **next_message(struct vk_file *f, bool peek, size_t *skip)
{
	struct vk_message **at = &f->u.un.first;
	size_t off = peek && f->u.un.peek_off > 0 ? (size_t)f->u.un.peek_off : 0;

	while (*at && off >= (*at)->len && (off > 0 || f->u.un.peek_off > 0)) {
		off -= (*at)->len;
		at = &(*at)->next;
	}
	*skip = off;
	return at;
}

static size_t copy_out(const struct vk_message *m, size_t skip, struct msghdr *msg)
{
	size_t at = skip;

	for (size_t i = 0; i < msg->msg_iovlen && at < m->len; i++) {
		size_t part = m->len - at < msg->msg_iov[i].iov_len ? m->len - at : msg->msg_iov[i].iov_len;

		memcpy(msg->msg_iov[i].iov_base, m->data + at, part);
		at += part;
	}
	if (at < m->len)
		msg->msg_flags |= MSG_TRUNC;
	return at - skip;
}

long vk_unix_receive(struct vk_file *f, struct msghdr *msg, int flags)
{
	bool peek = flags & MSG_PEEK;
	struct vk_message **at, *m;
	size_t skip, len;

	msg->msg_flags = 0;
	if (f->u.un.error) {
		int error = f->u.un.error;

		f->u.un.error = 0;
		return -error;
	}
	if (f->u.un.state != UNIX_CONNECTED)
		return -ENOTCONN;
	at = next_message(f, peek, &skip);
	m = *at;
	if (!m) {
		msg->msg_controllen = 0;
		return f->u.un.ended ? 0 : -EAGAIN;
	}
	len = copy_out(m, skip, msg);
	files_give(m, msg, flags);
	if (peek) {
		if (f->u.un.peek_off >= 0)
			f->u.un.peek_off += (int)len;
		return (long)len;
	}
	if (f->u.un.peek_off > 0)
		f->u.un.peek_off = f->u.un.peek_off > (int)m->len ? f->u.un.peek_off - (int)m->len : 0;
	*at = m->next;
	if (!m->next)
		f->u.un.last = at;
	message_free(m, true);
	return (long)len;
}

/* ---- options ---------------------------------------------------------------------------------------------- */

int vk_unix_option(struct vk_file *f, int name, void *value, socklen_t *len)
{
	const struct vk_proc *p = vk_self();

	if (name == SO_PEERCRED) {
		struct ucred cred = {.uid = f->u.un.other.uid, .gid = f->u.un.other.uid};

		/* A process sees the PIDs of its own container; the host sees all PIDs. */
		if (p->who.container == 0 || p->who.container == f->u.un.other.container)
			cred.pid = f->u.un.other.pid;
		memcpy(value, &cred, sizeof(cred));
		*len = sizeof(cred);
		return 0;
	}
	if (name == SO_PROTOCOL || name == SO_SNDBUF) {
		int v = name == SO_SNDBUF ? (int)f->u.un.sndbuf : 0;

		memcpy(value, &v, sizeof(v));
		*len = sizeof(v);
		return 0;
	}
	if (name == SO_PEEK_OFF) {
		memcpy(value, &f->u.un.peek_off, sizeof(int));
		*len = sizeof(int);
		return 0;
	}
	return name == 59 /* SO_PEERGROUPS */ ? (*len = 0, 0) : -ENOPROTOOPT;
}

int vk_unix_option_set(struct vk_file *f, int name, const void *value, socklen_t len)
{
	int v = 0;

	if (len >= sizeof(v))
		memcpy(&v, value, sizeof(v));
	if (name == SO_PEEK_OFF)
		f->u.un.peek_off = v;
	else if (name == SO_SNDBUF)
		f->u.un.sndbuf = (size_t)v * 2 < SNDBUF_MAX ? (size_t)v * 2 : SNDBUF_MAX;
	else if (name != SO_PASSCRED)
		return -ENOPROTOOPT;
	return 0;
}

void vk_unix_list(FILE *to, unsigned netns)
{
	fputs("Num       RefCount Protocol Flags    Type St Inode Path\n", to);
	for (const struct vk_file *f = vk.files; f; f = f->next)
		if (f->kind == VK_UNIX && f->u.un.netns == netns && f->u.un.name[0] && f->u.un.state != UNIX_CONNECTED)
			fprintf(to, "0000000000000000: 00000002 00000000 %s 0005 01 %llu @%s\n",
				f->u.un.state == UNIX_LISTENS ? "00010000" : "00000000", (unsigned long long)f->id,
				f->u.un.name);
}

unsigned vk_in_flight(uid_t uid)
{
	return vk.in_flight[vk_uid_index(uid)];
}

uint64_t vk_too_many(void)
{
	return vk.too_many;
}
