/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_stranger.c - callers unknown to the application. The source address of a call datagram can be forged. Before the
 * endpoint allocates anything for a caller, the caller must echo a challenge that was sent to that address. The
 * challenge is a hash of the address and of nic_rdm_peer.met, keyed with a secret of the endpoint. The endpoint
 * therefore keeps no state for callers that have not answered a challenge.
 *
 * A caller that has proven its address becomes a peer. The endpoint limits the number of strangers, which are peers
 * that have called but that the application does not know, because one host can have any number of addresses.
 *
 * Owns: nic_rdm.strangers.
 */
#include "rdm.h"
#include "rdm_conn.h"
#include "rdm_stranger.h"

#define STRANGERS_MOST 1024u
#define ATTEMPT_BITS   0x3fffffffu /* keeps the first attempt number low: a high number would count as earlier than 0 */
#define QPS_FOR_OTHERS 8u	   /* strangers of one endpoint get at most 1/8 of the NIC's QPs */

/* ---- challenges ---------------------------------------------------------------------------------------------- */

static uint64_t rotate(uint64_t x, unsigned n)
{
	return x << n | x >> (64 - n);
}

static void mix(uint64_t v[4], unsigned rounds)
{
	while (rounds-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] = rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] = rotate(v[2], 32);
	}
}

uint64_t rdm_keyed_hash(const uint64_t key[2], const uint8_t *data, uint32_t len)
{
	uint64_t v[4] = {key[0] ^ 0x736f6d6570736575u, key[1] ^ 0x646f72616e646f6du, key[0] ^ 0x6c7967656e657261u,
			 key[1] ^ 0x7465646279746573u};
	uint32_t at = 0;

	for (bool last = false; !last;) {
		uint64_t word = 0;
		uint32_t n = len - at < 8 ? len - at : 8;

		for (uint32_t i = 0; i < n; i++)
			word |= (uint64_t)data[at + i] << 8 * i;
		last = n < 8;
		if (last)
			word |= (uint64_t)len << 56;
		at += n;
		v[3] ^= word;
		mix(v, 2);
		v[0] ^= word;
	}
	v[2] ^= 0xff;
	mix(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

uint32_t rdm_challenge(const struct nic_rdm *ep, const struct nic_rdm_addr *addr, uint32_t met)
{
	uint8_t bytes[sizeof(addr->gid.raw) + 6];
	uint8_t *p = bytes + sizeof(addr->gid.raw);

	memcpy(bytes, addr->gid.raw, sizeof(addr->gid.raw));
	for (unsigned i = 0; i < 4; i++)
		*p++ = (uint8_t)(met >> 8 * i);
	*p++ = (uint8_t)addr->port;
	*p = (uint8_t)(addr->port >> 8);
	return (uint32_t)rdm_keyed_hash(ep->secret, bytes, sizeof(bytes));
}

uint32_t rdm_attempt(struct nic_rdm *ep, const struct nic_rdm_addr *addr)
{
	uint8_t bytes[sizeof(addr->gid.raw) + 2]; /* shorter than the input of rdm_challenge, so the hashes are
						   * unrelated */

	memcpy(bytes, addr->gid.raw, sizeof(addr->gid.raw));
	bytes[sizeof(addr->gid.raw)] = (uint8_t)addr->port;
	bytes[sizeof(addr->gid.raw) + 1] = (uint8_t)(addr->port >> 8);
	return ((uint32_t)rdm_keyed_hash(ep->secret, bytes, sizeof(bytes)) & ATTEMPT_BITS) + ++ep->attempts;
}

/* ---- proven callers ------------------------------------------------------------------------------------------ */

void rdm_stranger_known(struct nic_rdm_peer *peer)
{
	if (!peer->stranger)
		return;
	peer->stranger = false;
	list_remove(&peer->strangers);
	peer->ep->n_strangers--;
}

/** Drop the stranger that called first. */
static void forget_one(struct nic_rdm *ep)
{
	struct nic_rdm_peer *peer = list_entry(list_first(&ep->strangers), struct nic_rdm_peer, strangers);

	rdm_stranger_known(peer);
	COUNT(ep->nic, rdm_strangers_dropped);
	rdm_peer_forget(peer);
}

struct nic_rdm_peer *rdm_stranger_new(struct nic_rdm *ep, const struct nic_rdm_addr *addr)
{
	uint32_t most = ep->nic->cfg.limits.max_qp / QPS_FOR_OTHERS;
	struct nic_rdm_peer *peer;

	most = most < STRANGERS_MOST ? most : STRANGERS_MOST;
	if (ep->n_strangers >= most && !list_empty(&ep->strangers))
		forget_one(ep);
	peer = nic_rdm_peer_get(ep, addr);
	if (!peer)
		return NULL;
	peer->stranger = true;
	list_append(&ep->strangers, &peer->strangers);
	ep->n_strangers++;
	return peer;
}
