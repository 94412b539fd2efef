/* SPDX-License-Identifier: BSD-3-Clause */
/* ucma_conn.c - commands on connections and multicast groups. Owns nothing. */
#include <errno.h>

#include "ucma.h"

int ucma_connect(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_connect *cmd = in;
	struct cma_id *id;
	int err;

	if (!cmd->conn_param.valid)
		return -EINVAL;
	err = ucma_enter_device(call, cmd->id, &id);
	if (err)
		return err;
	err = cma_connect(id, &cmd->conn_param, &cmd->ece);
	cma_id_leave(id);
	return err;
}

int ucma_listen(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_listen *cmd = in;
	struct cma_id *id;
	int err = ucma_enter(call, cmd->id, &id);

	if (err)
		return err;
	err = cma_listen(id, (int)cmd->backlog);
	cma_id_leave(id);
	return err;
}

int ucma_accept(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_accept *cmd = in;
	struct cma_id *id;
	int err = ucma_enter_device(call, cmd->id, &id);

	if (err)
		return err;
	err = cma_accept(id, cmd->conn_param.valid ? &cmd->conn_param : NULL, &cmd->ece, cmd->uid);
	cma_id_leave(id);
	return err;
}

int ucma_reject(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_reject *cmd = in;
	uint8_t reason = cmd->reason ? cmd->reason : NIC_CM_REJ_CONSUMER;
	struct cma_id *id;
	int err;

	if (reason != NIC_CM_REJ_CONSUMER && reason != NIC_CM_REJ_VENDOR_OPTION)
		return -EINVAL;
	err = ucma_enter_device(call, cmd->id, &id);
	if (err)
		return err;
	err = cma_reject(id, reason, cmd->private_data, cmd->private_data_len);
	cma_id_leave(id);
	return err;
}

int ucma_disconnect(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_disconnect *cmd = in;
	struct cma_id *id;
	int err = ucma_enter_device(call, cmd->id, &id);

	if (err)
		return err;
	err = cma_disconnect(id);
	cma_id_leave(id);
	return err;
}

int ucma_notify(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_notify *cmd = in;
	struct cma_id *id;
	int err = ucma_enter_device(call, cmd->id, &id);

	if (err)
		return err;
	err = cma_notify(id, cmd->event);
	cma_id_leave(id);
	return err;
}

int ucma_init_qp_attr(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_init_qp_attr *cmd = in;
	struct ib_uverbs_qp_attr resp;
	struct cma_id *id;
	int err;

	if (cmd->qp_state > 6) /* IBV_QPS_ERR */
		return -EINVAL;
	err = ucma_enter_device(call, cmd->id, &id);
	if (err)
		return err;
	err = cma_qp_attr(id, cmd->qp_state, &resp);
	cma_id_leave(id);
	return err ? err : ucma_reply(cmd->response, &resp, sizeof(resp));
}

/* ---- multicast --------------------------------------------------------------------------------------- */

static int join(const struct ucma_call *call, uint32_t number, const void *sockaddr, uint64_t uid, uint64_t response)
{
	struct rdma_ucm_create_id_resp resp;
	struct cma_addr group;
	struct cma_id *id;
	int err = ucma_room(response, sizeof(resp));

	err = err ? err : ucma_enter_device(call, number, &id);
	if (err)
		return err;
	err = cma_addr_from(sockaddr, &group) ? -EINVAL : cma_join(id, &group, uid, &resp.id);
	cma_id_leave(id);
	return err ? err : ucma_reply(response, &resp, sizeof(resp));
}

int ucma_join_ip_mcast(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_join_ip_mcast *cmd = in;

	return cma_sockaddr_size(&cmd->addr) ? join(call, cmd->id, &cmd->addr, cmd->uid, cmd->response) : -EINVAL;
}

int ucma_join_mcast(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_join_mcast *cmd = in;

	if (!cmd->addr_size || cmd->addr_size != cma_sockaddr_size(&cmd->addr) ||
	    cmd->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED)
		return -EINVAL;
	return join(call, cmd->id, &cmd->addr, cmd->uid, cmd->response);
}

int ucma_leave_mcast(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_destroy_id *cmd = in;
	struct rdma_ucm_destroy_id_resp resp;
	int err = cma_leave(call->file, cmd->id, &resp.events_reported);

	return err ? err : ucma_reply(cmd->response, &resp, sizeof(resp));
}
