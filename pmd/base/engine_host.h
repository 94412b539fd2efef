/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_host.h - what the parts of an engine below pmd/engine see of it (pmd-internal): control, link, tap.
 *
 * The parts are named here and defined in their own headers. Each keeps its state in its own struct; of the fields in
 * struct pmd_host the engine writes all but those that say otherwise. Under the engine's lock.
 */
#ifndef PMD_ENGINE_HOST_H
#define PMD_ENGINE_HOST_H

#include "engine.h"

struct pmd_host;

/** What they ask of the engine. None of it is on the path of a packet that arrives or leaves as usual. */
struct pmd_host_ops {
	/** Wake the serving thread: the engine's, or an application thread in pmd_wait. */
	void (*wake)(struct pmd_host *host);
	/** Hand a packet received from the port to the NIC. */
	void (*take)(struct pmd_host *host, const struct nic_rx_frame *frame, uint64_t now_ns);
};

struct pmd_host {
	struct nic *nic;
	struct pmd_port *port;
	struct pmd_links *links; /* NULL: none. pmd_links_close clears it */
	uint64_t now_ns;	 /* when the last step began */
	/* Completion count at which receiving from links stops: the poller has all it has room for. links_rx_rest lifts
	 * it. */
	uint64_t rx_until;
	unsigned taps;		     /* enum pmd_tap; tap.c writes it */
	bool rx_brief;		     /* leave payloads by reference in their rings */
	bool dead;		     /* in a forked child */
	bool keyed;		     /* UROCE_KEY was set at open */
	unsigned function;	     /* number of this function of the device */
	int bell_fd;		     /* eventfd: wakes the serving thread; producers of links ring it */
	struct pmd_control *control; /* NULL: an ethdev device, which has one function in one process */
	struct pmd_local *local;     /* NULL, likewise */
	struct pmd_services *services;
	struct pmd_tools *tools;
	struct pmd_stages *stages; /* see tap.h */
	const struct pmd_device *device;
	const struct pmd_host_ops *ops;
};

#define PMD_RETRY_NS 20000 /* until a full port, or a link that has just become full, is tried again */

#endif
