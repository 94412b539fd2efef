/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * data.c - pseudo-random data, SGE layouts and shadows of the data verifier.
 *
 * All data is derived from keys, so that each end can compute the data that it must receive.
 */
#include <stdlib.h>
#include <string.h>
#include "verify.h"

static uint64_t mix(uint64_t x)
{
	x += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

uint64_t data_key(const struct phase *ph, unsigned kind, unsigned dir, unsigned qp, unsigned msg)
{
	uint64_t place = (uint64_t)kind << 56 | (uint64_t)dir << 48 | (uint64_t)qp << 32 | msg;

	return mix(mix(ph->plan->seed ^ (uint64_t)ph->index << 40) ^ place);
}

uint64_t data_u64(uint64_t key)
{
	return mix(key);
}

void data_fill(uint8_t *buf, size_t len, uint64_t key)
{
	size_t i = 0;

	for (; i + 8 <= len; i += 8) {
		key += 0x9e3779b97f4a7c15u;
		uint64_t x = (key ^ (key >> 29)) * 0xbf58476d1ce4e5b9u;

		x ^= x >> 32;
		memcpy(buf + i, &x, 8);
	}
	uint64_t tail = mix(key);

	memcpy(buf + i, &tail, len - i);
}

int sge_layout(struct ibv_sge *sge, unsigned count, uint8_t *addr, size_t len, uint32_t lkey, uint64_t key)
{
	size_t left = len;
	unsigned n = 0;

	if (!len)
		return 0;
	for (; n < count && left; n++) {
		size_t piece = left;

		if (n + 1 < count) {
			key = mix(key);
			piece = 1 + key % left;
			if (piece > 2 * len / count + 1)
				piece = 2 * len / count + 1; /* so that no piece is much larger than the average */
		}
		if (piece > left)
			piece = left;
		sge[n] = (struct ibv_sge){.addr = (uintptr_t)addr, .length = piece, .lkey = lkey};
		addr += piece + 8; /* a gap that must stay unchanged */
		left -= piece;
	}
	return n;
}

void sge_scatter(const struct ibv_sge *sge, int count, ptrdiff_t delta, size_t skip, const uint8_t *data, size_t len)
{
	for (int i = 0; i < count && len; i++) {
		uint8_t *at = (uint8_t *)(uintptr_t)sge[i].addr + delta;
		size_t room = sge[i].length;

		if (skip >= room) {
			skip -= room;
			continue;
		}
		at += skip;
		room -= skip;
		skip = 0;
		if (room > len)
			room = len;
		memcpy(at, data, room);
		data += room;
		len -= room;
	}
}

void area_reset(struct area *area, size_t used, uint64_t key)
{
	if (used > area->len)
		die("a phase needs %zu bytes, the area has %zu", used, area->len);
	data_fill(area->shadow, used, key);
	memcpy(area->mem, area->shadow, used);
}

long area_diff(const struct area *area, size_t used)
{
	if (!memcmp(area->mem, area->shadow, used))
		return -1;
	for (size_t i = 0; i < used; i++)
		if (area->mem[i] != area->shadow[i])
			return (long)i;
	return -1;
}
