/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rig.h - fixture for tests of the core: one NIC with a connected QP on a virtual clock, and a peer whose packets the
 * test writes and reads by hand. pair.h puts two rigs back to back. Failures report the line of the test.
 *
 * Independent of the core's internals: everything goes through nic.h and packet.h.
 */
#ifndef UNIT_RIG_H
#define UNIT_RIG_H

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "nic.h"
#include "packet.h"
#include "psn.h"

/** Opcodes as on the wire (IBTA table 38), without the service bits: these are 0 for RC, RIG_UC and RIG_XRC for others.
 */
enum rig_op {
	SEND_FIRST = 0x00,
	SEND_MIDDLE = 0x01,
	SEND_LAST = 0x02,
	SEND_LAST_IMM = 0x03,
	SEND_ONLY = 0x04,
	SEND_ONLY_IMM = 0x05,
	WRITE_FIRST = 0x06,
	WRITE_MIDDLE = 0x07,
	WRITE_LAST = 0x08,
	WRITE_LAST_IMM = 0x09,
	WRITE_ONLY = 0x0a,
	WRITE_ONLY_IMM = 0x0b,
	READ_REQ = 0x0c,
	READ_RESP_FIRST = 0x0d,
	READ_RESP_MIDDLE = 0x0e,
	READ_RESP_LAST = 0x0f,
	READ_RESP_ONLY = 0x10,
	ACK = 0x11,
	ATOMIC_ACK = 0x12,
	CMP_SWAP = 0x13,
	FETCH_ADD = 0x14,
	SEND_LAST_INV = 0x16,
	SEND_ONLY_INV = 0x17,
	FLUSH = 0x1c,
	ATOMIC_WRITE = 0x1d,
	RIG_UC = 0x20,
	RIG_XRC = 0xa0,
	UD_SEND_ONLY = 0x64,
	UD_SEND_ONLY_IMM = 0x65,
	CNP = 0x81,
	MASKED_CMP_SWAP = 0xc0,
	MASKED_FETCH_ADD = 0xc1,
	EXT_ATOMIC_ACK = 0xc2,
	ELEMENTS = 0xc4,
	FETCH_ELEMENTS = 0xc5,
	ELEMENTS_ACK = 0xc6,
};

/** AETH syndromes. */
enum rig_syndrome {
	SYN_ACK = 0x1f,
	SYN_RNR = 0x20, /* to be combined with the timer code */
	SYN_SEQ = 0x60,
	SYN_INV = 0x61,
	SYN_ACCESS = 0x62,
	SYN_OP = 0x63,
};

#define RIG_MTU		256u /* default path MTU, bytes: small, so that multi-packet messages stay short */
#define RIG_ARENA	(128u * 1024)
#define RIG_GUARD	4096u
#define RIG_SQ_PSN	0x001000u /* first PSN that the NIC sends */
#define RIG_RQ_PSN	0x002000u /* first PSN that the peer sends */
#define RIG_PEER_QPN	0x123456u
#define RIG_QKEY	0x11223344u
#define RIG_SRQN	0x345678u	  /* SRQ that requests of an XRC initiator name */
#define RIG_REMOTE_VA	0x7f0000001000ull /* remote address in requests of the NIC */
#define RIG_REMOTE_RKEY 0x51525354u
#define RIG_FRAMES	256
#define RIG_NO_ELEMENTS UINT32_MAX

/** Options of a rig; all zero: RC over IPv4 with ample queues. */
struct rig_opts {
	enum nic_qp_type type; /* 0: RC */
	bool v6;
	bool srq;					/* the QP receives from an SRQ; an XRC target always has one */
	uint32_t tags;					/* the SRQ matches tags, with room for so many buffers */
	bool sig_none;					/* clear sq_sig_all, which is set by default */
	bool cross_channel, managed_send, managed_recv; /* as in nic_qp_init */
	uint32_t cq_depth;				/* 0: 256 */
	uint32_t be_replies;				/* as in nic_qp_init; max_atomic_arg is 32 for RC */
	uint32_t max_fetch;				/* of nic_qp_init; 0: use 256 for RC; RIG_NO_ELEMENTS: use 0 */
	struct nic_qp_cap cap;				/* fields that are 0: 64 WRs, 4 SGEs, 128 B inline */
	struct nic_config
		nic; /* rig_create sets random and ctx; active_mtu 0: 4096; rig_tx checks tags, if there is a key */
};

struct rig {
	struct rig_opts opts;
	uint64_t now, seed;
	struct nic *nic;
	struct nic_pd *pd;
	struct nic_cq *send_cq, *recv_cq;
	struct nic_srq *srq;
	struct nic_xrcd *xrcd; /* of an XRC target */
	struct nic_qp *qp;
	uint32_t qpn;
	struct nic_mr *mr; /* the arena, all rights, iova = address */
	uint32_t lkey, rkey;
	uint8_t *map, *arena;	 /* arena[i] == rig_byte(i) at first; guard bytes before and after it */
	struct nic_qp_attr attr; /* all attributes; to change any, do so before rig_to_rtr / rig_to_rts */
	struct nic_gid gid, peer_gid;
	uint8_t peer_data[8192]; /* payload of packets of the peer: peer_data[i] == rig_peer_byte(i) */
	struct nic_sge sge;	 /* SGE of the last rig_wr */
	uint8_t (*frames)[NIC_FRAME_MAX];
	unsigned frame_lens[RIG_FRAMES];
	unsigned frame; /* index of the last packet fetched */
};

/* The pointers that identify CQs, QP and SRQ in their events (`user`). */
#define RIG_USER_SEND_CQ(rig) ((void *)&(rig)->send_cq)
#define RIG_USER_RECV_CQ(rig) ((void *)&(rig)->recv_cq)
#define RIG_USER_QP(rig)      ((void *)&(rig)->qp)
#define RIG_USER_SRQ(rig)     ((void *)&(rig)->srq)

static inline uint8_t rig_byte(uint32_t i)
{
	return (uint8_t)(i * 7 + (i >> 8) * 13 + 1);
}

static inline uint8_t rig_peer_byte(uint32_t i)
{
	return (uint8_t)(i * 11 + (i >> 8) * 5 + 3);
}

/** Create a rig whose QP is in RESET. opts NULL: all defaults. */
struct rig *rig_create(const struct rig_opts *opts);
/** Destroy the rig. Also checks that nothing was written outside the arena. */
void rig_destroy(struct rig *rig);
void rig_to_init(struct rig *rig);
/** Move the QP from RESET or INIT to RTR. */
void rig_to_rtr(struct rig *rig);
/** Move the QP from RESET, INIT or RTR to RTS. */
void rig_to_rts(struct rig *rig);
/** rig_create and rig_to_rts. */
struct rig *rig_ready(const struct rig_opts *opts);
/** Create another QP of the same kind on the same CQs, PD and SRQ, in RESET. */
struct nic_qp *rig_qp_create(struct rig *rig);
/** Move the QP to `state`, ERR or RESET. */
void rig_modify_state(struct rig *rig, enum nic_qp_state state);
/** Create a CQ; its events carry `user`. */
struct nic_cq *rig_cq_create(struct rig *rig, uint32_t depth, void *user);

/* ---- work requests ------------------------------------------------------------------------------------- */

/** A send WR with one SGE (none if len is 0) at arena[offset]; remote address and key are the peer's. */
struct nic_send_wr rig_wr(struct rig *rig, uint64_t wr_id, enum nic_wr_opcode opcode, uint32_t offset, uint32_t len);
/** Post the WR, which must be accepted. */
#define rig_post(rig, wr) assert_int_equal(nic_post_send((rig)->qp, (wr)), 0)
#define rig_post_send(rig, wr_id, opcode, offset, len)                                                                 \
	rig_post_send_at(rig, wr_id, opcode, offset, len, __FILE__, __LINE__)
void rig_post_send_at(struct rig *rig, uint64_t wr_id, enum nic_wr_opcode opcode, uint32_t offset, uint32_t len,
		      const char *file, int line);
/** Post a receive to the SRQ, if any, or the QP; one SGE, none if len is 0. */
#define rig_post_recv(rig, wr_id, offset, len) rig_post_recv_at(rig, wr_id, offset, len, __FILE__, __LINE__)
void rig_post_recv_at(struct rig *rig, uint64_t wr_id, uint32_t offset, uint32_t len, const char *file, int line);

/* ---- packets ------------------------------------------------------------------------------------------- */

/** Fetch one packet from the NIC. It must parse. The payload stays readable for RIG_FRAMES more packets. */
bool rig_tx(struct rig *rig, struct packet *p);
/** Fetch the next packet; it must have this opcode and PSN. */
#define rig_expect_tx(rig, op, psn) rig_expect_tx_at(rig, op, psn, __FILE__, __LINE__)
struct packet rig_expect_tx_at(struct rig *rig, unsigned op, uint32_t psn, const char *file, int line);
/** Fetch the next packet; it must be an ACK packet with this PSN and syndrome. */
#define rig_expect_ack(rig, psn, syndrome) rig_expect_ack_at(rig, psn, syndrome, __FILE__, __LINE__)
struct packet rig_expect_ack_at(struct rig *rig, uint32_t psn, unsigned syndrome, const char *file, int line);
/** Assert that the NIC has nothing to send. */
#define rig_expect_silence(rig) rig_expect_silence_at(rig, __FILE__, __LINE__)
void rig_expect_silence_at(struct rig *rig, const char *file, int line);
/** Discard all packets the NIC has to send. @return the number of packets */
unsigned rig_drain(struct rig *rig);

/** A packet from the peer: correct addressing, AckReq on the last packet of RC requests, no payload; VA and R_Key of
 *  the arena. */
struct packet rig_peer_packet(struct rig *rig, unsigned op, uint32_t psn);
/** As rig_peer_packet, with payload peer_data[offset..offset + len) and DMA length `len`. */
struct packet rig_peer_data(struct rig *rig, unsigned op, uint32_t psn, uint32_t offset, uint32_t len);
/** Encode the packet (computing the pad) and deliver it. @return nic_rx's verdict */
enum nic_rx_verdict rig_rx_verdict(struct rig *rig, const struct packet *p);
bool rig_rx(struct rig *rig, const struct packet *p);
/** Deliver raw bytes of an IP packet. */
bool rig_rx_bytes(struct rig *rig, const uint8_t *ip, uint32_t len);
/** Do rig_peer_data and rig_rx in one step. */
void rig_rx_data(struct rig *rig, unsigned op, uint32_t psn, uint32_t offset, uint32_t len);
/** Deliver an ACK packet from the peer. */
void rig_ack(struct rig *rig, uint32_t psn, unsigned syndrome);

/* ---- observations -------------------------------------------------------------------------------------- */

/** Poll for a completion. @return whether there was one */
bool rig_poll(struct nic_cq *cq, struct nic_wc *wc);
/** Poll for the next completion; it must have this id and status. */
#define rig_expect_wc(cq, wr_id, status) rig_expect_wc_at(cq, wr_id, status, __FILE__, __LINE__)
struct nic_wc rig_expect_wc_at(struct nic_cq *cq, uint64_t wr_id, enum nic_wc_status status, const char *file,
			       int line);
#define rig_expect_no_wc(cq) assert_int_equal(nic_cq_count(cq), 0)
/** A guard (nic_config.guard) that reports unmapped memory after rig_good_accesses accesses. */
extern unsigned rig_good_accesses;
bool rig_guard(void *ctx, void (*fn)(void *arg), void *arg);
/** Advance virtual time by `ns`, then run the timers. */
void rig_advance(struct rig *rig, uint64_t ns);
#define rig_counter(rig, name) nic_counters((rig)->nic)[NIC_CNT_##name]
/** Whether this event is pending for `user`; consumes all pending events. */
bool rig_event(struct rig *rig, enum nic_event_type type, const void *user);
/** Pending events of `user`, one bit (1 << enum nic_event_type) each; consumes all pending events. */
uint64_t rig_events(struct rig *rig, const void *user);
/** Assert that arena[offset..] holds len bytes of peer_data from `from` on. */
#define rig_expect_data(rig, offset, from, len)                                                                        \
	assert_memory_equal((rig)->arena + (offset), (rig)->peer_data + (from), len)
/** Assert that arena[offset..] has its initial contents. */
#define rig_expect_untouched(rig, offset, len) assert_true(rig_untouched(rig, offset, len))
bool rig_untouched(const struct rig *rig, uint32_t offset, uint32_t len);
/** The remote address of arena[offset]. */
static inline uint64_t rig_va(const struct rig *rig, uint32_t offset)
{
	return (uintptr_t)rig->arena + offset;
}

/** 4.096 us * 2^code */
static inline uint64_t rig_timeout_ns(unsigned code)
{
	return 4096ull << code;
}

/** The longest ACK timeout: backoff doubles it on each consecutive expiry, up to a factor of four. */
static inline uint64_t rig_timeout_max_ns(unsigned code)
{
	return 4 * rig_timeout_ns(code);
}

#endif
