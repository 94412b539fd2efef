/* SPDX-License-Identifier: BSD-3-Clause */
/* icrc.c - the invariant CRC (IBTA 7.8.1, A17.3): ISA-L's CRC-32, and its inverse for hidden IPv4 IDs. Stateless. */
#include "icrc.h"

#include "wire.h"

#include <isa-l/crc.h>

#define ICRC_POLY 0xedb88320u /* 0x04c11db7, reflected */

uint32_t icrc_update(uint32_t crc, const uint8_t *bytes, size_t len)
{
	return crc32_gzip_refl(crc, bytes, len);
}

/* x^(-8 * m) modulo the polynomial for m = 16^row * column: multiplying by it undoes m bytes of zeroes. */
static const uint32_t undo_bytes[4][16] = {
	{0x80000000, 0x6567cb95, 0xd7125358, 0x1f81b6e1, 0x5b358fd3, 0xeb21cebf, 0x2ff880c5, 0x97fc423c, 0x2e9bb40b,
	 0x2fb98a7d, 0xd6f6fa3c, 0x2059d4a0, 0x36511375, 0x525983aa, 0x31619cb3, 0x0f125cae},
	{0x80000000, 0x12a59a49, 0x8df9403d, 0x9d764201, 0x5139de12, 0x17958e0b, 0xdb1c4863, 0xc31ec6b9, 0xba340226,
	 0x6b85d37b, 0x0ba861bc, 0x39b0d61c, 0xfb844d1f, 0xc9771684, 0x8073ef0c, 0xc3f881be},
	{0x80000000, 0x29c45641, 0x12fbc105, 0x8b712bc1, 0xecd30c55, 0x930588dc, 0x3c4c471a, 0x25cd5760, 0x3755ebd8,
	 0xe264a9e0, 0xc3a68b42, 0x219c9d64, 0x75cc86fa, 0xebcce135, 0x84773a36, 0x4e1b970f},
	{0x80000000, 0x24ee460c},
};

/** a * b modulo the CRC polynomial, reflected. No data-dependent branch: the bits are random. */
static uint32_t gf_multiply(uint32_t a, uint32_t b)
{
	uint32_t product = 0;

	for (int i = 0; i < 32; i++) {
		product ^= b & (0u - (a >> 31));
		a <<= 1;
		b = (b >> 1) ^ (ICRC_POLY & (0u - (b & 1)));
	}
	return product;
}

bool icrc_find_ip_id(uint32_t difference, unsigned len, uint16_t *id)
{
	unsigned undo = len - ICRC_LEN - IPV4_ID; /* how many bytes to run the CRC back: the ID and all that follows */
	uint32_t v = difference;

	for (unsigned row = 0; row < 4; row++, undo >>= 4)
		if (undo & 15)
			v = gf_multiply(undo_bytes[row][undo & 15], v);

	/* The ID's upper byte, which the CRC took in first, is in the low byte of v. */
	*id = (uint16_t)(v << 8 | (v >> 8 & 0xff));
	return v >> 16 == 0;
}
