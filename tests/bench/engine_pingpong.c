/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_pingpong.c - latency and bandwidth through nic.h and engine.h, without the verbs front-end: two processes,
 * two devices, one RC connection. Data is checked in every test.
 *
 * Usage: engine_pingpong TEST [SIZE [ITERATIONS]]
 *   TEST: send     SEND ping-pong, both sides poll               (as ib_send_lat)
 *         write    WRITE ping-pong, both sides spin on memory    (as ib_write_lat)
 *         event    SEND ping-pong, both sides sleep on an eventfd (as ib_send_lat -e)
 *         bw       one-way WRITEs, the target spins on memory
 *         sendbw   one-way SENDs, the receiver polls
 *         readbw   READs, the target sleeps
 *         open     time and memory that pmd_open takes
 * The devices are the first two of UROCE_DEVICES, by default 127.0.0.1 and 127.0.0.2.
 */
#include <poll.h>
#include <sys/eventfd.h>

#include "bench_util.h"
#include "engine.h"

#define DEPTH	 64
#define BW_BYTES ((uint64_t)1 << 30)
#define BUF_MAX	 (16u << 20)

struct options {
	const char *test;
	uint32_t size;
	size_t iterations;
};

struct side {
	int id, channel;
	const struct options *opt;
	struct pmd_engine *engine;
	struct nic *nic;
	struct nic_pd *pd;
	struct nic_mr *mr;
	struct nic_cq *scq, *rcq;
	struct nic_qp *qp;
	uint8_t *buf; /* first half: data to send; second half: receive buffer */
	int event_fd;
	struct {
		struct nic_gid gid;
		uint32_t qpn, psn, rkey;
		uint64_t addr;
	} local, remote;
};

static void check(int rc, const char *what)
{
	if (rc != 0) {
		fprintf(stderr, "%s: %s\n", what, strerror(-rc));
		exit(1);
	}
}

static void on_event(void *ctx, const struct nic_event *event)
{
	uint64_t one = 1;

	if (event->type == NIC_EVENT_COMP && write(*(int *)ctx, &one, sizeof(one)) != sizeof(one))
		bench_die("eventfd");
}

static void connect_qp(struct side *s)
{
	struct nic_qp_attr attr = {.qp_state = NIC_QPS_INIT,
				   .port_num = 1,
				   .qp_access_flags = NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ};

	check(nic_qp_modify(s->qp, &attr, NIC_QP_STATE | NIC_QP_PKEY_INDEX | NIC_QP_PORT | NIC_QP_ACCESS_FLAGS),
	      "INIT");
	attr.qp_state = NIC_QPS_RTR;
	attr.path_mtu = nic_active_mtu(s->nic);
	attr.dest_qp_num = s->remote.qpn;
	attr.rq_psn = s->remote.psn;
	attr.max_dest_rd_atomic = 16;
	attr.min_rnr_timer = 12;
	attr.av.dgid = s->remote.gid;
	check(nic_qp_modify(s->qp, &attr,
			    NIC_QP_STATE | NIC_QP_AV | NIC_QP_PATH_MTU | NIC_QP_DEST_QPN | NIC_QP_RQ_PSN |
				    NIC_QP_MAX_DEST_RD_ATOMIC | NIC_QP_MIN_RNR_TIMER),
	      "RTR");
	attr.qp_state = NIC_QPS_RTS;
	attr.sq_psn = s->local.psn;
	attr.timeout = 14;
	attr.retry_cnt = 7;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 16;
	check(nic_qp_modify(s->qp, &attr,
			    NIC_QP_STATE | NIC_QP_SQ_PSN | NIC_QP_TIMEOUT | NIC_QP_RETRY_CNT | NIC_QP_RNR_RETRY |
				    NIC_QP_MAX_QP_RD_ATOMIC),
	      "RTS");
}

static void setup(struct side *s)
{
	struct pmd_device devices[PMD_DEVICES_MAX];
	struct nic_qp_init init = {.type = NIC_QPT_RC, .cap = {2 * DEPTH, 2 * DEPTH, 1, 1, 0}};
	char err[256] = "";
	int n;

	setenv("UROCE_DEVICES", "127.0.0.1 127.0.0.2", 0);
	n = pmd_devices(devices, PMD_DEVICES_MAX);
	if (n < 2) {
		fprintf(stderr, "UROCE_DEVICES must name two devices\n");
		exit(1);
	}
	s->event_fd = eventfd(0, 0);
	if (pmd_open(&devices[s->id], on_event, &s->event_fd, &s->engine, err, sizeof(err)) != 0) {
		fprintf(stderr, "%s: %s\n", devices[s->id].name, err);
		exit(1);
	}
	s->buf = aligned_alloc(4096, 2 * BUF_MAX);
	if (!s->buf)
		bench_die("memory");
	memset(s->buf, 0, 2 * (size_t)s->opt->size);
	memset(s->buf + BUF_MAX, 0, s->opt->size);
	pmd_lock(s->engine);
	s->nic = pmd_engine_nic(s->engine);
	check(nic_pd_alloc(s->nic, &s->pd), "PD");
	check(nic_mr_reg(s->pd, s->buf, 2 * BUF_MAX, (uint64_t)(uintptr_t)s->buf,
			 NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ, &s->mr),
	      "MR");
	check(nic_cq_create(s->nic, 4 * DEPTH, NULL, &s->scq), "CQ");
	check(nic_cq_create(s->nic, 4 * DEPTH, NULL, &s->rcq), "CQ");
	init.pd = s->pd;
	init.send_cq = s->scq;
	init.recv_cq = s->rcq;
	check(nic_qp_create(s->nic, &init, &s->qp), "QP");
	s->local.gid = devices[s->id].gid;
	s->local.qpn = nic_qp_num(s->qp);
	s->local.psn = nic_psn_random(s->nic);
	s->local.rkey = nic_mr_rkey(s->mr);
	s->local.addr = (uint64_t)(uintptr_t)s->buf;
	pmd_unlock(s->engine);
	bench_send_all(s->channel, &s->local, sizeof(s->local));
	bench_recv_all(s->channel, &s->remote, sizeof(s->remote));
	pmd_lock(s->engine);
	connect_qp(s);
	pmd_unlock(s->engine);
}

static void post_send(struct side *s, uint32_t opcode, uint32_t size)
{
	struct nic_sge sge = {(uint64_t)(uintptr_t)s->buf, size, nic_mr_lkey(s->mr)};
	struct nic_send_wr wr = {.sg_list = &sge, .num_sge = 1, .opcode = opcode, .flags = NIC_SEND_SIGNALED};

	wr.rdma.remote_addr = s->remote.addr + BUF_MAX;
	wr.rdma.rkey = s->remote.rkey;
	if (opcode == NIC_WR_RDMA_READ) {
		sge.addr += BUF_MAX;
		wr.rdma.remote_addr = s->remote.addr;
	}
	pmd_lock(s->engine);
	check(nic_post_send(s->qp, &wr), "post_send");
	pmd_doorbell(s->engine);
	pmd_unlock(s->engine);
}

static void post_recv(struct side *s)
{
	struct nic_sge sge = {(uint64_t)(uintptr_t)s->buf + BUF_MAX, s->opt->size, nic_mr_lkey(s->mr)};
	struct nic_recv_wr wr = {.sg_list = &sge, .num_sge = 1};

	pmd_lock(s->engine);
	check(nic_post_recv(s->qp, &wr), "post_recv");
	pmd_unlock(s->engine);
}

/** Poll a CQ as a front-end does: take completions; if there are none, make progress and try again. */
static int poll_cq(struct side *s, struct nic_cq *cq, int n)
{
	struct nic_wc wc[16];
	int got;

	pmd_lock(s->engine);
	got = nic_cq_poll(cq, n, wc);
	if (got == 0) {
		pmd_progress(s->engine, 1);
		got = nic_cq_poll(cq, n, wc);
	}
	pmd_unlock(s->engine);
	for (int i = 0; i < got; i++) {
		if (wc[i].status != NIC_WC_SUCCESS) {
			fprintf(stderr, "completion status %u (%s)\n", wc[i].status,
				nic_vendor_err_str(wc[i].vendor_err));
			exit(1);
		}
	}
	return got;
}

static void wait_cq(struct side *s, struct nic_cq *cq, bool sleep)
{
	uint64_t count;

	while (poll_cq(s, cq, 1) == 0) {
		if (!sleep)
			continue;
		pmd_lock(s->engine);
		nic_cq_arm(cq, false);
		pmd_expect_sleep(s->engine);
		pmd_unlock(s->engine);
		if (poll_cq(s, cq, 1) > 0)
			return;
		if (read(s->event_fd, &count, sizeof(count)) != sizeof(count))
			bench_die("eventfd");
	}
}

static void fill(uint8_t *p, uint32_t size, size_t i)
{
	memset(p, (int)(i & 0xff), size);
}

static void verify(const uint8_t *p, uint32_t size, size_t i)
{
	if (p[0] == (uint8_t)i && p[size / 2] == (uint8_t)i && p[size - 1] == (uint8_t)i)
		return;
	fprintf(stderr, "iteration %zu: wrong data\n", i);
	exit(1);
}

static void send_pingpong(struct side *s, bool sleep)
{
	size_t n = s->opt->iterations;
	uint64_t *ns = calloc(n, sizeof(*ns));

	post_recv(s);
	bench_sync(s->channel);
	for (size_t i = 0; i < n; i++) {
		uint64_t start = bench_now_ns();

		for (int half = 0; half < 2; half++) {
			if (half == s->id) {
				fill(s->buf, s->opt->size, i);
				post_send(s, NIC_WR_SEND, s->opt->size);
				wait_cq(s, s->scq, sleep);
			} else {
				wait_cq(s, s->rcq, sleep);
				verify(s->buf + BUF_MAX, s->opt->size, i);
				post_recv(s);
			}
		}
		ns[i] = bench_now_ns() - start;
	}
	if (s->id == 0)
		bench_print_latency(sleep ? "SEND round trip, events" : "SEND round trip, polling", ns, n);
	free(ns);
}

static void write_pingpong(struct side *s)
{
	size_t n = s->opt->iterations;
	uint64_t *ns = calloc(n, sizeof(*ns));
	volatile uint8_t *last = s->buf + BUF_MAX + s->opt->size - 1;

	bench_sync(s->channel);
	for (size_t i = 0; i < n; i++) {
		uint64_t start = bench_now_ns();

		for (int half = 0; half < 2; half++) {
			if (half == s->id) {
				fill(s->buf, s->opt->size, i + 1);
				post_send(s, NIC_WR_RDMA_WRITE, s->opt->size);
				wait_cq(s, s->scq, false);
			} else {
				while (*last != (uint8_t)(i + 1))
					;
			}
		}
		ns[i] = bench_now_ns() - start;
	}
	if (s->id == 0)
		bench_print_latency("WRITE round trip, memory", ns, n);
	free(ns);
}

static void bandwidth(struct side *s, uint32_t opcode)
{
	uint64_t n = BW_BYTES / s->opt->size, posted = 0, done = 0, start;
	char name[64], c;

	if (n > 200000)
		n = 200000;
	fill(s->buf, s->opt->size, 7);
	if (s->id == 1 && opcode == NIC_WR_SEND)
		for (; posted < DEPTH; posted++)
			post_recv(s);
	bench_sync(s->channel);
	start = bench_now_ns();
	if (s->id == 0) {
		while (done < n) {
			while (posted < n && posted - done < DEPTH / 2) {
				post_send(s, opcode, s->opt->size);
				posted++;
			}
			done += (uint64_t)poll_cq(s, s->scq, 16);
		}
	} else if (opcode == NIC_WR_SEND) {
		while (done < n) {
			int got = poll_cq(s, s->rcq, 16);

			done += (uint64_t)got;
			for (; got > 0; got--)
				post_recv(s);
		}
	}
	if (s->id == 0) {
		snprintf(name, sizeof(name), "%s, %u B",
			 opcode == NIC_WR_SEND	      ? "SEND"
			 : opcode == NIC_WR_RDMA_READ ? "READ"
						      : "WRITE",
			 s->opt->size);
		bench_print_rate(name, n * s->opt->size, n, bench_now_ns() - start);
		bench_send_all(s->channel, "e", 1);
	} else {
		bench_recv_all(s->channel, &c, 1);
	}
	if ((s->id == 0) == (opcode == NIC_WR_RDMA_READ))
		verify(s->buf + BUF_MAX, s->opt->size, 7);
}

static long resident_kib(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long kib = 0;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (f)
		fclose(f);
	return kib;
}

static int open_cost(void)
{
	struct pmd_device device;
	struct pmd_engine *engine;
	char err[256] = "";
	uint64_t start;
	long before;

	setenv("UROCE_DEVICES", "127.0.0.1", 0);
	before = resident_kib();
	start = bench_now_ns();
	if (pmd_devices(&device, 1) < 1 || pmd_open(&device, NULL, NULL, &engine, err, sizeof(err)) != 0) {
		fprintf(stderr, "%s\n", err);
		return 1;
	}
	printf("open: %.1f ms, %ld KiB resident more, %ld KiB in all\n", (double)(bench_now_ns() - start) / 1e6,
	       resident_kib() - before, resident_kib());
	pmd_close(engine);
	return 0;
}

static int run(int id, int channel, void *ctx)
{
	struct side s = {.id = id, .channel = channel, .opt = ctx};
	const char *test = s.opt->test;

	setup(&s);
	if (strcmp(test, "send") == 0 || strcmp(test, "event") == 0)
		send_pingpong(&s, test[0] == 'e');
	else if (strcmp(test, "write") == 0)
		write_pingpong(&s);
	else
		bandwidth(&s, strcmp(test, "bw") == 0	    ? NIC_WR_RDMA_WRITE
			      : strcmp(test, "sendbw") == 0 ? NIC_WR_SEND
							    : NIC_WR_RDMA_READ);
	bench_sync(channel);
	if (getenv("BENCH_STATS")) {
		struct pmd_port_stats stats;

		pmd_lock(s.engine);
		pmd_port_stats_get(s.engine, &stats);
		for (unsigned i = 0; i < NIC_CNT_COUNT; i++)
			if (nic_counters(s.nic)[i])
				printf("  %d %s %llu\n", id, nic_counter_name(i),
				       (unsigned long long)nic_counters(s.nic)[i]);
#define PMD_PORT_STAT(name, sentence)                                                                                  \
	if (stats.name)                                                                                                \
		printf("  %d port %s %llu\n", id, #name, (unsigned long long)stats.name);
#include "port_stats.def"
#undef PMD_PORT_STAT
		pmd_unlock(s.engine);
		fflush(stdout);
	}
	bench_sync(channel);
	pmd_close(s.engine);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const tests[] = {"send", "write", "event", "bw", "sendbw", "readbw", "open"};
	struct options opt = {.test = argc > 1 ? argv[1] : "", .size = 8, .iterations = 10000};
	bool known = false;

	for (unsigned i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		known |= strcmp(opt.test, tests[i]) == 0;
	if (argc > 2)
		opt.size = (uint32_t)strtoul(argv[2], NULL, 0);
	if (argc > 3)
		opt.iterations = strtoul(argv[3], NULL, 0);
	if (!known || argc > 4 || opt.size == 0 || opt.size > BUF_MAX || opt.iterations == 0) {
		fprintf(stderr, "usage: %s send|write|event|bw|sendbw|readbw|open [SIZE [ITERATIONS]]\n", argv[0]);
		return 2;
	}
	if (strcmp(opt.test, "open") == 0)
		return open_cost();
	return bench_pair(run, &opt);
}
