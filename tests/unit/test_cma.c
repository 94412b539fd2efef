/* SPDX-License-Identifier: BSD-3-Clause */
/* test_cma.c - connections from setup to end, by librdmacm's commands, with both ends in one process (cma_rig.h). */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "cma_rig.h"
#include "device.h"
#include "nic_mem.h"

static bool no_memory; /* calloc fails */

static int setup(void **state)
{
	(void)state;
	no_memory = false;
	rig_start();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rig_stop();
	return 0;
}

/** Start a pair, and have its active side send a request that the program of the other side reads. */
static void pair_request(struct rig_pair *p)
{
	rig_pair_start(p, RDMA_PS_TCP);
	assert_int_equal(rig_connect(p->client, p->active, NULL, 0), 0);
	p->passive = rig_event(p->server, UCMA_CONNECT_REQUEST).id;
}

/* ---- a whole life ------------------------------------------------------------------------------------ */

static void cma__CM_01_connect_accept_disconnect(void **state)
{
	struct rig_pair p;
	struct rdma_ucm_event_resp e;
	uint32_t reported;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	assert_int_equal(rig_connect(p.client, p.active, "hello", 5), 0);
	e = rig_event(p.server, UCMA_CONNECT_REQUEST);
	assert_int_equal(e.uid, 100);
	assert_int_equal(e.status, 0);
	assert_int_equal(e.param.conn.private_data_len, 56);
	assert_memory_equal(e.param.conn.private_data, "hello\0", 6);
	assert_int_equal(e.param.conn.qp_num, 0x1234);
	assert_int_equal(e.param.conn.retry_count, 6);
	p.passive = e.id;
	assert_int_equal(rig_accept(p.server, p.passive, 300, "world", 5), 0);
	e = rig_event(p.client, UCMA_CONNECT_RESPONSE);
	assert_int_equal(e.uid, 200);
	assert_int_equal(e.id, p.active);
	assert_int_equal(e.param.conn.private_data_len, 196);
	assert_memory_equal(e.param.conn.private_data, "world\0", 6);
	assert_int_equal(e.param.conn.qp_num, 0x5678);
	assert_false(rig_readable(p.server));
	assert_int_equal(rig_establish(p.client, p.active), 0);
	e = rig_event(p.server, UCMA_ESTABLISHED);
	assert_int_equal(e.uid, 300);
	assert_int_equal(e.id, p.passive);
	assert_int_equal(rig_disconnect(p.client, p.active), 0);
	assert_int_equal(rig_event(p.server, UCMA_DISCONNECTED).status, 0);
	assert_false(rig_readable(p.client)); /* DREP has not come */
	assert_int_equal(rig_disconnect(p.server, p.passive), 0);
	rig_event(p.client, UCMA_DISCONNECTED);
	assert_int_equal(rig_destroy(p.client, p.active, &reported), 0);
	assert_int_equal(reported, 4);
	assert_int_equal(rig_destroy(p.server, p.passive, &reported), 0);
	assert_int_equal(reported, 2);
	assert_int_equal(rig_destroy(p.server, p.listener, &reported), 0);
	assert_int_equal(reported, 1);
}

static void cma__CM_06_depths_are_swapped_at_the_peer(void **state)
{
	struct ib_uverbs_qp_attr attr;
	struct rdma_ucm_event_resp e;
	struct rig_pair p;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	assert_int_equal(rig_connect(p.client, p.active, NULL, 0), 0); /* responder_resources 3, initiator_depth 5 */
	e = rig_event(p.server, UCMA_CONNECT_REQUEST);
	assert_int_equal(e.param.conn.responder_resources, 5);
	assert_int_equal(e.param.conn.initiator_depth, 3);
	assert_int_equal(rig_qp_attr(p.server, e.id, IBV_QPS_RTR, &attr), 0);
	assert_int_equal(attr.max_dest_rd_atomic, 5);
	assert_int_equal(rig_qp_attr(p.server, e.id, IBV_QPS_RTS, &attr), 0);
	assert_int_equal(attr.max_rd_atomic, 3);
	assert_int_equal(rig_accept(p.server, e.id, 300, NULL, 0), 0); /* responder_resources 2, initiator_depth 1 */
	e = rig_event(p.client, UCMA_CONNECT_RESPONSE);
	assert_int_equal(e.param.conn.responder_resources, 1);
	assert_int_equal(e.param.conn.initiator_depth, 2);
	assert_int_equal(rig_qp_attr(p.client, p.active, IBV_QPS_RTR, &attr), 0);
	assert_int_equal(attr.max_dest_rd_atomic, 1);
	assert_int_equal(rig_qp_attr(p.client, p.active, IBV_QPS_RTS, &attr), 0);
	assert_int_equal(attr.max_rd_atomic, 2);
}

static void cma__qp_attributes_of_each_state(void **state)
{
	struct ib_uverbs_qp_attr a, b;
	struct rig_pair p;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	assert_int_equal(rig_qp_attr(p.client, p.active, IBV_QPS_INIT, &a), 0);
	assert_int_equal(a.qp_attr_mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	assert_int_equal(a.qp_access_flags, 0);
	assert_int_equal(a.port_num, 1);
	assert_int_equal(rig_connect(p.client, p.active, NULL, 0), 0);
	assert_int_equal(rig_qp_attr(p.client, p.active, IBV_QPS_INIT, &a), 0);
	assert_int_equal(a.qp_access_flags, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_ATOMIC | NIC_ACCESS_FLUSH_GLOBAL |
						    NIC_ACCESS_FLUSH_PERSISTENT);
	assert_int_equal(rig_qp_attr(p.client, p.active, IBV_QPS_RTR, &a), -EINVAL); /* no answer yet */
	p.passive = rig_event(p.server, UCMA_CONNECT_REQUEST).id;
	assert_int_equal(rig_qp_attr(p.server, p.passive, IBV_QPS_RTR, &b), 0);
	assert_int_equal(b.qp_attr_mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
						 IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(b.dest_qp_num, 0x1234);
	assert_int_equal(b.path_mtu, IBV_MTU_4096);
	assert_int_equal(b.ah_attr.is_global, 1);
	assert_int_equal(b.ah_attr.grh.sgid_index, 1);
	assert_int_equal(b.ah_attr.grh.hop_limit, 64);
	assert_int_equal(b.ah_attr.grh.dgid[15], 1);
	assert_int_equal(rig_accept(p.server, p.passive, 300, NULL, 0), 0);
	rig_event(p.client, UCMA_CONNECT_RESPONSE);
	assert_int_equal(rig_qp_attr(p.client, p.active, IBV_QPS_RTS, &a), 0);
	assert_int_equal(a.qp_attr_mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						 IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC);
	assert_int_equal(a.sq_psn, b.rq_psn);
	assert_int_equal(a.retry_cnt, 6);
	assert_int_equal(a.timeout, nic_cm_ack_timeout(16, 0));
	assert_int_equal(rig_qp_attr(p.server, p.passive, IBV_QPS_RTS, &b), 0);
	assert_int_equal(rig_qp_attr(p.client, p.active, IBV_QPS_RTR, &a), 0);
	assert_int_equal(b.sq_psn, a.rq_psn);
	assert_int_equal(a.dest_qp_num, 0x5678);
	assert_int_equal(rig_qp_attr(p.client, p.active, IBV_QPS_SQD, &a), -EINVAL);
}

static void cma__the_ack_timeout_option_is_in_the_qp_attributes(void **state)
{
	struct ib_uverbs_qp_attr attr;
	uint8_t timeout = 12;
	struct rig_pair p;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	assert_int_equal(rig_option(p.client, p.active, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1), 0);
	rig_pair_connect(&p);
	assert_int_equal(rig_qp_attr(p.client, p.active, IBV_QPS_RTS, &attr), 0);
	assert_int_equal(attr.timeout, 12);
}

static void cma__query_route_of_both_sides(void **state)
{
	struct rdma_ucm_query_route_resp a, b;
	struct sockaddr_in *dst = (struct sockaddr_in *)&a.dst_addr, *src = (struct sockaddr_in *)&b.src_addr;
	struct rig_pair p;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	rig_pair_connect(&p);
	assert_int_equal(rig_query_route(p.client, p.active, &a), 0);
	assert_int_equal(rig_query_route(p.server, p.passive, &b), 0);
	assert_int_equal(a.num_paths, 1);
	assert_int_equal(b.num_paths, 1);
	assert_int_equal(a.node_guid, b.node_guid);
	assert_int_equal(a.ibdev_index, UINT32_MAX);
	assert_memory_equal(a.ib_route[0].sgid, b.ib_route[0].dgid, 16);
	assert_int_equal(ntohs(dst->sin_port), RIG_PORT);
	assert_int_equal(ntohs(src->sin_port), RIG_PORT);
	assert_int_equal(((struct sockaddr_in *)&a.src_addr)->sin_port, ((struct sockaddr_in *)&b.dst_addr)->sin_port);
	assert_int_equal(a.ib_route[0].packet_life_time, 16);
	assert_int_equal(a.ib_route[0].mtu, IBV_MTU_4096);
}

/* ---- refusals and failures --------------------------------------------------------------------------- */

static void cma__CM_04_a_port_without_a_listener_rejects(void **state)
{
	struct rdma_ucm_event_resp e;
	struct rig_pair p;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	assert_int_equal(rig_destroy(p.server, p.listener, NULL), 0);
	assert_int_equal(rig_connect(p.client, p.active, NULL, 0), 0);
	e = rig_event(p.client, UCMA_REJECTED);
	assert_int_equal(e.status, NIC_CM_REJ_INVALID_SERVICE_ID);
}

static void cma__CM_04_the_program_rejects_with_private_data(void **state)
{
	struct rdma_ucm_event_resp e;
	struct rig_pair p;

	(void)state;
	pair_request(&p);
	assert_int_equal(rig_reject(p.server, p.passive, 0, "no", 2), 0);
	e = rig_event(p.client, UCMA_REJECTED);
	assert_int_equal(e.status, NIC_CM_REJ_CONSUMER);
	assert_int_equal(e.param.conn.private_data_len, 148);
	assert_memory_equal(e.param.conn.private_data, "no", 3);
	assert_int_equal(rig_accept(p.server, p.passive, 300, NULL, 0), -EINVAL);
}

static void cma__destroying_the_id_of_a_request_rejects_it(void **state)
{
	struct rig_pair p;

	(void)state;
	pair_request(&p);
	assert_int_equal(rig_destroy(p.server, p.passive, NULL), 0);
	assert_int_equal(rig_event(p.client, UCMA_REJECTED).status, NIC_CM_REJ_CONSUMER);
}

static void cma__destroying_a_listener_rejects_unread_requests(void **state)
{
	struct rig_pair p;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	assert_int_equal(rig_connect(p.client, p.active, NULL, 0), 0);
	assert_true(rig_readable(p.server));
	assert_int_equal(rig_destroy(p.server, p.listener, NULL), 0);
	assert_false(rig_readable(p.server));
	assert_int_equal(rig_event(p.client, UCMA_REJECTED).status, NIC_CM_REJ_CONSUMER);
}

static void cma__closing_the_file_disconnects_its_connections(void **state)
{
	struct rig_pair p;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	rig_pair_connect(&p);
	rig_close(p.server);
	assert_int_equal(rig_event(p.client, UCMA_DISCONNECTED).status, 0);
}

static void cma__CM_11_a_full_backlog_rejects(void **state)
{
	struct rig_pair p;
	uint32_t ids[3];

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	assert_int_equal(rig_destroy(p.server, p.listener, NULL), 0);
	p.listener = rig_create(p.server, RDMA_PS_TCP, 100);
	assert_int_equal(rig_bind(p.server, p.listener, RIG_ADDRESS, RIG_PORT), 0);
	assert_int_equal(rig_listen(p.server, p.listener, 2), 0);
	for (unsigned i = 0; i < 3; i++) {
		ids[i] = rig_create(p.client, RDMA_PS_TCP, 400 + i);
		assert_int_equal(rig_resolve(p.client, ids[i], RIG_ADDRESS, RIG_PORT), 0);
		rig_event(p.client, UCMA_ADDR_RESOLVED);
		assert_int_equal(rig_route(p.client, ids[i]), 0);
		rig_event(p.client, UCMA_ROUTE_RESOLVED);
		assert_int_equal(rig_connect_qp(p.client, ids[i], 0x2000 + i, NULL, 0), 0);
	}
	assert_int_equal(rig_event(p.client, UCMA_REJECTED).id, ids[2]);
	rig_event(p.server, UCMA_CONNECT_REQUEST); /* makes room in the backlog for one more */
	assert_int_equal(rig_connect(p.client, p.active, NULL, 0), 0);
	assert_false(rig_readable(p.client));
	rig_event(p.server, UCMA_CONNECT_REQUEST);
	rig_event(p.server, UCMA_CONNECT_REQUEST);
}

static void cma__CM_07_a_silent_peer_is_unreachable(void **state)
{
	struct rig_pair p;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	rig_deaf = true;
	assert_int_equal(rig_connect(p.client, p.active, NULL, 0), 0);
	rig_wait_ms(100000);
	assert_int_equal((int)rig_event(p.client, UCMA_UNREACHABLE).status, -ETIMEDOUT);
}

static void cma__a_rej_before_accept_raises_no_event(void **state)
{
	struct rig_pair p;

	(void)state;
	pair_request(&p);
	assert_int_equal(rig_destroy(p.client, p.active, NULL), 0); /* sends a REJ */
	assert_false(rig_readable(p.server));
	assert_int_equal(rig_accept(p.server, p.passive, 300, NULL, 0), -EINVAL);
}

static void cma__notify_establishes_before_the_rtu(void **state)
{
	struct rig_pair p;

	(void)state;
	pair_request(&p);
	assert_int_equal(rig_notify(p.server, p.passive, UCMA_EVENT_COMM_EST), -EINVAL);
	assert_int_equal(rig_accept(p.server, p.passive, 300, NULL, 0), 0);
	assert_int_equal(rig_notify(p.server, p.passive, UCMA_EVENT_COMM_EST), 0);
	rig_event(p.server, UCMA_ESTABLISHED);
	rig_event(p.client, UCMA_CONNECT_RESPONSE);
	assert_int_equal(rig_establish(p.client, p.active), 0);
	assert_false(rig_readable(p.server));
}

static void cma__time_wait_ends_with_an_event(void **state)
{
	struct rig_pair p;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	rig_pair_connect(&p);
	assert_int_equal(rig_disconnect(p.client, p.active), 0);
	rig_event(p.server, UCMA_DISCONNECTED);
	assert_int_equal(rig_disconnect(p.server, p.passive), 0);
	rig_event(p.client, UCMA_DISCONNECTED);
	rig_wait_ms(60000);
	rig_event(p.client, UCMA_TIMEWAIT_EXIT);
	rig_event(p.server, UCMA_TIMEWAIT_EXIT);
	assert_int_equal(rig_disconnect(p.client, p.active), 0); /* succeeds: no connection is left to end */
}

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
	return no_memory ? NULL : __real_calloc(n, size);
}

static void cma__a_connection_loses_no_event_for_lack_of_memory(void **state)
{
	struct rig_pair p;

	(void)state;
	pair_request(&p);
	no_memory = true;
	assert_int_equal(rig_accept(p.server, p.passive, 300, NULL, 0), 0);
	rig_event(p.client, UCMA_CONNECT_RESPONSE);
	assert_int_equal(rig_establish(p.client, p.active), 0);
	rig_event(p.server, UCMA_ESTABLISHED);
	assert_int_equal(rig_disconnect(p.client, p.active), 0);
	rig_event(p.server, UCMA_DISCONNECTED);
	assert_int_equal(rig_disconnect(p.server, p.passive), 0);
	rig_event(p.client, UCMA_DISCONNECTED);
	rig_wait_ms(60000);
	rig_event(p.client, UCMA_TIMEWAIT_EXIT);
	rig_event(p.server, UCMA_TIMEWAIT_EXIT);
	no_memory = false;
}

/* ---- listeners --------------------------------------------------------------------------------------- */

/** A listener bound to `address` gets requests to all devices. */
static void listens_on_all_devices(const char *address)
{
	static const char *const addresses[] = {"127.0.83.1", "127.0.83.2"};
	int server = rig_open(0), client = rig_open(0);
	uint32_t listener = rig_create(server, RDMA_PS_TCP, 100), id;
	struct rdma_ucm_query_route_resp resp;
	struct rdma_ucm_event_resp e;

	assert_int_equal(rig_bind(server, listener, address, RIG_PORT), 0);
	assert_int_equal(rig_query_route(server, listener, &resp), 0);
	assert_int_equal(((struct sockaddr_in *)&resp.src_addr)->sin_addr.s_addr, inet_addr(address));
	assert_int_equal(rig_listen(server, listener, 8), 0);
	for (unsigned i = 0; i < 2; i++) {
		id = rig_create(client, RDMA_PS_TCP, 200);
		assert_int_equal(rig_resolve(client, id, addresses[i], RIG_PORT), 0);
		rig_event(client, UCMA_ADDR_RESOLVED);
		assert_int_equal(rig_route(client, id), 0);
		rig_event(client, UCMA_ROUTE_RESOLVED);
		assert_int_equal(rig_connect(client, id, NULL, 0), 0);
		e = rig_event(server, UCMA_CONNECT_REQUEST);
		assert_int_equal(rig_query_route(server, e.id, &resp), 0);
		assert_int_equal(resp.ib_route[0].sgid[15], i + 1);
		assert_int_equal(be64toh(resp.node_guid), 0x0200000000830100 + i);
	}
}

static void cma__a_listener_on_any_address_listens_on_all_devices(void **state)
{
	(void)state;
	listens_on_all_devices("0.0.0.0");
}

/** As in a kernel: libfabric's verbs provider binds 127.0.0.1 to learn what devices there are. */
static void cma__a_loopback_address_that_no_device_has_is_any_address(void **state)
{
	(void)state;
	listens_on_all_devices("127.0.0.1");
}

static void cma__an_active_side_may_name_such_an_address_as_its_source(void **state)
{
	const struct sockaddr_in from = rig_v4("127.0.0.1", 0), to = rig_v4(RIG_ADDRESS, RIG_PORT);
	struct rdma_ucm_resolve_ip cmd = {.timeout_ms = 1000};
	struct rdma_ucm_query_route_resp resp;
	int fd = rig_open(0);

	(void)state;
	cmd.id = rig_create(fd, RDMA_PS_TCP, 100);
	memcpy(&cmd.src_addr, &from, sizeof(from));
	memcpy(&cmd.dst_addr, &to, sizeof(to));
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_RESOLVE_IP, cmd, 0), 0);
	rig_event(fd, UCMA_ADDR_RESOLVED);
	assert_int_equal(rig_query_route(fd, cmd.id, &resp), 0);
	assert_int_equal(((struct sockaddr_in *)&resp.src_addr)->sin_addr.s_addr, inet_addr(RIG_ADDRESS));
	assert_int_not_equal(((struct sockaddr_in *)&resp.src_addr)->sin_port, 0);
	assert_int_equal(rig_ports(), 1);
}

static void cma__listening_without_an_address_binds_any(void **state)
{
	struct rdma_ucm_query_route_resp resp;
	int fd = rig_open(0);
	uint32_t id = rig_create(fd, RDMA_PS_TCP, 100);

	(void)state;
	assert_int_equal(rig_listen(fd, id, 0), 0);
	assert_int_equal(rig_query_route(fd, id, &resp), 0);
	assert_int_not_equal(((struct sockaddr_in *)&resp.src_addr)->sin_port, 0);
	assert_int_equal(rig_ports(), RIG_DEVICES);
}

/* An id whose destination could not be resolved has an address, but no port. */
static void cma__listening_after_a_failed_resolution_binds_a_port(void **state)
{
	struct rdma_ucm_query_route_resp resp;
	int fd = rig_open(0);
	uint32_t id = rig_create(fd, RDMA_PS_TCP, 100);

	(void)state;
	if (rig_resolve(fd, id, "198.51.100.1", RIG_PORT) == 0) /* a host without a route is told at once */
		rig_event(fd, UCMA_ADDR_ERROR);
	assert_int_equal(rig_ports(), 0);
	assert_int_equal(rig_listen(fd, id, 0), 0);
	assert_int_equal(rig_query_route(fd, id, &resp), 0);
	assert_int_not_equal(((struct sockaddr_in *)&resp.src_addr)->sin_port, 0);
	assert_int_equal(rig_ports(), RIG_DEVICES);
}

/* ---- datagrams --------------------------------------------------------------------------------------- */

static void cma__CM_09_sidr_returns_the_qpn_and_the_q_key(void **state)
{
	struct ib_uverbs_qp_attr attr;
	struct rdma_ucm_event_resp e;
	struct rig_pair p;

	(void)state;
	rig_pair_start(&p, RDMA_PS_UDP);
	assert_int_equal(rig_qp_attr(p.client, p.active, IBV_QPS_INIT, &attr), 0);
	assert_int_equal(attr.qp_attr_mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	assert_int_equal(attr.qkey, 0x01234567);
	assert_int_equal(rig_connect(p.client, p.active, "who", 3), 0);
	e = rig_event(p.server, UCMA_CONNECT_REQUEST);
	assert_int_equal(e.param.ud.private_data_len, 180);
	assert_memory_equal(e.param.ud.private_data, "who", 4);
	p.passive = e.id;
	assert_int_equal(rig_accept(p.server, p.passive, 300, "me", 2), 0);
	e = rig_event(p.client, UCMA_ESTABLISHED);
	assert_int_equal(e.param.ud.qp_num, 0x5678);
	assert_int_equal(e.param.ud.qkey, 0x01234567);
	assert_int_equal(e.param.ud.private_data_len, 136);
	assert_memory_equal(e.param.ud.private_data, "me", 3);
	assert_int_equal(e.param.ud.ah_attr.is_global, 1);
	assert_int_equal(e.param.ud.ah_attr.grh.dgid[15], 1);
	assert_int_equal(e.param.ud.ah_attr.grh.sgid_index, 1);
	assert_false(rig_readable(p.server));
}

static void cma__CM_09_sidr_refusals(void **state)
{
	struct rig_pair p;

	(void)state;
	rig_pair_start(&p, RDMA_PS_UDP);
	assert_int_equal(rig_connect(p.client, p.active, NULL, 0), 0);
	p.passive = rig_event(p.server, UCMA_CONNECT_REQUEST).id;
	assert_int_equal(rig_reject(p.server, p.passive, 0, NULL, 0), 0);
	assert_int_equal(rig_event(p.client, UCMA_UNREACHABLE).status, NIC_CM_SIDR_REJECT);
	assert_int_equal(rig_notify(p.client, p.active, UCMA_EVENT_COMM_EST), -EINVAL);
}

/* ---- files ------------------------------------------------------------------------------------------- */

static void cma__duplicated_descriptors_share_one_file(void **state)
{
	struct rdma_ucm_event_resp e;
	struct rig_pair p;
	int copy;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	copy = dup(p.server);
	rdmacm_device()->dup(p.server, copy);
	rig_close(p.server);
	assert_int_equal(rig_connect(p.client, p.active, NULL, 0), 0);
	e = rig_event(copy, UCMA_CONNECT_REQUEST);
	assert_int_equal(e.uid, 100);
	rig_close(copy);
	assert_int_equal(rig_event(p.client, UCMA_REJECTED).status, NIC_CM_REJ_CONSUMER);
}

static void cma__reading_without_events(void **state)
{
	struct rdma_ucm_event_resp resp;
	const struct rdma_ucm_get_event cmd = {.response = (uintptr_t)&resp};
	int fd = rig_open(O_NONBLOCK | O_CLOEXEC), blocking = rig_open(0);

	(void)state;
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(fcntl(blocking, F_GETFD), 0);
	assert_int_equal(RIG_COMMAND(fd, RDMA_USER_CM_CMD_GET_EVENT, cmd, sizeof(resp)), -EAGAIN);
	assert_int_equal(fcntl(blocking, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(RIG_COMMAND(blocking, RDMA_USER_CM_CMD_GET_EVENT, cmd, sizeof(resp)), -EAGAIN);
}

static struct rig_pair progressing;

static void raise_user_event(void)
{
	struct ucma_write_cm_event cmd = {.event = UCMA_USER, .id = progressing.active};

	rig_progress = NULL;
	assert_int_equal(RIG_COMMAND(progressing.client, UCMA_CMD_WRITE_CM_EVENT, cmd, 0), 0);
}

/** If the engines have no threads, a read makes progress. What that brings is reported by the next read, and in between
 *  the program can poll its CQ: its peer may have disconnected right after the last message. */
static void cma__the_next_read_reports_what_a_read_brings(void **state)
{
	struct rdma_ucm_event_resp resp;
	const struct rdma_ucm_get_event cmd = {.response = (uintptr_t)&resp};

	(void)state;
	rig_pair_start(&progressing, RDMA_PS_TCP);
	assert_int_equal(fcntl(progressing.client, F_SETFL, O_NONBLOCK), 0);
	rig_progress = raise_user_event;
	assert_int_equal(RIG_COMMAND(progressing.client, RDMA_USER_CM_CMD_GET_EVENT, cmd, sizeof(resp)), -EAGAIN);
	assert_null(rig_progress);
	rig_event(progressing.client, UCMA_USER);
}

struct reader {
	int fd;
	struct rdma_ucm_event_resp resp;
	ssize_t result;
	int err;
};

static void *read_event(void *arg)
{
	struct reader *r = arg;
	struct {
		struct rdma_ucm_cmd_hdr hdr;
		struct rdma_ucm_get_event body;
	} cmd = {.hdr = {RDMA_USER_CM_CMD_GET_EVENT, sizeof(cmd.body), sizeof(r->resp)},
		 .body = {.response = (uintptr_t)&r->resp}};

	rdmacm_device()->write(r->fd, &cmd, sizeof(cmd), &r->result);
	r->err = errno;
	return NULL;
}

static void cma__a_reader_waits_for_an_event(void **state)
{
	struct reader r = {.fd = rig_open(0)};
	struct ucma_write_cm_event cmd = {.event = UCMA_USER};
	pthread_t thread;

	(void)state;
	cmd.id = rig_create(r.fd, RDMA_PS_TCP, 9);
	assert_int_equal(pthread_create(&thread, NULL, read_event, &r), 0);
	usleep(20000);
	assert_int_equal(RIG_COMMAND(r.fd, UCMA_CMD_WRITE_CM_EVENT, cmd, 0), 0);
	pthread_join(thread, NULL);
	assert_true(r.result > 0);
	assert_int_equal(r.resp.event, UCMA_USER);
}

static void on_signal(int number)
{
	(void)number;
}

static void cma__a_signal_ends_the_wait(void **state)
{
	const struct sigaction action = {.sa_handler = on_signal};
	struct reader r = {.fd = rig_open(0)};
	pthread_t thread;

	(void)state;
	sigaction(SIGUSR1, &action, NULL);
	assert_int_equal(pthread_create(&thread, NULL, read_event, &r), 0);
	do { /* until a signal comes while the thread waits */
		usleep(10000);
		pthread_kill(thread, SIGUSR1);
	} while (pthread_tryjoin_np(thread, NULL) != 0);
	assert_int_equal(r.result, -1);
	assert_int_equal(r.err, EINTR);
}

static void cma__migrating_an_id_moves_its_events(void **state)
{
	struct rdma_ucm_migrate_resp resp;
	struct rdma_ucm_migrate_id cmd = {.response = (uintptr_t)&resp};
	struct rig_pair p;
	int other;

	(void)state;
	rig_pair_start(&p, RDMA_PS_TCP);
	other = rig_open(0);
	assert_int_equal(rig_connect(p.client, p.active, NULL, 0), 0);
	p.passive = rig_event(p.server, UCMA_CONNECT_REQUEST).id;
	assert_int_equal(rig_accept(p.server, p.passive, 300, NULL, 0), 0);
	cmd.id = p.active;
	cmd.fd = (uint32_t)p.client;
	assert_int_equal(RIG_COMMAND(other, RDMA_USER_CM_CMD_MIGRATE_ID, cmd, sizeof(resp)), 0);
	assert_int_equal(resp.events_reported, 2);
	assert_false(rig_readable(p.client));
	rig_event(other, UCMA_CONNECT_RESPONSE);
	assert_int_equal(rig_establish(p.client, p.active), -EINVAL);
	assert_int_equal(rig_establish(other, p.active), 0);
	assert_int_equal(RIG_COMMAND(other, RDMA_USER_CM_CMD_MIGRATE_ID, cmd, sizeof(resp)), -EINVAL);
	cmd.fd = 9999;
	assert_int_equal(RIG_COMMAND(other, RDMA_USER_CM_CMD_MIGRATE_ID, cmd, sizeof(resp)), -EINVAL);
}

static void cma__events_come_in_order(void **state)
{
	int fd = rig_open(0);
	uint32_t ids[20];

	(void)state;
	for (unsigned i = 0; i < 20; i++) {
		ids[i] = rig_create(fd, RDMA_PS_TCP, 1 + i);
		assert_int_equal(rig_resolve(fd, ids[i], RIG_ADDRESS, RIG_PORT), 0);
	}
	for (unsigned i = 0; i < 20; i++)
		assert_int_equal(rig_route(fd, ids[i]), 0);
	assert_int_equal(rig_destroy(fd, ids[3], NULL), 0); /* drops its events as well */
	for (unsigned i = 0; i < 20; i++)
		if (i != 3)
			assert_int_equal(rig_event(fd, UCMA_ADDR_RESOLVED).id, ids[i]);
	for (unsigned i = 0; i < 20; i++)
		if (i != 3)
			assert_int_equal(rig_event(fd, UCMA_ROUTE_RESOLVED).uid, 1 + i);
	assert_false(rig_readable(fd));
}

#define CASE(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(cma__CM_01_connect_accept_disconnect),
		CASE(cma__CM_06_depths_are_swapped_at_the_peer),
		CASE(cma__qp_attributes_of_each_state),
		CASE(cma__the_ack_timeout_option_is_in_the_qp_attributes),
		CASE(cma__query_route_of_both_sides),
		CASE(cma__CM_04_a_port_without_a_listener_rejects),
		CASE(cma__CM_04_the_program_rejects_with_private_data),
		CASE(cma__destroying_the_id_of_a_request_rejects_it),
		CASE(cma__destroying_a_listener_rejects_unread_requests),
		CASE(cma__closing_the_file_disconnects_its_connections),
		CASE(cma__CM_11_a_full_backlog_rejects),
		CASE(cma__CM_07_a_silent_peer_is_unreachable),
		CASE(cma__a_rej_before_accept_raises_no_event),
		CASE(cma__notify_establishes_before_the_rtu),
		CASE(cma__time_wait_ends_with_an_event),
		CASE(cma__a_connection_loses_no_event_for_lack_of_memory),
		CASE(cma__a_listener_on_any_address_listens_on_all_devices),
		CASE(cma__a_loopback_address_that_no_device_has_is_any_address),
		CASE(cma__an_active_side_may_name_such_an_address_as_its_source),
		CASE(cma__listening_without_an_address_binds_any),
		CASE(cma__listening_after_a_failed_resolution_binds_a_port),
		CASE(cma__CM_09_sidr_returns_the_qpn_and_the_q_key),
		CASE(cma__CM_09_sidr_refusals),
		CASE(cma__duplicated_descriptors_share_one_file),
		CASE(cma__reading_without_events),
		CASE(cma__the_next_read_reports_what_a_read_brings),
		CASE(cma__a_reader_waits_for_an_event),
		CASE(cma__a_signal_ends_the_wait),
		CASE(cma__migrating_an_id_moves_its_events),
		CASE(cma__events_come_in_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
