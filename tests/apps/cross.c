/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cross.c - two processes whose NICs exchange messages by themselves, driven by cross-channel work requests
 * (CORE-Direct). For the cross test.
 *
 *   cross ROUNDS   side 0 sends first, and each message is answered, ROUNDS times
 *
 * Each side posts everything at once: the messages on a managed send queue, and the work requests that enable them on
 * the queue of a second QP, the runner. A side sends the sum of the number received last and a number of its own; its
 * NIC calculates the sum when it sends the message. Then both programs sleep until the runner is done. Nobody calls the
 * library meanwhile, so only the NICs can have added the numbers up:
 *
 *   side 0, each round:  enable one receive, enable one message, wait for one
 *   side 1, each round:  enable one receive, wait for one message, enable one
 *
 * Prints the number that side 0 received last. Exit code 1: that number, or side 1's, is wrong.
 */
#include "../forked.h"

#include <endian.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPERAND	   16 /* size of an operand in bytes */
#define STEPS	   3  /* work requests in a round */
#define ROUNDS_MAX 5000
#define COUNTED	   4 /* depth of a CQ that is never polled: only WAITs use its completions */
#define SLEEP_MS   120000

static const uint64_t numbers[2] = {3, 1000000};

/* Memory shared by both processes. */
struct meeting {
	struct forked f;
	atomic_uint posted;
	unsigned rounds;
};

static struct meeting *meeting;

struct side {
	int number;
	struct forked_end data, runner;
	struct ibv_cq *received, *done;
	struct ibv_comp_channel *channel;
	struct ibv_mr *mr;
	uint8_t operands[2][OPERAND]; /* the number received, and the number to add to it */
};

/* ---- queues ------------------------------------------------------------------------------------------------------ */

static struct ibv_qp *create(const struct side *s, struct ibv_cq *send_cq, struct ibv_cq *recv_cq, uint32_t depth,
			     uint32_t flags)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.cap = {depth, depth, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = s->data.pd,
		.exp_create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | flags,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(s->data.ctx, &init);

	if (!qp)
		forked_die("no cross-channel QP");
	return qp;
}

static void open_side(struct side *s)
{
	const unsigned rounds = meeting->rounds;
	struct ibv_exp_cq_attr overruns = {.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS,
					   .cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN};
	struct forked self = {.ready = {true, true}};

	forked_open(&s->data, s->number);
	s->channel = ibv_create_comp_channel(s->data.ctx);
	s->received = ibv_create_cq(s->data.ctx, COUNTED, NULL, NULL, 0);
	s->done = s->channel ? ibv_create_cq(s->data.ctx, COUNTED, NULL, s->channel, 0) : NULL;
	s->mr = ibv_reg_mr(s->data.pd, s->operands, sizeof(s->operands), IBV_ACCESS_LOCAL_WRITE);
	if (!s->received || !s->done || !s->mr || ibv_req_notify_cq(s->done, 0) ||
	    ibv_exp_modify_cq(s->received, &overruns, IBV_EXP_CQ_CAP_FLAGS))
		forked_die("no CQ, or no region");
	s->data.qp = create(s, s->data.cq, s->received, rounds,
			    IBV_EXP_QP_CREATE_MANAGED_SEND | IBV_EXP_QP_CREATE_MANAGED_RECV);
	forked_join(&s->data, &meeting->f, s->number);
	/* The runner transfers no data, so it needs no peer and is connected to itself. */
	s->runner = s->data;
	s->runner.qp = create(s, s->done, s->done, STEPS * rounds, 0);
	if (ibv_query_gid(s->data.ctx, 1, 0, &self.gid[1]))
		forked_die("no GID");
	self.qpn[1] = s->runner.qp->qp_num;
	forked_join(&s->runner, &self, 0);
}

/* ---- the program ------------------------------------------------------------------------------------------------- */

static void put(uint8_t *operand, uint64_t value)
{
	value = htobe64(value);
	memcpy(operand, &value, sizeof(value));
}

static uint64_t last_received(const struct side *s)
{
	uint64_t value;

	memcpy(&value, s->operands[0], sizeof(value));
	return be64toh(value);
}

static struct ibv_exp_send_wr enable(const struct side *s, enum ibv_exp_wr_opcode opcode)
{
	struct ibv_exp_send_wr wr = {.exp_opcode = opcode, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST};

	wr.task.wqe_enable.qp = s->data.qp;
	wr.task.wqe_enable.wqe_count = 1;
	return wr;
}

static struct ibv_exp_send_wr wait_for_message(const struct side *s)
{
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_CQE_WAIT, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST};

	wr.task.cqe_wait.cq = s->received;
	wr.task.cqe_wait.cq_count = 1;
	return wr;
}

static void post_round(struct side *s, bool last)
{
	struct ibv_sge into = {(uintptr_t)s->operands[0], OPERAND, s->mr->lkey};
	struct ibv_sge both = {(uintptr_t)s->operands, sizeof(s->operands), s->mr->lkey};
	struct ibv_recv_wr recv = {.sg_list = &into, .num_sge = 1};
	struct ibv_exp_send_wr message = {
		.sg_list = &both,
		.num_sge = 1,
		.exp_opcode = IBV_EXP_WR_SEND,
		.exp_send_flags = IBV_EXP_SEND_WITH_CALC,
		.op.calc = {IBV_EXP_CALC_OP_ADD, IBV_EXP_CALC_DATA_TYPE_UINT, IBV_EXP_CALC_DATA_SIZE_64_BIT}};
	struct ibv_exp_send_wr steps[STEPS] = {enable(s, IBV_EXP_WR_RECV_ENABLE)};
	struct ibv_exp_task tasks[] = {
		{.task_type = IBV_EXP_TASK_RECV}, {.task_type = IBV_EXP_TASK_SEND}, {.task_type = IBV_EXP_TASK_SEND}};

	steps[s->number ? 2 : 1] = enable(s, IBV_EXP_WR_SEND_ENABLE);
	steps[s->number ? 1 : 2] = wait_for_message(s);
	for (unsigned i = 0; i + 1 < STEPS; i++)
		steps[i].next = &steps[i + 1];
	if (last)
		steps[STEPS - 1].exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	tasks[0].item.qp = tasks[1].item.qp = s->data.qp;
	tasks[0].item.recv_wr = &recv;
	tasks[0].next = &tasks[1];
	tasks[1].item.send_wr = &message;
	tasks[1].next = &tasks[2];
	tasks[2].item.qp = s->runner.qp;
	tasks[2].item.send_wr = steps;
	if (ibv_exp_post_task(s->data.ctx, tasks, NULL))
		forked_die("the program cannot be posted");
}

/* Sleep until the runner is done. @return the status of its completion. */
static enum ibv_wc_status sleep_through(struct side *s)
{
	struct pollfd fd = {.fd = s->channel->fd, .events = POLLIN};
	struct ibv_wc wc;
	struct ibv_cq *cq;
	void *context;

	if (poll(&fd, 1, SLEEP_MS) != 1)
		forked_die("the program has not ended");
	if (ibv_get_cq_event(s->channel, &cq, &context) || ibv_poll_cq(cq, 1, &wc) != 1)
		forked_die("no completion with its event");
	ibv_ack_cq_events(cq, 1);
	return wc.status;
}

static int run(int number)
{
	struct side *s = forked_share(sizeof(*s)); /* mapped as shared, but used only by this process */
	const unsigned rounds = meeting->rounds;
	const uint64_t sum = rounds * (numbers[0] + numbers[1]), expected = number ? sum - numbers[1] : sum;

	s->number = number;
	put(s->operands[1], numbers[number]);
	open_side(s);
	if (!number) /* side 0, which sends first, must be the last to be ready */
		forked_await(&meeting->posted, 1);
	for (unsigned i = 0; i < rounds; i++)
		post_round(s, i + 1 == rounds);
	atomic_fetch_add(&meeting->posted, 1);
	if (sleep_through(s) != IBV_WC_SUCCESS)
		forked_die("the program has failed");
	if (!number)
		printf("%llu\n", (unsigned long long)last_received(s));
	if (last_received(s) != expected)
		forked_die("the number received last is wrong");
	return 0;
}

static int side_0(void *arg)
{
	(void)arg;
	return run(0);
}

static int side_1(void *arg)
{
	(void)arg;
	return run(1);
}

int main(int argc, char **argv)
{
	int pids[2];

	meeting = forked_share(sizeof(*meeting));
	meeting->rounds = argc > 1 ? (unsigned)atoi(argv[1]) : 0;
	if (!meeting->rounds || meeting->rounds > ROUNDS_MAX)
		forked_die("usage: cross ROUNDS");
	pids[0] = forked_start(side_0, NULL);
	pids[1] = forked_start(side_1, NULL);
	return forked_wait(pids, 2) ? 0 : 1;
}
