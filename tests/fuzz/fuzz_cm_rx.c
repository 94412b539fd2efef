/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fuzz_cm_rx.c - libFuzzer target: a connection manager whose peer is the fuzzer. The peer sends any messages, in any
 * order, about connections that exist. Meanwhile time passes, and the manager's owner connects, accepts, destroys etc.
 *
 * An input is a sequence of steps: a byte that selects the step, then the bytes that the step takes. A fuzzer cannot
 * guess communication IDs and transactions, so a MAD step takes the header and the IDs of a MAD that the manager has
 * sent or received, and the input's bytes change what follows.
 */
#include "cm_mad.h"
#include "fuzz_check.h"
#include "nic_cm.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define IDS	16 /* most ids that the owner holds; it destroys further ones at once */
#define RECORDS 24
#define SEEN	8 /* the last MADs sent or received, from which a step can take header and IDs */
#define SERVICE 7
#define LONG_NS 100000000000000u

enum step { STEP_MAD, STEP_RAW, STEP_TIME, STEP_CONNECT, STEP_SIDR, STEP_ACT, STEPS };

struct input {
	const uint8_t *data;
	size_t size;
};

static struct {
	struct nic_cm *cm;
	struct nic_cm_record records[RECORDS];
	struct nic_cm_id *id[IDS];
	uint8_t seen[SEEN][CM_MAD_LEN];
	unsigned n_seen;
	uint32_t random;
	uint64_t now;
	uint64_t received;
	bool destroys; /* in this step, an event makes the owner destroy the event's id */
} f;

static const struct nic_cm_route route = {
	.own = {{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 1}},
	.peer = {{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 2}},
};

static uint8_t take(struct input *in)
{
	if (in->size == 0)
		return 0;
	in->size--;
	return *in->data++;
}

static uint64_t on_now(void *ctx)
{
	(void)ctx;
	return f.now;
}

static uint32_t on_random(void *ctx)
{
	(void)ctx;
	return f.random++;
}

static void remember(const uint8_t *mad)
{
	memcpy(f.seen[f.n_seen++ % SEEN], mad, CM_MAD_LEN);
}

static void on_send(void *ctx, const struct nic_cm_route *to, const uint8_t *mad)
{
	struct cm_mad parsed;

	(void)ctx;
	CHECK(memcmp(&to->own, &route.own, sizeof(to->own)) == 0);
	CHECK(cm_mad_parse(mad, CM_MAD_LEN, &parsed) == CM_MAD_OK);
	remember(mad);
}

static void hold(struct nic_cm_id *id)
{
	for (unsigned i = 0; i < IDS; i++) {
		if (f.id[i])
			continue;
		f.id[i] = id;
		nic_cm_id_set_user(id, &f.id[i]);
		return;
	}
	nic_cm_id_destroy(id);
}

static void let_go(struct nic_cm_id *id)
{
	struct nic_cm_id **at = nic_cm_id_user(id);

	CHECK(at && *at == id); /* no event for an id that was destroyed */
	*at = NULL;
	nic_cm_id_destroy(id);
}

static void on_event(void *ctx, const struct nic_cm_event *e)
{
	(void)ctx;
	if (e->type == NIC_CM_EVENT_REQ || e->type == NIC_CM_EVENT_SIDR_REQ) {
		CHECK(!nic_cm_id_user(e->id) && e->listener && e->route);
		hold(e->id);
	} else if (f.destroys) {
		let_go(e->id);
	} else {
		struct nic_cm_id **at = nic_cm_id_user(e->id);

		CHECK(at && *at == e->id);
	}
}

/* ---- Steps ------------------------------------------------------------------------------------------------------ */

static void receive(const uint8_t *mad, size_t len)
{
	f.received++;
	nic_cm_rx(f.cm, &route, mad, len);
}

/** Receive a copy of a MAD that was seen, with a type and up to seven bytes from the input. Unless the input says
 * otherwise, local and remote communication ID are exchanged, as in an answer to a MAD that the manager sent. */
static void step_mad(struct input *in)
{
	static const uint8_t header[] = {1, 7, 2, 3};
	uint8_t mad[CM_MAD_LEN], attr = take(in), which = take(in), id[4];

	memcpy(mad, f.seen[which % SEEN], sizeof(mad));
	memcpy(mad, header, sizeof(header));
	mad[16] = 0;
	mad[17] = (uint8_t)(CM_REQ + attr % (CM_APR - CM_REQ + 1));
	if (!(which & 0x80)) {
		memcpy(id, mad + 24, sizeof(id));
		memcpy(mad + 24, mad + 28, sizeof(id));
		memcpy(mad + 28, id, sizeof(id));
	}
	for (unsigned n = which >> 3 & 7; n > 0; n--) {
		unsigned at = 8 + take(in) % (CM_MAD_LEN - 8u);

		mad[at] = take(in);
	}
	mad[16] = 0;
	if (mad[17] == CM_REQ) { /* without these addresses and this service, a REQ would be refused early */
		memcpy(mad + 24 + 56, route.peer.raw, 16);
		memcpy(mad + 24 + 72, route.own.raw, 16);
		mad[24 + 15] = attr & 0x80 ? mad[24 + 15] : SERVICE;
	}
	remember(mad);
	receive(mad, sizeof(mad));
}

static void step_raw(struct input *in)
{
	size_t len = take(in);
	uint8_t *exact = malloc(len + 1);

	CHECK(exact);
	for (size_t i = 0; i < len; i++)
		exact[1 + i] = take(in);
	receive(exact + 1, len);
	free(exact);
}

static void step_time(struct input *in)
{
	f.now += UINT64_C(1) << take(in) % 37;
	nic_cm_advance(f.cm);
	CHECK(nic_cm_deadline(f.cm) > f.now);
}

static void step_connect(struct input *in)
{
	struct nic_cm_connect connect = {
		.service_id = SERVICE,
		.route = route,
		.qpn = take(in),
		.transport = take(in) % 3,
		.mtu = NIC_MTU_1024,
		.packet_life = 10,
		.remote_cm_response_timeout = 14,
		.local_cm_response_timeout = 14,
		.max_cm_retries = 3,
	};
	struct nic_cm_id *id;

	if (nic_cm_connect(f.cm, &connect, &id) == 0)
		hold(id);
}

static void step_sidr(void)
{
	struct nic_cm_sidr sidr = {.service_id = SERVICE, .route = route, .timeout_ns = 100000000, .max_cm_retries = 3};
	struct nic_cm_id *id;

	if (nic_cm_sidr_request(f.cm, &sidr, &id) == 0)
		hold(id);
}

/** The owner makes a call on an id. The call fails if the id's state does not allow it. */
static void step_act(struct input *in)
{
	uint8_t what = take(in), value = take(in);
	struct nic_cm_id *id = f.id[what % IDS];
	struct nic_cm_accept accept = {.qpn = value, .failover = value % 3};
	struct nic_cm_reject reject = {.reason = value};
	struct nic_cm_sidr_reply reply = {.status = value % 6, .qpn = value};

	if (!id)
		return;
	switch (what / IDS) {
	case 0:
		nic_cm_accept(id, &accept);
		break;
	case 1:
		nic_cm_establish(id, NULL, 0);
		break;
	case 2:
		nic_cm_reject(id, &reject);
		break;
	case 3:
		nic_cm_mra(id, value % 32, NULL, 0);
		break;
	case 4:
		nic_cm_disconnect(id, NULL, 0);
		break;
	case 5:
		nic_cm_notify(id);
		break;
	case 6:
		nic_cm_sidr_reply(id, &reply);
		break;
	default:
		let_go(id);
	}
}

static void step(struct input *in)
{
	uint8_t kind = take(in);

	f.destroys = kind & 0x80;
	switch ((enum step)((kind & 0x7f) % STEPS)) {
	case STEP_MAD:
		step_mad(in);
		break;
	case STEP_RAW:
		step_raw(in);
		break;
	case STEP_TIME:
		step_time(in);
		break;
	case STEP_CONNECT:
		step_connect(in);
		break;
	case STEP_SIDR:
		step_sidr();
		break;
	default:
		step_act(in);
	}
}

/* ---- What must hold --------------------------------------------------------------------------------------------- */

static uint64_t sum(enum nic_cm_counter first, enum nic_cm_counter last)
{
	uint64_t total = 0;

	for (unsigned i = first; i <= last; i++)
		total += nic_cm_count(f.cm, i);
	return total;
}

static unsigned records_used(void)
{
	unsigned used = 0;

	for (unsigned i = 0; i < RECORDS; i++)
		used += f.records[i].state != NIC_CM_IDLE;
	return used;
}

static void count_connection(void *arg, const struct nic_cm_info *info)
{
	*(unsigned *)arg += !info->sidr && info->state != NIC_CM_IDLE && info->state != NIC_CM_LISTEN;
}

static void check(void)
{
	unsigned connections = 0;

	nic_cm_each(f.cm, count_connection, &connections);
	CHECK(connections == records_used());
	CHECK(nic_cm_ids(f.cm) <= RECORDS);
	/* Each MAD received is counted once: by its type, or by the reason for refusing it. */
	CHECK(f.received ==
	      sum(NIC_CM_COUNT_rx_req, NIC_CM_COUNT_rx_apr) + sum(NIC_CM_COUNT_rx_too_short, NIC_CM_COUNT_rx_bad_info));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, size};
	struct nic_cm_config config = {.id_base = 1 << 20,
				       .id_bits = 20,
				       .ca_guid = 1,
				       .max_pending = 8,
				       .records = f.records,
				       .n_records = RECORDS,
				       .now = on_now,
				       .random = on_random,
				       .send = on_send,
				       .event = on_event};
	struct nic_cm_listen listen = {.service_id = SERVICE, .backlog = 4};
	struct nic_cm_id *listener;

	memset(&f, 0, sizeof(f));
	CHECK(nic_cm_create(&f.cm, &config) == 0);
	CHECK(nic_cm_listen(f.cm, &listen, &listener) == 0);
	while (in.size > 0) {
		step(&in);
		check();
	}
	for (unsigned i = 0; i < IDS; i++)
		if (f.id[i])
			let_go(f.id[i]);
	nic_cm_id_destroy(listener);
	for (unsigned i = 0; i < 64 && nic_cm_deadline(f.cm) != UINT64_MAX; i++) {
		f.now = nic_cm_deadline(f.cm) + LONG_NS;
		nic_cm_advance(f.cm);
	}
	CHECK(nic_cm_ids(f.cm) == 0 && records_used() == 0);
	nic_cm_destroy(f.cm);
	return 0;
}
