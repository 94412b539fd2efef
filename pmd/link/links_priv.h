/* SPDX-License-Identifier: BSD-3-Clause */
/* links_priv.h - internals of links that the files of pmd/link share (pmd-internal). */
#ifndef PMD_LINKS_PRIV_H
#define PMD_LINKS_PRIV_H

#include <sys/uio.h>

#include "control.h"
#include "engine_host.h"
#include "links.h"
#include "nic_rdm.h"
#include "port.h"
#include "ring.h"

#define ROUTES 512 /* slots of the route cache, which is direct-mapped */
#define OWNERS 64

#define LINK_BURST 32 /* maximum number of packets that a link transfers per turn, in either direction */

#define LINKS_TRIM_NS 1000000000u /* a ring is trimmed after one to two of these periods without traffic */

/** Kinds of ring entries. */
enum link_kind {
	LINK_PACKET,   /* an IP packet without an ICRC */
	LINK_SUMMED,   /* an IP packet that fault injection has damaged; it has an ICRC, which shows the damage */
	LINK_FOLLOWED, /* as LINK_PACKET; the packet is an ACK, and the next packet of the same QP follows at once */
	LINK_FORWARD,  /* struct link_forward, then the UDP payload as received, including the ICRC */
	/** An IP packet whose payload stays in the producer's memory, or which offers a message that stays there. The
	 *  entry contains, from LINK_PIECES_AT to its end, an array of struct link_piece, which says where the payload
	 *  or the message is. */
	LINK_REFERENCE,
	LINK_REVOKED, /* as LINK_REFERENCE, but the memory must no longer be read */
	/** A bare packet: starts with the BTH, and has no ICRC. It has no IP and UDP headers, because both
	 *  QPs know the addresses. So a small message fits one cache line. LINK_BARE_FOLLOWED: as LINK_BARE; the
	 *  packet is an ACK, and the next packet of the same QP follows at once. */
	LINK_BARE,
	LINK_BARE_FOLLOWED,
	LINK_KINDS
};

/* Layout of an entry's kind. The bits above LINK_KIND_BITS hold nic_tx_frame.addresses and the source QPN for a bare
 * packet, and 0 for other packets. */
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

/** Contiguous memory of the producer that a packet refers to. */
struct link_piece {
	uint64_t addr;
	uint32_t len;
	uint32_t psns; /* first piece: as in nic_reference; other pieces: 0 */
};

#define LINK_PIECES_AT (2 * RING_LINE - RING_WORD)
_Static_assert(LINK_PIECES_AT >= NIC_REFERRING_MAX, "the packet fits before them");
#define LINK_REFERENCES 128 /* maximum number of references in flight per link; further payloads are sent inline */

static inline bool link_is_to_service(uint32_t target)
{
	return target >= NIC_SERVICE_QPN;
}

struct link_forward {
	struct nic_gid sgid, dgid;
	uint32_t flags; /* enum nic_rx_flags; only the two flags that a port may set */
	uint16_t udp_sport;
	uint8_t tclass, hop_limit;
};

/** An entry in flight that refers to memory of this process. */
struct link_reference {
	uint64_t at, end; /* positions in the ring: the start of the entry, and the byte after its end */
	uint32_t qpn;	  /* the sender's QPN */
	bool answers;	  /* the packet is a response */
	uint32_t key;	  /* key of the first piece */
	bool keys;	  /* another piece has a different key */
};

struct link_out {
	struct pmd_watch watch; /* watches the connection; must be the first member */
	struct ring_producer ring;
	struct nic_gid dgid; /* the peer's address, as the NIC knows it */
	struct nic_gid key;  /* key of the device that owns dgid */
	uint32_t target;     /* see pmd_links_target */
	uint32_t path;
	bool taken;	    /* the consumer has answered: the link is accepted */
	bool for_strays;    /* only for forwarded strays; the link ends when there are no more of them */
	uint64_t answer_ns; /* when to give up the link if the consumer has not claimed it; UINT64_MAX: never */
	int bell_fd;	    /* the consumer's bell; -1: none, so knock */
	uint64_t seen_tail; /* value of ring.tail at the last check for trimming; UINT64_MAX: not yet checked */
	/* When the consumer was last seen to make progress or to be idle, and head and tail at that time. */
	uint64_t moved_ns, moved_head, moved_tail;
	bool refers;	  /* the consumer runs as our own user, so it may know addresses of our memory */
	uint64_t rung_ns; /* when the consumer was last woken because it made no progress */
	struct link_out *next_withdrawn;
	uint32_t log_first, log_next; /* running numbers [first, next) of the log entries in flight */
	struct link_reference log[LINK_REFERENCES];
};

#define LINK_AHEAD	 7u
#define LINK_COPY_PIECES 32u
#define LINK_COPY_BYTES	 (512u << 10) /* maximum per call that reads ahead: no payload can be used before it ends */
_Static_assert(LINK_AHEAD < NIC_FORESEEN_MAX, "the one before them is counted, too");

/** A payload that was read ahead together with the payload of an earlier entry. Its last bytes are kept in `last`, and
 *  not written to the destination yet. */
struct link_ahead {
	uint64_t at; /* position of its entry in the ring */
	uint8_t *dst;
	uint32_t len;
	uint8_t last[NIC_REFERENCE_LAST];
};

struct link_in {
	struct pmd_watch watch; /* watches the connection; must be the first member */
	struct ring_consumer ring;
	uint32_t n_ahead;	/* used entries of `ahead`; valid only during the link's turn */
	struct proto_link peer; /* the producer, as verified by links_prove */
	uint32_t index;
	uint32_t number;  /* the peer's number for nic_rx_frame.peer; see links_peer.c */
	pid_t pid;	  /* the process whose memory entries may refer to; 0: entries must not be references */
	bool refers;	  /* the memory of that process can be read */
	uint8_t failures; /* payload reads that failed in a row */
	unsigned budget;  /* packets left in the link's turn */
	struct link_ahead ahead[LINK_AHEAD];
};

/** Where in the producer's memory the payload of one entry is. These pieces are the consumer's own copy of those in the
 *  entry, so the producer cannot change them. */
struct link_payload {
	struct pmd_host *host;
	struct link_in *in;
	const struct nic_rx_frame *frame; /* NULL: do not read ahead after this entry */
	uint32_t entry_len;
	uint32_t n;
	struct link_piece piece[NIC_PIECES_MAX];
};

/** Arguments of one process_vm_readv, which copies the payload of a link_payload, and perhaps payloads of the entries
 *  after it. */
struct link_copy {
	uint8_t *dst;	     /* destination of the first payload */
	uint32_t len, bytes; /* bytes of the first payload, bytes of all payloads */
	unsigned n_local, n_remote;
	struct iovec local[3 + 2 * LINK_AHEAD], remote[LINK_COPY_PIECES];
};
_Static_assert(LINK_COPY_PIECES > NIC_PIECES_MAX, "one always fits");

/* In a link's turn, a payload by reference counts as one packet per LINK_WEIGHT_BYTES, and at least as LINK_WEIGHT_MIN
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
	uint64_t until_ns; /* if path is 0: when to look again */
};

/** Cache entry: which device owns an address that is not ours. */
struct link_owner {
	struct nic_gid gid;
	struct nic_gid key; /* key of the owner's device; all zeroes: no device of this host owns it */
	uint64_t until_ns;  /* when the entry expires */
};

struct pmd_links {
	struct pmd_host *host;
	struct pmd_control *control;
	struct proto_link self;
	pid_t pid;		 /* process ID of this process */
	uint32_t numbers;	 /* how many peer numbers have been assigned */
	const uint64_t *pending; /* paths with pending packets: see nic_paths_pending */
	bool asleep;
	bool one_copy;		      /* UROCE_ONE_COPY: payloads may be sent by reference */
	uint32_t revocations;	      /* number of revocations of a key, or of a QP's requests and responses */
	uint32_t request_revocations; /* number of revocations of a QP's requests only */
	uint32_t n_out, n_in;	      /* n_out: number of links out; n_in: one more than the last used index of `in` */
	uint32_t turn;		      /* index in `in` where the next turn begins: after the link served last */
	uint32_t tx_turn;	      /* path whose turn is next */
	struct link_out *withdrawn;   /* links out whose rings were not claimed in time; see links_late.c */
	uint32_t n_withdrawn;
	struct link_out *out[NIC_PATHS_MAX]; /* links out, by path */
	uint32_t targets[NIC_PATHS_MAX];     /* targets of the links out, by path; 0: none */
	struct link_in *in[LINKS_IN_MAX];
	uint64_t full[NIC_PATHS_MAX / 64]; /* bits of paths whose rings had no room at the last attempt */
	uint64_t retry_ns;		   /* when to try the first full ring again; UINT64_MAX: none is full */
	uint64_t answer_ns;		   /* when to check for unclaimed links; UINT64_MAX: none */
	uint64_t trim_ns;		   /* when to trim rings without traffic; UINT64_MAX: all are trimmed */
	struct link_route routes[ROUTES];
	struct link_owner owners[OWNERS];
};

/** Whether a link with the peer of this connection is allowed. Packets on a link have no tag, so with UROCE_KEY set
 *  only processes of our own user or root get links; others use the port, with tags. */
static inline bool links_peer_allowed(const struct pmd_links *l, int connection)
{
	struct ucred peer;

	if (!l->host->keyed)
		return proto_peer_allowed(connection, pmd_control_policy(l->control), NULL);
	return proto_peer_is_self(connection) || (proto_peer(connection, &peer) == 0 && peer.uid == 0);
}

/* Defined in links_route.c. */
/** Remove the routes over a link that has ended. If the consumer had accepted the link, a new link may be made at once,
 *  otherwise after a delay. */
void links_routes_end(struct pmd_links *l, const struct link_out *out);

/** Find the key of the device that owns an address. May ask the device's daemon. @return false: no device of this host
 *  claims the address. */
bool links_key_of(struct pmd_links *l, const struct nic_gid *gid, struct nic_gid *key);

/* Defined in links_peer.c. */
/** Verify that the process that made this connection is the function that it claims to be in `said`. */
bool links_prove(const struct pmd_links *l, int connection, const struct proto_link *said);
/** Whether one more link of this peer may be accepted: one function must not use up all slots. */
bool links_may_take(const struct pmd_links *l, const struct proto_link *said);
/** @return the number of this peer: the number stored in its other links, or a new number. */
uint32_t links_number(struct pmd_links *l, const struct proto_link *said);
/** Whether the peer of this link has another link for its own packets to the same address of ours. */
bool links_has_other(const struct pmd_links *l, const struct link_in *in);

/* Defined in links.c. */
/** Handle an event of an outgoing link's connection: the consumer has answered, or the connection has ended. */
void links_out_ready(struct pmd_host *host, struct pmd_watch *w, uint32_t events);
/** End the link, but keep its connection and its ring, which now belong to the caller. */
struct link_out *links_out_detach(struct pmd_links *l, uint32_t path);
void links_drop_out(struct pmd_links *l, uint32_t path);
void links_drop_in(struct pmd_links *l, uint32_t index);
void links_ring_bell(struct link_out *out);

/* Defined in links_rx.c. */
/** Receive the packets that are left in the ring of a link that is about to end. @return false: the ring is
 *  malformed. */
bool links_rx_rest(struct pmd_links *l, struct link_in *in);

/* Defined in links_tx.c. */
/** Wake the consumer if it sleeps, or if it has made no progress for a long time. */
void links_wake(struct pmd_links *l, struct link_out *out, uint64_t now_ns);

/* Defined in links_late.c. */
/** Start the time limit within which the consumer has to claim a new link. */
void links_late_begin(struct pmd_links *l, struct link_out *out, uint64_t now_ns);
/** The consumer has answered, so the link stays: end its time limit. */
void links_late_answered(struct pmd_links *l, struct link_out *out);
/** l->answer_ns has passed: withdraw links that were not claimed in time. */
void links_late_end(struct pmd_links *l, uint64_t now_ns);
/** Whether a withdrawn ring is still in the queue of this target's socket. */
bool links_late_waits(const struct pmd_links *l, const struct nic_gid *key, uint32_t target);
/** Close the connections of withdrawn rings. */
void links_late_close(struct pmd_links *l);

/* Defined in links_refer.c. */
/** Test whether the producer's memory can be read. If so, allow references on this link. */
void links_welcome(const struct pmd_links *l, struct link_in *in);
/** Parse what an entry of kind LINK_REFERENCE or LINK_REVOKED refers to. The caller has set p->host and p->in. @param
 *  out receives the payload's length, and the function that fetches the payload. @return false: malformed. */
bool links_payload(struct link_payload *p, const uint8_t *packet, uint32_t len, struct nic_reference *out);
/** Make iovecs for bytes [offset, offset + len) of a payload. @return the number of iovecs. */
unsigned links_parts(const struct link_payload *p, uint32_t offset, uint32_t len, struct iovec *out);
/** Choose a number that identifies this process, if the peer of this connection runs as our own user. The number is
 *  stored in `ring`, which is new, and in `self`, the message that hands the ring over. @return 0 or a negative
 *  errno. */
int links_introduce(int connection, const struct ring_producer *ring, struct proto_link *self);
/** Whether the next packet on the link may refer to memory of this process. */
bool links_may_refer(struct pmd_links *l, struct link_out *out);
/** Commit a packet that refers to memory of this process. The packet is already in the reserved space of the
 *  ring; this function adds its pieces. @param revoked the reference has already been revoked. */
void links_refer(struct link_out *out, const struct nic_tx_frame *frame, bool revoked);
/** Revoke all references in flight on the link. */
void links_revoke_all(struct link_out *out);

/* Defined in links_ahead.c. */
/** Let the call that copies the whole payload `p` also copy payloads of the entries after it, as many as possible. */
void links_look_ahead(struct link_payload *p, struct link_copy *c);
/** Whether some payloads have been read ahead, and their entries have not been received yet. */
static inline bool links_has_ahead(const struct link_in *in)
{
	return in->n_ahead && in->ahead[in->n_ahead - 1].at >= in->ring.head;
}
/** Remove from in->ahead the payloads that the call did not copy completely. @param bytes number of bytes copied after
 *  the first payload. */
void links_ahead_got(struct link_in *in, uint64_t bytes);
/** Whether the payload of the entry being received was read ahead, to `dst`. @param last set to the payload's last
 *  bytes. */
bool links_ahead_take(const struct link_in *in, const uint8_t *dst, uint32_t len, void *last);

#endif
