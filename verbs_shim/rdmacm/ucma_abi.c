/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucma_abi.c - the commands of /dev/infiniband/rdma_cm: a table of commands and their sizes, and the checks of headers.
 * The functions of the commands are in ucma_id.c (ids, options, events), ucma_addr.c (addresses, routes, queries) and
 * ucma_conn.c (connections, multicast groups).
 *
 * A command must have all members of its structure except those that later kernels have added. A shorter command is
 * refused (EINVAL); the kernel would read beyond its end. Memory that the program names is checked before it is used
 * (EFAULT). Owns nothing.
 */
#include <errno.h>
#include <string.h>

#include "ucma.h"

/** Room for the largest command. */
union command {
	struct rdma_ucm_join_mcast join;
	struct rdma_ucm_resolve_addr resolve;
	struct rdma_ucm_accept accept;
	struct ucma_write_cm_event write_event;
	uint64_t align;
};

#define UPTO(type, member) (offsetof(struct type, member) + sizeof(((struct type *)0)->member))
#define WHOLE(type)	   sizeof(struct type), sizeof(struct type)

/* `size`: maximum number of bytes of a command that are read. `in_min`: minimum size of the command in bytes.
 * `out_min`: minimum size in bytes of the program's buffer for the answer. */
static const struct {
	const char *name;
	size_t size, in_min, out_min;
	int (*run)(const struct ucma_call *call, const void *cmd);
} commands[] = {
	[RDMA_USER_CM_CMD_CREATE_ID] = {"create_id", WHOLE(rdma_ucm_create_id), sizeof(struct rdma_ucm_create_id_resp),
					ucma_create_id},
	[RDMA_USER_CM_CMD_DESTROY_ID] = {"destroy_id", WHOLE(rdma_ucm_destroy_id),
					 sizeof(struct rdma_ucm_destroy_id_resp), ucma_destroy_id},
	[RDMA_USER_CM_CMD_BIND_IP] = {"bind_ip", WHOLE(rdma_ucm_bind_ip), 0, ucma_bind_ip},
	[RDMA_USER_CM_CMD_RESOLVE_IP] = {"resolve_ip", WHOLE(rdma_ucm_resolve_ip), 0, ucma_resolve_ip},
	[RDMA_USER_CM_CMD_RESOLVE_ROUTE] = {"resolve_route", WHOLE(rdma_ucm_resolve_route), 0, ucma_resolve_route},
	[RDMA_USER_CM_CMD_QUERY_ROUTE] = {"query_route", WHOLE(rdma_ucm_query),
					  offsetof(struct rdma_ucm_query_route_resp, ibdev_index), ucma_query_route},
	[RDMA_USER_CM_CMD_CONNECT] = {"connect", sizeof(struct rdma_ucm_connect), UPTO(rdma_ucm_connect, reserved), 0,
				      ucma_connect},
	[RDMA_USER_CM_CMD_LISTEN] = {"listen", WHOLE(rdma_ucm_listen), 0, ucma_listen},
	[RDMA_USER_CM_CMD_ACCEPT] = {"accept", sizeof(struct rdma_ucm_accept), UPTO(rdma_ucm_accept, reserved), 0,
				     ucma_accept},
	[RDMA_USER_CM_CMD_REJECT] = {"reject", WHOLE(rdma_ucm_reject), 0, ucma_reject},
	[RDMA_USER_CM_CMD_DISCONNECT] = {"disconnect", WHOLE(rdma_ucm_disconnect), 0, ucma_disconnect},
	[RDMA_USER_CM_CMD_INIT_QP_ATTR] = {"init_qp_attr", WHOLE(rdma_ucm_init_qp_attr),
					   sizeof(struct ib_uverbs_qp_attr), ucma_init_qp_attr},
	[RDMA_USER_CM_CMD_GET_EVENT] = {"get_event", WHOLE(rdma_ucm_get_event),
					offsetof(struct rdma_ucm_event_resp, reserved), ucma_get_event},
	[RDMA_USER_CM_CMD_GET_OPTION] = {"get_option"},
	[RDMA_USER_CM_CMD_SET_OPTION] = {"set_option", WHOLE(rdma_ucm_set_option), 0, ucma_set_option},
	[RDMA_USER_CM_CMD_NOTIFY] = {"notify", WHOLE(rdma_ucm_notify), 0, ucma_notify},
	[RDMA_USER_CM_CMD_JOIN_IP_MCAST] = {"join_ip_mcast", WHOLE(rdma_ucm_join_ip_mcast),
					    sizeof(struct rdma_ucm_create_id_resp), ucma_join_ip_mcast},
	[RDMA_USER_CM_CMD_LEAVE_MCAST] = {"leave_mcast", WHOLE(rdma_ucm_destroy_id),
					  sizeof(struct rdma_ucm_destroy_id_resp), ucma_leave_mcast},
	[RDMA_USER_CM_CMD_MIGRATE_ID] = {"migrate_id", WHOLE(rdma_ucm_migrate_id), sizeof(struct rdma_ucm_migrate_resp),
					 ucma_migrate_id},
	[RDMA_USER_CM_CMD_QUERY] = {"query", WHOLE(rdma_ucm_query), 0, ucma_query},
	[RDMA_USER_CM_CMD_BIND] = {"bind", WHOLE(rdma_ucm_bind), 0, ucma_bind},
	[RDMA_USER_CM_CMD_RESOLVE_ADDR] = {"resolve_addr", WHOLE(rdma_ucm_resolve_addr), 0, ucma_resolve_addr},
	[RDMA_USER_CM_CMD_JOIN_MCAST] = {"join_mcast", WHOLE(rdma_ucm_join_mcast),
					 sizeof(struct rdma_ucm_create_id_resp), ucma_join_mcast},
	[UCMA_CMD_RESOLVE_IB_SERVICE] = {"resolve_ib_service", WHOLE(ucma_resolve_ib_service), 0,
					 ucma_resolve_ib_service},
	[UCMA_CMD_WRITE_CM_EVENT] = {"write_cm_event", WHOLE(ucma_write_cm_event), 0, ucma_write_cm_event},
};

#define COMMANDS (sizeof(commands) / sizeof(commands[0]))

const char *ucma_command_name(uint32_t number)
{
	return number < COMMANDS ? commands[number].name : NULL;
}

int ucma_read(void *to, uint64_t from, size_t len)
{
	const void *at = (const void *)(uintptr_t)from;

	if (len && pmd_check_range(at, len, false))
		return -EFAULT;
	memcpy(to, at, len);
	return 0;
}

int ucma_room(uint64_t to, size_t len)
{
	return len && pmd_check_range((const void *)(uintptr_t)to, len, true) ? -EFAULT : 0;
}

int ucma_reply(uint64_t to, const void *from, size_t len)
{
	int err = ucma_room(to, len);

	if (!err)
		memcpy((void *)(uintptr_t)to, from, len);
	return err;
}

int ucma_enter(const struct ucma_call *call, uint32_t number, struct cma_id **out)
{
	return cma_id_enter(call->file, number, out);
}

int ucma_enter_device(const struct ucma_call *call, uint32_t number, struct cma_id **out)
{
	int err = cma_id_enter(call->file, number, out);

	if (!err && !(*out)->device) {
		cma_id_leave(*out);
		err = -EINVAL;
	}
	return err;
}

int ucma_command(struct cma_file *file, int fd, bool block, int cancel, const void *buf, size_t len)
{
	struct ucma_call call = {.file = file, .fd = fd, .block = block, .cancel = cancel};
	struct rdma_ucm_cmd_hdr hdr;
	union command cmd;
	size_t size;

	if (len < sizeof(hdr))
		return -EINVAL;
	if (ucma_read(&hdr, (uintptr_t)buf, sizeof(hdr)))
		return -EFAULT;
	if (hdr.cmd >= COMMANDS || hdr.in + sizeof(hdr) > len)
		return -EINVAL;
	if (!commands[hdr.cmd].run)
		return -ENOSYS;
	if (hdr.out < commands[hdr.cmd].out_min)
		return -ENOSPC;
	if (hdr.in < commands[hdr.cmd].in_min)
		return -EINVAL;
	size = hdr.in < commands[hdr.cmd].size ? hdr.in : commands[hdr.cmd].size;
	memset(&cmd, 0, sizeof(cmd));
	if (ucma_read(&cmd, (uintptr_t)buf + sizeof(hdr), size))
		return -EFAULT;
	call.out = hdr.out;
	return commands[hdr.cmd].run(&call, &cmd);
}
