/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * udp_port.c - the kernel UDP port alone: bursts of frames between two processes through the port interface, without
 * the NIC. The difference from udp_raw is the cost of the port; the difference from a verbs benchmark is the cost of
 * the NIC.
 *
 * Usage: udp_port rtt [BYTES [ITERATIONS [SILENT]]]   round trip of UDP payloads, median and 99th percentile,
 *                                            microseconds; the port has SILENT more addresses without traffic
 *        udp_port bw [KIB [MIB]]             one way, MB/s of payload; messages of KIB KiB (default 256), in packets
 *                                            with 4 KiB of payload; like the engine, hands over at most 64 packets at
 *                                            once
 */
#include "bench_util.h"
#include "devices.h"
#include "eal.h"
#include "pool.h"
#include "port.h"
#include "udp_socket.h"

#define HEADERS	   28 /* IPv4 and UDP */
#define BW_PAYLOAD 4096
#define BW_BYTES   (BW_PAYLOAD + 12 + 4) /* BTH, payload and ICRC */
#define BW_WINDOW  256			 /* packets in flight: a megabyte */
#define BW_CREDIT  64

struct options {
	bool bandwidth;
	uint32_t bytes;
	uint64_t count;	  /* round trips, or packets */
	uint64_t message; /* packets of a message; they are sent together */
	unsigned silent;
};

struct side {
	struct pmd_port *port;
	struct nic_tx_frame tx[PMD_TX_BURST];
	struct nic_rx_frame rx[PMD_RX_BURST];
	bool timed; /* the port has several sockets, and needs the current time */
};

/** Add n addresses without traffic to the port. */
static void side_add_silent(struct side *s, int id, unsigned n)
{
	char err[512], text[32];
	struct nic_gid gid;

	for (unsigned i = 1; i <= n; i++) {
		int fd;

		snprintf(text, sizeof(text), "127.0.%u.%u", i, id + 1);
		if (!pmd_gid_parse(text, &gid))
			bench_die("address");
		fd = pmd_udp_socket_open(&gid, 0, false, err, sizeof(err));
		if (fd < 0 || pmd_port_udp_add(s->port, i, &gid, 0, fd) != 0) {
			fprintf(stderr, "udp_port: %s\n", err);
			exit(1);
		}
	}
}

static void side_open(struct side *s, int id)
{
	struct pmd_device devices[2];
	char err[512];
	struct pmd_pool *pool;

	if (pmd_devices_parse("127.0.0.1 127.0.0.2", devices, 2, err, sizeof(err)) != 2 ||
	    pmd_eal_start(err, sizeof(err)) != 0) {
		fprintf(stderr, "udp_port: %s\n", err);
		exit(1);
	}
	pool = pmd_pool_open(1023);
	if (!pool || !pmd_pool_take(pool, s->tx, PMD_TX_BURST))
		bench_die("pool");
	if (pmd_port_udp_open(&devices[id], NIC_MTU_4096, pool, &s->port, err, sizeof(err)) != 0) {
		fprintf(stderr, "udp_port: %s\n", err);
		exit(1);
	}
	for (unsigned i = 0; i < PMD_TX_BURST; i++) {
		struct nic_tx_frame *f = &s->tx[i];

		f->bth = HEADERS;
		f->hop_limit = 64;
		f->sgid = devices[id].gid;
		f->dgid = devices[!id].gid;
		memset(f->data, 0, NIC_FRAME_MAX);
	}
}

static void transmit(struct side *s, unsigned n, uint32_t bytes)
{
	for (unsigned i = 0; i < n; i++)
		s->tx[i].len = HEADERS + bytes;
	for (unsigned sent = 0; sent < n;)
		sent += s->port->ops->tx_burst(s->port, s->tx + sent, n - sent, 0);
}

static unsigned receive(struct side *s)
{
	unsigned n = s->port->ops->rx_burst(s->port, s->rx, PMD_RX_BURST, s->timed ? bench_now_ns() : 0);

	for (unsigned i = 0; i < n; i++)
		s->port->ops->rx_accepted(s->port, &s->rx[i]);
	return n;
}

static void await(struct side *s)
{
	while (receive(s) == 0)
		;
}

static void pingpong(struct side *s, int id, const struct options *opt)
{
	uint64_t *ns = calloc(opt->count, sizeof(*ns));

	if (!ns)
		bench_die("calloc");
	for (uint64_t i = 0; i < opt->count; i++) {
		uint64_t start = bench_now_ns();

		if (id == 1)
			await(s);
		transmit(s, 1, opt->bytes);
		if (id == 0)
			await(s);
		ns[i] = bench_now_ns() - start;
	}
	if (id == 0)
		bench_print_trips(ns, opt->count, 1);
	free(ns);
}

/** @return the number of packets in the next burst. */
static unsigned burst(const struct options *opt, uint64_t sent)
{
	uint64_t n = opt->message - sent % opt->message;

	n = n < opt->count - sent ? n : opt->count - sent;
	return n < PMD_TX_BURST ? (unsigned)n : PMD_TX_BURST;
}

static void stream(struct side *s, int id, const struct options *opt)
{
	uint64_t start = bench_now_ns(), sent = 0, seen = 0;

	if (id == 0) {
		while (sent < opt->count) {
			unsigned n = burst(opt, sent);

			transmit(s, n, BW_BYTES);
			sent += n;
			for (seen += (uint64_t)receive(s) * BW_CREDIT; sent - seen > BW_WINDOW;)
				seen += (uint64_t)receive(s) * BW_CREDIT;
		}
		while (seen < opt->count)
			seen += (uint64_t)receive(s) * BW_CREDIT;
		printf("%.1f\n", (double)opt->count * BW_PAYLOAD * 1e3 / (double)(bench_now_ns() - start));
		return;
	}
	for (uint64_t got = 0, told = 0; told < opt->count;) {
		got += receive(s);
		for (; told + BW_CREDIT <= got; told += BW_CREDIT)
			transmit(s, 1, 16);
	}
}

static int run(int id, int channel, void *ctx)
{
	const struct options *opt = ctx;
	struct side s;

	side_open(&s, id);
	s.timed = opt->silent > 0;
	side_add_silent(&s, id, opt->silent);
	bench_sync(channel);
	if (opt->bandwidth) {
		/* Exchange a packet first: a port sends several packets with one system call only to a peer that it
		 * knows to be a uroce port. */
		transmit(&s, 1, 16);
		await(&s);
		stream(&s, id, opt);
	} else {
		pingpong(&s, id, opt);
	}
	bench_sync(channel);
	s.port->ops->close(s.port);
	return 0;
}

int main(int argc, char **argv)
{
	struct options opt = {.bytes = 24, .count = 20000};
	uint64_t mib = 1024, kib = 256;

	opt.bandwidth = argc > 1 && strcmp(argv[1], "bw") == 0;
	if (opt.bandwidth && argc > 2)
		kib = strtoul(argv[2], NULL, 0);
	else if (argc > 2)
		opt.bytes = (uint32_t)strtoul(argv[2], NULL, 0);
	if (opt.bandwidth && argc > 3)
		mib = strtoul(argv[3], NULL, 0);
	else if (argc > 3)
		opt.count = strtoul(argv[3], NULL, 0);
	if (!opt.bandwidth && argc > 4)
		opt.silent = (unsigned)strtoul(argv[4], NULL, 0);
	opt.message = (kib << 10) / BW_PAYLOAD;
	if (opt.bandwidth)
		opt.count = (mib << 20) / BW_PAYLOAD / BW_CREDIT * BW_CREDIT;
	if (argc < 2 || argc > (opt.bandwidth ? 4 : 5) || (!opt.bandwidth && strcmp(argv[1], "rtt") != 0) ||
	    opt.count == 0 || opt.message == 0 || opt.silent >= NIC_GID_TABLE_LEN || opt.bytes < 16 ||
	    opt.bytes > NIC_FRAME_MAX - HEADERS) {
		fprintf(stderr, "usage: %s rtt [BYTES [ITERATIONS [SILENT]]] | bw [KIB [MIB]]\n", argv[0]);
		return 2;
	}
	return bench_pair(run, &opt);
}
