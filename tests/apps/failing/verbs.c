/* SPDX-License-Identifier: BSD-3-Clause */
/* verbs.c - the scenario of runner.h through verbs: an RC connection, SENDs, a WRITE, a READ and an atomic, and a
 * message back. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runner.h"
#include "wc.h"

#define SHORT 64u
#define LONG  32768u
#define AREA  (8 * LONG)
#define WAIT  20.0 /* seconds */
#define DEPTH 16

#define AT_SEND	 0u /* offset in the victim's memory */
#define AT_READ	 (2 * LONG)
#define AT_OLD	 (3 * LONG)
#define AT_RECV	 (4 * LONG)
#define AT_WRITE (1 * LONG) /* offset in the partner's memory */
#define AT_WORD	 (3 * LONG)

struct side {
	struct ibv_device **list;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	union ibv_gid gid;
	uint8_t *area;
};

struct hello {
	union ibv_gid gid;
	uint32_t qpn, psn, rkey;
	uint64_t addr;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- open and close ------------------------------------------------------------------------------------------ */

/** For calls that return an errno. */
#define MUST_0(phase, call)                                                                                            \
	do {                                                                                                           \
		int rc = call;                                                                                         \
		if (rc)                                                                                                \
			return failed(f, phase, #call, rc);                                                            \
	} while (0)

static bool device_open(struct side *s, struct failure *f)
{
	MUST_TRUE(PHASE_OPEN, s->list = ibv_get_device_list(NULL));
	MUST_TRUE(PHASE_OPEN, s->list[0]);
	MUST_TRUE(PHASE_OPEN, s->ctx = ibv_open_device(s->list[0]));
	MUST_0(PHASE_OPEN, ibv_query_gid(s->ctx, 1, 0, &s->gid));
	MUST_TRUE(PHASE_OPEN, s->pd = ibv_alloc_pd(s->ctx));
	MUST_TRUE(PHASE_OPEN, s->area = calloc(1, AREA));
	MUST_TRUE(PHASE_OPEN, s->mr = ibv_reg_mr(s->pd, s->area, AREA,
						 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
							 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC));
	return true;
}

static bool qp_open(struct side *s, struct failure *f)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {DEPTH, DEPTH, 1, 1, 0}};

	MUST_TRUE(PHASE_OPEN, s->channel = ibv_create_comp_channel(s->ctx));
	MUST_TRUE(PHASE_OPEN, s->cq = ibv_create_cq(s->ctx, 4 * DEPTH, NULL, s->channel, 0));
	init.send_cq = init.recv_cq = s->cq;
	MUST_TRUE(PHASE_OPEN, s->qp = ibv_create_qp(s->pd, &init));
	return true;
}

static bool qp_close(struct side *s, struct failure *f)
{
	struct ibv_qp *qp = s->qp;
	struct ibv_cq *cq = s->cq;
	struct ibv_comp_channel *channel = s->channel;

	s->qp = NULL;
	s->cq = NULL;
	s->channel = NULL;
	if (qp)
		MUST_0(PHASE_CLOSE, ibv_destroy_qp(qp));
	if (cq)
		MUST_0(PHASE_CLOSE, ibv_destroy_cq(cq));
	if (channel)
		MUST_0(PHASE_CLOSE, ibv_destroy_comp_channel(channel));
	return true;
}

static bool device_close(struct side *s, struct failure *f)
{
	struct side was = *s;

	memset(s, 0, sizeof(*s));
	if (was.mr)
		MUST_0(PHASE_CLOSE, ibv_dereg_mr(was.mr));
	if (was.pd)
		MUST_0(PHASE_CLOSE, ibv_dealloc_pd(was.pd));
	if (was.ctx)
		MUST_0(PHASE_CLOSE, ibv_close_device(was.ctx));
	if (was.list)
		ibv_free_device_list(was.list);
	free(was.area);
	return true;
}

/* ---- connect ------------------------------------------------------------------------------------------------- */

static bool qp_connect(struct side *s, const struct hello *own, const struct hello *peer, struct failure *f)
{
	struct ibv_qp_attr a = {.qp_state = IBV_QPS_INIT,
				.port_num = 1,
				.qp_access_flags =
					IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};

	MUST_0(PHASE_CONNECT,
	       ibv_modify_qp(s->qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
	a.qp_state = IBV_QPS_RTR;
	a.path_mtu = IBV_MTU_1024;
	a.dest_qp_num = peer->qpn;
	a.rq_psn = peer->psn;
	a.max_dest_rd_atomic = 4;
	a.min_rnr_timer = 4;
	a.ah_attr = (struct ibv_ah_attr){.is_global = 1, .port_num = 1, .grh = {.dgid = peer->gid, .hop_limit = 64}};
	MUST_0(PHASE_CONNECT, ibv_modify_qp(s->qp, &a,
					    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
						    IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = own->psn;
	a.timeout = 14;
	a.retry_cnt = 7;
	a.rnr_retry = 7;
	a.max_rd_atomic = 4;
	MUST_0(PHASE_CONNECT, ibv_modify_qp(s->qp, &a,
					    IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						    IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC));
	return true;
}

static struct hello hello_of(const struct side *s)
{
	return (struct hello){.gid = s->gid,
			      .qpn = s->qp->qp_num,
			      .psn = s->qp->qp_num & 0xffff,
			      .rkey = s->mr->rkey,
			      .addr = (uintptr_t)s->area};
}

static bool recv_post(struct side *s, uint32_t at, uint32_t len, uint64_t id, struct failure *f)
{
	struct ibv_sge sge = {(uintptr_t)s->area + at, len, s->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = id, .sg_list = &sge, .num_sge = 1}, *bad;

	MUST_0(PHASE_CONNECT, ibv_post_recv(s->qp, &wr, &bad));
	return true;
}

/* ---- transfer ------------------------------------------------------------------------------------------------ */

/** Wait for n completions, by polling or (`sleeps`) on the completion channel. Error completions: see wc.h. */
static bool completions(struct side *s, unsigned n, bool sleeps, struct failure *f)
{
	struct pollfd p = {.fd = s->channel->fd, .events = POLLIN};
	double end = now() + WAIT;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	void *ctx;

	while (n > 0) {
		int got = ibv_poll_cq(s->cq, 1, &wc);

		if (got < 0)
			return failed(f, PHASE_TRANSFER, "ibv_poll_cq", -got);
		if (got == 1 && wc.status != IBV_WC_SUCCESS)
			return broken(f, PHASE_TRANSFER, wc.status);
		n -= (unsigned)got;
		if (got == 0 && now() > end)
			return lost(f, PHASE_TRANSFER, "no completion", 0);
		if (got || !sleeps)
			continue;
		MUST_0(PHASE_TRANSFER, ibv_req_notify_cq(s->cq, 0));
		got = ibv_poll_cq(s->cq, 1, &wc);
		if (got == 1 && wc.status != IBV_WC_SUCCESS)
			return broken(f, PHASE_TRANSFER, wc.status);
		if (got == 1) {
			n--;
			continue;
		}
		if (poll(&p, 1, (int)(WAIT * 1000)) == 1) {
			MUST_0(PHASE_TRANSFER, ibv_get_cq_event(s->channel, &cq, &ctx));
			ibv_ack_cq_events(cq, 1);
		}
	}
	return true;
}

static bool post(struct side *s, struct ibv_send_wr *wr, uint32_t at, uint32_t len, struct failure *f)
{
	struct ibv_sge sge = {(uintptr_t)s->area + at, len, s->mr->lkey};
	struct ibv_send_wr *bad;

	wr->sg_list = &sge;
	wr->num_sge = 1;
	wr->send_flags = IBV_SEND_SIGNALED;
	MUST_0(PHASE_TRANSFER, ibv_post_send(s->qp, wr, &bad));
	return true;
}

static bool rdma(struct side *s, const struct hello *to, enum ibv_wr_opcode opcode, uint32_t at, uint32_t there,
		 uint32_t len, struct failure *f)
{
	struct ibv_send_wr wr = {.opcode = opcode};

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = to->addr + there;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.rkey = to->rkey;
	} else {
		wr.wr.rdma.remote_addr = to->addr + there;
		wr.wr.rdma.rkey = to->rkey;
	}
	return post(s, &wr, at, len, f);
}

static bool transfer(struct side *s, const struct hello *to, struct failure *f)
{
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	uint64_t old;

	fill(s->area + AT_SEND, LONG, 1);
	if (!post(s, &wr, AT_SEND, SHORT, f) || !completions(s, 1, false, f) || !post(s, &wr, AT_SEND, LONG, f) ||
	    !completions(s, 1, false, f))
		return false;
	if (!rdma(s, to, IBV_WR_RDMA_WRITE, AT_SEND, AT_WRITE, LONG, f) ||
	    !rdma(s, to, IBV_WR_RDMA_READ, AT_READ, AT_WRITE, LONG, f) ||
	    !rdma(s, to, IBV_WR_ATOMIC_FETCH_AND_ADD, AT_OLD, AT_WORD, 8, f) || !completions(s, 3, true, f))
		return false;
	if (!holds(s->area + AT_READ, LONG, 1))
		return failed(f, PHASE_TRANSFER, "wrong data", 0);
	memcpy(&old, s->area + AT_OLD, sizeof(old));
	if (old != 5)
		return failed(f, PHASE_TRANSFER, "wrong result", 0);
	/* The partner answers the last message. */
	if (!post(s, &wr, AT_SEND, SHORT, f) || !completions(s, 2, true, f))
		return false;
	return holds(s->area + AT_RECV, LONG, 2) || failed(f, PHASE_TRANSFER, "wrong answer", 0);
}

static bool talk(struct side *s, int fd, struct failure *f)
{
	struct hello own, peer;

	if (!device_open(s, f) || !qp_open(s, f))
		return false;
	if (fd < 0)
		return true;
	own = hello_of(s);
	if (!say(fd, &own, sizeof(own)) || !hear(fd, &peer, sizeof(peer)))
		return failed(f, PHASE_CONNECT, "the partner does not answer", 0);
	if (!qp_connect(s, &own, &peer, f) || !recv_post(s, AT_RECV, LONG, 0, f))
		return false;
	return say(fd, "y", 1) && hear(fd, &(char){0}, 1) ? transfer(s, &peer, f)
							  : failed(f, PHASE_CONNECT, "the partner has gone", 0);
}

static bool victim(int fd, struct failure *f)
{
	struct side s = {0};
	bool well = talk(&s, fd, f);

	well &= qp_close(&s, f);
	return device_close(&s, f) && well;
}

/* ---- the partner --------------------------------------------------------------------------------------------- */

static struct side partner;

static bool partner_open(void)
{
	struct failure f = {0};

	return device_open(&partner, &f);
}

static void serve(int fd, struct failure *f)
{
	struct side *s = &partner;
	struct ibv_send_wr wr = {.opcode = IBV_WR_SEND};
	struct hello own, peer;
	const uint64_t word = 5;

	fill(s->area, LONG, 2);
	memcpy(s->area + AT_WORD, &word, sizeof(word));
	if (!qp_open(s, f) || !hear(fd, &peer, sizeof(peer)))
		return;
	own = hello_of(s);
	if (!say(fd, &own, sizeof(own)) || !qp_connect(s, &own, &peer, f))
		return;
	for (unsigned i = 0; i < 3; i++)
		if (!recv_post(s, AT_RECV, LONG, i, f))
			return;
	if (!hear(fd, &(char){0}, 1) || !say(fd, "y", 1))
		return;
	for (unsigned got = 0; got < 3;) { /* wait as long as the victim is alive */
		struct pollfd p = {.fd = fd, .events = POLLIN};
		struct ibv_wc wc;
		int n = ibv_poll_cq(s->cq, 1, &wc);

		if (n < 0 || (n == 1 && wc.status != IBV_WC_SUCCESS) || (n == 0 && poll(&p, 1, 0) != 0))
			return;
		got += (unsigned)n;
	}
	if (post(s, &wr, 0, LONG, f))
		hear(fd, &(char){0}, 1); /* returns when the victim has ended */
}

static void partner_serve(int fd)
{
	struct failure f = {0};

	serve(fd, &f);
	qp_close(&partner, &f);
}

const struct scenario scenario = {.victim = victim, .partner_open = partner_open, .partner_serve = partner_serve};
