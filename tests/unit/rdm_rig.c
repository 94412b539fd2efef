/* SPDX-License-Identifier: BSD-3-Clause */
/* rdm_rig.c - see rdm_rig.h. */
#include "rdm_rig.h"

#include <stdlib.h>
#include <string.h>

#include "nic_capture.h"
#include "pieces.h"

#define STEPS	     2000000
#define READ_REQUEST 0x0c /* RC opcode */

uint32_t rdm_random(struct rdm_rig *rig, uint32_t below)
{
	rig->random = rig->random * 6364136223846793005u + 1442695040888963407u;
	return (uint32_t)(rig->random >> 33) % below;
}

static void nic_random(void *ctx, void *buf, size_t len)
{
	struct rdm_node *n = ctx;

	for (size_t i = 0; i < len; i++)
		((uint8_t *)buf)[i] = (uint8_t)rdm_random(n->rig, 256);
}

static bool guard(void *ctx, void (*fn)(void *arg), void *arg)
{
	struct rdm_node *n = ctx;

	if (n->unmapped)
		return false;
	fn(arg);
	return true;
}

static void done(void *ctx, const struct nic_rdm_done *d)
{
	struct rdm_node *n = ctx;

	if (n->told) {
		n->told(n, d);
		return;
	}
	assert_true(n->n_done < RDM_DONES);
	n->done[n->n_done++] = *d;
	if (n->completions)
		nic_trig_add(n->nic, n->completions, d->status != NIC_RDM_OK, 1);
}

static void served(void *ctx, struct nic_rdm_peer *peer, uint32_t rkey, bool read, bool write)
{
	struct rdm_node *n = ctx;

	assert_non_null(peer);
	assert_int_equal(rkey, nic_mr_rkey(n->mr));
	n->n_written += write;
	n->n_read += read;
	if (n->requests)
		nic_trig_add(n->nic, n->requests, false, 1);
}

static uint32_t route(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn)
{
	const struct rdm_node *n = ctx;

	(void)dgid;
	(void)dest_qpn;
	return n->path;
}

/** Revoke the held packet if QP `qpn` sent it (a response only if `answers`), or, with qpn 0, if it has a reference
 * with this key. No other packet can still be in flight. */
static void revoke(void *ctx, uint32_t qpn, bool answers, uint32_t key)
{
	struct rdm_node *n = ctx;
	struct rdm_said *said = &n->rig->held_said;

	n->revocations++;
	if (said->from != n || (qpn && (said->qpn != qpn || (said->answers && !answers))))
		return;
	for (uint32_t i = 0; i < said->n; i++)
		said->revoked |= qpn || said->piece[i].key == key;
}

static uint8_t *tx_room(void *ctx, uint32_t path, uint64_t *now_ns)
{
	struct rdm_node *n = ctx;
	struct rdm_rig *rig = n->rig;

	assert_false(rig->giving);
	if (!path || rig->no_room || rig->n_quick == RDM_QUICK ||
	    (rig->quick < 1000 && rdm_random(rig, 1000) >= rig->quick))
		return NULL;
	if (now_ns)
		*now_ns = rig->now;
	memset(n->room, 0xee, sizeof(n->room));
	return n->room;
}

/** Let the destination complete the packet, and queue it. */
static void tx_now(void *ctx, uint32_t path, const struct nic_tx_frame *frame, uint64_t now_ns)
{
	struct rdm_node *n = ctx;
	struct rdm_rig *rig = n->rig;
	struct rdm_quick *q = &rig->quick_packet[rig->n_quick];

	assert_true(path && path == n->path && frame->data == n->room && frame->bare && frame->len <= NIC_ROOM_LEN);
	assert_int_equal(now_ns, rig->now);
	rig->sent_quick++;
	for (unsigned i = 0; i < rig->nodes; i++) {
		struct nic_rx_frame rx = {.data = frame->data,
					  .len = frame->len,
					  .flags = NIC_RX_NO_ICRC | NIC_RX_BARE,
					  .src_qpn = frame->qpn,
					  .addresses = frame->addresses};

		if (!rig->node[i].nic || !nic_frame_address(rig->node[i].nic, &rx) ||
		    memcmp(&rx.dgid, &rig->node[i].gid, sizeof(rx.dgid)) || memcmp(&rx.sgid, &n->gid, sizeof(rx.sgid)))
			continue;
		*q = (struct rdm_quick){.from = (unsigned)(n - rig->node), .said.from = n};
		q->len = nic_frame_ip(&rx, q->ip, sizeof(q->ip));
		rig->n_quick++;
		return;
	}
	/* The destination does not know the connection any more: the packet is lost. */
}

void rdm_node_start(struct rdm_node *n)
{
	struct rdm_rig *rig = n->rig;
	const struct nic_config config = {.random = nic_random,
					  .guard = guard,
					  .route = route,
					  .revoke = revoke,
					  .tx_room = rig->quick ? tx_room : NULL,
					  .tx_now = tx_now,
					  .ctx = n,
					  .active_mtu = NIC_MTU_1024,
					  .max_inflight = 65536,
					  .ack_delay_ns = rig->ack_delay_ns};
	const uint32_t rights =
		NIC_ACCESS_LOCAL_WRITE | NIC_ACCESS_REMOTE_WRITE | NIC_ACCESS_REMOTE_READ | NIC_ACCESS_REMOTE_ATOMIC;
	struct nic_rdm_init init = rig->init;

	assert_int_equal(nic_create(&config, &n->nic), 0);
	n->path = 0;
	if (rig->refers || rig->quick)
		n->path = (uint32_t)nic_path_open(n->nic, NIC_PATH_NO_ICRC | (rig->refers ? NIC_PATH_REFERENCES : 0) |
								  (rig->lossless ? NIC_PATH_LOSSLESS : 0));
	assert_int_equal(nic_gid_set(n->nic, 0, &n->gid), 0);
	assert_int_equal(nic_pd_alloc(n->nic, &n->pd), 0);
	assert_int_equal(nic_mr_reg(n->pd, n->arena, RDM_ARENA, (uintptr_t)n->arena, rights, &n->mr), 0);
	init.pd = n->pd;
	init.addr = n->addr;
	init.done = done;
	init.served = served;
	init.ctx = n;
	assert_int_equal(nic_rdm_create(n->nic, &init, &n->ep), 0);
}

void rdm_node_stop(struct rdm_node *n)
{
	nic_destroy(n->nic);
	n->nic = NULL;
	/* The node's memory is gone as well, so nothing can be fetched from it. */
	n->rig->held_said.revoked |= n->rig->held_said.from == n;
}

struct rdm_rig *rdm_rig_create(unsigned nodes, uint64_t seed)
{
	struct rdm_rig *rig = calloc(1, sizeof(*rig));

	assert_non_null(rig);
	rig->nodes = nodes;
	rig->random = seed * 2 + 1;
	rig->init.connect_ns = 1000000000;
	for (unsigned i = 0; i < nodes; i++) {
		struct rdm_node *n = &rig->node[i];

		n->rig = rig;
		n->gid = (struct nic_gid){.raw = {[10] = 0xff, [11] = 0xff, 10, 0, 0, (uint8_t)(1 + i)}};
		memset(&n->addr, 0, sizeof(n->addr));
		n->addr.gid = n->gid;
		n->addr.port = (uint16_t)(RDM_PORT + i);
		n->arena = malloc(RDM_ARENA);
		assert_non_null(n->arena);
		memset(n->arena, 0, RDM_ARENA);
		rdm_node_start(n);
	}
	return rig;
}

void rdm_rig_destroy(struct rdm_rig *rig)
{
	for (unsigned i = 0; i < rig->nodes; i++) {
		if (rig->node[i].nic)
			rdm_node_stop(&rig->node[i]);
		free(rig->node[i].arena);
	}
	free(rig);
}

enum rdm_call_said rdm_call_of(const uint8_t *ip, uint32_t len)
{
	enum { BTH = 28, DETH_LEN = 8, MAGIC = BTH + 12 + DETH_LEN, UD_SEND_ONLY = 0x64 };
	static const uint8_t magic[4] = {'u', 'r', 'o', 'c'};

	if (len < MAGIC + 8 || ip[BTH] != UD_SEND_ONLY || memcmp(ip + MAGIC, magic, sizeof(magic)) != 0)
		return NO_CALL;
	return (enum rdm_call_said)ip[MAGIC + 5];
}

/** As nic_reference.fetch; ctx is a struct rdm_said. */
static bool fetch(void *ctx, uint32_t offset, void *dst, uint32_t len, void *last, uint32_t n_last)
{
	const struct rdm_said *said = ctx;
	struct rdm_rig *rig = said->from->rig;

	if (said->revoked || said->from->unmapped || rdm_random(rig, 1000) < rig->unread)
		return false;
	rig->fetched++;
	pieces_fetch(said->piece, said->n, offset, dst, len, last, n_last);
	return true;
}

static void deliver(struct rdm_rig *rig, const uint8_t *ip, uint32_t len, struct rdm_said *said)
{
	struct nic_reference reference = {.psns = said->psns, .fetch = fetch, .ctx = said};
	struct nic_rx_frame frame = {.data = ip, .len = len};

	if (said->from && said->from->path)
		frame.flags = NIC_RX_NO_ICRC;
	if (said->n)
		frame.reference = &reference;
	for (uint32_t i = 0; i < said->n; i++)
		reference.len += said->piece[i].len;
	for (unsigned i = 0; i < rig->nodes; i++)
		if (rig->node[i].nic && ip[19] == rig->node[i].gid.raw[15])
			nic_rx(rig->node[i].nic, &frame, rig->now);
}

void rdm_deliver(struct rdm_rig *rig, const uint8_t *ip, uint32_t len)
{
	deliver(rig, ip, len, &(struct rdm_said){0});
}

static void carry(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len, struct rdm_said *said)
{
	uint8_t before[NIC_FRAME_MAX];
	uint32_t before_len = rig->held_len;

	rig->sent++;
	if (rdm_random(rig, 1000) < rig->lose || (rig->cut && rig->cut(rig, from, ip, len))) {
		rig->lost++;
		return;
	}
	if (!before_len && rdm_random(rig, 1000) < rig->swap) {
		memcpy(rig->held, ip, len);
		rig->held_len = len;
		rig->held_said = *said;
		return;
	}
	rig->held_len = 0;
	if (before_len)
		memcpy(before, rig->held, before_len);
	deliver(rig, ip, len, said);
	if (rdm_random(rig, 1000) < rig->twice)
		deliver(rig, ip, len, said);
	if (before_len)
		deliver(rig, before, before_len, &rig->held_said);
}

/** Take one packet from the node. @return whether there was one */
static bool one_packet(struct rdm_rig *rig, struct rdm_node *n, struct nic_tx_frame *frame, struct rdm_said *said)
{
	uint32_t revocations = n->revocations;

	bool got;

	*said = (struct rdm_said){.from = n};
	frame->pieces = rig->refers ? said->piece : NULL;
	rig->giving = true;
	got = (n->path && nic_path_tx(n->nic, n->path, frame, 1, rig->now)) || nic_tx(n->nic, frame, 1, rig->now);
	rig->giving = false;
	if (!got)
		return false;
	said->n = rig->refers ? frame->n_pieces : 0;
	said->psns = frame->psns;
	said->qpn = frame->qpn;
	said->answers = frame->answers;
	said->revoked = n->revocations != revocations;
	rig->read_requests += frame->data[frame->bth] == READ_REQUEST;
	return true;
}

/** Carry the packet that was sent at once before all others. */
static void carry_quick(struct rdm_rig *rig)
{
	struct rdm_quick q = rig->quick_packet[0];

	memmove(rig->quick_packet, rig->quick_packet + 1, --rig->n_quick * sizeof(q));
	rig->now += 1000;
	carry(rig, q.from, q.ip, q.len, &q.said);
}

/** Carry one packet of each node. @return whether there was any */
static bool round_of_packets(struct rdm_rig *rig)
{
	uint8_t data[NIC_FRAME_MAX];
	bool any = rig->n_quick > 0;

	while (rig->n_quick > 0)
		carry_quick(rig);

	for (unsigned i = 0; i < rig->nodes; i++) {
		struct nic_tx_frame frame = {.data = data};
		struct rdm_said said;

		if (!rig->node[i].nic || !one_packet(rig, &rig->node[i], &frame, &said))
			continue;
		any = true;
		rig->now += 1000;
		carry(rig, i, data, frame.len, &said);
	}
	return any;
}

static void late_one(struct rdm_rig *rig)
{
	uint8_t data[NIC_FRAME_MAX];
	uint32_t len = rig->held_len;

	memcpy(data, rig->held, len);
	rig->held_len = 0;
	deliver(rig, data, len, &rig->held_said);
}

bool rdm_cut_all(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len)
{
	(void)rig;
	(void)from;
	(void)ip;
	(void)len;
	return true;
}

bool rdm_run(struct rdm_rig *rig, uint64_t ns)
{
	uint64_t until = rig->now + ns;

	for (unsigned step = 0; step < STEPS && rig->now < until; step++) {
		uint64_t deadline = UINT64_MAX;

		if (round_of_packets(rig))
			continue;
		if (rig->held_len) {
			late_one(rig);
			continue;
		}
		for (unsigned i = 0; i < rig->nodes; i++)
			if (rig->node[i].nic && nic_next_deadline(rig->node[i].nic) < deadline)
				deadline = nic_next_deadline(rig->node[i].nic);
		if (deadline == UINT64_MAX)
			return true;
		if (deadline >= until)
			break;
		rig->now = deadline > rig->now ? deadline : rig->now;
		for (unsigned i = 0; i < rig->nodes; i++)
			if (rig->node[i].nic)
				nic_timeout(rig->node[i].nic, rig->now);
	}
	if (rig->now < until)
		rig->now = until;
	return false;
}

struct nic_rdm_done rdm_next(struct rdm_node *n)
{
	assert_true(n->n_seen < n->n_done);
	return n->done[n->n_seen++];
}

struct nic_rdm_done rdm_expect_at(struct rdm_node *n, enum nic_rdm_kind kind, uint32_t status, uintptr_t context,
				  const char *file, int line)
{
	struct nic_rdm_done d;

	_assert_true(n->n_seen < n->n_done, "a completion", file, line);
	d = n->done[n->n_seen++];
	_assert_int_equal(d.kind, kind, file, line);
	_assert_int_equal(d.status, status, file, line);
	_assert_int_equal((uintptr_t)d.context, context, file, line);
	return d;
}

void rdm_expect_among(struct rdm_node *n, enum nic_rdm_kind kind, uintptr_t context)
{
	for (unsigned i = n->n_seen; i < n->n_done; i++) {
		struct nic_rdm_done d = n->done[i];

		if ((uintptr_t)d.context != context)
			continue;
		n->done[i] = n->done[n->n_seen];
		n->done[n->n_seen] = d;
		break;
	}
	rdm_expect(n, kind, NIC_RDM_OK, context);
}

struct nic_rdm_peer *rdm_peer(struct rdm_node *from, struct rdm_node *to)
{
	struct nic_rdm_peer *peer = nic_rdm_peer_get(from->ep, &to->addr);

	assert_non_null(peer);
	return peer;
}

int rdm_send(struct rdm_node *from, struct rdm_node *to, uintptr_t context, uint32_t flags, uint64_t tag, uint32_t at,
	     uint32_t len)
{
	const struct nic_iov iov = {from->arena + at, len};
	const struct nic_rdm_send r = {
		.context = (void *)context, .flags = flags, .iov = &iov, .n_iov = 1, .tag = tag, .data = ~tag};

	return nic_rdm_send(rdm_peer(from, to), &r);
}

int rdm_recv(struct rdm_node *n, struct rdm_node *from, uintptr_t context, uint32_t flags, uint64_t tag,
	     uint64_t ignore, uint32_t at, uint32_t len)
{
	const struct nic_iov iov = {n->arena + at, len};
	const struct nic_rdm_recv r = {.context = (void *)context,
				       .flags = flags,
				       .iov = &iov,
				       .n_iov = 1,
				       .tag = tag,
				       .ignore = ignore,
				       .from = from ? rdm_peer(n, from) : NULL,
				       .min_free = 64};

	return nic_rdm_recv(n->ep, &r);
}

static uint8_t byte_of(uint32_t i, uint32_t seed)
{
	return (uint8_t)(i * 7 + (i >> 8) * 3 + seed * 31 + 1);
}

void rdm_fill(struct rdm_node *n, uint32_t at, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		n->arena[at + i] = byte_of(i, seed);
}

bool rdm_holds(const struct rdm_node *n, uint32_t at, uint32_t len, uint32_t seed)
{
	for (uint32_t i = 0; i < len; i++)
		if (n->arena[at + i] != byte_of(i, seed))
			return false;
	return true;
}
