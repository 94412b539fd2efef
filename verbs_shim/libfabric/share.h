/* SPDX-License-Identifier: BSD-3-Clause */
/* share.h - address tables shared between processes (av_share.c). Private to verbs_shim/libfabric. */
#ifndef UFI_SHARE_H
#define UFI_SHARE_H

#include "provider.h"

struct ufi_share;

/** State of a table entry. */
enum ufi_share_state {
	UFI_SHARE_LATER, /* not written yet */
	UFI_SHARE_NAMES,
	UFI_SHARE_NOBODY, /* removed, or its insertion failed */
};

/** Open the table of this name. If it is missing, create it, unless `read_only`. `count`: minimum capacity of a new
 * table. @return 0; -FI_ENOENT: missing, and `read_only`; -FI_EINVAL: the name is too long, or names no address
 * table; -FI_EACCES: belongs to another user; -FI_ENOMEM; or a negative errno. */
int ufi_share_open(const struct ufi_domain *domain, const char *name, bool read_only, size_t count,
		   struct ufi_share **out);
void ufi_share_close(struct ufi_share *share);
/** The shared table's array for fi_av_attr.map_addr. Element i is the fi_addr_t i, or FI_ADDR_NOTAVAIL if the insertion
 * failed. Other processes add elements, too. */
fi_addr_t *ufi_share_map(const struct ufi_share *share);
/** Add an entry with this address; `addr` NULL: an entry without an address. This function and ufi_share_remove() must
 * not be called for read-only tables. @param out receives the entry's index. @return 0, -FI_ENOMEM: table full. */
int ufi_share_add(struct ufi_share *share, const struct nic_rdm_addr *addr, uint32_t *out);
void ufi_share_remove(struct ufi_share *share, uint32_t i);
/** The number of indices assigned so far, and the number of removals. */
uint32_t ufi_share_count(const struct ufi_share *share);
uint32_t ufi_share_removals(const struct ufi_share *share);
/** Read an entry. The caller must validate the address, because other processes write the table. */
enum ufi_share_state ufi_share_at(const struct ufi_share *share, uint32_t i, struct nic_rdm_addr *addr);

#endif
