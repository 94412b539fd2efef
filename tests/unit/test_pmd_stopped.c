/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_stopped.c - processes that cannot answer for a while: stopped, without a free descriptor, not allowed to
 * write files. The requester is a process of its own; the target is another process, whose engine's thread serves it.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "devices.h"
#include "ends.h"
#include "engine_priv.h"
#include "sanitizer.h"

#define QPS	   2
#define DEPTH	   24 /* requests in flight */
#define TIMEOUT	   12 /* ACK timeout code of QPs on links: 17 ms; retries run out after 15 times that */
#define PATIENT	   18 /* ACK timeout code of QPs on the port, where a busy machine delays answers: 1 s */
#define STOP_US	   2000000
#define PATIENCE_S 60
#define LONG	   20000 /* bytes of WRITEs and READs, which go through the ring and by reference */

enum { COMMAND_CONNECT = 1, COMMAND_USE_UP, COMMAND_FREE, COMMAND_END };

/** What a peer must know about a QP. */
struct seat {
	struct nic_gid gid;
	uint32_t qpn, psn, rkey;
	uint64_t addr;
};

/** Memory shared by both processes. */
static struct {
	struct seat requester[QPS], target[QPS];
	uint8_t timeout;
	uint32_t index; /* the QP that the command is about */
	uint32_t command, done;
	uint64_t received, wrong;
	uint64_t by_link; /* packets that the target received by links */
} * board;

static struct pmd_device device[2];

/** A process's device, with its QPs and memory that peers may write, read and access by atomics. */
struct place {
	struct end e;
	struct nic_mr *mr;
	struct nic_qp *qp[QPS];
	uint8_t *memory;
};

/* ---- both ------------------------------------------------------------------------------------------------------- */

static void place_open(struct place *p, const struct pmd_device *which, struct seat *seats)
{
	struct nic_qp_init init = {.type = NIC_QPT_RC, .cap = {64, 64, 1, 1, 0}};

	end_open(&p->e, which);
	p->memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_true(p->memory != MAP_FAILED);
	pmd_lock(p->e.engine);
	assert_int_equal(nic_mr_reg(p->e.pd, p->memory, 1 << 20, (uintptr_t)p->memory,
				    NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ |
					    NIC_ACCESS_REMOTE_ATOMIC,
				    &p->mr),
			 0);
	init.pd = p->e.pd;
	init.send_cq = p->e.scq;
	init.recv_cq = p->e.rcq;
	for (unsigned i = 0; i < QPS; i++) {
		assert_int_equal(nic_qp_create(p->e.nic, &init, &p->qp[i]), 0);
		seats[i] = (struct seat){.gid = p->e.gid,
					 .qpn = nic_qp_num(p->qp[i]),
					 .psn = nic_psn_random(p->e.nic),
					 .rkey = nic_mr_rkey(p->mr),
					 .addr = (uintptr_t)p->memory};
	}
	pmd_unlock(p->e.engine);
}

static uint32_t path_of(struct place *p, unsigned index)
{
	uint32_t path;

	pmd_lock(p->e.engine);
	path = nic_qp_path(p->qp[index]);
	pmd_unlock(p->e.engine);
	return path;
}

static void place_connect(struct place *p, unsigned index, const struct seat *own, const struct seat *peer)
{
	struct nic_qp_attr attr = {.qp_state = NIC_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags =
					   NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC,
				   .path_mtu = NIC_MTU_1024,
				   .dest_qp_num = peer->qpn,
				   .rq_psn = peer->psn,
				   .sq_psn = own->psn,
				   .max_rd_atomic = 4,
				   .max_dest_rd_atomic = 4,
				   .min_rnr_timer = 12,
				   .timeout = board->timeout,
				   .retry_cnt = 7,
				   .rnr_retry = 7,
				   .av.dgid = peer->gid};
	struct nic_qp *qp = p->qp[index];

	pmd_lock(p->e.engine);
	assert_int_equal(nic_qp_modify(qp, &attr, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_ACCESS_FLAGS),
			 0);
	attr.qp_state = NIC_QPS_RTR;
	assert_int_equal(nic_qp_modify(qp, &attr,
				       NIC_QP_STATE | NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN |
					       NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER),
			 0);
	attr.qp_state = NIC_QPS_RTS;
	assert_int_equal(nic_qp_modify(qp, &attr,
				       NIC_QP_STATE | NIC_QP_SQ_PSN | NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT |
					       NIC_QP_RNR_RETRY | NIC_QP_MAX_QP_RD_ATOMIC),
			 0);
	pmd_unlock(p->e.engine);
}

static uint64_t by_link(struct end *e)
{
	struct pmd_port_stats stats;

	pmd_lock(e->engine);
	pmd_port_stats_get(e->engine, &stats);
	pmd_unlock(e->engine);
	return stats.link_rx_packets;
}

/* ---- the target ------------------------------------------------------------------------------------------------- */

static void listen_once(struct place *p, unsigned index)
{
	struct nic_sge sge = {(uintptr_t)p->memory + (512 << 10), 64, nic_mr_lkey(p->mr)};
	struct nic_recv_wr wr = {.wr_id = index, .sg_list = &sge, .num_sge = 1};

	pmd_lock(p->e.engine);
	assert_int_equal(nic_post_recv(p->qp[index], &wr), 0);
	pmd_unlock(p->e.engine);
}

static void use_up_descriptors(void)
{
	struct rlimit limit;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	if (limit.rlim_cur > 2048) {
		limit.rlim_cur = 2048;
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
	}
	while (open("/dev/null", O_RDONLY | O_CLOEXEC) >= 0)
		;
	assert_int_equal(errno, EMFILE);
}

/** Close the descriptors of /dev/null that were opened to use all up. */
static void free_descriptors(void)
{
	for (int fd = 3; fd < 2048; fd++) {
		char path[64] = "", link[32];

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (readlink(link, path, sizeof(path) - 1) > 0 && strcmp(path, "/dev/null") == 0)
			close(fd);
	}
}

static void obey(struct place *p, uint32_t command)
{
	unsigned index = board->index;

	if (command == COMMAND_CONNECT) {
		place_connect(p, index, &board->target[index], &board->requester[index]);
		for (unsigned i = 0; i < 32; i++)
			listen_once(p, index);
	} else if (command == COMMAND_USE_UP) {
		use_up_descriptors();
	} else if (command == COMMAND_FREE) {
		free_descriptors();
	}
	board->by_link = by_link(&p->e);
	__atomic_store_n(&board->command, 0, __ATOMIC_RELAXED);
	__atomic_add_fetch(&board->done, 1, __ATOMIC_RELEASE);
}

static _Noreturn void target_run(const struct pmd_device *which)
{
	const struct timespec pause = {0, 200000};
	static struct place p;
	uint32_t command;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	place_open(&p, which, board->target);
	__atomic_add_fetch(&board->done, 1, __ATOMIC_RELEASE);
	while ((command = __atomic_load_n(&board->command, __ATOMIC_ACQUIRE)) != COMMAND_END) {
		struct nic_wc wc;

		if (command)
			obey(&p, command);
		while (end_poll(&p.e, p.e.rcq, &wc) == 1) {
			board->wrong += wc.status != NIC_WC_SUCCESS;
			board->received++;
			if (wc.status == NIC_WC_SUCCESS)
				listen_once(&p, (unsigned)wc.wr_id);
		}
		nanosleep(&pause, NULL);
	}
	_exit(0);
}

static void await_done(uint32_t done)
{
	for (unsigned ms = 0; __atomic_load_n(&board->done, __ATOMIC_ACQUIRE) < done; ms++) {
		assert_true(ms < PATIENCE_S * 1000);
		usleep(1000);
	}
}

static void order(uint32_t command, uint32_t index)
{
	uint32_t done = board->done;

	board->index = index;
	__atomic_store_n(&board->command, command, __ATOMIC_RELEASE);
	await_done(done + 1);
}

/* ---- the requester ---------------------------------------------------------------------------------------------- */

/** The numbers of requests posted and completed. */
struct traffic {
	uint64_t posted, completed, sends, adds, added; /* added: the value that the last atomic returned */
	struct nic_wc failed;
};

/** Post the next request: a SEND, a WRITE, a READ and an atomic in turn. Lock held. */
static void post_next(struct place *p, struct nic_qp *qp, struct traffic *t)
{
	const struct seat *peer = &board->target[0];
	uint32_t kind = t->posted % 4;
	struct nic_sge sge = {(uintptr_t)p->memory + (kind << 16), kind == 1 || kind == 2 ? LONG : 8,
			      nic_mr_lkey(p->mr)};
	struct nic_send_wr wr = {.wr_id = t->posted, .sg_list = &sge, .num_sge = 1, .flags = NIC_SEND_SIGNALED};

	if (kind == 0) {
		wr.opcode = NIC_WR_SEND;
		t->sends++;
	} else if (kind == 3) {
		wr.opcode = NIC_WR_ATOMIC_FETCH_AND_ADD;
		wr.atomic.remote_addr = peer->addr + (256 << 10);
		wr.atomic.rkey = peer->rkey;
		wr.atomic.compare_add = 1;
		t->adds++;
	} else {
		wr.opcode = kind == 1 ? NIC_WR_RDMA_WRITE : NIC_WR_RDMA_READ;
		wr.rdma.remote_addr = peer->addr;
		wr.rdma.rkey = peer->rkey;
	}
	assert_int_equal(nic_post_send(qp, &wr), 0);
	t->posted++;
}

/** For `us` microseconds, or until `most` requests have completed, post while there is room and poll completions. */
static void talk(struct place *p, struct nic_qp *qp, struct traffic *t, uint64_t most, unsigned us)
{
	uint64_t end = pmd_now_ns() + us * 1000ull;
	struct nic_wc wc;

	while (t->failed.status == NIC_WC_SUCCESS && pmd_now_ns() < end && t->completed < most) {
		pmd_lock(p->e.engine);
		while (t->posted < most && t->posted - t->completed < DEPTH)
			post_next(p, qp, t);
		pmd_doorbell(p->e.engine);
		pmd_unlock(p->e.engine);
		pmd_try_progress(p->e.engine);
		while (t->failed.status == NIC_WC_SUCCESS && end_poll(&p->e, p->e.scq, &wc) == 1) {
			if (wc.status != NIC_WC_SUCCESS) {
				t->failed = wc;
				break;
			}
			assert_int_equal(wc.wr_id, t->completed); /* each request completes once, in order */
			t->completed++;
		}
	}
}

static void begin(struct place *p, uint8_t timeout, pid_t *target)
{
	memset(board, 0, sizeof(*board));
	board->timeout = timeout;
	*target = fork();
	assert_true(*target >= 0);
	if (*target == 0)
		target_run(&device[1]);
	await_done(1);
	place_open(p, &device[0], board->requester);
}

static void connect_both(struct place *p, unsigned index)
{
	place_connect(p, index, &board->requester[index], &board->target[index]);
	order(COMMAND_CONNECT, index);
}

static void end(struct place *p, pid_t target)
{
	int status;

	__atomic_store_n(&board->command, COMMAND_END, __ATOMIC_RELEASE);
	assert_int_equal(waitpid(target, &status, 0), target);
	assert_int_equal(status, 0);
	end_close(&p->e);
}

/* ---- cases: each in a process, for the target is one that is forked before any device is open ------------------- */

static void check_stopped_and_continued(void **state)
{
	static struct place p;
	struct traffic t = {0};
	pid_t target;

	(void)state;
	begin(&p, TIMEOUT, &target);
	connect_both(&p, 0);
	assert_true(path_of(&p, 0) > 0);
	for (unsigned round = 0; round < 2; round++) {
		uint64_t before = t.completed;

		for (unsigned tries = 0; tries < 10 * PATIENCE_S && t.completed == before; tries++)
			talk(&p, p.qp[0], &t, UINT64_MAX, 100000);
		assert_int_equal(t.failed.status, NIC_WC_SUCCESS);
		assert_true(t.completed > before);
		kill(target, SIGSTOP);
		talk(&p, p.qp[0], &t, UINT64_MAX, STOP_US);
		kill(target, SIGCONT);
		assert_int_equal(t.failed.status, NIC_WC_SUCCESS);
	}
	talk(&p, p.qp[0], &t, t.posted, PATIENCE_S * 1000000u);
	assert_int_equal(t.failed.status, NIC_WC_SUCCESS);
	assert_int_equal(t.completed, t.posted);
	for (unsigned ms = 0; board->received < t.sends && ms < PATIENCE_S * 1000; ms++)
		usleep(1000);
	assert_int_equal(board->received, t.sends);
	assert_int_equal(board->wrong, 0);
	/* The value that the last atomic returns tells how many have been executed. */
	while (t.posted % 4 != 3)
		talk(&p, p.qp[0], &t, t.posted + 1, PATIENCE_S * 1000000u);
	talk(&p, p.qp[0], &t, t.posted + 1, PATIENCE_S * 1000000u);
	memcpy(&t.added, p.memory + (3 << 16), sizeof(t.added));
	assert_int_equal(t.added + 1, t.adds);
	assert_true(path_of(&p, 0) > 0);
	end(&p, target);
}

static void check_stopped_and_killed(void **state)
{
	static struct place p;
	struct traffic t = {0};
	pid_t target;
	int status;

	(void)state;
	begin(&p, TIMEOUT, &target);
	connect_both(&p, 0);
	talk(&p, p.qp[0], &t, UINT64_MAX, 100000);
	kill(target, SIGSTOP);
	talk(&p, p.qp[0], &t, UINT64_MAX, STOP_US / 2);
	assert_int_equal(t.failed.status, NIC_WC_SUCCESS);
	kill(target, SIGKILL);
	assert_int_equal(waitpid(target, &status, 0), target);
	talk(&p, p.qp[0], &t, UINT64_MAX, PATIENCE_S * 1000000u);
	assert_int_equal(t.failed.status, NIC_WC_RETRY_EXC_ERR);
	assert_int_equal(path_of(&p, 0), 0);
	end_close(&p.e);
}

static void check_no_descriptors(void **state)
{
	static struct place p;
	struct traffic t = {0};
	pid_t target;

	(void)state;
	begin(&p, PATIENT, &target);
	order(COMMAND_USE_UP, 0);
	connect_both(&p, 0);
	talk(&p, p.qp[0], &t, 100, PATIENCE_S * 1000000u);
	assert_int_equal(t.failed.status, NIC_WC_SUCCESS);
	assert_int_equal(t.completed, 100);
	assert_int_equal(path_of(&p, 0), 0);
	order(COMMAND_FREE, 0);
	assert_int_equal(board->by_link, 0);
	usleep(1500000); /* for a second after a link was given up no new one is made */
	connect_both(&p, 1);
	assert_true(path_of(&p, 1) > 0);
	t = (struct traffic){0};
	talk(&p, p.qp[1], &t, 100, PATIENCE_S * 1000000u);
	assert_int_equal(t.failed.status, NIC_WC_SUCCESS);
	assert_int_equal(t.completed, 100);
	assert_true(path_of(&p, 1) > 0);
	order(COMMAND_FREE, 0);
	assert_true(board->by_link > 0);
	end(&p, target);
}

static void check_limit(rlim_t bytes)
{
	const struct rlimit limit = {bytes, RLIM_INFINITY}, none = {RLIM_INFINITY, RLIM_INFINITY};
	struct pmd_port_stats stats;
	static struct place p;
	struct traffic t = {0};
	pid_t target;

	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	begin(&p, PATIENT, &target);
	connect_both(&p, 0);
	talk(&p, p.qp[0], &t, 1000, PATIENCE_S * 1000000u);
	assert_int_equal(t.failed.status, NIC_WC_SUCCESS);
	assert_int_equal(t.completed, 1000);
	assert_int_equal(path_of(&p, 0), 0);
	pmd_lock(p.e.engine);
	pmd_port_stats_get(p.e.engine, &stats);
	pmd_unlock(p.e.engine);
	assert_true(stats.link_no_memory > 0);
	end(&p, target);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0); /* what this program prints may go to a file */
}

static void check_limit_0(void **state)
{
	(void)state;
	check_limit(0);
}

static void check_limit_just_too_small(void **state)
{
	(void)state;
	check_limit(266239);
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

/** Run a case in a new process of this program, because it must fork before it opens a device and sets limits on
 * itself. */
static void in_a_process(const char *name)
{
	pid_t pid = fork();
	int status;

	assert_true(pid >= 0);
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl("/proc/self/exe", "test_pmd_stopped", "case", name, (char *)NULL);
		_exit(126);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(WIFSIGNALED(status) ? WTERMSIG(status) : 0, 0);
	assert_int_equal(WEXITSTATUS(status), 0);
}

static void stopped__a_continued_peer_executes_each_request_once(void **state)
{
	(void)state;
	in_a_process("check_stopped_and_continued");
}

static void stopped__requests_to_a_killed_peer_exceed_their_retries(void **state)
{
	(void)state;
	in_a_process("check_stopped_and_killed");
}

static void stopped__a_peer_without_descriptors_is_reached_by_the_port(void **state)
{
	(void)state;
	in_a_process("check_no_descriptors");
}

static void stopped__a_file_size_limit_prevents_links_but_kills_no_process(void **state)
{
	(void)state;
	SKIP_UNDER_TSAN("itself needs files");
	in_a_process("check_limit_0");
	in_a_process("check_limit_just_too_small");
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stopped__a_continued_peer_executes_each_request_once),
		cmocka_unit_test(stopped__requests_to_a_killed_peer_exceed_their_retries),
		cmocka_unit_test(stopped__a_peer_without_descriptors_is_reached_by_the_port),
		cmocka_unit_test(stopped__a_file_size_limit_prevents_links_but_kills_no_process),
	};
	const struct CMUnitTest cases[] = {
		cmocka_unit_test(check_stopped_and_continued), cmocka_unit_test(check_stopped_and_killed),
		cmocka_unit_test(check_no_descriptors),	       cmocka_unit_test(check_limit_0),
		cmocka_unit_test(check_limit_just_too_small),
	};

	if (argc < 3) {
		cmocka_set_test_filter(argc > 1 ? argv[1] : NULL);
		return cmocka_run_group_tests(tests, NULL, NULL);
	}
	if (ends_devices(device, 2, NULL) != 2)
		return 1;
	board = mmap(NULL, sizeof(*board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (board == MAP_FAILED)
		return 1;
	cmocka_set_test_filter(argv[2]);
	return cmocka_run_group_tests(cases, NULL, NULL);
}
