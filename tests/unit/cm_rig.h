/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_rig.h - two connection managers, side a and side b, and the network between them, for tests that read like
 * transcripts.
 *
 * The transcript has every MAD sent and every event: "a>REQ" is a REQ that side a sends, "a:REP" the event that a REP
 * has arrived at side a. MADs stay queued until rig_pass or rig_time delivers them; delivery takes no virtual time.
 */
#ifndef CM_RIG_H
#define CM_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cm_mad.h"
#include "nic_cm.h"

#define RIG_SERVICE 0x01061234u
#define RIG_RECORDS 64
#define RIG_QUEUE   512
#define RIG_ANSWER  14 /* response timeouts: 67 ms */
#define RIG_LIFE    10 /* packet life: 4.2 ms */
/* How long the active end waits for a response before it retransmits. */
#define RIG_WAIT    (nic_timeout_ns(RIG_ANSWER) + 2 * nic_timeout_ns(RIG_LIFE))
/* How long the passive end waits. The REQ does not contain the packet life: the passive end takes half of the REQ's ACK
 * timeout instead. With these values, that half is twice RIG_LIFE's time. */
#define RIG_WAIT_B  (nic_timeout_ns(RIG_ANSWER) + 2 * nic_timeout_ns(RIG_LIFE + 1))
#define RIG_RETRIES 3

enum { A, B };

struct rig_side {
	struct rig *rig;
	char name;
	struct nic_gid gid;
	struct nic_cm *cm;
	struct nic_cm_record records[RIG_RECORDS];
	struct nic_cm_id *listener;
	struct nic_cm_event event; /* the last event; its pointers are into `data` and `info` */
	uint8_t data[NIC_CM_MAD_LEN], info[NIC_CM_INFO_LEN];
	struct nic_cm_id *id;							   /* the id of the last event */
	void (*on_event)(struct rig_side *side, const struct nic_cm_event *event); /* or NULL */
	uint32_t random;
};

struct rig_mad {
	unsigned from;
	struct nic_gid peer;
	uint8_t bytes[NIC_CM_MAD_LEN];
};

struct rig {
	struct rig_side side[2];
	uint64_t now;
	struct rig_mad queue[RIG_QUEUE];
	unsigned queued;
	/* For each attribute ID, at index ID - CM_REQ: how many of the next MADs with this ID are lost, or arrive
	 * twice. */
	unsigned drop[32], twice[32];
	struct cm_mad last; /* the last MAD that left, and its bytes */
	uint8_t last_bytes[NIC_CM_MAD_LEN];
	char transcript[4096];
};

/** Create both managers; side b listens on RIG_SERVICE. */
int rig_setup(void **state);
int rig_teardown(void **state);
/** Create both managers again without records, so that records do not limit the number of ids. */
void rig_without_records(struct rig *rig);

/** Fill in the clock, random numbers and callbacks for a manager on this side. */
void rig_config(struct rig_side *side, struct nic_cm_config *config);

/** rig_connect connects side a to side b with these default arguments. */
struct nic_cm_connect rig_connect_args(struct rig *rig);
struct nic_cm_id *rig_connect(struct rig *rig);
/** Run the exchange up to the REP: side a is then in REP_RCVD, *passive in REP_SENT. @return the id at side a */
struct nic_cm_id *rig_reply(struct rig *rig, struct nic_cm_id **passive);
/** Run the whole exchange. *a and *b: the ids at both sides; either pointer can be NULL. Empties the transcript. */
void rig_establish(struct rig *rig, struct nic_cm_id **a, struct nic_cm_id **b);
struct nic_cm_accept rig_accept_args(void);
void rig_accept(struct nic_cm_id *id);
void rig_accept_as(struct nic_cm_id *id, uint32_t qpn);
void rig_reject(struct nic_cm_id *id, uint16_t reason);

/** Deliver all MADs in flight, and those sent in response to them. */
void rig_pass(struct rig *rig);
/** Advance the virtual time by `ns`, and run all timers and deliveries that are due within it. */
void rig_time(struct rig *rig, uint64_t ns);
/** Deliver a MAD from the address of side `from` to the other side; `from` 2: from an unknown address to side b. */
void rig_inject(struct rig *rig, unsigned from, const struct cm_mad *mad);

enum nic_cm_state rig_state(const struct nic_cm_id *id);
uint64_t rig_count(const struct rig *rig, unsigned side, enum nic_cm_counter counter);
/** Assert that the transcript since the last call is `transcript`. */
void rig_expect(struct rig *rig, const char *transcript);

#endif
