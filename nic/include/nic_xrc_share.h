/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nic_xrc_share.h - XRC domains that the NICs of several processes on one device share (IBTA A14).
 *
 * A target QP stays in the NIC that created it, and an SRQ in its own. A request that names an SRQ of another NIC is
 * lent to that NIC, together with the state of the target: the other NIC executes the request and returns the state,
 * and the target answers the peer. The NICs talk through reliable datagram endpoints. See nic_xrc.h and nic_rdm.h.
 */
#ifndef NIC_NIC_XRC_SHARE_H
#define NIC_NIC_XRC_SHARE_H

#include "list.h"
#include "nic_rdm.h"

/** The name of a shared domain, the same in all processes that share it. */
struct nic_xrc_name {
	uint64_t words[2];
};

/** A verb on a target QP of another process. */
enum nic_xrc_verb {
	NIC_XRC_OPEN, /* this NIC becomes a user of the QP, as its creator is: the QP lives as long as it has users */
	NIC_XRC_QUERY,
	NIC_XRC_MODIFY, /* as nic_qp_modify */
	NIC_XRC_CLOSE,	/* this NIC ceases to be a user of the QP */
};

/** A call of such a verb. The memory is the caller's, until `done` is set or the call is forgotten. */
struct nic_xrc_call {
	enum nic_xrc_verb verb;
	uint32_t qpn;
	uint32_t mask;		 /* MODIFY */
	struct nic_qp_attr attr; /* in: MODIFY; out: the attributes after the call, if there was no error */
	bool done;
	int error; /* out: 0; the negative errno of the verb; -EINVAL: no other NIC that shares the domain has such a
		      target QP; -ENODEV: the other NIC is gone */
	/* the NIC's: */
	struct nic_rdm_peer *peer;
	uint64_t cookie;
	struct list node;
};

struct nic_xrc_share_init {
	/** Address of this NIC as the others that share domains see it; as nic_rdm_init.addr. */
	struct nic_rdm_addr addr;
	/** Find the NIC in whose range of QPNs this number of an SRQ or QP is, if it shares the domain. Called in the
	 *  middle of a NIC call, so it must not call the NIC. @return false: no NIC that shares the domain has it. */
	bool (*find)(void *ctx, const struct nic_xrcd *xrcd, uint32_t number, struct nic_rdm_addr *addr);
	/** Whether the NIC at this address shares the domain. Same rules. */
	bool (*shares)(void *ctx, const struct nic_xrcd *xrcd, const struct nic_rdm_addr *addr);
	/** An asynchronous event of a target QP of another process that this NIC has opened. Same rules. */
	void (*event)(void *ctx, struct nic_xrcd *xrcd, uint32_t qpn, enum nic_event_type type);
	void *ctx;
};

/** From now on, domains of this NIC can be shared. @return 0, -EEXIST (called before), as nic_rdm_create. */
int nic_xrc_share_open(struct nic *nic, const struct nic_xrc_share_init *init);
/** End what nic_xrc_share_open has begun. No domain may be shared any more. Call nic_xrc_share_leave before, and send
 *  what it leaves to be sent, as with nic_rdm_leave. */
void nic_xrc_share_close(struct nic *nic);
unsigned nic_xrc_share_leave(struct nic *nic);
/** Share the domain under this name, until nic_xrcd_free. After nic_xrc_share_open. */
void nic_xrcd_share(struct nic_xrcd *xrcd, const struct nic_xrc_name *name);

/** Begin a verb on a target QP of another NIC. call->done is set during this call or a later one; never, if the other
 *  NIC ends before it has answered. */
void nic_xrc_call(struct nic_xrcd *xrcd, struct nic_xrc_call *call);
/** Forget a call that is not done: the verb may or may not be executed. */
void nic_xrc_forget(struct nic_xrc_call *call);

/** One user less of a target QP of this NIC. @return whether others use it, so that it must not be destroyed: the NIC
 *  destroys it when the last of them closes it, and its events then have `user` NULL. */
bool nic_xrc_target_leave(struct nic_qp *qp);
/** Become a user again of a target QP that was left so, with this user pointer. */
void nic_xrc_target_join(struct nic_qp *qp, void *user);

#endif
