/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cross_deaths.c - processes that end while their NICs exchange messages by themselves, driven by cross-channel work
 * requests. For the kill test. The tester's NIC and a child's NIC answer each other's messages. The child ends during
 * this exchange, in each possible way. Then the tester's waiting work requests complete with errors, and its other work
 * is still done.
 *
 *   each lap, tester:  enable a message to the child, wait for one, enable one to itself
 *   each lap, child:   wait for a message, enable one
 *
 * The child's NIC has fewer laps to do than the tester's NIC, and then waits for messages that never arrive. So neither
 * NIC is done when the child ends, however fast the NICs are.
 *
 * Prints a line for each way to end, "ok NAME" or "FAIL NAME"; exit code 1 when any has failed. The kill test checks
 * what is left after both processes have ended.
 */
#include "../forked.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LAPS	   2000u
#define ANSWERS	   1000u /* laps of the child */
#define STEPS	   3u
#define STUCK	   500u /* WAITs for completions that never come */
#define COUNTED	   4	/* depth of a CQ that is never polled: only WAITs use its completions */
#define ROUNDS	   5u	/* rounds for each way to end */
#define FIRST_LAPS 50u	/* laps before the child ends */
#define PATIENCE_S 60u

enum ending { KILLED, EXITS, EXITS_AT_ONCE, EXITS_BUSY, ENDINGS };

static const char *const names[ENDINGS] = {
	"a process amid its program is killed", "a process amid its program calls exit",
	"a process amid its program calls _exit", "a process amid its program calls exit while a thread posts more"};

/** Memory shared by the tester and a child. */
struct meeting {
	struct forked data, probe;
	atomic_uint begin; /* 1: the child may open its device */
	atomic_uint ready, laps;
	unsigned ending;
	int pid;
};

/** One side of the exchange. */
struct talk {
	struct forked_end end, data, runner; /* end: has the device, a PD and a CQ */
	struct ibv_cq *received;
	struct ibv_mr *mr;
	uint32_t words[3 * LAPS]; /* LAPS words to send, LAPS received from the other side, LAPS from itself */
};

static unsigned failures;

static void want(bool so, const char *what)
{
	if (!so)
		printf("not so: %s\n", what);
	failures += !so;
}

static void pause_us(unsigned us)
{
	const struct timespec pause = {.tv_nsec = us * 1000L};

	nanosleep(&pause, NULL);
}

static uint64_t now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec;
}

/* ---- queues ------------------------------------------------------------------------------------------------------ */

static struct ibv_qp *create(const struct talk *t, struct ibv_cq *send_cq, struct ibv_cq *recv_cq, uint32_t depth,
			     uint32_t flags)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = send_cq,
		.recv_cq = recv_cq,
		.cap = {depth, LAPS, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_CREATE_FLAGS,
		.pd = t->end.pd,
		.exp_create_flags = IBV_EXP_QP_CREATE_CROSS_CHANNEL | flags,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(t->end.ctx, &init);

	if (!qp)
		forked_die("no cross-channel QP");
	return qp;
}

static struct ibv_cq *create_cq(const struct talk *t, int depth)
{
	struct ibv_cq *cq = ibv_create_cq(t->end.ctx, depth, NULL, NULL, 0);

	if (!cq)
		forked_die("no CQ");
	return cq;
}

/** Create a CQ whose completions are counted by WAITs, and which is never polled. */
static struct ibv_cq *create_counted(const struct talk *t)
{
	struct ibv_exp_cq_attr overruns = {.comp_mask = IBV_EXP_CQ_ATTR_CQ_CAP_FLAGS,
					   .cq_cap_flags = IBV_EXP_CQ_IGNORE_OVERRUN};
	struct ibv_cq *cq = create_cq(t, COUNTED);

	if (ibv_exp_modify_cq(cq, &overruns, IBV_EXP_CQ_CAP_FLAGS))
		forked_die("the CQ does not ignore overruns");
	return cq;
}

/** Create a runner, a QP that only waits and enables. It transfers no data, so it needs no peer and is connected to
 * itself. */
static struct forked_end create_runner(const struct talk *t, struct ibv_cq *cq)
{
	struct forked self = {.ready = {true, true}};
	struct forked_end runner = t->end;

	runner.qp = create(t, cq, cq, STEPS * LAPS, 0);
	if (ibv_query_gid(t->end.ctx, 1, 0, &self.gid[1]))
		forked_die("no GID");
	self.qpn[1] = runner.qp->qp_num;
	forked_join(&runner, &self, 0);
	return runner;
}

static void to_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};

	want(ibv_modify_qp(qp, &attr, IBV_QP_STATE) == 0, "a QP goes to the error state");
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static struct ibv_exp_send_wr enable(struct ibv_qp *qp)
{
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_SEND_ENABLE, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST};

	wr.task.wqe_enable.qp = qp;
	wr.task.wqe_enable.wqe_count = 1;
	return wr;
}

static struct ibv_exp_send_wr wait_for(struct ibv_cq *cq, int count)
{
	struct ibv_exp_send_wr wr = {.exp_opcode = IBV_EXP_WR_CQE_WAIT, .exp_send_flags = IBV_EXP_SEND_WAIT_EN_LAST};

	wr.task.cqe_wait.cq = cq;
	wr.task.cqe_wait.cq_count = count;
	return wr;
}

static int post(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, unsigned n)
{
	struct ibv_exp_send_wr *bad;

	for (unsigned i = 0; i + 1 < n; i++)
		wr[i].next = &wr[i + 1];
	return ibv_exp_post_send(qp, wr, &bad);
}

static void must_post(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, unsigned n)
{
	if (post(qp, wr, n))
		forked_die("a request cannot be posted");
}

static void post_message(const struct talk *t, struct ibv_qp *qp, const uint32_t *word)
{
	struct ibv_sge sge = {(uintptr_t)word, sizeof(*word), t->mr->lkey};
	struct ibv_exp_send_wr wr = {.sg_list = &sge, .num_sge = 1, .exp_opcode = IBV_EXP_WR_SEND};

	must_post(qp, &wr, 1);
}

static void post_recv(const struct talk *t, struct ibv_qp *qp, const uint32_t *word)
{
	struct ibv_sge sge = {(uintptr_t)word, sizeof(*word), t->mr->lkey};
	struct ibv_recv_wr wr = {.sg_list = &sge, .num_sge = 1}, *bad;

	if (ibv_post_recv(qp, &wr, &bad))
		forked_die("a receive cannot be posted");
}

/** Open the objects that both sides have. */
static struct talk *talk_open(struct meeting *m, int side, const struct forked_end *device)
{
	struct talk *t = calloc(1, sizeof(*t));

	if (!t)
		forked_die("no memory");
	if (device)
		t->end = *device;
	else
		forked_open(&t->end, side);
	t->mr = ibv_reg_mr(t->end.pd, t->words, sizeof(t->words), IBV_ACCESS_LOCAL_WRITE);
	if (!t->mr)
		forked_die("no region");
	t->received = create_counted(t);
	t->data = t->runner = t->end;
	t->data.qp = create(t, create_cq(t, LAPS), t->received, LAPS, IBV_EXP_QP_CREATE_MANAGED_SEND);
	forked_join(&t->data, &m->data, side);
	for (unsigned i = 0; i < LAPS; i++) {
		t->words[i] = i + 1;
		post_recv(t, t->data.qp, &t->words[LAPS + i]);
		post_message(t, t->data.qp, &t->words[i]);
	}
	return t;
}

/** @return how many messages from the other side have arrived, whole and in order. */
static unsigned came_whole(const struct talk *t)
{
	unsigned n = 0;

	while (n < LAPS && t->words[LAPS + n] == n + 1)
		n++;
	return n;
}

/* ---- a child ----------------------------------------------------------------------------------------------------- */

static void *post_more(void *arg)
{
	const struct talk *t = arg;

	for (;;) {
		struct ibv_exp_send_wr wr = wait_for(t->received, 1);

		post(t->runner.qp, &wr, 1); /* fails when the queue is full */
	}
	return NULL;
}

/** Post all work that the child's NIC has to do, and last a WAIT that is never satisfied. */
static void answer(const struct talk *t)
{
	struct ibv_exp_send_wr never = wait_for(t->received, LAPS);

	for (unsigned i = 0; i < ANSWERS; i++) {
		struct ibv_exp_send_wr steps[] = {wait_for(t->received, 1), enable(t->data.qp)};

		must_post(t->runner.qp, steps, 2);
	}
	must_post(t->runner.qp, &never, 1);
}

static int child(void *arg)
{
	struct meeting *m = arg;
	struct forked_end probe;
	struct talk *t;
	pthread_t thread;
	int code;

	while (!atomic_load(&m->begin))
		pause_us(5000);
	t = talk_open(m, 1, NULL);
	probe = t->end;
	forked_connect(&probe, &m->probe, 1);
	t->runner = create_runner(t, create_cq(t, COUNTED));
	answer(t);
	if (m->ending == EXITS_BUSY && pthread_create(&thread, NULL, post_more, t))
		forked_die("no thread");
	atomic_store(&m->ready, 1);
	forked_await(&m->laps, FIRST_LAPS);
	code = came_whole(t) < FIRST_LAPS;
	if (m->ending == EXITS_AT_ONCE)
		_exit(code);
	if (m->ending == EXITS || m->ending == EXITS_BUSY)
		exit(code);
	for (;;)
		pause();
}

/* ---- the tester -------------------------------------------------------------------------------------------------- */

/** Objects that only the tester has. */
struct test {
	struct talk *talk;
	struct forked_end probe, self; /* self: managed, its messages go to `other` */
	struct ibv_qp *other, *stuck, *stuck_too;
	struct ibv_cq *done, *came, *stuck_done;
};

static void self_open(struct test *x)
{
	struct talk *t = x->talk;
	struct forked pair = {.ready = {true, true}};
	struct forked_end other = t->end;

	x->came = create_cq(t, LAPS);
	x->self = t->end;
	x->self.qp = create(t, create_cq(t, COUNTED), create_cq(t, COUNTED), LAPS, IBV_EXP_QP_CREATE_MANAGED_SEND);
	x->other = other.qp = create(t, create_cq(t, COUNTED), x->came, 1, 0);
	if (ibv_query_gid(t->end.ctx, 1, 0, &pair.gid[0]))
		forked_die("no GID");
	pair.gid[1] = pair.gid[0];
	pair.qpn[0] = x->self.qp->qp_num;
	pair.qpn[1] = x->other->qp_num;
	forked_join(&x->self, &pair, 0);
	forked_join(&other, &pair, 1);
	for (unsigned i = 0; i < LAPS; i++) {
		post_recv(t, x->other, &t->words[2 * LAPS + i]);
		post_message(t, x->self.qp, &t->words[i]);
	}
}

/** Create a QP with WAITs for completions that never come. The WAITs keep a reference to `received`, the CQ that they
 * wait for. */
static struct ibv_qp *stuck_open(struct test *x)
{
	struct ibv_qp *qp = create_runner(x->talk, x->stuck_done).qp;

	for (unsigned i = 0; i < STUCK; i++) {
		struct ibv_exp_send_wr wr = wait_for(x->talk->received, 4 * LAPS);

		wr.exp_send_flags = i + 1 == STUCK ? IBV_EXP_SEND_SIGNALED : 0;
		must_post(qp, &wr, 1);
	}
	return qp;
}

static void test_open(struct test *x, struct meeting *m, const struct forked_end *device)
{
	struct talk *t;

	x->talk = t = talk_open(m, 0, device);
	x->probe = t->end;
	forked_connect(&x->probe, &m->probe, 0);
	self_open(x);
	x->done = create_cq(t, COUNTED);
	x->stuck_done = create_cq(t, 4 * STUCK);
	t->runner = create_runner(t, x->done);
	forked_await(&m->ready, 1);
	for (unsigned i = 0; i < LAPS; i++) {
		struct ibv_exp_send_wr steps[STEPS] = {enable(t->data.qp), wait_for(t->received, 1),
						       enable(x->self.qp)};

		if (i + 1 == LAPS)
			steps[STEPS - 1].exp_send_flags |= IBV_EXP_SEND_SIGNALED;
		must_post(t->runner.qp, steps, STEPS);
	}
	x->stuck = stuck_open(x); /* its WAITs are queued behind the runner's WAITs for the same CQ */
	x->stuck_too = stuck_open(x);
}

/** Poll for messages that the tester has sent to itself. @return how many have arrived so far. */
static unsigned take_came(struct test *x, unsigned from)
{
	struct ibv_wc wc;

	while (from < LAPS && ibv_poll_cq(x->came, 1, &wc) == 1) {
		want(wc.status == IBV_WC_SUCCESS, "a message to itself completes");
		from++;
	}
	return from;
}

/** Wait until n messages from the tester to itself have arrived. @return how many have arrived. */
static unsigned await_came(struct test *x, unsigned from, unsigned n)
{
	uint64_t end = now_s() + PATIENCE_S;

	while ((from = take_came(x, from)) < n && now_s() < end)
		pause_us(200);
	return from;
}

/** Check the messages from the child: at least `least` have arrived, each is whole and in its place, and nothing was
 * written after them. */
static void check_words(const struct talk *t, unsigned least)
{
	const unsigned n = came_whole(t);
	bool untouched = true;

	want(n >= least, "the messages that the tester's NIC has waited for have come");
	want(n <= ANSWERS, "no message has come that the child has not sent");
	for (unsigned i = n; i < LAPS; i++)
		untouched &= t->words[LAPS + i] == 0;
	want(untouched, "the child's messages come whole, in order");
}

static struct ibv_wc await_entry(struct ibv_cq *cq, const char *what)
{
	uint64_t end = now_s() + PATIENCE_S;
	struct ibv_wc wc = {.status = IBV_WC_GENERAL_ERR};
	int n;

	while ((n = ibv_poll_cq(cq, 1, &wc)) == 0 && now_s() < end)
		pause_us(200);
	want(n == 1, what);
	return wc;
}

/** Wait until a request to the child fails because the child is gone. */
static void await_loss(struct test *x)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED}, *bad;

	want(ibv_post_send(x->probe.qp, &wr, &bad) == 0, "a request to the child is posted");
	want(await_entry(x->probe.cq, "the request to the child completes").status == IBV_WC_RETRY_EXC_ERR,
	     "a request to a dead process ends with a retry error");
}

static void close_qp(struct ibv_qp *qp)
{
	want(ibv_destroy_qp(qp) == 0, "a QP can be destroyed");
}

static void test_close(struct test *x)
{
	struct talk *t = x->talk;
	struct ibv_cq *const cqs[] = {
		t->data.qp->send_cq, x->self.qp->send_cq, x->self.qp->recv_cq, x->other->send_cq, x->done, x->came,
		t->received,	     x->stuck_done};

	want(ibv_destroy_cq(t->received) == EBUSY, "a CQ used by QPs and by WAITs cannot be destroyed");
	to_error(x->stuck);
	want(await_entry(x->stuck_done, "a WAIT is flushed").status == IBV_WC_WR_FLUSH_ERR, "a WAIT is flushed");
	close_qp(x->stuck);
	close_qp(t->data.qp);
	want(ibv_destroy_cq(t->received) == EBUSY, "a CQ used by WAITs cannot be destroyed");
	close_qp(x->stuck_too); /* its WAITs are still pending */
	close_qp(t->runner.qp);
	close_qp(x->self.qp);
	close_qp(x->other);
	close_qp(x->probe.qp);
	for (unsigned i = 0; i < sizeof(cqs) / sizeof(cqs[0]); i++)
		want(ibv_destroy_cq(cqs[i]) == 0, "a CQ can be destroyed");
	want(ibv_dereg_mr(t->mr) == 0, "a region can be deregistered");
	free(t);
}

static void child_ends(const struct meeting *m)
{
	int status = -1;

	if (m->ending == KILLED)
		kill(m->pid, SIGKILL);
	want(waitpid(m->pid, &status, 0) == m->pid, "the child ends");
	want(m->ending == KILLED || status == 0, "the child ends well");
}

/** Run one way to end, once. `patient`: wait until the tester has noticed the child's death. */
static void one_round(struct meeting *m, const struct forked_end *device, bool patient)
{
	struct test x = {0};
	unsigned came;

	atomic_store(&m->begin, 1);
	test_open(&x, m, device);
	came = await_came(&x, 0, FIRST_LAPS);
	want(came >= FIRST_LAPS, "the NICs talk");
	want(came < LAPS, "the child ends amid its program, and the tester's");
	atomic_store(&m->laps, FIRST_LAPS);
	child_ends(m);
	if (patient)
		await_loss(&x);
	/* Move the QP to the error state: without a request under way it has not noticed the child's death. */
	to_error(x.talk->data.qp);
	want(await_entry(x.done, "the program ends").status == IBV_WC_SUCCESS, "the program ends well");
	want(await_came(&x, came, LAPS) == LAPS, "work for others is done");
	check_words(x.talk, came);
	for (unsigned i = 0; i < LAPS; i++)
		if (x.talk->words[2 * LAPS + i] != i + 1) {
			want(false, "messages to itself come whole, in order");
			break;
		}
	test_close(&x);
}

int main(void)
{
	struct meeting *m = forked_share(ENDINGS * ROUNDS * sizeof(*m));
	struct forked_end device;
	bool failed = false;

	setvbuf(stdout, NULL, _IOLBF, 0);
	for (unsigned i = 0; i < ENDINGS * ROUNDS; i++) {
		m[i].ending = i / ROUNDS;
		m[i].pid = forked_start(child, &m[i]);
	}
	forked_open(&device, 0);
	for (unsigned i = 0; i < ENDINGS * ROUNDS; i++) {
		one_round(&m[i], &device, i % ROUNDS == 0);
		if (i % ROUNDS + 1 < ROUNDS)
			continue;
		printf("%s %s\n", failures ? "FAIL" : "ok", names[i / ROUNDS]);
		failed |= failures > 0;
		failures = 0;
	}
	return failed;
}
