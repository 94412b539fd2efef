/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap_file.h - reads classic pcap files (microseconds or nanoseconds, either byte order) and finds the IP packets. */
#ifndef VECTORS_PCAP_FILE_H
#define VECTORS_PCAP_FILE_H

#include <stdint.h>
#include <stdio.h>

struct pcap_file {
	FILE *file;
	int swapped;	    /* the file was written on a host of the other byte order */
	uint32_t link_type; /* 1 Ethernet, 12 and 101 raw IP, 113 and 276 Linux cooked */
	uint32_t captured;  /* bytes in frame[] */
	uint32_t original;  /* bytes the frame had on the wire */
	uint8_t frame[65536 + 256];
};

/** @return NULL, or a message that says what is wrong. After success the caller must call pcap_file_close. */
const char *pcap_file_open(struct pcap_file *pcap, const char *path);

/** Read the next frame into pcap->frame. @return 1; 0 at the end; -1 if the file is damaged. */
int pcap_file_next(struct pcap_file *pcap);

/** Offset of the IP header in the current frame, or -1 when it carries no IP. Skips VLAN tags. */
int pcap_file_ip_offset(const struct pcap_file *pcap);

void pcap_file_close(struct pcap_file *pcap);

#endif
