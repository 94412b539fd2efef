/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools.h - connections of the `uroce` command to this function (pmd-internal): they arrive as visitors of the control
 * plane (control.h), and observe.h answers their requests. All calls with the engine locked.
 */
#ifndef PMD_TOOLS_H
#define PMD_TOOLS_H

struct pmd_engine;

/** Accept tools from now on. */
void pmd_tools_serve(struct pmd_engine *e);
/** The process ends: send capturing tools their final counts. */
void pmd_tools_last_words(struct pmd_engine *e);
/** Close all connections; call before the control plane is closed. */
void pmd_tools_close(struct pmd_engine *e);
/** In a forked child: close descriptors, touch nothing else. */
void pmd_tools_abandon(struct pmd_engine *e);

#endif
