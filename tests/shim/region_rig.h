/* SPDX-License-Identifier: BSD-3-Clause */
/* region_rig.h - accesses to a region of end 1, by end 0. */
#ifndef REGION_RIG_H
#define REGION_RIG_H

#include "rig.h"

/** Do a request between end 0's memory and end 1's. @return how it ended. */
static inline enum ibv_wc_status request(struct rig *rig, enum ibv_wr_opcode opcode, struct ibv_sge sge, uint64_t to,
					 uint32_t rkey)
{
	struct ibv_send_wr wr = {.sg_list = &sge,
				 .num_sge = 1,
				 .opcode = opcode,
				 .send_flags = IBV_SEND_SIGNALED,
				 .wr.rdma = {to, rkey}},
			   *bad;

	assert_int_equal(ibv_post_send(rig->end[0].qp, &wr, &bad), 0);
	return rig_wait(rig->end[0].cq).status;
}

/** Copy from end 0's buffer to the region. */
static inline enum ibv_wc_status write_to(struct rig *rig, size_t from, uint32_t length, uint64_t to, uint32_t rkey)
{
	return request(rig, IBV_WR_RDMA_WRITE, rig_sge(&rig->end[0], from, length), to, rkey);
}

/** Copy from the region to end 0's buffer. */
static inline enum ibv_wc_status read_from(struct rig *rig, size_t to, uint32_t length, uint64_t from, uint32_t rkey)
{
	return request(rig, IBV_WR_RDMA_READ, rig_sge(&rig->end[0], to, length), from, rkey);
}

/** An access that must fail, by QPs of its own. */
static inline void refused(struct rig *rig, uint64_t to, uint32_t length, uint32_t rkey)
{
	rig_disconnect(rig);
	rig_connect(rig, IBV_QPT_RC);
	assert_int_equal(write_to(rig, 0, length, to, rkey), IBV_WC_REM_ACCESS_ERR);
	rig_disconnect(rig);
	rig_connect(rig, IBV_QPT_RC);
}

#endif
