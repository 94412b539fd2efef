/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * batches.c - each slot of a batch gets a WRITE of data, a FLUSH of that data (every second one of the whole region),
 * and an ATOMIC WRITE of a flag, all posted at once: these are more requests that take a responder resource than may be
 * in flight. The server looks for the flags; with each the data must be there.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "placement.h"

static uint64_t slot_key(uint32_t batch, unsigned slot)
{
	return (uint64_t)batch << 8 | slot;
}

static uint32_t slot_len(uint32_t batch, unsigned slot)
{
	return 1 + data_u64(slot_key(batch, slot)) % SLOT_LEN;
}

static uint64_t slot_flag(uint32_t batch, unsigned slot)
{
	return data_u64(~slot_key(batch, slot)) | 1;
}

static void slot_request(struct side *me, uint32_t batch, unsigned slot)
{
	const struct key *to = &me->peer.key[OPEN];
	uint64_t flag = slot_flag(batch, slot), at = (uint64_t)slot * SLOT_LEN;
	uint32_t len = slot_len(batch, slot);

	data_fill(me->mem + at, len, slot_key(batch, slot));
	me->ex->wr_flags = IBV_SEND_SIGNALED;
	me->ex->wr_id = 3ull * slot;
	wr_write(me, to, at, me->mem + at, len);
	me->ex->wr_id++;
	wr_flush(me->ex, to->rkey, to->addr + at, len, GLOBAL, slot & 1 ? REGION : RANGE);
	me->ex->wr_id++;
	ibv_wr_atomic_write(me->ex, to->rkey, to->addr + FLAGS_AT + 8ull * slot, &flag);
}

static bool batch_client(struct side *me, uint32_t batch)
{
	static const int opcode[] = {IBV_WC_RDMA_WRITE, WC_FLUSH, IBV_WC_ATOMIC_WRITE};
	int rc;

	ibv_wr_start(me->ex);
	for (unsigned slot = 0; slot < SLOTS; slot++)
		slot_request(me, batch, slot);
	rc = ibv_wr_complete(me->ex);
	if (rc)
		die("ibv_wr_complete: %s", strerror(rc));
	for (uint64_t i = 0; i < 3 * SLOTS; i++)
		if (!wc_is(me, i, IBV_WC_SUCCESS, opcode[i % 3]))
			return false;
	return true;
}

/** Wait for a flag, then look at the data. */
static bool slot_watch(struct side *me, uint32_t batch, unsigned slot)
{
	const uint64_t *flag = (const uint64_t *)(me->mem + FLAGS_AT) + slot;
	const uint8_t *data = me->mem + (size_t)slot * SLOT_LEN;
	uint64_t deadline = now_ms() + WAIT_MS, seen;
	uint32_t len = slot_len(batch, slot);

	while (!(seen = __atomic_load_n(flag, __ATOMIC_ACQUIRE))) {
		if (now_ms() > deadline) {
			printf("batch %u: flag %u did not come\n", batch, slot);
			return false;
		}
		usleep(50);
	}
	data_fill(me->expected, len, slot_key(batch, slot));
	memset(me->expected + len, 0, SLOT_LEN - len);
	if (seen == slot_flag(batch, slot) && !memcmp(data, me->expected, SLOT_LEN))
		return true;
	printf("batch %u: the flag or the data of slot %u is wrong\n", batch, slot);
	return false;
}

static bool batch_server(struct side *me, uint32_t batch)
{
	bool ok = true;

	for (unsigned slot = 0; ok && slot < SLOTS; slot++)
		ok = slot_watch(me, batch, slot);
	return ok;
}

bool batches_run(struct side *me)
{
	bool ok = true;

	side_connect(me, RIGHTS);
	for (uint32_t batch = 1; ok && batch <= me->wish.batches; batch++) {
		if (!me->client)
			memset(me->mem, 0, LEN);
		oob_agree(me->oob, 0);
		ok = me->client ? batch_client(me, batch) : batch_server(me, batch);
		ok = !oob_agree(me->oob, !ok);
	}
	side_disconnect(me);
	if (me->client)
		printf("%s placement__FL_02_AW_01_data_before_flag, %u batches of %d\n", ok ? "ok" : "FAIL",
		       me->wish.batches, SLOTS);
	return ok;
}
