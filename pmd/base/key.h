/* SPDX-License-Identifier: BSD-3-Clause */
/* key.h - UROCE_KEY: the file with the key that authenticates packets (pmd-internal; docs/security-key.md). */
#ifndef PMD_KEY_H
#define PMD_KEY_H

#include "nic.h"

struct pmd_key {
	bool set;
	uint8_t secret[NIC_KEY_LEN]; /* the caller erases the key after use (pmd_key_wipe) */
};

/** Whether UROCE_KEY is set to any value, even an empty one. */
bool pmd_key_is_set(void);

/**
 * Read the key from the file that UROCE_KEY names. If UROCE_KEY is unset, this succeeds with out->set false. If
 * UROCE_KEY is set but the key cannot be read, this fails: a program must never send unauthenticated packets by
 * mistake.
 * @param err on failure, a message.
 * @return 0, -EINVAL (no regular file, no key in it, or an empty setting), -EACCES (other users may read or change the
 * file, its owner is not trusted, or the program is setuid or the like), -ENOTSUP (a build without libsodium), another
 * negative errno.
 */
int pmd_key_read(struct pmd_key *out, char *err, size_t err_len);

/** Erase the key from memory. */
void pmd_key_wipe(struct pmd_key *key);

#endif
