/* SPDX-License-Identifier: BSD-3-Clause */
/* cm_app.c - the applications of uroce_cm_sim: what they do at random, and what they check; see cm_sim.h. */
#include "cm_sim.h"

#include <string.h>

#define FLOOD_HELD 64

/* ---- Private data: every byte follows from the connection, the message and the side ------------------------------ */

struct said {
	uint8_t bytes[NIC_CM_MAD_LEN];
};

static struct said say(uint32_t number, enum nic_cm_event_type message, bool passive)
{
	struct said said;

	for (unsigned i = 0; i < sizeof(said.bytes); i += 8) {
		uint64_t word = rng_mix((uint64_t)number << 32 | (uint64_t)message << 16 | (uint64_t)passive << 8 | i);

		memcpy(said.bytes + i, &word, sizeof(word));
	}
	memcpy(said.bytes, &number, sizeof(number));
	return said;
}

static bool silent(const uint8_t *bytes, uint32_t len)
{
	while (len > 0)
		if (bytes[--len])
			return false;
	return true;
}

/** Private data in an event must come from the other end's application, or be empty if the CM acted without its
 * application. */
static void check_said(struct cm_end *end, const struct nic_cm_event *e)
{
	struct said said = say(end->conn->number, e->type, !end->passive);
	bool own_accord = e->type == NIC_CM_EVENT_REJ || e->type == NIC_CM_EVENT_DREQ || e->type == NIC_CM_EVENT_DREP;

	/* A DREP has room for more, but nic_cm_disconnect, which sends it, takes only NIC_CM_DREQ_PRIVATE bytes. */
	uint32_t len = e->type == NIC_CM_EVENT_DREP ? NIC_CM_DREQ_PRIVATE : e->private_len;

	if (!e->private_data || !memcmp(said.bytes, e->private_data, len))
		return;
	if (!own_accord || !silent(e->private_data, e->private_len))
		cm_violation(end->function->world, "connection %u: event %d has other private data than was sent",
			     end->conn->number, e->type);
}

/* ---- What an application may do in each state ------------------------------------------------------------------- */

static void over(struct cm_end *end, bool destroy)
{
	if (destroy) {
		nic_cm_id_destroy(end->id);
		end->id = NULL;
		end->destroyed = true;
	}
}

static void expect(struct cm_end *end, int rc, const char *what)
{
	if (rc)
		cm_violation(end->function->world, "connection %u: %s returns %d in application state %d",
			     end->conn->number, what, rc, end->state);
}

static void do_reject(struct cm_end *end, enum cm_end_state then)
{
	struct said said = say(end->conn->number, NIC_CM_EVENT_REJ, end->passive);
	struct nic_cm_reject reject = {
		.reason = NIC_CM_REJ_CONSUMER, .private_data = said.bytes, .private_len = NIC_CM_REJ_PRIVATE};

	expect(end, nic_cm_reject(end->id, &reject), "reject");
	end->state = then;
}

static void do_mra(struct cm_end *end)
{
	struct said said = say(end->conn->number, NIC_CM_EVENT_MRA, end->passive);

	if (end->mra)
		return;
	end->mra = true;
	expect(end,
	       nic_cm_mra(end->id, (uint8_t)(end->function->world->opts->answer + 2), said.bytes, NIC_CM_MRA_PRIVATE),
	       "mra");
}

static uint32_t qpn_of(struct cm_function *f)
{
	struct cm_world *w = f->world;

	if (w->n_conns && rng_chance(&w->app, w->opts->reuse)) {
		struct cm_conn *c = &w->conns[rng_below(&w->app, w->n_conns)];

		if (c->active.killed && c->active.function->host == f->host)
			return c->active.qpn;
	}
	return ++w->next_qpn[f->host] + 0x10;
}

static void do_accept(struct cm_end *end)
{
	struct cm_world *w = end->function->world;
	struct cm_conn *c = end->conn;
	struct said said = say(c->number, NIC_CM_EVENT_REP, true);
	struct nic_cm_accept accept = {
		.qpn = qpn_of(end->function),
		.starting_psn = c->number,
		.responder_resources = c->passive_responder,
		.initiator_depth = c->passive_depth,
		.private_data = said.bytes,
		.private_len = NIC_CM_REP_PRIVATE,
	};

	end->qpn = accept.qpn;
	end->state = END_ACCEPTED;
	end->accepted = true;
	expect(end, nic_cm_accept(end->id, &accept), "accept");
	if (rng_chance(&w->app, 300))
		cm_act_later(w, end, rng_below(&w->app, 20000));
}

static void established(struct cm_end *end)
{
	struct cm_world *w = end->function->world;

	end->state = END_ESTABLISHED;
	end->established = true;
	w->stats.established++;
	if (rng_chance(&w->app, 700))
		cm_act_later(w, end, rng_below(&w->app, 300000));
}

static void do_establish(struct cm_end *end)
{
	struct said said = say(end->conn->number, NIC_CM_EVENT_RTU, false);

	established(end);
	expect(end, nic_cm_establish(end->id, said.bytes, NIC_CM_RTU_PRIVATE), "establish");
}

static void do_disconnect(struct cm_end *end, enum cm_end_state then)
{
	struct said said =
		say(end->conn->number, then == END_LEAVING ? NIC_CM_EVENT_DREQ : NIC_CM_EVENT_DREP, end->passive);
	struct nic_cm_info info;

	nic_cm_id_info(end->id, &info);
	/* If the CM has found the connection stale, the CM is already disconnecting it. */
	if (end->state == END_ESTABLISHED && info.state != NIC_CM_ESTABLISHED) {
		end->state = END_LEAVING;
		return;
	}
	end->state = then;
	if (then == END_WAITS && info.state == NIC_CM_TIMEWAIT)
		return; /* the CM found the connection stale, and the peer's DREQ crossed ours */
	expect(end, nic_cm_disconnect(end->id, said.bytes, NIC_CM_DREQ_PRIVATE), "disconnect");
	if (then == END_LEAVING && rng_chance(&end->function->world->app, 200))
		cm_act_later(end->function->world, end, rng_below(&end->function->world->app, 50000));
}

static void do_sidr_reply(struct cm_end *end)
{
	struct said said = say(end->conn->number, NIC_CM_EVENT_SIDR_REP, true);
	struct nic_cm_sidr_reply reply = {.qpn = end->conn->number & 0xffffff,
					  .qkey = ~end->conn->number,
					  .private_data = said.bytes,
					  .private_len = NIC_CM_SIDR_REP_PRIVATE};

	end->conn->replied = true;
	end->state = END_OVER;
	expect(end, nic_cm_sidr_reply(end->id, &reply), "sidr_reply");
	over(end, true);
}

static void act_wanted(struct cm_end *end, unsigned dice)
{
	struct cm_world *w = end->function->world;

	if (end->conn->sidr) {
		do_sidr_reply(end);
	} else if (dice < 700) {
		do_accept(end);
	} else if (dice < 800) {
		do_reject(end, END_OVER);
		over(end, dice & 1);
	} else if (dice < 870) {
		over(end, true);
	} else {
		do_mra(end);
		cm_act_later(w, end, rng_below(&w->app, 20000));
	}
}

static void act_answered(struct cm_end *end, unsigned dice)
{
	struct cm_world *w = end->function->world;

	if (dice < 850) {
		do_establish(end);
	} else if (dice < 900) {
		do_reject(end, END_WAITS);
		over(end, dice & 1);
	} else if (dice < 940) {
		over(end, true);
	} else {
		do_mra(end);
		cm_act_later(w, end, rng_below(&w->app, 20000));
	}
}

static void act_accepted(struct cm_end *end, unsigned dice)
{
	if (dice < 500) {
		/* Report that data has arrived before the RTU. Only an established active end can have sent data. */
		if (!end->conn->active.established || end->conn->replaced)
			return;
		expect(end, nic_cm_notify(end->id), "notify");
	} else if (dice < 700) {
		do_reject(end, END_WAITS);
		over(end, dice & 1);
	} else if (dice < 900) {
		over(end, true);
	}
}

void cm_app_act(struct cm_end *end)
{
	unsigned dice;

	if (!end->id)
		return;
	dice = (unsigned)rng_below(&end->function->world->app, 1000);
	switch (end->state) {
	case END_ASKED:
		if (dice < 500 && !end->conn->sidr)
			do_reject(end, END_OVER);
		else
			over(end, true);
		break;
	case END_WANTED:
		act_wanted(end, dice);
		break;
	case END_ANSWERED:
		act_answered(end, dice);
		break;
	case END_ACCEPTED:
		act_accepted(end, dice);
		break;
	case END_ESTABLISHED:
		if (dice < 700)
			do_disconnect(end, END_LEAVING);
		else
			over(end, true);
		break;
	case END_LEFT:
		if (dice < 800)
			do_disconnect(end, END_WAITS);
		else
			over(end, true);
		break;
	default:
		over(end, dice < 700);
	}
}

/* ---- Starting --------------------------------------------------------------------------------------------------- */

void cm_app_listen(struct cm_function *f)
{
	for (unsigned i = 0; i < CM_SERVICES; i++) {
		struct nic_cm_listen listen = {.service_id = CM_SERVICE + i,
					       .backlog = f->world->opts->backlog == 1 ? 4 : 0};

		if (nic_cm_listen(f->cm, &listen, &f->listener[i]) || !nic_cm_listen(f->cm, &listen, &f->listener[i]))
			cm_violation(f->world, "listen");
	}
}

static void ask_sidr(struct cm_function *f, struct cm_conn *c)
{
	struct cm_world *w = f->world;
	struct said said = say(c->number, NIC_CM_EVENT_SIDR_REQ, false);
	struct nic_cm_sidr sidr = {
		.service_id = CM_SERVICE + rng_below(&w->app, CM_SERVICES),
		.route = {.own = cm_host_gid(f->host), .peer = cm_host_gid(c->to)},
		.timeout_ns = nic_timeout_ns(w->opts->answer),
		.max_cm_retries = (uint8_t)w->opts->retries,
		.private_data = said.bytes,
		.private_len = NIC_CM_SIDR_REQ_PRIVATE,
		.user = &c->active,
	};

	c->sidr = true;
	w->stats.sidr++;
	c->asked = nic_cm_sidr_request(f->cm, &sidr, &c->active.id) == 0;
}

static void ask(struct cm_function *f, struct cm_conn *c)
{
	struct cm_world *w = f->world;
	struct said said = say(c->number, NIC_CM_EVENT_REQ, false);
	struct nic_cm_connect connect = {
		/* one request in twenty is for a service without a listener */
		.service_id = CM_SERVICE + rng_below(&w->app, CM_SERVICES) + (rng_chance(&w->app, 50) ? 100 : 0),
		.route = {.own = cm_host_gid(f->host), .peer = cm_host_gid(c->to)},
		.qpn = c->active.qpn = qpn_of(f),
		.starting_psn = c->number,
		.mtu = NIC_MTU_1024,
		.responder_resources = c->responder_resources,
		.initiator_depth = c->initiator_depth,
		.retry_count = 7,
		.packet_life = (uint8_t)w->opts->life,
		.remote_cm_response_timeout = (uint8_t)w->opts->answer,
		.local_cm_response_timeout = (uint8_t)w->opts->answer,
		.max_cm_retries = (uint8_t)w->opts->retries,
		.private_data = said.bytes,
		.private_len = NIC_CM_REQ_PRIVATE,
		.user = &c->active,
	};

	w->stats.connects++;
	c->asked = nic_cm_connect(f->cm, &connect, &c->active.id) == 0;
	if (c->asked && rng_chance(&w->app, 50))
		cm_act_later(w, &c->active, rng_below(&w->app, 20000));
}

void cm_app_operation(struct cm_function *f)
{
	struct cm_world *w = f->world;
	struct cm_conn *c;

	if (w->n_conns == CM_CONNS)
		return;
	c = &w->conns[w->n_conns];
	*c = (struct cm_conn){
		.number = w->n_conns++,
		.to = (unsigned)rng_below(&w->app, w->opts->hosts),
		.responder_resources = (uint8_t)rng_below(&w->app, 32),
		.initiator_depth = (uint8_t)rng_below(&w->app, 32),
		.passive_responder = (uint8_t)rng_below(&w->app, 32),
		.passive_depth = (uint8_t)rng_below(&w->app, 32),
	};
	c->active = (struct cm_end){.conn = c, .function = f, .state = END_ASKED};
	cm_trace(w, "connection %u: function %u to host %u", c->number, f->number, c->to);
	if (rng_chance(&w->app, w->opts->sidr))
		ask_sidr(f, c);
	else
		ask(f, c);
}

/* ---- Events ----------------------------------------------------------------------------------------------------- */

/** Handle a REQ of a flood in one of three ways, chosen at random: reject it; leave it unanswered for now; or destroy
 *  its id and the ids of all unanswered REQs. If no more REQs can be held, the third is always chosen. */
static void flood_wanted(struct cm_function *f, struct nic_cm_id *id)
{
	struct nic_cm_reject reject = {.reason = NIC_CM_REJ_CONSUMER};
	unsigned dice = (unsigned)rng_below(&f->world->app, 10);

	if (dice < 2) {
		nic_cm_reject(id, &reject);
		nic_cm_id_destroy(id);
		return;
	}
	if (f->held == FLOOD_HELD || dice == 2) {
		for (; f->held > 0; f->held--)
			nic_cm_id_destroy(f->flood[f->held - 1]);
		nic_cm_id_destroy(id);
		return;
	}
	f->flood[f->held++] = id;
}

static uint8_t least(uint8_t a, uint8_t b)
{
	return a < b ? a : b;
}

static void check_req(struct cm_end *end, const struct nic_cm_event *e)
{
	const struct cm_conn *c = end->conn;
	struct nic_gid from = cm_host_gid(c->active.function->host), to = cm_host_gid(c->to);

	if (e->req.remote_qpn != c->active.qpn || e->req.starting_psn != c->number ||
	    e->req.responder_resources != c->initiator_depth || e->req.initiator_depth != c->responder_resources ||
	    memcmp(&e->req.remote_gid, &from, sizeof(from)) || memcmp(&e->req.local_gid, &to, sizeof(to)))
		cm_violation(end->function->world, "connection %u: REQ has other values than were sent", c->number);
}

static void on_request(struct cm_function *f, const struct nic_cm_event *e)
{
	bool sidr = e->type == NIC_CM_EVENT_SIDR_REQ, strange = e->route->peer.raw[15] > CM_HOSTS;
	struct cm_world *w = f->world;
	struct cm_conn *c;
	uint32_t number;

	memcpy(&number, e->private_data, sizeof(number));
	if (number == CM_FLOOD || strange) {
		flood_wanted(f, e->id);
		return;
	}
	if (number >= w->n_conns || !w->conns[number].asked) {
		cm_violation(w, "a request that nobody made: %u", number);
		return;
	}
	c = &w->conns[number];
	/* In a flood, a second event for the same REQ is allowed: the CM may have dropped the record of its REJ to make
	 * room. */
	if (c->passive.function && !c->passive.killed && !sidr && !(w->opts->flood == 7 && c->passive.destroyed)) {
		cm_violation(w, "connection %u: a second REQ event", number);
		return;
	}
	c->replaced = c->passive.function;
	c->passive = (struct cm_end){.conn = c, .function = f, .id = e->id, .state = END_WANTED, .passive = true};
	nic_cm_id_set_user(e->id, &c->passive);
	cm_trace(w, "connection %u: request at function %u", number, f->number);
	check_said(&c->passive, e);
	if (!sidr)
		check_req(&c->passive, e);
	if (rng_chance(&w->app, 500))
		cm_app_act(&c->passive);
	else
		cm_act_later(w, &c->passive, rng_below(&w->app, nic_timeout_ns(w->opts->answer) / 250));
}

static const enum cm_end_state follows[END_STATES][NIC_CM_EVENTS] = {
#define ON(event) [NIC_CM_EVENT_##event]
	[END_ASKED] = {ON(MRA) = END_ASKED, ON(REP) = END_ANSWERED, ON(REJ) = END_OVER, ON(REQ_ERROR) = END_OVER,
		       ON(SIDR_REP) = END_OVER, ON(SIDR_REQ_ERROR) = END_OVER},
	[END_ANSWERED] = {ON(REJ) = END_WAITS},
	[END_WANTED] = {ON(REJ) = END_OVER},
	[END_ACCEPTED] = {ON(MRA) = END_ACCEPTED, ON(RTU) = END_ESTABLISHED, ON(USER_ESTABLISHED) = END_ESTABLISHED,
			  ON(REJ) = END_WAITS, ON(REP_ERROR) = END_WAITS, ON(DREQ) = END_LEFT},
	/* DREP and DREQ_ERROR: the CM has found the connection stale */
	[END_ESTABLISHED] = {ON(REJ) = END_WAITS, ON(DREQ) = END_LEFT, ON(DREP) = END_WAITS,
			     ON(DREQ_ERROR) = END_WAITS},
	[END_LEAVING] = {ON(REJ) = END_WAITS, ON(DREQ) = END_WAITS, ON(DREP) = END_WAITS, ON(DREQ_ERROR) = END_WAITS},
	[END_WAITS] = {ON(TIMEWAIT_EXIT) = END_OVER},
#undef ON
};

static void check_rep(struct cm_end *end, const struct nic_cm_event *e)
{
	const struct cm_conn *c = end->conn;

	if (c->replaced) /* the REP may come from the first function that got the REQ */
		return;
	if (!c->passive.accepted)
		cm_violation(end->function->world, "connection %u: a REP that nobody sent", c->number);
	else if (e->rep.remote_qpn != c->passive.qpn ||
		 e->rep.responder_resources != least(c->responder_resources, c->passive_depth) ||
		 e->rep.initiator_depth != least(c->initiator_depth, c->passive_responder))
		cm_violation(end->function->world, "connection %u: REP has other values than were sent", c->number);
}

static void check_event(struct cm_end *end, const struct nic_cm_event *e, enum cm_end_state before)
{
	struct cm_world *w = end->function->world;
	struct cm_conn *c = end->conn;

	if (e->type == NIC_CM_EVENT_REP)
		check_rep(end, e);
	if (e->type == NIC_CM_EVENT_RTU && !c->active.established)
		cm_violation(w, "connection %u: an RTU that nobody sent", c->number);
	if (e->type == NIC_CM_EVENT_SIDR_REP && e->sidr_rep.status == NIC_CM_SIDR_OK &&
	    (!c->replied || e->sidr_rep.qpn != (c->number & 0xffffff) || e->sidr_rep.qkey != ~c->number))
		cm_violation(w, "SIDR %u: another answer than was sent", c->number);
	if ((e->type == NIC_CM_EVENT_DREP || e->type == NIC_CM_EVENT_DREQ_ERROR) && before == END_ESTABLISHED &&
	    !nic_cm_count(end->function->cm, NIC_CM_COUNT_stale))
		cm_violation(w, "connection %u: the answer to a DREQ that nobody sent", c->number);
	if (e->type == NIC_CM_EVENT_REJ)
		w->stats.rejected++;
	if (e->type == NIC_CM_EVENT_REQ_ERROR || e->type == NIC_CM_EVENT_REP_ERROR ||
	    e->type == NIC_CM_EVENT_DREQ_ERROR) {
		w->stats.errors++;
		end->gave_up = true;
	}
}

static void on_end(struct cm_end *end, const struct nic_cm_event *e)
{
	struct cm_world *w = end->function->world;
	enum cm_end_state before = end->state, then = follows[before][e->type];
	struct nic_cm_info info;

	nic_cm_id_info(end->id, &info);
	if (e->type == NIC_CM_EVENT_REJ && info.state == NIC_CM_TIMEWAIT)
		then = END_WAITS; /* maybe our REQ was rejected as stale: the peer has an old connection with our QP */
	if (then == END_NONE) {
		cm_violation(w, "connection %u, %s: event %d in application state %d", end->conn->number,
			     end->passive ? "passive" : "active", e->type, before);
		return;
	}
	if (!(e->type == NIC_CM_EVENT_SIDR_REP && e->sidr_rep.status != NIC_CM_SIDR_OK))
		check_said(end, e);
	check_event(end, e, before);
	if (then == before)
		return;
	cm_trace(w, "connection %u, %s: event %d, application state %d", end->conn->number,
		 end->passive ? "passive" : "active", e->type, then);
	end->mra = false;
	if (then == END_ESTABLISHED)
		established(end);
	end->state = then;
	if (then == END_ESTABLISHED)
		return;
	/* the peer has withdrawn its REQ: destroy the id later; until then the CM counts the REQ as unanswered */
	if (before == END_WANTED)
		cm_act_later(w, end, rng_below(&w->app, 50000));
	else if (then == END_ANSWERED || then == END_LEFT || rng_chance(&w->app, 300)) {
		if (rng_chance(&w->app, 500))
			cm_app_act(end);
		else
			cm_act_later(w, end, rng_below(&w->app, 50000));
	}
}

void cm_app_event(void *ctx, const struct nic_cm_event *e)
{
	struct cm_function *f = ctx;
	struct cm_end *end = nic_cm_id_user(e->id);

	if (f->doomed)
		return; /* the process was killed inside the call that delivers this event */
	f->world->hash = rng_mix(f->world->hash ^ (uint64_t)e->type);
	if (!f->live)
		cm_violation(f->world, "event %d for function %u, which is dead", e->type, f->number);
	else if (e->type == NIC_CM_EVENT_REQ || e->type == NIC_CM_EVENT_SIDR_REQ)
		on_request(f, e);
	else if (end && end->id == e->id)
		on_end(end, e);
	else if (end)
		cm_violation(f->world, "connection %u: event %d after its id was destroyed", end->conn->number,
			     e->type);
}

/* ---- The end ---------------------------------------------------------------------------------------------------- */

static void forget(struct cm_end *end, const struct cm_function *f)
{
	if (end->function != f)
		return;
	end->id = NULL;
	end->killed = true;
}

void cm_app_killed(struct cm_function *f)
{
	for (uint32_t i = 0; i < f->world->n_conns; i++) {
		forget(&f->world->conns[i].active, f);
		forget(&f->world->conns[i].passive, f);
	}
	f->held = 0;
}

/** @return whether this end may have ended without its peer's knowledge, because its CM gave up after all retries. */
static bool may_differ(const struct cm_end *end)
{
	const struct cm_function *f = end->function;

	if (!f || !f->world->opts->loss)
		return false;
	return end->gave_up || f->timeouts || (f->live && nic_cm_count(f->cm, NIC_CM_COUNT_timeouts));
}

static void agree(struct cm_end *end, struct cm_end *other)
{
	struct cm_world *w = end->function->world;
	struct nic_cm_info a, b;

	if (!end->id || end->state == END_OVER)
		return;
	if (end->state != END_ESTABLISHED) {
		cm_violation(w, "connection %u, %s: stuck in application state %d", end->conn->number,
			     end->passive ? "passive" : "active", end->state);
		return;
	}
	if (!other->id || other->state != END_ESTABLISHED) {
		w->stats.gave_up++;
		if (!may_differ(other))
			cm_violation(w, "connection %u: the %s end is established, and the other one in state %d%s%s",
				     end->conn->number, end->passive ? "passive" : "active", other->state,
				     other->killed ? ", killed" : "", other->destroyed ? ", destroyed" : "");
		return;
	}
	nic_cm_id_info(end->id, &a);
	nic_cm_id_info(other->id, &b);
	if (a.state != NIC_CM_ESTABLISHED || a.local_id != b.remote_id || a.local_qpn != b.remote_qpn ||
	    a.responder_resources < b.initiator_depth)
		cm_violation(w, "connection %u: its ends differ", end->conn->number);
}

void cm_app_agree(struct cm_world *w)
{
	for (uint32_t i = 0; i < w->n_conns && !w->failed; i++) {
		struct cm_conn *c = &w->conns[i];

		if (c->active.function && c->asked)
			agree(&c->active, &c->passive);
		if (c->passive.function)
			agree(&c->passive, &c->active);
	}
}

void cm_app_destroy_all(struct cm_world *w)
{
	for (uint32_t i = 0; i < w->n_conns; i++) {
		struct cm_conn *c = &w->conns[i];

		if (c->active.id)
			over(&c->active, true);
		if (c->passive.id)
			over(&c->passive, true);
	}
	for (unsigned i = 0; i < w->n_functions; i++) {
		struct cm_function *f = w->functions[i];

		if (!f->live)
			continue;
		for (; f->held > 0; f->held--)
			nic_cm_id_destroy(f->flood[f->held - 1]);
		for (unsigned s = 0; s < CM_SERVICES; s++)
			nic_cm_id_destroy(f->listener[s]);
	}
}
