/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verify.h - declarations shared by the files of the data verifier.
 *
 * The verifier is an ordinary verbs program (it uses only libibverbs' public interface), one binary for both ends. It
 * moves pseudo-random data with every operation and checks every byte, every immediate and every completion field;
 * perftest and the pingpongs measure but hardly check the data. Both ends walk the same plan, which the client sends to
 * the server, and derive the same data from (seed, phase, direction, QP, message), so only addresses and keys have to
 * be exchanged over TCP.
 */
#ifndef VERIFY_H
#define VERIFY_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MAX_QPS	  16
#define MAX_SIZES 24
#define MAX_MSGS  32 /* maximum number of messages of a QP in one phase */
#define MAX_SGES  8
#define GRH_LEN	  40
#define UD_QKEY	  0x22446688u

enum service { SVC_RC, SVC_UC, SVC_UD, SVC_COUNT };

enum op {
	OP_SEND,
	OP_SEND_IMM,
	OP_SEND_INV,
	OP_WRITE,
	OP_WRITE_IMM,
	OP_READ,
	OP_CAS,
	OP_FAA,
	OP_FAA_SHARED, /* all QPs add to the same counter */
	OP_ERRORS,     /* not a transfer: the error cases of errors.c */
	OP_COUNT,
};

/** Bit mask of the ends that send requests: bit 0 for the client, bit 1 for the server. The number of an end's bit is
 * also the direction (`dir`) of the messages that this end sends. */
enum { DIR_CLIENT = 1, DIR_SERVER = 2, DIR_BOTH = 3 };

/** The options of a run. The client sends its options to the server. */
struct plan {
	uint64_t seed;
	uint32_t services, ops; /* bit masks of enum service and enum op */
	uint32_t sizes[MAX_SIZES], size_count;
	uint32_t qps, msgs, mtu, dirs;
	uint32_t timeout_code, stall_ms;
	uint32_t events, use_srq, no_inline;
};

struct phase {
	const struct plan *plan;
	enum service svc;
	enum op op;
	uint32_t size, sges, msgs, index;
	uint32_t stride; /* bytes in a slot; one slot for each message */
	bool inline_data;
};

/** A registered buffer and its expected contents. */
struct area {
	uint8_t *mem, *shadow;
	size_t len;
	struct ibv_mr *mr;
};

enum { AREA_TX, AREA_SINK, AREA_TARGET, AREA_RESULT, AREA_COUNT };

/** What one end tells the other about one of its QPs, and about its memory. */
struct link_info {
	uint32_t qpn, psn;
};

struct end_info {
	union ibv_gid gid;
	uint64_t target_addr;
	uint32_t target_rkey, qps;
	struct link_info link[MAX_QPS];
};

struct link {
	struct ibv_qp *qp;
	struct ibv_ah *ah; /* UD */
	uint32_t psn;
};

/** State of one end of the test. */
struct end {
	int oob;
	unsigned self; /* 0 client, 1 server; also the direction in which this end is the requester */
	uint8_t gid_index;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *send_cq, *recv_cq;
	struct ibv_srq *srq;
	struct area area[AREA_COUNT];
	struct link link[MAX_QPS];
	uint32_t links;
	uint32_t max_inline;
	unsigned inv_flag; /* bit in wc_flags that reports an invalidation */
	struct end_info local, remote;
	uint64_t total_msgs, total_bytes, lost_phases;
};

/* main.c */
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));
uint64_t now_ms(void);

/* oob.c: the TCP side channel */
int oob_connect(const char *host, int port);
int oob_accept(int port);
void oob_swap(int fd, const void *mine, void *theirs, size_t len);
void oob_send(int fd, const void *data, size_t len);
void oob_recv(int fd, void *data, size_t len);
/** Exchange one byte with the other end. @return the larger of the two bytes. */
int oob_agree(int fd, int status);

/* data.c: pseudo-random data and its placement */
uint64_t data_key(const struct phase *ph, unsigned kind, unsigned dir, unsigned qp, unsigned msg);
void data_fill(uint8_t *buf, size_t len, uint64_t key);
uint64_t data_u64(uint64_t key);
/** Distribute len bytes over at most `count` SGEs of pseudo-random lengths, from addr on, with gaps between them.
 * @return the number of SGEs. */
int sge_layout(struct ibv_sge *sge, unsigned count, uint8_t *addr, size_t len, uint32_t lkey, uint64_t key);
/** Copy `len` bytes of `data` to the ranges that `sge` describes, with `delta` added to their addresses (to write to
 * the shadow instead of the memory). Leave the first `skip` bytes of the ranges unchanged. */
void sge_scatter(const struct ibv_sge *sge, int count, ptrdiff_t delta, size_t skip, const uint8_t *data, size_t len);
void area_reset(struct area *area, size_t used, uint64_t key);
/** Compare with the shadow; @return the offset of the first difference, or -1. */
long area_diff(const struct area *area, size_t used);

enum { KIND_DATA, KIND_FILL, KIND_TX_SGE, KIND_RX_SGE, KIND_OFFSET, KIND_IMM, KIND_SIGNAL, KIND_VALUE, KIND_PSN };

/* link.c: device, memory, queue pairs */
void end_open(struct end *end, const char *device, const struct plan *plan, size_t area_len);
void end_close(struct end *end);
/** (Re)create the QPs for a service and connect them to the other end's. */
void links_connect(struct end *end, const struct plan *plan, enum service svc, uint64_t generation);
void links_destroy(struct end *end);
void qp_make(struct end *end, const struct plan *plan, enum service svc, struct link *link, bool use_srq);
void qp_bring_up(struct end *end, const struct plan *plan, enum service svc, struct link *link,
		 const struct link_info *peer, uint8_t rnr_retry);

/* phase.c: one transfer */
enum { PHASE_OK = 0, PHASE_LOST = 1 };
/** @return PHASE_OK, or PHASE_LOST when an unreliable service lost messages. Any other error ends the process. */
int phase_run(struct end *end, struct phase *ph);
size_t phase_stride(const struct phase *ph);
const char *op_name(enum op op);
const char *service_name(enum service svc);

/* check.c: compares completions and memory with the expected values */
struct progress {
	unsigned sent[MAX_QPS], received[MAX_QPS]; /* messages completed, for each QP */
	unsigned send_left, recv_left;
	uint8_t shared_seen[MAX_QPS * MAX_MSGS]; /* OP_FAA_SHARED: returned values */
};
bool msg_is_signaled(const struct phase *ph, unsigned dir, unsigned qp, unsigned msg);
unsigned msg_offset(const struct phase *ph, unsigned dir, unsigned qp, unsigned msg);
uint8_t *msg_slot(const struct phase *ph, const struct area *area, unsigned qp, unsigned msg);
int msg_recv_sges(const struct end *end, const struct phase *ph, unsigned slot, struct ibv_sge *sge);
int msg_result_sges(const struct end *end, const struct phase *ph, unsigned qp, unsigned msg, struct ibv_sge *sge);
/** The operands and expected results of an atomic, derived from (phase, dir, qp, msg). `after` gets the value after the
 * operation. @return the value before the operation. */
uint64_t msg_atomic(const struct phase *ph, unsigned dir, unsigned qp, unsigned msg, uint64_t *compare_add,
		    uint64_t *swap, uint64_t *after);
void check_send_wc(struct end *end, const struct phase *ph, struct progress *pr, const struct ibv_wc *wc);
void check_recv_wc(struct end *end, const struct phase *ph, struct progress *pr, const struct ibv_wc *wc,
		   const uint32_t *mw_rkeys);
/** Check this end's memory as responder and as requester at the end of a phase. @return PHASE_OK or PHASE_LOST. */
int check_memory(struct end *end, const struct phase *ph, struct progress *pr, bool requester, bool responder);
bool op_takes_recv(enum op op);
bool op_is_atomic(enum op op);

/* errors.c */
void errors_run(struct end *end, const struct plan *plan);

#endif
