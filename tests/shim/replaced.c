/* SPDX-License-Identifier: BSD-3-Clause */
/* replaced.c - the process has other functions in place of the C library's for sockets and epoll sets, as librspreload
 * does: its functions make rsockets, which are built on our library. Our library uses none of them for its own sockets
 * and sets. */
#include "rig.h"
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <rdma/rdma_user_cm.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REPLACEMENT __attribute__((visibility("default")))

#define ASLEEP_US  20000
#define PATIENCE_S 60

static atomic_uint calls; /* of functions below that would have made or used something of librspreload's */

REPLACEMENT int socket(int domain, int type, int protocol)
{
	atomic_fetch_add(&calls, domain == AF_INET || domain == AF_INET6);
	return (int)syscall(SYS_socket, domain, type, protocol);
}

REPLACEMENT int epoll_create(int size)
{
	(void)size;
	atomic_fetch_add(&calls, 1);
	return (int)syscall(SYS_epoll_create1, 0);
}

REPLACEMENT int epoll_create1(int flags)
{
	atomic_fetch_add(&calls, 1);
	return (int)syscall(SYS_epoll_create1, flags);
}

REPLACEMENT int epoll_ctl(int set, int op, int fd, struct epoll_event *event)
{
	atomic_fetch_add(&calls, 1);
	return (int)syscall(SYS_epoll_ctl, set, op, fd, event);
}

REPLACEMENT int epoll_wait(int set, struct epoll_event *events, int max, int timeout)
{
	atomic_fetch_add(&calls, 1);
	return epoll_pwait(set, events, max, timeout, NULL);
}

static void replacements_are_called(void **state)
{
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	int (*by_name)(int, int, int);

	(void)state;
	assert_int_equal(close(fd), 0);
	assert_int_equal(atomic_exchange(&calls, 0), 1);
	*(void **)&by_name = dlsym(RTLD_DEFAULT, "socket"); /* what a library's call is bound to */
	assert_ptr_equal(by_name, socket);
}

static void *send_later(void *arg)
{
	struct rig *rig = arg;
	struct ibv_sge sge = rig_sge(&rig->end[0], 0, 8);
	struct ibv_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND}, *bad;

	usleep(ASLEEP_US);
	return ibv_post_send(rig->end[0].qp, &wr, &bad) == 0 ? NULL : arg;
}

/** A message, whose receiver sleeps until its completion event. */
static void message(struct rig *rig)
{
	struct rig_end *to = &rig->end[1];
	struct ibv_comp_channel *channel = ibv_create_comp_channel(to->ctx);
	struct ibv_cq *cq = ibv_create_cq(to->ctx, 4, NULL, channel, 0), *got, *own = to->cq;
	pthread_t sender;
	struct ibv_wc wc;
	void *context;

	assert_non_null(cq);
	to->cq = cq;
	rig_connect(rig, IBV_QPT_RC);
	rig_post_recv(to, 1, 0, 8);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(pthread_create(&sender, NULL, send_later, rig), 0);
	assert_int_equal(ibv_get_cq_event(channel, &got, &context), 0);
	assert_int_equal(pthread_join(sender, &context), 0);
	assert_null(context);
	ibv_ack_cq_events(got, 1);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 1);
	rig_disconnect(rig);
	to->cq = own;
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_comp_channel(channel), 0);
}

/** An id of the connection manager, bound to the first device, as librdmacm does. */
static void bind_id(void)
{
	struct rdma_ucm_create_id_resp id = {0};
	struct {
		struct rdma_ucm_cmd_hdr header;
		struct rdma_ucm_create_id body;
	} create = {{RDMA_USER_CM_CMD_CREATE_ID, sizeof(create.body), sizeof(id)},
		    {.response = (uintptr_t)&id, .ps = RDMA_PS_TCP, .qp_type = IBV_QPT_RC}};
	struct {
		struct rdma_ucm_cmd_hdr header;
		struct rdma_ucm_bind body;
	} bind = {{RDMA_USER_CM_CMD_BIND, sizeof(bind.body), 0}, {.addr_size = sizeof(struct sockaddr_in)}};
	struct sockaddr_in address = {.sin_family = AF_INET};
	int fd = open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC);
	char text[16];

	assert_int_equal(sscanf(getenv("UROCE_DEVICES"), "%15[^,]", text), 1);
	assert_int_equal(inet_pton(AF_INET, text, &address.sin_addr), 1);
	memcpy(&bind.body.addr, &address, sizeof(address));
	assert_true(fd >= 0);
	assert_int_equal(write(fd, &create, sizeof(create)), sizeof(create));
	bind.body.id = id.id;
	assert_int_equal(write(fd, &bind, sizeof(bind)), sizeof(bind));
	assert_int_equal(close(fd), 0);
}

static void own_sockets_and_sets_are_the_kernels(void **state)
{
	struct rig *rig = *state;

	alarm(PATIENCE_S); /* a message that does not come */
	message(rig);
	alarm(0);
	bind_id();
	assert_int_equal(atomic_load(&calls), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(replacements_are_called),
		cmocka_unit_test_setup_teardown(own_sockets_and_sets_are_the_kernels, rig_setup, rig_teardown),
	};

	return cmocka_run_group_tests_name("shim_replaced", tests, NULL, NULL);
}
