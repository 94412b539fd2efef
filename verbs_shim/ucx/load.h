/* SPDX-License-Identifier: BSD-3-Clause */
/* load.h - the only function that the UCX module exports. */
#ifndef UX_LOAD_H
#define UX_LOAD_H

/** Register the transport with the UCX of this process; later calls do nothing. UCX's libraries must be loaded. */
__attribute__((visibility("default"))) void uroce_ucx_load(void);

#endif
