/* SPDX-License-Identifier: BSD-3-Clause */
/* mw.h - memory windows: binding and invalidating them. Private to nic/. */
#ifndef NIC_MW_H
#define NIC_MW_H

#include <stdbool.h>
#include <stdint.h>

struct nic;
struct nic_bind;
struct nic_qp;

/** Whether a work request of this QP may bind a window as asked (C10-72 ff.). */
bool mw_bind_check(const struct nic_qp *qp, const struct nic_bind *bind);
/** Bind, rebind or unbind a window. mw_bind_check must have passed. */
void mw_bind(struct nic_qp *qp, const struct nic_bind *bind);
/** Whether this QP may invalidate the key: the key must belong to a type 2 window that is bound to this QP. */
bool mw_invalidate_check(const struct nic_qp *qp, uint32_t rkey);
void mw_invalidate(struct nic *nic, uint32_t rkey);

#endif
