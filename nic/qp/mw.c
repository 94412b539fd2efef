/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mw.c - memory windows (IBTA 10.6.6.2, 10.6.7): type 1 (bound to a PD, unbound with length 0) and type 2B (bound
 * to a QP, freed by invalidation). Both are bound by a work request, which also gives the low byte of the key.
 */
#include "mem.h"
#include "mw.h"
#include "qp.h"

int nic_mw_alloc(struct nic_pd *pd, enum nic_mw_type type, struct nic_mw **out)
{
	struct nic *nic = pd->nic;
	int err;

	if (type != NIC_MW_TYPE_1 && type != NIC_MW_TYPE_2)
		return -EINVAL;
	if (nic->n_mw >= nic->cfg.limits.max_mw)
		return -ENOMEM;

	struct nic_mw *mw = calloc(1, sizeof(*mw));

	if (!mw)
		return -ENOMEM;
	mw->nic = nic;
	mw->mkey = (struct mkey){.kind = type == NIC_MW_TYPE_1 ? MKEY_MW1 : MKEY_MW2, .pd = pd};
	err = mkey_enter(nic, &mw->mkey);
	if (err) {
		free(mw);
		return err;
	}
	pd->users++;
	nic->n_mw++;
	*out = mw;
	return 0;
}

static void unbind(struct nic_mw *mw)
{
	if (mw->mkey.valid)
		mem_revoke(mw->nic, &mw->mkey);
	if (mw->mr)
		mw->mr->windows--;
	mw->mr = NULL;
	mw->mkey.valid = false;
}

int nic_mw_dealloc(struct nic_mw *mw)
{
	unbind(mw);
	table_remove(&mw->nic->mkeys, mw->mkey.key >> 8);
	mw->mkey.pd->users--;
	mw->nic->n_mw--;
	free(mw);
	return 0;
}

uint32_t nic_mw_rkey(const struct nic_mw *mw)
{
	return mw->mkey.key;
}

bool mw_bind_check(const struct nic_qp *qp, const struct nic_bind *bind)
{
	const struct nic_mw *mw = bind->mw;
	const struct nic_mr *mr = bind->mr;
	const uint32_t writes = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_ATOMIC;
	const uint32_t known = writes | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_ZERO_BASED;
	bool type1 = mw->mkey.kind == MKEY_MW1;

	if (mw->mkey.pd != qp->pd)
		return false; /* C10-72 */
	if (type1 && !bind->len)
		return true; /* unbind */
	if (!mr || !bind->len || mr->mkey.pd != qp->pd)
		return false; /* o10-37.2.40, C10-72 */
	if (bind->access & ~known || (type1 && (bind->access & NIC_ACCESS_ZERO_BASED)))
		return false; /* o10-36.2.2 */
	if (!type1 && mw->mkey.valid)
		return false; /* o10-37.2.30: a type 2 window must be free */
	if (!(mr->mkey.access & NIC_ACCESS_MW_BIND))
		return false; /* C10-73 */
	if ((bind->access & writes) && !(mr->mkey.access & NIC_ACCESS_LOCAL_WRITE))
		return false; /* C10-74 */
	return bind->addr >= mr->mkey.va && bind->addr - mr->mkey.va <= mr->mkey.len &&
	       bind->len <= mr->mkey.len - (bind->addr - mr->mkey.va); /* C10-75 */
}

/* A bind sets the low byte of the window's key to the low byte of the key in the request: the application chooses
 * another byte, so that the old key is invalid at once (type 1: C10-68; type 2: o10-37.2.32). The other bytes identify
 * the window; those in the request are ignored, as hardware adapters ignore them. */
void mw_bind(struct nic_qp *qp, const struct nic_bind *bind)
{
	struct nic_mw *mw = bind->mw;
	struct mkey *m = &mw->mkey;

	unbind(mw);
	m->key = (m->key & ~0xffu) | (bind->rkey & 0xff);
	if (!bind->len)
		return;
	mw->mr = bind->mr;
	bind->mr->windows++;
	m->valid = true;
	m->access = bind->access;
	m->qpn = qp->qpn;
	m->len = bind->len;
	m->base = mkey_memory(&bind->mr->mkey, bind->addr);
	m->va = bind->access & NIC_ACCESS_ZERO_BASED ? 0 : bind->addr;
}

bool mw_invalidate_check(const struct nic_qp *qp, uint32_t rkey)
{
	const struct mkey *m = mkey_find(qp->nic, rkey);

	return m && m->kind == MKEY_MW2 && m->valid && m->qpn == qp->qpn;
}

void mw_invalidate(struct nic *nic, uint32_t rkey)
{
	unbind(list_entry(mkey_find(nic, rkey), struct nic_mw, mkey));
}
