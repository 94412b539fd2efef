/* SPDX-License-Identifier: BSD-3-Clause */
/* share.h - tables of addresses that processes share (av_share.c). Private to verbs_shim/libfabric. */
#ifndef UFI_SHARE_H
#define UFI_SHARE_H

#include "provider.h"

struct ufi_share;

/** What an index stands for. */
enum ufi_share_state {
	UFI_SHARE_LATER, /* nobody yet */
	UFI_SHARE_NAMES,
	UFI_SHARE_NOBODY, /* any more */
};

/** Open the table of this name, which is made unless it is there or `read_only`. `count`: room that it is to have, at least, if it
 *  is made. @return 0, -FI_ENOENT, -FI_EINVAL: no such name, -FI_EACCES: another user's, -FI_ENOMEM, or what the system says. */
int ufi_share_open(const struct ufi_domain *domain, const char *name, bool read_only, size_t count,
		   struct ufi_share **out);
void ufi_share_close(struct ufi_share *share);
/** fi_addr_t by index, in memory that others add to. */
fi_addr_t *ufi_share_map(const struct ufi_share *share);
/** These two, of a table that is not read only. Add an address, or (NULL) an index that stands for none. @return 0, -FI_ENOMEM: full. */
int ufi_share_add(struct ufi_share *share, const struct nic_rdm_addr *addr, uint32_t *out);
void ufi_share_remove(struct ufi_share *share, uint32_t i);
/** How many indices there are, and how many were removed. */
uint32_t ufi_share_count(const struct ufi_share *share);
uint32_t ufi_share_removals(const struct ufi_share *share);
/** Other processes write there: what is named need not be an address. */
enum ufi_share_state ufi_share_at(const struct ufi_share *share, uint32_t i, struct nic_rdm_addr *addr);

#endif
