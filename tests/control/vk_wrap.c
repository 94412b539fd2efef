/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vk_wrap.c - system calls on sockets and descriptors, which the linker diverts to the virtual kernel. Outside a
 * virtual process the functions of this file make the real system calls, as far as test programs need them.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <linux/sock_diag.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <linux/netlink.h>

#include "vk_priv.h"

#ifndef UDP_GRO
#define UDP_GRO 104
#endif
#ifndef SO_ATTACH_REUSEPORT_CBPF
#define SO_ATTACH_REUSEPORT_CBPF 51
#endif

static long set_errno(long rc)
{
	if (rc >= 0)
		return rc;
	errno = (int)-rc;
	return -1;
}

/** Install a descriptor for a new file in the calling process. */
static int give(struct vk_file *f, bool nonblock)
{
	int fd = vk_fd_new(vk_self(), f, 3);

	f->nonblock = nonblock;
	if (fd < 0)
		vk_file_put(f);
	return (int)set_errno(fd);
}

/* ---- sockets ---------------------------------------------------------------------------------------------- */

int __wrap_socket(int domain, int type, int protocol);
int __wrap_socketpair(int domain, int type, int protocol, int fds[2]);
int __wrap_bind(int fd, const struct sockaddr *sa, socklen_t len);
int __wrap_listen(int fd, int backlog);
int __wrap_getsockname(int fd, struct sockaddr *sa, socklen_t *len);
int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len);
int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len);
int __wrap_shutdown(int fd, int how);
ssize_t __wrap_recv(int fd, void *data, size_t len, int flags);
ssize_t __wrap_recvfrom(int fd, void *data, size_t len, int flags, struct sockaddr *from, socklen_t *from_len);
ssize_t __wrap_sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to, socklen_t to_len);
ssize_t __wrap_pread64(int fd, void *data, size_t len, off_t at);
int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_socket(int domain, int type, int protocol)
{
	struct vk_file *f;

	vk_enter();
	if (domain == AF_UNIX && (type & 0xf) == SOCK_SEQPACKET) {
		f = vk_file_new(VK_UNIX);
	} else if (domain == AF_NETLINK && protocol == NETLINK_ROUTE) {
		f = vk_file_new(VK_NETLINK);
		f->u.netlink.netns = vk_self()->who.netns;
	} else if ((domain == AF_INET || domain == AF_INET6) && (type & 0xf) == SOCK_DGRAM) {
		f = vk_file_new(VK_UDP);
		f->u.udp.netns = vk_self()->who.netns;
		f->u.udp.uid = vk_self()->who.uid;
		f->u.udp.v4 = domain == AF_INET;
	} else {
		return (int)set_errno(-EAFNOSUPPORT);
	}
	return give(f, type & SOCK_NONBLOCK);
}

int __wrap_socketpair(int domain, int type, int protocol, int fds[2])
{
	(void)domain, (void)type, (void)protocol;
	vk_enter();
	return (int)set_errno(vk_unix_pair(fds));
}

int __wrap_bind(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct vk_file *f;

	vk_enter();
	f = vk_fd(fd);
	if (!f)
		return -1;
	if (f->kind == VK_NETLINK)
		return 0;
	if (f->kind != VK_UNIX && f->kind != VK_UDP)
		return (int)set_errno(-ENOTSOCK);
	return (int)set_errno(f->kind == VK_UNIX ? vk_unix_bind(f, sa, len) : vk_udp_bind(f, sa, len));
}

int __wrap_listen(int fd, int backlog)
{
	struct vk_file *f;

	vk_enter();
	f = vk_fd(fd);
	if (!f)
		return -1;
	return (int)set_errno(f->kind == VK_UNIX ? vk_unix_listen(f, backlog) : -EOPNOTSUPP);
}

int __wrap_getsockname(int fd, struct sockaddr *sa, socklen_t *len)
{
	struct sockaddr_in6 none = {.sin6_family = AF_UNIX};
	const struct vk_file *f;
	const void *from = &none;
	socklen_t from_len = sizeof(sa_family_t);

	vk_enter();
	f = vk_fd(fd);
	if (!f)
		return -1;
	if (f->kind == VK_UDP) {
		none.sin6_family = f->u.udp.v4 ? AF_INET : AF_INET6;
		from_len = f->u.udp.v4 ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
		if (f->u.udp.bound)
			from = &f->u.udp.self;
	} else if (f->kind != VK_UNIX && f->kind != VK_NETLINK) {
		return (int)set_errno(-ENOTSOCK);
	}
	memcpy(sa, from, *len < from_len ? *len : from_len);
	*len = from_len;
	return 0;
}

static int udp_option(int level, int name, void *value, socklen_t *len)
{
	int v = 1;

	if (level == SOL_SOCKET && name == SO_PROTOCOL)
		v = IPPROTO_UDP;
	else if (level == SOL_SOCKET && name == SO_RCVBUF)
		v = 425984;
	else if (level == SOL_SOCKET && name == SO_MEMINFO)
		return memset(value, 0, *len), 0;
	else if (level != IPPROTO_UDP)
		return -ENOPROTOOPT;
	memcpy(value, &v, sizeof(v));
	*len = sizeof(v);
	return 0;
}

int __wrap_getsockopt(int fd, int level, int name, void *value, socklen_t *len)
{
	struct vk_file *f;

	vk_enter();
	f = vk_fd(fd);
	if (!f)
		return -1;
	if (f->kind == VK_UDP)
		return (int)set_errno(udp_option(level, name, value, len));
	if (f->kind != VK_UNIX)
		return (int)set_errno(f->kind == VK_NETLINK ? -ENOPROTOOPT : -ENOTSOCK);
	return (int)set_errno(level == SOL_SOCKET ? vk_unix_option(f, name, value, len) : -EOPNOTSUPP);
}

int __wrap_setsockopt(int fd, int level, int name, const void *value, socklen_t len)
{
	struct vk_file *f;

	vk_enter();
	f = vk_fd(fd);
	if (!f)
		return -1;
	if (f->kind == VK_UNIX)
		return (int)set_errno(level == SOL_SOCKET ? vk_unix_option_set(f, name, value, len) : -EOPNOTSUPP);
	if (f->kind != VK_UDP)
		return (int)set_errno(f->kind == VK_NETLINK ? -ENOPROTOOPT : -ENOTSOCK);
	if (level == SOL_SOCKET && name == SO_REUSEPORT)
		f->u.udp.shared = true;
	else if (level == SOL_SOCKET && name == SO_ATTACH_REUSEPORT_CBPF)
		return (int)set_errno(vk_udp_attach(f, value, len));
	else if (level == SOL_SOCKET && name == SO_PEEK_OFF)
		return 0; /* ignored: peeking at datagrams is not simulated */
	return 0;
}

int __wrap_shutdown(int fd, int how)
{
	struct vk_file *f;

	(void)how;
	vk_enter();
	f = vk_fd(fd);
	if (!f)
		return -1;
	if (f->kind != VK_UNIX)
		return (int)set_errno(-ENOTSOCK);
	vk_unix_shutdown(f);
	return 0;
}

static long receive_bytes(struct vk_file *f, void *data, size_t len, int flags)
{
	struct iovec iov = {data, len};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	if (f->kind == VK_UNIX)
		return vk_unix_receive(f, &msg, flags);
	if (f->kind == VK_NETLINK) {
		bool news = f->u.netlink.news;

		f->u.netlink.news = false;
		return news ? 16 : -EAGAIN;
	}
	if (f->kind != VK_UDP)
		return -ENOTSOCK;
	if (f->u.udp.count == 0)
		return -EAGAIN;
	f->u.udp.first = (f->u.udp.first + 1) % VK_DATAGRAMS;
	f->u.udp.count--;
	return 12;
}

ssize_t __wrap_recv(int fd, void *data, size_t len, int flags)
{
	struct vk_file *f;

	vk_enter();
	f = vk_fd(fd);
	return f ? set_errno(receive_bytes(f, data, len, flags)) : -1;
}

/** Receive a datagram. Senders are not simulated: the sender's address, and the data, are zeroes. */
ssize_t __wrap_recvfrom(int fd, void *data, size_t len, int flags, struct sockaddr *from, socklen_t *from_len)
{
	ssize_t got = __wrap_recv(fd, data, len, flags);

	if (got >= 0) {
		memset(from, 0, *from_len);
		memset(data, 0, (size_t)got < len ? (size_t)got : len);
	}
	return got;
}

/** Datagrams leave, and arrive nowhere. */
ssize_t __wrap_sendto(int fd, const void *data, size_t len, int flags, const struct sockaddr *to, socklen_t to_len)
{
	vk_enter();
	return vk_fd(fd) ? (ssize_t)len : -1;
}

/** Reads nothing: the daemon reads only records of connection managers with this call, and simulated functions have no
 *  connection manager. */
ssize_t __wrap_pread64(int fd, void *data, size_t len, off_t at)
{
	vk_enter();
	return vk_fd(fd) ? 0 : -1;
}

int __wrap_close(int fd)
{
	if (!vk_self())
		return __real_close(fd);
	vk_enter();
	return (int)set_errno(vk_fd_close(vk_self(), fd));
}

/* ---- descriptors ------------------------------------------------------------------------------------------ */

ssize_t __wrap_read(int fd, void *data, size_t len);
int __wrap_fcntl64(int fd, int what, ...);
int __wrap_dup3(int from, int to, int flags);
int __wrap_ioctl(int fd, unsigned long what, ...);
int __wrap_poll(struct pollfd *p, nfds_t n, int timeout_ms);
int __wrap_timerfd_create(int clock, int flags);
int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old);
int __wrap_signalfd(int fd, const sigset_t *mask, int flags);
int __wrap_eventfd(unsigned count, int flags);

static long read_file(struct vk_file *f, void *data, size_t len)
{
	uint64_t *count = f->kind == VK_EVENT ? &f->u.count : f->kind == VK_TIMER ? &f->u.timer.count : NULL;

	if (f->kind == VK_SIGNAL) {
		if (!f->u.proc->term)
			return -EAGAIN;
		f->u.proc->term = false;
		memset(data, 0, len);
		return sizeof(struct signalfd_siginfo);
	}
	if (!count)
		return receive_bytes(f, data, len, 0);
	if (len < sizeof(*count))
		return -EINVAL;
	if (*count == 0)
		return -EAGAIN;
	memcpy(data, count, sizeof(*count));
	*count = 0;
	return sizeof(*count);
}

ssize_t __real_read(int fd, void *data, size_t len);
ssize_t __wrap_read(int fd, void *data, size_t len)
{
	struct vk_file *f;

	if (!vk_self())
		return __real_read(fd, data, len);
	vk_enter();
	f = vk_fd(fd);
	return f ? set_errno(read_file(f, data, len)) : -1;
}

static long write_file(struct vk_file *f, const void *data, size_t len)
{
	uint64_t count;

	if (f->kind != VK_EVENT || len < sizeof(count))
		return -EINVAL;
	memcpy(&count, data, sizeof(count));
	if (count > UINT64_MAX - 1 - f->u.count)
		return -EAGAIN;
	f->u.count += count;
	vk_notify(f);
	return sizeof(count);
}

int __wrap_fcntl64(int fd, int what, ...)
{
	struct vk_file *f;
	va_list list;
	long arg;
	int to;

	va_start(list, what);
	arg = va_arg(list, long);
	va_end(list);
	vk_enter();
	f = vk_fd(fd);
	if (!f)
		return -1;
	switch (what) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
		to = vk_fd_new(vk_self(), f, (int)arg);
		if (to >= 0)
			vk_file_get(f);
		return (int)set_errno(to);
	case F_GETFL:
		return O_RDWR | (f->nonblock ? O_NONBLOCK : 0);
	case F_SETFL:
		f->nonblock = arg & O_NONBLOCK;
		return 0;
	case F_ADD_SEALS:
		if (f->kind != VK_MEMFD)
			return (int)set_errno(-EINVAL);
		f->u.mem.seals |= (int)arg;
		return 0;
	case F_GET_SEALS:
		return f->kind == VK_MEMFD ? f->u.mem.seals : (int)set_errno(-EINVAL);
	default:
		return 0;
	}
}

int __wrap_dup3(int from, int to, int flags)
{
	struct vk_file *f;
	struct vk_proc *p = vk_self();

	(void)flags;
	vk_enter();
	f = vk_fd(from);
	if (!f || to < 0 || (unsigned)to >= p->nofile)
		return (int)set_errno(-EBADF);
	vk_file_get(f);
	if (vk_descriptor(p, to))
		vk_fd_close(p, to);
	p->fds[to] = f;
	p->n_fds++;
	if (to >= p->fd_end)
		p->fd_end = to + 1;
	return to;
}

int __wrap_ioctl(int fd, unsigned long what, ...)
{
	struct vk_file *f;
	va_list list;
	int *out;

	va_start(list, what);
	out = va_arg(list, int *);
	va_end(list);
	vk_enter();
	f = vk_fd(fd);
	if (!f || f->kind != VK_UNIX || what != SIOCOUTQ)
		return (int)set_errno(-EINVAL);
	*out = (int)f->u.un.under_way;
	return 0;
}

int __wrap_poll(struct pollfd *p, nfds_t n, int timeout_ms)
{
	uint64_t until_ns;

	vk_enter();
	until_ns = timeout_ms < 0 ? UINT64_MAX : vk.now_ns + (uint64_t)timeout_ms * VK_MS;
	if (n > VK_WAITS)
		vk_bug("too many descriptors to wait for");
	for (;;) {
		const void *channels[VK_WAITS];
		int ready = 0;

		for (nfds_t i = 0; i < n; i++) {
			struct vk_file *f = vk_fd(p[i].fd);

			p[i].revents = f ? (short)(vk_poll(f) & ((unsigned)p[i].events | POLLERR | POLLHUP)) : POLLNVAL;
			ready += p[i].revents != 0;
			channels[i] = f;
		}
		if (ready || timeout_ms == 0 || !vk_block(channels, (unsigned)n, until_ns))
			return ready;
	}
}

int __wrap_timerfd_create(int clock, int flags)
{
	(void)clock;
	vk_enter();
	return give(vk_file_new(VK_TIMER), flags & TFD_NONBLOCK);
}

int __wrap_timerfd_settime(int fd, int flags, const struct itimerspec *new, struct itimerspec *old)
{
	struct vk_file *f;
	uint64_t in_ns = (uint64_t) new->it_value.tv_sec *VK_S + (uint64_t) new->it_value.tv_nsec;

	(void)flags, (void)old;
	vk_enter();
	f = vk_fd(fd);
	if (!f || f->kind != VK_TIMER)
		return (int)set_errno(-EINVAL);
	f->u.timer.count = 0;
	f->u.timer.due_ns = in_ns ? vk.now_ns + in_ns : 0;
	if (in_ns && f->u.timer.due_ns < vk.timer_ns)
		vk.timer_ns = f->u.timer.due_ns;
	return 0;
}

int __wrap_signalfd(int fd, const sigset_t *mask, int flags)
{
	struct vk_file *f;

	(void)fd, (void)mask;
	vk_enter();
	f = vk_file_new(VK_SIGNAL);
	f->u.proc = vk_self();
	return give(f, flags & SFD_NONBLOCK);
}

int __wrap_eventfd(unsigned count, int flags)
{
	struct vk_file *f;

	vk_enter();
	f = vk_file_new(VK_EVENT);
	f->u.count = count;
	return give(f, flags & O_NONBLOCK);
}

/* ---- calls by number -------------------------------------------------------------------------------------- */

long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

int __wrap_epoll_create1(int flags);
int __wrap_epoll_ctl(int set_fd, int op, int fd, struct epoll_event *event);
int __wrap_epoll_wait(int set_fd, struct epoll_event *events, int max, int timeout_ms);

/** Execute a system call by its number, as syscall() does. */
static long call(long number, const long a[6])
{
	struct vk_file *f;

	switch (number) {
	case SYS_gettid:
		return vk_self()->pid;
	case SYS_socket:
		return __wrap_socket((int)a[0], (int)a[1], (int)a[2]);
	case SYS_epoll_create1:
		return __wrap_epoll_create1((int)a[0]);
	case SYS_epoll_ctl:
		return __wrap_epoll_ctl((int)a[0], (int)a[1], (int)a[2], (struct epoll_event *)a[3]);
	case SYS_epoll_pwait:
		return __wrap_epoll_wait((int)a[0], (struct epoll_event *)a[1], (int)a[2], (int)a[3]);
	default:
		break;
	}
	vk_enter();
	if (number == SYS_process_vm_readv) {
		/* All virtual processes share one real address space, so read our own memory: unmapped ranges fail as
		 * they should. */
		const struct vk_proc *p = vk_proc_find((pid_t)a[0]);

		if (!p || p->state >= PROC_ENDS)
			return set_errno(-ESRCH);
		return __real_syscall(number, getpid(), a[1], a[2], a[3], a[4], a[5]);
	}
	f = vk_fd((int)a[0]);
	if (!f)
		return -1;
	if (number == SYS_read)
		return set_errno(read_file(f, (void *)a[1], (size_t)a[2]));
	if (number == SYS_write)
		return set_errno(write_file(f, (const void *)a[1], (size_t)a[2]));
	if (number == SYS_recvfrom)
		return set_errno(receive_bytes(f, (void *)a[1], (size_t)a[2], (int)a[3]));
	if (f->kind != VK_UNIX)
		return set_errno(f->kind == VK_NETLINK || f->kind == VK_UDP ? -EAGAIN : -ENOTSOCK);
	switch (number) {
	case SYS_sendmsg:
		return set_errno(vk_unix_send(f, (const struct msghdr *)a[1], (int)a[2]));
	case SYS_recvmsg:
		return set_errno(vk_unix_receive(f, (struct msghdr *)a[1], (int)a[2]));
	case SYS_connect:
		return set_errno(vk_unix_connect(f, (const struct sockaddr *)a[1], (socklen_t)a[2]));
	case SYS_accept4:
		return set_errno(vk_unix_accept(f));
	default:
		vk_bug("a system call that it does not know");
	}
}

/* Like syscall() of the C library, always reads six arguments, even if fewer were passed. */
__attribute__((no_sanitize("address"))) long __wrap_syscall(long number, ...)
{
	va_list list;
	long a[6];

	va_start(list, number);
	for (unsigned i = 0; i < 6; i++)
		a[i] = va_arg(list, long);
	va_end(list);
	return vk_self() ? call(number, a) : __real_syscall(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
