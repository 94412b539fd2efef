/* SPDX-License-Identifier: BSD-3-Clause */
/* udp_split.h - cutting a datagram that GRO put together into the packets it was sent as (pmd-internal). A leaf. */
#ifndef PMD_UDP_SPLIT_H
#define PMD_UDP_SPLIT_H

#include "nic.h"

struct udp_split {
	const uint8_t *data;
	uint32_t left;		   /* bytes at data */
	uint32_t segment;	   /* bytes of each packet, the last may be shorter; 0: it is one packet */
	struct nic_rx_frame frame; /* what all of them share */
};

/** The next packets, at most n. They point into the datagram. */
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
