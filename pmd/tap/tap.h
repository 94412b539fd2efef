/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap.h - optional stages between the NIC and its paths: captures and injected faults (pmd-internal). The caller holds
 * the engine's lock. Path 0 is the port; the others are links to functions of this host.
 *
 * Usually there are no stages: then pmd_host.taps is 0, and testing it is the only cost for a packet.
 */
#ifndef PMD_TAP_H
#define PMD_TAP_H

#include "engine_host.h"

/** The stages of an engine. Zeroes: no stages. */
struct pmd_stages {
	struct pmd_capture *capture; /* NULL: no capture */
	struct pmd_fault *fault;     /* NULL: no faults */
	bool link_down;		     /* the device's link is down; see pmd_tap_link */
};

#define pmd_unlikely(x) __builtin_expect(!!(x), 0)
#define pmd_likely(x)	__builtin_expect(!!(x), 1)

enum pmd_tap { PMD_TAP_CAPTURE = 1, PMD_TAP_FAULT = 2 };

/** Pass a received packet through the stages to the NIC; called instead of nic_rx() when there are stages. @return as
 *  nic_rx(); NIC_RX_MALFORMED also if a fault drops or holds the packet. */
enum nic_rx_verdict pmd_tap_rx(struct pmd_host *host, unsigned path, const struct nic_rx_frame *frame, uint64_t now_ns);
/** Deliver to the NIC the held packets that are due by now. Called in each engine step, if there are taps. */
void pmd_tap_rx_due(struct pmd_host *host, uint64_t now_ns);

/** Pass n packets for `path` through the stages, in an array of `room` frames. @return how many frames are to be
 *  sent. */
unsigned pmd_tap_tx(struct pmd_host *host, unsigned path, struct nic_tx_frame *frames, unsigned n, unsigned room,
		    uint64_t now_ns);
/** Whether held packets are due to be sent. */
bool pmd_tap_tx_pending(const struct pmd_host *host, uint64_t now_ns);

/** @return a bitmap of the paths for which held packets are due: bit i stands for path 64 * word + i. */
uint64_t pmd_tap_tx_paths(const struct pmd_host *host, uint32_t word, uint64_t now_ns);

/** @return when the next held packet becomes due or, if its path was full, is offered again; UINT64_MAX: no packet is
 *  held. */
uint64_t pmd_tap_deadline(const struct pmd_host *host);

/** A path has ended: drop the packets held for sending on it. */
void pmd_tap_path_gone(struct pmd_host *host, unsigned path);

/** Update pmd_host.taps after a change of captures or faults. */
void pmd_tap_update(struct pmd_host *host);

/** Execute a fault injection command, see fault.h. @return 0, or a negative errno with a message in err. */
int pmd_tap_fault(struct pmd_host *host, const char *command, char *err, size_t err_len);

/** The device's link has gone up or down. The port is active if the device's link is up and no fault rule says
 *  "down". */
void pmd_tap_link(struct pmd_host *host, bool up);

/** Free all stages, when the engine closes. */
void pmd_tap_close(struct pmd_host *host);

#endif
