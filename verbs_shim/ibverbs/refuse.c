/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * refuse.c - exported functions of features that uroce does not support: sharing objects between processes,
 * enhanced connection establishment (ECE). On real devices, calls are passed to the real library.
 */
#include "shim.h"

SHIM_EXPORT struct ibv_context *ibv_import_device(int cmd_fd)
{
	if (shim_is_cmd_fd(cmd_fd) || !shim_real(ibv_import_device))
		return shim_fail(EOPNOTSUPP);
	return shim_real(ibv_import_device)(cmd_fd);
}

SHIM_EXPORT struct ibv_pd *ibv_import_pd(struct ibv_context *context, uint32_t handle)
{
	return shim_is_ours(context) ? shim_fail(EOPNOTSUPP) : shim_real(ibv_import_pd)(context, handle);
}

SHIM_EXPORT void ibv_unimport_pd(struct ibv_pd *pd)
{
	if (!shim_is_ours(pd->context))
		shim_real(ibv_unimport_pd)(pd);
}

SHIM_EXPORT struct ibv_mr *ibv_import_mr(struct ibv_pd *pd, uint32_t handle)
{
	return shim_is_ours(pd->context) ? shim_fail(EOPNOTSUPP) : shim_real(ibv_import_mr)(pd, handle);
}

SHIM_EXPORT void ibv_unimport_mr(struct ibv_mr *mr)
{
	if (!shim_is_ours(mr->context))
		shim_real(ibv_unimport_mr)(mr);
}

SHIM_EXPORT struct ibv_dm *ibv_import_dm(struct ibv_context *context, uint32_t handle)
{
	return shim_is_ours(context) ? shim_fail(EOPNOTSUPP) : shim_real(ibv_import_dm)(context, handle);
}

SHIM_EXPORT void ibv_unimport_dm(struct ibv_dm *dm)
{
	if (!shim_is_ours(dm->context))
		shim_real(ibv_unimport_dm)(dm);
}

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
