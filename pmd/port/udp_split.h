/* SPDX-License-Identifier: BSD-3-Clause */
/* udp_split.h - undoes GRO: splits a merged datagram into the packets that the peer has sent (pmd-internal). Uses no
 * other file of the port. */
#ifndef PMD_UDP_SPLIT_H
#define PMD_UDP_SPLIT_H

#include "nic.h"

struct udp_split {
	const uint8_t *data;
	uint32_t left;		   /* bytes that are left at `data` */
	uint32_t segment;	   /* bytes of each packet, except that the last can be shorter; 0: a single packet */
	struct nic_rx_frame frame; /* fields that all the packets share */
};

/** Get the next packets, at most n. They point into the datagram. @return the number of packets. */
static inline unsigned udp_split_next(struct udp_split *s, struct nic_rx_frame *frames, unsigned n)
{
	unsigned i = 0;

	while (i < n && s->left > 0) {
		uint32_t len = s->segment == 0 || s->left < s->segment ? s->left : s->segment;

		frames[i] = s->frame;
		frames[i].data = s->data;
		frames[i].len = len;
		s->data += len;
		s->left -= len;
		i++;
	}
	return i;
}

#endif
