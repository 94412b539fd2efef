/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - application memory and its oracle: only bytes that the NIC was told to write ever change.
 *
 * A bank is one registered region. Slots are ranges of it, at least 16 unused bytes apart. Every byte that may not be
 * written now must equal the shadow copy: guards, read-only slots, freed slots, and all bytes of a region that is not
 * registered now. The mask bytes of a writable slot are set.
 */
#include "sim.h"

#include <stdlib.h>
#include <string.h>

#define GRANULE 32

uint8_t pattern_byte(uint64_t uid, uint32_t offset)
{
	return (uint8_t)(rng_mix(uid + (offset >> 3) * 0x100000001ull) >> (offset & 7) * 8);
}

void pattern_fill(uint64_t uid, uint32_t offset, uint8_t *buf, uint32_t len)
{
	uint32_t i = 0;

	for (; i < len && ((offset + i) & 7) != 0; i++)
		buf[i] = pattern_byte(uid, offset + i);
	for (; i + 8 <= len; i += 8) {
		uint64_t v = rng_mix(uid + ((offset + i) >> 3) * 0x100000001ull);

		for (int k = 0; k < 8; k++)
			buf[i + k] = (uint8_t)(v >> k * 8);
	}
	for (; i < len; i++)
		buf[i] = pattern_byte(uid, offset + i);
}

bool pattern_check(uint64_t uid, uint32_t offset, const uint8_t *buf, uint32_t len)
{
	uint8_t want[512];

	while (len > 0) {
		uint32_t n = len < sizeof(want) ? len : (uint32_t)sizeof(want);

		pattern_fill(uid, offset, want, n);
		if (memcmp(want, buf, n) != 0)
			return false;
		offset += n;
		buf += n;
		len -= n;
	}
	return true;
}

static const struct {
	uint32_t size, access;
	unsigned pd;
} bank_rows[SIM_BANKS] = {
	[BANK_TARGET] = {128 << 10,
			 NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ |
				 NIC_ACCESS_MW_BIND | NIC_ACCESS_FLUSH_GLOBAL | NIC_ACCESS_FLUSH_PERSISTENT,
			 0},
	[BANK_TARGET_FRAIL] = {64 << 10,
			       NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ |
				       NIC_ACCESS_FLUSH_GLOBAL | NIC_ACCESS_FLUSH_PERSISTENT,
			       0},
	[BANK_LOCAL] = {640 << 10, NIC_ACCESS_LOCAL_WRITE, 0},
	[BANK_LOCAL_FRAIL] = {64 << 10, NIC_ACCESS_LOCAL_WRITE, 0},
	[BANK_STATIC] = {32 << 10, NIC_ACCESS_REMOTE_READ, 0},
	[BANK_CELLS] = {SIM_CELLS * 8, NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_ATOMIC, 0},
	[BANK_FOREIGN] = {4096,
			  NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ |
				  NIC_ACCESS_REMOTE_ATOMIC,
			  1},
};

/** @return the pattern ID of the static bank. It includes the node's index, so that data of the wrong node is detected.
 */
static uint64_t static_uid(const struct node *node)
{
	return 0x57a71c0000000000ull + node->index;
}

bool bank_init(struct bank *bank, struct node *node, enum bank_kind kind)
{
	uint32_t size = bank_rows[kind].size, all = size + 2 * SIM_EDGE;
	uint8_t *block = aligned_alloc(64, (3 * (size_t)all + 63) & ~(size_t)63);

	if (block == NULL)
		return false;
	*bank = (struct bank){.node = node, .kind = kind, .size = size, .access = bank_rows[kind].access};
	bank->all = block;
	bank->shadow = block + all;
	bank->mask = block + 2 * (size_t)all;
	bank->mem = bank->all + SIM_EDGE;
	bank->used = sim_alloc(node->sim, size / GRANULE + 2);
	memset(bank->all, SIM_FREE_BYTE, all);
	if (kind == BANK_STATIC)
		pattern_fill(static_uid(node), 0, bank->mem, size);
	if (kind == BANK_CELLS)
		memset(bank->mem, 0, size);
	memcpy(bank->shadow, bank->all, all);
	memset(bank->mask, 0, all);
	if (kind == BANK_CELLS)
		memset(bank->mask + SIM_EDGE, 0xff, size); /* atomics.c checks the cells */
	bank_register(bank);
	return bank->registered;
}

void bank_register(struct bank *bank)
{
	struct node *node = bank->node;

	/* Use I/O virtual addresses that differ from memory addresses and repeat from run to run. Cells keep their
	 * alignment. */
	bank->iova = (rng_u64(&node->rng) & 0x7fffffffffffff00ull) +
		     (bank->kind == BANK_CELLS ? 0 : (uintptr_t)bank->mem % 16);
	bank->gen++;
	bank->registered = nic_mr_reg(node->pd[bank_rows[bank->kind].pd], bank->mem, bank->size, bank->iova,
				      bank->access, &bank->mr) == 0;
	if (!bank->registered)
		sim_fail(node->sim, "api", "nic_mr_reg refused a legal registration");
	memset(bank->used, 0, bank->size / GRANULE + 2);
	if (bank->gen > 1) {
		memset(bank->mem, SIM_FREE_BYTE, bank->size);
		memcpy(bank->shadow, bank->all, bank->size + 2 * SIM_EDGE);
	}
}

void bank_deregister(struct bank *bank)
{
	int rc = nic_mr_dereg(bank->mr);

	if (rc != 0) {
		sim_fail(bank->node->sim, "api", "nic_mr_dereg returned %d", rc);
		return;
	}
	bank->registered = false;
	bank->gen++;
	/* The memory may not be accessed any more: refill it, and guard all of it. */
	memset(bank->mem, SIM_GONE_BYTE, bank->size);
	memcpy(bank->shadow, bank->all, bank->size + 2 * SIM_EDGE);
	memset(bank->mask, 0, bank->size + 2 * SIM_EDGE);
}

void bank_free(struct bank *bank)
{
	free(bank->all);
	bank->all = NULL;
}

/* @return the first granule of the slot at `off`. A slot starts 16 to 31 bytes into its first granule. */
static uint32_t slot_granule(uint32_t off)
{
	return (off - 16) / GRANULE;
}

static uint32_t slot_granules(uint32_t off, uint32_t len)
{
	return (off + len + 15) / GRANULE - slot_granule(off) + 1;
}

bool bank_alloc(struct bank *bank, uint32_t len, struct rng *rng, struct slot *out)
{
	uint32_t total = bank->size / GRANULE, shift = 16 + (uint32_t)rng_below(rng, 16);
	uint32_t need = slot_granules(shift, len), g = bank->cursor, run = 0, tried = 0;

	if (!bank->registered || need > total)
		return false;
	for (; tried < total + need; tried++, g++) {
		if (g >= total)
			g = run = 0;
		run = bank->used[g] != 0 ? 0 : run + 1;
		if (run == need)
			break;
	}
	if (run != need)
		return false;
	bank->cursor = g + 1 < total ? g + 1 : 0;
	g -= need - 1;
	memset(bank->used + g, 1, need);
	*out = (struct slot){bank, g * GRANULE + shift, len, bank->gen};
	return true;
}

bool slot_gone(const struct slot *slot)
{
	return slot->gen != slot->bank->gen;
}

uint8_t *slot_mem(const struct slot *slot)
{
	return slot->bank->mem + slot->off;
}

uint64_t slot_iova(const struct slot *slot)
{
	return slot->bank->iova + slot->off;
}

void slot_grant(const struct slot *slot)
{
	memset(slot->bank->mask + SIM_EDGE + slot->off, 0xff, slot->len);
}

/** The application fills a slot with the bytes of pattern(uid) that begin at `offset`. */
void slot_fill(const struct slot *slot, uint64_t uid, uint32_t offset)
{
	uint8_t *mem = slot_mem(slot);

	pattern_fill(uid, offset, mem, slot->len);
	memcpy(slot->bank->shadow + SIM_EDGE + slot->off, mem, slot->len);
}

void slot_put(const struct slot *slot, uint32_t off, uint8_t byte)
{
	slot_mem(slot)[off] = byte;
	slot->bank->shadow[SIM_EDGE + slot->off + off] = byte;
}

/** Free a slot: its bytes get SIM_FREE_BYTE and may not be written from now on. */
void slot_free(struct slot *slot)
{
	struct bank *bank = slot->bank;

	slot->bank = NULL;
	if (bank == NULL || slot->gen != bank->gen)
		return;
	memset(bank->mem + slot->off, SIM_FREE_BYTE, slot->len);
	memset(bank->shadow + SIM_EDGE + slot->off, SIM_FREE_BYTE, slot->len);
	memset(bank->mask + SIM_EDGE + slot->off, 0, slot->len);
	memset(bank->used + slot_granule(slot->off), 0, slot_granules(slot->off, slot->len));
}

/** Copy the first len bytes of a buffer, which consists of segments. @return false if the registration of a segment has
 * ended, or the buffer is too short. */
bool slots_collect(const struct slot *seg, unsigned segs, uint8_t *out, uint32_t len)
{
	for (unsigned i = 0; i < segs && len > 0; i++) {
		uint32_t n = seg[i].len < len ? seg[i].len : len;

		if (slot_gone(&seg[i]))
			return false;
		memcpy(out, slot_mem(&seg[i]), n);
		out += n;
		len -= n;
	}
	return len == 0;
}

uint32_t bank_lkey(const struct bank *bank)
{
	return bank->registered ? nic_mr_lkey(bank->mr) : 0;
}

uint32_t bank_rkey(const struct bank *bank)
{
	return bank->registered ? nic_mr_rkey(bank->mr) : 0;
}

static bool bank_intact(const struct bank *bank)
{
	const uint64_t *a = (const void *)bank->all, *s = (const void *)bank->shadow, *m = (const void *)bank->mask;
	size_t n = (bank->size + 2 * SIM_EDGE) / 8;
	uint64_t diff = 0;

	for (size_t i = 0; i < n; i++)
		diff |= (a[i] ^ s[i]) & ~m[i];
	return diff == 0;
}

/** Oracle memory_untouched: only currently writable bytes may differ from the shadow. */
void memory_check(struct sim *sim)
{
	for (unsigned i = 0; i < sim->nodes && !sim->failed; i++) {
		for (unsigned b = 0; b < SIM_BANKS; b++) {
			struct bank *bank = &sim->node[i].bank[b];
			size_t at = 0;

			if (bank_intact(bank))
				continue;
			while (((bank->all[at] ^ bank->shadow[at]) & ~bank->mask[at]) == 0)
				at++;
			sim_fail(sim, bank->registered ? "memory_untouched" : "memory_after_dereg",
				 "node %u bank %u offset %ld of %u: %02x, expected %02x", i, b, (long)at - SIM_EDGE,
				 bank->size, bank->all[at], bank->shadow[at]);
			return;
		}
	}
}
