/* SPDX-License-Identifier: BSD-3-Clause */
/* mapped.h - whether memory is mapped (pmd-internal). */
#ifndef PMD_MAPPED_H
#define PMD_MAPPED_H

#include <stdbool.h>
#include <stddef.h>

/** Implements nic_config.is_mapped: whether all pages of [addr, addr + len) are mapped. Protected pages, and those past
 *  the end of a file, are. Takes about a microsecond, and more for megabytes. */
bool pmd_is_mapped(void *ctx, const void *addr, size_t len);

#endif
