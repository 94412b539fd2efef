/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * test_pmd_ethdev.c - the ethdev port with DPDK's net_af_packet (pmd/port/port_ethdev.c, packet_socket.c), on two
 * interfaces joined by a wire in a network namespace of their own.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <linux/rtnetlink.h>
#include <netinet/icmp6.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/eventfd.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "devices.h"
#include "ends.h"
#include "engine_priv.h"
#include "fake_peer.h"
#include "namespace.h"
#include "nic_rdm.h"
#include "neigh.h"
#include "port_ethdev.h"

#define WIRE_MTU 4200

#define PF(i, iface) "/ethdev=net_af_packet" #i ",iface=" iface

static bool have_wire;

#define NEED_WIRE()                                                                                                    \
	do {                                                                                                           \
		if (!have_wire) {                                                                                      \
			print_message("needs a network namespace and the ip command; one of them is not to be had\n"); \
			skip();                                                                                        \
		}                                                                                                      \
	} while (0)

static void parse(const char *spec, struct pmd_device *devices, int n)
{
	char err[256];

	assert_int_equal(pmd_devices_parse(spec, devices, (unsigned)n, err, sizeof(err)), n);
}

/** WRITE half a buffer, filled with the byte `mark`, from one end to the other; the target does not poll. */
static void write_once(struct end *from, struct end *to, int mark)
{
	struct nic_wc wc;

	memset(from->buf, mark, BUF);
	end_send(from, NIC_WR_RDMA_WRITE, BUF / 2, to);
	wc = end_wait(from, from->scq, true);
	assert_int_equal(wc.status, NIC_WC_SUCCESS);
	pmd_lock(to->engine);
	assert_int_equal(to->buf[0], mark);
	assert_int_equal(to->buf[BUF / 2 - 1], mark);
	pmd_unlock(to->engine);
}

static void exchange(const char *spec)
{
	struct pmd_device d[2];
	struct end a, b;

	parse(spec, d, 2);
	ends_open(&a, &d[0], &b, &d[1]);
	for (int i = 1; i < 20; i++) {
		write_once(&a, &b, i);
		write_once(&b, &a, i);
	}
	end_close(&a);
	end_close(&b);
}

static void ethdev__carries_both_families(void **state)
{
	(void)state;
	NEED_WIRE();
	exchange("10.80.0.1" PF(0, "pf-a") ";10.80.0.2" PF(1, "pf-b"));
	exchange("fd80::1" PF(0, "pf-a") ";fd80::2" PF(1, "pf-b"));
}

/** A link-local address is resolved on the link although it is outside the prefix: packets to it do not go to the
 * gateway, which does not exist here. */
static void ethdev__link_local_addresses_are_on_link(void **state)
{
	(void)state;
	NEED_WIRE();
	exchange("fd80::1/64/gw=fd80::ff" PF(0, "pf-a") ";fe80::2" PF(1, "pf-b"));
}

#define FRAME 200
#define FLOOD 4000 /* frames, more than a socket's ring holds */

/** Build a broadcast frame. For IP, `proto` is the protocol; `first` and `second` are the first two 16-bit words after
 * the IP header. */
static void frame_fill(uint8_t frame[FRAME], uint16_t ethertype, uint8_t proto, uint16_t first, uint16_t second)
{
	bool v4 = ethertype == ETH_P_IP;
	uint8_t *ip = frame + ETH_HLEN, *l4 = ip + (v4 ? 20 : 40);

	memset(frame, 0xff, FRAME);
	frame[12] = (uint8_t)(ethertype >> 8);
	frame[13] = (uint8_t)ethertype;
	ip[0] = v4 ? 0x45 : 0x60;
	ip[v4 ? 9 : 6] = proto;
	l4[0] = (uint8_t)(first >> 8);
	l4[1] = (uint8_t)first;
	l4[2] = (uint8_t)(second >> 8);
	l4[3] = (uint8_t)second;
}

static void flood(const char *iface, const uint8_t frame[FRAME], unsigned count)
{
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_ifindex = (int)if_nametoindex(iface)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	for (unsigned i = 0; i < count; i++)
		assert_int_equal(sendto(fd, frame, FRAME, 0, (struct sockaddr *)&to, sizeof(to)), FRAME);
	close(fd);
}

static void ethdev__foreign_traffic_does_not_fill_the_ring(void **state)
{
	static const struct {
		const char *from;
		uint16_t ethertype;
		uint8_t proto;
		/* UDP: `first` is the source port, `second` the destination port. ICMPv6: type and code, checksum. */
		uint16_t first, second;
	} row[] = {
		{"pf-b", 0x88b5, 0, 0, 0}, /* an EtherType for experiments */
		{"pf-b", ETH_P_IP, IPPROTO_TCP, NIC_UDP_PORT, NIC_UDP_PORT},
		{"pf-b", ETH_P_IP, IPPROTO_UDP, NIC_UDP_PORT, NIC_UDP_PORT + 1},
		{"pf-b", ETH_P_IPV6, IPPROTO_TCP, NIC_UDP_PORT, NIC_UDP_PORT},
		{"pf-b", ETH_P_IPV6, IPPROTO_UDP, NIC_UDP_PORT, NIC_UDP_PORT + 1},
		{"pf-b", ETH_P_IPV6, IPPROTO_ICMPV6, ICMP6_ECHO_REQUEST << 8, 0},
		{"pf-a", ETH_P_IP, IPPROTO_UDP, NIC_UDP_PORT, NIC_UDP_PORT}, /* sent by the host itself */
	};
	struct pmd_port_stats stats;
	uint8_t frame[FRAME];
	struct pmd_device d[2];
	struct end a, b;

	(void)state;
	NEED_WIRE();
	parse("10.80.0.1" PF(0, "pf-a") ";10.80.0.2" PF(1, "pf-b"), d, 2);
	ends_open(&a, &d[0], &b, &d[1]);
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		write_once(&b, &a, 1);
		frame_fill(frame, row[i].ethertype, row[i].proto, row[i].first, row[i].second);
		pmd_lock(a.engine); /* the device consumes no frames during the flood */
		flood(row[i].from, frame, FLOOD);
		pmd_unlock(a.engine);
		write_once(&b, &a, 2);
		pmd_lock(a.engine);
		pmd_port_stats_get(a.engine, &stats);
		pmd_unlock(a.engine);
		assert_int_equal(stats.rx_not_ours, 0);
		assert_int_equal(stats.rx_no_room, 0);
	}
	end_close(&a);
	end_close(&b);
}

static void ethdev__full_ring_is_counted(void **state)
{
	static const uint8_t arp[28] = {0, 1, 8, 0, 6, 4, 0, 9};
	struct sockaddr_ll to = {.sll_family = AF_PACKET, .sll_halen = 6, .sll_protocol = htons(ETH_P_ARP)};
	struct pmd_port_stats stats;
	struct pmd_device d;
	struct end a;
	int fd;

	(void)state;
	NEED_WIRE();
	parse("10.80.0.1" PF(0, "pf-a"), &d, 1);
	end_open(&a, &d);
	fd = socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	assert_true(fd >= 0);
	memset(to.sll_addr, 0xff, 6);
	to.sll_ifindex = (int)if_nametoindex("pf-b");
	pmd_lock(a.engine);
	for (unsigned i = 0; i < FLOOD; i++)
		sendto(fd, arp, sizeof(arp), 0, (struct sockaddr *)&to, sizeof(to));
	pmd_port_stats_get(a.engine, &stats);
	pmd_unlock(a.engine);
	assert_in_range(stats.rx_no_room, FLOOD / 4, FLOOD);
	close(fd);
	end_close(&a);
}

static void ethdev__two_devices_share_an_interface(void **state)
{
	struct pmd_device d[4];
	struct end a[2], b[2];

	(void)state;
	NEED_WIRE();
	parse("10.80.0.1" PF(0, "pf-a") ";10.80.0.2" PF(1, "pf-b") ";10.80.0.3" PF(2, "pf-a") ";10.80.0.4" PF(3,
													      "pf-b"),
	      d, 4);
	for (unsigned i = 0; i < 2; i++)
		ends_open(&a[i], &d[2 * i], &b[i], &d[2 * i + 1]);
	for (int k = 1; k < 10; k++) {
		for (unsigned i = 0; i < 2; i++) {
			write_once(&a[i], &b[i], k);
			write_once(&b[i], &a[i], k);
		}
	}
	for (unsigned i = 0; i < 2; i++) {
		int group = -1;
		socklen_t len = sizeof(group);

		assert_int_equal(getsockopt(a[i].engine->host.port->wait_fd, SOL_PACKET, PACKET_FANOUT, &group, &len),
				 0);
		assert_int_equal(group, 0);
		end_close(&a[i]);
		end_close(&b[i]);
	}
}

static struct pmd_port_stats stats_of(struct end *e)
{
	struct pmd_port_stats stats;

	pmd_lock(e->engine);
	pmd_port_stats_get(e->engine, &stats);
	pmd_unlock(e->engine);
	return stats;
}

/** A long WRITE has more packets than can wait for an unresolved neighbour: some are dropped, unless pmd_resolve() has
 * resolved the neighbour before. */
static void ethdev__resolves_ahead_of_packets(void **state)
{
	struct pmd_device d[2];
	struct end a, b;

	(void)state;
	NEED_WIRE();
	parse("10.80.0.1" PF(0, "pf-a") ";10.80.0.2" PF(1, "pf-b"), d, 2);
	for (int resolve = 0; resolve < 2; resolve++) {
		ends_open(&a, &d[0], &b, &d[1]);
		if (resolve)
			pmd_resolve(a.engine, &b.gid);
		end_send(&a, NIC_WR_RDMA_WRITE, BUF, &b);
		assert_int_equal(end_wait(&a, a.scq, true).status, NIC_WC_SUCCESS);
		assert_int_equal(stats_of(&a).neigh_queue_full > 0, !resolve);
		end_close(&a);
		end_close(&b);
	}
}

/** pmd_resolve() gives up an address that nobody has after NEIGH_TRIES requests. For multicast addresses and the own
 * address it sends no request. */
static void ethdev__resolving_an_absent_address_gives_up(void **state)
{
	const struct nic_gid groups[] = {{.raw = {0xff, 0x0e, [10] = 0xff, 0xff, 224, 0, 0, 9}},
					 {.raw = {[10] = 0xff, 0xff, 224, 0, 0, 9}}};
	struct nic_gid nobody;
	struct pmd_device d[2];
	struct end a, b;

	(void)state;
	NEED_WIRE();
	parse("10.80.0.1" PF(0, "pf-a") ";10.80.0.2" PF(1, "pf-b"), d, 2);
	ends_open(&a, &d[0], &b, &d[1]);
	nobody = b.gid;
	nobody.raw[15] = 200;
	pmd_resolve(a.engine, &groups[0]);
	pmd_resolve(a.engine, &groups[1]);
	pmd_resolve(a.engine, &a.gid);
	assert_int_equal(stats_of(&a).neigh_requests, 0);
	pmd_resolve(a.engine, &nobody);
	assert_int_equal(stats_of(&a).neigh_requests, NEIGH_TRIES);
	write_once(&a, &b, 1);
	end_close(&a);
	end_close(&b);
}

static int interface_flags(const char *iface)
{
	struct ifreq req;
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	memset(&req, 0, sizeof(req));
	strcpy(req.ifr_name, iface);
	assert_int_equal(ioctl(fd, SIOCGIFFLAGS, &req), 0);
	close(fd);
	return req.ifr_flags;
}

static void ethdev__v6_sets_neither_promisc_nor_allmulti(void **state)
{
	struct pmd_device d;
	struct end a;

	(void)state;
	NEED_WIRE();
	parse("fd80::1" PF(0, "pf-a"), &d, 1);
	end_open(&a, &d);
	assert_int_equal(interface_flags("pf-a") & (IFF_PROMISC | IFF_ALLMULTI), 0);
	end_close(&a);
}

/** The number of sockets that have set the interface to promiscuous mode (IFLA_PROMISCUITY). The interface's flags do
 * not show these sockets. */
static uint32_t promiscuity(const char *iface)
{
	const struct {
		struct nlmsghdr h;
		struct ifinfomsg i;
	} ask = {.h = {.nlmsg_len = sizeof(ask), .nlmsg_type = RTM_GETLINK, .nlmsg_flags = NLM_F_REQUEST},
		 .i = {.ifi_index = (int)if_nametoindex(iface)}};
	uint32_t value = UINT32_MAX, answer[4096];
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), left;
	struct nlmsghdr *h = (struct nlmsghdr *)answer;
	struct rtattr *a;

	assert_int_equal(send(fd, &ask, sizeof(ask), 0), sizeof(ask));
	assert_true(recv(fd, answer, sizeof(answer), 0) > 0);
	close(fd);
	assert_int_equal(h->nlmsg_type, RTM_NEWLINK);
	left = (int)(h->nlmsg_len - NLMSG_LENGTH(sizeof(struct ifinfomsg)));
	for (a = IFLA_RTA(NLMSG_DATA(h)); RTA_OK(a, left); a = RTA_NEXT(a, left))
		if (a->rta_type == IFLA_PROMISCUITY)
			memcpy(&value, RTA_DATA(a), sizeof(value));
	return value;
}

static void ethdev__SE_11_no_port_is_promiscuous(void **state)
{
	static const char *const specs[] = {"10.80.0.1" PF(0, "pf-a"), "fd80::1" PF(0, "pf-a"),
					    "10.80.0.1/ethdev=net_pcap0,iface=pf-a",
					    "fd80::1/ethdev=net_pcap0,iface=pf-a"};
	struct pmd_device d;
	struct end a;

	(void)state;
	NEED_WIRE();
	for (unsigned i = 0; i < sizeof(specs) / sizeof(specs[0]); i++) {
		parse(specs[i], &d, 1);
		end_open(&a, &d);
		assert_int_equal(promiscuity("pf-a"), 0);
		end_close(&a);
	}
}

static void ethdev__mtu_that_does_not_fit_is_refused(void **state)
{
	static const struct {
		const char *spec, *said;
	} row[] = {
		{"10.80.0.1" PF(0, "pf-c"), "needs an MTU of 2112 on pf-c, which has 2111"},
		{"10.80.0.1" PF(0, "pf-a") ",framesz=2048", "needs a framesz of 2192"},
	};
	struct pmd_engine *e;
	struct pmd_device d;
	char err[256];

	(void)state;
	NEED_WIRE();
	assert_true(namespace_veth("pf-c", "pf-d", 2111));
	setenv("UROCE_MTU", "2048", 1);
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		parse(row[i].spec, &d, 1);
		assert_int_equal(pmd_open(&d, NULL, NULL, &e, err, sizeof(err)), -EMSGSIZE);
		assert_non_null(strstr(err, row[i].said));
	}
	unsetenv("UROCE_MTU");
	exchange("10.80.0.1" PF(0, "pf-c") ";10.80.0.2" PF(1, "pf-d"));
}

static void ethdev__the_maximum_number_of_devices_can_open(void **state)
{
	struct pmd_device d[PMD_DEVICES_MAX];
	struct pmd_engine *e[PMD_DEVICES_MAX];
	char spec[PMD_DEVICES_MAX * 64] = "", err[256] = "";

	(void)state;
	NEED_WIRE();
	for (unsigned i = 0; i < PMD_DEVICES_MAX; i++)
		snprintf(spec + strlen(spec), sizeof(spec) - strlen(spec),
			 "10.80.0.%u/ethdev=net_af_packet%u,iface=pf-a;", i + 1, i);
	parse(spec, d, PMD_DEVICES_MAX);
	for (unsigned i = 0; i < PMD_DEVICES_MAX; i++)
		assert_int_equal(pmd_open(&d[i], NULL, NULL, &e[i], err, sizeof(err)), 0);
	for (unsigned i = 0; i < PMD_DEVICES_MAX; i++)
		pmd_close(e[i]);
}

/** The interface goes down and up again while the device is idle: traffic continues. */
static void ethdev__survives_an_interface_that_was_down(void **state)
{
	struct pollfd p = {.events = 0};
	struct pmd_device d[2];
	struct end a, b;

	(void)state;
	NEED_WIRE();
	parse("10.80.0.1" PF(0, "pf-a") ";10.80.0.2" PF(1, "pf-b"), d, 2);
	ends_open(&a, &d[0], &b, &d[1]);
	write_once(&b, &a, 1);
	assert_int_equal(system("PATH=$PATH:/usr/sbin:/sbin; ip link set pf-a down && ip link set pf-a up"), 0);
	/* The engine's thread must fetch the socket's error (POLLERR), or it would wake again and again. */
	p.fd = a.engine->host.port->wait_fd;
	while (poll(&p, 1, 0) > 0 && (p.revents & POLLERR))
		usleep(1000);
	write_once(&b, &a, 2);
	write_once(&a, &b, 3);
	end_close(&a);
	end_close(&b);
}

/** Count the packet sockets in this network namespace. */
static unsigned packet_sockets(void)
{
	FILE *list = fopen("/proc/self/net/packet", "re");
	char line[256];
	unsigned n = 0;

	assert_non_null(list);
	while (fgets(line, sizeof(line), list))
		n++;
	fclose(list);
	return n - 1; /* without the heading line */
}

/** A forked child cannot open the interface that its parent has. @return whether it is told so */
static bool child_is_refused(const struct pmd_device *d)
{
	struct pmd_engine *e;
	char err[256];

	return pmd_open(d, NULL, NULL, &e, err, sizeof(err)) == -ENODEV && strstr(err, "when this process was forked");
}

/** A forked child keeps no packet socket open: its ring would still fill, and the interface would stay in the mode that
 * the socket requested. */
static void ethdev__forked_child_keeps_no_socket(void **state)
{
	int hold[2], gone[2], status;
	struct pmd_engine *e;
	struct pmd_device d;
	char err[256], byte;
	pid_t pid;

	(void)state;
	NEED_WIRE();
	parse("10.80.0.1" PF(0, "pf-a"), &d, 1);
	assert_int_equal(pipe(hold) | pipe(gone), 0);
	assert_int_equal(pmd_open(&d, NULL, NULL, &e, err, sizeof(err)), 0);
	assert_int_equal(packet_sockets(), 1);
	pid = fork();
	if (pid == 0) {
		close(hold[1]);
		close(gone[1]); /* tells the parent that the child has closed the socket that it inherited */
		_exit(read(hold[0], &byte, 1) == 0 && child_is_refused(&d) ? 0 : 1);
	}
	close(gone[1]);
	assert_int_equal(read(gone[0], &byte, 1), 0);
	pmd_close(e);
	assert_int_equal(packet_sockets(), 0);
	close(hold[0]);
	close(hold[1]);
	close(gone[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/** An ethdev device belongs to one process and gets all packets, so a service's port has to be unique only among the
 * services of this engine. */
static void ethdev__service_ports_are_owned_per_engine(void **state)
{
	struct nic_send_wr wr = {.opcode = NIC_WR_SEND};
	struct nic_av av;
	struct pmd_device d[2];
	uint16_t port = 1000, any = 0;
	struct nic_ah *ah;
	struct nic_qp *qp;
	struct end a, b;

	(void)state;
	NEED_WIRE();
	parse("10.80.0.1" PF(0, "pf-a") ";10.80.0.2" PF(1, "pf-b"), d, 2);
	ends_open(&a, &d[0], &b, &d[1]);
	write_once(&a, &b, 1);
	assert_int_equal(pmd_service_open(b.engine, &port), 0);
	assert_int_equal(pmd_service_open(b.engine, &port), -EADDRINUSE);
	assert_int_equal(pmd_service_open(a.engine, &port), 0);
	pmd_service_close(a.engine, port);
	assert_int_equal(pmd_service_open(a.engine, &port), 0);
	assert_int_equal(pmd_service_open(a.engine, &any), 0);
	assert_true(any >= PMD_SERVICE_ANY_MIN);
	qp = fake_qp(&a, NIC_QPT_UD, a.scq, NULL, 0, 0);
	av = (struct nic_av){.dgid = b.gid};
	wr.ud.remote_qpn = NIC_SERVICE_QPN + port;
	pmd_lock(a.engine);
	assert_int_equal(nic_ah_create(a.pd, &av, &ah), 0);
	wr.ud.ah = ah;
	assert_int_equal(nic_post_send(qp, &wr), 0);
	pmd_doorbell(a.engine);
	pmd_unlock(a.engine);
	for (uint64_t come = 0; come == 0;) {
		pmd_lock(b.engine);
		come = nic_counters(b.nic)[NIC_CNT_rx_no_qp];
		pmd_unlock(b.engine);
		usleep(1000);
	}
	end_close(&a);
	end_close(&b);
}

/* ---- VLAN tags ----------------------------------------------------------------------------------------------- */

/* A switch between the wires of pf-b and pf-y, which tags all frames. */
static struct {
	int fd[2];
	int stop; /* an eventfd */
	_Atomic uint16_t tci;
} tagger;

static int tagger_socket(const char *iface)
{
	struct sockaddr_ll at = {
		.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL), .sll_ifindex = (int)if_nametoindex(iface)};
	int fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(bind(fd, (struct sockaddr *)&at, sizeof(at)), 0);
	return fd;
}

static void tagger_pass(int from, int to)
{
	uint8_t frame[WIRE_MTU + 64];
	struct sockaddr_ll source;
	socklen_t size = sizeof(source);
	ssize_t n = recvfrom(from, frame + 4, sizeof(frame) - 4, MSG_DONTWAIT, (struct sockaddr *)&source, &size);

	if (n < ETH_HLEN || source.sll_pkttype == PACKET_OUTGOING)
		return;
	memmove(frame, frame + 4, 12);
	frame[12] = ETH_P_8021Q >> 8;
	frame[13] = ETH_P_8021Q & 0xff;
	frame[14] = (uint8_t)(tagger.tci >> 8);
	frame[15] = (uint8_t)tagger.tci;
	send(to, frame, (size_t)n + 4, 0); /* a frame that is lost here is sent again */
}

static void *tagger_main(void *arg)
{
	struct pollfd fds[3] = {{tagger.fd[0], POLLIN, 0}, {tagger.fd[1], POLLIN, 0}, {tagger.stop, POLLIN, 0}};

	while (poll(fds, 3, -1) > 0 && !fds[2].revents) {
		tagger_pass(tagger.fd[0], tagger.fd[1]);
		tagger_pass(tagger.fd[1], tagger.fd[0]);
	}
	return arg;
}

/** Ports of one VLAN reach each other; one of another VLAN ignores their frames, and so does one of none. */
static void ethdev__HV_15_a_port_in_a_vlan_talks_to_its_vlan_only(void **state)
{
	static const char *const others[] = {"10.80.0.2/vlan=8" PF(1, "pf-b"), "10.80.0.2" PF(1, "pf-b")};
	struct pmd_device d[2];
	struct end a, b;

	(void)state;
	NEED_WIRE();
	parse("10.80.0.1/vlan=7" PF(0, "pf-a") ";10.80.0.2/vlan=7" PF(1, "pf-b"), d, 2);
	ends_open(&a, &d[0], &b, &d[1]);
	for (int i = 1; i < 5; i++) {
		write_once(&a, &b, i);
		write_once(&b, &a, i);
	}
	end_close(&a);
	end_close(&b);
	for (unsigned i = 0; i < 2; i++) {
		parse("10.80.0.1/vlan=7" PF(0, "pf-a"), d, 1);
		parse(others[i], d + 1, 1);
		ends_open(&a, &d[0], &b, &d[1]);
		end_send(&a, NIC_WR_RDMA_WRITE, 8, &b);
		while (stats_of(&b).rx_not_ours < 2) { /* ARP requests */
			pmd_lock(a.engine);
			assert_int_equal(nic_cq_count(a.scq), 0);
			pmd_unlock(a.engine);
			usleep(1000);
		}
		assert_int_equal(stats_of(&b).neigh_replies, 0);
		end_close(&a);
		end_close(&b);
	}
}

/** A tag with a priority and no VLAN changes nothing; frames of a VLAN, to which the device does not belong, are
 * ignored and counted. */
static void ethdev__HV_15_priority_tags_are_accepted_and_vlans_are_not(void **state)
{
	const uint64_t one = 1;
	struct pmd_device d[2];
	struct end a, b;
	uint64_t ignored;
	pthread_t t;

	(void)state;
	NEED_WIRE();
	assert_true(namespace_veth("pf-y", "pf-z", WIRE_MTU));
	tagger.fd[0] = tagger_socket("pf-b");
	tagger.fd[1] = tagger_socket("pf-y");
	tagger.stop = eventfd(0, EFD_CLOEXEC);
	tagger.tci = 5 << 13; /* priority 5, VLAN 0 */
	assert_int_equal(pthread_create(&t, NULL, tagger_main, NULL), 0);
	parse("10.80.0.1" PF(0, "pf-a") ";10.80.0.2" PF(1, "pf-z"), d, 2);
	ends_open(&a, &d[0], &b, &d[1]);
	for (int i = 1; i < 5; i++) {
		write_once(&a, &b, i);
		write_once(&b, &a, i);
	}
	tagger.tci = 5 << 13 | 7;
	ignored = stats_of(&b).rx_not_ours;
	end_send(&a, NIC_WR_RDMA_WRITE, 8, &b);
	while (stats_of(&b).rx_not_ours < ignored + 5) { /* the WRITE is sent again and again */
		pmd_lock(a.engine);
		assert_int_equal(nic_cq_count(a.scq), 0);
		pmd_unlock(a.engine);
		usleep(1000);
	}
	tagger.tci = 0;
	assert_int_equal(end_wait(&a, a.scq, true).status, NIC_WC_SUCCESS);
	end_close(&a);
	end_close(&b);
	assert_int_equal(write(tagger.stop, &one, sizeof(one)), sizeof(one));
	pthread_join(t, NULL);
	close(tagger.fd[0]);
	close(tagger.fd[1]);
	close(tagger.stop);
}

static void *progress_while_cancelled(void *arg)
{
	struct pmd_engine *e = arg;
	int unused;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &unused);
	pthread_cancel(pthread_self());
	pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &unused);
	return pmd_try_progress(e) ? e : NULL;
}

/** libpcap waits in system calls that are cancellation points: a cancelled thread must not end there while the engine
 * is locked. */
static void ethdev__pcap_poll_is_no_cancellation_point(void **state)
{
	struct pmd_engine *e;
	struct pmd_device d;
	char err[256] = "";
	pthread_t t;
	void *ret;

	(void)state;
	NEED_WIRE();
	parse("10.80.0.1/ethdev=net_pcap0,iface=pf-a", &d, 1);
	setenv("UROCE_PROGRESS", "inline", 1);
	assert_int_equal(pmd_open(&d, NULL, NULL, &e, err, sizeof(err)), 0);
	unsetenv("UROCE_PROGRESS");
	assert_int_equal(pthread_create(&t, NULL, progress_while_cancelled, e), 0);
	pthread_join(t, &ret);
	assert_ptr_equal(ret, e);
	pmd_close(e);
}

/** The kernel wants blocks of whole pages, the PMD blocks of whole frames, and rings of whole blocks. */
static void ethdev__the_ring_fits_pages_of_all_sizes(void **state)
{
	(void)state;
	for (size_t page = 4096; page <= 65536; page *= 2) {
		char text[ETHDEV_RING_TEXT];
		unsigned long frame, block, frames;

		pmd_ethdev_ring(page, text, sizeof(text));
		assert_int_equal(sscanf(text, ",framesz=%lu,blocksz=%lu,framecnt=%lu", &frame, &block, &frames), 3);
		assert_int_equal(block % page, 0);
		assert_int_equal(block % frame, 0);
		assert_int_equal(frames % (block / frame), 0);
		assert_in_range(frames, 2072, 4096);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ethdev__the_ring_fits_pages_of_all_sizes),
		cmocka_unit_test(ethdev__carries_both_families),
		cmocka_unit_test(ethdev__link_local_addresses_are_on_link),
		cmocka_unit_test(ethdev__foreign_traffic_does_not_fill_the_ring),
		cmocka_unit_test(ethdev__full_ring_is_counted),
		cmocka_unit_test(ethdev__two_devices_share_an_interface),
		cmocka_unit_test(ethdev__resolves_ahead_of_packets),
		cmocka_unit_test(ethdev__resolving_an_absent_address_gives_up),
		cmocka_unit_test(ethdev__v6_sets_neither_promisc_nor_allmulti),
		cmocka_unit_test(ethdev__SE_11_no_port_is_promiscuous),
		cmocka_unit_test(ethdev__mtu_that_does_not_fit_is_refused),
		cmocka_unit_test(ethdev__the_maximum_number_of_devices_can_open),
		cmocka_unit_test(ethdev__survives_an_interface_that_was_down),
		cmocka_unit_test(ethdev__forked_child_keeps_no_socket),
		cmocka_unit_test(ethdev__service_ports_are_owned_per_engine),
		cmocka_unit_test(ethdev__HV_15_a_port_in_a_vlan_talks_to_its_vlan_only),
		cmocka_unit_test(ethdev__HV_15_priority_tags_are_accepted_and_vlans_are_not),
		cmocka_unit_test(ethdev__pcap_poll_is_no_cancellation_point),
	};

	have_wire = namespace_enter() && namespace_veth("pf-a", "pf-b", WIRE_MTU);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
