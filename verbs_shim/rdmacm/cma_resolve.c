/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cma_resolve.c - resolves an IP address to a device (resolve address), then to a path (resolve route). RoCE has no
 * subnet manager, so the path is made of what this side knows, as in the kernel. Both results are known at once, but
 * are reported by events. Owns nothing.
 */
#include <errno.h>
#include <string.h>

#include "cma.h"

#define FLOW_LABEL_MASK 0xfffffu

/** Bind the source address that the caller names. If the caller names none, take_route() binds a port once the device
 * is known. */
static int bind_source(struct cma_id *id, const struct cma_addr *src, const struct cma_addr *dst)
{
	if (src->family && (src->port || !cma_addr_is_any(src)))
		return cma_bind_source(id, src);
	id->src = (struct cma_addr){.family = dst->family, .scope = dst->scope};
	id->one_family = id->one_family || dst->family == AF_INET;
	id->state = CMA_ADDR_BOUND;
	return 0;
}

static bool kernel_routes(const struct cma_id *id)
{
	return !id->device || !strcmp(id->device->pmd.port, "udp");
}

/** Set the device and source address that were found, unless the id already has a device. Bind a source port. */
static int take_route(struct cma_id *id, struct cma_device *device, const struct cma_addr *src)
{
	if (!id->device) {
		id->device = device;
		id->src.gid = src->gid;
		if (src->scope)
			id->src.scope = src->scope;
	}
	if (cma_addr_is_any(&id->dst))
		id->dst.gid = id->src.gid;
	return cma_bind_active(id);
}

int cma_resolve_addr(struct cma_id *id, const struct cma_addr *src, const struct cma_addr *dst)
{
	struct cma_addr from = {0};
	struct cma_device *device = NULL;
	int err = 0;

	if (id->state == CMA_IDLE)
		err = bind_source(id, src, dst);
	if (err)
		return err;
	if (id->state != CMA_ADDR_BOUND || id->src.family != dst->family)
		return -EINVAL;
	if (!cma_addr_is_any(&id->src))
		from = id->src;
	if (kernel_routes(id))
		err = cma_route_find(dst, &from, &device);
	if (err && err != -ENODEV)
		return err;
	id->dst = *dst;
	if (!err || id->device)
		err = take_route(id, device, &from);
	if (err)
		return cma_event_simple(id, UCMA_ADDR_ERROR, err);
	id->state = CMA_ADDR_RESOLVED;
	return cma_event_simple(id, UCMA_ADDR_RESOLVED, 0);
}

/** Compute the flow label, a hash of the ports. It is the same for all packets of a connection; routers use it to
 * spread connections over paths. */
static uint32_t flow_label(const struct cma_id *id)
{
	uint32_t h = (uint32_t)id->src.port << 16 | id->dst.port;

	h = (h ^ h >> 15) * 0x2c1b3c6du;
	h = (h ^ h >> 12) * 0x297a2d39u;
	return (h ^ h >> 15) & FLOW_LABEL_MASK;
}

void cma_path_set(struct cma_id *id)
{
	uint8_t life = CMA_PACKET_LIFE;

	/* The ACK timeout is twice the packet life, so as an exponent it is one higher. */
	if (id->ack_timeout_set)
		life = id->ack_timeout ? id->ack_timeout - 1 : 0;
	cma_engine_enter(id->device);
	id->path = (struct cma_path){.known = true,
				     .mtu = cma_device_mtu(id->device),
				     .packet_life = life,
				     .traffic_class = id->tos_set ? id->tos : 0,
				     .hop_limit = CMA_HOP_LIMIT,
				     .flow_label = flow_label(id)};
	cma_engine_leave(id->device);
}

int cma_resolve_route(struct cma_id *id)
{
	if (id->state != CMA_ADDR_RESOLVED)
		return -EINVAL;
	cma_path_set(id);
	id->state = CMA_ROUTE_RESOLVED;
	return cma_event_simple(id, UCMA_ROUTE_RESOLVED, 0);
}
