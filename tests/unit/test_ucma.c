/* SPDX-License-Identifier: BSD-3-Clause */
/* test_ucma.c - the commands of /dev/infiniband/rdma_cm, one by one: sizes, ids, states, errors as from a kernel. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "cma_rig.h"
#include "device.h"
#include "ucma.h"

static int setup(void **state)
{
	(void)state;
	rig_start();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_stop();
	return 0;
}

/* ---- header and sizes -------------------------------------------------------------------------------- */

static void ucma__a_write_shorter_than_its_header_is_EINVAL(void **state)
{
	const struct rdma_ucm_cmd_hdr hdr = {.cmd = RDMA_USER_CM_CMD_DISCONNECT, .in = 4};
	int fd = rig_open(0);

	(void)state;
	for (size_t len = 0; len < sizeof(hdr); len++)
		assert_int_equal(rig_write(fd, &hdr, len), -EINVAL);
	/* The header announces 4 bytes after it, but none follow. */
	assert_int_equal(rig_write(fd, &hdr, sizeof(hdr)), -EINVAL);
}

static void ucma__unknown_commands(void **state)
{
	uint8_t body[512] = {0};
	int fd = rig_open(0);

	(void)state;
	assert_int_equal(rig_command(fd, RDMA_USER_CM_CMD_GET_OPTION, body, sizeof(body), 512), -ENOSYS);
	assert_int_equal(rig_command(fd, UCMA_CMD_WRITE_CM_EVENT + 1, body, sizeof(body), 512), -EINVAL);
	assert_int_equal(rig_command(fd, UINT32_MAX, body, sizeof(body), 512), -EINVAL);
}

static const struct size {
	uint32_t number;
	size_t in, out;
} sizes[] = {
	{RDMA_USER_CM_CMD_CREATE_ID, sizeof(struct rdma_ucm_create_id), 4},
	{RDMA_USER_CM_CMD_DESTROY_ID, sizeof(struct rdma_ucm_destroy_id), 4},
	{RDMA_USER_CM_CMD_BIND_IP, sizeof(struct rdma_ucm_bind_ip), 0},
	{RDMA_USER_CM_CMD_RESOLVE_IP, sizeof(struct rdma_ucm_resolve_ip), 0},
	{RDMA_USER_CM_CMD_RESOLVE_ROUTE, sizeof(struct rdma_ucm_resolve_route), 0},
	{RDMA_USER_CM_CMD_QUERY_ROUTE, sizeof(struct rdma_ucm_query),
	 offsetof(struct rdma_ucm_query_route_resp, ibdev_index)},
	{RDMA_USER_CM_CMD_CONNECT, offsetof(struct rdma_ucm_connect, ece), 0},
	{RDMA_USER_CM_CMD_LISTEN, sizeof(struct rdma_ucm_listen), 0},
	{RDMA_USER_CM_CMD_ACCEPT, offsetof(struct rdma_ucm_accept, ece), 0},
	{RDMA_USER_CM_CMD_REJECT, sizeof(struct rdma_ucm_reject), 0},
	{RDMA_USER_CM_CMD_DISCONNECT, sizeof(struct rdma_ucm_disconnect), 0},
	{RDMA_USER_CM_CMD_INIT_QP_ATTR, sizeof(struct rdma_ucm_init_qp_attr), sizeof(struct ib_uverbs_qp_attr)},
	{RDMA_USER_CM_CMD_GET_EVENT, sizeof(struct rdma_ucm_get_event), offsetof(struct rdma_ucm_event_resp, reserved)},
	{RDMA_USER_CM_CMD_SET_OPTION, sizeof(struct rdma_ucm_set_option), 0},
	{RDMA_USER_CM_CMD_NOTIFY, sizeof(struct rdma_ucm_notify), 0},
	{RDMA_USER_CM_CMD_JOIN_IP_MCAST, sizeof(struct rdma_ucm_join_ip_mcast), 4},
	{RDMA_USER_CM_CMD_LEAVE_MCAST, sizeof(struct rdma_ucm_destroy_id), 4},
	{RDMA_USER_CM_CMD_MIGRATE_ID, sizeof(struct rdma_ucm_migrate_id), 4},
	{RDMA_USER_CM_CMD_QUERY, sizeof(struct rdma_ucm_query), 0},
	{RDMA_USER_CM_CMD_BIND, sizeof(struct rdma_ucm_bind), 0},
	{RDMA_USER_CM_CMD_RESOLVE_ADDR, sizeof(struct rdma_ucm_resolve_addr), 0},
	{RDMA_USER_CM_CMD_JOIN_MCAST, sizeof(struct rdma_ucm_join_mcast), 4},
	{UCMA_CMD_RESOLVE_IB_SERVICE, 88, 0},
	{UCMA_CMD_WRITE_CM_EVENT, sizeof(struct ucma_write_cm_event), 0},
};
#define SIZES (sizeof(sizes) / sizeof(sizes[0]))

static void ucma__each_command_refuses_a_short_structure(void **state)
{
	uint8_t body[512] = {0};
	int fd = rig_open(O_NONBLOCK);

	(void)state;
	for (unsigned i = 0; i < SIZES; i++) {
		assert_non_null(ucma_command_name(sizes[i].number));
		for (size_t in = 0; in < sizes[i].in; in++)
			assert_int_equal(rig_command(fd, sizes[i].number, body, in, 512), -EINVAL);
		assert_int_not_equal(rig_command(fd, sizes[i].number, body, sizes[i].in, 512), -ENOSPC);
	}
}

static void ucma__each_command_refuses_a_short_response_buffer(void **state)
{
	uint8_t body[512] = {0};
	int fd = rig_open(O_NONBLOCK);

	(void)state;
	for (unsigned i = 0; i < SIZES; i++)
		for (size_t out = 0; out < sizes[i].out; out++)
			assert_int_equal(rig_command(fd, sizes[i].number, body, sizes[i].in, out), -ENOSPC);
}

static void ucma__unmapped_memory_is_EFAULT(void **state)
{
	const struct rdma_ucm_create_id create = {.response = 8, .ps = RDMA_PS_TCP};
	const struct rdma_ucm_get_event get = {.response = 8};
	struct rdma_ucm_query query = {.response = 8};
	struct rdma_ucm_set_option option = {.optval = 8, .optlen = 1};
	int fd = rig_open(O_NONBLOCK);
	ssize_t result;

	(void)state;
	assert_true(rdmacm_device()->write(fd, (void *)8, 64, &result));
	assert_int_equal(result, -1);
	assert_int_equal(errno, EFAULT);
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_CREATE_ID, create, 4), -EFAULT);
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_GET_EVENT, get, 512), -EFAULT);
	query.id = option.id = rig_create(fd, RDMA_PS_TCP, 1);
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_QUERY_ROUTE, query, 512), -EFAULT);
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_SET_OPTION, option, 0), -EFAULT);
}

/* ---- ids --------------------------------------------------------------------------------------------- */

/* Where the id is in the structure of each command that has one. */
static const struct {
	uint32_t number;
	size_t at;
} with_id[] = {
	{RDMA_USER_CM_CMD_DESTROY_ID, offsetof(struct rdma_ucm_destroy_id, id)},
	{RDMA_USER_CM_CMD_RESOLVE_ROUTE, offsetof(struct rdma_ucm_resolve_route, id)},
	{RDMA_USER_CM_CMD_QUERY_ROUTE, offsetof(struct rdma_ucm_query, id)},
	{RDMA_USER_CM_CMD_LISTEN, offsetof(struct rdma_ucm_listen, id)},
	{RDMA_USER_CM_CMD_ACCEPT, offsetof(struct rdma_ucm_accept, id)},
	{RDMA_USER_CM_CMD_REJECT, offsetof(struct rdma_ucm_reject, id)},
	{RDMA_USER_CM_CMD_DISCONNECT, offsetof(struct rdma_ucm_disconnect, id)},
	{RDMA_USER_CM_CMD_INIT_QP_ATTR, offsetof(struct rdma_ucm_init_qp_attr, id)},
	{RDMA_USER_CM_CMD_SET_OPTION, offsetof(struct rdma_ucm_set_option, id)},
	{RDMA_USER_CM_CMD_NOTIFY, offsetof(struct rdma_ucm_notify, id)},
	{RDMA_USER_CM_CMD_QUERY, offsetof(struct rdma_ucm_query, id)},
	{UCMA_CMD_RESOLVE_IB_SERVICE, offsetof(struct ucma_resolve_ib_service, id)},
};

static void all_with_id(int fd, uint32_t id, int err)
{
	uint8_t body[512], answer[512];
	uint64_t response = (uintptr_t)answer;

	for (unsigned i = 0; i < sizeof(with_id) / sizeof(with_id[0]); i++) {
		memset(body, 0, sizeof(body));
		if (with_id[i].at >= 8)
			memcpy(body, &response, sizeof(response));
		memcpy(body + with_id[i].at, &id, sizeof(id));
		assert_int_equal(rig_command(fd, with_id[i].number, body, sizeof(body), 512), err);
	}
}

static void ucma__unknown_ids_are_ENOENT_and_another_files_EINVAL(void **state)
{
	int a = rig_open(0), b = rig_open(0);
	uint32_t id = rig_create(a, RDMA_PS_TCP, 1);

	(void)state;
	all_with_id(a, id + 1, -ENOENT);
	all_with_id(a, UINT32_MAX, -ENOENT);
	all_with_id(b, id, -EINVAL);
	assert_int_equal(rig_destroy(a, id, NULL), 0);
	assert_int_equal(rig_destroy(a, id, NULL), -ENOENT);
}

static void ucma__the_lowest_free_number_is_taken(void **state)
{
	int fd = rig_open(0);
	uint32_t ids[300];

	(void)state;
	for (unsigned i = 0; i < 300; i++) {
		ids[i] = rig_create(fd, RDMA_PS_TCP, 1 + i);
		assert_int_equal(ids[i], i);
	}
	assert_int_equal(rig_destroy(fd, ids[7], NULL), 0);
	assert_int_equal(rig_destroy(fd, ids[5], NULL), 0);
	assert_int_equal(rig_create(fd, RDMA_PS_TCP, 1), 5);
	assert_int_equal(rig_create(fd, RDMA_PS_TCP, 1), 7);
	assert_int_equal(rig_create(fd, RDMA_PS_TCP, 1), 300);
}

static void ucma__port_spaces(void **state)
{
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_create_id cmd = {.response = (uintptr_t)&resp, .ps = 0x0107};
	int fd = rig_open(0);

	(void)state;
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_CREATE_ID, cmd, 4), -EINVAL);
	rig_create(fd, RDMA_PS_TCP, 1);
	rig_create(fd, RDMA_PS_UDP, 1);
	rig_create(fd, RDMA_PS_IPOIB, 1);
	rig_create(fd, RDMA_PS_IB, 1);
}

/* ---- states ------------------------------------------------------------------------------------------ */

static void ucma__commands_on_an_id_without_a_device_are_EINVAL(void **state)
{
	struct ib_uverbs_qp_attr attr;
	int fd = rig_open(0);
	uint32_t id = rig_create(fd, RDMA_PS_TCP, 1);

	(void)state;
	assert_int_equal(rig_route(fd, id), -EINVAL);
	assert_int_equal(rig_connect(fd, id, NULL, 0), -EINVAL);
	assert_int_equal(rig_accept(fd, id, 1, NULL, 0), -EINVAL);
	assert_int_equal(rig_reject(fd, id, 0, NULL, 0), -EINVAL);
	assert_int_equal(rig_disconnect(fd, id), -EINVAL);
	assert_int_equal(rig_notify(fd, id, UCMA_EVENT_COMM_EST), -EINVAL);
	assert_int_equal(rig_qp_attr(fd, id, 1, &attr), -EINVAL);
	assert_false(rig_readable(fd));
}

static void ucma__commands_in_the_wrong_state_are_EINVAL(void **state)
{
	struct rig_pair p;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	assert_int_equal(rig_bind(p.client, p.active, RIG_ADDRESS, 0), -EINVAL);
	assert_int_equal(rig_resolve(p.client, p.active, RIG_ADDRESS, 1), -EINVAL);
	assert_int_equal(rig_route(p.client, p.active), -EINVAL);
	assert_int_equal(rig_listen(p.client, p.active, 1), -EINVAL);
	assert_int_equal(rig_accept(p.client, p.active, 1, NULL, 0), -EINVAL);
	assert_int_equal(rig_reject(p.client, p.active, 0, NULL, 0), -EINVAL);
	assert_int_equal(rig_disconnect(p.client, p.active), -EINVAL);
	assert_int_equal(rig_listen(p.server, p.listener, 1), -EINVAL);
	assert_int_equal(rig_connect(p.server, p.listener, NULL, 0), -EINVAL);
	assert_int_equal(rig_resolve(p.server, p.listener, RIG_ADDRESS, 1), -EINVAL);
	rig_pair_connect(&p);
	assert_int_equal(rig_connect(p.client, p.active, NULL, 0), -EINVAL);
	assert_int_equal(rig_accept(p.server, p.passive, 300, NULL, 0), -EINVAL);
	assert_int_equal(rig_notify(p.server, p.passive, UCMA_EVENT_COMM_EST + 1), -EINVAL);
	assert_int_equal(rig_notify(p.server, p.passive, UCMA_EVENT_COMM_EST), -EISCONN);
}

static void ucma__connect_checks_its_parameters(void **state)
{
	uint8_t data[256] = {0};
	struct rdma_ucm_connect cmd = {0};
	struct rig_pair p;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	cmd.id = p.active;
	assert_int_equal(RIG_COMMAND(p.client, RDMA_USER_CM_CMD_CONNECT, cmd, 0), -EINVAL); /* conn_param.valid is 0 */
	assert_int_equal(rig_connect(p.client, p.active, data, 57), -EINVAL);
	assert_int_equal(rig_reject(p.client, p.active, 7, NULL, 0), -EINVAL); /* not a reason that programs may give */
	assert_int_equal(rig_connect(p.client, p.active, data, 56), 0);
}

/* ---- addresses --------------------------------------------------------------------------------------- */

static void ucma__bind_errors(void **state)
{
	struct rdma_ucm_bind_ip ip = {0};
	struct rdma_ucm_bind bind = {.addr_size = 48};
	int fd = rig_open(0);
	uint32_t id = rig_create(fd, RDMA_PS_TCP, 1), other = rig_create(fd, RDMA_PS_TCP, 2);

	(void)state;
	ip.id = bind.id = id;
	ip.addr.sin6_family = 99;
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_BIND_IP, ip, 0), -EINVAL);
	*(uint16_t *)&bind.addr = 27; /* librdmacm probes for addresses of InfiniBand */
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_BIND, bind, 0), -EAFNOSUPPORT);
	bind.addr_size = 16;
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_BIND, bind, 0), -EINVAL);
	ip.addr = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = {.s6_addr = {0xfe, 0x80, [15] = 1}}};
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_BIND_IP, ip, 0), -EINVAL); /* link-local without interface */
	assert_int_equal(rig_bind(fd, id, "192.0.2.1", 0), -ENODEV);
	assert_int_equal(rig_bind(fd, id, RIG_ADDRESS, RIG_PORT), 0);
	assert_int_equal(rig_bind(fd, id, RIG_ADDRESS, RIG_PORT), -EINVAL);
	assert_int_equal(rig_bind(fd, other, RIG_ADDRESS, RIG_PORT), -EADDRINUSE);
	assert_int_equal(rig_bind(fd, other, "0.0.0.0", RIG_PORT), -EADDRNOTAVAIL);
	assert_int_equal(rig_bind(fd, other, "127.0.83.2", RIG_PORT), 0);
}

static void ucma__binding_any_address_binds_one_port_on_all_devices(void **state)
{
	struct rdma_ucm_query_route_resp resp;
	int fd = rig_open(0);
	uint32_t id = rig_create(fd, RDMA_PS_TCP, 1), other = rig_create(fd, RDMA_PS_TCP, 2);

	(void)state;
	assert_int_equal(rig_bind(fd, id, "0.0.0.0", 0), 0);
	assert_int_equal(rig_ports(), RIG_DEVICES);
	assert_int_equal(rig_query_route(fd, id, &resp), 0);
	assert_int_equal(resp.node_guid, 0);
	assert_int_not_equal(resp.src_addr.sin6_port, 0);
	assert_int_equal(rig_bind(fd, other, "127.0.83.2", ntohs(resp.src_addr.sin6_port)), -EADDRNOTAVAIL);
	assert_int_equal(rig_destroy(fd, id, NULL), 0);
	assert_int_equal(rig_ports(), 0);
}

static void ucma__options(void **state)
{
	int on = 1;
	uint8_t byte = 14;
	int fd = rig_open(0);
	uint32_t id = rig_create(fd, RDMA_PS_TCP, 1), ud = rig_create(fd, RDMA_PS_UDP, 2);

	(void)state;
	assert_int_equal(rig_option(fd, id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1), 0);
	assert_int_equal(rig_option(fd, id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &on, 4), -EINVAL);
	assert_int_equal(rig_option(fd, id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, 4), 0);
	assert_int_equal(rig_option(fd, id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &byte, 1), -EINVAL);
	assert_int_equal(rig_option(fd, id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, 4), 0);
	assert_int_equal(rig_option(fd, id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1), 0);
	assert_int_equal(rig_option(fd, ud, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &byte, 1), -EINVAL);
	assert_int_equal(rig_option(fd, id, RDMA_OPTION_ID, 99, &on, 4), -ENOSYS);
	assert_int_equal(rig_option(fd, id, 99, 0, &on, 4), -ENOSYS);
	assert_int_equal(rig_option(fd, id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &on, 4), -EINVAL);
	assert_int_equal(rig_option(fd, id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &byte, 1u << 30), -EINVAL);
	assert_int_equal(rig_bind(fd, id, RIG_ADDRESS, RIG_PORT), 0);
	assert_int_equal(rig_listen(fd, id, 1), 0);
	assert_int_equal(rig_option(fd, id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, 4), -EINVAL);
	assert_int_equal(rig_option(fd, id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, 4), -EINVAL);
}

static void ucma__resolve_errors(void **state)
{
	struct rdma_ucm_resolve_ip ip = {0};
	struct rdma_ucm_event_resp e;
	int fd = rig_open(0);
	uint32_t id = rig_create(fd, RDMA_PS_TCP, 1);
	int rc;

	(void)state;
	ip.id = id;
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_RESOLVE_IP, ip, 0), -EINVAL);
	/* The route to ::1 does not lead to a device: the ethdev device sends nothing to this host's loopback
	 * addresses. */
	assert_int_equal(rig_bind(fd, id, "0.0.0.0", 0), 0);
	ip.dst_addr.sin6_family = AF_INET6;
	ip.dst_addr.sin6_addr.s6_addr[15] = 1;
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_RESOLVE_IP, ip, 0), -EINVAL); /* the id is bound to IPv4 */
	id = ip.id = rig_create(fd, RDMA_PS_TCP, 7);
	rc = RIG_COMMAND(fd, RDMA_USER_CM_CMD_RESOLVE_IP, ip, 0);
	if (rc) { /* without IPv6 the kernel refuses at once */
		assert_int_not_equal(rc, -EACCES);
		return;
	}
	e = rig_event(fd, UCMA_ADDR_ERROR);
	assert_int_equal((int)e.status, -ENODEV);
	assert_int_equal(e.uid, 7);
	assert_int_equal(e.id, id);
}

/* ---- queries, multicast, newer commands ------------------------------------------------------------------ */

static void ucma__queries(void **state)
{
	union {
		struct rdma_ucm_query_addr_resp addr;
		uint8_t bytes[sizeof(struct rdma_ucm_query_path_resp) + 6 * sizeof(struct ib_path_rec_data)];
	} out;
	struct rdma_ucm_query q = {.response = (uintptr_t)&out, .option = RDMA_USER_CM_QUERY_ADDR};
	struct rig_pair p;
	uint32_t n;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	q.id = p.active;
	assert_int_equal(RIG_COMMAND(p.client, RDMA_USER_CM_CMD_QUERY, q, 8), -ENOSPC);
	assert_int_equal(RIG_COMMAND(p.client, RDMA_USER_CM_CMD_QUERY, q, sizeof(out.addr)), 0);
	assert_int_equal(out.addr.src_size, sizeof(struct sockaddr_in));
	assert_int_equal(out.addr.dst_size, sizeof(struct sockaddr_in));
	assert_int_equal(out.addr.port_num, 1);
	assert_int_equal(out.addr.pkey, 0xffff);
	q.option = RDMA_USER_CM_QUERY_GID;
	assert_int_equal(RIG_COMMAND(p.client, RDMA_USER_CM_CMD_QUERY, q, sizeof(out.addr)), 0);
	assert_int_equal(out.addr.src_size, 48);
	q.option = RDMA_USER_CM_QUERY_PATH;
	assert_int_equal(RIG_COMMAND(p.client, RDMA_USER_CM_CMD_QUERY, q, sizeof(out)), 0);
	memcpy(&n, out.bytes, sizeof(n));
	assert_int_equal(n, 1);
	q.option = UCMA_QUERY_IB_SERVICE;
	assert_int_equal(RIG_COMMAND(p.client, RDMA_USER_CM_CMD_QUERY, q, sizeof(out)), 0);
	memcpy(&n, out.bytes, sizeof(n));
	assert_int_equal(n, 0);
	q.option = 99;
	assert_int_equal(RIG_COMMAND(p.client, RDMA_USER_CM_CMD_QUERY, q, sizeof(out)), -ENOSYS);
}

static void ucma__an_event_that_the_program_writes_is_read_in_order(void **state)
{
	struct ucma_write_cm_event cmd = {.event = UCMA_USER, .status = 5, .param.arg = 0x1122334455667788};
	struct rdma_ucm_event_resp e;
	uint64_t arg;
	int fd = rig_open(O_NONBLOCK);

	(void)state;
	cmd.id = rig_create(fd, RDMA_PS_TCP, 9);
	assert_int_equal(RIG_COMMAND(fd, UCMA_CMD_WRITE_CM_EVENT, cmd, 0), 0);
	cmd.event = UCMA_INTERNAL;
	assert_int_equal(RIG_COMMAND(fd, UCMA_CMD_WRITE_CM_EVENT, cmd, 0), 0);
	cmd.event = UCMA_ESTABLISHED;
	assert_int_equal(RIG_COMMAND(fd, UCMA_CMD_WRITE_CM_EVENT, cmd, 0), -EINVAL);
	e = rig_event(fd, UCMA_USER);
	memcpy(&arg, &e.param, sizeof(arg));
	assert_int_equal(arg, 0x1122334455667788);
	assert_int_equal(e.status, 5);
	assert_int_equal(e.uid, 9);
	rig_event(fd, UCMA_INTERNAL);
	assert_false(rig_readable(fd));
}

static void ucma__multicast_errors(void **state)
{
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_join_ip_mcast join = {.response = (uintptr_t)&resp};
	struct rdma_ucm_destroy_id leave = {.response = (uintptr_t)&resp};
	struct sockaddr_in group = rig_v4("239.0.0.1", 0), host = rig_v4("127.83.0.2", 0);
	int fd = rig_open(0), other = rig_open(0);

	(void)state;
	join.id = rig_create(fd, RDMA_PS_UDP, 1);
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_JOIN_IP_MCAST, join, 4), -EINVAL);
	memcpy(&join.addr, &group, sizeof(group));
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_JOIN_IP_MCAST, join, 4), -EINVAL); /* id without device */
	assert_int_equal(rig_bind(fd, join.id, RIG_ADDRESS, 0), 0);
	memcpy(&join.addr, &host, sizeof(host));
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_JOIN_IP_MCAST, join, 4), -EINVAL); /* not a group */
	memset(&join.addr, 0xff, sizeof(join.addr));
	join.addr.sin6_family = AF_INET6;
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_JOIN_IP_MCAST, join, 4), -EINVAL); /* the id's is IPv4 */
	memcpy(&join.addr, &group, sizeof(group));
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_JOIN_IP_MCAST, join, 4), 0);
	leave.id = resp.id;
	assert_int_equal(RIG_COMMAND(other, RDMA_USER_CM_CMD_LEAVE_MCAST, leave, 4), -EINVAL); /* another file's */
	leave.id++;
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_LEAVE_MCAST, leave, 4), -ENOENT);
	join.id = rig_create(fd, RDMA_PS_TCP, 1);
	assert_int_equal(rig_bind(fd, join.id, RIG_ADDRESS, 0), 0);
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_JOIN_IP_MCAST, join, 4), -EINVAL); /* no datagrams */
}

/** The event names the group and how to send to it. Leaving tells how many events of the membership were read, and
 * removes those that were not. */
static void ucma__multicast_join_and_leave(void **state)
{
	struct rdma_ucm_create_id_resp resp;
	struct rdma_ucm_destroy_id_resp left;
	struct rdma_ucm_join_mcast join = {.response = (uintptr_t)&resp, .addr_size = sizeof(struct sockaddr_in)};
	struct rdma_ucm_destroy_id leave = {.response = (uintptr_t)&left};
	struct sockaddr_in group = rig_v4("239.0.0.1", 0);
	struct rdma_ucm_event_resp e;
	int fd = rig_open(0);
	uint32_t id = rig_create(fd, RDMA_PS_UDP, 1);

	(void)state;
	assert_int_equal(rig_bind(fd, id, RIG_ADDRESS, 0), 0);
	memcpy(&join.addr, &group, sizeof(group));
	join.id = id;
	for (unsigned i = 0; i < 3; i++) {
		join.uid = 100 + i;
		join.join_flags = i % 2; /* full member, or send-only */
		assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_JOIN_MCAST, join, 4), 0);
		leave.id = resp.id;
		if (i < 2) {
			e = rig_event(fd, UCMA_MULTICAST_JOIN);
			assert_int_equal(e.uid, 100 + i);
			assert_int_equal(e.id, resp.id);
			assert_int_equal(e.param.ud.qp_num, 0xffffff);
			assert_int_equal(e.param.ud.qkey, 0x01234567);
			assert_int_equal(e.param.ud.ah_attr.is_global, 1);
			assert_memory_equal(e.param.ud.ah_attr.grh.dgid + 10, "\xff\xff\xef\0\0\1", 6);
		}
		assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_LEAVE_MCAST, leave, 4), 0);
		assert_int_equal(left.events_reported, i < 2);
		assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_LEAVE_MCAST, leave, 4), -ENOENT);
	}
	assert_false(rig_readable(fd));
	/* A membership ends with its id. The events that were read count for the id, too. */
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_JOIN_MCAST, join, 4), 0);
	leave.id = id;
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_DESTROY_ID, leave, 4), 0);
	assert_int_equal(left.events_reported, 2);
	leave.id = resp.id;
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_LEAVE_MCAST, leave, 4), -ENOENT);
	assert_false(rig_readable(fd));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(ucma__a_write_shorter_than_its_header_is_EINVAL),
		CASE(ucma__unknown_commands),
		CASE(ucma__each_command_refuses_a_short_structure),
		CASE(ucma__each_command_refuses_a_short_response_buffer),
		CASE(ucma__unmapped_memory_is_EFAULT),
		CASE(ucma__unknown_ids_are_ENOENT_and_another_files_EINVAL),
		CASE(ucma__the_lowest_free_number_is_taken),
		CASE(ucma__port_spaces),
		CASE(ucma__commands_on_an_id_without_a_device_are_EINVAL),
		CASE(ucma__commands_in_the_wrong_state_are_EINVAL),
		CASE(ucma__connect_checks_its_parameters),
		CASE(ucma__bind_errors),
		CASE(ucma__binding_any_address_binds_one_port_on_all_devices),
		CASE(ucma__options),
		CASE(ucma__resolve_errors),
		CASE(ucma__queries),
		CASE(ucma__an_event_that_the_program_writes_is_read_in_order),
		CASE(ucma__multicast_errors),
		CASE(ucma__multicast_join_and_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
