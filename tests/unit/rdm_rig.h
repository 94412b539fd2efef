/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rdm_rig.h - reliable-datagram endpoints, each on its own NIC, on a network that can lose, duplicate and swap packets;
 * the seed determines which packets. Completions are stored in order.
 */
#ifndef UNIT_RDM_RIG_H
#define UNIT_RDM_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "nic_frame.h"
#include "nic_rdm.h"
#include "trigger.h"

#define RDM_NODES 5
#define RDM_DONES 4096
#define RDM_ARENA 262144u
#define RDM_PORT  100
#define RDM_QUICK 64

/** A packet's sender and its references to the sender's memory. */
struct rdm_said {
	struct rdm_node *from;
	struct nic_piece piece[NIC_PIECES_MAX];
	uint32_t n, psns, qpn; /* as in nic_tx_frame */
	bool answers, revoked;
};

struct rdm_node {
	struct rdm_rig *rig;
	struct nic *nic; /* NULL: the host is down */
	struct nic_pd *pd;
	struct nic_rdm *ep;
	struct nic_gid gid;
	struct nic_rdm_addr addr;
	struct nic_mr *mr; /* covers the arena, with all access rights */
	uint8_t *arena;
	struct nic_rdm_done done[RDM_DONES];
	unsigned n_done, n_seen;    /* completions that have arrived, and those consumed by rdm_next and rdm_expect */
	unsigned n_written, n_read; /* served requests of peers: how many wrote memory, how many read it */
	uint32_t path;		    /* if rig.refers or rig.quick: a path without an ICRC */
	uint32_t revocations;	    /* if rig.refers */
	uint8_t room[NIC_ROOM_LEN]; /* as from nic_config.tx_room */
	bool unmapped;		    /* all memory the NIC accesses is unmapped */
	struct nic_trig_cntr *completions, *requests; /* NULL, or count completions and served requests */
	/** If not NULL: called for each completion, as nic_rdm_init.done would be. The completion is not stored. */
	void (*told)(struct rdm_node *n, const struct nic_rdm_done *done);
};

/** A packet that a NIC has sent at once (nic_config.tx_now), in whole. */
struct rdm_quick {
	uint8_t ip[128];
	uint32_t len;
	unsigned from;
	struct rdm_said said;
};

/** What rdm_call_of finds in a packet: a call (a datagram that makes a connection between endpoints), or none. */
enum rdm_call_said { NO_CALL, CALL_HELLO, CALL_WHO, CALL_WELCOME };

struct rdm_rig {
	struct rdm_node node[RDM_NODES];
	unsigned nodes;
	uint64_t now, random;
	uint32_t lose, twice, swap; /* how many of 1000 packets */
	uint64_t sent, lost;
	uint8_t held[NIC_FRAME_MAX]; /* a packet that the next one overtakes */
	uint32_t held_len;
	struct rdm_said held_said;
	uint32_t unread;	/* how many of 1000 fetches fail */
	uint64_t fetched;	/* successful fetches */
	uint64_t read_requests; /* READ requests sent */
	struct rdm_quick quick_packet[RDM_QUICK];
	unsigned n_quick;    /* packets sent at once and not yet carried */
	uint64_t sent_quick; /* packets ever sent at once */
	bool giving;	     /* a NIC gives frames */
	bool no_room;	     /* no request for room is granted */
	bool lossless;	     /* for NICs started from now on: their paths without an ICRC are said to lose nothing */
	/** NULL, or selects further packets to lose. */
	bool (*cut)(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len);
	struct nic_rdm_init init; /* limits and timeouts of endpoints */
	uint64_t ack_delay_ns;	  /* for NICs started from now on */
	bool refers;		  /* for NICs started from now on: packets can carry references */
	uint32_t quick;		  /* for NICs started from now on: how many of 1000 requests for room are granted */
};

struct rdm_rig *rdm_rig_create(unsigned nodes, uint64_t seed);
void rdm_rig_destroy(struct rdm_rig *rig);
/** The host disappears without notice, or (re)starts with no memory of earlier state. */
void rdm_node_stop(struct rdm_node *n);
void rdm_node_start(struct rdm_node *n);
/** Deliver a packet a second time, or late. */
void rdm_deliver(struct rdm_rig *rig, const uint8_t *ip, uint32_t len);
enum rdm_call_said rdm_call_of(const uint8_t *ip, uint32_t len);
/** For rig.cut: loses every packet. */
bool rdm_cut_all(struct rdm_rig *rig, unsigned from, const uint8_t *ip, uint32_t len);
/** Carry packets and run timers until all is quiet, for at most `ns`. @return whether all is quiet. */
bool rdm_run(struct rdm_rig *rig, uint64_t ns);
/** Consume the node's next completion, which must have arrived. */
struct nic_rdm_done rdm_next(struct rdm_node *n);
#define rdm_expect(n, kind, status, context) rdm_expect_at(n, kind, status, context, __FILE__, __LINE__)
struct nic_rdm_done rdm_expect_at(struct rdm_node *n, enum nic_rdm_kind kind, uint32_t status, uintptr_t context,
				  const char *file, int line);
#define rdm_expect_nothing(n) assert_int_equal((n)->n_done, (n)->n_seen)
/** As rdm_expect, for a successful completion that may come after other unconsumed ones. */
void rdm_expect_among(struct rdm_node *n, enum nic_rdm_kind kind, uintptr_t context);
struct nic_rdm_peer *rdm_peer(struct rdm_node *from, struct rdm_node *to);
uint32_t rdm_random(struct rdm_rig *rig, uint32_t below);

/* Shorthands: the buffer is arena[at..at + len). */
int rdm_send(struct rdm_node *from, struct rdm_node *to, uintptr_t context, uint32_t flags, uint64_t tag, uint32_t at,
	     uint32_t len);
int rdm_recv(struct rdm_node *n, struct rdm_node *from, uintptr_t context, uint32_t flags, uint64_t tag,
	     uint64_t ignore, uint32_t at, uint32_t len);
/** Fill arena[at..at + len) with a pattern that depends on offset and seed, or check for that pattern. */
void rdm_fill(struct rdm_node *n, uint32_t at, uint32_t len, uint32_t seed);
bool rdm_holds(const struct rdm_node *n, uint32_t at, uint32_t len, uint32_t seed);

#endif
