/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic.c - the instance: configuration, GID table and port, dispatch of received packets to QPs (IBTA 9.6), time.
 * Sending is in path.c.
 */
#include "admit.h"
#include "comp.h"
#include "config.h"
#include "cq.h"
#include "gsi.h"
#include "mcast.h"
#include "mem.h"
#include "nic_xrc_share.h"
#include "opcode.h"
#include "own_time.h"
#include "packet.h"
#include "path.h"
#include "qp.h"
#include "qp_state.h"
#include "rdm_nic.h"
#include "refer.h"
#include "req.h"
#include "resp.h"
#include "source.h"
#include "timer.h"
#include "trig.h"
#include "ud.h"
#include "xrc.h"
#include "xrc_nic.h"

/* ---- life -------------------------------------------------------------------------------------------- */

/** Free the instance. Its key is wiped first, since freed memory gets reused. */
static void nic_free(struct nic *nic)
{
	explicit_bzero(&nic->tag_key, sizeof(nic->tag_key));
	free(nic);
}

int nic_create(const struct nic_config *config, struct nic **out)
{
	struct nic *nic = calloc(1, sizeof(*nic));

	if (!nic)
		return -ENOMEM;
	nic->cfg = *config;
	if (!nic_config_complete(&nic->cfg)) {
		free(nic);
		return -EINVAL;
	}
	nic->cfg.key = NULL; /* the key's memory stays the caller's: do not keep the pointer */
	if (config->key) {
		if (!keyed_derive(&nic->tag_key, config->key)) {
			free(nic);
			return -ENOTSUP;
		}
		nic->keyed = &nic->tag_key;
	}
	nic->trace = calloc(nic->cfg.trace_len, sizeof(*nic->trace));
	if (!nic->trace) {
		nic_free(nic);
		return -ENOMEM;
	}
	nic->port_up = true;
	paths_init(nic);
	list_init(&nic->ack_wait);
	list_init(&nic->ack_lazy);
	list_init(&nic->cq_failed);
	list_init(&nic->events);
	list_init(&nic->all_pds);
	list_init(&nic->all_ahs);
	list_init(&nic->all_cqs);
	list_init(&nic->all_srqs);
	list_init(&nic->all_xrcds);
	list_init(&nic->mcasts);
	list_init(&nic->rdms);
	list_init(&nic->rdm_rqs);
	nic->settle_owners = rdm_settle;
	trig_init(nic);
	list_init(&nic->moderated);
	nic->moderated_ns = nic->xrc_ns = nic->rare_ns = TIME_NEVER;
	nic->rdm_deadline = nic->rdm_planned = TIME_NEVER;
	event_source_init(&nic->port_events, NULL);
	*out = nic;
	return 0;
}

/* Destroy the objects that the owner left, dependent ones first. */
static void destroy_objects(struct nic *nic)
{
	nic_xrc_share_close(nic);
	rdm_destroy_all(nic);
	gsi_close(nic);
	mcast_close(nic);
	for (uint32_t i = 0; nic->qps.slots && nic->qps.count && i <= nic->qps.mask;)
		if (nic->qps.slots[i].value)
			nic_qp_destroy(nic->qps.slots[i].value); /* may move another entry to slot i: keep i */
		else
			i++;
	for (uint32_t pass = 0; pass < 2; pass++) /* windows, then regions */
		for (uint32_t i = 0; nic->mkeys.slots && i <= nic->mkeys.mask;) {
			struct mkey *m = nic->mkeys.slots[i].value;

			if (m && pass == 0 && m->kind != MKEY_MR)
				nic_mw_dealloc(list_entry(m, struct nic_mw, mkey));
			else if (m && pass == 1)
				nic_mr_dereg(list_entry(m, struct nic_mr, mkey));
			else
				i++;
		}
	while (!list_empty(&nic->all_srqs))
		nic_srq_destroy(list_entry(list_first(&nic->all_srqs), struct nic_srq, node));
	while (!list_empty(&nic->all_xrcds))
		nic_xrcd_free(list_entry(list_first(&nic->all_xrcds), struct nic_xrcd, node));
	while (!list_empty(&nic->all_cqs))
		nic_cq_destroy(list_entry(list_first(&nic->all_cqs), struct nic_cq, node));
	while (!list_empty(&nic->all_ahs))
		nic_ah_destroy(list_entry(list_first(&nic->all_ahs), struct nic_ah, node));
	while (!list_empty(&nic->all_pds))
		nic_pd_free(list_entry(list_first(&nic->all_pds), struct nic_pd, node));
}

void nic_destroy(struct nic *nic)
{
	destroy_objects(nic);
	free(nic->qps.slots);
	free(nic->mkeys.slots);
	free(nic->xrc_srqs.slots);
	free(nic->heap);
	free(nic->trace);
	nic_free(nic);
}

bool nic_key_supported(void)
{
	return keyed_supported();
}

int nic_gid_set(struct nic *nic, unsigned index, const struct nic_gid *gid)
{
	static const struct nic_gid none;

	if (index >= NIC_GID_TABLE_LEN)
		return -EINVAL;
	if (!gid)
		gid = &none;
	if (memcmp(&nic->gids[index], gid, sizeof(*gid)))
		event_raise(nic, &nic->port_events, NIC_EVENT_GID_CHANGE);
	nic->gids[index] = *gid;
	return 0;
}

int nic_gid_get(const struct nic *nic, unsigned index, struct nic_gid *gid)
{
	if (index >= NIC_GID_TABLE_LEN)
		return -EINVAL;
	*gid = nic->gids[index];
	return 0;
}

void nic_port_set(struct nic *nic, bool up)
{
	if (nic->port_up == up)
		return;
	nic->port_up = up;
	event_raise(nic, &nic->port_events, up ? NIC_EVENT_PORT_ACTIVE : NIC_EVENT_PORT_ERR);
}

bool nic_port_is_up(const struct nic *nic)
{
	return nic->port_up;
}

/* ---- receiving --------------------------------------------------------------------------------------- */

static enum nic_counter verdict_counter(enum packet_verdict v)
{
	static const uint16_t map[PACKET_VERDICTS] = {
		[PACKET_NOT_ROCE] = NIC_CNT_rx_not_roce,       [PACKET_BAD_IP] = NIC_CNT_rx_bad_ip,
		[PACKET_TOO_SHORT] = NIC_CNT_rx_too_short,     [PACKET_TOO_LONG] = NIC_CNT_rx_too_long,
		[PACKET_BAD_VERSION] = NIC_CNT_rx_bad_version, [PACKET_BAD_OPCODE] = NIC_CNT_rx_bad_opcode,
		[PACKET_BAD_PAD] = NIC_CNT_rx_bad_pad,	       [PACKET_BAD_ICRC] = NIC_CNT_rx_icrc_encapsulated,
		[PACKET_NO_KEY] = NIC_CNT_rx_key_unknown,      [PACKET_NO_TAG] = NIC_CNT_rx_key_missing,
		[PACKET_BAD_TAG] = NIC_CNT_rx_key_wrong,       [PACKET_BAD_REFERENCE] = NIC_CNT_rx_bad_reference,
	};

	return (enum nic_counter)map[v];
}

/** Handle a packet whose destination QPN belongs to no QP. */
static void no_qp(struct nic *nic, const struct packet *p)
{
	if (p->dest_qpn == NIC_MCAST_QPN) {
		mcast_rx(nic, p);
		return;
	}
	COUNT(nic, rx_no_qp);
	if (!p->bare)
		rdm_nobody(nic, p);
	trace_add(nic, p->dest_qpn, NIC_TR_drop, p->psn, NIC_CNT_rx_no_qp);
}

/** @return whether a reliable QP has accepted the packet (NIC_RX_ACCEPTED). */
static bool dispatch(struct nic *nic, const struct packet *p)
{
	struct nic_qp *qp;
	enum nic_counter why;
	uint32_t psns;

	if (p->op->kind == OP_CONGESTION) {
		COUNT(nic, rx_cnp_ignored);
		return false;
	}
	qp = table_find(&nic->qps, p->dest_qpn);
	if (!qp) {
		no_qp(nic, p);
		return false;
	}
	if (__builtin_expect(p->peer != qp->takes, 0))
		source_look(qp, p);
	why = rx_refusal(nic, qp, p);
	if (why != NIC_CNT_COUNT) {
		nic->counters[why]++;
		qp->counters.dropped_rx++;
		trace_add(nic, p->dest_qpn, NIC_TR_drop, p->psn, why);
		return false;
	}
	psns = refer_psns(qp, p);
	COUNT_BY(nic, rx_packets, psns - 1); /* nic_rx() has already counted one packet */
	qp->counters.rx_packets += psns;
	qp->counters.rx_bytes += p->payload_len;
	trace_add(nic, qp->qpn, NIC_TR_rx, p->psn, p->op->value);
	if (qp->type != NIC_QPT_UD)
		return op_is_response(p->op) ? comp_rx(qp, p) : resp_rx(qp, p);
	ud_rx(qp, p);
	return false;
}

/** Count and trace a packet that packet_parse_keyed() has refused. */
static void drop_malformed(struct nic *nic, enum packet_verdict verdict)
{
	nic->counters[verdict_counter(verdict)]++;
	trace_add(nic, 0, NIC_TR_drop, 0, verdict_counter(verdict));
}

bool nic_rx_check(struct nic *nic, const struct nic_rx_frame *frame)
{
	struct packet p;
	enum packet_verdict verdict = packet_parse_keyed(frame, nic->keyed, &p);

	if (verdict != PACKET_OK)
		drop_malformed(nic, verdict);
	return verdict == PACKET_OK;
}

enum nic_rx_verdict nic_rx(struct nic *nic, const struct nic_rx_frame *frame, uint64_t now_ns)
{
	struct packet p;
	enum packet_verdict verdict;
	bool accepted;

	nic_see_time(nic, now_ns);
	if (!nic->port_up) {
		COUNT(nic, rx_port_down);
		return NIC_RX_MALFORMED;
	}
	verdict = packet_parse_keyed(frame, nic->keyed, &p);
	if (verdict != PACKET_OK) {
		drop_malformed(nic, verdict);
		return NIC_RX_MALFORMED;
	}
	COUNT(nic, rx_packets);
	COUNT_BY(nic, rx_bytes, p.payload_len);
	if (p.ip_id_recovered)
		COUNT(nic, rx_ip_id_recovered);
	accepted = dispatch(nic, &p);
	nic_settle_failed_cqs(nic);
	nic_settle_due(nic);
	return accepted ? NIC_RX_ACCEPTED : NIC_RX_PARSED;
}

/* ---- time -------------------------------------------------------------------------------------------- */

uint64_t nic_next_deadline(const struct nic *nic)
{
	uint64_t next = time_next(nic);

	return next == TIME_NEVER ? TIME_NEVER : next - nic->now + nic->told_ns;
}

uint64_t nic_time(struct nic *nic, uint64_t now_ns)
{
	nic_see_time(nic, now_ns);
	return nic_next_deadline(nic);
}

void nic_timeout(struct nic *nic, uint64_t now_ns)
{
	struct nic_qp *qp;

	nic_see_time(nic, now_ns);
	acks_due(&nic->ack_wait, nic->now);
	acks_due(&nic->ack_lazy, nic->now);
	while ((qp = timer_expired(nic, nic->now)) != NULL)
		req_timeout(qp, nic->now);
	if (nic->rdm_deadline <= nic->now)
		rdm_timeout(nic);
	if (nic->rare_ns <= nic->now) {
		trig_timeout(nic);
		cq_hold_timeout(nic);
		xrc_timeout(nic);
	}
	nic_settle_failed_cqs(nic);
	nic_settle_due(nic);
}
