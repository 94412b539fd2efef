/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h - the public interface of pmd/: devices, and the engine that runs a NIC in this process.
 *
 * An engine owns one `struct nic`, one port (kernel UDP sockets, or a DPDK ethdev), links, a lock, a background thread
 * and the DPDK memory pool of its packets. Front-ends call nic.h functions on pmd_engine_nic() between pmd_lock and
 * pmd_unlock. DPDK is not exposed here.
 */
#ifndef PMD_ENGINE_H
#define PMD_ENGINE_H

#include "clock.h"
#include "nic.h"

struct pmd_engine;

#define PMD_DEVICE_NAME_MAX 64
#define PMD_DEVICES_MAX	    16

/** Counters of a port. port_stats.def has a line for each counter. */
struct pmd_port_stats {
#define PMD_PORT_STAT(name, sentence) uint64_t name;
#include "port_stats.def"
#undef PMD_PORT_STAT
};

#define PMD_VLAN_MAX	4094
#define PMD_PORT_ETHDEV "ethdev:" /* a DPDK port of this process alone */
#define PMD_PORT_UPLINK "uplink:" /* a DPDK port that the device's daemon owns and its functions share */

/** A device as configured by UROCE_DEVICES (docs/configuration.md). Finding devices does not start DPDK. */
struct pmd_device {
	char name[PMD_DEVICE_NAME_MAX]; /* "uroce0" */
	struct nic_gid gid;		/* the device's first address */
	char netdev[16];		/* interface that carries the address, "" if none */
	uint8_t mac[6];			/* MAC address of netdev; zeroes if none */
	uint32_t netdev_mtu;		/* MTU of netdev, bytes; 0 if unknown */
	char port[160];		/* "udp", PMD_PORT_ETHDEV or PMD_PORT_UPLINK; after these the DPDK device's arguments */
	uint64_t node_guid;	/* host order; made from gid and mac */
	uint16_t vlan;		/* DPDK ports: number of the VLAN, 1 to 4094; 0: frames have no tag */
	uint8_t prefix_len;	/* DPDK ports: on-link prefix of the address; 0: everything is on link */
	uint32_t follow;	/* which other addresses of netdev belong to the device: enum proto_follow */
	struct nic_gid gateway; /* DPDK ports: next hop for off-link addresses; zeroes: none */
};

/**
 * List the devices of this process: those in UROCE_DEVICES. If UROCE_DEVICES is not set or blank, there is one device
 * for each IPv4 address of an interface that is up and not a loopback, or one on 127.0.0.1 if there is no such address.
 * Fills at most `max` entries. A configuration error is reported once on stderr.
 * @return the number of devices, or a negative errno.
 */
int pmd_devices(struct pmd_device *devices, unsigned max);

/**
 * Choose the IB MTU of a device. `override` is the value of UROCE_MTU; if it is NULL or empty, the largest MTU that
 * fits the interface is chosen.
 * @return 0; -EINVAL with a message in err.
 */
int pmd_device_mtu(const struct pmd_device *device, const char *override, enum nic_mtu *mtu, char *err, size_t err_len);

/** Event callback: called with the engine lock held, on the thread that makes progress. It must not call the engine. */
typedef void (*pmd_event_fn)(void *ctx, const struct nic_event *event);

/**
 * Open a device: start DPDK (once per process), the port, the NIC and the background thread. Opening the same device
 * again in the same process returns the same engine with one more reference.
 * @param on_event (may be NULL) receives every NIC event, with event_ctx as ctx. Values of later openers are ignored.
 * @param err on failure, a message that says what is wrong and what to do.
 * @return 0 or a negative errno.
 */
int pmd_open(const struct pmd_device *device, pmd_event_fn on_event, void *event_ctx, struct pmd_engine **out,
	     char *err, size_t err_len);

/** Drop a reference. When the last reference is dropped, the thread stops, the port is closed, and the NIC is
 *  destroyed. */
void pmd_close(struct pmd_engine *engine);

struct nic *pmd_engine_nic(struct pmd_engine *engine);

/* A QPN or SRQ number of the engine's NIC is the number of the engine's function of the device, followed by these
 * bits. */
#define PMD_FUNCTION_QPN_BITS 16
/** The number of the engine's function of the device. Functions of the same device have different numbers. */
unsigned pmd_engine_function(const struct pmd_engine *engine);

/** Take and release the engine lock, which serialises all calls to the NIC. Not recursive. */
void pmd_lock(struct pmd_engine *engine);
void pmd_unlock(struct pmd_engine *engine);

/**
 * Make progress in the calling thread, lock held: receive packets, run due timers, transmit what is due, deliver
 * events. Called by polling verbs; the work per call is bounded. After many empty polls in a row, no matter by
 * which threads, the call first yields the CPU and releases the lock meanwhile. State that the caller has read under
 * the lock before the call can therefore be out of date after the call.
 * @param completions how many completions the caller has room for, at least 1: after that many new completions, the
 * call may leave further packets to the next call.
 * @return false: there was nothing to do, and the lock was not released.
 */
bool pmd_progress(struct pmd_engine *engine, unsigned completions);

/** Like pmd_progress, but takes the lock itself, and returns false at once if another thread holds the lock: that
 *  thread makes progress. */
bool pmd_try_progress(struct pmd_engine *engine);

/** Whether the last step of a progress call received or sent packets: then another call is likely to find more. No lock
 *  needed. */
bool pmd_has_moved(const struct pmd_engine *engine);

/** Whether UROCE_PROGRESS disables the background thread of this process's engines: only the application's polls and
 *  waits make progress. */
bool pmd_progress_is_inline(void);

/** The doorbell after posting work, lock held: transmit now whatever the NIC has to send. */
void pmd_doorbell(struct pmd_engine *engine);

/**
 * Resolve the address of a peer before packets are sent to it, no lock held. If the engine does ARP or neighbour
 * discovery itself, this call waits for the answer, for at most a second. The first packets then need not wait in
 * a queue that may be too short for them. Drivers of hardware NICs also resolve the address when a QP learns its peer
 * and when an address handle is created.
 */
void pmd_resolve(struct pmd_engine *engine, const struct nic_gid *dgid);

/**
 * Call this before a QP or the process ends, lock held. It processes packets that have already arrived (hardware would
 * have processed them on arrival) and sends delayed ACKs. Otherwise a peer that waits for an ACK would report a
 * timeout, although this side has ended properly. The work is bounded.
 */
void pmd_settle(struct pmd_engine *engine);

/** The application has armed a CQ and is about to sleep on its completion channel: the background thread takes over at
 *  once, unless the application uses pmd_wait. Lock held. Only a hint, which improves latency. */
void pmd_expect_sleep(struct pmd_engine *engine);

/**
 * Sleep until *ready is true: the event callback sets it (atomically, with the lock held). Called without the lock.
 * While it waits, the calling thread makes progress. A cancellation point.
 * @param fd the completion channel's descriptor, which the application would otherwise read; if fd is non-blocking,
 * this call does not sleep.
 * @return 0; -EAGAIN: fd is non-blocking, and *ready is not set; -EINTR: interrupted by a signal, and the program has a
 * handler that does not restart calls; -EBUSY: waiting here is not possible (another thread already waits here, the
 * engine is dead, its progress mode excludes waiting, or descriptors are closed): sleep on fd instead.
 */
int pmd_wait(struct pmd_engine *engine, int fd, const bool *ready);

/**
 * Serve a port of the device, until pmd_service_close or the end of the engine. No lock held. From now on this engine's
 * NIC receives all packets to QPN NIC_SERVICE_QPN + port (nic_rdm.h) at any address of the device, from processes of
 * this host and from the network, whether or not the NIC has such a QP. Only one function of a device can serve a port.
 * @param port 1 ... NIC_SERVICE_PORT_MAX; 0: any free port from PMD_SERVICE_ANY_MIN on, which is stored in *port.
 * @return 0, -EADDRINUSE, -EINVAL (no such port), -ENOSPC (the process serves too many ports), another negative errno.
 */
int pmd_service_open(struct pmd_engine *engine, uint16_t *port);
/** Stop serving the port, so that another function can serve it. No lock held. The call receives the packets that
 *  processes of this host have already sent to the port. */
void pmd_service_close(struct pmd_engine *engine, uint16_t port);

#define PMD_SERVICE_ANY_MIN 49152u

/** Whether QPs of the engine can be attached to multicast groups. Only ports on the kernel's UDP support multicast. */
bool pmd_mcast_supported(const struct pmd_engine *engine);
/** Attach a UD QP to a multicast group (nic_mcast.h): it receives the group's packets on the interface that has the
 *  device's address, including packets that this host sends. Lock held. @return as nic_mcast_attach; -EOPNOTSUPP: the
 *  port has no multicast; -EADDRNOTAVAIL: the device has no address of the group's family; another negative errno. */
int pmd_mcast_attach(struct pmd_engine *engine, struct nic_qp *qp, const struct nic_gid *group);
/** Detach a QP from a group. Lock held. @return as nic_mcast_detach. */
int pmd_mcast_detach(struct pmd_engine *engine, struct nic_qp *qp, const struct nic_gid *group);
/** Detach a QP from all groups. Lock held. */
void pmd_mcast_leave(struct pmd_engine *engine, struct nic_qp *qp);

/**
 * Copy the counters of the engine's port. Lock held.
 */
void pmd_port_stats_get(struct pmd_engine *engine, struct pmd_port_stats *out);

/**
 * Check that [addr, addr + len) is mapped (and writable, if `write`). For memory registration. Also faults in the pages
 * of a short range, and calls pmd_guard_reinstall().
 * @return 0, -EFAULT.
 */
int pmd_check_range(const void *addr, size_t len, bool write);

/**
 * Whether all of [addr, addr + len) is a shared mapping of files, so that data stored there can be made persistent.
 */
bool pmd_is_mapped_file(const void *addr, size_t len);

/**
 * Fault in the pages of [addr, addr + len), for reading or for writing. If the kernel cannot do this (before Linux
 * 5.14, or for special mappings), only check the pages. @return 0, -EFAULT: some pages are not mapped, or not writable.
 */
int pmd_populate(const void *addr, size_t len, bool write);

/**
 * Install the SIGSEGV and SIGBUS handlers again. While the NIC accesses application memory, they turn a fault on
 * unmapped memory into an error; other faults go to the handler that the application had installed. A handler that the
 * application installs later replaces ours. The next pmd_open that starts an engine, or pmd_check_range, then
 * installs ours again, in front of the new one. A front-end that interposes sigaction can call this function to do so
 * at once.
 */
void pmd_guard_reinstall(void);

/** Whether the engine was opened by a parent before it forked this process. Such an engine is dead here: calls return
 * at once, and its descriptors are closed (except those of libpcap). A child can open the device anew, except an
 * ethdev. */
bool pmd_is_dead(const struct pmd_engine *engine);
/** The number of counted forks in this process's ancestry. A fork is counted if an engine was open, if pmd_forks_count
 *  had been called, or if an earlier fork was counted. An object that was made when this number was smaller belongs to
 *  an ancestor process. */
unsigned pmd_forks(void);
/** From now on count each fork, even while no engine is open: the caller has made an object that a child must not
 * share. */
void pmd_forks_count(void);
/** Register the engines' fork handlers now rather than when the first engine is opened. This is for callers with fork
 *  handlers of their own. Handlers for a lock that is taken while an engine's lock is held must be registered before
 *  this call. Handlers for a lock that is held while an engine is locked or opened must be registered after it. */
void pmd_fork_handlers(void);

#endif
