/* SPDX-License-Identifier: BSD-3-Clause */
/* uroced_scope.h - the interface of the device's link-local addresses, for uroced_gids.c. */
#ifndef PMD_UROCED_SCOPE_H
#define PMD_UROCED_SCOPE_H

#include "uroced.h"

enum scope_change {
	SCOPE_STAYS,
	SCOPE_MOVED,  /* the sockets of link-local addresses are bound to an interface that is no longer right */
	SCOPE_UNSURE, /* ask again soon */
};

/** @return the index of the interface to which sockets of link-local addresses should be bound now; 0: there is none,
 * or the kernel could not be asked. */
uint32_t scope_wanted(const struct daemon *d);
/** Update d->scope. */
enum scope_change scope_sync(struct daemon *d);

#endif
