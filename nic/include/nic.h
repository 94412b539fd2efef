/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic.h - the public interface of the NIC: InfiniBand transport over UDP (RoCEv2), without I/O.
 *
 * A `struct nic` is one function of a RoCEv2 NIC. It has no sockets, no clock and no threads: frames and
 * time go in (nic_rx, nic_timeout), frames come out when asked for (nic_tx), completions lie in completion
 * queues (nic_cq_poll), everything asynchronous is an event that the caller fetches (nic_event_next).
 *
 *   - One instance is single-threaded: its owner serialises all calls on it and on its objects.
 *   - `now` is a monotonic time in nanoseconds. Should it jump, or the process have been stopped, timers go on from there:
 *     nothing fails because of that alone. All times end in _ns.
 *   - Return values are 0 or a negative errno, unless a comment says otherwise.
 *   - Numeric values of enums and flags that verbs programs see are those of the verbs ABI, so that a
 *     front-end passes them through. Layouts that equal the ABI's say so.
 *   - Memory of the application is touched only inside registered regions that are still registered.
 *     Pointers that a call receives stay the caller's unless the comment says that the NIC keeps them.
 *   - Nothing here allocates on the data path (post, poll, rx, tx, timeout).
 */
#ifndef NIC_NIC_H
#define NIC_NIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nic;
struct nic_pd;
struct nic_mr;
struct nic_mw;
struct nic_ah;
struct nic_cq;
struct nic_srq;
struct nic_qp;

/* ---- addresses --------------------------------------------------------------------------------------- */

/** A GID: an IPv6 address, or an IPv4 one mapped as ::ffff:a.b.c.d (RoCEv2, IBTA annex A17). */
struct nic_gid {
	uint8_t raw[16];
};

enum nic_mtu { NIC_MTU_256 = 1, NIC_MTU_512, NIC_MTU_1024, NIC_MTU_2048, NIC_MTU_4096 };

#define NIC_UDP_PORT 4791 /* destination port of every RoCEv2 packet */

/** Largest IP packet the NIC sends or accepts: IPv6 + UDP + longest header chain + 4096 B + ICRC, rounded up. */
#define NIC_FRAME_MAX 4224

/** Largest payload of a packet. */
#define NIC_PAYLOAD_MAX 4096

/** IPv6 + UDP + the longest header chain: whatever comes after so many bytes of an IP packet is payload or ICRC. */
#define NIC_HEADERS_MAX 112

/** Largest message, bytes (IBTA C9-94). */
#define NIC_MSG_MAX 0x80000000u

#define NIC_GID_TABLE_LEN 16

#define NIC_KEY_LEN 16 /* bytes of a key that packets are authenticated with */

/* ---- instance ---------------------------------------------------------------------------------------- */

/** What an instance can hold; reported by device queries. Zero in a nic_config means the default. */
struct nic_limits {
	uint32_t max_qp;	/* 65536 less reserved; default 16384 */
	uint32_t max_qp_wr;	/* WRs a queue; default 16384 */
	uint32_t max_sge;	/* SGEs a WR; default 32 */
	uint32_t max_inline;	/* bytes of inline data a WR; default 1024 */
	uint32_t max_cq;	/* default 16384 */
	uint32_t max_cqe;	/* entries a CQ; default 1 << 20 */
	uint32_t max_srq;	/* default 4096 */
	uint32_t max_srq_wr;	/* default 16384 */
	uint32_t max_pd;	/* default 16384 */
	uint32_t max_mr;	/* default 1 << 20 */
	uint32_t max_mw;	/* default 1 << 20 */
	uint32_t max_ah;	/* default 1 << 20 */
	uint32_t max_rd_atomic; /* outstanding READ+ATOMIC a QP, both as requester and as responder; default 128 */
};

struct nic_config {
	/** QPNs are drawn at random from [qpn_base, qpn_base + 2^qpn_bits); base a multiple of 2^qpn_bits.
	 *  The leading bits name the function. 0 bits: 0x10000 with 16 bits. */
	uint32_t qpn_base;
	uint32_t qpn_bits;

	enum nic_mtu active_mtu;  /* of the port; 0: NIC_MTU_1024 */
	uint32_t psn_window;	  /* most unacknowledged PSNs a QP, at most 2^23; 0: 2^16 */
	uint32_t max_inflight;	  /* most unacknowledged payload bytes a QP, for carriers with small buffers; a QP
				   * that loses packets goes below it for a while; 0: only psn_window counts */
	uint16_t udp_sport;	  /* source port of all packets; 0: a constant port per flow from 0xC000 up */
	uint32_t ack_delay_ns;	  /* how long an ACK may wait for later ones, or for something else that its QP
				   * sends; 0: not at all */
	uint32_t local_ack_delay; /* local_ca_ack_delay code reported to peers (4.096 us * 2^n); only reported */
	uint32_t trace_len;	  /* entries in the trace ring, a power of two; 0: 1024 */
	/** NULL, or NIC_KEY_LEN secret bytes, which are copied: every packet that leaves by a path with an ICRC ends with
	 *  a tag instead, and whatever arrives without a tag under the same key is dropped (keyed.md). Paths and frames
	 *  without an ICRC (NIC_PATH_NO_ICRC, NIC_RX_NO_ICRC) have no tag either. */
	const uint8_t *key;
	struct nic_limits limits;

	/** Cryptographically strong random bytes (keys, QPNs). Deterministic in a simulation. Required. */
	void (*random)(void *ctx, void *buf, size_t len);
	/** The egress path to a QP of a peer; NULL: path 0 for all. Asked when a connected QP learns its peer, and when a
	 *  datagram is posted. What it names is open (nic_path_open), or 0. */
	uint32_t (*route)(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn);
	/** As route, for an answer to a sender that has proved nothing, not even its address: such answers must open nothing, ask
	 *  nobody and be remembered nowhere. It names a path that is open already, or 0. NULL: route is called. */
	uint32_t (*route_known)(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn);
	/** Who may send for a QP of a peer at `dgid` to our address `own`: the number that frames of that peer's link bear
	 *  (nic_rx_frame.peer); 0: that peer has no link to us, and its packets come by the port. `claimed`: 0, or the number of the
	 *  link that a packet which says that it is the peer's has just come by. NULL: 0 for all. Asked when a connected QP learns
	 *  its peer, when links come (nic_peer_came), and for packets by a link while the answer was 0. */
	uint32_t (*source)(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn, const struct nic_gid *own,
			   uint32_t claimed);
	/** Whether an address is one of this host, which every user of the host can send from. Such packets have to come from
	 *  UDP port 4791, which only the device that owns the address has there. No system calls: it is asked for packets, too.
	 *  NULL: none is. */
	bool (*is_local)(void *ctx, const struct nic_gid *gid);
	/** Runs fn(arg), which touches application memory; returns false if that faulted (the rest of fn is
	 *  then skipped). NULL: call directly. fn never allocates, locks or calls back. */
	bool (*guard)(void *ctx, void (*fn)(void *arg), void *arg);
	/** Packets that name memory (NIC_PATH_REFERENCES) may be on their way still, and it must not be read any more: what requests
	 *  of this QP do, with `answers` its responses, too; or with qpn 0 what is in pieces under this key. When this returns none of it is taken for payload; that may
	 *  be what nic_path_tx is about to return, too. Required for such paths. */
	void (*revoke)(void *ctx, uint32_t qpn, bool answers, uint32_t key);
	/** Asked when the ACK timer of a QP expires on a path with NIC_PATH_LOSSLESS: whether the other end lives and has not yet taken
	 *  all that had left by the path at *mark. *mark is 0 in the first question, which sets it to the present position; the
	 *  caller keeps it for the next one. NULL: nothing is ever left there. */
	bool (*untaken)(void *ctx, uint32_t path, uint64_t *mark);
	/** Sleeps for some microseconds: a thread that this one waits for has lost the CPU. NULL: wait without. */
	void (*pause)(void *ctx);
	void *ctx; /* handed to those above */
};

/** Create an instance. @return 0, -EINVAL (bad configuration), -ENOMEM, -ENOTSUP (a key, and !nic_key_supported()). */
int nic_create(const struct nic_config *config, struct nic **out);

/** Destroy an instance and every object left in it. */
void nic_destroy(struct nic *nic);

/** Whether this build can authenticate packets: it has libsodium. */
bool nic_key_supported(void);

/** Limits in force. The pointer lives as long as the instance. */
const struct nic_limits *nic_limits(const struct nic *nic);

/** Set entry `index` of the GID table (sgid_index of QPs and AHs); NULL clears it. Packets are accepted only
 *  when their destination address is in the table (HV-11). @return 0, -EINVAL. */
int nic_gid_set(struct nic *nic, unsigned index, const struct nic_gid *gid);

/** Read entry `index`; an empty entry is all zeroes. @return 0, -EINVAL. */
int nic_gid_get(const struct nic *nic, unsigned index, struct nic_gid *gid);

/** Port state: while down, frames are neither taken nor given, and PORT_ERR / PORT_ACTIVE events are raised on changes.
 *  The ACK timers of requests that have been sent run on; others wait for the port. Up at creation. */
void nic_port_set(struct nic *nic, bool up);
bool nic_port_is_up(const struct nic *nic);

bool nic_port_up(const struct nic *nic);

enum nic_mtu nic_active_mtu(const struct nic *nic);

/** The configured local_ack_delay code. */
uint32_t nic_local_ack_delay(const struct nic *nic);

/** A random 24-bit PSN to start a connection with. */
uint32_t nic_psn_random(struct nic *nic);

/* ---- frames and time --------------------------------------------------------------------------------- */

enum nic_rx_flags {
	NIC_RX_UDP_PAYLOAD = 1 << 0,   /* data starts at the BTH; the addressing is in the frame's fields */
	NIC_RX_IP_ID_UNKNOWN = 1 << 1, /* with UDP_PAYLOAD: the carrier hides the IPv4 ID that the ICRC covers */
	NIC_RX_NO_ICRC = 1 << 2,       /* the carrier vouches for integrity; the ICRC field is not looked at */
	NIC_RX_ECN_CE = 1 << 3,	       /* congestion experienced; set by the NIC itself for IP frames */
	/** data starts at the BTH and there is no addressing: a packet of a connected QP, of which src_qpn and `addresses` say what
	 *  nic_tx_frame did. It has to be the one that its destination is connected to. With NIC_RX_NO_ICRC */
	NIC_RX_BARE = 1 << 4,
	/** The carrier vouches for the sender: the packet ends with an ICRC, which is checked, also where a NIC with a key asks
	 *  for a tag. */
	NIC_RX_NO_KEY = 1 << 5,
};

/**
 * Payload that is not in the packet: it lies where its sender has it, and is fetched to where it belongs. Of many packets
 * of one message, in a row: this one stands for as many as the payload would have taken, and for their PSNs. What cannot be
 * fetched counts as lost. Or, with a packet that has its own payload, a message that this offers.
 */
struct nic_reference {
	uint32_t len; /* 1 ... NIC_REFERENCE_MAX */
	/** As the sender counts them. 0: the packet has its payload in it, and that offers a message which lies there: who can take it at
	 *  once need not ask for it. */
	uint32_t psns;
	/** Copy [offset, offset + len) of the payload to dst, but the last n_last of these bytes to `last`. @return false: not all
	 *  of it can be read or written, or it must not be read any more. */
	bool (*fetch)(void *ctx, uint32_t offset, void *dst, uint32_t len, void *last, uint32_t n_last);
	void *ctx;
};

/* Bytes that a packet refers to: less is faster copied twice; more would be long for a thread that has the NIC locked. */
#define NIC_REFERENCE_MIN  16384u
#define NIC_REFERENCE_MAX  (1u << 20)
#define NIC_REFERENCE_LAST 64u /* bytes, which tell who looks at memory that all is there: they are written last */
#define NIC_PIECES_MAX	   16u
#define NIC_REFERRING_MAX  120u /* bytes of a packet with pieces */

/** Memory of the sending process, which may be referred to under this key; that is nobody else's business. */
struct nic_piece {
	uint64_t addr;
	uint32_t len, key;
};

/** A received packet. Owned by the caller, not kept by the NIC after nic_rx returns. */
struct nic_rx_frame {
	const uint8_t *data; /* IP header, or BTH with NIC_RX_UDP_PAYLOAD or NIC_RX_BARE */
	uint32_t len;	     /* bytes at data, ICRC included, FCS excluded; trailing Ethernet padding allowed for IP */
	uint32_t flags;	     /* enum nic_rx_flags */
	/** NULL, or the packet once more, in memory that others may write to: then data holds its headers only, at least
	 *  NIC_HEADERS_MAX bytes or all of it, and payload is taken from here. Must come with NIC_RX_NO_ICRC. */
	const uint8_t *body;
	/** NULL, or the payload: then the packet has none itself; or what that offers. With NIC_RX_NO_ICRC. */
	const struct nic_reference *reference;
	/** By whose link it has come, as nic_config.source counts them; 0: by the port, or handed on from there. */
	uint32_t peer;
	uint32_t src_qpn;  /* only with NIC_RX_BARE */
	uint8_t addresses; /* likewise */
	/* Only with NIC_RX_UDP_PAYLOAD: */
	struct nic_gid sgid, dgid; /* both IPv4-mapped, or neither */
	uint16_t udp_sport;
	uint8_t tclass, hop_limit; /* TOS and TTL for IPv4 */
};

/** Packets by reference that a carrier has yet to hand over, as far as is known what they will do. The carrier's; valid as long as it
 *  has the lock, and hands over nothing else. */
#define NIC_FORESEEN_MAX 8u
struct nic_foresight {
	struct nic_qp *qp; /* whose packets they are; NULL: nothing is foreseen */
	uint32_t kind, psn, n;
	const void *taken[NIC_FORESEEN_MAX]; /* receives */
};

/** Begin to look ahead, from within nic_reference.fetch for the whole payload of this packet. */
void nic_foresee_behind(const struct nic *nic, const struct nic_rx_frame *frame, struct nic_foresight *f);

/**
 * Where the payload of the packet after the last one will go, or what that offers, if all before it are executed and it comes next. Its
 * bytes but the last NIC_REFERENCE_LAST may be put there at once; those belong to its own turn, when it is handed over by nic_rx and
 * fetches its payload: to the same place, most likely, and otherwise anew.
 * @return NULL: nobody knows, nor for what follows.
 */
uint8_t *nic_foresee(const struct nic *nic, const struct nic_rx_frame *frame, struct nic_foresight *f);

/** What became of a received packet. */
enum nic_rx_verdict {
	NIC_RX_MALFORMED = 0, /* dropped before its QP was looked for; also while the port is down */
	NIC_RX_PARSED, /* well-formed, and its ICRC held. It may have been dropped later on; the counters say so */
	/** A QP of RC took it from its peer: it had the PSN expected next, or answered a request under way. Only this says anything
	 *  about the peer: UC and UD take what any sender with the peer's address sends. */
	NIC_RX_ACCEPTED,
};

/**
 * Take one received packet. Everything that is not acceptable is counted and dropped or answered as IBTA
 * chapter 9 says; no input can crash the NIC.
 */
enum nic_rx_verdict nic_rx(struct nic *nic, const struct nic_rx_frame *frame, uint64_t now_ns);

/** Whether a packet that is to be passed on to another function is well-formed and its ICRC holds. If not it is counted as dropped,
 *  as nic_rx does. Nothing else happens to it. */
bool nic_rx_check(struct nic *nic, const struct nic_rx_frame *frame);

#define NIC_ADDRESSES_BITS 5 /* so that QPs of equal numbers, of different devices, are hardly taken for each other */

/** A packet to transmit. The caller offers a buffer; the NIC fills in the rest. */
struct nic_tx_frame {
	uint8_t *
		data; /* in: at least NIC_FRAME_MAX bytes. out: an IP packet, IP header first, ICRC or tag last; but see `bare` */
	void *cookie; /* the caller's; untouched */
	uint32_t len; /* out: bytes of the packet, to the end of the ICRC or tag */
	uint16_t bth; /* out: offset of the UDP payload (BTH): 28 for IPv4, 48 for IPv6, 0: bare */
	uint8_t tclass, hop_limit;
	bool no_icrc; /* out: the last four bytes are no ICRC, the path vouches for integrity */
	bool ordered; /* out: an ACK that is to arrive before the requests of its QP that follow it */
	/** in: on paths with NIC_PATH_NO_ICRC, packets of connected QPs may start with the BTH, as NIC_RX_BARE says. out: this one
	 *  does; tclass, hop_limit and GIDs here are not filled in. */
	bool bare;
	struct nic_gid sgid, dgid;
	uint32_t qpn;	   /* out: of the QP that sends it */
	uint8_t addresses; /* out, if bare: NIC_ADDRESSES_BITS bits of a hash of the GIDs, source and destination */
	/** Looked at on paths with NIC_PATH_REFERENCES only. in: room for NIC_PIECES_MAX, or NULL: payload is to be in the
	 *  packet. */
	struct nic_piece *pieces;
	uint32_t n_pieces; /* out: 0, or where the payload lies, which is not in the packet; or what that offers */
	uint32_t psns;	   /* out, with pieces: as in nic_reference */
	bool answers;	   /* out, with pieces: it is a response */
};

/**
 * Fetch up to n packets that are due, in transmission order, fair over QPs.
 * @return how many frames were filled in; fewer than n means that nothing more is due now.
 */
unsigned nic_tx(struct nic *nic, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);

/** Whether nic_tx or nic_path_tx would have something to give (delayed ACKs that are not yet due do not count). */
bool nic_tx_pending(const struct nic *nic);

/*
 * Egress paths. What a NIC sends leaves by one of several paths: path 0, which is the port, and others that the owner
 * opens, such as shared memory to another function of the same host. nic_config.route says which peer is reached by which.
 * A path that has no room just is not asked for packets; the others go on.
 */
#define NIC_PATHS_MAX 256

enum nic_path_flags {
	NIC_PATH_NO_ICRC = 1 << 0,  /* packets carry zeroes for their ICRC: the receiver sets NIC_RX_NO_ICRC */
	NIC_PATH_LOSSLESS = 1 << 1, /* the path has flow control of its own: max_inflight does not count */
	/** Its packets can name memory in place of payload (nic_tx_frame.pieces): those of RC that carry much, when they are sent
	 *  for the first time. What is sent again has its payload in it, whatever was wrong with the memory. */
	NIC_PATH_REFERENCES = 1 << 2,
};

/** Open a path: a number that route may return from now on. `flags`: enum nic_path_flags. @return the path,
 *  -ENOSPC, -EINVAL (NIC_PATH_REFERENCES without nic_config.revoke). */
int nic_path_open(struct nic *nic, uint32_t flags);
/** Close a path: what would have left by it leaves by path 0, and what RC has sent by it without an answer leaves again. */
void nic_path_close(struct nic *nic, uint32_t path);
/**
 * The peer at `dgid` is reached by this path from now on, with QPNs that are as `qpn` in the bits of `mask`: connected QPs to it
 * that have sent by path 0 so far move to it. What RC has sent without an answer leaves again, since the peer takes such packets
 * by the new path only.
 */
void nic_path_take(struct nic *nic, uint32_t path, const struct nic_gid *dgid, uint32_t qpn, uint32_t mask);
/** As nic_tx, for this path. */
unsigned nic_path_tx(struct nic *nic, uint32_t path, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);
/** Whether the path has something to send, looked at more closely than its bit below; wrong only towards yes. */
bool nic_path_pending(struct nic *nic, uint32_t path);
/** Requests, up to n, that wait for the path are sent as by nic_path_tx, and lost: each is written to `frame`, over the one
 *  before. These are datagrams, which would hold up others, and requests of endpoints of reliable datagrams, whose ACK timer has to
 *  run: they give up a silent peer after a time. All other requests, and responses, wait for room. @return how many. */
unsigned nic_path_lose(struct nic *nic, uint32_t path, struct nic_tx_frame *frame, unsigned n, uint64_t now_ns);
/** A bit for each path (bit path % 64 of word path / 64) that has something to send; wrong only towards yes. Lives
 *  as long as the instance. */
const uint64_t *nic_paths_pending(const struct nic *nic);

/** A peer has a link to us now, to our address `own`, whose frames bear this number: QPs that nic_config.source names it for take
 *  packets from that link only. */
void nic_peer_came(struct nic *nic, uint32_t peer, const struct nic_gid *own);
/** That link has ended, and there is no other one of the peer's to this address: its packets come by the port. */
void nic_peer_gone(struct nic *nic, uint32_t peer, const struct nic_gid *own);

/** Let delayed ACKs go with the next nic_tx: those that the peer has asked for, for the caller has nothing better to do; if
 *  `lazy` also those that he has not, for there is nothing to do at all. */
void nic_ack_flush(struct nic *nic, bool lazy);

/** Earliest time at which nic_timeout has work (retransmission, RNR wait, delayed ACK); UINT64_MAX: never. By the clock as it was
 *  when the NIC was last told the time: to decide what to do now, ask nic_time. */
uint64_t nic_next_deadline(const struct nic *nic);

/** Tell the time. @return what nic_next_deadline says now. */
uint64_t nic_time(struct nic *nic, uint64_t now_ns);

/** Run the timers that have expired. */
void nic_timeout(struct nic *nic, uint64_t now_ns);

/* ---- events ------------------------------------------------------------------------------------------ */

/** Values below NIC_EVENT_COMP are those of enum ibv_event_type. */
enum nic_event_type {
	NIC_EVENT_CQ_ERR = 0,
	NIC_EVENT_QP_FATAL = 1,
	NIC_EVENT_QP_REQ_ERR = 2,
	NIC_EVENT_QP_ACCESS_ERR = 3,
	NIC_EVENT_COMM_EST = 4,
	NIC_EVENT_SQ_DRAINED = 5,
	NIC_EVENT_PORT_ACTIVE = 9,
	NIC_EVENT_PORT_ERR = 10,
	NIC_EVENT_SRQ_ERR = 14,
	NIC_EVENT_SRQ_LIMIT = 15,
	NIC_EVENT_QP_LAST_WQE = 16,
	NIC_EVENT_GID_CHANGE = 18,
	NIC_EVENT_COMP = 32, /* completion notification of an armed CQ */
};

struct nic_event {
	enum nic_event_type type;
	void *user; /* of the CQ, QP or SRQ concerned; NULL for port events */
};

/** Fetch the next event. An event whose object is destroyed before it is fetched vanishes.
 *  @return true if there was one. */
bool nic_event_next(struct nic *nic, struct nic_event *event);

/* ---- protection domains, memory ---------------------------------------------------------------------- */

/** Access rights, values of enum ibv_access_flags. */
enum nic_access {
	NIC_ACCESS_LOCAL_WRITE = 1 << 0,
	NIC_ACCESS_REMOTE_WRITE = 1 << 1,
	NIC_ACCESS_REMOTE_READ = 1 << 2,
	NIC_ACCESS_REMOTE_ATOMIC = 1 << 3,
	NIC_ACCESS_MW_BIND = 1 << 4,
	NIC_ACCESS_ZERO_BASED = 1 << 5,
};

/** @return 0, -ENOMEM (also: limit reached). */
int nic_pd_alloc(struct nic *nic, struct nic_pd **out);
/** @return 0, -EBUSY while MRs, MWs, AHs, SRQs or QPs belong to it. */
int nic_pd_free(struct nic_pd *pd);

/**
 * Register [addr, addr + len) for use under the addresses [iova, iova + len).
 * The range is the application's and must stay mapped; see nic_config.guard for when it does not.
 * Remote write or atomic without local write is refused (AT-07, C10-74).
 * @return 0, -EINVAL (rights, overflow), -ENOMEM.
 */
int nic_mr_reg(struct nic_pd *pd, void *addr, uint64_t len, uint64_t iova, uint32_t access, struct nic_mr **out);

/**
 * As nic_mr_reg, but peers of the domain's QPs name the region by an R_Key that the caller has chosen. Other domains may have the
 * same; the L_Key is still the NIC's. @return also -EEXIST: the domain has this key.
 */
int nic_mr_reg_named(struct nic_pd *pd, void *addr, uint64_t len, uint64_t iova, uint32_t access, uint32_t rkey,
		     struct nic_mr **out);

enum nic_rereg { NIC_REREG_TRANSLATION = 1, NIC_REREG_PD = 2, NIC_REREG_ACCESS = 4 };
/** Change parts of a registration in place; keys stay unless the translation changes, chosen ones in any case. On
 *  failure nothing has changed. @return 0, -EINVAL (also: another PD, with a chosen key), -EBUSY (windows bound). */
int nic_mr_rereg(struct nic_mr *mr, uint32_t what, struct nic_pd *pd, void *addr, uint64_t len, uint64_t iova,
		 uint32_t access);
/** End a registration: once this returns the NIC never touches the range under it again (RL-10).
 *  @return 0, -EBUSY while memory windows are bound to it. */
int nic_mr_dereg(struct nic_mr *mr);
uint32_t nic_mr_lkey(const struct nic_mr *mr);
uint32_t nic_mr_rkey(const struct nic_mr *mr);

enum nic_mw_type { NIC_MW_TYPE_1 = 1, NIC_MW_TYPE_2 = 2 };
/** @return 0, -EINVAL, -ENOMEM. */
int nic_mw_alloc(struct nic_pd *pd, enum nic_mw_type type, struct nic_mw **out);
/** Unbinds if bound. @return 0. */
int nic_mw_dealloc(struct nic_mw *mw);
uint32_t nic_mw_rkey(const struct nic_mw *mw);

/* ---- elements ---------------------------------------------------------------------------------------- */

/*
 * Atomic operations on vectors of typed elements, those of fi_atomic(3). elem.def has them all.
 */

/** Values of libfabric's enum fi_datatype. */
enum nic_datatype {
#define ELEM_TYPE(name, number, kind, type, part, parts, wide) NIC_DT_##name = number,
#include "elem.def"
	NIC_DT_COUNT
};

/** Values of libfabric's enum fi_op. */
enum nic_elem_op {
#define ELEM_OP(name, number, kinds, forms, sentence) NIC_ELEM_##name = number,
#include "elem.def"
	NIC_ELEM_COUNT
};

/** What an operation answers: nothing, or what the elements were before; and what it takes besides operands. */
enum nic_elem_form { NIC_ELEM_BASE, NIC_ELEM_FETCH, NIC_ELEM_COMPARE };

/** An operation on `count` elements, in the host's byte order. Vectors may lie at any address. */
struct nic_elements {
	uint8_t op, datatype; /* enum nic_elem_op, enum nic_datatype */
	uint32_t count;
	const void *operand; /* ATOMIC_READ: not looked at */
	const void *compare; /* of NIC_ELEM_COMPARE: compare values, or MSWAP's mask */
	void *result;	     /* NULL, or gets the elements as they were before */
};

/** Whether there is such a pair, in this form. Numbers out of range are none. */
bool nic_elem_valid(uint32_t op, uint32_t datatype, enum nic_elem_form form);
/** Bytes of an element; 0: no such datatype. */
uint32_t nic_elem_size(uint32_t datatype);
/** What an element's address has to be a multiple of, as in C: a complex number's that of its parts. 0: no such datatype. */
uint32_t nic_elem_align(uint32_t datatype);

/* ---- address handles --------------------------------------------------------------------------------- */

struct nic_av {
	struct nic_gid dgid;
	uint8_t sgid_index;
	uint8_t tclass;	   /* IPv4 TOS / IPv6 traffic class */
	uint8_t hop_limit; /* 0 is sent as 64 */
	uint8_t sl;
	uint32_t flow_label;
};

/** @return 0, -EINVAL (sgid_index empty, families differ), -ENOMEM. */
int nic_ah_create(struct nic_pd *pd, const struct nic_av *av, struct nic_ah **out);
/** Queued WRs that name the handle keep their own copy of the address. */
int nic_ah_destroy(struct nic_ah *ah);

/* ---- completion queues ------------------------------------------------------------------------------- */

/** Values of enum ibv_wc_status. */
enum nic_wc_status {
	NIC_WC_SUCCESS = 0,
	NIC_WC_LOC_LEN_ERR = 1,
	NIC_WC_LOC_QP_OP_ERR = 2,
	NIC_WC_LOC_PROT_ERR = 4,
	NIC_WC_WR_FLUSH_ERR = 5,
	NIC_WC_MW_BIND_ERR = 6,
	NIC_WC_BAD_RESP_ERR = 7,
	NIC_WC_LOC_ACCESS_ERR = 8,
	NIC_WC_REM_INV_REQ_ERR = 9,
	NIC_WC_REM_ACCESS_ERR = 10,
	NIC_WC_REM_OP_ERR = 11,
	NIC_WC_RETRY_EXC_ERR = 12,
	NIC_WC_RNR_RETRY_EXC_ERR = 13,
	NIC_WC_FATAL_ERR = 19,
	NIC_WC_GENERAL_ERR = 21,
};

/** Values of enum ibv_wc_opcode. */
enum nic_wc_opcode {
	NIC_WC_SEND = 0,
	NIC_WC_RDMA_WRITE = 1,
	NIC_WC_RDMA_READ = 2,
	NIC_WC_COMP_SWAP = 3,
	NIC_WC_FETCH_ADD = 4,
	NIC_WC_BIND_MW = 5,
	NIC_WC_LOCAL_INV = 6,
	NIC_WC_MASKED_COMP_SWAP = 9, /* these two: of enum ibv_exp_wc_opcode */
	NIC_WC_MASKED_FETCH_ADD = 10,
	NIC_WC_ELEMENTS = 0x40, /* these two: ours */
	NIC_WC_FETCH_ELEMENTS = 0x41,
	NIC_WC_RECV = 1 << 7,
	NIC_WC_RECV_RDMA_WITH_IMM = (1 << 7) + 1,
};

/** Values of enum ibv_wc_flags. */
enum nic_wc_flags {
	NIC_WC_GRH = 1 << 0,
	NIC_WC_WITH_IMM = 1 << 1,
	NIC_WC_WITH_INV = 1 << 3,
};

/** A work completion. The layout is that of struct ibv_wc, so that polling needs no translation. */
struct nic_wc {
	uint64_t wr_id;
	uint32_t status; /* enum nic_wc_status */
	uint32_t opcode; /* enum nic_wc_opcode; undefined when status is an error */
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t ex; /* immediate data as it was on the wire (network order), or the invalidated R_Key */
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t wc_flags; /* enum nic_wc_flags */
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl; /* UD: low bits hold the L3 type, 1 IPv6, 2 IPv4 */
	uint8_t dlid_path_bits;
};

/** Room for at least `depth` entries. `user` is handed back in events. @return 0, -EINVAL, -ENOMEM. */
int nic_cq_create(struct nic *nic, uint32_t depth, void *user, struct nic_cq **out);
/** @return 0, -EBUSY while QPs use it (C11-17), or a WAIT for it is posted. */
int nic_cq_destroy(struct nic_cq *cq);
/** Actual depth (at least what was asked for). */
uint32_t nic_cq_depth(const struct nic_cq *cq);
/** Whether the oldest entry of a full CQ gives way to a new one, which is no error then: of CQs that WAITs count, and that nobody
 *  reads. One that has overflowed stays so. Off at creation. */
void nic_cq_ignore_overrun(struct nic_cq *cq, bool ignore);
/** Change the depth, entries kept. @return 0, -EINVAL (fewer than the entries in it, or out of range), -ENOMEM. */
int nic_cq_resize(struct nic_cq *cq, uint32_t depth);
/** Take up to n entries. @return their number, or -EIO once the CQ has overflowed and its entries are gone. */
int nic_cq_poll(struct nic_cq *cq, int n, struct nic_wc *wc);
/** Entries waiting. */
uint32_t nic_cq_count(const struct nic_cq *cq);
/** Ask for one COMP event at the next entry (solicited_only: the next solicited or erroneous one). A stronger
 *  request replaces a weaker one, never the other way (11.4.2.2). Such an entry that is there already raises the event
 *  now, unless it is the only one and the last event was for it. */
void nic_cq_arm(struct nic_cq *cq, bool solicited_only);

/* ---- queue pairs ------------------------------------------------------------------------------------- */

/** Values of enum ibv_qp_type, ibv_qp_state. */
enum nic_qp_type { NIC_QPT_RC = 2, NIC_QPT_UC = 3, NIC_QPT_UD = 4 };
enum nic_qp_state {
	NIC_QPS_RESET = 0,
	NIC_QPS_INIT,
	NIC_QPS_RTR,
	NIC_QPS_RTS,
	NIC_QPS_SQD,
	NIC_QPS_SQE,
	NIC_QPS_ERR,
};

struct nic_qp_cap {
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
};

struct nic_qp_init {
	enum nic_qp_type type;
	struct nic_pd *pd;
	struct nic_cq *send_cq, *recv_cq;
	struct nic_srq *srq; /* NULL: a receive queue of its own */
	struct nic_qp_cap cap;
	bool sq_sig_all;	 /* every send WR is signaled */
	bool cross_channel;	 /* WAIT, ENABLE and calculations may be posted to it */
	bool managed_send;	 /* its send WRs start when a SEND_ENABLE says so */
	bool managed_recv;	 /* likewise its receive WRs; not with an SRQ */
	uint32_t max_atomic_arg; /* bytes, of extended atomics that this QP posts, at most 32; 0: none */
	/** RC: bytes, up to 4096, of elements that a fetching operation answers, on either side. The first that the peer asks for
	 *  takes memory for so many results, times max_dest_rd_atomic. 0: no operations on elements. */
	uint32_t max_fetch;
	uint32_t be_replies; /* sizes of atomics, in bytes, or-ed: those whose results are left in network order */
	void *user;	     /* handed back in events */
};

/** Values of enum ibv_qp_attr_mask. */
enum nic_qp_attr_mask {
	NIC_QP_STATE = 1 << 0,
	NIC_QP_CUR_STATE = 1 << 1,
	NIC_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2,
	NIC_QP_ACCESS_FLAGS = 1 << 3,
	NIC_QP_PKEY_INDEX = 1 << 4,
	NIC_QP_PORT = 1 << 5,
	NIC_QP_QKEY = 1 << 6,
	NIC_QP_AV = 1 << 7,
	NIC_QP_PATH_MTU = 1 << 8,
	NIC_QP_TIMEOUT = 1 << 9,
	NIC_QP_RETRY_CNT = 1 << 10,
	NIC_QP_RNR_RETRY = 1 << 11,
	NIC_QP_RQ_PSN = 1 << 12,
	NIC_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	NIC_QP_ALT_PATH = 1 << 14,
	NIC_QP_MIN_RNR_TIMER = 1 << 15,
	NIC_QP_SQ_PSN = 1 << 16,
	NIC_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	NIC_QP_PATH_MIG_STATE = 1 << 18,
	NIC_QP_CAP = 1 << 19,
	NIC_QP_DEST_QPN = 1 << 20,
};

struct nic_qp_attr {
	enum nic_qp_state qp_state, cur_qp_state;
	enum nic_mtu path_mtu;
	uint32_t qkey;
	uint32_t rq_psn, sq_psn; /* 24 bits */
	uint32_t dest_qp_num;	 /* 24 bits */
	uint32_t qp_access_flags;
	struct nic_av av;
	bool en_sqd_async_notify;
	bool sq_draining; /* query only */
	uint8_t max_rd_atomic, max_dest_rd_atomic;
	uint8_t min_rnr_timer;	      /* code, 5 bits */
	uint8_t timeout;	      /* code, 5 bits: 4.096 us * 2^n, 0 never */
	uint8_t retry_cnt, rnr_retry; /* 3 bits each; rnr_retry 7 is infinite, retry_cnt 7 is seven */
	uint8_t port_num;
	uint16_t pkey_index;
};

/** Capabilities actually granted are written to init->cap. @return 0, -EINVAL, -ENOMEM. */
int nic_qp_create(struct nic *nic, struct nic_qp_init *init, struct nic_qp **out);
/** Destroy: completions of the QP still in its CQs go with it (10.2.4.4). @return 0. */
int nic_qp_destroy(struct nic_qp *qp);
/** 24-bit queue pair number. */
uint32_t nic_qp_num(const struct nic_qp *qp);
enum nic_qp_state nic_qp_state(const struct nic_qp *qp);
/**
 * Change attributes and state by the transition table of 10.3.1 / 11.2.4.2 (legal transitions, required and
 * optional attributes per service). Without NIC_QP_STATE the current state is kept. A refused call changes
 * nothing. To RESET: queues are emptied and completions of the QP removed from its CQs.
 * @return 0, -EINVAL, -EOPNOTSUPP (path migration), -ENOMEM (responder resources).
 */
int nic_qp_modify(struct nic_qp *qp, const struct nic_qp_attr *attr, uint32_t mask);
void nic_qp_query(const struct nic_qp *qp, struct nic_qp_attr *attr, struct nic_qp_init *init);

/* ---- work requests ----------------------------------------------------------------------------------- */

/** The layout is that of struct ibv_sge. */
struct nic_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/** Values of enum ibv_wr_opcode. */
enum nic_wr_opcode {
	NIC_WR_RDMA_WRITE = 0,
	NIC_WR_RDMA_WRITE_WITH_IMM = 1,
	NIC_WR_SEND = 2,
	NIC_WR_SEND_WITH_IMM = 3,
	NIC_WR_RDMA_READ = 4,
	NIC_WR_ATOMIC_CMP_AND_SWP = 5,
	NIC_WR_ATOMIC_FETCH_AND_ADD = 6,
	NIC_WR_LOCAL_INV = 7,
	NIC_WR_BIND_MW = 8,
	NIC_WR_SEND_WITH_INV = 9,
	NIC_WR_SEND_ENABLE = 0x60, /* these: of enum ibv_exp_wr_opcode. The first three complete as a SEND */
	NIC_WR_RECV_ENABLE = 0x61,
	NIC_WR_CQE_WAIT = 0x62,
	NIC_WR_MASKED_CMP_AND_SWP = 0x63,
	NIC_WR_MASKED_FETCH_AND_ADD = 0x64,
	NIC_WR_NOP = 0x65,	/* does nothing, in its turn; completes as a SEND */
	NIC_WR_ELEMENTS = 0x66, /* these: ours. Answers nothing, and costs the peer no resource: as a WRITE */
	NIC_WR_FETCH_ELEMENTS = 0x67,
};

/** Values of enum ibv_send_flags. */
enum nic_send_flags {
	NIC_SEND_FENCE = 1 << 0,
	NIC_SEND_SIGNALED = 1 << 1,
	NIC_SEND_SOLICITED = 1 << 2,
	NIC_SEND_INLINE = 1 << 3,
	NIC_SEND_CALC =
		1 << 5, /* ours, of RC: what is sent is calculated from what is gathered; see nic_send_wr.rdma */
	NIC_SEND_OFFERS =
		1 << 6, /* ours, of QPs of reliable datagram endpoints: it offers a message, see nic_reference.psns */
	NIC_SEND_UNAWAITED =
		1 << 7, /* ours, of QPs of reliable datagram endpoints: completes when it happens to be known */
};

/** Values of enum ibv_exp_calc_op, ibv_exp_calc_data_type: of 8 bytes. */
enum nic_calc_op { NIC_CALC_ADD, NIC_CALC_MAXLOC, NIC_CALC_BAND, NIC_CALC_BXOR, NIC_CALC_BOR, NIC_CALC_OPS };
enum nic_calc_type { NIC_CALC_INT, NIC_CALC_UINT, NIC_CALC_FLOAT, NIC_CALC_TYPES };

/** Whether there is such a calculation. Numbers out of range are none. */
bool nic_calc_valid(uint32_t op, uint32_t type);

#define NIC_ATOMIC_SIZE_MAX 32 /* bytes */
#define NIC_ATOMIC_WORDS    (NIC_ATOMIC_SIZE_MAX / 8)

enum nic_atomic_op {
	NIC_ATOMIC_CAS, /* if (*va == compare) *va = swap */
	NIC_ATOMIC_FAA, /* *va += add */
	NIC_ATOMIC_MCS, /* if (((*va ^ compare) & compare_mask) == 0) *va = (*va & ~swap_mask) | (swap & swap_mask) */
	NIC_ATOMIC_MFA, /* *va += add, where no carry leaves a bit that `boundary` has set */
};

/**
 * An atomic operation with its operands; those that it does not have are not looked at. Operands and results are numbers in
 * words, the least significant first. 4-byte ones are in the low half of word 0, whose other half is zero.
 */
struct nic_atomic {
	enum nic_atomic_op op;
	uint32_t size; /* bytes: 4, 8, 16 or 32; 8 for CAS and FAA */
	uint64_t swap_add[NIC_ATOMIC_WORDS];
	uint64_t compare[NIC_ATOMIC_WORDS];
	uint64_t swap_mask[NIC_ATOMIC_WORDS];
	uint64_t compare_mask[NIC_ATOMIC_WORDS];
	uint64_t boundary[NIC_ATOMIC_WORDS]; /* most significant bits of the fields; none: one field */
};

/** Parameters of a BIND_MW work request; len 0 unbinds a type 1 window. */
struct nic_bind {
	struct nic_mw *mw;
	struct nic_mr *mr;
	uint64_t addr, len;
	uint32_t access;
	uint32_t rkey; /* the new R_Key, whose low byte is the consumer's choice; type 1: the other bytes are ignored */
};

struct nic_send_wr {
	uint64_t wr_id;
	const struct nic_sge
		*sg_list; /* with INLINE: lkey ignored, data read during the call, any number; but see elements */
	uint32_t num_sge;
	uint32_t opcode; /* enum nic_wr_opcode */
	uint32_t flags;	 /* enum nic_send_flags */
	uint32_t ex;	 /* immediate data in network order, or the R_Key to invalidate */
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
			/** With NIC_SEND_CALC, also of SENDs: enum nic_calc_op, enum nic_calc_type. Operands are of 16 bytes, a number
			 *  and 8 bytes that MAXLOC finds the place in, both big-endian; 4096 bytes of them at most. They are read
			 *  when the packet is built, and it has one such in it: the result. Not INLINE. */
			uint8_t calc_op, calc_type;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add; /* CAS: compare; FAA: addend */
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			uint64_t remote_addr;
			const struct nic_atomic
				*operation; /* of its kind, copied during the call; its size is the result's */
			uint32_t rkey;
		} masked;
		struct {
			uint64_t remote_addr;
			/** Operands and, if the operation has them, compare values behind them; sg_list is for the result of a
			 *  FETCH. Together they are no more than the QP's max_send_sge. INLINE is about these alone. */
			const struct nic_sge *data;
			uint32_t num_data;
			uint32_t count; /* elements; what is sent and what is answered fits in a packet each */
			uint32_t rkey;
			uint8_t op, datatype; /* enum nic_elem_op, enum nic_datatype */
		} elements;
		struct {
			const struct nic_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
		struct nic_bind bind;
		/** The send queue goes on when the CQ has had so many entries, in error or not, beyond those that WAITs before have
		 *  counted. `last`: later ones count from behind the largest count of those up to here. */
		struct {
			struct nic_cq *cq;
			uint32_t count;
			bool last;
		} wait;
		/** SEND_ENABLE, RECV_ENABLE: of so many requests of a managed queue, beyond those that are enabled by earlier ones;
		 *  0: of all that are posted now. `last` as for WAIT. */
		struct {
			struct nic_qp *qp;
			uint32_t count;
			bool last;
		} enable;
	};
};

struct nic_recv_wr {
	uint64_t wr_id;
	const struct nic_sge *sg_list;
	uint32_t num_sge;
};

/**
 * Queue one send work request. The SGE list is copied; the data it names is read when packets are built, and
 * must stay unchanged until the completion.
 * @return 0, -EINVAL (opcode not for this service, too many SGEs, inline too long or not allowed, message over
 * 2^31, QP in RESET/INIT/RTR, AH of another PD, more enabled than is posted ...), -ENOMEM (queue full; of a WAIT, also no memory). In state ERR/SQE the request is accepted and flushed.
 */
int nic_post_send(struct nic_qp *qp, const struct nic_send_wr *wr);
/** What nic_post_send would say to a request if `ahead` others were posted before it. Changes nothing: who has several to
 *  post, all or none, asks for each first. @return as nic_post_send. */
int nic_post_send_check(const struct nic_qp *qp, const struct nic_send_wr *wr, uint32_t ahead);
/** Queue one receive work request. @return 0, -EINVAL (QP in RESET or on an SRQ, too many SGEs), -ENOMEM. */
int nic_post_recv(struct nic_qp *qp, const struct nic_recv_wr *wr);

/** `limit` of 0 is off. @return 0, -EINVAL, -ENOMEM. */
int nic_srq_create(struct nic_pd *pd, uint32_t max_wr, uint32_t max_sge, uint32_t limit, void *user,
		   struct nic_srq **out);
/** @return 0, -EBUSY while QPs use it. */
int nic_srq_destroy(struct nic_srq *srq);
void nic_srq_query(const struct nic_srq *srq, uint32_t *max_wr, uint32_t *max_sge, uint32_t *limit);
/** Arm the limit: one SRQ_LIMIT event when fewer than `limit` WRs are left. @return 0, -EINVAL. */
int nic_srq_set_limit(struct nic_srq *srq, uint32_t limit);
/** Change the capacity, WRs kept. @return 0, -EINVAL (below what is queued), -ENOMEM. */
int nic_srq_resize(struct nic_srq *srq, uint32_t max_wr);
int nic_post_srq_recv(struct nic_srq *srq, const struct nic_recv_wr *wr);

/* ---- observation ------------------------------------------------------------------------------------- */

/** Counter ids are NIC_CNT_<name>, one a line of counters.def, device-wide. */
enum nic_counter {
#define NIC_COUNTER(name, sentence) NIC_CNT_##name,
#include "counters.def"
#undef NIC_COUNTER
	NIC_CNT_COUNT
};

/** All counters, indexed by enum nic_counter; free-running. The pointer lives as long as the instance. */
const uint64_t *nic_counters(const struct nic *nic);
/** Completions generated so far, in all CQs: who receives for somebody who polls stops when there are more. */
uint64_t nic_completions(const struct nic *nic);
/** Whether ACKs are held back, for nic_ack_flush to let go. */
bool nic_acks_wait(const struct nic *nic);
/** Name and one-sentence meaning of a counter; NULL when out of range. */
const char *nic_counter_name(unsigned counter);
const char *nic_counter_sentence(unsigned counter);

/** Counters of one QP. */
struct nic_qp_counters {
	uint64_t tx_packets, tx_bytes, rx_packets, rx_bytes; /* bytes are payload */
	uint64_t retransmits;				     /* packets sent more than once */
	uint64_t timeouts, rnr_naks_rx, rnr_naks_tx, seq_naks_rx, seq_naks_tx, duplicates_rx, dropped_rx;
};
void nic_qp_counters(const struct nic_qp *qp, struct nic_qp_counters *out);

/** The path by which a QP sends; of a UD QP, its next request. */
uint32_t nic_qp_path(const struct nic_qp *qp);

/** The up to n QPs with the lowest numbers from `from` on, in ascending order. @return how many. */
unsigned nic_qp_list(const struct nic *nic, uint32_t from, struct nic_qp **out, unsigned n);

/**
 * Write a frame to buf as the whole IP packet that it is or was, for captures: headers that the carrier has taken off are
 * put back (the IPv4 ID as far as the ICRC tells), an absent ICRC and an absent UDP checksum over IPv6 are computed,
 * payload is taken from where it lies. Anything may be in the frame.
 * @return the length; 0: longer than `size`, or than an IP packet can be.
 */
uint32_t nic_frame_ip(const struct nic_rx_frame *frame, uint8_t *buf, uint32_t size);
/**
 * A frame with a reference as the packets that it stands for, in buf (NIC_FRAME_MAX bytes), with zeroes for their ICRC: number
 * `index`.
 * @return its length; 0: there are no more; -EINVAL: this is no such frame, or for no QP; -EIO: the payload cannot be fetched.
 */
int nic_frame_unfold(const struct nic *nic, const struct nic_rx_frame *frame, uint32_t index, uint8_t *buf);
/** Give a frame with NIC_RX_BARE the addressing of its connection, for observers, with NIC_RX_UDP_PAYLOAD in place of that flag: what
 * only the sender knows (traffic class, hop limit) is as on our side. @return false: it is not from the peer of a connected QP,
 * and is as it was. */
bool nic_frame_address(const struct nic *nic, struct nic_rx_frame *frame);
/** Copy the bytes of a frame as they are, from wherever they are: frame->len of them. */
void nic_frame_copy(const struct nic_rx_frame *frame, uint8_t *buf);
/** The destination QP in a frame that has a BTH; 0: it has none. */
uint32_t nic_frame_qpn(const struct nic_rx_frame *frame);
/** Where the UDP payload of a frame starts that may be RoCEv2; its length: it is not. */
uint32_t nic_frame_bth(const struct nic_rx_frame *frame);
/** Compute the ICRC of an IP packet, and write it over the last four bytes. @return false: this is no RoCEv2 packet. */
bool nic_frame_icrc_set(uint8_t *ip, uint32_t len);

/** Events of the trace ring, one a line of trace.def. */
enum nic_trace_event {
#define NIC_TRACE(name, sentence) NIC_TR_##name,
#include "trace.def"
#undef NIC_TRACE
	NIC_TR_COUNT
};

struct nic_trace_entry {
	uint64_t now_ns;
	uint32_t qpn;	/* 0: none */
	uint32_t event; /* enum nic_trace_event */
	uint32_t a, b;	/* as the event's sentence says; mostly PSN and opcode */
};

/** Copy out the entry with running number `index`. @return false if it was overwritten or is yet to come. */
bool nic_trace_get(const struct nic *nic, uint64_t index, struct nic_trace_entry *out);
/** Running number of the next entry to be written. */
uint64_t nic_trace_head(const struct nic *nic);
const char *nic_trace_name(unsigned event);

/** Name of the condition in nic_wc.vendor_err (a line of error.def), e.g. "timeout retries exhausted". */
const char *nic_vendor_err_str(uint32_t vendor_err);

#endif
