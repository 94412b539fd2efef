/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_wr.h - work requests, and posting them to queue pairs and shared receive queues; see nic.h. */
#ifndef NIC_NIC_WR_H
#define NIC_NIC_WR_H

#include <stdbool.h>
#include <stdint.h>

#include "nic_types.h"

/** The layout is that of struct ibv_sge. */
struct nic_sge {
	uint64_t addr;
	uint32_t length;
	uint32_t lkey;
};

/** Values of enum ibv_wr_opcode. */
enum nic_wr_opcode {
	NIC_WR_RDMA_WRITE = 0,
	NIC_WR_RDMA_WRITE_WITH_IMM = 1,
	NIC_WR_SEND = 2,
	NIC_WR_SEND_WITH_IMM = 3,
	NIC_WR_RDMA_READ = 4,
	NIC_WR_ATOMIC_CMP_AND_SWP = 5,
	NIC_WR_ATOMIC_FETCH_AND_ADD = 6,
	NIC_WR_LOCAL_INV = 7,
	NIC_WR_BIND_MW = 8,
	NIC_WR_SEND_WITH_INV = 9,
	NIC_WR_FLUSH = 14,
	NIC_WR_ATOMIC_WRITE = 15,  /* writes NIC_ATOMIC_WRITE_SIZE bytes with one store; the data may be INLINE */
	NIC_WR_SEND_ENABLE = 0x60, /* this and the next five: values of enum ibv_exp_wr_opcode. SEND_ENABLE, RECV_ENABLE
				    * and CQE_WAIT complete with opcode NIC_WC_SEND */
	NIC_WR_RECV_ENABLE = 0x61,
	NIC_WR_CQE_WAIT = 0x62,
	NIC_WR_MASKED_CMP_AND_SWP = 0x63,
	NIC_WR_MASKED_FETCH_AND_ADD = 0x64,
	NIC_WR_NOP = 0x65,	/* does nothing; completes in order, with opcode NIC_WC_SEND */
	NIC_WR_ELEMENTS = 0x66, /* this and the next: our own values. ELEMENTS, like a WRITE, returns no data and
				 * takes no responder resource */
	NIC_WR_FETCH_ELEMENTS = 0x67,
};

#define NIC_ATOMIC_WRITE_SIZE 8

/** Values of enum ibv_placement_type and ibv_selectivity_level. */
enum nic_flush_type { NIC_FLUSH_GLOBAL = 1 << 0, NIC_FLUSH_PERSISTENT = 1 << 1 };
enum nic_flush_level { NIC_FLUSH_RANGE = 0, NIC_FLUSH_MR = 1 };

/** Values of enum ibv_send_flags. */
enum nic_send_flags {
	NIC_SEND_FENCE = 1 << 0,
	NIC_SEND_SIGNALED = 1 << 1,
	NIC_SEND_SOLICITED = 1 << 2,
	NIC_SEND_INLINE = 1 << 3,
	NIC_SEND_CALC = 1 << 5, /* our own flag, only for RC QPs with nic_qp_init.cross_channel: sends a result
				 * calculated from the data; see nic_send_wr.rdma */
};

/** Values of enum ibv_exp_calc_op and enum ibv_exp_calc_data_type. Numbers have 8 bytes. */
enum nic_calc_op { NIC_CALC_ADD, NIC_CALC_MAXLOC, NIC_CALC_BAND, NIC_CALC_BXOR, NIC_CALC_BOR, NIC_CALC_OPS };
enum nic_calc_type { NIC_CALC_INT, NIC_CALC_UINT, NIC_CALC_FLOAT, NIC_CALC_TYPES };

/** Whether this operation exists for this type; false for numbers out of range. */
bool nic_calc_valid(uint32_t op, uint32_t type);

#define NIC_ATOMIC_SIZE_MAX 32 /* bytes */
#define NIC_ATOMIC_WORDS    (NIC_ATOMIC_SIZE_MAX / 8)

enum nic_atomic_op {
	NIC_ATOMIC_CAS, /* if (*va == compare) *va = swap */
	NIC_ATOMIC_FAA, /* *va += add */
	NIC_ATOMIC_MCS, /* if (((*va ^ compare) & compare_mask) == 0) *va = (*va & ~swap_mask) | (swap & swap_mask) */
	NIC_ATOMIC_MFA, /* *va += add, without carry out of the bits set in `boundary` */
};

/**
 * An atomic operation with its operands; operands that the operation does not use are ignored. Operands and results are
 * numbers in 64-bit words, least significant word first. A 4-byte number is in the low half of word 0, and the high
 * half is zero.
 */
struct nic_atomic {
	enum nic_atomic_op op;
	uint32_t size; /* bytes: 4, 8, 16 or 32; 8 for CAS and FAA */
	uint64_t swap_add[NIC_ATOMIC_WORDS];
	uint64_t compare[NIC_ATOMIC_WORDS];
	uint64_t swap_mask[NIC_ATOMIC_WORDS];
	uint64_t compare_mask[NIC_ATOMIC_WORDS];
	uint64_t boundary[NIC_ATOMIC_WORDS]; /* has the most significant bit of each field set; all zeroes: one field */
};

/** Parameters of a BIND_MW work request; len 0 unbinds a type 1 window. */
struct nic_bind {
	struct nic_mw *mw;
	struct nic_mr *mr;
	uint64_t addr, len;
	uint32_t access;
	uint32_t rkey; /* its low byte becomes the low byte of the window's R_Key; the other bytes are ignored */
};

struct nic_send_wr {
	uint64_t wr_id;
	/** With INLINE, lkeys are ignored, the data is copied during the call, and any number of SGEs is allowed;
	 *  for elements, see elements.data */
	const struct nic_sge *sg_list;
	uint32_t num_sge;
	uint32_t opcode; /* enum nic_wr_opcode */
	uint32_t flags;	 /* enum nic_send_flags */
	uint32_t ex;	 /* immediate data in network order, or the R_Key to invalidate */
	uint32_t srqn;	 /* XRC_INI: number (nic_srq_num) of the SRQ that the request is for */
	union {
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
			/** With NIC_SEND_CALC (also in a SEND): an enum nic_calc_op and an enum nic_calc_type. An
			 *  operand is 16 bytes: an 8-byte number and an 8-byte location, which MAXLOC uses, both
			 *  big-endian. All operands together are at most 4096 bytes. They are read when the packet
			 *  is built. The payload of the packet is the result, 16 bytes in the same layout. Not
			 *  allowed with INLINE or SEND_WITH_INV. */
			uint8_t calc_op, calc_type;
		} rdma;
		struct {
			uint64_t remote_addr;
			uint64_t compare_add; /* CAS: compare; FAA: addend */
			uint64_t swap;
			uint32_t rkey;
		} atomic;
		struct {
			uint64_t remote_addr;
			const struct nic_atomic *operation; /* copied during the call; its `op` must match the opcode.
							     * The result has operation->size bytes */
			uint32_t rkey;
		} masked;
		struct {
			uint64_t remote_addr;
			/** Operands, then compare values if the operation uses them; sg_list receives the result of
			 *  a FETCH_ELEMENTS. Both lists together have at most the QP's max_send_sge SGEs, not
			 *  counting inline data. INLINE applies to `data` only. */
			const struct nic_sge *data;
			uint32_t num_data;
			uint32_t count; /* number of elements; request and response must each fit in a packet */
			uint32_t rkey;
			uint8_t op, datatype; /* enum nic_elem_op, enum nic_datatype */
		} elements;
		/** FLUSH: completes once the data that the QP's earlier requests wrote to the range is globally visible
		 *  or persistent, depending on `type` (A19). With NIC_FLUSH_MR, the range is the whole region. */
		struct {
			uint64_t remote_addr;
			uint32_t rkey;
			uint32_t length;
			uint8_t type, level; /* enum nic_flush_type, ORed; enum nic_flush_level */
		} flush;
		struct {
			const struct nic_ah *ah;
			uint32_t remote_qpn;
			uint32_t remote_qkey;
		} ud;
		struct nic_bind bind;
		/** WAIT: the send queue waits until the CQ has received (base + `count`) completions in its lifetime,
		 *  successful or not. Each CQ has a base, at first 0. When a WAIT with `last` has been posted, the base
		 *  advances by the largest `count` of the WAITs since its previous advance, this WAIT included. */
		struct {
			struct nic_cq *cq;
			uint32_t count;
			bool last;
		} wait;
		/** SEND_ENABLE, RECV_ENABLE: of the work requests posted to the managed queue of `qp` since RESET, let
		 *  the first base + `count` run; with count 0, all. The base of a queue is at first 0. An ENABLE with
		 *  `last` advances it, in the same way as a WAIT with `last` advances that of a CQ. */
		struct {
			struct nic_qp *qp;
			uint32_t count;
			bool last;
		} enable;
	};
};

struct nic_recv_wr {
	uint64_t wr_id;
	const struct nic_sge *sg_list;
	uint32_t num_sge;
};

/**
 * Queue one send work request. The SGE list is copied. The data that it refers to is read when packets are built, and
 * must stay unchanged until the completion.
 * @return 0, -EINVAL (opcode not for this service, too many SGEs, inline too long or not allowed, message over 2^31, QP
 * in RESET/INIT/RTR, AH of another PD, ENABLE of more than is posted ...), -ENOMEM (queue full; for a WAIT, also no
 * memory). In state ERR/SQE the request is accepted and flushed.
 */
int nic_post_send(struct nic_qp *qp, const struct nic_send_wr *wr);
/** Return what nic_post_send would return for a request after `ahead` other requests have been posted. Changes
 *  nothing. A caller that must post either all of several requests or none checks each of them first. @return as
 *  nic_post_send, except that a lack of memory is not detected. */
int nic_post_send_check(const struct nic_qp *qp, const struct nic_send_wr *wr, uint32_t ahead);
/** Queue one receive work request. @return 0, -EINVAL (QP in RESET, on an SRQ or of an XRC type, too many SGEs),
 *  -ENOMEM. */
int nic_post_recv(struct nic_qp *qp, const struct nic_recv_wr *wr);

/* ---- shared receive queues --------------------------------------------------------------------------- */

/** Create an SRQ. `limit` as in nic_srq_set_limit; 0: no SRQ_LIMIT event. @return 0, -EINVAL, -ENOMEM. */
int nic_srq_create(struct nic_pd *pd, uint32_t max_wr, uint32_t max_sge, uint32_t limit, void *user,
		   struct nic_srq **out);
/** Destroy an SRQ. @return 0, -EBUSY while QPs use the SRQ. */
int nic_srq_destroy(struct nic_srq *srq);
void nic_srq_query(const struct nic_srq *srq, uint32_t *max_wr, uint32_t *max_sge, uint32_t *limit);
/** Arm the limit: the NIC raises one SRQ_LIMIT event when fewer than `limit` work requests are left. @return 0,
 *  -EINVAL. */
int nic_srq_set_limit(struct nic_srq *srq, uint32_t limit);
/** Change the capacity and keep all queued work requests. @return 0, -EINVAL (0, more than nic_limits.max_srq_wr, less
 *  than the number queued, or less than the limit), -ENOMEM. */
int nic_srq_resize(struct nic_srq *srq, uint32_t max_wr);
int nic_post_srq_recv(struct nic_srq *srq, const struct nic_recv_wr *wr);

#endif
