/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture.h - copies of packets for tools that asked for them (pmd-internal).
 *
 * Each packet that a function sends or receives, on any path, goes as one message to each listening tool: a whole IP
 * packet, as on the wire or as it would be there. Sends to a tool never wait: packets for which its socket has no room
 * are lost to it, and counted. Relative to faults a capture sees what a cable would: sent packets after the faults,
 * received ones before.
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
	uint64_t lost;	  /* packets lost to this tool so far */
	uint32_t len;	  /* of the packet on the wire */
	uint16_t path;	  /* 0: the port; others: links to other functions of this host */
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

/** Send packets to `fd`, which stays the caller's, from now on. @return 0, -EBUSY (added already, or too many
 *  tools). */
int pmd_capture_add(struct pmd_capture *c, int fd, const struct pmd_capture_filter *filter);
/** Counts for `fd` so far. @return whether it is in use. */
bool pmd_capture_get(const struct pmd_capture *c, int fd, struct pmd_capture_counts *out);
/** Stop sending packets to `fd`, if it was added. Frees the room kept for an answer, however little the tool has
 *  read. */
void pmd_capture_remove(struct pmd_capture *c, int fd);
bool pmd_capture_idle(const struct pmd_capture *c);

/** Offer a packet to the tools. */
void pmd_capture_tx(struct pmd_capture *c, unsigned path, const struct nic_tx_frame *frame);
void pmd_capture_rx(struct pmd_capture *c, unsigned path, const struct nic_rx_frame *frame);

#endif
