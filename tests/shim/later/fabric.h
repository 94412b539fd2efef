/* SPDX-License-Identifier: BSD-3-Clause */
/* fabric.h - what the libfabric of a release to come (fabric_library.c) and the program for it (fabric.c) agree on. */
#ifndef LATER_FABRIC_H
#define LATER_FABRIC_H

#include <stddef.h>

#define LATER_VERSION FI_VERSION(1, 99)
#define LATER_GROWTH  64
#define LATER_FILL    0xa5

/** The size in libfabric 1.17 of a structure whose last field was `last`. */
#define LATER_SIZE(type, last) (offsetof(type, last) + sizeof(((type *)NULL)->last))

#endif
