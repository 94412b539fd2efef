/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mem.c - protection domains, regions, and access to application memory (IBTA 10.6.3, 10.6.6).
 *
 * Keys are 32 random bits (a bind changes the low 8 of a window's): the upper 24 index nic.mkeys, the low 8 must match
 * too (RL-12). A region's L_Key and R_Key are the same, unless it has a chosen R_Key. Every access looks its key up
 * again, so that a deregistered region is never used. Windows are in mw.c, the accesses in copy.c.
 */
#include "mem.h"

#include "nic_rdm.h"
#include "pinned.h"

int nic_pd_alloc(struct nic *nic, struct nic_pd **out)
{
	if (nic->n_pd >= nic->cfg.limits.max_pd)
		return -ENOMEM;

	struct nic_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		return -ENOMEM;
	pd->nic = nic;
	list_append(&nic->all_pds, &pd->node);
	nic->n_pd++;
	*out = pd;
	return 0;
}

int nic_pd_free(struct nic_pd *pd)
{
	if (pd->users)
		return -EBUSY;
	pd->nic->n_pd--;
	list_remove(&pd->node);
	free(pd->names.slots);
	free(pd);
	return 0;
}

int mkey_enter(struct nic *nic, struct mkey *m)
{
	do
		nic->cfg.random(nic->cfg.ctx, &m->key, sizeof(m->key));
	while (m->key < 1u << 8 || table_find(&nic->mkeys, m->key >> 8) || table_find(&m->pd->names, m->key));
	return table_insert(&nic->mkeys, m->key >> 8, m) ? 0 : -ENOMEM;
}

#define ACCESS_WRITES (NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_ATOMIC)
#define ACCESS_KNOWN                                                                                                   \
	(NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC |        \
	 NIC_ACCESS_MW_BIND | NIC_ACCESS_ZERO_BASED | NIC_ACCESS_ON_DEMAND | NIC_ACCESS_FLUSH_GLOBAL |                 \
	 NIC_ACCESS_FLUSH_PERSISTENT)

static bool access_legal(const struct nic *nic, uint32_t access)
{
	return !(access & ~(uint32_t)ACCESS_KNOWN) && (!(access & ACCESS_WRITES) || access & NIC_ACCESS_LOCAL_WRITE) &&
	       (!(access & NIC_ACCESS_FLUSH_PERSISTENT) || nic->cfg.persist);
}

/* Whether neither the memory range nor the range of its I/O virtual addresses wraps around. */
static bool range_legal(const void *addr, uint64_t len, uint64_t iova)
{
	return iova + len >= iova && (uintptr_t)addr + len >= (uintptr_t)addr && len <= UINTPTR_MAX;
}

int nic_mr_reg(struct nic_pd *pd, void *addr, uint64_t len, uint64_t iova, uint32_t access, struct nic_mr **out)
{
	struct nic *nic = pd->nic;
	int err;

	if (!access_legal(nic, access) || !range_legal(addr, len, iova))
		return -EINVAL;
	if (nic->n_mr >= nic->cfg.limits.max_mr)
		return -ENOMEM;

	struct nic_mr *mr = calloc(1, sizeof(*mr));

	if (!mr)
		return -ENOMEM;
	mr->nic = nic;
	mr->mkey = (struct mkey){
		.kind = MKEY_MR, .valid = true, .access = access, .pd = pd, .va = iova, .len = len, .base = addr};
	err = mkey_enter(nic, &mr->mkey);
	if (err) {
		free(mr);
		return err;
	}
	pd->users++;
	nic->n_mr++;
	*out = mr;
	return 0;
}

int nic_mr_reg_named(struct nic_pd *pd, void *addr, uint64_t len, uint64_t iova, uint32_t access, uint32_t rkey,
		     struct nic_mr **out)
{
	const struct mkey *taken = mkey_find_remote(pd->nic, pd, rkey);
	int err;

	if (taken && taken->pd == pd)
		return -EEXIST;
	err = nic_mr_reg(pd, addr, len, iova, access, out);
	if (err)
		return err;
	if (!table_insert(&pd->names, rkey, &(*out)->mkey)) {
		nic_mr_dereg(*out);
		return -ENOMEM;
	}
	(*out)->named = true;
	(*out)->name = rkey;
	return 0;
}

int nic_mr_rereg(struct nic_mr *mr, uint32_t what, struct nic_pd *pd, void *addr, uint64_t len, uint64_t iova,
		 uint32_t access)
{
	struct mkey next = mr->mkey;

	if (!what || what & ~(uint32_t)(NIC_REREG_TRANSLATION | NIC_REREG_PD | NIC_REREG_ACCESS))
		return -EINVAL;
	if ((what & NIC_REREG_ACCESS) && !access_legal(mr->nic, access))
		return -EINVAL;
	if ((what & NIC_REREG_TRANSLATION) && !range_legal(addr, len, iova))
		return -EINVAL;
	if ((what & NIC_REREG_PD) && (!pd || pd->nic != mr->nic || mr->named))
		return -EINVAL;
	if (mr->windows)
		return -EBUSY;
	mem_revoke(mr->nic, &mr->mkey);
	if (what & NIC_REREG_ACCESS)
		next.access = access;
	if (what & NIC_REREG_PD)
		next.pd = pd;
	if (what & NIC_REREG_TRANSLATION) {
		next.va = iova;
		next.len = len;
		next.base = addr;
		table_remove(&mr->nic->mkeys, mr->mkey.key >> 8); /* frees a slot: mkey_enter cannot fail */
		mkey_enter(mr->nic, &mr->mkey);
		next.key = mr->mkey.key;
	}
	mr->mkey.pd->users--;
	next.pd->users++;
	mr->mkey = next;
	return 0;
}

int nic_mr_dereg(struct nic_mr *mr)
{
	if (mr->windows)
		return -EBUSY;
	if (mr->named)
		table_remove(&mr->mkey.pd->names, mr->name);
	table_remove(&mr->nic->mkeys, mr->mkey.key >> 8);
	mem_revoke(mr->nic, &mr->mkey);
	mr->mkey.pd->users--;
	mr->nic->n_mr--;
	free(mr);
	return 0;
}

uint32_t nic_mr_lkey(const struct nic_mr *mr)
{
	return mr->mkey.key;
}

uint32_t nic_mr_rkey(const struct nic_mr *mr)
{
	return mr->named ? mr->name : mr->mkey.key;
}

/* Whether [va, va + len) is inside the key's range. The arithmetic must not overflow: rxe's check once overflowed, and
 * let peers write anywhere. */
static bool range_inside(const struct mkey *m, uint64_t va, uint64_t len)
{
	return va >= m->va && va - m->va <= m->len && len <= m->len - (va - m->va);
}

/** Find the key of a remote access, and check everything except the range. */
static inline enum mem_verdict find_remote(const struct nic *nic, const struct nic_pd *pd, uint32_t qpn, uint32_t rkey,
					   uint32_t access, const struct mkey **out)
{
	const struct mkey *m = mkey_find_remote(nic, pd, rkey);

	if (!m || !m->valid)
		return MEM_BAD_KEY;
	if (m->pd != pd || (m->kind == MKEY_MW2 && m->qpn != qpn)) /* check the PD too: QPNs are reused across PDs */
		return MEM_BAD_KEY;
	if ((m->access & access) != access)
		return MEM_BAD_RIGHTS;
	*out = m;
	return MEM_OK;
}

enum mem_verdict mem_check_remote(const struct nic *nic, const struct nic_pd *pd, uint32_t qpn, uint32_t rkey,
				  uint64_t va, uint64_t len, uint32_t access, uint8_t **out)
{
	const struct mkey *m;
	enum mem_verdict v = find_remote(nic, pd, qpn, rkey, access, &m);

	if (v != MEM_OK)
		return v;
	if (!range_inside(m, va, len))
		return MEM_BAD_RANGE;
	*out = mkey_memory(m, va);
	return MEM_OK;
}

enum mem_verdict mem_check_remote_all(const struct nic *nic, const struct nic_pd *pd, uint32_t qpn, uint32_t rkey,
				      uint32_t access, uint8_t **out, uint64_t *len)
{
	const struct mkey *m;
	enum mem_verdict v = find_remote(nic, pd, qpn, rkey, access, &m);

	if (v != MEM_OK)
		return v;
	*out = m->base;
	*len = m->len;
	return MEM_OK;
}

static inline __attribute__((always_inline)) enum mem_verdict check_local(const struct nic *nic,
									  const struct nic_pd *pd, uint32_t lkey,
									  uint64_t addr, uint64_t len, uint32_t access,
									  uint8_t **out)
{
	const struct mkey *m = mkey_find(nic, lkey);

	if (!m || m->kind != MKEY_MR || m->pd != pd)
		return MEM_BAD_KEY;
	if ((m->access & access) != access)
		return MEM_BAD_RIGHTS;
	if (!range_inside(m, addr, len))
		return MEM_BAD_RANGE;
	*out = mkey_memory(m, addr);
	return MEM_OK;
}

enum mem_verdict mem_check_local(const struct nic *nic, const struct nic_pd *pd, uint32_t lkey, uint64_t addr,
				 uint64_t len, uint32_t access, uint8_t **out)
{
	return check_local(nic, pd, lkey, addr, len, access, out);
}

int nic_sge_find(const struct nic_pd *pd, const struct nic_sge *sge, bool write, void **addr)
{
	uint8_t *app = NULL;

	switch (mem_check_local(pd->nic, pd, sge->lkey, sge->addr, sge->length, write ? NIC_ACCESS_LOCAL_WRITE : 0,
				&app)) {
	case MEM_OK:
		*addr = app;
		return 0;
	case MEM_BAD_RIGHTS:
		return -EPERM;
	case MEM_BAD_RANGE:
		return -EFAULT;
	default:
		return -ENOENT;
	}
}

enum direction { GATHER, SCATTER };

/*
 * Copy `len` bytes to or from an SGE list's memory, from `offset` on. Bytes past the end of the list are a range error.
 *
 * What is sent is checked by whole SGEs: a bad one fails as soon as one of its bytes is used. Of an SGE that receives,
 * only the bytes that are written have to be inside the region, as adapters translate only the addresses that they
 * write to: perftest posts receives that are longer than what is left of its region.
 */
static inline __attribute__((always_inline)) enum mem_verdict walk(struct nic *nic, const struct nic_pd *pd,
								   const struct nic_sge *sge, uint32_t n,
								   uint64_t offset, uint8_t *data, uint32_t len,
								   enum direction dir, uint32_t *icrc)
{
	uint32_t access = dir == GATHER ? 0 : NIC_ACCESS_LOCAL_WRITE;

	for (; len && n; sge++, n--) {
		if (offset >= sge->length) {
			offset -= sge->length;
			continue;
		}

		uint32_t piece = sge->length - (uint32_t)offset;
		uint8_t *app;
		enum mem_verdict v;

		if (piece > len)
			piece = len;
		v = dir == GATHER ? check_local(nic, pd, sge->lkey, sge->addr, sge->length, access, &app)
				  : check_local(nic, pd, sge->lkey, sge->addr + offset, piece, access, &app);
		if (v != MEM_OK)
			return v;
		if (dir == GATHER && !mem_read(nic, data, app + offset, piece, icrc))
			return MEM_FAULT;
		if (dir == SCATTER && !mem_write(nic, app, data, piece) && !mem_write_pinned(nic, NULL, sge->lkey))
			return MEM_FAULT;
		data += piece;
		len -= piece;
		offset = 0;
	}
	return len ? MEM_BAD_RANGE : MEM_OK;
}

enum mem_verdict mem_gather(struct nic *nic, const struct nic_pd *pd, const struct nic_sge *sge, uint32_t n,
			    uint64_t offset, void *dst, uint32_t len, uint32_t *icrc)
{
	return walk(nic, pd, sge, n, offset, dst, len, GATHER, icrc);
}

enum mem_verdict mem_scatter(struct nic *nic, const struct nic_pd *pd, const struct nic_sge *sge, uint32_t n,
			     uint64_t offset, const void *src, uint32_t len)
{
	return walk(nic, pd, sge, n, offset, (uint8_t *)(uintptr_t)src, len, SCATTER, NULL);
}
