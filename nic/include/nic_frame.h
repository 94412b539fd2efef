/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_frame.h - what carries the packets of the NIC and keeps its time: receiving, transmitting, deadlines; see nic.h.
 */
#ifndef NIC_NIC_FRAME_H
#define NIC_NIC_FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include "nic_types.h"

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
	/** NULL, or the whole packet in memory that others may write to: data then holds a private copy of its
	 *  beginning: NIC_HEADERS_MAX bytes or more, or all of a shorter packet. The payload is read from here.
	 * Requires NIC_RX_NO_ICRC. */
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

/** Prediction for packets by reference that the carrier has yet to pass to nic_rx. Owned by the carrier; valid until it
 *  releases the lock or passes in another packet. */
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

#endif
