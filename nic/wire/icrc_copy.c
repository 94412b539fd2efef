/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * icrc_copy.c - copy payload and continue its ICRC, in one pass if that is faster. Each byte of the source is loaded
 * once. So the CRC covers exactly the bytes that were copied, even if the application changes the source meanwhile.
 * Stateless.
 *
 * In one pass the CRC is computed by carry-less multiplication (Gopal et al., "Fast CRC Computation for Generic
 * Polynomials Using PCLMULQDQ", Intel 2009): 128 bits of message, taken as a polynomial, are moved n bits forward by
 * multiplying their halves by x^(n+32) and x^(n-32) modulo the CRC's polynomial. In the end all blocks are folded into
 * 16 bytes, and ISA-L computes the CRC of these bytes like that of any message.
 */
#include "icrc.h"

#include "dma.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define BLOCK	   64 /* four lanes of 16 bytes */
#define BLOCKS_MIN 4  /* shorter copies are not faster this way */

/* FOLD_n holds the two factors that move a lane n bits forward: x^(n+32) and x^(n-32) modulo the polynomial,
 * reflected as the CRC is. */
#define FOLD_512 _mm_set_epi64x(0x1c6e41596, 0x154442bd4)
#define FOLD_128 _mm_set_epi64x(0x0ccaa009e, 0x1751997d0)

#define CLMUL DMA __attribute__((target("pclmul,sse2")))

CLMUL static inline __m128i fold(__m128i lane, __m128i by, __m128i next)
{
	__m128i low = _mm_clmulepi64_si128(lane, by, 0x00), high = _mm_clmulepi64_si128(lane, by, 0x11);

	return _mm_xor_si128(_mm_xor_si128(low, high), next);
}

CLMUL static inline __m128i move(uint8_t *dst, const uint8_t *src)
{
	__m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)src);

	_mm_storeu_si128((__m128i *)(void *)dst, bytes);
	return bytes;
}

/** Copy whole 64-byte blocks, as many as there are in len bytes. @return the CRC continued over these blocks. */
CLMUL static uint32_t copy_blocks(uint32_t crc, uint8_t *dst, const uint8_t *src, size_t len)
{
	const __m128i fold_512 = FOLD_512, fold_128 = FOLD_128;
	__m128i a = _mm_xor_si128(move(dst, src), _mm_cvtsi32_si128((int)~crc)), b = move(dst + 16, src + 16);
	__m128i c = move(dst + 32, src + 32), d = move(dst + 48, src + 48);
	uint8_t rest[16];

	for (size_t i = BLOCK; i + BLOCK <= len; i += BLOCK) {
		a = fold(a, fold_512, move(dst + i, src + i));
		b = fold(b, fold_512, move(dst + i + 16, src + i + 16));
		c = fold(c, fold_512, move(dst + i + 32, src + i + 32));
		d = fold(d, fold_512, move(dst + i + 48, src + i + 48));
	}
	d = fold(fold(fold(a, fold_128, b), fold_128, c), fold_128, d);
	_mm_storeu_si128((__m128i *)(void *)rest, d);
	return icrc_update(~0u, rest, sizeof(rest));
}

static bool blocks_pay(size_t len)
{
	return len >= (size_t)BLOCK * BLOCKS_MIN && __builtin_cpu_supports("pclmul");
}

#else

#define BLOCK 1

static bool blocks_pay(size_t len)
{
	return false;
}

static uint32_t copy_blocks(uint32_t crc, uint8_t *dst, const uint8_t *src, size_t len)
{
	return crc;
}

#endif

uint32_t icrc_copy(uint32_t crc, uint8_t *dst, const uint8_t *src, size_t len)
{
	if (blocks_pay(len)) {
		size_t done = len - len % BLOCK;

		crc = copy_blocks(crc, dst, src, len);
		dst += done;
		src += done;
		len -= done;
	}
	dma_copy(dst, src, len);
	return icrc_update(crc, dst, len);
}
