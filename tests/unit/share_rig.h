/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * share_rig.h - an XRC domain that two NICs share: the owner (O) of the target QP, and a guest (G). The initiator (I)
 * names SRQs of both. A stranger (S) has an endpoint like those with which O and G talk. The network is deterministic;
 * it can lose, duplicate and damage packets, and cut nodes off.
 */
#ifndef UNIT_SHARE_RIG_H
#define UNIT_SHARE_RIG_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "nic.h"
#include "nic_xrc_share.h"

enum { O, G, I, S, SHARE_NODES };

#define SHARE_ARENA  327680u
#define SHARE_MTU    256u
#define SHARE_HEARD  128u
#define SHARE_WRS    16u /* the initiator's send queue */
#define SHARE_SECOND 1000000000ull

struct share_node {
	struct share_rig *rig;
	struct nic *nic; /* NULL: gone */
	struct nic_rdm_addr addr;
	struct nic_pd *pd;
	struct nic_cq *cq; /* O and G: the SRQ's; I: the send queue's */
	struct nic_mr *mr; /* the arena, all rights */
	struct nic_xrcd *xrcd;
	struct nic_srq *srq;
	struct nic_qp *qp;  /* O: target, I: initiator */
	struct nic_rdm *ep; /* S */
	uint8_t *arena;
	uint64_t events;   /* of the target: one bit each */
	uint64_t told;	   /* as events, by the share's callback */
	uint32_t told_qpn; /* of the last of them */
	uint32_t served;   /* S: completions */
	/* The network: drop what this node sends, or what is sent to it. */
	bool mute, deaf;
	uint32_t allowance; /* become mute after so many packets; UINT32_MAX: never */
	bool hidden;	    /* nobody's `find` finds the node */
	bool banned;	    /* `shares` denies that the node shares the domain */
	bool member;	    /* S: shares the domain, as far as the others know */
};

struct share_opts {
	bool one_gid;	       /* all nodes have the same GID, as processes on one device have */
	enum nic_mtu port_mtu; /* 0: 1024 */
	uint32_t ack_delay_ns;
};

struct share_rig {
	struct share_opts opts;
	struct share_node node[SHARE_NODES];
	struct nic_qp_attr attr; /* for share_connect */
	uint32_t target;	 /* the target's QPN */
	struct nic_sge sge;
	uint64_t now, random;
	/* Of 1000 packets; [0]: between initiator and owner; [1]: the others. */
	uint32_t lose[2], twice[2], damage[2];
	uint64_t carried[2];
	uint32_t msn; /* the highest that O has sent to I since share_connect */
	bool astray;  /* what is sent to the owner arrives at the guest, too */
	/* Payloads of packets from O to G, if `records`. */
	bool records;
	struct share_heard {
		uint32_t len;
		uint8_t data[1100];
	} heard[SHARE_HEARD];
	unsigned n_heard;
};

struct share_rig *share_create(uint64_t seed, bool one_gid);
struct share_rig *share_create_with(uint64_t seed, const struct share_opts *opts);
void share_destroy(struct share_rig *rig);
/** Share a new domain, with a new SRQ. */
void share_join(struct share_node *n);
/** Destroy a node's NIC. */
void share_stop(struct share_node *n);
/** A node ends without notice, and another process begins in its place. O and I then have no QP. */
void share_restart(struct share_node *n);
uint32_t share_random(struct share_rig *rig, uint32_t below);
/** Create a target of the shared domain, or an initiator. */
struct nic_qp *share_target(struct share_node *n);
struct nic_qp *share_initiator(struct share_node *n);
/** Change the QP's state; the attributes are those that `state` requires. */
void share_modify(struct nic_qp *qp, const struct nic_qp_attr *attr, enum nic_qp_state state, bool target);
/** The mask of nic_qp_modify for a target's change to this state. */
uint32_t share_mask(enum nic_qp_state state, bool target);
/** Reset a target and an initiator and connect them. `psn` is that of requests. */
void share_connect_pair(struct share_rig *rig, unsigned owner, struct nic_qp *target, struct nic_qp *initiator,
			uint32_t psn, uint32_t answers);
/** The same for O's target and I's initiator. */
void share_connect(struct share_rig *rig, uint32_t psn, uint32_t answers);
/** Carry one packet of each node. @return whether there was any. */
bool share_step(struct share_rig *rig);
/** Carry packets, or if there are none, wait for the next timer. @return false: none is due before `until`. */
bool share_turn(struct share_rig *rig, uint64_t until);
/** Carry packets until there are none and no timer is due within `ns`. */
void share_run(struct share_rig *rig, uint64_t ns);
/** As share_run, but stop as soon as the CQ has `n` entries. @return whether it has. */
bool share_await(struct share_rig *rig, struct nic_cq *cq, uint32_t n, uint64_t ns);
void share_drop(struct share_node *n, bool drop);

/** A request from arena[at] of I to arena[remote] of node `to`, by its SRQ. */
struct nic_send_wr share_wr(struct share_rig *rig, unsigned to, enum nic_wr_opcode opcode, uint32_t at, uint32_t len,
			    uint32_t remote);
/** Post this request. */
void share_post(struct share_rig *rig, unsigned to, enum nic_wr_opcode opcode, uint32_t at, uint32_t len,
		uint32_t remote);
void share_recv(struct share_node *n, uint64_t wr_id, uint32_t at, uint32_t len);
/** Await the next completion. */
struct nic_wc share_next(struct share_node *n);
/** Await the next completion, which must have this status. */
#define share_expect(n, status) share_expect_at(n, status, __FILE__, __LINE__)
struct nic_wc share_expect_at(struct share_node *n, enum nic_wc_status status, const char *file, int line);
/** The target's events until now. */
uint64_t share_events(struct share_rig *rig);
/** Fill memory with a pattern, or check for it. */
void share_fill(uint8_t *p, uint32_t len, uint32_t seed);
bool share_holds(const uint8_t *p, uint32_t len, uint32_t seed);

static inline uint64_t share_word(const struct share_node *n, uint32_t at)
{
	uint64_t v;

	memcpy(&v, n->arena + at, sizeof(v));
	return v;
}

static inline void share_set_word(struct share_node *n, uint32_t at, uint64_t value)
{
	memcpy(n->arena + at, &value, sizeof(value));
}

#endif
