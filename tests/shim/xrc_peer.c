/* SPDX-License-Identifier: BSD-3-Clause */
/* xrc_peer.c - child processes that do verbs of XRC on request (xrc_peer.h). */
#include "xrc_peer.h"

#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LIFE_S 100

/** What a child has. */
struct child {
	int fd; /* the file that names its domain */
	void *rig;
	struct rig_end *end;
	struct ibv_mr *mr;
	uint8_t *buf;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *target;
};

static int result(const void *object)
{
	return object ? 0 : errno;
}

static int target_open(struct child *c, uint32_t qpn, struct peer_answer *answer)
{
	struct ibv_qp_open_attr attr = {
		.comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD | IBV_QP_OPEN_ATTR_TYPE,
		.qp_num = qpn,
		.xrcd = c->xrcd,
		.qp_type = IBV_QPT_XRC_RECV,
	};

	c->target = ibv_open_qp(c->end->ctx, &attr);
	if (!c->target)
		return errno;
	answer->number = c->target->qp_num;
	answer->state = c->target->state;
	return 0;
}

static int target_query(const struct child *c, struct peer_answer *answer)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	int err = ibv_query_qp(c->target, &attr, IBV_QP_STATE | IBV_QP_DEST_QPN, &init);

	answer->state = attr.qp_state;
	answer->dest = attr.dest_qp_num;
	return err;
}

static int post(const struct child *c, const struct peer_ask *ask)
{
	struct ibv_sge sge = {(uintptr_t)c->buf + ask->a, ask->b, c->mr->lkey};
	struct ibv_recv_wr wr = {.wr_id = ask->c, .sg_list = &sge, .num_sge = 1}, *bad;

	return ibv_post_srq_recv(c->srq, &wr, &bad);
}

static int misuse(const struct child *c)
{
	struct ibv_recv_wr recv = {.wr_id = 1}, *bad_recv;
	struct ibv_send_wr send = {.opcode = IBV_WR_SEND}, *bad_send;
	union ibv_gid group = {.raw = {0xff, 0x0e, [15] = 1}};
	int err = ibv_attach_mcast(c->target, &group, 0);

	return ibv_post_recv(c->target, &recv, &bad_recv) != EINVAL || bad_recv != &recv ||
	       ibv_post_send(c->target, &send, &bad_send) != EINVAL || bad_send != &send ||
	       (err != EINVAL && err != EOPNOTSUPP);
}

/** Wait until a descriptor is readable. Meanwhile the child polls its CQ, for no completion, because its device may
 * have no thread. */
static bool readable(const struct child *c, int fd, time_t seconds)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	time_t end = time(NULL) + seconds;

	while (poll(&p, 1, getenv("UROCE_PROGRESS") ? 1 : 1000) == 0 && time(NULL) <= end)
		ibv_poll_cq(c->end->cq, 0, NULL);
	return p.revents;
}

static int async_event(const struct child *c, struct peer_answer *answer)
{
	struct ibv_async_event event;

	if (!readable(c, c->end->ctx->async_fd, 10))
		return ETIMEDOUT;
	if (ibv_get_async_event(c->end->ctx, &event))
		return errno;
	answer->number = event.event_type;
	ibv_ack_async_event(&event);
	return event.element.qp == c->target ? 0 : ENOENT;
}

static int serve(struct child *c, const struct peer_ask *ask, struct peer_answer *answer)
{
	switch (ask->verb) {
	case PEER_DOMAIN:
		c->xrcd = xrc_domain(c->end, c->fd, (int)ask->a);
		return result(c->xrcd);
	case PEER_DOMAIN_CLOSE:
		return ibv_close_xrcd(c->xrcd);
	case PEER_SRQ:
		c->srq = xrc_srq(c->end, c->xrcd);
		return c->srq ? ibv_get_srq_num(c->srq, &answer->number) : errno;
	case PEER_SRQ_DESTROY:
		return ibv_destroy_srq(c->srq);
	case PEER_POST:
		return post(c, ask);
	case PEER_WAIT:
		answer->wc = rig_wait(c->end->cq);
		return 0;
	case PEER_TARGET:
		c->target = xrc_target(c->end, c->xrcd);
		answer->number = c->target ? c->target->qp_num : 0;
		return result(c->target);
	case PEER_OPEN:
		return target_open(c, ask->a, answer);
	case PEER_READY:
		xrc_ready(c->target, ask->a, &ask->gid);
		return 0;
	case PEER_QUERY:
		return target_query(c, answer);
	case PEER_DESTROY:
		return ibv_destroy_qp(c->target);
	case PEER_MISUSE:
		return misuse(c);
	case PEER_EVENT:
		return async_event(c, answer);
	}
	return ENOSYS;
}

/** The child: open the second device anew, tell the R_Key of `buf`, and serve. @return the exit status */
static int run(int fd, int socket, uint8_t *buf)
{
	struct child c = {.fd = fd, .buf = buf};
	struct peer_answer answer = {0};
	struct peer_ask ask;

	if (rig_setup_again(&c.rig))
		return 1;
	c.end = &((struct rig *)c.rig)->end[1];
	c.mr = ibv_reg_mr(c.end->pd, buf, RIG_BUF, RIG_ACCESS);
	if (!c.mr)
		return 2;
	answer.number = c.mr->rkey;
	while (write(socket, &answer, sizeof(answer)) == sizeof(answer) && readable(&c, socket, LIFE_S) &&
	       read(socket, &ask, sizeof(ask)) == sizeof(ask)) {
		memset(&answer, 0, sizeof(answer));
		answer.err = serve(&c, &ask, &answer);
	}
	ibv_close_device(c.end->ctx);
	return 0;
}

struct peer peer_start(int fd)
{
	struct peer peer = {.buf = mmap(NULL, RIG_BUF, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)};
	struct peer_answer answer;
	int sockets[2];

	assert_true(peer.buf != MAP_FAILED);
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
	peer.pid = fork();
	if (!peer.pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* the test may fail while the child is stopped */
		signal(SIGSEGV, SIG_DFL);	  /* cmocka's handler would run the next test in the child */
		setenv("CMOCKA_TEST_ABORT", "1", 1);
		close(sockets[0]);
		alarm(LIFE_S);
		_exit(run(fd, sockets[1], peer.buf));
	}
	close(sockets[1]);
	peer.fd = sockets[0];
	assert_int_equal(read(peer.fd, &answer, sizeof(answer)), sizeof(answer));
	peer.rkey = answer.number;
	return peer;
}

struct peer_answer peer_ask(const struct peer *peer, struct peer_ask ask)
{
	struct peer_answer answer;

	assert_int_equal(send(peer->fd, &ask, sizeof(ask), MSG_NOSIGNAL), sizeof(ask));
	assert_int_equal(read(peer->fd, &answer, sizeof(answer)), sizeof(answer));
	return answer;
}

struct peer_answer peer_do(const struct peer *peer, struct peer_ask ask)
{
	struct peer_answer answer = peer_ask(peer, ask);

	if (answer.err)
		fail_msg("verb %d: %s", ask.verb, strerror(answer.err));
	return answer;
}

void peer_stop(const struct peer *peer)
{
	kill(peer->pid, SIGSTOP);
	assert_int_equal(waitpid(peer->pid, NULL, WUNTRACED), peer->pid); /* until then its threads may go on */
}

void peer_kill(struct peer *peer)
{
	kill(peer->pid, SIGKILL);
	assert_int_equal(waitpid(peer->pid, NULL, 0), peer->pid);
	close(peer->fd);
	munmap(peer->buf, RIG_BUF);
}

void peer_end(struct peer *peer)
{
	int status;

	shutdown(peer->fd, SHUT_RDWR); /* children that were forked later have copies */
	close(peer->fd);
	assert_int_equal(waitpid(peer->pid, &status, 0), peer->pid);
	assert_int_equal(status, 0);
	munmap(peer->buf, RIG_BUF);
}
