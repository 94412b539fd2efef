/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_device.h - the NIC instance: its configuration, the callbacks of its owner, limits, GID table, port; see nic.h.
 */
#ifndef NIC_NIC_DEVICE_H
#define NIC_NIC_DEVICE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "nic_types.h"

/** Limits of an instance, which device queries report. Zero in nic_config.limits means the default. */
struct nic_limits {
	uint32_t max_qp;	/* QPs; the range of QPNs may allow fewer; default 16384 */
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

struct nic_tx_frame;

struct nic_config {
	/** QPNs are drawn at random from [qpn_base, qpn_base + 2^qpn_bits); qpn_base is a multiple of 2^qpn_bits.
	 *  The leading bits of a QPN name the function. qpn_bits 0 stands for qpn_base 0x10000 and qpn_bits 16. */
	uint32_t qpn_base;
	uint32_t qpn_bits;

	enum nic_mtu active_mtu;  /* MTU of the port; 0: NIC_MTU_1024 */
	uint32_t psn_window;	  /* max unacknowledged PSNs per QP, up to 2^23; 0: 2^16 */
	uint32_t max_inflight;	  /* max unacknowledged payload bytes per QP, for carriers with small buffers. A QP
				     that loses packets stays below this for a while. 0: no limit but psn_window */
	uint16_t udp_sport;	  /* source port of all packets; 0: each flow has a constant port, 0xC000 or above */
	uint32_t ack_delay_ns;	  /* how long an ACK may be delayed, to cover later packets too, or to be sent
				   * together with another packet of its QP; 0: no delay */
	uint32_t ack_backoff;	  /* 1, 2 or 4: an ACK timer that expires several times in a row is doubled each time,
				   * up to this multiple of its configured value (12.7.34). On NIC_PATH_LOSSLESS paths
				   * always 2; for endpoints (nic_rdm.h) always 4. 0: 4 */
	uint32_t local_ack_delay; /* local_ca_ack_delay code n (4.096 us * 2^n). The NIC does not use it, but returns
				     it to the owner, which reports it to peers (nic_local_ack_delay) */
	uint32_t trace_len;	  /* entries in the trace ring, a power of two; 0: 1024 */
	/** NULL, or NIC_KEY_LEN secret bytes, read during nic_create only. With a key, the NIC sends packets that end
	 *  with an authentication tag instead of an ICRC, and drops received packets without a tag under the same key
	 *  (keyed.md). Paths and frames without an ICRC (NIC_PATH_NO_ICRC, NIC_RX_NO_ICRC) have no tag either;
	 *  NIC_RX_NO_KEY frames have an ICRC. */
	const uint8_t *key;
	struct nic_limits limits;

	/** Write `len` cryptographically strong random bytes to buf; a simulation may return a fixed sequence.
	 *  Required. */
	void (*random)(void *ctx, void *buf, size_t len);
	/** Choose the egress path to a QP of a peer: return an open path (nic_path_open), or 0. NULL: always path 0.
	 *  Called when a connected QP learns its peer, and when a datagram is posted that is not multicast. */
	uint32_t (*route)(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn);
	/** As `route`, for an answer to a sender whose address is unproven: must open no path, query no other
	 *  process and keep no state. Returns a path that is already open, or 0. NULL: `route` is called instead. */
	uint32_t (*route_known)(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn);
	/** Return the number of the link (nic_rx_frame.peer) on which packets of QP dest_qpn of the peer at `dgid`
	 *  arrive for our address `own`; 0: the peer has no link to us, its packets arrive by the port. `claimed`: if a
	 *  packet that claims to come from the peer has just arrived by a link, the number of that link; otherwise 0.
	 *  NULL: always 0. Called when a connected QP learns its peer, when a link appears (nic_peer_came), and, as
	 *  long as the last answer was 0, for packets that arrive by a link. */
	uint32_t (*source)(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn, const struct nic_gid *own,
			   uint32_t claimed);
	/** Whether `gid` is an address of this host, from which every local user can send. Packets from such an
	 *  address that arrive by the port must have UDP source port 4791, which only the device that owns the
	 *  address can use. The NIC also calls this while it processes a received packet, so the callback must make no
	 *  system calls. NULL: no address is local. */
	bool (*is_local)(void *ctx, const struct nic_gid *gid);
	/** Run fn(arg), which accesses application memory. Returns false if an access faulted; the remainder of fn
	 *  is then skipped. NULL: fn is called directly. fn allocates no memory, takes no lock, calls no callback. */
	bool (*guard)(void *ctx, void (*fn)(void *arg), void *arg);
	/** Whether all pages of [app, app + len) are mapped. Called when a write under `guard` has faulted in memory
	 *  whose pages an adapter would have pinned. NULL: the fault is an error of the request. */
	bool (*is_mapped)(void *ctx, const void *app, size_t len);
	/** Revoke memory that packets in flight refer to (NIC_PATH_REFERENCES). With a QPN: the memory that this QP's
	 *  requests refer to and, if `answers`, also the memory that its responses refer to. With qpn 0: all pieces
	 *  under `key`. After the call no receiver accepts that memory as payload, even from frames that nic_path_tx
	 *  is about to return. Required if any path has NIC_PATH_REFERENCES. */
	void (*revoke)(void *ctx, uint32_t qpn, bool answers, uint32_t key);
	/** Called when the ACK timer of a QP expires on a NIC_PATH_LOSSLESS path. Returns true if the peer is alive and
	 *  has not yet taken everything that was sent on the path up to *mark. For the first query after the timer was
	 *  started, the NIC sets *mark to 0, and the callback sets *mark to the path's current position. Later queries
	 *  pass that position. NULL: the peer counts as having taken everything. */
	bool (*untaken)(void *ctx, uint32_t path, uint64_t *mark);
	/** Write the contents of [addr, addr + len) to the persistent medium behind that memory. Returns false if that
	 * fails. NULL: there is no persistent memory, and registrations with NIC_ACCESS_FLUSH_PERSISTENT are
	 * refused. */
	bool (*persist)(void *ctx, void *addr, uint64_t len);
	/** Sleep for some microseconds. Called when the NIC has tried many times to take the lock for atomics: the
	 *  thread that holds the lock is probably not running. NULL: the NIC spins. */
	void (*pause)(void *ctx);
	/** Return room for a bare packet (NIC_RX_BARE) of up to NIC_ROOM_LEN bytes, to be sent on this path at once,
	 *  without nic_path_tx. If now_ns is not NULL, also store the current time there. Returns NULL if the path
	 *  takes no such packet now. Called only for paths with NIC_PATH_NO_ICRC, and not from within nic_tx and
	 *  nic_path_tx. The NIC may leave the room unused. The callback must not call the NIC. NULL: no path ever
	 *  gives room. */
	uint8_t *(*tx_room)(void *ctx, uint32_t path, uint64_t *now_ns);
	/** Send the packet that the NIC has written to the room from the last call of tx_room. The callback must not
	 *  call the NIC. Required if tx_room is set. */
	void (*tx_now)(void *ctx, uint32_t path, const struct nic_tx_frame *frame, uint64_t now_ns);
	void *ctx; /* passed to the callbacks above */
};

/** Create an instance. @return 0, -EINVAL (bad configuration), -ENOMEM, -ENOTSUP (`key` is set, but nic_key_supported()
 *  is false). */
int nic_create(const struct nic_config *config, struct nic **out);

/** Destroy an instance with all its objects. */
void nic_destroy(struct nic *nic);

/** Whether this build can authenticate packets, which needs libsodium. */
bool nic_key_supported(void);

/** The instance's limits, with defaults filled in. The pointer is valid as long as the instance. */
const struct nic_limits *nic_limits(const struct nic *nic);

/** Set entry `index` of the GID table (sgid_index of QPs and AHs); NULL clears it. Packets other
 *  than multicast are accepted only if their destination address is in the table (HV-11). @return 0, -EINVAL. */
int nic_gid_set(struct nic *nic, unsigned index, const struct nic_gid *gid);

/** Read entry `index`; an empty entry is all zeroes. @return 0, -EINVAL. */
int nic_gid_get(const struct nic *nic, unsigned index, struct nic_gid *gid);

/** Set the port's state, which is up at creation. While the port is down, no frames are received or transmitted. A
 *  change raises a PORT_ERR or PORT_ACTIVE event. ACK timers of requests already sent keep running; other requests
 *  wait until the port is up. */
void nic_port_set(struct nic *nic, bool up);
/** Whether the port is up: the state that nic_port_set last gave it. */
bool nic_port_is_up(const struct nic *nic);

enum nic_mtu nic_active_mtu(const struct nic *nic);

/** The configured local_ack_delay code. */
uint32_t nic_local_ack_delay(const struct nic *nic);

/** A random 24-bit PSN to start a connection with. */
uint32_t nic_psn_random(struct nic *nic);

#endif
