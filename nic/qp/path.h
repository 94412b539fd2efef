/* SPDX-License-Identifier: BSD-3-Clause */
/* path.h - the egress paths of QPs. Private to nic/. */
#ifndef NIC_PATH_H
#define NIC_PATH_H

#include <stdint.h>

struct list;
struct nic;
struct nic_gid;
struct nic_qp;

void paths_init(struct nic *nic);
/** The path to a peer's QP, from nic_config.route or route_known; 0 if that path is not open. */
uint32_t path_route(const struct nic *nic, const struct nic_gid *dgid, uint32_t dest_qpn);
/** Take a QP off all paths: nic_path_tx sends nothing of it any more. @param parked a list of such QPs. */
void path_park(struct nic_qp *qp, struct list *parked);
/** A connected QP sends by this path from now on. If the QP is on a ready list, it moves to that of qp_path(). */
void path_move(struct nic_qp *qp, uint32_t path);

#endif
