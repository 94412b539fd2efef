/* SPDX-License-Identifier: BSD-3-Clause */
/* ends.c - see ends.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "ends.h"

static void on_event(void *ctx, const struct nic_event *event)
{
	struct end *e = ctx;
	uint64_t one = 1;

	if (event->type != NIC_EVENT_COMP)
		return;
	__atomic_store_n(&e->event, true, __ATOMIC_RELAXED);
	assert_int_equal(write(e->event_fd, &one, sizeof(one)), sizeof(one));
}

int ends_devices(struct pmd_device *devices, unsigned n, const char *more)
{
	unsigned pid = (unsigned)getpid();
	char spec[512] = "", err[256];
	size_t len = 0;

	/* cmocka: abort when a test fails, because the tests after it would meet the engines that it leaves open. */
	setenv("CMOCKA_TEST_ABORT", "1", 1);
	for (unsigned i = 1; i <= n; i++)
		len += (size_t)snprintf(spec + len, sizeof(spec) - len, "127.%u.%u.%u ", 64 + pid / 250 % 128,
					1 + pid % 250, i);
	snprintf(spec + len, sizeof(spec) - len, "%s", more ? more : "");
	return pmd_devices_parse(spec, devices, PMD_DEVICES_MAX, err, sizeof(err));
}

void end_open(struct end *e, const struct pmd_device *device)
{
	struct nic_qp_init init = {.type = NIC_QPT_RC, .cap = {64, 64, 1, 1, 0}};
	char err[256] = "";

	memset(e, 0, sizeof(*e));
	e->event_fd = eventfd(0, 0);
	assert_int_equal(pmd_open(device, on_event, e, &e->engine, err, sizeof(err)), 0);
	e->buf = mmap(NULL, BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(e->buf != MAP_FAILED);
	e->gid = device->gid;
	pmd_lock(e->engine);
	e->nic = pmd_engine_nic(e->engine);
	assert_int_equal(nic_pd_alloc(e->nic, &e->pd), 0);
	assert_int_equal(nic_mr_reg(e->pd, e->buf, BUF, (uintptr_t)e->buf,
				    NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ, &e->mr),
			 0);
	assert_int_equal(nic_cq_create(e->nic, 64, NULL, &e->scq), 0);
	assert_int_equal(nic_cq_create(e->nic, 64, NULL, &e->rcq), 0);
	init.pd = e->pd;
	init.send_cq = e->scq;
	init.recv_cq = e->rcq;
	assert_int_equal(nic_qp_create(e->nic, &init, &e->qp), 0);
	e->psn = nic_psn_random(e->nic);
	pmd_unlock(e->engine);
}

void end_open_inline(struct end *e, const struct pmd_device *device)
{
	setenv("UROCE_PROGRESS", "inline", 1);
	end_open(e, device);
	unsetenv("UROCE_PROGRESS");
}

void end_connect(struct end *e, const struct end *peer)
{
	struct nic_qp_attr attr = {.qp_state = NIC_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ,
				   .path_mtu = NIC_MTU_1024,
				   .dest_qp_num = nic_qp_num(peer->qp),
				   .rq_psn = peer->psn,
				   .sq_psn = e->psn,
				   .max_rd_atomic = 4,
				   .max_dest_rd_atomic = 4,
				   .min_rnr_timer = 12,
				   .timeout = 14,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .av.dgid = peer->gid};

	pmd_lock(e->engine);
	assert_int_equal(
		nic_qp_modify(e->qp, &attr, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_ACCESS_FLAGS), 0);
	attr.qp_state = NIC_QPS_RTR;
	assert_int_equal(nic_qp_modify(e->qp, &attr,
				       NIC_QP_STATE | NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN |
					       NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER),
			 0);
	attr.qp_state = NIC_QPS_RTS;
	assert_int_equal(nic_qp_modify(e->qp, &attr,
				       NIC_QP_STATE | NIC_QP_SQ_PSN | NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT |
					       NIC_QP_RNR_RETRY | NIC_QP_MAX_QP_RD_ATOMIC),
			 0);
	pmd_unlock(e->engine);
}

void end_close(struct end *e)
{
	pmd_close(e->engine);
	munmap(e->buf, BUF);
	close(e->event_fd);
}

void ends_open(struct end *a, const struct pmd_device *da, struct end *b, const struct pmd_device *db)
{
	end_open(a, da);
	end_open(b, db);
	end_connect(a, b);
	end_connect(b, a);
}

void end_post(struct end *e, uint32_t opcode, uint32_t len, const struct end *target)
{
	struct nic_sge sge = {(uintptr_t)e->buf, len, nic_mr_lkey(e->mr)};
	struct nic_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .flags = NIC_SEND_SIGNALED};

	if (target) {
		wr.rdma.remote_addr = (uintptr_t)target->buf;
		wr.rdma.rkey = nic_mr_rkey(target->mr);
	}
	assert_int_equal(nic_post_send(e->qp, &wr), 0);
	pmd_doorbell(e->engine);
}

void end_send(struct end *e, uint32_t opcode, uint32_t len, const struct end *target)
{
	pmd_lock(e->engine);
	end_post(e, opcode, len, target);
	pmd_unlock(e->engine);
}

void end_recv(struct end *e)
{
	struct nic_sge sge = {(uintptr_t)e->buf + BUF / 2, BUF / 2, nic_mr_lkey(e->mr)};
	struct nic_recv_wr wr = {.sg_list = &sge, .num_sge = 1};

	pmd_lock(e->engine);
	assert_int_equal(nic_post_recv(e->qp, &wr), 0);
	pmd_unlock(e->engine);
}

int end_poll(struct end *e, struct nic_cq *cq, struct nic_wc *wc)
{
	int n;

	pmd_lock(e->engine);
	n = nic_cq_poll(cq, 1, wc);
	pmd_unlock(e->engine);
	return n;
}

struct nic_wc end_wait(struct end *e, struct nic_cq *cq, bool sleep)
{
	struct nic_wc wc;
	uint64_t count;

	while (end_poll(e, cq, &wc) == 0) {
		if (!sleep) {
			pmd_try_progress(e->engine);
			continue;
		}
		pmd_lock(e->engine);
		nic_cq_arm(cq, false);
		pmd_expect_sleep(e->engine);
		pmd_unlock(e->engine);
		if (end_poll(e, cq, &wc) > 0)
			break;
		assert_int_equal(read(e->event_fd, &count, sizeof(count)), sizeof(count));
	}
	return wc;
}

void end_post_sends(struct end *e, struct nic_qp *qp, unsigned n, uint32_t len)
{
	struct nic_sge sge = {(uintptr_t)e->buf, len, nic_mr_lkey(e->mr)};
	const struct nic_send_wr wr = {.sg_list = &sge, .num_sge = len > 0, .opcode = NIC_WR_SEND};

	for (unsigned i = 0; i < n; i++)
		assert_int_equal(nic_post_send(qp, &wr), 0);
}

void end_destroy_qp(struct end *e, struct nic_qp *qp)
{
	pmd_lock(e->engine);
	assert_int_equal(nic_qp_destroy(qp), 0);
	pmd_unlock(e->engine);
}
