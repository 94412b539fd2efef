/* SPDX-License-Identifier: BSD-3-Clause */
/* fork_files.c - forked children that close the descriptors of inherited contexts, and open files of their own at these
 * numbers: making objects on the contexts, and closing them, leaves these files alone. */
#include "rig.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static bool is_readable(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1 && p.revents == POLLIN;
}

/* The numbers of the inherited descriptors are other files': the child keeps these files. */
static int keep_other_file(void *inherited)
{
	struct ibv_context *ctx = inherited;
	uint64_t one = 1;
	int other = eventfd(0, 0), pipes[2];

	if (dup2(other, ctx->async_fd) < 0 || pipe(pipes) || dup2(pipes[0], ctx->cmd_fd) < 0 || !ibv_alloc_pd(ctx) ||
	    is_readable(ctx->async_fd) || write(other, &one, sizeof(one)) != sizeof(one) || !is_readable(ctx->async_fd))
		return 1;
	return ibv_close_device(ctx) || !is_readable(ctx->async_fd) || write(pipes[1], "f", 1) != 1 ||
	       !is_readable(ctx->cmd_fd);
}

/* As above, but the async_fd alone is another eventfd. */
static int keep_other_eventfd(void *inherited)
{
	struct ibv_context *ctx = inherited;
	uint64_t one = 1;
	int other = eventfd(0, EFD_SEMAPHORE);

	if (dup2(other, ctx->async_fd) < 0 || !ibv_alloc_pd(ctx) || write(other, &one, sizeof(one)) != sizeof(one))
		return 1;
	return !is_readable(ctx->async_fd) || ibv_close_device(ctx) || !is_readable(ctx->async_fd) ||
	       fcntl(ctx->cmd_fd, F_GETFD) != -1;
}

static bool close_from(const struct rig *rig)
{
	int first = rig->end[0].ctx->async_fd;

	for (int i = 0; i < 2; i++) {
		const struct ibv_context *ctx = rig->end[i].ctx;

		first = ctx->async_fd < first ? ctx->async_fd : first;
		first = ctx->cmd_fd < first ? ctx->cmd_fd : first;
	}
	return !syscall(SYS_close_range, first, ~0u, 0);
}

/* Make a completion channel of the first device that takes the number of the second one's inherited async_fd. */
static int channel_keeps_its_eventfd(void *inherited)
{
	struct rig *rig = inherited;
	struct rig_end mine = {.ctx = rig->end[0].ctx};
	int number = rig->end[1].ctx->async_fd;
	struct ibv_recv_wr wr = {0}, *bad;
	struct ibv_qp_attr attr = {.qp_state = IBV_QPS_INIT, .port_num = 1};
	struct ibv_qp_init_attr init;
	struct ibv_comp_channel *channel;
	struct ibv_pd *second;
	void *context;

	if (!close_from(rig) || !(mine.pd = ibv_alloc_pd(mine.ctx)))
		return 1;
	do
		channel = ibv_create_comp_channel(mine.ctx);
	while (channel && channel->fd < number);
	if (!channel || channel->fd != number || !(second = ibv_alloc_pd(rig->end[1].ctx)))
		return 2;
	mine.cq = ibv_create_cq(mine.ctx, 4, NULL, channel, 0);
	init = rig_qp_init(&mine, IBV_QPT_RC);
	mine.qp = ibv_create_qp(mine.pd, &init);
	if (!mine.qp || ibv_req_notify_cq(mine.cq, 0) ||
	    ibv_modify_qp(mine.qp, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) ||
	    ibv_post_recv(mine.qp, &wr, &bad))
		return 3;
	attr.qp_state = IBV_QPS_ERR; /* which flushes the receive request */
	if (ibv_modify_qp(mine.qp, &attr, IBV_QP_STATE) || is_readable(second->context->async_fd) ||
	    ibv_get_cq_event(channel, &mine.cq, &context))
		return 4;
	return ibv_close_device(rig->end[1].ctx) || fcntl(number, F_GETFD) == -1;
}

/* Destroying an inherited channel closes its descriptor, but no other file at that number. */
static int destroy_channels(void *inherited)
{
	struct ibv_comp_channel **channel = inherited;
	int number[2] = {channel[0]->fd, channel[1]->fd};

	if (dup2(eventfd(0, 0), number[0]) < 0 || ibv_destroy_comp_channel(channel[0]) ||
	    ibv_destroy_comp_channel(channel[1]))
		return 1;
	return fcntl(number[0], F_GETFD) == -1 || fcntl(number[1], F_GETFD) != -1;
}

/* As that, after its context has been closed. */
static int close_then_destroy(void *inherited)
{
	struct ibv_comp_channel **channel = inherited;
	int number = channel[1]->fd;

	if (ibv_close_device(channel[1]->context) || ibv_destroy_comp_channel(channel[1]))
		return 1;
	return fcntl(number, F_GETFD) != -1;
}

/* As that, when the child has no free descriptor. */
static int destroy_without_descriptors(void *inherited)
{
	struct ibv_comp_channel **channel = inherited;
	int number = channel[1]->fd;

	while (dup(2) >= 0)
		;
	return ibv_destroy_comp_channel(channel[1]) || fcntl(number, F_GETFD) != -1;
}

static void fork__the_child_destroys_inherited_channels(void **state)
{
	struct rig *rig = *state;
	struct ibv_comp_channel *channel[2];

	for (int i = 0; i < 2; i++) {
		channel[i] = ibv_create_comp_channel(rig->end[0].ctx);
		assert_non_null(channel[i]);
	}
	assert_int_equal(rig_in_child(destroy_channels, channel), 0);
	assert_int_equal(rig_in_child(close_then_destroy, channel), 0);
	assert_int_equal(rig_in_child(destroy_without_descriptors, channel), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(ibv_destroy_comp_channel(channel[i]), 0);
}

static void fork__what_a_child_opens_at_inherited_numbers_is_its_own(void **state)
{
	struct rig *rig = *state;

	assert_int_equal(rig_in_child(keep_other_file, rig->end[0].ctx), 0);
	assert_int_equal(rig_in_child(keep_other_eventfd, rig->end[0].ctx), 0);
	assert_int_equal(rig_in_child(channel_keeps_its_eventfd, rig), 0);
}

/* A daemon whose parent has ended: no process has the inherited eventfds any more, and the kernel gives their numbers
 * (eventfd-id) to the daemon's. */
static int daemon_keeps_its_eventfds(struct rig *rig, int parent_lives)
{
	int number[2] = {rig->end[0].ctx->async_fd, rig->end[1].ctx->async_fd}, fd, top;
	char c;

	top = number[0] > number[1] ? number[0] : number[1];
	if (read(parent_lives, &c, 1) != 0 || !close_from(rig))
		return 1;
	do
		fd = eventfd(0, EFD_SEMAPHORE);
	while (fd >= 0 && fd < top);
	if (fd != top || !ibv_alloc_pd(rig->end[0].ctx) || !ibv_alloc_pd(rig->end[1].ctx))
		return 2;
	for (int i = 0; i < 2; i++) {
		uint64_t n = 3;

		/* An eventfd of another context would have a count of 0, or one that its context has made. */
		if (write(number[i], &n, sizeof(n)) != sizeof(n) || ibv_close_device(rig->end[i].ctx) ||
		    !is_readable(number[i]) || fcntl(number[i], F_GETFD) & FD_CLOEXEC)
			return 3 + i;
	}
	return 0;
}

/* @return the daemon's answer, which comes through a pipe; 9: it ended without one */
static void fork__a_daemon_keeps_its_eventfds(void **state)
{
	int said[2], lives[2], status;
	char answer = 9;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(said) | pipe(lives), 0);
	rig_devices();
	pid = fork();
	if (!pid) {
		void *rig;

		rig_setup_again(&rig);
		if (!fork()) {
			alarm(60);
			close(lives[1]);
			answer = (char)daemon_keeps_its_eventfds(rig, lives[0]);
			_exit(write(said[1], &answer, 1) != 1);
		}
		_exit(0);
	}
	close(lives[1]);
	close(said[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(read(said[0], &answer, 1), 1);
	assert_int_equal(answer, 0);
	close(said[0]);
	close(lives[0]);
}

#define T(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(fork__what_a_child_opens_at_inherited_numbers_is_its_own),
		T(fork__the_child_destroys_inherited_channels),
		cmocka_unit_test(fork__a_daemon_keeps_its_eventfds),
	};

	return cmocka_run_group_tests_name("shim_fork_files", tests, NULL, NULL);
}
