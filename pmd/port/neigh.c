/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * neigh.c - neighbour table, ARP and neighbour discovery for ports that have no kernel IP stack.
 *
 * Resolves addresses (with a few retries, while packets queue), answers requests for our own address, and asks again
 * when an expired entry is used. Creates entries only to resolve an address, and from ARP packets and solicitations
 * whose target is our address; other ARP packets and advertisements only update existing entries. Does not route: the
 * port picks the next hop. Does no duplicate address detection, because the address is configured.
 *
 * Owns: the table and the packets queued in it.
 */
#include <string.h>

#include "neigh.h"

#define ETHERTYPE_ARP  0x0806
#define ETHERTYPE_IPV6 0x86dd

/* ARP for IPv4 over Ethernet, after the Ethernet header:
 *  0 htype 2 | 2 ptype 2 | 4 hlen 1 | 5 plen 1 | 6 oper 2 | 8 sha 6 | 14 spa 4 | 18 tha 6 | 24 tpa 4 */
#define ARP_LEN	    28
#define ARP_REQUEST 1
#define ARP_REPLY   2

/* IPv6 (40), then ICMPv6: 0 type 1 | 1 code 1 | 2 checksum 2 | 4 flags 4 | 8 target 16 | 24 option: type 1, length 1
 * (in units of 8), address 6 */
#define ND_LEN			    32
#define ND_SOLICIT		    135
#define ND_ADVERTISE		    136
#define ND_FLAGS_SOLICITED_OVERRIDE 0x60
#define ND_FLAGS_OVERRIDE	    0x20
#define ND_OPT_SOURCE		    1
#define ND_OPT_TARGET		    2
#define IPPROTO_ICMP6		    58

static const uint8_t broadcast[6] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static void put16(uint8_t *p, unsigned v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
}

void neigh_init(struct neigh *n, const struct nic_gid *self, const uint8_t mac[6], const struct neigh_ops *ops,
		void *ctx)
{
	static const uint8_t v4[12] = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff};

	memset(n, 0, sizeof(*n));
	n->self = *self;
	n->v4 = memcmp(self->raw, v4, sizeof(v4)) == 0;
	memcpy(n->mac, mac, 6);
	n->ops = ops;
	n->ctx = ctx;
	n->next_ns = UINT64_MAX;
}

/* ---- frames ------------------------------------------------------------------------------------------------- */

static uint8_t *ether_header(const struct neigh *n, uint8_t *frame, const uint8_t dst[6], unsigned type)
{
	memset(frame, 0, NEIGH_FRAME_MAX);
	memcpy(frame, dst, 6);
	memcpy(frame + 6, n->mac, 6);
	put16(frame + 12, type);
	return frame + NEIGH_ETHER_LEN;
}

static bool arp_transmit(struct neigh *n, unsigned oper, const uint8_t dst[6], const uint8_t tha[6],
			 const uint8_t tpa[4])
{
	uint8_t frame[NEIGH_FRAME_MAX], *a = ether_header(n, frame, dst, ETHERTYPE_ARP);

	put16(a, 1);
	put16(a + 2, 0x0800);
	a[4] = 6;
	a[5] = 4;
	put16(a + 6, oper);
	memcpy(a + 8, n->mac, 6);
	memcpy(a + 14, n->self.raw + 12, 4);
	memcpy(a + 18, tha, 6);
	memcpy(a + 24, tpa, 4);
	return n->ops->transmit(n->ctx, frame, 60); /* 60: the shortest Ethernet frame, without FCS */
}

/** Checksum of an ICMPv6 message with its pseudo-header. For a received message, 0 means that it is correct. */
static uint16_t icmp6_checksum(const uint8_t *ip, const uint8_t *icmp, uint32_t len)
{
	uint32_t sum = len + IPPROTO_ICMP6;

	for (unsigned i = 8; i < 40; i += 2)
		sum += get16(ip + i);
	for (uint32_t i = 0; i + 1 < len; i += 2)
		sum += get16(icmp + i);
	if (len & 1)
		sum += (uint32_t)icmp[len - 1] << 8;
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

static bool nd_transmit(struct neigh *n, unsigned type, const uint8_t mac[6], const uint8_t dst[16],
			const uint8_t target[16])
{
	uint8_t frame[NEIGH_FRAME_MAX], *ip = ether_header(n, frame, mac, ETHERTYPE_IPV6), *icmp = ip + 40;

	ip[0] = 0x60;
	put16(ip + 4, ND_LEN);
	ip[6] = IPPROTO_ICMP6;
	ip[7] = 255;
	memcpy(ip + 8, n->self.raw, 16);
	memcpy(ip + 24, dst, 16);
	icmp[0] = (uint8_t)type;
	if (type == ND_ADVERTISE)
		icmp[4] = dst[0] == 0xff ? ND_FLAGS_OVERRIDE : ND_FLAGS_SOLICITED_OVERRIDE; /* RFC 4861 7.1.2 */
	memcpy(icmp + 8, target, 16);
	icmp[24] = type == ND_ADVERTISE ? ND_OPT_TARGET : ND_OPT_SOURCE;
	icmp[25] = 1;
	memcpy(icmp + 26, n->mac, 6);
	put16(icmp + 2, icmp6_checksum(ip, icmp, ND_LEN));
	return n->ops->transmit(n->ctx, frame, NEIGH_ETHER_LEN + 40 + ND_LEN);
}

static void ask(struct neigh *n, const struct neigh_entry *e)
{
	static const uint8_t nobody[6];

	if (n->v4) {
		n->requests += arp_transmit(n, ARP_REQUEST, broadcast, nobody, e->addr.raw + 12);
	} else {
		/* Solicited-node multicast group of the address, and the group's MAC. */
		uint8_t group[16] = {0xff, 0x02, [11] = 1, [12] = 0xff}, mac[6] = {0x33, 0x33, 0xff};

		memcpy(group + 13, e->addr.raw + 13, 3);
		memcpy(mac + 3, e->addr.raw + 13, 3);
		n->requests += nd_transmit(n, ND_SOLICIT, mac, group, e->addr.raw);
	}
}

void neigh_announce(struct neigh *n)
{
	static const uint8_t nobody[6], all_nodes[16] = {0xff, 0x02, [15] = 1},
					all_nodes_mac[6] = {0x33, 0x33, 0, 0, 0, 1};

	if (n->v4)
		n->requests += arp_transmit(n, ARP_REQUEST, broadcast, nobody, n->self.raw + 12);
	else
		n->replies += nd_transmit(n, ND_ADVERTISE, all_nodes_mac, all_nodes, n->self.raw);
}

/* ---- table -------------------------------------------------------------------------------------------------- */

static unsigned first_slot(const struct nic_gid *addr)
{
	return (addr->raw[15] + addr->raw[14] * 3u + addr->raw[13] * 7u) % NEIGH_ENTRIES;
}

static struct neigh_entry *find(struct neigh *n, const struct nic_gid *addr)
{
	unsigned slot = first_slot(addr);

	for (unsigned i = 0; i < NEIGH_ENTRIES; i++) {
		struct neigh_entry *e = &n->entries[(slot + i) % NEIGH_ENTRIES];

		if (e->state == NEIGH_FREE)
			return NULL;
		if (memcmp(&e->addr, addr, sizeof(*addr)) == 0)
			return e;
	}
	return NULL;
}

static void set_deadline(struct neigh *n, struct neigh_entry *e, uint64_t deadline_ns)
{
	e->deadline_ns = deadline_ns;
	if (deadline_ns < n->next_ns)
		n->next_ns = deadline_ns;
}

static void drop_queue(struct neigh *n, struct neigh_entry *e)
{
	for (unsigned i = 0; i < e->queued; i++) {
		n->failed++;
		n->ops->drop(n->ctx, e->queue[i]);
	}
	n->held -= e->queued;
	e->queued = 0;
}

/** Whether the entry has a MAC that is valid now. */
static bool answered(const struct neigh_entry *e, uint64_t now_ns)
{
	return e->state == NEIGH_REFRESHING || (e->state == NEIGH_KNOWN && e->deadline_ns > now_ns);
}

/** Get an entry for a new address. Entries are never freed, so linear probing works. If the table is full, the least
 *  recently used entry is reused, one of a neighbour that answers only if there is no other: a process that sends to
 *  many addresses of nobody does not disturb connections. find() then probes all entries, so it still finds every
 *  address. */
static struct neigh_entry *add(struct neigh *n, const struct nic_gid *addr, uint64_t now_ns)
{
	unsigned slot = first_slot(addr);
	struct neigh_entry *oldest = NULL, *e;
	bool better;

	for (unsigned i = 0; i < NEIGH_ENTRIES; i++) {
		e = &n->entries[(slot + i) % NEIGH_ENTRIES];
		if (e->state == NEIGH_FREE) {
			oldest = e;
			break;
		}
		better = !oldest || (answered(e, now_ns) == answered(oldest, now_ns) ? e->used_ns < oldest->used_ns
										     : answered(oldest, now_ns));
		if (better)
			oldest = e;
	}
	drop_queue(n, oldest);
	memset(oldest, 0, sizeof(*oldest));
	oldest->addr = *addr;
	oldest->used_ns = now_ns;
	oldest->state = NEIGH_ASKING;
	return oldest;
}

static void learn(struct neigh *n, struct neigh_entry *e, const uint8_t mac[6], uint64_t now_ns)
{
	memcpy(e->mac, mac, 6);
	e->state = NEIGH_KNOWN;
	e->tries = 0;
	set_deadline(n, e, now_ns + NEIGH_REACHABLE_NS);
	for (unsigned i = 0; i < e->queued; i++)
		n->ops->release(n->ctx, e->queue[i], e->mac);
	n->held -= e->queued;
	e->queued = 0;
}

static void start_asking(struct neigh *n, struct neigh_entry *e, uint64_t now_ns)
{
	e->tries = 1;
	set_deadline(n, e, now_ns + NEIGH_RETRY_NS);
	ask(n, e);
}

/** Get the entry of an address that is used now, and ask for its MAC if that is due. @param packet true: there is a
 *  packet for the address; false: the address is only resolved in advance. For NEIGH_FAILED_NS after a failure, we
 *  send no request. The exception is the first packet for an address that only neigh_resolve() has asked for so far. */
static struct neigh_entry *use(struct neigh *n, const struct nic_gid *addr, bool packet, uint64_t now_ns)
{
	struct neigh_entry *e = find(n, addr);

	if (!e || (e->state == NEIGH_FAILED && (e->deadline_ns <= now_ns || (packet && !e->sent_to)))) {
		if (!e)
			e = add(n, addr, now_ns);
		e->state = NEIGH_ASKING;
		e->sent_to = false;
		start_asking(n, e, now_ns);
	}
	e->used_ns = now_ns;
	e->sent_to |= packet;
	if (e->state == NEIGH_KNOWN && e->deadline_ns <= now_ns) {
		e->state = NEIGH_REFRESHING;
		start_asking(n, e, now_ns);
	}
	return e;
}

bool neigh_resolve(struct neigh *n, const struct nic_gid *addr, uint64_t now_ns)
{
	return use(n, addr, false, now_ns)->state == NEIGH_ASKING;
}

enum neigh_verdict neigh_send(struct neigh *n, const struct nic_gid *addr, void *packet, uint64_t now_ns,
			      uint8_t mac[6])
{
	struct neigh_entry *e = use(n, addr, true, now_ns);

	if (e->state == NEIGH_KNOWN || e->state == NEIGH_REFRESHING) {
		memcpy(mac, e->mac, 6);
		return NEIGH_READY;
	}
	if (e->state == NEIGH_FAILED) {
		n->failed++;
		return NEIGH_REFUSED;
	}
	if (e->queued == NEIGH_QUEUE || n->held == NEIGH_HELD_MAX) {
		n->queue_full++;
		return NEIGH_REFUSED;
	}
	e->queue[e->queued++] = packet;
	n->held++;
	return NEIGH_QUEUED;
}

uint64_t neigh_timeout(struct neigh *n, uint64_t now_ns)
{
	if (now_ns < n->next_ns)
		return n->next_ns;
	n->next_ns = UINT64_MAX;
	for (unsigned i = 0; i < NEIGH_ENTRIES; i++) {
		struct neigh_entry *e = &n->entries[i];
		bool asking = e->state == NEIGH_ASKING || e->state == NEIGH_REFRESHING;

		if (!asking)
			continue; /* entries in the states KNOWN and FAILED are checked when they are used */
		if (e->deadline_ns > now_ns) {
			set_deadline(n, e, e->deadline_ns);
		} else if (e->tries < NEIGH_TRIES) {
			e->tries++;
			set_deadline(n, e, now_ns + NEIGH_RETRY_NS);
			ask(n, e);
		} else {
			drop_queue(n, e);
			e->state = NEIGH_FAILED;
			e->deadline_ns = now_ns + NEIGH_FAILED_NS;
		}
	}
	return n->next_ns;
}

void neigh_clear(struct neigh *n)
{
	for (unsigned i = 0; i < NEIGH_ENTRIES; i++)
		drop_queue(n, &n->entries[i]);
}

/* ---- receive ------------------------------------------------------------------------------------------------ */

/** Store the MAC that a received frame gives for address `addr`. If the frame's target is our address (`for_us`) and
 *  `addr` has no entry, create an entry, because we will probably send to `addr`. */
static void heard(struct neigh *n, const struct nic_gid *addr, const uint8_t mac[6], bool for_us, uint64_t now_ns)
{
	struct neigh_entry *e;

	if ((mac[0] & 1) || memcmp(addr, &n->self, sizeof(*addr)) == 0)
		return;
	e = find(n, addr);
	if (!e && for_us)
		e = add(n, addr, now_ns);
	if (e)
		learn(n, e, mac, now_ns);
}

static void arp_rx(struct neigh *n, const uint8_t *a, uint32_t len, uint64_t now_ns)
{
	struct nic_gid sender = n->self;
	bool for_us;

	if (!n->v4)
		return;
	if (len < ARP_LEN || get16(a) != 1 || get16(a + 2) != 0x0800 || a[4] != 6 || a[5] != 4) {
		n->malformed++;
		return;
	}
	memcpy(sender.raw + 12, a + 14, 4);
	for_us = memcmp(a + 24, n->self.raw + 12, 4) == 0;
	if ((a[14] | a[15] | a[16] | a[17]) != 0) /* an address probe (RFC 5227) has sender address 0.0.0.0 */
		heard(n, &sender, a + 8, for_us, now_ns);
	if (for_us && get16(a + 6) == ARP_REQUEST) {
		n->replies += arp_transmit(n, ARP_REPLY, a + 8, a + 8, a + 14);
	}
}

/** Find the link-layer address in the option of the given type. @return NULL: there is none. */
static const uint8_t *nd_option(const uint8_t *icmp, uint32_t len, uint8_t type)
{
	for (uint32_t at = 24; at + 8 <= len;) {
		uint32_t option_len = icmp[at + 1] * 8u;

		if (option_len == 0 || at + option_len > len)
			return NULL;
		if (icmp[at] == type)
			return icmp + at + 2;
		at += option_len;
	}
	return NULL;
}

static bool nd_rx(struct neigh *n, const uint8_t *frame, uint32_t len, uint64_t now_ns)
{
	static const uint8_t all_nodes[16] = {0xff, 0x02, [15] = 1};
	const uint8_t *ip = frame + NEIGH_ETHER_LEN, *icmp = ip + 40, *mac;
	struct nic_gid who;
	uint32_t icmp_len;
	bool unspecified = true;

	if (len < NEIGH_ETHER_LEN + 40 + 24 || ip[6] != IPPROTO_ICMP6)
		return false;
	if (icmp[0] != ND_SOLICIT && icmp[0] != ND_ADVERTISE)
		return false;
	icmp_len = get16(ip + 4);
	if (n->v4)
		return true;
	if (icmp_len < 24 || icmp_len > len - NEIGH_ETHER_LEN - 40 || ip[7] != 255 || icmp[1] != 0 ||
	    icmp6_checksum(ip, icmp, icmp_len) != 0) {
		n->malformed++;
		return true;
	}
	if (icmp[0] == ND_ADVERTISE) {
		mac = nd_option(icmp, icmp_len, ND_OPT_TARGET);
		memcpy(who.raw, icmp + 8, 16);
		heard(n, &who, mac ? mac : frame + 6, false, now_ns);
		return true;
	}
	if (memcmp(icmp + 8, n->self.raw, 16) != 0)
		return true;
	for (unsigned i = 0; i < 16; i++)
		unspecified &= ip[8 + i] == 0;
	mac = nd_option(icmp, icmp_len, ND_OPT_SOURCE);
	memcpy(who.raw, ip + 8, 16);
	if (!unspecified)
		heard(n, &who, mac ? mac : frame + 6, true, now_ns);
	n->replies +=
		nd_transmit(n, ND_ADVERTISE, mac ? mac : frame + 6, unspecified ? all_nodes : ip + 8, n->self.raw);
	return true;
}

bool neigh_rx(struct neigh *n, const uint8_t *frame, uint32_t len, uint64_t now_ns)
{
	if (len < NEIGH_ETHER_LEN)
		return false;
	switch (get16(frame + 12)) {
	case ETHERTYPE_ARP:
		arp_rx(n, frame + NEIGH_ETHER_LEN, len - NEIGH_ETHER_LEN, now_ns);
		return true;
	case ETHERTYPE_IPV6:
		return nd_rx(n, frame, len, now_ns);
	default:
		return false;
	}
}
