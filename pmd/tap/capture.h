/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture.h - packet capture: copies of packets for tools such as `uroce capture` (pmd-internal).
 *
 * Each packet that a function sends or receives, on any path, is sent as one message to each tool whose filter it
 * passes: an IP packet in the form that it has on a wire, even if its path has no wire, cut to the filter's snaplen.
 * Sends to a tool never block: if the tool's socket has no room, the tool loses the packet, and the loss is counted. A
 * capture shows what a cable would carry: sent packets after injected faults, received packets before them.
 */
#ifndef PMD_CAPTURE_H
#define PMD_CAPTURE_H

#include "nic.h"

#define PMD_CAPTURE_SINKS   8
#define PMD_CAPTURE_SNAPLEN 32000u /* largest snaplen, bytes: fits a message */

enum pmd_capture_direction { PMD_CAPTURE_TX = 1, PMD_CAPTURE_RX = 2 };

/** What a tool wants to see. */
struct pmd_capture_filter {
	uint32_t qpn;	     /* only packets that this QP sends or receives; 0: all packets */
	uint32_t directions; /* enum pmd_capture_direction */
	uint32_t snaplen;    /* captured bytes per packet, at most PMD_CAPTURE_SNAPLEN */
};

/** Precedes the packet in each message. */
struct pmd_capture_header {
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint64_t lost;	  /* packets lost to this tool so far */
	uint32_t len;	  /* length of the packet on the wire */
	uint16_t path;	  /* 0: the port; else a link to another function of this host */
	uint8_t direction;
	uint8_t reserved;
};

struct pmd_capture_counts {
	uint64_t seen, lost;
};

struct pmd_capture;

/** @return NULL: out of memory. */
struct pmd_capture *pmd_capture_create(void);
void pmd_capture_destroy(struct pmd_capture *c);

/** Send packets to the tool at `fd` from now on. They cannot fill the last part of the socket's send buffer. The caller
 *  still owns `fd`. @return 0, -EBUSY (`fd` was added before, or there are too many tools). */
int pmd_capture_add(struct pmd_capture *c, int fd, const struct pmd_capture_filter *filter);
/** Get the counts of the tool at `fd`. @return false: `fd` has not been added. */
bool pmd_capture_get(const struct pmd_capture *c, int fd, struct pmd_capture_counts *out);
/** Stop sending packets to the tool at `fd`, if it was added. The last part of the send buffer can then be used, so an
 *  answer to the tool fits even if it has read nothing. */
void pmd_capture_remove(struct pmd_capture *c, int fd);
bool pmd_capture_idle(const struct pmd_capture *c);

/** Send a packet to the tools whose filters it passes. */
void pmd_capture_tx(struct pmd_capture *c, unsigned path, const struct nic_tx_frame *frame);
void pmd_capture_rx(struct pmd_capture *c, unsigned path, const struct nic_rx_frame *frame);

#endif
