/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_exchanges.c - the important exchanges as timed transcripts, which show what is lost, what is retransmitted and
 * when, and what completes. Times are virtual microseconds; the wire delay is 10.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>

#include "world.h"

/* timeout code 6: 262.144 us. RNR timer code 5: 60 us. */
static const struct world_options usual = {.timeout = 6, .retry_cnt = 3, .rnr_timer = 5, .rnr_retry = 7};

static uint64_t cell(struct world *w)
{
	uint64_t v;

	memcpy(&v, w->node[B].mem, 8);
	return v;
}

static void post_fetch_add(struct world *w, uint64_t wr_id, uint64_t add)
{
	struct nic_sge sge = {(uintptr_t)w->node[A].mem, 8, nic_mr_lkey(w->node[A].mr)};
	struct nic_send_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1, .opcode = NIC_WR_ATOMIC_FETCH_AND_ADD};

	wr.atomic.remote_addr = (uintptr_t)w->node[B].mem;
	wr.atomic.rkey = nic_mr_rkey(w->node[B].mr);
	wr.atomic.compare_add = add;
	world_post_wr(w, &wr);
}

static void exchange__RP_02_lost_ack_of_a_send(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, &usual);
	world_recv(&w, 90);
	w.lose[0] = 2;
	world_post(&w, 1, NIC_WR_SEND, 0, 8, 0);
	world_run(&w);
	assert_true(world_saw(&w, "    0.000  A->B  RC SEND ONLY psn 100 len 8 A\n"
				  "   10.000  B     90: success\n"
				  "   10.000  B->A  RC ACK psn 100 msn 1  (lost)\n"
				  "  262.144  A->B  RC SEND ONLY psn 100 len 8 A\n"
				  "  272.144  B->A  RC ACK psn 100 msn 1\n"
				  "  282.144  A     1: success\n"));
	world_close(&w);
}

static void exchange__RP_04_lost_answer_of_an_atomic(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, &usual);
	w.lose[0] = 2;
	post_fetch_add(&w, 1, 5);
	world_run(&w);
	assert_true(world_saw(&w, "    0.000  A->B  RC FETCH ADD psn 100 A\n"
				  "   10.000  B->A  RC ATOMIC ACK psn 100 msn 1 orig 0  (lost)\n"
				  "  262.144  A->B  RC FETCH ADD psn 100 A\n"
				  "  272.144  B->A  RC ATOMIC ACK psn 100 msn 1 orig 0\n"
				  "  282.144  A     1: success\n"));
	assert_int_equal(cell(&w), 5); /* executed once */
	world_close(&w);
}

static void exchange__RT_05_receiver_not_ready(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, &usual);
	w.recv_at_ns = 50000;
	world_post(&w, 1, NIC_WR_SEND, 0, 8, 0);
	world_post(&w, 2, NIC_WR_RDMA_WRITE, 0, 8, 64);
	world_run(&w);
	assert_true(world_saw(&w, "    0.000  A->B  RC SEND ONLY psn 100 len 8 A\n"
				  "    0.000  A->B  RC WRITE ONLY psn 101 len 8 dma_len 8 A\n"
				  "   10.000  B->A  RC ACK psn 100 RNR 25\n"
				  "   50.000  B     posts a receive\n"
				  "   80.000  A->B  RC SEND ONLY psn 100 len 8 A\n"
				  "   80.000  A->B  RC WRITE ONLY psn 101 len 8 dma_len 8 A\n"
				  "   90.000  B     91: success\n"
				  "   90.000  B->A  RC ACK psn 101 msn 2\n"
				  "  100.000  A     1: success\n"
				  "  100.000  A     2: success\n"));
	world_close(&w);
}

static void exchange__RT_06_receiver_never_ready(void **state)
{
	static const struct world_options one = {.timeout = 6, .retry_cnt = 3, .rnr_timer = 5, .rnr_retry = 1};
	struct world w;

	(void)state;
	world_open(&w, &one);
	world_post(&w, 1, NIC_WR_SEND, 0, 8, 0);
	world_run(&w);
	assert_true(world_saw(&w, "    0.000  A->B  RC SEND ONLY psn 100 len 8 A\n"
				  "   10.000  B->A  RC ACK psn 100 RNR 25\n"
				  "   80.000  A->B  RC SEND ONLY psn 100 len 8 A\n"
				  "   90.000  B->A  RC ACK psn 100 RNR 25\n"
				  "  100.000  A     1: RNR retries exceeded\n"));
	world_close(&w);
}

static void exchange__RT_04_sequence_nak(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, &usual);
	w.lose[0] = 2;
	for (unsigned i = 0; i < 1000; i++)
		w.node[A].mem[i] = (uint8_t)(i * 7);
	world_post(&w, 1, NIC_WR_RDMA_WRITE, 0, 1000, 0);
	world_run(&w);
	assert_true(world_saw(&w, "    0.000  A->B  RC WRITE FIRST psn 100 len 256 dma_len 1000\n"
				  "    0.000  A->B  RC WRITE MIDDLE psn 101 len 256  (lost)\n"
				  "    0.000  A->B  RC WRITE MIDDLE psn 102 len 256\n"
				  "    0.000  A->B  RC WRITE LAST psn 103 len 232 A\n"
				  "   10.000  B->A  RC ACK psn 101 NAK 60\n"
				  "   20.000  A->B  RC WRITE MIDDLE psn 101 len 256\n"
				  "   20.000  A->B  RC WRITE MIDDLE psn 102 len 256\n"
				  "   20.000  A->B  RC WRITE LAST psn 103 len 232 A\n"
				  "   30.000  B->A  RC ACK psn 103 msn 1\n"
				  "   40.000  A     1: success\n"));
	assert_memory_equal(w.node[A].mem, w.node[B].mem, 1000);
	world_close(&w);
}

static void exchange__RT_08_partial_retry_of_a_read(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, &usual);
	w.lose[0] = 4; /* the third of four responses */
	for (unsigned i = 0; i < 1000; i++)
		w.node[B].mem[i] = (uint8_t)(i * 11);
	world_post(&w, 1, NIC_WR_RDMA_READ, 0, 1000, 0);
	world_run(&w);
	assert_true(world_saw(&w, "    0.000  A->B  RC READ REQUEST psn 100 dma_len 1000 A\n"
				  "   10.000  B->A  RC READ RESP FIRST psn 100 len 256 msn 1\n"
				  "   10.000  B->A  RC READ RESP MIDDLE psn 101 len 256\n"
				  "   10.000  B->A  RC READ RESP MIDDLE psn 102 len 256  (lost)\n"
				  "   10.000  B->A  RC READ RESP LAST psn 103 len 232 msn 1\n"
				  "   20.000  A->B  RC READ REQUEST psn 102 dma_len 488 A\n"
				  "   30.000  B->A  RC READ RESP FIRST psn 102 len 256 msn 1\n"
				  "   30.000  B->A  RC READ RESP LAST psn 103 len 232 msn 1\n"
				  "   40.000  A     1: success\n"));
	assert_memory_equal(w.node[A].mem, w.node[B].mem, 1000);
	world_close(&w);
}

static void exchange__RS_02_an_ack_beyond_an_open_read_retries_the_read(void **state)
{
	struct world w;

	(void)state;
	world_open(&w, &usual);
	w.lose[0] = 3; /* the READ response; the next frame, the ACK of the WRITE, arrives */
	world_post(&w, 1, NIC_WR_RDMA_READ, 0, 8, 0);
	world_post(&w, 2, NIC_WR_RDMA_WRITE, 0, 8, 64);
	world_run(&w);
	assert_true(world_saw(&w, "    0.000  A->B  RC READ REQUEST psn 100 dma_len 8 A\n"
				  "    0.000  A->B  RC WRITE ONLY psn 101 len 8 dma_len 8 A\n"
				  "   10.000  B->A  RC READ RESP ONLY psn 100 len 8 msn 1  (lost)\n"
				  "   10.000  B->A  RC ACK psn 101 msn 2\n"
				  "   20.000  A->B  RC READ REQUEST psn 100 dma_len 8 A\n"
				  "   20.000  A->B  RC WRITE ONLY psn 101 len 8 dma_len 8 A\n"
				  "   30.000  B->A  RC READ RESP ONLY psn 100 len 8 msn 1\n"
				  "   30.000  B->A  RC ACK psn 101 msn 2\n"
				  "   40.000  A     1: success\n"
				  "   40.000  A     2: success\n"));
	world_close(&w);
}

/* With retry_cnt 2 a request is sent three times. The timer doubles after each retry without progress, up to four times
 * its value. */
static void exchange__RT_02_retries_exhausted(void **state)
{
	static const struct world_options two = {.timeout = 6, .retry_cnt = 2, .rnr_timer = 5, .rnr_retry = 7};
	struct world w;

	(void)state;
	world_open(&w, &two);
	for (unsigned i = 0; i < 8; i++)
		w.lose[i] = i + 1;
	world_post(&w, 1, NIC_WR_RDMA_WRITE, 0, 8, 0);
	world_post(&w, 2, NIC_WR_RDMA_WRITE, 0, 8, 0);
	world_run(&w);
	assert_true(world_saw(&w, "    0.000  A->B  RC WRITE ONLY psn 100 len 8 dma_len 8 A  (lost)\n"
				  "    0.000  A->B  RC WRITE ONLY psn 101 len 8 dma_len 8 A  (lost)\n"
				  "  262.144  A->B  RC WRITE ONLY psn 100 len 8 dma_len 8 A  (lost)\n"
				  "  262.144  A->B  RC WRITE ONLY psn 101 len 8 dma_len 8 A  (lost)\n"
				  "  786.432  A->B  RC WRITE ONLY psn 100 len 8 dma_len 8 A  (lost)\n"
				  "  786.432  A->B  RC WRITE ONLY psn 101 len 8 dma_len 8 A  (lost)\n"
				  " 1835.008  A     1: retries exceeded\n"
				  " 1835.008  A     2: flushed\n"));
	world_close(&w);
}

static void exchange__RL_11_bad_key(void **state)
{
	struct nic_send_wr wr = {.wr_id = 2, .opcode = NIC_WR_RDMA_WRITE, .num_sge = 1};
	struct nic_sge sge;
	struct world w;

	(void)state;
	world_open(&w, &usual);
	sge = (struct nic_sge){(uintptr_t)w.node[A].mem, 8, nic_mr_lkey(w.node[A].mr)};
	wr.sg_list = &sge;
	wr.rdma.remote_addr = (uintptr_t)w.node[B].mem;
	wr.rdma.rkey = nic_mr_rkey(w.node[B].mr) ^ 0x100;
	world_recv(&w, 90);
	world_post(&w, 1, NIC_WR_RDMA_WRITE, 0, 8, 0);
	world_post_wr(&w, &wr);
	world_post(&w, 3, NIC_WR_RDMA_WRITE, 0, 8, 0);
	world_run(&w);
	assert_true(world_saw(&w, "    0.000  A->B  RC WRITE ONLY psn 100 len 8 dma_len 8 A\n"
				  "    0.000  A->B  RC WRITE ONLY psn 101 len 8 dma_len 8 A\n"
				  "    0.000  A->B  RC WRITE ONLY psn 102 len 8 dma_len 8 A\n"
				  "   10.000  B     90: flushed\n"
				  "   10.000  B->A  RC ACK psn 101 NAK 62\n"
				  "   20.000  A     1: success\n"
				  "   20.000  A     2: remote access error\n"
				  "   20.000  A     3: flushed\n"));
	world_close(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exchange__RP_02_lost_ack_of_a_send),
		cmocka_unit_test(exchange__RP_04_lost_answer_of_an_atomic),
		cmocka_unit_test(exchange__RT_05_receiver_not_ready),
		cmocka_unit_test(exchange__RT_06_receiver_never_ready),
		cmocka_unit_test(exchange__RT_04_sequence_nak),
		cmocka_unit_test(exchange__RT_08_partial_retry_of_a_read),
		cmocka_unit_test(exchange__RS_02_an_ack_beyond_an_open_read_retries_the_read),
		cmocka_unit_test(exchange__RT_02_retries_exhausted),
		cmocka_unit_test(exchange__RL_11_bad_key),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
