/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * node.c - a NIC and the loop that owns it: transmission at the port rate, timers (slightly late, like real ones),
 * events, completion queues that are polled or armed.
 *
 * Oracles here: tx_pending (nic_tx_pending and nic_tx agree), deadline (nic_timeout makes progress), frame_bounds,
 * icrc (a packet with flipped bits is refused, an intact one is not), forged (packets not sent by a holder of the key
 * are refused), key_counted (packets refused because of the key are counted), event_lost, event_spurious,
 * cq_overflow.
 */
#include "sim.h"

#include <errno.h>
#include <string.h>

static void node_random(void *ctx, void *buf, size_t len)
{
	struct node *node = ctx;

	rng_bytes(&node->nic_rng, buf, len);
}

static uint32_t node_route(void *ctx, const struct nic_gid *dgid, uint32_t dest_qpn)
{
	const struct node *node = ctx;

	(void)dgid;
	return dest_qpn & 1 ? node->path : 0;
}

static void node_address(const struct sim *sim, unsigned index, struct nic_gid *gid)
{
	static const uint8_t v4[16] = {[10] = 0xff, 0xff, 10, 0, 0, 0}, v6[16] = {0xfd};

	memcpy(gid->raw, sim->opts.ipv6 ? v6 : v4, 16);
	gid->raw[15] = (uint8_t)(index + 1);
}

/* Create a CQ for WAITs, which gets an entry on each node_tick(). */
static bool ticks_init(struct node *node)
{
	struct nic_qp_init init = {.type = NIC_QPT_RC, .pd = node->pd[0], .cap = {1, 0, 0, 0, 0}};
	const struct nic_qp_attr error = {.qp_state = NIC_QPS_ERR};

	if (nic_cq_create(node->nic, 4, NULL, &node->ticks) != 0)
		return false;
	nic_cq_ignore_overrun(node->ticks, true);
	init.send_cq = init.recv_cq = node->ticks;
	return nic_qp_create(node->nic, &init, &node->ticker) == 0 &&
	       nic_qp_modify(node->ticker, &error, NIC_QP_STATE) == 0;
}

void node_tick(struct sim *sim, void *arg)
{
	const struct nic_send_wr nop = {.opcode = NIC_WR_NOP};
	struct node *node = arg;

	if (node_is_stopped(node, node_tick, node))
		return;
	if (nic_post_send(node->ticker, &nop) != 0)
		sim_fail(sim, "api", "node %u: a QP in the error state refuses a request", node->index);
	node_kick(node);
}

bool node_init(struct sim *sim, unsigned index)
{
	static const uint8_t key[NIC_KEY_LEN] = "sim's own secret";
	struct node *node = &sim->node[index];
	struct nic_config config = {
		.active_mtu = (enum nic_mtu)sim->opts.mtu,
		.psn_window = sim->opts.psn_window,
		.max_inflight = sim->opts.max_inflight,
		.ack_delay_ns = sim->opts.ack_delay_ns,
		.trace_len = 256,
		.limits = {.max_qp = 64,
			   .max_cq = 64,
			   .max_srq = 8,
			   .max_pd = 8,
			   .max_mr = 64,
			   .max_mw = 64,
			   .max_ah = 64},
		.key = sim->opts.keyed ? key : NULL,
		.random = node_random,
		.route = node_route,
		.persist = place_persist,
		.tx_room = room_give,
		.tx_now = room_take,
		.ctx = node,
	};

	node->sim = sim;
	node->index = index;
	rng_init(&node->rng, sim->opts.seed, STREAM_NODE, index);
	rng_init(&node->nic_rng, sim->opts.seed, STREAM_NIC, index);
	rng_init(&node->rooms.rng, sim->opts.seed, STREAM_ROOM, index);
	if (rng_chance(&node->rng, 500)) {
		config.qpn_bits = 16;
		config.qpn_base = (index + 1) << 16;
	}
	if (nic_create(&config, &node->nic) != 0 || nic_pd_alloc(node->nic, &node->pd[0]) != 0 ||
	    nic_pd_alloc(node->nic, &node->pd[1]) != 0)
		return false;
	if (sim->opts.lossless) {
		/* node_transmit() adds the ICRC; paths without one have no tags either. */
		uint32_t bare = sim->opts.quick && !sim->opts.keyed ? NIC_PATH_NO_ICRC : 0;
		int path = nic_path_open(node->nic, NIC_PATH_LOSSLESS | bare);

		if (path < 0)
			return false;
		node->path = (uint32_t)path;
	}
	node_address(sim, index, &node->gid);
	if (nic_gid_set(node->nic, 0, &node->gid) != 0)
		return false;
	for (unsigned b = 0; b < SIM_BANKS; b++)
		if (!bank_init(&node->bank[b], node, (enum bank_kind)b))
			return false;
	node->timer_ns = UINT64_MAX;
	return (sim->opts.waits == 0 || ticks_init(node)) && (sim->opts.managed == 0 || enable_init(node));
}

void node_destroy(struct node *node)
{
	nic_destroy(node->nic);
	for (unsigned b = 0; b < SIM_BANKS; b++)
		bank_free(&node->bank[b]);
}

struct qp *node_qp(struct node *node, uint32_t qpn)
{
	for (unsigned i = 0; i < node->sim->qps; i++)
		if (node->sim->qp[i].node == node && node->sim->qp[i].qpn == qpn)
			return &node->sim->qp[i];
	return NULL;
}

/* ---- transmit ---------------------------------------------------------------------------------------- */

static struct node *node_by_gid(struct sim *sim, const struct nic_gid *gid)
{
	for (unsigned i = 0; i < sim->nodes; i++)
		if (memcmp(gid, &sim->node[i].gid, 16) == 0)
			return &sim->node[i];
	return NULL;
}

void node_transmit(struct node *node, struct nic_tx_frame *f)
{
	struct sim *sim = node->sim;
	struct node *to = node_by_gid(sim, &f->dgid);
	struct decoded d;
	char line[160];

	if (f->no_icrc)
		nic_frame_icrc_set(f->data, f->len);
	if (to == NULL || f->len > NIC_FRAME_MAX || !decode_frame(f->data, f->len, &d) || d.bth != f->bth) {
		sim_fail(sim, "frame", "node %u sent a frame that makes no sense (%u bytes)", node->index, f->len);
		return;
	}
	sim_hash(sim, &sim->now_ns, 8);
	sim_hash(sim, f->data, f->len);
	if (sim->verbose) {
		decode_print(&d, line, sizeof(line));
		sim_log(sim, "%u->%u  %06x %s", node->index, to->index, d.qpn, line);
	}
	struct qp *qp = node_qp(to, d.qpn);
	wire_sent(node, &d, f->data, qp);
	link_send(&sim->link[node->index][to->index], f->data, f->len, qp);
}

/** Fetch frames on both paths: a UD QP may use another path for each datagram. */
static unsigned fetch(struct node *node, struct nic_tx_frame *frames, unsigned n)
{
	const unsigned rounds = node->path ? 100 : 1;
	unsigned got = 0;

	for (unsigned i = 0; i < rounds && got < n && nic_tx_pending(node->nic); i++) {
		got += nic_tx(node->nic, frames + got, n - got, node_time(node));
		if (node->path)
			got += nic_path_tx(node->nic, node->path, frames + got, n - got, node_time(node));
	}
	return got;
}

static void node_tx(struct sim *sim, void *arg)
{
	static uint8_t buf[32][NIC_FRAME_MAX + 16];
	static const uint8_t canary[16] = "end of the frame";
	struct nic_tx_frame frames[32];
	struct node *node = arg;
	unsigned n, got;
	uint64_t bytes = 0, triggers = sim->stats.triggers;

	if (node_is_stopped(node, node_tx, node))
		return;
	n = 1 + (unsigned)rng_below(&node->rng, sim->opts.burst < 32 ? sim->opts.burst : 32);
	node->tx_scheduled = false;
	for (unsigned i = 0; i < n; i++) {
		frames[i] = (struct nic_tx_frame){.data = buf[i]};
		memcpy(buf[i] + NIC_FRAME_MAX, canary, 16);
	}
	node->giving = true;
	got = fetch(node, frames, n);
	node->giving = false;
	for (unsigned i = 0; i < got && !sim->failed; i++) {
		node_transmit(node, &frames[i]);
		bytes += frames[i].len;
		if (memcmp(buf[i] + NIC_FRAME_MAX, canary, 16) != 0)
			sim_fail(sim, "frame_bounds", "node %u wrote past the buffer of a frame", node->index);
	}
	node->tx_free_ns = sim->now_ns + bytes * sim->opts.ns_per_kib / 1024 + 1;
	/* not checked if triggers ran, because they may have posted WRs */
	if (got < n && nic_tx_pending(node->nic) && triggers == sim->stats.triggers)
		sim_fail(sim, "tx_pending", "node %u: nic_tx gave %u of %u, yet more is said to be pending",
			 node->index, got, n);
	node_kick(node);
}

/* ---- receive ----------------------------------------------------------------------------------------- */

static bool hand_in(struct node *node, struct frame *f)
{
	struct nic_rx_frame rx = {.data = f->data, .len = f->len};

	if (node->sim->opts.udp_port) {
		bool v4 = f->data[0] >> 4 == 4;
		unsigned bth = v4 ? 28 : 48;

		rx.data += bth;
		rx.len -= bth;
		rx.flags = NIC_RX_UDP_PAYLOAD | (v4 ? NIC_RX_IP_ID_UNKNOWN : 0);
		rx.sgid = f->link->from->gid;
		rx.dgid = f->link->to->gid;
		rx.udp_sport = (uint16_t)(f->data[bth - 8] << 8 | f->data[bth - 7]);
		rx.tclass = v4 ? f->data[1] : (uint8_t)(f->data[0] << 4 | f->data[1] >> 4);
		rx.hop_limit = v4 ? f->data[8] : f->data[7];
	}
	return nic_rx(node->nic, &rx, node_time(node));
}

/** @return how many packets were refused before the QP lookup, for reasons that an attacker can cause. */
static uint64_t refused(const struct nic *nic)
{
	const uint64_t *c = nic_counters(nic);

	return c[NIC_CNT_rx_key_missing] + c[NIC_CNT_rx_key_wrong] + c[NIC_CNT_rx_too_short] + c[NIC_CNT_rx_too_long] +
	       c[NIC_CNT_rx_bad_pad];
}

void node_rx(struct sim *sim, void *arg)
{
	struct frame *f = arg;
	struct node *node = f->link->to;
	struct qp *qp = f->to;
	struct decoded d;
	bool intact, taken;
	uint64_t before;

	if (node_is_stopped(node, node_rx, f))
		return;
	intact = decode_frame(f->data, f->len, &d);
	if (qp != NULL)
		qp->in_flight--;
	before = refused(node->nic);
	node->arriving = qp != NULL && qp->incarnation == f->incarnation ? qp : NULL;
	node->arriving_psn = d.psn;
	taken = hand_in(node, f);
	node->arriving = NULL;
	if (taken && intact && qp != NULL && qp->incarnation == f->incarnation)
		wire_received(&d, qp);
	if (taken && f->forged)
		sim_fail(sim, "forged", "node %u took a packet that nobody with the key has sent", node->index);
	if (f->forged && refused(node->nic) != before + 1)
		sim_fail(sim, "key_counted", "node %u refused a packet and did not count it", node->index);
	if (taken && f->corrupt)
		sim_fail(sim, "icrc", "node %u took a packet with flipped bits", node->index);
	if (!taken && !f->touched && !f->forged)
		sim_fail(sim, "icrc", "node %u refused an intact packet", node->index);
	f->next_free = sim->free_frames;
	sim->free_frames = f;
	node_kick(node);
}

/* ---- events, timers ---------------------------------------------------------------------------------- */

static void qp_event(struct sim *sim, struct qp *qp, enum nic_event_type type)
{
	bool bad = type == NIC_EVENT_QP_FATAL || type == NIC_EVENT_QP_REQ_ERR || type == NIC_EVENT_QP_ACCESS_ERR;

	sim_log(sim, "    event %d on QP %06x", (int)type, qp->qpn);
	if (type == NIC_EVENT_SQ_DRAINED)
		qp_drained(qp);
	if (type == NIC_EVENT_QP_ACCESS_ERR)
		qp->reqs_access++;
	if (type == NIC_EVENT_QP_REQ_ERR)
		qp->reqs_err++;
	if (bad && !qp->err_expected)
		sim_fail(sim, "event_spurious", "event %d on QP %06x, to which nothing was done", (int)type, qp->qpn);
	if (bad)
		qp_break(qp, "event");
}

static void cq_event(struct sim *sim, struct cq *cq, enum nic_event_type type)
{
	if (type == NIC_EVENT_CQ_ERR) {
		if (!sim->opts.cq_small)
			sim_fail(sim, "cq_overflow", "node %u: a CQ that is large enough overflowed", cq->node->index);
		cq->dead = true;
		sim->stats.overflows++;
		cq_poll_soon(cq, 1000);
		for (unsigned i = 0; i < sim->qps; i++) {
			struct qp *qp = &sim->qp[i];

			if (qp->scq == cq || qp->rcq == cq) {
				qp->err_expected = true;
				qp_break(qp, "CQ overflow");
			}
		}
		return;
	}
	if (!cq->armed)
		sim_fail(sim, "event_spurious", "node %u: completion event of a CQ that was not armed",
			 cq->node->index);
	cq->armed = false;
	cq_poll_soon(cq, 1 + rng_below(&cq->rng, 2000));
}

static void node_events(struct node *node)
{
	struct sim *sim = node->sim;
	struct nic_event e;

	while (!sim->failed && nic_event_next(node->nic, &e)) {
		if (e.type == NIC_EVENT_COMP || e.type == NIC_EVENT_CQ_ERR)
			cq_event(sim, e.user, e.type);
		else if (e.type == NIC_EVENT_SRQ_LIMIT)
			srq_kick(e.user, 0);
		else if (e.user != NULL)
			qp_event(sim, e.user, e.type);
	}
	if (!sim->opts.cq_events)
		return;
	for (unsigned i = 0; i < node->cqs; i++) {
		struct cq *cq = &node->cq[i];

		if (cq->armed && !cq->armed_solicited && !cq->dead && nic_cq_count(cq->cq) > cq->since_arm)
			sim_fail(sim, "event_lost", "node %u: an armed CQ got an entry and raised no event",
				 node->index);
	}
}

static void node_timer(struct sim *sim, void *arg)
{
	struct node *node = arg;
	uint64_t now;

	if (sim->now_ns != node->timer_ns)
		return; /* another timer event, set for an earlier time, has replaced this one */
	if (node_is_stopped(node, node_timer, node)) {
		node->timer_ns = node->clock.stopped_until_ns;
		return;
	}
	node->timer_ns = UINT64_MAX;
	now = node_time(node);
	if (nic_time(node->nic, now) <= now) {
		nic_timeout(node->nic, now);
		if (nic_next_deadline(node->nic) <= now)
			sim_fail(sim, "deadline", "node %u: nic_timeout left an expired deadline", node->index);
	}
	node_kick(node);
}

void node_kick(struct node *node)
{
	struct sim *sim = node->sim;
	uint64_t due;

	if (sim->failed || node->amid)
		return;
	node_events(node);
	atomics_watch(node);
	rooms_send(node);
	if (rng_chance(&node->rng, 20))
		nic_ack_flush(node->nic, rng_chance(&node->rng, 500));
	if (!node->tx_scheduled && nic_tx_pending(node->nic)) {
		uint64_t at = sim->now_ns + rng_below(&node->rng, 300);

		node->tx_scheduled = true;
		sched_at(sim, at > node->tx_free_ns ? at : node->tx_free_ns, node_tx, node);
	}
	due = node_due(node, nic_next_deadline(node->nic));
	if (due < node->timer_ns) {
		if (due < sim->now_ns)
			due = sim->now_ns;
		node->timer_ns = due + rng_below(&node->rng, 500);
		sched_at(sim, node->timer_ns, node_timer, node);
	}
}

/* ---- completion queues ------------------------------------------------------------------------------- */

static void cq_poll(struct sim *sim, void *arg)
{
	struct cq *cq = arg;
	uint64_t range;

	if (node_is_stopped(cq->node, cq_poll, cq))
		return;
	cq->poll_scheduled = false;
	cq->empty_polls = nic_cq_count(cq->cq) > 0 ? 0 : cq->empty_polls + (cq->empty_polls < 8);
	cq_drain(cq);
	if (sim->failed)
		return;
	if (cq->dead) {
		if (nic_cq_count(cq->cq) > 0)
			cq_poll_soon(cq, 1000);
		return;
	}
	if (!sim->opts.cq_events) {
		range = (uint64_t)cq->interval_ns << cq->empty_polls;
		cq_poll_soon(cq, 1 + rng_below(&cq->rng, cq->empty_polls < 8 ? range : sim_pause(sim, range)));
		return;
	}
	if (!cq->armed) {
		cq->armed_solicited = rng_chance(&cq->rng, 200);
		cq->armed = true;
		cq->since_arm = nic_cq_count(cq->cq);
		nic_cq_arm(cq->cq, cq->armed_solicited);
	}
	/* CQEs left in the CQ, and CQEs that are not solicited, raise no event: poll again later without an event. */
	if (nic_cq_count(cq->cq) > 0 || cq->armed_solicited)
		cq_poll_soon(cq, sim_pause(sim, 1000 + rng_below(&cq->rng, 4ull * cq->interval_ns)));
	node_kick(cq->node);
}

void cq_poll_soon(struct cq *cq, uint64_t delay_ns)
{
	if (cq->poll_scheduled)
		return;
	cq->poll_scheduled = true;
	sched_at(cq->node->sim, cq->node->sim->now_ns + delay_ns, cq_poll, cq);
}

/** Poll a random number of entries, often all. */
void cq_drain(struct cq *cq)
{
	struct sim *sim = cq->node->sim;
	struct nic_wc wc[16];
	bool all = rng_chance(&cq->rng, 800), polled = false;
	int n;

	do {
		int want = cq->one_by_one ? 1 : 1 + (int)rng_below(&cq->rng, 16);

		memset(wc, 0xee, sizeof(wc));
		n = nic_cq_poll(cq->cq, want, wc);
		if (n < 0 && (!cq->dead || n != -EIO))
			sim_fail(sim, "cq_overflow", "nic_cq_poll returned %d", n);
		if (n == 0 && cq->dead)
			sim_fail(sim, "cq_overflow", "an overflowed CQ that has been emptied does not say so");
		if (n > want)
			sim_fail(sim, "api", "nic_cq_poll gave more than was asked for");
		for (int i = 0; i < n && !sim->failed; i++) {
			if (cq->armed && cq->armed_solicited && cq->since_arm == 0 && deliver_is_solicited(cq, &wc[i]))
				sim_fail(sim, "event_lost", "node %u: a solicited entry raised no event",
					 cq->node->index);
			if (cq->since_arm > 0)
				cq->since_arm--;
			complete(cq, &wc[i]);
		}
		polled |= n != 0;
	} while (n > 0 && all && !sim->failed);
	if (polled)
		node_kick(cq->node);
}
