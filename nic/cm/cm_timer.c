/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_timer.c - timers of ids, in a heap. When a timer expires, a MAD is retransmitted, or the id gives up (IBTA
 * 12.9.8), or its time-wait or lingering ends. The heap always has room for every id, so starting a timer cannot fail.
 */
#include "cm.h"

#define NOT_IN_HEAP 0

/* ---- The heap: heap[1] is the earliest ------------------------------------------------------------------------- */

static void put(struct nic_cm *cm, uint32_t at, struct nic_cm_id *id)
{
	cm->heap[at] = id;
	id->heap_at = at;
}

static void sift(struct nic_cm *cm, uint32_t at)
{
	struct nic_cm_id *id = cm->heap[at];

	while (at > 1 && cm->heap[at / 2]->deadline > id->deadline) {
		put(cm, at, cm->heap[at / 2]);
		at /= 2;
	}
	for (uint32_t child; (child = at * 2) <= cm->heap_len; at = child) {
		if (child < cm->heap_len && cm->heap[child + 1]->deadline < cm->heap[child]->deadline)
			child++;
		if (cm->heap[child]->deadline >= id->deadline)
			break;
		put(cm, at, cm->heap[child]);
	}
	put(cm, at, id);
}

bool cm_timer_room(struct nic_cm *cm)
{
	uint32_t room = cm->heap_room ? cm->heap_room * 2 : 64;
	struct nic_cm_id **heap;

	if (cm->ids + 1 < cm->heap_room)
		return true;
	heap = realloc(cm->heap, (size_t)room * sizeof(struct nic_cm_id *));
	if (!heap)
		return false;
	cm->heap = heap;
	cm->heap_room = room;
	return true;
}

void cm_timer_stop(struct nic_cm_id *id)
{
	struct nic_cm *cm = id->cm;
	uint32_t at = id->heap_at;
	struct nic_cm_id *last;

	if (at == NOT_IN_HEAP)
		return;
	id->heap_at = NOT_IN_HEAP;
	last = cm->heap[cm->heap_len--];
	if (last == id)
		return;
	put(cm, at, last);
	sift(cm, at);
}

void cm_timer_start(struct nic_cm_id *id, uint64_t after_ns)
{
	struct nic_cm *cm = id->cm;

	id->deadline = cm_now(cm);
	id->deadline = after_ns < UINT64_MAX - id->deadline ? id->deadline + after_ns : UINT64_MAX;
	if (id->heap_at == NOT_IN_HEAP)
		put(cm, ++cm->heap_len, id);
	sift(cm, id->heap_at);
}

bool cm_timer_runs(const struct nic_cm_id *id)
{
	return id->heap_at != NOT_IN_HEAP;
}

uint64_t cm_wait_ns(const struct nic_cm_id *id)
{
	return nic_timeout_ns(id->response_timeout) + 2 * nic_timeout_ns(cm_at_most(id->packet_life, CM_TIME_MAX));
}

uint64_t nic_cm_deadline(const struct nic_cm *cm)
{
	return cm->heap_len ? cm->heap[1]->deadline : UINT64_MAX;
}

/* ---- What is due ----------------------------------------------------------------------------------------------- */

/** What to do when the timer of an id expires, for each state: retransmit the saved MAD while tries are left, then
 *  call `over`. */
struct due {
	enum nic_cm_counter again; /* counter of retransmissions; NIC_CM_COUNTERS: nothing is retransmitted */
	void (*over)(struct nic_cm_id *id);
};

static const struct due dues[NIC_CM_STATES] = {
	[NIC_CM_IDLE] = {NIC_CM_COUNTERS, cm_linger_over},
	[NIC_CM_REQ_SENT] = {NIC_CM_COUNT_tx_retry_req, cm_req_failed},
	[NIC_CM_MRA_REQ_RCVD] = {NIC_CM_COUNT_tx_retry_req, cm_req_failed},
	[NIC_CM_REP_SENT] = {NIC_CM_COUNT_tx_retry_rep, cm_rep_failed},
	[NIC_CM_MRA_REP_RCVD] = {NIC_CM_COUNT_tx_retry_rep, cm_rep_failed},
	[NIC_CM_DREQ_SENT] = {NIC_CM_COUNT_tx_retry_dreq, cm_dreq_failed},
	[NIC_CM_TIMEWAIT] = {NIC_CM_COUNTERS, cm_timewait_over},
	[NIC_CM_SIDR_REQ_SENT] = {NIC_CM_COUNT_tx_retry_sidr_req, cm_sidr_failed},
};

static void expire(struct nic_cm_id *id)
{
	const struct due *due = &dues[id->state];

	if (due->again != NIC_CM_COUNTERS && id->tries > 0) {
		id->tries--;
		cm_timer_start(id, id->wait_ns);
		id->cm->counts[due->again]++;
		cm_send_saved(id);
		return;
	}
	if (due->again != NIC_CM_COUNTERS)
		CM_COUNT(id->cm, timeouts);
	due->over(id);
}

void nic_cm_advance(struct nic_cm *cm)
{
	uint64_t now = cm_now(cm);

	while (cm->heap_len && cm->heap[1]->deadline <= now) {
		struct nic_cm_id *id = cm->heap[1];

		cm_timer_stop(id);
		expire(id);
	}
}
