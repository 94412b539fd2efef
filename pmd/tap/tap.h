/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap.h - what packets meet between the NIC and their paths when somebody has asked for it: captures, faults
 * (pmd-internal). All calls with the engine locked. Path 0 is the port; others are links to functions of this host.
 *
 * Nobody asks mostly: then pmd_engine.taps is 0, and its test is all that a packet pays.
 */
#ifndef PMD_TAP_H
#define PMD_TAP_H

#include "nic.h"

struct pmd_engine;

#define pmd_unlikely(x) __builtin_expect(!!(x), 0)
#define pmd_likely(x)	__builtin_expect(!!(x), 1)

enum pmd_tap { PMD_TAP_CAPTURE = 1, PMD_TAP_FAULT = 2 };

/** In place of nic_rx, when there are taps. */
enum nic_rx_verdict pmd_tap_rx(struct pmd_engine *e, unsigned path, const struct nic_rx_frame *frame, uint64_t now_ns);
/** After a burst was received: what was held and is due goes to the NIC. */
void pmd_tap_rx_due(struct pmd_engine *e, uint64_t now_ns);

/** The NIC has filled n of `room` frames for `path`. @return how many of them are filled now, and are to be sent. */
unsigned pmd_tap_tx(struct pmd_engine *e, unsigned path, struct nic_tx_frame *frames, unsigned n, unsigned room,
		    uint64_t now_ns);
/** Whether something that was held is due to be sent. */
bool pmd_tap_tx_pending(const struct pmd_engine *e, uint64_t now_ns);

/** A bit for each path from 64 * word on for which something that was held is due. */
uint64_t pmd_tap_tx_paths(const struct pmd_engine *e, uint32_t word, uint64_t now_ns);

/** When held packets become due; UINT64_MAX: never. */
uint64_t pmd_tap_deadline(const struct pmd_engine *e);

/** A path has ended: nothing that is held can take it. */
void pmd_tap_path_gone(struct pmd_engine *e, unsigned path);

/** What tools have asked for has changed. */
void pmd_tap_update(struct pmd_engine *e);

/** One command to the fault stage, as in fault.h. @return 0, or a negative errno with a sentence in err. */
int pmd_tap_fault(struct pmd_engine *e, const char *command, char *err, size_t err_len);

/** The link of the device has gone up or down. It is up when neither the device nor a fault says otherwise. */
void pmd_tap_link(struct pmd_engine *e, bool up);

/** The engine closes. */
void pmd_tap_close(struct pmd_engine *e);

#endif
