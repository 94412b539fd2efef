/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tools.h - connections of the `uroce` command to our function (pmd-internal): they arrive as visitors of the control
 * plane (control.h), and observe.h answers their requests. All functions are called with the engine locked, or while it
 * opens or closes.
 */
#ifndef PMD_TOOLS_H
#define PMD_TOOLS_H

#include "engine_host.h"

struct pmd_tool;

/** Connections of tools. All zeroes: none. */
struct pmd_tools {
	struct pmd_tool *list;
	unsigned n;
};

/** Accept connections of tools from now on. */
void pmd_tools_serve(struct pmd_host *host);
/** Call when the process ends: sends the final counts to the tools that capture packets. */
void pmd_tools_last_words(struct pmd_host *host);
/** Close all connections; call before the control plane is closed. */
void pmd_tools_close(struct pmd_host *host);
/** In a forked child: close descriptors, touch nothing else. */
void pmd_tools_abandon(struct pmd_host *host);

#endif
