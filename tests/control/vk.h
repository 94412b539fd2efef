/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * vk.h - a virtual kernel under the real control plane: what tests see of it.
 *
 * The sources of the daemon and of a function's control side are linked as they are. The linker diverts the system calls
 * that they make (--wrap, vk_wrap.c) to a kernel in this process: processes with descriptor tables, users and containers;
 * AF_UNIX SOCK_SEQPACKET sockets, UDP sockets in SO_REUSEPORT groups with their classic BPF programs, epoll sets, timers,
 * memfds, netlink; a clock. Threads of these processes are coroutines. Every system call takes virtual time, and may be
 * where another thread goes on, or where the process stops or dies. One stream of random numbers decides all of that, so
 * a run repeats exactly.
 *
 *   vk_sched.c   processes, threads, the clock, who goes on next
 *   vk_file.c    descriptors, what they refer to, epoll sets and other small kinds
 *   vk_unix.c    AF_UNIX sockets, descriptors in messages
 *   vk_udp.c     UDP sockets, groups, programs; interfaces and their addresses
 *   vk_memory.c  what a process has allocated, which goes with it
 *   vk_wrap*.c   the system calls
 *
 * What it leaves out: signals other than SIGTERM to a signalfd, user namespaces, time on more than one CPU.
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

/** Whose process it is and where it runs. */
struct vk_identity {
	uid_t uid;
	unsigned netns;
	unsigned container; /* 0: the host, which sees the numbers of all processes */
	const char *allow;  /* UROCE_ALLOW; NULL: not set */
};

/** Of a run. */
struct vk_config {
	uint64_t seed;
	unsigned preempt;      /* permille of system calls after which somebody else may go on */
	unsigned sndbuf;       /* bytes that a socket has under way */
	unsigned nofile;       /* descriptors of a process */
	unsigned program_room; /* instructions of a BPF program; 0: 4096 */
	bool slow_exit;	       /* a process that ends closes its descriptors one after the other, while others go on */
	bool fuzz;	       /* no preemption but where a call waits */
};

void vk_start(const struct vk_config *config);
/** Everything goes, whatever there is. */
void vk_stop(void);

uint64_t vk_now_ns(void);
/** Run threads until then, at most so many turns. @return false: there were turns left to take. */
bool vk_run(uint64_t until_ns, uint64_t turns);
/** As far as it goes without time passing. */
void vk_run_ready(void);

/** Sees every point of points.def that a process passes. */
extern void (*vk_on_point)(struct vk_proc *proc, int point);

/* ---- processes ------------------------------------------------------------------------------------------- */

struct vk_proc *vk_spawn(const struct vk_identity *who, const char *command, void (*run)(void *), void *arg);
/** The calling process has another thread from now on. */
void vk_thread_start(void (*run)(void *), void *arg);
/** A copy of the calling process, with its descriptors: does `first` before anybody else goes on, then runs. */
struct vk_proc *vk_fork(void (*first)(void *), void (*run)(void *), void *arg);
void vk_kill(struct vk_proc *p);
/** SIGTERM, for who has a signalfd. */
void vk_terminate(struct vk_proc *p);
void vk_pause(struct vk_proc *p);
void vk_continue(struct vk_proc *p);
/** So many system calls from now it dies, or stops. */
void vk_kill_in(struct vk_proc *p, uint64_t calls);
void vk_pause_in(struct vk_proc *p, uint64_t calls);
/** How many descriptors it may have. */
void vk_limit(struct vk_proc *p, unsigned nofile);

bool vk_is_gone(const struct vk_proc *p);   /* and all that it had is */
bool vk_is_ending(const struct vk_proc *p); /* dead, or as good as */
bool vk_is_paused(const struct vk_proc *p);
pid_t vk_pid(const struct vk_proc *p);
uid_t vk_uid(const struct vk_proc *p);
unsigned vk_container(const struct vk_proc *p);
unsigned vk_netns(const struct vk_proc *p);
bool vk_was_killed(const struct vk_proc *p);
const char *vk_command(const struct vk_proc *p);
uint64_t vk_calls(const struct vk_proc *p);
unsigned vk_descriptors(const struct vk_proc *p);
struct vk_proc *vk_self(void);
/** All that have not gone, one after the other; NULL begins and ends. */
struct vk_proc *vk_next(const struct vk_proc *p);
/** Bytes that the process has allocated and not freed. */
size_t vk_allocated(const struct vk_proc *p);

/** Zeroed memory that is no process's, whoever asks for it. Never fails. */
void *vk_alloc(size_t size);

/* For threads of processes: they wait. */
void vk_sleep(uint64_t ns);
/** Until somebody wakes the channel, or until then. @return false: time is up. */
bool vk_wait(const void *channel, uint64_t until_ns);
void vk_wake(const void *channel);
/** Until one of the descriptors is readable. Those that are -1 do not count. */
bool vk_wait_readable(const int *fds, unsigned n, uint64_t until_ns);
/** The random numbers that decide who goes on. */
struct rng *vk_rng(void);

/* ---- network --------------------------------------------------------------------------------------------- */

/** An interface and its addresses; those who listen to netlink hear of it. */
void vk_iface_set(unsigned netns, const char *name, unsigned index, bool up);
void vk_iface_remove(unsigned netns, const char *name);
void vk_address_add(unsigned netns, const char *iface, const struct nic_gid *gid);
void vk_address_remove(unsigned netns, const char *iface, const struct nic_gid *gid);
/** getifaddrs fails. */
void vk_addresses_silent(bool silent);

/** A datagram to a QP of an address. */
struct vk_datagram {
	struct nic_gid gid;
	uint32_t qpn;
	uint64_t sent_ns;
};
/** The socket that a datagram would come to; NULL: there is none. */
struct vk_file *vk_udp_choose(unsigned netns, const struct nic_gid *gid, uint32_t qpn);
/** Send one. */
void vk_udp_send(unsigned netns, const struct nic_gid *gid, uint32_t qpn);
/** For threads: the next datagram of a socket. @return false: there is none. */
bool vk_udp_take(int fd, struct vk_datagram *out);
/** How many sockets share the port of an address. */
unsigned vk_udp_group(unsigned netns, const struct nic_gid *gid);
/** Whether the process has a descriptor of it. */
bool vk_has(const struct vk_proc *p, const struct vk_file *f);

/* ---- what there is --------------------------------------------------------------------------------------- */

enum vk_kind { VK_UNIX, VK_UDP, VK_EPOLL, VK_TIMER, VK_EVENT, VK_SIGNAL, VK_MEMFD, VK_NETLINK, VK_KINDS };
extern const char *const vk_kind_names[VK_KINDS];

struct vk_file *vk_descriptor(const struct vk_proc *p, int fd); /* NULL: not open */
enum vk_kind vk_kind(const struct vk_file *f);
/** A socket that listens: its name, without the leading zero; "": it has none. NULL: it does not listen. */
const char *vk_listens(const struct vk_file *f);
/** The process that made the other end of a connection, or accepted it. */
struct vk_proc *vk_peer(const struct vk_file *f);
/** Whether the other end of a connection is still there. */
bool vk_is_connected(const struct vk_file *f);
/** What is open, in all: garbage is collected first. */
unsigned vk_files(void);
/** Descriptors in messages, of one user. */
unsigned vk_in_flight(uid_t uid);
/** How often a message was refused since its user had too many in flight. */
uint64_t vk_too_many(void);
void vk_print(FILE *to);

#endif
