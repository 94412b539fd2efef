/* SPDX-License-Identifier: BSD-3-Clause */
/* key.h - UROCE_KEY: the file with the key that packets are authenticated with (pmd-internal; docs/security-key.md). */
#ifndef PMD_KEY_H
#define PMD_KEY_H

#include "nic.h"

struct pmd_key {
	bool set;
	uint8_t secret[NIC_KEY_LEN]; /* the caller wipes it after use: pmd_key_wipe */
};

/** Whether UROCE_KEY is set, to whatever. */
bool pmd_key_is_set(void);

/**
 * Read the key that UROCE_KEY names. Without the setting out->set is false. Every other doubt is an error: a program that is
 * meant to authenticate its packets never runs without.
 * @param err receives one sentence when the call fails.
 * @return 0, -EINVAL (no key in it, or an empty setting), -EACCES (others may read or change the file, or it is not to be
 * trusted), -ENOTSUP (a build without libsodium), another negative errno.
 */
int pmd_key_read(struct pmd_key *out, char *err, size_t err_len);

/** So that it is nowhere to be found. */
void pmd_key_wipe(struct pmd_key *key);

#endif
