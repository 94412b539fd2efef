/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * strays.c - see strays.h. Owns: held packets, the cache of targets to which no link is possible, the limiter.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "limiter.h"
#include "links.h"
#include "nic_rdm.h"
#include "port.h"
#include "services.h"
#include "strays.h"

#define UD_SEND_ONLY 0x64
#define BTH_DEST_QPN 5
#define BTH_LEN	     12

#define HELD		   PMD_LIMITER_BURST /* maximum number of held packets: the limiter permits no more at once */
#define FOUND		   64u
#define FOUND_NS	   50000000 /* how long an entry of the cache is valid */
#define IS_SERVICE(target) ((target) >= NIC_SERVICE_QPN)

/** A packet that waits for its link. */
struct stray_held {
	uint32_t target;
	struct nic_rx_frame frame; /* frame.data points to `packet` */
	uint8_t packet[NIC_FRAME_MAX];
};

/** Cached result for a target to which no link could be made. `nobody`: no function serves the port. */
struct stray_found {
	uint64_t until_ns;
	uint32_t target;
	bool nobody;
};

struct pmd_strays {
	struct pmd_host *host;
	struct pmd_limiter limiter;
	unsigned n_held;
	struct stray_found found[FOUND]; /* direct-mapped */
	struct stray_held held[HELD];
};

struct pmd_strays *pmd_strays_open(struct pmd_host *host)
{
	struct pmd_strays *s = calloc(1, sizeof(*s));

	if (s)
		s->host = host;
	return s;
}

void pmd_strays_close(struct pmd_strays *strays)
{
	free(strays);
}

/** The destination of a packet: a function's number, or the full QPN of a service. */
static uint32_t target_of(const struct nic_rx_frame *frame)
{
	const uint8_t *qpn = frame->data + BTH_DEST_QPN;

	return qpn[0] == NIC_SERVICE_QPN >> 16 ? NIC_SERVICE_QPN + (uint32_t)(qpn[1] << 8 | qpn[2]) : qpn[0];
}

static struct stray_found *found_slot(struct pmd_strays *s, uint32_t target)
{
	return &s->found[target % FOUND];
}

static void remember(struct pmd_strays *s, uint32_t target, bool nobody, uint64_t now_ns)
{
	*found_slot(s, target) =
		(struct stray_found){.until_ns = now_ns + FOUND_NS, .target = target, .nobody = nobody};
}

static void pass_on(struct pmd_strays *s, uint32_t path, const struct nic_rx_frame *frame)
{
	if (!pmd_links_forward(s->host->links, path, frame))
		s->host->port->stats.rx_misrouted_full++;
}

/** Whether a receiver could accept the packet. If the packet is malformed, nic_rx_check() counts it. */
static bool is_acceptable(struct pmd_strays *s, const struct nic_rx_frame *frame, uint32_t target)
{
	if (IS_SERVICE(target) && (frame->len < BTH_LEN || frame->data[0] != UD_SEND_ONLY ||
				   target == NIC_SERVICE_QPN || target - NIC_SERVICE_QPN > NIC_SERVICE_PORT_MAX)) {
		s->host->port->stats.rx_misrouted_refused++;
		return false;
	}
	return nic_rx_check(s->host->nic, frame);
}

/** Hold the packet until the end of the burst. Drop and count the packet if another packet for the same target is
 *  already held, or if the limiter permits no more connections. */
static void hold(struct pmd_strays *s, const struct nic_rx_frame *frame, uint32_t target)
{
	struct stray_held *held = &s->held[s->n_held];

	for (unsigned i = 0; i < s->n_held; i++) {
		if (s->held[i].target == target && pmd_gid_equal(&s->held[i].frame.dgid, &frame->dgid)) {
			s->host->port->stats.rx_misrouted_waiting++;
			return;
		}
	}
	if (s->n_held == HELD || frame->len > sizeof(held->packet) || !pmd_limiter_take(&s->limiter, s->host->now_ns)) {
		s->host->port->stats.rx_misrouted_limited++;
		return;
	}
	held->target = target;
	held->frame = *frame;
	held->frame.data = memcpy(held->packet, frame->data, frame->len);
	s->n_held++;
}

bool pmd_strays_take(struct pmd_strays *s, const struct nic_rx_frame *frame)
{
	uint32_t target = target_of(frame), path;
	const struct stray_found *found;

	if (!is_acceptable(s, frame, target))
		return true;
	path = pmd_links_find(s->host->links, &frame->dgid, target);
	if (path) {
		pass_on(s, path, frame);
		return true;
	}
	found = found_slot(s, target);
	if (found->target == target && s->host->now_ns < found->until_ns) {
		s->host->port->stats.rx_misrouted_dropped += !found->nobody;
		return !found->nobody;
	}
	if (IS_SERVICE(target) || s->host->links)
		hold(s, frame, target);
	else
		s->host->port->stats.rx_misrouted_dropped++;
	return true;
}

/** Make the link and forward the held packet. If no link can be made, cache that, and drop the packet or, if no
 *  function serves its port, hand it to our NIC. The limiter has permitted the system calls. */
static void settle(struct pmd_strays *s, const struct stray_held *held, uint64_t now_ns)
{
	int path = pmd_links_make(s->host->links, &held->frame.dgid, held->target);
	bool nobody = false;

	if (path > 0) {
		pass_on(s, (uint32_t)path, &held->frame);
		return;
	}
	if (IS_SERVICE(held->target))
		nobody = path == -ECONNREFUSED || pmd_services_nobody_listens(s->host, held->target - NIC_SERVICE_QPN);
	remember(s, held->target, nobody, now_ns);
	if (nobody) {
		s->host->port->stats.rx_packets++;
		s->host->ops->take(s->host, &held->frame, now_ns);
	} else {
		s->host->port->stats.rx_misrouted_dropped++;
	}
}

bool pmd_strays_wait(const struct pmd_strays *s)
{
	return s && s->n_held > 0;
}

void pmd_strays_settle(struct pmd_strays *s, uint64_t now_ns)
{
	int cancel_state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel_state); /* no cancellation while the engine is locked */
	for (unsigned i = 0; i < s->n_held; i++)
		settle(s, &s->held[i], now_ns);
	s->n_held = 0;
	pthread_setcancelstate(cancel_state, NULL);
}
