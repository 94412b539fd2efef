/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mem.h - protection domains, memory regions and windows, and access to their memory. IBTA 10.6. Private to nic/.
 */
#ifndef NIC_MEM_H
#define NIC_MEM_H

#include "nic.h"
#include "core.h"

struct nic_elements;

struct nic_pd {
	struct nic *nic;
	uint32_t users;	    /* MRs, MWs, AHs, SRQs and QPs of the PD */
	struct table names; /* mkeys of regions with a chosen R_Key (nic_mr_reg_named), by that R_Key */
	struct list node;   /* node on nic.all_pds */
};

enum mkey_kind { MKEY_MR, MKEY_MW1, MKEY_MW2 };

/** What an L_Key or R_Key names: a region, or a window on one. */
struct mkey {
	uint32_t key;
	enum mkey_kind kind;
	bool valid; /* regions: always true; windows: true while bound */
	uint32_t access;
	struct nic_pd *pd;
	uint64_t va, len; /* requests name the memory by the addresses [va, va + len) */
	uint8_t *base;	  /* application memory at va */
	uint32_t qpn;	  /* type 2 windows: the QP that the window is bound to */
};

struct nic_mr {
	struct mkey mkey;
	struct nic *nic;
	uint32_t windows; /* windows bound to the region */
	bool own;	  /* registered for the message of an endpoint's OFFER */
	bool named;	  /* the region has a chosen R_Key for peers, `name` */
	uint32_t name;
};

struct nic_mw {
	struct mkey mkey;
	struct nic *nic;
	struct nic_mr *mr; /* the region that the window is bound to, or NULL */
};

struct nic_ah {
	struct nic_pd *pd;
	struct nic_av av;
	struct list node; /* node on nic.all_ahs */
};

enum mem_verdict { MEM_OK, MEM_BAD_KEY, MEM_BAD_RIGHTS, MEM_BAD_RANGE, MEM_FAULT, MEM_UNREAD };

/**
 * Check a remote access to [va, va + len) under an R_Key by a QP, and find the memory (C10-56, C10-57, C10-77).
 * Callers skip this check for READs and WRITEs of length zero, which name no memory (C9-88).
 */
enum mem_verdict mem_check_remote(const struct nic *nic, const struct nic_pd *pd, uint32_t qpn, uint32_t rkey,
				  uint64_t va, uint64_t len, uint32_t access, uint8_t **out);

/** As mem_check_remote(), for an access to all of the region or window: find its memory and length. */
enum mem_verdict mem_check_remote_all(const struct nic *nic, const struct nic_pd *pd, uint32_t qpn, uint32_t rkey,
				      uint32_t access, uint8_t **out, uint64_t *len);

/** Check a local access to [addr, addr + len) under an L_Key, and find the memory. */
enum mem_verdict mem_check_local(const struct nic *nic, const struct nic_pd *pd, uint32_t lkey, uint64_t addr,
				 uint64_t len, uint32_t access, uint8_t **out);
/** Revoke in-flight payload references under the key: the memory belongs to its owner again, and peers must no longer
 * read it. */
static inline void mem_revoke(const struct nic *nic, const struct mkey *m)
{
	if (nic->refers)
		nic->cfg.revoke(nic->cfg.ctx, 0, false, m->key);
}

/** Read len bytes of application memory. Unless icrc is NULL, continue *icrc over these bytes.
 *  @return false if the access faulted: memory is not mapped, or protected. */
bool mem_read(struct nic *nic, void *dst, const uint8_t *app, size_t len, uint32_t *icrc);
/** As mem_read(), but a fault is not counted: the caller lets the general code try, and fail. */
bool mem_peek(struct nic *nic, void *dst, const uint8_t *app, size_t len);
/** Write len bytes of application memory. @return false if the access faulted: see mem_write_pinned(). */
bool mem_write(struct nic *nic, uint8_t *app, const void *src, size_t len);

/** The copy of a struct copy_job to application memory, for nic_config.guard. */
void mem_deliver_run(void *arg);

/** Copy len bytes of the SGE list's memory to dst, starting `offset` bytes into the list; check the L_Keys against
 * this PD. icrc: see mem_read. */
enum mem_verdict mem_gather(struct nic *nic, const struct nic_pd *pd, const struct nic_sge *sge, uint32_t n,
			    uint64_t offset, void *dst, uint32_t len, uint32_t *icrc);
/** Copy len bytes from src into the memory of the SGE list, from `offset` on. */
enum mem_verdict mem_scatter(struct nic *nic, const struct nic_pd *pd, const struct nic_sge *sge, uint32_t n,
			     uint64_t offset, const void *src, uint32_t len);

/** Execute an atomic on aligned application memory; `orig`: as in atomic_execute(). @return false if it faulted. */
bool mem_atomic(struct nic *nic, const struct nic_atomic *a, uint8_t *app, uint64_t *orig);

/** Execute an operation on elements in application memory. Each element is aligned to the size of its parts (a complex
 *  number has two). @return false if an access faulted; some of the elements may have been updated by then. */
bool mem_elements(struct nic *nic, const struct nic_elements *e, uint8_t *app);

static inline struct mkey *mkey_find(const struct nic *nic, uint32_t key)
{
	struct mkey *m = table_find(&nic->mkeys, key >> 8);

	return m && m->key == key ? m : NULL;
}

/** The application's memory at an address of the key's range. Integer arithmetic is needed, because a region over the
 * whole address space has the base NULL, on which C does not allow pointer arithmetic. */
static inline uint8_t *mkey_memory(const struct mkey *m, uint64_t va)
{
	return (uint8_t *)((uintptr_t)m->base + (uintptr_t)(va - m->va)); /* NOLINT(performance-no-int-to-ptr) */
}

/** Look up an R_Key that a peer of one of the domain's QPs has sent. An R_Key that was chosen (nic_mr_reg_named) has
 *  precedence over an equal random key. */
static inline struct mkey *mkey_find_remote(const struct nic *nic, const struct nic_pd *pd, uint32_t rkey)
{
	struct mkey *m = pd->names.count ? table_find(&pd->names, rkey) : NULL;

	return m ? m : mkey_find(nic, rkey);
}

/** Assign a fresh random key and enter it in nic->mkeys. @return 0, -ENOMEM. */
int mkey_enter(struct nic *nic, struct mkey *m);

#endif
