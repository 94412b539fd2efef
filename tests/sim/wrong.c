/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * wrong.c - WRs with a mistake planted in them, and the status that each must end with (wire-facts section 10):
 * keys, ranges, rights, alignment, lengths. Every mistake is fatal to an RC queue pair, which is then reconnected.
 */
#include "sim.h"

static uint64_t bank_end(const struct bank *bank)
{
	return bank->iova + bank->size;
}

/** Choose a remote range of `len` bytes that must be refused with a remote access error. */
static void wrong_range(struct wr *wr, struct rng *rng, uint32_t right, uint32_t len)
{
	struct node *node = wr->remote;
	struct bank *good = &node->bank[right == NIC_ACCESS_REMOTE_ATOMIC ? BANK_CELLS : BANK_TARGET];
	uint64_t step = right == NIC_ACCESS_REMOTE_ATOMIC ? 8 : 1;

	wr->must = BIT(NIC_WC_REM_ACCESS_ERR);
	wr->rkey = bank_rkey(good);
	switch (rng_below(rng, 8)) {
	case 0: /* a key that does not exist */
		wr->rkey ^= 1u << rng_below(rng, 32);
		wr->remote_addr = good->iova;
		break;
	case 1: /* a key of a region in another protection domain */
		good = &node->bank[BANK_FOREIGN];
		wr->rkey = bank_rkey(good);
		wr->remote_addr = good->iova & ~7ull;
		wr->remote_addr += wr->remote_addr < good->iova ? 8 : 0;
		break;
	case 2: /* one byte or one word past the end */
	case 3:
		wr->remote_addr = bank_end(good) - len + step;
		break;
	case 4: /* before the start */
		wr->remote_addr = good->iova - step;
		break;
	case 5: /* wraps around */
		wr->remote_addr = UINT64_MAX - len + 1;
		wr->remote_addr &= ~7ull;
		break;
	case 6: /* far outside the region */
		wr->remote_addr = good->iova ^ 0x4000000000000000ull;
		break;
	default: /* a region that does not allow this access */
		good = &node->bank[right == NIC_ACCESS_REMOTE_WRITE ? BANK_STATIC : BANK_LOCAL];
		wr->rkey = bank_rkey(good);
		wr->remote_addr = (good->iova + 7) & ~7ull;
	}
	if (wr->opcode == NIC_WR_ATOMIC_WRITE) /* aligned, so that nothing but the range is wrong, and as far outside */
		wr->remote_addr =
			wr->remote_addr < good->iova ? wr->remote_addr & ~7ull : (wr->remote_addr + 7) & ~7ull;
}

/** Make a SEND longer than the receive that it will consume. */
static bool wrong_length(struct wr *wr)
{
	struct qp *qp = wr->qp, *peer = qp->peer;
	struct rwr *r;

	if (peer->srq != NULL || qp->messages >= peer->rposted)
		return true;
	r = peer->rq[qp->messages];
	if (r->cap >= qp->sim->opts.max_len || r->must != 0)
		return true;
	wr_release(wr);
	if (!wr_gather(wr, r->cap + 1 + (uint32_t)rng_below(&qp->rng, 64), true))
		return false;
	wr->must = BIT(NIC_WC_REM_INV_REQ_ERR);
	r->must = BIT(NIC_WC_LOC_LEN_ERR);
	return true;
}

static void drop_target(struct wr *wr)
{
	/* A READ or FLUSH moved to a wrong range no longer uses its target, so drop its reference to the target. A
	 * WRITE has no reference to drop here, because it gets one only after this call. */
	if ((wr->opcode == NIC_WR_RDMA_READ || wr->opcode == NIC_WR_FLUSH) && wr->target != NULL) {
		wr->target->refs--;
		wr->target = NULL;
	}
}

static void wrong_atomic(struct wr *wr, struct rng *rng)
{
	if (rng_chance(rng, 300)) {
		wr->must = BIT(NIC_WC_REM_INV_REQ_ERR);
		/* An offset of 1 misaligns elements of any size; a larger one could be a multiple of a short element's
		 * size. */
		wr->remote_addr += wr_is_elements(wr) ? 1 : 1 + rng_below(rng, wr->len - 1);
		if (wr->cell * 8 + wr->cell_byte + 2 * wr->len >
		    SIM_CELLS * 8) /* stay in range: the NIC may check the range before the alignment */
			wr->remote_addr -= wr->len;
		return;
	}
	wrong_range(wr, rng, NIC_ACCESS_REMOTE_ATOMIC, wr->len);
}

/** The whole region has no range that could be wrong, only a key. */
static void wrong_flush(struct wr *wr, struct rng *rng)
{
	drop_target(wr);
	if (wr->flush.level == NIC_FLUSH_RANGE && wr->flush.len > 0) {
		wrong_range(wr, rng, NIC_ACCESS_REMOTE_WRITE, wr->flush.len);
		return;
	}
	wr->must = BIT(NIC_WC_REM_ACCESS_ERR);
	wr->rkey ^= 1u << rng_below(rng, 32);
}

/** Occasionally plant a mistake in a WR. @return false: there was no memory for it. */
bool wrong_plant(struct wr *wr)
{
	struct qp *qp = wr->qp;
	struct rng *rng = &qp->rng;

	if (!qp_is_reliable(qp) || (wr->len == 0 && wr->opcode != NIC_WR_FLUSH) ||
	    !rng_chance(rng, qp->sim->opts.errors))
		return true;
	if (wr->opcode == NIC_WR_FLUSH) {
		wrong_flush(wr, rng);
		return true;
	}
	if (qp->type == NIC_QPT_XRC_INI && rng_chance(rng, 100)) { /* an SRQ that does not exist (XR-02) */
		drop_target(wr);
		wr->srqn ^= 1u << rng_below(rng, 24);
		wr->must = BIT(NIC_WC_REM_INV_REQ_ERR);
		return true;
	}
	if (rng_chance(rng, 200) && wr->opcode != NIC_WR_ELEMENTS) { /* a local key that does not exist */
		wr->must = BIT(NIC_WC_LOC_PROT_ERR);
		return true;
	}
	switch (wr->opcode) {
	case NIC_WR_SEND:
	case NIC_WR_SEND_WITH_IMM:
		return wrong_length(wr);
	case NIC_WR_RDMA_WRITE:
	case NIC_WR_RDMA_WRITE_WITH_IMM:
	case NIC_WR_ATOMIC_WRITE:
		if (wr->opcode == NIC_WR_ATOMIC_WRITE && rng_chance(rng, 300)) {
			wr->remote_addr += 4; /* not aligned */
			wr->must = BIT(NIC_WC_REM_INV_REQ_ERR);
			return true;
		}
		wrong_range(wr, rng, NIC_ACCESS_REMOTE_WRITE, wr->len);
		return true;
	case NIC_WR_RDMA_READ:
		drop_target(wr);
		wrong_range(wr, rng, NIC_ACCESS_REMOTE_READ, wr->len);
		return true;
	case NIC_WR_ATOMIC_CMP_AND_SWP:
	case NIC_WR_ATOMIC_FETCH_AND_ADD:
	case NIC_WR_MASKED_CMP_AND_SWP:
	case NIC_WR_MASKED_FETCH_AND_ADD:
	case NIC_WR_ELEMENTS:
	case NIC_WR_FETCH_ELEMENTS:
		wrong_atomic(wr, rng);
		return true;
	default:
		return true;
	}
}
