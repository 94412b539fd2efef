/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connects.c - connections between two processes, set up one after the other: through librdmacm (RC, each with a queue
 * pair), and through TCP on loopback for comparison.
 *
 * Usage: connects rdma ADDRESS COUNT [CPU CPU]    run by uroce-run
 *        connects tcp ADDRESS COUNT [CPU CPU]     ADDRESS: of the server, on this host
 *        connects memory ADDRESS COUNT            run by uroce-run; keeps all connections
 *
 * Prints for rdma and tcp the median and the 99th percentile, in microseconds, of the time from creating an id (a
 * socket) until the connection is established; for memory the growth of both processes in KiB for each connection.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <sys/resource.h>

#include "bench_util.h"

#define TIMEOUT_MS 5000
#define BACKLOG	   64
#define PORT	   7471

struct bench {
	struct bench_options opt; /* bytes is unused */
	struct sockaddr_in at;
};

static struct rdma_cm_id *id_create(void)
{
	struct rdma_cm_id *id;

	if (rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP) != 0)
		bench_die("rdma_create_id");
	return id;
}

static void qp_create(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = {.max_send_wr = 16, .max_recv_wr = 16, .max_send_sge = 1, .max_recv_sge = 1},
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = 1};

	if (rdma_create_qp(id, NULL, &attr) != 0)
		bench_die("rdma_create_qp");
}

static void id_end(struct rdma_cm_id *id)
{
	rdma_disconnect(id);
	rdma_destroy_qp(id);
	rdma_destroy_id(id);
}

static struct rdma_cm_id *id_connect(struct bench *b)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .retry_count = 7};
	struct rdma_cm_id *id = id_create();

	if (rdma_resolve_addr(id, NULL, (struct sockaddr *)&b->at, TIMEOUT_MS) != 0)
		bench_die("rdma_resolve_addr");
	if (rdma_resolve_route(id, TIMEOUT_MS) != 0)
		bench_die("rdma_resolve_route");
	qp_create(id);
	if (rdma_connect(id, &param) != 0)
		bench_die("rdma_connect");
	return id;
}

static struct rdma_cm_id *id_listen(struct bench *b)
{
	struct rdma_cm_id *id = id_create();

	if (rdma_bind_addr(id, (struct sockaddr *)&b->at) != 0 || rdma_listen(id, BACKLOG) != 0)
		bench_die("rdma_listen");
	return id;
}

static struct rdma_cm_id *id_accept(struct rdma_cm_id *listener)
{
	struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1};
	struct rdma_cm_id *id;

	if (rdma_get_request(listener, &id) != 0)
		bench_die("rdma_get_request");
	qp_create(id);
	if (rdma_accept(id, &param) != 0)
		bench_die("rdma_accept");
	return id;
}

static long resident_kib(void)
{
	FILE *f = fopen("/proc/self/statm", "re");
	long pages = 0;

	if (!f || fscanf(f, "%*d %ld", &pages) != 1)
		bench_die("/proc/self/statm");
	fclose(f);
	return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* ---- the two processes ---------------------------------------------------------------------------------------- */

static void rdma_serve(struct bench *b, int channel)
{
	struct rdma_cm_id *listener = id_listen(b);

	bench_sync(channel);
	for (uint64_t i = 0; i < b->opt.count; i++)
		id_end(id_accept(listener));
	rdma_destroy_id(listener);
}

static void rdma_connects(struct bench *b, uint64_t *ns)
{
	for (uint64_t i = 0; i < b->opt.count; i++) {
		uint64_t start = bench_now_ns();
		struct rdma_cm_id *id = id_connect(b);

		ns[i] = bench_now_ns() - start;
		id_end(id);
	}
}

static void tcp_serve(struct bench *b, int channel)
{
	int listener = socket(AF_INET, SOCK_STREAM, 0), on = 1;

	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (listener < 0 || bind(listener, (struct sockaddr *)&b->at, sizeof(b->at)) != 0 ||
	    listen(listener, BACKLOG) != 0)
		bench_die("listen");
	bench_sync(channel);
	for (uint64_t i = 0; i < b->opt.count; i++) {
		int fd = accept(listener, NULL, NULL);

		if (fd < 0)
			bench_die("accept");
		close(fd);
	}
	close(listener);
}

static void tcp_connects(struct bench *b, uint64_t *ns)
{
	for (uint64_t i = 0; i < b->opt.count; i++) {
		uint64_t start = bench_now_ns();
		int fd = socket(AF_INET, SOCK_STREAM, 0);
		char end;

		if (fd < 0 || connect(fd, (struct sockaddr *)&b->at, sizeof(b->at)) != 0)
			bench_die("connect");
		if (read(fd, &end, 1) != 0) /* the server has accepted, and closed */
			bench_die("read");
		ns[i] = bench_now_ns() - start;
		close(fd);
	}
}

/** Hold all connections at once. Prints the growth of both processes in KiB for each connection but the first. */
static void rdma_hold(struct bench *b, int side, int channel)
{
	struct rdma_cm_id **ids = calloc(b->opt.count, sizeof(struct rdma_cm_id *)), *listener = NULL;
	long grown = 0, others;

	if (!ids)
		bench_die("memory");
	if (side == 1)
		listener = id_listen(b);
	bench_sync(channel);
	for (uint64_t i = 0; i < b->opt.count; i++) {
		ids[i] = side == 1 ? id_accept(listener) : id_connect(b);
		if (i == 0)
			grown = -resident_kib();
	}
	grown += resident_kib();
	bench_send_all(channel, &grown, sizeof(grown));
	bench_recv_all(channel, &others, sizeof(others));
	if (side == 0)
		printf("%.2f\n", (double)(grown + others) / (double)(b->opt.count - 1));
	for (uint64_t i = 0; i < b->opt.count; i++)
		id_end(ids[i]);
	if (listener)
		rdma_destroy_id(listener);
	free(ids);
}

static void in_turn(struct bench *b, int side, int channel)
{
	bool tcp = strcmp(b->opt.test, "tcp") == 0;
	uint64_t *ns = calloc(b->opt.count, sizeof(*ns));

	if (!ns)
		bench_die("memory");
	if (side == 1) {
		(tcp ? tcp_serve : rdma_serve)(b, channel);
	} else {
		bench_sync(channel);
		(tcp ? tcp_connects : rdma_connects)(b, ns);
		bench_print_trips(ns, b->opt.count, 1);
	}
	free(ns);
}

static int run(int side, int channel, void *ctx)
{
	struct bench *b = ctx;

	bench_place(&b->opt, side);
	(strcmp(b->opt.test, "memory") == 0 ? rdma_hold : in_turn)(b, side, channel);
	return 0;
}

int main(int argc, char **argv)
{
	struct bench b = {.at = {.sin_family = AF_INET, .sin_port = htons(PORT)}};
	struct rlimit files;

	b.opt.test = argc > 1 ? argv[1] : "";
	b.opt.placed = argc == 6;
	for (int side = 0; b.opt.placed && side < 2; side++)
		b.opt.cpu[side] = atoi(argv[4 + side]);
	if ((argc != 4 && argc != 6) || inet_pton(AF_INET, argv[2], &b.at.sin_addr) != 1 ||
	    (b.opt.count = strtoul(argv[3], NULL, 0)) < 2 ||
	    (strcmp(b.opt.test, "rdma") && strcmp(b.opt.test, "tcp") && strcmp(b.opt.test, "memory"))) {
		fprintf(stderr, "usage: %s rdma|tcp|memory ADDRESS COUNT [CPU CPU], COUNT at least 2\n", argv[0]);
		return 2;
	}
	/* librdmacm opens three descriptors for each of these connections: an event channel, two completion channels.
	 */
	if (getrlimit(RLIMIT_NOFILE, &files) != 0)
		bench_die("getrlimit");
	files.rlim_cur = files.rlim_max;
	if (setrlimit(RLIMIT_NOFILE, &files) != 0)
		bench_die("setrlimit");
	return bench_pair(run, &b);
}
