/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * keyed.h - the tag that ends the packets of a NIC with a key, in place of the ICRC (keyed.md).
 *
 * The tag is the 64-bit SipHash-2-4 of libsodium over the packet, masked as for the ICRC (fields that routers change
 * are ones), with the IPv4 ID, flags and fragment offset masked too. There is no nonce and no sender state, so equal
 * packets have equal tags. A build without libsodium has no tags, and cannot create a NIC with a key. Includes nothing
 * of ours; stateless.
 */
#ifndef NIC_KEYED_H
#define NIC_KEYED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEYED_KEY_LEN 16
#define KEYED_TAG_LEN 8 /* bytes; layout: keyed.md */

/** The key of tags, derived from the user's key. */
struct keyed {
	uint8_t key[KEYED_KEY_LEN];
};

/** Whether this build has tags. */
bool keyed_supported(void);

/** Derive the key of tags from the user's key. @return false: this build has no tags, and *out is all zeroes. */
bool keyed_derive(struct keyed *out, const uint8_t secret[KEYED_KEY_LEN]);

/** Write the tag of len bytes to `tag`, which may directly follow them. */
void keyed_tag(const struct keyed *keyed, const uint8_t *bytes, size_t len, uint8_t tag[KEYED_TAG_LEN]);

/** Whether `tag` is the right tag for len bytes. The comparison takes constant time. */
bool keyed_holds(const struct keyed *keyed, const uint8_t *bytes, size_t len, const uint8_t tag[KEYED_TAG_LEN]);

#endif
