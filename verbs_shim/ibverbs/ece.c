/* SPDX-License-Identifier: BSD-3-Clause */
/* ece.c - enhanced connection establishment: no option is offered. */
#include "shim.h"

SHIM_EXPORT int ibv_set_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!shim_is_ours(qp->context))
		return shim_real(ibv_set_ece)(qp, ece);
	return ece->vendor_id ? shim_errno(-EOPNOTSUPP) : 0; /* vendor 0 asks for no options, so it is accepted */
}

SHIM_EXPORT int ibv_query_ece(struct ibv_qp *qp, struct ibv_ece *ece)
{
	if (!shim_is_ours(qp->context))
		return shim_real(ibv_query_ece)(qp, ece);
	(void)ece;
	return shim_errno(-EOPNOTSUPP);
}
