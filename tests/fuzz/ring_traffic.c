/* SPDX-License-Identifier: BSD-3-Clause */
/* ring_traffic.c - see ring_traffic.h. */
#include <string.h>

#include "ring_engine.h"
#include "ring_traffic.h"

#define START_PSN 0xfffffcu

void ring_qp_connect(struct nic_qp *qp, enum nic_qp_type type, uint32_t dest_qpn, const struct nic_gid *dgid,
		     uint8_t gid_index, uint8_t timeout)
{
	struct nic_qp_attr a = {
		.qp_state = NIC_QPS_INIT,
		.port_num = 1,
		.qkey = 0x1234,
		.qp_access_flags = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC,
		.path_mtu = NIC_MTU_256,
		.dest_qp_num = dest_qpn,
		.rq_psn = START_PSN,
		.sq_psn = START_PSN,
		.av = {.dgid = *dgid, .sgid_index = gid_index},
		.max_rd_atomic = 4,
		.max_dest_rd_atomic = 4,
		.min_rnr_timer = 1,
		.timeout = timeout,
		.retry_cnt = 7,
		.rnr_retry = 7,
	};
	uint32_t rtr = NIC_QP_STATE, rts = NIC_QP_STATE | NIC_QP_SQ_PSN;

	if (type != NIC_QPT_UD)
		rtr |= NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN;
	if (type == NIC_QPT_RC) {
		rtr |= NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER;
		rts |= NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY | NIC_QP_MAX_QP_RD_ATOMIC;
	}
	expect(nic_qp_modify(qp, &a,
			     NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT |
				     (type == NIC_QPT_UD ? NIC_QP_QKEY : NIC_QP_ACCESS_FLAGS)) == 0);
	a.qp_state = NIC_QPS_RTR;
	expect(nic_qp_modify(qp, &a, rtr) == 0);
	a.qp_state = NIC_QPS_RTS;
	expect(nic_qp_modify(qp, &a, rts) == 0);
}

/* ---- a stream ------------------------------------------------------------------------------------------- */

static uint32_t length_of(unsigned n)
{
	return 1 + n * 397 % STREAM_BYTES;
}

static uint8_t byte_of(unsigned n, uint32_t at)
{
	return (uint8_t)(n * 11 + at * 7 + (at >> 8));
}

static void receive(struct ring_stream *s, unsigned n)
{
	uint8_t *slot = s->in[n % STREAM_SLOTS];
	struct nic_sge sge = {(uintptr_t)slot, STREAM_BYTES, nic_mr_lkey(s->in_mr)};
	struct nic_recv_wr wr = {.wr_id = n, .sg_list = &sge, .num_sge = 1};

	memset(slot, 0xee, STREAM_BYTES);
	expect(nic_post_recv(s->to, &wr) == 0);
}

void ring_stream_open(struct ring_stream *s, struct nic_pd *from_pd, struct nic_pd *to_pd)
{
	expect(nic_mr_reg(from_pd, s->out, sizeof(s->out), (uintptr_t)s->out, 0, &s->out_mr) == 0);
	expect(nic_mr_reg(to_pd, s->in, sizeof(s->in), (uintptr_t)s->in, NIC_ACCESS_LOCAL_WRITE, &s->in_mr) == 0);
	s->posted = s->completed = s->received = 0;
	for (unsigned n = 0; n < STREAM_SLOTS; n++)
		receive(s, n);
}

void ring_stream_post(struct ring_stream *s)
{
	uint8_t *slot = s->out[s->posted % STREAM_SLOTS];
	struct nic_sge sge = {(uintptr_t)slot, length_of(s->posted), nic_mr_lkey(s->out_mr)};
	struct nic_send_wr wr = {
		.wr_id = s->posted, .sg_list = &sge, .num_sge = 1, .opcode = NIC_WR_SEND, .flags = NIC_SEND_SIGNALED};

	if (s->posted - s->completed == STREAM_SLOTS)
		return;
	for (uint32_t i = 0; i < sge.length; i++)
		slot[i] = byte_of(s->posted, i);
	expect(nic_post_send(s->from, &wr) == 0);
	s->posted++;
}

void ring_stream_check(struct ring_stream *s)
{
	struct nic_wc wc;

	while (nic_cq_poll(s->send_cq, 1, &wc) == 1) {
		expect(wc.status == NIC_WC_SUCCESS && wc.wr_id == s->completed);
		s->completed++;
	}
	while (nic_cq_poll(s->recv_cq, 1, &wc) == 1) {
		const uint8_t *slot = s->in[s->received % STREAM_SLOTS];

		expect(wc.status == NIC_WC_SUCCESS && wc.wr_id == s->received);
		expect(wc.byte_len == length_of(s->received));
		for (uint32_t i = 0; i < STREAM_BYTES; i++)
			expect(slot[i] == (i < wc.byte_len ? byte_of(s->received, i) : 0xee));
		receive(s, s->received + STREAM_SLOTS);
		s->received++;
	}
}

bool ring_stream_is_done(const struct ring_stream *s)
{
	return s->posted == s->completed && s->posted == s->received;
}
