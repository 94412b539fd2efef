/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * counter.c - a process counts in another's memory by fetch-and-add: each must be executed exactly once and in order,
 * whatever happens to packets and daemons meanwhile. For the uplink test.
 *
 *   counter -s PORT       the word's owner: serves one client
 *   counter -c HOST PORT  adds until SIGTERM; checks each original value, and what the word is at the end
 *
 * Prints "counting" when the first operation is done, and the count at the end. Exit code 1: an operation failed, was
 * lost or was executed twice.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "verify/verify.h"

#define DEPTH	4
#define TIMEOUT 19 /* 2 s, and seven retries: the time in which a daemon is back on a busy machine */

struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint64_t words[DEPTH]; /* the server's first is the counter; the client's receive original values */
};

/** What the sides tell each other. */
struct about {
	union ibv_gid gid;
	uint64_t addr;
	uint32_t qpn, rkey;
};

void die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vfprintf(stderr, fmt, args);
	va_end(args);
	fputc('\n', stderr);
	exit(1);
}

uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void open_side(struct side *s, struct about *mine)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_RC, .cap = {DEPTH, 1, 1, 1, 0}, .sq_sig_all = 1};

	s->ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	if (!s->ctx)
		die("cannot open a device: %s", strerror(errno));
	s->pd = ibv_alloc_pd(s->ctx);
	s->cq = ibv_create_cq(s->ctx, DEPTH, NULL, NULL, 0);
	s->mr = ibv_reg_mr(s->pd, s->words, sizeof(s->words), IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC);
	init.send_cq = init.recv_cq = s->cq;
	s->qp = s->cq && s->mr ? ibv_create_qp(s->pd, &init) : NULL;
	if (!s->qp || ibv_query_gid(s->ctx, 1, 0, &mine->gid) != 0)
		die("cannot make a queue pair");
	mine->addr = (uintptr_t)s->words;
	mine->rkey = s->mr->rkey;
	mine->qpn = s->qp->qp_num;
}

static void connect_side(struct side *s, const struct about *peer)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = peer->qpn,
		.max_dest_rd_atomic = DEPTH,
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = peer->gid, .hop_limit = 64}}};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS, .timeout = TIMEOUT, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = DEPTH};

	if (ibv_modify_qp(s->qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) != 0 ||
	    ibv_modify_qp(s->qp, &rtr,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				  IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0 ||
	    ibv_modify_qp(s->qp, &rts,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
				  IBV_QP_MAX_QP_RD_ATOMIC) != 0)
		die("cannot connect the queue pair");
}

static void post_add(struct side *s, const struct about *peer, uint64_t number)
{
	struct ibv_sge sge = {(uintptr_t)&s->words[number % DEPTH], sizeof(uint64_t), s->mr->lkey};
	struct ibv_send_wr wr = {.wr_id = number,
				 .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .wr.atomic = {.remote_addr = peer->addr, .rkey = peer->rkey, .compare_add = 1}};
	struct ibv_send_wr *bad;

	if (ibv_post_send(s->qp, &wr, &bad) != 0)
		die("cannot post operation %" PRIu64, number);
}

/** Take the completion of an operation; its original value must be its number. */
static void take(struct side *s, uint64_t number)
{
	struct ibv_wc wc;
	int n;

	while ((n = ibv_poll_cq(s->cq, 1, &wc)) == 0)
		;
	if (n < 0 || wc.status != IBV_WC_SUCCESS)
		die("operation %" PRIu64 ": %s", number, n < 0 ? "no completion" : ibv_wc_status_str(wc.status));
	if (wc.wr_id != number || s->words[number % DEPTH] != number)
		die("operation %" PRIu64 " found the value %" PRIu64, number, s->words[number % DEPTH]);
}

static volatile sig_atomic_t told;

static void on_term(int sig)
{
	told = 1;
}

static uint64_t count(struct side *s, const struct about *peer)
{
	uint64_t posted = 0, done = 0;

	while (!told || done < posted) {
		while (posted < done + DEPTH && !told)
			post_add(s, peer, posted++);
		if (done < posted)
			take(s, done++);
		if (done == DEPTH) {
			puts("counting");
			fflush(stdout);
		}
	}
	return done;
}

int main(int argc, char **argv)
{
	static struct side s;
	bool serves = argc == 3 && strcmp(argv[1], "-s") == 0;
	struct about mine = {0}, peer;
	uint64_t counted = 0, found;
	int fd;

	if (!serves && !(argc == 4 && strcmp(argv[1], "-c") == 0))
		die("usage: counter -s PORT | -c HOST PORT");
	signal(SIGTERM, on_term);
	open_side(&s, &mine);
	fd = serves ? oob_accept(atoi(argv[2])) : oob_connect(argv[2], atoi(argv[3]));
	oob_swap(fd, &mine, &peer, sizeof(mine));
	connect_side(&s, &peer);
	oob_agree(fd, 0);
	if (!serves)
		counted = count(&s, &peer);
	oob_agree(fd, 0); /* the server waits here, and its NIC adds */
	found = __atomic_load_n(&s.words[0], __ATOMIC_ACQUIRE);
	if (serves)
		oob_send(fd, &found, sizeof(found));
	else
		oob_recv(fd, &found, sizeof(found));
	if (!serves && found != counted)
		die("%" PRIu64 " additions, but the word is %" PRIu64, counted, found);
	printf("%" PRIu64 " counted\n", found);
	return 0;
}
