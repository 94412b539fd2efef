/* SPDX-License-Identifier: BSD-3-Clause */
/* keyed.c - packet tags: libsodium's SipHash-2-4, or stubs in a build without libsodium. Stateless. */
#include "keyed.h"

#include <string.h>

#ifdef NIC_KEYED
#include <sodium/crypto_shorthash_siphash24.h>

_Static_assert(crypto_shorthash_siphash24_BYTES == KEYED_TAG_LEN, "a tag is the whole hash");
_Static_assert(crypto_shorthash_siphash24_KEYBYTES == KEYED_KEY_LEN, "a key is as long as SipHash's");
_Static_assert(crypto_shorthash_siphashx24_BYTES == KEYED_KEY_LEN, "a key can be derived");

/* Purpose of the derived key. Any other use of the user's key must derive its own key from another string. */
static const char purpose[] = "uroce packet tag 1";

/*
 * sodium_init is not called: it chooses implementations and opens a source of random numbers. SipHash has one
 * implementation and needs no random numbers.
 */
bool keyed_supported(void)
{
	return true;
}

bool keyed_derive(struct keyed *out, const uint8_t secret[KEYED_KEY_LEN])
{
	crypto_shorthash_siphashx24(out->key, (const uint8_t *)purpose, sizeof(purpose) - 1, secret);
	return true;
}

void keyed_tag(const struct keyed *keyed, const uint8_t *bytes, size_t len, uint8_t tag[KEYED_TAG_LEN])
{
	crypto_shorthash_siphash24(tag, bytes, len, keyed->key);
}

#else

bool keyed_supported(void)
{
	return false;
}

bool keyed_derive(struct keyed *out, const uint8_t secret[KEYED_KEY_LEN])
{
	memset(out, 0, sizeof(*out));
	return false;
}

/* Never called: keyed_derive fails, so there is no valid struct keyed to pass. */
void keyed_tag(const struct keyed *keyed, const uint8_t *bytes, size_t len, uint8_t tag[KEYED_TAG_LEN])
{
	memset(tag, 0, KEYED_TAG_LEN);
}

#endif

bool keyed_holds(const struct keyed *keyed, const uint8_t *bytes, size_t len, const uint8_t tag[KEYED_TAG_LEN])
{
	uint8_t right[KEYED_TAG_LEN];
	uint64_t a, b;

	if (!keyed_supported())
		return false;
	keyed_tag(keyed, bytes, len, right);
	memcpy(&a, right, sizeof(a));
	memcpy(&b, tag, sizeof(b));
	return (a ^ b) == 0; /* one register comparison: constant time */
}
