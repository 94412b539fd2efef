/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * capture.c - see capture.h. Each packet is assembled once (nic_frame_ip) and then sent to every tool whose filter it
 * passes. Owns: the list of tools, and a buffer for one packet; not the tools' sockets.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "capture.h"
#include "proto.h"

#define SEND_BYTES   (8 << 20)	 /* send buffer requested for a tool's socket; the kernel may grant less */
#define ANSWER_BYTES (256 << 10) /* at most this much of the send buffer is reserved for answers */

struct sink {
	int fd;		/* the tool's socket; -1: unused entry */
	int send_bytes; /* size of the send buffer that the kernel granted */
	bool forced;	/* granted with SO_SNDBUFFORCE, which ignores the kernel's limit */
	struct pmd_capture_filter filter;
	struct pmd_capture_counts counts;
};

struct pmd_capture {
	struct sink sinks[PMD_CAPTURE_SINKS];
	struct {
		struct pmd_capture_header header;
		uint8_t packet[UINT16_MAX];
	} out;
};

struct pmd_capture *pmd_capture_create(void)
{
	struct pmd_capture *c = calloc(1, sizeof(*c));

	for (unsigned i = 0; c && i < PMD_CAPTURE_SINKS; i++)
		c->sinks[i].fd = -1;
	return c;
}

void pmd_capture_destroy(struct pmd_capture *c)
{
	free(c);
}

static struct sink *sink_find(struct pmd_capture *c, int fd)
{
	for (unsigned i = 0; i < PMD_CAPTURE_SINKS; i++)
		if (c->sinks[i].fd == fd)
			return &c->sinks[i];
	return NULL;
}

/** Set the send buffer's size. If the process has lost the privilege for SO_SNDBUFFORCE, the size does not change. */
static void set_send_bytes(const struct sink *s, int size)
{
	setsockopt(s->fd, SOL_SOCKET, s->forced ? SO_SNDBUFFORCE : SO_SNDBUF, &size, sizeof(size));
}

static void grant_send_bytes(struct sink *s)
{
	int size = SEND_BYTES;
	socklen_t len = sizeof(s->send_bytes);

	s->forced = setsockopt(s->fd, SOL_SOCKET, SO_SNDBUFFORCE, &size, sizeof(size)) == 0;
	if (!s->forced)
		set_send_bytes(s, size);
	getsockopt(s->fd, SOL_SOCKET, SO_SNDBUF, &s->send_bytes, &len);
	s->send_bytes /= 2; /* the kernel reports twice the requested size */
	set_send_bytes(s, s->send_bytes - (s->send_bytes / 4 < ANSWER_BYTES ? s->send_bytes / 4 : ANSWER_BYTES));
}

int pmd_capture_add(struct pmd_capture *c, int fd, const struct pmd_capture_filter *filter)
{
	struct sink *s = sink_find(c, fd) ? NULL : sink_find(c, -1);

	if (!s)
		return -EBUSY;
	*s = (struct sink){.fd = fd, .filter = *filter};
	grant_send_bytes(s);
	return 0;
}

bool pmd_capture_get(const struct pmd_capture *c, int fd, struct pmd_capture_counts *out)
{
	for (unsigned i = 0; i < PMD_CAPTURE_SINKS; i++) {
		if (c->sinks[i].fd != fd)
			continue;
		*out = c->sinks[i].counts;
		return true;
	}
	return false;
}

void pmd_capture_remove(struct pmd_capture *c, int fd)
{
	struct sink *s = sink_find(c, fd);

	if (!s)
		return;
	set_send_bytes(s, s->send_bytes);
	s->fd = -1;
}

bool pmd_capture_idle(const struct pmd_capture *c)
{
	for (unsigned i = 0; i < PMD_CAPTURE_SINKS; i++)
		if (c->sinks[i].fd >= 0)
			return false;
	return true;
}

/** Send the assembled packet to a tool. If the tool has exited, the packet counts as lost; the owner of the connection
 *  notices the exit. */
static void sink_offer(struct pmd_capture *c, struct sink *s, uint32_t len)
{
	uint32_t cut = len < s->filter.snaplen ? len : s->filter.snaplen;

	s->counts.seen++;
	c->out.header.lost = s->counts.lost;
	if (proto_send(s->fd, PROTO_PACKET, &c->out, sizeof(c->out.header) + cut, NULL, 0) != 0)
		s->counts.lost++;
}

static void capture(struct pmd_capture *c, unsigned path, enum pmd_capture_direction direction,
		    const struct nic_rx_frame *frame, uint32_t qpn)
{
	struct timespec now;
	uint32_t len = 0;

	for (unsigned i = 0; i < PMD_CAPTURE_SINKS; i++) {
		struct sink *s = &c->sinks[i];

		if (s->fd < 0 || !(s->filter.directions & direction) || (s->filter.qpn && s->filter.qpn != qpn))
			continue;
		if (len == 0) {
			len = nic_frame_ip(frame, c->out.packet, sizeof(c->out.packet));
			clock_gettime(CLOCK_REALTIME, &now);
			c->out.header = (struct pmd_capture_header){
				.time_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec,
				.len = len,
				.path = (uint16_t)path,
				.direction = (uint8_t)direction,
			};
		}
		if (len > 0)
			sink_offer(c, s, len);
	}
}

void pmd_capture_tx(struct pmd_capture *c, unsigned path, const struct nic_tx_frame *frame)
{
	const struct nic_rx_frame whole = {
		.data = frame->data, .len = frame->len, .flags = frame->no_icrc ? NIC_RX_NO_ICRC : 0};

	capture(c, path, PMD_CAPTURE_TX, &whole, frame->qpn);
}

void pmd_capture_rx(struct pmd_capture *c, unsigned path, const struct nic_rx_frame *frame)
{
	capture(c, path, PMD_CAPTURE_RX, frame, nic_frame_qpn(frame));
}
