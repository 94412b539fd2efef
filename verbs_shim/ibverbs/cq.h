/* SPDX-License-Identifier: BSD-3-Clause */
/* cq.h - completion queues (cq.c, cq_ex.c). */
#ifndef SHIM_CQ_H
#define SHIM_CQ_H

#include "shim.h"

struct shim_cq *shim_cq_create(struct shim_context *ctx, uint32_t depth, void *cq_context,
			       struct ibv_comp_channel *channel, uint32_t comp_vector);
int shim_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc);
/** As shim_poll_cq(). @param note NULL, or out: the note about the last entry taken; unchanged if none is taken. */
int shim_take_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc, struct nic_cq_note *note);
int shim_req_notify_cq(struct ibv_cq *cq, int solicited_only);
/** Moderate a CQ's completion events (nic_cq_moderate). @return 0, -ENOENT, -EIO. */
int shim_cq_moderate(struct ibv_cq *cq, uint16_t count, uint16_t period_us);
int shim_modify_cq(struct ibv_cq *cq, struct ibv_modify_cq_attr *attr);
/** Set whether a CQ may overrun (nic_cq_ignore_overrun). @return 0, -ENOENT, -EIO. */
int shim_cq_ignore_overrun(struct ibv_cq *cq, bool ignore);
struct ibv_cq_ex *shim_create_cq_ex(struct ibv_context *context, struct ibv_cq_init_attr_ex *attr);

#endif
