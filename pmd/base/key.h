/* SPDX-License-Identifier: BSD-3-Clause */
/* key.h - UROCE_KEY: the file with the key that authenticates packets (pmd-internal; docs/security-key.md). */
#ifndef PMD_KEY_H
#define PMD_KEY_H

#include "nic.h"

struct pmd_key {
	bool set;
	uint8_t secret[NIC_KEY_LEN]; /* the caller wipes it after use: pmd_key_wipe */
};

/** Whether UROCE_KEY is set to any value, even an empty one. */
bool pmd_key_is_set(void);

/**
 * Read the key from the file that UROCE_KEY names. If UROCE_KEY is unset, succeeds with out->set false. Any other
 * problem is an error: a program that is meant to authenticate its packets never runs without doing so.
 * @param err on failure, one sentence.
 * @return 0, -EINVAL (no key in the file, or an empty setting), -EACCES (others may read or change the file, or it is
 * not trusted), -ENOTSUP (a build without libsodium), another negative errno.
 */
int pmd_key_read(struct pmd_key *out, char *err, size_t err_len);

/** Erase the key from memory. */
void pmd_key_wipe(struct pmd_key *key);

#endif
