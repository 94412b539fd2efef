/* SPDX-License-Identifier: BSD-3-Clause */
/* forked.c - see forked.h. */
#include "forked.h"

#include <errno.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PSN	    0x123
#define PATIENCE_MS 60000

void forked_die(const char *what)
{
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, what);
	exit(1);
}

void *forked_share(size_t size)
{
	void *mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		forked_die("no memory to share");
	return mem;
}

void forked_open(struct forked_end *end, int side)
{
	int n = 0;
	struct ibv_device **list = ibv_get_device_list(&n);

	end->ctx = list && n > 0 ? ibv_open_device(list[side ? n - 1 : 0]) : NULL;
	if (!end->ctx)
		forked_die("no device");
	ibv_free_device_list(list);
	end->pd = ibv_alloc_pd(end->ctx);
	end->cq = ibv_create_cq(end->ctx, 2 * FORKED_DEPTH, NULL, NULL, 0);
	if (!end->pd || !end->cq)
		forked_die("no PD, or no CQ");
}

static struct ibv_qp *create_qp(const struct forked_end *end)
{
	struct ibv_exp_qp_init_attr init = {
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.cap = {FORKED_DEPTH, 1, 1, 1, 0},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_EXP_QP_INIT_ATTR_PD | IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG,
		.pd = end->pd,
		.max_atomic_arg = 32,
	};
	struct ibv_qp *qp = ibv_exp_create_qp(end->ctx, &init);

	if (!qp)
		forked_die("no QP");
	return qp;
}

void forked_join(struct forked_end *end, struct forked *f, int side)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC,
		.port_num = 1,
		.path_mtu = IBV_MTU_1024,
		.rq_psn = PSN,
		.sq_psn = PSN,
		.max_dest_rd_atomic = FORKED_DEPTH,
		.max_rd_atomic = FORKED_DEPTH,
		.min_rnr_timer = 1,
		.timeout = 16,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.hop_limit = 64}},
	};
	const int init = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	const int rtr = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	const int rts = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;

	if (ibv_modify_qp(end->qp, &attr, init))
		forked_die("no QP that can be connected");
	attr.qp_state = IBV_QPS_RTR;
	f->qpn[side] = end->qp->qp_num;
	if (ibv_query_gid(end->ctx, 1, 0, &f->gid[side]))
		forked_die("no GID");
	atomic_store(&f->ready[side], true);
	for (unsigned ms = 0; !atomic_load(&f->ready[!side]); ms++) {
		if (ms == PATIENCE_MS)
			forked_die("the other side has not come");
		usleep(1000);
	}
	attr.dest_qp_num = f->qpn[!side];
	attr.ah_attr.grh.dgid = f->gid[!side];
	if (ibv_modify_qp(end->qp, &attr, rtr))
		forked_die("no QP that receives");
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(end->qp, &attr, rts))
		forked_die("no QP that sends");
}

void forked_connect(struct forked_end *end, struct forked *f, int side)
{
	end->qp = create_qp(end);
	forked_join(end, f, side);
}

void forked_await(const atomic_uint *count, unsigned n)
{
	for (unsigned tenths = 0; atomic_load(count) < n; tenths++) {
		if (tenths == 10 * PATIENCE_MS)
			forked_die("the others have not come");
		usleep(100);
	}
}

void forked_serve(struct forked *f, unsigned n, void *mem, size_t len)
{
	struct forked_end end;
	struct ibv_mr *mr;

	forked_open(&end, 0);
	mr = ibv_reg_mr(end.pd, mem, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	if (!mr)
		forked_die("no region");
	for (unsigned i = 0; i < n; i++) {
		f[i].addr = (uintptr_t)mem;
		f[i].rkey = mr->rkey;
		forked_connect(&end, &f[i], 0);
	}
}

int forked_start(int (*fn)(void *arg), void *arg)
{
	const pid_t parent = getpid();
	pid_t pid = fork();

	if (pid < 0)
		forked_die("no process");
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent) /* the parent died before prctl took effect */
		_exit(1);
	exit(fn(arg));
}

bool forked_wait(const int *pids, unsigned n)
{
	bool good = true;
	int status;

	for (unsigned i = 0; i < n; i++)
		good &= waitpid(pids[i], &status, 0) == pids[i] && status == 0;
	return good;
}
