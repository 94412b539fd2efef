/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_cq.h - completion queues; see nic.h. */
#ifndef NIC_NIC_CQ_H
#define NIC_NIC_CQ_H

#include <stdbool.h>
#include <stdint.h>

#include "nic_types.h"

/** Values of enum ibv_wc_status. */
enum nic_wc_status {
	NIC_WC_SUCCESS = 0,
	NIC_WC_LOC_LEN_ERR = 1,
	NIC_WC_LOC_QP_OP_ERR = 2,
	NIC_WC_LOC_PROT_ERR = 4,
	NIC_WC_WR_FLUSH_ERR = 5,
	NIC_WC_MW_BIND_ERR = 6,
	NIC_WC_BAD_RESP_ERR = 7,
	NIC_WC_LOC_ACCESS_ERR = 8,
	NIC_WC_REM_INV_REQ_ERR = 9,
	NIC_WC_REM_ACCESS_ERR = 10,
	NIC_WC_REM_OP_ERR = 11,
	NIC_WC_RETRY_EXC_ERR = 12,
	NIC_WC_RNR_RETRY_EXC_ERR = 13,
	NIC_WC_FATAL_ERR = 19,
	NIC_WC_GENERAL_ERR = 21,
	NIC_WC_TM_ERR = 22,
	NIC_WC_TM_RNDV_INCOMPLETE = 23,
};

/** Values of enum ibv_wc_opcode. */
enum nic_wc_opcode {
	NIC_WC_SEND = 0,
	NIC_WC_RDMA_WRITE = 1,
	NIC_WC_RDMA_READ = 2,
	NIC_WC_COMP_SWAP = 3,
	NIC_WC_FETCH_ADD = 4,
	NIC_WC_BIND_MW = 5,
	NIC_WC_LOCAL_INV = 6,
	NIC_WC_FLUSH = 8,
	NIC_WC_ATOMIC_WRITE = 9,
	NIC_WC_MASKED_COMP_SWAP = 9, /* this and the next: values of enum ibv_exp_wc_opcode. That enum has no
				      * ATOMIC_WRITE and uses 9 for this opcode */
	NIC_WC_MASKED_FETCH_ADD = 10,
	NIC_WC_ELEMENTS = 0x40, /* this and the next: our own values */
	NIC_WC_FETCH_ELEMENTS = 0x41,
	NIC_WC_RECV = 1 << 7,
	NIC_WC_RECV_RDMA_WITH_IMM = (1 << 7) + 1,
	NIC_WC_TM_ADD = (1 << 7) + 2, /* this and the next two: tag operations, in the order of enum nic_tag_opcode */
	NIC_WC_TM_DEL,
	NIC_WC_TM_SYNC,
	NIC_WC_TM_RECV,
	NIC_WC_TM_NO_TAG,
};

/** Values of enum ibv_wc_flags. */
enum nic_wc_flags {
	NIC_WC_GRH = 1 << 0,
	NIC_WC_WITH_IMM = 1 << 1,
	NIC_WC_WITH_INV = 1 << 3,
	NIC_WC_TM_SYNC_REQ = 1 << 4,
	NIC_WC_TM_MATCH = 1 << 5,
	NIC_WC_TM_DATA_VALID = 1 << 6,
};

/** A work completion. The layout is that of struct ibv_wc, so that polling needs no translation. */
struct nic_wc {
	uint64_t wr_id;
	uint32_t status; /* enum nic_wc_status */
	uint32_t opcode; /* enum nic_wc_opcode; undefined when status is an error */
	uint32_t vendor_err;
	uint32_t byte_len;
	uint32_t ex; /* immediate data in network byte order, or the invalidated R_Key */
	uint32_t qp_num;
	uint32_t src_qp;
	uint32_t wc_flags; /* enum nic_wc_flags */
	uint16_t pkey_index;
	uint16_t slid;
	uint8_t sl; /* UD: the low bits hold the network header type: 1 is IPv6, 2 is IPv4 */
	uint8_t dlid_path_bits;
};

/** Create a CQ with room for at least `depth` entries. The CQ's events carry `user`. @return 0, -EINVAL, -ENOMEM. */
int nic_cq_create(struct nic *nic, uint32_t depth, void *user, struct nic_cq **out);
/** Destroy a CQ. @return 0, -EBUSY while QPs or SRQs use the CQ (C11-17), or while a WAIT for the CQ is posted. */
int nic_cq_destroy(struct nic_cq *cq);
/** The CQ's actual depth, at least the depth requested. */
uint32_t nic_cq_depth(const struct nic_cq *cq);
/** Choose what happens when an entry is added to a full CQ. If `ignore` is true, the new entry replaces the oldest
 *  entry; if false (the default), the CQ overflows. Meant for CQs that the application does not poll, because it uses
 *  them only for WAIT requests, which count entries. A CQ that has already overflowed stays in error. */
void nic_cq_ignore_overrun(struct nic_cq *cq, bool ignore);
/** Change the depth and keep all entries. @return 0, -EINVAL (the CQ holds more entries, or depth out of range),
 *  -ENOMEM. */
int nic_cq_resize(struct nic_cq *cq, uint32_t depth);
/** Take up to n entries. @return how many were taken, or -EIO if the CQ has overflowed and no entries are left. */
int nic_cq_poll(struct nic_cq *cq, int n, struct nic_wc *wc);
/** Information that a CQ keeps about an entry in addition to the completion, after nic_cq_keep_notes(). */
struct nic_cq_note {
	uint64_t at_ns;	  /* when the entry was added, on the clock that nic_time() uses */
	uint64_t tag;	  /* tag of the message, if its SRQ matches tags; otherwise 0 */
	uint32_t app_ctx; /* application context from that message's tag header; network byte order */
};

/** Keep notes about the entries of a new CQ. @return 0, -ENOMEM. */
int nic_cq_keep_notes(struct nic_cq *cq);
/** The note about the entry that nic_cq_poll() has returned last. Call this before any other function of the NIC. */
struct nic_cq_note nic_cq_polled_note(const struct nic_cq *cq);
/** How many entries wait to be polled. */
uint32_t nic_cq_count(const struct nic_cq *cq);
/** Ask for one COMP event at the next entry (solicited_only: the next solicited or erroneous one). A request for any
 *  entry replaces a request for solicited entries, never the reverse (11.4.2.2). If matching entries are already
 *  waiting, the event is raised now, unless the last of them is the only unread entry up to there, and the previous
 *  event announced it. If the CQ is moderated, the waiting entries count, and the period begins now. */
void nic_cq_arm(struct nic_cq *cq, bool solicited_only);
/** Moderate a CQ's COMP events: from now on, the event of an armed CQ is raised when it has `count` entries to
 * announce, or `period_us` microseconds after the first of them. Only the event is delayed: polling finds the entries
 * at once. If `count` is below 2 or `period_us` is 0, events are not moderated (the default). An event that is being
 * delayed is raised now. */
void nic_cq_moderate(struct nic_cq *cq, uint16_t count, uint16_t period_us);

#endif
