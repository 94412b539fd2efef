/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_path.h - egress paths besides the port, and the links by which peers send to us; see nic.h. */
#ifndef NIC_NIC_PATH_H
#define NIC_NIC_PATH_H

#include <stdbool.h>
#include <stdint.h>

#include "nic_frame.h"
#include "nic_types.h"

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

#endif
