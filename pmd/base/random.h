/* SPDX-License-Identifier: BSD-3-Clause */
/* random.h - random bytes that nobody can guess: keys, QPNs, PSNs (pmd-internal). Not thread-safe. */
#ifndef PMD_RANDOM_H
#define PMD_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct pmd_random {
	uint32_t left; /* bytes of the pool that nobody has had yet, from its start */
	uint8_t pool[512];
	uint32_t key[8]; /* for when the kernel has no more */
};

/** Fetch the first bytes from the kernel. @return 0 or a negative errno: then nothing may be taken. */
int pmd_random_open(struct pmd_random *r);

/** Each byte is given once, and kept nowhere after that. Never fails. */
void pmd_random_take(struct pmd_random *r, void *buf, size_t len);

/** In a forked child: what is there belongs to the parent. */
void pmd_random_forget(struct pmd_random *r);

/** One block of ChaCha20 (RFC 8439, 2.3). */
void pmd_random_block(const uint32_t key[8], uint32_t counter, const uint32_t nonce[3], uint8_t out[64]);

#endif
