/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools.h - connections of the `uroce` command to this function (pmd-internal): they come as visitors of the control
 * plane (control.h), their requests go to observe.h. All calls with the engine locked.
 */
#ifndef PMD_TOOLS_H
#define PMD_TOOLS_H

struct pmd_engine;

/** Receive tools from now on. */
void pmd_tools_serve(struct pmd_engine *e);
/** The process ends: tools that capture hear what they have lost. */
void pmd_tools_last_words(struct pmd_engine *e);
/** End all connections, before the control plane is closed. */
void pmd_tools_close(struct pmd_engine *e);
/** In a forked child: close descriptors, touch nothing else. */
void pmd_tools_abandon(struct pmd_engine *e);

#endif
