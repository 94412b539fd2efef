/* SPDX-License-Identifier: BSD-3-Clause */
/* xrc.h - XRC domains and target QPs (IBTA A14). */
#ifndef SHIM_XRC_H
#define SHIM_XRC_H

#include "shim.h"

struct ibv_xrcd *shim_open_xrcd(struct ibv_context *context, struct ibv_xrcd_init_attr *attr);
int shim_close_xrcd(struct ibv_xrcd *xrcd);
/** Create an XRC target QP. */
struct ibv_qp *shim_target_create(struct ibv_context *context, struct ibv_qp_init_attr_ex *attr);
struct ibv_qp *shim_open_qp(struct ibv_context *context, struct ibv_qp_open_attr *attr);
/** Detach a structure from the NIC's QP, if other structures share that QP. Engine lock held. @return false: no other
 * structure shares the QP, so the caller must destroy the QP. */
bool shim_target_leave(struct shim_qp *qp);
/** Release the NIC's object of a domain, which is freed when no other domain shares it. Engine lock held. */
void shim_xrcd_drop(struct shim_xrcd *xrcd);

#endif
