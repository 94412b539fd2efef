/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * verbs_exp.h - the experimental verbs, ibv_exp_*, on top of rdma-core's unmodified verbs.h.
 *
 * A program written for the experimental verbs of Mellanox OFED compiles with this header in C and C++; names, values
 * and members are the same. The header does not declare erasure coding, peer-direct, the headers of tag matching, the
 * flags of receive work queues, flags and versions of accelerated interfaces, the conversion of time stamps, and the
 * values of packet parsing, tunnels and striding receive queues. The functions find the device's implementation at run
 * time, in the libibverbs that the process has loaded. The program need not link any library for that, except -ldl with
 * a glibc before 2.34. On devices other than uroce's, or without uroce, the functions that need this implementation
 * fail with ENOSYS, which each reports in its own way; the functions in verbs_exp_absent.h fail with ENOSYS on all
 * devices.
 *
 * Errors: functions that return int return 0 or a positive errno, unless their comment says otherwise. Functions that
 * return pointers return NULL and set errno. Functions that create objects refuse comp_mask bits unknown to this header
 * with EINVAL.
 *
 * Structures that programs pass never change: later additions are made in new structures.
 */
#ifndef UROCE_INFINIBAND_VERBS_EXP_H
#define UROCE_INFINIBAND_VERBS_EXP_H

/* Silences -Wpedantic: enums of these verbs have values that do not fit in an int, which is a C extension. */
#pragma GCC system_header

#include <dlfcn.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h> /* programs rely on verbs_exp.h to include it */

#ifndef BEGIN_C_DECLS
#ifdef __cplusplus
#define BEGIN_C_DECLS extern "C" {
#define END_C_DECLS   }
#else
#define BEGIN_C_DECLS
#define END_C_DECLS
#endif
#endif

#if defined(__STRICT_ANSI__) && !defined(__cplusplus)
int setenv(const char *name, const char *value, int overwrite); /* with -std=c99 stdlib.h does not declare setenv */
#endif

#ifndef DEPRECATED
#define DEPRECATED __attribute__((deprecated))
#endif

#include <infiniband/verbs_exp_types.h>

BEGIN_C_DECLS

/**
 * A device's implementations of the functions below. New members are added at the end only. The objects are those of
 * verbs.h. The caller keeps ownership of everything it passes, unless the documentation of ibv_exp_<member> says
 * otherwise.
 */
struct ibv_exp_ops {
	size_t size; /* sizeof(struct ibv_exp_ops) when the library was built */
	/** The ibv_post_send of this library. A context belongs to this library if its ops.post_send equals `owner`. */
	int (*owner)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
	int (*query_device)(struct ibv_context *context, struct ibv_exp_device_attr *attr);
	int (*query_gid_attr)(struct ibv_context *context, uint8_t port, unsigned int index,
			      struct ibv_exp_gid_attr *attr);
	struct ibv_qp *(*create_qp)(struct ibv_context *context, struct ibv_exp_qp_init_attr *attr);
	int (*modify_qp)(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, uint64_t mask);
	int (*post_send)(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr);
	struct ibv_cq *(*create_cq)(struct ibv_context *context, int cqe, void *cq_context,
				    struct ibv_comp_channel *channel, int comp_vector,
				    struct ibv_exp_cq_init_attr *attr);
	int (*modify_cq)(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int mask);
	int (*poll_cq)(struct ibv_cq *cq, int n, struct ibv_exp_wc *wc, uint32_t wc_size);
	struct ibv_srq *(*create_srq)(struct ibv_context *context, struct ibv_exp_create_srq_attr *attr);
	struct ibv_mr *(*reg_mr)(struct ibv_exp_reg_mr_in *in);
	int (*bind_mw)(struct ibv_exp_mw_bind *bind);
	struct ibv_exp_dm *(*alloc_dm)(struct ibv_context *context, struct ibv_exp_alloc_dm_attr *attr);
	int (*free_dm)(struct ibv_exp_dm *dm);
	int (*memcpy_dm)(struct ibv_exp_dm *dm, struct ibv_exp_memcpy_dm_attr *attr);
	int (*post_task)(struct ibv_context *context, struct ibv_exp_task *task, struct ibv_exp_task **bad_task);
};

/** @return the experimental operations of the context's device; NULL: the device has none. */
static inline const struct ibv_exp_ops *ibv_exp_ops_of(const struct ibv_context *context)
{
	static const struct ibv_exp_ops *found;
	const struct ibv_exp_ops *ops = __atomic_load_n(&found, __ATOMIC_ACQUIRE);

	if (!ops) {
		ops = (const struct ibv_exp_ops *)dlsym(NULL /* RTLD_DEFAULT */, "uroce_exp_ops");
		__atomic_store_n(&found, ops, __ATOMIC_RELEASE);
	}
	return ops && context->ops.post_send == ops->owner ? ops : NULL;
}

/* Whether the library's operation table is long enough to contain the operation. */
#define IBV_EXP_HAS(ops, op) ((ops) && (ops)->size > offsetof(struct ibv_exp_ops, op))

/* Whether a mask has bits at or above `reserved`, a power of two. */
static inline int ibv_exp_unknown_(uint64_t mask, uint64_t reserved)
{
	return mask >= reserved;
}

static inline int ibv_exp_no_(int err)
{
	errno = err;
	return err;
}

static inline void *ibv_exp_null_(int err)
{
	errno = err;
	return NULL;
}

/** The list of devices. */
static inline struct ibv_device **ibv_exp_get_device_list(int *num_devices)
{
	return ibv_get_device_list(num_devices);
}

/** Query a device's capabilities. comp_mask (and comp_mask_2) say which fields to fill in, and on return which
 * fields were filled in. */
static inline int ibv_exp_query_device(struct ibv_context *context, struct ibv_exp_device_attr *attr)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(context);

	if (!IBV_EXP_HAS(ops, query_device))
		return ENOSYS;
	if (attr->comp_mask & (uint32_t)IBV_EXP_DEVICE_ATTR_COMP_MASK_2 &&
	    ibv_exp_unknown_(attr->comp_mask_2, IBV_EXP_DEVICE_ATTR_RESERVED_2))
		return ibv_exp_no_(EINVAL);
	return ops->query_device(context, attr);
}

/** Query a port's attributes. @return 0 or a negative errno. Exception: if comp_mask is 0 or the device is not uroce's,
 * an error of ibv_query_port is returned unchanged. */
static inline int ibv_exp_query_port(struct ibv_context *context, uint8_t port_num, struct ibv_exp_port_attr *attr)
{
	int err;

	if (!attr->comp_mask)
		return ibv_query_port(context, port_num, &attr->port_attr);
	if (attr->comp_mask != IBV_EXP_QUERY_PORT_ATTR_MASK1 || attr->mask1 & ~(uint32_t)IBV_EXP_QUERY_PORT_MASK)
		return -ibv_exp_no_(EINVAL);
	err = ibv_query_port(context, port_num, &attr->port_attr); /* sets all members, so mask1 needs no change */
	return ibv_exp_ops_of(context) ? -err : err;
}

/** Query an entry of the GID table. */
static inline int ibv_exp_query_gid_attr(struct ibv_context *context, uint8_t port_num, unsigned int index,
					 struct ibv_exp_gid_attr *attr)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(context);

	if (!IBV_EXP_HAS(ops, query_gid_attr))
		return ENOSYS;
	if (ibv_exp_unknown_(attr->comp_mask, IBV_EXP_QUERY_GID_ATTR_RESERVED))
		return ibv_exp_no_(EINVAL);
	return ops->query_gid_attr(context, port_num, index, attr);
}

/**
 * Create a QP. Extended atomics require IBV_EXP_QP_INIT_ATTR_ATOMICS_ARG and max_atomic_arg, the largest operand size
 * that will be posted, in bytes. The granted capabilities are written to attr->cap.
 */
static inline struct ibv_qp *ibv_exp_create_qp(struct ibv_context *context, struct ibv_exp_qp_init_attr *attr)
{
	const struct ibv_exp_ops *ops;

	if (attr->comp_mask == IBV_EXP_QP_INIT_ATTR_PD) /* *attr begins with the plain structure's members */
		return ibv_create_qp(attr->pd, (struct ibv_qp_init_attr *)(void *)attr);
	ops = ibv_exp_ops_of(context);
	if (!IBV_EXP_HAS(ops, create_qp))
		return (struct ibv_qp *)ibv_exp_null_(ENOSYS);
	if (ibv_exp_unknown_(attr->comp_mask, IBV_EXP_QP_INIT_ATTR_RESERVED1))
		return (struct ibv_qp *)ibv_exp_null_(EINVAL);
	return ops->create_qp(context, attr);
}

/** Change a QP's attributes. */
static inline int ibv_exp_modify_qp(struct ibv_qp *qp, struct ibv_exp_qp_attr *attr, uint64_t exp_attr_mask)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(qp->context);

	if (!IBV_EXP_HAS(ops, modify_qp))
		return ibv_exp_no_(ENOSYS);
	if (ibv_exp_unknown_(attr->comp_mask, IBV_EXP_QP_ATTR_RESERVED))
		return ibv_exp_no_(EINVAL);
	return ops->modify_qp(qp, attr, exp_attr_mask);
}

/** Post work requests; *bad_wr is set to the first request that was refused. @return 0, a positive errno, or
 * -ENOSYS. */
static inline int ibv_exp_post_send(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(qp->context);

	return IBV_EXP_HAS(ops, post_send) ? ops->post_send(qp, wr, bad_wr) : -ENOSYS;
}

/**
 * Post requests to several queues; no other thread's requests are posted in between. If a request is refused, *bad_task
 * is set to its task (bad_task can be NULL); the requests before it have been posted. @return 0, or a positive errno.
 */
static inline int ibv_exp_post_task(struct ibv_context *context, struct ibv_exp_task *task,
				    struct ibv_exp_task **bad_task)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(context);

	if (!IBV_EXP_HAS(ops, post_task))
		return ENOSYS;
	if (task && ibv_exp_unknown_(task->comp_mask, IBV_EXP_TASK_RESERVED))
		return ibv_exp_no_(EINVAL);
	return ops->post_task(context, task, bad_task);
}

/** Create a CQ. */
static inline struct ibv_cq *ibv_exp_create_cq(struct ibv_context *context, int cqe, void *cq_context,
					       struct ibv_comp_channel *channel, int comp_vector,
					       struct ibv_exp_cq_init_attr *attr)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(context);

	if (!IBV_EXP_HAS(ops, create_cq))
		return (struct ibv_cq *)ibv_exp_null_(ENOSYS);
	if (ibv_exp_unknown_(attr->comp_mask, IBV_EXP_CQ_INIT_ATTR_RESERVED1))
		return (struct ibv_cq *)ibv_exp_null_(EINVAL);
	return ops->create_cq(context, cqe, cq_context, channel, comp_vector, attr);
}

/** Change a CQ's attributes. */
static inline int ibv_exp_modify_cq(struct ibv_cq *cq, struct ibv_exp_cq_attr *attr, int attr_mask)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(cq->context);

	if (!IBV_EXP_HAS(ops, modify_cq))
		return ENOSYS;
	if (ibv_exp_unknown_(attr->comp_mask, IBV_EXP_CQ_ATTR_RESERVED))
		return ibv_exp_no_(EINVAL);
	return ops->modify_cq(cq, attr, attr_mask);
}

/** Poll up to num_entries completions. @param wc_size size of an element of wc in bytes. @return the number of
 * completions, or a negative errno. */
static inline int ibv_exp_poll_cq(struct ibv_cq *cq, int num_entries, struct ibv_exp_wc *wc, uint32_t wc_size)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(cq->context);

	return IBV_EXP_HAS(ops, poll_cq) ? ops->poll_cq(cq, num_entries, wc, wc_size) : -ENOSYS;
}

/** Create an SRQ. */
static inline struct ibv_srq *ibv_exp_create_srq(struct ibv_context *context, struct ibv_exp_create_srq_attr *attr)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(context);

	if (!IBV_EXP_HAS(ops, create_srq))
		return (struct ibv_srq *)ibv_exp_null_(ENOSYS);
	if (ibv_exp_unknown_(attr->comp_mask, IBV_EXP_CREATE_SRQ_RESERVED))
		return (struct ibv_srq *)ibv_exp_null_(EINVAL);
	return ops->create_srq(context, attr);
}

/** Register a region of the program's memory. With IBV_EXP_REG_MR_DM register device memory instead; the region then
 * starts at address 0. */
static inline struct ibv_mr *ibv_exp_reg_mr(struct ibv_exp_reg_mr_in *in)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(in->pd->context);

	if (!IBV_EXP_HAS(ops, reg_mr))
		return (struct ibv_mr *)ibv_exp_null_(ENOSYS);
	if (ibv_exp_unknown_(in->comp_mask, IBV_EXP_REG_MR_RESERVED))
		return (struct ibv_mr *)ibv_exp_null_(EINVAL);
	return ops->reg_mr(in);
}

/** Bind a memory window of type 1. */
static inline int ibv_exp_bind_mw(struct ibv_exp_mw_bind *mw_bind)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(mw_bind->mw->context);

	if (!IBV_EXP_HAS(ops, bind_mw))
		return ibv_exp_no_(ENOSYS);
	if (ibv_exp_unknown_(mw_bind->comp_mask, IBV_EXP_BIND_MW_RESERVED))
		return ibv_exp_no_(EINVAL);
	return ops->bind_mw(mw_bind);
}

/** Allocate zeroed device memory. */
static inline struct ibv_exp_dm *ibv_exp_alloc_dm(struct ibv_context *context, struct ibv_exp_alloc_dm_attr *attr)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(context);

	if (ibv_exp_unknown_(attr->comp_mask, IBV_EXP_ALLOC_DM_ATTR_RESERVED))
		return (struct ibv_exp_dm *)ibv_exp_null_(EINVAL);
	if (!IBV_EXP_HAS(ops, alloc_dm))
		return (struct ibv_exp_dm *)ibv_exp_null_(ENOSYS);
	return ops->alloc_dm(context, attr);
}

/** Free device memory. @return 0; ENOENT: the program has overwritten the context or the handle in *dm; EBUSY: memory
 * regions or imports still use it; EIO: it was allocated before a fork; ENOSYS: not supported. */
static inline int ibv_exp_free_dm(struct ibv_exp_dm *dm)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(dm->context);

	return IBV_EXP_HAS(ops, free_dm) ? ops->free_dm(dm) : ENOSYS;
}

/** Copy between device memory and the program's memory. @return 0; EFAULT: out of range; EINVAL: the offset or
 * the length is not a multiple of 4 bytes; ENOSYS: not supported. */
static inline int ibv_exp_memcpy_dm(struct ibv_exp_dm *dm, struct ibv_exp_memcpy_dm_attr *attr)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(dm->context);

	if (ibv_exp_unknown_(attr->comp_mask, IBV_EXP_DM_CPY_COMP_MASK_RESERVED))
		return ibv_exp_no_(EINVAL);
	return IBV_EXP_HAS(ops, memcpy_dm) ? ops->memcpy_dm(dm, attr) : ENOSYS;
}

/** Set an environment variable, for a device's library to read. It is set for the whole process. @return as setenv. */
static inline int ibv_exp_setenv(struct ibv_context *context, const char *name, const char *value, int overwrite)
{
	(void)context;
	return setenv(name, value, overwrite);
}

/* Types of the functions that ibv_exp_get_provider_func returns, for casts. */
typedef int (*drv_exp_post_send_func)(struct ibv_qp *qp, struct ibv_exp_send_wr *wr, struct ibv_exp_send_wr **bad_wr);
typedef int (*drv_post_send_func)(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad_wr);
typedef int (*drv_exp_poll_cq_func)(struct ibv_cq *cq, int n, struct ibv_exp_wc *wc, uint32_t wc_size);
typedef int (*drv_poll_cq_func)(struct ibv_cq *cq, int n, struct ibv_wc *wc);
typedef int (*drv_post_recv_func)(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad_wr);

/** @return the function that implements a performance-critical verb, for programs that call it directly. */
static inline void *ibv_exp_get_provider_func(struct ibv_context *context, enum ibv_exp_func_name name)
{
	const struct ibv_exp_ops *ops = ibv_exp_ops_of(context);

	switch (name) {
	case IBV_EXP_POST_SEND_FUNC:
		return IBV_EXP_HAS(ops, post_send) ? (void *)ops->post_send : ibv_exp_null_(ENOSYS);
	case IBV_EXP_POLL_CQ_FUNC:
		return IBV_EXP_HAS(ops, poll_cq) ? (void *)ops->poll_cq : ibv_exp_null_(ENOSYS);
	case IBV_POST_SEND_FUNC:
		return (void *)context->ops.post_send;
	case IBV_POLL_CQ_FUNC:
		return (void *)context->ops.poll_cq;
	case IBV_POST_RECV_FUNC:
		return (void *)context->ops.post_recv;
	}
	return ibv_exp_null_(ENOSYS);
}

END_C_DECLS

#include <infiniband/verbs_exp_absent.h>

#endif
