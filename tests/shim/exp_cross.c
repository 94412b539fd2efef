/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * exp_cross.c - cross-channel requests as programs for ConnectX post them: calculations, tasks, CQs that overrun,
 * requests that must be refused, and sequences of WAIT and ENABLE requests, which the NIC runs while the program does
 * nothing. The NIC's corner cases are tested in tests/unit/test_cross.c.
 */
#include "exp_rig.h"

#include <endian.h>
#include <poll.h>

#define CROSS IBV_EXP_QP_CREATE_CROSS_CHANNEL
#define DEEP  64

/** Create a QP at end `e` of the rig, with these create flags and this send CQ. */
static struct ibv_qp *cross_qp(struct rig *rig, int e, struct ibv_cq *cq, uint32_t flags)
{
	struct rig_end *end = &rig->end[e];
	struct ibv_exp_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = end->cq,
		.cap = {DEEP, DEEP, 4, 4, 64},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = end->pd,
		.exp_create_flags = flags,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(end->ctx, &attr);

	assert_non_null(qp);
	return qp;
}

/** A sequence of requests at end 0. `qp` sends the data, as a managed queue if the flags say so; `runner` executes
 * WAIT and ENABLE requests and sends nothing. */
struct program {
	struct rig *rig;
	struct ibv_qp *qp, *runner, *peer, *other;
	struct ibv_cq *done; /* CQ of the runner */
	struct ibv_comp_channel *channel;
};

static void program_open(struct program *p, struct rig *rig, uint32_t flags)
{
	struct rig_end *end = &rig->end[0];

	*p = (struct program){.rig = rig, .channel = ibv_create_comp_channel(end->ctx)};
	assert_non_null(p->channel);
	p->done = ibv_create_cq(end->ctx, DEEP, NULL, p->channel, 0);
	assert_non_null(p->done);
	p->qp = end->qp = cross_qp(rig, 0, end->cq, flags);
	p->peer = rig->end[1].qp = cross_qp(rig, 1, rig->end[1].cq, flags & ~(uint32_t)IBV_EXP_QP_CREATE_MANAGED_SEND);
	rig_connect_qps(rig, p->qp, p->peer);
	p->runner = cross_qp(rig, 0, p->done, CROSS);
	/* The runner must be connected, although it sends nothing. */
	p->other = cross_qp(rig, 1, rig->end[1].cq, CROSS);
	rig_connect_qps(rig, p->runner, p->other);
}

static void program_close(struct program *p)
{
	assert_int_equal(ibv_destroy_qp(p->runner), 0);
	assert_int_equal(ibv_destroy_qp(p->other), 0);
	assert_int_equal(ibv_destroy_cq(p->done), 0);
	assert_int_equal(ibv_destroy_comp_channel(p->channel), 0);
}

static struct ibv_exp_send_wr wait_for(struct ibv_cq *cq, int count, uint64_t flags)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = IBV_EXP_WR_CQE_WAIT;
	wr.exp_send_flags = flags;
	wr.task.cqe_wait.cq = cq;
	wr.task.cqe_wait.cq_count = count;
	return wr;
}

static struct ibv_exp_send_wr enable(enum ibv_exp_wr_opcode opcode, struct ibv_qp *qp, int count, uint64_t flags)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.exp_opcode = opcode;
	wr.exp_send_flags = flags;
	wr.task.wqe_enable.qp = qp;
	wr.task.wqe_enable.wqe_count = count;
	return wr;
}

static struct ibv_exp_send_wr message(struct ibv_sge *sge, int n)
{
	struct ibv_exp_send_wr wr;

	memset(&wr, 0, sizeof(wr));
	wr.wr_id = 5;
	wr.exp_opcode = IBV_EXP_WR_SEND;
	wr.sg_list = sge;
	wr.num_sge = n;
	wr.exp_send_flags = IBV_EXP_SEND_SIGNALED;
	return wr;
}

static void link_all(struct ibv_exp_send_wr *wr, unsigned n)
{
	for (unsigned i = 0; i + 1 < n; i++)
		wr[i].next = &wr[i + 1];
}

static void post(struct ibv_qp *qp, struct ibv_exp_send_wr *wr)
{
	struct ibv_exp_send_wr *bad = NULL;

	assert_int_equal(ibv_exp_post_send(qp, wr, &bad), 0);
}

/** Wait for the completion event of the sequence; until then only the NIC works. @return the completion. */
static struct ibv_wc sleep_for(struct program *p)
{
	struct pollfd fd = {.fd = p->channel->fd, .events = POLLIN};
	struct ibv_cq *cq;
	void *context;

	assert_int_equal(poll(&fd, 1, 10000), 1);
	assert_int_equal(ibv_get_cq_event(p->channel, &cq, &context), 0);
	assert_ptr_equal(cq, p->done);
	ibv_ack_cq_events(cq, 1);
	return rig_wait(cq);
}

static void expect_messages(struct rig *rig, unsigned n)
{
	struct ibv_wc wc;

	while (n--)
		assert_int_equal(rig_wait(rig->end[1].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_poll_cq(rig->end[1].cq, 1, &wc), 0);
}

/* Three messages, each sent when the previous one has completed: the runner alternates ENABLE and WAIT while the
 * program sleeps. */
static void program__the_nic_runs_it_while_the_application_sleeps(void **state)
{
	struct program p;
	struct rig *rig = *state;
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8);
	struct ibv_exp_send_wr messages[3], steps[6];
	struct ibv_exp_task tasks[2] = {{.task_type = IBV_EXP_TASK_SEND}, {.task_type = IBV_EXP_TASK_SEND}},
			    *bad = NULL;

	program_open(&p, rig, CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND);
	for (unsigned i = 0; i < 3; i++) {
		rig_post_recv(&rig->end[1], i, 64 * i, 64);
		messages[i] = message(&sge, 1);
		steps[2 * i] = enable(IBV_EXP_WR_SEND_ENABLE, p.qp, 1, IBV_EXP_SEND_WAIT_EN_LAST);
		steps[2 * i + 1] = wait_for(rig->end[0].cq, 1, IBV_EXP_SEND_WAIT_EN_LAST);
	}
	steps[5].wr_id = 77;
	steps[5].exp_send_flags |= IBV_EXP_SEND_SIGNALED;
	link_all(messages, 3);
	link_all(steps, 6);
	tasks[0].item.qp = p.qp;
	tasks[0].item.send_wr = messages;
	tasks[0].next = &tasks[1];
	tasks[1].item.qp = p.runner;
	tasks[1].item.send_wr = steps;
	assert_int_equal(ibv_req_notify_cq(p.done, 0), 0);
	assert_int_equal(ibv_exp_post_task(rig->end[0].ctx, tasks, &bad), 0);
	assert_null(bad);
	assert_int_equal(sleep_for(&p).wr_id, 77);
	expect_messages(rig, 3);
	for (unsigned i = 0; i < 3; i++)
		assert_int_equal(rig_wait(rig->end[0].cq).wr_id, 5);
	program_close(&p);
}

static void managed__requests_wait(void **state)
{
	struct program p;
	struct rig *rig = *state;
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8);
	struct ibv_exp_send_wr one = message(&sge, 1), step;
	struct ibv_wc wc;

	program_open(&p, rig, CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND | IBV_EXP_QP_CREATE_MANAGED_RECV);
	for (unsigned i = 0; i < 4; i++) {
		rig_post_recv(&rig->end[0], 10 + i, 1024, 64);
		post(p.qp, &one);
	}
	step = enable(IBV_EXP_WR_RECV_ENABLE, p.qp, 1, IBV_EXP_SEND_WAIT_EN_LAST | IBV_EXP_SEND_SIGNALED);
	post(p.runner, &step);
	assert_int_equal(rig_wait(p.done).status, IBV_WC_SUCCESS);
	sge = rig_sge(&rig->end[1], 0, 8);
	post(p.peer, &one);
	assert_int_equal(rig_wait(rig->end[0].cq).wr_id, 10);
	assert_int_equal(rig_wait(rig->end[1].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_poll_cq(rig->end[0].cq, 1, &wc), 0); /* none of the four requests has been sent */
	rig_disconnect(rig);
	program_close(&p);
}

static void put_operand(uint8_t *at, uint64_t value, uint64_t place)
{
	value = htobe64(value);
	place = htobe64(place);
	memcpy(at, &value, 8);
	memcpy(at + 8, &place, 8);
}

static void calc__runs_exactly_the_reported_operations(void **state)
{
	struct program p;
	struct rig *rig = *state;
	uint8_t *in = rig->end[0].buf, *out = rig->end[1].buf;
	struct ibv_exp_device_attr attr = {.comp_mask = IBV_EXP_DEVICE_ATTR_CALC_CAP};
	const uint64_t values[] = {0x8000000000000123, 0x4000000000000321};
	const uint64_t results[] = {values[0] + values[1], values[0], values[0] & values[1], values[0] ^ values[1],
				    values[0] | values[1]};
	struct ibv_sge sge[2] = {rig_sge(&rig->end[0], 0, 16), rig_sge(&rig->end[0], 32, 16)};

	assert_int_equal(ibv_exp_query_device(rig->end[0].ctx, &attr), 0);
	assert_int_equal(attr.comp_mask, IBV_EXP_DEVICE_ATTR_CALC_CAP);
	assert_int_equal(attr.calc_cap.data_types, 7);
	assert_int_equal(attr.calc_cap.data_sizes, 1 << IBV_EXP_CALC_DATA_SIZE_64_BIT);
	program_open(&p, rig, CROSS);
	for (int type = 0; type <= IBV_EXP_CALC_DATA_TYPE_NUMBER; type++) {
		const uint64_t ops[] = {attr.calc_cap.int_ops, attr.calc_cap.uint_ops, attr.calc_cap.fp_ops, 0};

		for (int op = 0; op <= IBV_EXP_CALC_OP_NUMBER; op++) {
			struct ibv_exp_send_wr wr = message(sge, 2);
			uint64_t result, place;

			put_operand(in, values[0], 3);
			put_operand(in + 32, values[1], 4);
			wr.exp_opcode = IBV_EXP_WR_RDMA_WRITE;
			wr.wr.rdma.remote_addr = (uintptr_t)out;
			wr.wr.rdma.rkey = rig->end[1].mr->rkey;
			wr.exp_send_flags |= IBV_EXP_SEND_WITH_CALC;
			wr.op.calc.calc_op = (enum ibv_exp_calc_op)op;
			wr.op.calc.data_type = (enum ibv_exp_calc_data_type)type;
			if (!(ops[type] >> op & 1)) {
				exp_refused(p.qp, &wr);
				continue;
			}
			assert_int_equal(exp_run(rig, &wr).byte_len, 16);
			memcpy(&result, out, 8);
			memcpy(&place, out + 8, 8);
			if (type != IBV_EXP_CALC_DATA_TYPE_FLOAT || op != IBV_EXP_CALC_OP_ADD)
				assert_int_equal(be64toh(result), results[op]);
			assert_int_equal(be64toh(place), op == IBV_EXP_CALC_OP_MAXLOC ? 3 : 0);
		}
	}
	program_close(&p);
}

static void calc__adds_doubles(void **state)
{
	struct program p;
	struct rig *rig = *state;
	const double values[] = {1.25, -3.5};
	const enum ibv_exp_wr_opcode others[] = {IBV_EXP_WR_RDMA_READ, IBV_EXP_WR_SEND_WITH_INV,
						 IBV_EXP_WR_ATOMIC_FETCH_AND_ADD, IBV_EXP_WR_NOP};
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 32);
	struct ibv_exp_send_wr wr = message(&sge, 1);
	double result;
	uint64_t bits;

	program_open(&p, rig, CROSS);
	for (unsigned i = 0; i < 2; i++) {
		memcpy(&bits, &values[i], 8);
		put_operand(rig->end[0].buf + 16 * i, bits, 0);
	}
	rig_post_recv(&rig->end[1], 1, 128, 16);
	wr.exp_send_flags |= IBV_EXP_SEND_WITH_CALC;
	wr.op.calc.data_type = IBV_EXP_CALC_DATA_TYPE_FLOAT;
	wr.op.calc.calc_op = IBV_EXP_CALC_OP_ADD;
	assert_int_equal(exp_run(rig, &wr).status, IBV_WC_SUCCESS);
	assert_int_equal(rig_wait(rig->end[1].cq).byte_len, 16);
	memcpy(&bits, rig->end[1].buf + 128, 8);
	bits = be64toh(bits);
	memcpy(&result, &bits, 8);
	assert_true(result == -2.25);
	wr.op.calc.data_size = IBV_EXP_CALC_DATA_SIZE_NUMBER;
	exp_refused(p.qp, &wr);
	wr.op.calc.data_size = IBV_EXP_CALC_DATA_SIZE_64_BIT;
	for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		wr.exp_opcode = others[i];
		wr.wr.atomic.remote_addr = (uintptr_t)rig->end[1].buf;
		wr.wr.atomic.rkey = rig->end[1].mr->rkey;
		sge.length = 8;
		exp_refused(p.qp, &wr);
	}
	program_close(&p);
}

/** A CQ with 4 entries that may overrun, created in each of the three possible ways. */
static struct ibv_cq *overrun_cq(struct ibv_context *ctx, unsigned way)
{
	struct ibv_exp_cq_init_attr init = {.comp_mask = IBV_EXP_CQ_INIT_ATTR_FLAGS,
					    .flags = IBV_EXP_CQ_CREATE_CROSS_CHANNEL};
	struct ibv_cq_init_attr_ex ex = {
		.cqe = 4, .comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS, .flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN};
	struct ibv_exp_cq_attr change = {.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS,
					 .cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN};
	struct ibv_cq *cq;

	if (way == 0)
		return ibv_exp_create_cq(ctx, 4, NULL, NULL, 0, &init);
	if (way == 1)
		return ibv_cq_ex_to_cq(ibv_create_cq_ex(ctx, &ex));
	cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	cq->handle ^= 1;
	assert_int_equal(ibv_exp_modify_cq(cq, &change, IBV_EXP_CQ_CAP_FLAGS), ENOENT);
	cq->handle ^= 1;
	assert_int_equal(ibv_exp_modify_cq(cq, &change, IBV_EXP_CQ_CAP_FLAGS), 0);
	return cq;
}

static void cq__ignoring_overruns_keeps_counting_entries(void **state)
{
	struct rig *rig = *state;
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8);
	struct ibv_wc wc[8];

	for (unsigned way = 0; way < 3; way++) {
		struct program p;
		struct ibv_cq *cq = overrun_cq(rig->end[0].ctx, way), *plain = rig->end[0].cq;
		struct ibv_exp_send_wr one = message(&sge, 1), step;

		assert_non_null(cq);
		rig->end[0].cq = cq;
		program_open(&p, rig, CROSS);
		rig->end[0].cq = plain;
		step = wait_for(cq, 10, IBV_EXP_SEND_WAIT_EN_LAST | IBV_EXP_SEND_SIGNALED);
		post(p.runner, &step);
		assert_int_equal(ibv_destroy_cq(cq), EBUSY);
		one.exp_opcode = IBV_EXP_WR_NOP;
		for (unsigned i = 0; i < 10; i++) {
			one.wr_id = i;
			post(p.qp, &one);
		}
		assert_int_equal(rig_wait(p.done).status, IBV_WC_SUCCESS);
		assert_int_equal(ibv_poll_cq(cq, 8, wc), 4);
		for (unsigned i = 0; i < 4; i++)
			assert_int_equal(wc[i].wr_id, 6 + i);
		program_close(&p);
		rig_disconnect(rig);
		assert_int_equal(ibv_destroy_cq(cq), 0);
	}
}

/** Each send flag that no interface defines is refused, also the bit that marks a calculation inside the NIC: a program
 * that sets it must get an error, not a calculation. */
static void post__undefined_send_flags_are_refused(void **state)
{
	struct program p;
	struct rig *rig = *state;
	struct ibv_send_wr plain, *bad;
	struct ibv_exp_send_wr wr = message(NULL, 0);

	program_open(&p, rig, CROSS);
	for (unsigned bit = 5; bit < 32; bit++) {
		memset(&plain, 0xff, sizeof(plain)); /* garbage in the fields that do not belong to a SEND */
		plain.next = NULL;
		plain.num_sge = 0;
		plain.opcode = IBV_WR_SEND;
		plain.send_flags = IBV_SEND_SIGNALED | 1u << bit;
		assert_int_equal(ibv_post_send(p.qp, &plain, &bad), EINVAL);
		assert_ptr_equal(bad, &plain);
	}
	wr.exp_send_flags |= 1 << 5;
	exp_refused(p.qp, &wr);
	program_close(&p);
}

static void post__invalid_waits_and_enables_are_refused(void **state)
{
	struct program p;
	struct rig *rig = *state;
	struct ibv_qp *managed;
	struct ibv_exp_send_wr wr;

	program_open(&p, rig, 0);
	managed = cross_qp(rig, 0, rig->end[0].cq, CROSS | IBV_EXP_QP_CREATE_MANAGED_SEND);
	wr = wait_for(rig->end[0].cq, 1, 0);
	exp_refused(p.qp, &wr); /* this QP was not created for cross-channel requests */
	wr.task.cqe_wait.cq_count = -1;
	exp_refused(p.runner, &wr);
	wr = wait_for(rig->end[1].cq, 1, 0);
	exp_refused(p.runner, &wr); /* CQ of another device */
	wr = wait_for(NULL, 1, 0);
	exp_refused(p.runner, &wr);
	wr = enable(IBV_EXP_WR_SEND_ENABLE, managed, 1, 0);
	exp_refused(p.runner, &wr); /* the managed queue has no posted request */
	wr = enable(IBV_EXP_WR_SEND_ENABLE, managed, -1, 0);
	exp_refused(p.runner, &wr);
	wr = enable(IBV_EXP_WR_RECV_ENABLE, managed, 0, 0);
	exp_refused(p.runner, &wr);
	wr = enable(IBV_EXP_WR_SEND_ENABLE, p.qp, 0, 0);
	exp_refused(p.runner, &wr);
	wr = enable(IBV_EXP_WR_SEND_ENABLE, p.peer, 0, 0);
	exp_refused(p.runner, &wr);
	wr = enable(IBV_EXP_WR_SEND_ENABLE, NULL, 0, 0);
	exp_refused(p.runner, &wr);
	wr = enable(IBV_EXP_WR_SEND_ENABLE, managed, 0, IBV_EXP_SEND_SIGNALED);
	post(p.runner, &wr);
	assert_int_equal(rig_wait(p.done).status, IBV_WC_SUCCESS);
	assert_int_equal(ibv_destroy_qp(managed), 0);
	program_close(&p);
}

static void task__lists_of_several_queues(void **state)
{
	struct program p;
	struct rig *rig = *state;
	struct ibv_context *ctx = rig->end[0].ctx;
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8), into = rig_sge(&rig->end[0], 512, 8);
	struct ibv_recv_wr recv = {.wr_id = 9, .sg_list = &into, .num_sge = 1};
	struct ibv_exp_send_wr good = message(&sge, 1), wrong = message(&sge, 1);
	struct ibv_exp_task tasks[3], *bad = NULL;

	program_open(&p, rig, CROSS);
	assert_int_equal(ibv_exp_post_task(ctx, NULL, &bad), 0);
	memset(tasks, 0, sizeof(tasks));
	tasks[0].task_type = IBV_EXP_TASK_RECV;
	tasks[0].item.qp = p.qp;
	tasks[0].item.recv_wr = &recv;
	tasks[0].next = &tasks[1];
	tasks[1].task_type = IBV_EXP_TASK_SEND;
	tasks[1].item.qp = p.qp;
	tasks[1].item.send_wr = &good;
	tasks[1].next = &tasks[2];
	wrong.exp_opcode = IBV_EXP_WR_TSO;
	tasks[2].task_type = IBV_EXP_TASK_SEND;
	tasks[2].item.qp = p.qp;
	tasks[2].item.send_wr = &wrong;
	rig_post_recv(&rig->end[1], 1, 0, 64);
	assert_int_equal(ibv_exp_post_task(ctx, tasks, &bad), EINVAL);
	assert_ptr_equal(bad, &tasks[2]);
	assert_int_equal(rig_wait(rig->end[0].cq).wr_id, 5); /* the first two tasks, which are valid, were executed */
	assert_int_equal(rig_wait(rig->end[1].cq).status, IBV_WC_SUCCESS);
	post(p.peer, &(struct ibv_exp_send_wr){.exp_opcode = IBV_EXP_WR_SEND});
	assert_int_equal(rig_wait(rig->end[0].cq).wr_id, 9);
	assert_int_equal(ibv_exp_post_task(ctx, &tasks[2], NULL), EINVAL);
	tasks[2].task_type = (enum ibv_exp_task_type)2;
	assert_int_equal(ibv_exp_post_task(ctx, &tasks[2], &bad), EINVAL);
	tasks[2].task_type = IBV_EXP_TASK_RECV;
	recv.num_sge = 1000;
	tasks[2].item.recv_wr = &recv;
	assert_int_equal(ibv_exp_post_task(ctx, &tasks[2], &bad), EINVAL);
	tasks[2].item.qp = p.peer; /* QP of another device */
	assert_int_equal(ibv_exp_post_task(ctx, &tasks[2], &bad), EINVAL);
	tasks[2].item.qp = NULL;
	assert_int_equal(ibv_exp_post_task(ctx, &tasks[2], &bad), EINVAL);
	tasks[2].comp_mask = IBV_EXP_TASK_RESERVED;
	assert_int_equal(ibv_exp_post_task(ctx, &tasks[2], &bad), EINVAL);
	program_close(&p);
}

static void wait__is_flushed_when_its_qp_enters_err(void **state)
{
	struct program p;
	struct rig *rig = *state;
	struct ibv_exp_send_wr step = wait_for(rig->end[0].cq, 1, IBV_EXP_SEND_WAIT_EN_LAST);
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	program_open(&p, rig, CROSS);
	post(p.runner, &step);
	assert_int_equal(ibv_modify_qp(p.runner, &attr, IBV_QP_STATE), 0);
	assert_int_equal(rig_wait(p.done).status, IBV_WC_WR_FLUSH_ERR);
	program_close(&p);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, rig_setup, rig_teardown)
	const struct CMUnitTest tests[] = {
		TEST(program__the_nic_runs_it_while_the_application_sleeps),
		TEST(managed__requests_wait),
		TEST(calc__runs_exactly_the_reported_operations),
		TEST(calc__adds_doubles),
		TEST(cq__ignoring_overruns_keeps_counting_entries),
		TEST(post__invalid_waits_and_enables_are_refused),
		TEST(post__undefined_send_flags_are_refused),
		TEST(task__lists_of_several_queues),
		TEST(wait__is_flushed_when_its_qp_enters_err),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
