/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_path.h - egress paths besides the port, and the links on which peers send to us; see nic.h. */
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
	NIC_PATH_NO_ICRC = 1 << 0,  /* packets carry zeroes in place of the ICRC: the receiver sets NIC_RX_NO_ICRC */
	NIC_PATH_LOSSLESS = 1 << 1, /* the path has its own flow control: max_inflight does not apply */
	/** RC packets with a large payload may refer to memory in place of the payload (nic_tx_frame.pieces) when
	 *  they are sent for the first time. Retransmissions always carry their payload. */
	NIC_PATH_REFERENCES = 1 << 2,
};

/** Open a path; nic_config.route may return it from now on. `flags`: enum nic_path_flags. @return the path's number,
 *  -ENOSPC, -EINVAL (NIC_PATH_REFERENCES without nic_config.revoke). */
int nic_path_open(struct nic *nic, uint32_t flags);
/** Close a path: packets that would take it leave by path 0. RC QPs retransmit the packets that they sent on the closed
 *  path and that are not yet answered. */
void nic_path_close(struct nic *nic, uint32_t path);
/**
 * Move our QPs from path 0 to this path if they are connected to QPs at `dgid` whose QPNs equal `qpn` in the bits of
 * `mask`. For QPs that connect later, nic_config.route has to return this path. RC QPs retransmit what is not yet
 * answered, since the peer now accepts their packets only on the new path.
 */
void nic_path_take(struct nic *nic, uint32_t path, const struct nic_gid *dgid, uint32_t qpn, uint32_t mask);
/** As nic_tx, but fetches the packets that are due on this path. */
unsigned nic_path_tx(struct nic *nic, uint32_t path, struct nic_tx_frame *frames, unsigned n, uint64_t now_ns);
/** Whether the path may have something to send. More exact than nic_paths_pending, but can still be true for a path
 *  with nothing to send. */
bool nic_path_pending(struct nic *nic, uint32_t path);
/** Drop up to n request packets that wait for the path, as if they had been sent and lost. Each is written to `frame`
 *  and overwrites the one before it. Only two kinds are dropped. Datagrams are dropped because they would delay
 *  datagrams to other peers. Requests of reliable datagram endpoints with an ACK timer are dropped because this timer
 *  must run: the endpoints can then give up a silent peer. All other requests, and responses, wait for room. @return
 *  how many were dropped. */
unsigned nic_path_lose(struct nic *nic, uint32_t path, struct nic_tx_frame *frame, unsigned n, uint64_t now_ns);
/** One bit for each path (bit path % 64 of word path / 64), set if the path has something to send. A bit can be set
 *  for a path that has nothing to send, but is never clear for one that has. The pointer is valid as long as the
 *  instance. */
const uint64_t *nic_paths_pending(const struct nic *nic);

/** Tell the NIC that a peer now has a link to our address `own`. Frames that arrive by the link carry the number
 *  `peer`. QPs for which nic_config.source returns `peer` accept packets from that link only. */
void nic_peer_came(struct nic *nic, uint32_t peer, const struct nic_gid *own);
/** Tell the NIC that the link numbered `peer` has ended, and that the peer has no other link to `own`: its packets
 *  now arrive by the port. */
void nic_peer_gone(struct nic *nic, uint32_t peer, const struct nic_gid *own);

#endif
