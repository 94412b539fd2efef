/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fabric_peer.c - benchmarks any libfabric provider, so that scripts/bench can compare providers: SENDs, WRITEs and
 * fetching atomics between two processes over reliable datagram endpoints. It is used instead of fabtests: Debian does
 * not package fabtests, which print only averages, and averages mean little for two programs that spin on two CPUs.
 *
 * Usage: fabric_peer PROVIDER TEST [BYTES [COUNT [CPU CPU]]]
 * TEST:  rtt                  SENDs; median and 99th percentile round trip, microseconds; uses fi_inject if possible,
 *                             like the ping-pongs of fabtests
 *        bw                   WRITEs, with a window of them in flight, after a first run that is not counted; MB/s
 *                             (10^6 bytes)
 *        read_bw, tagged_bw   like bw, but READs or tagged SENDs
 *        sum_rate             atomic SUMs of BYTES / 8 64-bit integers, with a window of them in flight; million
 *                             integers per second
 *        fadd, cswap          8-byte atomics, one at a time; median and 99th percentile, microseconds
 *        fadd_asleep          like fadd, while the target sleeps in fi_cq_sread
 *        fadd_rate, cswap_rate  8-byte atomics with a window of them in flight; million per second
 *        trigger_rtt          like rtt, but side 0's SENDs are deferred work, started by fi_cntr_add
 *        deferred_rtt         tagged SENDs as deferred work, each started by the arrival of the previous message: the
 *                             programs only start a chain of 256 round trips, and sleep until it has ended
 * PROVIDER is for example shm or "tcp;ofi_rxm".
 */
#include "fabric_peer.h"

#define BYTES_MAX (64u << 20)
struct bench {
	struct bench_options opt;
	const char *provider;
};

static struct fi_info *provider_find(const char *provider)
{
	struct fi_info *hints = fi_allocinfo(), *info = NULL;
	bool tcp = strncmp(provider, "tcp", 3) == 0 || strcmp(provider, "sockets") == 0;

	if (!hints)
		bench_die("memory");
	hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
	hints->mode = FI_CONTEXT | FI_CONTEXT2;
	hints->ep_attr->type = FI_EP_RDM;
	hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
	hints->domain_attr->threading = FI_THREAD_DOMAIN;
	hints->tx_attr->msg_order = hints->rx_attr->msg_order = FI_ORDER_SAS;
	hints->fabric_attr->prov_name = strdup(provider);
	/* TCP providers must use the loopback address, not that of an interface, so that all providers stay within the
	 * host. */
	check(fi_getinfo(FI_VERSION(1, 11), tcp ? "127.0.0.1" : NULL, NULL, tcp ? FI_SOURCE : 0, hints, &info),
	      provider);
	fi_freeinfo(hints);
	return info;
}

/** Whether this side sleeps until the test is over: side 1 in test fadd_asleep. */
static bool sleeps(const struct side *s)
{
	return s->id == 1 && strcmp(s->opt->test, "fadd_asleep") == 0;
}

static void side_open(struct side *s, const char *provider)
{
	struct fi_av_attr av = {.type = FI_AV_TABLE, .count = 1};
	struct fi_cq_attr cq = {.format = FI_CQ_FORMAT_CONTEXT,
				.wait_obj = sleeps(s) ? FI_WAIT_UNSPEC : FI_WAIT_NONE,
				.size = 4 * WINDOW};
	size_t len = 2 * s->opt->bytes + deferred_bytes(s);

	s->info = provider_find(provider);
	check(fi_fabric(s->info->fabric_attr, &s->fabric, NULL), "fi_fabric");
	check(fi_domain(s->fabric, s->info, &s->domain, NULL), "fi_domain");
	check(fi_av_open(s->domain, &av, &s->av, NULL), "fi_av_open");
	check(fi_cq_open(s->domain, &cq, &s->tx, NULL), "fi_cq_open");
	check(fi_cq_open(s->domain, &cq, &s->rx, NULL), "fi_cq_open");
	check(fi_endpoint(s->domain, s->info, &s->ep, NULL), "fi_endpoint");
	check(fi_ep_bind(s->ep, &s->av->fid, 0), "fi_ep_bind");
	check(fi_ep_bind(s->ep, &s->tx->fid, FI_TRANSMIT), "fi_ep_bind");
	check(fi_ep_bind(s->ep, &s->rx->fid, FI_RECV), "fi_ep_bind");
	check(fi_enable(s->ep), "fi_enable");
	if (deferred_is(s->opt->test))
		deferred_open(s);
	s->buf = aligned_alloc(4096, (len + 4095) & ~(size_t)4095);
	if (!s->buf)
		bench_die("memory");
	memset(s->buf, 0, len);
	check(fi_mr_reg(s->domain, s->buf, len,
			FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &s->mr,
			NULL),
	      "fi_mr_reg");
}

static void side_connect(struct side *s, int channel)
{
	struct introduction local = {.key = fi_mr_key(s->mr)};
	size_t len = sizeof(local.address);

	if (s->info->domain_attr->mr_mode & FI_MR_VIRT_ADDR)
		local.base = (uint64_t)(uintptr_t)s->buf;
	check(fi_getname(&s->ep->fid, local.address, &len), "fi_getname");
	bench_send_all(channel, &local, sizeof(local));
	bench_recv_all(channel, &s->remote, sizeof(s->remote));
	if (fi_av_insert(s->av, s->remote.address, 1, &s->peer, 0, NULL) != 1)
		check(-FI_EINVAL, "fi_av_insert");
}

static void side_close(struct side *s)
{
	fi_close(&s->ep->fid);
	deferred_close(s);
	fi_close(&s->mr->fid);
	fi_close(&s->rx->fid);
	fi_close(&s->tx->fid);
	fi_close(&s->av->fid);
	fi_close(&s->domain->fid);
	fi_close(&s->fabric->fid);
	fi_freeinfo(s->info);
	free(s->buf);
}

static uint64_t completions(struct fid_cq *cq)
{
	struct fi_cq_entry entries[16];
	struct fi_cq_err_entry error = {0};
	ssize_t n = fi_cq_read(cq, entries, 16);

	if (n == -FI_EAVAIL) {
		fi_cq_readerr(cq, &error, 0);
		check(-error.err, "completion");
	}
	if (n != -FI_EAGAIN)
		check(n, "fi_cq_read");
	return n > 0 ? (uint64_t)n : 0;
}

/** Poll a completion queue once, which also drives the provider's progress. */
static void look(struct side *s, struct fid_cq *cq, uint64_t *counter, unsigned *empty)
{
	uint64_t n = completions(cq);

	*counter += n;
	if (n == 0)
		bench_wait(empty, s->one_cpu);
}

static void await_sent(struct side *s, uint64_t count)
{
	unsigned empty = 0;

	while (s->sent < count)
		look(s, s->tx, &s->sent, &empty);
}

void fabric_await_received(struct side *s, uint64_t count)
{
	unsigned empty = 0;

	while (s->received < count)
		look(s, s->rx, &s->received, &empty);
}

void fabric_receive(struct side *s)
{
	check(fi_recv(s->ep, s->buf + s->opt->bytes, s->opt->bytes, fi_mr_desc(s->mr), FI_ADDR_UNSPEC, &s->context[0]),
	      "fi_recv");
}

/** The operation of a test. Determined from the test's name before the time measurement starts. */
enum kind { RTT, BW, READ_BW, TAGGED_BW, SUM, FADD, CSWAP };

static enum kind kind_of(const char *test)
{
	return strcmp(test, "rtt") == 0		? RTT
	       : strcmp(test, "bw") == 0	? BW
	       : strcmp(test, "read_bw") == 0	? READ_BW
	       : strcmp(test, "tagged_bw") == 0 ? TAGGED_BW
	       : strcmp(test, "sum_rate") == 0	? SUM
	       : test[0] == 'f'			? FADD
						: CSWAP;
}

/** Post one operation of the test. `number` is the operation's running number: it selects the context, so no two
 * operations in flight share a context. */
static ssize_t operation(struct side *s, enum kind kind, uint64_t number)
{
	void *desc = fi_mr_desc(s->mr), *context = &s->context[1 + number % WINDOW];
	uint64_t target = s->remote.base + s->opt->bytes, key = s->remote.key;

	if (kind == RTT && s->opt->bytes <= s->info->tx_attr->inject_size) {
		ssize_t rc = fi_inject(s->ep, s->buf, s->opt->bytes, s->peer);

		s->sent += rc == 0; /* count it now: fi_inject generates no completion */
		return rc;
	}
	if (kind == RTT)
		return fi_send(s->ep, s->buf, s->opt->bytes, desc, s->peer, context);
	if (kind == BW)
		return fi_write(s->ep, s->buf, s->opt->bytes, desc, s->peer, target, key, context);
	if (kind == READ_BW)
		return fi_read(s->ep, s->buf, s->opt->bytes, desc, s->peer, target, key, context);
	if (kind == TAGGED_BW)
		return fi_tsend(s->ep, s->buf, s->opt->bytes, desc, s->peer, 1, context);
	if (kind == SUM)
		return fi_atomic(s->ep, s->buf, s->opt->bytes / 8, desc, s->peer, target, key, FI_UINT64, FI_SUM,
				 context);
	/* Operand and compare value are zero, so the target stays zero, and every CSWAP succeeds. */
	if (kind == FADD)
		return fi_fetch_atomic(s->ep, s->buf, 1, desc, s->buf + 8, desc, s->peer, target, key, FI_UINT64,
				       FI_SUM, context);
	return fi_compare_atomic(s->ep, s->buf, 1, desc, s->buf + 16, desc, s->buf + 8, desc, s->peer, target, key,
				 FI_UINT64, FI_CSWAP, context);
}

static void post(struct side *s, enum kind kind, uint64_t number)
{
	unsigned empty = 0;
	ssize_t rc;

	while ((rc = operation(s, kind, number)) == -FI_EAGAIN)
		look(s, s->tx, &s->sent, &empty);
	check(rc, s->opt->test);
}

void fabric_send(struct side *s, uint64_t number)
{
	post(s, RTT, number);
	await_sent(s, number + 1);
}

static void send_pingpong(struct side *s)
{
	uint64_t *ns = calloc(s->opt->count, sizeof(*ns));

	if (!ns)
		bench_die("memory");
	for (uint64_t i = 0; i < s->opt->count; i++) {
		uint64_t start = bench_now_ns();

		for (int half = 0; half < 2; half++) {
			if (half == s->id) {
				fabric_send(s, i);
			} else {
				fabric_await_received(s, i + 1);
				fabric_receive(s);
			}
		}
		ns[i] = bench_now_ns() - start;
	}
	if (s->id == 0)
		bench_print_trips(ns, s->opt->count, 1);
	free(ns);
}

static void post_tagged_recv(struct side *s, uint64_t number)
{
	unsigned empty = 0;
	ssize_t rc;

	while ((rc = fi_trecv(s->ep, s->buf + s->opt->bytes, s->opt->bytes, fi_mr_desc(s->mr), FI_ADDR_UNSPEC, 1, 0,
			      &s->context[WINDOW + number % WINDOW])) == -FI_EAGAIN)
		look(s, s->rx, &s->received, &empty);
	check(rc, "fi_trecv");
}

/** The part of side 1, the target: post receives if the test needs them, and wait for the message that ends the
 *  test. */
static void serve(struct side *s)
{
	uint64_t messages = strcmp(s->opt->test, "tagged_bw") == 0 ? 2 * s->opt->count : 0;

	for (uint64_t i = 0; i < messages; i++) {
		if (i >= WINDOW)
			fabric_await_received(s, i - WINDOW + 1);
		post_tagged_recv(s, i);
	}
	if (sleeps(s)) {
		struct fi_cq_entry entry;
		ssize_t n;

		while ((n = fi_cq_sread(s->rx, &entry, 1, NULL, -1)) == -FI_EAGAIN || n == -FI_EINTR)
			;
		check(n, "fi_cq_sread");
		return;
	}
	fabric_await_received(s, messages + 1);
}

static void operations_one_by_one(struct side *s)
{
	enum kind kind = kind_of(s->opt->test);
	uint64_t *ns = calloc(s->opt->count, sizeof(*ns));

	if (!ns)
		bench_die("memory");
	for (uint64_t i = 0; i < s->opt->count; i++) {
		uint64_t start = bench_now_ns();

		post(s, kind, i);
		await_sent(s, i + 1);
		ns[i] = bench_now_ns() - start;
	}
	bench_print_trips(ns, s->opt->count, 1);
	free(ns);
}

/** Run all operations of the test, with a window of them in flight. `number`: the number of the first operation.
 *  @return how long they took, ns. */
static uint64_t in_flight_ns(struct side *s, uint64_t number)
{
	enum kind kind = kind_of(s->opt->test);
	uint64_t start = bench_now_ns(), end = number + s->opt->count;

	for (uint64_t i = number; i < end; i++) {
		if (i >= number + WINDOW)
			await_sent(s, i - WINDOW + 1);
		post(s, kind, i);
	}
	await_sent(s, end);
	return bench_now_ns() - start;
}

/* Measure the rate of operations. The first run is not counted, because it includes connecting the two sides. */
static void operations_in_flight(struct side *s)
{
	bool bytes = strstr(s->opt->test, "bw") != NULL, elements = strcmp(s->opt->test, "sum_rate") == 0;
	double each = bytes ? (double)s->opt->bytes : elements ? (double)(s->opt->bytes / 8) : 1;

	in_flight_ns(s, 0);
	printf("%.3f\n", (double)s->opt->count * each * 1e3 / (double)in_flight_ns(s, s->opt->count));
}

static int run(int id, int channel, void *ctx)
{
	const struct bench *b = ctx;
	struct side s = {.id = id,
			 .channel = channel,
			 .opt = &b->opt,
			 .one_cpu = b->opt.placed && b->opt.cpu[0] == b->opt.cpu[1]};
	const char *test = b->opt.test;
	uint64_t done;

	bench_place(&b->opt, id);
	side_open(&s, b->provider);
	side_connect(&s, channel);
	fabric_receive(&s);
	bench_sync(channel);
	if (strcmp(test, "rtt") == 0) {
		send_pingpong(&s);
	} else if (deferred_is(test)) {
		deferred_run(&s);
	} else if (id == 1) {
		serve(&s);
	} else {
		if (strcmp(test, "fadd") == 0 || strcmp(test, "fadd_asleep") == 0 || strcmp(test, "cswap") == 0)
			operations_one_by_one(&s);
		else
			operations_in_flight(&s);
		done = s.sent;
		post(&s, RTT, 0);
		await_sent(&s, done + 1);
	}
	bench_sync(channel);
	side_close(&s);
	return 0;
}

int main(int argc, char **argv)
{
	static const char *const tests[] = {"rtt",	   "bw",	   "read_bw",	"tagged_bw",  "fadd",
					    "fadd_asleep", "cswap",	   "fadd_rate", "cswap_rate", "sum_rate",
					    "trigger_rtt", "deferred_rtt", NULL};
	struct bench b = {.opt = {.bytes = 8, .count = 20000}, .provider = argc > 1 ? argv[1] : ""};

	if (argc < 2) {
		fprintf(stderr, "usage: %s PROVIDER TEST ...\n", argv[0]);
		return 2;
	}
	bench_options_parse(argc - 1, argv + 1, tests, BYTES_MAX, &b.opt);
	if (b.opt.bytes < 24 && (strncmp(b.opt.test, "fadd", 4) == 0 || strncmp(b.opt.test, "cswap", 5) == 0))
		b.opt.bytes = 24; /* room for operand, result and compare value, eight bytes each */
	return bench_pair(run, &b);
}
