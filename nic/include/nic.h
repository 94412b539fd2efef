/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic.h - the public interface of the NIC: InfiniBand transport over UDP (RoCEv2), without I/O.
 *
 * A `struct nic` is one function of a RoCEv2 NIC. It has no sockets, no clock and no threads: frames and
 * time go in (nic_rx, nic_timeout), frames come out when asked for (nic_tx), completions lie in completion
 * queues (nic_cq_poll), everything asynchronous is an event that the caller fetches (nic_event_next).
 *
 *   - One instance is single-threaded: its owner serialises all calls on it and on its objects.
 *   - `now` is a monotonic time in nanoseconds. If it jumps, or the process was stopped, timers continue from there:
 *     nothing fails for that reason alone. All times end in _ns.
 *   - Return values are 0 or a negative errno, unless a comment says otherwise.
 *   - Numeric values of enums and flags that verbs programs see are those of the verbs ABI, so that a
 *     front-end passes them through. Layouts that equal the ABI's say so.
 *   - Memory of the application is touched only inside registered regions that are still registered.
 *     Pointers that a call receives stay the caller's unless the comment says that the NIC keeps them.
 *   - The data path (post, poll, rx, tx, timeout) allocates no memory, except that posting a WAIT may, and that the
 *     peer's first fetching operation on elements does (nic_qp_init.max_fetch).
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

/** IPv6 + UDP + the longest header chain: beyond this offset an IP packet holds only payload and ICRC. */
#define NIC_HEADERS_MAX 112

/** Largest message, bytes (IBTA C9-94). */
#define NIC_MSG_MAX 0x80000000u

#define NIC_GID_TABLE_LEN 16

#define NIC_KEY_LEN 16 /* bytes of a packet authentication key */

/* ---- instance ---------------------------------------------------------------------------------------- */

/** What an instance can hold; reported by device queries. Zero in a nic_config means the default. */
struct nic_limits {
	uint32_t max_qp;	/* at most 2^qpn_bits less reserved QPNs; default 16384 */
	uint32_t max_qp_wr;	/* WRs per queue; default 16384 */
	uint32_t max_sge;	/* SGEs per WR; default 32 */
	uint32_t max_inline;	/* bytes of inline data per WR; default 1024 */
	uint32_t max_cq;	/* default 16384 */
	uint32_t max_cqe;	/* entries per CQ; default 1 << 20 */
	uint32_t max_srq;	/* default 4096 */
	uint32_t max_srq_wr;	/* default 16384 */
	uint32_t max_pd;	/* default 16384 */
	uint32_t max_mr;	/* default 1 << 20 */
	uint32_t max_mw;	/* default 1 << 20 */
	uint32_t max_ah;	/* default 1 << 20 */
	uint32_t max_rd_atomic; /* outstanding READ+ATOMIC per QP, both as requester and as responder; default 128 */
};

struct nic_config {
	/** QPNs are drawn at random from [qpn_base, qpn_base + 2^qpn_bits); base a multiple of 2^qpn_bits.
	 *  The leading bits name the function. qpn_bits 0: base 0x10000 with 16 bits. */
	uint32_t qpn_base;
	uint32_t qpn_bits;

	enum nic_mtu active_mtu;  /* of the port; 0: NIC_MTU_1024 */
	uint32_t psn_window;	  /* max unacknowledged PSNs per QP, up to 2^23; 0: 2^16 */
	uint32_t max_inflight;	  /* max unacknowledged payload bytes per QP, for carriers with small buffers; a QP
				   * that loses packets stays below it for a while; 0: only psn_window limits */
	uint16_t udp_sport;	  /* source port of all packets; 0: a constant port per flow from 0xC000 up */
	uint32_t ack_delay_ns;	  /* how long an ACK may wait for later ACKs, or for another packet of its QP;
				   * 0: no delay */
	uint32_t local_ack_delay; /* local_ca_ack_delay code reported to peers (4.096 us * 2^n); only reported */
	uint32_t trace_len;	  /* entries in the trace ring, a power of two; 0: 1024 */
	/** NULL, or NIC_KEY_LEN secret bytes, read during nic_create only. Packets sent end with a tag instead of an
	 *  ICRC, and received packets without a tag under the same key are dropped (keyed.md). Paths and frames without
	 *  an ICRC (NIC_PATH_NO_ICRC, NIC_RX_NO_ICRC) have no tag either; NIC_RX_NO_KEY frames have an ICRC. */
	const uint8_t *key;
	struct nic_limits limits;

	/** Cryptographically strong random bytes (keys, QPNs). Deterministic in a simulation. Required. */
	void (*random)(void *ctx, void *buf, size_t len);
	/** Egress path to a QP of a peer: an open path (nic_path_open), or 0. NULL: always path 0. Called when a
	 *  connected QP learns its peer, and when a datagram is posted. */
	uint32_t (*route)(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn);
	/** As route, for an answer to a sender that has proved nothing, not even its address: must open no path, query
	 *  no other process and keep no state. Returns a path that is already open, or 0. NULL: route is called. */
	uint32_t (*route_known)(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn);
	/** The link that brings packets of QP dest_qpn of the peer at `dgid` to our address `own`, as the number that
	 *  its frames carry (nic_rx_frame.peer); 0: the peer has no link to us, its packets arrive by the port.
	 *  `claimed`: 0, or the number of the link by which a packet that claims to be the peer's has just arrived.
	 *  NULL: always 0. Called when a connected QP learns its peer, when a link appears (nic_peer_came), and, while
	 *  the last answer was 0, for packets that arrive by a link. */
	uint32_t (*source)(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn, const struct nic_gid *own,
			   uint32_t claimed);
	/** Whether `gid` is an address of this host, from which every local user can send. Packets from it that arrive
	 *  by the port must have UDP source port 4791, which only the device that owns the address can use. Also called
	 *  per packet, so it must make no system calls. NULL: no address is local. */
	bool (*is_local)(void *ctx, const struct nic_gid *gid);
	/** Runs fn(arg), which touches application memory; returns false if that faulted (the rest of fn is
	 *  then skipped). NULL: fn is called directly. fn never allocates, locks or calls back. */
	bool (*guard)(void *ctx, void (*fn)(void *arg), void *arg);
	/** Revoke memory named by packets in flight (NIC_PATH_REFERENCES): by requests of QP `qpn`, and with `answers`
	 *  by its responses; with qpn 0, pieces under `key`. Once this returns, none of that memory is accepted as
	 *  payload, which includes frames that nic_path_tx is about to return. Required for such paths. */
	void (*revoke)(void *ctx, uint32_t qpn, bool answers, uint32_t key);
	/** Called when the ACK timer of a QP expires on a NIC_PATH_LOSSLESS path: whether the peer is alive and has not
	 *  yet taken everything sent by the path up to *mark. *mark is 0 in the first call, which sets it to the
	 *  current position; the NIC passes it to the next calls. NULL: the peer counts as having taken everything. */
	bool (*untaken)(void *ctx, uint32_t path, uint64_t *mark);
	/** Sleep for some microseconds: the holder of the lock for atomics has lost the CPU. NULL: spin. */
	void (*pause)(void *ctx);
	void *ctx; /* passed to the callbacks above */
};

/** Create an instance. @return 0, -EINVAL (bad configuration), -ENOMEM, -ENOTSUP (key, but !nic_key_supported()). */
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

/** Port state, up at creation. While down, no frames are received or transmitted. Changes raise PORT_ERR / PORT_ACTIVE
 *  events. ACK timers of requests already sent keep running; other requests wait for the port. */
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
	NIC_RX_NO_ICRC = 1 << 2,       /* the carrier vouches for integrity; the ICRC field is ignored */
	NIC_RX_ECN_CE = 1 << 3,	       /* congestion experienced; set by the NIC itself for IP frames */
	/** data starts at the BTH, without addressing: a packet of a connected QP. src_qpn and `addresses` are qpn and
	 *  `addresses` of its nic_tx_frame, and must match the peer of the destination QP. Requires NIC_RX_NO_ICRC. */
	NIC_RX_BARE = 1 << 4,
	/** The carrier vouches for the sender: the packet ends with an ICRC, which is checked, and not with a tag, even
	 *  if the NIC has a key. */
	NIC_RX_NO_KEY = 1 << 5,
};

/**
 * Payload by reference: it stays in the sender's memory and is fetched straight to its destination. One such packet
 * stands for consecutive packets of one message, as many as the payload would have taken, and takes their PSNs. It
 * counts as lost if the payload cannot be fetched. If the packet has a payload of its own: the message
 * which that payload offers.
 */
struct nic_reference {
	uint32_t len; /* 1 ... NIC_REFERENCE_MAX */
	/** PSNs the packet takes, by the sender's count. 0: the packet has its own payload, which offers the message
	 *  that is here: a receiver that can take it at once may fetch it without asking. */
	uint32_t psns;
	/** Copy [offset, offset + len) of the payload to dst, except its last n_last bytes, which go to `last`. @return
	 *  false: not all of it can be read or written, or it has been revoked. */
	bool (*fetch)(void *ctx, uint32_t offset, void *dst, uint32_t len, void *last, uint32_t n_last);
	void *ctx;
};

/* Payload bytes per reference: copying less twice is faster; fetching more would keep the NIC locked for too long. */
#define NIC_REFERENCE_MIN  16384u
#define NIC_REFERENCE_MAX  (1u << 20)
#define NIC_REFERENCE_LAST 64u /* trailing bytes, written last: applications poll them to see that all has arrived */
#define NIC_PIECES_MAX	   16u
#define NIC_REFERRING_MAX  120u /* max bytes of a packet with pieces */

/** Memory of the sending process, referred to under `key`, which is opaque to the carrier. */
struct nic_piece {
	uint64_t addr;
	uint32_t len, key;
};

/** A received packet. Owned by the caller, not kept by the NIC after nic_rx returns. */
struct nic_rx_frame {
	const uint8_t *data; /* IP header, or BTH with NIC_RX_UDP_PAYLOAD or NIC_RX_BARE */
	uint32_t len;	     /* bytes at data, ICRC included, FCS excluded; trailing Ethernet padding allowed for IP */
	uint32_t flags;	     /* enum nic_rx_flags */
	/** NULL, or the whole packet in memory that others may write to: data then holds only its headers (at least
	 *  NIC_HEADERS_MAX bytes, or all of it), and payload is read from here. Requires NIC_RX_NO_ICRC. */
	const uint8_t *body;
	/** NULL, or the payload if the packet holds none, or the message its payload offers. With NIC_RX_NO_ICRC. */
	const struct nic_reference *reference;
	/** Link it arrived by, numbered as in nic_config.source; 0: by the port, directly or forwarded. */
	uint32_t peer;
	uint32_t src_qpn;  /* only with NIC_RX_BARE */
	uint8_t addresses; /* likewise */
	/* Only with NIC_RX_UDP_PAYLOAD: */
	struct nic_gid sgid, dgid; /* both IPv4-mapped, or neither */
	uint16_t udp_sport;
	uint8_t tclass, hop_limit; /* TOS and TTL for IPv4 */
};

/** Prediction of what packets by reference will do that the carrier has not yet passed to nic_rx. Owned by the carrier;
 *  valid while it holds the lock and passes in no other packet. */
#define NIC_FORESEEN_MAX 8u
struct nic_foresight {
	struct nic_qp *qp; /* destination of the packets; NULL: nothing is predicted */
	uint32_t kind, psn, n;
	const void *taken[NIC_FORESEEN_MAX]; /* receives that the predicted packets take */
};

/** Start to predict what follows `frame`; call from its nic_reference.fetch, when that fetches the whole payload. */
void nic_foresee_behind(const struct nic *nic, const struct nic_rx_frame *frame, struct nic_foresight *f);

/**
 * Predict where the payload of the next packet, or the message it offers, will go, if all packets before it are
 * executed. The carrier may write all but the last NIC_REFERENCE_LAST bytes there at once. Those must wait until nic_rx
 * processes the packet and fetches its payload, most likely to the same place; otherwise all of it is fetched again.
 * @return NULL: unknown, also for all packets that follow.
 */
uint8_t *nic_foresee(const struct nic *nic, const struct nic_rx_frame *frame, struct nic_foresight *f);

/** What became of a received packet. */
enum nic_rx_verdict {
	NIC_RX_MALFORMED = 0, /* dropped before QP lookup, or because the port is down */
	NIC_RX_PARSED,	      /* well-formed, ICRC or tag correct; may still have been dropped: see the counters */
	/** An RC QP accepted it from its peer: it had the expected PSN, or answered an outstanding request. Only this
	 *  verdict is evidence of the peer: UC and UD accept packets of any sender that uses the peer's address. */
	NIC_RX_ACCEPTED,
};

/**
 * Process one received packet. Unacceptable packets are counted, and dropped or answered as IBTA chapter 9 says; no
 * input can crash the NIC.
 */
enum nic_rx_verdict nic_rx(struct nic *nic, const struct nic_rx_frame *frame, uint64_t now_ns);

/** Whether a packet to be forwarded to another function is well-formed and has a correct ICRC or tag. If not, it is
 *  counted as dropped, as by nic_rx. No other effect. */
bool nic_rx_check(struct nic *nic, const struct nic_rx_frame *frame);

#define NIC_ADDRESSES_BITS 5 /* equal QPNs of different devices are unlikely to be confused */

/** A packet to transmit. The caller offers a buffer; the NIC fills in the rest. */
struct nic_tx_frame {
	/** in: at least NIC_FRAME_MAX bytes. out: an IP packet, IP header first, ICRC or tag last; but see `bare` */
	uint8_t *data;
	void *cookie; /* the caller's; untouched */
	uint32_t len; /* out: bytes of the packet, to the end of the ICRC or tag */
	uint16_t bth; /* out: offset of the UDP payload (BTH): 28 for IPv4, 48 for IPv6, 0: bare */
	uint8_t tclass, hop_limit;
	bool no_icrc; /* out: the last four bytes are not an ICRC: the path vouches for integrity */
	bool ordered; /* out: an ACK that must arrive before the requests of its QP that follow it */
	/** in: on paths with NIC_PATH_NO_ICRC, packets of connected QPs may start with the BTH, as NIC_RX_BARE says.
	 *  out: this one does; tclass, hop_limit and GIDs here are not filled in. */
	bool bare;
	struct nic_gid sgid, dgid;
	uint32_t qpn;	   /* out: the sending QP */
	uint8_t addresses; /* out, if bare: NIC_ADDRESSES_BITS bits of a hash of the GIDs, source and destination */
	/** For NIC_PATH_REFERENCES paths only. in: room for NIC_PIECES_MAX, or NULL: payload must be in the packet. */
	struct nic_piece *pieces;
	/** out: 0, or pieces of the payload, if the packet holds none, or of the message its payload offers */
	uint32_t n_pieces;
	uint32_t psns; /* out, with pieces: as in nic_reference */
	bool answers;  /* out, with pieces: it is a response */
};

/**
 * Fetch up to n packets that are due on path 0, in transmission order, fair over QPs.
 * @return how many frames were filled in; fewer than n: nothing more is due there now.
 */
unsigned nic_tx(struct nic *nic, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);

/** Whether any path may have packets to send; delayed ACKs that are not yet due do not count. */
bool nic_tx_pending(const struct nic *nic);

/*
 * Egress paths: path 0 is the port; the owner opens others, such as shared memory to another function of the same host.
 * nic_config.route chooses the path to a peer. While a path is full the owner does not fetch packets for it; the other
 * paths continue.
 */
#define NIC_PATHS_MAX 256

enum nic_path_flags {
	NIC_PATH_NO_ICRC = 1 << 0,  /* packets carry zeroes for their ICRC: the receiver sets NIC_RX_NO_ICRC */
	NIC_PATH_LOSSLESS = 1 << 1, /* the path has its own flow control: max_inflight does not apply */
	/** Packets may name memory in place of payload (nic_tx_frame.pieces): RC packets with a large payload, when
	 *  sent for the first time. Retransmissions always carry their payload. */
	NIC_PATH_REFERENCES = 1 << 2,
};

/** Open a path, which route may return from now on. `flags`: enum nic_path_flags. @return the path,
 *  -ENOSPC, -EINVAL (NIC_PATH_REFERENCES without nic_config.revoke). */
int nic_path_open(struct nic *nic, uint32_t flags);
/** Close a path: its packets leave by path 0, and RC retransmits what it sent by the path and has no answer to. */
void nic_path_close(struct nic *nic, uint32_t path);
/**
 * Reach QPs of the peer at `dgid` by this path from now on, if their QPNs equal `qpn` in the bits of `mask`: connected
 * QPs to them move here from path 0. RC retransmits what has no answer yet, since the peer now accepts its packets by
 * the new path only.
 */
void nic_path_take(struct nic *nic, uint32_t path, const struct nic_gid *dgid, uint32_t qpn, uint32_t mask);
/** As nic_tx, for this path. */
unsigned nic_path_tx(struct nic *nic, uint32_t path, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);
/** Whether the path has something to send. More exact than nic_paths_pending, but may still be wrongly true. */
bool nic_path_pending(struct nic *nic, uint32_t path);
/** Drop up to n requests that wait for the path, as if sent and lost; each is written to `frame`, over the one before.
 *  Only datagrams, which would hold up others, and requests of reliable datagram endpoints, whose ACK timer must run
 *  because they give up a silent peer. All other requests, and responses, wait for room. @return how many. */
unsigned nic_path_lose(struct nic *nic, uint32_t path, struct nic_tx_frame *frame, unsigned n, uint64_t now_ns);
/** A bit for each path (bit path % 64 of word path / 64): set if it has something to send; may be wrongly set, never
 *  wrongly clear. Lives as long as the instance. */
const uint64_t *nic_paths_pending(const struct nic *nic);

/** A peer now has a link to our address `own`; its frames carry the number `peer`. QPs for which nic_config.source
 *  returns that number accept packets from that link only. */
void nic_peer_came(struct nic *nic, uint32_t peer, const struct nic_gid *own);
/** That link has ended, and the peer has no other one to `own`: its packets arrive by the port. */
void nic_peer_gone(struct nic *nic, uint32_t peer, const struct nic_gid *own);

/** Make delayed ACKs due: those that the peer has asked for (AckReq), when the caller has nothing more urgent to do;
 *  with `lazy` also unsolicited ones, when the caller is idle. */
void nic_ack_flush(struct nic *nic, bool lazy);

/** Earliest time at which nic_timeout has work (retransmission, RNR wait, delayed ACK ...); UINT64_MAX: never. Based on
 *  the time the NIC was last told: to decide what to do now, call nic_time. */
uint64_t nic_next_deadline(const struct nic *nic);

/** Tell the NIC the time. @return nic_next_deadline as of now_ns. */
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
 * As nic_mr_reg, but peers of the domain's QPs use an R_Key that the caller has chosen. Other domains may use the same
 * one; the NIC still chooses the L_Key. @return also -EEXIST: the domain already has this R_Key.
 */
int nic_mr_reg_named(struct nic_pd *pd, void *addr, uint64_t len, uint64_t iova, uint32_t access, uint32_t rkey,
		     struct nic_mr **out);

enum nic_rereg { NIC_REREG_TRANSLATION = 1, NIC_REREG_PD = 2, NIC_REREG_ACCESS = 4 };
/** Change parts of a registration in place. Keys change only with the translation, a chosen R_Key never. On failure
 *  nothing has changed. @return 0, -EINVAL (also: NIC_REREG_PD with a chosen R_Key), -EBUSY (windows bound). */
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
 * Atomic operations on vectors of typed elements, as in fi_atomic(3). elem.def lists them all.
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

/** BASE returns nothing; FETCH and COMPARE return the elements' previous values, COMPARE also takes compare values. */
enum nic_elem_form { NIC_ELEM_BASE, NIC_ELEM_FETCH, NIC_ELEM_COMPARE };

/** An operation on `count` elements, in the host's byte order. These vectors need no alignment. */
struct nic_elements {
	uint8_t op, datatype; /* enum nic_elem_op, enum nic_datatype */
	uint32_t count;
	const void *operand; /* ignored by ATOMIC_READ */
	const void *compare; /* NIC_ELEM_COMPARE only: compare values, or MSWAP's mask */
	void *result;	     /* NULL, or receives the elements' previous values */
};

/** Whether the operation exists for this datatype, in this form; false for numbers out of range. */
bool nic_elem_valid(uint32_t op, uint32_t datatype, enum nic_elem_form form);
/** Bytes of an element; 0: no such datatype. */
uint32_t nic_elem_size(uint32_t datatype);
/** Required alignment of an element: its size, or for complex numbers that of a part. 0: no such datatype. */
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
	NIC_WC_MASKED_COMP_SWAP = 9, /* these two: from enum ibv_exp_wc_opcode */
	NIC_WC_MASKED_FETCH_ADD = 10,
	NIC_WC_ELEMENTS = 0x40, /* these two: our own */
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
/** Whether a new entry replaces the oldest one of a full CQ, without an error: for CQs that WAITs count and the
 *  application does not poll. A CQ that has already overflowed stays in error. Off at creation. */
void nic_cq_ignore_overrun(struct nic_cq *cq, bool ignore);
/** Change the depth, entries kept. @return 0, -EINVAL (fewer than the entries in it, or out of range), -ENOMEM. */
int nic_cq_resize(struct nic_cq *cq, uint32_t depth);
/** Take up to n entries. @return their number, or -EIO once the CQ has overflowed and no entries are left. */
int nic_cq_poll(struct nic_cq *cq, int n, struct nic_wc *wc);
/** Entries waiting. */
uint32_t nic_cq_count(const struct nic_cq *cq);
/** Ask for one COMP event at the next entry (solicited_only: the next solicited or erroneous one). A stronger
 *  request replaces a weaker one, never the reverse (11.4.2.2). If such an entry is already waiting the event is raised
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
	bool managed_send;	 /* its send WRs start only when a SEND_ENABLE releases them */
	bool managed_recv;	 /* its receive WRs are used only when a RECV_ENABLE releases them; not with an SRQ */
	uint32_t max_atomic_arg; /* max bytes of an extended atomic posted to this QP, up to 32; 0: none allowed */
	/** RC: max bytes of elements that a fetching operation returns, as requester or responder, up to 4096. The
	 *  peer's first one allocates this for each of max_dest_rd_atomic results. 0: no operations on elements. */
	uint32_t max_fetch;
	uint32_t be_replies; /* sizes of atomics, in bytes, ORed, whose results stay in network order */
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
	NIC_WR_SEND_ENABLE = 0x60, /* from here on of enum ibv_exp_wr_opcode. The first three complete as a SEND */
	NIC_WR_RECV_ENABLE = 0x61,
	NIC_WR_CQE_WAIT = 0x62,
	NIC_WR_MASKED_CMP_AND_SWP = 0x63,
	NIC_WR_MASKED_FETCH_AND_ADD = 0x64,
	NIC_WR_NOP = 0x65,	/* does nothing; completes in order, as a SEND */
	NIC_WR_ELEMENTS = 0x66, /* ours, as the next. Like a WRITE: no data returned, no responder resource taken */
	NIC_WR_FETCH_ELEMENTS = 0x67,
};

/** Values of enum ibv_send_flags. */
enum nic_send_flags {
	NIC_SEND_FENCE = 1 << 0,
	NIC_SEND_SIGNALED = 1 << 1,
	NIC_SEND_SOLICITED = 1 << 2,
	NIC_SEND_INLINE = 1 << 3,
	NIC_SEND_CALC = 1 << 5,	  /* ours, RC only: sends a result calculated from the data; see nic_send_wr.rdma */
	NIC_SEND_OFFERS = 1 << 6, /* ours, reliable datagram endpoints only: offers a message, see nic_reference.psns */
	/** ours, reliable datagram endpoints only: no AckReq on lossless paths, completes with some later ACK */
	NIC_SEND_UNAWAITED = 1 << 7,
};

/** Values of enum ibv_exp_calc_op and of the 8-byte types in enum ibv_exp_calc_data_type. */
enum nic_calc_op { NIC_CALC_ADD, NIC_CALC_MAXLOC, NIC_CALC_BAND, NIC_CALC_BXOR, NIC_CALC_BOR, NIC_CALC_OPS };
enum nic_calc_type { NIC_CALC_INT, NIC_CALC_UINT, NIC_CALC_FLOAT, NIC_CALC_TYPES };

/** Whether the calculation exists; false for numbers out of range. */
bool nic_calc_valid(uint32_t op, uint32_t type);

#define NIC_ATOMIC_SIZE_MAX 32 /* bytes */
#define NIC_ATOMIC_WORDS    (NIC_ATOMIC_SIZE_MAX / 8)

enum nic_atomic_op {
	NIC_ATOMIC_CAS, /* if (*va == compare) *va = swap */
	NIC_ATOMIC_FAA, /* *va += add */
	NIC_ATOMIC_MCS, /* if (((*va ^ compare) & compare_mask) == 0) *va = (*va & ~swap_mask) | (swap & swap_mask) */
	NIC_ATOMIC_MFA, /* *va += add, without carry out of the bits set in `boundary` */
};

/**
 * An atomic operation with its operands; unused ones are ignored. Operands and results are numbers in 64-bit words, the
 * least significant first. 4-byte ones are in the low half of word 0, whose other half is zero.
 */
struct nic_atomic {
	enum nic_atomic_op op;
	uint32_t size; /* bytes: 4, 8, 16 or 32; 8 for CAS and FAA */
	uint64_t swap_add[NIC_ATOMIC_WORDS];
	uint64_t compare[NIC_ATOMIC_WORDS];
	uint64_t swap_mask[NIC_ATOMIC_WORDS];
	uint64_t compare_mask[NIC_ATOMIC_WORDS];
	uint64_t boundary[NIC_ATOMIC_WORDS]; /* most significant bit of each field; none set: one field */
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
	/** With INLINE: lkeys ignored, data copied during the call, any number of SGEs; but see elements */
	const struct nic_sge *sg_list;
	uint32_t num_sge;
	uint32_t opcode; /* enum nic_wr_opcode */
	uint32_t flags;	 /* enum nic_send_flags */
	uint32_t ex;	 /* immediate data in network order, or the R_Key to invalidate */
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
			/** With NIC_SEND_CALC, for SENDs too: enum nic_calc_op, enum nic_calc_type. An operand is 16
			 *  bytes: an 8-byte number and 8 bytes of place for MAXLOC, both big-endian; 4096 bytes in all
			 *  at most. Operands are read when the packet is built; its payload is the result, 16 bytes of
			 *  the same layout. Not with INLINE or SEND_WITH_INV. */
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
				*operation; /* matches the opcode; copied during the call; the result has its size */
			uint32_t rkey;
		} masked;
		struct {
			uint64_t remote_addr;
			/** Operands, then compare values if the operation has them; sg_list receives the result of a
			 *  FETCH. Both lists together hold at most the QP's max_send_sge, INLINE data not counted.
			 *  INLINE applies to `data` only. */
			const struct nic_sge *data;
			uint32_t num_data;
			uint32_t count; /* elements; request and response must each fit in a packet */
			uint32_t rkey;
			uint8_t op, datatype; /* enum nic_elem_op, enum nic_datatype */
		} elements;
		struct {
			const struct nic_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
		struct nic_bind bind;
		/** The send queue waits until the CQ has had `count` entries, in error or not, beyond its base, which
		 *  is 0 at first. `last`: the base then advances by the largest count posted since it last advanced. */
		struct {
			struct nic_cq *cq;
			uint32_t count;
			bool last;
		} wait;
		/** SEND_ENABLE, RECV_ENABLE: release `count` requests of a managed queue beyond its base; 0: all that
		 *  are posted now. `last` advances the base as for WAIT. */
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
 * Queue one send work request. The SGE list is copied; the data it names is read when packets are built, and must stay
 * unchanged until the completion.
 * @return 0, -EINVAL (opcode not for this service, too many SGEs, inline too long or not allowed, message over 2^31, QP
 * in RESET/INIT/RTR, AH of another PD, ENABLE of more than is posted ...), -ENOMEM (queue full; for a WAIT, also no
 * memory). In state ERR/SQE the request is accepted and flushed.
 */
int nic_post_send(struct nic_qp *qp, const struct nic_send_wr *wr);
/** What nic_post_send would return for a request if `ahead` others were posted before it. Changes nothing: a caller
 *  that posts several, all or none, checks each first. @return as nic_post_send, but lack of memory is not foreseen. */
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
/** Change the capacity, WRs kept. @return 0, -EINVAL (below what is queued, or below the limit), -ENOMEM. */
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
/** Completions generated so far, in all CQs. Lets a poller's receive loop stop once it has completions. */
uint64_t nic_completions(const struct nic *nic);
/** Whether there are delayed ACKs that nic_ack_flush can make due. */
bool nic_acks_wait(const struct nic *nic);
/** Name and one-sentence meaning of a counter; NULL when out of range. */
const char *nic_counter_name(unsigned counter);
const char *nic_counter_sentence(unsigned counter);

/** Counters of one QP. */
struct nic_qp_counters {
	uint64_t tx_packets, tx_bytes, rx_packets, rx_bytes; /* bytes are payload */
	uint64_t retransmits;				     /* packets sent again */
	uint64_t timeouts, rnr_naks_rx, rnr_naks_tx, seq_naks_rx, seq_naks_tx, duplicates_rx, dropped_rx;
};
void nic_qp_counters(const struct nic_qp *qp, struct nic_qp_counters *out);

/** The path by which a QP sends; for a UD QP, that of its next request. */
uint32_t nic_qp_path(const struct nic_qp *qp);

/** List up to n QPs with the lowest QPNs from `from` on, in ascending order. @return how many. */
unsigned nic_qp_list(const struct nic *nic, uint32_t from, struct nic_qp **out, unsigned n);

/**
 * Write a frame to buf as a whole IP packet, for captures: headers that the carrier removed are restored (the IPv4 ID
 * as far as the ICRC reveals it), an absent ICRC and an absent UDP checksum over IPv6 are computed, payload is read
 * from `body` if that is set. The frame may contain anything.
 * @return the length; 0: longer than `size`, or than an IP packet can be.
 */
uint32_t nic_frame_ip(const struct nic_rx_frame *frame, uint8_t *buf, uint32_t size);
/**
 * Write packet number `index` of those that a frame with a reference stands for to buf (NIC_FRAME_MAX bytes), with
 * zeroes for the ICRC.
 * @return its length; 0: no more packets; -EINVAL: no such frame, or unknown QPN; -EIO: the payload cannot be fetched.
 */
int nic_frame_unfold(const struct nic *nic, const struct nic_rx_frame *frame, uint32_t index, uint8_t *buf);
/** Replace NIC_RX_BARE in a frame by NIC_RX_UDP_PAYLOAD and the addressing of its connection, for observers. What only
 *  the sender knows (traffic class, hop limit) is set as on our side. @return false: the frame is unchanged, because it
 *  is not from the peer of a connected QP. */
bool nic_frame_address(const struct nic *nic, struct nic_rx_frame *frame);
/** Copy the frame->len bytes of a frame unchanged, from `data` and, if set, `body`. */
void nic_frame_copy(const struct nic_rx_frame *frame, uint8_t *buf);
/** Destination QPN of a frame; 0: it has no BTH. */
uint32_t nic_frame_qpn(const struct nic_rx_frame *frame);
/** Offset of the UDP payload (BTH) in a frame that may be RoCEv2; frame->len: it is not RoCEv2. */
uint32_t nic_frame_bth(const struct nic_rx_frame *frame);
/** Compute the ICRC of an IP packet, and write it over the last four bytes. @return false: not a RoCEv2 packet. */
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
