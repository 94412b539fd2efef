/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap.c - see tap.h. A capture is always next to the cable: sent packets pass the faults, then the capture; received
 * packets pass the capture, then the faults. Owns: pmd_host.taps, the stages, and the link state that results from
 * faults.
 */
#include <errno.h>
#include <stdio.h>

#include "capture.h"
#include "fault.h"
#include "port.h"
#include "tap.h"

/* After this delay, held packets are offered again to a path that was full. */
#define FULL_RETRY_NS 20000

enum nic_rx_verdict pmd_tap_rx(struct pmd_host *host, unsigned path, const struct nic_rx_frame *frame, uint64_t now_ns)
{
	struct nic_rx_frame taken = *frame;

	if (host->taps & PMD_TAP_CAPTURE)
		pmd_capture_rx(host->stages->capture, path, frame);
	if ((host->taps & PMD_TAP_FAULT) && !pmd_fault_rx(host->stages->fault, path, &taken, now_ns))
		return NIC_RX_MALFORMED; /* dropped by a fault, or held for later */
	return nic_rx(host->nic, &taken, now_ns);
}

void pmd_tap_rx_due(struct pmd_host *host, uint64_t now_ns)
{
	struct nic_rx_frame frame;
	unsigned path;

	if (!(host->taps & PMD_TAP_FAULT))
		return;
	while (pmd_fault_rx_due(host->stages->fault, &path, &frame, now_ns))
		if (nic_rx(host->nic, &frame, now_ns) == NIC_RX_ACCEPTED && path == 0 && host->port->ops->rx_accepted)
			host->port->ops->rx_accepted(host->port, &frame);
	pmd_tap_update(host);
}

unsigned pmd_tap_tx(struct pmd_host *host, unsigned path, struct nic_tx_frame *frames, unsigned n, unsigned room,
		    uint64_t now_ns)
{
	if (host->taps & PMD_TAP_FAULT) {
		n = pmd_fault_tx(host->stages->fault, path, frames, n, now_ns);
		n += pmd_fault_tx_due(host->stages->fault, path, frames + n, room - n, now_ns);
	}
	if (host->taps & PMD_TAP_CAPTURE)
		for (unsigned i = 0; i < n; i++)
			pmd_capture_tx(host->stages->capture, path, &frames[i]);
	return n;
}

bool pmd_tap_tx_pending(const struct pmd_host *host, uint64_t now_ns)
{
	return (host->taps & PMD_TAP_FAULT) && pmd_fault_tx_deadline(host->stages->fault) <= now_ns;
}

uint64_t pmd_tap_tx_paths(const struct pmd_host *host, uint32_t word, uint64_t now_ns)
{
	return host->taps & PMD_TAP_FAULT ? pmd_fault_tx_paths(host->stages->fault, word, now_ns) : 0;
}

uint64_t pmd_tap_deadline(const struct pmd_host *host)
{
	uint64_t tx, rx;

	if (!(host->taps & PMD_TAP_FAULT))
		return UINT64_MAX;
	tx = pmd_fault_tx_deadline(host->stages->fault);
	rx = pmd_fault_rx_deadline(host->stages->fault);
	if (tx <= host->now_ns)
		tx = host->now_ns + FULL_RETRY_NS; /* a held packet was offered, but its path was full */
	return tx < rx ? tx : rx;
}

void pmd_tap_path_gone(struct pmd_host *host, unsigned path)
{
	if (host->stages->fault)
		pmd_fault_path_gone(host->stages->fault, path);
}

void pmd_tap_update(struct pmd_host *host)
{
	unsigned taps = 0;

	if (host->stages->capture && !pmd_capture_idle(host->stages->capture))
		taps |= PMD_TAP_CAPTURE;
	if (host->stages->fault && !pmd_fault_idle(host->stages->fault))
		taps |= PMD_TAP_FAULT;
	host->taps = taps;
}

static void link_update(struct pmd_host *host)
{
	nic_port_set(host->nic,
		     !host->stages->link_down && !(host->stages->fault && pmd_fault_link_down(host->stages->fault)));
}

void pmd_tap_link(struct pmd_host *host, bool up)
{
	host->stages->link_down = !up;
	link_update(host);
}

int pmd_tap_fault(struct pmd_host *host, const char *command, char *err, size_t err_len)
{
	int rc;

	if (!host->stages->fault && !(host->stages->fault = pmd_fault_create(host->function))) {
		snprintf(err, err_len, "the process is out of memory");
		return -ENOMEM;
	}
	rc = pmd_fault_command(host->stages->fault, command, err, err_len);
	if (rc == 0) {
		pmd_tap_update(host);
		link_update(host);
	}
	return rc;
}

void pmd_tap_close(struct pmd_host *host)
{
	host->taps = 0;
	pmd_capture_destroy(host->stages->capture);
	pmd_fault_destroy(host->stages->fault);
	host->stages->capture = NULL;
	host->stages->fault = NULL;
}
