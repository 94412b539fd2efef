/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * room.c - packets that leave at once: the second path gives the NIC room now and then (nic_config.tx_room). What was
 * written there goes out at the end of the call into the NIC, when the other oracles have seen what the call did. It
 * is made a whole packet, with an ICRC, so that the network can damage it as it damages others.
 *
 * Oracles: room (the NIC asks for room on an open path and not while it gives frames, sends only what it has asked room
 * for, and writes nothing beyond the room).
 */
#include "sim.h"

#include <string.h>

#define CANARY 0x7e

uint8_t *room_give(void *ctx, uint32_t path, uint64_t *now_ns)
{
	struct node *node = ctx;
	struct rooms *r = &node->rooms;

	if (path == 0 || path != node->path || node->giving)
		sim_fail(node->sim, "room", "node %u asks for room on path %u at the wrong time", node->index, path);
	if (r->n == SIM_ROOMS || !rng_chance(&r->rng, node->sim->opts.quick))
		return NULL;
	if (now_ns != NULL)
		*now_ns = node_time(node);
	memset(r->room, CANARY, sizeof(r->room));
	r->given = true;
	return r->room;
}

void room_take(void *ctx, uint32_t path, const struct nic_tx_frame *frame, uint64_t now_ns)
{
	struct node *node = ctx;
	struct rooms *r = &node->rooms;

	(void)now_ns;
	if (!r->given || path != node->path || frame->data != r->room || !frame->bare || !frame->no_icrc ||
	    frame->len > NIC_ROOM_LEN)
		sim_fail(node->sim, "room", "node %u sends a packet that it has no room for", node->index);
	for (unsigned i = frame->len > NIC_ROOM_LEN ? 0 : frame->len; i < sizeof(r->room); i++)
		if (r->room[i] != CANARY)
			sim_fail(node->sim, "room", "node %u has written behind its packet", node->index);
	if (node->sim->failed)
		return;
	r->given = false;
	r->packet[r->n] = *frame;
	memcpy(r->bytes[r->n], r->room, frame->len);
	r->n++;
}

/** Find the node that has the QP's peer, and let it complete the packet. @return false: there is none, so the packet
 *  would be dropped. */
static bool make_whole(struct node *node, const struct nic_tx_frame *frame, const uint8_t *bytes,
		       struct nic_rx_frame *rx)
{
	for (unsigned i = 0; i < node->sim->nodes; i++) {
		*rx = (struct nic_rx_frame){.data = bytes,
					    .len = frame->len,
					    .flags = NIC_RX_NO_ICRC | NIC_RX_BARE,
					    .src_qpn = frame->qpn,
					    .addresses = frame->addresses};
		if (nic_frame_address(node->sim->node[i].nic, rx) &&
		    memcmp(&rx->dgid, &node->sim->node[i].gid, sizeof(rx->dgid)) == 0 &&
		    memcmp(&rx->sgid, &node->gid, sizeof(rx->sgid)) == 0)
			return true;
	}
	return false;
}

void rooms_send(struct node *node)
{
	struct rooms *r = &node->rooms;
	uint8_t ip[NIC_FRAME_MAX];

	for (unsigned i = 0; i < r->n && !node->sim->failed; i++) {
		struct nic_tx_frame frame = r->packet[i];
		struct nic_rx_frame rx;

		if (!make_whole(node, &frame, r->bytes[i], &rx))
			continue; /* the peer's QP has been reset */
		frame.no_icrc = false;
		frame.data = ip;
		frame.len = nic_frame_ip(&rx, ip, sizeof(ip));
		frame.bth = ip[0] >> 4 == 4 ? 28 : 48;
		frame.dgid = rx.dgid;
		node->sim->stats.quick++;
		node_transmit(node, &frame);
	}
	r->n = 0;
}
