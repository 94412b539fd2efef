/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap.h - stages between the NIC and its paths, present on request: captures and faults (pmd-internal). Call all
 * functions with the engine locked. Path 0 is the port; others are links to functions of this host.
 *
 * Usually there are none: then pmd_host.taps is 0, and testing it is the only cost for a packet.
 */
#ifndef PMD_TAP_H
#define PMD_TAP_H

#include "engine_host.h"

/** The stages of an engine. Zeroes: none. */
struct pmd_stages {
	struct pmd_capture *capture; /* NULL: none */
	struct pmd_fault *fault;     /* NULL: none */
	bool link_down;		     /* the device says so; see pmd_tap_link */
};

#define pmd_unlikely(x) __builtin_expect(!!(x), 0)
#define pmd_likely(x)	__builtin_expect(!!(x), 1)

enum pmd_tap { PMD_TAP_CAPTURE = 1, PMD_TAP_FAULT = 2 };

/** Replaces nic_rx() when there are taps. */
enum nic_rx_verdict pmd_tap_rx(struct pmd_host *host, unsigned path, const struct nic_rx_frame *frame, uint64_t now_ns);
/** After a received burst: give held packets that are due to the NIC. */
void pmd_tap_rx_due(struct pmd_host *host, uint64_t now_ns);

/** The NIC has filled n of `room` frames for `path`. @return how many are filled now, to be sent. */
unsigned pmd_tap_tx(struct pmd_host *host, unsigned path, struct nic_tx_frame *frames, unsigned n, unsigned room,
		    uint64_t now_ns);
/** Whether held packets are due to be sent. */
bool pmd_tap_tx_pending(const struct pmd_host *host, uint64_t now_ns);

/** Bitmap of the paths from 64 * word on for which held packets are due. */
uint64_t pmd_tap_tx_paths(const struct pmd_host *host, uint32_t word, uint64_t now_ns);

/** When the next held packet becomes due; UINT64_MAX: never. */
uint64_t pmd_tap_deadline(const struct pmd_host *host);

/** A path has ended: drop the packets held for sending on it. */
void pmd_tap_path_gone(struct pmd_host *host, unsigned path);

/** Update pmd_host.taps after a change of captures or faults. */
void pmd_tap_update(struct pmd_host *host);

/** One command to the fault stage, as in fault.h. @return 0, or a negative errno with a sentence in err. */
int pmd_tap_fault(struct pmd_host *host, const char *command, char *err, size_t err_len);

/** The device's link has gone up or down. The port is up unless the device or a fault says that it is down. */
void pmd_tap_link(struct pmd_host *host, bool up);

/** Free all taps: the engine closes. */
void pmd_tap_close(struct pmd_host *host);

#endif
