/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c - the configuration of an instance: defaults, limits, ranges of values. */
#include "config.h"
#include "core.h"
#include "psn.h"

static void set_default(uint32_t *field, uint32_t value)
{
	if (!*field)
		*field = value;
}

bool nic_config_complete(struct nic_config *c)
{
	struct nic_limits *l = &c->limits;

	if (!c->qpn_bits) {
		c->qpn_base = 0x10000;
		c->qpn_bits = 16;
	}
	if (!c->active_mtu)
		c->active_mtu = NIC_MTU_1024;
	set_default(&c->psn_window, 1 << 16);
	set_default(&c->ack_backoff, 4);
	set_default(&c->trace_len, 1024);
	set_default(&l->max_qp, 16384);
	set_default(&l->max_qp_wr, 16384);
	set_default(&l->max_sge, 32);
	set_default(&l->max_inline, 1024);
	set_default(&l->max_cq, 16384);
	set_default(&l->max_cqe, 1 << 20);
	set_default(&l->max_srq, 4096);
	set_default(&l->max_srq_wr, 16384);
	set_default(&l->max_pd, 16384);
	set_default(&l->max_mr, 1 << 20);
	set_default(&l->max_mw, 1 << 20);
	set_default(&l->max_ah, 1 << 20);
	set_default(&l->max_rd_atomic, 128);
	if (!c->random || c->active_mtu < NIC_MTU_256 || c->active_mtu > NIC_MTU_4096 || c->qpn_bits > 24 ||
	    c->qpn_bits < 10 || c->qpn_base & ((1u << c->qpn_bits) - 1) || c->qpn_base > PSN_MASK ||
	    c->psn_window > PSN_WINDOW_MAX || (c->ack_backoff != 1 && c->ack_backoff != 2 && c->ack_backoff != 4) ||
	    c->trace_len & (c->trace_len - 1) || (c->tx_room && !c->tx_now) || l->max_rd_atomic > 255 ||
	    l->max_cqe > 1u << 30 || l->max_qp_wr > 1u << 24 || l->max_srq_wr > 1u << 24 || l->max_sge > 1024 ||
	    l->max_inline > 1u << 16)
		return false;
	if (c->psn_window == PSN_WINDOW_MAX)
		c->psn_window--; /* with 2^23 PSNs in flight, psn_diff() would place the next PSN behind the oldest */
	return true;
}

const struct nic_limits *nic_limits(const struct nic *nic)
{
	return &nic->cfg.limits;
}

enum nic_mtu nic_active_mtu(const struct nic *nic)
{
	return nic->cfg.active_mtu;
}

uint32_t nic_local_ack_delay(const struct nic *nic)
{
	return nic->cfg.local_ack_delay;
}

uint32_t nic_psn_random(struct nic *nic)
{
	uint32_t psn;

	nic->cfg.random(nic->cfg.ctx, &psn, sizeof(psn));
	return psn & PSN_MASK;
}
