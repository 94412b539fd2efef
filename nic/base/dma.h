/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dma.h - copying as a device does it, to and from application memory. Includes nothing of ours.
 *
 * Work requests, completions and the peer's messages decide whether the application or the NIC may touch a buffer.
 * ThreadSanitizer does not know these rules, so the accesses here are not instrumented. For the same reason this file
 * does not call memcpy, which ThreadSanitizer intercepts.
 */
#ifndef NIC_DMA_H
#define NIC_DMA_H

#include <stddef.h>
#include <stdint.h>

#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1
#endif
#endif

/** Attribute for functions that touch application memory. */
#ifdef __SANITIZE_THREAD__
#define DMA __attribute__((no_sanitize("thread")))
#else
#define DMA
#endif

/* 16 bytes at any address; the compiler copies them by vector moves. */
typedef uint8_t dma_vec __attribute__((vector_size(16), aligned(1), may_alias));

/**
 * Copy as memcpy does, but by vector moves. For 2 KiB or more, glibc's memcpy uses `rep movsb`, which is several times
 * slower than vector moves while the packets' cache lines are dirty in the cache of the core that wrote them.
 */
DMA static inline void dma_copy(uint8_t *dst, const uint8_t *src, size_t len)
{
	for (; len >= 64; len -= 64, dst += 64, src += 64) {
		const dma_vec *from = (const dma_vec *)src;
		dma_vec a = from[0], b = from[1], c = from[2], d = from[3], *to = (dma_vec *)dst;

		to[0] = a;
		to[1] = b;
		to[2] = c;
		to[3] = d;
	}
	for (; len >= 16; len -= 16, dst += 16, src += 16)
		*(dma_vec *)dst = *(const dma_vec *)src;
	if (len & 8) {
		__builtin_memcpy(dst, src, 8); /* fixed size: a single move */
		dst += 8;
		src += 8;
	}
	if (len & 4) {
		__builtin_memcpy(dst, src, 4);
		dst += 4;
		src += 4;
	}
	for (len &= 3; len; len--)
		*dst++ = *src++;
}

/* Orders all earlier stores before all later ones. */
#ifndef DMA_FENCE
#define DMA_FENCE() __atomic_thread_fence(__ATOMIC_RELEASE)
#endif

/** dma_deliver() for CPUs whose stores may become visible in any order. The last word may be a flag, so it is stored in
 *  one piece: as many bytes, up to 8, as its end is aligned to. */
DMA static inline void dma_deliver_fenced(uint8_t *dst, const uint8_t *src, size_t len)
{
	size_t word = 8;

	if (!len)
		return;
	while (word > len || ((uintptr_t)dst + len) % word)
		word /= 2;
	DMA_FENCE();
	if (len > word) {
		dma_copy(dst, src, len - word);
		DMA_FENCE();
	}
	dst += len - word;
	src += len - word;
	if (word == 8)
		__builtin_memcpy(dst, src, 8);
	else if (word == 4)
		__builtin_memcpy(dst, src, 4);
	else if (word == 2)
		__builtin_memcpy(dst, src, 2);
	else
		*dst = *src;
}

/**
 * Copy to memory that the application may poll, as buses do: no byte becomes visible before
 * what was stored earlier, such as another message, and the last bytes not before the others. x86-64 and s390x make
 * stores visible in the order of the program.
 */
DMA static inline void dma_deliver(uint8_t *dst, const uint8_t *src, size_t len)
{
#if defined(__x86_64__) || defined(__s390x__)
	dma_copy(dst, src, len);
#else
	dma_deliver_fenced(dst, src, len);
#endif
}

/** Call after reading memory that the application writes: later reads, such as those of the next READ, see no older
 *  memory. */
static inline void dma_fetched(void)
{
#if !defined(__x86_64__) && !defined(__s390x__)
	__atomic_thread_fence(__ATOMIC_ACQUIRE);
#endif
}

#endif
