/* SPDX-License-Identifier: BSD-3-Clause */
/* qp_create.h - creating, resetting and resizing queue pairs (implemented in qp.c). Private to nic/. */
#ifndef NIC_QP_CREATE_H
#define NIC_QP_CREATE_H

#include <stdint.h>

struct nic;
struct nic_qp;
struct nic_qp_init;

/** Create a QP as nic_qp_create does, but with the given QPN. @return as nic_qp_create, or -EADDRINUSE. */
int qp_create_at(struct nic *nic, struct nic_qp_init *init, uint32_t qpn, struct nic_qp **out);
/** Enlarge the send queue; posted WQEs are kept. @return 0, -ENOMEM. */
int qp_sq_grow(struct nic_qp *qp, uint32_t capacity);
/** Empty the queues and stop everything, as in state RESET. */
void qp_reset(struct nic_qp *qp);
/** Remove the completions of the QP from its CQs. */
void qp_purge_cqs(const struct nic_qp *qp);

#endif
