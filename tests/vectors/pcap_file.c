/* SPDX-License-Identifier: BSD-3-Clause */
/* pcap_file.c - see pcap_file.h. Checks every length that a file contains; keeps no state but struct pcap_file. */
#include "pcap_file.h"

#include <errno.h>
#include <string.h>

#define MAGIC_US 0xa1b2c3d4u
#define MAGIC_NS 0xa1b23c4du

enum { LINK_ETHERNET = 1, LINK_RAW_BSD = 12, LINK_RAW = 101, LINK_SLL = 113, LINK_IPV4 = 228, LINK_IPV6 = 229 };
enum { LINK_SLL2 = 276 };

static uint32_t swap32(uint32_t v)
{
	return v >> 24 | (v >> 8 & 0xff00) | (v << 8 & 0xff0000) | v << 24;
}

const char *pcap_file_open(struct pcap_file *pcap, const char *path)
{
	uint32_t header[6];

	pcap->file = fopen(path, "rb");
	if (!pcap->file)
		return strerror(errno);
	if (fread(header, sizeof(header), 1, pcap->file) != 1)
		goto not_pcap;
	pcap->swapped = header[0] == swap32(MAGIC_US) || header[0] == swap32(MAGIC_NS);
	if (!pcap->swapped && header[0] != MAGIC_US && header[0] != MAGIC_NS)
		goto not_pcap;
	pcap->link_type = (pcap->swapped ? swap32(header[5]) : header[5]) & 0xffff;
	return NULL;
not_pcap:
	fclose(pcap->file);
	return "not a pcap file (pcapng: convert it with `editcap -F pcap`)";
}

int pcap_file_next(struct pcap_file *pcap)
{
	uint32_t header[4];
	size_t got = fread(header, 1, sizeof(header), pcap->file);

	if (got == 0)
		return 0;
	if (got != sizeof(header))
		return -1;
	pcap->captured = pcap->swapped ? swap32(header[2]) : header[2];
	pcap->original = pcap->swapped ? swap32(header[3]) : header[3];
	if (pcap->captured > sizeof(pcap->frame))
		return -1;
	return fread(pcap->frame, 1, pcap->captured, pcap->file) == pcap->captured ? 1 : -1;
}

static unsigned get16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

int pcap_file_ip_offset(const struct pcap_file *pcap)
{
	unsigned at, type;

	switch (pcap->link_type) {
	case LINK_RAW_BSD:
	case LINK_RAW:
	case LINK_IPV4:
	case LINK_IPV6:
		return pcap->captured > 0 ? 0 : -1;
	case LINK_ETHERNET:
		at = 14;
		type = pcap->captured > at ? get16(pcap->frame + 12) : 0;
		while ((type == 0x8100 || type == 0x88a8) && pcap->captured > at + 4) {
			type = get16(pcap->frame + at + 2);
			at += 4;
		}
		break;
	case LINK_SLL:
		at = 16;
		type = pcap->captured > at ? get16(pcap->frame + 14) : 0;
		break;
	case LINK_SLL2:
		at = 20;
		type = pcap->captured > at ? get16(pcap->frame) : 0;
		break;
	default:
		return -1;
	}
	return type == 0x0800 || type == 0x86dd ? (int)at : -1;
}

void pcap_file_close(struct pcap_file *pcap)
{
	fclose(pcap->file);
}
