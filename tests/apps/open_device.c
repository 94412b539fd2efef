/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open_device.c - opens the first device, creates the objects a typical program has, prints how long that took, and
 * waits to be killed. For the idle test.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e3 + t.tv_nsec / 1e6;
}

int main(void)
{
	static char buf[65536];
	double t0 = now_ms(), t1, t2;
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	t1 = now_ms();
	ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	t2 = now_ms();
	if (!ctx) {
		fprintf(stderr, "cannot open a device\n");
		return 1;
	}
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 256, NULL, NULL, 0);
	if (!pd || !cq || !ibv_reg_mr(pd, buf, sizeof(buf), IBV_ACCESS_LOCAL_WRITE)) {
		fprintf(stderr, "cannot make PD, CQ and MR\n");
		return 1;
	}
	qp = ibv_create_qp(pd, &(struct ibv_qp_init_attr){
				       .send_cq = cq, .recv_cq = cq, .qp_type = IBV_QPT_RC, .cap = {64, 64, 1, 1, 0}});
	if (!qp) {
		fprintf(stderr, "cannot make a QP\n");
		return 1;
	}
	printf("opened in %.1f ms (listing took %.1f ms)\n", t2 - t1, t1 - t0);
	fflush(stdout);
	for (;;)
		pause();
}
