/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * faults.c - registered memory that the program unmaps or protects. Adapters have the pages of a region pinned, so such
 * a program does not notice that the memory is still in use.
 */
#include "rig.h"
#include <sys/mman.h>
#include <unistd.h>

#define PAGE   4096u
#define PAGES  8u
#define LEN    (PAGES * PAGE) /* long enough to be copied straight from the sender's memory */
#define SKIP   100u	      /* with this offset, the packets cross the boundaries of pages */
#define SECOND (2 * PAGE)     /* where the tests unmap pages */

/** Memory of its own, registered at end 1, whose place nothing else will take once it is unmapped: mappings without a
 *  wish go elsewhere. */
struct place {
	uint8_t *at;
	struct ibv_mr *mr;
};

static struct place place_map(struct rig *rig, int sharing, unsigned access)
{
	void *wish = (void *)(sizeof(void *) == 8 ? (uintptr_t)1 << 45 : 0);
	struct place p = {.at = mmap(wish, LEN, PROT_READ | PROT_WRITE, sharing | MAP_ANONYMOUS, -1, 0)};

	assert_true(p.at != MAP_FAILED);
	if (wish && p.at != wish)
		skip(); /* something else could take the place of pages that are unmapped */
	memset(p.at, 0x77, LEN);
	p.mr = ibv_reg_mr(rig->end[1].pd, p.at, LEN, access);
	assert_non_null(p.mr);
	return p;
}

static void place_unmap(struct place *p)
{
	assert_int_equal(ibv_dereg_mr(p->mr), 0);
	munmap(p->at, LEN);
}

static void protect(const struct place *p, int rights)
{
	assert_int_equal(mprotect(p->at, LEN, rights), 0);
}

/** Fill end 0's buffer with bytes that tell where they belong. */
static const uint8_t *fill(struct rig *rig, unsigned seed)
{
	for (unsigned i = 0; i < RIG_BUF; i++)
		rig->end[0].buf[i] = (uint8_t)(seed + i % 251);
	return rig->end[0].buf;
}

/** Execute one request from end 0. @param at offset in its buffer. @return how it ended. */
static enum ibv_wc_status request(struct rig *rig, enum ibv_wr_opcode opcode, size_t at, uint32_t len,
				  const uint8_t *to, uint32_t rkey)
{
	struct ibv_sge sge = rig_sge(&rig->end[0], at, len);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		wr.wr.atomic = (__typeof__(wr.wr.atomic)){.remote_addr = (uintptr_t)to, .compare_add = 1, .rkey = rkey};
	else
		wr.wr.rdma = (__typeof__(wr.wr.rdma)){(uintptr_t)to, rkey};
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	return rig_wait(rig->end[0].cq).status;
}

/** Get end 0's data to this place: a WRITE, or a SEND to a receive there. */
static void deliver(struct rig *rig, enum ibv_wr_opcode opcode, const struct place *p, size_t offset, uint32_t len)
{
	struct ibv_sge sge = {(uintptr_t)p->at + offset, len, p->mr->lkey};
	struct ibv_recv_wr recv = {.wr_id = 9, .sg_list = &sge, .num_sge = 1}, *bad;
	struct ibv_wc wc;

	if (opcode != IBV_WR_RDMA_WRITE)
		assert_int_equal(ibv_post_recv(rig->end[1].qp, &recv, &bad), 0);
	assert_int_equal(request(rig, opcode, offset, len, p->at + offset, p->mr->rkey), IBV_WC_SUCCESS);
	if (opcode == IBV_WR_RDMA_WRITE)
		return;
	wc = rig_wait(rig->end[1].cq);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, 9);
	assert_int_equal(wc.byte_len, len);
}

static void assert_rts(struct ibv_qp *qp)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;

	assert_int_equal(ibv_query_qp(qp, &attr, IBV_QP_STATE, &init), 0);
	assert_int_equal(attr.qp_state, IBV_QPS_RTS);
}

/** Both QPs go on: a request to memory that is there arrives. */
static void assert_works(struct rig *rig)
{
	const uint8_t *data = fill(rig, 3);

	assert_rts(rig->end[0].qp);
	assert_rts(rig->end[1].qp);
	memset(rig->end[1].buf, 0, RIG_BUF);
	assert_int_equal(request(rig, IBV_WR_RDMA_WRITE, 0, LEN, rig->end[1].buf, rig->end[1].mr->rkey),
			 IBV_WC_SUCCESS);
	assert_memory_equal(rig->end[1].buf, data, LEN);
}

/** Connect new QPs, as a request has ended those before. */
static void reconnect(struct rig *rig)
{
	struct ibv_wc wc;

	rig_disconnect(rig);
	for (int i = 0; i < 2; i++)
		while (ibv_poll_cq(rig->end[i].cq, 1, &wc) > 0)
			;
	rig_connect(rig, IBV_QPT_RC);
}

/* ---- unmapped ------------------------------------------------------------------------------------------------ */

static void unmapped__data_is_dropped_and_the_queue_pairs_go_on(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM};
	struct rig *rig = *state;

	rig_connect(rig, IBV_QPT_RC);
	for (unsigned i = 0; i < 3; i++) {
		struct place p = place_map(rig, MAP_PRIVATE, RIG_ACCESS);

		fill(rig, i);
		assert_int_equal(munmap(p.at, LEN), 0);
		deliver(rig, opcodes[i], &p, 0, 8);
		deliver(rig, opcodes[i], &p, 0, PAGE);
		deliver(rig, opcodes[i], &p, 0, LEN);
		assert_works(rig);
		place_unmap(&p);
	}
}

/** What is mapped gets its data, on both sides of what is not. */
static void unmapped__the_rest_of_the_memory_gets_its_data(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND};
	static const size_t from[] = {SKIP, SECOND - 9};
	struct rig *rig = *state;

	rig_connect(rig, IBV_QPT_RC);
	for (unsigned i = 0; i < 4; i++) {
		struct place p = place_map(rig, i % 2 ? MAP_SHARED : MAP_PRIVATE, RIG_ACCESS);
		const uint8_t *data = fill(rig, i);
		size_t start = from[i % 2], end = i % 2 ? SECOND + 2 * PAGE + 9 : LEN - SKIP;

		assert_int_equal(munmap(p.at + SECOND, 2 * PAGE), 0);
		deliver(rig, opcodes[i / 2], &p, start, (uint32_t)(end - start));
		assert_memory_equal(p.at + start, data + start, SECOND - start);
		assert_memory_equal(p.at + SECOND + 2 * PAGE, data + SECOND + 2 * PAGE, end - (SECOND + 2 * PAGE));
		assert_int_equal(p.at[start - 1], 0x77);
		assert_int_equal(p.at[end], 0x77);
		/* 16 bytes in one packet, of which 8 are mapped. */
		fill(rig, i + 100);
		deliver(rig, opcodes[i / 2], &p, SECOND - 8, 16);
		assert_memory_equal(p.at + SECOND - 8, data + SECOND - 8, 8);
		assert_works(rig);
		place_unmap(&p);
	}
}

/** The last bytes of a long payload are written on their own, as programs poll them. */
static void unmapped__the_last_bytes_only(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND};
	const size_t kept = LEN - SECOND;
	struct rig *rig = *state;

	rig_connect(rig, IBV_QPT_RC);
	for (unsigned i = 0; i < 2; i++) {
		struct place p = place_map(rig, MAP_PRIVATE, RIG_ACCESS);
		const uint8_t *data = fill(rig, i);

		assert_int_equal(munmap(p.at + kept, SECOND), 0);
		deliver(rig, opcodes[i], &p, 0, (uint32_t)kept + 32);
		assert_memory_equal(p.at, data, kept);
		assert_works(rig);
		place_unmap(&p);
	}
}

static void unmapped__a_window_is_like_its_region(void **state)
{
	struct rig *rig = *state;

	for (unsigned on_demand = 0; on_demand < 2; on_demand++) {
		struct place p = place_map(rig, MAP_PRIVATE,
					   RIG_ACCESS | IBV_ACCESS_MW_BIND | (on_demand ? IBV_ACCESS_ON_DEMAND : 0));
		struct ibv_mw *mw = ibv_alloc_mw(rig->end[1].pd, IBV_MW_TYPE_1);
		struct ibv_mw_bind bind = {.send_flags = IBV_SEND_SIGNALED,
					   .bind_info = {p.mr, (uintptr_t)p.at, LEN, IBV_ACCESS_REMOTE_WRITE}};

		reconnect(rig);
		assert_int_equal(ibv_bind_mw(rig->end[1].qp, mw, &bind), 0);
		assert_int_equal(rig_wait(rig->end[1].cq).status, IBV_WC_SUCCESS);
		assert_int_equal(munmap(p.at, LEN), 0);
		assert_int_equal(request(rig, IBV_WR_RDMA_WRITE, 0, LEN, p.at, mw->rkey),
				 on_demand ? IBV_WC_REM_OP_ERR : IBV_WC_SUCCESS);
		if (!on_demand)
			assert_works(rig);
		assert_int_equal(ibv_dealloc_mw(mw), 0);
		place_unmap(&p);
	}
}

/** The memory that receives what a READ returns is like that of a receive. */
static void unmapped__the_result_of_a_read_is_dropped(void **state)
{
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[1], *to = &rig->end[0];
	struct place p = place_map(rig, MAP_PRIVATE, RIG_ACCESS);
	struct ibv_mr *here = ibv_reg_mr(to->pd, p.at, LEN, RIG_ACCESS);
	struct ibv_sge sge = {(uintptr_t)p.at, LEN, here->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_READ,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	rig_connect(rig, IBV_QPT_RC);
	memset(from->buf, 0x55, LEN);
	wr.wr.rdma = (__typeof__(wr.wr.rdma)){(uintptr_t)from->buf, from->mr->rkey};
	assert_int_equal(munmap(p.at + PAGE, LEN - PAGE), 0);
	assert_int_equal(ibv_post_send(to->qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(to->cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(p.at, from->buf, PAGE);
	assert_works(rig);
	assert_int_equal(ibv_dereg_mr(here), 0);
	place_unmap(&p);
}

/** So is the memory that receives what an atomic returns. The atomic itself is executed, and the loss is counted. */
static void unmapped__the_result_of_an_atomic_is_dropped(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_ATOMIC_CMP_AND_SWP};
	struct rig *rig = *state;
	struct rig_end *from = &rig->end[1], *to = &rig->end[0];
	struct place p = place_map(rig, MAP_PRIVATE, RIG_ACCESS);
	struct ibv_mr *here = ibv_reg_mr(to->pd, p.at, LEN, RIG_ACCESS);
	long lost = rig_counter(to, "app_memory_lost");

	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(munmap(p.at, PAGE), 0);
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_sge sge = {(uintptr_t)p.at + 8, 8, here->lkey};
		struct ibv_send_wr wr = {.sg_list = &sge,
					 .num_sge = 1,
					 .opcode = opcodes[i],
					 .send_flags = IBV_SEND_SIGNALED,
					 .wr.atomic = {.remote_addr = (uintptr_t)from->buf,
						       .compare_add = i ? 5 : 2, /* 3 + 2, then 5 becomes 7 */
						       .swap = 7,
						       .rkey = from->mr->rkey}},
				   *bad;

		if (i == 0)
			*(uint64_t *)from->buf = 3;
		assert_int_equal(ibv_post_send(to->qp, &wr, &bad), 0);
		assert_int_equal(rig_wait(to->cq).status, IBV_WC_SUCCESS);
		assert_int_equal(*(uint64_t *)from->buf, i ? 7 : 5);
		if (lost >= 0)
			assert_int_equal(rig_counter(to, "app_memory_lost"), lost + 1 + i);
	}
	assert_works(rig);
	assert_int_equal(ibv_dereg_mr(here), 0);
	place_unmap(&p);
}

/** UC and UD have no answers: it is the next message that tells. */
static void unmapped__datagrams_and_unreliable_messages_complete_their_receives(void **state)
{
	static const enum ibv_qp_type types[] = {IBV_QPT_UC, IBV_QPT_UD};
	struct rig *rig = *state;

	for (unsigned i = 0; i < 2; i++) {
		struct place p = place_map(rig, MAP_PRIVATE, RIG_ACCESS);
		struct ibv_sge here = rig_sge(&rig->end[0], 0, 64), there = {(uintptr_t)p.at, 256, p.mr->lkey};
		struct ibv_recv_wr recv = {.wr_id = 4, .sg_list = &there, .num_sge = 1}, *bad_recv;
		struct ibv_ah *ah = rig_ah(rig);
		struct ibv_send_wr wr = {.sg_list = &here, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

		rig_connect(rig, types[i]);
		if (types[i] == IBV_QPT_UD)
			wr.wr.ud = (__typeof__(wr.wr.ud)){ah, rig->end[1].qp->qp_num, RIG_QKEY};
		assert_int_equal(munmap(p.at, LEN), 0);
		assert_int_equal(ibv_post_recv(rig->end[1].qp, &recv, &bad_recv), 0);
		rig_post_recv(&rig->end[1], 5, 0, 256);
		for (unsigned n = 0; n < 2; n++)
			assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
		for (unsigned id = 4; id < 6; id++) {
			struct ibv_wc wc = rig_wait(rig->end[1].cq);

			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, id);
		}
		assert_rts(rig->end[1].qp);
		assert_int_equal(ibv_destroy_ah(ah), 0);
		rig_disconnect(rig);
		place_unmap(&p);
	}
}

/** There is no data that these could return or send, and no word that they could change. */
static void unmapped__what_needs_the_contents_fails(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
						     IBV_WR_ATOMIC_WRITE};
	struct rig *rig = *state;
	struct place p = place_map(rig, MAP_PRIVATE, RIG_ACCESS);
	struct ibv_mr *mine = ibv_reg_mr(rig->end[0].pd, p.at, LEN, 0);
	struct ibv_sge sge = {(uintptr_t)p.at, LEN, mine->lkey};
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = IBV_WR_RDMA_WRITE,
				 .send_flags = IBV_SEND_SIGNALED},
			   *bad;

	assert_int_equal(munmap(p.at + PAGE, LEN - PAGE), 0);
	for (unsigned i = 0; i < sizeof(opcodes) / sizeof(opcodes[0]); i++) {
		reconnect(rig);
		assert_int_equal(request(rig, opcodes[i], 0, 8, p.at + PAGE, p.mr->rkey), IBV_WC_REM_OP_ERR);
	}
	reconnect(rig);
	assert_int_equal(request(rig, IBV_WR_RDMA_READ, 0, LEN, p.at, p.mr->rkey), IBV_WC_REM_OP_ERR);
	reconnect(rig);
	wr.wr.rdma = (__typeof__(wr.wr.rdma)){(uintptr_t)rig->end[1].buf, rig->end[1].mr->rkey};
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(ibv_dereg_mr(mine), 0);
	place_unmap(&p);
}

/** An adapter faults in such a region, too. */
static void unmapped__on_demand_is_an_error(void **state)
{
	struct rig *rig = *state;
	struct place p = place_map(rig, MAP_PRIVATE, RIG_ACCESS | IBV_ACCESS_ON_DEMAND);

	assert_int_equal(munmap(p.at + PAGE, PAGE), 0);
	for (unsigned i = 0; i < 2; i++) {
		if (i == 1)
			assert_int_equal(mprotect(p.at, PAGE, PROT_NONE), 0);
		reconnect(rig);
		assert_int_equal(request(rig, IBV_WR_RDMA_WRITE, 0, 8, p.at + (i ? 0 : PAGE), p.mr->rkey),
				 IBV_WC_REM_OP_ERR);
		reconnect(rig);
		assert_int_equal(request(rig, IBV_WR_RDMA_WRITE, 0, LEN, p.at, p.mr->rkey), IBV_WC_REM_OP_ERR);
	}
	/* A change of the rights makes it an ordinary region. */
	reconnect(rig);
	assert_true(mmap(p.at, SECOND, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == p.at);
	assert_int_equal(ibv_rereg_mr(p.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, RIG_ACCESS), 0);
	assert_int_equal(munmap(p.at, LEN), 0);
	deliver(rig, IBV_WR_RDMA_WRITE, &p, 0, LEN);
	assert_works(rig);
	place_unmap(&p);
}

/* ---- protected ----------------------------------------------------------------------------------------------- */

/** The program can see these pages, so what a peer writes must not be dropped there. */
static void protected__accesses_are_errors(void **state)
{
	static const struct {
		enum ibv_wr_opcode opcode;
		int rights;
		uint32_t len;
	} cases[] = {
		{IBV_WR_RDMA_WRITE, PROT_READ, 8},
		{IBV_WR_RDMA_WRITE, PROT_NONE, LEN},
		{IBV_WR_RDMA_READ, PROT_NONE, 8},
		{IBV_WR_RDMA_READ, PROT_NONE, LEN},
		{IBV_WR_ATOMIC_FETCH_AND_ADD, PROT_READ, 8},
		{IBV_WR_ATOMIC_WRITE, PROT_READ, 8},
	};
	struct rig *rig = *state;
	struct place p = place_map(rig, MAP_PRIVATE, RIG_ACCESS);

	fill(rig, 1);
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		reconnect(rig);
		protect(&p, cases[i].rights);
		assert_int_equal(request(rig, cases[i].opcode, 0, cases[i].len, p.at, p.mr->rkey), IBV_WC_REM_OP_ERR);
		protect(&p, PROT_READ | PROT_WRITE);
		for (unsigned k = 0; k < LEN; k++)
			assert_int_equal(p.at[k], 0x77);
	}
	place_unmap(&p);
}

/** Pages that are protected and pages that are not mapped: an error, whichever comes first. */
static void protected__and_unmapped(void **state)
{
	struct rig *rig = *state;

	for (unsigned i = 0; i < 2; i++) {
		struct place p = place_map(rig, MAP_SHARED, RIG_ACCESS);

		fill(rig, i);
		assert_int_equal(munmap(p.at + (i ? SECOND : SECOND + PAGE), PAGE), 0);
		assert_int_equal(mprotect(p.at + (i ? SECOND + PAGE : SECOND), PAGE, PROT_READ), 0);
		reconnect(rig);
		assert_int_equal(request(rig, IBV_WR_RDMA_WRITE, 0, LEN, p.at, p.mr->rkey), IBV_WC_REM_OP_ERR);
		place_unmap(&p);
	}
}

static int setup_udp(void **state)
{
	int err;

	setenv("UROCE_RING", "off", 1);
	err = rig_setup(state);
	unsetenv("UROCE_RING");
	return err;
}

/** Each over shared memory and over UDP. */
#define BOTH(name)                                                                                                     \
	cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown),                                                \
	{                                                                                                              \
#name "_udp", name, setup_udp, rig_teardown, NULL                                                      \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		BOTH(unmapped__data_is_dropped_and_the_queue_pairs_go_on),
		BOTH(unmapped__the_rest_of_the_memory_gets_its_data),
		BOTH(unmapped__the_last_bytes_only),
		BOTH(unmapped__a_window_is_like_its_region),
		BOTH(unmapped__the_result_of_a_read_is_dropped),
		BOTH(unmapped__the_result_of_an_atomic_is_dropped),
		BOTH(unmapped__datagrams_and_unreliable_messages_complete_their_receives),
		BOTH(unmapped__what_needs_the_contents_fails),
		BOTH(unmapped__on_demand_is_an_error),
		BOTH(protected__accesses_are_errors),
		BOTH(protected__and_unmapped),
	};

	if (sysconf(_SC_PAGESIZE) != PAGE) {
		print_message("SKIP: these tests are written for pages of %u bytes\n", PAGE);
		return 77;
	}
	return cmocka_run_group_tests_name("shim_faults", tests, NULL, NULL);
}
