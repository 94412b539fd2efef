/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_host.h - the part of an engine that the layers below pmd/engine (control, link and tap) see (pmd-internal).
 *
 * The structs of these layers are declared here and defined in their own headers. The engine writes the fields of
 * struct pmd_host, except where a comment names another writer. The engine's lock protects fields that change.
 */
#ifndef PMD_ENGINE_HOST_H
#define PMD_ENGINE_HOST_H

#include "engine.h"

struct nic_cm;
struct pmd_cm_stats;
struct pmd_host;

/** Functions of the engine that the layers below call. The usual path of a packet calls none of them. */
struct pmd_host_ops {
	/** Wake the serving thread: the engine's, or an application thread in pmd_wait. */
	void (*wake)(struct pmd_host *host);
	/** Hand the NIC a packet that came from the port, or that the daemon received for us. */
	void (*take)(struct pmd_host *host, const struct nic_rx_frame *frame, uint64_t now_ns);
};

struct pmd_host {
	struct nic *nic;
	struct pmd_port *port;
	struct pmd_links *links; /* NULL: no links; pmd_links_close sets it to NULL */
	uint64_t now_ns;	 /* when the engine's last step began */
	/* Receiving from links stops when nic_completions() reaches this value, because the poller has no room for
	 * more completions. links_rx_rest writes this field, too. */
	uint64_t rx_until;
	unsigned taps;		     /* enum pmd_tap; tap.c writes it */
	bool rx_brief;		     /* stop receiving at a packet whose payload is passed by reference */
	bool dead;		     /* this process is a forked child: the engine is the parent's */
	bool keyed;		     /* UROCE_KEY was set at open */
	unsigned function;	     /* number of our function of the device */
	int bell_fd;		     /* eventfd that wakes the serving thread; the producers of links write to it */
	struct pmd_control *control; /* NULL: an ethdev device, which has one function only */
	struct pmd_local *local;     /* NULL: an ethdev device */
	struct pmd_services *services;
	struct nic_cm *nic_cm;		     /* NULL: no connection manager yet */
	const struct pmd_cm_stats *cm_stats; /* NULL: no connection manager yet */
	struct pmd_tools *tools;
	struct pmd_stages *stages; /* see tap.h */
	const struct pmd_device *device;
	const struct pmd_host_ops *ops;
};

#define PMD_RETRY_NS 20000 /* delay until sending on a full port is retried; minimum of this delay for a link */

#endif
