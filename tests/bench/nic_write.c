/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_write.c - 8-byte RDMA WRITEs through the transport core alone: two NICs in one process, frames handed over by
 * pointer. For counting instructions: functions named requester_* do everything on the requester's side, functions
 * named responder_* everything on the responder's side, so that callgrind can count one side (--toggle-collect).
 *
 * usage: nic_write [WRITES [DEPTH [key]]]     `key`: packets are authenticated
 *
 * Prints only errors; exit code 0 when all WRITEs succeeded.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "nic.h"

#define DEPTH_MAX 64
#define NOINLINE  __attribute__((noinline))

struct side {
	struct nic *nic;
	struct nic_pd *pd;
	struct nic_mr *mr;
	struct nic_cq *cq;
	struct nic_qp *qp;
	struct nic_gid gid;
	uint64_t random;
	uint8_t memory[4096];
};

static struct side requester, responder;
static uint8_t packets[DEPTH_MAX][NIC_FRAME_MAX];
static uint64_t now_ns = 1000000;

static void check(int rc, const char *what)
{
	if (rc) {
		fprintf(stderr, "nic_write: %s: %s\n", what, strerror(-rc));
		exit(1);
	}
}

/** A reproducible generator: a measurement needs no secret random numbers. */
static void random_fill(void *ctx, void *buf, size_t len)
{
	struct side *side = ctx;
	uint8_t *out = buf;

	for (size_t i = 0; i < len; i++) {
		side->random = side->random * 6364136223846793005u + 1442695040888963407u;
		out[i] = side->random >> 56;
	}
}

static void side_make(struct side *side, uint8_t last, bool keyed)
{
	static const uint8_t key[NIC_KEY_LEN];
	struct nic_config config = {.random = random_fill, .ctx = side, .key = keyed ? key : NULL};
	struct nic_qp_init init = {.type = NIC_QPT_RC, .cap = {DEPTH_MAX, 1, 1, 1, 0}};
	uint8_t gid[16] = {[10] = 0xff, [11] = 0xff, [12] = 10, [15] = last};

	side->random = last;
	memcpy(side->gid.raw, gid, sizeof(gid));
	check(nic_create(&config, &side->nic), "nic_create");
	check(nic_gid_set(side->nic, 0, &side->gid), "nic_gid_set");
	check(nic_pd_alloc(side->nic, &side->pd), "nic_pd_alloc");
	check(nic_mr_reg(side->pd, side->memory, sizeof(side->memory), (uintptr_t)side->memory,
			 NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE, &side->mr),
	      "nic_mr_reg");
	check(nic_cq_create(side->nic, DEPTH_MAX, NULL, &side->cq), "nic_cq_create");
	init.pd = side->pd;
	init.send_cq = init.recv_cq = side->cq;
	check(nic_qp_create(side->nic, &init, &side->qp), "nic_qp_create");
}

static void side_connect(struct side *side, const struct side *peer)
{
	struct nic_qp_attr attr = {.qp_state = NIC_QPS_INIT, .port_num = 1, .qp_access_flags = NIC_ACCESS_REMOTE_WRITE};

	check(nic_qp_modify(side->qp, &attr, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_ACCESS_FLAGS),
	      "INIT");
	attr = (struct nic_qp_attr){.qp_state = NIC_QPS_RTR,
				    .path_mtu = NIC_MTU_1024,
				    .dest_qp_num = nic_qp_num(peer->qp),
				    .max_dest_rd_atomic = 1,
				    .min_rnr_timer = 12,
				    .av = {.dgid = peer->gid}};
	check(nic_qp_modify(side->qp, &attr,
			    NIC_QP_STATE | NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN |
				    NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER),
	      "RTR");
	attr = (struct nic_qp_attr){
		.qp_state = NIC_QPS_RTS, .timeout = 14, .retry_cnt = 7, .rnr_retry = 7, .max_rd_atomic = 1};
	check(nic_qp_modify(side->qp, &attr,
			    NIC_QP_STATE | NIC_QP_SQ_PSN | NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY |
				    NIC_QP_MAX_QP_RD_ATOMIC),
	      "RTS");
}

static void frames_deliver(struct nic *nic, const struct nic_tx_frame *frames, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct nic_rx_frame rx = {.data = frames[i].data, .len = frames[i].len};

		nic_rx(nic, &rx, now_ns);
	}
}

static NOINLINE unsigned requester_send(unsigned depth, struct nic_tx_frame *frames)
{
	struct nic_sge sge = {(uintptr_t)requester.memory, 8, nic_mr_lkey(requester.mr)};
	struct nic_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .opcode = NIC_WR_RDMA_WRITE, .flags = NIC_SEND_SIGNALED};

	wr.rdma.remote_addr = (uintptr_t)responder.memory;
	wr.rdma.rkey = nic_mr_rkey(responder.mr);
	for (unsigned i = 0; i < depth; i++)
		check(nic_post_send(requester.qp, &wr), "nic_post_send");
	return nic_tx(requester.nic, frames, DEPTH_MAX, now_ns);
}

static NOINLINE unsigned responder_serve(struct nic_tx_frame *frames, unsigned n)
{
	frames_deliver(responder.nic, frames, n);
	return nic_tx(responder.nic, frames, DEPTH_MAX, now_ns);
}

static NOINLINE void requester_complete(const struct nic_tx_frame *frames, unsigned n, unsigned depth)
{
	struct nic_wc wc[DEPTH_MAX];
	int got;

	frames_deliver(requester.nic, frames, n);
	got = nic_cq_poll(requester.cq, DEPTH_MAX, wc);
	if (got != (int)depth) {
		fprintf(stderr, "nic_write: %d of %u WRITEs completed\n", got, depth);
		exit(1);
	}
	for (int i = 0; i < got; i++)
		if (wc[i].status) {
			fprintf(stderr, "nic_write: a WRITE ended with status %u\n", wc[i].status);
			exit(1);
		}
}

int main(int argc, char **argv)
{
	unsigned long writes = argc > 1 ? strtoul(argv[1], NULL, 0) : 100000;
	unsigned depth = argc > 2 ? strtoul(argv[2], NULL, 0) : 1;
	bool keyed = argc > 3 && strcmp(argv[3], "key") == 0;
	struct nic_tx_frame frames[DEPTH_MAX] = {0};

	if (!depth || depth > DEPTH_MAX || !writes || writes % depth) {
		fprintf(stderr,
			"usage: nic_write [WRITES [DEPTH [key]]], DEPTH from 1 to %d, WRITES a multiple of it\n",
			DEPTH_MAX);
		return 1;
	}
	for (unsigned i = 0; i < DEPTH_MAX; i++)
		frames[i].data = packets[i];
	side_make(&requester, 1, keyed);
	side_make(&responder, 2, keyed);
	side_connect(&requester, &responder);
	side_connect(&responder, &requester);
	for (unsigned long done = 0; done < writes; done += depth) {
		unsigned n = requester_send(depth, frames);

		n = responder_serve(frames, n);
		requester_complete(frames, n, depth);
		now_ns += 1000;
	}
	nic_destroy(requester.nic);
	nic_destroy(responder.nic);
	return 0;
}
