/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comp_cntr.c - completion counters, which libibverbs has had since rdma-core 65 (version node 1.18). Our devices
 * have no counters. symbols.list sends calls on a counter to the real library, because only that library can have
 * created the counter.
 */
#include "shim.h"

int shim_query_comp_cntr_caps(struct ibv_context *context, void *caps, size_t size);
void *shim_create_comp_cntr(struct ibv_context *context, void *attr);
int shim_qp_attach_comp_cntr(struct ibv_qp *qp, void *counter, void *attr);

int shim_query_comp_cntr_caps(struct ibv_context *context, void *caps, size_t size)
{
	int (*real)(struct ibv_context *, void *, size_t);

	if (shim_is_ours(context))
		return shim_errno(-EOPNOTSUPP);
	real = (int (*)(struct ibv_context *, void *, size_t))shim_real_symbol("_ibv_query_comp_cntr_caps");
	return real ? real(context, caps, size) : EOPNOTSUPP;
}

void *shim_create_comp_cntr(struct ibv_context *context, void *attr)
{
	void *(*real)(struct ibv_context *, void *);

	if (shim_is_ours(context))
		return shim_fail(EOPNOTSUPP);
	real = (void *(*)(struct ibv_context *, void *))shim_real_symbol("ibv_create_comp_cntr");
	return real ? real(context, attr) : shim_fail(EOPNOTSUPP);
}

int shim_qp_attach_comp_cntr(struct ibv_qp *qp, void *counter, void *attr)
{
	int (*real)(struct ibv_qp *, void *, void *);

	if (shim_is_ours(qp->context))
		return shim_errno(-EOPNOTSUPP);
	real = (int (*)(struct ibv_qp *, void *, void *))shim_real_symbol("ibv_qp_attach_comp_cntr");
	return real ? real(qp, counter, attr) : EOPNOTSUPP;
}
