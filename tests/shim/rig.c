/* SPDX-License-Identifier: BSD-3-Clause */
/* rig.c - fixture of the shim's tests (rig.h). */
#include "rig.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void end_open(struct rig_end *end, struct ibv_device *device)
{
	end->ctx = ibv_open_device(device);
	assert_non_null(end->ctx);
	end->pd = ibv_alloc_pd(end->ctx);
	assert_non_null(end->pd);
	end->cq = ibv_create_cq(end->ctx, RIG_DEPTH, NULL, NULL, 0);
	assert_non_null(end->cq);
	end->buf = calloc(1, RIG_BUF);
	assert_non_null(end->buf);
	end->mr = ibv_reg_mr(end->pd, end->buf, RIG_BUF, RIG_ACCESS);
	assert_non_null(end->mr);
	assert_int_equal(ibv_query_gid(end->ctx, 1, 0, &end->gid), 0);
}

void rig_devices(void)
{
	int pid = getpid();
	char devices[64];

	snprintf(devices, sizeof(devices), "127.%d.%d.1,127.%d.%d.2", 64 + pid / 250 % 128, 1 + pid % 250,
		 64 + pid / 250 % 128, 1 + pid % 250);
	setenv("UROCE_DEVICES", devices, 1);
}

/** Open the ends on the first n devices. */
static int setup(void **state, int n)
{
	struct rig *rig = calloc(1, sizeof(*rig));
	struct ibv_device **list;
	int n_devices;

	list = ibv_get_device_list(&n_devices);
	assert_non_null(list);
	assert_true(n_devices >= n);
	for (int i = 0; i < 2; i++)
		end_open(&rig->end[i], list[i % n]);
	ibv_free_device_list(list);
	*state = rig;
	return 0;
}

int rig_setup(void **state)
{
	rig_devices();
	return setup(state, 2);
}

int rig_setup_again(void **state)
{
	return setup(state, 2);
}

int rig_setup_ipv6(void **state)
{
	const struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_DGRAM, 0), rc = bind(fd, (const struct sockaddr *)&loopback, sizeof(loopback));

	close(fd);
	*state = NULL;
	if (rc)
		return 0;
	setenv("UROCE_DEVICES", "::1", 1);
	return setup(state, 1);
}

int rig_setup_inline(void **state)
{
	int err;

	setenv("UROCE_PROGRESS", "inline", 1);
	err = rig_setup(state);
	unsetenv("UROCE_PROGRESS");
	return err;
}

int rig_teardown(void **state)
{
	struct rig *rig = *state;

	if (!rig)
		return 0;
	rig_disconnect(rig);
	for (int i = 0; i < 2; i++) {
		struct rig_end *end = &rig->end[i];

		assert_int_equal(ibv_dereg_mr(end->mr), 0);
		assert_int_equal(ibv_destroy_cq(end->cq), 0);
		assert_int_equal(ibv_dealloc_pd(end->pd), 0);
		assert_int_equal(ibv_close_device(end->ctx), 0);
		free(end->buf);
	}
	free(rig);
	return 0;
}

struct ibv_qp_init_attr rig_qp_init(struct rig_end *end, enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.send_cq = end->cq,
		.recv_cq = end->cq,
		.cap = {16, 16, 4, 4, 64},
		.qp_type = type,
	};
}

static void to_init(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = RIG_QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT;

	assert_int_equal(ibv_modify_qp(qp, &a, mask | (qp->qp_type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS)),
			 0);
}

static void to_rts(struct ibv_qp *qp, const union ibv_gid *gid, uint32_t qpn)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = qpn,
		.rq_psn = 100,
		.sq_psn = 100,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = *gid, .hop_limit = 64}},
	};
	int connected = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;

	if (qp->qp_type == IBV_QPT_UD)
		connected = IBV_QP_STATE;
	else if (qp->qp_type == IBV_QPT_RC)
		connected |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	assert_int_equal(ibv_modify_qp(qp, &a, connected), 0);
	a.qp_state = IBV_QPS_RTS;
	connected = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (qp->qp_type == IBV_QPT_RC)
		connected |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
	assert_int_equal(ibv_modify_qp(qp, &a, connected), 0);
}

void rig_connect_qps(struct rig *rig, struct ibv_qp *a, struct ibv_qp *b)
{
	to_init(a);
	to_init(b);
	to_rts(a, &rig->end[1].gid, b->qp_num);
	to_rts(b, &rig->end[0].gid, a->qp_num);
}

void rig_connect(struct rig *rig, enum ibv_qp_type type)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_init_attr init = rig_qp_init(&rig->end[i], type);

		rig->end[i].qp = ibv_create_qp(rig->end[i].pd, &init);
		assert_non_null(rig->end[i].qp);
	}
	rig_connect_qps(rig, rig->end[0].qp, rig->end[1].qp);
}

void rig_disconnect(struct rig *rig)
{
	for (int i = 0; i < 2; i++) {
		if (rig->end[i].qp)
			assert_int_equal(ibv_destroy_qp(rig->end[i].qp), 0);
		rig->end[i].qp = NULL;
	}
}

struct ibv_sge rig_sge(struct rig_end *end, size_t offset, uint32_t length)
{
	return (struct ibv_sge){(uintptr_t)end->buf + offset, length, end->mr->lkey};
}

/* Wait for a completion, for 10 s at most. Both devices belong to this process: polling this CQ makes no progress
 * for the other device, but the engines' threads do. */
struct ibv_wc rig_wait(struct ibv_cq *cq)
{
	time_t end = time(NULL) + 10;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(cq, 1, &wc)))
		if (time(NULL) > end)
			fail_msg("no completion came");
	assert_int_equal(n, 1);
	return wc;
}

void rig_post_recv(struct rig_end *end, uint64_t wr_id, size_t offset, uint32_t length)
{
	struct ibv_sge sge = rig_sge(end, offset, length);
	struct ibv_recv_wr wr = {.wr_id = wr_id, .sg_list = &sge, .num_sge = 1}, *bad;

	assert_int_equal(ibv_post_recv(end->qp, &wr, &bad), 0);
}

struct ibv_ah *rig_ah(struct rig *rig)
{
	struct ibv_ah_attr attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = rig->end[1].gid, .hop_limit = 64}};

	return ibv_create_ah(rig->end[0].pd, &attr);
}

long rig_counter(const struct rig_end *end, const char *name)
{
	char path[200], text[32] = "";
	int fd;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/ports/1/hw_counters/%s",
		 ibv_get_device_name(end->ctx->device), name);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	assert_true(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return strtol(text, NULL, 10);
}

int rig_in_child(int (*call)(void *arg), void *arg)
{
	const int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGSYS};
	int status;
	pid_t pid = fork();

	if (!pid) {
		/* Without these, a signal or a failed assertion would make cmocka run the next test in the child. */
		for (size_t i = 0; i < sizeof(caught) / sizeof(caught[0]); i++)
			signal(caught[i], SIG_DFL);
		setenv("CMOCKA_TEST_ABORT", "1", 1);
		alarm(60);
		_exit(call(arg));
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

void rig_send_checked(struct rig *rig, int value)
{
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 4000);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
	struct ibv_send_wr *bad;

	memset(rig->end[0].buf, value, 4000);
	rig_post_recv(&rig->end[1], 1, 0, 4000);
	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	assert_int_equal(rig_wait(rig->end[0].cq).status, IBV_WC_SUCCESS);
	assert_int_equal(rig_wait(rig->end[1].cq).status, IBV_WC_SUCCESS);
	assert_memory_equal(rig->end[0].buf, rig->end[1].buf, 4000);
}
