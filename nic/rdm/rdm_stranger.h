/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_stranger.h - callers that the application does not know. Private to nic/. */
#ifndef NIC_RDM_STRANGER_H
#define NIC_RDM_STRANGER_H

#include "rdm.h"

/** SipHash-2-4. */
uint64_t rdm_keyed_hash(const uint64_t key[2], const uint8_t *data, uint32_t len);
/** The challenge that a caller from this address must echo. `met`: as in nic_rdm_peer; 0 if it is unknown. */
uint32_t rdm_challenge(const struct nic_rdm *ep, const struct nic_rdm_addr *addr, uint32_t met);
/** Create a peer for a caller that has proven its address. @return NULL: no memory, or no peer can have this
 *  address. */
struct nic_rdm_peer *rdm_stranger_new(struct nic_rdm *ep, const struct nic_rdm_addr *addr);
/** Record that the application knows the peer: it has asked for the peer, or gets an event that names the peer. The
 * peer is then no longer a stranger, and exists as long as the endpoint. */
void rdm_stranger_known(struct nic_rdm_peer *peer);
/** Draw the number of the next connection attempt to this address: higher than earlier numbers, and not predictable
 *  from the numbers that other addresses have seen. */
uint32_t rdm_attempt(struct nic_rdm *ep, const struct nic_rdm_addr *addr);

#endif
