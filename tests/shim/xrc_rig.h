/* SPDX-License-Identifier: BSD-3-Clause */
/* xrc_rig.h - XRC objects for the shim's tests, on the ends of a rig. */
#ifndef XRC_RIG_H
#define XRC_RIG_H

#include <fcntl.h>

#include "rig.h"

/** An initiator at end 0, and at end 1 a domain with an SRQ and a target. */
struct xrc {
	struct rig *rig;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	struct ibv_qp *initiator, *target;
	uint32_t srqn;
};

/** Open a domain. @param fd the file that names it, or -1. @return NULL: see errno. */
struct ibv_xrcd *xrc_domain(struct rig_end *end, int fd, int oflags);
struct ibv_srq *xrc_srq(struct rig_end *end, struct ibv_xrcd *xrcd);
struct ibv_qp *xrc_target(struct rig_end *end, struct ibv_xrcd *xrcd);
/** Create an initiator. @param ops the operations of its ibv_wr_* interface; 0: it has none. */
struct ibv_qp *xrc_initiator(struct rig_end *end, uint64_t ops);
/** Change a QP to RTS. */
void xrc_ready(struct ibv_qp *qp, uint32_t dest, const union ibv_gid *dgid);

/** Create the objects of a struct xrc, and connect the initiator with the target. @param ops see xrc_initiator(). */
struct xrc xrc_connect(struct rig *rig, uint64_t ops);
void xrc_close(struct xrc *x);
/** Post a receive to the SRQ. */
void xrc_post_srq(struct xrc *x, uint64_t wr_id, size_t offset, uint32_t length);

#endif
