/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture.h - copies of packets for tools that asked for them (pmd-internal).
 *
 * What a function sends or receives, on whatever path, goes as one message a packet to each tool that listens: whole IP
 * packets, as they are on the wire or would be there. Nobody waits for a tool: what its socket has no room for is lost to
 * it, and counted. Of faults a capture sees what a cable would: what is sent comes after them, what is received before.
 */
#ifndef PMD_CAPTURE_H
#define PMD_CAPTURE_H

#include "nic.h"

#define PMD_CAPTURE_SINKS   8
#define PMD_CAPTURE_SNAPLEN 32000u /* bytes of a packet, at most: a message has room for them */

enum pmd_capture_direction { PMD_CAPTURE_TX = 1, PMD_CAPTURE_RX = 2 };

/** What a tool wants to see. */
struct pmd_capture_filter {
	uint32_t qpn;	     /* only what this QP sends or receives; 0: all */
	uint32_t directions; /* enum pmd_capture_direction */
	uint32_t snaplen;    /* bytes of a packet, at most PMD_CAPTURE_SNAPLEN */
};

/** In front of each packet in its message. */
struct pmd_capture_header {
	uint64_t time_ns; /* CLOCK_REALTIME */
	uint64_t lost;	  /* packets that this tool should have had and has not, so far */
	uint32_t len;	  /* of the packet on the wire */
	uint16_t path;	  /* 0: the port; others: links to other functions of this host */
	uint8_t direction;
	uint8_t reserved;
};

struct pmd_capture_counts {
	uint64_t seen, lost;
};

struct pmd_capture;

/** @return NULL when memory is short. */
struct pmd_capture *pmd_capture_create(void);
void pmd_capture_destroy(struct pmd_capture *c);

/** Packets go to fd, which stays the caller's, from now on. @return 0, -EBUSY (there already, or too many tools). */
int pmd_capture_add(struct pmd_capture *c, int fd, const struct pmd_capture_filter *filter);
/** What has gone to fd so far, and whether anything does. */
bool pmd_capture_get(const struct pmd_capture *c, int fd, struct pmd_capture_counts *out);
/** No more packets to fd, if there were any. Then there is room for an answer, however little the tool has read. */
void pmd_capture_remove(struct pmd_capture *c, int fd);
bool pmd_capture_idle(const struct pmd_capture *c);

/** A packet goes by. */
void pmd_capture_tx(struct pmd_capture *c, unsigned path, const struct nic_tx_frame *frame);
void pmd_capture_rx(struct pmd_capture *c, unsigned path, const struct nic_rx_frame *frame);

#endif
