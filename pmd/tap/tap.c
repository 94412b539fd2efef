/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap.c - see tap.h. The order is that of a cable: sent packets pass the faults, then the capture; received packets
 * pass the capture, then the faults. Owns: the engine's `taps`, and the link state that faults ask for.
 */
#include <errno.h>
#include <stdio.h>

#include "capture.h"
#include "engine_priv.h"
#include "fault.h"
#include "tap.h"

/* Held packets that a full path rejected are offered again after this. */
#define FULL_RETRY_NS 20000

enum nic_rx_verdict pmd_tap_rx(struct pmd_engine *e, unsigned path, const struct nic_rx_frame *frame, uint64_t now_ns)
{
	struct nic_rx_frame taken = *frame;

	if (e->taps & PMD_TAP_CAPTURE)
		pmd_capture_rx(e->capture, path, frame);
	if ((e->taps & PMD_TAP_FAULT) && !pmd_fault_rx(e->fault, path, &taken, now_ns))
		return NIC_RX_MALFORMED; /* lost, or held for later */
	return nic_rx(e->nic, &taken, now_ns);
}

void pmd_tap_rx_due(struct pmd_engine *e, uint64_t now_ns)
{
	struct nic_rx_frame frame;
	unsigned path;

	if (!(e->taps & PMD_TAP_FAULT))
		return;
	while (pmd_fault_rx_due(e->fault, &path, &frame, now_ns))
		if (nic_rx(e->nic, &frame, now_ns) == NIC_RX_ACCEPTED && path == 0 && e->port->ops->rx_accepted)
			e->port->ops->rx_accepted(e->port, &frame);
	pmd_tap_update(e);
}

unsigned pmd_tap_tx(struct pmd_engine *e, unsigned path, struct nic_tx_frame *frames, unsigned n, unsigned room,
		    uint64_t now_ns)
{
	if (e->taps & PMD_TAP_FAULT) {
		n = pmd_fault_tx(e->fault, path, frames, n, now_ns);
		n += pmd_fault_tx_due(e->fault, path, frames + n, room - n, now_ns);
	}
	if (e->taps & PMD_TAP_CAPTURE)
		for (unsigned i = 0; i < n; i++)
			pmd_capture_tx(e->capture, path, &frames[i]);
	return n;
}

bool pmd_tap_tx_pending(const struct pmd_engine *e, uint64_t now_ns)
{
	return (e->taps & PMD_TAP_FAULT) && pmd_fault_tx_deadline(e->fault) <= now_ns;
}

uint64_t pmd_tap_tx_paths(const struct pmd_engine *e, uint32_t word, uint64_t now_ns)
{
	return e->taps & PMD_TAP_FAULT ? pmd_fault_tx_paths(e->fault, word, now_ns) : 0;
}

uint64_t pmd_tap_deadline(const struct pmd_engine *e)
{
	uint64_t tx, rx;

	if (!(e->taps & PMD_TAP_FAULT))
		return UINT64_MAX;
	tx = pmd_fault_tx_deadline(e->fault);
	rx = pmd_fault_rx_deadline(e->fault);
	if (tx <= e->now_ns)
		tx = e->now_ns + FULL_RETRY_NS; /* it was offered and its path was full */
	return tx < rx ? tx : rx;
}

void pmd_tap_path_gone(struct pmd_engine *e, unsigned path)
{
	if (e->fault)
		pmd_fault_path_gone(e->fault, path);
}

void pmd_tap_update(struct pmd_engine *e)
{
	unsigned taps = 0;

	if (e->capture && !pmd_capture_idle(e->capture))
		taps |= PMD_TAP_CAPTURE;
	if (e->fault && !pmd_fault_idle(e->fault))
		taps |= PMD_TAP_FAULT;
	e->taps = taps;
}

static void link_update(struct pmd_engine *e)
{
	nic_port_set(e->nic, !e->link_down && !(e->fault && pmd_fault_link_down(e->fault)));
}

void pmd_tap_link(struct pmd_engine *e, bool up)
{
	e->link_down = !up;
	link_update(e);
}

int pmd_tap_fault(struct pmd_engine *e, const char *command, char *err, size_t err_len)
{
	int rc;

	if (!e->fault && !(e->fault = pmd_fault_create(e->function))) {
		snprintf(err, err_len, "the process is out of memory");
		return -ENOMEM;
	}
	rc = pmd_fault_command(e->fault, command, err, err_len);
	if (rc == 0) {
		pmd_tap_update(e);
		link_update(e);
	}
	return rc;
}

void pmd_tap_close(struct pmd_engine *e)
{
	e->taps = 0;
	pmd_capture_destroy(e->capture);
	pmd_fault_destroy(e->fault);
	e->capture = NULL;
	e->fault = NULL;
}
