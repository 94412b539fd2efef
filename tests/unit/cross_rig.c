/* SPDX-License-Identifier: BSD-3-Clause */
/* cross_rig.c - see cross_rig.h. */
#include "cross_rig.h"

struct nic_qp *cross_qp(struct cross_rig *b, struct nic_cq *cq, unsigned managed, bool rts)
{
	struct rig *rig = b->rig;
	struct nic_cq *send_cq = rig->send_cq, *recv_cq = rig->recv_cq;
	struct nic_qp *qp;

	rig->send_cq = rig->recv_cq = cq;
	rig->opts.managed_send = managed & MANAGED_SEND;
	rig->opts.managed_recv = managed & MANAGED_RECV;
	qp = rig->qp = rig_qp_create(rig);
	if (rts)
		rig_to_rts(rig);
	rig->opts.managed_send = rig->opts.managed_recv = false;
	rig->send_cq = send_cq;
	rig->recv_cq = recv_cq;
	rig->qp = b->main;
	return qp;
}

void cross_state(struct cross_rig *b, struct nic_qp *qp, enum nic_qp_state state)
{
	b->rig->qp = qp;
	if (state == NIC_QPS_RTS)
		rig_to_rts(b->rig);
	else
		rig_modify_state(b->rig, state);
	b->rig->qp = b->main;
}

void cross_open(struct cross_rig *b, enum nic_qp_type type)
{
	const struct rig_opts opts = {.type = type, .cross_channel = true};

	b->rig = rig_ready(&opts);
	b->main = b->rig->qp;
	b->ticks = rig_cq_create(b->rig, 64, NULL);
	b->ticker = cross_qp(b, b->ticks, 0, false);
	cross_state(b, b->ticker, NIC_QPS_ERR);
}

void cross_close(struct cross_rig *b)
{
	rig_destroy(b->rig);
}

void cross_tick(struct cross_rig *b, unsigned n)
{
	const struct nic_send_wr wr = {.opcode = NIC_WR_NOP};

	while (n--)
		assert_int_equal(nic_post_send(b->ticker, &wr), 0);
}

struct nic_send_wr cross_wait_wr(uint64_t wr_id, struct nic_cq *cq, uint32_t count, bool last)
{
	return (struct nic_send_wr){
		.wr_id = wr_id, .opcode = NIC_WR_CQE_WAIT, .wait = {.cq = cq, .count = count, .last = last}};
}

struct nic_send_wr cross_enable_wr(uint64_t wr_id, enum nic_wr_opcode opcode, struct nic_qp *qp, uint32_t count,
				   bool last)
{
	return (struct nic_send_wr){
		.wr_id = wr_id, .opcode = opcode, .enable = {.qp = qp, .count = count, .last = last}};
}

void cross_post_sends(struct cross_rig *b, struct nic_qp *qp, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct nic_send_wr wr = rig_wr(b->rig, 100 + i, NIC_WR_SEND, 0, 8);

		assert_int_equal(nic_post_send(qp, &wr), 0);
	}
}

unsigned cross_sent(struct cross_rig *b)
{
	struct packet p;
	unsigned n = 0;

	while (rig_tx(b->rig, &p)) {
		assert_int_equal(p.op->value & 0x1f, SEND_ONLY); /* bits 5 to 7 are the service: RC, UC or UD */
		n++;
	}
	return n;
}
