/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_ops.c - memory, ids and limits of ops: an endpoint's requests in flight, and the answers that it has reserved for
 * peers.
 *
 * Memory is allocated in blocks when needed, and kept. A message that requires an answer is accepted only if an op can
 * be reserved for the answer. Answering therefore never fails for lack of an op.
 *
 * Owns: nic_rdm.op_blocks, n_ops, free_ops, tx_left, answers_left, nic_rdm_peer.owed.
 */
#include "rdm.h"
#include "rdm_unexpected.h"
#include "rdm_ops.h"

#define BLOCK 16u /* ops */

int rdm_ops_init(struct nic_rdm *ep)
{
	list_init(&ep->free_ops);
	ep->tx_left = ep->cfg.max_tx;
	ep->answers_left = RDM_ANSWERS;
	ep->op_blocks = calloc((ep->cfg.max_tx + RDM_ANSWERS) / BLOCK + 1, sizeof(void *));
	return ep->op_blocks ? 0 : -ENOMEM;
}

struct rdm_op *rdm_op_at(const struct nic_rdm *ep, uint32_t index)
{
	return &ep->op_blocks[index / BLOCK][index % BLOCK];
}

void rdm_ops_fini(struct nic_rdm *ep)
{
	for (uint32_t i = 0; i < ep->n_ops; i++)
		rdm_op_release(rdm_op_at(ep, i));
	for (uint32_t i = 0; i < ep->n_ops; i += BLOCK)
		free(ep->op_blocks[i / BLOCK]);
	free(ep->op_blocks);
}

/** Number of ops in use or reserved for answers. */
static uint32_t in_use(const struct nic_rdm *ep)
{
	return ep->cfg.max_tx - ep->tx_left + RDM_ANSWERS - ep->answers_left;
}

static bool have_one_more(struct nic_rdm *ep)
{
	struct rdm_op *block;

	if (in_use(ep) < ep->n_ops)
		return true;
	block = calloc(BLOCK, sizeof(*block));
	if (!block)
		return false;
	ep->op_blocks[ep->n_ops / BLOCK] = block;
	for (uint32_t i = 0; i < BLOCK; i++) {
		block[i].index = (uint16_t)ep->n_ops++;
		list_append(&ep->free_ops, &block[i].node);
	}
	return true;
}

/* Reserve another answer for a peer only while the unreserved answers outnumber those reserved for this peer. One peer
 * thus takes about half of the free answers at most, and leaves the rest for other peers. */
bool rdm_may_owe(const struct nic_rdm_peer *peer)
{
	return peer->owed < peer->ep->answers_left && have_one_more(peer->ep);
}

bool rdm_will_owe(const struct nic_rdm_peer *peer, uint32_t n)
{
	const struct nic_rdm *ep = peer->ep;

	return peer->owed + 2 * n <= ep->answers_left + 1 && in_use(ep) + n <= ep->n_ops;
}

/* Clear an op word by word: compilers turn a memset of this size into a string instruction (rep stos), which is slow
 * to start. */
static void clear(struct rdm_op *op)
{
	const uint64_t zero = 0;

	for (size_t at = 0; at < offsetof(struct rdm_op, iov); at += sizeof(zero))
		memcpy((uint8_t *)op + at, &zero, sizeof(zero));
}
_Static_assert(offsetof(struct rdm_op, iov) % sizeof(uint64_t) == 0, "whole words");

struct rdm_op *rdm_op_get(struct nic_rdm_peer *peer, enum rdm_work work)
{
	struct nic_rdm *ep = peer->ep;
	bool answer = rdm_is_answer((uint8_t)work);
	uint16_t generation, index;
	struct rdm_op *op;

	if (!answer && (ep->tx_left == 0 || !have_one_more(ep)))
		return NULL;
	ep->tx_left -= !answer;
	op = list_entry(list_first(&ep->free_ops), struct rdm_op, node);
	list_remove(&op->node);
	generation = op->generation;
	index = op->index;
	clear(op);
	op->generation = (uint16_t)(generation + 1);
	op->index = index;
	op->peer = peer;
	op->work = (uint8_t)work;
	if (work == RDM_W_OFFER)
		memset(op->mr, 0, sizeof(op->mr));
	list_init(&op->node);
	list_init(&op->due);
	return op;
}

uint32_t rdm_op_id(const struct rdm_op *op)
{
	return (uint32_t)op->generation << 16 | op->index;
}

struct rdm_op *rdm_op_named(struct nic_rdm_peer *peer, uint32_t id)
{
	uint32_t index = id & 0xffff;
	struct rdm_op *op = index < peer->ep->n_ops ? rdm_op_at(peer->ep, index) : NULL;

	return op && op->peer == peer && rdm_op_id(op) == id ? op : NULL;
}

void rdm_op_release(struct rdm_op *op)
{
	if (op->work != RDM_W_OFFER)
		return;
	for (uint32_t i = 0; i < NIC_RDM_IOV_MAX; i++)
		if (op->mr[i]) {
			nic_mr_dereg(op->mr[i]);
			op->mr[i] = NULL;
		}
}

void rdm_op_free(struct rdm_op *op)
{
	struct nic_rdm *ep = op->peer->ep;

	rdm_op_release(op);
	if (op->unexpected)
		rdm_unexpected_free(op->unexpected);
	op->unexpected = NULL;
	if (rdm_is_answer(op->work))
		rdm_owe_no_more(op->peer);
	else
		ep->tx_left++;
	op->peer->posted -= op->counted;
	if (op->counted && !op->peer->posted && !list_empty(&op->peer->queue))
		rdm_wake(op->peer); /* a request with FENCE may have waited for this op */
	op->work = RDM_W_SEND;
	list_remove(&op->due);
	list_remove(&op->node);
	op->peer = NULL;
	list_append(&ep->free_ops, &op->node);
}
