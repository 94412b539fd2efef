/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_rig.h - two connection managers, a and b, and the network between them, for tests that read like transcripts.
 *
 * Every MAD that leaves and every event is noted: "a>REQ" is a REQ that a sends, "a:REP" the event of a REP at a. MADs
 * wait until rig_pass or time delivers them; each takes no time.
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
/* How long an end waits for an answer. */
#define RIG_WAIT    (nic_cm_time_ns(RIG_ANSWER) + 2 * nic_cm_time_ns(RIG_LIFE))
/* How long the passive end waits: REQ says only the ACK timeout of the path, of which half is at least its life. */
#define RIG_WAIT_B  (nic_cm_time_ns(RIG_ANSWER) + 2 * nic_cm_time_ns(RIG_LIFE + 1))
#define RIG_RETRIES 3

enum { A, B };

struct rig_side {
	struct rig *rig;
	char name;
	struct nic_gid gid;
	struct nic_cm *cm;
	struct nic_cm_record records[RIG_RECORDS];
	struct nic_cm_id *listener;
	struct nic_cm_event event; /* the last one; its pointers are into `data` and `info` */
	uint8_t data[NIC_CM_MAD_LEN], info[NIC_CM_INFO_LEN];
	struct nic_cm_id *id;							   /* of the last event */
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
	unsigned drop[32], twice[32]; /* by attribute - CM_REQ: how many of the next are lost, or arrive twice */
	struct cm_mad last;	      /* the last MAD that left, and its bytes */
	uint8_t last_bytes[NIC_CM_MAD_LEN];
	char transcript[4096];
};

/** Both managers, b listening for RIG_SERVICE. */
int rig_setup(void **state);
int rig_teardown(void **state);
/** Both managers anew, without records and so with as many ids as there may be. */
void rig_without_records(struct rig *rig);

/** Time, random numbers and callbacks of a manager of this side. */
void rig_config(struct rig_side *side, struct nic_cm_config *config);

/** a connects to b, with defaults. */
struct nic_cm_connect rig_connect_args(struct rig *rig);
struct nic_cm_id *rig_connect(struct rig *rig);
/** The exchange up to the REP: a is in REP_RCVD, *passive in REP_SENT. @return a. */
struct nic_cm_id *rig_reply(struct rig *rig, struct nic_cm_id **passive);
/** The whole exchange. *a and *b: the ends; either may be NULL. The transcript is empty afterwards. */
void rig_establish(struct rig *rig, struct nic_cm_id **a, struct nic_cm_id **b);
struct nic_cm_accept rig_accept_args(void);
void rig_accept(struct nic_cm_id *id);
void rig_accept_as(struct nic_cm_id *id, uint32_t qpn);
void rig_reject(struct nic_cm_id *id, uint16_t reason);

/** Deliver what is in flight, and what that causes. */
void rig_pass(struct rig *rig);
/** Let time pass, with all that is due in it. */
void rig_time(struct rig *rig, uint64_t ns);
/** A MAD from the address of `from`, or of a stranger (2), arrives at the other side, or at b. */
void rig_inject(struct rig *rig, unsigned from, const struct cm_mad *mad);

enum nic_cm_state rig_state(const struct nic_cm_id *id);
uint64_t rig_count(const struct rig *rig, unsigned side, enum nic_cm_counter counter);
/** The transcript since the last call is this. */
void rig_expect(struct rig *rig, const char *transcript);

#endif
