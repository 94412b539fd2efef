/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * random.c - see random.h.
 *
 * The NIC draws a random key for every large message, and a system call each time would be slow. So one system call
 * fills a pool, from which keys are taken.
 *
 * After pmd_random_open, taking bytes never fails: the NIC takes them in places where it cannot handle an error. The
 * system call getrandom() can still fail later, if the application enters a sandbox that forbids the call. The pool is
 * then filled from a ChaCha20 key stream, whose first key came from the kernel. Each fill also generates the
 * next key from the stream and erases the old one, so memory reveals nothing about bytes handed out before.
 */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/random.h>

#include "random.h"

#define BLOCK 64u

/* ---- ChaCha20 ------------------------------------------------------------------------------------------------ */

static uint32_t turn(uint32_t x, unsigned bits)
{
	return x << bits | x >> (32 - bits);
}

static void quarter(uint32_t s[16], unsigned a, unsigned b, unsigned c, unsigned d)
{
	s[a] += s[b];
	s[d] = turn(s[d] ^ s[a], 16);
	s[c] += s[d];
	s[b] = turn(s[b] ^ s[c], 12);
	s[a] += s[b];
	s[d] = turn(s[d] ^ s[a], 8);
	s[c] += s[d];
	s[b] = turn(s[b] ^ s[c], 7);
}

void pmd_random_block(const uint32_t key[8], uint32_t counter, const uint32_t nonce[3], uint8_t out[64])
{
	uint32_t first[16] = {0x61707865, 0x3320646e, 0x79622d32, 0x6b206574}, s[16];

	memcpy(first + 4, key, 8 * sizeof(*key));
	first[12] = counter;
	memcpy(first + 13, nonce, 3 * sizeof(*nonce));
	memcpy(s, first, sizeof(s));
	for (unsigned round = 0; round < 10; round++) {
		for (unsigned i = 0; i < 4; i++)
			quarter(s, i, i + 4, i + 8, i + 12);
		for (unsigned i = 0; i < 4; i++)
			quarter(s, i, 4 + (i + 1) % 4, 8 + (i + 2) % 4, 12 + (i + 3) % 4);
	}
	for (unsigned i = 0; i < 16; i++) {
		uint32_t word = s[i] + first[i];

		for (unsigned byte = 0; byte < 4; byte++)
			out[4 * i + byte] = (uint8_t)(word >> 8 * byte);
	}
	explicit_bzero(first, sizeof(first));
	explicit_bzero(s, sizeof(s));
}

/** Fill the pool from the key stream, and replace the key. */
static void stretch(struct pmd_random *r)
{
	static const uint32_t nonce[3];
	uint8_t next[BLOCK];
	uint32_t n = 0;

	for (; n < sizeof(r->pool) / BLOCK; n++)
		pmd_random_block(r->key, n, nonce, r->pool + n * BLOCK);
	pmd_random_block(r->key, n, nonce, next);
	memcpy(r->key, next, sizeof(r->key));
	explicit_bzero(next, sizeof(next));
}

/* ---- the pool ------------------------------------------------------------------------------------------------ */

static int kernel_fill(void *buf, size_t len)
{
	uint8_t *to = buf;
	int cancel, rc = 0;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancel); /* the caller holds a lock */
	while (len > 0 && rc == 0) {
		ssize_t n = getrandom(to, len, 0);

		if (n > 0) {
			to += n;
			len -= (size_t)n;
		} else if (n == 0 || errno != EINTR) {
			rc = n == 0 ? -EIO : -errno;
		}
	}
	pthread_setcancelstate(cancel, NULL);
	return rc;
}

int pmd_random_open(struct pmd_random *r)
{
	int rc = kernel_fill(r->key, sizeof(r->key));

	r->left = 0;
	if (rc == 0)
		rc = kernel_fill(r->pool, sizeof(r->pool));
	if (rc == 0)
		r->left = sizeof(r->pool);
	return rc;
}

void pmd_random_take(struct pmd_random *r, void *buf, size_t len)
{
	uint8_t *to = buf;

	while (len > 0) {
		size_t part;

		if (r->left == 0) {
			if (kernel_fill(r->pool, sizeof(r->pool)) != 0)
				stretch(r);
			r->left = sizeof(r->pool);
		}
		part = len < r->left ? len : r->left;
		r->left -= (uint32_t)part;
		memcpy(to, r->pool + r->left, part);
		explicit_bzero(r->pool + r->left, part);
		to += part;
		len -= part;
	}
}

void pmd_random_forget(struct pmd_random *r)
{
	explicit_bzero(r, sizeof(*r));
}
