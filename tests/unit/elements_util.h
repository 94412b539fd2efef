/* SPDX-License-Identifier: BSD-3-Clause */
/* elements_util.h - operations on elements: work requests of the application, and request packets of the peer. */
#ifndef ELEMENTS_UTIL_H
#define ELEMENTS_UTIL_H

#include "elem.h"
#include "pair.h"

#define FETCH_MAX 256 /* bytes: max_fetch of the rig's QPs */

static inline uint32_t aligned(const struct rig *rig)
{
	return (uint32_t)(-(uintptr_t)rig->arena & 63) + 1024;
}

/** A work request for an operation on elements, with SGEs for its data and its result in the requester's arena. */
struct operation {
	struct nic_sge data[4], result[4];
	struct nic_send_wr wr;
};

#define DATA_AT	  0
#define RESULT_AT 512

/** Set up an operation on `count` elements at RIG_REMOTE_VA: data at DATA_AT, the result at RESULT_AT. */
static inline void operation(struct operation *o, struct rig *rig, uint64_t id, unsigned op, unsigned datatype,
			     bool fetch, uint32_t count)
{
	uint32_t bytes = count * nic_elem_size(datatype), data_len = bytes * elem_vectors(op);

	*o = (struct operation){
		.data = {{.addr = (uintptr_t)rig->arena + DATA_AT, .length = data_len, .lkey = rig->lkey}},
		.result = {{.addr = (uintptr_t)rig->arena + RESULT_AT, .length = bytes, .lkey = rig->lkey}},
		.wr = {.wr_id = id,
		       .opcode = fetch ? NIC_WR_FETCH_ELEMENTS : NIC_WR_ELEMENTS,
		       .flags = NIC_SEND_SIGNALED},
	};
	o->wr.sg_list = fetch ? o->result : NULL;
	o->wr.num_sge = fetch;
	o->wr.elements.data = o->data;
	o->wr.elements.num_data = data_len > 0;
	o->wr.elements.count = count;
	o->wr.elements.op = (uint8_t)op;
	o->wr.elements.datatype = (uint8_t)datatype;
	o->wr.elements.remote_addr = RIG_REMOTE_VA;
	o->wr.elements.rkey = RIG_REMOTE_RKEY;
}

static inline void pair_operation(struct operation *o, struct pair *pair, uint64_t id, unsigned op, unsigned datatype,
				  bool fetch, uint32_t count, uint32_t remote)
{
	const struct nic_send_wr there = pair_wr(pair, id, NIC_WR_RDMA_WRITE, 0, 0, remote);

	operation(o, pair->rig[0], id, op, datatype, fetch, count);
	o->wr.elements.remote_addr = there.rdma.remote_addr;
	o->wr.elements.rkey = there.rdma.rkey;
}

/** A request packet of the peer for elements at arena[offset]; its operands are the bytes of peer_data. */
static inline struct packet request(struct rig *rig, unsigned op, unsigned datatype, bool fetch, uint32_t count,
				    uint32_t psn, uint32_t offset)
{
	struct packet p = rig_peer_packet(rig, fetch ? FETCH_ELEMENTS : ELEMENTS, psn);

	p.va = rig_va(rig, offset);
	p.ackreq = true;
	p.element.op = (uint8_t)op;
	p.element.datatype = (uint8_t)elem_wire_of_type(datatype);
	p.element.flags = 0;
	p.element.count = count;
	p.payload = rig->peer_data;
	p.payload_len = elem_vectors(op) * count * nic_elem_size(datatype);
	return p;
}

#endif
