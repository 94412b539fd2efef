/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_rig.c - see cm_rig.h. */
#include "cm_rig.h"

#include <stdio.h>

static const char *const event_names[NIC_CM_EVENTS] = {
	"REQ",	"REP",	"RTU",	      "USER_ESTABLISHED", "REJ",      "MRA",	  "REQ_ERROR",	    "REP_ERROR",
	"DREQ", "DREP", "DREQ_ERROR", "TIMEWAIT_EXIT",	  "SIDR_REQ", "SIDR_REP", "SIDR_REQ_ERROR",
};

static void note(struct rig *rig, char side, char what, const char *name)
{
	size_t used = strlen(rig->transcript);

	snprintf(rig->transcript + used, sizeof(rig->transcript) - used, "%s%c%c%s", used ? " " : "", side, what, name);
}

static void on_send(void *ctx, const struct nic_cm_route *route, const uint8_t *mad)
{
	struct rig_side *side = ctx;
	struct rig *rig = side->rig;
	struct rig_mad *queued = &rig->queue[rig->queued++];

	assert_true(rig->queued <= RIG_QUEUE);
	assert_memory_equal(&route->own, &side->gid, sizeof(side->gid));
	queued->from = side == &rig->side[B];
	queued->peer = route->peer;
	memcpy(queued->bytes, mad, NIC_CM_MAD_LEN);
	memcpy(rig->last_bytes, mad, NIC_CM_MAD_LEN);
	assert_int_equal(cm_mad_parse(rig->last_bytes, NIC_CM_MAD_LEN, &rig->last), CM_MAD_OK);
	note(rig, side->name, '>', cm_attr_name(rig->last.attr));
}

static void on_event(void *ctx, const struct nic_cm_event *event)
{
	struct rig_side *side = ctx;

	note(side->rig, side->name, ':', event_names[event->type]);
	side->event = *event;
	side->id = event->id;
	if (event->private_data) {
		memcpy(side->data, event->private_data, event->private_len);
		side->event.private_data = side->data;
	}
	if (event->type == NIC_CM_EVENT_REJ && event->rej.info_len) {
		memcpy(side->info, event->rej.info, event->rej.info_len);
		side->event.rej.info = side->info;
	}
	if (side->on_event)
		side->on_event(side, event);
}

static uint64_t on_now(void *ctx)
{
	struct rig_side *side = ctx;

	return side->rig->now;
}

static uint32_t on_random(void *ctx)
{
	struct rig_side *side = ctx;

	return side->random = side->random * 1664525 + 1013904223;
}

void rig_config(struct rig_side *side, struct nic_cm_config *config)
{
	config->ack_delay = RIG_LIFE;
	config->ctx = side;
	config->now = on_now;
	config->random = on_random;
	config->send = on_send;
	config->event = on_event;
}

static void side_init(struct rig *rig, unsigned which, bool records)
{
	struct rig_side *side = &rig->side[which];
	struct nic_cm_config config = {
		.id_base = (which + 1) << 16,
		.id_bits = 16,
		.ca_guid = 0x1122334455667700ull + which,
		.records = records ? side->records : NULL,
		.n_records = records ? RIG_RECORDS : 0,
	};

	side->rig = rig;
	side->name = (char)('a' + which);
	side->random = which;
	side->gid = (struct nic_gid){{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = (uint8_t)(which + 1)}};
	rig_config(side, &config);
	assert_int_equal(nic_cm_create(&side->cm, &config), 0);
}

static void both_init(struct rig *rig, bool records)
{
	struct nic_cm_listen listen = {.service_id = RIG_SERVICE};

	side_init(rig, A, records);
	side_init(rig, B, records);
	assert_int_equal(nic_cm_listen(rig->side[B].cm, &listen, &rig->side[B].listener), 0);
}

int rig_setup(void **state)
{
	struct rig *rig = calloc(1, sizeof(*rig));

	both_init(rig, true);
	*state = rig;
	return 0;
}

void rig_without_records(struct rig *rig)
{
	nic_cm_destroy(rig->side[A].cm);
	nic_cm_destroy(rig->side[B].cm);
	both_init(rig, false);
}

int rig_teardown(void **state)
{
	struct rig *rig = *state;

	nic_cm_destroy(rig->side[A].cm);
	nic_cm_destroy(rig->side[B].cm);
	free(rig);
	return 0;
}

struct nic_cm_connect rig_connect_args(struct rig *rig)
{
	return (struct nic_cm_connect){
		.service_id = RIG_SERVICE,
		.route = {.own = rig->side[A].gid, .peer = rig->side[B].gid},
		.qpn = 0x111,
		.starting_psn = 0xabcdef,
		.mtu = NIC_MTU_1024,
		.responder_resources = 4,
		.initiator_depth = 8,
		.retry_count = 7,
		.rnr_retry_count = 6,
		.packet_life = RIG_LIFE,
		.remote_cm_response_timeout = RIG_ANSWER,
		.local_cm_response_timeout = RIG_ANSWER,
		.max_cm_retries = RIG_RETRIES,
		.private_data = "hello",
		.private_len = 5,
	};
}

struct nic_cm_id *rig_connect(struct rig *rig)
{
	struct nic_cm_connect connect = rig_connect_args(rig);
	struct nic_cm_id *id;

	assert_int_equal(nic_cm_connect(rig->side[A].cm, &connect, &id), 0);
	return id;
}

struct nic_cm_accept rig_accept_args(void)
{
	return (struct nic_cm_accept){
		.qpn = 0x222,
		.starting_psn = 0x123456,
		.responder_resources = 16,
		.initiator_depth = 16,
		.target_ack_delay = RIG_LIFE,
		.rnr_retry_count = 7,
		.private_data = "welcome",
		.private_len = 7,
	};
}

void rig_accept_as(struct nic_cm_id *id, uint32_t qpn)
{
	struct nic_cm_accept accept = rig_accept_args();

	accept.qpn = qpn;
	assert_int_equal(nic_cm_accept(id, &accept), 0);
}

void rig_accept(struct nic_cm_id *id)
{
	rig_accept_as(id, rig_accept_args().qpn);
}

void rig_reject(struct nic_cm_id *id, uint16_t reason)
{
	struct nic_cm_reject reject = {.reason = reason, .private_data = "no", .private_len = 2};

	assert_int_equal(nic_cm_reject(id, &reject), 0);
}

struct nic_cm_id *rig_reply(struct rig *rig, struct nic_cm_id **passive)
{
	struct nic_cm_id *active = rig_connect(rig);

	rig_pass(rig);
	*passive = rig->side[B].id;
	rig_accept(*passive);
	rig_pass(rig);
	return active;
}

void rig_establish(struct rig *rig, struct nic_cm_id **a, struct nic_cm_id **b)
{
	struct nic_cm_id *passive, *active = rig_reply(rig, &passive);

	assert_int_equal(nic_cm_establish(active, "go", 2), 0);
	rig_pass(rig);
	rig_expect(rig, "a>REQ b:REQ b>REP a:REP a>RTU b:RTU");
	if (a)
		*a = active;
	if (b)
		*b = passive;
}

static void arrive(struct rig *rig, unsigned at, const struct nic_gid *from, const uint8_t *bytes)
{
	struct nic_cm_route route = {.own = rig->side[at].gid, .peer = *from};

	nic_cm_rx(rig->side[at].cm, &route, bytes, NIC_CM_MAD_LEN);
}

void rig_pass(struct rig *rig)
{
	while (rig->queued > 0) {
		struct rig_mad mad = rig->queue[0];
		unsigned attr = mad.bytes[17] - CM_REQ;

		memmove(rig->queue, rig->queue + 1, --rig->queued * sizeof(mad));
		if (memcmp(&mad.peer, &rig->side[!mad.from].gid, sizeof(mad.peer)))
			/* Not addressed to the other side: lost. */
			continue;
		if (rig->drop[attr] > 0) {
			rig->drop[attr]--;
			continue;
		}
		arrive(rig, !mad.from, &rig->side[mad.from].gid, mad.bytes);
		if (rig->twice[attr] > 0) {
			rig->twice[attr]--;
			arrive(rig, !mad.from, &rig->side[mad.from].gid, mad.bytes);
		}
	}
}

void rig_time(struct rig *rig, uint64_t ns)
{
	uint64_t end = rig->now + ns;

	rig_pass(rig);
	for (;;) {
		uint64_t a = nic_cm_deadline(rig->side[A].cm), b = nic_cm_deadline(rig->side[B].cm);
		uint64_t next = a < b ? a : b;

		if (next > end)
			break;
		rig->now = next > rig->now ? next : rig->now;
		nic_cm_advance(rig->side[A].cm);
		nic_cm_advance(rig->side[B].cm);
		rig_pass(rig);
	}
	rig->now = end;
}

void rig_inject(struct rig *rig, unsigned from, const struct cm_mad *mad)
{
	struct nic_gid stranger = {{[10] = 0xff, [11] = 0xff, [12] = 10, [15] = 99}};
	uint8_t bytes[NIC_CM_MAD_LEN];

	cm_mad_build(mad, bytes);
	arrive(rig, from == B ? A : B, from > B ? &stranger : &rig->side[from].gid, bytes);
}

enum nic_cm_state rig_state(const struct nic_cm_id *id)
{
	struct nic_cm_info info;

	nic_cm_id_info(id, &info);
	return info.state;
}

uint64_t rig_count(const struct rig *rig, unsigned side, enum nic_cm_counter counter)
{
	return nic_cm_count(rig->side[side].cm, counter);
}

void rig_expect(struct rig *rig, const char *transcript)
{
	assert_string_equal(rig->transcript, transcript);
	rig->transcript[0] = '\0';
}
