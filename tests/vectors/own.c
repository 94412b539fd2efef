/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * own.c - the wire format of each opcode, frozen: packets that uroce has sent, and what is in them.
 *
 *   own FILE            check the packets of a file of packets
 *   own --describe      make such a file of lines of hexadecimal digits on stdin (own.py chooses the packets); a line
 *                       that begins with + is a SEND, of which the same with invalidate is made
 *
 * A packet of the file is the line of its name, lines of what is in it, indented, and lines of its bytes, which begin
 * with a tab. For each one, packet_parse accepts it, finds what the file says, and packet_encode yields the same bytes;
 * with any one bit from the BTH on changed that the ICRC covers, it is refused. The file has a packet of each opcode of
 * the table but CNPs, which uroce does not send, and of each service over IPv6.
 */
#include "packet.h"
#include "wire.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX   4096
#define LINE_BYTES 55 /* per line */

struct vector {
	char text[TEXT_MAX]; /* the name, and what is in it */
	uint8_t data[NIC_FRAME_MAX];
	unsigned len, line;
};

static unsigned failures;

static void fail(const struct vector *v, const char *what)
{
	printf("FAILED line %u, %.*s: %s\n", v->line, (int)strcspn(v->text, "\n"), v->text, what);
	failures++;
}

/* ---- what is in a packet ----------------------------------------------------------------------------- */

__attribute__((format(printf, 2, 3))) static void add(char *text, const char *format, ...)
{
	size_t n = strlen(text);
	va_list args;

	va_start(args, format);
	vsnprintf(text + n, TEXT_MAX - n, format, args);
	va_end(args);
}

static void add_bytes(char *text, const uint8_t *bytes, unsigned n)
{
	while (n-- > 0)
		add(text, "%02x", *bytes++);
}

static void describe_extensions(char *text, const struct packet *p)
{
	unsigned hdrs = p->op->hdrs.bits;

	if (hdrs)
		add(text, "\n ");
	if (hdrs & HDR_XRCETH)
		add(text, " srqn=0x%06x", p->xrc_srqn);
	if (hdrs & HDR_DETH)
		add(text, " qkey=0x%08x src_qpn=0x%06x", p->qkey, p->src_qpn);
	if (hdrs & HDR_FETH)
		add(text, " feth=0x%08x", p->feth);
	if (hdrs & (HDR_RETH | HDR_ATOMIC | HDR_EXTATOMIC | HDR_ELEMENT))
		add(text, " va=0x%016llx rkey=0x%08x", (unsigned long long)p->va, p->rkey);
	if (hdrs & HDR_RETH)
		add(text, " length=%u", p->dma_len);
	if (hdrs & HDR_ATOMIC)
		add(text, " swap_add=0x%016llx compare=0x%016llx", (unsigned long long)p->swap_add,
		    (unsigned long long)p->compare);
	if (hdrs & HDR_EXTATOMIC)
		add(text, " log_size=%u", p->log_size);
	if (hdrs & HDR_ELEMENT)
		add(text, " op=%u datatype=%u flags=0x%02x count=%u", p->element.op, p->element.datatype,
		    p->element.flags, p->element.count);
	if (hdrs & HDR_AETH)
		add(text, " syndrome=0x%02x msn=0x%06x", p->syndrome, p->msn);
	if (hdrs & HDR_ATOMICACK)
		add(text, " original=0x%016llx", (unsigned long long)p->orig);
	if (hdrs & HDR_IMM)
		add(text, " immediate=0x%08x", wire_get32((const uint8_t *)&p->imm));
	if (hdrs & HDR_IETH)
		add(text, " invalidate=0x%08x", p->inv_rkey);
}

static void describe(char *text, const struct packet *p)
{
	unsigned shown = p->payload_len < 4 ? p->payload_len : 4;

	text[0] = '\0';
	add(text, "%s, IPv%u\n  source=", p->op->name, p->v4 ? 4 : 6);
	add_bytes(text, p->sgid.raw, sizeof(p->sgid.raw));
	add(text, " destination=");
	add_bytes(text, p->dgid.raw, sizeof(p->dgid.raw));
	add(text,
	    "\n  class=0x%02x hops=%u id=%u sport=%u opcode=0x%02x se=%u migreq=%u ackreq=%u pad=%u pkey=0x%04x\n",
	    p->tclass, p->hop_limit, p->v4 ? p->ip_id : 0u, p->udp_sport, p->op->value, p->se, p->migreq, p->ackreq,
	    p->pad, p->pkey);
	add(text, "  qpn=0x%06x psn=0x%06x", p->dest_qpn, p->psn);
	describe_extensions(text, p);
	add(text, "\n  payload=%u", p->payload_len);
	if (shown > 0) {
		add(text, " first=");
		add_bytes(text, p->payload, shown);
		add(text, " last=");
		add_bytes(text, p->payload + p->payload_len - shown, shown);
	}
	add(text, "\n");
}

/* ---- the file ---------------------------------------------------------------------------------------- */

/** @return the value of a hexadecimal digit; -1: it is none, such as the end of the line. */
static int digit(char c)
{
	static const char all[] = "0123456789abcdef";
	const char *at = c ? strchr(all, c) : NULL;

	return at ? (int)(at - all) : -1;
}

/** @return whether the digits are bytes, two of them each, that fit behind those of the packet. */
static bool take_bytes(struct vector *v, const char *digits)
{
	for (; digits[0] != '\0' && digits[0] != '\n'; digits += 2) {
		int high = digit(digits[0]), low = high < 0 ? -1 : digit(digits[1]);

		if (low < 0 || v->len == sizeof(v->data))
			return false;
		v->data[v->len++] = (uint8_t)(high << 4 | low);
	}
	return true;
}

/** Read the next packet. @return false at the end of the file. */
static bool next(FILE *file, struct vector *v, unsigned *line)
{
	char text[1024];
	int c;

	v->text[0] = '\0';
	v->len = 0;
	while ((c = fgetc(file)) != EOF) {
		ungetc(c, file);
		if (v->len > 0 && c != '\t')
			return true;
		if (!fgets(text, sizeof(text), file))
			break;
		++*line;
		if (c == '#' || c == '\n')
			continue;
		if (v->text[0] == '\0')
			v->line = *line;
		if (c != '\t')
			add(v->text, "%s", text);
		else if (!take_bytes(v, text + 1))
			fail(v, "bytes that are none");
	}
	return v->len > 0;
}

static void check_flips(struct vector *v)
{
	struct nic_rx_frame frame = {.data = v->data, .len = v->len};
	unsigned bth = v->data[0] >> 4 == 4 ? 28 : 48;
	struct packet p;

	for (unsigned bit = bth * 8; bit < v->len * 8; bit++) {
		if (bit / 8 == bth + BTH_ECN)
			continue; /* not covered */
		v->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (packet_parse(&frame, &p) == PACKET_OK)
			fail(v, "accepted with a flipped bit");
		v->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

static bool check(struct vector *v, struct packet *p)
{
	struct nic_rx_frame frame = {.data = v->data, .len = v->len};
	static uint8_t again[NIC_FRAME_MAX];
	char text[TEXT_MAX];

	if (packet_parse(&frame, p) != PACKET_OK) {
		fail(v, "refused");
		return false;
	}
	describe(text, p);
	if (strcmp(text, v->text) != 0) {
		fail(v, "something else is found in it:");
		fputs(text, stdout);
	}
	memset(again, 0xee, sizeof(again));
	if (packet_encode(p, again) != v->len || memcmp(again, v->data, v->len) != 0)
		fail(v, "encoded differently");
	check_flips(v);
	return true;
}

/** Lines that are no bytes, or not all of them, are refused. */
static void check_lines(void)
{
	static const char *const wrong[] = {"0", "0\n", "0a1", "0a1\n", "0a 1b", "0g", "g0", "+1", "0x", "0A"};
	static struct vector v = {.text = "a line of digits"};

	for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		v.len = 0;
		if (take_bytes(&v, wrong[i]))
			fail(&v, wrong[i]);
	}
	v.len = 0;
	if (!take_bytes(&v, "0aff\n") || v.len != 2 || v.data[0] != 0x0a || v.data[1] != 0xff)
		fail(&v, "0aff");
	v.len = sizeof(v.data) - 1;
	if (!take_bytes(&v, "00") || take_bytes(&v, "00"))
		fail(&v, "more bytes than a frame has");
}

/** Opcodes and services that no packet had. */
static void check_missing(const bool *seen, const bool *seen6)
{
	for (unsigned i = 0; i < 256; i++) {
		const struct opcode *op = op_get((uint8_t)i);

		if (!op || op->service == OP_CNP)
			continue;
		if (!seen[i] || !seen6[op->service >> 5]) {
			printf("FAILED: there is no packet %s%s\n", op->name, seen[i] ? "'s service over IPv6" : "");
			failures++;
		}
	}
}

static int check_file(const char *path)
{
	static bool seen[256], seen6[8];
	static struct vector v;
	unsigned line = 0, packets = 0;
	FILE *file = fopen(path, "r");
	struct packet p;

	if (!file) {
		perror(path);
		return 1;
	}
	check_lines();
	while (next(file, &v, &line)) {
		packets++;
		if (!check(&v, &p))
			continue;
		seen[p.op->value] = true;
		seen6[p.op->service >> 5] |= !p.v4;
	}
	fclose(file);
	check_missing(seen, seen6);
	printf("%u packets, %u failures\n", packets, failures);
	return failures ? 1 : 0;
}

/** Make of a SEND the same with invalidate. @return whether that is possible. */
static bool with_invalidate(struct vector *v, struct packet *p)
{
	static uint8_t made[NIC_FRAME_MAX];

	p->op = op_find((enum op_service)p->op->service, OP_SEND, (enum op_pos)p->op->pos, OP_INV);
	if (!p->op)
		return false;
	p->inv_rkey = 0x51525354;
	v->len = packet_encode(p, made);
	memcpy(v->data, made, v->len);
	return packet_parse(&(struct nic_rx_frame){.data = v->data, .len = v->len}, p) == PACKET_OK;
}

static int describe_stdin(void)
{
	static char digits[2 * NIC_FRAME_MAX + 3];
	static struct vector v;
	struct packet p;

	while (fgets(digits, sizeof(digits), stdin)) {
		struct nic_rx_frame frame = {.data = v.data};

		v.len = 0;
		if (!take_bytes(&v, digits + (digits[0] == '+')))
			return 1;
		frame.len = v.len;
		if (packet_parse(&frame, &p) != PACKET_OK || (digits[0] == '+' && !with_invalidate(&v, &p)))
			return 1;
		describe(v.text, &p);
		fputs(v.text, stdout);
		for (unsigned i = 0; i < v.len; i++)
			printf("%s%02x%s", i % LINE_BYTES == 0 ? "\t" : "", v.data[i],
			       i + 1 == v.len || i % LINE_BYTES == LINE_BYTES - 1 ? "\n" : "");
		putchar('\n');
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc != 2) {
		fprintf(stderr, "usage: own FILE | own --describe\n");
		return 2;
	}
	return strcmp(argv[1], "--describe") == 0 ? describe_stdin() : check_file(argv[1]);
}
