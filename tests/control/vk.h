/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vk.h - the interface of a virtual kernel on which the real control plane runs in tests.
 *
 * The sources of the daemon and of a function's control side are linked unchanged. The linker (--wrap, vk_wrap.c)
 * diverts their system calls to a kernel in this process. This kernel has processes with descriptor tables, users and
 * containers; AF_UNIX SOCK_SEQPACKET sockets, UDP sockets in SO_REUSEPORT groups with classic BPF programs, epoll sets,
 * timers, memfds, netlink; and a clock. Threads of virtual processes are coroutines. Every system call takes virtual
 * time; at each system call, another thread may be scheduled, or the process may stop or die. One random stream makes
 * all these decisions, so a run can be repeated exactly.
 *
 *   vk_sched.c   processes, threads, the clock, scheduling
 *   vk_file.c    descriptors and the files they refer to, epoll sets
 *   vk_unix.c    AF_UNIX sockets, descriptors in messages
 *   vk_udp.c     UDP sockets, groups, programs; interfaces and their addresses
 *   vk_memory.c  allocations of a process, freed when it ends
 *   vk_wrap*.c   the system calls
 *
 * Not modelled: signals other than SIGTERM to a signalfd, user namespaces, several CPUs.
 */
#ifndef CONTROL_VK_H
#define CONTROL_VK_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "../sim/rng.h"
#include "nic.h"

#define VK_MS 1000000ull
#define VK_S  1000000000ull

struct vk_proc;
struct vk_file;

/** Credentials and namespaces of a process. */
struct vk_identity {
	uid_t uid;
	unsigned netns;
	unsigned container; /* 0: the host, which sees the PIDs of all processes */
	const char *allow;  /* UROCE_ALLOW; NULL: not set */
};

/** Configuration of a run. */
struct vk_config {
	uint64_t seed;
	unsigned preempt;      /* permille of system calls at which the thread yields */
	unsigned sndbuf;       /* send buffer of a socket, bytes */
	unsigned nofile;       /* descriptor limit of a process */
	unsigned program_room; /* maximum instructions of a BPF program; 0: 4096 */
	bool slow_exit;	       /* an ending process closes its descriptors one by one, while other processes run */
	bool fuzz;	       /* for fuzzing: threads yield only in calls that wait */
};

void vk_start(const struct vk_config *config);
/** End all processes and free everything. */
void vk_stop(void);

uint64_t vk_now_ns(void);
/** Run threads until `until_ns`, for at most `turns` turns. In a turn, one thread runs until it yields, or an ending
 *  process releases resources. @return false: the turns ran out first. */
bool vk_run(uint64_t until_ns, uint64_t turns);
/** Run until every thread waits, without advancing the clock to a deadline. */
void vk_run_ready(void);

/** Called at every point of points.def that a process passes. */
extern void (*vk_on_point)(struct vk_proc *proc, int point);

/* ---- processes ------------------------------------------------------------------------------------------- */

struct vk_proc *vk_spawn(const struct vk_identity *who, const char *command, void (*run)(void *), void *arg);
/** Start another thread in the calling process. */
void vk_thread_start(void (*run)(void *), void *arg);
/** Fork the calling process, with its descriptors. In the child, `first` runs before any other thread can run, and then
 *  `run`. */
struct vk_proc *vk_fork(void (*first)(void *), void (*run)(void *), void *arg);
void vk_kill(struct vk_proc *p);
/** Send SIGTERM, which the process sees only through a signalfd. */
void vk_terminate(struct vk_proc *p);
void vk_pause(struct vk_proc *p);
void vk_continue(struct vk_proc *p);
/** Kill or stop a process at its `calls`-th system call from now. vk_kill_in: `calls` = 0 cancels an earlier
 *  request. */
void vk_kill_in(struct vk_proc *p, uint64_t calls);
void vk_pause_in(struct vk_proc *p, uint64_t calls);
/** Set the descriptor limit of a process. */
void vk_limit(struct vk_proc *p, unsigned nofile);

bool vk_is_gone(const struct vk_proc *p);   /* all its resources are released */
bool vk_is_ending(const struct vk_proc *p); /* has ended or is ending */
bool vk_is_paused(const struct vk_proc *p);
/** Whether the process is stopped, or has been at any time since `ns`. */
bool vk_was_paused(const struct vk_proc *p, uint64_t ns);
pid_t vk_pid(const struct vk_proc *p);
uid_t vk_uid(const struct vk_proc *p);
unsigned vk_container(const struct vk_proc *p);
unsigned vk_netns(const struct vk_proc *p);
bool vk_was_killed(const struct vk_proc *p);
const char *vk_command(const struct vk_proc *p);
uint64_t vk_calls(const struct vk_proc *p);
unsigned vk_descriptors(const struct vk_proc *p);
struct vk_proc *vk_self(void);
/** Iterate over the processes that are not gone. @param p the previous process; NULL: begin. @return NULL: no more
 *  processes. */
struct vk_proc *vk_next(const struct vk_proc *p);
/** Bytes that the process has allocated and not freed. */
size_t vk_allocated(const struct vk_proc *p);

/** Allocate zeroed memory that belongs to no process. Never fails. */
void *vk_alloc(size_t size);

/* Calls that wait. Only threads of virtual processes may make them. */
void vk_sleep(uint64_t ns);
/** Wait for vk_wake() on the channel, or until `until_ns`. @return false: timed out. */
bool vk_wait(const void *channel, uint64_t until_ns);
void vk_wake(const void *channel);
/** Wait until one of the descriptors is readable; entries of -1 are ignored. @return false: timed out. */
bool vk_wait_readable(const int *fds, unsigned n, uint64_t until_ns);
/** @return the random stream of the scheduler. */
struct rng *vk_rng(void);

/* ---- network --------------------------------------------------------------------------------------------- */

/** Change an interface or its addresses; netlink sockets of the namespace are notified. */
void vk_iface_set(unsigned netns, const char *name, unsigned index, bool up);
void vk_iface_remove(unsigned netns, const char *name);
void vk_address_add(unsigned netns, const char *iface, const struct nic_gid *gid);
void vk_address_remove(unsigned netns, const char *iface, const struct nic_gid *gid);
/** Make getifaddrs fail. */
void vk_addresses_silent(bool silent);

/** A datagram to a QP at an address. */
struct vk_datagram {
	struct nic_gid gid;
	uint32_t qpn;
	uint64_t sent_ns;
};
/** @return the socket to which a datagram would be delivered; NULL: none. */
struct vk_file *vk_udp_choose(unsigned netns, const struct nic_gid *gid, uint32_t qpn);
/** @return the socket to which a connection manager's request for this service (proto_service) would be delivered;
 *  NULL: none. */
struct vk_file *vk_udp_choose_request(unsigned netns, const struct nic_gid *gid, uint32_t service);
/** Send a datagram. */
void vk_udp_send(unsigned netns, const struct nic_gid *gid, uint32_t qpn);
/** Called by a thread of a virtual process: take the next datagram from a socket. @return false: there is none. */
bool vk_udp_take(int fd, struct vk_datagram *out);
/** @return the number of sockets that share the UDP port of an address. */
unsigned vk_udp_group(unsigned netns, const struct nic_gid *gid);
/** Whether the process has the file open. */
bool vk_has(const struct vk_proc *p, const struct vk_file *f);

/* ---- files ----------------------------------------------------------------------------------------------- */

enum vk_kind { VK_UNIX, VK_UDP, VK_EPOLL, VK_TIMER, VK_EVENT, VK_SIGNAL, VK_MEMFD, VK_NETLINK, VK_KINDS };
extern const char *const vk_kind_names[VK_KINDS];

struct vk_file *vk_descriptor(const struct vk_proc *p, int fd); /* NULL: not open */
enum vk_kind vk_kind(const struct vk_file *f);
/** @return the name of a listening socket, without the leading zero byte; "": no name; NULL: the socket does not
 *  listen. */
const char *vk_listens(const struct vk_file *f);
/** @return the process that created or accepted the other end of a connection. */
struct vk_proc *vk_peer(const struct vk_file *f);
/** Whether the other end of a connection is still open. */
bool vk_is_connected(const struct vk_file *f);
/** Run the garbage collector. @return the number of open files. */
unsigned vk_files(void);
/** @return how many descriptors of a user are in flight in messages. */
unsigned vk_in_flight(uid_t uid);
/** @return how many messages were refused because the sender's user had too many descriptors in flight. */
uint64_t vk_too_many(void);
void vk_print(FILE *to);

#endif
