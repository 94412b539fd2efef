/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cases.c - requests one by one, each on a new pair of QPs: a WRITE, the request of the case, another WRITE. The client
 * checks the completions, the server its memory.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "placement.h"

#define NO_RKEY 0x5a5a00

enum request { FLUSH, ATOMIC_WRITE, POSTED_ATOMIC_WRITE };

struct one {
	const char *name;
	enum request request;
	enum region region;
	enum type type;
	enum level level;
	uint64_t at;
	size_t len;
	uint32_t rkey_xor;
	int rights; /* of the server's QP */
	enum ibv_wc_status expected;
};

static const struct one cases[] = {
	{"placement__FL_02_flush_range", FLUSH, OPEN, GLOBAL, RANGE, DATA_AT, DATA_LEN, 0, RIGHTS, IBV_WC_SUCCESS},
	{"placement__FL_02_flush_region", FLUSH, OPEN, GLOBAL, REGION, 0, 0, 0, RIGHTS, IBV_WC_SUCCESS},
	{"placement__FL_02_flush_region_ignores_range", FLUSH, OPEN, GLOBAL, REGION, LEN, 1, 0, RIGHTS, IBV_WC_SUCCESS},
	{"placement__FL_02_flush_no_bytes", FLUSH, OPEN, GLOBAL, RANGE, 0, 0, 0, RIGHTS, IBV_WC_SUCCESS},
	{"placement__RL_08_flush_no_bytes_unknown_rkey", FLUSH, OPEN, GLOBAL, RANGE, 0, 0, NO_RKEY, RIGHTS,
	 IBV_WC_REM_ACCESS_ERR},
	{"placement__RL_08_flush_region_unknown_rkey", FLUSH, OPEN, GLOBAL, REGION, 0, 0, NO_RKEY, RIGHTS,
	 IBV_WC_REM_ACCESS_ERR},
	{"placement__RL_08_flush_past_the_region", FLUSH, OPEN, GLOBAL, RANGE, LEN - 64, 65, 0, RIGHTS,
	 IBV_WC_REM_ACCESS_ERR},
	{"placement__FL_04_flush_range_without_the_regions_right", FLUSH, NO_FLUSH, GLOBAL, RANGE, DATA_AT, 64, 0,
	 RIGHTS, IBV_WC_REM_ACCESS_ERR},
	{"placement__FL_04_flush_region_without_the_regions_right", FLUSH, NO_FLUSH, GLOBAL, REGION, 0, 0, 0, RIGHTS,
	 IBV_WC_REM_ACCESS_ERR},
	{"placement__FL_04_flush_without_the_qps_right", FLUSH, OPEN, GLOBAL, RANGE, DATA_AT, 64, 0, REMOTE,
	 IBV_WC_REM_INV_REQ_ERR},
	{"placement__FL_04_persistent_without_the_regions_right", FLUSH, OPEN, PERSISTENT, RANGE, DATA_AT, 64, 0,
	 RIGHTS, IBV_WC_REM_ACCESS_ERR},
	{"placement__FL_04_persistent_without_the_qps_right", FLUSH, OPEN, PERSISTENT, RANGE, DATA_AT, 64, 0,
	 REMOTE | FLUSH_GLOBAL, IBV_WC_REM_INV_REQ_ERR},
	{"placement__FL_02_persistent_range", FLUSH, FILE_BACKED, PERSISTENT, RANGE, DATA_AT, DATA_LEN, 0, RIGHTS,
	 IBV_WC_SUCCESS},
	{"placement__FL_02_both_kinds_region", FLUSH, FILE_BACKED, GLOBAL | PERSISTENT, REGION, 0, 0, 0, RIGHTS,
	 IBV_WC_SUCCESS},
	{"placement__AW_01_atomic_write", ATOMIC_WRITE, OPEN, 0, 0, WORD_AT, 8, 0, RIGHTS, IBV_WC_SUCCESS},
	{"placement__AW_01_atomic_write_posted", POSTED_ATOMIC_WRITE, OPEN, 0, 0, WORD_AT, 8, 0, RIGHTS,
	 IBV_WC_SUCCESS},
	{"placement__AW_01_atomic_write_misaligned", ATOMIC_WRITE, OPEN, 0, 0, WORD_AT + 4, 8, 0, RIGHTS,
	 IBV_WC_REM_INV_REQ_ERR},
	{"placement__RL_06_atomic_write_unknown_rkey", ATOMIC_WRITE, OPEN, 0, 0, WORD_AT, 8, NO_RKEY, RIGHTS,
	 IBV_WC_REM_ACCESS_ERR},
	{"placement__RL_06_atomic_write_past_the_region", ATOMIC_WRITE, OPEN, 0, 0, LEN, 8, 0, RIGHTS,
	 IBV_WC_REM_ACCESS_ERR},
	{"placement__AW_02_atomic_write_without_the_regions_right", ATOMIC_WRITE, NO_WRITE, 0, 0, WORD_AT, 8, 0, RIGHTS,
	 IBV_WC_REM_ACCESS_ERR},
	{"placement__AW_02_atomic_write_without_the_qps_right", ATOMIC_WRITE, OPEN, 0, 0, WORD_AT, 8, 0,
	 IBV_ACCESS_REMOTE_READ, IBV_WC_REM_INV_REQ_ERR},
};

/** Before a case, the server's memory is filled with these bytes; the WRITE brings the client's. */
static uint64_t fill_key(const struct one *c, bool client)
{
	return (uint64_t)(c - cases) << 1 | client;
}

static uint64_t case_word(const struct one *c)
{
	return data_u64((uint64_t)(c - cases) << 8);
}

static void case_request(struct side *me, const struct one *c, const struct key *to)
{
	uint64_t word = case_word(c);

	if (c->request == FLUSH)
		wr_flush(me->ex, to->rkey ^ c->rkey_xor, to->addr + c->at, c->len, c->type, c->level);
	else
		ibv_wr_atomic_write(me->ex, to->rkey ^ c->rkey_xor, to->addr + c->at, &word);
}

/** By ibv_post_send(). */
static void case_post(struct side *me, const struct one *c, const struct key *to)
{
	uint64_t word = case_word(c);
	struct ibv_sge sge = {(uintptr_t)me->mem + WORD_AT, 8, me->mr[OPEN]->lkey};
	struct ibv_send_wr wr = {.wr_id = 2,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_ATOMIC_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;
	int rc;

	memcpy(me->mem + WORD_AT, &word, 8);
	wr.wr.rdma.remote_addr = to->addr + c->at;
	wr.wr.rdma.rkey = to->rkey;
	rc = ibv_post_send(me->qp, &wr, &bad);
	if (rc)
		die("ibv_post_send of an ATOMIC WRITE: %s", strerror(rc));
}

static void case_start(struct side *me, const struct one *c, const struct key *to, const struct key *data)
{
	int rc;

	ibv_wr_start(me->ex);
	me->ex->wr_flags = IBV_SEND_SIGNALED;
	if (c->rights & IBV_ACCESS_REMOTE_WRITE) {
		me->ex->wr_id = 1;
		wr_write(me, data, DATA_AT, me->mem, DATA_LEN);
	}
	if (c->request != POSTED_ATOMIC_WRITE) {
		me->ex->wr_id = 2;
		case_request(me, c, to);
	}
	rc = ibv_wr_complete(me->ex);
	if (rc)
		die("%s: ibv_wr_complete: %s", c->name, strerror(rc));
	if (c->request == POSTED_ATOMIC_WRITE)
		case_post(me, c, to);
	ibv_wr_start(me->ex);
	me->ex->wr_id = 3;
	wr_write(me, data, 0, me->mem, 1);
	rc = ibv_wr_complete(me->ex);
	if (rc)
		die("%s: ibv_wr_complete: %s", c->name, strerror(rc));
}

/** @return whether the completions are right */
static bool case_client(struct side *me, const struct one *c)
{
	const struct key *to = &me->peer.key[c->region];
	bool ok = true;

	data_fill(me->mem, LEN, fill_key(c, true));
	case_start(me, c, to, &me->peer.key[c->region == FILE_BACKED ? FILE_BACKED : OPEN]);
	if (c->rights & IBV_ACCESS_REMOTE_WRITE)
		ok = wc_is(me, 1, IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE);
	ok = wc_is(me, 2, c->expected, c->request == FLUSH ? WC_FLUSH : IBV_WC_ATOMIC_WRITE) && ok;
	return wc_is(me, 3, c->expected ? IBV_WC_WR_FLUSH_ERR : IBV_WC_SUCCESS, IBV_WC_RDMA_WRITE) && ok;
}

/** After a case: what the server's memory must be. */
static void case_expect(struct side *me, const struct one *c)
{
	bool works = c->expected == IBV_WC_SUCCESS;
	uint64_t word = case_word(c);
	uint8_t *sent = malloc(LEN);

	if (!sent)
		die("out of memory");
	data_fill(sent, LEN, fill_key(c, true));
	data_fill(me->expected, LEN, fill_key(c, false));
	if (c->rights & IBV_ACCESS_REMOTE_WRITE)
		memcpy(me->expected + DATA_AT, sent, DATA_LEN);
	if (works && c->request != FLUSH)
		memcpy(me->expected + c->at, &word, 8);
	if (works)
		me->expected[0] = sent[0];
	free(sent);
}

/** @return whether the server's memory is as it must be */
static bool case_server(struct side *me, const struct one *c, const uint8_t *mem)
{
	case_expect(me, c);
	for (int i = 0; i < LEN; i++)
		if (mem[i] != me->expected[i]) {
			printf("%s: byte %d of the memory is wrong\n", c->name, i);
			return false;
		}
	return true;
}

static bool case_run(struct side *me, const struct one *c)
{
	uint8_t *mem = c->region == FILE_BACKED ? me->file : me->mem;
	bool ok = true;

	if (!me->client)
		data_fill(mem, LEN, fill_key(c, false));
	side_connect(me, c->rights);
	if (me->client)
		ok = case_client(me, c);
	oob_agree(me->oob, 0);
	if (!me->client)
		ok = case_server(me, c, mem);
	ok = !oob_agree(me->oob, !ok);
	side_disconnect(me);
	if (me->client)
		printf("%s %s\n", ok ? "ok" : "FAIL", c->name);
	return ok;
}

/** @return why the case cannot be tested, or NULL; both ends say the same. */
static const char *case_obstacle(const struct side *me, const struct one *c)
{
	if (!(me->client ? &me->peer : &me->mine)->key[c->region].rkey)
		return "the server's device refuses such a region";
	if (c->request == POSTED_ATOMIC_WRITE && (me->client ? &me->mine : &me->peer)->is_rxe)
		return "ibv_post_send of rdma-core's provider for rxe sends an R_Key of 0";
	return NULL;
}

bool cases_run(struct side *me)
{
	bool ok = true;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const char *obstacle = case_obstacle(me, &cases[i]);

		if (!obstacle)
			ok = case_run(me, &cases[i]) && ok;
		else if (me->client)
			printf("SKIP %s: %s\n", cases[i].name, obstacle);
	}
	return ok;
}
