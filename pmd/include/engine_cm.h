/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_cm.h - the connection manager of a device: our function's part of it (nic_cm.h), and the port spaces that all
 * processes of the device share. See engine.h for devices (pmd_devices), engines and their lock.
 *
 * The CM sends and receives its messages (MADs) on queue pair 1 of the device, through the port, even between processes
 * of one host. A message for a connection reaches the function that has the connection: the leading byte of the
 * communication ID names that function. A request reaches the function that listens on the request's service:
 * pmd_cm_listen has the kernel steer such requests there.
 *
 * A device on ethdev has one function in one process: the function gets all messages, and only that process binds
 * ports.
 */
#ifndef PMD_ENGINE_CM_H
#define PMD_ENGINE_CM_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "nic_cm_ip.h"

struct nic_cm;
struct nic_cm_event;

/** Called with the engine's lock held, on the thread that made progress. May call functions of nic_cm.h and nic.h; must
 *  not call functions of the engine. `event` is valid during the call. */
typedef void (*pmd_cm_event_fn)(void *ctx, const struct nic_cm_event *event);

/**
 * Get the connection manager of our function. No lock held. The first call creates it, with queue pair 1. It lives as
 * long as the engine.
 *
 * Functions of nic_cm.h are called under pmd_lock. Call pmd_doorbell afterwards, as after posting a request: the
 * messages leave then, and the engine learns of the new deadline.
 * @param on_event receives every event. Only the first call sets it; later calls ignore it.
 * @return 0, -ENOMEM, -ENODEV (the engine is dead: pmd_is_dead).
 */
int pmd_cm_open(struct pmd_engine *engine, pmd_cm_event_fn on_event, void *ctx, struct nic_cm **out);

/* ---- port spaces -------------------------------------------------------------------------------------------- */

enum pmd_cm_bind_flags {
	/** The same port may be bound more than once if every bind sets this flag, as long as this process does not
	 *  listen on the port (RDMA_OPTION_ID_REUSEADDR). */
	PMD_CM_REUSE = 1 << 0,
	/** Two ports with this flag and different families do not conflict, even if both are bound to any address
	 *  (RDMA_OPTION_ID_AFONLY). */
	PMD_CM_ONE_FAMILY = 1 << 1,
	/** Bind a source port for an active side; allowed only with port 0 (any port). Other processes of the device
	 *  may get the same port for the same purpose. Costs no descriptor. */
	PMD_CM_ACTIVE = 1 << 2,
};

/** A port bound in a port space of the device. */
struct pmd_cm_port;

/**
 * Bind a port of the device. No lock held. The port is free again after pmd_cm_unbind, or when the process ends. To
 * bind a port on all devices, bind it on each of them.
 * @param address an address of the device; zeroes: any address of `family`.
 * @param family AF_INET or AF_INET6.
 * @param port 0: any free port of the kernel's range (net.ipv4.ip_local_port_range), which is stored in *port.
 * @return 0; -EADDRNOTAVAIL (the error of the kernel's CM): this process has already bound the port, and this bind or
 * the earlier bind is to any address; -EADDRINUSE: this process has bound the port at the same address, or another
 * process has bound it for itself alone or listens on it; -EINVAL, -ENOMEM, -ENODEV, -EMFILE.
 */
int pmd_cm_bind(struct pmd_engine *engine, enum nic_cm_space space, const struct nic_gid *address, int family,
		unsigned flags, uint16_t *port, struct pmd_cm_port **out);
/** Set or clear PMD_CM_REUSE of a bound port. No lock held. @return 0; -EINVAL: the process listens on the port; other
 *  errors as pmd_cm_bind. */
int pmd_cm_reuse(struct pmd_engine *engine, struct pmd_cm_port *port, bool on);
/**
 * Listen on a bound port. No lock held. When this returns, requests for the service reach our function's CM, from this
 * host and from the network. Call nic_cm_listen first, or the CM rejects the requests.
 * @return 0; -EADDRINUSE: this process has bound another port with this number at the address, or another process
 * listens on the port or has bound it for itself alone; -ENOSPC: the process listens on too many ports.
 */
int pmd_cm_listen(struct pmd_engine *engine, struct pmd_cm_port *port);
/** Stop listening; the port stays bound. No lock held. */
void pmd_cm_unlisten(struct pmd_engine *engine, struct pmd_cm_port *port);
/** Release the port, and stop listening on it. No lock held. */
void pmd_cm_unbind(struct pmd_engine *engine, struct pmd_cm_port *port);

/* A port costs a descriptor if the process has bound it for itself alone (with neither PMD_CM_REUSE nor PMD_CM_ACTIVE),
 * listens on it, or serves it (pmd_service_open). One engine can listen on or serve at most 256 ports in total. */

/* ---- counters ----------------------------------------------------------------------------------------------- */

/** Counters, one for each line of cm_stats.def. The counters of the CM itself are in nic_cm.h (nic_cm_count). */
struct pmd_cm_stats {
#define PMD_CM_STAT(name, sentence) uint64_t name;
#include "cm_stats.def"
#undef PMD_CM_STAT
};

/** Copy the counters. They are zero before pmd_cm_open. Lock held. */
void pmd_cm_stats_get(struct pmd_engine *engine, struct pmd_cm_stats *out);

#endif
