/* SPDX-License-Identifier: BSD-3-Clause */
/* nic_qp.h - address handles; queue pairs, their attributes and states; see nic.h. */
#ifndef NIC_NIC_QP_H
#define NIC_NIC_QP_H

#include <stdbool.h>
#include <stdint.h>

#include "nic_types.h"

struct nic_av {
	struct nic_gid dgid;
	uint8_t sgid_index;
	uint8_t tclass;	   /* IPv4 TOS / IPv6 traffic class */
	uint8_t hop_limit; /* 0 is sent as 64 */
	uint8_t sl;
	uint32_t flow_label;
};

/** Create an address handle. @return 0, -EINVAL (no such GID table entry, no dgid, or GIDs of different families),
 * -ENOMEM. */
int nic_ah_create(struct nic_pd *pd, const struct nic_av *av, struct nic_ah **out);
/** Destroy an address handle. Work requests already queued with the handle keep their own copy of the address. */
int nic_ah_destroy(struct nic_ah *ah);

/* ---- queue pairs ------------------------------------------------------------------------------------- */

/** Values of enum ibv_qp_type. Only XRC_INI, which stands for IBV_QPT_XRC_SEND, has a value of our own, so that all
 *  reliable types have the same two low bits. */
enum nic_qp_type { NIC_QPT_RC = 2, NIC_QPT_UC = 3, NIC_QPT_UD = 4, NIC_QPT_XRC_INI = 6, NIC_QPT_XRC_TGT = 10 };
/** Values of enum ibv_qp_state. */
enum nic_qp_state {
	NIC_QPS_RESET = 0,
	NIC_QPS_INIT,
	NIC_QPS_RTR,
	NIC_QPS_RTS,
	NIC_QPS_SQD,
	NIC_QPS_SQE,
	NIC_QPS_ERR,
};

struct nic_qp_cap {
	uint32_t max_send_wr, max_recv_wr, max_send_sge, max_recv_sge, max_inline_data;
};

struct nic_qp_init {
	enum nic_qp_type type;
	struct nic_pd *pd;
	struct nic_cq *send_cq, *recv_cq;
	struct nic_srq *srq;   /* NULL: the QP has a receive queue of its own */
	struct nic_xrcd *xrcd; /* XRC_TGT: the XRC domain; pd, CQs and srq are then NULL, because each request names an
				* SRQ, which has a PD and a CQ. Other types: NULL */
	struct nic_qp_cap cap;
	bool sq_sig_all;    /* every send work request is signaled */
	bool cross_channel; /* WAIT, ENABLE and calculations may be posted to it */
	bool managed_send;  /* send work requests start only when a SEND_ENABLE releases them */
	bool managed_recv;  /* receive work requests are used only after a RECV_ENABLE releases them; not with an SRQ */
	uint32_t max_atomic_arg; /* max bytes of an extended atomic posted to this QP, up to 32; 0: none allowed */
	/** RC: maximum number of bytes that a fetching operation on elements may return, whether this QP is the
	 *  requester or the responder; up to 4096. The peer's first fetching operation allocates this much for each of
	 *  max_dest_rd_atomic results, rounded up to a power of two. 0: no operations on elements. */
	uint32_t max_fetch;
	uint32_t be_replies; /* OR of operand sizes in bytes: atomics of these sizes return big-endian results */
	void *user;	     /* returned in events */
};

/** Values of enum ibv_qp_attr_mask. */
enum nic_qp_attr_mask {
	NIC_QP_STATE = 1 << 0,
	NIC_QP_CUR_STATE = 1 << 1,
	NIC_QP_EN_SQD_ASYNC_NOTIFY = 1 << 2,
	NIC_QP_ACCESS_FLAGS = 1 << 3,
	NIC_QP_PKEY_INDEX = 1 << 4,
	NIC_QP_PORT = 1 << 5,
	NIC_QP_QKEY = 1 << 6,
	NIC_QP_AV = 1 << 7,
	NIC_QP_PATH_MTU = 1 << 8,
	NIC_QP_TIMEOUT = 1 << 9,
	NIC_QP_RETRY_CNT = 1 << 10,
	NIC_QP_RNR_RETRY = 1 << 11,
	NIC_QP_RQ_PSN = 1 << 12,
	NIC_QP_MAX_QP_RD_ATOMIC = 1 << 13,
	NIC_QP_ALT_PATH = 1 << 14,
	NIC_QP_MIN_RNR_TIMER = 1 << 15,
	NIC_QP_SQ_PSN = 1 << 16,
	NIC_QP_MAX_DEST_RD_ATOMIC = 1 << 17,
	NIC_QP_PATH_MIG_STATE = 1 << 18, /* changes nothing: a QP is always MIGRATED */
	NIC_QP_CAP = 1 << 19,
	NIC_QP_DEST_QPN = 1 << 20,
};

struct nic_qp_attr {
	enum nic_qp_state qp_state, cur_qp_state;
	enum nic_mtu path_mtu;
	uint32_t qkey;
	uint32_t rq_psn, sq_psn; /* 24 bits */
	uint32_t dest_qp_num;	 /* 24 bits */
	uint32_t qp_access_flags;
	struct nic_av av;
	bool en_sqd_async_notify;
	bool sq_draining; /* query only */
	uint8_t max_rd_atomic, max_dest_rd_atomic;
	uint8_t min_rnr_timer;	      /* code, 5 bits */
	uint8_t timeout;	      /* code n, 5 bits: 4.096 us * 2^n; 0: no timeout */
	uint8_t retry_cnt, rnr_retry; /* 3 bits each; rnr_retry 7 is infinite, retry_cnt 7 is seven */
	uint8_t port_num;
	uint16_t pkey_index;
};

/** Create a QP, and write its actual capabilities to init->cap: possibly more inline data than requested, and no
 *  receives if the QP uses an SRQ or is of an XRC type. @return 0, -EINVAL, -ENOMEM. */
int nic_qp_create(struct nic *nic, struct nic_qp_init *init, struct nic_qp **out);
/** Destroy a QP, and remove its completions from its CQs (10.2.4.4). @return 0; -EBUSY: it is attached to a multicast
 *  group (10.2.2.5). */
int nic_qp_destroy(struct nic_qp *qp);
/** 24-bit queue pair number. */
uint32_t nic_qp_num(const struct nic_qp *qp);
enum nic_qp_state nic_qp_state(const struct nic_qp *qp);
/**
 * Change attributes and state by the transition table of 10.3.1 / 11.2.4.2 (legal transitions, required and optional
 * attributes per service). Without NIC_QP_STATE the current state is kept. A refused call changes nothing.
 * A transition to RESET empties the queues and removes the QP's completions from its CQs.
 * @return 0, -EINVAL, -EOPNOTSUPP (NIC_QP_ALT_PATH, NIC_QP_CAP), -ENOMEM (responder resources).
 */
int nic_qp_modify(struct nic_qp *qp, const struct nic_qp_attr *attr, uint32_t mask);
/** Change the user pointer that the QP's events carry. */
void nic_qp_set_user(struct nic_qp *qp, void *user);
void nic_qp_query(const struct nic_qp *qp, struct nic_qp_attr *attr, struct nic_qp_init *init);

#endif
