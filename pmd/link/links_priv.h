/* SPDX-License-Identifier: BSD-3-Clause */
/* links_priv.h - links as links.c (life) and links_io.c (packets) share them (pmd-internal). */
#ifndef PMD_LINKS_PRIV_H
#define PMD_LINKS_PRIV_H

#include <sys/uio.h>

#include "control.h"
#include "engine_priv.h"
#include "links.h"
#include "nic_rdm.h"
#include "ring.h"

#define ROUTES 512 /* slots of the cache, direct-mapped */
#define OWNERS 64

#define LINKS_TRIM_NS 1000000000u /* rings that nothing has gone through for so long, and up to twice that */

/** Kinds of ring entries. */
enum link_kind {
	LINK_PACKET,   /* an IP packet; its ICRC is not there */
	LINK_SUMMED,   /* an IP packet with its ICRC, because somebody has damaged it on purpose */
	LINK_FOLLOWED, /* an IP packet without ICRC, and what its sender had to send next follows at once */
	LINK_FORWARD,  /* struct link_forward, then the UDP payload as it came, ICRC and all */
	/** An IP packet without payload, or one that offers something; from LINK_PIECES_AT to the end struct link_piece: where that is. */
	LINK_REFERENCE,
	LINK_REVOKED, /* likewise, but nothing is there to be read any more */
	/** A packet from the BTH on, without ICRC: both ends of a connection know its addresses, so that a small message has room in
	 *  one cache line. LINK_BARE_FOLLOWED is to it what LINK_FOLLOWED is to LINK_PACKET. */
	LINK_BARE,
	LINK_BARE_FOLLOWED,
	LINK_KINDS
};

/* Of an entry's kind. Those above are, of a bare packet, nic_tx_frame.addresses and the QPN that has sent it; else 0. */
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

/** Memory of the producer. */
struct link_piece {
	uint64_t addr;
	uint32_t len;
	uint32_t psns; /* of the first piece: as in nic_reference; else 0 */
};

#define LINK_PIECES_AT (2 * RING_LINE - RING_WORD)
_Static_assert(LINK_PIECES_AT >= NIC_REFERRING_MAX, "the packet fits before them");
#define LINK_REFERENCES 128 /* under way on one link: what is more has its payload with it */

static inline bool link_is_to_service(uint32_t target)
{
	return target >= NIC_SERVICE_QPN;
}

struct link_forward {
	struct nic_gid sgid, dgid;
	uint32_t flags; /* enum nic_rx_flags, of the two that a carrier may set */
	uint16_t udp_sport;
	uint8_t tclass, hop_limit;
};

/** An entry that refers to our memory. */
struct link_reference {
	uint64_t at, end; /* positions in the ring: its own, and of what follows it */
	uint32_t qpn;	  /* that has sent it */
	bool answers;
	uint32_t key; /* of the first piece */
	bool keys;    /* others have other ones */
};

struct link_out {
	struct pmd_watch watch; /* of the connection; first */
	struct ring_producer ring;
	struct nic_gid dgid; /* to whom, as the NIC knows him */
	struct nic_gid key;  /* of the device whose address that is */
	uint32_t target;     /* see pmd_links_target */
	uint32_t path;
	bool taken;	    /* the consumer has answered */
	bool for_strays;    /* nothing of our own goes by it: it ends when strangers stop sending */
	uint64_t answer_ns; /* when the link is given up if it has not; UINT64_MAX: it stays */
	int bell_fd;	    /* -1: none; knock */
	uint64_t seen_tail; /* of the ring, when last looked at for trimming; UINT64_MAX: it has not been */
	/* When the consumer was last seen to have moved, or to have nothing to do, with head and tail then. */
	uint64_t moved_ns, moved_head, moved_tail;
	bool refers;	  /* the consumer is of our user: he may know where our memory is */
	uint64_t rung_ns; /* when it was last called although it did not ask for it */
	struct link_out *next_withdrawn;
	uint32_t log_first, log_next; /* running numbers in log: those that the consumer may not be done with */
	struct link_reference log[LINK_REFERENCES];
};

#define LINK_AHEAD	 7u
#define LINK_COPY_PIECES 32u
#define LINK_COPY_BYTES	 (512u << 10) /* of several: the first of them waits for all */
_Static_assert(LINK_AHEAD < NIC_FORESEEN_MAX, "the one before them is counted, too");

/** A payload that has been read along with that of an entry before it, but for its last bytes. */
struct link_ahead {
	uint64_t at; /* position of its entry */
	uint8_t *dst;
	uint32_t len;
	uint8_t last[NIC_REFERENCE_LAST];
};

struct link_in {
	struct pmd_watch watch; /* of the connection; first */
	struct ring_consumer ring;
	uint32_t n_ahead;	/* as long as the turn */
	struct proto_link peer; /* as links_prove has found it */
	uint32_t index;
	uint32_t number;  /* nic_rx_frame.peer; see links_peer.c */
	pid_t pid;	  /* whose memory may be referred to; 0: nobody's, and nobody was told that it may */
	bool refers;	  /* it can be */
	uint8_t failures; /* of such payloads in a row */
	unsigned budget;  /* that is left of its turn */
	struct link_ahead ahead[LINK_AHEAD];
};

/** What an entry refers to; private to the consumer. */
struct link_payload {
	struct pmd_engine *e;
	struct link_in *in;
	const struct nic_rx_frame *frame; /* NULL: nothing is looked at behind it */
	uint32_t entry_len;
	uint32_t n;
	struct link_piece piece[NIC_PIECES_MAX];
};

/** A call that copies the payload of a link_payload, and perhaps what is behind that. */
struct link_copy {
	uint8_t *dst;	     /* of the first */
	uint32_t len, bytes; /* of the first, of all */
	unsigned n_local, n_remote;
	struct iovec local[3 + 2 * LINK_AHEAD], remote[LINK_COPY_PIECES];
};
_Static_assert(LINK_COPY_PIECES > NIC_PIECES_MAX, "one always fits");

/* What one is worth whose payload is by reference, in the turns of links: a packet for so many bytes, and as many at least. */
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
	uint64_t until_ns; /* with path 0: when to try again */
};

/** What is known of an address that is not ours. */
struct link_owner {
	struct nic_gid gid;
	struct nic_gid key; /* of the device that owns it; zeroes: none of this host */
	uint64_t until_ns;  /* how long that holds */
};

struct pmd_links {
	struct pmd_engine *e;
	struct pmd_control *control;
	struct proto_link self;
	pid_t pid;		 /* of this process */
	uint32_t numbers;	 /* of peers, given so far */
	const uint64_t *pending; /* as nic_paths_pending */
	bool asleep;
	bool one_copy;		      /* payload may go by reference */
	uint32_t revocations;	      /* asked for, ever: of keys, and of QPs' responses ... */
	uint32_t request_revocations; /* ... of requests only */
	uint32_t n_out, n_in;	      /* links out; one past the last slot of `in` in use */
	uint32_t turn;		      /* one past the link in that was served last: whose turn is first */
	uint32_t tx_turn;	      /* path whose turn is first */
	struct link_out *withdrawn;   /* not taken in time; see links_late.c */
	uint32_t n_withdrawn;
	struct link_out *out[NIC_PATHS_MAX]; /* by path */
	uint32_t targets[NIC_PATHS_MAX];     /* of these; 0: none */
	struct link_in *in[LINKS_IN_MAX];
	uint64_t full[NIC_PATHS_MAX / 64]; /* paths whose rings had no room when last tried */
	uint64_t retry_ns;		   /* when to try the first of them again; UINT64_MAX: there are none */
	uint64_t answer_ns; /* when to look for links that nobody has taken; UINT64_MAX: there are none */
	uint64_t trim_ns;   /* when rings without traffic give their memory back; UINT64_MAX: they have */
	struct link_route routes[ROUTES];
	struct link_owner owners[OWNERS];
};

/** Whether a link may be made with who is there. A packet that comes by a link has no tag: with a key nobody is let in who is not of our user, or root;
 *  others go by the port, with a tag. */
static inline bool links_peer_allowed(const struct pmd_links *l, int connection)
{
	struct ucred peer;

	if (!l->e->keyed)
		return proto_peer_allowed(connection, pmd_control_policy(l->control), NULL);
	return proto_peer_is_self(connection) || (proto_peer(connection, &peer) == 0 && peer.uid == 0);
}

/* links_route.c */
/** The link has ended: there may be another one at once, unless its consumer did not want it. */
void links_routes_end(struct pmd_links *l, const struct link_out *out);

/** The device whose address it is. May ask its daemon. @return false: nobody says so. */
bool links_key_of(struct pmd_links *l, const struct nic_gid *gid, struct nic_gid *key);

/* links_peer.c */
/** Whether who has made this connection is the function that it says it is. */
bool links_prove(const struct pmd_links *l, int connection, const struct proto_link *said);
/** Whether one more link of this peer may be taken: a member of the device must not take all that others need. */
bool links_may_take(const struct pmd_links *l, const struct proto_link *said);
/** The number of this peer: that of its other links, or a new one. */
uint32_t links_number(struct pmd_links *l, const struct proto_link *said);
/** Whether the same peer has another link to the same address of ours. */
bool links_has_other(const struct pmd_links *l, const struct link_in *in);

/* links.c */
/** The consumer has answered, or ended. */
void links_out_ready(struct pmd_engine *e, struct pmd_watch *w, uint32_t events);
/** The link ends; its connection and its ring are left, and the caller's. */
struct link_out *links_out_detach(struct pmd_links *l, uint32_t path);
void links_drop_out(struct pmd_links *l, uint32_t path);
void links_drop_in(struct pmd_links *l, uint32_t index);
void links_ring_bell(struct link_out *out);

/* links_io.c */
/** All that a producer that has gone has left. @return false: there was nonsense in it. */
bool links_rx_rest(struct pmd_links *l, struct link_in *in);

/** Wake the consumer if it sleeps, or has stood still for long. */
void links_wake(struct pmd_links *l, struct link_out *out, uint64_t now_ns);

/* links_late.c */
/** The link has been made, and is given up if nobody takes it in time. */
void links_late_begin(struct pmd_links *l, struct link_out *out, uint64_t now_ns);
/** Its consumer has answered. */
void links_late_answered(struct pmd_links *l, struct link_out *out);
/** l->answer_ns has come. */
void links_late_end(struct pmd_links *l, uint64_t now_ns);
/** Whether a ring that was withdrawn still waits in this target's queue. */
bool links_late_waits(const struct pmd_links *l, const struct nic_gid *key, uint32_t target);
/** Close the connections of rings that were withdrawn. */
void links_late_close(struct pmd_links *l);

/* links_refer.c */
/** The link may be one whose producer's memory can be read: try, and say so. */
void links_welcome(const struct pmd_links *l, struct link_in *in);
/** Take over what a packet of kind LINK_REFERENCE refers to; p->e and in are set. @param out how much
 *  of it there is, and how to fetch it. @return false: it makes no sense. */
bool links_payload(struct link_payload *p, const uint8_t *packet, uint32_t len, struct nic_reference *out);
/** The parts of [offset, offset + len) of a payload, as the kernel wants them. @return how many. */
unsigned links_parts(const struct link_payload *p, uint32_t offset, uint32_t len, struct iovec *out);
/** Say in a new ring, and to whom it will be handed over by this connection, how to know this process; to nobody but our own
 *  user. @return 0 or a negative errno. */
int links_introduce(int connection, const struct ring_producer *ring, struct proto_link *self);
/** Whether the next packet may refer to our memory. */
bool links_may_refer(struct pmd_links *l, struct link_out *out);
/** It does: commit it. The packet is in the place that was reserved, the pieces are not. `revoked`: it is void already. */
void links_refer(struct link_out *out, const struct nic_tx_frame *frame, bool revoked);
/** Nothing of ours is to be read any more that is under way. */
void links_revoke_all(struct link_out *out);

/* links_ahead.c */
/** Add to a call that is to copy this payload, whole, what can be copied of those behind it. */
void links_look_ahead(struct link_payload *p, struct link_copy *c);
/** Whether there are such whose entries have not been received yet. */
static inline bool links_has_ahead(const struct link_in *in)
{
	return in->n_ahead && in->ahead[in->n_ahead - 1].at >= in->ring.head;
}
/** So many bytes behind the first payload have been copied. */
void links_ahead_got(struct link_in *in, uint64_t bytes);
/** Whether the payload of the entry that is being received has been copied there. @param last gets its last bytes */
bool links_ahead_take(const struct link_in *in, const uint8_t *dst, uint32_t len, void *last);

#endif
