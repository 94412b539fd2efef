/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_cm.h - the connection manager of a device: this function's part of it (nic_cm.h), and the port spaces that all
 * processes of the device share. See engine.h for devices (pmd_devices), engines and their lock.
 *
 * The CM sends and receives its messages (MADs) by queue pair 1 of the device, through the port, also between processes
 * of a host. A message to a connection reaches the function that has it, by the leading byte of the communication ID.
 * A request reaches the function that listens on its service: pmd_cm_listen has the kernel steer it there.
 *
 * A device on ethdev has one function in one process: it gets all messages, and its ports are the process's.
 */
#ifndef PMD_ENGINE_CM_H
#define PMD_ENGINE_CM_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "nic_cm_ip.h"

struct nic_cm;
struct nic_cm_event;

/** Called with the engine's lock held, on the thread that made progress. May call functions of nic_cm.h and nic.h, but
 *  none of the engine's. `event` is valid during the call. */
typedef void (*pmd_cm_event_fn)(void *ctx, const struct nic_cm_event *event);

/**
 * No lock held: the connection manager of this function; the first call creates it, with queue pair 1. It lives as long
 * as the engine.
 *
 * Functions of nic_cm.h are called under pmd_lock. Call pmd_doorbell afterwards, as after posting a request: the
 * messages leave then, and the engine learns of the new deadline.
 * @param on_event receives every event; that of the first caller counts.
 * @return 0, -ENOMEM, -ENODEV (in a forked child).
 */
int pmd_cm_open(struct pmd_engine *engine, pmd_cm_event_fn on_event, void *ctx, struct nic_cm **out);

/* ---- port spaces -------------------------------------------------------------------------------------------- */

enum pmd_cm_bind_flags {
	/** Others that say so too may bind the same port, as long as none of them listens (RDMA_OPTION_ID_REUSEADDR).
	 */
	PMD_CM_REUSE = 1 << 0,
	/** The address is of one family only, also where it is any (RDMA_OPTION_ID_AFONLY). */
	PMD_CM_ONE_FAMILY = 1 << 1,
	/** For an active side that needs some source port. With port 0. Other processes of the device may get the same
	 *  port for the same purpose. No descriptor is used. */
	PMD_CM_ACTIVE = 1 << 2,
};

/** A port bound in a port space of the device. */
struct pmd_cm_port;

/**
 * No lock held: bind a port of the device. It is free again after pmd_cm_unbind, and when the process ends. To bind any
 * address, bind the port on every device that there is.
 * @param address that of the device, or zeroes: any of `family`.
 * @param family AF_INET or AF_INET6.
 * @param port 0: any free port of the kernel's range for that (net.ipv4.ip_local_port_range), which is written back.
 * @return 0; -EADDRINUSE, -EADDRNOTAVAIL (taken, and one of both is bound to any address): as a kernel; -EINVAL,
 * -ENOMEM, -EMFILE, -ENODEV.
 */
int pmd_cm_bind(struct pmd_engine *engine, enum nic_cm_space space, const struct nic_gid *address, int family,
		unsigned flags, uint16_t *port, struct pmd_cm_port **out);
/** No lock held: change PMD_CM_REUSE of a port that nobody listens on. @return 0, -EINVAL (it is listened on), or as
 *  pmd_cm_bind. */
int pmd_cm_reuse(struct pmd_engine *engine, struct pmd_cm_port *port, bool on);
/**
 * No lock held: listen on a bound port. When this returns, requests for the service reach this function's CM, from this
 * host and from the network. Call nic_cm's listen first, or requests are rejected.
 * @return 0, -EADDRINUSE: another one listens, or has bound the port for itself; -ENOSPC: too many in one process.
 */
int pmd_cm_listen(struct pmd_engine *engine, struct pmd_cm_port *port);
/** No lock held: listen no more; the port stays bound. */
void pmd_cm_unlisten(struct pmd_engine *engine, struct pmd_cm_port *port);
/** No lock held: release the port; ends listening. */
void pmd_cm_unbind(struct pmd_engine *engine, struct pmd_cm_port *port);

/* One process can have 256 ports with a name: those bound for itself alone, those that it listens on, and services of
 * engine.h. */

/* ---- counters ----------------------------------------------------------------------------------------------- */

/** Counters, one a line of cm_stats.def. What the CM itself counts is in nic_cm.h. */
struct pmd_cm_stats {
#define PMD_CM_STAT(name, sentence) uint64_t name;
#include "cm_stats.def"
#undef PMD_CM_STAT
};

/** A copy. Lock held. Zeroes before pmd_cm_open. */
void pmd_cm_stats_get(struct pmd_engine *engine, struct pmd_cm_stats *out);

#endif
