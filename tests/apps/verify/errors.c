/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * errors.c - error cases of RC through the verbs interface: which completion status each end sees, which requests are
 * flushed, and that a good request before the failing one still succeeds. Each case has a new pair of QPs; the client
 * is the requester. The names contain the ids of conformance points.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include "verify.h"

enum fault {
	FAULT_RKEY,	  /* an R_Key that does not exist */
	FAULT_RANGE,	  /* ends one byte after the region */
	FAULT_RIGHT,	  /* the region does not allow remote access */
	FAULT_MISALIGNED, /* atomic on an odd address */
	FAULT_RECV_SHORT, /* receive buffer one byte too small */
	FAULT_RECV_NONE,  /* no receive posted, one RNR retry */
	FAULT_RECV_LKEY,  /* receive buffer with an L_Key that does not exist */
	FAULT_LOCAL_LKEY, /* source with an L_Key that does not exist */
};

struct error_case {
	const char *name;
	enum fault fault;
	enum ibv_wr_opcode opcode;
	enum ibv_wc_status requester;
	int responder; /* completion status of the responder's receive; -1: there is no receive */
};

static const struct error_case cases[] = {
	{"verify__RL_06_RS_07_write_unknown_rkey", FAULT_RKEY, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, -1},
	{"verify__RL_06_read_unknown_rkey", FAULT_RKEY, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR, -1},
	{"verify__RL_06_fetch_add_unknown_rkey", FAULT_RKEY, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WC_REM_ACCESS_ERR, -1},
	{"verify__RL_06_write_past_the_region", FAULT_RANGE, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, -1},
	{"verify__RL_06_read_past_the_region", FAULT_RANGE, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR, -1},
	{"verify__RO_03_write_without_the_right", FAULT_RIGHT, IBV_WR_RDMA_WRITE, IBV_WC_REM_ACCESS_ERR, -1},
	{"verify__RO_03_read_without_the_right", FAULT_RIGHT, IBV_WR_RDMA_READ, IBV_WC_REM_ACCESS_ERR, -1},
	{"verify__AT_01_compare_swap_misaligned", FAULT_MISALIGNED, IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WC_REM_INV_REQ_ERR,
	 -1},
	{"verify__RL_04_send_into_short_buffer", FAULT_RECV_SHORT, IBV_WR_SEND, IBV_WC_REM_INV_REQ_ERR,
	 IBV_WC_LOC_LEN_ERR},
	{"verify__RT_06_send_without_receive", FAULT_RECV_NONE, IBV_WR_SEND, IBV_WC_RNR_RETRY_EXC_ERR, -1},
	{"verify__QS_04_send_bad_lkey_of_receiver", FAULT_RECV_LKEY, IBV_WR_SEND, IBV_WC_REM_OP_ERR,
	 IBV_WC_LOC_PROT_ERR},
	{"verify__RQ_14_write_bad_lkey", FAULT_LOCAL_LKEY, IBV_WR_RDMA_WRITE, IBV_WC_LOC_PROT_ERR, -1},
};

struct keys {
	uint64_t sink_addr, target_end;
	uint32_t sink_rkey;
};

static void wc_wait(struct ibv_cq *cq, struct ibv_wc *wc, const struct plan *plan, const char *name)
{
	uint64_t deadline = now_ms() + plan->stall_ms;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, wc)))
		if (now_ms() > deadline)
			die("%s: no completion within %u ms", name, plan->stall_ms);
	if (n < 0)
		die("%s: ibv_poll_cq: %d", name, n);
}

/** Post a chain of requests: a good WRITE, the failing request, and two more requests that must be flushed. */
static void requester_run(struct end *end, const struct plan *plan, const struct error_case *c, const struct keys *peer)
{
	static const char *const step[] = {"the good write", "the failing request", "the third", "the fourth"};
	enum ibv_wc_status expected[] = {IBV_WC_SUCCESS, c->requester, IBV_WC_WR_FLUSH_ERR, IBV_WC_WR_FLUSH_ERR};
	bool atomic = c->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || c->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
	struct area *local = &end->area[c->opcode == IBV_WR_RDMA_READ || atomic ? AREA_RESULT : AREA_TX];
	struct ibv_sge good = {(uintptr_t)end->area[AREA_TX].mem, 100, end->area[AREA_TX].mr->lkey};
	struct ibv_sge sge = {(uintptr_t)local->mem, atomic ? 8 : 100, local->mr->lkey};
	struct ibv_send_wr wr[4] = {0}, *bad;
	uint64_t addr = end->remote.target_addr;
	uint32_t rkey = end->remote.target_rkey;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ibv_wc wc;
	int rc;

	if (c->fault == FAULT_RKEY)
		rkey ^= 0x5a5a00;
	if (c->fault == FAULT_RANGE)
		addr = peer->target_end - sge.length + 1;
	if (c->fault == FAULT_MISALIGNED)
		addr += 4;
	if (c->fault == FAULT_RIGHT) {
		addr = peer->sink_addr;
		rkey = peer->sink_rkey;
	}
	if (c->fault == FAULT_LOCAL_LKEY)
		sge.lkey ^= 0x5a5a00;
	for (int i = 0; i < 4; i++) {
		wr[i] = (struct ibv_send_wr){.wr_id = 70 + i,
					     .sg_list = &good,
					     .num_sge = 1,
					     .opcode = IBV_WR_RDMA_WRITE,
					     .send_flags = IBV_SEND_SIGNALED,
					     .next = i < 3 ? &wr[i + 1] : NULL};
		wr[i].wr.rdma.remote_addr = end->remote.target_addr;
		wr[i].wr.rdma.rkey = end->remote.target_rkey;
	}
	wr[1].sg_list = &sge;
	wr[1].opcode = c->opcode;
	if (atomic) {
		wr[1].wr.atomic.remote_addr = addr;
		wr[1].wr.atomic.rkey = rkey;
	} else {
		wr[1].wr.rdma.remote_addr = addr;
		wr[1].wr.rdma.rkey = rkey;
	}
	rc = ibv_post_send(end->link[0].qp, wr, &bad);
	if (rc)
		die("%s: post failed: %s", c->name, strerror(rc));
	for (int i = 0; i < 4; i++) {
		wc_wait(end->send_cq, &wc, plan, c->name);
		if (wc.wr_id != (uint64_t)(70 + i) || wc.status != expected[i])
			die("%s: %s: wr_id %llu status \"%s\", must be %d \"%s\"", c->name, step[i],
			    (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status), 70 + i,
			    ibv_wc_status_str(expected[i]));
	}
	if (ibv_query_qp(end->link[0].qp, &attr, IBV_QP_STATE, &init) || attr.qp_state != IBV_QPS_ERR)
		die("%s: the QP is in state %d, not in error", c->name, attr.qp_state);
}

static void responder_prepare(struct end *end, const struct error_case *c)
{
	struct area *sink = &end->area[AREA_SINK];
	struct ibv_sge sge = {(uintptr_t)sink->mem, c->fault == FAULT_RECV_SHORT ? 99 : 4096, sink->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = 90, .sg_list = &sge, .num_sge = 1}, *bad;

	if (c->fault == FAULT_RECV_LKEY)
		sge.lkey ^= 0x5a5a00;
	if (c->responder >= 0 && ibv_post_recv(end->link[0].qp, &wr, &bad))
		die("%s: post receive: %s", c->name, strerror(errno));
}

static void responder_check(struct end *end, const struct plan *plan, const struct error_case *c)
{
	struct ibv_wc wc;

	if (c->responder < 0)
		return;
	wc_wait(end->recv_cq, &wc, plan, c->name);
	if (wc.wr_id != 90 || (int)wc.status != c->responder)
		die("%s: the receive ended with \"%s\", must be \"%s\"", c->name, ibv_wc_status_str(wc.status),
		    ibv_wc_status_str(c->responder));
}

void errors_run(struct end *end, const struct plan *plan)
{
	struct plan one = *plan;
	struct area *target = &end->area[AREA_TARGET];
	struct keys mine = {(uintptr_t)end->area[AREA_SINK].mem, (uintptr_t)target->mem + target->len,
			    end->area[AREA_SINK].mr->rkey},
		    theirs;

	one.qps = 1;
	oob_swap(end->oob, &mine, &theirs, sizeof(mine));
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct error_case *c = &cases[i];

		links_destroy(end);
		end->link[0].psn = 0xfffffe;
		qp_make(end, &one, SVC_RC, &end->link[0], false);
		end->links = 1;
		end->local.link[0] = (struct link_info){end->link[0].qp->qp_num, end->link[0].psn};
		oob_swap(end->oob, &end->local, &end->remote, sizeof(end->local));
		qp_bring_up(end, &one, SVC_RC, &end->link[0], &end->remote.link[0],
			    c->fault == FAULT_RECV_NONE ? 1 : 7);
		if (end->self)
			responder_prepare(end, c);
		oob_agree(end->oob, 0);
		if (end->self)
			responder_check(end, plan, c);
		else
			requester_run(end, plan, c, &theirs);
		oob_agree(end->oob, 0);
		if (!end->self)
			printf("ok %s\n", c->name);
	}
	links_destroy(end);
}
