/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_mem.h - protection domains, memory regions and windows; see nic.h. */
#ifndef NIC_NIC_MEM_H
#define NIC_NIC_MEM_H

#include <stdbool.h>
#include <stdint.h>

#include "nic_types.h"

/** Access rights, values of enum ibv_access_flags. */
enum nic_access {
	NIC_ACCESS_LOCAL_WRITE = 1 << 0,
	NIC_ACCESS_REMOTE_WRITE = 1 << 1,
	NIC_ACCESS_REMOTE_READ = 1 << 2,
	NIC_ACCESS_REMOTE_ATOMIC = 1 << 3,
	NIC_ACCESS_MW_BIND = 1 << 4,
	NIC_ACCESS_ZERO_BASED = 1 << 5,
	NIC_ACCESS_ON_DEMAND = 1 << 6, /* the pages are not considered pinned: see nic_mr_reg */
	NIC_ACCESS_FLUSH_GLOBAL = 1 << 8,
	NIC_ACCESS_FLUSH_PERSISTENT = 1 << 9,
};

/** Create a protection domain. @return 0, -ENOMEM (also if max_pd is reached). */
int nic_pd_alloc(struct nic *nic, struct nic_pd **out);
/** Destroy a protection domain. @return 0, -EBUSY while MRs, MWs, AHs, SRQs or QPs belong to the PD. */
int nic_pd_free(struct nic_pd *pd);

/**
 * Register [addr, addr + len) for use under the addresses [iova, iova + len).
 * The range belongs to the application and should stay mapped. If it does not, nic_config.guard catches the fault of an
 * access, and the request fails. Exception: in a region without NIC_ACCESS_ON_DEMAND, a write to pages that are not
 * mapped (nic_config.is_mapped) is dropped, and the request succeeds, as if the pages were pinned.
 * Remote write or remote atomic access without local write access is refused (AT-07, C10-74).
 * @return 0, -EINVAL (rights, overflow), -ENOMEM.
 */
int nic_mr_reg(struct nic_pd *pd, void *addr, uint64_t len, uint64_t iova, uint32_t access, struct nic_mr **out);

enum nic_rereg { NIC_REREG_TRANSLATION = 1, NIC_REREG_PD = 2, NIC_REREG_ACCESS = 4 };
/** Change parts of a registration in place. The keys change only with NIC_REREG_TRANSLATION; an R_Key chosen by the
 *  caller (nic_mr_reg_named) never changes. On failure nothing has changed. @return 0, -EINVAL (also if NIC_REREG_PD is
 *  used with an R_Key chosen by the caller), -EBUSY (windows are bound). */
int nic_mr_rereg(struct nic_mr *mr, uint32_t what, struct nic_pd *pd, void *addr, uint64_t len, uint64_t iova,
		 uint32_t access);
/** End a registration: after this returns, the NIC no longer accesses the range through this registration (RL-10).
 *  @return 0, -EBUSY while memory windows are bound to the region. */
int nic_mr_dereg(struct nic_mr *mr);
uint32_t nic_mr_lkey(const struct nic_mr *mr);
uint32_t nic_mr_rkey(const struct nic_mr *mr);

struct nic_sge;
/** Find the memory that an SGE names, with the checks that apply to work requests of this protection domain. @return 0
 * with *addr; -ENOENT: no region of the protection domain has the L_Key; -EPERM: `write` is set, but the region has no
 * local write right; -EFAULT: the SGE extends beyond the region. */
int nic_sge_find(const struct nic_pd *pd, const struct nic_sge *sge, bool write, void **addr);

enum nic_mw_type { NIC_MW_TYPE_1 = 1, NIC_MW_TYPE_2 = 2 };
/** Allocate a memory window. @return 0, -EINVAL, -ENOMEM. */
int nic_mw_alloc(struct nic_pd *pd, enum nic_mw_type type, struct nic_mw **out);
/** Free a memory window; a bound window is unbound first. @return 0. */
int nic_mw_dealloc(struct nic_mw *mw);
uint32_t nic_mw_rkey(const struct nic_mw *mw);

#endif
