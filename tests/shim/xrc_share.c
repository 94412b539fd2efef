/* SPDX-License-Identifier: BSD-3-Clause */
/* xrc_share.c - XRC domains that processes share. This process has the initiator; one child has the target and an SRQ,
 * and another child has an SRQ in the same domain. */
#include "xrc_peer.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_S 40
#define LONG	   5000 /* bytes: several packets */
#define COUNTER	   256	/* offset of the word of atomics */
#define DATA	   1024 /* offset of what READ and WRITE access */
#define MESSAGES   16384

struct trio {
	struct rig *rig;
	char name[32];
	int fd;
	struct peer owner, other; /* of the target; of an SRQ in the domain */
	struct ibv_qp *initiator;
	uint32_t target;
};

static uint32_t srq_of(const struct peer *peer)
{
	return peer_do(peer, (struct peer_ask){.verb = PEER_SRQ}).number;
}

/** Start the children, which open the domain, and connect the initiator with the target. */
static struct trio trio_start(void **state)
{
	struct trio t = {.rig = *state, .name = "/tmp/uroce-xrc-XXXXXX"};
	struct rig_end *from = &t.rig->end[0];

	t.fd = mkstemp(t.name);
	assert_true(t.fd >= 0);
	t.owner = peer_start(t.fd);
	t.other = peer_start(t.fd);
	peer_do(&t.owner, (struct peer_ask){.verb = PEER_DOMAIN, .a = O_CREAT});
	peer_do(&t.other, (struct peer_ask){.verb = PEER_DOMAIN});
	t.owner.srqn = srq_of(&t.owner);
	t.other.srqn = srq_of(&t.other);
	t.target = peer_do(&t.owner, (struct peer_ask){.verb = PEER_TARGET}).number;
	t.initiator = xrc_initiator(from, 0);
	assert_non_null(t.initiator);
	peer_do(&t.owner, (struct peer_ask){.verb = PEER_READY, .a = t.initiator->qp_num, .gid = from->gid});
	xrc_ready(t.initiator, t.target, &t.rig->end[1].gid);
	return t;
}

static void file_remove(struct trio *t)
{
	close(t->fd);
	unlink(t->name);
}

/** End what trio_start() has begun, in any state. */
static void trio_end(struct trio *t)
{
	assert_int_equal(ibv_destroy_qp(t->initiator), 0);
	peer_end(&t->owner);
	if (t->other.pid)
		peer_end(&t->other);
	file_remove(t);
}

static void receive_post(const struct peer *peer, uint32_t offset, uint32_t length, uint32_t wr_id)
{
	peer_do(peer, (struct peer_ask){.verb = PEER_POST, .a = offset, .b = length, .c = wr_id});
}

/** Post a request that names the peer's SRQ. Its data is at the beginning of the initiator's buffer. */
static void request_post(struct trio *t, const struct peer *peer, enum ibv_wr_opcode opcode, uint32_t length,
			 uint32_t wr_id)
{
	struct ibv_sge sge = rig_sge(&t->rig->end[0], 0, length);
	struct ibv_send_wr wr = {.wr_id = wr_id,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .imm_data = wr_id,
				 .qp_type.xrc.remote_srqn = peer->srqn},
			   *bad;

	if (opcode == IBV_WR_ATOMIC_FETCH_AND_ADD || opcode == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = (uintptr_t)peer->buf + COUNTER;
		wr.wr.atomic.rkey = peer->rkey;
		wr.wr.atomic.compare_add = opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ? 3 : wr_id;
		wr.wr.atomic.swap = wr_id + 1;
	} else {
		wr.wr.rdma.remote_addr = (uintptr_t)peer->buf + DATA;
		wr.wr.rdma.rkey = peer->rkey;
	}
	assert_int_equal(ibv_post_send(t->initiator, &wr, &bad), 0);
}

/** As rig_wait(), with more patience: the target may have to notice that a process has ended. */
static struct ibv_wc request_wait(struct trio *t)
{
	time_t end = time(NULL) + PATIENCE_S;
	struct ibv_wc wc;
	int n;

	while (!(n = ibv_poll_cq(t->rig->end[0].cq, 1, &wc)))
		if (time(NULL) > end)
			fail_msg("no completion came");
	assert_int_equal(n, 1);
	return wc;
}

static void request_run(struct trio *t, const struct peer *peer, enum ibv_wr_opcode opcode, uint32_t length,
			uint32_t wr_id)
{
	struct ibv_wc wc;

	request_post(t, peer, opcode, length, wr_id);
	wc = request_wait(t);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
}

static void fill(uint8_t *bytes, uint32_t length, uint32_t seed)
{
	for (uint32_t i = 0; i < length; i++)
		bytes[i] = (uint8_t)(seed * 31 + i * 7 + (i >> 8));
}

/** A SEND, or a WRITE with immediate data, whose receive is posted before. */
static void message(struct trio *t, const struct peer *peer, enum ibv_wr_opcode opcode, uint32_t length, uint32_t wr_id)
{
	bool write = opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	uint8_t *from = t->rig->end[0].buf;
	struct ibv_wc wc;

	receive_post(peer, MESSAGES, write ? 0 : length, wr_id);
	fill(from, length, wr_id);
	request_run(t, peer, opcode, length, wr_id);
	wc = peer_do(peer, (struct peer_ask){.verb = PEER_WAIT}).wc;
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.byte_len, length);
	assert_int_equal(wc.qp_num, t->target);
	assert_int_equal(wc.opcode, write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, opcode == IBV_WR_SEND ? 0 : IBV_WC_WITH_IMM);
	if (opcode != IBV_WR_SEND)
		assert_int_equal(wc.imm_data, wr_id);
	assert_memory_equal(peer->buf + (write ? DATA : MESSAGES), from, length);
}

static void write_and_read(struct trio *t, const struct peer *peer, uint32_t length, uint32_t seed)
{
	uint8_t *from = t->rig->end[0].buf;

	fill(from, length, seed);
	request_run(t, peer, IBV_WR_RDMA_WRITE, length, 1);
	assert_memory_equal(peer->buf + DATA, from, length);
	fill(peer->buf + DATA, length, seed + 1);
	request_run(t, peer, IBV_WR_RDMA_READ, length, 2);
	assert_memory_equal(peer->buf + DATA, from, length);
}

static void atomics(struct trio *t, const struct peer *peer)
{
	uint64_t word = 40, got;

	memcpy(peer->buf + COUNTER, &word, sizeof(word));
	request_run(t, peer, IBV_WR_ATOMIC_FETCH_AND_ADD, sizeof(word), 1);
	memcpy(&got, t->rig->end[0].buf, sizeof(got));
	assert_int_equal(got, 40);
	request_run(t, peer, IBV_WR_ATOMIC_CMP_AND_SWP, sizeof(word), 43);
	memcpy(&got, t->rig->end[0].buf, sizeof(got));
	assert_int_equal(got, 43);
	memcpy(&word, peer->buf + COUNTER, sizeof(word));
	assert_int_equal(word, 44);
}

static void xrc__XR_03_a_target_serves_srqs_of_other_processes(void **state)
{
	struct trio t = trio_start(state);

	assert_int_not_equal(t.owner.srqn, t.other.srqn);
	for (uint32_t i = 0; i < 8; i++) {
		const struct peer *peer = i & 1 ? &t.owner : &t.other;
		uint32_t length = i & 2 ? LONG : 16;

		message(&t, peer, IBV_WR_SEND, length, 10 * i);
		message(&t, peer, IBV_WR_SEND_WITH_IMM, length, 10 * i + 1);
		message(&t, peer, IBV_WR_RDMA_WRITE_WITH_IMM, length, 10 * i + 2);
		write_and_read(&t, peer, length, 10 * i + 3);
		atomics(&t, peer);
	}
	trio_end(&t);
}

/* Another program locks bytes of the file where functions of the device that nobody has would lock theirs. */
static void xrc__locks_of_other_programs_hide_no_process(void **state)
{
	enum { FUNCTIONS = 256, FROM = 100, PORTS = 1 << 16, EACH = 16 };
	struct trio t = trio_start(state);
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
	off_t device;

	assert_int_equal(fcntl(t.fd, F_OFD_GETLK, &lock), 0);
	assert_int_equal(lock.l_type, F_RDLCK);
	device = lock.l_start & ~(((off_t)FUNCTIONS * PORTS) - 1);
	for (unsigned i = FROM * EACH; i < FUNCTIONS * EACH; i++) {
		lock = (struct flock){.l_type = F_RDLCK, .l_start = device + (off_t)i * (PORTS / EACH) + 2, .l_len = 1};
		assert_int_equal(fcntl(t.fd, F_OFD_SETLK, &lock), 0);
	}
	message(&t, &t.other, IBV_WR_SEND, LONG, 1);
	message(&t, &t.owner, IBV_WR_SEND, LONG, 2);
	write_and_read(&t, &t.other, LONG, 3);
	trio_end(&t);
}

#define PIPELINE 15

/* Requests of all kinds, all at once: their order holds, and each process receives its messages in their order. */
static void xrc__requests_to_several_processes_keep_their_order(void **state)
{
	static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_READ, IBV_WR_SEND_WITH_IMM,
						     IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD};
	struct trio t = trio_start(state);
	uint64_t word;

	memset(t.other.buf, 0, RIG_BUF);
	memset(t.owner.buf, 0, RIG_BUF);
	for (uint32_t i = 0; i < PIPELINE; i++)
		if (opcodes[i % 5] == IBV_WR_SEND || opcodes[i % 5] == IBV_WR_SEND_WITH_IMM)
			receive_post(i & 1 ? &t.owner : &t.other, MESSAGES, LONG, i);
	for (uint32_t i = 0; i < PIPELINE; i++)
		request_post(&t, i & 1 ? &t.owner : &t.other, opcodes[i % 5], i % 5 == 4 ? 8 : LONG, i);
	for (uint32_t i = 0; i < PIPELINE; i++) {
		struct ibv_wc wc = request_wait(&t);

		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.wr_id, i);
	}
	for (uint32_t i = 0; i < PIPELINE; i++)
		if (opcodes[i % 5] == IBV_WR_SEND || opcodes[i % 5] == IBV_WR_SEND_WITH_IMM)
			assert_int_equal(
				peer_do(i & 1 ? &t.owner : &t.other, (struct peer_ask){.verb = PEER_WAIT}).wc.wr_id, i);
	memcpy(&word, t.other.buf + COUNTER, sizeof(word)); /* requests 4 and 14; request 9 is the owner's */
	assert_int_equal(word, 6);
	memcpy(&word, t.owner.buf + COUNTER, sizeof(word));
	assert_int_equal(word, 3);
	trio_end(&t);
}

static void xrc__a_receiver_in_another_process_may_be_late(void **state)
{
	struct trio t = trio_start(state);
	struct ibv_wc wc;

	for (uint32_t i = 0; i < 2; i++) {
		uint32_t length = i ? LONG : 16;

		fill(t.rig->end[0].buf, length, i);
		request_post(&t, &t.other, IBV_WR_SEND, length, i);
		usleep(50000);
		assert_int_equal(ibv_poll_cq(t.rig->end[0].cq, 1, &wc), 0);
		receive_post(&t.other, MESSAGES, length, i);
		assert_int_equal(request_wait(&t).status, IBV_WC_SUCCESS);
		assert_int_equal(peer_do(&t.other, (struct peer_ask){.verb = PEER_WAIT}).wc.wr_id, i);
		assert_memory_equal(t.other.buf + MESSAGES, t.rig->end[0].buf, length);
	}
	trio_end(&t);
}

static void target_is_in_error(const struct trio *t, enum ibv_event_type type)
{
	struct peer_answer answer = peer_do(&t->owner, (struct peer_ask){.verb = PEER_EVENT});

	assert_int_equal(answer.number, type);
	assert_int_equal(peer_do(&t->owner, (struct peer_ask){.verb = PEER_QUERY}).state, IBV_QPS_ERR);
}

static void xrc__a_wrong_key_of_another_process_is_refused(void **state)
{
	struct trio t = trio_start(state);

	t.other.rkey = t.owner.rkey; /* which is of no use with the SRQ of the other */
	request_post(&t, &t.other, IBV_WR_RDMA_WRITE, 64, 1);
	assert_int_equal(request_wait(&t).status, IBV_WC_REM_ACCESS_ERR);
	target_is_in_error(&t, IBV_EVENT_QP_ACCESS_ERR);
	trio_end(&t);
}

static void xrc__an_srq_of_another_process_is_destroyed(void **state)
{
	struct trio t = trio_start(state);

	message(&t, &t.other, IBV_WR_SEND, 16, 1);
	peer_do(&t.other, (struct peer_ask){.verb = PEER_SRQ_DESTROY});
	request_post(&t, &t.other, IBV_WR_SEND, 16, 2);
	assert_int_equal(request_wait(&t).status, IBV_WC_REM_INV_REQ_ERR);
	target_is_in_error(&t, IBV_EVENT_QP_REQ_ERR);
	trio_end(&t);
}

static void xrc__a_process_with_an_srq_is_killed(void **state)
{
	struct trio t = trio_start(state);

	message(&t, &t.other, IBV_WR_SEND, 16, 1);
	message(&t, &t.owner, IBV_WR_SEND, 16, 2);
	peer_kill(&t.other);
	t.other.pid = 0;
	message(&t, &t.owner, IBV_WR_SEND, 16, 3);
	request_post(&t, &t.other, IBV_WR_SEND, 16, 4);
	assert_int_equal(request_wait(&t).status, IBV_WC_REM_INV_REQ_ERR);
	target_is_in_error(&t, IBV_EVENT_QP_REQ_ERR);
	trio_end(&t);
}

static int domain(const struct peer *peer, int oflags)
{
	return peer_ask(peer, (struct peer_ask){.verb = PEER_DOMAIN, .a = (uint32_t)oflags}).err;
}

static void domain_close(const struct peer *peer)
{
	peer_do(peer, (struct peer_ask){.verb = PEER_DOMAIN_CLOSE});
}

static void xrc__a_file_names_one_domain_in_all_processes(void **state)
{
	struct trio t = {.rig = *state, .name = "/tmp/uroce-xrc-XXXXXX"};
	struct ibv_xrcd *own;

	t.fd = mkstemp(t.name);
	t.owner = peer_start(t.fd);
	t.other = peer_start(t.fd);
	assert_int_equal(domain(&t.owner, 0), EAGAIN);
	assert_int_equal(domain(&t.owner, O_CREAT | O_EXCL), 0);
	assert_int_equal(domain(&t.other, O_CREAT | O_EXCL), EINVAL);
	/* The other device has domains of its own. */
	assert_null(xrc_domain(&t.rig->end[0], t.fd, 0));
	assert_int_equal(errno, EAGAIN);
	own = xrc_domain(&t.rig->end[1], t.fd, 0);
	assert_non_null(own);
	domain_close(&t.owner);
	assert_int_equal(domain(&t.other, O_CREAT), 0);
	assert_int_equal(ibv_close_xrcd(own), 0);
	assert_int_equal(domain(&t.owner, 0), 0);
	domain_close(&t.owner);
	peer_kill(&t.other);
	assert_int_equal(domain(&t.owner, 0), EAGAIN);
	assert_int_equal(domain(&t.owner, O_CREAT | O_EXCL), 0);
	domain_close(&t.owner);
	peer_end(&t.owner);
	file_remove(&t);
}

/* A child of fork has no domain of its parent, and does not keep it for others. */
/* A FIFO is not opened a second time, and so not locked. */
static void xrc__a_file_that_is_not_locked_names_a_domain_of_the_process(void **state)
{
	char name[] = "/tmp/uroce-xrc-XXXXXX";
	struct peer one, two;
	int fd = mkstemp(name);

	(void)state;
	close(fd);
	unlink(name);
	assert_int_equal(mkfifo(name, 0600), 0);
	fd = open(name, O_RDWR);
	assert_true(fd >= 0);
	one = peer_start(fd);
	two = peer_start(fd);
	assert_int_equal(domain(&one, O_CREAT), 0);
	assert_int_equal(domain(&two, 0), EAGAIN);
	assert_int_equal(domain(&two, O_CREAT | O_EXCL), 0);
	peer_end(&one);
	peer_end(&two);
	close(fd);
	unlink(name);
}

static void xrc__a_forked_child_does_not_keep_a_domain(void **state)
{
	struct trio t = {.rig = *state, .name = "/tmp/uroce-xrc-XXXXXX"};
	struct ibv_xrcd *own;

	t.fd = mkstemp(t.name);
	own = xrc_domain(&t.rig->end[1], t.fd, O_CREAT);
	assert_non_null(own);
	t.owner = peer_start(t.fd);
	t.other = peer_start(t.fd);
	assert_int_equal(domain(&t.other, O_CREAT | O_EXCL), EINVAL);
	assert_int_equal(domain(&t.other, 0), 0);
	domain_close(&t.other);
	assert_int_equal(ibv_close_xrcd(own), 0);
	assert_int_equal(domain(&t.other, 0), EAGAIN);
	peer_end(&t.other);
	peer_end(&t.owner);
	file_remove(&t);
}

static void xrc__XR_03_a_target_of_another_process_may_be_opened(void **state)
{
	struct trio t = trio_start(state);
	const struct peer_ask open = {.verb = PEER_OPEN, .a = t.target}, query = {.verb = PEER_QUERY},
			      destroy = {.verb = PEER_DESTROY};
	struct peer_answer answer = peer_do(&t.other, open);

	assert_int_equal(answer.number, t.target);
	assert_int_equal(answer.state, IBV_QPS_RTS);
	answer = peer_do(&t.other, query);
	assert_int_equal(answer.state, IBV_QPS_RTS);
	assert_int_equal(answer.dest, t.initiator->qp_num);
	peer_do(&t.other, (struct peer_ask){.verb = PEER_MISUSE});
	assert_int_equal(peer_ask(&t.other, (struct peer_ask){.verb = PEER_DOMAIN_CLOSE}).err, EBUSY);
	/* The QP lives as long as it has users, in whatever process. */
	peer_do(&t.owner, destroy);
	message(&t, &t.other, IBV_WR_SEND, 16, 1);
	message(&t, &t.owner, IBV_WR_SEND, LONG, 2);
	/* The event reaches the process that has opened the QP. */
	t.owner.srqn ^= 1;
	request_post(&t, &t.owner, IBV_WR_SEND, 16, 3);
	assert_int_equal(request_wait(&t).status, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(peer_do(&t.other, (struct peer_ask){.verb = PEER_EVENT}).number, IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(peer_do(&t.other, query).state, IBV_QPS_ERR);
	peer_do(&t.other, destroy);
	assert_int_equal(peer_ask(&t.other, open).err, EINVAL);
	assert_int_equal(peer_ask(&t.owner, open).err, EINVAL);
	trio_end(&t);
}

/* Another process connects the target, and the creator ends its use last. */
static void xrc__a_target_of_another_process_may_be_modified(void **state)
{
	struct trio t = trio_start(state);
	const struct peer_ask query = {.verb = PEER_QUERY}, destroy = {.verb = PEER_DESTROY};
	struct ibv_qp *second = xrc_initiator(&t.rig->end[0], 0), *first = t.initiator;
	const struct peer_ask ready = {.verb = PEER_READY, .a = second->qp_num, .gid = t.rig->end[0].gid};
	uint32_t first_target = t.target;

	peer_do(&t.owner, destroy);
	t.target = peer_do(&t.owner, (struct peer_ask){.verb = PEER_TARGET}).number;
	assert_int_not_equal(t.target, first_target);
	assert_int_equal(peer_ask(&t.other, (struct peer_ask){.verb = PEER_OPEN, .a = first_target}).err, EINVAL);
	assert_int_equal(peer_do(&t.other, (struct peer_ask){.verb = PEER_OPEN, .a = t.target}).state, IBV_QPS_RESET);
	peer_do(&t.other, ready);
	assert_int_equal(peer_do(&t.owner, query).state, IBV_QPS_RTS);
	assert_int_equal(peer_do(&t.owner, query).dest, second->qp_num);
	xrc_ready(second, t.target, &t.rig->end[1].gid);
	t.initiator = second;
	message(&t, &t.other, IBV_WR_SEND, LONG, 1);
	peer_do(&t.other, destroy);
	message(&t, &t.other, IBV_WR_SEND, 16, 2);
	peer_do(&t.owner, destroy);
	assert_int_equal(ibv_destroy_qp(first), 0);
	trio_end(&t);
}

static void xrc__the_process_of_an_open_target_is_killed(void **state)
{
	struct trio t = trio_start(state);

	peer_do(&t.other, (struct peer_ask){.verb = PEER_OPEN, .a = t.target});
	peer_kill(&t.owner);
	assert_int_not_equal(peer_ask(&t.other, (struct peer_ask){.verb = PEER_QUERY}).err, 0);
	peer_do(&t.other, (struct peer_ask){.verb = PEER_DESTROY});
	assert_int_equal(peer_ask(&t.other, (struct peer_ask){.verb = PEER_OPEN, .a = t.target}).err, EINVAL);
	assert_int_equal(ibv_destroy_qp(t.initiator), 0);
	peer_end(&t.other);
	file_remove(&t);
}

/* Calls on a target do not wait for ever for its process. */
static void xrc__the_process_of_an_open_target_is_stopped(void **state)
{
	struct trio t = trio_start(state);
	const struct peer_ask open = {.verb = PEER_OPEN, .a = t.target}, query = {.verb = PEER_QUERY};

	peer_do(&t.other, open);
	peer_stop(&t.owner);
	assert_int_equal(peer_ask(&t.other, query).err, ETIMEDOUT);
	peer_do(&t.other, (struct peer_ask){.verb = PEER_DESTROY});
	kill(t.owner.pid, SIGCONT);
	assert_int_equal(peer_do(&t.other, open).state, IBV_QPS_RTS);
	message(&t, &t.other, IBV_WR_SEND, 16, 1);
	peer_do(&t.other, (struct peer_ask){.verb = PEER_DESTROY});
	trio_end(&t);
}

/* A process that ends does not use the target any more, so the creator's destruction of it is the last. */
static void opener_ends(void **state, void (*end)(struct peer *peer))
{
	struct trio t = trio_start(state);

	peer_do(&t.other, (struct peer_ask){.verb = PEER_OPEN, .a = t.target});
	end(&t.other);
	t.other.pid = 0;
	message(&t, &t.owner, IBV_WR_SEND, 16, 1);
	peer_do(&t.owner, (struct peer_ask){.verb = PEER_DESTROY});
	request_post(&t, &t.owner, IBV_WR_SEND, 16, 2);
	assert_int_equal(request_wait(&t).status, IBV_WC_RETRY_EXC_ERR);
	trio_end(&t);
}

static void xrc__a_process_closes_its_device_with_an_open_target(void **state)
{
	opener_ends(state, peer_end);
}

static void xrc__a_process_with_an_open_target_is_killed(void **state)
{
	opener_ends(state, peer_kill);
}

/* A target ends with its creator's domain, whoever uses it. Until then its creator may open it again. */
static void xrc__the_domain_of_an_open_target_is_closed(void **state)
{
	struct trio t = trio_start(state);
	const struct peer_ask open = {.verb = PEER_OPEN, .a = t.target}, query = {.verb = PEER_QUERY};

	peer_do(&t.other, open);
	peer_do(&t.owner, (struct peer_ask){.verb = PEER_DESTROY});
	peer_do(&t.owner, open);
	assert_int_equal(peer_do(&t.owner, query).state, IBV_QPS_RTS);
	message(&t, &t.owner, IBV_WR_SEND, 16, 1);
	peer_do(&t.owner, (struct peer_ask){.verb = PEER_DESTROY});
	peer_do(&t.owner, (struct peer_ask){.verb = PEER_SRQ_DESTROY});
	assert_int_equal(peer_do(&t.other, query).state, IBV_QPS_RTS);
	domain_close(&t.owner);
	assert_int_equal(peer_ask(&t.other, query).err, EINVAL);
	peer_do(&t.other, (struct peer_ask){.verb = PEER_DESTROY});
	assert_int_equal(domain(&t.owner, O_CREAT | O_EXCL), EINVAL); /* the other still has it */
	peer_do(&t.other, (struct peer_ask){.verb = PEER_SRQ_DESTROY});
	domain_close(&t.other);
	assert_int_equal(domain(&t.owner, O_CREAT | O_EXCL), 0);
	trio_end(&t);
}

/** As rig_setup(), but no process has a thread that makes progress. */
static int setup_inline(void **state)
{
	setenv("UROCE_PROGRESS", "inline", 1);
	return rig_setup(state);
}

static int teardown_inline(void **state)
{
	unsetenv("UROCE_PROGRESS");
	return rig_teardown(state);
}

/** As rig_setup(), but the processes talk through the kernel's UDP. */
static int setup_without_rings(void **state)
{
	setenv("UROCE_RING", "off", 1);
	return rig_setup(state);
}

static int teardown_without_rings(void **state)
{
	unsetenv("UROCE_RING");
	return rig_teardown(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, rig_setup, rig_teardown)
#define INLINE(name_)                                                                                                  \
	{                                                                                                              \
#name_ " without threads", name_, setup_inline, teardown_inline, NULL                                  \
	}
#define BY_UDP(name_)                                                                                                  \
	{                                                                                                              \
#name_ " by UDP", name_, setup_without_rings, teardown_without_rings, NULL                             \
	}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(xrc__a_file_names_one_domain_in_all_processes),
		TEST(xrc__a_file_that_is_not_locked_names_a_domain_of_the_process),
		TEST(xrc__a_forked_child_does_not_keep_a_domain),
		TEST(xrc__XR_03_a_target_serves_srqs_of_other_processes),
		BY_UDP(xrc__XR_03_a_target_serves_srqs_of_other_processes),
		INLINE(xrc__XR_03_a_target_serves_srqs_of_other_processes),
		TEST(xrc__locks_of_other_programs_hide_no_process),
		TEST(xrc__requests_to_several_processes_keep_their_order),
		BY_UDP(xrc__requests_to_several_processes_keep_their_order),
		TEST(xrc__a_receiver_in_another_process_may_be_late),
		TEST(xrc__a_wrong_key_of_another_process_is_refused),
		TEST(xrc__an_srq_of_another_process_is_destroyed),
		TEST(xrc__a_process_with_an_srq_is_killed),
		TEST(xrc__XR_03_a_target_of_another_process_may_be_opened),
		INLINE(xrc__XR_03_a_target_of_another_process_may_be_opened),
		TEST(xrc__a_target_of_another_process_may_be_modified),
		TEST(xrc__the_domain_of_an_open_target_is_closed),
		TEST(xrc__a_process_closes_its_device_with_an_open_target),
		TEST(xrc__a_process_with_an_open_target_is_killed),
		TEST(xrc__the_process_of_an_open_target_is_killed),
		TEST(xrc__the_process_of_an_open_target_is_stopped),
	};

	return cmocka_run_group_tests_name("shim_xrc_share", tests, NULL, NULL);
}
