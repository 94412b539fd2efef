/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * golden.c - checks the packet code against captures of other RoCEv2 implementations.
 *
 *   golden [--skip-if-absent] FOLDER
 *
 * For every UDP packet to port 4791 in each *.pcap in FOLDER it checks that
 *   - packet_parse accepts it, ICRC included, and packet_encode yields the same bytes;
 *   - packet_parse accepts the packet without its IP header too, and finds the right IPv4 ID: UDP sockets deliver
 *     packets in this form. If the receiver assumes ID 0 and the ID is not 0, packet_parse refuses the packet;
 *   - packet_parse refuses the packet with one bit flipped. If the ID is hidden, 2^-16 of the damaged packets pass with
 *     a wrong ID (icrc.h). The check counts them, and fails if there are more than is likely;
 *   - a datagram to QP 1 is a MAD of the connection manager: cm_mad_parse accepts it, and cm_mad_build yields the same
 *     bytes. If the MAD is a request for a port, nic_cm_ip_parse accepts the RDMA IP header in it, and nic_cm_ip_build
 *     yields the same bytes.
 * Fails on any mismatch, on damaged captures, and when there was no packet at all.
 */
#include "nic_cm_ip.h"
#include "cm_mad.h"
#include "icrc.h"
#include "packet.h"
#include "pcap_file.h"
#include "wire.h"

#include <dirent.h>
#include <stdlib.h>

#define FLIPS	  16 /* bits flipped in a packet, one at a time */
#define EXIT_SKIP 77
#define CM_QKEY	  0x80010000u

struct tally {
	unsigned long packets, ipv6, cm, recovered, cut, failures;
	unsigned long flips, residual; /* damaged packets with a hidden ID: all that were tried, and those accepted */
};

static unsigned long cm_attribute[CM_APR - CM_REQ + 1];
static unsigned long opcodes[256];

static const char *const verdict_name[PACKET_VERDICTS] = {
	"ok",	   "not RoCE", "bad IP", "too short", "too long", "bad version", "bad opcode", "bad reference",
	"bad pad", "bad ICRC", "no key", "no tag",    "bad tag",
};

static void fail(struct tally *tally, const char *file, unsigned number, const char *what, const char *detail)
{
	if (++tally->failures <= 20)
		printf("FAILED %s packet %u: %s%s%s\n", file, number, what, *detail ? ": " : "", detail);
}

/** Spreads n over 32 bits (Murmur's finalizer): chooses where to flip bits, the same in every run. */
static uint32_t scatter(uint32_t n)
{
	n ^= n >> 16;
	n *= 0x85ebca6b;
	n ^= n >> 13;
	n *= 0xc2b2ae35;
	return n ^ n >> 16;
}

/** @return the length of an IP packet to UDP port 4791; 0 for other packets; -1 if the capture truncated it. */
static int rocev2_length(const uint8_t *ip, uint32_t captured, unsigned *udp_at)
{
	uint32_t total;
	unsigned proto;

	if (captured >= IPV4_LEN + UDP_LEN && ip[0] >> 4 == 4) {
		*udp_at = (ip[0] & 15) * 4u;
		proto = ip[IPV4_PROTO];
		total = wire_get16(ip + IPV4_TOTAL);
	} else if (captured >= IPV6_LEN + UDP_LEN && ip[0] >> 4 == 6) {
		*udp_at = IPV6_LEN;
		proto = ip[IPV6_NEXT];
		total = wire_get16(ip + IPV6_PLEN) + IPV6_LEN;
	} else {
		return 0;
	}
	if (proto != IP_PROTO_UDP || captured < *udp_at + UDP_LEN ||
	    wire_get16(ip + *udp_at + UDP_DPORT) != NIC_UDP_PORT)
		return 0;
	return total > captured ? -1 : (int)total;
}

/** Check that the packet is accepted, and that encoding it again yields the same bytes. @return whether *p can be used
 * further. */
static bool check_exact(struct tally *tally, const char *file, unsigned number, const struct nic_rx_frame *frame,
			unsigned total, struct packet *p)
{
	static uint8_t again[NIC_FRAME_MAX];
	enum packet_verdict verdict = packet_parse(frame, p);

	if (verdict != PACKET_OK) {
		fail(tally, file, number, "refused", verdict_name[verdict]);
		return false;
	}
	memset(again, 0xee, sizeof(again));
	if (packet_encode(p, again) != total || memcmp(again, frame->data, total) != 0)
		fail(tally, file, number, "encoded differently", p->op->name);
	return true;
}

/** Check that each of FLIPS flipped bits of the UDP payload is noticed. Modifies frame->data. */
static void check_flips(struct tally *tally, const char *file, unsigned number, const struct nic_rx_frame *frame,
			uint8_t *bth, unsigned len, uint16_t ip_id)
{
	struct packet p;

	for (unsigned i = 0; i < FLIPS; i++) {
		uint32_t bit = scatter(number * FLIPS + i) % (len * 8);

		if (bit / 8 == BTH_ECN)
			continue; /* not covered by the ICRC */
		bth[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (frame->flags & NIC_RX_IP_ID_UNKNOWN) {
			tally->flips++;
			if (packet_parse(frame, &p) == PACKET_OK) {
				tally->residual++;
				if (p.ip_id == ip_id)
					fail(tally, file, number, "flipped bit accepted with the same ID", "");
			}
		} else if (packet_parse(frame, &p) == PACKET_OK) {
			fail(tally, file, number, "flipped bit accepted", p.op->name);
		}
		bth[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

/** Check the same packet in the form in which a UDP socket delivers it: the IPv4 ID is hidden. */
static void check_hidden_id(struct tally *tally, const char *file, unsigned number, const struct packet *exact,
			    uint8_t *bth, unsigned len)
{
	struct nic_rx_frame frame = {
		.data = bth,
		.len = len,
		.flags = NIC_RX_UDP_PAYLOAD | NIC_RX_IP_ID_UNKNOWN,
		.sgid = exact->sgid,
		.dgid = exact->dgid,
		.udp_sport = exact->udp_sport,
		.tclass = exact->tclass,
		.hop_limit = exact->hop_limit,
	};
	struct packet p;
	enum packet_verdict verdict = packet_parse(&frame, &p);

	if (verdict != PACKET_OK) {
		fail(tally, file, number, "refused without its IP header", verdict_name[verdict]);
		return;
	}
	if (p.ip_id != exact->ip_id || p.ip_id_recovered != (exact->ip_id != 0))
		fail(tally, file, number, "wrong IPv4 ID found", p.op->name);
	if (p.v4 != exact->v4 || p.op != exact->op || p.psn != exact->psn || p.payload != exact->payload ||
	    p.payload_len != exact->payload_len)
		fail(tally, file, number, "parsed differently without its IP header", p.op->name);
	tally->recovered += p.ip_id_recovered;

	if (exact->ip_id != 0) {
		frame.flags = NIC_RX_UDP_PAYLOAD;
		if (packet_parse(&frame, &p) != PACKET_BAD_ICRC)
			fail(tally, file, number, "nonzero ID taken for zero", p.op->name);
		frame.flags |= NIC_RX_IP_ID_UNKNOWN;
	}
	if (exact->v4)
		check_flips(tally, file, number, &frame, bth, len, exact->ip_id);
}

/** If a request is for a port, check the RDMA IP header in its private data: parse it, and build it again. */
static void check_cm_ip(struct tally *tally, const char *file, unsigned number, const struct cm_mad *mad)
{
	uint64_t service_id = mad->attr == CM_REQ ? mad->req.service_id : mad->sidr_req.service_id;
	uint8_t again[NIC_CM_IP_LEN];
	uint16_t space, port;
	struct nic_cm_ip ip;
	enum nic_cm_ip_verdict verdict;

	if (!nic_cm_service_split(service_id, &space, &port))
		return;
	verdict = nic_cm_ip_parse(mad->data, mad->data_len, &ip);
	nic_cm_ip_build(&ip, again);
	if (verdict != NIC_CM_IP_OK)
		fail(tally, file, number, "RDMA IP header refused", nic_cm_ip_verdict_name(verdict));
	else if (memcmp(again, mad->data, NIC_CM_IP_LEN) != 0)
		fail(tally, file, number, "RDMA IP header built differently", cm_attr_name(mad->attr));
}

static void check_cm(struct tally *tally, const char *file, unsigned number, const struct packet *p)
{
	uint8_t again[CM_MAD_LEN];
	struct cm_mad mad;
	enum cm_verdict verdict = cm_mad_parse(p->payload, p->payload_len, &mad);

	tally->cm++;
	if (p->op->service != OP_UD || p->qkey != CM_QKEY) {
		fail(tally, file, number, "packet to QP 1 is no datagram with its Q_Key", p->op->name);
		return;
	}
	if (verdict != CM_MAD_OK) {
		fail(tally, file, number, "MAD refused", cm_verdict_name(verdict));
		return;
	}
	cm_attribute[mad.attr - CM_REQ]++;
	memset(again, 0xee, sizeof(again));
	cm_mad_build(&mad, again);
	if (memcmp(again, p->payload, CM_MAD_LEN) != 0)
		fail(tally, file, number, "MAD built differently", cm_attr_name(mad.attr));
	if (mad.attr == CM_REQ || mad.attr == CM_SIDR_REQ)
		check_cm_ip(tally, file, number, &mad);
}

static void check_packet(struct tally *tally, const char *file, unsigned number, uint8_t *ip, unsigned captured,
			 unsigned total, unsigned bth_at)
{
	struct nic_rx_frame frame = {.data = ip, .len = captured};
	struct packet p;

	tally->packets++;
	if (!check_exact(tally, file, number, &frame, total, &p))
		return;
	tally->ipv6 += !p.v4;
	opcodes[p.op->value]++;
	if (p.dest_qpn == 1)
		check_cm(tally, file, number, &p);
	check_flips(tally, file, number, &frame, ip + bth_at, total - bth_at, p.ip_id);
	if (!p.v4 || p.ip_frag == IPV4_FRAG_DF)
		check_hidden_id(tally, file, number, &p, ip + bth_at, total - bth_at);
	else
		fail(tally, file, number, "DF not set: a UDP socket could not check its ICRC", "");
}

static void check_file(struct tally *total, const char *folder, const char *name)
{
	static struct pcap_file pcap;
	struct tally tally = {0};
	char path[4096];
	const char *error;
	unsigned number = 0;
	int more;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	error = pcap_file_open(&pcap, path);
	if (error) {
		fail(total, name, 0, "cannot be read", error);
		return;
	}
	while ((more = pcap_file_next(&pcap)) > 0) {
		int at = pcap_file_ip_offset(&pcap);
		unsigned udp_at;
		int length;

		number++;
		if (at < 0)
			continue;
		length = rocev2_length(pcap.frame + at, pcap.captured - (uint32_t)at, &udp_at);
		if (length > 0)
			check_packet(&tally, name, number, pcap.frame + at, pcap.captured - (uint32_t)at,
				     (unsigned)length, udp_at + UDP_LEN);
		else if (length < 0)
			tally.cut++;
	}
	if (more < 0)
		fail(&tally, name, number, "capture file is damaged", "");
	pcap_file_close(&pcap);
	printf("%-32s %5lu packets, %4lu IPv6, %3lu CM, %5lu hidden IDs found%s\n", name, tally.packets, tally.ipv6,
	       tally.cm, tally.recovered, tally.cut ? ", some cut short by the capture and left out" : "");
	total->packets += tally.packets;
	total->ipv6 += tally.ipv6;
	total->cm += tally.cm;
	total->recovered += tally.recovered;
	total->cut += tally.cut;
	total->failures += tally.failures;
	total->flips += tally.flips;
	total->residual += tally.residual;
}

static int is_pcap(const struct dirent *entry)
{
	size_t len = strlen(entry->d_name);

	return len > 5 && strcmp(entry->d_name + len - 5, ".pcap") == 0;
}

static void print_total(const struct tally *total)
{
	printf("total: %lu packets (%lu IPv6, %lu CM), %lu hidden IDs found, %lu cut short, %lu failures\n",
	       total->packets, total->ipv6, total->cm, total->recovered, total->cut, total->failures);
	printf("damaged packets with a hidden ID: %lu of %lu accepted (2^-16: %.1f expected)\n", total->residual,
	       total->flips, (double)total->flips / 65536);
	printf("opcodes:");
	for (unsigned i = 0; i < 256; i++)
		if (opcodes[i])
			printf(" %s=%lu;", op_get((uint8_t)i)->name, opcodes[i]);
	printf("\nCM messages:");
	for (unsigned attr = CM_REQ; attr <= CM_APR; attr++)
		if (cm_attribute[attr - CM_REQ])
			printf(" %s=%lu", cm_attr_name(attr), cm_attribute[attr - CM_REQ]);
	printf("\n");
}

int main(int argc, char **argv)
{
	bool skip = argc == 3 && strcmp(argv[1], "--skip-if-absent") == 0;
	struct dirent **entries;
	struct tally total = {0};
	int n;

	if (argc != 2 && !skip) {
		fprintf(stderr, "usage: golden [--skip-if-absent] FOLDER\n");
		return 2;
	}
	n = scandir(argv[argc - 1], &entries, is_pcap, alphasort);
	if (n < 0) {
		fprintf(stderr, "golden: cannot read folder %s%s\n", argv[argc - 1],
			skip ? "; skipped: it belongs to reference material beside the checkout" : "");
		return skip ? EXIT_SKIP : 1;
	}
	for (int i = 0; i < n; i++) {
		check_file(&total, argv[argc - 1], entries[i]->d_name);
		free(entries[i]);
	}
	free(entries);
	print_total(&total);
	if (total.packets == 0) {
		fprintf(stderr, "golden: no RoCEv2 packet in %s/*.pcap\n", argv[argc - 1]);
		return 1;
	}
	/* By chance, 1 of 65536 damaged packets is accepted. Far more than that (the limit allows for a Poisson
	 * distribution) means that damage is not detected. */
	if (total.residual > total.flips / 65536 * 4 + 10) {
		fprintf(stderr, "golden: too many damaged packets accepted\n");
		return 1;
	}
	return total.failures ? 1 : 0;
}
