/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wire_util.h - helpers for tests of the packet code: packets in hexadecimal, frames that end at an unreadable page,
 * and a bitwise reference ICRC written from the specification.
 */
#ifndef UNIT_WIRE_UTIL_H
#define UNIT_WIRE_UTIL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "opcode.h"
#include "wire.h"

/** Offset of the payload from the start of the IP header of a packet with this opcode. */
static inline unsigned util_payload_offset(const struct opcode *op, bool v4)
{
	return (v4 ? IPV4_LEN : IPV6_LEN) + UDP_LEN + op->hdr_len;
}

/** Convert hexadecimal digits to bytes. @return the number of bytes written. */
static inline unsigned util_unhex(const char *hex, uint8_t *out)
{
	unsigned n = 0;

	for (; hex[0] && hex[1]; hex += 2) {
		char digits[3] = {hex[0], hex[1], 0};

		out[n++] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return n;
}

static inline uint32_t util_crc32(uint32_t reg, const uint8_t *p, size_t len)
{
	while (len--) {
		reg ^= *p++;
		for (int i = 0; i < 8; i++)
			reg = reg & 1 ? reg >> 1 ^ 0xedb88320u : reg >> 1;
	}
	return reg;
}

/** @return the ICRC of a whole IP packet of len bytes; its last four bytes, the ICRC field, are ignored. */
static inline uint32_t util_icrc(const uint8_t *ip, unsigned len)
{
	static const uint8_t ones[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	uint8_t copy[65536];
	bool v4 = ip[0] >> 4 == 4;
	unsigned udp = v4 ? 20 : 40;

	memcpy(copy, ip, len);
	if (v4) {
		copy[1] = copy[8] = copy[10] = copy[11] = 0xff;
	} else {
		copy[0] = 0x6f;
		copy[1] = copy[2] = copy[3] = copy[7] = 0xff;
	}
	copy[udp + 6] = copy[udp + 7] = 0xff;
	copy[udp + 8 + 4] = 0xff;
	return ~util_crc32(util_crc32(0xffffffff, ones, sizeof(ones)), copy, len - 4);
}

static inline void util_fix_ipv4_checksum(uint8_t *ip)
{
	uint32_t sum = 0;

	ip[10] = ip[11] = 0;
	for (unsigned i = 0; i < 20; i += 2) {
		sum += (uint32_t)ip[i] << 8 | ip[i + 1];
		if (sum > 0xffff) /* end-around carry */
			sum -= 0xffff;
	}
	ip[10] = (uint8_t)(~sum >> 8);
	ip[11] = (uint8_t)~sum;
}

/** Correct the lengths, the IPv4 header checksum and the ICRC of a packet after a change. */
static inline void util_fix(uint8_t *ip, unsigned len)
{
	bool v4 = ip[0] >> 4 == 4;
	unsigned udp = v4 ? 20 : 40;
	uint32_t icrc;

	if (v4) {
		ip[2] = (uint8_t)(len >> 8);
		ip[3] = (uint8_t)len;
		util_fix_ipv4_checksum(ip);
	} else {
		ip[4] = (uint8_t)((len - 40) >> 8);
		ip[5] = (uint8_t)(len - 40);
	}
	ip[udp + 4] = (uint8_t)((len - udp) >> 8);
	ip[udp + 5] = (uint8_t)(len - udp);
	if (len < udp + 8 + 12 + 4)
		return;
	icrc = util_icrc(ip, len);
	for (unsigned i = 0; i < 4; i++)
		ip[len - 4 + i] = (uint8_t)(icrc >> 8 * i);
}

#define UTIL_GUARD_ROOM 8192

/** Map UTIL_GUARD_ROOM bytes followed by an unreadable page; `util_at_end` places a frame right before that page. */
static inline uint8_t *util_guard_map(void)
{
	uint8_t *map = mmap(NULL, UTIL_GUARD_ROOM + 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (map == MAP_FAILED || mprotect(map + UTIL_GUARD_ROOM, 4096, PROT_NONE) != 0)
		abort();
	return map;
}

static inline uint8_t *util_at_end(uint8_t *guard, const uint8_t *frame, unsigned len)
{
	return memcpy(guard + UTIL_GUARD_ROOM - len, frame, len);
}

/** @return the next xorshift64* number: the same sequence in every run. */
static inline uint64_t util_random(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return *state * 0x2545f4914f6cdd1dull;
}

#endif
