/* SPDX-License-Identifier: BSD-3-Clause */
/* ucma_addr.c - commands that bind addresses, resolve addresses and routes, and query both. Owns nothing. */
#include <errno.h>
#include <string.h>

#include "ucma.h"

/* ---- bind -------------------------------------------------------------------------------------------- */

static int bind_to(const struct ucma_call *call, uint32_t number, const void *sockaddr)
{
	struct cma_addr addr;
	struct cma_id *id;
	int err = ucma_enter(call, number, &id);

	if (err)
		return err;
	err = cma_addr_from(sockaddr, &addr);
	err = err ? err : cma_bind(id, &addr);
	cma_id_leave(id);
	return err;
}

int ucma_bind_ip(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_bind_ip *cmd = in;
	unsigned size = cma_sockaddr_size(&cmd->addr);

	return size && size <= sizeof(cmd->addr) ? bind_to(call, cmd->id, &cmd->addr) : -EINVAL;
}

/** librdmacm binds an InfiniBand address to find out whether such addresses are supported. The error
 * EAFNOSUPPORT says that they are not. */
int ucma_bind(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_bind *cmd = in;

	if (cmd->reserved || !cmd->addr_size || cmd->addr_size != cma_sockaddr_size(&cmd->addr))
		return -EINVAL;
	return bind_to(call, cmd->id, &cmd->addr);
}

/* ---- resolve ----------------------------------------------------------------------------------------- */

/** Resolve an address. @param src the source address. A family that is 0 or unknown means that the caller names no
 * source address. */
static int resolve(const struct ucma_call *call, uint32_t number, const void *src, const void *dst)
{
	struct cma_addr from = {0}, to;
	struct cma_id *id;
	int err = ucma_enter(call, number, &id);

	if (err)
		return err;
	err = cma_addr_from(dst, &to);
	if (!err && cma_sockaddr_size(src))
		err = cma_addr_from(src, &from);
	err = err ? err : cma_resolve_addr(id, &from, &to);
	cma_id_leave(id);
	return err;
}

int ucma_resolve_ip(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_resolve_ip *cmd = in;
	unsigned src = cma_sockaddr_size(&cmd->src_addr), dst = cma_sockaddr_size(&cmd->dst_addr);

	if ((cmd->src_addr.sin6_family && !src) || src > sizeof(cmd->src_addr) || !dst || dst > sizeof(cmd->dst_addr))
		return -EINVAL;
	return resolve(call, cmd->id, &cmd->src_addr, &cmd->dst_addr);
}

int ucma_resolve_addr(const struct ucma_call *call, const void *in)
{
	static const struct sockaddr none;
	const struct rdma_ucm_resolve_addr *cmd = in;

	if (cmd->reserved || (cmd->src_size && cmd->src_size != cma_sockaddr_size(&cmd->src_addr)) || !cmd->dst_size ||
	    cmd->dst_size != cma_sockaddr_size(&cmd->dst_addr))
		return -EINVAL;
	return resolve(call, cmd->id, cmd->src_size ? (const void *)&cmd->src_addr : &none, &cmd->dst_addr);
}

int ucma_resolve_route(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_resolve_route *cmd = in;
	struct cma_id *id;
	int err = ucma_enter_device(call, cmd->id, &id);

	if (err)
		return err;
	err = cma_resolve_route(id);
	cma_id_leave(id);
	return err;
}

/** Refuse the command: it is a query of the subnet administrator, which RoCE does not have. */
int ucma_resolve_ib_service(const struct ucma_call *call, const void *in)
{
	const struct ucma_resolve_ib_service *cmd = in;
	struct cma_id *id;
	int err = ucma_enter(call, cmd->id, &id);

	if (err)
		return err;
	err = id->device ? -EOPNOTSUPP : -EINVAL;
	cma_id_leave(id);
	return err;
}

/* ---- query ------------------------------------------------------------------------------------------- */

int ucma_query_route(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_query *cmd = in;
	struct rdma_ucm_query_route_resp resp;
	struct cma_id *id;
	int err = ucma_enter(call, cmd->id, &id);

	if (err)
		return err;
	cma_query_route(id, &resp);
	cma_id_leave(id);
	return ucma_reply(cmd->response, &resp, call->out < sizeof(resp) ? call->out : sizeof(resp));
}

static int query_addr(const struct ucma_call *call, const struct rdma_ucm_query *cmd, struct cma_id *id,
		      void (*fill)(struct cma_id *id, struct rdma_ucm_query_addr_resp *out))
{
	struct rdma_ucm_query_addr_resp resp;

	if (call->out < offsetof(struct rdma_ucm_query_addr_resp, ibdev_index))
		return -ENOSPC;
	fill(id, &resp);
	return ucma_reply(cmd->response, &resp, call->out < sizeof(resp) ? call->out : sizeof(resp));
}

static int query_path(const struct ucma_call *call, const struct rdma_ucm_query *cmd, struct cma_id *id)
{
	_Alignas(struct rdma_ucm_query_path_resp)
		uint8_t room[sizeof(struct rdma_ucm_query_path_resp) + sizeof(struct ib_path_rec_data)] = {0};
	struct rdma_ucm_query_path_resp *resp = (void *)room;
	size_t len = sizeof(*resp);

	if (call->out < len)
		return -ENOSPC;
	resp->num_paths = cma_query_path(id, resp->path_data);
	if (resp->num_paths && call->out >= sizeof(room))
		len = sizeof(room);
	return ucma_reply(cmd->response, room, len);
}

static int query_ib_service(const struct ucma_call *call, const struct rdma_ucm_query *cmd)
{
	const struct ucma_query_ib_service_resp resp = {0};

	return call->out < sizeof(resp) ? -ENOSPC : ucma_reply(cmd->response, &resp, sizeof(resp));
}

int ucma_query(const struct ucma_call *call, const void *in)
{
	const struct rdma_ucm_query *cmd = in;
	struct cma_id *id;
	int err = ucma_enter(call, cmd->id, &id);

	if (err)
		return err;
	switch (cmd->option) {
	case RDMA_USER_CM_QUERY_ADDR:
		err = query_addr(call, cmd, id, cma_query_addr);
		break;
	case RDMA_USER_CM_QUERY_PATH:
		err = query_path(call, cmd, id);
		break;
	case RDMA_USER_CM_QUERY_GID:
		err = query_addr(call, cmd, id, cma_query_gid);
		break;
	case UCMA_QUERY_IB_SERVICE:
		err = query_ib_service(call, cmd);
		break;
	default:
		err = -ENOSYS;
	}
	cma_id_leave(id);
	return err;
}
