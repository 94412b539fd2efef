/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cm_sim.h - uroce_cm_sim: connection managers of several hosts in a virtual network, on a virtual clock.
 *
 * Hosts have functions, which are processes with a CM each and a range of communication IDs; a host hands a MAD to its
 * functions as the engine does. Their applications connect, accept, reject, disconnect, ask for time and destroy ids at
 * random. Functions are killed, also in the middle of a call, and another CM adopts what was in their records. The
 * network loses, duplicates, delays and reorders MADs. A host outside the simulation (the stranger) repeats MADs with
 * errors, and floods hosts with REQs. Then the faults end, and:
 *
 * - each end of a connection has had its events once, in an order that the states allow, with the private data, QPNs
 *   and depths that the other end gave, and no event without the other end's call;
 * - if one end is established, so is the other end, unless the other end has given up after all its retries;
 * - after everything is destroyed no id is left anywhere, and every record is free;
 * - ids and requests that wait never exceed their limits.
 *
 * cm_world.c: clock, network, hosts. cm_app.c: applications and what they check. cm_main.c: options and seeds.
 */
#ifndef CM_SIM_H
#define CM_SIM_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "nic_cm.h"
#include "rng.h"

#define CM_HOSTS     4
#define CM_FUNCTIONS 96 /* functions on all hosts, including dead ones */
#define CM_CONNS     4096
#define CM_RECORDS   1024
#define CM_SERVICE   0x0000000001060000ull
#define CM_SERVICES  3
#define CM_FLOOD     UINT32_MAX /* number that the REQs of a flood carry in place of a connection's */

#define CM_OPTIONS(X)                                                                                                  \
	X(hosts, 2, CM_HOSTS, "hosts")                                                                                 \
	X(functions, 1, 2, "functions a host")                                                                         \
	X(ops, 20, 300, "connects and SIDR requests")                                                                  \
	X(pace_us, 20, 20000, "time between them, on average")                                                         \
	X(loss, 0, 200, "permille of MADs lost")                                                                       \
	X(dup, 0, 100, "permille of MADs that arrive twice")                                                           \
	X(strange, 0, 100, "permille of MADs that a stranger repeats, damaged")                                        \
	X(kill, 0, 30, "permille of operations that kill a function")                                                  \
	X(mid_kill, 0, 3, "permille of MADs whose sender is killed while it sends")                                    \
	X(flood, 0, 7, "7: a stranger floods with REQs")                                                               \
	X(life, 8, 12, "packet life, exponent; MADs take at most as long")                                             \
	X(answer, 10, 16, "response timeouts, exponent")                                                               \
	X(retries, 8, 15, "CM retries")                                                                                \
	X(sidr, 0, 300, "permille of operations that are SIDR requests")                                               \
	X(reuse, 0, 100, "permille of QPNs that a killed function had")                                                \
	X(backlog, 0, 3, "1: listeners have one of 4")

struct cm_opts {
	uint64_t seed;
#define X(name, lo, hi, help) uint32_t name;
	CM_OPTIONS(X)
#undef X
};

/** State of one end of a connection, as its application sees it. */
enum cm_end_state {
	END_NONE,
	END_ASKED,    /* active side: has called connect */
	END_ANSWERED, /* active side: has received a REP */
	END_WANTED,   /* passive side: has received a REQ */
	END_ACCEPTED, /* passive side: has called accept */
	END_ESTABLISHED,
	END_LEAVING, /* has called disconnect */
	END_LEFT,    /* has received a DREQ */
	END_WAITS,   /* in time-wait */
	END_OVER,
	END_STATES,
};

struct cm_end {
	struct cm_conn *conn;
	struct cm_function *function; /* NULL: this end does not exist yet */
	struct nic_cm_id *id;	      /* NULL: destroyed, or the process is dead */
	enum cm_end_state state;
	uint32_t qpn;
	bool passive, mra;
	bool accepted, established;
	bool gave_up; /* the CM gave up after all retries */
	bool killed, destroyed;
};

struct cm_conn {
	uint32_t number;
	unsigned to; /* index of the destination host */
	uint8_t responder_resources, initiator_depth, passive_responder, passive_depth;
	bool sidr;
	bool asked, replied;
	bool replaced; /* the REQ reached a second function after the first was killed */
	struct cm_end active, passive;
};

struct cm_function {
	struct cm_world *world;
	unsigned host;
	uint32_t number;
	bool live;
	bool doomed;	   /* dies when the current call returns; `snapshot` is a copy of its records */
	uint64_t timeouts; /* timeouts of the CM that adopted the connections */
	struct nic_cm *cm, *adopter;
	struct nic_cm_id *listener[CM_SERVICES];
	struct nic_cm_record records[CM_RECORDS], snapshot[CM_RECORDS];
	uint32_t held; /* REQs of a flood that wait for an answer */
	struct nic_cm_id *flood[64];
};

enum cm_item_kind { ITEM_MAD, ITEM_ACT, ITEM_ADOPT, ITEM_OPERATION };

struct cm_item {
	uint64_t at, seq;
	enum cm_item_kind kind;
	union {
		struct {
			struct nic_gid from, to;
			uint32_t len;
			uint8_t mad[NIC_CM_MAD_LEN + 8];
		};
		struct cm_end *end;
		struct cm_function *function;
	};
};

struct cm_stats {
	uint64_t connects, established, rejected, errors, kills, sidr, stale, floods, mads, adopted, gave_up;
};

struct cm_world {
	const struct cm_opts *opts;
	bool verbose, failed;
	uint64_t now, seq, hash;
	struct rng net, app, cm;
	struct cm_item **heap;
	uint32_t heap_len, heap_room;
	struct cm_function *functions[CM_FUNCTIONS];
	unsigned n_functions;
	struct cm_conn *conns;
	uint32_t n_conns, ops_left;
	uint32_t next_qpn[CM_HOSTS];
	bool faults, ending;
	uint8_t request[NIC_CM_MAD_LEN]; /* a REQ seen on the network, used as the pattern of floods */
	bool have_request;
	struct cm_stats stats;
};

/* ---- cm_world.c ------------------------------------------------------------------------------------------------ */

/** Run one seed. @return false: an oracle was violated, and a message was printed. */
bool cm_world_run(const struct cm_opts *opts, bool verbose, struct cm_stats *stats, uint64_t *hash);
void cm_violation(struct cm_world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cm_trace(struct cm_world *w, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct nic_gid cm_host_gid(unsigned host);
/** Call the end's application again after `us` microseconds. */
void cm_act_later(struct cm_world *w, struct cm_end *end, uint64_t us);

/* ---- cm_app.c -------------------------------------------------------------------------------------------------- */

void cm_app_event(void *ctx, const struct nic_cm_event *event);
void cm_app_listen(struct cm_function *f);
/** A new connection or SIDR request of this function. */
void cm_app_operation(struct cm_function *f);
/** The end's application does something that its state allows. */
void cm_app_act(struct cm_end *end);
void cm_app_killed(struct cm_function *f);
/** After all connections have had time to settle, check that both ends of each connection agree. */
void cm_app_agree(struct cm_world *w);
void cm_app_destroy_all(struct cm_world *w);

#endif
