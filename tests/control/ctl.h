/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ctl.h - the simulator of the control plane: daemons, functions, hostile clients in a virtual kernel (vk.h), and oracles.
 *
 *   daemon.c    runs the real daemon in a virtual process
 *   function.c  a function: the real control side, services, links and UDP port, with the engine's loop around them
 *   hostile.c   processes that talk to them as nobody should
 *   oracle.c    what must hold at any time, and once all is calm
 *   run.c       one run: chaos, calm, end
 *   options.def what a run is made of
 */
#ifndef CONTROL_CTL_H
#define CONTROL_CTL_H

#include "control_priv.h"
#include "engine_priv.h"
#include "options.h"
#include "port_udp.h"
#include "vk.h"

#define CTL_FUNCTIONS 256 /* of a run, in all */
#define CTL_DAEMONS   256
#define CTL_SERVICES  16
#define CTL_COMMANDS  8

/** What a program opens. */
struct ctl_open {
	const char *address;
	uint32_t follow;
	unsigned netns;
};
#define CTL_OPENS 6
#define CTL_IFACE "eth0"
extern const struct ctl_open ctl_opens[CTL_OPENS];
struct nic_gid ctl_gid(const char *address);

/* ---- daemons ---------------------------------------------------------------------------------------------- */

struct ctl_daemon {
	struct vk_proc *proc;
	char device[200], iface[16], allow[32];
	bool stay, ready, ended;
	char said[300];	  /* on stderr */
	struct daemon *d; /* its memory, while it runs */
	uint64_t stale;	  /* keepers that it did not use: the sockets of a killed daemon were not all in them */
};

/** Start one, as by hand. `device` and `iface` may be "". */
struct ctl_daemon *ctl_daemon_start(const struct vk_identity *who, const char *device, const char *iface, bool stay);
struct ctl_daemon *ctl_daemon_of(const struct vk_proc *p);
extern struct ctl_daemon ctl_daemons[CTL_DAEMONS];
extern unsigned ctl_n_daemons;
extern bool ctl_keeper_failed; /* some daemon could not keep its sockets for the next one, and said so */
/** Functions and clients that the daemon has now, by its own word. For oracles. */
unsigned ctl_daemon_clients(const struct ctl_daemon *d);
/** Sockets that it knows of, of all addresses. */
unsigned ctl_daemon_sockets(const struct ctl_daemon *d);
bool ctl_daemon_stays(const struct ctl_daemon *d);
/** From now on it is known when daemons are ready. */
void ctl_daemons_begin(void);

/* ---- functions -------------------------------------------------------------------------------------------- */

enum ctl_state { CTL_JOINING, CTL_REFUSED, CTL_LIVE, CTL_CLOSING, CTL_CLOSED };
enum ctl_command { CTL_SERVE, CTL_UNSERVE, CTL_ROUTE, CTL_FORK, CTL_CLOSE };

struct ctl_function {
	struct pmd_engine e; /* first */
	struct vk_proc *proc;
	unsigned index;
	enum ctl_state state;
	int rc;
	char err[320];
	uint64_t began_ns, joined_ns;
	bool locked, stop, stopped;
	unsigned number;
	struct nic_gid key;
	struct {
		enum ctl_command what;
		struct nic_gid gid;
		uint32_t arg;
	} commands[CTL_COMMANDS];
	unsigned n_commands, next_command;
	uint16_t services[CTL_SERVICES]; /* that it has opened, and the daemon has acknowledged */
	unsigned n_services;
	uint64_t datagrams, strange; /* received; for services that are not its own */
	uint32_t random;
	unsigned netns;
	bool left_behind; /* it was stopped when its interface's next daemon began under another name */
};

extern struct ctl_function *ctl_functions[CTL_FUNCTIONS];
extern unsigned ctl_n_functions;

struct ctl_function *ctl_function_start(const struct vk_identity *who, const struct ctl_open *open);
bool ctl_function_order(struct ctl_function *f, enum ctl_command what, const struct nic_gid *gid, uint32_t arg);
/** It is a function, and its process lives. */
static inline bool ctl_is_live(const struct ctl_function *f)
{
	return f->state == CTL_LIVE && !vk_is_ending(f->proc);
}
void ctl_functions_free(void);

/** Nobody can help it: the next daemon of its interface does not know of it. */
bool ctl_is_orphan(const struct ctl_function *f);

/* ---- hostile processes ------------------------------------------------------------------------------------ */

/** What one does, as bits. */
enum ctl_hostility {
	CTL_FLOODS = 1,	     /* connects a few hundred times */
	CTL_SKEW = 2,	     /* speaks other versions */
	CTL_GARBAGE = 4,     /* says what makes no sense */
	CTL_DESCRIPTORS = 8, /* with descriptors */
	CTL_DEAF = 16,	     /* does not read */
};
struct vk_proc *ctl_hostile_start(const struct vk_identity *who, unsigned how, uint64_t seed);
/** A tool: says a command to the daemon of the address and waits for the answer. */
struct vk_proc *ctl_tool_start(const struct vk_identity *who, const struct nic_gid *gid, const char *command);

/* ---- oracles ---------------------------------------------------------------------------------------------- */

/** An oracle is violated: said once, with seed and options. */
void ctl_fail(const char *oracle, const char *format, ...) __attribute__((format(printf, 2, 3)));
extern bool ctl_failed;
/** The kernel does not take a program for all services. */
extern bool ctl_program_is_short;

/** At any time. */
void ctl_check(void);
/** Another run begins. */
void ctl_check_begin(void);
/** All faults have stopped a while ago. */
void ctl_check_calm(void);
/** A live function knows all its descriptors. */
void ctl_check_descriptors(const struct ctl_function *f);
/** A function has got a datagram. */
void ctl_check_datagram(struct ctl_function *f, const struct nic_gid *socket, const struct vk_datagram *d);
/** It has closed its device, and its process is about to end. */
void ctl_check_closed(const struct ctl_function *f);

/* ---- runs ------------------------------------------------------------------------------------------------- */

struct ctl_stats {
	uint64_t turns, calls, joins, refused, adopted, came_back, daemons, kills, pauses, services, links, datagrams,
		messages, keepers, stale, virtual_ms;
};

/** @return whether no oracle was violated. */
bool ctl_run(const struct ctl_opts *opts, bool verbose, struct ctl_stats *stats, uint64_t *hash);
extern bool ctl_verbose;
void ctl_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern struct ctl_stats ctl_stats;

#endif
