/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_stranger.h - unknown callers. Private to nic/. */
#ifndef NIC_RDM_STRANGER_H
#define NIC_RDM_STRANGER_H

#include "rdm.h"

/** SipHash-2-4. */
uint64_t rdm_keyed_hash(const uint64_t key[2], const uint8_t *data, uint32_t len);
/** The challenge that a caller from this address must echo, after `met` incarnations have been met there. */
uint32_t rdm_challenge(const struct nic_rdm *ep, const struct nic_rdm_addr *addr, uint32_t met);
/** A peer for a caller that has proven its address. @return NULL: no memory, or not an address that a peer can have. */
struct nic_rdm_peer *rdm_stranger_new(struct nic_rdm *ep, const struct nic_rdm_addr *addr);
/** The application asks for the peer or learns of it: no stranger any more, it stays as long as the endpoint. */
void rdm_stranger_known(struct nic_rdm_peer *peer);
/** Number of the next connection attempt to this address: higher than earlier ones, and not predictable from attempt
 *  numbers that other addresses have seen. */
uint32_t rdm_attempt(struct nic_rdm *ep, const struct nic_rdm_addr *addr);

#endif
