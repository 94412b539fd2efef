/* SPDX-License-Identifier: BSD-3-Clause */
/* vk_priv.h - internals of the virtual kernel, shared by the vk_*.c files. */
#ifndef CONTROL_VK_PRIV_H
#define CONTROL_VK_PRIV_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <ucontext.h>

#include <linux/filter.h>

#include "vk.h"

#define VK_FDS	     2048 /* most descriptors of a process, whatever its limit */
#define VK_PROCS     512
#define VK_THREADS   1024
#define VK_WAITS     4
#define VK_STACK     (192 * 1024)
#define VK_FDS_SENT  253 /* most descriptors in a message, as in Linux */
#define VK_UIDS	     8
#define VK_IFACES    8
#define VK_ADDRESSES 24
#define VK_DATAGRAMS 64
#define VK_GROUP_MAX 1024
#define VK_CALL_NS   1000
#define VK_CLOCK_NS  50

/* ---- files ------------------------------------------------------------------------------------------------ */

struct vk_message {
	struct vk_message *next;
	struct vk_file *sender; /* its send buffer is credited when the message is freed; NULL: closed */
	uid_t uid;		/* user charged for the descriptors in flight */
	size_t cost;
	unsigned n_files;
	struct vk_file **files;
	size_t len;
	uint8_t data[];
};

enum vk_unix_state { UNIX_NEW, UNIX_BOUND, UNIX_LISTENS, UNIX_CONNECTED };

struct vk_unix {
	enum vk_unix_state state;
	unsigned netns;
	char name[108]; /* abstract name, without the leading zero byte; "": none */
	size_t name_len;
	struct vk_file *peer; /* other end of the connection; NULL: closed */
	bool ended;	      /* the other end is closed or shut down */
	int error;	      /* pending error, which the next receive reports */
	struct vk_message *first, **last;
	size_t under_way, sndbuf;
	unsigned n_sent; /* messages sent and not yet received by the peer */
	int peek_off;	 /* SO_PEEK_OFF; -1: not set */
	/* Credentials of the process that created the socket, and of the peer. */
	struct vk_cred {
		pid_t pid;
		unsigned container;
		uid_t uid;
	} self, other;
	struct vk_file *backlog; /* of a listening socket: connections not yet accepted */
	struct vk_file **backlog_last, *backlog_next;
	unsigned n_backlog, backlog_max;
};

struct vk_udp {
	unsigned netns;
	uid_t uid;
	bool v4, bound, shared;
	struct sockaddr_in6 self;
	socklen_t self_len;
	struct nic_gid gid;
	struct vk_group *group;
	struct vk_datagram queue[VK_DATAGRAMS];
	unsigned first, count;
	uint64_t dropped;
};

/** The sockets that share the UDP port of an address. */
struct vk_group {
	struct vk_group *next;
	unsigned netns;
	struct nic_gid gid;
	uint32_t scope; /* index of the interface of a link-local address; else 0 */
	unsigned n, n_code;
	struct vk_file *socks[VK_GROUP_MAX];
	struct sock_filter *code;
};

/** A file registered in an epoll set. */
struct vk_item {
	struct vk_file *set, *file;
	int fd;
	uint32_t events;
	uint64_t data;
	bool ready; /* the item is in the set's ready list */
	struct vk_item *next_of_file, *next_of_set, *next_ready;
};

struct vk_file {
	enum vk_kind kind;
	unsigned refs;	 /* references by descriptors, messages and mappings */
	unsigned marked; /* last run of the garbage collector that reached the file */
	bool nonblock;
	uint64_t id;
	struct vk_file *next, *prev; /* list of all files */
	struct vk_item *watchers;
	union {
		struct vk_unix un;
		struct vk_udp udp;
		struct {
			struct vk_item *items, *first_ready, **last_ready;
		} epoll;
		struct {
			uint64_t due_ns, count; /* due_ns 0: not armed */
		} timer;
		uint64_t count;	      /* VK_EVENT */
		struct vk_proc *proc; /* VK_SIGNAL */
		struct {
			uint8_t *memory;
			size_t size;
			int seals;
		} mem;
		struct {
			unsigned netns;
			bool news;
		} netlink;
	} u;
};

/* ---- processes -------------------------------------------------------------------------------------------- */

struct vk_thread {
	struct vk_proc *proc;
	ucontext_t context;
	void *stack, *fake_stack;
	void (*run)(void *);
	void *arg;
	bool blocked, timed_out, started;
	uint64_t wake_ns;
	const void *waits[VK_WAITS];
	int error; /* the thread's errno */
};

enum vk_state { PROC_RUNS, PROC_PAUSED, PROC_ENDS, PROC_GONE };

struct vk_allocation;

struct vk_proc {
	enum vk_state state;
	bool term; /* SIGTERM is pending */
	bool killed;
	pid_t pid;
	struct vk_identity who;
	char command[16];
	struct vk_file *fds[VK_FDS];
	int fd_end; /* one past the highest open descriptor */
	unsigned n_fds, nofile;
	struct vk_mapping {
		struct vk_mapping *next;
		struct vk_file *file;
	} * mappings;
	struct vk_allocation *allocations;
	size_t allocated;
	uint64_t calls, kill_at, pause_at;
	uint64_t continued_ns; /* when it last went on after a stop */
};

struct vk_iface {
	unsigned netns, index;
	char name[16]; /* "": unused entry */
	bool up;
	unsigned n;
	struct nic_gid gids[VK_ADDRESSES];
};

struct vk {
	struct vk_config config;
	bool running;
	uint64_t now_ns, next_id, turns;
	struct rng rng;
	struct vk_proc *procs[VK_PROCS];
	unsigned n_procs;
	pid_t next_pid;
	struct vk_thread *threads[VK_THREADS];
	unsigned n_threads;
	struct vk_thread *current;
	ucontext_t scheduler;
	void *scheduler_fake_stack;
	struct vk_file *files;
	unsigned n_files, mark;
	unsigned in_flight[VK_UIDS];
	uint64_t too_many;
	struct vk_group *groups;
	struct vk_iface ifaces[VK_IFACES];
	bool addresses_silent;
	uint64_t timer_ns; /* no timer is due before this time */
};
extern struct vk vk;

/* Allocators for the virtual kernel's own memory, which is charged to no process. */
void *__real_calloc(size_t n, size_t size);
void __real_free(void *memory);

static inline void *vk_zalloc(size_t size)
{
	void *memory = __real_calloc(1, size);

	if (!memory)
		__builtin_abort();
	return memory;
}

/* vk_sched.c */
/** To be called at the start of each system call: advances the clock, and may kill or stop the process, or yield. */
void vk_enter(void);
/** Yield the CPU. */
void vk_yield(void);
_Noreturn void vk_die(void);
/** Let the current thread wait for a vk_wake() on any of these channels, or until `until_ns`. @return false: timed
 *  out. */
bool vk_block(const void *const *channels, unsigned n, uint64_t until_ns);
unsigned vk_uid_index(uid_t uid);
struct vk_proc *vk_proc_find(pid_t pid);
_Noreturn void vk_bug(const char *what);

/* vk_file.c */
struct vk_file *vk_file_new(enum vk_kind kind);
void vk_file_get(struct vk_file *f);
void vk_file_put(struct vk_file *f);
/** Install file `f` at the lowest free descriptor >= `least` of `p`. On success the descriptor owns the caller's
 *  reference. @return the descriptor, or -EMFILE. */
int vk_fd_new(struct vk_proc *p, struct vk_file *f, int least);
struct vk_file *vk_fd(int fd);
int vk_fd_close(struct vk_proc *p, int fd);
uint32_t vk_poll(const struct vk_file *f);
/** To be called when the file's readiness may have changed: wakes waiting threads, and updates epoll sets. */
void vk_notify(struct vk_file *f);
void vk_collect(void);

/* vk_unix.c */
void vk_unix_release(struct vk_file *f);
uint32_t vk_unix_poll(const struct vk_file *f);
struct vk_message *vk_unix_messages(const struct vk_file *f);
long vk_unix_connect(struct vk_file *f, const struct sockaddr *sa, socklen_t len);
long vk_unix_accept(struct vk_file *f);
long vk_unix_send(struct vk_file *f, const struct msghdr *msg, int flags);
long vk_unix_receive(struct vk_file *f, struct msghdr *msg, int flags);
int vk_unix_bind(struct vk_file *f, const struct sockaddr *sa, socklen_t len);
int vk_unix_listen(struct vk_file *f, int backlog);
int vk_unix_pair(int fds[2]);
int vk_unix_option(struct vk_file *f, int name, void *value, socklen_t *len);
int vk_unix_option_set(struct vk_file *f, int name, const void *value, socklen_t len);
void vk_unix_shutdown(struct vk_file *f);
void vk_unix_init(struct vk_file *f);
/** Print the UNIX sockets in the format of /proc/net/unix. */
void vk_unix_list(FILE *to, unsigned netns);

/* vk_udp.c */
void vk_udp_release(struct vk_file *f);
int vk_udp_bind(struct vk_file *f, const struct sockaddr *sa, socklen_t len);
int vk_udp_attach(struct vk_file *f, const void *value, socklen_t len);
void vk_udp_stop(void);
/** Print the UDP sockets in the format of /proc/net/udp and udp6. */
void vk_udp_list(FILE *to, unsigned netns, bool v4);

/* vk_memory.c */
void vk_memory_drop(struct vk_proc *p);

#endif
