/* SPDX-License-Identifier: BSD-3-Clause */
/* pieces.h - fetches the memory that a packet references, as a carrier does. */
#ifndef UNIT_PIECES_H
#define UNIT_PIECES_H

#include <stdlib.h>
#include <string.h>

#include "nic.h"

/** Copy [offset, offset + len) of the concatenated pieces, as nic_reference.fetch does; the pieces must be long
 *  enough. */
static inline void pieces_fetch(const struct nic_piece *piece, uint32_t n, uint32_t offset, void *dst, uint32_t len,
				void *last, uint32_t n_last)
{
	uint8_t *all = malloc(len), *to = all;

	assert_non_null(all);
	for (uint32_t i = 0; i < n && len; i++) {
		uint32_t part = piece[i].len;

		if (offset >= part) {
			offset -= part;
			continue;
		}
		part = part - offset < len ? part - offset : len;
		memcpy(to, (const uint8_t *)(uintptr_t)piece[i].addr + offset, part);
		to += part;
		len -= part;
		offset = 0;
	}
	assert_int_equal(len, 0);
	memcpy(dst, all, (size_t)(to - all) - n_last);
	if (n_last)
		memcpy(last, to - n_last, n_last);
	free(all);
}

#endif
