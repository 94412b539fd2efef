/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ctl.h - the simulator of the control plane: daemons, functions and hostile clients run in a virtual kernel (vk.h),
 * and oracles check invariants.
 *
 *   daemon.c    runs the real daemon in a virtual process
 *   function.c  a function: the real control side, services, links and UDP port, with the engine's loop around them
 *   hostile.c   processes that abuse their protocols
 *   oracle.c    invariants: at any time, and once calm
 *   run.c       one run: chaos, calm, end
 *   options.def parameters of a run
 */
#ifndef CONTROL_CTL_H
#define CONTROL_CTL_H

#include "control_priv.h"
#include "engine_priv.h"
#include "options.h"
#include "port_udp.h"
#include "vk.h"

#define CTL_FUNCTIONS 256 /* most functions started in a run */
#define CTL_DAEMONS   1024
#define CTL_SERVICES  16
#define CTL_COMMANDS  8

/** A device that functions of a run open. */
struct ctl_open {
	const char *address;
	uint32_t follow;
	unsigned netns;
};
#define CTL_OPENS 6
#define CTL_IFACE "eth0"
extern const struct ctl_open ctl_opens[CTL_OPENS];
/** The addresses of CTL_IFACE while nothing disturbs. */
#define CTL_ADDRESSES 4
extern const char *const ctl_addresses[CTL_ADDRESSES];
struct nic_gid ctl_gid(const char *address);

/* ---- daemons ---------------------------------------------------------------------------------------------- */

struct ctl_daemon {
	struct vk_proc *proc;
	char device[200], iface[16], allow[32];
	bool stay, ready, ended;
	uint64_t ready_ns;
	char said[300];	    /* last message on stderr */
	struct daemon *d;   /* the daemon's state, while it runs */
	struct nic_gid key; /* key of its device when it last ran */
	bool unkept;	    /* when it last ran, some of its sockets were not in the keeper for the next daemon */
	uint64_t stale;	    /* how many keepers it discarded because sockets of the killed daemon were missing */
};

/** Start a daemon with these options. `device` and `iface` may be "". */
struct ctl_daemon *ctl_daemon_start(const struct vk_identity *who, const char *device, const char *iface, bool stay);
struct ctl_daemon *ctl_daemon_of(const struct vk_proc *p);
extern struct ctl_daemon ctl_daemons[CTL_DAEMONS];
extern unsigned ctl_n_daemons;
/** @return how many functions and clients the daemon has. For oracles. */
unsigned ctl_daemon_clients(const struct ctl_daemon *d);
/** @return how many UDP sockets the daemon has for all addresses together. For oracles. */
unsigned ctl_daemon_sockets(const struct ctl_daemon *d);
bool ctl_daemon_stays(const struct ctl_daemon *d);
/** Whether the daemon has come to follow an interface since it was started. */
bool ctl_daemon_has_spread(const struct ctl_daemon *d);
/** Reset the state of daemons and oracles, and install the hook that reports when a daemon is ready. */
void ctl_daemons_begin(void);

/* ---- functions -------------------------------------------------------------------------------------------- */

enum ctl_state { CTL_JOINING, CTL_REFUSED, CTL_LIVE, CTL_CLOSING, CTL_CLOSED };
enum ctl_command { CTL_SERVE, CTL_UNSERVE, CTL_ROUTE, CTL_FORK, CTL_CLOSE };

struct ctl_function {
	struct pmd_engine e; /* must be the first member */
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
	uint32_t services[CTL_SERVICES]; /* opened by the function, acknowledged by the daemon; see proto_service() */
	unsigned n_services;
	uint64_t datagrams, strange; /* datagrams received in all; how many of them were for service QPNs */
	uint32_t random;
	unsigned netns;
	bool left_behind; /* the interface's next daemon has another key, and could not find the function */
};

extern struct ctl_function *ctl_functions[CTL_FUNCTIONS];
extern unsigned ctl_n_functions;

struct ctl_function *ctl_function_start(const struct vk_identity *who, const struct ctl_open *open);
bool ctl_function_order(struct ctl_function *f, enum ctl_command what, const struct nic_gid *gid, uint32_t arg);
/** Whether the function has joined, and its process is alive. */
static inline bool ctl_is_live(const struct ctl_function *f)
{
	return f->state == CTL_LIVE && !vk_is_ending(f->proc);
}
/** Whether the function has the address in its GID table. */
bool ctl_has_address(const struct ctl_function *f, const struct nic_gid *gid);
void ctl_functions_free(void);

/** Whether no daemon can adopt the function; oracle.c lists the cases. */
bool ctl_is_orphan(const struct ctl_function *f);

/* ---- hostile processes ------------------------------------------------------------------------------------ */

/** Bits for what a hostile process does. */
enum ctl_hostility {
	CTL_FLOODS = 1,	     /* opens a few hundred connections */
	CTL_SKEW = 2,	     /* sends messages of other protocol versions */
	CTL_GARBAGE = 4,     /* sends malformed messages */
	CTL_DESCRIPTORS = 8, /* attaches descriptors to messages */
	CTL_DEAF = 16,	     /* does not read answers */
};
struct vk_proc *ctl_hostile_start(const struct vk_identity *who, unsigned how, uint64_t seed);
/** Start a tool, which sends a command to the daemon of the address and waits for the answer. */
struct vk_proc *ctl_tool_start(const struct vk_identity *who, const struct nic_gid *gid, const char *command);

/* ---- oracles ---------------------------------------------------------------------------------------------- */

/** Report a violated oracle, with seed and options. Only the first violation of a run is reported. */
void ctl_fail(const char *oracle, const char *format, ...) __attribute__((format(printf, 2, 3)));
extern bool ctl_failed;
/** Whether the virtual kernel refuses BPF programs that are long enough for all services. */
extern bool ctl_program_is_short;

/** Check the invariants that hold at any time. */
void ctl_check(void);
/** Reset the oracles for a new run. */
void ctl_check_begin(void);
/** Check that functions have their addresses. Holds some time after all disturbances have stopped. */
void ctl_check_addresses(void);
/** Check the invariants that hold some time after all disturbances have stopped. */
void ctl_check_calm(void);
/** Check that all open descriptors of a live function's process are descriptors that the function uses. */
void ctl_check_descriptors(const struct ctl_function *f);
/** Check a datagram that a function has received from the socket of address `socket`. */
void ctl_check_datagram(struct ctl_function *f, const struct nic_gid *socket, const struct vk_datagram *d);
/** Check for leaks. To be called when the function has closed its device or was refused, before its process ends. */
void ctl_check_closed(const struct ctl_function *f);

/* ---- runs ------------------------------------------------------------------------------------------------- */

struct ctl_stats {
	uint64_t turns, calls, joins, refused, adopted, came_back, daemons, kills, pauses, services, links, datagrams,
		messages, keepers, stale, virtual_ms;
};

/** @return true if no oracle was violated. */
bool ctl_run(const struct ctl_opts *opts, bool verbose, struct ctl_stats *stats, uint64_t *hash);
extern bool ctl_verbose;
void ctl_log(const char *format, ...) __attribute__((format(printf, 1, 2)));
extern struct ctl_stats ctl_stats;

#endif
