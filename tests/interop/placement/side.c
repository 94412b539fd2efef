/* SPDX-License-Identifier: BSD-3-Clause */
/* side.c - one end of the test of FLUSH and ATOMIC WRITE: device, memory, queue pairs, requests. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "placement.h"

static struct ibv_mr *region_make(struct side *me, uint8_t *mem, int access)
{
	struct ibv_mr *mr = ibv_reg_mr(me->pd, mem, LEN, IBV_ACCESS_LOCAL_WRITE | access);

	if (!mr && !(access & FLUSH_PERSISTENT))
		die("ibv_reg_mr with access 0x%x: %s", access, strerror(errno));
	return mr;
}

/** Map a file in /tmp, or the named one. */
static uint8_t *file_map(const char *name)
{
	char made[] = "/tmp/placement-XXXXXX";
	int fd = name ? open(name, O_RDWR) : mkstemp(made);
	void *map;

	if (fd < 0 || (!name && (unlink(made) || ftruncate(fd, FILE_LEN))))
		die("%s: %s", name ? name : made, strerror(errno));
	map = mmap(NULL, FILE_LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		die("mmap: %s", strerror(errno));
	close(fd);
	return map;
}

static void memory_make(struct side *me)
{
	static const int access[] = {
		[OPEN] = REMOTE | FLUSH_GLOBAL,
		[NO_FLUSH] = REMOTE,
		[NO_WRITE] = IBV_ACCESS_REMOTE_READ,
		[FILE_BACKED] = RIGHTS,
	};

	me->mem = aligned_alloc(4096, LEN);
	me->expected = malloc(LEN);
	me->file = file_map(me->file_name);
	if (!me->mem || !me->expected)
		die("out of memory");
	for (int i = 0; i < REGIONS; i++) {
		uint8_t *mem = i == FILE_BACKED ? me->file : me->mem;

		me->mr[i] = region_make(me, mem, access[i]);
		me->mine.key[i] = (struct key){(uintptr_t)mem, me->mr[i] ? me->mr[i]->rkey : 0};
	}
}

void side_open(struct side *me)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_device_attr_ex attr;

	if (!list || !list[0])
		die("no RDMA device");
	me->ctx = ibv_open_device(list[0]);
	if (!me->ctx || ibv_query_device_ex(me->ctx, NULL, &attr))
		die("cannot open %s: %s", ibv_get_device_name(list[0]), strerror(errno));
	me->mine.is_rxe = !strncmp(ibv_get_device_name(list[0]), "rxe", 3);
	if ((attr.device_cap_flags_ex >> CAPS_SHIFT & 7) != 7) {
		printf("%s knows no FLUSH, or no ATOMIC WRITE\n", ibv_get_device_name(list[0]));
		exit(EXIT_SKIP);
	}
	ibv_free_device_list(list);
	me->pd = ibv_alloc_pd(me->ctx);
	me->cq = ibv_create_cq(me->ctx, 64, NULL, NULL, 0);
	if (!me->pd || !me->cq || ibv_query_gid(me->ctx, 1, me->gid_index, &me->mine.gid))
		die("PD, CQ or GID: %s", strerror(errno));
	memory_make(me);
}

void side_close(struct side *me)
{
	for (int i = 0; i < REGIONS; i++)
		if (me->mr[i] && ibv_dereg_mr(me->mr[i]))
			die("ibv_dereg_mr: %s", strerror(errno));
	if (ibv_destroy_cq(me->cq) || ibv_dealloc_pd(me->pd) || ibv_close_device(me->ctx))
		die("the end: %s", strerror(errno));
	munmap(me->file, FILE_LEN);
	free(me->mem);
	free(me->expected);
}

static void qp_modify(struct side *me, struct ibv_qp_attr *attr, int mask)
{
	int rc = ibv_modify_qp(me->qp, attr, mask | IBV_QP_STATE);

	if (rc)
		die("QP to state %d: %s", attr->qp_state, strerror(rc > 0 ? rc : errno));
}

static void qp_create(struct side *me)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = me->cq,
		.recv_cq = me->cq,
		.cap = {.max_send_wr = 3 * SLOTS, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = me->pd,
		.send_ops_flags = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_ATOMIC_WRITE | WITH_FLUSH,
	};

	me->qp = ibv_create_qp_ex(me->ctx, &init);
	if (!me->qp)
		die("ibv_create_qp_ex: %s", strerror(errno));
	me->ex = ibv_qp_to_qp_ex(me->qp);
	me->mine.qpn = me->qp->qp_num;
}

void side_connect(struct side *me, int rights)
{
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = rights};

	qp_create(me);
	oob_swap(me->oob, &me->mine, &me->peer, sizeof(me->mine));
	qp_modify(me, &attr, IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	attr = (struct ibv_qp_attr){
		.qp_state = IBV_QPS_RTR,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = me->peer.qpn,
		.rq_psn = 0xfffffe,		 /* PSNs wrap around */
		.max_dest_rd_atomic = 2 * SLOTS, /* rdma_rxe does not keep FLUSHes to its max_rd_atomic */
		.min_rnr_timer = 12,
		.ah_attr = {.is_global = 1,
			    .port_num = 1,
			    .grh = {.dgid = me->peer.gid, .sgid_index = me->gid_index, .hop_limit = 64}},
	};
	qp_modify(me, &attr,
		  IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
			  IBV_QP_MIN_RNR_TIMER);
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = 0xfffffe;
	attr.timeout = me->wish.timeout_code;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 4;
	qp_modify(me, &attr,
		  IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	oob_agree(me->oob, 0);
}

void side_disconnect(struct side *me)
{
	if (ibv_destroy_qp(me->qp))
		die("ibv_destroy_qp: %s", strerror(errno));
}

typedef void flush_fn(struct ibv_qp_ex *qp, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level);

/** Calls the member after wr_atomic_write. */
void wr_flush(struct ibv_qp_ex *ex, uint32_t rkey, uint64_t addr, size_t len, uint8_t type, uint8_t level)
{
	flush_fn *fn;

	memcpy(&fn, (char *)ex + offsetof(struct ibv_qp_ex, wr_atomic_write) + sizeof(void *), sizeof(fn));
	fn(ex, rkey, addr, len, type, level);
}

void wr_write(struct side *me, const struct key *to, uint64_t at, const uint8_t *data, uint32_t len)
{
	ibv_wr_rdma_write(me->ex, to->rkey, to->addr + at);
	ibv_wr_set_sge(me->ex, me->mr[OPEN]->lkey, (uintptr_t)data, len);
}

static struct ibv_wc wc_wait(struct side *me)
{
	uint64_t deadline = now_ms() + WAIT_MS;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(me->cq, 1, &wc)))
		if (now_ms() > deadline)
			die("no completion within %d ms", WAIT_MS);
	if (n < 0)
		die("ibv_poll_cq: %d", n);
	return wc;
}

bool wc_is(struct side *me, uint64_t id, enum ibv_wc_status status, int opcode)
{
	struct ibv_wc wc = wc_wait(me);

	if (wc.wr_id == id && wc.status == status && (status != IBV_WC_SUCCESS || (int)wc.opcode == opcode))
		return true;
	printf("request %llu: \"%s\", opcode %d; must be request %llu, \"%s\", opcode %d\n",
	       (unsigned long long)wc.wr_id, ibv_wc_status_str(wc.status), wc.opcode, (unsigned long long)id,
	       ibv_wc_status_str(status), opcode);
	return false;
}
