/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * local.h - which addresses are this host's, in the network namespace of this process (pmd-internal).
 *
 * Every user of the host can send from a local address; nic/qp/source.c says what follows from that. All functions are
 * called under the engine's lock, or while no other thread uses the engine.
 */
#ifndef PMD_LOCAL_H
#define PMD_LOCAL_H

#include "control.h"

struct pmd_local;

/** List the addresses now, and again whenever the kernel reports a change. If the kernel cannot report changes, the
 *  first list stays. If the addresses cannot be listed for another reason than a lack of descriptors or memory, only
 *  loopback addresses are known. @return 0, also in these two cases; -EMFILE, -ENFILE, -ENOMEM, -ENOBUFS. */
int pmd_local_open(struct pmd_control *control, struct pmd_local **out);
void pmd_local_close(struct pmd_local *local);
/** List the addresses again if the last attempt failed. */
void pmd_local_retry(struct pmd_host *host);
/** In a forked child: close descriptors, touch nothing else. */
void pmd_local_abandon(struct pmd_local *local);

/** Whether the address is this host's: a loopback address, or an address of an interface. Makes no system calls. With
 *  local = NULL only loopback addresses are known. */
bool pmd_local_has(const struct pmd_local *local, const struct nic_gid *gid);

#endif
