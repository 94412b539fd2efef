/* SPDX-License-Identifier: BSD-3-Clause */
/* random.h - unpredictable random bytes for keys, QPNs and PSNs (pmd-internal). Not thread-safe. */
#ifndef PMD_RANDOM_H
#define PMD_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct pmd_random {
	uint32_t left; /* bytes at the start of the pool that have not been handed out */
	uint8_t pool[512];
	uint32_t key[8]; /* ChaCha20 key for when getrandom() fails */
};

/** Fetch the first bytes from the kernel. @return 0 or a negative errno: then pmd_random_take() must not be called. */
int pmd_random_open(struct pmd_random *r);

/** Take `len` bytes. Each byte is handed out once and then erased. Never fails. */
void pmd_random_take(struct pmd_random *r, void *buf, size_t len);

/** Erase the state, at the end and in a forked child: the child must never use the parent's random bytes. */
void pmd_random_forget(struct pmd_random *r);

/** One block of ChaCha20 (RFC 8439, 2.3). */
void pmd_random_block(const uint32_t key[8], uint32_t counter, const uint32_t nonce[3], uint8_t out[64]);

#endif
