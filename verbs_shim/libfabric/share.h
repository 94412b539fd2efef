/* SPDX-License-Identifier: BSD-3-Clause */
/* share.h - address tables shared between processes (av_share.c). Private to verbs_shim/libfabric. */
#ifndef UFI_SHARE_H
#define UFI_SHARE_H

#include "provider.h"

struct ufi_share;

/** State of an index. */
enum ufi_share_state {
	UFI_SHARE_LATER, /* not written yet */
	UFI_SHARE_NAMES,
	UFI_SHARE_NOBODY, /* removed, or its insertion failed */
};

/** Open the table of this name; create it if it is missing, unless `read_only`. `count`: minimum capacity of a new
 *  table.
 *  @return 0, -FI_ENOENT, -FI_EINVAL: bad name or not such a table, -FI_EACCES: another user's, -FI_ENOMEM, or a
 *  negative errno. */
int ufi_share_open(const struct ufi_domain *domain, const char *name, bool read_only, size_t count,
		   struct ufi_share **out);
void ufi_share_close(struct ufi_share *share);
/** fi_addr_t by index, in memory to which other processes add. */
fi_addr_t *ufi_share_map(const struct ufi_share *share);
/** These two: not on a read-only table. Add an address, or with NULL an index without one. @return 0, -FI_ENOMEM:
 *  full. */
int ufi_share_add(struct ufi_share *share, const struct nic_rdm_addr *addr, uint32_t *out);
void ufi_share_remove(struct ufi_share *share, uint32_t i);
/** Number of indices assigned, and of removals. */
uint32_t ufi_share_count(const struct ufi_share *share);
uint32_t ufi_share_removals(const struct ufi_share *share);
/** Other processes write the table: validate the address before use. */
enum ufi_share_state ufi_share_at(const struct ufi_share *share, uint32_t i, struct nic_rdm_addr *addr);

#endif
