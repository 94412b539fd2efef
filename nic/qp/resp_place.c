/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * resp_place.c - the responder's part of FLUSH and ATOMIC WRITE (IBTA A19). Both take a responder resource, and a READ
 * response without data answers them.
 *
 * The CPU executes requests in PSN order, so the data written by earlier requests of the QP is in memory when a FLUSH
 * is executed. Global visibility therefore needs only a fence. Persistence is up to nic_config.persist.
 */
#include "resp_place.h"

#include <stdatomic.h>

#include "mem.h"
#include "packet.h"
#include "qp.h"
#include "wire.h"

/** The rights that a FLUSH needs, from its header; 0: the header is wrong. */
static uint32_t rights_of(const struct packet *p)
{
	uint32_t types = FETH_PLT(p->feth), rights = 0;

	if (types & ~(uint32_t)(NIC_FLUSH_GLOBAL | NIC_FLUSH_PERSISTENT) || p->feth & FETH_SEL(2))
		return 0;
	if (types & NIC_FLUSH_GLOBAL)
		rights |= NIC_ACCESS_FLUSH_GLOBAL;
	if (types & NIC_FLUSH_PERSISTENT)
		rights |= NIC_ACCESS_FLUSH_PERSISTENT;
	return rights;
}

/** Find the memory that the FLUSH names; even an empty range must have a valid R_Key (RL-08). */
static enum mem_verdict find(const struct nic_qp *qp, const struct packet *p, uint8_t **app, uint64_t *len)
{
	if (p->feth & FETH_SEL(NIC_FLUSH_MR))
		return mem_check_remote_all(qp->nic, qp->pd, qp->qpn, p->rkey, rights_of(p), app, len);
	*len = p->dma_len;
	return mem_check_remote(qp->nic, qp->pd, qp->qpn, p->rkey, p->va, p->dma_len, rights_of(p), app);
}

enum error_id resp_flush_check(const struct nic_qp *qp, const struct packet *p)
{
	uint32_t rights = rights_of(p);
	uint64_t len;
	uint8_t *app;

	if (!rights || qp_is_endpoints(qp) || (rights & qp->attr.qp_access_flags) != rights ||
	    !qp->attr.max_dest_rd_atomic)
		return ERR_opcode_unsupported;
	if (p->dma_len > NIC_MSG_MAX && !(p->feth & FETH_SEL(NIC_FLUSH_MR)))
		return ERR_dma_length;
	return find(qp, p, &app, &len) == MEM_OK ? ERR_none : ERR_remote_key;
}

bool resp_flush_execute(const struct nic_qp *qp, const struct packet *p)
{
	const struct nic_config *cfg = &qp->nic->cfg;
	uint64_t len;
	uint8_t *app;

	atomic_thread_fence(memory_order_seq_cst);
	if (!(FETH_PLT(p->feth) & NIC_FLUSH_PERSISTENT) || find(qp, p, &app, &len) != MEM_OK || !len)
		return true;
	return cfg->persist(cfg->ctx, app, len);
}

bool resp_atomic_write(struct nic_qp *qp, const struct packet *p, uint8_t *app)
{
	struct nic_atomic store = {.op = NIC_ATOMIC_MCS, .size = NIC_ATOMIC_WRITE_SIZE, .swap_mask = {UINT64_MAX}};
	uint64_t orig[NIC_ATOMIC_WORDS];

	memcpy(store.swap_add, p->payload, NIC_ATOMIC_WRITE_SIZE);
	return mem_atomic(qp->nic, &store, app, orig);
}
