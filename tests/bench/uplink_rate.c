/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * uplink_rate.c - the switch of an uplink alone: packets between a DPDK port that costs little and one function's
 * rings, without NICs. DPDK's testpmd on the same port is the limit: what the port itself takes.
 *
 * The port is net_pcap with a file in memory: its driver repeats the file's packets for ever, or drops what is sent.
 *
 * Usage: uplink_rate rx [BYTES [COUNT]]   from the port to the function, million packets a second
 *        uplink_rate tx [BYTES [COUNT]]   from the function to the port
 *        uplink_rate file BYTES PATH      write the port's file
 * BYTES: of the IP packet.
 */
#include <arpa/inet.h>
#include <dlfcn.h>

#include "address.h"
#include "bench_util.h"
#include "ring_pair.h"
#include "uplink.h"

#define PACKETS	  256 /* of the file; the first is an ARP request: from it the switch learns its neighbour's MAC */
#define ETHERNET  14
#define OWN	  "10.0.0.1"
#define PEER	  "10.0.0.2"
#define BYTES	  64
#define BYTES_MAX 1500

/* ---- the packets ---------------------------------------------------------------------------------------------- */

static void put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

/** A WRITE packet between the two addresses for function 1. The switch does not look beyond its BTH. */
static void packet_fill(uint8_t *ip, unsigned len, const char *from, const char *to)
{
	memset(ip, 0, len);
	ip[0] = 0x45;
	put16(ip + 2, len);
	ip[6] = 0x40;
	ip[8] = 64;
	ip[9] = 17;
	inet_pton(AF_INET, from, ip + 12);
	inet_pton(AF_INET, to, ip + 16);
	put16(ip + 20, 49152);
	put16(ip + 22, NIC_UDP_PORT);
	put16(ip + 24, len - 20);
	ip[28] = 0x0a; /* RC RDMA WRITE ONLY */
	ip[33] = 1;    /* destination QPN: function 1 */
}

static void ethernet_fill(uint8_t *frame, unsigned type)
{
	memset(frame, 0xff, 6); /* to all, so that the port's MAC need not be known */
	memcpy(frame + 6, "\x02\x00\x00\x00\x00\x02", 6);
	put16(frame + 12, type);
}

static void arp_fill(uint8_t *frame)
{
	static const uint8_t request[] = {0, 1, 8, 0, 6, 4, 0, 1};

	memset(frame, 0, 60);
	ethernet_fill(frame, 0x0806);
	memcpy(frame + ETHERNET, request, sizeof(request));
	memcpy(frame + ETHERNET + 8, frame + 6, 6);
	inet_pton(AF_INET, PEER, frame + ETHERNET + 14);
	inet_pton(AF_INET, OWN, frame + ETHERNET + 24);
}

static void file_write(const char *path, unsigned bytes)
{
	const uint32_t header[] = {0xa1b2c3d4, 2 | 4 << 16, 0, 0, 65535, 1};
	uint8_t frame[ETHERNET + BYTES_MAX];
	FILE *f = fopen(path, "w");

	if (!f || fwrite(header, sizeof(header), 1, f) != 1)
		bench_die(path);
	for (unsigned i = 0; i < PACKETS; i++) {
		uint32_t len = i == 0 ? 60 : ETHERNET + bytes;
		const uint32_t record[] = {0, 0, len, len};

		if (i == 0) {
			arp_fill(frame);
		} else {
			ethernet_fill(frame, 0x0800);
			packet_fill(frame + ETHERNET, bytes, PEER, OWN);
		}
		if (fwrite(record, sizeof(record), 1, f) != 1 || fwrite(frame, len, 1, f) != 1)
			bench_die(path);
	}
	if (fclose(f) != 0)
		bench_die(path);
}

/* ---- the switch ----------------------------------------------------------------------------------------------- */

static const struct uplink_ops *module_load(const char *self)
{
	char path[4096];
	const struct uplink_ops *ops;
	void *module;

	snprintf(path, sizeof(path), "%.*s/../../pmd/uroce-uplink.so", (int)(strrchr(self, '/') - self), self);
	module = dlopen(path, RTLD_NOW);
	ops = module ? dlsym(module, UPLINK_SYMBOL) : NULL;
	if (!ops) {
		fprintf(stderr, "uplink_rate: %s\n", dlerror());
		exit(1);
	}
	return ops;
}

static void receive(struct ring_pair *rings, uint64_t count)
{
	const uint8_t *packet;
	unsigned empty = 0;
	uint32_t kind;
	int len;

	for (uint64_t got = 0; got < count; got++) {
		while ((len = ring_peek(&rings->in, &packet, &kind)) == 0)
			bench_wait(&empty, false);
		if (len < 0)
			bench_die("ring");
		ring_pop(&rings->in, (uint32_t)len);
		if (got % 32 == 0)
			ring_say_head(&rings->in);
	}
	ring_say_head(&rings->in);
}

static void transmit(struct ring_pair *rings, uint64_t count, unsigned bytes)
{
	uint8_t packet[BYTES_MAX];
	unsigned empty = 0;

	packet_fill(packet, bytes, OWN, PEER);
	for (uint64_t sent = 0; sent < count; sent++) {
		while (ring_pair_send(rings, packet, bytes) != 1)
			bench_wait(&empty, false);
		if (sent % 32 == 31 || sent + 1 == count)
			ring_pair_wake(rings);
	}
	while (!ring_is_empty(&rings->out))
		bench_wait(&empty, false);
}

static double measure(const struct uplink_ops *ops, struct uplink *u, const struct bench_options *opt)
{
	bool rx = strcmp(opt->test, "rx") == 0;
	struct ring_pair rings;
	int fds[RING_PAIR_FDS];
	uint64_t since_ns;

	if (ops->attach(u, 1, fds) != 0 || ring_pair_map(&rings, fds) != 0)
		bench_die("rings");
	for (int round = 0;; round++) { /* the first one warms up */
		since_ns = bench_now_ns();
		if (rx)
			receive(&rings, opt->count);
		else
			transmit(&rings, opt->count, (unsigned)opt->bytes);
		if (round == 1)
			break;
	}
	since_ns = bench_now_ns() - since_ns;
	ops->detach(u, 1);
	ring_pair_close(&rings);
	return (double)opt->count * 1e3 / (double)since_ns;
}

int main(int argc, char **argv)
{
	static const char *const tests[] = {"rx", "tx", NULL};
	struct bench_options opt = {.bytes = BYTES, .count = 4000000};
	char path[] = "/tmp/uplink_rateXXXXXX", args[128], err[512] = "";
	struct uplink_config config = {.args = args, .netdev = ""};
	const struct uplink_ops *ops;
	struct uplink_state state;
	struct uplink *u;
	double rate;

	if (argc == 4 && strcmp(argv[1], "file") == 0) {
		file_write(argv[3], (unsigned)strtoul(argv[2], NULL, 0));
		return 0;
	}
	bench_options_parse(argc, argv, tests, BYTES_MAX, &opt);
	if (close(mkstemp(path)) != 0)
		bench_die(path);
	file_write(path, (unsigned)opt.bytes);
	snprintf(args, sizeof(args), "net_pcap0,rx_pcap=%s%s", path, opt.test[0] == 'r' ? ",infinite_rx=1" : "");
	pmd_gid_parse(OWN, &config.gid);
	ops = module_load(argv[0]);
	if (ops->open(&config, &u, err, sizeof(err)) != 0) {
		fprintf(stderr, "uplink_rate: %s\n", err);
		unlink(path);
		return 1;
	}
	unlink(path);
	usleep(100000); /* until the neighbour is known */
	rate = measure(ops, u, &opt);
	ops->look(u, &state);
	ops->close(u);
	if (opt.test[0] == 't' && state.stats.tx_packets < 2 * opt.count) {
		fprintf(stderr, "uplink_rate: only %lu of %lu packets were sent\n",
			(unsigned long)state.stats.tx_packets, (unsigned long)(2 * opt.count));
		return 1;
	}
	printf("%.3f\n", rate);
	return 0;
}
