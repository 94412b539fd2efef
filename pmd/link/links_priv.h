/* SPDX-License-Identifier: BSD-3-Clause */
/* links_priv.h - links as links.c (life) and links_rx.c, links_tx.c (packets) share them (pmd-internal). */
#ifndef PMD_LINKS_PRIV_H
#define PMD_LINKS_PRIV_H

#include <sys/uio.h>

#include "control.h"
#include "engine_host.h"
#include "links.h"
#include "nic_rdm.h"
#include "port.h"
#include "ring.h"

#define ROUTES 512 /* slots of the cache, direct-mapped */
#define OWNERS 64

#define LINK_BURST 32 /* packets per turn of a link, in either direction */

#define LINKS_TRIM_NS 1000000000u /* rings are trimmed after one to two such periods without traffic */

/** Kinds of ring entries. */
enum link_kind {
	LINK_PACKET,   /* an IP packet without ICRC */
	LINK_SUMMED,   /* an IP packet with ICRC: fault injection has damaged it */
	LINK_FOLLOWED, /* as LINK_PACKET, and its sender's next packet follows at once */
	LINK_FORWARD,  /* struct link_forward, then the UDP payload as received, with ICRC */
	/** An IP packet whose payload, or the message that its payload offers, stays in the producer's memory; from
	 *  LINK_PIECES_AT to the end: an array of struct link_piece that says where. */
	LINK_REFERENCE,
	LINK_REVOKED, /* as LINK_REFERENCE, but the memory must not be read any more */
	/** A bare packet: from the BTH on, without ICRC. Addresses come from the connection, so that a small message
	 *  fits one cache line. LINK_BARE_FOLLOWED: as LINK_BARE, and its sender's next packet follows at once. */
	LINK_BARE,
	LINK_BARE_FOLLOWED,
	LINK_KINDS
};

/* Bits of an entry's kind. Above them a bare packet has nic_tx_frame.addresses and the source QPN; other packets have
 * 0. */
#define LINK_KIND_BITS 3
#define LINK_QPN_SHIFT (LINK_KIND_BITS + NIC_ADDRESSES_BITS)
_Static_assert(LINK_KINDS <= 1 << LINK_KIND_BITS && LINK_QPN_SHIFT + 24 <= 32, "all of it fits");

static inline enum link_kind link_kind(uint32_t kind)
{
	return (enum link_kind)(kind & ((1u << LINK_KIND_BITS) - 1));
}

static inline bool link_is_bare(uint32_t kind)
{
	return link_kind(kind) == LINK_BARE || link_kind(kind) == LINK_BARE_FOLLOWED;
}

static inline bool link_is_followed(uint32_t kind)
{
	return kind == LINK_FOLLOWED || link_kind(kind) == LINK_BARE_FOLLOWED;
}

/** A piece of the producer's memory. */
struct link_piece {
	uint64_t addr;
	uint32_t len;
	uint32_t psns; /* first piece: as in nic_reference; others: 0 */
};

#define LINK_PIECES_AT (2 * RING_LINE - RING_WORD)
_Static_assert(LINK_PIECES_AT >= NIC_REFERRING_MAX, "the packet fits before them");
#define LINK_REFERENCES 128 /* in flight on one link; further packets carry their payload */

static inline bool link_is_to_service(uint32_t target)
{
	return target >= NIC_SERVICE_QPN;
}

struct link_forward {
	struct nic_gid sgid, dgid;
	uint32_t flags; /* enum nic_rx_flags, only the two that a carrier may set */
	uint16_t udp_sport;
	uint8_t tclass, hop_limit;
};

/** An entry in flight that refers to our memory. */
struct link_reference {
	uint64_t at, end; /* positions in the ring: of the entry, and just behind it */
	uint32_t qpn;	  /* of the sender */
	bool answers;	  /* sent as a response */
	uint32_t key;	  /* of the first piece */
	bool keys;	  /* other pieces have other keys */
};

struct link_out {
	struct pmd_watch watch; /* of the connection; first */
	struct ring_producer ring;
	struct nic_gid dgid; /* the peer's address, as the NIC knows it */
	struct nic_gid key;  /* of the device that owns dgid */
	uint32_t target;     /* see pmd_links_target */
	uint32_t path;
	bool taken;	    /* the consumer has answered */
	bool for_strays;    /* carries only forwarded strays, and ends when they stop */
	uint64_t answer_ns; /* when to give the link up if not claimed; UINT64_MAX: never */
	int bell_fd;	    /* -1: none; knock */
	uint64_t seen_tail; /* ring.tail at the last look for trimming; UINT64_MAX: none yet */
	/* When the consumer was last seen to have made progress or to be idle; head and tail then. */
	uint64_t moved_ns, moved_head, moved_tail;
	bool refers;	  /* the consumer runs as our user: it may learn our addresses */
	uint64_t rung_ns; /* when it was last woken because it stood still */
	struct link_out *next_withdrawn;
	uint32_t log_first, log_next; /* [first, next): running numbers of log entries in flight */
	struct link_reference log[LINK_REFERENCES];
};

#define LINK_AHEAD	 7u
#define LINK_COPY_PIECES 32u
#define LINK_COPY_BYTES	 (512u << 10) /* of one call: its first payload waits for all of them */
_Static_assert(LINK_AHEAD < NIC_FORESEEN_MAX, "the one before them is counted, too");

/** A payload that was read ahead, together with that of an earlier entry; its last bytes are still held back. */
struct link_ahead {
	uint64_t at; /* position of its entry */
	uint8_t *dst;
	uint32_t len;
	uint8_t last[NIC_REFERENCE_LAST];
};

struct link_in {
	struct pmd_watch watch; /* of the connection; first */
	struct ring_consumer ring;
	uint32_t n_ahead;	/* valid during the link's turn only */
	struct proto_link peer; /* as links_prove has verified it */
	uint32_t index;
	uint32_t number;  /* nic_rx_frame.peer; see links_peer.c */
	pid_t pid;	  /* process whose memory entries may refer to; 0: none, and references were never welcome */
	bool refers;	  /* that memory can be read */
	uint8_t failures; /* failed payload reads in a row */
	unsigned budget;  /* left of its turn */
	struct link_ahead ahead[LINK_AHEAD];
};

/** Payload by reference of one entry; private to the consumer. */
struct link_payload {
	struct pmd_host *host;
	struct link_in *in;
	const struct nic_rx_frame *frame; /* NULL: no look-ahead behind it */
	uint32_t entry_len;
	uint32_t n;
	struct link_piece piece[NIC_PIECES_MAX];
};

/** Arguments of one call that copies the payload of a link_payload and perhaps payloads behind it. */
struct link_copy {
	uint8_t *dst;	     /* of the first */
	uint32_t len, bytes; /* of the first, of all */
	unsigned n_local, n_remote;
	struct iovec local[3 + 2 * LINK_AHEAD], remote[LINK_COPY_PIECES];
};
_Static_assert(LINK_COPY_PIECES > NIC_PIECES_MAX, "one always fits");

/* Weight of a payload by reference in a link's turn: one packet per LINK_WEIGHT_BYTES, at least LINK_WEIGHT_MIN
 * packets. */
#define LINK_WEIGHT_BYTES 32768u
#define LINK_WEIGHT_MIN	  2u

static inline unsigned link_weight(uint32_t len)
{
	return len > LINK_WEIGHT_MIN * LINK_WEIGHT_BYTES ? len / LINK_WEIGHT_BYTES : LINK_WEIGHT_MIN;
}

struct link_route {
	struct nic_gid dgid;
	uint32_t target;
	uint32_t path;	   /* 0: no link */
	uint64_t until_ns; /* with path 0: when to look again */
};

/** Cached owner of an address that is not ours. */
struct link_owner {
	struct nic_gid gid;
	struct nic_gid key; /* of the device that owns it; zeroes: no device of this host */
	uint64_t until_ns;  /* when the entry expires */
};

struct pmd_links {
	struct pmd_host *host;
	struct pmd_control *control;
	struct proto_link self;
	pid_t pid;		 /* of this process */
	uint32_t numbers;	 /* peer numbers given so far */
	const uint64_t *pending; /* as nic_paths_pending */
	bool asleep;
	bool one_copy;		      /* UROCE_ONE_COPY: payload may go by reference */
	uint32_t revocations;	      /* count of revocations of keys, and of QPs with their responses */
	uint32_t request_revocations; /* count of revocations of QPs' requests only */
	uint32_t n_out, n_in;	      /* links out; one past the last slot of `in` in use */
	uint32_t turn;		      /* one past the link in served last: has the first turn */
	uint32_t tx_turn;	      /* path that has the first turn */
	struct link_out *withdrawn;   /* rings not claimed in time; see links_late.c */
	uint32_t n_withdrawn;
	struct link_out *out[NIC_PATHS_MAX]; /* by path */
	uint32_t targets[NIC_PATHS_MAX];     /* of links out, by path; 0: none */
	struct link_in *in[LINKS_IN_MAX];
	uint64_t full[NIC_PATHS_MAX / 64]; /* paths whose rings had no room when last tried */
	uint64_t retry_ns;		   /* when to retry the first of them; UINT64_MAX: none */
	uint64_t answer_ns;		   /* when to look for unclaimed links; UINT64_MAX: none */
	uint64_t trim_ns;		   /* when to trim rings without traffic; UINT64_MAX: all done */
	struct link_route routes[ROUTES];
	struct link_owner owners[OWNERS];
};

/** Whether a link with this connection's peer is allowed. Packets on a link have no tag: with UROCE_KEY set only
 *  processes of our user or root get links; others use the port, with a tag. */
static inline bool links_peer_allowed(const struct pmd_links *l, int connection)
{
	struct ucred peer;

	if (!l->host->keyed)
		return proto_peer_allowed(connection, pmd_control_policy(l->control), NULL);
	return proto_peer_is_self(connection) || (proto_peer(connection, &peer) == 0 && peer.uid == 0);
}

/* links_route.c */
/** End the routes of a link that has ended. A new link may be made at once if the consumer had taken this one, else
 *  after a delay. */
void links_routes_end(struct pmd_links *l, const struct link_out *out);

/** Find the device that owns an address. May ask its daemon. @return false: no device of this host claims it. */
bool links_key_of(struct pmd_links *l, const struct nic_gid *gid, struct nic_gid *key);

/* links_peer.c */
/** Verify that the process that made this connection is the function that it claims to be. */
bool links_prove(const struct pmd_links *l, int connection, const struct proto_link *said);
/** Whether one more link of this peer may be taken: one function must not use up all slots. */
bool links_may_take(const struct pmd_links *l, const struct proto_link *said);
/** The number of this peer: the one of its other links, or a new one. */
uint32_t links_number(struct pmd_links *l, const struct proto_link *said);
/** Whether the same peer has another link to the same address of ours. */
bool links_has_other(const struct pmd_links *l, const struct link_in *in);

/* links.c */
/** Handle the connection of a link out: the consumer has answered, or the connection has ended. */
void links_out_ready(struct pmd_host *host, struct pmd_watch *w, uint32_t events);
/** End the link. Its connection and ring stay, and now belong to the caller. */
struct link_out *links_out_detach(struct pmd_links *l, uint32_t path);
void links_drop_out(struct pmd_links *l, uint32_t path);
void links_drop_in(struct pmd_links *l, uint32_t index);
void links_ring_bell(struct link_out *out);

/* links_rx.c */
/** Receive what is left in a link that ends. @return false: the ring is malformed. */
bool links_rx_rest(struct pmd_links *l, struct link_in *in);

/* links_tx.c */
/** Wake the consumer if it sleeps, or has not made progress for long. */
void links_wake(struct pmd_links *l, struct link_out *out, uint64_t now_ns);

/* links_late.c */
/** Start the time in which the consumer has to claim a new link. */
void links_late_begin(struct pmd_links *l, struct link_out *out, uint64_t now_ns);
/** The consumer has answered: the link stays. */
void links_late_answered(struct pmd_links *l, struct link_out *out);
/** l->answer_ns has passed: withdraw links that were not claimed in time. */
void links_late_end(struct pmd_links *l, uint64_t now_ns);
/** Whether a withdrawn ring still waits in this target's queue. */
bool links_late_waits(const struct pmd_links *l, const struct nic_gid *key, uint32_t target);
/** Close the connections of withdrawn rings. */
void links_late_close(struct pmd_links *l);

/* links_refer.c */
/** Test whether the producer's memory can be read; if so, make references welcome on this link. */
void links_welcome(const struct pmd_links *l, struct link_in *in);
/** Parse what an entry of kind LINK_REFERENCE or LINK_REVOKED refers to; p->host and p->in are set. @param out gets its
 *  length and how to fetch it. @return false: malformed. */
bool links_payload(struct link_payload *p, const uint8_t *packet, uint32_t len, struct nic_reference *out);
/** The iovecs of [offset, offset + len) of a payload. @return how many. */
unsigned links_parts(const struct link_payload *p, uint32_t offset, uint32_t len, struct iovec *out);
/** Put a number that identifies this process into a new ring and into `self`, the message that hands the ring over, if
 *  the peer of this connection runs as our user. @return 0 or a negative errno. */
int links_introduce(int connection, const struct ring_producer *ring, struct proto_link *self);
/** Whether the next packet on the link may refer to our memory. */
bool links_may_refer(struct pmd_links *l, struct link_out *out);
/** Commit a packet that refers to our memory; it is in the reserved place, its pieces are not yet. @param revoked
 *  already revoked. */
void links_refer(struct link_out *out, const struct nic_tx_frame *frame, bool revoked);
/** Revoke all references in flight on the link. */
void links_revoke_all(struct link_out *out);

/* links_ahead.c */
/** Extend a call that copies this whole payload with payloads of the entries behind it, as far as possible. */
void links_look_ahead(struct link_payload *p, struct link_copy *c);
/** Whether payloads were read ahead whose entries have not been received yet. */
static inline bool links_has_ahead(const struct link_in *in)
{
	return in->n_ahead && in->ahead[in->n_ahead - 1].at >= in->ring.head;
}
/** Keep only those read ahead that the call has copied whole. @param bytes copied behind the first payload. */
void links_ahead_got(struct link_in *in, uint64_t bytes);
/** Whether the payload of the entry being received was read ahead, to `dst`. @param last gets its last bytes. */
bool links_ahead_take(const struct link_in *in, const uint8_t *dst, uint32_t len, void *last);

#endif
