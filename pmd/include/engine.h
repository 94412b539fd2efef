/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h - the one public header of pmd/: devices, and the engine that runs a NIC in this process.
 *
 * An engine owns one `struct nic`, one port (kernel UDP socket, or any DPDK ethdev), a lock, a background thread and
 * the DPDK memory pool its packets live in. Front-ends call nic.h functions on pmd_engine_nic() between pmd_lock and
 * pmd_unlock. DPDK is not exposed here.
 */
#ifndef PMD_ENGINE_H
#define PMD_ENGINE_H

#include "clock.h"
#include "nic.h"

struct pmd_engine;

#define PMD_DEVICE_NAME_MAX 64
#define PMD_DEVICES_MAX	    16

/** Counters of a port, one per line of port_stats.def. */
struct pmd_port_stats {
#define PMD_PORT_STAT(name, sentence) uint64_t name;
#include "port_stats.def"
#undef PMD_PORT_STAT
};

/** A device as configured; see docs for UROCE_DEVICES. Cheap: found without starting DPDK. */
struct pmd_device {
	char name[PMD_DEVICE_NAME_MAX]; /* "uroce0" */
	struct nic_gid gid;		/* its address */
	char netdev[16];		/* interface that carries the address, "" if none */
	uint8_t mac[6];			/* of netdev; zeroes if none */
	uint32_t netdev_mtu;		/* bytes; 0 if unknown */
	char port[160];			/* port specification: "udp", or "ethdev:<EAL vdev or device arguments>" */
	uint64_t node_guid;		/* host order; stable for an address */
	uint8_t prefix_len;		/* ethdev ports: on-link prefix of the address; 0: everything is on link */
	uint32_t follow;		/* which other addresses of netdev belong to the device: enum proto_follow */
	struct nic_gid gateway;		/* ethdev ports: next hop for off-link addresses; zeroes: none */
};

/**
 * Devices of this process: from UROCE_DEVICES, else one on each non-loopback IPv4 address of the network namespace,
 * else 127.0.0.1. Fills at most `max`. A configuration error is reported once on stderr.
 * @return the number of devices, or a negative errno.
 */
int pmd_devices(struct pmd_device *devices, unsigned max);

/**
 * The IB MTU of a device: UROCE_MTU (`override`, NULL or blank: not set), else the largest that fits the interface.
 * @return 0, -EINVAL with a sentence in err.
 */
int pmd_device_mtu(const struct pmd_device *device, const char *override, enum nic_mtu *mtu, char *err, size_t err_len);

/** Called with the engine lock held, on the thread that made progress. Must not call back into the engine. */
typedef void (*pmd_event_fn)(void *ctx, const struct nic_event *event);

/**
 * Open a device: start DPDK (once per process), the port, the NIC and the background thread. Opening the same device
 * again in the same process returns the same engine with one more reference.
 * @param on_event receives every NIC event, with the first opener's event_ctx (may be NULL) as ctx.
 * @param err on failure, one sentence that says what is wrong and what to do.
 * @return 0 or a negative errno.
 */
int pmd_open(const struct pmd_device *device, pmd_event_fn on_event, void *event_ctx, struct pmd_engine **out,
	     char *err, size_t err_len);

/** Drop a reference; the last one stops the thread, closes the port, destroys the NIC. */
void pmd_close(struct pmd_engine *engine);

struct nic *pmd_engine_nic(struct pmd_engine *engine);

/** The engine lock serialises everything on the NIC. Not recursive. */
void pmd_lock(struct pmd_engine *engine);
void pmd_unlock(struct pmd_engine *engine);

/**
 * Inline progress, lock held: receive what has arrived, run due timers, transmit what is due, hand out events.
 * Called by every polling verb; bounded work.
 * @param completions that the caller has room for, at least 1: once that many more exist, the rest may wait for the
 * next call.
 * @return false: there was nothing to do.
 */
bool pmd_progress(struct pmd_engine *engine, unsigned completions);

/** As pmd_progress, but takes the lock itself, and returns false at once when another thread holds it (that thread is
 *  making progress). A thread whose polls (this call or pmd_progress) find nothing some hundred times in a row yields
 *  the CPU when it next unlocks. */
bool pmd_try_progress(struct pmd_engine *engine);

/** Whether the last progress call moved packets: the next one may find more. No lock needed. */
bool pmd_has_moved(const struct pmd_engine *engine);

/** Whether UROCE_PROGRESS disables the background thread of this process's engines: only the application's polls make
 *  progress. */
bool pmd_progress_is_inline(void);

/** Lock held: work was posted. Transmit now whatever the NIC has to send (post_send's doorbell). */
void pmd_doorbell(struct pmd_engine *engine);

/**
 * No lock held: resolve the address of a peer before packets are sent to it. Where the engine resolves neighbours
 * itself, this returns when the address is resolved, or unanswered after half a second. So the first packets need not
 * wait in a queue that may be too short for them. Drivers of hardware do this too, when a QP learns its peer and when
 * an address handle is created.
 */
void pmd_resolve(struct pmd_engine *engine, const struct nic_gid *dgid);

/**
 * Lock held: a QP or the process is about to end. Processes what has already arrived, as hardware would have done on
 * arrival, and sends delayed ACKs; otherwise the peer would take an orderly end for a lost host. Bounded.
 */
void pmd_settle(struct pmd_engine *engine);

/** Lock held: the application has armed a CQ and is about to sleep on its completion channel. The background thread
 *  takes over at once. A hint: only latency depends on it. */
void pmd_expect_sleep(struct pmd_engine *engine);

/**
 * No lock held: sleep until *ready, which the event callback sets (atomically, with the lock held). The calling thread
 * makes progress meanwhile, as far as needed for that. A cancellation point.
 * @param fd the descriptor on which the application believes it sleeps; if it is non-blocking, this call does not
 * sleep.
 * @return 0; -EAGAIN: fd is non-blocking, and *ready is not set; -EINTR: a signal whose handler does not restart calls;
 * -EBUSY: waiting here is not possible (another thread already does, the engine is dead or its progress mode excludes
 * it): sleep on something else.
 */
int pmd_wait(struct pmd_engine *engine, int fd, const bool *ready);

/**
 * No lock held: serve a port of the device. From now on packets to QPN NIC_SERVICE_QPN + port (nic_rdm.h) at any
 * address of the device come to this engine's NIC, from functions of this host and from the network, whether or not the
 * NIC has such a QP. A port has one server per device. Ends with pmd_service_close, or with the engine.
 * @param port 1 ... NIC_SERVICE_PORT_MAX; 0: any free port from PMD_SERVICE_ANY_MIN on, which is written back.
 * @return 0, -EADDRINUSE, -EINVAL (no such port), -ENOSPC (too many for one process), another negative errno.
 */
int pmd_service_open(struct pmd_engine *engine, uint16_t *port);
/** No lock held: release the port for another server. First receives what functions of this host have sent to it. */
void pmd_service_close(struct pmd_engine *engine, uint16_t port);

#define PMD_SERVICE_ANY_MIN 49152u

/**
 * Counters of the port, a copy. Lock held.
 */
void pmd_port_stats_get(struct pmd_engine *engine, struct pmd_port_stats *out);

/**
 * Whether [addr, addr + len) is mapped (and writable when `write`). For memory registration.
 * @return 0, -EFAULT.
 */
int pmd_check_range(const void *addr, size_t len, bool write);

/**
 * Install the SIGSEGV and SIGBUS handlers again. The NIC accesses application memory under them, so that unmapped
 * memory gives an error instead of a crash; other faults go to the handler that the application had installed. A
 * handler that the application installs later displaces ours, which comes back on top of the new one at the next
 * pmd_open or pmd_check_range, or when a front-end that interposes sigaction calls this.
 */
void pmd_guard_reinstall(void);

/** Whether this is a forked child: engines that were open before the fork are dead here. Their known descriptors are
 *  closed (not libpcap's), and calls return at once. */
bool pmd_is_forked_child(void);

#endif
