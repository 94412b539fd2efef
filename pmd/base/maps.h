/* SPDX-License-Identifier: BSD-3-Clause */
/* maps.h - the mappings of this process, read from /proc/self/maps without allocating memory (pmd-internal). */
#ifndef PMD_MAPS_H
#define PMD_MAPS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mapping {
	uintptr_t start, end;
	bool readable, writable, shared;
	unsigned long inode; /* 0: no file */
};

struct maps {
	int fd;
	size_t at, end; /* the text not yet parsed */
	bool cut;	/* that text is the rest of a line that was too long */
	char text[4096];
};

/** Start reading. @return false: /proc/self/maps cannot be opened. */
bool maps_open(struct maps *maps);
/** Get the next mapping, in the order of addresses. @return false: there are no more. */
bool maps_next(struct maps *maps, struct mapping *out);
void maps_close(struct maps *maps);

#endif
