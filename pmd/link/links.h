/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.h - packets between our function and other functions of the same host, through shared memory (pmd-internal).
 *
 * A link has one direction. The producer makes a ring (ring.h), connects to the consumer's name and sends the ring. The
 * producer may use the ring at once, before the consumer has accepted it. The connection stays open as long as the link
 * exists; if the connection ends, the other side has ended the link.
 *
 *   producer                                   consumer
 *     PROTO_LINK struct proto_link, ring   ->
 *                                          <-    PROTO_LINK_TAKEN, with or without bell: the ring is claimed
 *     PROTO_LINK_KNOCK                     ->    wake up; sent by a producer that has no bell to ring
 *
 * The bell is an eventfd that all producers of a consumer share. A process that has the bell can clear its count or
 * make it blocking, so only processes of the consumer's own user get it; other producers knock, which costs a little
 * more. A producer rings a bell only if the bell was sent by a process of the producer's own user, and only if a write
 * can neither block nor raise a signal. If a consumer misses its bell, that only costs time: the producer sees that the
 * consumer makes no progress, and rings again.
 *
 * All functions are called under the engine's lock.
 */
#ifndef PMD_LINKS_H
#define PMD_LINKS_H

#include "engine_host.h"
#include "proto.h"

enum { PROTO_LINK_TAKEN = PROTO_LINK + 1, PROTO_LINK_KNOCK };

#define LINKS_MAX	  255		  /* links out: one for each path but path 0 */
#define LINKS_IN_MAX	  (2 * LINKS_MAX) /* links in: to our function and to its services */
/* Maximum number of links out to services. A link to a service transfers few packets, so such links must not use up the
 * slots of links to functions. Packets to a service without a link use the port. */
#define LINKS_SERVICE_MAX 64

/** Message with which a producer hands over a ring. The ring's memfd is passed with it. */
struct proto_link {
	struct nic_gid key; /* of the producer's device */
	struct nic_gid to;  /* the consumer's address, the destination of all packets on the link */
	uint32_t function;
	uint32_t service;  /* port of the service that the link is for; 0: the link is for the function itself */
	uint32_t strays;   /* 1: the link is only for forwarded strays, not for the producer's own packets */
	uint32_t reserved; /* 0 */
	uint64_t number, number_at; /* a secret number and its address in the producer's memory: links_refer.c */
};

/** Whether the link is for the producer's own packets to QPs of the consumer: not to a service, and not for strays. */
static inline bool proto_link_is_peers(const struct proto_link *said)
{
	return said->service == 0 && said->strays == 0;
}

struct pmd_control;
struct pmd_links;

/**
 * Create the links of an engine. With UROCE_RING=off there are no links, and *out is NULL. The functions below accept
 * NULL, except pmd_links_ready and those for one link (pmd_links_untaken, pmd_links_forward, pmd_links_room,
 * pmd_links_send).
 * @return 0, -EINVAL (a setting is neither on nor off; *wrong is its name), -ENOMEM.
 */
int pmd_links_open(struct pmd_host *host, struct pmd_control *control, struct pmd_links **out, const char **wrong);
void pmd_links_close(struct pmd_links *links);
/** In a forked child: close descriptors, touch nothing else. */
void pmd_links_abandon(struct pmd_links *links);

/** As nic_config.route. Makes the link if it does not exist and can be made. */
uint32_t pmd_links_route(struct pmd_links *links, const struct nic_gid *dgid, uint32_t dest_qpn);

/** The target of a link that leads to `qpn`: a function number or, for a service, the full QPN, because different
 *  functions can serve it over time. */
uint32_t pmd_links_target(uint32_t qpn);

/** Find an existing link to a target at an address. Changes nothing. @return the link's path; 0: there is no such
 *  link. */
uint32_t pmd_links_find(const struct pmd_links *links, const struct nic_gid *dgid, uint32_t target);

/** Make a link that only forwards strays (strays.h), to a target of our own device to which we have no link. The link
 *  ends when no more strays come, or when we make a link for our own packets. Costs system calls. @return its
 *  path, or a negative errno; -ECONNREFUSED: no process listens under the target's name. */
int pmd_links_make(struct pmd_links *links, const struct nic_gid *dgid, uint32_t target);

/** As nic_config.source: find the peer that sends to our address `own` over a link. May ask a daemon. @return the
 *  peer's number; 0: none. */
uint32_t pmd_links_source(struct pmd_links *links, const struct nic_gid *dgid, uint32_t dest_qpn,
			  const struct nic_gid *own, uint32_t claimed);

/** As nic_config.revoke. */
void pmd_links_revoke(struct pmd_links *links, uint32_t qpn, bool answers, uint32_t key);

/** As nic_config.untaken. Rings the consumer's bell again if the consumer may have missed it. */
bool pmd_links_untaken(struct pmd_links *links, uint32_t path, uint64_t *mark);

/** Receive up to about `budget` packets. @return packets received. */
unsigned pmd_links_rx(struct pmd_links *links, unsigned budget, uint64_t now_ns);
/** Whether any ring has packets. `links` must not be NULL. */
bool pmd_links_ready(const struct pmd_links *links);
/** Transmit up to `budget` packets through links. @return packets transmitted. */
unsigned pmd_links_tx(struct pmd_links *links, unsigned budget, uint64_t now_ns);
/** As nic_config.tx_room: room in the link's ring. @return NULL: the ring is full or malformed, or taps must see the
 *  packet. */
uint8_t *pmd_links_room(struct pmd_links *links, uint32_t path);
/** As nic_config.tx_now. */
void pmd_links_send(struct pmd_links *links, uint32_t path, const struct nic_tx_frame *frame, uint64_t now_ns);
/** Whether pmd_links_tx can send now: packets wait for links whose rings were not full at the last attempt. */
bool pmd_links_pending(const struct pmd_links *links);
/** @return when to call pmd_links_tx even without new packets: to try full rings again (consumers do not notify when
 *  they make room), and to give up links that the consumer has not claimed. UINT64_MAX: no such links. */
uint64_t pmd_links_retry(const struct pmd_links *links);
/** Whether there are links in either direction. */
bool pmd_links_any(const struct pmd_links *links);

/** Stop serving a port: receive the packets that are left in links to it, then end these links. */
void pmd_links_unserve(struct pmd_links *links, uint16_t port);

/** Forward a packet through this link. Our port has received the packet for another function of this device, or for
 *  another function's service. Half of the ring is reserved for our own packets. @return false: no room, and the packet
 *  is lost. */
bool pmd_links_forward(struct pmd_links *links, uint32_t path, const struct nic_rx_frame *frame);

/** Free resources of outgoing links without recent traffic: end links to services and links that only forward strays
 *  (strays.h), and free the ring memory of all others. @return when to call again; UINT64_MAX: not needed. */
uint64_t pmd_links_trim(struct pmd_links *links, uint64_t now_ns);

/** Make producers ring the engine's bell from now on. @return false: a ring already has packets, and producers are not
 *  asked to ring. */
bool pmd_links_sleep(struct pmd_links *links);
/** Tell producers that they need not ring the bell any more. */
void pmd_links_awake(struct pmd_links *links);
#endif
