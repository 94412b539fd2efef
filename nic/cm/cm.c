/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm.c - the connection manager's instance: its creation and end; ids with their numbers, tables and states. Memory
 * use grows only with the number of ids, which nic_cm_config.max_ids limits. The limit nic_cm_config.max_pending, whose
 * default is lower, stops a flood of requests before max_ids is reached.
 */
#include "cm.h"

#include <errno.h>

/* ---- The instance ---------------------------------------------------------------------------------------------- */

static bool config_ok(const struct nic_cm_config *c)
{
	if (!c->now || !c->random || !c->send || !c->event)
		return false;
	if (c->id_bits < 8 || c->id_bits > 32 || !c->records != !c->n_records)
		return false;
	return c->id_bits == 32 ? c->id_base == 0 : (c->id_base & ((UINT32_C(1) << c->id_bits) - 1)) == 0;
}

static void limits(struct nic_cm_config *c)
{
	/* At least half of the possible local ids stay free, so that number_draw soon finds a free one. */
	uint32_t numbers = UINT32_C(1) << (c->id_bits - 1);

	if (!c->max_ids)
		c->max_ids = CM_IDS_DEFAULT;
	if (c->max_ids > numbers)
		c->max_ids = numbers;
	if (c->records && c->max_ids > c->n_records)
		c->max_ids = c->n_records;
	if (!c->max_pending)
		c->max_pending = CM_PENDING_DEFAULT;
}

static bool records_init(struct nic_cm *cm)
{
	uint32_t n = cm->config.n_records;

	if (!n)
		return true;
	cm->free_record = calloc(n, sizeof(struct nic_cm_record *));
	if (!cm->free_record)
		return false;
	while (n > 0)
		cm->free_record[cm->n_free_record++] = &cm->config.records[--n];
	return true;
}

int nic_cm_create(struct nic_cm **out, const struct nic_cm_config *config)
{
	struct nic_cm *cm;

	if (!config_ok(config))
		return -EINVAL;
	cm = calloc(1, sizeof(*cm));
	if (!cm)
		return -ENOMEM;
	cm->config = *config;
	limits(&cm->config);
	list_init(&cm->all);
	list_init(&cm->lingering);
	list_init(&cm->leaving);
	list_init(&cm->masked);
	cm->seed = (uint64_t)config->random(config->ctx) << 32 | config->random(config->ctx);
	cm->next_low = config->random(config->ctx);
	cm->scramble = config->random(config->ctx);
	if (!cm_hash_init(&cm->local) || !cm_hash_init(&cm->peer) || !cm_hash_init(&cm->qpn) ||
	    !cm_hash_init(&cm->service) || !records_init(cm)) {
		nic_cm_destroy(cm);
		return -ENOMEM;
	}
	*out = cm;
	return 0;
}

void nic_cm_destroy(struct nic_cm *cm)
{
	struct list *next;

	for (struct list *n = cm->all.next; n != &cm->all; n = next) {
		next = n->next;
		free(list_entry(n, struct nic_cm_id, all));
	}
	free(cm->local.bucket);
	free(cm->peer.bucket);
	free(cm->qpn.bucket);
	free(cm->service.bucket);
	free(cm->heap);
	free(cm->free_record);
	free(cm);
}

uint32_t nic_cm_ids(const struct nic_cm *cm)
{
	return cm->ids;
}

uint64_t nic_cm_count(const struct nic_cm *cm, enum nic_cm_counter counter)
{
	return cm->counts[counter];
}

static const struct {
	const char *name, *sentence;
} counters[NIC_CM_COUNTERS] = {
#define NIC_CM_COUNTER(name, sentence) [NIC_CM_COUNT_##name] = {"cm_" #name, sentence},
#include "cm_counters.def"
#undef NIC_CM_COUNTER
};

const char *nic_cm_counter_name(enum nic_cm_counter counter)
{
	return counters[counter].name;
}

const char *nic_cm_counter_sentence(enum nic_cm_counter counter)
{
	return counters[counter].sentence;
}

uint8_t nic_cm_ack_timeout(uint8_t packet_life, uint8_t ack_delay)
{
	uint8_t round_trip = (uint8_t)(packet_life + 1), longer, shorter;

	longer = round_trip > ack_delay ? round_trip : ack_delay;
	shorter = round_trip > ack_delay ? ack_delay : round_trip;
	if (shorter + 1 >= longer) /* the shorter time is ignored unless it is at least half as long as the
				    * longer time */
		longer++;
	return cm_at_most(longer, 31);
}

/* ---- Tables ---------------------------------------------------------------------------------------------------- */

static uint64_t hash_local(const struct nic_cm *cm, uint32_t local_id)
{
	return cm_hash_mix(cm->seed, local_id);
}

/** `kind` makes the hashes of connections and of SIDR exchanges differ. */
static uint64_t hash_peer(const struct nic_cm *cm, const struct nic_gid *peer, uint32_t number, uint32_t kind)
{
	uint64_t high, low;

	memcpy(&high, peer->raw, sizeof(high));
	memcpy(&low, peer->raw + sizeof(high), sizeof(low));
	return cm_hash_mix(cm_hash_mix(cm_hash_mix(cm->seed, high), low), (uint64_t)kind << 32 | number);
}

struct nic_cm_id *cm_by_local(const struct nic_cm *cm, uint32_t local_id)
{
	for (struct cm_link *l = cm_hash_first(&cm->local, hash_local(cm, local_id)); l; l = cm_hash_next(l)) {
		struct nic_cm_id *id = list_entry(l, struct nic_cm_id, by_local);

		if (id->local_id == local_id)
			return id;
	}
	return NULL;
}

struct nic_cm_id *cm_by_peer(const struct nic_cm *cm, const struct nic_gid *peer, uint32_t remote_id, bool sidr)
{
	for (struct cm_link *l = cm_hash_first(&cm->peer, hash_peer(cm, peer, remote_id, sidr)); l;
	     l = cm_hash_next(l)) {
		struct nic_cm_id *id = list_entry(l, struct nic_cm_id, by_peer);

		if (id->remote_id == remote_id && id->sidr == sidr && cm_same_gid(&id->route.peer, peer))
			return id;
	}
	return NULL;
}

struct nic_cm_id *cm_by_qpn(const struct nic_cm *cm, const struct nic_gid *peer, uint32_t qpn)
{
	for (struct cm_link *l = cm_hash_first(&cm->qpn, hash_peer(cm, peer, qpn, 0)); l; l = cm_hash_next(l)) {
		struct nic_cm_id *id = list_entry(l, struct nic_cm_id, by_qpn);

		if (id->remote_qpn == qpn && cm_same_gid(&id->route.peer, peer))
			return id;
	}
	return NULL;
}

void cm_peer_known(struct nic_cm_id *id)
{
	struct nic_cm *cm = id->cm;

	cm_hash_remove(&cm->peer, &id->by_peer);
	cm_hash_add(&cm->peer, &id->by_peer, hash_peer(cm, &id->route.peer, id->remote_id, id->sidr));
}

void cm_qpn_known(struct nic_cm_id *id)
{
	struct nic_cm *cm = id->cm;

	if (id->remote_qpn)
		cm_hash_add(&cm->qpn, &id->by_qpn, hash_peer(cm, &id->route.peer, id->remote_qpn, 0));
}

/* ---- Ids ------------------------------------------------------------------------------------------------------- */

/** Draw a local id that is not in use. A free id always exists, since max_ids is at most half the number of
 *  possible ids. */
static uint32_t number_draw(struct nic_cm *cm)
{
	uint32_t mask = cm->config.id_bits == 32 ? UINT32_MAX : (UINT32_C(1) << cm->config.id_bits) - 1;

	for (;;) {
		uint32_t number = cm->config.id_base | ((cm->next_low++ ^ cm->scramble) & mask);

		if (number && !cm_by_local(cm, number))
			return number;
	}
}

bool cm_lingering_free(struct nic_cm *cm)
{
	if (list_empty(&cm->lingering))
		return false;
	cm_id_free(list_entry(list_first(&cm->lingering), struct nic_cm_id, leftover));
	return true;
}

/** Make room for one more id. If max_ids is reached, free an orphan: the first on `lingering`, or if that list is
 *  empty, the first on `leaving`. The function does not wait for orphans on `leaving` to end, because
 *  their peers chose how long they stay.
 *  @return false: no room */
static bool place(struct nic_cm *cm)
{
	if (cm->ids < cm->config.max_ids || cm_lingering_free(cm))
		return true;
	if (list_empty(&cm->leaving))
		return false;
	cm_id_free(list_entry(list_first(&cm->leaving), struct nic_cm_id, leftover));
	return true;
}

int cm_id_new_as(struct nic_cm *cm, enum cm_kind kind, uint32_t local_id, struct nic_cm_id **out)
{
	struct nic_cm_id *id;

	if (!place(cm))
		return -ENOSPC;
	id = cm_timer_room(cm) ? calloc(1, sizeof(*id)) : NULL;
	if (!id)
		return -ENOMEM;
	id->cm = cm;
	id->sidr = kind == CM_SIDR;
	list_init(&id->leftover);
	list_init(&id->pending);
	list_init(&id->masked);
	list_append(&cm->all, &id->all);
	cm->ids++;
	if (kind != CM_LISTENER) {
		id->local_id = local_id;
		cm_hash_add(&cm->local, &id->by_local, hash_local(cm, local_id));
	}
	if (kind == CM_CONNECTION)
		cm_record_take(id);
	*out = id;
	return 0;
}

int cm_id_new(struct nic_cm *cm, enum cm_kind kind, struct nic_cm_id **out)
{
	return cm_id_new_as(cm, kind, kind == CM_LISTENER ? 0 : number_draw(cm), out);
}

void cm_id_free(struct nic_cm_id *id)
{
	struct nic_cm *cm = id->cm;

	cm_answered(id);
	cm_id_set(id, NIC_CM_IDLE);
	cm_timer_stop(id);
	cm_record_give(id);
	cm_hash_remove(&cm->local, &id->by_local);
	cm_hash_remove(&cm->peer, &id->by_peer);
	cm_hash_remove(&cm->qpn, &id->by_qpn);
	list_remove(&id->all);
	list_remove(&id->leftover);
	cm->n_lingering -= id->lingers;
	cm->ids--;
	free(id);
}

/** Whether in this state the peer may already use its QP for another connection. */
static bool qp_given_up(enum nic_cm_state state)
{
	return state == NIC_CM_IDLE || state == NIC_CM_DREQ_RCVD || state == NIC_CM_TIMEWAIT;
}

void cm_id_set(struct nic_cm_id *id, enum nic_cm_state state)
{
	id->state = state;
	cm_record_write(id);
	if (qp_given_up(state))
		cm_hash_remove(&id->cm->qpn, &id->by_qpn);
}

void *nic_cm_id_user(const struct nic_cm_id *id)
{
	return id->user;
}

void nic_cm_id_set_user(struct nic_cm_id *id, void *user)
{
	id->user = user;
}

void nic_cm_id_info(const struct nic_cm_id *id, struct nic_cm_info *info)
{
	*info = (struct nic_cm_info){
		.state = id->state,
		.passive = id->passive,
		.sidr = id->sidr,
		.orphan = id->orphan,
		.unanswered = id->unanswered,
		.service_id = id->service_id,
		.service_mask = id->service_mask,
		.local_id = id->local_id,
		.remote_id = id->remote_id,
		.local_qpn = id->local_qpn,
		.remote_qpn = id->remote_qpn,
		.route = id->route,
		.ack_timeout = id->ack_timeout,
		.responder_resources = id->responder_resources,
		.initiator_depth = id->initiator_depth,
		.backlog = id->backlog,
		.pending = id->n_pending,
		.private_sent = id->private_sent,
		.private_rcvd = id->private_rcvd,
	};
}

void nic_cm_each(const struct nic_cm *cm, void (*fn)(void *arg, const struct nic_cm_info *info), void *arg)
{
	for (const struct list *l = cm->all.next; l != &cm->all; l = l->next) {
		struct nic_cm_info info;

		nic_cm_id_info(list_entry(l, struct nic_cm_id, all), &info);
		fn(arg, &info);
	}
}
