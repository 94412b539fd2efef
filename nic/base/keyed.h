/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * keyed.h - the tag that ends a packet in place of the ICRC when both ends hold a key (keyed.md).
 *
 * SipHash-2-4 of libsodium, 64 bits, over the packet as the ICRC sees it: the fields that routers change are ones. A
 * packet needs no nonce and a sender keeps no state, so equal packets have equal tags. A build without libsodium has no
 * tags, and no NIC can be created with a key. A leaf; stateless.
 */
#ifndef NIC_KEYED_H
#define NIC_KEYED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEYED_KEY_LEN 16
#define KEYED_TAG_LEN 8 /* as wire.h draws it */

/** What tags are made with: not the user's key itself, but one that follows from it. */
struct keyed {
	uint8_t key[KEYED_KEY_LEN];
};

/** Whether this build has tags. */
bool keyed_supported(void);

/** Derive the key of tags from the user's key. @return false: this build has no tags, and *out is all zeroes. */
bool keyed_derive(struct keyed *out, const uint8_t secret[KEYED_KEY_LEN]);

/** The tag of len bytes, written to `tag`, which may be right behind them. */
void keyed_tag(const struct keyed *keyed, const uint8_t *bytes, size_t len, uint8_t tag[KEYED_TAG_LEN]);

/** Whether this is the tag of len bytes. Takes the same time wherever the difference is. */
bool keyed_holds(const struct keyed *keyed, const uint8_t *bytes, size_t len, const uint8_t tag[KEYED_TAG_LEN]);

#endif
