/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_tm.h - shared receive queues that match tags; see nic.h. */
#ifndef NIC_NIC_TM_H
#define NIC_NIC_TM_H

#include <stdbool.h>
#include <stdint.h>

#include "nic_types.h"
#include "nic_wr.h"

#define NIC_TM_TAGS_MAX 4096 /* most tagged buffers that an SRQ can have */
#define NIC_TM_HEADERS	32   /* bytes of a rendezvous request's headers, struct ibv_tmh and struct ibv_rvh */

/** Values of enum ibv_ops_wr_opcode. */
enum nic_tag_opcode { NIC_TAG_ADD = 0, NIC_TAG_DEL = 1, NIC_TAG_SYNC = 2 };

/** An operation on the tagged buffers of an SRQ. */
struct nic_tag_op {
	uint64_t wr_id;
	uint32_t opcode;  /* enum nic_tag_opcode */
	bool signaled;	  /* add a completion to the SRQ's CQ; a failed DEL adds one in any case */
	bool sync;	  /* `handled` is valid */
	uint32_t handled; /* how many unexpected messages the application has handled so far */
	uint32_t handle;  /* ADD: the NIC stores the new buffer's handle here; DEL: handle of the buffer to remove */
	/** ADD: adds a buffer for the first message with (tag of the message & mask) == tag. The completions of that
	 * message carry `recv_wr_id`. */
	uint64_t recv_wr_id;
	const struct nic_sge *sg_list;
	uint32_t num_sge;
	uint64_t tag, mask;
};

/**
 * Create an SRQ that matches tags. Receives and operations complete to `cq`. QPs that use the SRQ must be RC QPs of
 * the SRQ's PD, and the application cannot post sends to them.
 * @return 0, -EINVAL, -ENOMEM.
 */
int nic_srq_create_tm(struct nic_pd *pd, struct nic_cq *cq, uint32_t max_wr, uint32_t max_sge, uint32_t max_tags,
		      uint32_t limit, void *user, struct nic_srq **out);
/**
 * Execute an operation. The NIC counts unexpected messages, and the application reports in `handled` how many of them
 * it has handled. A buffer that is added while these two numbers differ matches no messages until they are equal again.
 * NIC_WC_TM_SYNC_REQ in an operation's completion tells the application that the numbers differ.
 * @return 0, -EINVAL (SRQ that matches no tags, unknown opcode, too many SGEs), -ENOMEM (the SRQ already has max_tags
 * buffers).
 */
int nic_tag_op(struct nic_srq *srq, struct nic_tag_op *op);

#endif
