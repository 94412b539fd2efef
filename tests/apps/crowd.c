/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * crowd.c - one of many processes on a device: it sends messages to every other process, then does nothing until it is
 * killed. For the idle test.
 *
 *   crowd FOLDER COUNT   the COUNT processes find each other by files in the folder
 */
#include <dirent.h>
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define QKEY	 0x11223344u
#define MESSAGE	 4096
#define MESSAGES 80 /* messages to each process: more than a shared memory ring holds */
#define DEPTH	 64

static struct ibv_cq *cq;
static struct ibv_qp *qp;

static void die(const char *what)
{
	fprintf(stderr, "crowd: %s\n", what);
	exit(1);
}

static void qp_start(struct ibv_context *ctx, struct ibv_pd *pd)
{
	struct ibv_qp_init_attr init = {.qp_type = IBV_QPT_UD, .cap = {DEPTH, 1, 1, 1, 0}};
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = QKEY};

	cq = ibv_create_cq(ctx, DEPTH, NULL, NULL, 0);
	init.send_cq = init.recv_cq = cq;
	qp = cq ? ibv_create_qp(pd, &init) : NULL;
	if (!qp || ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY))
		die("no QP");
	attr.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE))
		die("no QP that receives");
	attr.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN))
		die("no QP that sends");
}

/** Publish this process's QPN, and wait for those of all the others. */
static void meet(const char *folder, unsigned count, unsigned *qpns)
{
	struct dirent *entry;
	char path[4096];
	unsigned n;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/%u", folder, qp->qp_num);
	fclose(fopen(path, "w"));
	do {
		usleep(10000);
		n = 0;
		dir = opendir(folder);
		while ((entry = readdir(dir)))
			if (entry->d_name[0] != '.' && n < count)
				qpns[n++] = (unsigned)strtoul(entry->d_name, NULL, 10);
		closedir(dir);
	} while (n < count);
}

static void send_to(struct ibv_ah *ah, unsigned qpn, struct ibv_mr *mr)
{
	struct ibv_sge sge = {.addr = (uintptr_t)mr->addr, .length = MESSAGE, .lkey = mr->lkey};
	struct ibv_send_wr *bad, wr = {.sg_list = &sge,
				       .num_sge = 1,
				       .opcode = IBV_WR_SEND,
				       .send_flags = IBV_SEND_SIGNALED,
				       .wr.ud = {.ah = ah, .remote_qpn = qpn, .remote_qkey = QKEY}};
	struct ibv_wc wc;
	int n;

	for (unsigned i = 0; i < MESSAGES; i++) {
		if (ibv_post_send(qp, &wr, &bad))
			die("a message was refused");
		while ((n = ibv_poll_cq(cq, 1, &wc)) == 0)
			;
		if (n < 0 || wc.status != IBV_WC_SUCCESS)
			die("a message was not sent");
	}
}

int main(int argc, char **argv)
{
	static char buf[MESSAGE];
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_pd *pd = ctx ? ibv_alloc_pd(ctx) : NULL;
	struct ibv_mr *mr = pd ? ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE) : NULL;
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1};
	unsigned count = argc == 3 ? (unsigned)strtoul(argv[2], NULL, 10) : 0;
	unsigned *qpns = calloc(count + 1, sizeof(*qpns));
	struct ibv_ah *ah;

	if (!mr || !qpns || count == 0)
		die("no device, or no arguments");
	qp_start(ctx, pd);
	ibv_query_gid(ctx, 1, 0, &attr.grh.dgid);
	ah = ibv_create_ah(pd, &attr);
	if (!ah)
		die("no address handle");
	meet(argv[1], count, qpns);
	for (unsigned i = 0; i < count; i++)
		if (qpns[i] != qp->qp_num)
			send_to(ah, qpns[i], mr);
	printf("done\n");
	fflush(stdout);
	for (;;)
		pause();
}
