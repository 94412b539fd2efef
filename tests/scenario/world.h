/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * world.h - two NICs, A and B, one RC connection, a wire with a delay of 10 us that loses the frames listed in `lose`,
 * and a transcript with one line per event and its virtual time in microseconds. For tests that read like the
 * specification's ladder diagrams. Built on nic/include/nic.h only; frames are decoded by tests/sim/decode.c.
 *
 * PSNs: A sends from 100 on, B from 200 on. Path MTU 256.
 */
#ifndef SCENARIO_WORLD_H
#define SCENARIO_WORLD_H

#include "decode.h"
#include "nic.h"

#define WORLD_DELAY_NS 10000

struct world_flight {
	uint64_t at_ns;
	unsigned to;
	uint32_t len;
	uint8_t data[NIC_FRAME_MAX];
};

struct world_node {
	struct nic *nic;
	struct nic_gid gid;
	struct nic_pd *pd;
	struct nic_cq *cq;
	struct nic_qp *qp;
	struct nic_mr *mr;
	_Alignas(8) uint8_t mem[8192]; /* registered with all access rights, at its own address */
};

struct world_options {
	uint8_t timeout, retry_cnt, rnr_timer, rnr_retry;
};

struct world {
	struct world_node node[2];
	uint64_t now_ns, random;
	struct world_flight flight[64]; /* frames on the wire, in FIFO order */
	unsigned flying;
	unsigned lose[8]; /* numbers of frames to lose, counted from 1 over both directions; 0 ends the list */
	unsigned frames;
	/* time at which the application posts a receive on B */
	uint64_t recv_at_ns;
	char text[8192];
	unsigned length;
};

enum { A = 0, B = 1 };

void world_open(struct world *w, const struct world_options *options);
void world_close(struct world *w);

/** Post a send WR on A. `at` is an offset in A's memory, `remote` an offset in B's memory. */
void world_post(struct world *w, uint64_t wr_id, uint32_t opcode, uint32_t at, uint32_t len, uint32_t remote);
/** Post any send WR on A; addresses and keys filled in by the caller. */
void world_post_wr(struct world *w, const struct nic_send_wr *wr);
/** Post a receive of 1024 bytes on B, at offset 4096 of its memory. */
void world_recv(struct world *w, uint64_t wr_id);

/** Run until nothing more happens. */
void world_run(struct world *w);

/** Compare the transcript; on a difference print both. @return true if equal. */
bool world_saw(const struct world *w, const char *expected);

#endif
