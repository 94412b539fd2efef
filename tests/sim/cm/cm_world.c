/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_world.c - the clock, the network and the hosts of uroce_cm_sim; see cm_sim.h. */
#include "cm_sim.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#define ID_BITS	      20
#define SETTLE_NS     600000000000ull /* virtual time; longer than the retries of all connections take */
#define STRANGER      200	      /* the last byte of a stranger's address */
#define ADOPT_US      1000000
#define FLOOD_PENDING 32 /* requests that may wait for an answer */

/* ---- Reports --------------------------------------------------------------------------------------------------- */

static void line(struct cm_world *w, const char *format, va_list ap)
{
	printf("%12.6f ms  ", (double)w->now / 1e6);
	vprintf(format, ap);
	putchar('\n');
}

void cm_violation(struct cm_world *w, const char *format, ...)
{
	va_list ap;

	if (!w->failed)
		printf("VIOLATION of connections, seed %llu:\n", (unsigned long long)w->opts->seed);
	w->failed = true;
	va_start(ap, format);
	line(w, format, ap);
	va_end(ap);
}

void cm_trace(struct cm_world *w, const char *format, ...)
{
	va_list ap;

	if (!w->verbose)
		return;
	va_start(ap, format);
	line(w, format, ap);
	va_end(ap);
}

/* ---- What is to come, earliest first ---------------------------------------------------------------------------- */

static bool before(const struct cm_item *a, const struct cm_item *b)
{
	return a->at != b->at ? a->at < b->at : a->seq < b->seq;
}

static struct cm_item *item_add(struct cm_world *w, enum cm_item_kind kind, uint64_t at)
{
	struct cm_item *item = calloc(1, sizeof(*item));
	uint32_t i;

	if (w->heap_len + 2 > w->heap_room) {
		w->heap_room = w->heap_room ? w->heap_room * 2 : 256;
		w->heap = realloc(w->heap, w->heap_room * sizeof(*w->heap));
	}
	item->kind = kind;
	item->at = at;
	item->seq = w->seq++;
	for (i = ++w->heap_len; i > 1 && before(item, w->heap[i / 2]); i /= 2)
		w->heap[i] = w->heap[i / 2];
	w->heap[i] = item;
	return item;
}

static struct cm_item *item_take(struct cm_world *w)
{
	struct cm_item *first = w->heap[1], *last = w->heap[w->heap_len--];
	uint32_t i = 1;

	for (uint32_t child; (child = 2 * i) <= w->heap_len; i = child) {
		if (child < w->heap_len && before(w->heap[child + 1], w->heap[child]))
			child++;
		if (!before(w->heap[child], last))
			break;
		w->heap[i] = w->heap[child];
	}
	w->heap[i] = last;
	return first;
}

void cm_act_later(struct cm_world *w, struct cm_end *end, uint64_t us)
{
	item_add(w, ITEM_ACT, w->now + us * 1000)->end = end;
}

/* ---- The network ----------------------------------------------------------------------------------------------- */

struct nic_gid cm_host_gid(unsigned host)
{
	return (struct nic_gid){{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)(host + 1)}};
}

static uint64_t delay(struct cm_world *w)
{
	return rng_range(&w->net, 1000, nic_timeout_ns(w->opts->life) - 1);
}

static struct cm_item *packet(struct cm_world *w, const struct nic_gid *from, const struct nic_gid *to,
			      const uint8_t *mad)
{
	struct cm_item *item = item_add(w, ITEM_MAD, w->now + delay(w));

	item->from = *from;
	item->to = *to;
	item->len = NIC_CM_MAD_LEN;
	memcpy(item->mad, mad, NIC_CM_MAD_LEN);
	return item;
}

/** Send a strange copy of a MAD, which must change nothing: either from an address without a connection, mostly with
 * flipped bits; or from the right address, but invalid, or as a DREQ for another QP. */
static void strange_copy(struct cm_world *w, const struct nic_gid *from, const struct nic_gid *to, const uint8_t *mad)
{
	struct nic_gid stranger = cm_host_gid(STRANGER);
	bool broken = rng_chance(&w->net, 300), dreq = mad[17] == 0x14 && rng_chance(&w->net, 500);
	struct cm_item *item = packet(w, broken || dreq ? from : &stranger, to, mad);

	if (dreq) { /* an RTU turned into a DREQ, which has the communication IDs in the same place */
		item->mad[17] = 0x15;
		memset(item->mad + 24 + 8, 0xff, 3);
	} else if (broken && rng_chance(&w->net, 500)) {
		item->len = (uint32_t)rng_below(&w->net, NIC_CM_MAD_LEN);
	} else if (broken) {
		item->mad[rng_below(&w->net, 4)] ^= 0x55; /* base version, class, class version or method */
	} else {
		for (uint64_t n = rng_below(&w->net, 4); n > 0; n--)
			item->mad[24 + rng_below(&w->net, 40)] ^= (uint8_t)(1 << rng_below(&w->net, 8));
	}
}

static void on_send(void *ctx, const struct nic_cm_route *route, const uint8_t *mad)
{
	struct cm_function *f = ctx;
	struct cm_world *w = f->world;

	if (f->doomed)
		return;
	w->stats.mads++;
	for (unsigned i = 0; i < NIC_CM_MAD_LEN; i += 8) {
		uint64_t word;

		memcpy(&word, mad + i, sizeof(word));
		w->hash = rng_mix(w->hash ^ word);
	}
	cm_trace(w, "function %u sends %02x to host %u, ids %02x%02x%02x%02x %02x%02x%02x%02x", f->number, mad[17],
		 route->peer.raw[15] - 1u, mad[24], mad[25], mad[26], mad[27], mad[28], mad[29], mad[30], mad[31]);
	if (mad[17] == 0x10) {
		memcpy(w->request, mad, sizeof(w->request));
		w->have_request = true;
	}
	if (w->faults && f->live && w->n_functions + 8 < CM_FUNCTIONS && rng_chance(&w->net, w->opts->mid_kill)) {
		f->doomed = true;
		memcpy(f->snapshot, f->records, sizeof(f->snapshot));
	}
	if (w->faults && rng_chance(&w->net, w->opts->strange))
		strange_copy(w, &route->own, &route->peer, mad);
	if (w->faults && rng_chance(&w->net, w->opts->loss))
		return;
	packet(w, &route->own, &route->peer, mad);
	if (w->faults && rng_chance(&w->net, w->opts->dup))
		packet(w, &route->own, &route->peer, mad);
}

/** @return the CM instance to which the host delivers a MAD. */
static struct nic_cm *steer(struct cm_world *w, unsigned host, const struct cm_item *item)
{
	struct nic_cm *any = NULL;
	struct nic_cm_peek peek;

	if (nic_cm_peek(item->mad, item->len, &peek))
		peek = (struct nic_cm_peek){0};
	for (unsigned i = 0; i < w->n_functions; i++) {
		struct cm_function *f = w->functions[i];
		struct nic_cm *cm = f->live ? f->cm : f->adopter;

		if (f->host != host || !cm)
			continue;
		if (!peek.request && peek.local_id >> ID_BITS == f->number)
			return cm;
		if (peek.request && f->live && nic_cm_listener(cm, peek.service_id, &item->to))
			return cm;
		if (!any || f->live)
			any = cm;
	}
	return any;
}

static void deliver(struct cm_world *w, const struct cm_item *item)
{
	struct nic_cm_route route = {.own = item->to, .peer = item->from};
	unsigned host = item->to.raw[15] - 1u;
	struct nic_cm *cm = host < w->opts->hosts ? steer(w, host, item) : NULL;

	if (cm)
		nic_cm_rx(cm, &route, item->mad, item->len);
}

/* ---- Functions ------------------------------------------------------------------------------------------------- */

static uint64_t on_now(void *ctx)
{
	struct cm_function *f = ctx;

	return f->world->now;
}

static uint32_t on_random(void *ctx)
{
	struct cm_function *f = ctx;

	return (uint32_t)rng_u64(&f->world->cm);
}

static struct nic_cm_config config_of(struct cm_function *f)
{
	return (struct nic_cm_config){
		.id_base = f->number << ID_BITS,
		.id_bits = ID_BITS,
		.ca_guid = 0x100 + f->host,
		.ack_delay = f->world->opts->life,
		.max_pending = f->world->opts->flood == 7 ? FLOOD_PENDING : 0,
		.ctx = f,
		.now = on_now,
		.random = on_random,
		.send = on_send,
		.event = cm_app_event,
	};
}

static void function_start(struct cm_world *w, unsigned host)
{
	struct cm_function *f;
	struct nic_cm_config config;

	if (w->n_functions == CM_FUNCTIONS)
		return;
	f = calloc(1, sizeof(*f));
	f->world = w;
	f->host = host;
	f->number = w->n_functions;
	f->live = true;
	config = config_of(f);
	config.records = f->records;
	config.n_records = CM_RECORDS;
	if (nic_cm_create(&f->cm, &config))
		abort();
	w->functions[w->n_functions++] = f;
	cm_trace(w, "function %u starts at host %u", f->number, host);
	cm_app_listen(f);
}

static void function_die(struct cm_function *f)
{
	struct cm_world *w = f->world;

	cm_trace(w, "function %u is killed", f->number);
	w->stats.kills++;
	if (!f->doomed)
		memcpy(f->snapshot, f->records, sizeof(f->snapshot));
	nic_cm_destroy(f->cm);
	f->cm = NULL;
	f->live = f->doomed = false;
	cm_app_killed(f);
	item_add(w, ITEM_ADOPT, w->now + rng_below(&w->app, ADOPT_US) * 1000)->function = f;
	function_start(w, f->host);
}

static void adopt(struct cm_function *f)
{
	struct nic_cm_config config = config_of(f);
	uint32_t n;

	config.max_ids = CM_RECORDS;
	if (nic_cm_create(&f->adopter, &config))
		abort();
	n = nic_cm_adopt(f->adopter, f->snapshot, CM_RECORDS);
	cm_trace(f->world, "of function %u, %u are adopted", f->number, n);
	if (nic_cm_count(f->adopter, NIC_CM_COUNT_adopt_bad) || nic_cm_count(f->adopter, NIC_CM_COUNT_adopt_failed))
		cm_violation(f->world, "a killed function's records: %u adopted, bad ones %llu, without memory %llu", n,
			     (unsigned long long)nic_cm_count(f->adopter, NIC_CM_COUNT_adopt_bad),
			     (unsigned long long)nic_cm_count(f->adopter, NIC_CM_COUNT_adopt_failed));
	else
		f->world->stats.adopted += n;
}

/* ---- Operations ------------------------------------------------------------------------------------------------ */

/** Send a REQ of a flood: each has another source address and another communication ID. */
static void flood(struct cm_world *w)
{
	struct nic_gid from = cm_host_gid(0), to = cm_host_gid((unsigned)rng_below(&w->app, w->opts->hosts));
	uint8_t mad[NIC_CM_MAD_LEN];
	uint32_t number = CM_FLOOD;

	if (!w->have_request)
		return;
	w->stats.floods++;
	memcpy(mad, w->request, sizeof(mad));
	rng_bytes(&w->net, mad + 8, 8);	 /* transaction ID */
	rng_bytes(&w->net, mad + 24, 4); /* communication ID */
	mad[27] |= 1;
	rng_bytes(&w->net, from.raw + 13, 2);
	from.raw[15] = STRANGER + 1;
	memcpy(mad + 24 + 56, from.raw, sizeof(from));
	memcpy(mad + 24 + 140, &number, sizeof(number));
	packet(w, &from, &to, mad);
}

static struct cm_function *any_live(struct cm_world *w)
{
	for (;;) {
		struct cm_function *f = w->functions[rng_below(&w->app, w->n_functions)];

		if (f->live)
			return f;
	}
}

static void operation(struct cm_world *w)
{
	struct cm_function *f = any_live(w);

	if (rng_chance(&w->app, w->opts->kill) && w->n_functions + 8 < CM_FUNCTIONS)
		function_die(f);
	else
		cm_app_operation(f);
	for (unsigned n = 0; w->opts->flood == 7 && n < 50; n++)
		flood(w);
	if (--w->ops_left > 0)
		item_add(w, ITEM_OPERATION, w->now + rng_below(&w->app, 2000ull * w->opts->pace_us));
}

static void perform(struct cm_world *w, struct cm_item *item)
{
	switch (item->kind) {
	case ITEM_MAD:
		deliver(w, item);
		break;
	case ITEM_ACT:
		cm_app_act(item->end);
		break;
	case ITEM_ADOPT:
		adopt(item->function);
		break;
	case ITEM_OPERATION:
		operation(w);
		break;
	}
	free(item);
}

/* ---- The run --------------------------------------------------------------------------------------------------- */

struct census {
	uint32_t connections, waiting, backlog;
	bool over; /* a listener has more requests than its backlog */
};

static void count_id(void *arg, const struct nic_cm_info *info)
{
	struct census *c = arg;

	c->connections += !info->sidr && info->state != NIC_CM_IDLE && info->state != NIC_CM_LISTEN;
	c->waiting += info->unanswered;
	c->backlog += info->pending;
	c->over |= info->backlog && info->pending > info->backlog;
}

static void check_function(struct cm_function *f)
{
	struct census c = {0};
	uint32_t used = 0;

	for (unsigned i = 0; i < CM_RECORDS; i++)
		used += f->records[i].state != NIC_CM_IDLE;
	nic_cm_each(f->cm, count_id, &c);
	if (used != c.connections)
		cm_violation(f->world, "function %u has %u connections and %u records", f->number, c.connections, used);
	if (c.waiting != c.backlog)
		cm_violation(f->world, "function %u has %u requests that wait, and counts %u", f->number, c.waiting,
			     c.backlog);
	if (c.over || c.waiting > (f->world->opts->flood == 7 ? FLOOD_PENDING : c.waiting))
		cm_violation(f->world, "function %u has %u requests that wait, more than it may", f->number, c.waiting);
	if (nic_cm_ids(f->cm) > CM_RECORDS)
		cm_violation(f->world, "function %u has %u ids", f->number, nic_cm_ids(f->cm));
}

/** @return the time of the earliest deadline of any CM instance. *whose: that instance. */
static uint64_t deadline(struct cm_world *w, struct nic_cm **whose)
{
	uint64_t earliest = UINT64_MAX;

	for (unsigned i = 0; i < w->n_functions; i++) {
		struct cm_function *f = w->functions[i];
		struct nic_cm *cm = f->live ? f->cm : f->adopter;

		if (cm && nic_cm_deadline(cm) < earliest) {
			earliest = nic_cm_deadline(cm);
			*whose = cm;
		}
	}
	return earliest;
}

static void after_step(struct cm_world *w, unsigned step)
{
	for (unsigned i = 0; i < w->n_functions; i++) {
		struct cm_function *f = w->functions[i];

		if (f->doomed)
			function_die(f);
		if (f->live && step % 64 == 0)
			check_function(f);
		if (f->adopter)
			f->timeouts = nic_cm_count(f->adopter, NIC_CM_COUNT_timeouts);
	}
}

/** Run until no event is left, or until time `end`. */
static void run_until(struct cm_world *w, uint64_t end)
{
	for (unsigned step = 0; !w->failed; step++) {
		struct nic_cm *cm = NULL;
		uint64_t item = w->heap_len ? w->heap[1]->at : UINT64_MAX, due = deadline(w, &cm);
		uint64_t next = item < due ? item : due;

		if (next > end || next == UINT64_MAX) {
			w->now = end;
			break;
		}
		w->now = next > w->now ? next : w->now;
		if (item <= due)
			perform(w, item_take(w));
		else
			nic_cm_advance(cm);
		after_step(w, step);
	}
}

/** Unless functions were killed or a flood ran, connecting and disconnecting fail only if the network lost all retries,
 * which is rare. */
static void check_errors(struct cm_world *w)
{
	uint64_t some = w->opts->loss ? 2 + w->stats.connects / 50 : 0;

	if (!w->stats.kills && w->opts->flood != 7 && w->stats.errors > some)
		cm_violation(w, "%llu errors of %llu connects", (unsigned long long)w->stats.errors,
			     (unsigned long long)w->stats.connects);
}

static void check_end(struct cm_world *w)
{
	check_errors(w);
	for (unsigned i = 0; i < w->n_functions && !w->failed; i++) {
		struct cm_function *f = w->functions[i];
		struct nic_cm *cm = f->live ? f->cm : f->adopter;

		if (cm && nic_cm_ids(cm))
			cm_violation(w, "function %u still has %u ids", f->number, nic_cm_ids(cm));
		if (f->live)
			check_function(f);
		if (f->live)
			w->stats.stale += nic_cm_count(f->cm, NIC_CM_COUNT_stale);
	}
}

static void world_free(struct cm_world *w)
{
	for (unsigned i = 0; i < w->n_functions; i++) {
		struct cm_function *f = w->functions[i];

		if (f->cm)
			nic_cm_destroy(f->cm);
		if (f->adopter)
			nic_cm_destroy(f->adopter);
		free(f);
	}
	while (w->heap_len)
		free(item_take(w));
	free(w->heap);
	free(w->conns);
}

bool cm_world_run(const struct cm_opts *opts, bool verbose, struct cm_stats *stats, uint64_t *hash)
{
	struct cm_world w = {.opts = opts, .verbose = verbose, .faults = true, .ops_left = opts->ops};

	rng_init(&w.net, opts->seed, 1, 0);
	rng_init(&w.app, opts->seed, 2, 0);
	rng_init(&w.cm, opts->seed, 3, 0);
	w.conns = calloc(CM_CONNS, sizeof(*w.conns));
	for (unsigned host = 0; host < opts->hosts; host++)
		for (unsigned i = 0; i < opts->functions; i++)
			function_start(&w, host);
	item_add(&w, ITEM_OPERATION, 0);
	while (w.ops_left && !w.failed)
		run_until(&w, w.now + 100000000);
	w.faults = false;
	run_until(&w, w.now + SETTLE_NS);
	if (!w.failed)
		cm_app_agree(&w);
	w.ending = true;
	if (!w.failed)
		cm_app_destroy_all(&w);
	run_until(&w, w.now + SETTLE_NS);
	check_end(&w);
	*stats = w.stats;
	*hash = w.hash;
	world_free(&w);
	return !w.failed;
}
