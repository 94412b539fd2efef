/* SPDX-License-Identifier: BSD-3-Clause */
/* cas16.h - compare-and-swap of 16 bytes. */
#ifndef NIC_CAS16_H
#define NIC_CAS16_H

#include <stdbool.h>
#include <stdint.h>

#include "dma.h"

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

/** Replace *target by `next` if *target equals `old`, in one atomic step. `old` and `next` are words, least significant
 *  first; `target` is aligned to 16. @return true: replaced; false: *target is unchanged, and `old` gets the value
 *  found. */
DMA static inline bool cas16(uint128 *target, uint64_t old[2], const uint64_t next[2])
{
#if defined(__x86_64__)
	bool equal; /* assembly, because compilers call a library function here unless the file is built with -mcx16 */

	__asm__ volatile("lock cmpxchg16b %[target]"
			 : [target] "+m"(*target), "+a"(old[0]), "+d"(old[1]), "=@ccz"(equal)
			 : "b"(next[0]), "c"(next[1])
			 : "memory");
	return equal;
#elif defined(__s390x__)
	/* Assembly: a uint128 is aligned to 8 only, for which compilers call the library function. */
	uint128 was = (uint128)old[1] << 64 | old[0];
	int differs; /* the condition code: 0 or 1 */

	__asm__ volatile("cdsg %[was],%[next],%[target]\n\t"
			 "ipm %[differs]\n\t"
			 "srl %[differs],28"
			 : [target] "+S"(*target), [was] "+d"(was), [differs] "=d"(differs)
			 : [next] "d"((uint128)next[1] << 64 | next[0])
			 : "memory", "cc");
	old[0] = (uint64_t)was;
	old[1] = (uint64_t)(was >> 64);
	return !differs;
#elif defined(__GCC_HAVE_SYNC_COMPARE_AND_SWAP_16)
	uint128 was = (uint128)old[1] << 64 | old[0];
	uint128 seen = __sync_val_compare_and_swap(target, was, (uint128)next[1] << 64 | next[0]);

	old[0] = (uint64_t)seen;
	old[1] = (uint64_t)(seen >> 64);
	return seen == was;
#else
	/* A library's lock would not do: CPUs and other processes do not take it. */
#error "this CPU has no compare-and-swap of 16 bytes, which atomics of 16 bytes need (nic/mem/cas16.h)"
#endif
}

#endif
