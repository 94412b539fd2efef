/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * links.h - what this function sends to, and receives from, other functions of the same host through shared memory
 * (pmd-internal).
 *
 * A link has one direction. The producer makes a ring (ring.h), connects to the consumer's name and hands it over; the
 * ring may be used at once, whenever the consumer looks. As long as both live the connection stays; its end is the other's
 * end.
 *
 *   producer                                   consumer
 *     PROTO_LINK struct proto_link, ring   ->
 *                                          <-    PROTO_LINK_TAKEN, bell or nothing; in time, or the producer withdraws the ring
 *     PROTO_LINK_KNOCK                     ->    while the producer has no bell: wake up
 *
 * The bell is an eventfd that all producers share, and who has it can take counts out of it or make it one that blocks. So it
 * is for processes of the consumer's own user only; others knock, which costs a little more. A producer for his part rings
 * what a process of his own user gave him, and only where a write can neither wait nor raise a signal. A bell that is
 * lost all the same costs time, no more: where nobody looks at what lies in a ring, the next packet rings again.
 *
 * All calls come under the engine's lock.
 */
#ifndef PMD_LINKS_H
#define PMD_LINKS_H

#include "engine.h"
#include "proto.h"

enum { PROTO_LINK_TAKEN = PROTO_LINK + 1, PROTO_LINK_KNOCK };

#define LINKS_MAX	  255		  /* to others: the functions that there can be */
#define LINKS_IN_MAX	  (2 * LINKS_MAX) /* from others, to this function and to its services */
/* Links to services, of those to others. They are for few packets each: links to functions come first, and those for whose
 * service there is no link have another way. */
#define LINKS_SERVICE_MAX 64

/** Who hands over a ring. With its memfd. */
struct proto_link {
	struct nic_gid key; /* of the producer's device */
	struct nic_gid to;  /* the address of the consumer's that what comes by the link is sent to */
	uint32_t function;
	uint32_t service;  /* the port of the consumer that it is to; 0: to the function itself */
	uint32_t strays;   /* 1: only packets that came astray are passed on by it, and nothing of the producer's own */
	uint32_t reserved; /* 0 */
	uint64_t number, number_at; /* by which to know the producer's memory: see links_refer.c */
};

/** Whether what the producer itself sends to QPs of the consumer comes by the link. */
static inline bool proto_link_is_peers(const struct proto_link *said)
{
	return said->service == 0 && said->strays == 0;
}

struct pmd_control;
struct pmd_links;

/**
 * Ready to link. UROCE_RING=off: no links at all, then *out is NULL, with which all calls below may be made.
 * @return 0, -EINVAL (a setting is neither on nor off: *wrong is its name), -ENOMEM.
 */
int pmd_links_open(struct pmd_engine *e, struct pmd_control *control, struct pmd_links **out, const char **wrong);
void pmd_links_close(struct pmd_links *links);
/** In a forked child: close descriptors, touch nothing else. */
void pmd_links_abandon(struct pmd_links *links);

/** As nic_config.route: makes the link if there can be one. */
uint32_t pmd_links_route(struct pmd_links *links, const struct nic_gid *dgid, uint32_t dest_qpn);

/** To what a link goes: a function's number, or all of a service's QPN, which may be with one function now and with another
 *  later. */
uint32_t pmd_links_target(uint32_t qpn);

/** The link that there is already to a target at an address: a look that changes nothing. @return its path, 0: there is none. */
uint32_t pmd_links_find(const struct pmd_links *links, const struct nic_gid *dgid, uint32_t target);

/** Make a link, to a target of our own device that there is none to yet, for packets of strangers. It carries nothing else, and ends
 *  when it is not used any more, or when we make a link of our own. Costs system calls. @return its path, or a negative errno: -ECONNREFUSED:
 *  nobody listens there. */
int pmd_links_make(struct pmd_links *links, const struct nic_gid *dgid, uint32_t target);

/** As nic_config.source: the number of the link that a peer's packets to our address `own` come by. May ask a daemon. */
uint32_t pmd_links_source(struct pmd_links *links, const struct nic_gid *dgid, uint32_t dest_qpn,
			  const struct nic_gid *own, uint32_t claimed);

/** As nic_config.revoke. */
void pmd_links_revoke(struct pmd_links *links, uint32_t qpn, bool answers, uint32_t key);

/** As nic_config.untaken; rings the consumer's bell if it may have been lost. */
bool pmd_links_untaken(struct pmd_links *links, uint32_t path, uint64_t *mark);

/** Receive up to about `budget` packets. @return how many. */
unsigned pmd_links_rx(struct pmd_links *links, unsigned budget, uint64_t now_ns);
/** Whether packets have come. */
bool pmd_links_ready(const struct pmd_links *links);
/** Transmit up to `budget` packets of those that leave by links. @return how many. */
unsigned pmd_links_tx(struct pmd_links *links, unsigned budget, uint64_t now_ns);
/** Whether something can be sent by links that had room when last tried. */
bool pmd_links_pending(const struct pmd_links *links);
/** When pmd_links_tx has work without packets: links that hold packets back, because their rings are full, are tried again (they
 *  empty without telling), and those that nobody has taken are given up. UINT64_MAX: there are none. */
uint64_t pmd_links_retry(const struct pmd_links *links);
/** Whether there are any, in either direction. */
bool pmd_links_any(const struct pmd_links *links);

/** We serve this port no more: links to it end, when what is in them has been received. */
void pmd_links_unserve(struct pmd_links *links, uint16_t port);

/** A packet for another function of this device, or a service of one, has come to us by the port: hand it on by this link. @return
 *  false: it is lost, there is no room. Our own packets have half of the ring to themselves. */
bool pmd_links_forward(struct pmd_links *links, uint32_t path, const struct nic_rx_frame *frame);

/** Rings that nothing has been sent through lately give their memory back, and links to services end then. @return when that is next due; UINT64_MAX. */
uint64_t pmd_links_trim(struct pmd_links *links, uint64_t now_ns);

/** From now on producers ring the engine's bell. @return false: not so, something is there already. */
bool pmd_links_sleep(struct pmd_links *links);
/** Producers need not ring any more. */
void pmd_links_awake(struct pmd_links *links);
#endif
