/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.h - what this function sends to, and receives from, other functions of the same host through shared memory
 * (pmd-internal).
 *
 * A link has one direction. The producer makes a ring (ring.h), connects to the consumer's name and hands it over; it
 * may use the ring at once, before the consumer has looked. The connection stays while both live; its end means that
 * the other side has ended the link.
 *
 *   producer                                   consumer
 *     PROTO_LINK struct proto_link, ring   ->
 *                                          <-    PROTO_LINK_TAKEN, with or without bell; if late, the ring is withdrawn
 *     PROTO_LINK_KNOCK                     ->    while the producer has no bell: wake up
 *
 * The bell is an eventfd that all producers share, and a process that has it can clear its count or make it blocking.
 * So only processes of the consumer's own user get it; others knock, which costs a little more. A producer rings a bell
 * only if it came from a process of its own user, and only if a write can neither block nor raise a signal. A lost bell
 * only costs time: if the consumer does not look at its ring, the producer rings again with a later packet.
 *
 * All calls come under the engine's lock.
 */
#ifndef PMD_LINKS_H
#define PMD_LINKS_H

#include "engine_host.h"
#include "proto.h"

enum { PROTO_LINK_TAKEN = PROTO_LINK + 1, PROTO_LINK_KNOCK };

#define LINKS_MAX	  255		  /* links out: one per possible function */
#define LINKS_IN_MAX	  (2 * LINKS_MAX) /* links in: to this function and to its services */
/* Links out to services, at most. Each carries few packets, so they must not crowd out links to functions; packets to a
 * service without a link go by the port. */
#define LINKS_SERVICE_MAX 64

/** Message with which a producer hands over a ring; the memfd comes with it. */
struct proto_link {
	struct nic_gid key; /* of the producer's device */
	struct nic_gid to;  /* the consumer's address: destination of all packets on the link */
	uint32_t function;
	uint32_t service;	    /* destination service port of the consumer; 0: the function itself */
	uint32_t strays;	    /* 1: carries only forwarded strays, no packets of the producer's own */
	uint32_t reserved;	    /* 0 */
	uint64_t number, number_at; /* identify the producer's memory: see links_refer.c */
};

/** Whether the link carries the producer's own packets to QPs of the consumer. */
static inline bool proto_link_is_peers(const struct proto_link *said)
{
	return said->service == 0 && said->strays == 0;
}

struct pmd_control;
struct pmd_links;

/**
 * Create the links of an engine. UROCE_RING=off: no links at all, *out is NULL, which is allowed below where links may
 * be absent.
 * @return 0, -EINVAL (a setting is neither on nor off: *wrong is its name), -ENOMEM.
 */
int pmd_links_open(struct pmd_host *host, struct pmd_control *control, struct pmd_links **out, const char **wrong);
void pmd_links_close(struct pmd_links *links);
/** In a forked child: close descriptors, touch nothing else. */
void pmd_links_abandon(struct pmd_links *links);

/** As nic_config.route: makes the link if possible. */
uint32_t pmd_links_route(struct pmd_links *links, const struct nic_gid *dgid, uint32_t dest_qpn);

/** The target of a link to `qpn`: a function number, or the full QPN of a service, which different functions may serve
 *  over time. */
uint32_t pmd_links_target(uint32_t qpn);

/** Look up an existing link to a target at an address; changes nothing. @return its path, 0: none. */
uint32_t pmd_links_find(const struct pmd_links *links, const struct nic_gid *dgid, uint32_t target);

/** Make a link for strays to a target of our own device that has no link yet. It carries nothing else, and ends when
 *  unused, or when we make a link of our own. Costs system calls. @return its path, or a negative errno; -ECONNREFUSED:
 *  no process listens there. */
int pmd_links_make(struct pmd_links *links, const struct nic_gid *dgid, uint32_t target);

/** As nic_config.source: the number of the peer whose link carries its packets to our address `own`; 0: none. May ask a
 *  daemon. */
uint32_t pmd_links_source(struct pmd_links *links, const struct nic_gid *dgid, uint32_t dest_qpn,
			  const struct nic_gid *own, uint32_t claimed);

/** As nic_config.revoke. */
void pmd_links_revoke(struct pmd_links *links, uint32_t qpn, bool answers, uint32_t key);

/** As nic_config.untaken; rings the consumer's bell if it may have been lost. */
bool pmd_links_untaken(struct pmd_links *links, uint32_t path, uint64_t *mark);

/** Receive up to about `budget` packets. @return packets received. */
unsigned pmd_links_rx(struct pmd_links *links, unsigned budget, uint64_t now_ns);
/** Whether any ring holds packets. `links` is not NULL. */
bool pmd_links_ready(const struct pmd_links *links);
/** Transmit up to `budget` packets through links. @return packets transmitted. */
unsigned pmd_links_tx(struct pmd_links *links, unsigned budget, uint64_t now_ns);
/** Whether packets wait for links that had room when last tried. */
bool pmd_links_pending(const struct pmd_links *links);
/** When to call pmd_links_tx without new packets: to retry links whose rings are full (consumers do not notify when
 *  they drain), and to give up links that the consumer has not claimed. UINT64_MAX: no such links. */
uint64_t pmd_links_retry(const struct pmd_links *links);
/** Whether there are links, in either direction. */
bool pmd_links_any(const struct pmd_links *links);

/** Stop serving this port: receive what is left in the links to it, then end them. */
void pmd_links_unserve(struct pmd_links *links, uint16_t port);

/** Forward by this link a packet that the port received for another function of this device, or a service of one. Half
 *  of the ring is reserved for our own packets. @return false: no room, the packet is lost. */
bool pmd_links_forward(struct pmd_links *links, uint32_t path, const struct nic_rx_frame *frame);

/** Free the memory of rings without recent traffic, and end such links to services or for strays. @return when to call
 *  again; UINT64_MAX: never. */
uint64_t pmd_links_trim(struct pmd_links *links, uint64_t now_ns);

/** Make producers ring the engine's bell from now on. @return false: a ring holds packets already; the bell is not
 *  requested. */
bool pmd_links_sleep(struct pmd_links *links);
/** Tell producers that they need not ring any more. */
void pmd_links_awake(struct pmd_links *links);
#endif
