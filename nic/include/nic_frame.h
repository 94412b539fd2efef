/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_frame.h - the interface of the code that carries the NIC's packets and tells it the time: receiving,
 * transmitting, deadlines; see nic.h.
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
	/* 1 << 3 must not be used again: a process with an older version of the NIC may still set it */
	/** The packet comes from a connected QP. `data` starts at the BTH, and the frame has no GIDs. The fields
	 *  `src_qpn` and `addresses` must match the peer of the destination QP; the carrier copies them from `qpn` and
	 *  `addresses` of the sender's nic_tx_frame. Requires NIC_RX_NO_ICRC. */
	NIC_RX_BARE = 1 << 4,
	/** The carrier vouches for the sender, so the packet has no tag, even if the NIC has a key. It ends with an
	 * ICRC, which is checked. */
	NIC_RX_NO_KEY = 1 << 5,
};

/**
 * Payload by reference: the payload stays in the sender's memory, and the receiver fetches it straight to its
 * destination. One such packet replaces the consecutive packets of a message that would have carried the payload, and
 * takes their PSNs. The packet counts as lost if the payload cannot be fetched. There is a second use: an endpoint's
 * packet that offers a long message carries its own payload, and the reference is to the offered message.
 */
struct nic_reference {
	uint32_t len; /* 1 ... NIC_REFERENCE_MAX */
	/** How many PSNs the packet takes, as counted by the sender. 0: the packet has a payload of its own, and the
	 *  reference is to the message that this payload offers. A receiver with a buffer for the message can fetch
	 *  it at once, without a READ. */
	uint32_t psns;
	/** Copy bytes [offset, offset + len) of the payload: the last n_last of them to `last`, the bytes before
	 *  them to dst. @return false: some bytes cannot be read or written, or the reference has been revoked. */
	bool (*fetch)(void *ctx, uint32_t offset, void *dst, uint32_t len, void *last, uint32_t n_last);
	void *ctx;
};

/* Minimum and maximum payload per reference. A shorter payload is sent faster inside the packet, although that copies
 * it twice. Fetching a longer payload would keep the NIC locked for too long. */
#define NIC_REFERENCE_MIN  16384u
#define NIC_REFERENCE_MAX  (1u << 20)
#define NIC_REFERENCE_LAST 64u /* bytes at the payload's end, which are written last because applications poll them */
#define NIC_PIECES_MAX	   16u
#define NIC_REFERRING_MAX  120u /* max bytes of a packet with pieces */

/** A range of the sending process's memory that a packet refers to; `key` is opaque to the carrier. */
struct nic_piece {
	uint64_t addr;
	uint32_t len, key;
};

/** A received packet. The caller owns it; the NIC does not keep it after nic_rx returns. */
struct nic_rx_frame {
	const uint8_t *data; /* IP header, or BTH with NIC_RX_UDP_PAYLOAD or NIC_RX_BARE */
	uint32_t len;	     /* of the packet, ICRC included, FCS excluded; trailing Ethernet padding allowed for IP */
	uint32_t flags;	     /* enum nic_rx_flags */
	/** NULL, or the whole packet, in memory that another process can write to. `data` then holds a private copy
	 *  of the packet's first NIC_HEADERS_MAX bytes or more, or of the whole packet if it is shorter. The payload
	 *  is read from `body`. Requires NIC_RX_NO_ICRC. */
	const uint8_t *body;
	/** NULL, or a reference: to the packet's payload if the packet does not carry it, otherwise to the message that
	 *  the carried payload offers. Requires NIC_RX_NO_ICRC. */
	const struct nic_reference *reference;
	/** Number of the link that the packet arrived by, as returned by nic_config.source; 0: it arrived by the
	 *  port, directly or forwarded by another function. */
	uint32_t peer;
	uint32_t src_qpn;  /* only with NIC_RX_BARE */
	uint8_t addresses; /* only with NIC_RX_BARE */
	/* Only with NIC_RX_UDP_PAYLOAD: */
	struct nic_gid sgid, dgid; /* both IPv4-mapped, or neither */
	uint16_t udp_sport;
	uint8_t tclass, hop_limit; /* TOS and TTL for IPv4 */
};

/** Prediction for packets that have references and that the carrier has not yet passed to nic_rx. The carrier owns the
 *  prediction, which is valid until the carrier releases the lock or passes a packet to nic_rx. */
#define NIC_FORESEEN_MAX 8u
struct nic_foresight {
	struct nic_qp *qp; /* destination of the packets; NULL: nothing is predicted */
	uint32_t kind, psn, n;
	const void *taken[NIC_FORESEEN_MAX]; /* posted receives that the predicted packets will use */
};

/** Start to predict where the payloads of the packets after `frame` will go. Call this from the frame's
 *  nic_reference.fetch, and only if that call of `fetch` is for the whole payload. @param f out: the new prediction */
void nic_foresee_behind(const struct nic *nic, const struct nic_rx_frame *frame, struct nic_foresight *f);

/**
 * Predict where the payload of the next packet, or the message that this packet offers, will go if all packets before
 * it are executed. The carrier may write all but the last NIC_REFERENCE_LAST bytes there at once. It must not write the
 * last bytes before nic_rx processes the packet and calls `fetch`. If `fetch` then asks for the payload at another
 * place than the predicted one, the carrier must fetch the whole payload again.
 * @return the place; NULL: the place is unknown, for this packet and for all that follow it.
 */
uint8_t *nic_foresee(const struct nic *nic, const struct nic_rx_frame *frame, struct nic_foresight *f);

/** What the NIC did with a received packet. */
enum nic_rx_verdict {
	NIC_RX_MALFORMED = 0, /* dropped before QP lookup, or because the port is down */
	NIC_RX_PARSED,	      /* well-formed, ICRC or tag correct; may still have been dropped: see the counters */
	/** An RC or XRC QP accepted the packet from its peer: the packet had the expected PSN, or answered an
	 *  outstanding request. Only this verdict is evidence that the peer sent the packet: UC and UD QPs accept
	 *  packets from any sender that uses the peer's address. */
	NIC_RX_ACCEPTED,
};

/**
 * Process one received packet. Unacceptable packets are counted, and dropped or answered as IBTA chapter 9 requires; no
 * input can crash the NIC.
 */
enum nic_rx_verdict nic_rx(struct nic *nic, const struct nic_rx_frame *frame, uint64_t now_ns);

/** Whether a packet that is to be forwarded to another function is well-formed and has a correct ICRC or tag. If
 *  not, the packet is counted and traced as nic_rx counts and traces dropped packets. There is no other effect. */
bool nic_rx_check(struct nic *nic, const struct nic_rx_frame *frame);

#define NIC_ADDRESSES_BITS 5 /* width of nic_tx_frame.addresses: enough to tell most QPs with the same QPN apart */

/** A packet to transmit. The caller provides a buffer; the NIC fills in the packet and the other members. */
struct nic_tx_frame {
	/** in: at least NIC_FRAME_MAX bytes. out: an IP packet, IP header first, ICRC or tag last; but see `bare` */
	uint8_t *data;
	void *cookie; /* for the caller; the NIC does not use it */
	uint32_t len; /* out: bytes of the packet, to the end of the ICRC or tag */
	uint16_t bth; /* out: offset of the UDP payload (BTH): 28 for IPv4, 48 for IPv6, 0: bare */
	uint8_t tclass, hop_limit;
	bool no_icrc; /* out: the last four bytes are not an ICRC: the path vouches for integrity */
	bool ordered; /* out: the packet is an ACK that must arrive before later requests of its QP */
	/** in: on paths with NIC_PATH_NO_ICRC, packets of connected QPs may start with the BTH (see NIC_RX_BARE).
	 *  out: this packet starts with the BTH; its tclass, hop_limit, sgid and dgid are not filled in. */
	bool bare;
	struct nic_gid sgid, dgid;
	uint32_t qpn;	   /* out: the sending QP */
	uint8_t addresses; /* out, if bare: NIC_ADDRESSES_BITS bits of a hash of the GIDs, source and destination */
	/** Only for paths with NIC_PATH_REFERENCES. in: an array of NIC_PIECES_MAX pieces, or NULL if the payload
	 *  must be in the packet. */
	struct nic_piece *pieces;
	/** out: how many pieces the packet refers to; 0: no reference. The pieces are the packet's payload if the
	 *  packet does not carry it, otherwise the message that the carried payload offers. */
	uint32_t n_pieces;
	uint32_t psns; /* out, with pieces: as in nic_reference */
	bool answers;  /* out, with pieces: the packet is a response */
};

/** Bytes of the room that nic_config.tx_room gives: with a word before it, a packet in it fits a cache line. */
#define NIC_ROOM_LEN 56u

/**
 * Fetch up to n packets that are due on path 0, in transmission order, fair over QPs.
 * @return how many frames were filled in; fewer than n: nothing more is due on path 0 now.
 */
unsigned nic_tx(struct nic *nic, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);

/** Whether any path may have packets to send. Delayed ACKs that are not yet due do not count. */
bool nic_tx_pending(const struct nic *nic);

/** Make delayed ACKs due: those that peers have asked for (AckReq) and, with `lazy`, unsolicited ones too. Call this
 *  without `lazy` when there is nothing more urgent to do, with `lazy` when there is nothing to do at all. */
void nic_ack_flush(struct nic *nic, bool lazy);

/** Earliest time at which nic_timeout has work (retransmission, RNR wait, delayed ACK ...); UINT64_MAX: never. The
 *  result is as of the time that the NIC was last given; call nic_time to get the deadline as of now. */
uint64_t nic_next_deadline(const struct nic *nic);

/** Tell the NIC the time. @return nic_next_deadline as of now_ns. */
uint64_t nic_time(struct nic *nic, uint64_t now_ns);

/** Run the timers that have expired. */
void nic_timeout(struct nic *nic, uint64_t now_ns);

#endif
